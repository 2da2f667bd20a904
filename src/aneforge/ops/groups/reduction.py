"""Operations that combine the elements along axes into one, point out one of them, or add them up on the way.

Names and defaults are MIL's. Sums and products of whole numbers stay in their own type and wrap around in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.forms import Details, Domain, expect_float, reduction
from aneforge.ops.op import Basis, Below, MilStatus, Op, Support, Surface
from aneforge.ops.sampling import Chooser, Fill, Sample, shape
from aneforge.ops.shapes import expect_rank, normalised_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType, is_float, is_integer

if TYPE_CHECKING:
    from collections.abc import Callable

CATEGORY = "reduction"
ANY_NUMBER = ("fp16", "fp32", "int32")
KEEP_DIMS = Attribute("keep_dims", AttributeKind.FLAG, default=False)
F2 = Support(floor=2)
NOWHERE = Support(floor=None, mil_since=None)
FUSED: Details = {"surface": Surface.FUSED, "support": F2}


def total(x: Array, axes: tuple[int, ...]) -> Array:
    """Add up."""
    return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)


def total_of_squares(x: Array, axes: tuple[int, ...]) -> Array:
    """Add up the squares."""
    return total(np.square(x).astype(x.dtype), axes)


def total_of_magnitudes(x: Array, axes: tuple[int, ...]) -> Array:
    """Add up the magnitudes."""
    return total(np.abs(x).astype(x.dtype), axes)


def product(x: Array, axes: tuple[int, ...]) -> Array:
    """Multiply."""
    return np.prod(x, axis=axes, keepdims=True, dtype=x.dtype)


def largest(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the largest."""
    return np.max(x, axis=axes, keepdims=True).astype(x.dtype)


