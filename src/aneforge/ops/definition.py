"""What an operation does: operands, attributes, the types of its results, and their values.

The entries of the op table are definitions, and so are the layers that a compiler makes of them. The functions of a
definition (`infer`, `meaning`) take the operands in order and the attributes by name. In `infer` an operand is a
`TensorType`, in `meaning` it is an array; a variadic operand is a tuple of them, an optional one may be None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, NotSupportedError
from aneforge.ops.signature import REQUIRED, Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.types import Array, TensorType, is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Definition", "OperandArrays", "OperandTypes", "meaning_dtype"]

OperandTypes = Mapping[str, TensorType | tuple[TensorType, ...] | None]
OperandArrays = Mapping[str, Array | tuple[Array, ...] | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Definition:
    """Operands, attributes, shape rule and meaning of an operation."""

    name: str
    operands: tuple[Operand, ...]
    attributes: tuple[Attribute, ...] = ()
    infer: Callable[..., TensorType | tuple[TensorType, ...]]
    meaning: Callable[..., Array | tuple[Array, ...]] | None
    """The mathematics: float64 for floating types, the own type for integers and bool."""
    no_meaning: str = ""
    """Why there is no `meaning`, where there is none."""

    @cached_property
    def named_operands(self) -> Mapping[str, Operand]:
        """Its operands by name; every layer and every node that is made asks for them."""
        return {operand.name: operand for operand in self.operands}

    @cached_property
    def named_attributes(self) -> Mapping[str, Attribute]:
        """Its attributes by name."""
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def body_attribute(self) -> str | None:
        """The attribute that holds the body that it repeats; None for all but loops. Every node is asked for it."""
        return next((one.name for one in self.attributes if one.kind is AttributeKind.BODY), None)

    def operand(self, name: str) -> Operand:
        """Return an operand by its name."""
        return self.named_operands[name]

    def complete(self, attributes: Mapping[str, object]) -> dict[str, AttributeValue]:
        """Return all attributes in their types, defaults filled in.

        Raises:
            GraphError: An attribute is unknown, missing, of the wrong type or outside its domain.
        """
        known = self.named_attributes
        for name in attributes:
            if name not in known:
                raise GraphError(
                    f"there is no attribute {name!r}", operation=self.name, limit=", ".join(known) or "no attributes"
                )
        return {name: self._completed(attribute, attributes) for name, attribute in known.items()}

    def types(self, operands: OperandTypes, attributes: Mapping[str, AttributeValue]) -> tuple[TensorType, ...]:
        """Return the types of the results.

        Raises:
            GraphError: The operands do not fit the operation.
        """
        self.check_operands(operands)
        try:
            inferred = self.infer(*self._in_order(operands), **attributes)
        except GraphError as error:
            error.operation = error.operation or self.name
            raise
        return inferred if isinstance(inferred, tuple) else (inferred,)

    def evaluate(self, operands: OperandArrays, attributes: Mapping[str, AttributeValue]) -> tuple[Array, ...]:
        """Return the results as the mathematics gives them.

        Raises:
            NotSupportedError: The operation has no meaning of its own.
        """
        if self.meaning is None:
            raise NotSupportedError(f"it has no meaning on its own: {self.no_meaning}", operation=self.name)
        import numpy as np  # noqa: PLC0415 - as in `aneforge.ops.types`

        with np.errstate(all="ignore"):
            results = self.meaning(*self._in_order(operands), **attributes)
        return results if isinstance(results, tuple) else (results,)

    def check_operands(self, operands: Mapping[str, object]) -> None:
        """Check that every operand is known and every needed one is there.

        Raises:
            GraphError: One is unknown or missing.
        """
        known = self.named_operands
        for name in operands:
            if name not in known:
                raise GraphError(
                    f"there is no operand {name!r}", operation=self.name, limit=", ".join(known) or "no operands"
                )
        for operand in self.operands:
            if not operand.optional and operands.get(operand.name) is None:
                raise GraphError(f"operand {operand.name!r} is missing", operation=self.name)

    def _in_order(self, operands: Mapping[str, object]) -> list[object]:
        return [operands.get(operand.name) for operand in self.operands]

    def _completed(self, attribute: Attribute, given: Mapping[str, object]) -> AttributeValue:
        value = given.get(attribute.name, attribute.default)
        if value is REQUIRED:
            raise GraphError(f"attribute {attribute.name!r} is missing", operation=self.name)
        if value is None and attribute.default is not None:
            raise GraphError(f"attribute {attribute.name!r} cannot be left out", operation=self.name)
        try:
            return attribute.checked(value)
        except GraphError as error:
            error.operation = self.name
            raise


def meaning_dtype(dtype: str) -> np.dtype[np.generic]:
    """Return the NumPy type in which the mathematics of an element type is done.

    >>> meaning_dtype("fp16"), meaning_dtype("int8")
    (dtype('float64'), dtype('int8'))
    """
    return numpy_dtype("fp64" if is_float(dtype) else dtype)
