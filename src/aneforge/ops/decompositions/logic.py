"""Logic on pairs of booleans, in choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term

__all__ = ["AND", "OR", "XOR"]


def both(_: Site, x: Term, y: Term) -> Term:
    """Return y where x holds, else x, which does not."""
    return x.select(y, x)


def either(_: Site, x: Term, y: Term) -> Term:
    """Return x where it holds, else y."""
    return x.select(x, y)


def one_alone(_: Site, x: Term, y: Term) -> Term:
    """Return not y where x holds, else y."""
    return x.select(y.logical_not(), y)


AND = Decomposition("select", "y where x holds, else x", both, SAME_MATHEMATICS, same_bits=True)
OR = Decomposition("select", "x where it holds, else y", either, SAME_MATHEMATICS, same_bits=True)
XOR = Decomposition("select", "not y where x holds, else y", one_alone, SAME_MATHEMATICS, same_bits=True)
