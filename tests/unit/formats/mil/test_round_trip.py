"""A graph that is written and read means the same; text that is read and written is the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.errors import NotSupportedError
from aneforge.formats.mil.program import parse_mil
from aneforge.formats.mil.text import MilText, mil_text
from aneforge.graph.node import build
from aneforge.graph.reference import evaluate
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.table import ops
from aneforge.testing.graphs import DrawnGraph, graphs, one_operation
from llama_block import llama_block
from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from transformer import encoder
from unet import unet

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.op import Op

Array = npt.NDArray[Any]
SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

REFUSED = {"call", "const", "while_loop"}
"""Operations of which a graph holds no more than the name."""
COMPOSITE = {"channel_layer_norm", "group_norm", "rms_norm"}
"""Operations that are not in MIL and are written as several."""
ROUNDED = {"linear", "sdpa"}
"""Operations whose form in MIL is the same mathematics in another order, so that float64 rounds it otherwise."""
RENAMED = {
    "adds": "adds",
    "bmm": "matmul",
    "bmm_w": "matmul",
    "cond": "select",
    "dynamic_conv": "conv",
    "l2_norm": "real_div",
    "muls": "muls",
    "read_state": "identity",
    "upsample": "upsample_nearest_neighbor",
    "write_state": "identity",
    "channel_layer_norm": "add",
    "group_norm": "add",
    "rms_norm": "mul",
}
"""Operations that come back as another, and as which."""
WRITTEN = [op for name, op in ops().items() if (op.in_mil or name in COMPOSITE) and name not in REFUSED]


def read_back(made: MilText) -> af.Graph:
    return parse_mil(made.text, made.weights.tobytes()).graph()


def fed(graph: af.Graph, drawn: DrawnGraph) -> dict[str, Array]:
    return {name: value for name, value in drawn.inputs.items() if name in graph.inputs}


def same(one: Array, other: Array) -> bool:
    """Return whether two arrays are of one type and hold the same numbers, −0 told from 0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    nan = np.isnan(one)
    return np.array_equal(nan, np.isnan(other)) and np.where(nan, 0, one).tobytes() == np.where(nan, 0, other).tobytes()


REBUILT = {
    "batch_to_space": ("slice_by_index",),
    "gru": ("reverse",),
    "linear": ("reshape",),
    "lstm": ("reverse",),
    "resize": ("gather", "upsample_nearest_neighbor"),
    "rnn": ("reverse",),
    "sdpa": ("matmul",),
    "space_to_batch": ("reshape",),
}
"""Operations that are rebuilt in some forms, of which MIL has other conventions, and what they end with then."""


@pytest.mark.parametrize("op", WRITTEN, ids=lambda op: op.name)
def test_every_operation_means_the_same(op: Op) -> None:
    @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
    @given(one_operation(op))
    def round_trip(drawn: DrawnGraph) -> None:
        made = mil_text(drawn.graph)
        again = read_back(made)
        node = next(iter(again.outputs.values())).node
        assert node.op.name in (RENAMED.get(op.name, op.name), *REBUILT.get(op.name, ()))
        assert list(again.outputs) == list(drawn.graph.outputs)
        assert [value.type for value in again.outputs.values()] == [
            value.type for value in drawn.graph.outputs.values()
        ]
        if op.name != "write_state":  # whose first operand the result does not depend on
            assert mil_text(again).text == made.text
        if op.meaning is None:
            return
        before, after = evaluate(drawn.graph, drawn.inputs)[0], evaluate(again, fed(again, drawn))[0]
        for name, value in before.items():
            if op.name in COMPOSITE:  # parameters become constants of the tensor's own element type
                np.testing.assert_allclose(after[name], value, rtol=2.0**-10, atol=1e-3)
            elif op.name in ROUNDED:
                np.testing.assert_allclose(after[name], value, rtol=1e-11, atol=1e-12)
            else:
                assert same(after[name], value), name

    round_trip()


