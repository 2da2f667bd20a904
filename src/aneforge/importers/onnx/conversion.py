"""A model that was read, made a graph: inputs bound, nodes converted, outputs named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.errors import AneforgeError
from aneforge.graph.graph import Graph
from aneforge.graph.node import Output
from aneforge.importers.emitter import FOLD_MOST_GROWTH, Emitter
from aneforge.importers.findings import Finding
from aneforge.importers.merging import with_merged_axes
from aneforge.importers.onnx.binding import bound_inputs, declared_type
from aneforge.importers.onnx.interpreter import Interpreter, Scope
from aneforge.importers.onnx.reading import read_model
from aneforge.importers.onnx.tensors import constant_of, sparse_constant_of
from aneforge.importers.onnx.values import Lost
from aneforge.importers.shapes import in_file
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    import onnx

    from aneforge.importers.onnx.binding import Shapes, Values
    from aneforge.importers.onnx.reading import ModelSource, ReadModel
    from aneforge.importers.onnx.values import Held

__all__ = ["graph_of"]


def graph_of(source: ModelSource, shapes: Shapes | None, values: Values | None) -> Graph:
    """Return the graph of a model; `from_onnx` says what it raises."""
    model = read_model(source)
    try:
        return converted(model, shapes, values)
    except AneforgeError as error:
        error.location = error.location or in_file(model.file)
        raise


def converted(model: ReadModel, shapes: Shapes | None, values: Values | None) -> Graph:
    """Return the graph of a model that was read."""
    functions = {(one.domain, one.name, one.overload): one for one in model.proto.functions}
    interpreter = Interpreter(model.file, model.folder, functions)
    scope = Scope(model.versions)
    scope.names.update(bound_inputs(model.proto.graph, shapes, values, model.file))
    store_weights(model, scope)
    weights = sum(held.nbytes for held in scope.names.values() if isinstance(held, Constant))
    interpreter.budget.folded = max(interpreter.budget.folded, FOLD_MOST_GROWTH * weights)
    wanted = [value.name for value in model.proto.graph.output]
    interpreter.run_nodes(model.proto.graph.node, scope, wanted)
    emitter = Emitter(in_file(model.file), interpreter.budget)
    outputs = {
        value.name: output
        for value in model.proto.graph.output
        if (output := tensor_of(value, scope.find(value.name), interpreter, emitter)) is not None
    }
    interpreter.gathering.raise_if_any()
    for value in model.proto.graph.output:
        compare_declared(value, outputs[value.name], model.file)
    return with_merged_axes(Graph(outputs))


def store_weights(model: ReadModel, scope: Scope) -> None:
    """Put the initialisers of a model into its scope.

    Raises:
        GraphError: One is damaged.
    """
    graph = model.proto.graph
    for place, tensor in enumerate(graph.initializer):
        scope.names[tensor.name] = constant_of(tensor, model.folder, model.cut.get(place))
    for sparse in graph.sparse_initializer:
        scope.names[sparse.values.name] = sparse_constant_of(sparse, model.folder)


def tensor_of(value: onnx.ValueInfoProto, held: Held, interpreter: Interpreter, emitter: Emitter) -> Output | None:
    """Return what an output of the model stands for as a tensor; nothing, and a finding, where it is none."""
    if isinstance(held, Output):
        return held
    if isinstance(held, Constant):
        return emitter.kept(held)
    if not isinstance(held, Lost):
        finding = Finding(
            value.name, "output", held.reason, f"it is {held.what}", "end the model at a node that gives tensors"
        )
        interpreter.gather(finding)
    return None


def compare_declared(value: onnx.ValueInfoProto, output: Output, file: str | None) -> None:
    """Warn of an output that is of another type than the model declares: the model or its reading is wrong."""
    declared = declared_type(value)
    if declared is not None and declared != output.type:
        warn(f"{file or 'the model'} declares output {value.name!r} as {declared}, and its nodes make {output.type}")
