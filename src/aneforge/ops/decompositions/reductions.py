"""Reductions in simpler ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term

__all__ = ["ARG_REDUCTION_OF_ONE_ROW", "L1_NORM", "L2_NORM", "NAMED_POOL", "SQUARE_AFTER_SUM", "SUM_SQUARE"]


def l1_norm(_: Site, x: Term, **along: object) -> Term:
    """Return Σ |x|."""
    return x.abs().reduce_sum(**along)


def sum_square(_: Site, x: Term, **along: object) -> Term:
    """Return Σ x · x."""
    return (x * x).reduce_sum(**along)


def l2_norm(_: Site, x: Term, **along: object) -> Term:
    """Return √(Σ x · x)."""
    return (x * x).reduce_sum(**along).sqrt()


def square_after_sum(_: Site, x: Term, **along: object) -> Term:
    """Return (Σ x)², with one more rounding between the two."""
    return x.reduce_sum(**along).square()


def arg_reduction_of_one_row(to: Site, x: Term, *, mode: str) -> Term:
    """Return an arg-reduction along one row of all elements.

    Raises:
        NotSupportedError: The row is longer than the layer takes.
    """
    longest = to.limits.arg_reduction
    if longest is not None and x.type.size > longest:
        raise to.refusal(
            "there are too many elements for one arg-reduction, whose index would not be exact in fp16 either",
            seen=x.type.size,
            limit=longest,
            remedy="reduce one axis on the engine and the rest on the host",
        )
    row = x.reshape(shape=(x.type.size,))
    return to.op("reduce_argmax" if mode == "max" else "reduce_argmin", row, axis=-1, keep_dims=False)


def named_pool(
    to: Site, x: Term, *, mode: str, exclude_padding_from_average: bool = False, **attributes: object
) -> Term:
    """Return the pooling that the mode names.

    Raises:
        NotSupportedError: It takes roots of sums of squares.
    """
    if mode == "l2":
        raise to.refusal(
            "no layer takes the root of sums of squares",
            remedy="use sqrt of avg_pool(x · x) times the size of the window",
        )
    if mode == "max":
        return x.max_pool(**attributes)
    return x.avg_pool(exclude_padding_from_average=exclude_padding_from_average, **attributes)


L1_NORM = Decomposition("sum", "Σ |x|", l1_norm, SAME_MATHEMATICS)
SUM_SQUARE = Decomposition("sum", "Σ x · x", sum_square, SAME_MATHEMATICS)
L2_NORM = Decomposition("sum", "sqrt(Σ x · x)", l2_norm, SAME_MATHEMATICS)
SQUARE_AFTER_SUM = Decomposition(
    "sum", "a sum and a square, with one more rounding between them", square_after_sum, SAME_MATHEMATICS
)
ARG_REDUCTION_OF_ONE_ROW = Decomposition(
    "one row",
    "an arg-reduction along one row of all elements",
    arg_reduction_of_one_row,
    SAME_MATHEMATICS,
    same_bits=True,
)
NAMED_POOL = Decomposition("named", "the pooling that its mode names", named_pool, SAME_MATHEMATICS, same_bits=True)
