"""Optimisers on the host: float32 masters and moments, textbook formulas.

A gradient that is not finite anywhere skips the whole step: masters, moments and the count of steps stay.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from aneforge.callsite import warn
from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.methods.method_arguments import describe_argument, is_number
from aneforge.ops.numbers import FP16_MAX
from aneforge.train.parameter import Parameter

if TYPE_CHECKING:
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.targets import TargetLike
    from aneforge.train.step_programs import FedProgram

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "Rate", "check_betas", "check_params", "check_rate", "positive"]

Rate = float | Callable[[int], float]
"""A learning rate, or a schedule: a function of the number of the step, which counts from 1."""
Gradients = Mapping[Parameter, "Array"] | Sequence["Array"]
WARN_EVERY = 100
"""Skipped steps in a row are warned of at the first and at every hundredth, as documented."""


def list_gradients(grads: Gradients, params: Sequence[Parameter]) -> list[Array]:
    """Return gradients in the order of parameters; one that is missing is left out."""
    if isinstance(grads, Mapping):
        return [grads[one] for one in params if one in grads]
    return list(grads)


class Optimizer(ABC):
    """What all optimisers share: parameters, learning rate, loss scale, clipping, and the skip of non-finite steps."""

    moments: ClassVar[int] = 0
    """Arrays that are kept for every parameter."""
    counted: ClassVar[tuple[str, ...]] = ("finite_in_row", "loss_scale", "skipped", "steps")
    """Attributes that change in a run, in addition to parameters and moments: what a checkpoint keeps."""
    state_dtype: ClassVar[type[np.floating[Any]]] = np.float32
    """The element type of those arrays."""
    default_decay: ClassVar[float] = 0.0
    """The weight decay where none is given."""
    gradient_limit: ClassVar[float] = FP16_MAX
    """The largest gradient of the scaled loss that an update takes as it is."""

    def __init__(
        self,
        params: Sequence[Parameter],
        lr: Rate,
        loss_scale: float = 1.0,
        *,
        weight_decay: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        self.params = check_params(params)
        self.lr = check_rate(lr)
        self.loss_scale = positive(loss_scale, "loss_scale", remedy="use 1.0, or a power of 2")
        decay = self.default_decay if weight_decay is None else weight_decay
        self.weight_decay = not_negative(decay, "weight_decay")
        self.clip_norm = None if clip_norm is None else positive(clip_norm, "clip_norm")
        self.steps = 0
        """Steps that were taken; skipped ones do not count."""
        self.skipped = 0
        """Steps in a row that were skipped last."""
        self.finite_in_row = 0
        """Steps in a row that were taken last, since the loss scale was changed."""
        self.kept: list[list[Array]] = [
            [np.zeros(one.shape, self.state_dtype) for _ in range(self.moments)] for one in self.params
        ]
        """The arrays that are kept, by parameter."""
        self.programs: Sequence[FedProgram] = ()
        """The programs of updates on the engine, one for each parameter; none where the host updates."""

    def step(self, grads: Gradients) -> bool:
        """Update every parameter from gradients of the scaled loss; return False where the step was skipped.

        Gradients are given by parameter, or in the order of the parameters.

        Raises:
            GraphError: A gradient is missing or has a different shape than its parameter.
        """
        scaled = self.in_order(grads)
        found = [np.asarray(one, np.float32) / np.float32(self.loss_scale) for one in scaled]
        if not all(np.isfinite(one).all() for one in found):
            self.skip()
            return False
        rate = rate_at(self.lr, self.steps + 1)  # a schedule may fail, and then the step was not taken
        self.skipped = 0
        self.finite_in_row += 1
        self.steps += 1
        for place, gradient in enumerate(self.clipped(found)):
            self.update(place, gradient, rate)
        return True

    @abstractmethod
    def update(self, place: int, gradient: Array, rate: float) -> None:
        """Change one parameter, by its place, and what is kept for it."""

    def rescale(self, loss_scale: float) -> None:
        """Take gradients of another loss scale from now on."""
        self.loss_scale = loss_scale
        self.finite_in_row = 0

    def for_target(self, target: TargetLike, backend: str | Backend | None) -> Self:  # noqa: ARG002 - for updates on the engine
        """Return the same optimiser for another target; what is computed on the host is the same for all."""
        return self

    def release(self) -> None:
        """Give back the programs."""
        for program in self.programs:
            program.model.release()

    def in_order(self, grads: Gradients) -> list[Array]:
        """Return gradients in the order of the parameters.

        Raises:
            GraphError: One is missing, or has a different shape than its parameter.
        """
        listed = list_gradients(grads, self.params)
        if len(listed) != len(self.params):
            raise GraphError("every parameter needs a gradient", seen=len(listed), limit=len(self.params))
        for place, (one, gradient) in enumerate(zip(self.params, listed, strict=True)):
            if np.shape(gradient) != one.value.shape:
                raise GraphError(
                    f"the gradient of params[{place}] must have its shape",
                    seen=list(np.shape(gradient)),
                    limit=list(one.value.shape),
                )
        return listed

    def clipped(self, gradients: list[Array]) -> list[Array]:
        """Return gradients whose common norm is at most `clip_norm`."""
        if self.clip_norm is None:
            return gradients
        norm = math.sqrt(sum(float(np.square(one, dtype=np.float64).sum()) for one in gradients))
        if norm <= self.clip_norm:
            return gradients
        return [one * np.float32(self.clip_norm / norm) for one in gradients]

    def skip(self) -> None:
        """Count a step that is skipped, and warn of it now and then."""
        self.skipped += 1
        self.finite_in_row = 0
        if self.skipped % WARN_EVERY == 1:
            warn(
                f"a gradient is non-finite: the step is skipped ({self.skipped} in a row); parameters and moments "
                f"stay. loss_scale is {self.loss_scale:g}; use a smaller one if this goes on"
            )

    @property
    def numbers(self) -> dict[str, int | float]:
        """The numbers that change in a run, by name."""
        return {name: cast("int | float", getattr(self, name)) for name in self.counted}

    def set_numbers(self, numbers: Mapping[str, int | float]) -> None:
        """Go on from numbers of a run."""
        for name in self.counted:
            setattr(self, name, numbers[name])

    def copy_for(self, params: Sequence[Parameter]) -> Self:
        """Return an optimiser in the same state for other owners of the same parameters."""
        made = copy.copy(self)
        made.params = check_params(params)
        made.kept = copy.deepcopy(self.kept)
        return made


class SGD(Optimizer):
    """Stochastic gradient descent: v = momentum·v + g + weight_decay·w, then w −= lr·v.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.parameter(np.ones((1, 2)))
    >>> af.SGD([w], lr=0.5).step({w: np.array([[1.0, 2.0]])})
    True
    >>> w.value.tolist()
    [[0.5, 0.0]]

    Raises:
        GraphError: A number is out of its range, or there are no parameters.
        GraphTypeError: An argument has the wrong type.
    """

    moments = 1

    def __init__(
        self,
        params: Sequence[Parameter],
        lr: Rate,
        loss_scale: float = 1.0,
        *,
        momentum: float = 0.0,
        weight_decay: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(params, lr, loss_scale, weight_decay=weight_decay, clip_norm=clip_norm)
        self.momentum = below_one(momentum, "momentum")

    def update(self, place: int, gradient: Array, rate: float) -> None:
        """Change one parameter and its velocity in place."""
        value, (velocity,) = self.params[place].value, self.kept[place]
        velocity *= self.momentum
        velocity += gradient
        if self.weight_decay:
            velocity += self.weight_decay * value
        value -= rate * velocity


class Adam(Optimizer):
    """Adam as published, with both corrections; `weight_decay` is added to the gradient.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.parameter(np.zeros((1, 2)))
    >>> af.Adam([w], lr=0.5).step({w: np.array([[4.0, -0.1]])})
    True
    >>> w.value.tolist()
    [[-0.5, 0.5]]

    Raises:
        GraphError: A number is out of its range, or there are no parameters.
        GraphTypeError: An argument has the wrong type.
    """

    moments = 2

    def __init__(
        self,
        params: Sequence[Parameter],
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        loss_scale: float = 1.0,
        *,
        weight_decay: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(params, lr, loss_scale, weight_decay=weight_decay, clip_norm=clip_norm)
        self.betas = check_betas(betas)
        self.eps = positive(eps, "eps")

    def update(self, place: int, gradient: Array, rate: float) -> None:
        """Change one parameter and its two moments in place."""
        decay = self.weight_decay * self.params[place].value if self.weight_decay else np.float32(0.0)
        self.move(place, gradient + decay, rate)

    def move(self, place: int, gradient: Array, rate: float) -> None:
        """Make the update of Adam itself."""
        value, (first, second), (b1, b2) = self.params[place].value, self.kept[place], self.betas
        first *= b1
        first += (1 - b1) * gradient
        second *= b2
        second += (1 - b2) * np.square(gradient)
        corrected = np.sqrt(second / (1 - b2**self.steps)) + self.eps
        value -= rate * (first / (1 - b1**self.steps)) / corrected


class AdamW(Adam):
    """Adam with decoupled decay: w is multiplied by 1 − lr·weight_decay before the update.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.parameter(np.ones((1, 1)))
    >>> af.AdamW([w], lr=0.5, weight_decay=0.5).step({w: np.array([[1.0]])})
    True
    >>> w.value.tolist()
    [[0.25]]

    Raises:
        GraphError: A number is out of its range, or there are no parameters.
        GraphTypeError: An argument has the wrong type.
    """

    default_decay = 0.01

    def update(self, place: int, gradient: Array, rate: float) -> None:
        """Change one parameter and its two moments in place."""
        self.params[place].value[...] *= 1 - rate * self.weight_decay
        self.move(place, gradient, rate)


def check_rate(lr: Rate) -> Rate:
    """Return a learning rate or a schedule; what a schedule gives is checked at every step.

    Raises:
        GraphError: It is a number that is not a rate.
        GraphTypeError: It is neither a number nor a function.
    """
    return lr if callable(lr) else not_negative(lr, "lr")


def rate_at(lr: object, step: int) -> float:
    """Return the learning rate of a step.

    Raises:
        GraphError: A schedule gave something that is not a rate.
    """
    return not_negative(lr(step), f"lr({step})") if callable(lr) else not_negative(lr, "lr")


def check_params(params: object) -> tuple[Parameter, ...]:
    """Return parameters.

    Raises:
        GraphTypeError: An argument is not a parameter.
        GraphError: There are none, or one is there twice.
    """
    if not isinstance(params, Sequence):
        raise GraphTypeError("params must be a list of parameters", seen=type(params).__name__)
    found: list[Parameter] = []
    for place, one in enumerate(cast("Sequence[object]", params)):
        if not isinstance(one, Parameter):
            raise GraphTypeError(
                f"params[{place}] must be a parameter",
                seen=describe_argument(one),
                remedy="make it with af.parameter(array) or af.conv_param(array); an input has no value of its own",
            )
        found.append(one)
    if not found:
        raise GraphError("there are no parameters", remedy="make some with af.parameter")
    if len({one.node for one in found}) < len(found):
        raise GraphError("a parameter is listed twice in params", seen=len(found), remedy="list each one once")
    return tuple(found)


def check_betas(betas: object) -> tuple[float, float]:
    """Return the two decays of Adam's moments.

    Raises:
        GraphError: They are not two numbers from 0 up to, and without, 1.
    """
    if not isinstance(betas, tuple | list) or len(cast("Sequence[object]", betas)) != 2:
        raise GraphError("betas must be two numbers", seen=repr(cast("object", betas)), limit="such as (0.9, 0.999)")
    first, second = cast("Sequence[object]", betas)
    return below_one(first, "betas[0]"), below_one(second, "betas[1]")


def a_number(value: object, what: str) -> float:
    """Return a number.

    Raises:
        GraphTypeError: It is none.
    """
    if not is_number(value):
        raise GraphTypeError(f"{what} must be a number", seen=repr(value))
    return float(value)


def positive(value: object, what: str, *, remedy: str | None = None) -> float:
    """Return a positive, finite number.

    Raises:
        GraphError: It is not one.
    """
    found = a_number(value, what)
    if not 0 < found < math.inf:
        raise GraphError(f"{what} must be a positive number", seen=found, remedy=remedy)
    return found


def not_negative(value: object, what: str) -> float:
    """Return a finite number that is 0 or more.

    Raises:
        GraphError: It is not one.
    """
    found = a_number(value, what)
    if not 0 <= found < math.inf:
        raise GraphError(f"{what} must be 0 or more, and finite", seen=found)
    return found


def below_one(value: object, what: str) -> float:
    """Return a number from 0 up to, and without, 1.

    Raises:
        GraphError: It is not one.
    """
    found = a_number(value, what)
    if not 0 <= found < 1:
        raise GraphError(f"{what} must be at least 0 and below 1", seen=found)
    return found
