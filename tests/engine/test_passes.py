"""The compiler's passes on the exact engine: which keep every bit, and where the others round less or more often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings

import aneforge as af
from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.passes.fuse_epilogue import FuseEpilogue
from aneforge.compiler.passes.fuse_square import FuseSquare
from aneforge.compiler.passes.matmul_to_convolution import MatmulToConvolution
from aneforge.compiler.passes.split_kernel_memory import SplitKernelMemory
from aneforge.compiler.passes.split_matmul import SplitMatmul
from aneforge.compiler.pipeline import PIPELINE
from aneforge.engine.execution.run import run
from aneforge.engine.rounding import to_fp16
from aneforge.errors import AneforgeError
from aneforge.targets import resolve
from aneforge.testing.networks import networks
from legalisation_tools import changed
from program_tools import lowered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.testing.graphs import DrawnGraph

Array = npt.NDArray[Any]
SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TIGHT = {
    "max_tensor_dim": 4,
    "channel_extent": 5,
    "tensor_height": 3,
    "dense_kernel_memory": 24,
    "streamed_kernel_memory": 48,
    "nes_per_ane": 2,
    "max_transpose_height": 3,
    "max_transpose_width": 2,
    "conv_stride_native": 1,
    "group_conv_decompose": 3,
}
"""Limits so small that drawn networks meet them and are split."""
TARGETS = {
    **{name: resolve(name) for name in ("h13", "h16g", "h17")},
    **{f"tight {name}": changed(name, **TIGHT) for name in ("h13", "h16g", "h17s")},
}
ROUNDS_ELSEWHERE = {
    "fuse-epilogue": "a gain or an offset after a product or a pair is rounded with it",
    "choose-weight-stream": "int8 weights that stream are integers in the sum, and their scale stands after it",
    "legalise-resize": "without a texture engine it becomes products, and every axis is rounded",
    "fuse-square": "the sum is not rounded before it is squared",
    "split-matmul": "the parts of a contraction are rounded",
    "split-kernel-memory": "the parts of a contraction are rounded",
}
"""Passes that move, add or leave out a rounding, and which; every other pass keeps every bit."""
ONE_ROUNDING = (Slot.GAIN_OFFSET,)


def outputs_of(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs as integers: their bits."""
    return {name: array.view(f"u{array.itemsize}") for name, array in run(program, inputs).outputs.items()}


def one_output(program: Program, *arrays: Array) -> Array:
    inputs = {port.name: array for port, array in zip(program.inputs, arrays, strict=True)}
    (found,) = run(program, inputs).outputs.values()
    return found.astype(np.float64)


def scales_one_channel(program: Program) -> bool:
    """Return whether a product has one term: as a convolution of one channel it is a scaling, not a sum."""
    products = [layer for layer in program.layers if layer.kind.name in ("linear", "matmul")]
    return any(operand.type.shape[-1] == 1 for layer in products for operand in layer.bottoms)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(drawn=networks(most=7))
def test_all_other_passes_keep_every_bit(name: str, drawn: DrawnGraph) -> None:
    program = lowered(drawn.graph, TARGETS[name])
    for one in PIPELINE.passes:
        try:
            after = one(program).program
        except AneforgeError:
            return  # the limits are too small for this network, and the pass says so
        exempt = one.name in ROUNDS_ELSEWHERE or (one.name == MatmulToConvolution.name and scales_one_channel(program))
        if after is not program and not exempt:
            before_bits, after_bits = outputs_of(program, drawn.inputs), outputs_of(after, drawn.inputs)
            for port, bits in before_bits.items():
                np.testing.assert_array_equal(after_bits[port], bits, err_msg=f"{one.name} changed {port}")
        program = after


def test_the_passes_that_round_elsewhere_exist() -> None:
    assert set(ROUNDS_ELSEWHERE) < {one.name for one in PIPELINE.passes}


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks(most=7))
def test_slots_without_gain_and_offset_change_no_bit(drawn: DrawnGraph) -> None:
    """Activations, transposes and the rest take the rounded value, whether in a slot or in a layer of their own."""
    program = PIPELINE.until("hoist-through-concat").run(lowered(drawn.graph))
    rest = tuple(slot for slot in Slot if slot not in ONE_ROUNDING)
    before, after = (outputs_of(made, drawn.inputs) for made in (program, FuseEpilogue(slots=rest)(program).program))
    for name, bits in before.items():
        np.testing.assert_array_equal(after[name], bits)


