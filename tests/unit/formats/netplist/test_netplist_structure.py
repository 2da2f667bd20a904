"""Documents: keys, names, procedures, networks and wiring; every error once, with its place."""

from __future__ import annotations

import plistlib
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.errors import AneforgeError, GraphError, NotSupportedError, UnknownNameError
from aneforge.formats.netplist.document import Dims, Document, InputEntry, NetworkOutput, Operation, OutputEntry
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.sketch import Plain, Sketch
from aneforge.formats.netplist.structure import parse_document
from aneforge.graph.reference import reference

if TYPE_CHECKING:
    from collections.abc import Callable

Path = tuple[str | int, ...]
DELETED: Plain = "deleted by the test"


def small() -> Sketch:
    """Return a sketch of one ReLU."""
    sketch = Sketch()
    sketch.input("x", {"channel": 2, "width": 3})
    sketch.unit("u", "Neuron", ["x"], {"Type": "ReLU"})
    sketch.output("y", "u")
    return sketch


def put(root: Plain, path: Path, value: Plain) -> None:
    """Change a value of a description, or take it away."""
    place = root
    for key in path[:-1]:
        place = cast("dict[object, Plain]", place)[key]
    container = cast("dict[object, Plain]", place)
    if value is DELETED:
        del container[path[-1]]
    else:
        container[path[-1]] = value


def changed(path: Path, value: Plain) -> Sketch:
    """Return the small sketch with one value changed."""
    sketch = small()
    put(sketch.root, path, value)
    return sketch


def message_of(sketch: Sketch, *, binary: bool = False) -> str:
    """Return the message with which a description is refused."""
    with pytest.raises(AneforgeError) as caught:
        parse_netplist(sketch.data(binary=binary), sketch.weights, file="net.plist")
    return str(caught.value)


# What a document holds


def test_a_document_in_types() -> None:
    document = parse_document(small().data())
    (network,), (procedure,) = document.networks, document.procedures
    assert document.version == "1.0.10"
    assert network.weights == ("weights.0", "weights.1")
    assert network.outputs == (NetworkOutput("y", "u"),)
    assert procedure.inputs == (InputEntry("x", "x", "op0", Dims(channel=2, width=3)),)
    assert procedure.operations == (Operation("op0", "net"),)
    assert procedure.outputs == (OutputEntry("y", "y", "op0"),)
    (unit,) = network.units
    assert (unit.name, unit.type, unit.bottoms, dict(unit.params)) == ("u", "Neuron", ("x",), {"Type": "ReLU"})
    assert str(unit.location) == "node 'u' of the description:77"


def test_the_port_five_tuple_and_the_interleave() -> None:
    sketch = Sketch()
    sketch.input("x", {"batch": 2, "channel": 4, "depth": 3, "height": 5, "width": 6})
    cast("dict[str, Plain]", sketch.inputs[0])["InputInterleave"] = 4
    sketch.unit("u", "Neuron", ["x"], {"Type": "ReLU"})
    sketch.output("y", "u")
    cast("dict[str, Plain]", sketch.outputs[0])["OutputInterleave"] = 2
    cast("dict[str, Plain]", sketch.network["y"])["OutputInterleave"] = 2
    document = parse_document(sketch.data())
    (port,) = document.procedures[0].inputs
    assert (port.dims.extents, port.interleave) == ((2, 4, 3, 5, 6), 4)
    assert document.procedures[0].outputs[0].interleave == document.networks[0].outputs[0].interleave == 2
    graph = parse_netplist(sketch.data(), sketch.weights)
    assert graph.inputs["x"].types[0].shape == (2, 4, 3, 5, 6)


