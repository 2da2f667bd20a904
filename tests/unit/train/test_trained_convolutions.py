"""Parameters, and the convolution with a trained kernel, against torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError

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


FORMS: list[tuple[tuple[int, int, int, int], dict[str, int]]] = [
    ((4, 2, 3, 3), {"pad": 1}),
    ((3, 2, 1, 1), {}),
    ((1, 2, 2, 4), {}),
    ((4, 2, 3, 3), {"stride": 2, "pad": 1}),
    ((3, 2, 1, 1), {"stride": 3}),
    ((3, 2, 3, 2), {"dilation": 2}),
    ((4, 1, 3, 3), {"groups": 2, "stride": 2}),
    ((2, 1, 2, 3), {"groups": 2, "dilation": 2, "stride": 2, "pad": 2}),
]


@pytest.mark.parametrize(("shape", "options"), FORMS)
def test_values_and_both_gradients_are_those_of_torch(
    shape: tuple[int, int, int, int], options: dict[str, int]
) -> None:
    images, kernel = drawn(2, 2, 6, 7), drawn(*shape)
    x, w = af.input((2, 2, 6, 7), name="x", max_abs=8), af.conv_param(kernel, name="w")
    y = af.conv2d(x, w, **options)
    back = af.backward((y * y).sum((0, 1, 2, 3)), [w, x])
    graph = af.Graph({"y": y, "w": back[w], "x": back[x]})
    wide = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in (images, kernel)]
    stride, pad = options.get("stride", 1), options.get("pad", 0)
    dilation, groups = options.get("dilation", 1), options.get("groups", 1)
    wanted = torch.nn.functional.conv2d(wide[0], wide[1], stride=stride, padding=pad, dilation=dilation, groups=groups)
    (wanted * wanted).sum().backward()  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
    gradients = [one.grad for one in wide]
    assert gradients[0] is not None
    assert gradients[1] is not None
    expected = {
        "y": wanted.detach().numpy(),
        "x": gradients[0].numpy(),
        "w": gradients[1].numpy().reshape(shape[0], -1).T,
    }
    found = af.reference(graph, [images, w.value])
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-4, err_msg=name)
    on_engine = af.compile_multi(graph, target="m1")(images, w.value)
    for name, values in expected.items():
        np.testing.assert_allclose(on_engine[name], values, atol=4e-3 * np.abs(values).max(), err_msg=name)


IMAGE = af.input((1, 2, 4, 4))
KERNEL = af.conv_param(np.ones((3, 2, 3, 3)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: af.parameter(np.array([1, 2])), GraphTypeError, "integers have no gradient"),
        (lambda: af.parameter("w"), GraphTypeError, "the first value is not an array"),
        (lambda: af.parameter(np.array([1.0, np.nan])), GraphError, r"must be finite in fp16 \(got nan"),
        (lambda: af.parameter(np.array([1.0, 7e4])), GraphError, r"must be finite in fp16 \(got 70000.0"),
        (lambda: af.conv_param(np.ones((3, 3))), GraphError, "must have four axes"),
        (lambda: af.conv2d(IMAGE, KERNEL, stride=0), GraphError, "stride is too small"),
        (lambda: af.conv2d(IMAGE, KERNEL, dilation=2), GraphError, r"must fit into the padded image \(got \[5, 5\]"),
        (lambda: af.conv2d(IMAGE, KERNEL, groups=2), GraphError, r"channels, times the groups \(got 2, limit 4\)"),
        (lambda: af.conv2d(af.input((1, 4, 4, 4)), KERNEL, groups=2), GraphError, "a multiple of the groups"),
        (lambda: af.conv2d(IMAGE, KERNEL, pad=-1), GraphError, "pad is too small"),
        (lambda: af.conv2d(af.input((1, 3, 4, 4)), KERNEL), GraphError, "the kernel's input channels"),
        (lambda: af.conv2d(af.input((1, 2, 2, 2)), KERNEL), GraphError, "must fit into the padded image"),
        (lambda: af.conv2d(IMAGE, af.parameter(np.ones((18, 3)))), GraphTypeError, "must come from af.conv_param"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
