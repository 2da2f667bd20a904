"""Operations that combine the elements along axes into one, point out one of them, or add them up on the way.

Names and defaults are MIL's. Sums and products of integers stay in their own type and wrap around in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from aneforge.arrays import np, numpy_function
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import euclidean_length, in_type
from aneforge.ops.common import (
    BRIDGE_F0,
    F2,
    INDEX_DTYPES,
    KEEP_DIMS,
    LIKELY_F0,
    NOWHERE,
    axis_attribute,
    index_dtype_attribute,
)
from aneforge.ops.forms import Details, Domain, reduction
from aneforge.ops.op import Below, Category, MilStatus, Op, Support, Surface, Trait
from aneforge.ops.results import FROM_ZERO, Movement, Taking
from aneforge.ops.sampling import FLOATS, NUMBERS, Chooser, Fill, Sample, draw_axis, draw_type
from aneforge.ops.shapes import (
    expect_countable,
    expect_elements,
    expect_float,
    expect_number,
    expect_rank,
    normalise_axis,
)
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

CATEGORY = Category.REDUCTION


class FusedDetails(TypedDict):
    """What all reductions that the builder emits have in common."""

    in_mil: bool
    surface: Surface
    support: Support


FUSED: FusedDetails = {"in_mil": True, "surface": Surface.FUSED, "support": F2}
FUSED_REDUCTION: Details = {**FUSED, "traits": frozenset({Trait.REDUCTION})}
FUSED_EXTREME: Details = {
    **FUSED,
    "traits": frozenset({Trait.EXTREME, Trait.REDUCTION}),
    "movement": Movement(taking=Taking.CHOSEN),
}
SQUARING = frozenset({Trait.SQUARING_SUM})
PLACES = frozenset({Trait.PLACES, Trait.INDICES})


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


def square_of_total(x: Array, axes: tuple[int, ...]) -> Array:
    """Add up and square."""
    return np.square(total(x, axes)).astype(x.dtype)


def log_of_total(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the natural logarithm of the sum."""
    return np.log(total(x, axes))


def log_of_total_of_powers(x: Array, axes: tuple[int, ...]) -> Array:
    """Return log Σ eˣ, with the largest exponent taken out first so that no power overflows."""
    peak = largest(x, axes)
    shift = np.where(np.isfinite(peak), peak, 0.0)  # an infinite peak would give inf - inf
    return np.log(total(np.exp(x - shift), axes)) + shift


def draw_with_ties(chooser: Chooser, tensor: TensorType) -> Fill:
    """Draw an operand in which equal elements are met, in a floating type as well."""
    if not chooser.choose([True, False]):
        return Fill(tensor, -2, 2)
    generator = np.random.default_rng(chooser.integer(0, 2**31))
    return Fill.of(generator.integers(-2, 2, tensor.shape, endpoint=True), tensor.dtype)


def arg_reduction(name: str, summary: str, find: Callable[..., Array], support: Support) -> Op:
    """Return an operation that returns where along an axis an element is."""

    def infer(x: TensorType, *, axis: int, keep_dims: bool, output_dtype: str) -> TensorType:
        expect_number(x)
        found = normalise_axis(axis, x.rank)
        expect_elements(x, (found,), "searched")
        expect_countable(x.shape[found], output_dtype)
        before, after = x.shape[:found], x.shape[found + 1 :]
        return TensorType((*before, 1, *after) if keep_dims else (*before, *after), output_dtype)

    def evaluate(x: Array, *, axis: int, keep_dims: bool, output_dtype: str) -> Array:
        return in_type(find(x, axis=axis, keepdims=keep_dims), numpy_dtype(output_dtype))

    def sample(chooser: Chooser) -> Sample:
        tensor = draw_type(chooser, NUMBERS)
        attributes = {
            "axis": draw_axis(chooser, tensor.rank),
            "keep_dims": chooser.choose([True, False]),
            "output_dtype": chooser.choose(INDEX_DTYPES),
        }
        return Sample({"x": draw_with_ties(chooser, tensor)}, attributes)

    return Op(
        name=name,
        category=CATEGORY,
        summary=summary,
        operands=(Operand("x"),),
        attributes=(axis_attribute(-1), KEEP_DIMS, index_dtype_attribute("output_dtype")),
        infer=infer,
        meaning=evaluate,
        sample=sample,
        support=support,
        traits=PLACES | {Trait.ARG_REDUCTION},
        codomain=FROM_ZERO,
        in_mil=True,
        gradient=lambda: gradients.reasons.INTEGERS,
    )


