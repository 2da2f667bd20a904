"""The convolutional network for small images: its norm against torch, its first values, and a step on the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_norm_and_its_gradients_are_those_of_torch() -> None:
    random = np.random.default_rng(0)
    images = random.standard_normal((3, 4, 5, 5))
    gain, offset = random.standard_normal((1, 4, 1, 1)), random.standard_normal((1, 4, 1, 1))
    x, gamma, beta = af.parameter(images), af.parameter(gain), af.parameter(offset)
    y = af.group_norm_train(x, gamma, beta, groups=2)
    back = af.backward((y * y * y).sum((0, 1, 2, 3)), [x, gamma, beta])
    graph = af.Graph({"y": y, "x": back[x], "gamma": back[gamma], "beta": back[beta]})
    found = af.reference(graph, [x.value, gamma.value, beta.value])
    leaves = [torch.tensor(one.value.astype(np.float64), requires_grad=True) for one in (x, gamma, beta)]
    wanted = torch.nn.functional.group_norm(leaves[0], 2, leaves[1].reshape(4), leaves[2].reshape(4))
    gradients = torch.autograd.grad((wanted**3).sum(), leaves)
    np.testing.assert_allclose(found["y"], wanted.detach().numpy(), atol=1e-4)
    for name, gradient in zip(("x", "gamma", "beta"), gradients, strict=True):
        np.testing.assert_allclose(found[name], gradient.numpy(), rtol=1e-3, atol=1e-2)


@pytest.mark.filterwarnings("ignore::aneforge.errors.PrecisionWarning")  # sums over the image, in fp16
def test_the_network_is_the_documented_one_and_trains() -> None:
    x, logits, params = af.cifar_cnn(2, widths=(4, 4, 8), groups=2, classes=3)
    assert [one.shape for one in params[:4]] == [(27, 4), (1, 4, 1, 1), (1, 4, 1, 1), (36, 4)]
    assert [one.shape for one in params[-2:]] == [(8, 3), (1, 3)]
    first = np.random.default_rng(0).standard_normal((4, 3, 3, 3)) * np.sqrt(2 / 27)
    np.testing.assert_allclose(params[0].value, first.reshape(4, 27).T, rtol=1e-6)
    t = af.input((2, 3))
    data = {x: np.random.default_rng(1).standard_normal((2, 3, 32, 32)), t: np.eye(3)[[0, 2]]}
    objective = af.softmax_cross_entropy(logits, t)
    trainer = af.Trainer(objective, params, lr=0.02, optimizer="adam", loss_scale=128, data_inputs=data, target="m4")
    losses = [trainer.step() for _ in range(4)]
    assert losses[-1] < losses[0]


X, GAMMA = af.input((1, 4, 2, 2)), af.parameter(np.ones((1, 4, 1, 1)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: af.group_norm_train(X, GAMMA, GAMMA, 3), GraphError, "must be a multiple of the groups"),
        (lambda: af.group_norm_train(X, X, GAMMA, 2), GraphError, "gamma must have one number per channel"),
        (
            lambda: af.group_norm_train(X, GAMMA, np.ones(4), 2),  # pyright: ignore[reportArgumentType] - callers may be untyped
            GraphTypeError,
            "beta must be a tensor, so that it trains",
        ),
        (lambda: af.cifar_cnn(2, widths=(8, 8)), GraphError, "there must be three widths"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
