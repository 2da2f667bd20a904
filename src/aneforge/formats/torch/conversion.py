"""A program that was read, made a graph: inputs bound, weights and states placed, nodes converted, outputs named."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from aneforge.callsite import warn
from aneforge.errors import AneforgeError, Location
from aneforge.formats.shared.findings import ImportProblem, Reason, UnsupportedNodeError
from aneforge.formats.shared.interpretation import LOST
from aneforge.formats.shared.merging import merge_axes
from aneforge.formats.shared.shapes import check_names, in_file, placeholder
from aneforge.formats.torch.binding import Described, Length, bind_shapes, describe_input, example_shapes
from aneforge.formats.torch.decomposition import decompose_program
from aneforge.formats.torch.dtypes import element_type
from aneforge.formats.torch.interpreter import TorchInterpreter
from aneforge.formats.torch.reading import flat_inputs, read_program
from aneforge.formats.torch.tensors import array_of, stored_of
from aneforge.graph.graph import Graph
from aneforge.graph.node import Output, new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.table import find_op
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.export.graph_signature import InputSpec, OutputSpec

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.formats.torch.reading import ExampleInputs, ProgramSource, ReadProgram
    from aneforge.formats.torch.torch_values import Complex, Held
    from aneforge.ops.constant import Dense
    from aneforge.ops.types import Array

__all__ = ["graph_of", "states_of"]

STORED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
ORDER = "TOKEN"
"""The kind of inputs and outputs by which PyTorch keeps operators in order; they hold nothing."""
WRITTEN = ("BUFFER_MUTATION", "PARAMETER_MUTATION")
"""Kinds of outputs that are written back; older releases of PyTorch have only the first."""


def graph_of(
    source: ProgramSource, example_inputs: ExampleInputs | None, shapes: Shapes | None, *, share_weights: bool
) -> Graph:
    """Return the graph of a program; `from_torch` says what it raises."""
    read = read_program(source, example_inputs)
    try:
        program = decompose_program(read.program)
        reading = Reading(program, read, TorchInterpreter(file=read.file), copied=not (share_weights or read.owned))
        return reading.graph(example_inputs, shapes)
    except AneforgeError as error:
        error.location = error.location or in_file(read.file)
        raise


def states_of(source: ProgramSource, example_inputs: ExampleInputs | None) -> dict[str, Array]:
    """Return what the buffers that a program writes hold; `torch_states` says what it raises."""
    program = decompose_program(read_program(source, example_inputs).program)
    return {name: array_of(get_stored_tensor(program, name)).copy() for name in list_written_names(program)}


def list_written_names(program: torch.export.ExportedProgram) -> list[str]:
    """Return the names of buffers and parameters that a program writes."""
    specs = cast("Sequence[OutputSpec]", program.graph_signature.output_specs)
    return list(dict.fromkeys(str(spec.target) for spec in specs if spec.kind.name in WRITTEN))


def get_stored_tensor(program: torch.export.ExportedProgram, name: str) -> torch.Tensor:
    """Return a parameter, buffer or constant of a program."""
    held = cast("Mapping[str, object]", program.state_dict).get(name)
    found = held if held is not None else cast("Mapping[str, object]", program.constants).get(name)
    if not isinstance(found, torch.Tensor):
        raise UnsupportedNodeError(Reason.FORM, f"{name!r} is not a tensor of the program")
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """One program on its way to a graph."""

    program: torch.export.ExportedProgram
    read: ReadProgram
    interpreter: TorchInterpreter
    copied: bool

    def graph(self, example_inputs: ExampleInputs | None, shapes: Shapes | None) -> Graph:
        """Return the graph.

        Raises:
            InvalidModelError: A node makes no sense.
            UnsupportedModelError: Nodes are not supported here.
        """
        outputs, writes = self.ports(example_inputs, shapes)
        self.interpreter.gathering.raise_if_any()
        return merge_axes(Graph(outputs, writes))

    def ports(
        self, example_inputs: ExampleInputs | None, shapes: Shapes | None
    ) -> tuple[dict[str, Output], dict[str, Output]]:
        """Return the outputs and what is written to states; what a finding stops is not among them."""
        specs = cast("Sequence[InputSpec]", self.program.graph_signature.input_specs)
        nodes = [node for node in self.program.graph_module.graph.nodes if node.op == "placeholder"]
        ports = self.described(specs, nodes)
        given = shapes
        if example_inputs is not None and not self.read.traced:
            self.interpreter.gathering.raise_if_any()  # an input that is lost would be missed among the examples
            whole = example_shapes(list(ports.values()), flat_inputs(example_inputs))
            given = cast("Shapes", {**whole, **check_names(shapes, "shapes")})
        ranges = cast("Mapping[Length, object]", getattr(self.program, "range_constraints"))  # noqa: B009 - untyped
        bound = bind_shapes(list(ports.values()), given, ranges, self.read.file)
        states: dict[str, Tensor] = {}
        feeds = self.stored(specs, nodes, states)
        for name, port in ports.items():
            feeds[name] = placeholder(port.input, bound[port.input.name], self.read.file)
        self.interpreter.allow_growth(feeds.values())
        results = self.interpreter.run(self.program.graph_module, [feeds.get(node.name, LOST) for node in nodes])
        return self.build_results(results, states)

    def described(self, specs: Sequence[InputSpec], nodes: Sequence[torch.fx.Node]) -> dict[str, Described]:
        """Return the tensors that a caller gives, by the names of their nodes; others are findings or plain numbers."""
        found: dict[str, Described] = {}
        for spec, node in zip(specs, nodes, strict=True):
            traced = cast("object", node.meta.get("val"))
            if spec.kind is not InputKind.USER_INPUT or not isinstance(traced, torch.Tensor):
                continue
            try:
                found[node.name] = describe_input(node.name, traced, self.input_type(traced))
            except UnsupportedNodeError as error:
                self.gather(node.name, "input", error.reason, error.message, error.remedy or "")
        return found

    def input_type(self, traced: torch.Tensor) -> str:
        """Return the element type of an input.

        Raises:
            UnsupportedNodeError: It has no meaning here, or the tensor is sparse.
        """
        if traced.layout is not torch.strided:
            raise UnsupportedNodeError(Reason.LAYOUT, f"it is a tensor of layout {traced.layout}")
        return element_type(traced.dtype)

    def stored(
        self, specs: Sequence[InputSpec], nodes: Sequence[torch.fx.Node], states: dict[str, Tensor]
    ) -> dict[str, Held]:
        """Return what is not a tensor of the caller's, by the names of nodes: weights, states, and plain numbers."""
        written = set(list_written_names(self.program))
        shared: dict[tuple[object, ...], Dense | Complex] = {}
        found: dict[str, Held] = {}
        for spec, node in zip(specs, nodes, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                if not isinstance(spec.arg, TensorArgument):
                    found[node.name] = cast("Held", getattr(spec.arg, "value", None))
            elif spec.kind.name == ORDER:
                found[node.name] = None
            elif spec.kind not in STORED:
                self.gather(node.name, "input", Reason.FORM, f"it is a {spec.kind.name.lower()}", "")
            else:
                found[node.name] = self.value_of_tensor(str(spec.target), node.name, written, shared, states)
        return found

    def value_of_tensor(
        self,
        name: str,
        node: str,
        written: set[str],
        shared: dict[tuple[object, ...], Dense | Complex],
        states: dict[str, Tensor],
    ) -> Held:
        """Return a parameter or buffer: a state if the program writes it, else a constant, one for equal tensors."""
        try:
            tensor = get_stored_tensor(self.program, name)
            if name in written:
                states[name] = self.state(name, tensor)
                return states[name]
            key = (tensor.data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
            if key not in shared:
                shared[key] = stored_of(tensor, copied=self.copied)
            return shared[key]
        except UnsupportedNodeError as error:
            self.gather(node, "weights", error.reason, f"{name!r}: {error.message}", error.remedy or "")
            return LOST

    def state(self, name: str, tensor: torch.Tensor) -> Tensor:
        """Return the placeholder of a state; one that holds something other than zeros is reported."""
        start = array_of(tensor)
        if start.size and np.any(start.astype(np.float64) != 0):
            warn(
                f"state {name!r} of the graph starts from zeros, and the program's buffer holds other numbers: give "
                "them to the first run, states=aneforge.torch_states(...)"
            )
        attributes = {"name": name, "shape": start.shape, "dtype": element_type(tensor.dtype)}
        return Tensor(new_node(find_op("state"), {}, attributes, Location(self.read.file, node=name)))

    # What comes out.

    def build_results(
        self, results: Sequence[Held], states: Mapping[str, Tensor]
    ) -> tuple[dict[str, Output], dict[str, Output]]:
        """Return the outputs and what is written to states."""
        specs = cast("Sequence[OutputSpec]", self.program.graph_signature.output_specs)
        names = iter(output_names(self.program))
        outputs: dict[str, Output] = {}
        writes: dict[str, Output] = {}
        for spec, held in zip(specs, results, strict=True):
            if spec.kind.name == ORDER:
                continue
            if spec.kind.name in WRITTEN:
                target = str(spec.target)
                value = self.tensor_of(target, held)
                if value is not None:
                    writes[target] = write(self.interpreter.emitter(), states[target], value)
                continue
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                name = f"{spec.target}_written"
            elif spec.kind is OutputKind.USER_OUTPUT:
                name = next(names)
                if held is None:
                    continue
            else:
                self.gather(spec.kind.name.lower(), "output", Reason.TRAINING, "it is an output of training", "")
                continue
            value = self.tensor_of(name, held)
            if value is not None:
                outputs[name] = value
        return outputs, writes

    def tensor_of(self, name: str, held: Held) -> Output | None:
        """Return a result as a tensor; nothing, and a finding, where it is none."""
        if isinstance(held, bool | int | float):
            kind = "bool" if isinstance(held, bool) else "int64" if isinstance(held, int) else "fp64"
            held = self.interpreter.emitter().constant(held, kind)
        return self.interpreter.output_of(name, held)

    def gather(self, name: str, operator: str, reason: Reason, message: str, workaround: str) -> None:
        """Keep a finding about something that is not a node."""
        self.interpreter.gather(ImportProblem(name, operator, reason, message, workaround))


def write(emitter: Emitter, old: Tensor, new: Output) -> Output:
    """Return what is written to a state, as a value that reads it: a graph has no state that is never read."""
    stack, seen = [new.node], {new.node}
    while stack:
        node = stack.pop()
        if node is old.node:
            return new
        for source in node.sources():
            if source.node not in seen:
                seen.add(source.node)
                stack.append(source.node)
    return cast("Output", emitter.select(emitter.constant(np.zeros(()), "bool"), old, new))


def output_names(program: torch.export.ExportedProgram) -> list[str]:
    """Return a name for every result: y, or y0, y1, … of several, and the keys of mappings."""
    spec = program.call_spec.out_spec
    if spec is None:
        return []
    count = spec.num_leaves
    listed = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), spec))[0]
    return [name_of(cast("tuple[object, ...]", path)) for path, _ in cast("list[tuple[object, object]]", listed)]


def name_of(path: Sequence[object]) -> str:
    """Return the name of a result by its path: keys and places, `y` before a place that comes first."""
    parts = [str(getattr(one, "key", getattr(one, "idx", getattr(one, "name", one)))) for one in path]
    if not parts:
        return "y"
    first = f"y{parts[0]}" if hasattr(path[0], "idx") else parts[0]
    return ".".join([first, *parts[1:]])
