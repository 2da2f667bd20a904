"""What is written: the text of a description, its ports and names, its weights, the changes that it tells of."""

from __future__ import annotations

import plistlib
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler.retarget import retarget
from aneforge.errors import GraphError, NotSupportedError, PrecisionWarning
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.structure import parse_document
from aneforge.formats.netplist.writing import Netplist, netplist
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.reference import reference
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense, Palette
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.formats.netplist.document import Unit

    Golden = Callable[[str], None]


def units(written: Netplist) -> list[Unit]:
    """Return the units of the only network."""
    (network,) = written.document.networks
    return list(network.units)


def types(written: Netplist) -> list[str]:
    """Return the layer types of the only network, activations by their own."""
    return [str(unit.params["Type"]) if unit.type == "Neuron" else unit.type for unit in units(written)]


def details(written: Netplist) -> list[str]:
    """Return what is told of changes."""
    return [change.detail for change in written.changes]


def op(name: str, *values: Tensor | Constant, **attributes: object) -> Tensor:
    """Return the first result of an operation."""
    operands = {operand.name: value for operand, value in zip(find_op(name).operands, values, strict=False)}
    return Tensor(build(name, operands, attributes))


# The whole text


def test_the_text_of_a_description(golden: Golden) -> None:
    kernel = np.arange(2 * 3 * 2, dtype=np.float16).reshape(2, 3, 1, 2)
    image = af.input((1, 3, 4, 6), name="image")
    result = af.conv(image, kernel, stride=2, bias=np.array([0.5, -1.0])).silu()
    written = netplist(Graph({"features": result, "largest": result.amax((2, 3))}))
    golden(written.data().decode())


def test_the_values_of_a_binary_file_are_those_of_the_text() -> None:
    q, k, v = (af.input((1, 2, 3, 4)) for _ in range(3))
    written = netplist(af.sdpa(q, k, v))
    assert plistlib.loads(written.data()) == plistlib.loads(written.data(binary=True))


def test_weights_lie_aligned_in_the_second_file() -> None:
    x = af.input((1, 3, 4, 4))
    kernel = np.full((5, 3, 1, 1), 2, np.float16)
    y = af.conv(af.conv(x, kernel), np.full((1, 5, 1, 1), 3, np.float16)) + af.conv(
        af.conv(x, kernel), -kernel[:1, :1].repeat(5, 1)
    )
    written = netplist(y)
    offsets = [unit.params["KernelOffset"] for unit in units(written) if unit.type == "Conv"]
    assert offsets == [0, 64, 128]  # equal convolutions are one unit
    assert list(written.weights) == ["weights.0", "weights.1"]
    assert written.weights["weights.0"] == b""
    payload = written.weights["weights.1"]
    assert len(payload) == 138
    assert payload[30:64] == bytes(34)
    assert np.frombuffer(payload, np.float16, 5, 64).tolist() == [3] * 5


def test_without_constants_there_is_one_empty_file() -> None:
    written = netplist(af.input((1, 4)).relu())
    assert written.document.networks[0].weights == ("weights.0",)
    assert dict(written.weights) == {"weights.0": b""}


def test_a_kernel_of_ones_takes_no_bytes() -> None:
    written = netplist(af.conv(af.input((1, 3, 4, 4)), np.ones((2, 3, 2, 2), np.float16)))
    (unit,) = units(written)
    assert unit.params["KernelMode"] == "Unity"
    assert "KernelIndex" not in unit.params
    assert dict(written.weights) == {"weights.0": b""}


# Ports


@pytest.mark.parametrize(
    ("shape", "extents"),
    [
        ((), (1, 1, 1, 1, 1)),
        ((5,), (1, 1, 1, 1, 5)),
        ((4, 5), (1, 1, 1, 4, 5)),
        ((3, 4, 5), (1, 3, 1, 4, 5)),
        ((2, 3, 4, 5), (2, 3, 1, 4, 5)),
        ((2, 3, 6, 4, 5), (2, 3, 6, 4, 5)),
        ((2, 1, 3, 1, 4, 5), (2, 3, 1, 4, 5)),
        ((2, 3, 1, 6, 4, 5), (2, 3, 6, 4, 5)),
    ],
)
def test_the_five_tuple_of_a_port(shape: tuple[int, ...], extents: tuple[int, ...]) -> None:
    x = Tensor(build("input", {}, {"shape": shape, "name": "x"}))
    (port,) = netplist(op("relu", x)).document.procedures[0].inputs
    assert port.dims.extents == extents


