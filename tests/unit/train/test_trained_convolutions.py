"""Parameters, and the convolution with a trained kernel, against torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Callable


def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_a_parameter_owns_a_copy_in_float32_and_gives_plain_tensors() -> None:
    first = np.ones((2, 3))
    w = af.parameter(first, name="w")
    first[:] = 5
    assert w.value.dtype == np.float32
    assert w.value.tolist() == np.ones((2, 3)).tolist()
    for made in (w + 1.0, 1.0 - w, w @ w.transpose(1, 0), w.reshape(3, 2), w.sum()):
        assert type(made) is af.Tensor
    assert list(af.Graph({"y": w.relu()}).inputs) == ["w"]


def test_rows_of_a_patch_matrix_are_channels_then_kernel_places() -> None:
    kernel = drawn(4, 2, 3, 5)
    w = af.conv_param(kernel)
    assert w.shape == (30, 4)
    assert w.value[1 * 15 + 2 * 5 + 3, 2] == kernel[2, 1, 2, 3]


@pytest.mark.parametrize(("shape", "pad"), [((4, 2, 3, 3), 1), ((3, 2, 1, 1), 0), ((1, 2, 2, 4), 0)])
def test_values_and_gradients_are_those_of_torch(shape: tuple[int, int, int, int], pad: int) -> None:
    images, kernel = drawn(2, 2, 6, 7), drawn(*shape)
    x, w = af.input((2, 2, 6, 7), name="x"), af.conv_param(kernel, name="w")
    y = af.conv2d(x, w, pad=pad)
    gradient = af.backward((y * y).sum((0, 1, 2, 3)), [w])[w]
    found = af.reference(af.Graph({"y": y, "g": gradient}), [images, w.value])
    weights = torch.tensor(kernel, dtype=torch.float64, requires_grad=True)
    wanted = torch.nn.functional.conv2d(torch.tensor(images, dtype=torch.float64), weights, padding=pad)
    (wanted * wanted).sum().backward()  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
    assert weights.grad is not None
    np.testing.assert_allclose(found["y"], wanted.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(found["g"], weights.grad.numpy().reshape(shape[0], -1).T, rtol=1e-5, atol=1e-4)


IMAGE = af.input((1, 2, 4, 4))
KERNEL = af.conv_param(np.ones((3, 2, 3, 3)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: af.parameter(np.array([1, 2])), GraphTypeError, "integers have no gradient"),
        (lambda: af.parameter("w"), GraphTypeError, "the first value is not an array"),
        (lambda: af.parameter(np.array([1.0, np.nan])), GraphError, r"must be finite in fp16 \(seen nan"),
        (lambda: af.parameter(np.array([1.0, 7e4])), GraphError, r"must be finite in fp16 \(seen 70000.0"),
        (lambda: af.conv_param(np.ones((3, 3))), GraphError, "must have four axes"),
        (lambda: af.conv2d(IMAGE, KERNEL, stride=2), NotSupportedError, "the stride of a trained kernel must be 1"),
        (lambda: af.conv2d(IMAGE, KERNEL, pad=-1), GraphError, "pad is too small"),
        (lambda: af.conv2d(af.input((1, 3, 4, 4)), KERNEL), GraphError, "the kernel's input channels"),
        (lambda: af.conv2d(af.input((1, 2, 2, 2)), KERNEL), GraphError, "must fit into the padded image"),
        (lambda: af.conv2d(IMAGE, af.parameter(np.ones((18, 3)))), GraphTypeError, "must come from af.conv_param"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
