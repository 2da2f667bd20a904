"""A model that was read, made a graph: inputs bound, nodes converted, outputs named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.errors import AneforgeError
from aneforge.formats.onnx.binding import bind_inputs, declared_type
from aneforge.formats.onnx.interpreter import OnnxInterpreter, Scope
from aneforge.formats.onnx.reading import read_model
from aneforge.formats.onnx.tensors import constant_of, sparse_constant_of
from aneforge.formats.shared.merging import merge_axes
from aneforge.formats.shared.shapes import in_file
from aneforge.graph.graph import Graph

if TYPE_CHECKING:
    import onnx

    from aneforge.formats.onnx.binding import Shapes, Values
    from aneforge.formats.onnx.reading import ModelSource, ReadModel
    from aneforge.graph.node import Output

__all__ = ["graph_of"]


def graph_of(source: ModelSource, shapes: Shapes | None, values: Values | None) -> Graph:
    """Return the graph of a model; `from_onnx` says what it raises."""
    model = read_model(source)
    try:
        return convert(model, shapes, values)
    except AneforgeError as error:
        error.location = error.location or in_file(model.file)
        raise


def convert(model: ReadModel, shapes: Shapes | None, values: Values | None) -> Graph:
    """Return the graph of a model that was read."""
    functions = {(one.domain, one.name, one.overload): one for one in model.proto.functions}
    interpreter = OnnxInterpreter(file=model.file, folder=model.folder, functions=functions)
    scope = Scope(model.versions)
    scope.names.update(bind_inputs(model.proto.graph, shapes, values, model.file))
    store_weights(model, scope)
    interpreter.allow_growth(scope.names.values())
    wanted = [value.name for value in model.proto.graph.output]
    interpreter.run_nodes(model.proto.graph.node, scope, wanted)
    outputs = {
        value.name: output
        for value in model.proto.graph.output
        if (output := interpreter.output_of(value.name, scope.find(value.name))) is not None
    }
    interpreter.gathering.raise_if_any()
    for value in model.proto.graph.output:
        compare_declared(value, outputs[value.name], model.file)
    return merge_axes(Graph(outputs))


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


def compare_declared(value: onnx.ValueInfoProto, output: Output, file: str | None) -> None:
    """Warn of an output that is of a different type than the model declares: the model or its reading is wrong."""
    declared = declared_type(value)
    if declared is not None and declared != output.type:
        warn(f"{file or 'the model'} declares output {value.name!r} as {declared}, and its nodes make {output.type}")
