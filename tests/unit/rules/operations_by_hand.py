"""Operations written by hand, as rules see them: what the tests of rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.ops.types import TensorType
from aneforge.rules import Operation, Severity, check

if TYPE_CHECKING:
    from aneforge.ops.signature import AttributeValue


def fp16(*shape: int) -> TensorType:
    return TensorType(shape)


def call(op: str, results: tuple[TensorType, ...] = (), /, **parts: TensorType | AttributeValue) -> Operation:
    """Return an operation: types among the parts are operands, the rest are attributes."""
    arguments = {name: (part,) for name, part in parts.items() if isinstance(part, TensorType)}
    attributes = {name: part for name, part in parts.items() if not isinstance(part, TensorType)}
    operands = tuple(one for types in arguments.values() for one in types)
    return Operation(op, operands, results or operands[:1], attributes, arguments=arguments)


def volume(depth: int) -> TensorType:
    return fp16(1, 4, depth, 4, 4)


def convolution(x: TensorType, kernel: TensorType, **attributes: AttributeValue) -> Operation:
    """Return a convolution with a kernel computed at run time."""
    result = fp16(x.shape[0], kernel.shape[0], *x.shape[2:])
    return call("conv", (result,), x=x, weight=kernel, kernel_sizes=kernel.shape[2:], **attributes)


def ids(operation: Operation, target: str) -> list[str]:
    return [finding.rule for finding in check(operation, target) if finding.severity is not Severity.INFO]


IMAGE = fp16(1, 8, 16, 16)
