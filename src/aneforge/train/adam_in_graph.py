"""One update of Adam as operations of a graph, in the documented form and in one that fp16 can hold.

The moments are those of the *scaled* gradient: the loss scale cancels in first / root of second moment. The rate is
`correct_rate`, which the host computes.

Documented: v' = b2·v + (1 − b2)·g² and w' = w − lr_t·m' / (√v' + eps). In fp16 an eps of 1e-8 is 0, and v' is 0 where
the scaled gradient is below about 0.0055, so that the update divides by 0.

For fp16: what is kept is the root r = √v, whose range is that of the gradient itself. It is computed from the ratios of
r and g to the larger of them, t = max(r, |g|, eps): r' = t·√(b2·(r/t)² + (1 − b2)·(g/t)²), whose squares do not
vanish. eps is at least 2^-14, so that its reciprocal exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, UnknownNameError
from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.builder.combination import maximum
from aneforge.graph.methods.method_arguments import misuse
from aneforge.ops.numbers import FP16_MAX
from aneforge.records import dataclass
from aneforge.train.optimisers import check_betas, positive
from aneforge.train.parameter import updated_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.graph.tensor import Tensor

    Update = Callable[["State", "Tensor", "Tensor", tuple[float, float], float], "State"]

__all__ = [
    "FORMS",
    "GRADIENT_LIMITS",
    "LEAST_EPS",
    "State",
    "adam_step",
    "check_form",
    "correct_rate",
    "largest_ratio",
    "rate_of_rank",
]

OP = "adam_step"
LEAST_EPS = 2.0**-14
"""The smallest normal number of fp16; its reciprocal is finite."""


@dataclass(frozen=True, slots=True)
class State:
    """A parameter and its two moments; the second is v, or its root in the form for fp16."""

    weight: Tensor
    first: Tensor
    second: Tensor


def documented(state: State, gradient: Tensor, rate: Tensor, betas: tuple[float, float], eps: float) -> State:
    """Return the next state as documented."""
    b1, b2 = betas
    first = state.first * b1 + gradient * (1 - b1)
    second = state.second * b2 + gradient.square() * (1 - b2)
    return State(state.weight - rate * (first / (second.sqrt() + eps)), first, second)


def for_fp16(state: State, gradient: Tensor, rate: Tensor, betas: tuple[float, float], eps: float) -> State:
    """Return the next state with the root of the second moment, which does not vanish in fp16."""
    (b1, b2), least = betas, max(eps, LEAST_EPS)
    first = state.first * b1 + gradient * (1 - b1)
    top = maximum(maximum(state.second, gradient.abs()), least)
    kept, new = state.second / top, gradient / top
    second = top * (kept.square() * b2 + new.square() * (1 - b2)).sqrt()
    return State(state.weight - rate * (first / (second + least)), first, second)


FORMS: Mapping[str, Update] = {"documented": documented, "fp16": for_fp16}
"""The updates by name."""
GRADIENT_LIMITS = {"documented": math.sqrt(FP16_MAX), "fp16": FP16_MAX}
"""The largest scaled gradient that an update takes as it is: the square of the documented one must be finite."""


def largest_ratio(betas: tuple[float, float]) -> float:
    """Return how many times the root of the second moment the first one can be, by the inequality of Cauchy-Schwarz.

    >>> round(largest_ratio((0.9, 0.999)), 2)
    7.27
    """
    b1, b2 = betas
    share = b1 * b1 / b2 if b2 else math.inf
    return (1 - b1) / math.sqrt((1 - b2) * (1 - share)) if share < 1 else math.inf


def adam_step(  # noqa: PLR0913 - the documented signature and a form
    params: Sequence[Tensor],
    m: Sequence[Tensor],
    v: Sequence[Tensor],
    grads: Mapping[Tensor, Tensor] | Sequence[Tensor],
    lr_t: Tensor,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    *,
    form: str = "documented",
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Return parameters and both moments after one update of Adam, as tensors of the same graph.

    `lr_t` is a tensor [1, 1]: lr·√(1 − b2^t)/(1 − b1^t) for the step t, from 1. Gradients are those of the scaled loss.
    In the form "fp16", `v` is the root of the second moment and eps is at least 2^-14: neither vanishes in fp16.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w, g = af.conv_param(np.ones((8, 1, 3, 3))), af.input((9, 8))
    >>> m, v, rate = af.input((9, 8)), af.input((9, 8)), af.input((1, 1))
    >>> (w,), (m,), (v,) = af.adam_step([w], [m], [v], [g], rate)
    >>> w.shape, af.conv2d(af.input((1, 1, 5, 5)), w).shape
    ((9, 8), (1, 8, 3, 3))

    Raises:
        GraphError: There are not as many moments and gradients as parameters, a shape differs, or a number is out of
            its range.
        GraphTypeError: An argument is not a tensor.
        UnknownNameError: There is no such form.
    """
    update = FORMS[check_form(form)]
    weights = [expect_tensor(one, OP, "params") for one in params]
    listed = [grads[one] for one in weights if one in grads] if isinstance(grads, Mapping) else list(grads)
    rate = expect_tensor(lr_t, OP, "lr_t")
    if rate.shape != (1, 1):
        raise misuse(OP, "lr_t must be a tensor [1, 1]", seen=list(rate.shape), remedy="use af.input((1, 1))")
    for what, given in (("m", m), ("v", v), ("grads", listed)):
        expect_like(given, weights, what)
    decays, least = check_betas(betas), positive(eps, "eps")
    states = [
        update(State(weight, first, second), gradient, rate_of_rank(rate, weight), decays, least)
        for weight, first, second, gradient in zip(weights, m, v, listed, strict=True)
    ]
    moved = [updated_from(source, one.weight) for source, one in zip(weights, states, strict=True)]
    return moved, [one.first for one in states], [one.second for one in states]


def check_form(form: str) -> str:
    """Return the name of an update.

    Raises:
        UnknownNameError: There is none of this name.
    """
    if form not in FORMS:
        raise UnknownNameError.of("form", form, FORMS)
    return form


def rate_of_rank(rate: Tensor, weight: Tensor) -> Tensor:
    """Return a rate [1, 1] with as many axes as a parameter, so that their product has its shape."""
    rank = len(weight.shape)
    return rate if rank == 2 else rate.reshape(*([1] * max(rank, 1)))


def expect_like(given: Sequence[Tensor], weights: Sequence[Tensor], what: str) -> None:
    """Check that there is one tensor of the same shape for every parameter.

    Raises:
        GraphError: There is not.
        GraphTypeError: An argument is not a tensor.
    """
    if len(given) != len(weights):
        raise misuse(OP, f"{what} must have one tensor for every parameter", seen=len(given), limit=len(weights))
    for place, (one, weight) in enumerate(zip(given, weights, strict=True)):
        if expect_tensor(one, OP, what).shape != weight.shape:
            raise misuse(
                OP,
                f"{what}[{place}] must have the shape of its parameter",
                seen=list(one.shape),
                limit=list(weight.shape),
            )


def correct_rate(lr: float, step: int, betas: tuple[float, float]) -> float:
    """Return lr·√(1 − b2^t)/(1 − b1^t), which takes both corrections of Adam into the rate.

    >>> correct_rate(0.01, 1, (0.9, 0.999))
    0.003162277660168381

    Raises:
        GraphError: The step is not counted from 1.
    """
    if step < 1:
        raise GraphError("steps are counted from 1", seen=step)
    b1, b2 = betas
    return lr * math.sqrt(1 - b2**step) / (1 - b1**step)