def test_what_may_be_left_out() -> None:
    sketch = small()
    for path in (
        ("Version",),
        ("net", "Weights"),
        ("net", "u", "Name"),
        ("net", "u", "OutputType"),
        ("net", "y", "OutputName"),
        ("net", "y", "OutputType"),
        ("ProcedureList", 0, "InputList", 0, "InputDepth"),
        ("ProcedureList", 0, "InputList", 0, "InputInterleave"),
        ("ProcedureList", 0, "InputList", 0, "InputType"),
        ("ProcedureList", 0, "InputList", 0, "Name"),
        ("ProcedureList", 0, "OutputList", 0, "Name"),
        ("ProcedureList", 0, "OutputList", 0, "OutputType"),
    ):
        put(sketch.root, path, DELETED)
    sketch.network["y"] = {"Bottom": ["u"]}
    assert str(parse_netplist(sketch.data()).inputs["x"].types[0]) == "fp16[1, 2, 1, 3]"


def test_operations_are_named_by_either_key() -> None:
    either = changed(("ProcedureList", 0, "OperationList"), [{"NetworkName": "net", "Name": "op0"}])
    both = changed(
        ("ProcedureList", 0, "OperationList"), [{"NetworkName": "net", "Name": "op0", "OperationName": "op0"}]
    )
    assert parse_document(either.data()) == parse_document(both.data()) == parse_document(small().data())


# Every error

