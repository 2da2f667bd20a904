"""Dataclasses whose methods are written when they are first asked for, and whose frozen ones are made quickly.

The standard library compiles up to six functions for every class that it decorates, which takes half a millisecond: of
the 300 classes that a command loads that was a sixth of the time of a check of ResNet-18, and two thirds of those
functions are never called. Its constructor of a frozen class takes three times as long as one that stores into slots.
Everything else is the standard library's: fields, defaults, slots, replacing, matching, inheritance in both directions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import Field, dataclass

    Method = Callable[..., Any]
    Fields = tuple[Field[Any], ...]

__all__ = ["dataclass"]


class Factory:
    """The default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


GIVEN_NONE = Factory()


class Deferred:
    """A method that is written when it is first looked up, and then replaces itself in the class."""

    __slots__ = ("name", "owner", "write")

    def __init__(self, owner: type, name: str, write: Callable[[type], Method]) -> None:
        self.owner, self.name, self.write = owner, name, write

    def __get__(self, instance: object, owner: type | None = None) -> Method:
        method = self.write(self.owner)
        method.__name__, method.__qualname__ = self.name, f"{self.owner.__qualname__}.{self.name}"
        method.__module__ = self.owner.__module__
        setattr(self.owner, self.name, method)
        return method if instance is None else method.__get__(instance, owner)


def decorate(cls: type, *, frozen: bool, slots: bool, eq: bool, described: bool, kw_only: bool) -> type:
    """Return a class as a dataclass; methods that it has itself stay."""
    own = cls.__dict__
    later: dict[str, Callable[[type], Method]] = {} if "__init__" in own else {"__init__": write_init}
    now: dict[str, object] = dict(FROZEN) if frozen else {}
    if described and "__repr__" not in own:
        later["__repr__"] = write_repr
    if eq and "__eq__" not in own:
        later["__eq__"] = write_eq
    if eq and own.get("__hash__") is None:
        if frozen:
            later["__hash__"] = write_hash
        else:
            now["__hash__"] = None
    if frozen and slots:
        now |= {name: method for name, method in STATE.items() if name not in own}
    # The standard library compiles two more functions for a frozen class, and refuses what must not be one.
    asks = any(params_of(base) is not None for base in cls.__mro__[1:]) or not FROZEN.keys().isdisjoint(own)
    make = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen and asks, slots=slots, kw_only=kw_only)
    made = cast("Callable[[type], type]", make)(cls)
    params_of(made).frozen = frozen
    for name, method in now.items():
        setattr(made, name, method)
    for name, write in later.items():
        setattr(made, name, Deferred(made, name, write))
    return made


def params_of(cls: type) -> Any:  # noqa: ANN401 - a private class of the standard library
    """Return how a class was decorated; None where it was not."""
    return cls.__dict__.get("__dataclass_params__")


def refuse_setting(self: object, name: str, value: object) -> None:
    """Refuse to assign to a field; a class that is derived without being decorated has attributes of its own.

    Raises:
        FrozenInstanceError: The attribute is a field, or the class is decorated.
    """
    refuse_change(type(self), name, "assign to")
    object.__setattr__(self, name, value)


def refuse_deleting(self: object, name: str) -> None:
    """Refuse to delete a field, as `refuse_setting`.

    Raises:
        FrozenInstanceError: The attribute is a field, or the class is decorated.
    """
    refuse_change(type(self), name, "delete")
    object.__delattr__(self, name)


def refuse_change(cls: type, name: str, change: str) -> None:
    """Refuse a change of a field of a frozen class.

    Raises:
        FrozenInstanceError: It is one.
    """
    if params_of(cls) is not None or name in fields_by_name(cls):
        raise FrozenInstanceError(f"cannot {change} field {name!r}")


def fields_by_name(cls: Any) -> Mapping[str, Field[Any]]:  # noqa: ANN401 - any class that is decorated
    """Return the fields of a class."""
    return cls.__dataclass_fields__


def read_state(self: Any) -> list[object]:  # noqa: ANN401 - an instance of any decorated class
    """Return what is stored of an instance when it is copied or pickled."""
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def store_state(self: Any, state: list[object]) -> None:  # noqa: ANN401 - as above
    """Store what was copied or read."""
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