def test_more_than_five_dimensions() -> None:
    x = Tensor(build("input", {}, {"shape": (2,) * 6}))
    with pytest.raises(NotSupportedError, match="a tensor of a description has five dimensions"):
        netplist(op("relu", x))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16"])
def test_ports_of_whole_numbers(dtype: str) -> None:
    x = Tensor(build("input", {}, {"shape": (1, 2, 3), "dtype": dtype, "name": "x"}))
    written = netplist(Graph({"y": op("transpose", x, perm=(0, 2, 1))}))
    graph = parse_netplist(written.data(), written.weights)
    values = np.arange(6).reshape(1, 1, 2, 3).astype(dtype)
    assert reference(graph, [values])["y"].dtype == dtype
    np.testing.assert_array_equal(reference(graph, [values])["y"], values.transpose(0, 1, 3, 2))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int64", "fp8e4m3fn"])
def test_ports_of_other_elements(dtype: str) -> None:
    x = Tensor(build("input", {}, {"shape": (1, 2), "dtype": dtype}))
    with pytest.raises(NotSupportedError, match=f"a description has no such element type .got {dtype}"):
        netplist(op("identity", x))


@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_ports_of_what_is_only_held(dtype: str) -> None:
    x = Tensor(build("input", {}, {"shape": (1, 2), "dtype": dtype}))
    with pytest.raises(NotSupportedError, match=f"a port of a description has no such element type .got {dtype}"):
        netplist(op("identity", x))


def test_an_output_of_truth_values() -> None:
    x, y = af.input((1, 2)), af.input((1, 2))
    with pytest.raises(NotSupportedError, match="output 'y' is of booleans, which a description keeps as numbers"):
        netplist(x.less(y))
    assert types(netplist(x.less(y).cast("fp16"))) == ["ElementWise"]


def test_an_output_of_places() -> None:
    x = af.input((1, 2, 3, 4))
    found = op("reduce_argmax", x, axis=3)
    with pytest.raises(NotSupportedError, match="a description holds places of elements as Float16 or UInt16"):
        netplist(found)
    whole = netplist(op("reduce_argmax", x, axis=3, output_dtype="uint16"))
    assert whole.document.procedures[0].outputs[0].type == "UInt16"
    assert units(whole)[0].output_type == "UInt16"
    assert units(netplist(found.cast("fp16")))[0].output_type == "Float16"


def test_an_output_of_a_constant_of_places() -> None:
    with pytest.raises(NotSupportedError, match=r"output .y. would be returned as UInt16 .got int32"):
        netplist(op("identity", Dense(np.array([1, 2], np.int32))))
    with pytest.raises(NotSupportedError, match=r"no constants of such elements .got int32 from -1 to 2"):
        netplist(op("identity", Dense(np.array([-1, 2], np.int32))))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16"])
def test_constants_of_whole_numbers_keep_their_type(dtype: str) -> None:
    x = Tensor(build("input", {}, {"shape": (2,), "dtype": dtype, "name": "x"}))
    joined = Tensor(build("concat", {"values": (x, Dense(np.array([1, 2], dtype)))}, {"axis": 0}))
    written = netplist(joined)
    (unit,) = units(written)
    assert len({*unit.input_types, unit.output_type}) == 1
    read = parse_netplist(written.data(), written.weights)
    assert read.outputs["y"].dtype == dtype


def test_an_empty_tensor() -> None:
    x = Tensor(build("input", {}, {"shape": (1, 0)}))
    with pytest.raises(GraphError, match=r"a description has no empty tensors \(got \[1, 0\]"):
        netplist(op("relu", x))


def test_inputs_keep_names_and_ports_though_nothing_reads_them() -> None:
    first, second = af.input((1, 2)), af.input((1, 2))
    written = netplist(op("fill_like", first, value=2.0) + second)
    assert [port.name for port in written.document.procedures[0].inputs] == ["x0", "x1"]
    with pytest.warns(UserWarning, match="no output depends on 'x0'"):
        read = parse_netplist(written.data(), written.weights)
    assert list(read.inputs) == ["x1"]


# Interleave


def test_the_interleave_of_all_ports_and_of_one() -> None:
    graph = Graph({"y": af.input((1, 4, 2, 2), name="x").relu()})
    for interleave, expected in ((1, (1, 1)), (4, (4, 4)), ({"x": 2}, (2, 1)), ({"y": 3}, (1, 3)), ({}, (1, 1))):
        document = netplist(graph, interleave=interleave).document
        procedure = document.procedures[0]
        assert (procedure.inputs[0].interleave, procedure.outputs[0].interleave) == expected
        assert document.networks[0].outputs[0].interleave == expected[1]
        assert parse_document(netplist(graph, interleave=interleave).data()) == document