INPUT: Path = ("ProcedureList", 0, "InputList", 0)
OUTPUT: Path = ("ProcedureList", 0, "OutputList", 0)
OPERATIONS: Path = ("ProcedureList", 0, "OperationList")
ERRORS: list[tuple[Path, Plain, str]] = [
    (("Version",), "1.0.9", "the description is of another version (got '1.0.9', limit 1.0.10)"),
    (("Version",), 1, "the description: Version is not a text (got 1)"),
    (("Networks",), DELETED, "the description: key 'Networks' is missing"),
    (("Networks",), ["net", "net"], "the description: 2 networks have one name (got 'net')"),
    (("Networks",), ["Version"], "a network has the name of a key of the description (got 'Version')"),
    (("Networks",), ["net", "lost"], "the description: key 'lost' is missing"),
    (("Networks",), [1], "the description: Networks is not a list of texts (got a list of 1)"),
    (("Extra",), 1, "the description: unknown key 'Extra'"),
    (("ProcedureList",), DELETED, "key 'ProcedureList' is missing"),
    (("ProcedureList",), [], "there is no procedure to call (got an empty ProcedureList)"),
    (("ProcedureList",), {}, "ProcedureList is not a list of dictionaries (got a dictionary of 0)"),
    (("ProcedureList",), ["main"], "ProcedureList is not a dictionary (got 'main')"),
    (("ProcedureList", 0, "Name"), DELETED, "procedure 0: key 'Name' is missing"),
    (("ProcedureList", 0, "Extra"), 1, "procedure 'main': unknown key 'Extra'"),
    (OPERATIONS, [], "procedure 'main': a procedure must have an operation (got an empty OperationList)"),
    (OPERATIONS, [{"NetworkName": "net"}], "operation 0: key 'OperationName' is missing"),
    (
        OPERATIONS,
        [{"NetworkName": "net", "Name": "a", "OperationName": "b"}],
        "operation 0: OperationName and Name differ (got 'b' and 'a')",
    ),
    (OPERATIONS, [{"NetworkName": "ent", "Name": "op0"}], "operation 0: unknown network 'ent'; nearest: net"),
    (
        OPERATIONS,
        [{"NetworkName": "net", "Name": "op0"}, {"NetworkName": "net", "Name": "op0"}],
        "procedure 'main': 2 operations have one name (got 'op0')",
    ),
    ((*INPUT, "InputName"), DELETED, "input 0: key 'InputName' is missing"),
    ((*INPUT, "InputWidth"), DELETED, "input 'x': key 'InputWidth' is missing"),
    ((*INPUT, "InputWidth"), 0, "input 'x': InputWidth is out of range (got 0, limit 1 to 9223372036854775807)"),
    ((*INPUT, "InputWidth"), -3, "input 'x': InputWidth is out of range (got -3"),
    ((*INPUT, "InputWidth"), 1.0, "input 'x': InputWidth is not an integer (got 1.0)"),
    ((*INPUT, "InputInterleave"), 0, "input 'x': InputInterleave is out of range (got 0"),
    ((*INPUT, "InputType"), "Float32", "input 'x': unknown element type in InputType 'Float32'; nearest: Float16"),
    ((*INPUT, "OperationName"), "op1", "input 'x': unknown operation 'op1'; nearest: op0"),
    ((*INPUT, "InputHieght"), 1, "input 'x': unknown key 'InputHieght'; nearest: InputHeight"),
    ((*OUTPUT, "OutputType"), "Half", "output 'y': unknown element type in OutputType 'Half'"),
    ((*OUTPUT, "OutputType"), "UInt16", "output 'y' is of another element type (got UInt16, expected fp16)"),
    ((*OUTPUT, "OutputName"), "z", "unknown output symbol 'z'; known: y"),
    ((*OUTPUT, "Extra"), 1, "output 'y': unknown key 'Extra'"),
    (
        ("ProcedureList", 0, "OutputList"),
        [],
        "procedure 'main': a procedure must have an output (got an empty OutputList)",
    ),
    (("net",), [], "the description: net is not a dictionary (got a list of 0)"),
    (("net", "Units"), DELETED, "network 'net': key 'Units' is missing"),
    (("net", "Units"), ["u", "u"], "network 'net': 2 symbols have one name (got 'u')"),
    (("net", "Units"), ["u", "Weights"], "a symbol has the name of a key of a network (got 'Weights')"),
    (("net", "Units"), ["u", "lost"], "network 'net': key 'lost' is missing"),
    (("net", "Units"), [], "output 'u': a unit is not listed in Units. Remedy: put 'u' into Units"),
    (("net", "Constants"), ["u"], "network 'net': 2 symbols have one name (got 'u')"),
    (("net", "Weights"), ["a", "a"], "network 'net': 2 weights files have one name (got 'a')"),
    (("net", "y"), DELETED, "network 'net': a network must have an output"),
    (("net", "Extra"), 1, "network 'net': a key is neither a unit, a constant nor an output (got 'Extra')"),
    (("net", "Extra"), {}, "network 'net': a key is neither a unit, a constant nor an output (got 'Extra')"),
    (("net", "y", "Bottom"), ["u", "u"], "output 'y': an output must name one tensor (got 2, limit 1)"),
    (("net", "y", "Bottom"), "lost", "unknown symbol 'lost'; known: x, u"),
    (("net", "y", "OutputName"), "z", "OutputName is not the key under which it is listed (got 'z', expected 'y')"),
    (("net", "y", "OutputType"), "UInt16", "output 'y' is of another element type (got UInt16, expected fp16)"),
    (("net", "y", "Extra"), 1, "output 'y': unknown key 'Extra'"),
    (("net", "u", "Name"), "v", "unit 'u': Name is not the key under which it is listed (got 'v', expected 'u')"),
    (("net", "u", "Type"), DELETED, "unit 'u': key 'Type' is missing"),
    (("net", "u", "Bottom"), DELETED, "unit 'u': key 'Bottom' is missing. Remedy: did you mean 'Bottoms'?"),
    (("net", "u", "Bottom"), {}, "unit 'u': Bottom is not a list of texts (got a dictionary of 0)"),
    (("net", "u", "Bottom"), ["X"], "unknown symbol 'X'; nearest: x"),
    (("net", "u", "Bottom"), ["u"], "units form a cycle (got 'u')"),
    (("net", "u", "Params"), [], "unit 'u': Params is not a dictionary (got a list of 0)"),
    (("net", "u", "InputType"), [], ""),
    (
        ("net", "u", "InputType"),
        ["Float16", "Float16"],
        "InputType has more entries than there are bottoms (got 2, limit 1)",
    ),
    (("net", "u", "InputType"), ["Float64"], "unit 'u': unknown element type in InputType 'Float64'"),
    (("net", "u", "OutputType"), "Bool", "unit 'u': unknown element type in OutputType 'Bool'"),
    (("net", "u", "OutputChannels"), 0, "unit 'u': OutputChannels is out of range (got 0"),
    (("net", "u", "NumGroups"), 1, "unit 'u': unknown key 'NumGroups'"),
    (("net", "u", "OutputWidth"), 1, "unit 'u': unknown key 'OutputWidth'"),
]


