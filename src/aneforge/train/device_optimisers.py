"""Optimisers whose updates are programs on the engine, one for each parameter.

Parameters and states are fp16 numbers between steps; the host feeds them, the gradient of the scaled loss and the rate,
and takes back what the program gives.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from aneforge.callsite import keep_warnings, warn
from aneforge.errors import DispatchFloorWarning, GraphError, PrecisionWarning
from aneforge.graph.builder.inputs import input as build_input
from aneforge.graph.graph import Graph
from aneforge.ops.numbers import FP16_MAX
from aneforge.runtime.compile import compile_multi
from aneforge.train.adam_in_graph import GRADIENT_LIMITS, adam_step, correct_rate, largest_ratio, rate_of_rank
from aneforge.train.optimisers import Optimizer, check_betas, positive
from aneforge.train.step_programs import FedProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.targets import TargetLike
    from aneforge.train.optimisers import Rate
    from aneforge.train.parameter import Parameter

__all__ = ["DeviceAdam", "DeviceAdamFp16", "DeviceOptimizer", "DeviceSGD", "rate_in_fp16", "warn_of_moments"]

WEIGHT = "weight"
REMEDY = 'Use optimizer="adam_fp16" (form="fp16" of an unrolled trainer), whose moments fp16 can hold'
SLACK = 1.25
"""Moments in fp16 are rounded: this much above what is possible is not yet a sign of an overflow."""


class DeviceOptimizer(Optimizer):
    """What all updates on the engine share: programs that are compiled once, and states in fp16."""

    state_dtype = np.float16
    states: ClassVar[tuple[str, ...]] = ()
    """The names of what is kept for every parameter."""

    @abstractmethod
    def results(self, weight: Tensor, gradient: Tensor, rate: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """Return the next value of a parameter and its next states."""

    def check_moments(self, place: int) -> None:
        """Look at what is kept for a parameter after an update; there is nothing to look at here."""

    @abstractmethod
    def fed_rate(self, rate: float) -> float:
        """Return the rate that is fed at this step, before it is rounded to fp16."""

    def for_target(self, target: TargetLike, backend: str | Backend | None) -> Self:
        """Return an optimiser in the same state whose programs are compiled for a target."""
        made = copy.copy(self)
        made.programs = [self.build_program(one, target, backend) for one in self.params]
        return made

    def build_program(self, param: Parameter, target: TargetLike, backend: str | Backend | None) -> FedProgram:
        """Compile the update of one parameter; its inputs are named."""
        weight, gradient, *states = (build_input(param.shape, name=name) for name in (WEIGHT, "gradient", *self.states))
        rate = build_input((1, 1), name="rate")
        found = self.results(weight, gradient, rate, states)
        graph = Graph(dict(zip((WEIGHT, *self.states), found, strict=True)))
        with keep_warnings(DispatchFloorWarning):
            # An update is small by nature, and cannot be given more work; the report lists the warning.
            return FedProgram("update", graph, compile_multi(graph, target=target, backend=backend))

    def update(self, place: int, gradient: Array, rate: float) -> None:
        """Change one parameter and its states by running its program."""
        param, program = self.params[place], self.programs[place]
        states = dict(zip(self.states, self.kept[place], strict=True))
        scaled = np.asarray(gradient * np.float32(self.loss_scale))
        given = {WEIGHT: param.value, "gradient": scaled, "rate": self.rounded_rate(rate), **states}
        found = program.run({node: given[name] for name, node in program.graph.inputs.items()})
        param.value[...] = found[WEIGHT]
        self.kept[place] = [found[name].astype(self.state_dtype) for name in self.states]

    def rounded_rate(self, rate: float) -> Array:
        """Return the rate of this step as it is fed.

        Raises:
            GraphError: fp16 does not hold it.
        """
        return rate_in_fp16(self.fed_rate(rate), is_scheduled=callable(self.lr))


def rate_in_fp16(rate: float, *, is_scheduled: bool) -> Array:
    """Return the rate of an update on the engine as it is fed; a schedule may end with rates that become 0.

    Raises:
        GraphError: It is infinite in fp16, or a rate that stays the same becomes 0 there.
    """
    with np.errstate(over="ignore"):
        fed = np.full((1, 1), rate).astype(np.float16)
    if rate > 0 and not fed.any():
        if is_scheduled:
            warn(f"the rate {rate:.3g} of the schedule is 0 in fp16: parameters stay as they are", PrecisionWarning)
            return fed
        raise GraphError(
            "the rate of an update on the engine is 0 in fp16",
            seen=rate,
            limit="about 6e-8",
            remedy="use a larger lr, a smaller loss_scale, or updates on the host",
        )
    if not np.isfinite(fed).all():
        raise GraphError(
            "the rate of an update on the engine is infinite in fp16",
            seen=rate,
            limit=FP16_MAX,
            remedy="use a smaller lr",
        )
    return fed


class DeviceSGD(DeviceOptimizer):
    """w' = w − (lr/loss_scale)·g on the engine, g the gradient of the scaled loss."""

    def results(self, weight: Tensor, gradient: Tensor, rate: Tensor, states: Sequence[Tensor]) -> list[Tensor]:  # noqa: ARG002 - one form for all updates
        """Return the next value of a parameter."""
        return [weight - rate_of_rank(rate, weight) * gradient]

    def fed_rate(self, rate: float) -> float:
        """Return the rate, with the loss scale divided out."""
        return rate / self.loss_scale


