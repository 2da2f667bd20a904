"""Fusion: rows of table 22.3 of the guide that `passes/fusion.ir` does not have, and the meaning of every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.passes.collapse_layout import CollapseLayout
from aneforge.compiler.passes.constants_to_gain_offset import ConstantsToGainOffset
from aneforge.compiler.passes.eliminate_copies import EliminateCopies
from aneforge.compiler.passes.fold_dequantise import FoldDequantise
from aneforge.compiler.passes.fold_padding import FoldPadding
from aneforge.compiler.passes.fold_scale import FoldScale
from aneforge.compiler.passes.fuse_epilogue import FuseEpilogue
from aneforge.compiler.passes.hoist_through_concat import HoistThroughConcat
from aneforge.compiler.passes.matmul_to_convolution import MatmulToConvolution
from aneforge.compiler.passes.merge_activations import MergeActivations
from aneforge.compiler.passes.share_layouts import ShareLayouts
from aneforge.compiler.pipeline import FUSION
from aneforge.engine.execution.run import run
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.testing.networks import networks
from program_tools import ALGEBRAIC, expect_same_meaning, kinds_of, lowered, passed, slots_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.passes.base import Pass
    from aneforge.testing.graphs import DrawnGraph
    from golden_text import Golden

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
LAYOUT_PASSES = {"eliminate-copies", "fold-padding", "share-layouts", "fuse-square", "merge-activations"}
"""Passes that move or leave out, and so give the same bits."""
EVERY_PASS = (*FUSION[:-1], FoldScale("powers of two"))


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks())
def test_every_pass_keeps_the_meaning(drawn: DrawnGraph) -> None:
    program = lowered(drawn.graph)
    for one in EVERY_PASS:
        result = one(program)
        assert result.modified == (result.program is not program)
        if result.modified:
            tolerance = 0.0 if one.name in LAYOUT_PASSES else ALGEBRAIC
            expect_same_meaning(program, result.program, drawn.inputs, tolerance)
        program = result.program


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks())
def test_passes_have_nothing_left_to_do(drawn: DrawnGraph) -> None:
    program = passed(drawn.graph, *FUSION)
    assert not FuseEpilogue()(program).modified
    assert not EliminateCopies()(program).modified
    assert not ShareLayouts()(program).modified


def halves(*shape: int) -> Dense:
    return Dense(((np.arange(np.prod(shape)) % 9 - 4) / 2).astype(np.float16).reshape(shape))


def linear(x: af.Tensor, weight: Constant, bias: Constant | None = None) -> af.Tensor:
    return Tensor(build("linear", {"x": x, "weight": weight, "bias": bias}))


def image(name: str = "x") -> af.Tensor:
    return af.input((1, 4, 6, 6), name=name)


def convolved(x: af.Tensor, outputs: int = 4, *, bias: bool = False) -> af.Tensor:
    weight = halves(outputs, x.shape[1], 3, 3)
    return af.conv(x, weight, bias=halves(outputs) if bias else None, pad=1)


def added(x: af.Tensor, constant: Constant) -> af.Tensor:
    return Tensor(build("add", {"x": x, "y": constant}))


def multiplied(x: af.Tensor, constant: Constant) -> af.Tensor:
    return Tensor(build("mul", {"x": x, "y": constant}))


def weight_dequantised(x: af.Tensor) -> af.Tensor:
    data = Dense((np.arange(4 * 4 * 9) % 11 - 5).astype(np.int8).reshape(4, 4, 3, 3))
    weight = Tensor(build("dequantize", {"input": data, "scale": Dense(np.full(4, 0.25, np.float16))}, {"axis": 0}))
    return Tensor(build("dynamic_conv", {"x": x, "weight": weight}, {"pad_type": "custom", "pad": (1, 1, 1, 1)}))


def dequantised(x: af.Tensor, scale: float = 0.25) -> af.Tensor:
    return Tensor(build("dequantize", {"input": x, "scale": Dense(np.array(scale, np.float16))}))


def quantised(x: af.Tensor, scale: float = 0.25) -> af.Tensor:
    held = {"input": x, "scale": Dense(np.array(scale, np.float16))}
    return Tensor(build("quantize", held, {"output_dtype": "int8"}))


def concatenated(*parts: af.Tensor, axis: int = 1) -> af.Tensor:
    return Tensor(build("concat", {"values": parts}, {"axis": axis}))


def bytes_input(name: str) -> af.Tensor:
    return Tensor(build("input", {}, {"shape": (1, 4, 6, 6), "dtype": "int8", "name": name}))


@dataclass(frozen=True)
class Row:
    """A row of table 22.3: a pattern, and whether it fuses."""

    name: str
    graph: Callable[[], af.Tensor]
    layers: list[str]
    """The kinds that are left."""
    slots: list[dict[str, str]]
    """What fills their slots."""


CONV = "convolution"
GOC = "gain_offset_control"
ROWS = [
    Row("dequantised weight", lambda: weight_dequantised(image()).relu(), [CONV], [{"post_activation": "relu"}]),
    Row(
        "requantised output",
        lambda: quantised(convolved(image()).relu()),
        [CONV],
        [{"post_activation": "relu", "quantise": "quant"}],
    ),
    Row(
        "quantised again",
        lambda: quantised(dequantised(bytes_input("x")).relu()),
        ["dequant", "relu"],
        [{}, {"quantise": "quant"}],
    ),
    Row(
        "dequants across a concat",
        lambda: concatenated(dequantised(bytes_input("x")), dequantised(bytes_input("y"))).relu(),
        ["concat", "dequant", "relu"],
        [{}, {}, {}],
    ),
    Row(
        "pooling",
        (image().avg_pool(2) * 2.0 + 1.0).relu,
        ["average_pool"],
        [{"gain_offset": GOC, "post_activation": "relu"}],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_of_the_table(row: Row, golden: Golden) -> None:
    program = passed(row.graph(), *FUSION)
    assert kinds_of(program) == row.layers
    assert slots_of(program) == row.slots
    golden(str(program))
    generator = np.random.default_rng(0)
    inputs = {port.name: generator.integers(-8, 9, port.value.shape) / 4 for port in program.inputs}
    bytes_in = {
        port.name: inputs[port.name].astype(np.int8) for port in program.inputs if port.value.type.dtype == "int8"
    }
    expect_same_meaning(lowered(row.graph()), program, inputs | bytes_in, ALGEBRAIC)


def test_an_output_is_not_absorbed() -> None:
    y = convolved(image())
    program = passed({"y": y, "z": y.relu()}, *FUSION)
    assert kinds_of(program) == [CONV, "relu"]


def test_what_two_layers_read_is_not_absorbed() -> None:
    y = convolved(image()).relu()
    program = passed(y * 2.0 + y.tanh(), *FUSION)
    assert kinds_of(program) == [CONV, GOC, "tanh", "add"]
    assert slots_of(program)[0] == {"post_activation": "relu"}


@pytest.mark.parametrize(
    ("op", "first", "gain", "offset"),
    [
        ("add", False, None, 3.0),
        ("add", True, None, 3.0),
        ("sub", False, None, -3.0),
        ("sub", True, -1.0, 3.0),
        ("mul", False, 3.0, None),
    ],
)
def test_gain_and_offset_of_a_constant(op: str, first: bool, gain: float | None, offset: float | None) -> None:  # noqa: FBT001 - a case
    x, three = af.input((2, 3), name="x"), Dense(np.array(3, np.float16))
    pair = {"x": three, "y": x} if first else {"x": x, "y": three}
    (layer,) = passed(Tensor(build(op, pair)), ConstantsToGainOffset()).layers
    held = {name: layer.weight(name) for name in ("gain", "offset")}
    assert {name: None if one is None else float(one.dense()) for name, one in held.items()} == {
        "gain": gain,
        "offset": offset,
    }


def test_a_constant_along_other_axes_stays_an_operand() -> None:
    x = image()
    assert kinds_of(passed(added(x, halves(6)), ConstantsToGainOffset())) == ["add"]
    assert kinds_of(passed(added(x, halves(4, 6, 6)), ConstantsToGainOffset())) == ["add"]
    assert kinds_of(passed(added(x, halves(4, 1, 1)), ConstantsToGainOffset())) == [GOC]


def test_a_constant_that_widens_the_result_stays_an_operand() -> None:
    x = af.input((1, 4, 1, 1))
    assert kinds_of(passed(added(x, halves(1, 4, 3, 3)), ConstantsToGainOffset())) == ["add"]


def test_copies_of_inputs_that_leave_stay() -> None:
    x = image()
    program = passed({"y": Tensor(build("identity", {"x": x}))}, EliminateCopies())
    assert kinds_of(program) == ["identity"]


def test_an_offset_of_zero_stays() -> None:
    assert kinds_of(passed((image() * 1.0 + 0.0).relu(), EliminateCopies())) == [GOC, "relu"]


@pytest.mark.parametrize(
    ("pair", "left"),
    [
        (("relu", "relu"), "relu"),
        (("relu6", "relu"), "n_relu"),
        (("relu", "relu6"), "n_relu"),
        (("sigmoid", "relu"), "sigmoid"),
        (("abs", "abs"), "abs"),
        (("exp", "abs"), "exp"),
        (("softplus", "relu"), "softplus"),
        (("sigmoid_hard", "abs"), "sigmoid_hard"),
    ],
)
def test_pairs_of_activations(pair: tuple[str, str], left: str) -> None:
    first, second = pair
    x = af.input((8,), name="x")
    program = passed(Tensor(build(second, {"x": Tensor(build(first, {"x": x}))})), MergeActivations())
    assert kinds_of(program) == [left]


@pytest.mark.parametrize("pair", [("tanh", "relu"), ("relu", "tanh"), ("relu", "square"), ("silu", "relu")])
def test_pairs_that_do_not_merge(pair: tuple[str, str]) -> None:
    first, second = pair
    x = af.input((8,), name="x")
    assert len(passed(Tensor(build(second, {"x": Tensor(build(first, {"x": x}))})), MergeActivations()).layers) == 2


def test_bounds_of_bounds() -> None:
    x = af.input((8,), name="x")
    inner = Tensor(build("clip", {"x": x}, {"alpha": -1.0, "beta": 9.0}))
    (layer,) = passed(Tensor(build("clip", {"x": inner}, {"alpha": 2.0, "beta": 4.0})), MergeActivations()).layers
    assert (layer.attributes["alpha"], layer.attributes["beta"]) == (2.0, 4.0)


def test_padding_that_is_as_wide_as_the_kernel_stays() -> None:
    x = Tensor(build("pad", {"x": image()}, {"pad": (3, 3, 3, 3), "mode": "constant", "constant_val": 0.0}))
    assert kinds_of(passed(af.conv(x, halves(4, 4, 3, 3)), FoldPadding())) == ["padding", CONV]


def test_padding_with_other_numbers_stays() -> None:
    x = Tensor(build("pad", {"x": image()}, {"pad": (1, 1, 1, 1), "mode": "constant", "constant_val": 1.0}))
    assert kinds_of(passed(af.conv(x, halves(4, 4, 3, 3)), FoldPadding())) == ["padding", CONV]


def test_padding_is_folded_into_convolution_and_average() -> None:
    x = Tensor(build("pad", {"x": image()}, {"pad": (1, 2, 0, 1), "mode": "constant", "constant_val": 0.0}))
    (conv,) = passed(af.conv(x, halves(4, 4, 3, 3)), FoldPadding()).layers
    assert conv.attributes["explicit_padding"] == (1, 2, 0, 1)
    pool = Tensor(build("avg_pool", {"x": x}, {"kernel_sizes": (3, 3), "exclude_padding_from_average": False}))
    assert kinds_of(passed(pool, FoldPadding())) == ["average_pool"]
    counted = Tensor(build("avg_pool", {"x": x}, {"kernel_sizes": (3, 3), "exclude_padding_from_average": True}))
    assert kinds_of(passed(counted, FoldPadding())) == ["padding", "average_pool"]


def test_quantising_what_was_dequantised_cancels() -> None:
    x = bytes_input("x")
    same = passed({"y": quantised(dequantised(x)).cast("fp16")}, FoldDequantise())
    assert kinds_of(same) == ["cast"]
    other = passed({"y": quantised(dequantised(x), 0.5).cast("fp16")}, FoldDequantise())
    assert kinds_of(other) == ["dequant", "quant", "cast"]


def test_a_folded_weight_is_stored_as_it_was() -> None:
    program = passed(weight_dequantised(image()), FoldDequantise())
    (constant,) = program.constants.values()
    assert isinstance(constant, Int8Affine)
    assert [note.text for note in program.notes] == ["dequantised in the weight path"]


WEIGHTS = {
    "dense": halves(3, 8),
    "int8": Int8Affine(np.arange(24, dtype=np.int8).reshape(3, 8), np.array([1, 2, 4], np.float16)),
    "palette": Palette((np.arange(24) % 4).astype(np.uint8).reshape(3, 8), np.array([0, 1, 2, 4], np.float16), 2),
    "sparse": Sparse((np.arange(24) % 3 == 0).reshape(3, 8), np.arange(8).astype(np.float16)),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("shape", [(8,), (5, 8), (2, 5, 8), (2, 3, 5, 8)])
def test_a_product_becomes_a_convolution_and_keeps_its_encoding(name: str, shape: tuple[int, ...]) -> None:
    weight = WEIGHTS[name]
    x = af.input(shape, name="x")
    graph = Tensor(build("matmul", {"x": x, "y": weight}, {"transpose_y": True}))
    program = passed(graph, MatmulToConvolution())
    (layer,) = (layer for layer in program.layers if layer.kind.name == CONV)
    stored = layer.weight("weights")
    assert stored is not None
    assert (stored.encoding, stored.nbytes) == (weight.encoding, weight.nbytes)
    expect_same_meaning(lowered(graph), program, {"x": np.random.default_rng(0).normal(size=shape)}, ALGEBRAIC)


@pytest.mark.parametrize("bytes_allowed", [47, 48])
def test_the_threshold_decides_between_convolution_and_product(bytes_allowed: int) -> None:
    x = af.input((5, 8), name="x")
    program = passed(linear(x, halves(3, 8)), MatmulToConvolution(threshold=bytes_allowed))
    assert (CONV in kinds_of(program)) == (bytes_allowed >= 48)
    stays = [note.text for note in program.notes]
    assert stays == (
        [] if bytes_allowed >= 48 else ["stays a tiled product: 48 bytes of weight, 47 at most stay on the chip"]
    )


def test_a_weight_above_the_on_chip_memory_stays_a_product() -> None:
    x = af.input((1, 4096), name="x")
    small, large = (Dense(np.zeros((rows, 4096), np.float16)) for rows in (256, 257))
    assert CONV in kinds_of(passed(linear(x, small), *FUSION))
    assert "linear" in kinds_of(passed(linear(x, large), *FUSION))


def test_two_linear_layers_need_no_transposes_between_them() -> None:
    x = af.input((5, 8), name="x")
    y = linear(linear(x, halves(6, 8), bias=halves(6)).gelu(), halves(3, 6))
    program = passed(y, *FUSION)
    assert kinds_of(program) == ["reshape", "transpose", CONV, CONV, "reshape"]
    assert slots_of(program)[2:4] == [{"gain_offset": GOC, "post_activation": "gelu"}, {"transpose": "transpose"}]


def test_scales_are_folded_only_where_nothing_rounds() -> None:
    fold = FoldScale("powers of two")
    steps: tuple[Pass, ...] = (ConstantsToGainOffset(), FuseEpilogue())
    twos = multiplied(convolved(image()), Dense(np.array([1, 2, 0.5, -4], np.float16).reshape(4, 1, 1)))
    assert slots_of(passed(twos, *steps, fold)) == [{}]
    assert slots_of(passed(twos, *steps, FoldScale())) == [{"gain_offset": GOC}]
    three = multiplied(convolved(image()), Dense(np.full((4, 1, 1), 3, np.float16)))
    assert slots_of(passed(three, *steps, fold)) == [{"gain_offset": GOC}]
    tiny = multiplied(convolved(image()), Dense(np.full((4, 1, 1), 2.0**-24, np.float16)))
    assert slots_of(passed(tiny, *steps, fold)) == [{"gain_offset": GOC}]


def test_the_slots_that_are_filled_can_be_chosen() -> None:
    graph = convolved(image(), bias=True).relu()
    steps: tuple[Pass, ...] = (ConstantsToGainOffset(), FuseEpilogue((Slot.GAIN_OFFSET,)))
    assert slots_of(passed(graph, *steps)) == [{"gain_offset": GOC}, {}]


def test_layouts_of_one_tensor_are_shared() -> None:
    x = af.input((1, 4, 6), name="x")
    turned = [x.transpose((0, 2, 1)) for _ in "ab"]
    assert kinds_of(passed(turned[0] + turned[1], ShareLayouts())) == ["transpose", "add"]


def test_transposes_join_and_cancel() -> None:
    x = af.input((2, 3, 4), name="x")
    once = passed(x.transpose((1, 2, 0)).transpose((1, 0, 2)), CollapseLayout())
    assert kinds_of(once) == ["transpose"]
    assert once.layers[0].attributes["perm"] == (2, 1, 0)
    assert kinds_of(passed(x.transpose((1, 2, 0)).transpose((2, 0, 1)).relu(), CollapseLayout())) == ["relu"]
    assert kinds_of(passed(x.reshape(6, 4).reshape(24).reshape(2, 12), CollapseLayout())) == ["reshape"]


def test_a_transpose_of_unit_axes_is_a_reshape() -> None:
    x = af.input((1, 3, 1, 4), name="x")
    assert kinds_of(passed(x.transpose((2, 1, 0, 3)).relu(), CollapseLayout())) == ["relu"]
    assert kinds_of(passed(x.transpose((1, 0, 2, 3)).relu(), CollapseLayout())) == ["reshape", "relu"]


def test_squares_fuse_where_the_target_says_so() -> None:
    x = af.input((2, 8), name="x")
    graph = Tensor(build("square", {"x": Tensor(build("reduce_sum", {"x": x}, {"axes": (-1,), "keep_dims": True}))}))
    assert kinds_of(passed(graph, *FUSION, target="h13")) == ["reduce_sum", "sqr"]
    assert kinds_of(passed(graph, *FUSION, target="h14")) == ["square_after_reduction"]


def test_texture_is_fused_where_there_is_a_texture_engine() -> None:
    graph = convolved(image()).upsample(2)
    assert slots_of(passed(graph, *FUSION, target="h14")) == [{"texture": "resize"}]
    assert kinds_of(passed(graph, *FUSION, target="h13")) == [CONV, "resize"]


def test_hoisting_shares_out_the_channels() -> None:
    graph = multiplied(concatenated(convolved(image(), 2), convolved(image("y"), 3)), halves(5, 1, 1))
    program = passed(graph, ConstantsToGainOffset(), HoistThroughConcat())
    gains = [layer.weight("gain") for layer in program.layers if layer.kind.name == GOC]
    assert [gain.dense().tolist() for gain in gains if gain] == [[-2.0, -1.5], [-1.0, -0.5, 0.0]]


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (1, 6, 3, 5)])
def test_rows_along_two_axes_are_not_one_gain_and_offset(shape: tuple[int, ...]) -> None:
    """A bias of the last axis, a normalisation of channels, a sum along the last axis again; of equal lengths too."""
    channels, width = shape[1], shape[3]
    ones, along = np.ones(channels), np.arange(float(width))
    x = af.input(shape, name="x").linear(np.eye(width), along)
    y = af.batch_norm(x, np.arange(1.0, channels + 1), ones, ones, ones) + along.reshape(1, 1, 1, width)
    values = {"x": np.random.default_rng(0).standard_normal(shape)}
    expect_same_meaning(lowered(y), passed(y, *FUSION), values, 1e-6)  # constants are held in fp16


@pytest.mark.parametrize("target", ["h13", "h17s"])
def test_a_layout_that_several_read_once_another_is_left_out_stays_above_them(target: str) -> None:
    """A perceptron of LeViT: a reshape sinks below gains and offsets, and undoes one that two operations read."""
    weight, row = np.eye(32), np.linspace(0.5, 1.0, 32)
    x = af.input((1, 6, 32), name="x")
    y = ((x.linear(weight).reshape(6, 32) - row) * row + row).reshape(1, 6, 32)
    out = (y.sigmoid_hard() * y).linear(weight)
    graph = af.Graph({"y": out})
    sample = {"x": np.random.default_rng(0).standard_normal((1, 6, 32)).astype(np.float16)}
    found = run(build_program(graph, target), sample).outputs["y"]
    assert np.allclose(found, af.reference(graph, sample)["y"], atol=1e-2)