def argmax_type(x: TensorType, *, axis: int) -> TensorType:
    """Return the type of places kept in the elements' own type, the axis kept with length 1."""
    expect_rank(x, 2)
    expect_float(x)
    found = normalise_axis(axis, x.rank)
    expect_elements(x, (found,), "searched")
    return x.with_shape(*(1 if place == found else extent for place, extent in enumerate(x.shape)))


def argmax(x: Array, *, axis: int) -> Array:
    """Return the places of the largest elements, as numbers of the elements' own type."""
    return np.argmax(x, axis=axis, keepdims=True).astype(x.dtype)


def sample_argmax(chooser: Chooser) -> Sample:
    """Draw a matrix and an axis."""
    tensor = draw_type(chooser, FLOATS, 2, 2, longest=7)
    return Sample({"x": draw_with_ties(chooser, tensor)}, {"axis": draw_axis(chooser, 2)})


def global_arg_type(x: TensorType, **_: object) -> TensorType:
    """Return the type of one place in a whole tensor."""
    expect_number(x)
    expect_elements(x, range(x.rank), "searched")
    return TensorType((), "int32")


def global_arg(x: Array, *, mode: str) -> Array:
    """Return the place of the extreme element, counted in row-major order."""
    find = np.argmax if mode == "max" else np.argmin
    return in_type(find(x), np.int32)


def sample_global_arg(chooser: Chooser) -> Sample:
    """Draw a tensor of any rank, with none at all among them."""
    tensor = draw_type(chooser, NUMBERS, 0)
    return Sample({"x": draw_with_ties(chooser, tensor)}, {"mode": chooser.choose(["max", "min"])})


def cumsum_type(x: TensorType, *, axis: int, **_: object) -> TensorType:
    """Return the type of the sums: that of `x`."""
    expect_number(x)
    normalise_axis(axis, x.rank)
    return x