@pytest.mark.parametrize("interleave", [0, -1, True, 1.5, {"x": 0}])
def test_an_interleave_that_is_none(interleave: object) -> None:
    with pytest.raises(GraphError, match="is not an integer number of channels"):
        netplist(af.input((1, 4), name="x").relu(), interleave=cast("int", interleave))


def test_the_interleave_of_no_port() -> None:
    with pytest.raises(GraphError, match=r"there is no port 'z' \(expected 'x', 'y'\)"):
        netplist(af.input((1, 4), name="x").relu(), interleave={"z": 2})


# Names


@pytest.mark.parametrize("name", ["Units", "Weights", "Constants", "x"])
def test_an_output_is_named_apart_from_keys_and_inputs(name: str) -> None:
    x = af.input((1, 2), name="x")
    written = netplist(Graph({name: x.relu(), f"{name}_": x.tanh()}))
    graph = parse_netplist(written.data(), written.weights)
    assert set(graph.outputs) == {f"{name}_", f"{name}__"}
    assert details(written) == [f"output {name!r} is called '{name}__'"]


def test_symbols_keep_away_from_names() -> None:
    x, y = af.input((1, 2), name="u0"), af.input((1, 2), name="c0")
    written = netplist(Graph({"u1": (x + y) * np.array([[2.0, 3.0]])}))
    assert [unit.name for unit in units(written)] == ["u2", "u3"]
    assert [constant.symbol for constant in written.document.networks[0].constants] == ["c1"]


@given(st.text(min_size=1, max_size=6), st.text(max_size=6))
def test_names_with_every_character_come_back(source: str, output: str) -> None:
    graph = Graph({output: af.input((1, 2), name=source).relu()})
    written = netplist(graph)
    read = parse_netplist(written.data(binary=True), written.weights)
    assert list(read.inputs) == [source]
    renamed = {change.detail for change in written.changes}
    assert list(read.outputs) == [output] or renamed


@pytest.mark.parametrize("character", ["\0", "\x1f", "\r", "\ufffe", "\uffff"])
def test_characters_that_xml_does_not_have(character: str) -> None:
    written = netplist(af.input((1, 2), name=f"a{character}").relu())
    with pytest.raises(GraphError, match="a name has a character that XML does not have") as caught:
        written.data()
    assert caught.value.remedy == "write it with binary=True"
    assert list(parse_netplist(written.data(binary=True)).inputs) == [f"a{character}"]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6))
def test_other_characters_survive_xml(name: str) -> None:
    written = netplist(af.input((1, 2), name=name).relu())
    try:
        data = written.data()
    except GraphError:
        assert any(ord(character) < 32 or ord(character) >= 0xFFFE for character in name)
    else:
        assert list(parse_netplist(data).inputs) == [name]


# What is given


def test_several_graphs_are_procedures_of_one_description() -> None:
    kernel = np.full((1, 2, 1, 1), 3, np.float16)
    graphs = {
        "prefill": Graph({"y": af.conv(af.input((1, 2, 1, 8), name="x"), kernel)}),
        "decode": Graph({"y": af.conv(af.input((1, 2, 1, 1), name="x"), kernel)}),
    }
    written = netplist(graphs)
    assert [procedure.name for procedure in written.document.procedures] == ["prefill", "decode"]
    assert len(written.weights["weights.1"]) == 4  # both kernels lie in the same bytes
    for name, graph in graphs.items():
        read = parse_netplist(written.data(), written.weights, procedure=name)
        values = np.ones(graph.inputs["x"].types[0].shape)
        np.testing.assert_array_equal(reference(read, [values])["y"], reference(graph, [values])["y"])


@pytest.mark.parametrize("name", ["Version", "Networks", "ProcedureList"])
def test_a_procedure_called_like_a_key(name: str) -> None:
    with pytest.raises(GraphError, match="a procedure has the name of a key of a description"):
        netplist({name: Graph({"y": af.input((1, 2)).relu()})})


def test_outputs_by_name_and_in_a_list() -> None:
    x = af.input((1, 2))
    assert [port.name for port in netplist({"a": x.relu()}).document.procedures[0].outputs] == ["a"]
    assert [port.name for port in netplist([x.relu(), x.tanh()]).document.procedures[0].outputs] == ["y0", "y1"]


