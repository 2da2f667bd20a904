"""A stack of equal layers: gradients against torch, programs and compiles that do not grow with depth, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import aneforge as af
from aneforge import streaming
from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError
from compile_counts import count_compiles

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
ROWS, WIDTH = 4, 6


def layer(params: list[af.Tensor], x: af.Tensor) -> af.Tensor:
    first, second = params
    return x + (x @ first).tanh() @ second


def drawn(depth: int) -> list[list[Array]]:
    random = np.random.default_rng(depth)
    shapes = (WIDTH, 8), (8, WIDTH)
    return [[(random.standard_normal(shape) * 0.3).astype(np.float32) for shape in shapes] for _ in range(depth)]


def build(**options: Any) -> streaming.CheckpointedStack:  # noqa: ANN401 - passed on
    return streaming.CheckpointedStack(layer, drawn(1)[0], (ROWS, WIDTH), **{"target": "m1", **options})


def in_torch(layers: list[list[Array]], x: Array, g: Array) -> tuple[Array, list[list[Array]], Array]:
    params = [[torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in each] for each in layers]
    first = value = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    for one, other in params:
        value = value + torch.tanh(value @ one) @ other
    value.backward(torch.tensor(g, dtype=torch.float64))  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
    assert first.grad is not None
    gradients = [[one.grad.numpy() for one in each if one.grad is not None] for each in params]
    return value.detach().numpy(), gradients, first.grad.numpy()


@pytest.mark.parametrize("target", ["m1", "m4"])
def test_outputs_and_gradients_are_those_of_torch(target: str) -> None:
    random = np.random.default_rng(3)
    layers, x, g = drawn(3), random.standard_normal((ROWS, WIDTH)), random.standard_normal((ROWS, WIDTH))
    stack = build(target=target)
    y, inputs = stack.forward(layers, x)
    gradients, back = stack.backward(layers, inputs, g)
    wanted = in_torch(layers, x, g)
    np.testing.assert_allclose(y, wanted[0], atol=0.02)
    np.testing.assert_allclose(back, wanted[2], atol=0.02)
    for found, expected in zip(gradients, wanted[1], strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=0.03)


def test_programs_and_compiles_do_not_grow_with_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = count_compiles(monkeypatch)
    counts: list[tuple[int, int]] = []
    x = np.full((ROWS, WIDTH), 0.1)
    for depth in (4, 64):
        before, stack, layers = len(compiled), build(), drawn(depth)
        _, inputs = stack.forward(layers, x)
        gradients, _ = stack.backward(layers, inputs, x)
        assert (len(inputs), len(gradients)) == (depth, depth)
        assert sum(one.nbytes for one in inputs) == depth * ROWS * WIDTH * 2
        counts.append((len(compiled) - before, len(stack.programs)))
    assert counts == [(2, 2), (2, 2)]


def test_kernels_of_convolutions_are_parameters_of_a_layer() -> None:
    kernel = af.conv_param(np.full((2, 2, 3, 3), 0.05))

    def convolved(params: list[af.Tensor], x: af.Tensor) -> af.Tensor:
        return x + af.conv2d(x, params[0], pad=1).relu()

    with pytest.warns(af.errors.SliceSaturationWarning):
        stack = streaming.CheckpointedStack(convolved, [kernel], (1, 2, 4, 4), target="m1")
    y, inputs = stack.forward([[kernel], [kernel]], np.ones((1, 2, 4, 4)))
    gradients, _ = stack.backward([[kernel], [kernel]], inputs, np.ones((1, 2, 4, 4)))
    assert y.shape == (1, 2, 4, 4)
    assert gradients[0][0].shape == kernel.shape


STACK = build()
LAYERS = drawn(2)
X = np.zeros((ROWS, WIDTH))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: streaming.CheckpointedStack(lambda params, x: x @ params[0], [np.ones((6, 3))], (4, 6)),
            ValueError,
            r"the output of a layer must have io_shape \(got \[4, 3\], expected \[4, 6\]\)",
        ),
        (lambda: STACK.forward([], X), GraphTypeError, "layers must be a list"),
        (lambda: STACK.forward([LAYERS[0][:1]], X), GraphError, r"layers\[0\] must have the parameters"),
        (lambda: STACK.forward(LAYERS, X[:2]), GraphError, "x0 must have io_shape"),
        (lambda: STACK.forward(LAYERS, X * np.nan), GraphError, r"x0 must be finite in fp16 \(got nan at \[0, 0\]"),
        (
            lambda: STACK.forward([[one * np.inf for one in LAYERS[0]]], X),
            GraphError,
            r"layers\[0\]\[0\] must be finite",
        ),
        (lambda: STACK.backward(LAYERS, [X], X), GraphError, "one input for every layer"),
        (lambda: STACK.backward(LAYERS, [X, X], X[:1]), GraphError, "g must have io_shape"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_released_stack_is_refused() -> None:
    stack = build()
    stack.release()
    with pytest.raises(RuntimeStateError, match="released"):
        stack.forward(LAYERS, X)
