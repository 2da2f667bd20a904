"""Calls of the builder that look like misuse and are right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.graph.builder.conversion import cast
from builder_calls import attended, floats, image_tensor, tensor, untyped

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.graph.tensor import Tensor


RIGHT_CALLS: dict[str, tuple[Callable[[], Tensor], tuple[int, ...]]] = {
    "times a NumPy number": (lambda: tensor(2) * untyped(np.int64(2)), (2,)),
    "over a NumPy number": (lambda: tensor(2) / untyped(np.int64(2)), (2,)),
    "to a NumPy power": (lambda: tensor(2) ** untyped(np.int64(2)), (2,)),
    "maximum with a number": (lambda: af.maximum(tensor(2), 3), (2,)),
    "reshape by an array": (lambda: tensor(1, 4).reshape(untyped(np.array([2, 2]))), (2, 2)),
    "transpose by an array": (lambda: tensor(1, 4).transpose(untyped(np.array([1, 0]))), (4, 1)),
    "transpose by name": (lambda: tensor(1, 4).transpose(perm=[1, 0]), (4, 1)),
    "sum along a NumPy number": (lambda: tensor(1, 4).sum(untyped(np.int64(1))), (1, 1)),
    "squeeze a NumPy number": (lambda: tensor(1, 4).squeeze(untyped(np.int64(0))), (4,)),
    "gather by an array": (
        lambda: af.gather(tensor(1, 4), untyped(np.array([0, -1])), axis=untyped(np.int64(1))),
        (1, 2),
    ),
    "pad by a NumPy number": (
        lambda: af.conv(image_tensor(), floats(2, 4, 3, 3), pad=untyped(np.int64(1))),
        (1, 2, 8, 8),
    ),
    "shape by an array": (lambda: af.input(untyped(np.array([1, 4]))), (1, 4)),
    "shape of NumPy numbers": (lambda: af.input((untyped(np.int32(1)), untyped(np.uint8(4)))), (1, 4)),
    "a NumPy promise": (lambda: af.input((1,), max_abs=untyped(np.float32(3.0))), (1,)),
    "scale by a NumPy number": (lambda: af.image_input((1, 3, 2, 2), scale=untyped(np.float32(0.5))), (1, 3, 2, 2)),
    "scale by integers": (lambda: af.image_input((1, 3, 2, 2), scale=[1, 2, 3]), (1, 3, 2, 2)),
    "linear by name": (lambda: tensor(2, 3).linear(W=floats(4, 3), bias=floats(4)), (2, 4)),
    "stack by name": (lambda: tensor(2, 3, 4).bmm_weight(W=floats(2, 4, 5)), (2, 3, 5)),
    "crop by name": (lambda: af.crop(image_tensor(), t=1, b=0, l=2, r=0), (1, 4, 7, 6)),
    "longest cumsum": (lambda: tensor(1, 5792).cumsum(), (1, 5792)),
    "trained gamma with axes": (lambda: tensor(2, 4).rms_norm(tensor(1, 4)), (2, 4)),
    "clip above": (lambda: tensor(2).clip(-math.inf, 1.0), (2,)),
    "cast": (lambda: cast(af.input((2,), dtype="uint8"), "fp16"), (2,)),
}


@pytest.mark.parametrize("name", RIGHT_CALLS)
def test_numpy_values_and_documented_names(name: str) -> None:
    call, shape = RIGHT_CALLS[name]
    assert call().shape == shape


@pytest.mark.parametrize("length", [5, 900])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (-1, 1), (-1, -1), (2, -1, -1), (1, 1, -1, -1)])
def test_a_mask_is_an_array_or_a_tensor_for_short_and_long_sequences(length: int, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(5)
    drawn = [generator.standard_normal(part).astype(np.float16) for part in [(4, 4), (4,)] * 4]
    mask = generator.standard_normal([length if extent == -1 else extent for extent in shape]).astype(np.float16)
    values = generator.standard_normal((length, 4))
    constant = af.reference(af.mha(af.input((length, 4)), *drawn, n_heads=2, mask=mask), [values])["y"]
    fed = af.reference(af.mha(af.input((length, 4)), *drawn, n_heads=2, mask=tensor(*mask.shape)), [values, mask])["y"]
    np.testing.assert_allclose(constant, fed)


@pytest.mark.parametrize("length", [5, 600])
def test_attention_takes_an_array_as_mask(length: int) -> None:
    generator = np.random.default_rng(6)
    mask = generator.standard_normal((1, 1, length, length)).astype(np.float16)
    values = [generator.standard_normal((1, 2, length, 4)) for _ in range(3)]
    constant = af.reference(attended(length, mask), values)["y"]
    fed = af.reference(
        attended(length, tensor(*mask.shape)),
        {f"x{place + 1}": value for place, value in enumerate(values)} | {"x0": mask},
    )["y"]
    np.testing.assert_allclose(constant, fed)


def test_cast_changes_the_element_type() -> None:
    x = af.input((3,)).cast("int32")
    assert (x.op, x.dtype) == ("cast", "int32")
    assert af.reference(x, [np.array([1.75, -1.75, 0.0])])["y"].tolist() == [1, -1, 0]
