"""Other sizes, stacks and chips than those of the published figures: the program gives what the steps give one by one.

What is expected is put together from the golden functions by hand, so that a pass that took another route, or rounded
once more between two parts, would show.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine import golden, normalisation, reductions
from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.execution.run import run
from aneforge.targets import database, resolve
from published_tools import halves, input_of, output_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from published_tools import Array

CHIPS = list({chip.target: chip.name for chip in database().chips.values() if chip.name.startswith("M")}.values())
"""One chip for every target of a Mac."""
every_chip = pytest.mark.parametrize("chip", CHIPS)


def drawn(*shape: int, scale: float = 1.0) -> Array:
    return halves(np.random.default_rng(sum(shape)).standard_normal(shape) * scale)


def has_winograd(chip: str) -> bool:
    return resolve(f"soc:{chip}").datapath.get("winograd_on_width") is True


def conv3(chip: str, x: Array, w: Array, bias: Array | None = None) -> Array:
    """Return a 3×3 convolution in the form that the chip's data name."""
    wide = None if bias is None else bias.astype(np.float64)
    if has_winograd(chip):
        return halves(golden.winograd_convolution(x, w, wide))
    return halves(golden.convolution(x, w, wide, pad=1))


def linear(x: Array, w: Array, bias: Array | None = None) -> Array:
    return halves(golden.matmul(x, w.T, None if bias is None else bias.astype(np.float64)))


def check(chip: str, graph: af.Tensor, inputs: Sequence[Array], expected: Array) -> None:
    np.testing.assert_array_equal(output_on(chip, graph, *inputs), expected)


def test_the_target_of_every_mac_is_there() -> None:
    assert {resolve(f"soc:{chip}").name for chip in CHIPS} >= {
        *("h13", "h13g", "h14g", "h15", "h15g", "h16g", "h17", "h17s", "h18g"),
    }


@every_chip
@pytest.mark.parametrize(("batch", "channels", "height", "width"), [(1, 3, 5, 6), (3, 8, 1, 2), (2, 17, 4, 14)])
def test_convolution_relu_convolution(chip: str, batch: int, channels: int, height: int, width: int) -> None:
    x = drawn(batch, channels, height, width)
    first, second = drawn(8, channels, 3, 3, scale=0.3), drawn(5, 8, 3, 3, scale=0.2)
    graph = af.conv(af.conv(input_of(*x.shape), first, pad=1).relu(), second, pad=1)
    middle = np.maximum(conv3(chip, x, first), 0)
    check(chip, graph, [x], conv3(chip, middle, second))


@every_chip
def test_a_residual_block_with_biases(chip: str) -> None:
    x, w, bias = drawn(2, 6, 4, 8), drawn(6, 6, 3, 3, scale=0.2), drawn(6)
    source = input_of(*x.shape)
    graph = (af.conv(source, w, bias=bias, pad=1) + source).relu()
    total = golden.elementwise(conv3(chip, x, w, bias).astype(np.float64) + x)
    check(chip, graph, [x], halves(np.maximum(total, 0)))


@every_chip
@pytest.mark.parametrize(("rows", "inner", "hidden"), [(1, 7, 3), (5, 33, 65), (3, 520, 24), (130, 16, 16)])
def test_linear_gelu_linear(chip: str, rows: int, inner: int, hidden: int) -> None:
    x = drawn(rows, inner)
    up, down = drawn(hidden, inner, scale=inner**-0.5), drawn(inner, hidden, scale=hidden**-0.5)
    first, second = drawn(hidden, scale=0.1), drawn(inner, scale=0.1)
    graph = input_of(*x.shape).linear(up, first).gelu().linear(down, second)
    middle = halves(ACTIVATIONS["gelu"](linear(x, up, first).astype(np.float64)))
    check(chip, graph, [x], linear(middle, down, second))


@cache
def contraction(length: int) -> tuple[Array, Array, Array]:
    """Return operands and their product, the same for every chip."""
    x, w = drawn(8, length), drawn(9, length, scale=length**-0.5)
    return x, w, linear(x, w)


