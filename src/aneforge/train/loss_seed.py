"""What objectives share: how a loss scale enters the backward pass, as the gradient at the loss, finite in fp16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.ops.numbers import FP16_MAX
from aneforge.train.module_state import ModuleState

if TYPE_CHECKING:
    from aneforge.graph.tensor import Tensor

__all__ = ["LossSeed"]


class LossSeed:
    """What objectives share: the gradient at the loss is the scale itself, unless they say otherwise."""

    __slots__ = ()

    def further_results(self) -> dict[str, Tensor]:
        """Return what a step gives in addition to loss and gradients, by output; nothing, unless they say otherwise."""
        return {}

    def new_module_state(self) -> ModuleState:
        """Return masks and buffers as a run begins with them; none, unless they say otherwise."""
        return ModuleState()

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
