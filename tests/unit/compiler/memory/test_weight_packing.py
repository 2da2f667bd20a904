"""Blocks of weights: the sizes of compiled programs, and the forms in which they come."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.ir.edit import as_stage, new_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Epilogue, Layer, Value
from aneforge.compiler.memory.weights import Basis, PackedWeights, pack_layer, tile_blocks
from aneforge.compiler.passes.choose_output_groups import tiles_of
from aneforge.compiler.schedule.rules import rules
from aneforge.ops.constant import Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.types import TensorType
from aneforge.targets import Family, resolve

TARGET = resolve(Family.A13)


def zeros(*shape: int) -> Constant:
    return Dense(np.zeros(shape, np.float16))


def affine(channels: int, *names: str) -> Epilogue:
    """Return an epilogue with gains or offsets for every channel."""
    x = Value("x", TensorType((1, channels, 4, 4)))
    held = {name: Dense(np.zeros(channels, np.float16)) for name in names}
    layer = new_layer("gain_offset_control", {"input": x, **held}, {"axis": 1}, "g", location=None)
    return Epilogue().filled(Slot.GAIN_OFFSET, as_stage(layer))


def convolution(weight: Constant, size: int = 8, groups: int = 1, epilogue: Epilogue | None = None) -> Layer:
    channels = weight.type.shape[1] * groups
    kernel = weight.type.shape[2:]
    window = {
        "strides": (1, 1),
        "dilation_rates": (1, 1),
        "groups": groups,
        "explicit_padding": tuple(length // 2 for length in kernel for _ in "ab"),
        "kernel_sizes": kernel,
    }
    x = Value("x", TensorType((1, channels, size, size)))
    operands = {"input": x, "weights": weight}
    return new_layer("convolution", operands, window, "y", location=None, epilogue=epilogue)


def packed(layer: Layer) -> PackedWeights:
    found = pack_layer(layer, TARGET, rules())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("outputs", "inputs", "kernel", "size", "lanes", "core_bytes", "cores"),
    [
        (64, 64, 3, 8, (4,), 4608, 16),  # the program whose section is reproduced: 73,728 bytes
        (64, 64, 1, 1, (4,), 0x200, 16),  # a product of 64: 16 blocks of 0x200
        (512, 512, 1, 1, (32,), 0x8000, 16),  # a product of 512: 16 blocks of 0x8000
        (3, 3, 1, 8, (1,), 64, 3),  # three outputs: three cores, 64 bytes apart
        (768, 64, 1, 8, (32, 16), 6144, 16),
        (512, 64, 3, 56, (16, 16), 36864, 16),
        (40, 64, 1, 56, (2, 1), 384, 16),  # the last tile has work for eight cores
    ],
)
def test_dense_blocks_of_compiled_programs(
    outputs: int, inputs: int, kernel: int, size: int, lanes: tuple[int, ...], core_bytes: int, cores: int
) -> None:
    made = packed(convolution(zeros(outputs, inputs, kernel, kernel), size))
    assert (made.lanes, made.core_bytes[0], len(made.core_bytes)) == (lanes, core_bytes, cores)
    assert made.basis is (Basis.DECODED if len(lanes) == 1 else Basis.SEEN)
    assert made.total_bytes == sum(made.core_bytes)


def test_cores_without_work_in_the_last_tile_have_less() -> None:
    made = packed(convolution(zeros(40, 64, 1, 1), 56))
    assert made.core_bytes == (384,) * 8 + (256,) * 8


def test_biases_stand_before_the_weights_of_a_tile() -> None:
    # One output of three weights and a bias: [bias, w0, w1, w2].
    made = packed(convolution(zeros(3, 3, 1, 1), epilogue=affine(3, "offset")))
    assert made.core_bytes == (64, 64, 64)
    assert packed(convolution(zeros(64, 64, 3, 3), epilogue=affine(64, "offset"))).core_bytes == (4672,) * 16
    assert made.affine_bytes == 0


def test_gains_and_offsets_stand_apart() -> None:
    made = packed(convolution(zeros(64, 64, 3, 3), epilogue=affine(64, "gain", "offset")))
    assert (made.core_bytes[0], made.affine_bytes) == (4608, 256)
    assert made.total_bytes == 73728 + 256


def test_one_number_for_all_channels_is_no_block() -> None:
    x = Value("x", TensorType((1, 64, 8, 8)))
    number = Dense(np.array(2.0, np.float16))
    stage = as_stage(new_layer("gain_offset_control", {"input": x, "gain": number}, {"axis": 1}, "g", location=None))
    made = packed(convolution(zeros(64, 64, 1, 1), epilogue=Epilogue().filled(Slot.GAIN_OFFSET, stage)))
    assert made.affine_bytes == 0


def test_depthwise_and_grouped() -> None:
    depthwise = packed(convolution(zeros(96, 1, 3, 3), 56, groups=96))
    assert (depthwise.core_bytes, depthwise.lanes, depthwise.basis) == ((128,) * 16, (), Basis.SEEN)
    grouped = packed(convolution(zeros(128, 16, 3, 3), 56, groups=4))
    # 64 planes of two outputs of 144 weights, 576 bytes each; a core has four of them.
    assert (grouped.core_bytes, grouped.basis) == ((4 * 576,) * 16, Basis.SEEN)
    few = packed(convolution(zeros(4, 2, 1, 1), 8, groups=2))
    assert few.core_bytes == (64,) * 4


def test_products() -> None:
    x = Value("x", TensorType((1, 512)))
    linear = packed(new_layer("linear", {"x": x, "weight": zeros(64, 512)}, None, "y", location=None))
    assert (linear.operand, linear.outputs, linear.reduction) == ("weight", 64, 512)
    for flipped, shape in ((False, (512, 64)), (True, (64, 512))):
        layer = new_layer("matmul", {"lhs": x, "rhs": zeros(*shape)}, {"transpose_rhs": flipped}, "y", location=None)
        made = packed(layer)
        assert (made.operand, made.outputs, made.reduction, made.core_bytes) == ("rhs", 64, 512, (4096,) * 16)
    column = Value("x", TensorType((512, 1)))
    for flipped, shape in ((False, (64, 512)), (True, (512, 64))):
        layer = new_layer(
            "matmul", {"lhs": zeros(*shape), "rhs": column}, {"transpose_lhs": flipped}, "y", location=None
        )
        assert (packed(layer).operand, packed(layer).outputs, packed(layer).reduction) == ("lhs", 64, 512)


def test_deconvolutions_have_their_outputs_second() -> None:
    x = Value("x", TensorType((1, 64, 8, 8)))
    window = {
        "strides": (2, 2),
        "dilation_rates": (1, 1),
        "explicit_padding": (0, 0, 0, 0),
        "kernel_sizes": (2, 2),
        "output_sizes": (16, 16),
    }
    made = packed(new_layer("deconvolution", {"input": x, "weights": zeros(64, 32, 2, 2)}, window, "y", location=None))
    assert (made.outputs, made.reduction, made.lanes) == (32, 256, (2,))


def test_layers_without_constant_weights_pack_nothing() -> None:
    x = Value("x", TensorType((8, 8)))
    for kind, operands in (("relu", {"x": x}), ("matmul", {"lhs": x, "rhs": x})):
        assert pack_layer(new_layer(kind, operands, None, "y", location=None), TARGET, rules()) is None


def test_limits_of_the_target() -> None:
    large = packed(convolution(zeros(512, 512, 3, 3), 7))
    assert (max(large.core_bytes), large.fits_kernel_memory, large.resident) == (294912, False, False)
    small = packed(convolution(zeros(64, 64, 3, 3), 7))
    assert (small.fits_kernel_memory, small.resident) == (True, True)


def test_compressed_weights_that_stream_are_estimated_and_others_are_made_dense() -> None:
    table = np.zeros(16, np.float16)
    palette = Palette(np.zeros((64, 64, 3, 3), np.uint8), table, bits=4)
    made = packed(convolution(palette))
    assert (made.basis, made.core_bytes) == (Basis.ESTIMATED, (1216,) * 16)
    sparse = Sparse(np.zeros((64, 64, 3, 3), np.bool_), np.zeros(0, np.float16))
    assert packed(convolution(sparse)).basis is Basis.ESTIMATED
    quantised = Int8Affine(np.zeros((64, 64, 3, 3), np.int8), np.ones(64, np.float16))
    assert packed(convolution(quantised)).core_bytes == (4608,) * 16, "int8 folds to fp16 on this target"
    later = pack_layer(convolution(quantised), resolve(Family.A14), rules())
    assert later is not None
    assert later.basis is Basis.ESTIMATED


def test_what_legalisation_chose_wins() -> None:
    layer = convolution(zeros(64, 64, 3, 3))
    made = packed(layer.choosing(lanes=(2,), tiles=(2,), active_cores=16))
    assert (made.lanes, made.core_bytes, made.basis) == ((2, 2), (4608,) * 16, Basis.SEEN)
    mixed = packed(layer.choosing(lanes=(2, 1), tiles=(1, 2), active_cores=16))
    assert (mixed.lanes, mixed.core_bytes) == ((2, 1, 1), (4608,) * 16)
    unknown = packed(layer.choosing(lanes="unknown"))
    assert (unknown.lanes, unknown.core_bytes, unknown.basis) == ((), (4608,) * 16, Basis.ESTIMATED)


def test_whether_an_encoding_stays_is_legalisation_s_choice_too() -> None:
    palette = Palette(np.zeros((64, 64, 3, 3), np.uint8), np.zeros(16, np.float16), bits=4)
    assert packed(convolution(palette).choosing(weights="unknown")).basis is Basis.ESTIMATED
    assert packed(convolution(palette).choosing(weights="folds")).core_bytes == (4608,) * 16


@settings(deadline=None)
@given(outputs=st.integers(1, 3000), cores=st.sampled_from([1, 2, 8, 16]), most=st.sampled_from([1, 16, 32]))
def test_blocks_hold_every_output_once(outputs: int, cores: int, most: int) -> None:
    lanes = tuple(lane for lane, _ in tiles_of(outputs, cores, most))
    blocks = tile_blocks(outputs, lanes, cores, 64)
    assert sum(blocks) == 64 * outputs
    assert len(blocks) == min(cores, outputs)


def test_a_target_whose_cores_nobody_knows() -> None:
    smallest = resolve("m11")
    assert smallest.hal.get("nes_per_ane") is None
    made = pack_layer(convolution(zeros(64, 64, 3, 3)), smallest, rules())
    assert len(cast("PackedWeights", made).core_bytes) == 16