def smallest(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the smallest."""
    return np.min(x, axis=axes, keepdims=True).astype(x.dtype)


def mean(x: Array, axes: tuple[int, ...]) -> Array:
    """Add up and divide by the count."""
    return np.mean(x, axis=axes, keepdims=True)


def root_of_squares(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the Euclidean length."""
    return np.sqrt(total_of_squares(x, axes))


def log_of_total(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the natural logarithm of the sum."""
    return np.log(total(x, axes))


def log_of_total_of_powers(x: Array, axes: tuple[int, ...]) -> Array:
    """Return log Σ eˣ, with the largest exponent taken out first so that no power overflows."""
    peak = largest(x, axes)
    shift = np.where(np.isfinite(peak), peak, 0.0)  # an infinite peak would give inf - inf
    return np.log(total(np.exp(x - shift), axes)) + shift


def expect_number(x: TensorType) -> None:
    """Check that a tensor holds numbers, whole or not.

    Raises:
        GraphError: It does not.
    """
    if not (is_float(x.dtype) or is_integer(x.dtype)):
        raise GraphError("x does not hold numbers", seen=x.dtype, remedy="cast it to int32 or fp16")


def expect_elements(x: TensorType, *axes: int) -> None:
    """Check that there is an element to point out along every one of several axes.

    Raises:
        GraphError: There is none.
    """
    if any(x.shape[axis] == 0 for axis in axes):
        raise GraphError("an axis without elements cannot be searched", seen=list(x.shape))


def checked(op: Op, check: Callable[[TensorType], None]) -> Op:
    """Return a reduction that checks the type of `x` before its shape rule is asked."""

    def infer(x: TensorType, **attributes: object) -> TensorType | tuple[TensorType, ...]:
        check(x)
        return op.infer(x, **attributes)

    return replace(op, infer=infer)


def of_numbers(op: Op) -> Op:
    """Return a reduction that takes any numbers."""
    return checked(op, expect_number)


def of_floats(op: Op) -> Op:
    """Return a reduction that takes floating-point numbers alone."""
    return checked(op, expect_float)


def fill_with_ties(chooser: Chooser, tensor: TensorType) -> Fill:
    """Draw an operand in which equal elements are met, in a floating type as well."""
    if not chooser.choose([True, False]):
        return Fill(tensor, -2, 2)
    generator = np.random.default_rng(chooser.integer(0, 2**31))
    return Fill.of(generator.integers(-2, 2, tensor.shape, endpoint=True), tensor.dtype)


def arg_reduction(name: str, summary: str, find: Callable[..., Array], support: Support) -> Op:
    """Return an operation that tells where along an axis an element stands; the result is int32."""

    def infer(x: TensorType, *, axis: int, keep_dims: bool) -> TensorType:
        expect_number(x)
        found = normalised_axis(axis, x.rank)
        expect_elements(x, found)
        before, after = x.shape[:found], x.shape[found + 1 :]
        return TensorType((*before, 1, *after) if keep_dims else (*before, *after), "int32")

    def evaluate(x: Array, *, axis: int, keep_dims: bool) -> Array:
        return np.asarray(find(x, axis=axis, keepdims=keep_dims), np.int32)

    def sample(chooser: Chooser) -> Sample:
        tensor = TensorType(shape(chooser), chooser.choose(ANY_NUMBER))
        axis = chooser.integer(-tensor.rank, tensor.rank - 1)
        keep = chooser.choose([True, False])
        return Sample({"x": fill_with_ties(chooser, tensor)}, {"axis": axis, "keep_dims": keep})

    return Op(
        name=name,
        category=CATEGORY,
        summary=summary,
        operands=(Operand("x"),),
        attributes=(Attribute("axis", AttributeKind.INTEGER, -1), KEEP_DIMS),
        infer=infer,
        meaning=evaluate,
        sample=sample,
        support=support,
    )


def argmax_type(x: TensorType, *, axis: int) -> TensorType:
    """Return the type of places kept in the elements' own type, the axis kept with length 1."""
    expect_rank("x", x, 2)
    expect_float(x)
    found = normalised_axis(axis, x.rank)
    expect_elements(x, found)
    return x.with_shape(*(1 if place == found else extent for place, extent in enumerate(x.shape)))


def argmax_meaning(x: Array, *, axis: int) -> Array:
    """Return the places of the largest elements, as numbers of the elements' own type."""
    return np.argmax(x, axis=axis, keepdims=True).astype(x.dtype)


def argmax_sample(chooser: Chooser) -> Sample:
    """Draw a matrix and an axis."""
    tensor = TensorType(shape(chooser, 2, 2, longest=7), chooser.choose(["fp16", "fp32"]))
    return Sample({"x": fill_with_ties(chooser, tensor)}, {"axis": chooser.integer(-2, 1)})


def global_type(x: TensorType, **_: object) -> TensorType:
    """Return the type of one place in a whole tensor."""
    expect_number(x)
    expect_elements(x, *range(x.rank))
    return TensorType((), "int32")


def global_meaning(x: Array, *, mode: str) -> Array:
    """Return the place of the extreme element, counted in row-major order."""
    find = np.argmax if mode == "max" else np.argmin
    return np.asarray(find(x), np.int32)


def global_sample(chooser: Chooser) -> Sample:
    """Draw a tensor of any rank, with none at all among them."""
    tensor = TensorType(shape(chooser, 0), chooser.choose(ANY_NUMBER))
    return Sample({"x": fill_with_ties(chooser, tensor)}, {"mode": chooser.choose(["max", "min"])})


def cumsum_type(x: TensorType, *, axis: int, **_: object) -> TensorType:
    """Return the type of the sums: that of `x`."""
    expect_number(x)
    normalised_axis(axis, x.rank)
    return x


def cumsum_meaning(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Add up along an axis from its start, or its end; an exclusive sum leaves the element itself out."""
    along = np.moveaxis(x, axis, 0)
    ordered = along[::-1] if reverse else along
    sums = np.cumsum(ordered, axis=0, dtype=x.dtype)
    if exclusive:  # shifted, not subtracted: taking the element off again would round
        sums = np.concatenate([np.zeros((1, *sums.shape[1:]), x.dtype), sums])[: len(along)]
    return np.moveaxis(sums[::-1] if reverse else sums, 0, axis)


def cumsum_sample(chooser: Chooser) -> Sample:
    """Draw a tensor, an axis and both flags."""
    tensor = TensorType(shape(chooser), chooser.choose(ANY_NUMBER))
    attributes = {
        "axis": chooser.integer(-tensor.rank, tensor.rank - 1),
        "exclusive": chooser.choose([True, False]),
        "reverse": chooser.choose([True, False]),
    }
    return Sample({"x": Fill(tensor)}, attributes)


REDUCE_SUM = of_numbers(reduction("reduce_sum", "Σ x", total, dtypes=ANY_NUMBER, **FUSED))
REDUCE_SUM_SQUARE = of_numbers(reduction("reduce_sum_square", "Σ x²", total_of_squares, dtypes=ANY_NUMBER, **FUSED))
REDUCE_L1_NORM = of_numbers(reduction("reduce_l1_norm", "Σ |x|", total_of_magnitudes, dtypes=ANY_NUMBER, **FUSED))
REDUCE_MAX = of_numbers(reduction("reduce_max", "the largest x", largest, dtypes=ANY_NUMBER, **FUSED))
REDUCE_MIN = of_numbers(reduction("reduce_min", "the smallest x", smallest, dtypes=ANY_NUMBER, **FUSED))
REDUCE_PROD = of_numbers(
    reduction("reduce_prod", "Π x", product, domain=Domain(-2, 2), dtypes=ANY_NUMBER, support=NOWHERE)
)
REDUCE_MEAN = of_floats(reduction("reduce_mean", "Σ x / n", mean, **FUSED))
REDUCE_L2_NORM = of_floats(reduction("reduce_l2_norm", "√(Σ x²)", root_of_squares, **FUSED))
REDUCE_LOG_SUM = of_floats(reduction("reduce_log_sum", "log Σ x", log_of_total, domain=Domain(0.1, 9), **FUSED))
REDUCE_LOG_SUM_EXP = of_floats(
    reduction("reduce_log_sum_exp", "log Σ eˣ", log_of_total_of_powers, domain=Domain(-900, 900), **FUSED)
)

REDUCE_ARGMAX = arg_reduction(
    "reduce_argmax", "the first place of the largest x along an axis", np.argmax, Support(floor=0)
)
REDUCE_ARGMIN = arg_reduction(
    "reduce_argmin",
    "the first place of the smallest x along an axis",
    np.argmin,
    Support(floor=0, mil_since=4, mil_otherwise=MilStatus.BRIDGE),
)
ARGMAX = Op(
    name="argmax",
    category=CATEGORY,
    summary="the first place of the largest x along an axis of a matrix, in the type of x",
    operands=(Operand("x"),),
    attributes=(Attribute("axis", AttributeKind.INTEGER),),
    infer=argmax_type,
    meaning=argmax_meaning,
    sample=argmax_sample,
    surface=Surface.NATIVE_LAYER,
    support=Support(floor=0, mil_since=None, mil_otherwise=MilStatus.BRIDGE),
    catalogued=False,
)
GLOBAL_ARG_MIN_MAX = Op(
    name="global_arg_min_max",
    category=CATEGORY,
    summary="the first place of the extreme x in the whole tensor, counted in row-major order",
    operands=(Operand("x"),),
    attributes=(Attribute("mode", AttributeKind.TEXT, "max", choices=("max", "min")),),
    infer=global_type,
    meaning=global_meaning,
    sample=global_sample,
    support=Support(
        floor=4, gate="global_arg_reduction", below=Below.DECOMPOSE, mil_since=4, mil_otherwise=MilStatus.BRIDGE
    ),
    catalogued=False,
)

CUMSUM = Op(
    name="cumsum",
    category="elementwise",
    summary="Σ x up to every place along an axis",
    operands=(Operand("x"),),
    attributes=(
        Attribute("axis", AttributeKind.INTEGER, 0),
        Attribute("exclusive", AttributeKind.FLAG, default=False),
        Attribute("reverse", AttributeKind.FLAG, default=False),
    ),
    infer=cumsum_type,
    meaning=cumsum_meaning,
    sample=cumsum_sample,
    support=Support(floor=0, basis=Basis.LIKELY),
)