@every_chip
@pytest.mark.parametrize("length", [2, 255, 1025, 4097, 16384])
def test_one_sum_for_any_contraction(chip: str, length: int) -> None:
    """No length up to 16,384 is added in parts: the sum is rounded once, as the figures have it."""
    x, w, expected = contraction(length)
    check(chip, input_of(*x.shape).linear(w), [x], expected)
    check(chip, input_of(*x.shape) @ input_of(length, 9, name="w"), [x, np.ascontiguousarray(w.T)], expected)
    images = af.conv(input_of(8, length, 1, 1), w[:, :, None, None])
    check(chip, images, [x[:, :, None, None]], expected[:, :, None, None])


@cache
def sum_of_rounded_parts(length: int, parts: int) -> tuple[Array, Array, Array]:
    """Return operands and their product in parts, the same for every chip that cuts it into as many."""
    x, w = drawn(8, length), drawn(length, 9, scale=length**-0.5)
    cut = length // parts
    sums = [golden.matmul(x[:, start : start + cut], w[start : start + cut]) for start in range(0, length, cut)]
    return x, w, sums[0] if parts == 1 else golden.elementwise(sums[0] + sums[1])


@every_chip
def test_a_longer_contraction_is_a_sum_of_rounded_parts_where_no_tensor_is_as_long(chip: str) -> None:
    """No figure tells of it: the program notes it, and each part is rounded."""
    length = 16_386
    program = build_program(input_of(8, length) @ input_of(length, 9, name="w"), f"soc:{chip}")
    parts = sum(layer.kind.name == "matmul" for layer in program.layers)
    assert parts == (1 if resolve(f"soc:{chip}").limits.integer("max_tensor_dim") >= length else 2)
    assert any("rounded" in note.text for note in program.notes) == (parts > 1)
    x, w, expected = sum_of_rounded_parts(length, parts)
    (found,) = run(program, {"x": x, "w": w}).outputs.values()
    np.testing.assert_array_equal(found, expected)


@every_chip
@pytest.mark.parametrize("shape", [(20_000, 4), (3, 2, 4), (2, 3, 5, 4)])
def test_rows_and_batches_are_split_without_a_trace(chip: str, shape: tuple[int, ...]) -> None:
    x, w = drawn(*shape), drawn(3, 4)
    check(chip, input_of(*shape).linear(w), [x], linear(x, w))


@every_chip
def test_attention_in_parts(chip: str) -> None:
    q, k, v = (drawn(1, 2, 9, 16, scale=scale) for scale in (1.0, 0.9, 0.8))
    sources = [input_of(1, 2, 9, 16, name=name) for name in "qkv"]
    scores = sources[0] @ sources[1].transpose(0, 1, 3, 2)
    graph = (scores * 0.25).softmax(-1) @ sources[2]
    # A product and its gain are rounded together: 0.25 is a power of two, so that it makes no difference here.
    found = halves(golden.matmul(q, np.swapaxes(k, -1, -2)) * 0.25)
    adder = reductions.adder_of(resolve(f"soc:{chip}"))
    chances = halves(normalisation.softmax(found, -1, adder))
    check(chip, graph, [q, k, v], halves(golden.matmul(chances, v)))


@every_chip
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(1, 1, 0), (1, 2, 0), (3, 2, 1), (5, 1, 2), (7, 2, 3)])
def test_other_kernels_are_direct(chip: str, kernel: int, stride: int, pad: int) -> None:
    x, w = drawn(2, 5, 11, 12), drawn(4, 5, kernel, kernel, scale=0.2)
    graph = af.conv(input_of(*x.shape), w, stride=stride, pad=pad)
    check(chip, graph, [x], halves(golden.convolution(x, w, stride=stride, pad=pad)))


@every_chip
def test_depthwise_and_dilated_convolutions_are_direct(chip: str) -> None:
    x = drawn(1, 6, 9, 10)
    each, wide = drawn(6, 1, 3, 3), drawn(4, 6, 3, 3, scale=0.2)
    check(
        chip,
        af.conv(input_of(*x.shape), each, pad=1, groups=6),
        [x],
        halves(golden.convolution(x, each, pad=1, groups=6)),
    )
    graph = af.conv(input_of(*x.shape), wide, pad=2, dilation=2)
    check(chip, graph, [x], halves(golden.convolution(x, wide, pad=2, dilation=2)))
