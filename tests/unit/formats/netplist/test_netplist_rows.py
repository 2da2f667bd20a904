"""A row of the table of layers is its own inverse: what it writes it reads, and what it reads it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aneforge.errors import GraphError
from aneforge.formats.netplist.emit import WRITERS
from aneforge.formats.netplist.layer import AXES, dims_of
from aneforge.formats.netplist.parameters import Parameters, bits_of, number_of, records_of
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.rows import LayerRow, Layout, row_of_node, row_of_unit, rows
from aneforge.formats.netplist.schema import DIMENSIONS, Dim, ParamEntry, ParamKind, layer_table
from aneforge.formats.netplist.structure import parse_document
from aneforge.formats.netplist.units import READERS
from aneforge.formats.netplist.window import Window
from aneforge.formats.netplist.writing import Netplist, netplist
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.table import find_op
from aneforge.testing.descriptions import descriptions
from aneforge.testing.graphs import DrawnGraph, one_operation

if TYPE_CHECKING:
    from aneforge.formats.netplist.document import Parameter, Unit
    from aneforge.formats.netplist.sketch import Sketch
    from aneforge.graph.node import Node, Value

pytestmark = pytest.mark.filterwarnings("ignore:procedure .* no output depends:UserWarning")

NEVER_READ = {"lrn"}
"""Operations that share their unit with another, which is the one that is read."""
ROWS = pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.kind}-{row.op}")
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def rounded(value: float, what: str = "", *, infinite: bool = False) -> float:  # noqa: ARG001 - as the writer rounds
    """Return a number as a description holds it."""
    return number_of(bits_of(value))


# The table


@ROWS
def test_a_row_names_what_there_is(row: LayerRow) -> None:
    op = find_op(row.op)
    entry = row.entry
    named = [*entry.params, *entry.keys, *entry.axes]
    assert set(named) <= set(row.params)
    assert len(set(named)) == len(named), "a parameter has one meaning"
    attributes = [*entry.attributes, *entry.keys.values(), *entry.axes.values()]
    assert set(attributes) <= {attribute.name for attribute in op.attributes}
    assert len(set(attributes)) == len(attributes), "an attribute is given once"
    assert set(row.operands) == {operand.name for operand in op.operands}
    fewest, most = layer_table().layers[row.kind].bottoms
    assert fewest <= len(row.operands) <= most
    assert all(bool(layout.dims) == bool(row.result.dims) for layout in row.operands.values())
    # What the row says nothing of has a default, is left out, or is the business of the layer's own function.
    if row.kind != "Pooling":
        others = set(row.params) - set(named)
        assert all(row.params[name].default is not None or row.params[name].optional for name in others)


@ROWS
def test_a_row_is_found_from_either_side(row: LayerRow) -> None:
    assert row_of_node(row.op, row.entry.attributes) is row
    params: dict[str, Parameter] = {**layer_table().layers[row.kind].defaults}
    params |= dict.fromkeys(row.entry.keys, 7.0)
    found = row_of_unit(row.kind, params | row.entry.params)
    assert (found is row) == (row.op not in NEVER_READ)
    assert row.op in WRITERS
    assert row.kind in READERS


def test_an_operation_belongs_to_one_layer() -> None:
    kinds: dict[str, set[str]] = {}
    for row in rows():
        kinds.setdefault(row.op, set()).add(row.kind)
    assert all(len(found) == 1 for found in kinds.values())


def test_attributes_that_no_row_has() -> None:
    assert row_of_node("rsqrt", {"epsilon": 1e-3}) is None
    assert row_of_node("scaled_elementwise", {"mode": "sub"}) is None
    assert row_of_node("einsum", {}) is None


@given(st.permutations(list(Dim)), st.integers(1, 5), st.data())
def test_a_layout_of_every_rank(dims: list[Dim], count: int, data: st.DataObject) -> None:
    used = dims[:count]
    optional = data.draw(st.lists(st.sampled_from(used), unique=True))
    layout = Layout.parse(" ".join(dim.spelling + "?" * (dim in optional) for dim in used))
    assert layout.of_rank(count) == tuple(used)
    assert layout.of_rank(count + 1) is None
    assert layout.of_rank(count - len(optional) - 1) is None
    for rank in range(count - len(optional), count):
        fewer, more = layout.of_rank(rank), layout.of_rank(rank + 1)
        assert fewer is not None
        assert more is not None
        (left_out,) = set(more) - set(fewer)
        assert left_out in optional
        assert next(dim for dim in more if dim in optional) is left_out


# Parameters and attributes


@st.composite
def parameters(draw: st.DrawFn, entry: ParamEntry, choices: tuple[str, ...]) -> Parameter:
    """Draw a value of a parameter, as a description that is read has it."""
    if entry.only is not None:
        return draw(st.sampled_from(entry.only))
    halves = st.floats(width=16, allow_nan=False, allow_infinity=entry.infinite)
    several = st.lists(st.integers(entry.least or 0, 99), min_size=1, max_size=4).map(tuple)
    drawn: dict[ParamKind, st.SearchStrategy[Parameter]] = {
        ParamKind.BITS: halves,
        ParamKind.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
        ParamKind.INTEGER: st.integers(entry.least or 0, 99),
        ParamKind.FLAG: st.booleans(),
        ParamKind.CHOICE: st.sampled_from(choices or ("",)),
        ParamKind.DIMENSION: st.sampled_from(choices or DIMENSIONS),
        ParamKind.DIMENSIONS: st.lists(st.sampled_from(DIMENSIONS), min_size=1, unique=True).map(
            lambda names: tuple(sorted(names, key=DIMENSIONS.index))
        ),
        ParamKind.INTEGERS: several,
    }
    return draw(drawn[entry.kind])


@st.composite
def params_of_row(draw: st.DrawFn, row: LayerRow) -> dict[str, Parameter]:
    """Draw the parameters that a row pairs with attributes; an optional one may be left out."""
    found: dict[str, Parameter] = dict(row.entry.params)
    own = layer_table().layers[row.kind]
    needed = row.kind == "Neuron"  # its parameters are optional because other activations do not have them
    for name in (*row.entry.keys, *row.entry.axes):
        entry = row.params[name]
        if needed or not entry.optional or draw(st.booleans()):
            found[name] = draw(parameters(entry, own.choices(name, entry)))
    return found


@ROWS
@FEW
@given(data=st.data())
def test_parameters_and_attributes_are_each_others_inverse(row: LayerRow, data: st.DataObject) -> None:
    params = data.draw(params_of_row(row))
    attributes = row.attributes_of(params, AXES[5])
    assert row.params_of(attributes, rounded, row.dims_of(params)) == params
    assert row.attributes_of(row.params_of(attributes, rounded, row.dims_of(params)), AXES[5]) == attributes


RECORDS = [
    (kind, name)
    for kind, layer in layer_table().layers.items()
    for name, entry in layer.params.items()
    if entry.kind is ParamKind.RECORDS
]


@pytest.mark.parametrize(("kind", "name"), RECORDS)
@FEW
@given(data=st.data())
def test_records_and_what_they_say_are_each_others_inverse(kind: str, name: str, data: st.DataObject) -> None:
    fields = layer_table().layers[kind].params[name].fields
    (dimension, about), (_, other) = fields, fields.values()
    values = parameters(other, layer_table().layers[kind].choices(about, other))
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(Dim), values), max_size=5))
    records = records_of(kind, name, pairs)
    assert all(list(record) == [dimension, about] for record in records)
    assert Parameters({name: records}).pairs(name) == pairs


@given(st.data())
def test_a_window_and_its_parameters_are_each_others_inverse(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 3))
    sizes = st.lists(st.integers(1, 9), min_size=count, max_size=count).map(tuple)
    pads = st.lists(st.integers(0, 9), min_size=2 * count, max_size=2 * count).map(tuple)
    window = Window(data.draw(sizes), data.draw(sizes), data.draw(pads))
    params = window.params()
    read = Window.of(Parameters(params))
    assert read.in_depth() == window.in_depth()
    assert read.params() == params
    assert set(params) <= set(layer_table().layers["Conv"].params) & set(layer_table().layers["Pooling"].params)
    if window.in_depth().steps[0] == 1:  # the step along the depth may be left out
        assert Window.of(Parameters({**params, "Step": cast("tuple[int, ...]", params["Step"])[:2]})) == read


# Whole units and operations


def only_unit(written: Netplist, kind: str) -> Unit | None:
    """Return the one unit of a type in a description, or None."""
    found = [unit for unit in written.document.networks[0].units if unit.type == kind]
    return found[0] if len(found) == 1 else None


def only_node(graph: Graph, op: str) -> Node | None:
    """Return the one operation of a sort in a graph, or None."""
    found = [node for node in graph.nodes if node.op.name == op]
    return found[0] if len(found) == 1 else None


def as_numbers(graph: Graph) -> Graph:
    """Return a graph whose booleans leave as numbers."""
    outputs = {
        name: Tensor(build("cast", {"x": output}, {"dtype": "fp16"})) if output.type.dtype == "bool" else output
        for name, output in graph.outputs.items()
    }
    return Graph(outputs)


def expected(row: LayerRow, node: Node) -> list[object]:
    """Return what the parameters of a row come back as: numbers that are bits are rounded, a seed is not negative."""
    values = {key: node.attributes[name] for key, name in row.entry.keys.items()}
    bits = {key for key, value in values.items() if row.params[key].kind is ParamKind.BITS and value is not None}
    found = {key: rounded(cast("float", value)) if key in bits else value for key, value in values.items()}
    return [max(cast("int", value), 0) if key == "Seed" else value for key, value in found.items()]


def comes_back(op: str, graph: Graph) -> bool:
    """Check that an operation comes back with its attributes; return whether there was one to compare."""
    node = only_node(graph, op)
    row = None if node is None else row_of_node(op, {**node.attributes, "keep_dims": True})  # reshaped after the unit
    if node is None or row is None:
        return False
    try:
        written = netplist(as_numbers(graph))
    except GraphError:  # not what a description takes
        return False
    unit = only_unit(written, row.kind)
    read = None if unit is None else row_of_unit(row.kind, unit.params)
    if (
        unit is None or read is None or (read is not row and op not in NEVER_READ)
    ):  # such as a sum with what rounds to 0
        return False
    assert unit.params.items() >= row.entry.params.items()
    first = parse_netplist(written.data(), written.weights)
    found = only_node(first, read.op)
    assert found is not None
    assert [found.attributes[name] for name in read.entry.keys.values()] == expected(row, node)
    assert found.attributes.items() >= read.entry.attributes.items()
    again = only_unit(netplist(first), row.kind)
    assert again is not None
    assert again.params == unit.params
    return True


@pytest.mark.parametrize("op", sorted({row.op for row in rows()}))
def test_an_operation_comes_back_with_its_attributes(op: str) -> None:
    compared: list[bool] = []

    def draw(drawn: DrawnGraph) -> None:
        compared.append(comes_back(op, drawn.graph))

    for examples in (12, 200):  # some are rarely drawn in a form that can be written
        if not any(compared):
            settings(FEW, max_examples=examples)(given(one_operation(find_op(op)))(draw))()
    assert any(compared)


@pytest.mark.parametrize("kind", sorted({row.kind for row in rows()}))
def test_a_unit_comes_back_with_its_parameters(kind: str) -> None:
    compared: list[bool] = []

    @FEW
    @given(descriptions(kind))
    def draw(sketch: Sketch) -> None:
        document = parse_document(sketch.data())
        (unit,) = document.networks[0].units
        graph = parse_netplist(sketch.data(), sketch.weights)
        node = only_node(graph, row_of_unit(kind, unit.params).op)
        again = only_unit(netplist(graph), kind)
        compared.append(node is not None and again is not None)
        if node is not None and again is not None:
            assert compared_params(again, node) == compared_params(unit, node)

    draw()
    assert any(compared)


def compared_params(unit: Unit, node: Node) -> dict[str, Parameter]:
    """Return the parameters of a unit that come back: windows belong to no row, and a length of 1 is not reduced."""
    entry = row_of_unit(unit.type, unit.params).entry
    if unit.type == "Pooling":
        return {name: unit.params[name] for name in (*entry.params, *entry.keys)}
    if unit.type != "Reduction":
        return dict(unit.params)
    extents = dims_of(cast("Value", node.operands["x"]))
    names = sorted(cast("tuple[str, ...]", unit.params["Dimension"]))
    return {**unit.params, "Dimension": tuple(name for name in names if extents.at(Dim.named(name)) != 1)}