def rounded_once(program: Program) -> set[str]:
    """Return the values that depend on a gain and offset in a slot, or on one that joined several: they may differ."""
    found: set[str] = set()
    for layer in program.layers:
        affine = layer.epilogue.gain_offset is not None or layer.kind.name == GAIN_OFFSET
        inside = affine or any(value.name in found for value in layer.bottoms)
        found |= {result.name for result in layer.results} if inside else set()
    return found


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks(most=7))
def test_fusion_changes_only_what_is_behind_a_gain_or_an_offset(drawn: DrawnGraph) -> None:
    program = PIPELINE.until("hoist-through-concat").run(lowered(drawn.graph))
    fused = FuseEpilogue()(program).program
    may_differ = rounded_once(fused)
    before, after = outputs_of(program, drawn.inputs), outputs_of(fused, drawn.inputs)
    for port in fused.outputs:
        if port.value.name not in may_differ:
            np.testing.assert_array_equal(after[port.name], before[port.name])


def test_a_fused_offset_leaves_out_one_rounding_and_no_other() -> None:
    """Offset and sum together are rounded once; apart they are the sum's fp16, and then the offset's."""
    generator = np.random.default_rng(0)
    weight, offset = generator.normal(size=(4, 8, 1, 1)).astype(np.float16), np.full(4, 0.1, np.float16)
    x = generator.normal(size=(1, 8, 4, 4)).astype(np.float16)
    source = af.input(x.shape, name="x")
    plain, biased = lowered(af.conv(source, weight)), lowered(af.conv(source, weight, bias=offset))
    fused = FuseEpilogue()(PIPELINE.until("constants-to-gain-offset").run(biased)).program
    assert len(fused.layers) == 1
    apart = to_fp16(one_output(plain, x) + float(offset[0]))
    np.testing.assert_array_equal(one_output(biased, x), apart)
    together = one_output(fused, x)
    assert (together != apart).any()
    np.testing.assert_allclose(together, apart, atol=2.0**-9)


def test_a_fused_square_leaves_out_the_rounding_of_its_sum() -> None:
    x = np.zeros((1, 65))
    x[0, 0], x[0, 64] = 128, 1 / 16  # 2049 / 16, between two fp16 numbers; the two meet after the tree of 64 elements
    source = af.input(x.shape, name="x")
    program = lowered(source.sum(-1).square(), changed("h16g", square_after_reduction=True))
    fused = FuseSquare()(program).program
    assert [layer.kind.name for layer in fused.layers] == ["square_after_reduction"]
    assert one_output(program, x).item() == to_fp16(np.asarray((2050 / 16) ** 2))
    assert one_output(fused, x).item() == to_fp16(np.asarray((2049 / 16) ** 2))
    assert one_output(program, x).item() != one_output(fused, x).item()


def test_a_split_contraction_rounds_its_parts_and_says_so() -> None:
    x, w = np.array([[1024, 1025, 1, 1, 1, 0]]), np.ones((6, 1))
    a, b = af.input((1, 6), name="a"), af.input((6, 1), name="b")
    program = lowered(a @ b, changed("h16g", max_tensor_dim=2, tensor_height=100))
    split = SplitMatmul()(program).program
    assert one_output(program, x, w).item() == 2052
    assert one_output(split, x, w).item() == 2054  # 2049 is 2050; 2 more are 2052; 1 more is 2053, a tie
    assert any("rounded" in note.text for note in split.notes)


def test_a_kernel_that_is_too_large_is_split_and_says_so() -> None:
    x = np.array([2048, 1, 1, 0]).reshape(1, 4, 1, 1)
    graph = af.conv(af.input((1, 4, 1, 1), name="x"), np.ones((1, 4, 1, 1), np.float16))
    small = changed("h13", dense_kernel_memory=4, streamed_kernel_memory=4, nes_per_ane=1)
    program = PIPELINE.until("choose-weight-stream").run(lowered(graph, small))
    split = SplitKernelMemory()(program).program
    assert one_output(program, x).item() == 2050
    assert one_output(split, x).item() == 2052  # 2049 is 2050, and 1 more is 2051, a tie
    assert any("rounded" in note.text for note in split.notes)