def test_the_lists_name_every_exception() -> None:
    unlike = {op.name for op in ops().values() if op.in_mil and op.mil_name != op.name}
    assert unlike - {"sdpa", "state"} <= set(RENAMED)
    assert {name for name in RENAMED if not ops()[name].in_mil} == COMPOSITE


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_graph_holds_only_by_name_is_refused(name: str) -> None:
    @settings(max_examples=1, deadline=None, derandomize=True)
    @given(one_operation(ops()[name]))
    def refused(drawn: DrawnGraph) -> None:
        with pytest.raises(NotSupportedError, match=f"^{name} at .*a graph cannot write it"):
            mil_text(drawn.graph)

    refused()


LAYERS = sorted(
    name
    for name, op in ops().items()
    if not op.in_mil and name != "input" and all(one.supplies for one in op.decompositions())
)
"""Operations that are layers of their own, and no others."""


@pytest.mark.parametrize("name", LAYERS)
def test_what_has_no_form_in_mil_is_refused(name: str) -> None:
    @settings(max_examples=1, deadline=None, derandomize=True)
    @given(one_operation(ops()[name]))
    def refused(drawn: DrawnGraph) -> None:
        with pytest.raises(NotSupportedError, match=f"^{name} at .*no form in MIL text.*network description"):
            mil_text(drawn.graph)

    refused()


INEXACT = ROUNDED | COMPOSITE | {"write_state", "matrix_decomposition", "cond"}
EXACT = [op.name for op in WRITTEN if op.name not in INEXACT]


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(graphs(among=EXACT))
def test_graphs_of_several_operations_mean_the_same(drawn: DrawnGraph) -> None:
    again = read_back(mil_text(drawn.graph))
    before, after = evaluate(drawn.graph, drawn.inputs)[0], evaluate(again, drawn.inputs)[0]
    assert list(before) == list(after)
    for name, value in before.items():
        assert same(after[name], value), name


def without_places(graph: af.Graph) -> str:
    return re.sub(r" at .*", "", str(graph))