@pytest.mark.parametrize(("path", "value", "message"), [case for case in ERRORS if case[2]])
def test_errors(path: Path, value: Plain, message: str) -> None:
    sketch = changed(path, value)
    if "'Bottoms'" in message:
        cast("dict[str, Plain]", sketch.network["u"])["Bottoms"] = ["x"]
    text = message_of(sketch)
    assert message in text
    assert "net.plist" in text
    assert message in message_of(sketch, binary=True)


def test_an_empty_list_of_types_is_none() -> None:
    assert parse_document(changed(("net", "u", "InputType"), []).data()) == parse_document(small().data())


def test_a_whole_number_of_more_than_64_bits() -> None:
    data = small().data().replace(b"<integer>3</integer>", b"<integer>" + b"9" * 30 + b"</integer>")
    with pytest.raises(GraphError, match=r"input 'x': InputWidth is out of range \(got 9{30}, limit 1 to 92"):
        parse_netplist(data)


def test_the_line_of_an_error() -> None:
    text = message_of(changed(("net", "u", "Params"), {"Type": "Relu"}))
    assert text.startswith("at node 'u' of net.plist:")
    data = changed(("net", "u", "Params"), {"Type": "Relu"}).data().decode().splitlines()
    line = int(text.partition("net.plist:")[2].partition(":")[0])
    assert data[line - 1].strip() == "<dict>"
    assert data[line].strip() == "<key>Type</key>"


def test_two_ports_of_one_name() -> None:
    sketch = small()
    sketch.outputs.append(sketch.outputs[0])
    assert "procedure 'main': 2 outputs have one name (got 'op0/y')" in message_of(sketch)


def test_entries_of_one_input_for_several_readers() -> None:
    """Name is the unit that reads it then."""
    sketch = small()
    sketch.inputs.append({**cast("dict[str, Plain]", sketch.inputs[0]), "Name": "u"})
    (procedure,) = parse_document(sketch.data()).procedures
    assert [entry.symbol for entry in procedure.inputs] == ["x"]
    sketch.inputs.append({**cast("dict[str, Plain]", sketch.inputs[0]), "InputType": "UInt8"})
    assert "procedure 'main': entries of one input differ" in message_of(sketch)


def test_channels_of_an_output_may_be_stated_and_are_not_binding() -> None:
    sketch = small()
    channels = parse_netplist(sketch.data()).outputs["y"].type.shape[1]
    sketch.outputs[0] = {**cast("dict[str, Plain]", sketch.outputs[0]), "OutputChannels": channels}
    assert parse_netplist(sketch.data()).outputs["y"].type.shape[1] == channels
    sketch.outputs[0] = {**cast("dict[str, Plain]", sketch.outputs[0]), "OutputChannels": channels + 7}
    with pytest.warns(UserWarning, match=f"output 'y': OutputChannels is {channels + 7}"):
        assert parse_netplist(sketch.data()).outputs["y"].type.shape[1] == channels


def test_element_types_that_are_not_stated_are_fp16() -> None:
    sketch = Sketch()
    sketch.input("a")
    sketch.input("b")
    params: dict[str, Plain] = {"Type": "Add"}
    sketch.unit("u", "ElementWise", ["a", "b"], params, InputType=["Float16"])
    sketch.output("y", "u")
    (network,) = parse_document(sketch.data()).networks
    assert network.units[0].input_types == ("Float16", "Float16")


def test_an_input_with_the_name_of_a_unit() -> None:
    sketch = small()
    sketch.input("u")
    assert "an input has the name of a unit or a constant (got 'u')" in message_of(sketch)


# Wiring


def test_units_in_any_order() -> None:
    sketch = Sketch()
    sketch.input("x")
    for number in range(5, 0, -1):
        bottom = f"u{number - 1}" if number > 1 else "x"
        sketch.unit(f"u{number}", "GOC", [bottom], {"BiasScalar": 0x3C00})
    sketch.output("y", "u5")
    graph = parse_netplist(sketch.data(), sketch.weights)
    assert reference(graph, [np.zeros((1, 1, 1, 1))])["y"].item() == 5


