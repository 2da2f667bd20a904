"""What an operation takes: operands and attributes, with types, defaults and domains, and how values are checked."""

from __future__ import annotations

import math
import sys
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final, cast

from aneforge.errors import GraphError
from aneforge.ops.body import Body
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.ops.types import Array

__all__ = ["REQUIRED", "Attribute", "AttributeKind", "AttributeValue", "Operand", "OperandKind", "Required"]

AttributeValue = bool | int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Body | None


class Required(Enum):
    """The mark of an attribute without a default."""

    MARK = "required"


REQUIRED: Final = Required.MARK
PLAIN = frozenset({bool, int, float, str})
"""Types of values that are Python's own."""


class OperandKind(StrEnum):
    """What an operand may be."""

    EITHER = "either"
    """A tensor computed at run time, or a constant."""
    CONSTANT = "constant"
    """Only a constant."""
    TENSOR = "tensor"
    """Only a tensor computed at run time."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: its name is MIL's."""

    name: str
    kind: OperandKind = OperandKind.EITHER
    optional: bool = False
    variadic: bool = False
    """A list of tensors in one place, as concat's `values`."""


class AttributeKind(StrEnum):
    """The type of an attribute."""

    FLAG = "flag"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    INTEGERS = "list of integers"
    NUMBERS = "list of numbers"
    TEXTS = "list of texts"
    FLAGS = "list of flags"
    """Of booleans; 0 and 1 stand for them too, as masks are often written."""
    BODY = "body of a loop"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name is MIL's. A default of None means that it may be left out."""

    name: str
    kind: AttributeKind
    default: AttributeValue | Required = REQUIRED
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    finite: bool = False
    """Neither infinity nor NaN is a value."""

    def checked(self, value: object) -> AttributeValue:
        """Return a value in this attribute's type: lists become tuples, NumPy scalars become Python's.

        >>> import numpy as np
        >>> Attribute("axes", AttributeKind.INTEGERS).checked([1, np.int64(2)])
        (1, 2)

        Raises:
            GraphError: The value is of another type or outside the domain.
        """
        if value is None and self.default is None:
            return None
        converted = self._converted(value)
        for item in converted if isinstance(converted, tuple) else (converted,):
            self._check_domain(item)
        return converted

    def _converted(self, value: object) -> AttributeValue:
        match self.kind:
            case AttributeKind.INTEGERS:
                return tuple(self._whole(item) for item in self._items(value))
            case AttributeKind.NUMBERS:
                return tuple(self._number(item) for item in self._items(value))
            case AttributeKind.TEXTS:
                return tuple(self._text(item) for item in self._items(value))
            case AttributeKind.FLAGS:
                return tuple(self._mask(item) for item in self._items(value))
            case _:
                return self._single(value)

    def _single(self, value: object) -> bool | int | float | str | Body:
        match self.kind:
            case AttributeKind.INTEGER:
                return self._whole(value)
            case AttributeKind.NUMBER:
                return self._number(value)
            case AttributeKind.TEXT:
                return self._text(value)
            case AttributeKind.BODY:
                return self._body(value)
            case _:
                return self._flag(value)

    def _whole(self, value: object) -> int:
        if type(value) is int:  # nearly all of them are
            return value
        number = python_value(value)
        if isinstance(number, int) and not isinstance(number, bool):
            return number
        raise self._wrong(value)

    def _number(self, value: object) -> float:
        number = python_value(value)
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise self._wrong(value)
        try:
            return float(number)
        except OverflowError:
            raise GraphError(
                f"attribute {self.name!r} is too large for a floating-point number", limit=f"{sys.float_info.max:g}"
            ) from None

    def _text(self, value: object) -> str:
        text = python_value(value)
        if isinstance(text, str):
            return text
        raise self._wrong(value)

    def _flag(self, value: object) -> bool:
        flag = python_value(value)
        if isinstance(flag, bool):
            return flag
        raise self._wrong(value)

    def _body(self, value: object) -> Body:
        if isinstance(value, Body):
            return value
        raise self._wrong(value)

    def _mask(self, value: object) -> bool:
        flag = python_value(value)
        if isinstance(flag, int) and flag in (0, 1):
            return bool(flag)
        raise self._wrong(value)

    def _items(self, value: object) -> Iterable[object]:
        if isinstance(value, list | tuple):
            return cast("Iterable[object]", value)
        import numpy as np  # noqa: PLC0415 - as in `aneforge.ops.types`

        items: object = cast("Array", value).tolist() if isinstance(value, np.ndarray) else value
        if isinstance(items, list):  # an array without axes is one number
            return cast("Iterable[object]", items)
        raise self._wrong(items)

    def _check_domain(self, item: object) -> None:
        if self.choices and item not in self.choices:
            raise GraphError(
                f"attribute {self.name!r} is not one of its choices", seen=repr(item), limit=", ".join(self.choices)
            )
        if not isinstance(item, int | float):
            return
        if self.finite and not math.isfinite(item):
            raise GraphError(f"attribute {self.name!r} is not finite", seen=item)
        if self.least is not None and not item >= self.least:
            raise GraphError(f"attribute {self.name!r} is too small", seen=item, limit=f"at least {self.least:g}")
        if self.most is not None and not item <= self.most:
            raise GraphError(f"attribute {self.name!r} is too large", seen=item, limit=f"at most {self.most:g}")

    def _wrong(self, value: object) -> GraphError:
        article = "an" if self.kind is AttributeKind.INTEGER else "a"
        return GraphError(f"attribute {self.name!r} is not {article} {self.kind}", seen=repr(value))


def python_value(value: object) -> object:
    """Return a NumPy scalar as Python's own value, and anything else as it is."""
    if type(value) in PLAIN:
        return value
    import numpy as np  # noqa: PLC0415 - as in `aneforge.ops.types`

    return cast("object", value.item()) if isinstance(value, np.generic) else value
