"""The guide's tables 35.2 to 35.4 and the second row of table 22.1, row by row: what a compile makes of each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.compiler.pipeline import FUSION, LEGALISATION, Pipeline
from aneforge.errors import IllegalGraphError
from aneforge.graph.node import build
from aneforge.ops.constant import Blockwise, Dense, Int8Affine
from aneforge.ops.table import find_op
from aneforge.targets import Family
from legalisation_tools import assert_same_meaning, constant, inputs_of
from program_tools import anonymous, kinds_of, lowered

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import GraphLike
    from golden_text import Golden

WHOLE = Pipeline((*FUSION, *LEGALISATION))
FAMILIES = (Family.A13, Family.A14, Family.A15, Family.A16)
EARLY, LATE = "h13", "h17s"


def made(op: str, *operands: af.Tensor | Dense, **attributes: object) -> af.Tensor:
    """Return an operation by the name that the table has for it."""
    entry = find_op(op)
    given: dict[str, object] = {}
    for operand, one in zip(entry.operands, operands, strict=False):
        given[operand.name] = (one,) if operand.variadic else one
    return af.Tensor(build(entry, given, attributes))  # pyright: ignore[reportArgumentType] - operands by name


def compiled(graph: GraphLike, target: str | Family) -> Program:
    """Return the program of a graph, without places."""
    return anonymous(build_program(graph, target, pipeline=WHOLE))


def outcome(graph: GraphLike, family: Family) -> str:
    """Return the kinds of layers that a graph becomes, or the rule that refuses it."""
    try:
        kinds = kinds_of(compiled(graph, family))
    except IllegalGraphError as error:
        return f"refused by {error.findings[0].split()[0]}"
    return ", ".join(kinds) if len(kinds) < 5 else f"{len(kinds)} layers, {', '.join(sorted(set(kinds)))}"


def image() -> af.Tensor:
    """Return an input of one image."""
    return af.input((1, 4, 8, 8))


FLOORS: dict[str, dict[str, Callable[[], af.Tensor]]] = {
    "F0": {
        "convolution": lambda: af.conv(image(), constant(4, 4, 3, 3).values, pad=1),
        "deconvolution": lambda: af.conv_transpose(image(), constant(4, 4, 2, 2).values, stride=2),
        "matmul": lambda: made("matmul", af.input((4, 8)), af.input((8, 2))),
        "pooling": lambda: image().max_pool(2),
        "elementwise": lambda: image() + image(),
        "reshape": lambda: image().reshape(1, 256),
        "transpose": lambda: image().transpose(0, 2, 3, 1),
        "sigmoid": lambda: image().sigmoid(),
        "tanh": lambda: image().tanh(),
        "relu": lambda: image().relu(),
        "gelu": lambda: image().gelu(),
        "swish": lambda: image().silu(),
    },
    "F2": {
        "softmax": lambda: image().softmax(),
        "layer_norm": lambda: made("layer_norm", image(), axes=(3,)),
        "instance_norm": lambda: made("instance_norm", image()),
        "reduction": lambda: image().sum((3,)),
        "resize": lambda: af.resize_bilinear(image(), 16, 16),
        "sdpa": lambda: made("sdpa", *(af.input((1, 2, 8, 4)) for _ in range(3)), native=True),
        "erf": lambda: image().erf(),
        "exp2": lambda: image().exp2(),
        "rsqrt": lambda: image().rsqrt(),
        "sqrt": lambda: image().sqrt(),
        "tile": lambda: made("tile", image(), reps=(1, 2, 1, 1)),
        "space_to_channel": lambda: made("space_to_depth", image(), block_size=2),
    },
    "F3": {
        "crop_resize": lambda: made("crop_resize", image(), af.input((1, 4)), target_height=4, target_width=4),
        "resample": lambda: made(
            "resample",
            image(),
            af.input((1, 4, 4, 2)),
            sampling_mode="bilinear",
            padding_mode="constant",
            coordinates_mode="unnormalized",
            align_corners=True,
        ),
    },
    "F4": {
        "sin": lambda: image().sin(),
        "cos": lambda: image().cos(),
        "global arg-max": lambda: made("global_arg_min_max", image()),
    },
}


def lines_of(operations: dict[str, Callable[[], af.Tensor]]) -> str:
    """Return what operations become on each family, one line for all families that agree."""
    lines: list[str] = []
    for name, operation in operations.items():
        for found, families in groupby(FAMILIES, key=lambda family: outcome(operation(), family)):
            lines.append(f"{name} on {', '.join(family.name for family in families)}: {found}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("floor", FLOORS)
def test_table_35_2(floor: str, golden: Golden) -> None:
    golden(lines_of(FLOORS[floor]))


DIVERGENCES: dict[str, Callable[[], af.Tensor]] = {
    "width_slice": lambda: image().slice_by_size((0, 0, 0, 4), (1, 4, 8, 4)),
    "resize": lambda: af.resize_bilinear(image(), 16, 16),
    "matmul": lambda: made("matmul", af.input((20_000, 4)), af.input((4, 8))),
    "transpose": lambda: af.input((1, 2, 20_000, 64)).transpose(0, 1, 3, 2),
    "strided_convolution": lambda: af.conv(af.input((1, 3, 24, 24)), constant(4, 3, 6, 6).values, stride=6),
}


@pytest.mark.parametrize("row", DIVERGENCES)
@pytest.mark.parametrize("target", [EARLY, LATE])
def test_table_35_3(row: str, target: str, golden: Golden) -> None:
    graph = af.Graph({"y": DIVERGENCES[row]()})
    program = compiled(graph, target)
    before = lowered(graph, target)
    assert_same_meaning(before, program, inputs_of(before))
    golden(str(program))


def linear_with(weights: Int8Affine | Blockwise) -> af.Tensor:
    """Return a linear layer of encoded weights."""
    return af.Tensor(build("linear", {"x": af.input((1, 8)), "weight": weights}, {}))


ELSEWHERE: dict[str, Callable[[], af.Tensor]] = {
    "sin": FLOORS["F4"]["sin"],
    "cos": FLOORS["F4"]["cos"],
    "crop_resize": FLOORS["F3"]["crop_resize"],
    "resample": FLOORS["F3"]["resample"],
    "gather_hw": lambda: made("gather_hw", image(), Dense(np.zeros((3, 2), np.uint16))),
    "topk": lambda: made("topk", af.input((1, 8)), k=2),
    "sort": lambda: made("sort", af.input((1, 8))),
    "dropout": lambda: made("dropout", image()),
    "random": lambda: made("random", shape=(1, 8), dtype="fp16") + af.input((1, 8)),
    "global_arg_min_max": FLOORS["F4"]["global arg-max"],
}
"""Rows of table 35.4 that retargeting answers for."""
BLOCKED: dict[str, Callable[[], af.Tensor]] = {
    "reduce_then_square": lambda: image().sum((3,)).square(),
    "width_slice": DIVERGENCES["width_slice"],
    "int8_weights": lambda: linear_with(Int8Affine(np.ones((4, 8), np.int8), np.full(4, 0.5, np.float16))),
    "blockwise_weights": lambda: linear_with(Blockwise(np.ones((4, 8), np.int8), np.full((4, 2), 0.5, np.float16))),
}
"""Rows of table 35.4 that the passes answer for."""


def test_table_35_4_rows_of_operations(golden: Golden) -> None:
    golden(lines_of(ELSEWHERE))


@pytest.mark.parametrize("row", BLOCKED)
def test_table_35_4(row: str, golden: Golden) -> None:
    graph = af.Graph({"y": BLOCKED[row]()})
    golden("\n".join(str(compiled(graph, family)) for family in FAMILIES))


def test_table_22_1_second_phase(golden: Golden) -> None:
    """Rank, kernel memory and segments in one program: a shuffle by hand, a large kernel, and attention."""
    x = af.input((1, 64, 8, 8))
    parted = made("reshape", x, shape=(1, 16, 2, 2, 8, 8))
    shuffled = made("reshape", made("transpose", parted, perm=(0, 1, 4, 2, 5, 3)), shape=(1, 16, 16, 16))
    convolved = af.conv(shuffled, constant(2048, 16, 5, 5).values, pad=2).relu()
    pooled = convolved.mean((2, 3)).reshape(1, 1, 64, 32)
    attended = made("sdpa", pooled, pooled, pooled, native=True).tanh()
    before = lowered(af.Graph({"y": attended}), EARLY)
    after = WHOLE.run(before)
    assert_same_meaning(before, after, inputs_of(before))
    golden(str(after))
