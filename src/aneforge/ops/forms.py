"""Forms that many operations share: a unary function, a broadcast pair, a reduction.

An entry of a shared form states only what is its own; signature, shape rule and sample come from the form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.op import Op, Support, Surface
from aneforge.ops.sampling import Chooser, Fill, Sample, broadcast_pair, shape
from aneforge.ops.shapes import broadcast, common_dtype, normalised_axes
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.types import Array, TensorType, is_float, is_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Details", "Domain", "binary", "comparison", "expect_float", "expect_kind", "reduction", "unary"]


class Details(TypedDict, total=False):
    """What an entry may say beyond its form."""

    surface: Surface
    mil: str
    opset: str
    support: Support
    catalogued: bool


@dataclass(frozen=True, slots=True)
class Domain:
    """Values on which a function is sampled, and how its attributes are."""

    low: float = -4.0
    high: float = 4.0
    attributes: Callable[[Chooser], dict[str, AttributeValue]] = field(default=lambda _: {})


EVERYWHERE = Domain()


def unary(
    name: str,
    category: str,
    summary: str,
    meaning: Callable[..., Array],
    *,
    attributes: tuple[Attribute, ...] = (),
    domain: Domain = EVERYWHERE,
    dtypes: Iterable[str] = ("fp16", "fp32"),
    **details: Unpack[Details],
) -> Op:
    """Return an operation on every element of `x` by itself."""
    sampled = tuple(dtypes)

    def infer(x: TensorType, **_: object) -> TensorType:
        expect_kind(x, sampled)
        return x

    def sample(chooser: Chooser) -> Sample:
        dtype = chooser.choose(sampled)
        return Sample(
            {"x": Fill(TensorType(shape(chooser), dtype), domain.low, domain.high)}, domain.attributes(chooser)
        )

    return Op(
        name=name,
        category=category,
        summary=summary,
        operands=(Operand("x"),),
        attributes=attributes,
        infer=infer,
        meaning=meaning,
        sample=sample,
        **details,
    )


def binary(
    name: str,
    category: str,
    summary: str,
    meaning: Callable[..., Array],
    *,
    result_dtype: str | None = None,
    domain: Domain = EVERYWHERE,
    dtypes: Iterable[str] = ("fp16", "fp32", "int32"),
    **details: Unpack[Details],
) -> Op:
    """Return an operation on pairs of elements of `x` and `y`, broadcast to one another."""
    sampled = tuple(dtypes)

    def infer(x: TensorType, y: TensorType) -> TensorType:
        shared = common_dtype(x, y)
        expect_kind(x, sampled)
        return TensorType(broadcast(x, y), result_dtype or shared)

    def sample(chooser: Chooser) -> Sample:
        dtype = chooser.choose(sampled)
        pair = zip("xy", broadcast_pair(chooser), strict=True)
        return Sample({name: Fill(TensorType(one, dtype), domain.low, domain.high) for name, one in pair})

    return Op(
        name=name,
        category=category,
        summary=summary,
        operands=(Operand("x"), Operand("y")),
        infer=infer,
        meaning=meaning,
        sample=sample,
        **details,
    )


def comparison(name: str, summary: str, meaning: Callable[..., Array], **details: Unpack[Details]) -> Op:
    """Return an operation that compares pairs of elements; the result is bool."""
    domain = Domain(-2, 2)  # a small range, so that equal whole numbers are met
    return binary(name, "compare and logic", summary, meaning, result_dtype="bool", domain=domain, **details)


AXES = Attribute("axes", AttributeKind.INTEGERS, None)
KEEP_DIMS = Attribute("keep_dims", AttributeKind.FLAG, default=False)


def reduction(
    name: str,
    summary: str,
    meaning: Callable[[Array, tuple[int, ...]], Array],
    *,
    domain: Domain = EVERYWHERE,
    dtypes: Iterable[str] = ("fp16", "fp32"),
    **details: Unpack[Details],
) -> Op:
    """Return an operation that combines the elements along `axes`, all axes by default.

    `meaning` takes the array and the axes, and keeps them with length 1.
    """
    sampled = tuple(dtypes)

    def infer(x: TensorType, axes: tuple[int, ...] | None, keep_dims: bool) -> TensorType:  # noqa: FBT001 - MIL's name
        expect_kind(x, sampled)
        found = reduced_axes(x.rank, axes)
        if any(x.shape[axis] == 0 for axis in found):
            raise GraphError("an axis without elements cannot be reduced", seen=list(x.shape))
        kept = [1 if axis in found else extent for axis, extent in enumerate(x.shape)]
        return x.with_shape(*(extent for axis, extent in enumerate(kept) if keep_dims or axis not in found))

    def evaluate(x: Array, axes: tuple[int, ...] | None, keep_dims: bool) -> Array:  # noqa: FBT001 - MIL's name
        found = reduced_axes(x.ndim, axes)
        kept = meaning(x, found)
        return kept if keep_dims else np.squeeze(kept, axis=found)

    def sample(chooser: Chooser) -> Sample:
        tensor = TensorType(shape(chooser), chooser.choose(sampled))
        axes = chooser.choose([None, (0,), (-1,), tuple(range(tensor.rank)), (0, -1) if tensor.rank > 1 else (0,)])
        keep = chooser.choose([True, False])
        return Sample({"x": Fill(tensor, domain.low, domain.high)}, {"axes": axes, "keep_dims": keep})

    return Op(
        name=name,
        category="reduction",
        summary=summary,
        operands=(Operand("x"),),
        attributes=(AXES, KEEP_DIMS),
        infer=infer,
        meaning=evaluate,
        sample=sample,
        **details,
    )


def reduced_axes(rank: int, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the axes of a reduction counted from the front; None is all of them."""
    return tuple(range(rank)) if axes is None else normalised_axes(axes, rank)


def kind_of(dtype: str) -> str:
    """Return what an element type holds, in words.

    >>> kind_of("bf16"), kind_of("uint8"), kind_of("bool")
    ('floating-point numbers', 'whole numbers', 'truth values')
    """
    if is_float(dtype):
        return "floating-point numbers"
    return "whole numbers" if is_integer(dtype) else "truth values"


def expect_kind(tensor: TensorType, dtypes: Iterable[str], what: str = "x") -> None:
    """Check that a tensor holds something of the same kind as one of several element types.

    Raises:
        GraphError: It does not.
    """
    kinds = list(dict.fromkeys(map(kind_of, dtypes)))
    if kind_of(tensor.dtype) not in kinds:
        wanted = "numbers" if len(kinds) == 2 and "truth values" not in kinds else " or ".join(kinds)
        remedy = "cast it to fp16" if "floating-point numbers" in kinds else None
        raise GraphError(f"{what} does not hold {wanted}", seen=tensor.dtype, remedy=remedy)


def expect_float(tensor: TensorType, what: str = "x") -> None:
    """Check that a tensor holds floating-point numbers.

    Raises:
        GraphError: It does not.
    """
    expect_kind(tensor, ("fp16",), what)
