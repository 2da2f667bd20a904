"""The nodes of an ONNX model for the interpreter: what names stand for, and who converts a node.

A scope says what names stand for; a graph within a node has a scope inside that of the node, a function one of its own.
A node goes to its operator's converter; an operator without one is expanded into the function by which the model, or
ONNX itself, defines it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import onnx
from onnx import helper

from aneforge.errors import GraphError, Location
from aneforge.formats.onnx.call import Call
from aneforge.formats.onnx.dtypes import schema_type
from aneforge.formats.onnx.functions import bind_attributes, function_of
from aneforge.formats.onnx.onnx_values import Foreign, Held
from aneforge.formats.onnx.ordering import every_node, live_nodes, node_name
from aneforge.formats.onnx.registry import converter_of
from aneforge.formats.onnx.rules import RUNTIME_DOMAIN, RUNTIME_LAYOUT_DOMAINS, Rules, newest_version, rules_of
from aneforge.formats.onnx.tensors import constant_of, sparse_constant_of
from aneforge.formats.shared.findings import ImportProblem, Reason, UnsupportedNodeError
from aneforge.formats.shared.interpretation import LOST, Interpreter, Lost, Place
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from aneforge.formats.onnx.registry import Entry

__all__ = ["OnnxInterpreter", "Scope"]

AttributeProto = onnx.AttributeProto
Tensor = onnx.TensorProto | onnx.SparseTensorProto
Body = onnx.GraphProto | onnx.FunctionProto
CALL_DEPTH_MOST = 64
"""Functions within functions, ONNX's own counted."""
STANDARD_VERSION = 21
"""The version of the default set in which operators of ONNX Runtime are written; every onnx that is taken has it."""
DEFAULT_DOMAINS = ("", "ai.onnx")
"""Two spellings of one operator set."""


