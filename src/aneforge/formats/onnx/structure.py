"""Whether the names of a model hold together, looked at before anything is converted.

Every value is made once, out of what does not need it, names are text, functions do not call themselves, and nothing is
nested without end. A breach is one error at once: what comes after it would mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError, Location
from aneforge.formats.onnx.ordering import DEPTH_MOST, every_node, node_name, run_order, subgraphs
from aneforge.formats.shared.shapes import in_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import onnx

__all__ = [
    "check_functions",
    "check_graph",
    "check_texts",
]

FunctionKey = tuple[str, str, str]
Scopes = tuple[set[str], ...]


def check_graph(graph: onnx.GraphProto, file: str | None, outer: Scopes = ()) -> None:
    """Check the names of a graph and of the graphs in it; `outer` are the names known in the graphs around it.

    Raises:
        GraphError: A name is not text, made twice or never, or graphs are nested too deeply.
    """
    if len(outer) > DEPTH_MOST:
        raise GraphError("graphs are nested too deeply", location=in_file(file), limit=DEPTH_MOST)
    given = [value.name for value in graph.input]
    stored = [*(tensor.name for tensor in graph.initializer), *(one.values.name for one in graph.sparse_initializer)]
    check_texts("a value", [*given, *stored], file)
    check_texts("an output", (value.name for value in graph.output), file)
    expect_once("input", given, file)
    expect_once("initialiser", stored, file)
    scopes = (*outer, check_nodes(graph.node, [*given, *stored], file, outer))
    if not outer:  # a body may give one value twice
        expect_once("output", [value.name for value in graph.output], file)
    for value in graph.output:
        if not known_in(scopes, value.name):
            raise GraphError(f"output {value.name!r} is not produced by any node", location=in_file(file))


def check_nodes(nodes: Sequence[onnx.NodeProto], given: Iterable[str], file: str | None, outer: Scopes) -> set[str]:
    """Check that nodes read what is there, and make what is not; return all names that there are then.

    Raises:
        GraphError: They do not.
    """
    expect_made_once(nodes, given, file)
    known = set(given)
    scopes = (*outer, known)
    for place in run_order(nodes, file):
        node = nodes[place]
        for name in node.input:
            if name and not known_in(scopes, name):
                raise GraphError(
                    f"it reads {name!r}, which no input, initialiser or node makes",
                    location=Location(file, node=node_name(node, place)),
                    remedy="the model may have lost an initialiser; export it again",
                )
        for inner in subgraphs(node):
            check_graph(inner, file, scopes)
        known.update(name for name in node.output if name)
    return known


def known_in(scopes: Scopes, name: str) -> bool:
    """Return whether a graph, or one around it, knows a name."""
    return any(name in scope for scope in scopes)


def expect_made_once(nodes: Sequence[onnx.NodeProto], given: Iterable[str], file: str | None) -> None:
    """Check that every value is made once, and that names are text.

    Raises:
        GraphError: A name is not text, or two nodes make one value.
    """
    makers = dict.fromkeys(given, "")
    for place, node in enumerate(nodes):
        check_texts("a node", (node.name, node.op_type, node.domain), file)
        check_texts(f"a value of node {node_name(node, place)!r}", (*node.input, *node.output), file)
        for name in node.output:
            if name and name in makers:
                raise GraphError(
                    f"it computes {name!r}, which "
                    + (f"node {makers[name]!r} computes too" if makers[name] else "is an input or initialiser too"),
                    location=Location(file, node=node_name(node, place)),
                    remedy="give every value a name of its own; export the model again",
                )
            if name:
                makers[name] = node_name(node, place)


def check_texts(what: str, names: Iterable[object], file: str | None) -> None:
    """Check that names are text: protobuf gives bytes for what is not UTF-8.

    Raises:
        GraphError: One is not.
    """
    for name in names:
        if not isinstance(name, str):
            raise GraphError(f"the name of {what} is not UTF-8", location=in_file(file), seen=repr(name)[:80])


def expect_once(what: str, names: Sequence[str], file: str | None) -> None:
    """Check that names are there and apart.

    Raises:
        GraphError: One is empty or comes twice.
    """
    seen: set[str] = set()
    for name in names:
        if not name:
            raise GraphError(f"an {what} of the model has no name", location=in_file(file))
        if name in seen:
            raise GraphError(f"two {what}s of the model are called {name!r}", location=in_file(file))
        seen.add(name)


def check_functions(functions: Sequence[onnx.FunctionProto], file: str | None) -> None:
    """Check the functions of a model: their names, and that none comes to call itself.

    Raises:
        GraphError: They break a rule.
    """
    calls: dict[FunctionKey, set[FunctionKey]] = {}
    for function in functions:
        check_texts("a function", (function.name, function.domain, *function.input, *function.output), file)
        key = function.domain, function.name, function.overload
        if key in calls:
            raise GraphError(f"two functions of the model are called {function.name!r}", location=in_file(file))
        expect_once("input", function.input, file)
        made = check_nodes(function.node, function.input, file, ())
        for name in function.output:
            if name not in made:
                raise GraphError(f"output {name!r} of function {function.name!r} is not produced by any node")
        calls[key] = {(node.domain, node.op_type, node.overload) for node in every_node(function.node)}
    expect_no_cycle(calls, file)


def expect_no_cycle(calls: dict[FunctionKey, set[FunctionKey]], file: str | None) -> None:
    """Check that no function comes to call itself; functions that call none are taken away until none is left.

    Raises:
        GraphError: One does.
    """
    waiting = {key: called & calls.keys() for key, called in calls.items()}
    while waiting:
        leaves = {key for key, called in waiting.items() if not called}
        if not leaves:
            names = ", ".join(sorted(name for _, name, _ in waiting))
            raise GraphError(
                "functions call themselves, directly or through others", location=in_file(file), seen=names
            )
        waiting = {key: called - leaves for key, called in waiting.items() if key not in leaves}
