"""What a name of a MIL function stands for while the function is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.mil.elements import TEXT
from aneforge.formats.mil.literals import array_of, scalar_of, texts_of
from aneforge.formats.mil.mil_weights import WeightsStore
from aneforge.formats.mil.syntax import LONGEST_SHOWN, Blob, Immediate, Literal, ValueType
from aneforge.formats.mil.text_rules import MISSING_PARAMETER, PARAMETER_SORT, UNKNOWN_PARAMETER
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.mil.syntax import Statement
    from aneforge.ops.types import Array, TensorType

__all__ = ["Bound", "Encoded", "Known", "State", "const_of", "describe_bound", "get_known_value"]


class Known:
    """A const, or a literal in the place of one: its value is decoded when it is asked for."""

    __slots__ = ("_constant", "store", "value")

    def __init__(self, value: Literal | Immediate | Blob, store: WeightsStore) -> None:
        self.value = value
        self.store = store
        self._constant: Dense | None = None

    @property
    def kind(self) -> ValueType:
        """Its type, as it is written."""
        return self.value.type

    @property
    def is_text(self) -> bool:
        """True for a text or a list of texts."""
        return self.value.type.dtype == TEXT

    def constant(self) -> Dense:
        """Return it as a constant of a graph.

        Raises:
            MilError: It cannot be read.
        """
        if self._constant is None:
            self._constant = self._decoded()
        return self._constant

    def _decoded(self) -> Dense:
        value = self.value
        match value:
            case Blob():
                dense = self.store.constant(value)
            case Immediate():
                dense = Dense.owning(cast("Array", value.values))
            case Literal():
                dense = Dense.owning(array_of(value))
        return Dense(dense.values.view(np.bool_)) if value.type.dtype == "uint1" else dense

    def check(self) -> None:
        """Decode it, so that what cannot be read is found where it is.

        Raises:
            MilError: It cannot be read.
        """
        if self.is_text and self.kind.rank:
            self.items()
        elif self.kind.rank or isinstance(self.value, Blob):
            self.constant()
        else:
            self.scalar()

    def scalar(self) -> bool | int | float | str:
        """Return one number, boolean or text; a floating-point number as the text says it, not rounded.

        Raises:
            MilError: It cannot be read.
        """
        if isinstance(self.value, Literal):
            return scalar_of(self.value)
        if isinstance(self.value, Immediate) and isinstance(self.value.values, tuple):
            return self.value.values[0]
        return cast("bool | int | float", self.constant().values.item())

    def items(self) -> list[bool] | list[int] | list[float] | list[str]:
        """Return the numbers, booleans or texts of a list, in the order of the elements.

        Raises:
            MilError: They cannot be read.
        """
        if self.is_text and isinstance(self.value, Literal):
            return texts_of(self.value)
        if isinstance(self.value, Immediate) and isinstance(self.value.values, tuple):
            return list(self.value.values)
        return cast("list[int]", self.constant().values.reshape(-1).tolist())


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of a constexpr operation: a constant that is stored otherwise than it is used."""

    constant: Constant
    op: str


@dataclass(slots=True)
class State:
    """A state: what it holds at this point of the function."""

    name: str
    placeholder: Tensor
    held: Tensor
    written: bool = False

    @property
    def kind(self) -> TensorType:
        """The type of what it holds."""
        return self.placeholder.type


Bound = Tensor | Known | Encoded | State


def const_of(statement: Statement, store: WeightsStore) -> Known:
    """Return the value of a const.

    Raises:
        MilError: It has none, or something else, or it cannot be read.
    """
    given = {argument.name: argument for argument in (*statement.arguments, *statement.attributes)}
    for name, argument in given.items():
        if name not in ("name", "val"):
            raise UNKNOWN_PARAMETER.broken(argument.at, name=name, op="const", expected="name, val")
    if "val" not in given:
        raise MISSING_PARAMETER.broken(statement.op_at, name="val", op="const", expected="val = fp16(0x0p+0)")
    value = given["val"].value
    if not isinstance(value, Literal | Immediate | Blob):
        raise PARAMETER_SORT.broken(value.at, name="val", op="const", found=value, expected="a literal or BLOBFILE")
    known = Known(value, store)
    known.check()
    return known


def get_known_value(constant: Dense) -> Known:
    """Return a constant that was computed while the program was read."""
    return Known(Immediate(ValueType.of(constant.type), constant.values), WeightsStore(None))


def describe_bound(bound: Bound | tuple[Bound, ...]) -> str:
    """Return what a value is, as errors show it."""
    match bound:
        case Tensor():
            return f"{ValueType.of(bound.type)} computed at run time"
        case Known():
            return str(bound.value) if short(bound.value) else str(bound.kind)
        case Encoded():
            return f"{ValueType.of(bound.constant.type)} of {bound.op}"
        case State():
            return f"state<{ValueType.of(bound.kind)}>"
        case _:
            return f"({', '.join(map(describe_bound, bound))})"


def short(value: Literal | Immediate | Blob) -> bool:
    """Return whether a value is worth showing."""
    if isinstance(value, Immediate):
        return len(value.values) <= LONGEST_SHOWN if value.type.rank else True
    return isinstance(value, Literal) and len(value.text) <= 40
