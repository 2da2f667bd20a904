"""The sides of a comparison: what a target, the mathematics, onnxruntime or a file of the user says the values are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from aneforge.commands.model_and_targets import chip_of, chosen_targets, is_path, label_of, with_chip
from aneforge.commands.report_nodes import NUMBER, origins
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import run
from aneforge.errors import GraphError, UnknownNameError
from aneforge.formats.detection import ModelFormat
from aneforge.graph.graph import PLACEHOLDERS, Graph
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.packages import expect_package
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.commands.model_and_targets import Subject
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array
    from aneforge.targets import TargetLike

__all__ = [
    "EXPECTED",
    "ONNXRUNTIME",
    "REFERENCE",
    "Side",
    "build_expected_side",
    "marked",
    "onnxruntime_side",
    "output_keys",
    "reference_side",
    "target_side",
]

REFERENCE = "reference"
"""The name of the mathematics in float64, where a target is asked for."""
ONNXRUNTIME = "onnxruntime"
"""The name of the runtime that runs an ONNX model in the precision of its file."""
EXPECTED = "expected"
"""The name of the outputs that the user has in a file."""


def marked(graph: Graph) -> Graph:
    """Return a graph in which every result of every operation is an output."""
    outputs = dict(graph.outputs)
    for number, node in enumerate(graph.nodes):
        if node.op.name not in PLACEHOLDERS:
            outputs |= {f"aneforge_{number}_{index}": Tensor(node, index) for index in range(len(node.types))}
    return Graph(outputs, graph.states)


@dataclass(frozen=True, slots=True)
class Side:
    """The values of one side, by the number of the operation and of its result."""

    name: str
    values: Mapping[tuple[int, int], Array]
    exactness: str
    hazards: tuple[str, ...] = ()
    detail: str = ""
    """What it was given, where it is not a target."""
    chip: str = ""
    """The chip that was named, else the best known with the target's engine; empty where no chip has it."""

    @property
    def label(self) -> str:
        """Its name as users write it."""
        return with_chip(self.name, self.chip)

    @property
    def every_operation(self) -> bool:
        """It holds values of operations, not only of outputs."""
        return self.name not in (ONNXRUNTIME, EXPECTED)

    @property
    def is_target(self) -> bool:
        """It is a program of the engine."""
        return self.name not in (REFERENCE, ONNXRUNTIME, EXPECTED)


def target_side(
    subject: Subject, graph: Graph, which: TargetLike, inputs: Mapping[str, Array], states: Mapping[str, Array]
) -> Side:
    """Run a graph on a target and return the values that its program holds."""
    original = subject.graph
    place = chosen_targets([which])[0]
    target = place.target
    made = compile_graph(graph, target, route=subject.route(target))
    given = made.feed(inputs)
    ran = run(made.program, given, states, keep=True)
    origin = origins(graph, made.graph)
    renumbered = numbers_of(original, graph)
    found: dict[tuple[int, int], Array] = {}
    for name, array in ran.values.items():
        match = NUMBER.fullmatch(name)
        if match is None:
            continue
        node = made.graph.nodes[int(match[1])]
        for number in origin[int(match[1])]:
            before = graph.nodes[number]
            # A node that became several is known by the one that has its type.
            same = before.op is node.op or before.types[0] == node.types[0]
            if same and number in renumbered and before.op.name not in PLACEHOLDERS:
                found[renumbered[number], 0] = array
    places = {node: place for place, node in enumerate(graph.nodes)}
    for name, output in graph.outputs.items():
        if output.node.op.name not in PLACEHOLDERS:
            found[renumbered[places[output.node]], output.index] = ran.outputs[name]
    fed = {**given, **states}
    hazards = () if all_finite(ran.values) else tuple(observe_hazards(graph, made.program, fed, label_of(place)))
    return Side(target.name, found, str(ran.label.exactness), hazards, chip=chip_of(place))


def all_finite(values: Mapping[str, Array]) -> bool:
    """Return whether every value of a run is finite."""
    return all(bool(np.isfinite(array).all()) for array in values.values() if array.dtype.kind == "f")


def observe_hazards(graph: Graph, program: Program, sample: Mapping[str, Array], label: str) -> Iterator[str]:
    """Yield the operations that make finite values of a sample infinite, each once."""
    from aneforge.analysis.ranges.analysis import Edge, observe_ranges  # noqa: PLC0415 - few comparisons have such values
    from aneforge.analysis.user_operations import name_at, operations_by_place  # noqa: PLC0415 - as above

    places, found = operations_by_place(graph), list[str]()
    for layer in observe_ranges(program, [sample]).layers:
        own = [one for one in layer.passed if one.edge is not Edge.GRID and not one.inherited]
        if own:
            place = f" at {layer.location}" if layer.location else ""
            found.append(f"{label}: {name_at(layer.op, layer.location, places)}{place}: {own[-1]}")
    yield from dict.fromkeys(found)


