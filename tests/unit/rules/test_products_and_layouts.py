"""What the rules about products, strides, layouts and gathers let through, and what they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.ops.constant import Dense
from aneforge.ops.types import TensorType, numpy_dtype
from aneforge.rules import Operation, rules
from aneforge.targets import resolve
from unit.rules.operations_by_hand import IMAGE, call, convolution, fp16, ids, volume

if TYPE_CHECKING:
    from aneforge.ops.signature import AttributeValue


def test_a_constant_kernel_takes_any_batch_and_any_stride_that_factors() -> None:
    x, weight = fp16(4, 8, 64, 64), Dense(np.zeros((8, 8, 3, 3), np.float16))
    given: dict[str, AttributeValue] = {"kernel_sizes": (3, 3), "strides": (16, 1)}
    held = Operation(
        "conv", (x,), (x,), given, arguments={"x": (x,), "weight": (weight.type,)}, constants={"weight": (weight,)}
    )
    assert ids(held, "m1") == []
    live = Operation("conv", (x,), (x,), given, arguments={"x": (x,), "weight": (weight.type,)})
    assert ids(live, "m1") == ["ANE-CONV-007", "ANE-STRIDE-003"]


@pytest.mark.parametrize(
    ("stride", "found"),
    [
        (1, []),
        (3, []),
        (9, []),
        (64, []),
        (5, ["ANE-STRIDE-001"]),
        (10, ["ANE-STRIDE-001"]),
        (27, ["ANE-STRIDE-002"]),
        (128, ["ANE-STRIDE-002"]),
    ],
)
def test_strides_are_products_of_two_factors(stride: int, found: list[str]) -> None:
    assert ids(call("conv", x=IMAGE, strides=(stride, 1)), "m4") == found
    assert ids(call("conv_transpose", x=IMAGE, strides=(stride, 1)), "m4") == []


def test_a_1x1_kernel_of_run_time_reads_a_strided_slice() -> None:
    assert ids(convolution(IMAGE, fp16(8, 8, 1, 1), strides=(8, 8), pad_type="valid"), "m1") == []
    padded = convolution(IMAGE, fp16(8, 8, 1, 1), strides=(8, 8), pad_type="custom", pad=(0, 1, 0, 0))
    assert ids(padded, "m1") == ["ANE-STRIDE-003"]


def test_a_convolution_with_a_depth_of_1_all_round_is_two_dimensional() -> None:
    assert ids(convolution(volume(1), fp16(4, 4, 1, 3, 3)), "m1") == []
    assert ids(convolution(volume(2), fp16(4, 4, 1, 3, 3)), "m1") == ["ANE-CONV-006"]
    assert ids(convolution(volume(1), fp16(4, 4, 3, 3, 3)), "u1") == ["ANE-CONV-005", "ANE-CONV-006"]


def held_product(x: TensorType, y: TensorType, name: str) -> Operation:
    """Return a product of which one operand is a constant."""
    constant = Dense(np.zeros({"x": x, "y": y}[name].shape, np.float16))
    return Operation("matmul", (x,), (x,), arguments={"x": (x,), "y": (y,)}, constants={name: (constant,)})


def test_a_constant_operand_may_stream_and_need_not_fit_kernel_memory() -> None:
    x, y = fp16(2, 40_000), fp16(40_000, 2)
    assert ids(call("matmul", x=x, y=y), "m5") == ["ANE-MATRIXMULT-006"]
    assert ids(held_product(x, y, "x"), "m5") == ids(held_product(x, y, "y"), "m5") == []
    assert ids(call("matmul", x=fp16(40_000, 2), y=y, transpose_x=True), "m5") == ["ANE-MATRIXMULT-006"]


@pytest.mark.parametrize(
    ("x", "y", "merged"),
    [
        ((2, 3, 4), (2, 3, 4), True),
        ((2, 3, 4), (), True),
        ((2, 3, 4), (4,), True),
        ((2, 3, 4), (3, 4), True),
        ((2, 3, 1), (1, 1, 4), True),
        ((2, 1, 4), (1, 3, 1), False),
        ((2, 3, 4), (1, 3, 1), False),
        ((2, 1, 4), (1, 1, 1), True),
        ((1, 3, 4), (3, 1), True),
    ],
)
def test_batch_axes_are_merged_where_operands_share_them(
    x: tuple[int, ...], y: tuple[int, ...], *, merged: bool
) -> None:
    batch = np.broadcast_shapes(x, y)
    product = call("matmul", (fp16(*batch, 4, 4),), x=fp16(*x, 4, 4), y=fp16(*y, 4, 4))
    assert ("ANE-MATRIXMULT-007" not in ids(product, "m2")) is merged


def test_a_vector_leaves_no_axes_to_merge() -> None:
    assert "ANE-MATRIXMULT-007" in ids(call("matmul", (fp16(2, 3, 4, 5),), x=fp16(2, 3, 4, 5, 6), y=fp16(6)), "m2")
    assert ids(call("matmul", (fp16(2, 3, 4),), x=fp16(2, 3, 4, 6), y=fp16(6)), "m2") == []


def test_what_repeats_axes_of_length_1_alone_is_a_broadcast_and_takes_any_count() -> None:
    assert ids(call("tile", (fp16(1, 8, 5, 16),), x=fp16(1, 8, 1, 16), reps=(1, 1, 5, 1)), "m1") == []
    assert ids(call("tile", (fp16(1, 8, 80, 16),), x=IMAGE, reps=(1, 1, 5, 1)), "m1") == ["ANE-TILE-002"]
    assert ids(call("tile", (volume(5),), x=volume(1), reps=(1, 1, 5, 1, 1)), "m1") == ["ANE-TILE-002"]
    assert ids(call("tile", (volume(2),), x=volume(1), reps=(1, 1, 2, 1, 1)), "m1") == []


def test_only_a_broadcast_along_the_depth_is_gated() -> None:
    assert ids(call("broadcast", (fp16(1, 4, 3, 8, 8),), x=fp16(1, 4, 3, 8, 1)), "m1") == []
    assert ids(call("broadcast", (fp16(1, 4, 3, 8, 8),), x=fp16(8, 8)), "m1") == ["ANE-GATE-010"]
    assert ids(call("broadcast", (fp16(1, 4, 8, 8),), x=fp16(1, 1, 8, 8)), "m1") == []


@pytest.mark.parametrize(
    ("x", "index", "batches", "seen"),
    [
        ((4, 5, 6), (7, 3), 0, None),
        ((1, 4, 5, 6), (1, 7, 3), 1, None),
        ((4, 5), (7, 2), 0, None),
        ((2, 4, 5), (2, 7, 2), 1, "2 images"),
        ((4, 5, 6, 7), (7, 4), 0, "4 axes"),
        ((4, 5, 6), (7, 2), 0, "2 coordinates computed at run time"),
        ((4, 5, 6), (200, 200, 3), 0, "40000 lookups"),
    ],
)
def test_coordinates_of_run_time_name_every_axis_of_one_image(
    x: tuple[int, ...], index: tuple[int, ...], batches: int, seen: str | None
) -> None:
    indices = TensorType(index, "uint16")
    gather = call("gather_nd", (fp16(7),), x=fp16(*x), indices=indices, batch_dims=batches)
    finding = rules()["ANE-GATHER-003"].check(gather, resolve("m1"))
    assert (None if finding is None else f"{finding.seen} {finding.what}") == seen
    assert rules()["ANE-GATHER-003"].check(gather, resolve("m2")) is None


def test_constant_coordinates_are_rewritten_up_to_the_longest_index() -> None:
    index = Dense(np.zeros((5, 1), np.int32))
    for rows, found in ((16_384 // 5, []), (16_384 // 5 + 1, ["ANE-GATHER-003"])):
        x = fp16(8, rows)
        gather = Operation(
            "gather_nd",
            (x,),
            (fp16(5, rows),),
            {"batch_dims": 0},
            arguments={"x": (x,), "indices": (index.type,)},
            constants={"indices": (index,)},
        )
        assert ids(gather, "m1") == found


def test_fp8_constants_are_looked_at_beside_a_tensor_alone() -> None:
    weight = Dense(np.zeros((4, 4), "float16").astype(numpy_dtype("fp8e4m3fn")))
    x = fp16(1, 4)
    arguments, constants = {"x": (x,), "weight": (weight.type,)}, {"weight": (weight,)}
    beside = Operation("linear", (x,), (x,), arguments=arguments, constants=constants)
    assert ids(beside, "m5") == ["ANE-DTYPE-004"]
    assert ids(Operation("linear", (), (x,), arguments=arguments, constants=constants), "m5") == []
