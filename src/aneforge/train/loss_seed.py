"""How a loss scale enters the backward pass: as the gradient at the loss, which must be finite in fp16."""

from __future__ import annotations

from aneforge.errors import GraphError
from aneforge.ops.numbers import FP16_MAX

__all__ = ["LossSeed"]


class LossSeed:
    """What objectives share: the gradient at the loss is the scale itself, unless they say otherwise."""

    __slots__ = ()

    def seed_of(self, loss_scale: float) -> float:
        """Return the factor by which a scale enters the backward pass."""
        return loss_scale

    def check_scale(self, loss_scale: float) -> None:
        """Check that the first gradient is finite in fp16 at a scale.

        Raises:
            GraphError: It is not.
        """
        if self.seed_of(loss_scale) > FP16_MAX:
            raise GraphError(
                "the first gradient must be finite in fp16",
                seen=f"loss_scale {loss_scale:g}",
                limit=FP16_MAX / self.seed_of(1.0),
                remedy="use a smaller loss_scale",
            )