STATE: Mapping[str, object] = {"__getstate__": read_state, "__setstate__": store_state}
"""What copies classes whose attributes cannot be set."""
FROZEN: Mapping[str, object] = {"__setattr__": refuse_setting, "__delattr__": refuse_deleting}


def compile_method(name: str, parameters: str, lines: list[str], known: dict[str, object]) -> Method:
    """Return a function of lines of code, which see some names."""
    exec("\n ".join([f"def {name}({parameters}):", *lines]), known)  # noqa: S102 - names of fields, which are identifiers
    return known[name]  # pyright: ignore[reportReturnType] - what was defined just now


def write_init(cls: type) -> Method:
    """Return the constructor of a class."""
    known: dict[str, object] = {"GIVEN_NONE": GIVEN_NONE, "put": object.__setattr__}
    frozen = params_of(cls).frozen
    lines: list[str] = []
    for one in dataclasses.fields(cls):
        value = value_text(one, known)
        if value is not None:
            lines.append(store_text(cls, one.name, value, known) if frozen else f"self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    taken = [one for one in dataclasses.fields(cls) if one.init]
    plain = [parameter_text(one) for one in taken if not one.kw_only]
    named = [parameter_text(one) for one in taken if one.kw_only]
    parameters = ", ".join(["self", *plain, *(["*", *named] if named else [])])
    method = compile_method("__init__", parameters, lines or ["pass"], known)
    method.__annotations__ = {one.name: one.type for one in taken} | {"return": None}
    return method


def parameter_text(one: Field[Any]) -> str:
    """Return a parameter of a constructor."""
    if one.default is not MISSING:
        return f"{one.name}=default_{one.name}"
    return one.name if one.default_factory is MISSING else f"{one.name}=GIVEN_NONE"


def value_text(one: Field[Any], known: dict[str, object]) -> str | None:
    """Return what a constructor stores in a field; None where it leaves the field alone."""
    known[f"default_{one.name}"] = one.default
    if one.default_factory is MISSING:
        return one.name if one.init else None if one.default is MISSING else f"default_{one.name}"
    known[f"make_{one.name}"] = one.default_factory
    return f"make_{one.name}() if {one.name} is GIVEN_NONE else {one.name}" if one.init else f"make_{one.name}()"


def store_text(cls: type, name: str, value: str, known: dict[str, object]) -> str:
    """Return how a constructor stores into a field that cannot be set: by its slot where it has one."""
    place = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    if not isinstance(place, MemberDescriptorType):
        return f"put(self, {name!r}, {value})"
    known[f"put_{name}"] = place.__set__
    return f"put_{name}(self, {value})"


def write_repr(cls: type) -> Method:
    """Return the method that shows an instance: its class, and its fields by name."""
    names = [one.name for one in dataclasses.fields(cls) if one.repr]  # pyright: ignore[reportArgumentType] - decorated

    @recursive_repr()
    def show(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return show


def write_eq(cls: type) -> Method:
    """Return the comparison of two instances, which is that of their fields."""
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    ours, theirs = ("".join(f"{side}.{name}, " for name in names) for side in ("self", "other"))
    lines = ["if other.__class__ is not self.__class__: return NotImplemented", f"return ({ours}) == ({theirs})"]
    return compile_method("__eq__", "self, other", lines, {})


def write_hash(cls: type) -> Method:
    """Return the hash of an instance, which is that of the fields that are compared."""
    names = [one.name for one in dataclasses.fields(cls) if (one.compare if one.hash is None else one.hash)]
    return compile_method("__hash__", "self", [f"return hash(({''.join(f'self.{name}, ' for name in names)}))"], {})


if not TYPE_CHECKING:  # what checkers of types know of the standard library's decorator holds for this one

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        repr: bool = True,  # noqa: A002 - the standard library's name
        kw_only: bool = False,
    ) -> type | Callable[[type], type]:
        """Make a class a dataclass, as `dataclasses.dataclass` does; options that nobody uses here are left out.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> dataclasses.replace(Point(1), y=2), Point(1) == Point(1, 0), {Point(3): "three"}[Point(3)]
        (Point(x=1, y=2), True, 'three')
        """
        make = partial(decorate, frozen=frozen, slots=slots, eq=eq, described=repr, kw_only=kw_only)
        return make if cls is None else make(cls)