@dataclass(slots=True)
class Scope:
    """What names stand for in one graph, and under which rules its nodes are read."""

    versions: Mapping[str, int]
    """The version of every operator set that nodes may use."""
    path: str = ""
    """Names of the nodes around it, for places."""
    outer: Scope | None = None
    depth: int = 0
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict[str, onnx.AttributeProto])
    """Attributes of the function that the nodes are part of."""
    names: dict[str, Held] = field(default_factory=dict[str, Held])

    def find(self, name: str) -> Held:
        """Return what a name stands for, here or in a graph around."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise GraphError(f"value {name!r} is not produced by any node")


@dataclass(slots=True, kw_only=True)
class OnnxInterpreter(Interpreter):
    """Reads the nodes of one model."""

    breach: ClassVar[Reason] = Reason.INVALID
    folder: Path | None
    functions: Mapping[tuple[str, str, str], onnx.FunctionProto]
    read: dict[int, tuple[Tensor, Constant | Foreign]] = field(
        default_factory=dict[int, "tuple[Tensor, Constant | Foreign]"]
    )
    """Tensors within nodes that were read, by the identity of their messages: a loop reads each of them once."""
    sizes: dict[int, tuple[Body, int]] = field(default_factory=dict[int, "tuple[Body, int]"])
    """How many nodes a body has, those of graphs in it counted, by the identity of its message."""

    def run_nodes(self, nodes: Sequence[onnx.NodeProto], scope: Scope, wanted: Sequence[str]) -> None:
        """Convert the nodes that some values need."""
        for place, node in live_nodes(nodes, wanted):
            name = scope.path + node_name(node, place)
            results = self.converted(node, scope, name)
            for output, result in zip(node.output, results, strict=False):
                if output:
                    scope.names[output] = result

    def converted(self, node: onnx.NodeProto, scope: Scope, name: str) -> tuple[Held, ...]:
        """Return the results of a node; what stops it is gathered, and its results are lost."""
        lost: tuple[Held, ...] = (LOST,) * len(node.output)

        def convert() -> tuple[Held, ...]:
            inputs = tuple(scope.find(one) if one else None for one in node.input)
            if any(isinstance(one, Lost) for one in inputs):
                return lost
            return self.results_of(node, inputs, scope, name)

        return self.guarded(Place(name, node.op_type, Location(self.file, node=name)), convert, lost)

    def no_tensor(self, name: str, held: object) -> ImportProblem:
        """Return the finding of an output of the model that is not a tensor."""
        reason, what = (held.reason, held.what) if isinstance(held, Foreign) else (Reason.FORM, "no tensor")
        return ImportProblem(name, "output", reason, f"it is {what}", "end the model at a node that gives tensors")

    def results_of(
        self, node: onnx.NodeProto, inputs: tuple[Held | None, ...], scope: Scope, name: str
    ) -> tuple[Held, ...]:
        """Return the results of a node.

        Raises:
            UnsupportedNodeError: It is not supported here.
            GraphError: It breaks the rules of its operator.
        """
        attributes = resolve(node, scope)
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            return self.run(function, node, inputs, bind_attributes(function, attributes), (scope, name))
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        version = scope.versions.get(domain, 0)
        rules = self.rules_for(node, domain, version)
        entry = converter_of(domain, node.op_type, rules.since)
        check_call(node, rules, inputs, attributes, takes_all=entry is not None and entry.takes_all)
        emitter = self.emitter(Location(self.file, node=name))
        call = Call(node, rules, version, inputs, attributes, emitter, NodeSurroundings(self, scope, name))
        return self.by_converter(call, entry)

    def by_converter(self, call: Call, entry: Entry | None) -> tuple[Held, ...]:
        """Return what a converter makes of a node, or its operator's function where there is no converter."""
        if entry is None:
            return call.surroundings.run_function(call)
        converted = entry.convert(call)
        results = converted if isinstance(converted, tuple) else (converted,)
        if any(call.wants(place) for place in range(len(results), call.outputs)):
            raise UnsupportedNodeError(Reason.FORM, f"output {len(results)} is not supported here")
        return results

    def rules_for(self, node: onnx.NodeProto, domain: str, version: int) -> Rules:
        """Return the rules of a node's operator.

        Raises:
            UnsupportedNodeError: No operator set has it.
            GraphError: The model does not say which version of the operator set it uses.
        """
        if domain in RUNTIME_LAYOUT_DOMAINS:
            raise UnsupportedNodeError(
                Reason.OPERATOR,
                f"operator set {domain!r} is for the memory layout of one processor",
                workaround="save the optimised model with ORT_ENABLE_EXTENDED or less instead of ORT_ENABLE_ALL",
            )
        if not newest_version(domain):
            raise UnsupportedNodeError(
                Reason.OPERATOR,
                f"no operator set {domain!r} is known",
                workaround="export the model with standard operators, or with the operator's body as a model function",
            )
        if not version:
            raise GraphError(f"the model does not say which version of operator set {domain or 'ai.onnx'!r} it uses")
        rules = rules_of(node.op_type, version, domain)
        if rules is None:
            raise unknown_operator(domain, version)
        return rules

    # Functions and graphs within nodes.

    def run(
        self,
        function: onnx.FunctionProto,
        node: onnx.NodeProto,
        inputs: Sequence[Held | None],
        attributes: Mapping[str, onnx.AttributeProto],
        place: tuple[Scope, str],
    ) -> tuple[Held, ...]:
        """Return the results of a function that a node calls, at a place: the node's scope and name.

        Raises:
            GraphError: It is given too many inputs or asked for too many outputs, or functions are nested too deeply.
        """
        self.take_body(function)
        scope, name = place
        if scope.depth >= CALL_DEPTH_MOST:
            raise GraphError("functions are nested too deeply", limit=CALL_DEPTH_MOST)
        if len(inputs) > len(function.input):
            raise GraphError("the function takes fewer inputs", seen=len(inputs), limit=len(function.input))
        if len(node.output) > len(function.output):
            raise GraphError("the function has fewer outputs", seen=len(node.output), limit=len(function.output))
        versions = {**scope.versions, **versions_of(function.opset_import)}
        inner = Scope(versions, f"{name}/", depth=scope.depth + 1, attributes=attributes)
        given = (*inputs, *[None] * (len(function.input) - len(inputs)))
        absent = {one for one, value in zip(function.input, given, strict=True) if value is None}
        inner.names.update({one: value for one, value in zip(function.input, given, strict=True) if value is not None})
        nodes = [without_inputs(node, absent) for node in function.node] if absent else function.node
        wanted = [inside for inside, outside in zip(function.output, node.output, strict=False) if outside]
        self.run_nodes(nodes, inner, wanted)
        return tuple(
            inner.find(inside) if outside else LOST
            for inside, outside in zip(function.output, node.output, strict=False)
        )

    def run_graph(self, graph: onnx.GraphProto, inputs: Sequence[Held], scope: Scope, name: str) -> tuple[Held, ...]:
        """Return the outputs of a graph within a node.

        Raises:
            GraphError: It is given more or fewer inputs than it has.
        """
        self.take_body(graph)
        if len(inputs) != len(graph.input):
            raise GraphError(
                "the graph within it has another number of inputs", seen=len(graph.input), limit=len(inputs)
            )
        inner = Scope(scope.versions, f"{name}/", outer=scope, depth=scope.depth + 1, attributes=scope.attributes)
        self.store_initialisers(graph, inner)
        inner.names.update({one.name: value for one, value in zip(graph.input, inputs, strict=True)})
        wanted = [one.name for one in graph.output]
        self.run_nodes(graph.node, inner, wanted)
        return tuple(inner.find(one) for one in wanted)

    def store_initialisers(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Put the constants of a graph within a node into its scope."""
        for tensor in graph.initializer:
            scope.names[tensor.name] = self.constant(tensor)
        for sparse in graph.sparse_initializer:
            scope.names[sparse.values.name] = self.constant(sparse)

    def constant(self, tensor: Tensor) -> Constant | Foreign:
        """Return a tensor that a node or a graph within one carries."""
        if id(tensor) not in self.read:
            dense = isinstance(tensor, onnx.TensorProto)
            made = constant_of(tensor, self.folder) if dense else sparse_constant_of(tensor, self.folder)
            self.read[id(tensor)] = tensor, made
        return self.read[id(tensor)][1]

    def take_body(self, body: Body) -> None:
        """Count the nodes of a body that is run, whether they are needed or not: all of them are looked at."""
        if id(body) not in self.sizes:
            self.sizes[id(body)] = body, 1 + sum(1 for _ in every_node(body.node))
        self.budget.take_nodes(self.sizes[id(body)][1])


@dataclass(frozen=True, slots=True)
class NodeSurroundings:
    """What one node may ask of the model around it."""

    interpreter: OnnxInterpreter
    scope: Scope
    name: str

    def constant(self, tensor: onnx.TensorProto) -> Constant | Foreign:
        """Return a tensor that the model carries."""
        return self.interpreter.constant(tensor)

    def sparse_constant(self, tensor: onnx.SparseTensorProto) -> Constant | Foreign:
        """Return a sparse tensor that the model carries."""
        return self.interpreter.constant(tensor)

    def run_body(self, graph: onnx.GraphProto, inputs: Sequence[Held]) -> tuple[Held, ...]:
        """Return the outputs of a graph that is an attribute of the node."""
        return self.interpreter.run_graph(graph, inputs, self.scope, self.name)

    def try_body(self, graph: onnx.GraphProto, inputs: Sequence[Held]) -> tuple[tuple[Held, ...], str]:
        """Return the outputs of a graph, and the text of the first finding that stops it; none is gathered."""
        return self.interpreter.attempt(lambda: self.run_body(graph, inputs))

    def run_function(self, call: Call) -> tuple[Held, ...]:
        """Return the outputs of the function by which ONNX itself defines the node's operator.

        Raises:
            UnsupportedNodeError: ONNX defines it by no function.
        """
        function, attributes = function_of(call)
        return self.interpreter.run(function, call.node, call.inputs, attributes, (self.scope, self.name))

    def run_operator(
        self, operator: str, inputs: Sequence[Held | None], attributes: Mapping[str, object], outputs: int
    ) -> tuple[Held, ...]:
        """Return the outputs of an operator of ONNX's default set, as if the node were made of it."""
        names = ["" if one is None else f"x{place}" for place, one in enumerate(inputs)]
        node = helper.make_node(operator, names, [f"y{place}" for place in range(outputs)])
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        scope = Scope({"": STANDARD_VERSION}, self.scope.path, depth=self.scope.depth + 1)
        return self.interpreter.results_of(node, tuple(inputs), scope, self.name)


def unknown_operator(domain: str, version: int) -> UnsupportedNodeError:
    """Return the error of an operator that its operator set does not have."""
    if domain == RUNTIME_DOMAIN:
        return UnsupportedNodeError(
            Reason.OPERATOR,
            f"it is an operator that ONNX Runtime adds in {domain!r}, and it is not supported here",
            workaround="save the model with graph_optimization_level ORT_ENABLE_BASIC, which keeps standard operators",
        )
    return UnsupportedNodeError(
        Reason.OPERATOR,
        f"operator set {domain or 'ai.onnx'} {version} has no such operator",
        workaround="check the model's operator-set version, or convert it with onnx.version_converter",
    )


def versions_of(imports: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of every operator set, the default one under the empty name."""
    return {"" if one.domain in DEFAULT_DOMAINS else one.domain: one.version for one in imports}


def resolve(node: onnx.NodeProto, scope: Scope) -> dict[str, onnx.AttributeProto]:
    """Return the attributes of a node; one that refers to an attribute of its function is that one, or not given.

    Raises:
        GraphError: An attribute comes twice.
    """
    found: dict[str, onnx.AttributeProto] = {}
    for attribute in node.attribute:
        if attribute.name in found:
            raise GraphError(f"attribute {attribute.name!r} comes twice")
        if not attribute.ref_attr_name:
            found[attribute.name] = attribute
        elif attribute.ref_attr_name in scope.attributes:
            found[attribute.name] = scope.attributes[attribute.ref_attr_name]
    return found


def without_inputs(node: onnx.NodeProto, absent: set[str]) -> onnx.NodeProto:
    """Return a node of a function with the inputs left out that the function was not given."""
    if absent.isdisjoint(node.input):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for place, name in enumerate(copy.input):
        if name in absent:
            copy.input[place] = ""
    return copy


def check_call(
    node: onnx.NodeProto,
    rules: Rules,
    inputs: Sequence[Held | None],
    attributes: Mapping[str, onnx.AttributeProto],
    *,
    takes_all: bool,
) -> None:
    """Check a node against the rules of its operator.

    Raises:
        GraphError: It breaks one.
        UnsupportedNodeError: An input is of a type that has no meaning here.
    """
    check_count("inputs", len(inputs), rules.inputs)
    check_count("outputs", len(node.output), rules.outputs)
    check_attributes(rules, attributes)
    for place, held in enumerate(inputs):
        rule = min(place, len(rules.types) - 1)
        if held is None and not rules.optional[rule]:
            raise GraphError(f"input {place} is missing")
        if isinstance(held, Foreign) and not takes_all:
            raise UnsupportedNodeError(held.reason, f"input {place} is {held.what}")
        if isinstance(held, Output | Constant) and schema_type(held.type.dtype) not in rules.types[rule]:
            raise GraphError(
                f"input {place} is of an element type that the operator does not take",
                seen=schema_type(held.type.dtype),
                limit=", ".join(sorted(rules.types[rule])),
            )
    for place, (held, allowed) in enumerate(zip(inputs, rules.ranks, strict=False)):
        if isinstance(held, Output | Constant) and not allowed[0] <= held.type.rank <= allowed[1]:
            raise GraphError(f"input {place} has the wrong rank", seen=str(held.type), limit=span(allowed))


def check_count(what: str, count: int, allowed: tuple[int, int]) -> None:
    """Check how many inputs or outputs a node has.

    Raises:
        GraphError: It has too many or too few.
    """
    if not allowed[0] <= count <= allowed[1]:
        raise GraphError(f"it has the wrong number of {what}", seen=count, limit=span(allowed))


def span(allowed: tuple[int, int]) -> str:
    """Return a least and a greatest number as text."""
    least, most = allowed
    return str(least) if least == most else f"{least} to {most}"


def check_attributes(rules: Rules, attributes: Mapping[str, onnx.AttributeProto]) -> None:
    """Check that attributes are known, of their type, and all there.

    Raises:
        GraphError: One is not.
    """
    for name, attribute in attributes.items():
        rule = rules.attributes.get(name)
        if rule is None:
            raise GraphError(
                f"there is no attribute {str(name)[:60]!r}",
                limit=", ".join(sorted(rules.attributes)) or "no attributes",
            )
        if attribute.type != rule.kind:
            raise GraphError(
                f"attribute {name!r} is of the wrong type",
                seen=kind_name(attribute.type),
                limit=kind_name(rule.kind),
            )
    for name, rule in rules.attributes.items():
        if rule.required and name not in attributes:
            raise GraphError(f"attribute {name!r} is missing")


def kind_name(kind: int) -> str:
    """Return how ONNX calls a type of attributes."""
    known = AttributeProto.AttributeType.items()
    return next((name for name, number in known if number == kind), f"type {kind}")
