"""Products and pairs of fixed shapes, and slots done as results are stored, bit for bit against the golden model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import golden, planar
from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.kernels.elements import table_of
from aneforge.engine.kernels.library import using
from aneforge.engine.kernels.prepared import PLAIN, After, Seen, Through, ready_convolution, ready_matmul, ready_pairs
from kernel_checks import assert_same_bits, needs_kernels, on_every_path, tensors

Array = npt.NDArray[Any]
TABLE = table_of(ACTIVATIONS["gelu"])
HELD_BY_FLOATS = np.array([0.5, -1.5, 2.0**-24, 60.0, 0.0, -65504.0, 0.0999755859375, -0.0])
"""Gains that float32 holds: with them results are rounded in float32 where sums are small enough."""
WAYS = [PLAIN, Through(TABLE), Through(bound=0x7C00), Through(bound=0x4600)]


def mapped(results: Array, through: Through) -> Array:
    """Return the bits of results after a table or a rectifier."""
    bits = results.astype(np.float16).view(np.uint16)
    if through.bound:
        return np.where(bits & 0x8000, 0, np.minimum(bits, through.bound)).astype(np.uint16)
    return bits if through.table is None else through.table[bits]


def noted(results: Array, after: Array) -> Seen:
    """Return what is to be noted of results and of what they became."""
    bits = results.astype(np.float16).view(np.uint16)
    largest = [float(np.abs(planar.read(one.view(np.float16))).max()) for one in (bits, after)]
    return Seen(largest[0], frozenset({0x0000, 0x8000} & set(bits.ravel().tolist())), largest[1])


@on_every_path
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(WAYS), st.integers(1, 3))
def test_matrix_products(path: str, data: st.DataObject, through: Through, threads: int) -> None:
    batch, rows, depth, columns = (data.draw(st.integers(1, most)) for most in (3, 20, 40, 70))
    left, right = data.draw(tensors((batch, rows, depth), (batch, depth, columns)))
    if data.draw(st.booleans()):  # an operand that lies the other way round
        right = np.ascontiguousarray(right.swapaxes(1, 2)).swapaxes(1, 2)
    if data.draw(st.booleans()):
        left = np.ascontiguousarray(left.swapaxes(1, 2)).swapaxes(1, 2)
    order = data.draw(st.sampled_from([None, (0, 1, 2), (0, 2, 1), (1, 0, 2)]))
    gain = data.draw(st.sampled_from([None, np.array(0.1), *map(np.array, HELD_BY_FLOATS)]))
    start = np.array([0.5]) if gain is None and data.draw(st.booleans()) else None
    ready = ready_matmul((batch, rows, columns), depth, After(start, gain, None, order))
    assert ready is not None
    with np.errstate(all="ignore"), using(path=path, threads=threads):
        total = golden.matmul_sum(left.view(np.float16), right.view(np.float16), start)
        wanted = total.result() if gain is None else golden.apply_gain(total.total(), gain, None)
        found, seen = ready(left, right, through)
        expected = mapped(wanted, through)
        assert_same_bits(found, (expected if order is None else expected.transpose(order)).view(np.float16))
        assert seen == noted(wanted, expected)


@on_every_path
@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(WAYS), st.sampled_from(["add", "sub", "mul", "maximum", "minimum"]))
def test_pairs(path: str, data: st.DataObject, through: Through, operation: str) -> None:
    shape = tuple(data.draw(st.integers(1, most)) for most in (3, 40, 70))
    shapes = [tuple(data.draw(st.sampled_from([extent, 1])) for extent in shape) for _ in range(2)]
    x, y = data.draw(tensors(*shapes))
    if data.draw(st.booleans()):  # an operand that lies the other way round
        x = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    ready = ready_pairs(operation, np.broadcast_shapes(*shapes))
    assert ready is not None
    with np.errstate(all="ignore"), using(path=path):
        wanted = planar.FUNCTIONS[operation](x.view(np.float16), y.view(np.float16))
        expected = mapped(np.asarray(wanted), through)
        found, seen = ready(x, y, through)
        assert_same_bits(found, expected.view(np.float16))
        assert seen == noted(np.asarray(wanted), expected)
        assert_same_bits(ready(x, y, through)[0], found)


def test_other_operations_are_not_pairs() -> None:
    assert ready_pairs("real_div", (2,)) is None
    assert ready_pairs("add", (0, 2)) is None


@on_every_path
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(WAYS), st.booleans())
def test_convolutions(path: str, data: st.DataObject, through: Through, winograd: bool) -> None:  # noqa: FBT001 - drawn
    batch, inner, outer = (data.draw(st.integers(1, most)) for most in (2, 5, 20))
    kernel = (3, 3) if winograd else tuple(data.draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=2)))
    extents = tuple(data.draw(st.integers(3, 30)) for _ in kernel)
    groups = 1 if winograd else data.draw(st.integers(1, 2))
    window: golden.Window = {"pad": 1 if winograd else data.draw(st.integers(0, 1)), "groups": groups}
    if not winograd:
        window["stride"] = data.draw(st.integers(1, 2))
    x, weight = data.draw(tensors((batch, inner * groups, *extents), (outer * groups, inner, *kernel)))
    gain, offset = (np.linspace(-2, 2, outer * groups), np.linspace(0, 1, outer * groups))
    if data.draw(st.booleans()):
        gain, offset = (np.resize(numbers, outer * groups) for numbers in (HELD_BY_FLOATS, HELD_BY_FLOATS[::-1]))
    after = data.draw(
        st.sampled_from([After(), After(start=offset), After(gain=gain, offset=offset), After(gain=gain)])
    )
    ready = ready_convolution(x.shape, weight.shape, window, after, winograd=winograd)
    assert ready is not None
    images, kernels = x.view(np.float16), weight.view(np.float16)
    with np.errstate(all="ignore"), using(path=path, threads=2):
        if winograd:
            total = golden.winograd_total(images, kernels, after.start, pad=window["pad"])
        else:
            total = golden.convolution_sum(images, kernels, after.start, **window).total()
        along = (-1, *(1,) * len(kernel))
        behind = None if after.offset is None else after.offset.reshape(along)
        gained = after.gain is not None
        wanted = golden.apply_gain(total, gain.reshape(along), behind) if gained else golden.round_out(total)
        found, seen = ready(x, weight, through)
        expected = mapped(wanted, through)
        assert_same_bits(found, expected.view(np.float16))
        assert seen == noted(wanted, expected)


@on_every_path
@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(WAYS))
def test_convolutions_of_every_channel_by_itself(path: str, data: st.DataObject, through: Through) -> None:
    channels, batch = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 2))
    kernel = data.draw(st.sampled_from([(3, 3), (2, 5), (1, 3), (3,)]))
    window: golden.Window = {
        "stride": [data.draw(st.integers(1, 3)) for _ in kernel],
        "dilation": [data.draw(st.integers(1, 2)) for _ in kernel],
        "pad": [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in kernel],
        "groups": channels,
    }
    extents = tuple(2 * length + data.draw(st.integers(0, 40 if length == kernel[-1] else 5)) for length in kernel)
    x, weight = data.draw(tensors((batch, channels, *extents), (channels, 1, *kernel)))
    bias, gain = np.linspace(-3, 3, channels), np.linspace(-2, 2, channels)
    if data.draw(st.booleans()):
        gain, bias = (np.resize(numbers, channels) for numbers in (HELD_BY_FLOATS, HELD_BY_FLOATS[::-1]))
    after = data.draw(st.sampled_from([After(), After(start=bias), After(gain=gain, offset=bias)]))
    ready = ready_convolution(x.shape, weight.shape, window, after, winograd=False)
    assert ready is not None
    with np.errstate(all="ignore"), using(path=path, threads=data.draw(st.integers(1, 2))):
        total = golden.convolution_sum(x.view(np.float16), weight.view(np.float16), after.start, **window).total()
        along = (-1, *(1,) * len(kernel))
        gained = after.gain is not None
        behind = bias.reshape(along)
        wanted = golden.apply_gain(total, gain.reshape(along), behind) if gained else golden.round_out(total)
        found, seen = ready(x, weight, through)
        expected = mapped(wanted, through)
        assert_same_bits(found, expected.view(np.float16))
        assert seen == noted(wanted, expected)


@on_every_path
@pytest.mark.parametrize("scale", [2.0**-13, 2.0**-5, 6.0, 40.0, 300.0])
@pytest.mark.parametrize(("stride", "extents"), [(1, (7, 7)), (2, (14, 15)), (1, (3, 130)), (2, (33, 1))])
def test_channels_by_themselves_of_every_magnitude(
    path: str, scale: float, stride: int, extents: tuple[int, int]
) -> None:
    """Sums in float32 without and with products that are dropped, and in double, in channels of one call."""
    generator = np.random.default_rng(stride)
    x = (generator.standard_normal((2, 40, *extents)) * scale).astype(np.float16)
    weight = (generator.standard_normal((40, 1, 3, 3)) * 2.0 ** generator.integers(-9, 1, (40, 1, 1, 1))).astype(
        np.float16
    )
    gain, offset = (generator.standard_normal(40).astype(np.float16).astype(np.float64) for _ in range(2))
    window: golden.Window = {"stride": stride, "pad": 1, "groups": 40}
    total = golden.convolution_sum(x, weight, **window).total()
    wanted = golden.apply_gain(total, gain.reshape(-1, 1, 1), offset.reshape(-1, 1, 1))
    ready = ready_convolution(x.shape, weight.shape, window, After(gain=gain, offset=offset), winograd=False)
    assert ready is not None
    for through in WAYS:
        with using(path=path):
            found, seen = ready(x, weight, through)
        expected = mapped(wanted, through)
        assert_same_bits(found, expected.view(np.float16))
        assert seen == noted(wanted, expected)


@on_every_path
@pytest.mark.parametrize("contiguous", [True, False])
def test_a_projection_of_rows_that_comes_and_leaves_transposed(path: str, contiguous: bool) -> None:  # noqa: FBT001
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((2, 50, 40)).astype(np.float16)
    x = rows.transpose(0, 2, 1)
    x = np.ascontiguousarray(x) if contiguous else x
    weight = generator.standard_normal((100, 40, 1)).astype(np.float16)
    bias = generator.standard_normal(100).astype(np.float16).astype(np.float64)
    ready = ready_convolution(x.shape, weight.shape, {}, After(start=bias, order=(0, 2, 1)), winograd=False)
    assert ready is not None
    with using(path=path, threads=2):
        found, _ = ready(x, weight, PLAIN)
    assert found.shape == (2, 50, 100)
    assert_same_bits(found, golden.convolution(x, weight, bias).transpose(0, 2, 1))


def test_what_takes_several_steps_is_not_ready() -> None:
    assert ready_matmul((2, 3, 4), 0, After()) is None
    assert ready_matmul((2, 3, 4), 5, After(order=(1, 2, 0))) is None  # neither rows nor columns lie side by side
    assert ready_matmul((3, 4), 5, After(start=np.zeros(2))) is None
    assert ready_convolution((1, 2, 4, 4), (3, 2, 3, 3), {}, After(order=(0, 2, 3, 1)), winograd=False) is None
    assert ready_convolution((1, 2, 4, 4, 4), (3, 2, 3, 3, 3), {}, After(), winograd=False) is None


@on_every_path
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_last_regions_are_shared_by_rows(path: str, threads: int) -> None:
    generator = np.random.default_rng(threads)
    left, right = (generator.standard_normal(shape).astype(np.float16) for shape in ((100, 24), (24, 5 * 48 - 7)))
    ready = ready_matmul((100, 233), 24, After())
    assert ready is not None
    with using(path=path, threads=threads):
        found, seen = ready(left, right, PLAIN)
    wanted = golden.matmul(left, right)
    assert_same_bits(found, wanted)
    assert seen == noted(wanted, wanted.astype(np.float16).view(np.uint16))


@needs_kernels
def test_operands_are_read_anew_unless_nobody_can_write_to_them() -> None:
    ready = ready_convolution((1, 2, 1, 3), (2, 2, 1, 1), {}, After(), winograd=False)
    assert ready is not None
    images, kernels = np.ones((1, 2, 1, 3), np.float16), np.ones((2, 2, 1, 1), np.float16)
    turned = kernels.transpose(1, 0, 2, 3)  # a copy is made of it
    turned.flags.writeable = False
    for seen in (kernels, turned):
        kernels[:] = 1
        assert ready(images, seen, PLAIN)[0].tolist() == [[[[2.0] * 3]] * 2]
        kernels[:] = 2
        assert ready(images, seen, PLAIN)[0].tolist() == [[[[4.0] * 3]] * 2]
    constant = kernels.copy()
    constant.flags.writeable = False
    for _ in range(2):
        assert ready(images, constant, PLAIN)[0].tolist() == [[[[4.0] * 3]] * 2]


@needs_kernels
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5)], ids=["width", "height and width"])
@pytest.mark.parametrize("taps", [1, 3])
def test_convolutions_of_images_that_do_not_lie_side_by_side(shape: tuple[int, ...], taps: int) -> None:
    """Transposed, mirrored, broadcast and every second one: what is read where it is has the bits of a copy."""
    generator = np.random.default_rng(len(shape) + taps)
    weight = generator.standard_normal((4, shape[1], *(taps,) * (len(shape) - 2))).astype(np.float16)
    ready = ready_convolution(shape, weight.shape, {}, After(), winograd=False)
    assert ready is not None
    wide = generator.standard_normal((*shape[:-1], 2 * shape[-1])).astype(np.float16)
    turned = generator.standard_normal(shape[::-1]).astype(np.float16).transpose()
    for images in (
        wide[..., ::2],
        np.flip(wide[..., : shape[-1]], -1),
        turned,
        np.broadcast_to(wide[:1, ..., :1], shape),
    ):
        found, _ = ready(images, weight, PLAIN)
        assert found.tobytes() == ready(np.ascontiguousarray(images), weight, PLAIN)[0].tobytes()