def test_a_graph_for_a_target() -> None:
    retargeted = retarget(af.input((1, 8)).sin(), af.targets.Family.A13)
    assert netplist(retargeted).document == netplist(retargeted.graph).document


def test_the_direct_route() -> None:
    result = retarget(af.input((1, 4, 2, 2)) / np.full((1, 4, 2, 2), 4.0), "h12", route="direct")
    assert types(netplist(result)) == ["ElementWise"]


# Changes


def test_numbers_that_are_rounded_are_told() -> None:
    written = netplist(af.input((1, 2)) * 0.1)
    assert details(written) == ["the factor 0.1 is rounded to 0.0999755859375, its fp16"]
    assert details(netplist(af.input((1, 2)) * 0.5)) == []


@pytest.mark.parametrize("value", [65520.0, -1e9, np.inf, np.nan])
def test_numbers_without_an_fp16(value: float) -> None:
    with pytest.raises(GraphError, match="the factor has no bit pattern in fp16") as caught:
        netplist(op("muls", af.input((1, 2)), k=value))
    assert caught.value.limit == "-65504 to 65504"


def test_a_parameter_without_an_fp16() -> None:
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    x = af.input((1, 2, 3))
    norm = op("batch_norm", x, Dense(zeros), Dense(ones), Dense(ones * np.float32(1e6)), Dense(zeros))
    with pytest.raises(GraphError, match="gamma over the deviation has numbers that fp16 cannot hold"):
        netplist(norm)


def test_bounds_may_be_infinite() -> None:
    (unit,) = units(netplist(op("clip", af.input((1, 2)), alpha=-np.inf, beta=2.0)))
    assert (unit.params["ReluMin"], unit.params["ReluMax"]) == (-np.inf, 2.0)


def test_an_encoded_constant_is_written_dense() -> None:
    palette = Palette(np.array([[[[0]], [[1]]]], np.uint8), np.array([0.5, 2.0], np.float16), 4)
    written = netplist(op("conv", af.input((1, 2, 1, 3)), palette))
    assert details(written) == ["a constant of encoding palette4 is written dense"]
    assert np.frombuffer(written.weights["weights.1"], np.float16).tolist() == [0.5, 2.0]


COMPOSED: list[tuple[Tensor, list[str], str]] = [
    (af.input((1, 4)).silu(), ["SigmoidHighPrecision", "ElementWise"], "x · sigmoid(x)"),
    (af.input((1, 4)) / af.input((1, 4)), ["Inv", "ElementWise"], "x · inverse(y)"),
    (
        af.input((1, 4)).apply("sigmoid_hard", alpha=0.25, beta=0.5),
        ["GOC", "ClampedReLU"],
        "clip(alpha · x + beta, 0, 1)",
    ),
    (af.input((1, 4)).relu6(), ["ClampedReLU"], "clip(x, 0, 6)"),
    (af.input((1, 4)).square(), ["ElementWise"], "x · x"),
    (af.input((1, 4)).softsign(), ["ElementWise", "GOC", "Inv", "ElementWise"], "x · inverse(1 + |x|)"),
    (af.input((1, 4)).rsqrt(0.5), ["GOC", "Rsqrt"], "the function of x + epsilon"),
]


@pytest.mark.parametrize(("tensor", "layers", "form"), COMPOSED)
def test_compositions_and_how_they_are_told(tensor: Tensor, layers: list[str], form: str) -> None:
    written = netplist(tensor)
    assert types(written) == layers
    assert details(written)[0] == form


def test_comparisons_that_include_equality() -> None:
    x, y = af.input((1, 4)), af.input((1, 4))
    for tensor, strict in ((x.less_equal(y), "LessThan"), (x.greater_equal(y), "GreaterThan")):
        written = netplist(tensor.cast("fp16"))
        assert [unit.params["Type"] for unit in units(written)] == [strict, "Equal", "Max"]


def test_floor_division_warns_that_it_can_miss() -> None:
    quotient = op("floor_div", af.input((1, 4)), af.input((1, 4)))
    with pytest.warns(PrecisionWarning, match="a quotient can be one too small"):
        written = netplist(quotient)
    assert types(written) == ["Inv", "ElementWise", "Floor"]


def test_an_epsilon_that_fp16_does_not_have_is_left_out_with_a_note() -> None:
    written = netplist(af.input((1, 4)).rsqrt(1e-12))
    assert types(written) == ["GOC", "Rsqrt"]
    assert details(written) == ["the summand 1e-12 is rounded to 0.0, its fp16", "the function of x + epsilon"]