NETWORKS: dict[str, Callable[[], af.Graph]] = {
    "resnet18": lambda: resnet18(size=32, classes=10),
    "mobilenet_v2": mobilenet_v2,
    "encoder": lambda: encoder(length=10, width=24, layers=2, heads=3),
    "llama_block": lambda: llama_block(width=32, heads=2, places=8),
    "unet": unet,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_read_back(name: str) -> None:
    graph = NETWORKS[name]()
    made = mil_text(graph)
    again = read_back(made)
    assert list(again.inputs) == list(graph.inputs)
    assert list(again.outputs) == list(graph.outputs)
    assert list(again.states) == list(graph.states)
    assert mil_text(again).text == made.text
    assert mil_text(again).weights.tobytes() == made.weights.tobytes()
    if name not in ("unet", "llama_block"):  # whose norms are written as several operations
        assert sorted(one.digest for one in again.constants.values()) == sorted(
            one.digest for one in graph.constants.values()
        )


def test_a_network_gives_the_same_numbers() -> None:
    graph = NETWORKS["llama_block"]()
    again = read_back(mil_text(graph))
    generator = np.random.default_rng(0)
    feed = {name: generator.standard_normal(node.types[0].shape) for name, node in graph.inputs.items()}
    states = {name: generator.standard_normal(node.types[0].shape) for name, node in graph.state_placeholders.items()}
    before, after = evaluate(graph, feed, states), evaluate(again, feed, states)
    for one, other in zip(before, after, strict=True):
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_allclose(other[name], one[name], rtol=2e-3, atol=2e-3)  # gamma · √D is fp16


# Constants.

DATA = np.arange(-8, 16, dtype=np.int8).reshape(4, 6)
HALF = np.array([[0.5, 1.5]] * 4, np.float16)


def palette(bits: int) -> Palette:
    indices = (np.arange(20) % (1 << bits)).astype(np.uint8).reshape(4, 5)
    return Palette(indices, np.linspace(-1, 1, 1 << bits).astype(np.float16), bits)


CONSTANTS: dict[str, Constant] = {
    "affine": Int8Affine(DATA, np.array([0.5, 1, 2, 4], np.float16)),
    "affine by columns": Int8Affine(DATA, np.ones(6, np.float32), np.arange(6, dtype=np.int8), axis=1),
    "affine with one scale": Int8Affine(DATA, np.array([0.25], np.float16), np.array(3, np.int8)),
    "affine unsigned": Int8Affine(DATA.astype(np.uint8), np.array(0.25, np.float16), np.array([128] * 4, np.uint8)),
    "affine with a wide zero point": Int8Affine(DATA, np.array(1.0, np.float16), np.array(7, np.int32)),
    "affine of one channel": Int8Affine(DATA[:1], np.array([2.0], np.float16)),
    "sparse": Sparse(DATA % 3 == 0, np.arange(8, dtype=np.float16)),
    "sparse without values": Sparse(np.zeros((2, 3), np.bool_), np.zeros(0, np.float16)),
    "blocks": Blockwise(DATA, HALF),
    "blocks with an offset": Blockwise(DATA, HALF, np.ones((2, 1), np.int8)),
    "blocks with an odd offset": Blockwise(DATA, HALF, np.ones((1, 3), np.int32)),
    "blocks of four bits": Blockwise((DATA % 8).astype(np.dtype("int8")), HALF, HALF),
    "one number": Dense(np.array(0.1, np.float16)),
    "one integer": Dense(np.array(-5, np.int32)),
    "infinity": Dense(np.array(-np.inf, np.float32)),
    "a NaN with bits": Dense(np.array(0xFE01, np.uint16).view(np.float16)),
    "NaNs with bits": Dense(np.array([0xFE01, 0x7C01, 0x7E00], np.uint16).view(np.float16)),
    "minus zero": Dense(np.array([-0.0, 0.0], np.float16)),
    "booleans": Dense(np.array([[True, False]])),
    "long booleans": Dense(np.arange(100) % 3 == 0),
    "wide numbers": Dense(np.array([2**63 - 1, -(2**63)], np.int64)),
    "unsigned wide numbers": Dense(np.array([2**64 - 1], np.uint64)),
    "doubles": Dense(np.array([[0.1, 1e-300]], np.float64)),
    "short integers": Dense(np.arange(12, dtype=np.int32).reshape(3, 4)),
    "long integers": Dense(np.arange(200, dtype=np.int32)),
    "nothing": Dense(np.zeros((0, 4), np.float16)),
    **{f"palette of {bits}": palette(bits) for bits in (1, 2, 3, 4, 6, 8)},
    "a short palette": Palette(np.array([0, 1, 2, 2], np.uint8), np.array([1, 2, 3], np.float16), 4),
}  # fmt: skip


def held(constant: Constant) -> tuple[MilText, Constant]:
    """Write a constant as the operand of an operation and return it as it comes back."""
    made = mil_text(af.Graph({"y": af.Tensor(build("identity", {"x": constant}))}))
    again = read_back(made)
    (back,) = again.constants.values()
    return made, back


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_keep_their_encoding_and_their_numbers(name: str) -> None:
    constant = CONSTANTS[name]
    _, back = held(constant)
    assert (back.encoding, back.type) == (constant.encoding, constant.type)
    assert back.dense().tobytes() == constant.dense().tobytes()
    if isinstance(constant, Dense):
        assert back.digest == constant.digest


def test_compressed_weights_are_written_as_the_dialect_has_them() -> None:
    made, _ = held(CONSTANTS["affine"])
    path = '(BLOBFILE(path = string("@model_path/weights.bin"), offset = uint64('
    assert (
        'constexpr_affine_dequantize()[axis = int32(0), name = string("t0_x"), '
        f"quantized_data = tensor<int8, [4, 6]>{path}64))), scale = tensor<fp16, [4]>{path}152))), "
        "zero_point = int8(0)];"
    ) in made.text
    made, _ = held(CONSTANTS["palette of 4"])
    assert "tensor<uint4, [4, 5]> t0_x_indices" in made.text
    assert "tensor<fp16, [1, 1, 16, 1]> t0_x_lut" in made.text
    made, _ = held(CONSTANTS["sparse"])
    assert "tensor<uint1, [4, 6]> t0_x_mask" in made.text
    made, _ = held(CONSTANTS["blocks"])
    assert "t0_x = add(x = t0_x_blocks, y = fp16(-0x0p+0))" in made.text


def test_blocks_feed_an_operation_that_needs_a_constant_directly() -> None:
    x = af.input((2, 6))
    linear = af.Tensor(build("linear", {"x": x, "weight": CONSTANTS["blocks"]}))
    made = mil_text(af.Graph({"y": linear}))
    assert " add(" not in made.text
    assert isinstance(read_back(made).outputs["y"].node.operands["weight"], Blockwise)


@pytest.mark.parametrize(
    ("constant", "message"),
    [
        (Int8Affine(DATA, np.array(1.0, np.float16), np.array(300, np.int32)), "zero point in another element type"),
        (Int8Affine(DATA, np.array(1.0, np.float16), np.array(0.5, np.float16)), "zero point in another element type"),
        (Blockwise(DATA, HALF, np.full((1, 1), 2**20, np.int32)), "offset in another element type"),
    ],
)
def test_parts_that_mil_does_not_take_are_refused(constant: Constant, message: str) -> None:
    with pytest.raises(NotSupportedError, match=f"^identity at .*{message}"):
        held(constant)


def test_a_constant_of_several_operations_is_written_once() -> None:
    x, weight = af.input((2, 4)), Dense(np.arange(8, dtype=np.float16).reshape(2, 4))
    first = af.Tensor(build("add", {"x": x, "y": weight}))
    made = mil_text(af.Tensor(build("mul", {"x": first, "y": weight})))
    assert len(made.weights.parts) == 1
    assert made.weights.parts[0][1] is weight.values, "weights are not copied"


def test_constexpr_operations_that_are_nodes_stay_nodes() -> None:
    data, scale = Dense(np.array([[2, 4]], np.int8)), Dense(np.array([[0.3, 0.7]], np.float16))
    node = build("constexpr_blockwise_shift_scale", {"data": data, "scale": scale})
    x = af.input((1, 2), name="x")
    graph = af.Graph({"y": af.Tensor(build("mul", {"x": x, "y": af.Tensor(node)}))})
    made = mil_text(graph)
    assert '{"aneforge.nodes.main", "t0"}' in made.text
    assert "constexpr_blockwise_shift_scale" in [node.op.name for node in read_back(made).nodes]


# Numbers, names, states, ports.


@settings(max_examples=200, deadline=None)
@given(st.floats())
@example(0.1)
@example(1e300)
@example(-0.0)
def test_numbers_keep_every_bit(number: float) -> None:
    made = mil_text((af.input((1,)) * number) + number)
    found = [node.attributes for node in read_back(made).nodes]
    assert repr(found[1]["k"]) == repr(found[2]["k"]) == repr(number)


@pytest.mark.parametrize("seed", [2**31 - 1, 2**31, 2**63 - 1])
def test_whole_numbers_are_as_wide_as_they_must_be(seed: int) -> None:
    drawn = af.Tensor(build("random_uniform", {}, {"shape": (2,), "seed": seed}))
    assert read_back(mil_text(drawn)).outputs["y"].node.attributes["seed"] == seed


@pytest.mark.parametrize("seed", [2**63, 10**400])
def test_whole_numbers_that_no_literal_states_are_refused(seed: int) -> None:
    drawn = af.Tensor(build("random_uniform", {}, {"shape": (2,), "seed": seed}))
    with pytest.raises(NotSupportedError, match=r"^random_uniform at .*too large for MIL text"):
        mil_text(drawn)


def test_rounded_numbers_are_those_that_the_engine_holds() -> None:
    graph = af.Graph({"y": af.input((1,)) * 0.1})
    assert "fp16(0x1.999999999999ap-4)" in mil_text(graph).text
    assert "fp16(0x1.998p-4)" in mil_text(graph, rounded=True).text
    assert "fp16(inf)" in mil_text(af.input((1,)) * 1e6, rounded=True).text


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=200, deadline=None)
@given(NAMES, NAMES, NAMES)
@example("x", "y", "x")
@example("t0", "t0", "t1")
@example("x:0", "x/0", "x_0")
@example("tensor", "func", "program")
@example("0", "é", "\n")
@example('a "quoted" \\ name', "y", "a; b } c")
@example("x_fp16", "x", "x_fp16_dtype")
def test_every_name_reads_back(first: str, second: str, third: str) -> None:
    x = af.input((1,), name=first)
    kept = af.Tensor(build("state", {}, {"name": second if second != first else f"{second}!", "shape": (1,)}))
    total = x + kept
    graph = af.Graph(
        {third: total, f"{third}'": total, f"{third}''": x}, states={str(kept.node.attributes["name"]): total.relu()}
    )
    for casts in (False, True):
        made = mil_text(graph, port_casts=casts)
        again = parse_mil(made.text).graph(port_casts=not casts)
        assert (list(again.inputs), list(again.outputs)) == (list(graph.inputs), list(graph.outputs))
        assert list(again.states) == list(graph.states)
        feed, starts = [np.array([2.0])], {name: np.array([5.0]) for name in graph.states}
        assert evaluate(again, feed, starts) == evaluate(graph, feed, starts)


