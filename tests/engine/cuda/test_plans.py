"""Plans as data: memory that is shared only in turn, launches as kernels take them, the arithmetic in NumPy."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine import golden
from aneforge.engine.cuda import device, sources
from aneforge.engine.cuda.packing import CHUNK, GROUP, bounds_of_lines, pack_lines
from aneforge.engine.cuda.planned_layers import plan_program
from aneforge.engine.cuda.plans import Address, Launch, Plan, Role
from aneforge.engine.cuda.primitives import Builder, compact, one_step
from aneforge.engine.cuda.product_launches import PRODUCT_MEMORY, Lines, Multiplier, slices_of
from aneforge.engine.cuda.tensors import UnsuitedError
from aneforge.engine.execution.run import prepare
from aneforge.engine.rounding import decode_operand
from aneforge.errors import BackendUnavailableError
from aneforge.runtime.backends import choose_backend
from aneforge.targets import resolve
from cuda_emulation import EmulatedDevice

Array = npt.NDArray[Any]
CARRIED = np.float32(192.0)


def planned(samples: int) -> Plan:
    generator = np.random.default_rng(0)
    weights = [generator.standard_normal((8, 8, 3, 3)).astype(np.float16) for _ in range(3)]
    x = af.input((1, 8, 10, 10), name="x")
    for weight in weights:
        x = af.conv(x, weight, pad=1).relu() + x
    return plan_program(prepare(build_program(x.sigmoid().softmax(), resolve("h16"))), samples, {}).plan


def test_buffers_share_memory_only_when_they_are_not_needed_at_the_same_time() -> None:
    plan = planned(4)
    places, length = plan.places()
    lives = plan.lifetimes()
    for one in places:
        assert places[one] + one.nbytes <= length
        for other in places:
            if one is other or lives[one][1] < lives[other][0] or lives[other][1] < lives[one][0]:
                continue
            apart = places[one] + one.nbytes <= places[other] or places[other] + other.nbytes <= places[one]
            assert apart
    assert length < sum(buffer.nbytes for buffer in lives)


def test_what_stays_for_a_run_is_never_overwritten() -> None:
    plan = planned(2)
    kept = [tensor.buffer for tensor in (*plan.inputs.values(), *plan.outputs.values())]
    assert {plan.lifetimes()[buffer] for buffer in kept} == {(0, len(plan.items))}


def launched(graph: af.Tensor, samples: int = 2) -> list[str]:
    plan = plan_program(prepare(build_program(graph, resolve("h16"))), samples, {}).plan
    return [item.kernel for item in plan.items if isinstance(item, Launch)]


def test_transposed_values_are_read_where_they_lie() -> None:
    generator = np.random.default_rng(0)
    weights = [generator.standard_normal(shape).astype(np.float16) for shape in ((24, 24), (24,)) * 4]
    kernels = launched(af.mha(af.input((16, 24), name="x"), *weights, n_heads=3))
    assert kernels.count("product") == 6
    assert kernels.count("move") == 3  # heads side by side, labels of their product, and the output


def test_a_gain_of_one_number_after_a_matrix_product_is_done_where_the_sums_are() -> None:
    x, y = af.input((1, 8, 24), name="x"), af.input((1, 24, 8), name="y")
    kernels = launched((x @ y) * 0.25)
    assert "product" in kernels
    assert "gained_totals" not in kernels


def test_what_an_attempt_laid_out_is_forgotten() -> None:
    builder = Builder(2, {})
    x = builder.empty((8, 8), role=Role.KEPT)
    builder.contiguous(x.T)
    before, launches = builder.mark(), list(builder.plan.items)
    builder.find_extremes(x)
    copied = builder.contiguous(x.reshape(2, 4, 8).swapaxes(0, 2))
    builder.undo(before)
    assert builder.plan.items == launches
    assert builder.findings.words == 0
    again = builder.contiguous(x.reshape(2, 4, 8).swapaxes(0, 2))
    assert again.buffer is not copied.buffer
    assert len(builder.plan.items) == len(launches) + 1


def test_every_launch_fits_the_struct_of_its_kernel() -> None:
    """Structs have as many fields of eight bytes as a launch has arguments."""
    text = re.sub(r"/\*.*?\*/", "", sources.body(), flags=re.DOTALL)
    sizes: dict[str, int] = {"axes": 6, "steps": 6}
    for name, body in re.findall(r"struct (\w+) \{([^}]*)\};", text):
        count = 0
        for line in body.split(";"):
            words = line.replace("const ", "").strip()
            if not words:
                continue
            inner = re.match(r"struct (\w+) (.*)", words)
            each = sizes.get(inner[1], 0) if inner and "*" not in words else 1
            fields = words.split(",")
            count += each * sum(int(m[1]) if (m := re.search(r"\[(\d+)\]", one)) else 1 for one in fields)
        sizes.setdefault(name, count)
    sizes["exact_product_args"] = sizes["product_args"]
    seen = {item.kernel for item in planned(2).items if isinstance(item, Launch)}
    assert {"product", "exact_product", "lookup", "pairs", "softmax_rows", "pad_planes", "magnitude", "fill"} <= seen
    for item in planned(3).items:
        assert isinstance(item, Launch)
        assert len(item.arguments) == sizes[f"{item.kernel}_args"], item.kernel


def test_plans_for_more_samples_share_constants() -> None:
    kept: dict[object, Any] = {}
    ready = prepare(build_program(af.input((1, 8), name="x").linear(np.ones((4, 8), np.float16)), resolve("h16")))
    first, second = (plan_program(ready, samples, kept).plan for samples in (1, 8))
    weights = [
        {b for b in plan.constants() if b.content is not None and b.content.dtype == np.float16}
        for plan in (first, second)
    ]
    assert weights[0] == weights[1] != set()
    assert all(buffer.role is Role.CONSTANT for buffer in weights[0])


def test_axes_are_made_one_where_all_operands_allow() -> None:
    assert compact([2, 3, 4], [[12, 4, 1]]) == ([1, 1, 1, 1, 1, 24], [[0, 0, 0, 0, 0, 1]])
    assert compact([2, 3], [[3, 1], [1, 2]])[0][-2:] == [2, 3]
    with pytest.raises(UnsuitedError, match="7 axes"):
        compact([2] * 7, [[3**place for place in range(7)]])
    assert one_step([2, 3], [3, 1]) == 1
    assert one_step([2, 3], [6, 2]) == 2
    assert one_step([2, 3], [1, 2]) is None


@pytest.mark.parametrize("left", [True, False])
def test_packed_operands_are_those_of_the_kernel(*, left: bool) -> None:
    """The host packs constants as the kernel `pack` packs what is computed, bounds included."""
    rows, depth, samples = 70, 21, 2
    weights = (np.random.default_rng(3).standard_normal((rows, depth)) * 0.01).astype(np.float16)
    builder = Builder(samples, {})
    given = builder.empty((rows, depth), role=Role.KEPT)
    lines = Lines(given, *(np.arange(n) * step for n, step in ((1, 0), (rows, depth), (depth, 1))))
    *addresses, _ = Multiplier(builder).packed(lines, lines.places, left=left)
    builder.plan.inputs = {"x": given}
    loaded = EmulatedDevice().load(builder.plan)
    loaded.start({"x": np.stack([weights, weights])})
    where = (weights.ravel(), lines.places, lines.lines, lines.steps)
    wanted = pack_lines(*where, left=left)
    assert wanted.shape == (1, -(-rows // GROUP), -(-depth // CHUNK))
    for address, array in zip(addresses, (wanted, *bounds_of_lines(*where)[:-1]), strict=True):
        assert isinstance(address, Address)
        begin = loaded.places[address.buffer] + address.offset
        found = loaded.arena[begin : begin + array.nbytes]
        if array is wanted:
            assert found.tobytes() == array.tobytes()
        else:
            assert np.allclose(found.view(np.float32), array.ravel(), rtol=1e-5)


def test_slices_of_steps_fill_a_device_without_one_that_is_empty() -> None:
    for tiles, chunks in itertools.product((1, 7, 49, 392, 3136), (1, 2, 9, 36, 288)):
        slices = slices_of(tiles, chunks)
        assert (slices - 1) * -(-chunks // slices) < chunks
    assert slices_of(49, 288) > slices_of(3136, 288)


def test_bounds_are_above_every_partial_sum() -> None:
    generator = np.random.default_rng(1)
    values = (generator.standard_normal(200 * 30) * 4).astype(np.float16)
    sums, norms, chunk_norms, wholes = bounds_of_lines(
        values, np.zeros(1, np.int64), np.arange(200) * 30, np.arange(30)
    )
    wide = np.abs(values.astype(np.float64)).reshape(200, 30)
    for group in range(4):
        for part in range(8):
            block = wide[group * GROUP : (group + 1) * GROUP, part * 4 : part * 4 + 4]
            assert sums[0, group, part] >= block.sum(axis=1).max()
            assert norms[0, group, part] >= np.sqrt((block**2).sum(axis=1).max())
        rows = wide[group * GROUP : (group + 1) * GROUP]
        chunks = [rows[:, first : first + CHUNK] for first in range(0, 30, CHUNK)]
        for chunk, block in enumerate(chunks):
            assert chunk_norms[0, group, chunk] >= np.sqrt((block**2).sum(axis=1).max())
        assert wholes[0, group, 0] >= sums[0, group].max()
        assert wholes[0, group, 1] >= max(block.sum(axis=1).max() for block in chunks)
        assert wholes[0, group, 2] >= rows.sum(axis=1).max()


def fused(x: Array, w: Array, total: Array) -> Array:
    """Return one fused multiply-add in float32: float64 holds the product of such numbers, and here the sum too."""
    return (x.astype(np.float64) * w.astype(np.float64) + total.astype(np.float64)).astype(np.float32)


def test_chunks_are_proven_where_four_times_their_largest_part_is_not() -> None:
    """Unit normals of 4,096 steps: what is gathered need not move within a chunk."""
    depth = 4096
    values = np.random.default_rng(4).standard_normal(GROUP * depth).astype(np.float16)
    _, norms, chunk_norms, _ = bounds_of_lines(
        values, np.zeros(1, np.int64), np.arange(GROUP) * depth, np.arange(depth)
    )
    assert 4 * (norms**2).max() > 63 > (chunk_norms**2).max()


def test_the_fast_kernel_in_numpy_is_the_golden_sum() -> None:
    """Sums that carry 192, left numbers moved by a unit, and thresholds: what products.cu does, step by step."""
    generator = np.random.default_rng(2)
    x, w = (
        np.where(
            generator.random((40, 40)) < 0.5,
            generator.standard_normal((40, 40)) / 8,
            (2 * generator.integers(-60, 60, (40, 40)) + 1) * 2.0 ** generator.integers(-12, -6, (40, 40)),
        ).astype(np.float16)
        for _ in range(2)
    )
    moved = (w.astype(np.float32).view(np.uint32) + np.uint32(1)).view(np.float32)
    exponents = decode_operand(w)[1]
    thresholds = np.where(exponents <= -3, 2.0 ** (-16.0 - exponents), 0.0)
    sums = np.full((40, 40), CARRIED)
    for k in range(40):
        kept = np.abs(x[:, k, None].astype(np.float64)) >= thresholds[None, k]
        sums = np.where(kept, fused(x[:, k, None].astype(np.float32), moved[None, k], sums), sums)
    assert np.abs(sums - CARRIED).max() < 64
    units = sums.view(np.int32) - CARRIED.view(np.int32)
    assert np.array_equal(units * 2.0**-16, golden.matmul_sum(x, w).total())


def test_without_cupy_there_is_one_error_that_names_the_remedy() -> None:
    said = device.obstacle()
    if said is None:
        pytest.skip("there is a GPU")
    assert "pip install" in said or "software" in said
    with pytest.raises(BackendUnavailableError, match="backend 'cuda'"):
        choose_backend("cuda")


def test_what_the_shared_memory_of_a_block_holds_is_what_a_launch_asks_for() -> None:
    (bytes_of_product,) = re.findall(r"#define PRODUCT_MEMORY (\d+)", sources.body())
    assert int(bytes_of_product) == PRODUCT_MEMORY
