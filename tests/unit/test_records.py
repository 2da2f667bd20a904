"""Our dataclasses are the standard library's: both decorate the same classes here, and do the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from aneforge import records

if TYPE_CHECKING:
    from pathlib import Path

Decorator = Callable[..., Any]
DECORATORS: tuple[Decorator, ...] = (dataclass, records.dataclass)
OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
    {"eq": False, "repr": False},
)


def outcome(action: Callable[..., object], *arguments: object, **named: object) -> object:
    """Return what an action answers, as text; of an error, its kind and its message."""
    try:
        return str(action(*arguments, **named)).partition(" object at ")[0]
    except Exception as error:  # noqa: BLE001 - any is an answer here
        return type(error), str(error)


def built(decorator: Decorator, options: dict[str, bool]) -> type[Any]:
    """Return a class with a field of every sort."""

    @decorator(**options)
    class Sample:
        """One of each."""

        first: int
        second: str = "two"
        items: list[int] = field(default_factory=list[int])
        hidden: float = field(default=0.5, repr=False, compare=False)
        fixed: bool = field(default=True, init=False)
        counted: dict[str, int] = field(default_factory=dict[str, int], init=False)
        _: KW_ONLY
        last: int = 9

        def __post_init__(self) -> None:
            if self.first < 0:
                raise ValueError("first must not be negative")

    return Sample


def answers_of(made: type[Any]) -> list[object]:
    """Return what a class of `built` answers to everything that users do with one."""
    one, other = made(first=1), made(first=1, second="zwei", items=[3], hidden=2.0, last=4)
    return [
        outcome(inspect.signature, made),
        outcome(inspect.getfullargspec, made.__init__),
        made.__match_args__,
        made.__init__.__qualname__,
        made.__doc__,
        outcome(repr, one),
        outcome(repr, other),
        one == made(first=1, hidden=7.0),
        one == other,
        one.__eq__(5),
        made.__hash__ is None,
        outcome(made),
        outcome(made, first=-1),
        outcome(made, first=1, fixed=False),
        outcome(setattr, one, "first", 2),
        outcome(setattr, one, "fixed", False),  # noqa: FBT003 - a value
        outcome(delattr, other, "second"),
        outcome(getattr, other, "second"),
        one.items is made(first=1).items,
        outcome(dataclasses.asdict, one),
        outcome(dataclasses.replace, one, last=3),
        outcome(dataclasses.asdict, copy.deepcopy(one)),
        hasattr(one, "__dict__"),
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_both_decorators_make_the_same_class(options: dict[str, bool]) -> None:
    theirs, ours = (answers_of(built(decorator, options)) for decorator in DECORATORS)
    assert ours == theirs


def test_hashes_are_those_of_the_compared_fields() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Key:
        x: int
        y: int = field(default=0, compare=False)

    assert hash(Key(3)) == hash(Key(3, 4)) == hash((3,))
    assert {Key(3): "three"}[Key(3, 9)] == "three"
    assert Key(3) != Key(4)


@pytest.mark.parametrize("base_by", DECORATORS)
@pytest.mark.parametrize("derived_by", DECORATORS)
def test_classes_inherit_from_those_of_either(base_by: Decorator, derived_by: Decorator) -> None:
    @base_by(frozen=True, slots=True)
    class Base:
        x: int

    @derived_by(frozen=True, slots=True)
    class Derived(Base):
        y: int = 2

        def __repr__(self) -> str:
            return f"derived {self.x} {self.y}"

    assert (str(Derived(1)), Derived(1) == Derived(1, 2), Derived(1) == Base(1)) == ("derived 1 2", True, False)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Derived(1).x = 3  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue] - that is the test


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_class_that_is_not_decorated_may_have_attributes_of_its_own(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Base:
        x: int

    class Open(Base):
        """Not decorated."""

    opened = Open(5)
    opened.more = 6  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] - that is the test
    assert (opened.x, opened.more) == (5, 6)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del opened.x


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_frozen_class_is_refused_where_it_cannot_be_one(decorator: Decorator) -> None:
    def define(base: type[Any], *, frozen: bool) -> None:
        decorator(frozen=frozen)(type("Derived", (base,), {}))

    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
        define(decorator(type("Base", (), {})), frozen=True)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        define(decorator(frozen=True)(type("Base", (), {})), frozen=False)
    with pytest.raises(TypeError, match="Cannot overwrite attribute __setattr__"):
        decorator(frozen=True)(type("Own", (), {"__setattr__": object.__setattr__}))


@records.dataclass(frozen=True, slots=True)
class Sent:
    """A record that travels between processes."""

    name: str
    parts: tuple[int, ...] = ()


def test_frozen_records_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", (1, 2)))) == Sent("a", (1, 2))  # noqa: S301 - written just now


def test_methods_are_written_when_they_are_first_asked_for() -> None:
    made = built(records.dataclass, {"frozen": True, "slots": True})
    later = {name for name, value in vars(made).items() if isinstance(value, records.Deferred)}
    assert later == {"__init__", "__repr__", "__eq__", "__hash__"}
    made(1)
    assert {name for name, value in vars(made).items() if isinstance(value, records.Deferred)} == later - {"__init__"}


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_constructor_of_its_own_stays(decorator: Decorator) -> None:
    class Doubled:
        value: int

        def __init__(self, half: int) -> None:
            object.__setattr__(self, "value", 2 * half)

    made = decorator(frozen=True)(Doubled)
    assert made(2) != made(3)
    assert made(2).value == 4
    assert repr(made(2)).endswith("(value=4)")


def test_the_package_uses_no_other_decorator(repository: Path) -> None:
    """One that is forgotten costs half a millisecond in every process, which nobody would see."""
    package = repository / "src" / "aneforge"
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(
            line.startswith("from dataclasses import ")
            and "dataclass" in line.split("import")[1].replace(",", " ").split()
            for line in path.read_text(encoding="utf-8").splitlines()
        )
    }
    assert users <= {"records.py"}
