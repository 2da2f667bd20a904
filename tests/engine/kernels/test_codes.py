"""Weights in codes: what the kernels decode has the bits of `dense()`, and products of it those of the golden model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.passes.constant_parts import constant_part
from aneforge.engine import golden
from aneforge.engine.kernels.codes import Coded, parts_of
from aneforge.engine.kernels.library import using
from aneforge.engine.kernels.matmul import matmul, matmul_total
from aneforge.engine.kernels.prepared import PLAIN, After, ready_convolution, ready_matmul
from aneforge.ops.constant import PALETTE_BITS, Blockwise, Folded, Int8Affine, Palette
from kernel_checks import SPECIAL, assert_same_bits, biases, needs_kernels, on_every_path, tensors

if TYPE_CHECKING:
    from aneforge.ops.constant import Constant

Array = npt.NDArray[Any]
LENGTH = st.one_of(st.integers(1, 20), st.integers(1, 130))
SCALES = ["ordinary", "subnormal", "negative", "any bits", "special"]
BYTES = [np.int8, np.uint8]
FOURS = [ml_dtypes.int4, ml_dtypes.uint4]


def draw_scale(draw: st.DrawFn, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    match draw(st.sampled_from(SCALES)):
        case "ordinary":
            return generator.uniform(0.001, 0.05, shape).astype(np.float16)
        case "subnormal":
            return generator.integers(0, 1024, shape).astype(np.uint16).view(np.float16)
        case "negative":
            return -generator.uniform(0.0, 600.0, shape).astype(np.float16)
        case "any bits":
            return generator.integers(0, 0x7C00, shape).astype(np.uint16).view(np.float16)
        case _:
            return generator.choice(SPECIAL, shape).view(np.float16)


def draw_shift(draw: st.DrawFn, generator: np.random.Generator, shape: tuple[int, ...]) -> Array | None:
    match draw(st.sampled_from(["none", "int8", "uint8", "whole", "any"])):
        case "none":
            return None
        case "int8":
            return generator.integers(-128, 128, shape).astype(np.int8)
        case "uint8":
            return generator.integers(0, 256, shape).astype(np.uint8)
        case "whole":
            return generator.integers(-1024, 1025, shape).astype(np.float16)
        case _:
            return generator.choice([0.5, 1025, 70000, np.inf, np.nan, 3], shape).astype(np.float32)


@st.composite
def constants(draw: st.DrawFn, shape: tuple[int, ...]) -> Constant:
    """Draw weights of a shape in an encoding, all codes likely, in which bytes of four bits may have any other bits."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = generator.integers(0, 256, shape).astype(np.uint8)
    match draw(st.sampled_from(["affine", "blocks", "palette"])):
        case "affine":
            axis = draw(st.integers(0, len(shape) - 1))
            sizes = [draw(st.sampled_from([1, shape[axis]])) for _ in range(2)]
            scale, zero = draw_scale(draw, generator, (sizes[0],)), draw_shift(draw, generator, (sizes[1],))
            return Int8Affine(codes.view(draw(st.sampled_from(BYTES))), scale, zero, axis)
        case "blocks":
            blocks = tuple(
                draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0])) for extent in shape
            )
            scale, offset = draw_scale(draw, generator, blocks), draw_shift(draw, generator, blocks)
            return Blockwise(codes.view(draw(st.sampled_from(BYTES + FOURS))), scale, offset)
        case _:
            bits = draw(st.sampled_from([1, 2, 3, 4, 6, 8]))
            size = draw(st.integers(1, 1 << bits))
            table = draw(tensors((size,)))[0]
            return Palette((codes.astype(int) % size).astype(np.uint8), table, bits)


def dense(constant: Constant) -> Array:
    with np.errstate(all="ignore"):
        return constant.dense()


@on_every_path
@settings(max_examples=300, deadline=None)
@given(st.data(), LENGTH, LENGTH, st.integers(1, 3))
def test_what_is_decoded_has_the_bits_of_dense(
    path: str, data: st.DataObject, rows: int, columns: int, threads: int
) -> None:
    constant = data.draw(constants((rows, columns)))
    coded = Coded.of(constant)
    if coded is None:
        return
    expected = dense(constant).view(np.uint16)
    with using(path=path, threads=threads):
        np.testing.assert_array_equal(np.asarray(coded).view(np.uint16), expected)
        np.testing.assert_array_equal(np.asarray(coded.T).view(np.uint16), expected.T)
        np.testing.assert_array_equal(np.concatenate(list(parts_of(coded))).view(np.uint16), expected)
    with using(golden=True), np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.asarray(coded).view(np.uint16), expected)
    magnitudes = expected & 0x7FFF
    assert coded.largest == golden.decode_operand(magnitudes.max().view(np.float16))[0]


