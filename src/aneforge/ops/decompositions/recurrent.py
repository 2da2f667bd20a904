"""Recurrent layers in other directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term

__all__ = ["FORWARD"]


def forward(to: Site, x: Term, *operands: Term | None, direction: str, **attributes: object) -> list[Term]:  # noqa: ARG001 - it is always the reverse one
    """Return the layer forwards on steps in reverse, its outputs turned back to their places."""
    outputs, *states = to.same_several(x.reverse(axes=(0,)), **to.named(operands), direction="forward", **attributes)
    return [outputs.reverse(axes=(0,)), *states]


FORWARD = Decomposition(
    "forward", "the same forwards, between reversals", forward, SAME_MATHEMATICS, same_bits=True, same_operation=True
)