def test_promises_about_inputs_are_kept() -> None:
    graph = af.Graph({"y": af.input((1,), max_abs=0.1, name="x:0").relu()})
    assert read_back(mil_text(graph)).inputs["x:0"].attributes["max_abs"] == 0.1


def test_a_state_that_is_written_and_never_read_converges() -> None:
    before = af.state("total", (1,))
    node = build("write_state", {"input": before, "data": af.input((1,), name="x")})
    graph = af.Graph({}, states={"total": af.Tensor(node)})
    again = read_back(mil_text(graph))
    assert evaluate(again, {"x": np.array([3.0])})[1] == {"total": np.array([3.0])}
    assert mil_text(read_back(mil_text(again))).text == mil_text(again).text


def test_port_casts_are_written_and_read() -> None:
    graph = af.Graph({"y": af.input((2,), name="x").relu(), "z": af.input((2,), "uint8", name="u").cast("fp16")})
    made = mil_text(graph, port_casts=True)
    read = parse_mil(made.text)
    assert "tensor<fp32, [2]> x, tensor<uint8, [2]> u" in made.text
    assert [str(value.type) for value in read.graph().outputs.values()] == ["fp32[2]", "fp32[2]"]
    assert without_places(read.graph(port_casts=False)) == without_places(graph)


