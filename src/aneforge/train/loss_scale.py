"""Loss scales that change in a run: smaller after a gradient that is not finite, larger after many that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.methods.method_arguments import is_number, whole
from aneforge.records import dataclass
from aneforge.train.optimisers import positive

if TYPE_CHECKING:
    from aneforge.train.optimisers import Optimizer

__all__ = ["AUTO", "DynamicLossScale", "get_fixed_scale", "scale_on_engine"]

AUTO = "auto"
MOST = 2.0**15
"""The largest power of two that fp16 holds."""


@dataclass(frozen=True, slots=True)
class DynamicLossScale:
    """A loss scale that is reduced when a gradient is not finite and grows after `interval` finite steps.

    It is an input of the step program, so that nothing is compiled again. A step whose gradient is not finite is
    skipped, as with any scale.

    >>> import numpy as np
    >>> import aneforge as af
    >>> x, w = af.input((1, 2)), af.parameter(np.full((1, 2), 200.0))
    >>> scale = af.DynamicLossScale(first=1024)
    >>> trainer = af.Trainer((x * w).square().sum(), [w], 1e-4, scale, {x: [[8, 8]]}, target=af.targets.Family.A15)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     losses = [trainer.step() for _ in range(12)]
    >>> trainer.loss_scale, trainer.optimizer.steps
    (2.0, 3)

    Raises:
        GraphError: A number is out of its range.
        GraphTypeError: An argument is not a number.
    """

    first: float = 2.0**12
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 1000
    """Finite steps in a row after which the scale grows."""
    least: float = 1.0
    most: float = MOST

    def __post_init__(self) -> None:
        """Check the numbers."""
        for what in ("first", "growth", "backoff", "least", "most"):
            positive(getattr(self, what), what, remedy="use a power of 2")
        whole(self.interval, "DynamicLossScale", "interval", least=1)
        if self.growth < 1 or self.backoff >= 1:
            raise GraphError(
                "growth must be at least 1 and backoff below 1", seen=f"{self.growth:g} and {self.backoff:g}"
            )
        if not self.least <= self.first <= self.most:
            raise GraphError(
                "the first scale must be between least and most",
                seen=self.first,
                limit=f"{self.least:g} to {self.most:g}",
            )

    def adjust(self, optimizer: Optimizer) -> None:
        """Give an optimiser its next scale, after a step that was taken or skipped."""
        scale = optimizer.loss_scale
        if optimizer.skipped:
            following = max(scale * self.backoff, self.least)
        elif optimizer.finite_in_row >= self.interval:
            following = min(scale * self.growth, self.most)
        else:
            return
        if following != scale:
            optimizer.rescale(following)


def get_fixed_scale(given: object) -> float | None:
    """Return a scale that stays the same; None for one that changes or is still to be chosen.

    Raises:
        GraphError: It is not positive.
        GraphTypeError: It is something else.
    """
    if isinstance(given, DynamicLossScale) or given == AUTO:
        return None
    if not is_number(given):
        raise GraphTypeError(
            "loss_scale must be a number",
            seen=repr(given),
            remedy=f'use 1.0, a power of 2, "{AUTO}", or af.DynamicLossScale()',
        )
    return positive(given, "loss_scale", remedy=f'use 1.0, a power of 2, or "{AUTO}"')


def scale_on_engine(given: object) -> float | None:
    """Return the scale of a run whose gradients stay on the engine; None for one that is still to be chosen.

    Raises:
        GraphError: It is not positive, or changes by what gradients are.
        GraphTypeError: It is something else.
    """
    if isinstance(given, DynamicLossScale):
        raise GraphError(
            "states on the engine have a loss_scale that stays the same: the host does not see gradients",
            seen=repr(given),
            remedy=f'use a number, or "{AUTO}", which chooses one from the first mini-batch',
        )
    return get_fixed_scale(given)