@on_every_path
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([(3, 4, 2, 3), (16, 32, 1, 1), (8, 5, 3)]))
def test_kernels_of_convolutions_are_decoded(path: str, data: st.DataObject, shape: tuple[int, ...]) -> None:
    constant = data.draw(constants(shape))
    coded = Coded.of(constant)
    if coded is not None:
        with using(path=path):
            np.testing.assert_array_equal(np.asarray(coded).view(np.uint16), dense(constant).view(np.uint16))


@on_every_path
@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(PALETTE_BITS), LENGTH, LENGTH)
def test_codes_of_any_width_are_looked_up_from_any_place(
    path: str, data: st.DataObject, bits: int, rows: int, columns: int
) -> None:
    """Lines that begin within a byte, some lines alone, parts along both axes, and the table's last entry."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    table = generator.integers(0, 1 << 16, data.draw(st.integers(1, 1 << bits))).astype(np.uint16)
    indices = generator.integers(0, len(table), (rows, columns)).astype(np.uint8)
    whole = Palette(indices, table.view(np.float16), bits)
    first = data.draw(st.integers(0, rows - 1))
    count = data.draw(st.integers(1, rows - first))
    coded = Coded.of(whole)
    assert coded is not None
    with using(path=path):
        found = coded.decoded_lines(first, count).view(np.uint16)
        np.testing.assert_array_equal(found, table[indices[first : first + count]])
        for axis in (0, 1):
            begin = data.draw(st.integers(0, indices.shape[axis] - 1))
            size = data.draw(st.integers(1, indices.shape[axis] - begin))
            part = Coded.of(constant_part(whole, axis, begin, size))
            assert part is not None
            expected = table[np.take(indices, range(begin, begin + size), axis)]
            np.testing.assert_array_equal(np.asarray(part).view(np.uint16), expected)


@needs_kernels
def test_a_palette_is_read_where_it_is_packed() -> None:
    palette = Palette(np.zeros((6, 5), np.uint8), np.ones(1, np.float16), 4)
    coded = Coded.of(palette)
    assert coded is not None
    assert coded.stored is palette.packed.stored
    assert (coded.stored.nbytes, coded.seen.shape, coded.T.seen.shape) == (15, (6, 5), (5, 6))


@on_every_path
def test_every_code_meets_every_scale(path: str) -> None:
    """All 256 codes times all finite scales, signed and not, with a shift for each kind."""
    scales = np.concatenate([np.arange(0x7C00), np.arange(0x8000, 0xFC00)]).astype(np.uint16).view(np.float16)
    codes = np.broadcast_to(np.arange(256, dtype=np.uint8), (len(scales), 256)).copy()
    for kind, zero in (
        (np.int8, None),
        (np.uint8, np.array([128], np.uint8)),
        (np.int8, np.array([-1024], np.float16)),
    ):
        constant = Int8Affine(codes.view(kind), scales, zero)
        coded = Coded.of(constant)
        assert coded is not None
        with using(path=path):
            np.testing.assert_array_equal(np.asarray(coded).view(np.uint16), dense(constant).view(np.uint16))


@needs_kernels
@pytest.mark.parametrize(
    "constant",
    [
        Int8Affine(np.ones((2, 3), np.int8), np.array([np.inf], np.float16)),
        Int8Affine(np.ones((2, 3), np.int8), np.array([np.nan, 1.0], np.float16)),
        Int8Affine(np.ones((2, 3), np.int8), np.array([1.0], np.float32)),
        Int8Affine(np.ones((2, 3), np.int8), np.array([1.0], np.float16), np.array([0.5], np.float16)),
        Int8Affine(np.ones(3, np.int8), np.array([1.0], np.float16)),
        Int8Affine(np.broadcast_to(np.array(1, np.int8), (2, 3)), np.array([1.0], np.float16)),
        Blockwise(np.ones((2, 4), np.int16), np.array([[1.0]], np.float16)),
        Palette(np.zeros((2, 3), np.uint8), np.array([1.0], np.float32), 4),
    ],
)
def test_what_float32_may_not_hold_is_decoded_as_a_whole(constant: Constant) -> None:
    assert Coded.of(constant) is None


@needs_kernels
def test_folded_weights_are_read_in_their_encoding() -> None:
    stored = Int8Affine(np.ones((2, 3), np.int8), np.array([0.5], np.float16))
    coded = Coded.of(Folded(stored))
    assert coded is not None
    assert coded.constant is stored


@on_every_path
@settings(max_examples=200, deadline=None)
@given(st.data(), st.one_of(st.just(1), st.integers(1, 70)), LENGTH, LENGTH, st.booleans(), st.integers(1, 3))
def test_products_of_codes_are_golden(
    path: str,
    data: st.DataObject,
    rows: int,
    depth: int,
    columns: int,
    turned: bool,  # noqa: FBT001
    threads: int,
) -> None:
    constant = data.draw(constants((columns, depth) if turned else (depth, columns)))
    coded = Coded.of(constant)
    if coded is None:
        return
    weights, numbers = (coded.T, dense(constant).T) if turned else (coded, dense(constant))
    (x,) = data.draw(tensors((rows, depth)))
    bias = data.draw(biases(data.draw(st.sampled_from([(columns,), (rows, 1), ()]))))
    with using(path=path, threads=threads), np.errstate(all="ignore"):
        expected = golden.matmul_sum(x, numbers, bias)
        assert_same_bits(matmul(x, weights, bias), golden.round_out(expected.total()))
        np.testing.assert_array_equal(matmul_total(x, weights, bias), expected.total())


@on_every_path
@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 40), LENGTH, LENGTH)
def test_codes_on_the_left_are_golden(path: str, data: st.DataObject, columns: int, depth: int, rows: int) -> None:
    constant = data.draw(constants((rows, depth)))
    coded = Coded.of(constant)
    if coded is None:
        return
    (x,) = data.draw(tensors((columns, depth)))
    gain = np.random.default_rng(rows).standard_normal(rows)
    multiply = ready_matmul((rows, columns), depth, After(None, gain, None, (1, 0)))
    assert multiply is not None
    with using(path=path), np.errstate(all="ignore"):
        found, _ = multiply(coded, x.T, PLAIN)
        expected = golden.apply_gain(golden.matmul_sum(dense(constant), x.T, None).total(), gain[:, None], None)
    assert_same_bits(found, expected.T)


@on_every_path
@pytest.mark.parametrize(("rows", "depth", "columns"), [(9, 5000, 50), (1, 4099, 130), (130, 2049, 9), (300, 70, 900)])
@pytest.mark.parametrize("scale", [0.001, 0.5, 100.0])
def test_long_sums_of_codes_go_block_by_block(path: str, rows: int, depth: int, columns: int, scale: float) -> None:
    generator = np.random.default_rng(rows)
    codes = generator.integers(-127, 128, (columns, depth)).astype(np.int8)
    constant = Int8Affine(codes, (generator.random(columns) * scale).astype(np.float16))
    coded, x = Coded.of(constant), generator.standard_normal((rows, depth)).astype(np.float16)
    assert coded is not None
    for threads in (1, 3):
        with using(path=path, threads=threads):
            assert_same_bits(matmul(x, coded.T), matmul(x, constant.dense().T))
            for after in (After(), After(None, None, None, (1, 0))):
                multiply = ready_matmul((columns, rows), depth, after)
                assert multiply is not None
                assert_same_bits(multiply(coded, x.T, PLAIN)[0], multiply(constant.dense(), x.T, PLAIN)[0])


@on_every_path
@settings(max_examples=60, deadline=None)
@given(
    st.data(),
    st.sampled_from([(1, 1), (3, 3), (1, 5)]),
    st.integers(1, 3),
    st.sampled_from([(1, 40), (7, 9), (1, 1)]),
    st.booleans(),
)
def test_convolutions_of_codes_have_the_bits_of_those_of_numbers(
    path: str,
    data: st.DataObject,
    window: tuple[int, int],
    groups: int,
    extents: tuple[int, int],
    winograd: bool,  # noqa: FBT001
) -> None:
    winograd = winograd and window == (3, 3) and groups == 1
    shape = (groups * 9, data.draw(st.integers(1, 5)), *window)
    constant = data.draw(constants(shape))
    coded = Coded.of(constant)
    if coded is None:
        return
    (x,) = data.draw(tensors((2, groups * shape[1], *extents)))
    pads = [(one // 2, one // 2) for one in window]
    sums = {"stride": 1, "pad": pads, "dilation": 1, "groups": groups}
    bias = data.draw(biases((shape[0],)))
    multiply = ready_convolution(x.shape, shape, sums, After(bias), winograd=winograd)  # pyright: ignore[reportArgumentType]
    assert multiply is not None
    for threads in (1, 2):
        with using(path=path, threads=threads):
            assert_same_bits(multiply(x, coded, PLAIN)[0], multiply(x, dense(constant), PLAIN)[0])