def test_a_retargeted_graph_is_written() -> None:
    family = af.targets.Family.A13
    retargeted = af.retarget(af.input((1, 8), name="x").sin(), family)
    again = read_back(mil_text(retargeted))
    assert without_places(again) == without_places(read_back(mil_text(retargeted.graph)))
    x = np.linspace(-3, 3, 8)[None]
    assert np.array_equal(af.reference(again, [x])["y"], af.reference(retargeted.graph, [x])["y"])
    oldest = af.targets.Family.OLDER
    with pytest.raises(NotSupportedError, match="the direct route has no MIL programs"):
        mil_text(af.retarget(af.input((1, 8)).relu(), oldest, route="direct"))


def test_several_graphs_are_functions_of_one_program() -> None:
    weight = Dense(np.arange(4, dtype=np.float16))
    x = af.input((4,), name="x")
    first = af.Graph({"y": af.Tensor(build("add", {"x": x, "y": weight}))})
    second = af.retarget(af.Graph({"y": af.Tensor(build("mul", {"x": x, "y": weight}))}), af.targets.Family.A16)
    made = mil_text({"main": first, "other": second})
    read = parse_mil(made.text, made.weights.tobytes())
    assert list(read.functions) == ["main", "other"]
    assert len(made.weights.parts) == 1, "they share their weights"
    assert without_places(read.graph("other")) == without_places(second.graph)