def numbers_of(original: Graph, graph: Graph) -> Mapping[int, int]:
    """Return the numbers in the original graph of the nodes that a graph shares with it."""
    numbers = {node: number for number, node in enumerate(original.nodes)}
    return {place: numbers[node] for place, node in enumerate(graph.nodes) if node in numbers}


def reference_side(subject: Subject, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Side:
    """Return every value as the mathematics gives it, of the model as its file has it and not of its form in fp16."""
    values = {name: np.asarray(array) for name, array in inputs.items()}
    every = marked(subject.original)
    results, _ = evaluate(every, values, states)
    by_node = {(output.node, output.index): results[name] for name, output in every.outputs.items()}
    before = subject.half.before
    found = {
        (number, index): by_node[before.get(node, node), index]
        for number, node in enumerate(subject.graph.nodes)
        if node.op.name not in PLACEHOLDERS
        for index in range(len(node.types))
        if (before.get(node, node), index) in by_node
    }
    detail = "float64, with the weights and inputs as their files have them, not rounded to fp16"
    return Side(REFERENCE, found, "mathematics", detail=detail)


def output_keys(graph: Graph) -> Mapping[str, tuple[int, int]]:
    """Return the operation and result that each output is; one that is an input unchanged is left out."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    return {
        name: (numbers[output.node], output.index)
        for name, output in graph.outputs.items()
        if output.node.op.name not in PLACEHOLDERS
    }


def build_expected_side(subject: Subject, given: Mapping[str, Array]) -> Side:
    """Return the outputs that the user has, by their names; one array without another's name is that of one output.

    Raises:
        UnknownNameError: An array has the name of no output.
        GraphError: An array has a different shape than the output.
    """
    return Side(EXPECTED, values_by_output(subject, given, "expected output"), "as given")


def values_by_output(subject: Subject, given: Mapping[str, Array], what: str) -> Mapping[tuple[int, int], Array]:
    """Return arrays by the operation and result of the output that each is for."""
    graph, keys = subject.graph, output_keys(subject.graph)
    if len(given) == 1 and len(graph.outputs) == 1:
        given = dict(zip(graph.outputs, given.values(), strict=True))
    for name, array in given.items():
        if name not in graph.outputs:
            raise UnknownNameError.of(what, name, graph.outputs, remedy=f"the outputs are {', '.join(graph.outputs)}")
        wanted = graph.outputs[name].type.shape
        if array.shape != wanted:
            raise GraphError(f"the {what} {name!r} has another shape", seen=list(array.shape), limit=list(wanted))
    return {keys[name]: array for name, array in given.items() if name in keys}


def onnxruntime_side(subject: Subject, model: object, inputs: Mapping[str, Array]) -> Side:
    """Run an ONNX model with onnxruntime on the CPU and return its outputs.

    Raises:
        GraphError: The model is not an ONNX file, or onnxruntime refuses it.
        MissingPackageError: onnxruntime is not installed.
    """
    if not is_path(model) or subject.format != ModelFormat.ONNX:
        raise GraphError(
            "onnxruntime runs only ONNX files",
            seen=subject.format,
            remedy="compare with the mathematics (leave --against out), or with your own outputs: --expect golden.npz",
        )
    expect_package(ONNXRUNTIME)
    version, outputs = run_onnx(str(model), inputs)
    named = {name: array for name, array in outputs.items() if name in subject.graph.outputs}
    found = values_by_output(subject, named, "output of onnxruntime")
    return Side(ONNXRUNTIME, found, "float", detail=f"onnxruntime {version} on this machine's CPU")


class RuntimePort(Protocol):
    """An input or output of a session of onnxruntime, as far as it is used here."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...


class RuntimeSession(Protocol):
    """A session of onnxruntime, as far as it is used here: the package has no types."""

    def get_inputs(self) -> Sequence[RuntimePort]: ...
    def get_outputs(self) -> Sequence[RuntimePort]: ...
    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Array]) -> Sequence[object]: ...


def run_onnx(path: str, inputs: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
    """Return the version of onnxruntime and the outputs that it gives for inputs, cast to the types that it wants.

    Raises:
        GraphError: It refuses the model.
    """
    import onnxruntime  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - an extra, without types

    try:
        opened = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        session = cast("RuntimeSession", opened)
        wanted = {port.name: NUMPY_TYPES.get(port.type, port.type) for port in session.get_inputs()}
        fed = {name: np.asarray(inputs[name]).astype(dtype) for name, dtype in wanted.items() if name in inputs}
        names = [port.name for port in session.get_outputs()]
        arrays = [np.asarray(one) for one in session.run(names, fed)]
    except Exception as error:  # noqa: BLE001 - its errors have no class in common that is public
        raise GraphError("onnxruntime refuses the model", seen=str(error).splitlines()[0]) from None
    return onnxruntime.__version__, dict(zip(names, arrays, strict=True))


NUMPY_TYPES = {
    "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64", "tensor(bool)": "bool",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""NumPy's names of the types that onnxruntime names."""
