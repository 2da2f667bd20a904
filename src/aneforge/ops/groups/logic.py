"""Comparisons, logic on their results, and the choice that they steer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np, numpy_function
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import DECOMPOSED, LIKELY_F0
from aneforge.ops.forms import binary, comparison, unary
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.results import UNIT, Movement
from aneforge.ops.sampling import NUMBERS, Chooser, Fill, Sample, draw_broadcast_pair
from aneforge.ops.shapes import broadcast, common_dtype, expect_bool
from aneforge.ops.signature import Operand
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.decomposition import Decomposition

CATEGORY = Category.LOGIC


def select_type(cond: TensorType, a: TensorType, b: TensorType) -> TensorType:
    """Return the common shape of all three with the element type of a and b."""
    expect_bool(cond, "cond")
    return TensorType(broadcast(cond, a, b), common_dtype(a, b))


def sample_select(chooser: Chooser) -> Sample:
    """Draw three shapes that broadcast to one another, in any of the three places."""
    first, second = draw_broadcast_pair(chooser)
    third = tuple(chooser.choose([extent, 1]) for extent in np.broadcast_shapes(first, second))
    shapes = chooser.choose([(first, second, third), (second, third, first), (third, first, second)])
    dtype = chooser.choose((*NUMBERS, "bool"))
    types = (TensorType(one, kind) for one, kind in zip(shapes, ("bool", dtype, dtype), strict=True))
    return Sample({name: Fill(one) for name, one in zip(("cond", "a", "b"), types, strict=True)})


def join(name: str, summary: str, meaning: Callable[..., Array], ways: Callable[[], tuple[Decomposition, ...]]) -> Op:
    """Return a logical operation on pairs; no family runs one."""
    return binary(
        name,
        CATEGORY,
        summary,
        meaning,
        dtypes=("bool",),
        codomain=UNIT,
        support=DECOMPOSED,
        decompositions=ways,
        gradient=lambda: gradients.reasons.BOOLEANS,
        in_mil=True,
    )


EQUAL = comparison(
    "equal",
    "x = y",
    numpy_function("equal"),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.reasons.BOOLEANS,
)
NOT_EQUAL = comparison(
    "not_equal",
    "x ≠ y",
    numpy_function("not_equal"),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.reasons.BOOLEANS,
)
GREATER = comparison(
    "greater",
    "x > y",
    numpy_function("greater"),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.reasons.BOOLEANS,
)
GREATER_EQUAL = comparison(
    "greater_equal",
    "x ≥ y",
    numpy_function("greater_equal"),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.reasons.BOOLEANS,
)
LESS = comparison(
    "less",
    "x < y",
    numpy_function("less"),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.reasons.BOOLEANS,
)
LESS_EQUAL = comparison(
    "less_equal",
    "x ≤ y",
    numpy_function("less_equal"),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.reasons.BOOLEANS,
)

LOGICAL_NOT = unary(
    "logical_not",
    CATEGORY,
    "not x",
    numpy_function("logical_not"),
    dtypes=("bool",),
    codomain=UNIT,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.reasons.BOOLEANS,
)
LOGICAL_AND = join("logical_and", "x and y", numpy_function("logical_and"), lambda: (decompositions.logic.AND,))
LOGICAL_OR = join("logical_or", "x or y", numpy_function("logical_or"), lambda: (decompositions.logic.OR,))
LOGICAL_XOR = join(
    "logical_xor", "x or y, not both", numpy_function("logical_xor"), lambda: (decompositions.logic.XOR,)
)

SELECT = Op(
    name="select",
    category=CATEGORY,
    summary="a where cond holds, else b",
    operands=(Operand("cond"), Operand("a"), Operand("b")),
    infer=select_type,
    meaning=numpy_function("where"),
    sample=sample_select,
    movement=Movement(("a", "b")),
    traits=frozenset({Trait.ELEMENTWISE, Trait.MASKING}),
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.movement.SELECT_OF_ONE_SHAPE,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SELECT,
)
