"""Misuse of the builder, case by case: what replacing arguments by everything that they are not leaves open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph import special
from builder_calls import attended, floats, image_tensor, one_error, tensor, truths, untyped

if TYPE_CHECKING:
    from collections.abc import Callable


class Word(str):
    """A text whose representation is long."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "word" * 1000


CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    # operands
    "none": (lambda: tensor(2) + None, TypeError, r"^add .*neither a tensor, a number nor an array \(got None"),
    "true": (lambda: tensor(2) * True, TypeError, "^mul"),
    "left": (lambda: "a" - tensor(2), TypeError, "^sub"),
    "list of integers": (lambda: tensor(2) - [1, 2], TypeError, "^sub .*got an array of int64 of shape"),
    "maximum of integers": (lambda: af.maximum(tensor(2), np.array([1, 2])), TypeError, "^maximum"),
    "select of integers": (lambda: af.select(truths(), np.ones(4, int), 0.0), TypeError, "^select"),
    "huge": (lambda: tensor(2) * 10**400, ValueError, "too large for a floating-point number"),
    "huge divisor": (lambda: tensor(2) / 10**400, ValueError, "^real_div .*too large for a floating-point number"),
    "ragged": (lambda: tensor(2) - [[1.0], [2.0, 3.0]], TypeError, "^sub .*inhomogeneous"),
    "left matrix": (lambda: floats(3, 2) @ tensor(2, 4), TypeError, "left-hand matrix is not a tensor"),
    "empty matrix": (lambda: tensor(1, 4) @ np.zeros((4, 0)), ValueError, r"shape \[1, 0\] has an empty axis"),
    "no output channels": (lambda: af.conv(image_tensor(), floats(0, 4, 1, 1)), ValueError, "empty axis"),
    "empty slice": (lambda: tensor(4).slice_by_size([0], [0]), ValueError, "empty"),
    # gather
    "floats": (
        lambda: af.gather(tensor(4), untyped([1.0])),
        TypeError,
        r"^gather .*indices\[0\] is not an integer",
    ),
    "gather axis": (lambda: af.gather(tensor(4), [1], axis=9), ValueError, "^gather .*axis is not an axis .*got 9"),
    "gather of a number": (lambda: af.gather(tensor(), [0]), ValueError, "^gather .*rank 0"),
    "many indices": (lambda: af.gather(tensor(9), range(10**6)), ValueError, "too many entries"),
    "many parts": (lambda: af.split(tensor(10**9), 10**9), ValueError, "n is too large .*at most 65536"),
    # pooling, convolution
    "no stride": (lambda: image_tensor().max_pool(2, stride=0), ValueError, "stride is too small"),
    "stride false": (lambda: image_tensor().avg_pool(2, stride=False), TypeError, "stride is not an integer"),
    "no window": (lambda: image_tensor().max_pool(0), ValueError, "k is too small .got 0, expected at least 1"),
    "pool of a matrix": (lambda: tensor(2, 4).max_pool(2), ValueError, "not an image"),
    "pad": (lambda: af.conv(image_tensor(), floats(2, 4, 1, 1), pad=-1), ValueError, "^conv .*pad is too small"),
    "tensor weight": (lambda: af.conv(image_tensor(), tensor(2, 4, 1, 1)), TypeError, "Remedy: use dynamic_conv"),
    # norms
    "two images": (lambda: tensor(2, 4, 8, 8).group_norm(floats(4), floats(4), 2), ValueError, r"\[1, C, H, W\]"),
    "large image": (
        lambda: tensor(1, 4, 257, 256).group_norm(floats(4), floats(4), 2),
        ValueError,
        "a group is too large.*65792 pixels, expected at most 65536",
    ),
    "group norm of a list": (lambda: tensor(4).group_norm(floats(4), floats(4), 2), ValueError, "^group_norm"),
    "channel norm of a list": (lambda: tensor(4).channel_layer_norm(floats(4), floats(4)), ValueError, "N, C, 1, S"),
    "trained gamma": (lambda: tensor(2, 4).rms_norm(tensor(2)), ValueError, r"^rms_norm .*got \[2\], expected \[4\]"),
    "trained gamma of another shape": (
        lambda: tensor(2, 4).layer_norm(tensor(2, 2), tensor(4)),
        ValueError,
        r"^layer_norm .*gamma does not have one number per channel \(got \[2, 2\]",
    ),
    # layers
    "many chosen": (lambda: af.fps(tensor(2000, 3), 1025), ValueError, "k is too large .*at most 1024"),
    "many points": (lambda: af.fps(tensor(8193, 3), 8), ValueError, "too many points .got 8193, limit 8192"),
    "several k": (lambda: af.topk(tensor(1, 8), np.array([1, 2])), TypeError, "k is not an integer"),  # pyright: ignore[reportArgumentType] - misuse
    "mode": (lambda: af.scaled_elementwise(tensor(1), tensor(1), "Foo"), ValueError, "expected Add, Mult, Min, Max"),
    "blocks": (lambda: af.space_to_batch(image_tensor(), 2), TypeError, "block is not a list of integers"),  # pyright: ignore[reportArgumentType] - misuse
    # shapes
    "cumsum of a number": (lambda: tensor().cumsum(), ValueError, "^cumsum .*rank 0"),
    "long cumsum": (lambda: tensor(1, 60000).cumsum(), ValueError, "triangle .*6866 MiB.*Remedy: split the axis"),
    "long diagonal": (lambda: af.einsum("aa->a", tensor(6000, 6000)), ValueError, "^einsum .*mask of a diagonal"),
    "long trained norm": (
        lambda: tensor(1, 10**9).rms_norm(tensor(10**9)),
        ValueError,
        "^rms_norm .*a parameter would take",
    ),
    "reshape text": (lambda: tensor(1).reshape(""), TypeError, "shape is not a list of integers .got ''"),  # pyright: ignore[reportArgumentType] - misuse
    "reshape mixed": (lambda: tensor(6).reshape(2, [3]), TypeError, r"shape\[1\] is not an integer"),
    "transpose twice": (lambda: tensor(2, 3).transpose(1, 0, perm=[1, 0]), TypeError, "given twice"),
    "no axis to sum": (lambda: tensor(2, 3).sum(()), ValueError, "names no axis"),
    "clip": (lambda: tensor(2).clamp(2.0, math.nan), ValueError, "^clamp .*lo must be at most hi"),
    "linear with a tensor": (lambda: tensor(2, 3).linear(tensor(4, 3)), TypeError, "linear takes constant .*use x @ W"),
    "cast": (lambda: tensor(2).cast("float"), ValueError, "^cast .*'float'"),
    # inputs
    "shape 5": (lambda: af.input(5), TypeError, "^input .*shape is not a list of integers .got 5"),  # pyright: ignore[reportArgumentType] - misuse
    "shape nan": (lambda: af.input((math.nan,)), TypeError, r"shape\[0\] is not an integer .got nan"),  # pyright: ignore[reportArgumentType] - misuse
    "state of text": (lambda: af.state("s", "ab"), TypeError, "^state .*shape is not a list"),  # pyright: ignore[reportArgumentType] - misuse
    "nameless state": (lambda: af.state("", (1,)), ValueError, "^state .*name is empty"),
    "promise": (
        lambda: af.input((1,), max_abs=math.inf),
        ValueError,
        "max_abs must be 0 or more, and finite .got inf",
    ),
    "promise of text": (lambda: af.input((1,), max_abs="3"), TypeError, "max_abs is not a number .got '3'"),  # pyright: ignore[reportArgumentType] - misuse
    "image scale": (lambda: af.image_input((1, 3, 2, 2), scale=[1.0, 1.0]), ValueError, "one number per channel"),
    "image bias": (
        lambda: af.image_input((1, 3, 2, 2), bias=math.nan),
        ValueError,
        "^image_input .*bias is not finite",
    ),
    "image shape": (lambda: af.image_input((1, 0)), ValueError, r"^image_input \(input\) .*empty axis"),
    # attention
    "heads": (
        lambda: af.mha(tensor(5, 4), *[floats(4, 4), floats(4)] * 4, n_heads=3),
        ValueError,
        r"^mha \(heads\) .*not divisible by the heads",
    ),
    "three axes": (
        lambda: af.mha(tensor(1, 5, 4), *[floats(4, 4), floats(4)] * 4, n_heads=2),
        ValueError,
        r"^mha .*x is not a sequence \[S, D\]",
    ),
    "wrong weight": (
        lambda: af.mha(tensor(5, 4), *[floats(4, 3), floats(4)] * 4, n_heads=2),
        ValueError,
        r"^mha \(linear\)",
    ),
    "mask": (
        lambda: af.mha(tensor(5, 4), *[floats(4, 4), floats(4)] * 4, n_heads=2, mask=floats(4, 4)),
        ValueError,
        r"^mha .*mask does not broadcast to the scores \(got \[4, 4\], expected \[5, 5\], or",
    ),
    "mask of bool": (
        lambda: attended(1, truths()),
        TypeError,
        r"where\(mask, 0.0, -65504.0\)",
    ),
    "array mask of the wrong shape": (
        lambda: attended(600, floats(600, 600)),
        ValueError,
        r"^sdpa .*wrong shape \(got \[600, 600\], expected \[1, 1, 600, 600\]",
    ),
    "endless sequence": (
        lambda: af.mha(tensor(10**9, 4), *[floats(4, 4), floats(4)] * 4, n_heads=2),
        ValueError,
        r"^mha \(sdpa\) .*too long",
    ),
    "einsum number": (lambda: af.einsum(5, tensor(2)), TypeError, "the equation is not a text"),  # pyright: ignore[reportArgumentType] - misuse
    "special of integers": (lambda: special.sin(tensor(2).cast("int32")), ValueError, "^special.sin"),
}


@pytest.mark.parametrize("name", CASES)
def test_misuse(name: str) -> None:
    call, sort, message = CASES[name]
    error = one_error(call)
    assert isinstance(error, sort)
    with pytest.raises(GraphError, match=message):
        raise error


def test_a_long_value_is_shown_short() -> None:
    assert len(str(one_error(lambda: tensor(2) + Word("a")))) < 300
    assert "16610 bits" in str(one_error(lambda: tensor(2).reshape(10**5000)))


def test_a_wrong_sort_is_a_type_error() -> None:
    assert isinstance(one_error(lambda: tensor(2).softmax(1.0)), GraphTypeError)  # pyright: ignore[reportArgumentType] - misuse
