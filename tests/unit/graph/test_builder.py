"""The builder's functions: what they build, and that misuse is answered with one clear error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import AneforgeError, GraphError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


def run(tensor: af.Tensor, *values: object) -> Array:
    return af.reference(tensor, [np.asarray(value) for value in values])["y"]


def image(*shape: int) -> af.Tensor:
    return af.input(shape)


def attention(length: int, *, is_causal: bool = False, attn_mask: af.Tensor | None = None) -> af.Tensor:
    q, k, v = (image(1, 2, length, 4) for _ in range(3))
    return af.sdpa(q, k, v, is_causal=is_causal, attn_mask=attn_mask)


MISUSES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: af.input((1,) * 6), ValueError, "too many axes .got 6, limit 5"),
    (lambda: af.input((1, 0)), ValueError, "an empty axis"),
    (lambda: af.input((1,), dtype="fp32"), ValueError, "expected fp16 or uint8"),
    (lambda: af.input((1,), max_abs=-1.0), ValueError, "max_abs must be 0 or more"),
    (lambda: af.input((1,), max_abs=float("nan")), ValueError, "max_abs must be 0 or more"),
    (lambda: af.image_input((1, 3, 2, 2), scale=[1.0, 2.0]), ValueError, "scale does not have one number per channel"),
    (lambda: image(2, 3) + image(4, 5), ValueError, "do not broadcast"),
    (lambda: image(2, 3) + "text", TypeError, "neither a tensor, a number nor an array"),
    (lambda: image(2, 3) + np.ones(3, np.int32), TypeError, "not an array of floating-point numbers"),
    (lambda: image(2, 3).greater(1.0), TypeError, "a comparison takes a tensor"),  # pyright: ignore[reportArgumentType] - misuse
    (lambda: image(2, 3) @ np.ones((4, 5), np.float32), ValueError, "matmul"),
    (lambda: image(2, 3) @ np.ones(3, np.float32), ValueError, "not two-dimensional"),
    (lambda: image(2, 3) @ image(4, 5), ValueError, "bmm"),
    (lambda: image(2, 3).linear(np.ones((4, 5), np.float16)), ValueError, "linear"),
    (lambda: image(2, 3).linear(np.ones((4, 3), np.int8)), TypeError, "floating-point"),
    (lambda: image(2, 3).reshape(4, 2), ValueError, "reshape"),
    (lambda: image(1, 1, 1).reshape(1, 1, 1, 1, 1, 1), ValueError, "too many axes"),
    (lambda: image(2, 3).transpose(0, 0), ValueError, "transpose"),
    (lambda: image(2, 3).softmax(axis=5), ValueError, "axis is not an axis"),
    (lambda: image(2, 3).sum(axis=2), ValueError, "axes is not an axis"),
    (lambda: image(2, 3, 4).layer_norm(np.ones(4), np.zeros(4)), ValueError, r"not a matrix \[M, D\]"),
    (lambda: image(2, 3, 4).rms_norm(np.ones(4)), ValueError, r"not a matrix \[M, D\]"),
    (lambda: image(2, 3).layer_norm(image(3), np.zeros(3)), TypeError, "both be tensors or both be arrays"),
    (lambda: image(2, 3).cumsum(0), ValueError, "only along the last axis"),
    (lambda: image(2, 3).prelu(np.ones(3)), ValueError, "prelu"),
    (lambda: image(2, 3).clip(2.0, 1.0), ValueError, "clip"),
    (lambda: image(1, 3, 8, 8).group_norm(np.ones(3), np.zeros(3), num_groups=2), ValueError, "divisible"),
    (lambda: image(1, 3, 8, 8).max_pool(9), ValueError, "window is longer"),
    (
        lambda: af.conv(image(1, 3, 8, 8), np.ones((4, 3, 3, 16), np.float16)),
        ValueError,
        "kernel is too wide .got 16, limit 15",
    ),
    (lambda: af.conv(image(1, 3, 8, 8), np.ones((4, 2, 3, 3), np.float16)), ValueError, "conv"),
    (lambda: af.conv(image(1, 3, 8, 8), np.ones((4, 3, 9, 9), np.float16)), ValueError, "conv"),
    (lambda: af.conv(image(3, 8, 8), np.ones((4, 3, 3, 3), np.float16)), ValueError, r"images \[N, C, H, W\]"),
    (lambda: af.conv(image(1, 3, 8, 8), np.ones((4, 3, 3, 3), np.float16), pad=(1, 2)), ValueError, "top, bottom"),
    (lambda: af.dynamic_conv(image(1, 3, 8, 8), np.ones((4, 3, 3, 3))), TypeError, "the weight is not a tensor"),  # pyright: ignore[reportArgumentType] - misuse
    (lambda: af.dynamic_conv(image(2, 3, 8, 8), image(4, 3, 3, 3)), ValueError, "the batch is not 1"),
    (lambda: af.batch_norm(image(2, 3), np.ones(3), np.ones(3), np.ones(3), np.ones(3)), ValueError, "batch_norm"),
    (lambda: af.instance_norm(image(2, 3)), ValueError, "not an image"),
    (lambda: af.concat([]), ValueError, "there are no tensors"),
    (lambda: af.concat([image(1, 2), image(1, 3)], axis=0), ValueError, "concat"),
    (lambda: af.concat([image(1, 2), 3]), TypeError, "value 1 is not a tensor"),  # pyright: ignore[reportArgumentType] - misuse
    (lambda: af.split(image(5, 2), 2), ValueError, "split"),
    (lambda: af.gather(image(5, 2), [7]), ValueError, "an index is out of range .got 7, limit -5 to 4"),
    (lambda: af.gather(image(5, 2), []), ValueError, "there are no indices"),
    (lambda: af.maximum(1.0, 2.0), TypeError, "neither operand is a tensor"),
    (lambda: af.pixel_shuffle(image(1, 3, 2, 2), 2), ValueError, "pixel_shuffle"),
    (lambda: af.space_to_depth(image(1, 3, 3, 3), 2), ValueError, "space_to_depth"),
    (lambda: af.crop(image(1, 3, 4, 4), 2, 2, 0, 0), ValueError, "crop"),
    (lambda: af.topk(image(1, 8), 3), ValueError, "no engine compiles topk"),
    (lambda: af.sdpa(image(1, 2, 8, 4), image(1, 2, 8, 4), image(2, 8, 4)), ValueError, r"v is not \[1, heads, S, D\]"),
    (lambda: attention(8, is_causal=True, attn_mask=image(1, 1, 8, 8)), ValueError, "given together"),
    (lambda: attention(8, attn_mask=image(1, 1, 8, 9)), ValueError, "mask has the wrong shape"),
    (lambda: attention(600, is_causal=True), NotImplementedError, "only a native form"),
    (
        lambda: af.mha(image(8, 6), *[np.ones((6, 6), np.float16), np.ones(6, np.float16)] * 4, n_heads=4),
        ValueError,
        "not divisible by the heads",
    ),
]


@pytest.mark.parametrize(("misuse", "error", "message"), MISUSES)
def test_misuse(misuse: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        misuse()
    assert isinstance(caught.value, AneforgeError)
    assert "test_builder.py" in str(caught.value), "the user's place"


def test_reshape_counts_elements() -> None:
    with pytest.raises(GraphError, match=r"6.*8|8.*6"):
        image(2, 3).reshape(4, 2)


def test_arithmetic_with_numbers_and_arrays() -> None:
    x = af.input((2,))
    values = np.array([1.0, -2.0])
    cases = {
        "2 * x": (2 * x, 2 * values),
        "x / 4": (x / 4, values / 4),
        "1 - x": (1 - x, 1 - values),
        "1 / x": (1 / x, 1 / values),
        "array - x": (np.array([3.0, 5.0]) - x, np.array([3.0, 5.0]) - values),
        "-x": (-x, -values),
        "x ** 2": (x**2, values**2),
    }
    for name, (tensor, expected) in cases.items():
        np.testing.assert_allclose(run(tensor, values), expected, err_msg=name)


def test_numbers_become_scalar_operations_and_arrays_constants() -> None:
    x = af.input((2,))
    assert ((x * 3).op, (x + 1).op, (x - 1).op, (x * np.ones(2)).op) == ("muls", "adds", "adds", "mul")


def test_products() -> None:
    x, matrix = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5)).astype(np.float16)
    np.testing.assert_allclose(run(af.input((3, 4)) @ matrix, x), x @ matrix)
    weights, bias = RNG.standard_normal((5, 4)).astype(np.float16), RNG.standard_normal(5).astype(np.float16)
    np.testing.assert_allclose(run(af.input((3, 4)).linear(weights, bias), x), x @ weights.T + bias.astype(np.float64))


def test_image_input_scales_pixels() -> None:
    pixels = RNG.integers(0, 256, (1, 3, 2, 2)).astype(np.uint8)
    plain = af.image_input((1, 3, 2, 2), scale=1.0)
    assert plain.op == "cast"
    scaled = af.image_input((1, 3, 2, 2), scale=[0.5, 1.0, 2.0], bias=0.25)
    expected = pixels * np.array([0.5, 1.0, 2.0]).reshape(1, 3, 1, 1) + 0.25
    np.testing.assert_allclose(run(scaled, pixels), expected)


def test_cumsum_is_a_product_with_a_triangle() -> None:
    x = RNG.standard_normal((2, 5))
    tensor = af.input((2, 5)).cumsum()
    assert tensor.op == "matmul"
    np.testing.assert_allclose(run(tensor, x), np.cumsum(x, -1))


@pytest.mark.parametrize(("axis", "indices"), [(0, [2, 0]), (1, [0, 1, 2]), (2, [3, 1]), (-1, [-1]), (2, [0, 1, 1])])
def test_gather_is_slices_joined(axis: int, indices: list[int]) -> None:
    x = RNG.standard_normal((3, 4, 5))
    tensor = af.gather(af.input((3, 4, 5)), indices, axis=axis)
    np.testing.assert_allclose(run(tensor, x), np.take(x, indices, axis))
    slices = [node for node in af.Graph({"y": tensor}).nodes if node.op.name == "slice_by_size"]
    assert all(str(node.attributes["begin"]).endswith("0)") for node in slices), "no slice begins inside the width"


def attention_by_numpy(q: Array, k: Array, v: Array, mask: Array | float = 0.0) -> Array:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("length", [16, 600])
def test_attention_means_the_same_short_and_long(length: int) -> None:
    q, k, v = (RNG.standard_normal((1, 2, length, 4)) for _ in range(3))
    mask = RNG.standard_normal((1, 1, length, length))
    query, key, value = (af.input((1, 2, length, 4)) for _ in range(3))
    tensor = af.sdpa(query, key, value, attn_mask=af.input((1, 1, length, length)))
    assert tensor.op == "sdpa"
    np.testing.assert_allclose(run(tensor, q, k, v, mask), attention_by_numpy(q, k, v, mask), rtol=1e-9)


def test_mha_and_cross_attention() -> None:
    drawn = [RNG.standard_normal(shape).astype(np.float16) for shape in [(6, 6), (6,)] * 4]
    x, context = RNG.standard_normal((5, 6)), RNG.standard_normal((7, 6))
    wq, bq, wk, bk, wv, bv, wo, bo = (one.astype(np.float64) for one in drawn)

    def heads(values: Array) -> Array:
        return values.reshape(len(values), 2, 3).transpose(1, 0, 2)

    for source in (x, context):
        q, k, v = heads(x @ wq.T + bq), heads(source @ wk.T + bk), heads(source @ wv.T + bv)
        expected = attention_by_numpy(q, k, v).transpose(1, 0, 2).reshape(5, 6) @ wo.T + bo
        if source is x:
            result = run(af.mha(af.input((5, 6)), *drawn, n_heads=2), x)
        else:
            result = run(af.cross_attention(af.input((5, 6)), af.input((7, 6)), *drawn, n_heads=2), x, context)
        np.testing.assert_allclose(result, expected, rtol=1e-9)


def test_geglu() -> None:
    weights, bias = RNG.standard_normal((8, 3)).astype(np.float16), RNG.standard_normal(8).astype(np.float16)
    x = RNG.standard_normal((2, 3))
    value, gate = np.split(x @ weights.T.astype(np.float64) + bias, 2, -1)
    from scipy.special import ndtr  # noqa: PLC0415 - needed here alone

    np.testing.assert_allclose(run(af.geglu(af.input((2, 3)), weights, bias), x), value * gate * ndtr(gate), rtol=1e-9)


def test_norms_with_trainable_parameters_are_a_unit_norm_and_arithmetic() -> None:
    x, gamma, beta = af.input((2, 3)), af.input((3,)), af.input((3,))
    tensor = x.layer_norm(gamma, beta)
    assert tensor.op == "add"
    values = RNG.standard_normal((2, 3))
    scale, shift = RNG.standard_normal(3), RNG.standard_normal(3)
    unit = (values - values.mean(-1, keepdims=True)) / np.sqrt(values.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(tensor, values, scale, shift), unit * scale + shift, rtol=1e-9)


def test_not_supported_is_not_implemented() -> None:
    assert issubclass(NotSupportedError, NotImplementedError)


def test_a_tensor_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="no boolean value while the graph is built"):
        bool(af.input((1,)).greater(af.input((1,))))


def test_a_weight_without_an_fp16_is_warned_of() -> None:
    with pytest.warns(af.PrecisionWarning, match=r"test_builder\.py:\d+: 1 values such as -1e\+09 do not fit in fp16"):
        masked = af.input((1, 2)) + np.array([[0.0, -1e9]])
    assert af.reference(masked, [np.zeros((1, 2))])["y"].tolist() == [[0.0, -np.inf]]


def test_the_reference_refuses_what_no_memory_holds() -> None:
    wide = af.input((40_000, 1)) + af.input((1, 40_000))
    with pytest.raises(GraphError, match="too large to be evaluated"):
        af.reference(wide, [np.zeros((40_000, 1)), np.zeros((1, 40_000))])
