"""Optimisers on the host against torch's, and the documented treatment of gradients that are not finite."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.train.optimisers import Optimizer

PAIRS: list[tuple[Callable[[Sequence[af.Parameter]], Optimizer], Callable[[Sequence[torch.Tensor]], object]]] = [
    (lambda p: af.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1)),
    (
        lambda p: af.SGD(p, 0.1, momentum=0.9, weight_decay=0.05),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.05),
    ),
    (lambda p: af.Adam(p, 0.1), lambda p: torch.optim.Adam(p, 0.1)),
    (
        lambda p: af.Adam(p, 0.1, (0.8, 0.99), 1e-6, weight_decay=0.05),
        lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.99), 1e-6, weight_decay=0.05),
    ),
    (lambda p: af.AdamW(p, 0.1), lambda p: torch.optim.AdamW(p, 0.1)),
]


@pytest.mark.parametrize("pair", range(len(PAIRS)))
def test_updates_are_those_of_torch(pair: int) -> None:
    ours, theirs = PAIRS[pair]
    random = np.random.default_rng(pair)
    first = [random.standard_normal((3, 4)).astype(np.float32), random.standard_normal((1, 4)).astype(np.float32)]
    params = [af.parameter(one) for one in first]
    copies = [torch.tensor(one, requires_grad=True) for one in first]
    optimizer, reference = ours(params), theirs(copies)
    assert isinstance(reference, torch.optim.Optimizer)
    for _ in range(10):
        gradients = [random.standard_normal(one.shape).astype(np.float32) for one in first]
        for copy, gradient in zip(copies, gradients, strict=True):
            copy.grad = torch.tensor(gradient)
        assert optimizer.step(dict(zip(params, gradients, strict=True)))
        reference.step()
    for one, copy in zip(params, copies, strict=True):
        np.testing.assert_allclose(one.value, copy.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_the_scale_is_divided_out_and_the_common_norm_is_clipped() -> None:
    v, w = af.parameter(np.zeros(1)), af.parameter(np.zeros(1))
    optimizer = af.SGD([v, w], 1.0, loss_scale=8.0, clip_norm=1.0)
    optimizer.step([np.array([24.0]), np.array([32.0])])  # (3, 4), of norm 5
    np.testing.assert_allclose([v.value[0], w.value[0]], [-0.6, -0.8], rtol=1e-6)
    optimizer.step([np.array([2.4]), np.array([3.2])])  # (0.3, 0.4) is short enough
    np.testing.assert_allclose([v.value[0], w.value[0]], [-0.9, -1.2], rtol=1e-6)


def test_a_schedule_is_asked_for_steps_from_one() -> None:
    asked: list[int] = []

    def rate(step: int) -> float:
        asked.append(step)
        return 1.0 / step

    w = af.parameter(np.zeros(1))
    optimizer = af.SGD([w], rate)
    for _ in range(2):
        optimizer.step([np.array([1.0])])
    assert asked == [1, 2]
    assert w.value.tolist() == [-1.5]


def test_steps_that_are_not_finite_change_nothing_and_are_warned_of_now_and_then() -> None:
    w = af.parameter(np.ones(2))
    optimizer = af.Adam([w])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(101):
            assert not optimizer.step([np.array([1.0, np.inf])])
    assert [str(one.message).startswith("a gradient is non-finite") for one in caught] == [True, True]
    assert optimizer.steps == 0
    assert w.value.tolist() == [1.0, 1.0]
    assert not np.any(optimizer.kept)
    assert optimizer.step([np.array([1.0, 1.0])])
    assert optimizer.skipped == 0
    with pytest.warns(UserWarning, match=r"non-finite: the step is skipped \(1 in a row\)"):
        optimizer.step([np.array([np.nan, 1.0])])


W = af.parameter(np.ones(2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: af.SGD([], 0.1), GraphError, "there are no parameters"),
        (lambda: af.SGD(W, 0.1), GraphTypeError, "params must be a list"),  # pyright: ignore[reportArgumentType] - callers may be untyped
        (lambda: af.SGD([af.input((1, 2))], 0.1), GraphTypeError, r"params\[0\] must be a parameter"),  # pyright: ignore[reportArgumentType] - callers may be untyped
        (lambda: af.SGD([W, W], 0.1), GraphError, "listed twice"),
        (lambda: af.SGD([W], -0.1), GraphError, "lr must be 0 or more, and finite"),
        (lambda: af.SGD([W], "fast"), GraphTypeError, "lr must be a number"),  # pyright: ignore[reportArgumentType] - callers may be untyped
        (lambda: af.SGD([W], 0.1, 0), GraphError, "loss_scale must be a positive number"),
        (lambda: af.SGD([W], 0.1, "auto"), GraphTypeError, r"loss_scale must be a number \(got 'auto'\)"),  # pyright: ignore[reportArgumentType] - callers may be untyped
        (lambda: af.SGD([W], 0.1, momentum=1), GraphError, "momentum must be at least 0 and below 1"),
        (lambda: af.SGD([W], 0.1, weight_decay=-1), GraphError, "weight_decay must be 0 or more"),
        (lambda: af.SGD([W], 0.1, clip_norm=0), GraphError, "clip_norm must be a positive number"),
        (lambda: af.Adam([W], betas=0.9), GraphError, "betas must be two numbers"),  # pyright: ignore[reportArgumentType] - callers may be untyped
        (lambda: af.Adam([W], betas=(0.9, 1.0)), GraphError, r"betas\[1\] must be at least 0 and below 1"),
        (lambda: af.Adam([W], eps=0), GraphError, "eps must be a positive number"),
        (lambda: af.SGD([W], 0.1).step({}), GraphError, "every parameter needs a gradient"),
        (lambda: af.SGD([W], 0.1).step([np.ones(3)]), GraphError, r"gradient of params\[0\] must have its shape"),
        (lambda: af.SGD([W], lambda _: float("nan")).step([np.ones(2)]), GraphError, r"lr\(1\) must be 0 or more"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
