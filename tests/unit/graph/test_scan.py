"""`af.scan`: one operation for all iterations, its text, and the same graph as if it were written out."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# Bodies are lambdas here, whose parameters have no types.

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.retarget import retarget
from aneforge.errors import GraphError, GraphTypeError, NotSupportedError
from aneforge.formats.mil.dialect import mil_dialect
from aneforge.graph.bodies import body_of, graph_of
from aneforge.graph.convert import convert, unroll
from aneforge.graph.graph import expect_values
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.ops.declared import declare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from golden_text import Golden

ITERATIONS = 5
WEIGHT = np.linspace(-1, 1, 9, dtype=np.float16).reshape(3, 3)


def cell(state: af.Tensor, row: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
    """Return the next state of a recurrent layer and what an iteration gives."""
    state = (state.linear(WEIGHT) + row).tanh()
    return state, state * 2.0


def inputs() -> tuple[af.Tensor, af.Tensor]:
    return af.input((1, 3), name="start"), af.input((ITERATIONS, 1, 3), name="x")


def rolled() -> af.Graph:
    start, x = inputs()
    last, given = af.scan(cell, [start], [x])
    return af.Graph({"last": last, "given": given})


def written_out() -> af.Graph:
    start, x = inputs()
    given: list[af.Tensor] = []
    for iteration in range(ITERATIONS):
        row = x.apply("slice_by_size", begin=[iteration, 0, 0], size=[1, 1, 3]).reshape((1, 3))
        start, one = cell(start, row)
        given.append(one)
    return af.Graph({"last": start, "given": af.stack(given)})


def forms(graph: af.Graph) -> list[tuple[str, object]]:
    return [(node.op.name, node.types) for node in graph.nodes]


def drawn() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {"start": generator.uniform(-1, 1, (1, 3)), "x": generator.uniform(-1, 1, (ITERATIONS, 1, 3))}


def test_a_loop_is_one_operation_and_means_what_its_turns_do() -> None:
    graph, iterations = rolled(), written_out()
    assert [node.op.name for node in graph.nodes] == ["input", "input", "scan"]
    assert forms(unroll(graph).graph) == forms(iterations)
    one, other = af.reference(graph, drawn()), af.reference(iterations, drawn())
    assert all(np.array_equal(one[name], other[name]) for name in other)
    assert unroll(iterations).graph is iterations


def test_a_loop_compiles_to_the_program_of_its_turns() -> None:
    one, other = (af.build_program(graph, af.targets.Family.A15) for graph in (rolled(), written_out()))
    assert [layer.kind for layer in one.layers] == [layer.kind for layer in other.layers]
    found = [af.run(program, drawn()).outputs for program in (one, other)]
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[1])


def test_weights_are_counted_once() -> None:
    graph = rolled()
    assert graph.work().bytes_weights == WEIGHT.nbytes
    assert graph.work().macs == ITERATIONS * WEIGHT.size
    assert list(graph.constants.values()) == [Dense(WEIGHT)]
    flat = unroll(graph).graph
    weights = [value for node in flat.nodes for _, value in node.values() if isinstance(value, Dense)]
    assert len(weights) == ITERATIONS
    assert len({id(one) for one in weights}) == 1


def test_the_text(golden: Golden) -> None:
    graph = unlocated(rolled())
    golden(str(graph))
    assert af.Graph.parse(str(graph), graph.constants) == graph
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301 - as it was dumped
    (body,) = (node.body for node in graph.nodes if node.body is not None)
    assert body == body_of(graph_of(body)) == pickle.loads(pickle.dumps(body))  # noqa: S301 - as above


def unlocated(graph: af.Graph) -> af.Graph:
    """Return a graph without places, which would say where this checkout is."""
    text = "\n".join(
        line.partition(" at ")[0] + (" {" if line.endswith("{") else "") for line in str(graph).split("\n")
    )
    return af.Graph.parse(text.replace("graph { {", "graph {"), graph.constants)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("    %2 = linear", "    %1 = linear", "%1 is defined twice"),
        ("x = %0, weight", "x = %9, weight", "%9 is used before it is defined"),
        ("    return y0", "    back y0", "this is not a graph"),
        ("    return y0", "    constant @c0 : fp16[3, 3] dense sha256:" + "0" * 64 + "\n    return y0", "belong here"),
        ("\n  }\n", "\n", "belong here"),
        ('name = "row0"', 'name = "row1"', "input 'row1' of the body"),
        (" = scan(states = [%0], rows = [%1], fixed = [])", " = stack(values = [%0])", "repeats no body"),
        ("fp16[5, 1, 3] {", "fp16[5, 1, 4] {", "not those that the operation gives"),
    ],
)
def test_mistakes_in_a_block_are_named(before: str, after: str, message: str) -> None:
    graph = unlocated(rolled())
    text = str(graph)
    assert before in text
    with pytest.raises(GraphError, match=message):
        af.Graph.parse(text.replace(before, after, 1), graph.constants)


def test_a_body_without_its_block_is_missing() -> None:
    graph = unlocated(rolled())
    head, _, rest = str(graph).partition(" {\n    %0")
    with pytest.raises(GraphError, match="attribute 'body' is missing"):
        af.Graph.parse(head + rest.partition("\n  }")[2], graph.constants)


def test_tensors_of_the_graph_around_are_the_same_in_every_turn() -> None:
    start, x = inputs()
    scale = af.input((3,), name="scale")
    last, given = af.scan(lambda state, row: (state + row * scale, scale), [start], [x])
    feeds = {**drawn(), "scale": np.array([1.0, 2.0, 4.0])}
    found = af.reference(af.Graph({"last": last, "given": given}), feeds)
    np.testing.assert_allclose(found["last"], feeds["start"] + (feeds["x"] * feeds["scale"]).sum(axis=0))
    np.testing.assert_array_equal(found["given"], np.stack([feeds["scale"]] * ITERATIONS))


def test_a_loop_without_states_maps_and_one_without_more_results_folds() -> None:
    _, x = inputs()
    (squares,) = af.scan(lambda row: row * row, [], [x])
    (total,) = af.scan(lambda state, row: [state + row], [af.input((1, 3), name="start")], [x])
    found = af.reference(af.Graph({"squares": squares, "total": total}), drawn())
    np.testing.assert_allclose(found["squares"], drawn()["x"] ** 2)
    np.testing.assert_allclose(found["total"], drawn()["start"] + drawn()["x"].sum(axis=0))


def test_loops_in_loops_are_written_out_from_within() -> None:
    x = af.input((2, 3, 4), name="x")

    def outer(total: af.Tensor, rows: af.Tensor) -> Sequence[af.Tensor]:
        return af.scan(lambda state, row: [state + row], [total * 2.0], [rows])

    (total,) = af.scan(outer, [af.input((4,), name="start")], [x])
    graph = af.Graph({"y": total})
    flat = unroll(graph).graph
    assert {node.op.name for node in flat.nodes} == {"input", "slice_by_size", "reshape", "muls", "add"}
    assert af.Graph.parse(str(graph), graph.constants) == graph
    feeds = {"x": np.arange(24.0).reshape(2, 3, 4), "start": np.ones(4)}
    one, other = af.reference(graph, feeds)["y"], af.reference(flat, feeds)["y"]
    np.testing.assert_array_equal(one, other)


def test_what_depends_on_constants_alone_is_computed() -> None:
    _, x = inputs()
    body = next(node.body for node in rolled().nodes if node.body is not None)
    node = build("scan", {"states": (Dense(np.zeros((1, 3), np.float16)),), "rows": (x,), "fixed": ()}, {"body": body})
    flat = unroll(af.Graph({"y": af.Tensor(node)})).graph
    assert [one.op.name for one in flat.nodes].count("linear") == ITERATIONS - 1


def test_places_of_the_turns_are_those_of_the_body() -> None:
    node = next(node for node in unroll(rolled()).graph.nodes if node.op.name == "tanh")
    assert node.location is not None
    assert node.location.line == cell.__code__.co_firstlineno + 2


def test_other_element_types_and_gradients_go_through_the_turns() -> None:
    start, x = inputs()
    last, given = af.scan(cell, [start], [af.cast(x, "fp32").apply("cast", dtype="fp16")])
    assert all(node.body is None for node in af.to_fp16(af.Graph({"y": given})).graph.nodes)
    found = af.backward((last * last).sum(), [start])
    assert found[start].shape == (1, 3)


def test_writers_have_the_turns(tmp_path: Path) -> None:
    made = convert(rolled(), mil_dialect())
    assert made.changes[0].op == "scan"
    assert all(node.body is None for node in made.graph.nodes)
    texts: list[bytes] = []
    for name, graph in (("loop", unlocated(rolled())), ("iterations", unlocated(written_out()))):
        af.save_mil(graph, tmp_path / f"{name}.mil")
        af.save_netplist(graph, tmp_path / f"{name}.plist")
        files = sorted(one for one in tmp_path.rglob("*") if one.is_file() and name in str(one.relative_to(tmp_path)))
        texts.append(b"".join(one.read_bytes().replace(name.encode(), b"") for one in files))
    assert texts[0] == texts[1]


def test_every_family_has_the_turns() -> None:
    for target in af.targets.Family:
        if not af.targets.resolve(target).limits.flag("mil_programs"):
            continue
        made = retarget(rolled(), target)
        assert [change.op for change in made.changes][:1] == ["scan"]
        assert forms(made.graph) == forms(retarget(written_out(), target).graph)
        assert made.verdict.ok


def test_too_many_turns_are_refused_where_they_would_be_written_out() -> None:
    (total,) = af.scan(lambda state, row: [state + row], [af.input((1,))], [af.input((200_000, 1))])
    with pytest.raises(
        NotSupportedError, match=r"too many operations, all iterations together .got 200000 iterations of 2"
    ):
        unroll(af.Graph({"y": total}))


def test_turns_of_loops_in_loops_are_counted() -> None:
    def outer(total: af.Tensor, rows: af.Tensor) -> Sequence[af.Tensor]:
        return af.scan(lambda state, row: [state + row], [total], [rows])

    (total,) = af.scan(outer, [af.input((1,))], [af.input((1000, 1000, 1))])
    with pytest.raises(
        NotSupportedError, match=r"too many operations, all iterations together .got 1000 iterations of 2001"
    ):
        unroll(af.Graph({"y": total}))


def test_loops_are_nested_a_few_times_at_most() -> None:
    start, x = af.input((2,), name="start"), af.input((1, 2), name="x")

    def nest(depth: int) -> Callable[[af.Tensor, af.Tensor], Sequence[af.Tensor]]:
        return lambda state, row: af.scan(nest(depth - 1), [state], [x]) if depth else [state + row]

    assert len(unroll(af.Graph({"y": af.scan(nest(7), [start], [x])[0]})).graph.nodes) == 4
    with pytest.raises(GraphError, match=r"loops are nested too deeply .got 9, limit 8"):
        af.scan(nest(8), [start], [x])


def test_what_a_turn_makes_on_the_way_is_not_too_large_for_the_reference() -> None:
    def body(row: af.Tensor) -> af.Tensor:
        return af.Tensor(build("tile", {"x": row}, {"reps": (2**31,)})).sum()

    (total,) = af.scan(body, [], [af.input((2, 1), name="x")])
    with pytest.raises(GraphError, match=r"scan at .* a tensor is too large to be evaluated"):
        af.reference(total, [np.zeros((2, 1))])


def test_a_weight_without_values_in_a_body_is_named() -> None:
    start, x = inputs()
    weight = declare((3, 3), "fp16", name="w")
    (total,) = af.scan(lambda state, row: [state.linear(weight) + row], [start], [x])
    graph = af.Graph({"y": total})
    assert af.Graph.parse(str(graph)) == graph
    with pytest.raises(GraphError, match=r"linear at .* without values"):
        expect_values(graph, "running")


@pytest.mark.parametrize(
    ("body", "states", "rows", "error", "message"),
    [
        (None, [], [af.input((2, 3))], GraphTypeError, "the body must be a function of tensors"),
        (cell, [], [], GraphError, "there are no tensors"),
        (cell, 3, [af.input((2, 3))], GraphTypeError, "not given as a list"),
        (lambda row: row, [], [3], GraphTypeError, "value 0 is not a tensor"),
        (lambda _: [], [], [af.input((2, 3))], GraphError, "there are no tensors"),
        (lambda _: [1.0], [], [af.input((2, 3))], GraphTypeError, "value 0 is not a tensor"),
        (lambda row: af.input((3,)) + row, [], [af.input((2, 3))], GraphError, "makes an input of its own"),
        (lambda s, _: [s.reshape((3, 1))], [af.input((1, 3))], [af.input((2, 3))], GraphError, "changes its type"),
        (lambda row: row, [], [af.input((2, 3)), af.input((3, 3))], TypeError, "positional"),
        (lambda row: row, [], [af.input(())], GraphError, "axis"),
    ],
)
def test_what_makes_no_loop(body: object, states: object, rows: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        af.scan(body, states, rows)  # pyright: ignore[reportArgumentType] - wrong on purpose
