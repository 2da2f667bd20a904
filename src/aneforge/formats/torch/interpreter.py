"""The nodes of a program for the interpreter: what each stands for, and who converts it.

Numbers (lengths of axes and the arithmetic on them) are computed while the program is read, since every shape is known.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import torch

from aneforge.errors import GraphError, Location
from aneforge.formats.shared.findings import ImportProblem, Reason, UnsupportedNodeError
from aneforge.formats.shared.interpretation import LOST, Interpreter, Lost, Place, expect_whole
from aneforge.formats.shared.unrolling import choose, read_condition
from aneforge.formats.torch.call import Call
from aneforge.formats.torch.dtypes import part_type
from aneforge.formats.torch.evaluation import evaluate_by_torch, is_evaluated
from aneforge.formats.torch.loops import UNROLLED, scan_rows, tensors, while_known
from aneforge.formats.torch.places import is_users
from aneforge.formats.torch.registry import complex_converter_of, converter_of
from aneforge.formats.torch.schemas import Schema, operator_name, runs_graphs, schema_of
from aneforge.formats.torch.tensors import stored_of
from aneforge.formats.torch.torch_numbers import number_function
from aneforge.formats.torch.torch_values import Complex
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant, Dense
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.formats.torch.torch_values import Held

__all__ = ["TorchInterpreter"]

FRAME = re.compile(r'File "([^"]+)", line (\d+)')
DEPTH_MOST = 32
"""Graphs within graphs; a program that PyTorch traced has a few."""
CHECKS = frozenset({
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
})  # fmt: skip
"""Operators that check and give nothing."""
INLINED = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4, "wrap": 0, "hints_wrapper": 0}
"""Operators that run a graph as it is: the place of the graph among their arguments."""
LOOPS = ("while_loop", "scan", "map_impl")
"""Operators that run a graph several times, which are unrolled."""
CONTROL = {"associative_scan": "its body runs once for each pair of slices"}
"""Operators of control flow that are not taken over, and why."""


@dataclass(slots=True, kw_only=True)
class TorchInterpreter(Interpreter):
    """Reads the nodes of one program."""

    breach: ClassVar[Reason] = Reason.FORM
    """PyTorch checked a node when it traced it: what breaks a rule is a form that the op table does not have."""

    def run(self, module: torch.fx.GraphModule, inputs: Sequence[Held], depth: int = 0) -> tuple[Held, ...]:
        """Return the outputs of a graph.

        Raises:
            GraphError: It is given more or fewer inputs than it has, or graphs are nested too deeply.
        """
        if depth > DEPTH_MOST:
            raise GraphError("graphs are nested too deeply", limit=DEPTH_MOST)
        held: dict[torch.fx.Node, Held] = {}
        feeds = iter(inputs)
        for node in module.graph.nodes:
            match node.op:
                case "placeholder":
                    held[node] = next(feeds, LOST)
                case "output":
                    listed = self.resolved(node.args[0], held)
                    return listed if isinstance(listed, tuple) else (listed,)
                case "get_attr":
                    held[node] = self.attribute(module, node)
                case _:
                    held[node] = self.converted(module, node, held, depth)
        raise GraphError("the graph has no outputs")

    def resolved(self, argument: object, held: Mapping[torch.fx.Node, Held]) -> Held:
        """Return an argument with the values of the nodes that it names.

        Raises:
            UnsupportedNodeError: It is of a sort that has no meaning here.
        """
        match argument:
            case torch.fx.Node():
                return held[argument]
            case list() | tuple():
                return tuple(self.resolved(one, held) for one in cast("list[object]", argument))
            case bool() | int() | float() | str() | None:
                return argument
            case torch.dtype() | torch.memory_format() | torch.layout() | torch.device():
                return str(argument)
            case complex():
                return Complex(Dense(np.array(argument.real)), Dense(np.array(argument.imag)))
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                raise UnsupportedNodeError(Reason.DATA_SHAPE, f"the number {argument} is not known")
            case _:
                raise UnsupportedNodeError(Reason.FORM, f"an argument of type {type(argument).__name__} has no form")

    def attribute(self, module: torch.fx.GraphModule, node: torch.fx.Node) -> Held:
        """Return what an attribute of the module holds; a graph within is kept for the node that runs it."""
        found: object = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if isinstance(found, torch.fx.GraphModule):
            return None
        if isinstance(found, torch.Tensor):
            return self.guarded(self.place(node, "get_attr"), lambda: stored_of(found, copied=True), LOST)
        return LOST

    def converted(
        self, module: torch.fx.GraphModule, node: torch.fx.Node, held: Mapping[torch.fx.Node, Held], depth: int
    ) -> Held:
        """Return the results of a node; what stops it is gathered, and its results are lost."""
        if any(isinstance(held.get(one), Lost) for one in node.all_input_nodes):
            return LOST
        place = self.place(node, operator_name(node.target))
        return self.guarded(place, lambda: self.results_of(module, node, held, depth), LOST)

    def place(self, node: torch.fx.Node, operator: str) -> Place:
        """Return how findings name a node: with the user's own line where PyTorch kept it."""
        line = location_of(node, None)
        shown = f" ({line.file}:{line.line})" if line.file else ""
        return Place(node.name, operator, location_of(node, self.file) if self.file else line, shown)

    def no_tensor(self, name: str, held: object) -> ImportProblem:
        """Return the finding of an output of the program that is not a tensor."""
        if isinstance(held, Complex):
            workaround = "end the program with torch.view_as_real"
            return ImportProblem(name, "output", Reason.DTYPE, "a graph cannot return complex numbers", workaround)
        return ImportProblem(name, "output", Reason.FORM, f"it is not a tensor but {type(held).__name__}")

    def results_of(
        self, module: torch.fx.GraphModule, node: torch.fx.Node, held: Mapping[torch.fx.Node, Held], depth: int
    ) -> Held:
        """Return the results of a node.

        Raises:
            UnsupportedNodeError: It is not supported here.
        """
        if runs_graphs(node.target):
            return self.run_operator(module, node, held, depth)
        arguments = tuple(self.resolved(one, held) for one in node.args)
        named = {name: self.resolved(one, held) for name, one in node.kwargs.items()}
        schema = schema_of(node.target)
        if schema is not None:
            return self.by_converter(node, node.target, schema, arguments, named)
        function = number_function(node.target)
        if function is None or any(isinstance(one, Output | Constant) for one in arguments):
            raise UnsupportedNodeError(Reason.OPERATOR, "it is a Python function that is not supported")
        return function(*arguments)

    def by_converter(
        self,
        node: torch.fx.Node,
        target: object,
        schema: Schema,
        positional: Sequence[Held],
        named: Mapping[str, Held],
    ) -> Held:
        """Return what a converter makes of a node, or what PyTorch computes of constants.

        Raises:
            UnsupportedNodeError: It has neither.
        """
        if schema.name in CHECKS:
            return None
        types, shapes = describe_results(node)
        emitter = self.emitter(location_of(node, self.file))
        arguments = bind_arguments(schema, positional, named)
        call = Call(schema.name, schema.form, arguments, types, shapes, emitter)
        known = schema.space in ("aten", "prims")
        if known and is_evaluated(schema):
            function = cast("Callable[..., object]", target)
            return evaluate_by_torch(function, schema, positional, named, types, shapes)
        if known and call.is_complex:
            convert = complex_converter_of(schema.name)
            if convert is None:
                raise UnsupportedNodeError(
                    Reason.DTYPE,
                    "it has no form for complex numbers",
                    workaround="compute with real and imaginary parts as two tensors",
                )
            return convert(call)
        convert = converter_of(schema.name, schema.form) if known else None
        if convert is None:
            raise unknown_operator(schema)
        return convert(call)

    # Graphs within nodes.

    def run_operator(
        self, module: torch.fx.GraphModule, node: torch.fx.Node, held: Mapping[torch.fx.Node, Held], depth: int
    ) -> Held:
        """Return the results of a node that runs graphs.

        Raises:
            UnsupportedNodeError: It runs them as often as the data say.
        """
        name = operator_name(node.target)
        if name in INLINED:
            place = INLINED[name]
            inner = self.graph_within(module, node.args[place])
            inputs = [self.resolved(one, held) for one in node.args[place + 1 :]]
            return self.run(inner, inputs, depth + 1)
        if name == "cond":
            return self.choice(module, node, held, depth)
        if name in LOOPS:
            return self.loop(name, module, node, held, depth)
        if name == "with_effects":
            return self.ordered(node, held)
        reason = Reason.CONTROL if name in CONTROL else Reason.OPERATOR
        workaround = UNROLLED if name in CONTROL else ""
        raise UnsupportedNodeError(reason, CONTROL.get(name, "it is not supported"), workaround=workaround)

    def graph_within(self, module: torch.fx.GraphModule, argument: object) -> torch.fx.GraphModule:
        """Return the graph that an argument names.

        Raises:
            GraphError: It names none.
        """
        found = getattr(module, str(argument.target), None) if isinstance(argument, torch.fx.Node) else None
        if not isinstance(found, torch.fx.GraphModule):
            raise GraphError("the graph that it runs is missing")
        return found

    def loop(
        self,
        name: str,
        module: torch.fx.GraphModule,
        node: torch.fx.Node,
        held: Mapping[torch.fx.Node, Held],
        depth: int,
    ) -> Held:
        """Return the results of a loop."""
        graphs = 2 if name == "while_loop" else 1
        bodies = [partial(self.run_iteration, self.graph_within(module, one), depth) for one in node.args[:graphs]]
        groups = [as_list(self.resolved(one, held)) for one in node.args[graphs:]]
        if name == "while_loop":
            return while_known(bodies[0], bodies[1], groups[0], groups[1])
        carried = groups[0] if name == "scan" else ()
        emitter = self.emitter(location_of(node, self.file))

        def attempt(inputs: Sequence[Held]) -> tuple[tuple[Held, ...], str]:
            return self.attempt(lambda: bodies[0](inputs))

        return scan_rows(emitter, bodies[0], attempt, carried, groups[-2], groups[-1])

    def run_iteration(self, body: torch.fx.GraphModule, depth: int, inputs: Sequence[Held]) -> tuple[Held, ...]:
        """Return the outputs of a body that is run once more; all of its nodes count, whatever they come to."""
        self.budget.take_nodes(len(body.graph.nodes))
        return self.run(body, inputs, depth + 1)

    def ordered(self, node: torch.fx.Node, held: Mapping[torch.fx.Node, Held]) -> Held:
        """Return the token of an operator that PyTorch keeps in order; those of ATen check, and give nothing else.

        Raises:
            UnsupportedNodeError: It is not an operator with one form.
        """
        token, target, *rest = node.args
        schema = schema_of(target)
        if schema is None:
            raise UnsupportedNodeError(Reason.OPERATOR, f"it runs {operator_name(target)}, which is not supported")
        named = {name: self.resolved(one, held) for name, one in node.kwargs.items()}
        self.by_converter(node, target, schema, [self.resolved(one, held) for one in rest], named)
        return (self.resolved(token, held),)

    def choice(
        self, module: torch.fx.GraphModule, node: torch.fx.Node, held: Mapping[torch.fx.Node, Held], depth: int
    ) -> Held:
        """Return the results of one branch where the condition is known, else a choice between both.

        Raises:
            GraphError: The condition is not a tensor, or the branches give something other than tensors.
        """
        condition = self.resolved(node.args[0], held)
        branches = [self.graph_within(module, one) for one in node.args[1:3]]
        inputs = [self.resolved(one, held) for one in cast("Sequence[object]", node.args[3])]
        known = read_condition(condition)
        if known is not None:
            return self.run(branches[0 if known else 1], inputs, depth + 1)
        both = [tensors(expect_whole(self.run(branch, inputs, depth + 1))) for branch in branches]
        if not isinstance(condition, Output):
            raise GraphError("the condition is not a tensor")
        return choose(self.emitter(location_of(node, self.file)), condition, *both)