def test_a_circle_of_units() -> None:
    sketch = Sketch()
    sketch.input("x")
    for here, there in (("a", "b"), ("b", "c"), ("c", "a")):
        sketch.unit(here, "ElementWise", ["x", there], {"Type": "Add"})
    sketch.output("y", "c")
    assert "units form a cycle (got 'a' -> 'b' -> 'c')" in message_of(sketch)


def test_a_long_chain_does_not_recurse() -> None:
    sketch = Sketch()
    sketch.input("x")
    count = 5000
    for number in range(count, 0, -1):  # each before the one that it reads
        sketch.unit(f"u{number}", "Neuron", [f"u{number - 1}" if number > 1 else "x"], {"Type": "ReLU"})
    sketch.output("y", f"u{count}")
    assert len(parse_netplist(sketch.data(binary=True), sketch.weights).nodes) == count + 1


def test_an_input_that_nothing_reads_is_told() -> None:
    sketch = small()
    sketch.input("spare")
    with pytest.warns(UserWarning, match="procedure 'main': no output depends on 'spare'; left out"):
        graph = parse_netplist(sketch.data(), sketch.weights)
    assert list(graph.inputs) == ["x"]


def test_an_output_that_is_an_input_or_a_constant() -> None:
    sketch = Sketch()
    sketch.input("x", {"width": 2})
    sketch.constant("c", np.array([1, 2], np.float16).reshape(1, 1, 1, 1, 2))
    sketch.output("same", "x")
    sketch.output("known", "c")
    found = reference(parse_netplist(sketch.data(), sketch.weights), [np.array([[[[3.0, 4.0]]]])])
    assert found["same"].ravel().tolist() == [3, 4]
    assert found["known"].ravel().tolist() == [1, 2]


# Several networks, procedures, operations


def two_procedures() -> Sketch:
    """Return a description of two networks and two procedures."""
    sketch = small()
    other = Sketch("other")
    other.input("x")
    other.unit("u", "Neuron", ["x"], {"Type": "Tanh"})
    other.output("y", "u")
    other.procedure["Name"] = "second"
    sketch.root["other"] = other.network
    cast("list[Plain]", sketch.root["Networks"]).append("other")
    cast("list[Plain]", sketch.root["ProcedureList"]).append(other.procedure)
    return sketch


def test_one_procedure_of_several() -> None:
    sketch = two_procedures()
    graphs = {name: parse_netplist(sketch.data(), sketch.weights, procedure=name) for name in ("main", "second")}
    assert [node.op.name for node in graphs["main"].nodes] == ["input", "relu"]
    assert [node.op.name for node in graphs["second"].nodes] == ["input", "tanh"]
    assert "the description has several procedures, and each one is a graph (got 'main', 'second')" in message_of(
        sketch
    )
    with pytest.raises(UnknownNameError, match="unknown procedure 'secnd'; nearest: second"):
        parse_netplist(sketch.data(), sketch.weights, procedure="secnd")


def test_two_procedures_of_one_name() -> None:
    sketch = two_procedures()
    procedures = cast("list[dict[str, Plain]]", sketch.root["ProcedureList"])
    procedures[1]["Name"] = "main"
    assert "the description: 2 procedures have one name (got 'main')" in message_of(sketch)


def test_a_procedure_of_two_operations() -> None:
    sketch = two_procedures()
    first, second = cast("list[dict[str, Plain]]", sketch.root["ProcedureList"])
    cast("list[Plain]", first["OperationList"]).append({"NetworkName": "other", "OperationName": "op1"})
    for key in ("InputList", "OutputList"):
        ports = cast("list[dict[str, Plain]]", second[key])
        cast("list[Plain]", first[key]).append({**ports[0], "OperationName": "op1"})
    sketch.root["ProcedureList"] = [cast("Plain", first)]
    graph = parse_netplist(sketch.data(), sketch.weights)
    assert list(graph.inputs) == ["op0/x", "op1/x"]
    assert list(graph.outputs) == ["op0/y", "op1/y"]
    assert graph.outputs["op1/y"].node.op.name == "tanh"


