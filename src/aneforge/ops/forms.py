"""Forms that many operations share: a unary function, a broadcast pair, a reduction.

An entry of a shared form states only what is its own; signature, shape rule and sample come from the form. The element
types of a form are those that it is sampled with; it takes every type of the same kinds.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

from aneforge.arrays import np
from aneforge.ops.common import AXES, KEEP_DIMS
from aneforge.ops.op import Category, Op, Support, Surface, Trait
from aneforge.ops.results import UNIT, Codomain
from aneforge.ops.sampling import FLOATS, NUMBERS, Chooser, Fill, Sample, draw_broadcast_pair, draw_shape, draw_type
from aneforge.ops.shapes import broadcast, common_dtype, expect_elements, expect_kind, reduced_axes
from aneforge.ops.signature import Attribute, AttributeValue, Operand
from aneforge.ops.types import Array, TensorType
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aneforge.ops.decomposition import Decomposition
    from aneforge.ops.gradient import Gradient, NoGradient
    from aneforge.ops.results import Movement, Product

__all__ = ["Details", "Domain", "ElementDetails", "binary", "comparison", "reduction", "unary"]


class Details(TypedDict, total=False):
    """What an entry may say beyond its form."""

    surface: Surface
    mil: str
    in_mil: Required[bool]
    opset: str
    support: Support
    catalogued: bool
    traits: frozenset[Trait]
    codomain: Codomain | Callable[..., Codomain]
    movement: Movement
    product: Product
    aliases: Mapping[str, Mapping[str, AttributeValue]]
    decompositions: Callable[[], tuple[Decomposition, ...]]
    gradient: Callable[[], Gradient | NoGradient]


class ElementDetails(Details, total=False):
    """What an entry on elements may say beyond its form."""

    attributes: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """Values on which a function is sampled, and how its attributes are."""

    low: float = -4.0
    high: float = 4.0
    attributes: Callable[[Chooser], dict[str, AttributeValue]] = field(default=lambda _: {})


EVERYWHERE = Domain()
ELEMENTWISE = frozenset({Trait.ELEMENTWISE})
COMPARING = frozenset({Trait.COMPARING})


def unary(
    name: str,
    category: Category,
    summary: str,
    meaning: Callable[..., Array],
    *,
    domain: Domain = EVERYWHERE,
    dtypes: Iterable[str] = FLOATS,
    check: Callable[..., None] | None = None,
    **details: Unpack[ElementDetails],
) -> Op:
    """Return an operation on every element of `x` by itself.

    `check` takes the type of `x` and the attributes by name, and raises what the domain of a single one cannot.
    """
    sampled = tuple(dtypes)
    details["traits"] = ELEMENTWISE | details.get("traits", frozenset())

    def infer(x: TensorType, **given: object) -> TensorType:
        expect_kind(x, sampled)
        if check is not None:
            check(x, **given)
        return x

    def sample(chooser: Chooser) -> Sample:
        dtype = chooser.choose(sampled)
        x = Fill(TensorType(draw_shape(chooser), dtype), domain.low, domain.high)
        return Sample({"x": x}, domain.attributes(chooser))

    return Op(
        name=name,
        category=category,
        summary=summary,
        operands=(Operand("x"),),
        infer=infer,
        meaning=meaning,
        sample=sample,
        **details,
    )


def binary(
    name: str,
    category: Category,
    summary: str,
    meaning: Callable[..., Array],
    *,
    result_dtype: str | None = None,
    domain: Domain = EVERYWHERE,
    dtypes: Iterable[str] = NUMBERS,
    **details: Unpack[ElementDetails],
) -> Op:
    """Return an operation on pairs of elements of `x` and `y`, broadcast to one another."""
    sampled = tuple(dtypes)
    details["traits"] = ELEMENTWISE | details.get("traits", frozenset())

    def infer(x: TensorType, y: TensorType, **_: object) -> TensorType:
        shared = common_dtype(x, y)
        expect_kind(x, sampled)
        return TensorType(broadcast(x, y), result_dtype or shared)

    def sample(chooser: Chooser) -> Sample:
        dtype = chooser.choose(sampled)
        pair = zip("xy", draw_broadcast_pair(chooser), strict=True)
        operands = {name: Fill(TensorType(one, dtype), domain.low, domain.high) for name, one in pair}
        return Sample(operands, domain.attributes(chooser))

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
    details["codomain"] = UNIT
    details["traits"] = COMPARING
    return binary(
        name,
        Category.LOGIC,
        summary,
        meaning,
        result_dtype="bool",
        domain=Domain(-2, 2),  # a small range, so that equal integers are met
        dtypes=(*NUMBERS, "bool"),
        **details,
    )


def reduction(
    name: str,
    summary: str,
    meaning: Callable[[Array, tuple[int, ...]], Array],
    *,
    domain: Domain = EVERYWHERE,
    dtypes: Iterable[str] = FLOATS,
    **details: Unpack[Details],
) -> Op:
    """Return an operation that combines the elements along `axes`, all axes by default.

    `meaning` takes the array and the axes, and keeps them with length 1.
    """
    sampled = tuple(dtypes)

    def infer(x: TensorType, *, axes: tuple[int, ...] | None, keep_dims: bool) -> TensorType:
        expect_kind(x, sampled)
        found = reduced_axes(x.rank, axes)
        expect_elements(x, found, "reduced")
        kept = [1 if axis in found else extent for axis, extent in enumerate(x.shape)]
        return x.with_shape(*(extent for axis, extent in enumerate(kept) if keep_dims or axis not in found))

    def evaluate(x: Array, *, axes: tuple[int, ...] | None, keep_dims: bool) -> Array:
        found = reduced_axes(x.ndim, axes)
        kept = meaning(x, found)
        return kept if keep_dims else np.squeeze(kept, axis=found)

    def sample(chooser: Chooser) -> Sample:
        x = draw_type(chooser, sampled)
        axes = chooser.choose([None, (0,), (-1,), tuple(range(x.rank)), (0, -1) if x.rank > 1 else (0,)])
        keep = chooser.choose([True, False])
        return Sample({"x": Fill(x, domain.low, domain.high)}, {"axes": axes, "keep_dims": keep})

    return Op(
        name=name,
        category=Category.REDUCTION,
        summary=summary,
        operands=(Operand("x"),),
        attributes=(AXES, KEEP_DIMS),
        infer=infer,
        meaning=evaluate,
        sample=sample,
        **details,
    )