class DeviceAdam(DeviceOptimizer):
    """Adam on the engine as documented; warns when second moments vanish in fp16."""

    moments = 2
    states = ("first", "second")
    form: ClassVar[str] = "documented"
    power: ClassVar[int] = 2
    """The power of the loss scale that is in the second state."""
    divides_by_moments: ClassVar[bool] = True
    """True where nothing is added to a second moment that is 0: eps is 0 in fp16."""
    gradient_limit = GRADIENT_LIMITS[form]

    def __init__(
        self,
        params: Sequence[Parameter],
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        loss_scale: float = 1.0,
        *,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(params, lr, loss_scale, clip_norm=clip_norm)
        self.betas = check_betas(betas)
        self.eps = positive(eps, "eps")
        self.warned = False

    def results(self, weight: Tensor, gradient: Tensor, rate: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """Return the next value of a parameter and its two moments."""
        first, second = states
        found = adam_step([weight], [first], [second], [gradient], rate, self.betas, self.eps, form=self.form)
        return [one for (one,) in found]

    def fed_rate(self, rate: float) -> float:
        """Return the rate with both corrections; the loss scale cancels."""
        return correct_rate(rate, self.steps, self.betas)

    def rescale(self, loss_scale: float) -> None:
        """Take gradients of another loss scale from now on: the moments are those of scaled gradients."""
        ratio = loss_scale / self.loss_scale
        factors = np.float64(ratio), np.float64(ratio**self.power)
        with np.errstate(over="ignore"):
            self.kept = [
                [(one * factor).astype(self.state_dtype) for one, factor in zip(states, factors, strict=True)]
                for states in self.kept
            ]
        super().rescale(loss_scale)

    def update(self, place: int, gradient: Array, rate: float) -> None:
        """Change one parameter and its two moments by running its program."""
        super().update(place, gradient, rate)
        self.check_moments(place)

    def check_moments(self, place: int) -> None:
        """Warn, once, of second moments that vanished where the update divides by them, or whose squares overflowed."""
        if not self.warned and self.divides_by_moments:
            first, second = self.kept[place]
            self.warned = warn_of_moments(f"params[{place}]", first, second, self.betas)


def warn_of_moments(where: str, first: Array, second: Array, betas: tuple[float, float]) -> bool:
    """Warn of moments of the documented update that fp16 does not hold; return whether there are any."""
    vanished = (second == 0) & (first != 0)
    # The root of the second moment bounds the first, unless squares were lost; small ones are lost by rounding.
    most = SLACK * largest_ratio(betas) * np.sqrt(second, dtype=np.float32)
    overflowed = (second >= 1) & (np.abs(first) > most)
    if vanished.any():
        share = f"{np.count_nonzero(vanished)} of {first.size} of {where}"
        warn(
            f"second moments vanish in fp16: {share} are 0 where the first moment is not, so the update divides by 0. "
            f"{REMEDY}, a larger loss_scale, or updates on the host",
            PrecisionWarning,
        )
    if overflowed.any():
        share = f"{np.count_nonzero(overflowed)} of {first.size} of {where}"
        warn(
            f"squares of scaled gradients above {GRADIENT_LIMITS['documented']:.0f} overflow in fp16: {share} have "
            f"second moments that are too small, so the update is too large. {REMEDY}, a smaller loss_scale, or "
            "updates on the host",
            PrecisionWarning,
        )
    return bool((vanished | overflowed).any())


class DeviceAdamFp16(DeviceAdam):
    """Adam on the engine with the root of the second moment, and an eps that exists in fp16."""

    form = "fp16"
    gradient_limit = GRADIENT_LIMITS[form]
    power = 1
    divides_by_moments = False