def test_names_that_meet_when_they_are_qualified() -> None:
    sketch = two_procedures()
    first, second = cast("list[dict[str, Plain]]", sketch.root["ProcedureList"])
    cast("list[Plain]", first["OperationList"]).append({"NetworkName": "other", "OperationName": "op1"})
    sketch.network["op1/y"] = {"Bottom": "u"}
    outputs = cast("list[Plain]", first["OutputList"])
    port = cast("list[dict[str, Plain]]", second["OutputList"])[0]
    outputs += [{**port, "OperationName": "op1"}, {**port, "OutputName": "op1/y"}]
    ports = cast("list[dict[str, Plain]]", second["InputList"])
    cast("list[Plain]", first["InputList"]).append({**ports[0], "OperationName": "op1"})
    sketch.root["ProcedureList"] = [cast("Plain", first)]
    assert "2 outputs have one name (got 'op1/y')" in message_of(sketch)


def test_a_long_chain_of_reshapes_is_one() -> None:
    sketch = Sketch()
    sketch.input("x", {"channel": 3, "width": 2})
    bottom = "x"
    for number in range(2000):
        shape = (1, 3, 1, 2) if number % 2 else (1, 2, 3, 1)
        names = ("ReshapedBatch", "ReshapedChannel", "ReshapedHeight", "ReshapedWidth")
        sketch.unit(f"u{number}", "Reshape", [bottom], dict(zip(names, shape, strict=True)))
        bottom = f"u{number}"
    sketch.output("y", bottom)
    graph = parse_netplist(sketch.data(binary=True), sketch.weights)
    assert [node.op.name for node in graph.nodes] == ["input"]


# Names


@given(st.lists(st.text(min_size=1, max_size=5), min_size=4, max_size=4, unique=True))
def test_names_with_every_character_in_a_binary_file(names: list[str]) -> None:
    if {*names} & {"Units", "Weights", "Constants"}:
        return
    source, unit, constant, output = names
    sketch = Sketch()
    sketch.input(source)
    sketch.constant(constant, np.ones((1,) * 5, np.float16))
    sketch.unit(unit, "ElementWise", [source, constant], {"Type": "Add"})
    sketch.output(output, unit)
    graph = parse_netplist(sketch.data(binary=True), sketch.weights)
    assert (list(graph.inputs), list(graph.outputs)) == ([source], [output])
    location = graph.outputs[output].node.location
    assert location is not None
    assert location.node == unit


def test_long_names_are_cut_in_errors() -> None:
    sketch = Sketch()
    sketch.input("x")
    sketch.unit("n" * 100_000, "Neuron", ["x"], {"Type": "t" * 100_000})
    sketch.output("y", "n" * 100_000)
    assert len(message_of(sketch)) < 600


def test_the_nearest_of_very_many_names_is_not_looked_for() -> None:
    sketch = Sketch()
    sketch.input("x")
    for number in range(1100):
        sketch.unit(f"u{number}", "Neuron", ["x"], {"Type": "ReLU"})
    sketch.output("y", "u9999")
    assert "unknown symbol 'u9999'; 1101 are known" in message_of(sketch)


def test_other_forms_of_names() -> None:
    with pytest.raises(NotSupportedError) as caught:
        parse_document(changed(("Version",), "v" * 999).data())
    assert len(str(caught.value)) < 300
    document = parse_document(small().data())
    assert isinstance(document, Document)


def test_errors_of_the_graph_stand_at_the_procedure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise GraphError("a graph is refused")

    target = "aneforge.formats.netplist.reading.Graph"
    monkeypatch.setattr(target, cast("Callable[..., object]", refuse))
    with pytest.raises(GraphError) as caught:
        parse_netplist(small().data(), small().weights, file="net.plist")
    assert caught.value.location is not None
    assert caught.value.location.file == "net.plist"


def test_the_sketch_is_what_plistlib_reads() -> None:
    assert plistlib.loads(small().data()) == small().root