def as_list(held: Held) -> tuple[Held, ...]:
    """Return a list of arguments.

    Raises:
        GraphError: It is none.
    """
    if not isinstance(held, tuple):
        raise GraphError("an argument of the loop is not a list", seen=type(held).__name__)
    return held


def unknown_operator(schema: Schema) -> UnsupportedNodeError:
    """Return the error of an operator without a converter."""
    if schema.space not in ("aten", "prims"):
        return UnsupportedNodeError(
            Reason.OPERATOR,
            f"{schema.space}::{schema.name} is a custom operator",
            workaround="write it with PyTorch's own operators, or register a decomposition and run it before",
        )
    return UnsupportedNodeError(
        Reason.FORM, "the op table has no form of it", workaround="end the program before it, and do the rest elsewhere"
    )


def describe_results(
    node: torch.fx.Node,
) -> tuple[tuple[torch.dtype | None, ...], tuple[tuple[int, ...] | None, ...]]:
    """Return the element types and shapes of a node's results, as PyTorch traced them.

    Raises:
        UnsupportedNodeError: One is of an element type or a layout without a meaning here.
    """
    traced = cast("object", node.meta.get("val"))
    several = isinstance(traced, list | tuple)
    results = tuple(cast("list[object]", traced)) if several else (traced,)
    types: list[torch.dtype | None] = []
    shapes: list[tuple[int, ...] | None] = []
    for one in results:
        if not isinstance(one, torch.Tensor):
            types.append(None)
            shapes.append(None)
            continue
        if one.layout is not torch.strided:
            raise UnsupportedNodeError(Reason.LAYOUT, f"its result is a tensor of layout {one.layout}")
        part_type(one.dtype)
        types.append(one.dtype)
        shapes.append(tuple(map(int, one.shape)) if all(type(length) is int for length in one.shape) else None)
    return tuple(types), tuple(shapes)


def bind_arguments(schema: Schema, positional: Sequence[Held], named: Mapping[str, Held]) -> dict[str, Held]:
    """Return arguments by the names of a schema, defaults filled in.

    Raises:
        GraphError: There are too many, or one has no such name.
    """
    unknown = set(named) - set(schema.arguments)
    if len(positional) > len(schema.arguments) or unknown:
        seen = ", ".join(sorted(unknown)) or len(positional)
        raise GraphError("it has arguments that its operator does not take", seen=seen)
    bound: dict[str, Held] = dict(schema.defaults)
    bound.update(zip(schema.arguments, positional, strict=False))
    bound.update(named)
    return bound


def location_of(node: torch.fx.Node, file: str | None) -> Location:
    """Return the place of a node: the file of the program if there is one, else the user's own line."""
    if file is not None:
        return Location(file, node=node.name)
    frames = [one for one in FRAME.findall(str(node.meta.get("stack_trace") or "")) if is_users(one[0])]
    return Location(frames[-1][0], int(frames[-1][1]), node.name) if frames else Location(node=node.name)