def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Add up along an axis from its start, or its end; an exclusive sum leaves the element itself out."""
    along = np.moveaxis(x, axis, 0)
    ordered = along[::-1] if reverse else along
    sums = np.cumsum(ordered, axis=0, dtype=x.dtype)
    if exclusive:  # shifted, not subtracted: taking the element off again would round
        sums = np.concatenate([np.zeros((1, *sums.shape[1:]), x.dtype), sums])[: len(along)]
    return np.moveaxis(sums[::-1] if reverse else sums, 0, axis)


def sample_cumsum(chooser: Chooser) -> Sample:
    """Draw a tensor, an axis and both flags."""
    tensor = draw_type(chooser, NUMBERS)
    attributes = {
        "axis": draw_axis(chooser, tensor.rank),
        "exclusive": chooser.choose([True, False]),
        "reverse": chooser.choose([True, False]),
    }
    return Sample({"x": Fill(tensor)}, attributes)


REDUCE_SUM = reduction(
    "reduce_sum",
    "Σ x",
    total,
    dtypes=NUMBERS,
    **{**FUSED_REDUCTION, "gradient": lambda: gradients.reducing.SUM},
)
REDUCE_SUM_SQUARE = reduction(
    "reduce_sum_square",
    "Σ x²",
    total_of_squares,
    dtypes=NUMBERS,
    codomain=FROM_ZERO,
    **FUSED,
    decompositions=lambda: (decompositions.reductions.SUM_SQUARE,),
    traits=SQUARING,
    gradient=lambda: gradients.reducing.SUM_SQUARE,
)
REDUCE_L1_NORM = reduction(
    "reduce_l1_norm",
    "Σ |x|",
    total_of_magnitudes,
    dtypes=NUMBERS,
    codomain=FROM_ZERO,
    **FUSED,
    decompositions=lambda: (decompositions.reductions.L1_NORM,),
    gradient=lambda: gradients.reducing.L1_NORM,
)
REDUCE_MAX = reduction(
    "reduce_max",
    "the largest x",
    largest,
    dtypes=NUMBERS,
    **{**FUSED_EXTREME, "gradient": lambda: gradients.reducing.EXTREME},
)
REDUCE_MIN = reduction(
    "reduce_min",
    "the smallest x",
    smallest,
    dtypes=NUMBERS,
    **{**FUSED_EXTREME, "gradient": lambda: gradients.reducing.EXTREME},
)
REDUCE_PROD = reduction(
    "reduce_prod",
    "Π x",
    product,
    domain=Domain(-2, 2),
    dtypes=NUMBERS,
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reducing.PRODUCT,
)
REDUCE_MEAN = reduction(
    "reduce_mean",
    "Σ x / n",
    mean,
    **{**FUSED_REDUCTION, "gradient": lambda: gradients.reducing.MEAN},
)
REDUCE_L2_NORM = reduction(
    "reduce_l2_norm",
    "√(Σ x²)",
    euclidean_length,
    codomain=FROM_ZERO,
    **FUSED,
    decompositions=lambda: (decompositions.reductions.L2_NORM,),
    traits=SQUARING,
    gradient=lambda: gradients.reducing.L2_NORM,
)
REDUCE_LOG_SUM = reduction(
    "reduce_log_sum",
    "log Σ x",
    log_of_total,
    domain=Domain(0.1, 9),
    **FUSED,
    gradient=lambda: gradients.reducing.LOG_SUM,
)
REDUCE_LOG_SUM_EXP = reduction(
    "reduce_log_sum_exp",
    "log Σ eˣ",
    log_of_total_of_powers,
    domain=Domain(-900, 900),
    **FUSED,
    gradient=lambda: gradients.reducing.LOG_SUM_EXP,
)
SQ_AFTER_REDUCE = reduction(
    "sq_after_reduce",
    "(Σ x)²",
    square_of_total,
    dtypes=NUMBERS,
    codomain=FROM_ZERO,
    in_mil=False,
    support=Support(
        floor=3,
        gate="square_after_reduction",
        below=Below.DECOMPOSE,
        mil_since=None,
        mil_otherwise=MilStatus.BRIDGE,
    ),
    catalogued=False,
    decompositions=lambda: (decompositions.reductions.SQUARE_AFTER_SUM,),
    traits=SQUARING,
    gradient=lambda: gradients.reducing.SQUARE_OF_SUM,
)

REDUCE_ARGMAX = arg_reduction(
    "reduce_argmax", "the first place of the largest x along an axis", numpy_function("argmax"), Support(floor=0)
)
REDUCE_ARGMIN = arg_reduction(
    "reduce_argmin",
    "the first place of the smallest x along an axis",
    numpy_function("argmin"),
    Support(floor=0, mil_since=4, mil_otherwise=MilStatus.BRIDGE),
)
ARGMAX = Op(
    name="argmax",
    category=CATEGORY,
    summary="the first place of the largest x along an axis of a matrix, in the type of x",
    operands=(Operand("x"),),
    attributes=(axis_attribute(),),
    infer=argmax_type,
    meaning=argmax,
    sample=sample_argmax,
    traits=frozenset({Trait.ARG_REDUCTION, Trait.PLACES}),
    codomain=FROM_ZERO,
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=BRIDGE_F0,
    catalogued=False,
    gradient=lambda: gradients.pointwise.STEPS,
)
GLOBAL_ARG_MIN_MAX = Op(
    name="global_arg_min_max",
    category=CATEGORY,
    summary="the first place of the extreme x in the whole tensor, counted in row-major order",
    operands=(Operand("x"),),
    attributes=(Attribute("mode", AttributeKind.TEXT, "max", choices=("max", "min")),),
    infer=global_arg_type,
    meaning=global_arg,
    sample=sample_global_arg,
    codomain=FROM_ZERO,
    in_mil=False,
    support=Support(
        floor=4, gate="global_arg_reduction", below=Below.DECOMPOSE, mil_since=4, mil_otherwise=MilStatus.BRIDGE
    ),
    catalogued=False,
    traits=PLACES,
    aliases={"global_argmax": {"mode": "max"}, "global_argmin": {"mode": "min"}},
    decompositions=lambda: (decompositions.reductions.ARG_REDUCTION_OF_ONE_ROW,),
    gradient=lambda: gradients.pointwise.STEPS,
)

CUMSUM = Op(
    name="cumsum",
    category=Category.ELEMENTWISE,
    summary="Σ x up to every place along an axis",
    operands=(Operand("x"),),
    attributes=(
        axis_attribute(0),
        Attribute("exclusive", AttributeKind.FLAG, default=False),
        Attribute("reverse", AttributeKind.FLAG, default=False),
    ),
    infer=cumsum_type,
    meaning=cumsum,
    sample=sample_cumsum,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.reducing.CUMSUM,
)
