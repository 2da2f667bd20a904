"""Gradients of drawn calls in the mathematics: those that rules give, that torch gives, and that differences show.

Every floating-point element type of a drawn call becomes fp64 unless another is asked for, so that constants of a rule
are not rounded, and a rule is compared with the mathematics and not with a precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

import aneforge as af
from aneforge.graph.bodies import body_of, graph_of
from aneforge.graph.node import Output, build
from aneforge.graph.precision import list_element_types, retype_graph
from aneforge.graph.tensor import Tensor
from aneforge.ops.body import Body
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.signature import OperandKind
from aneforge.ops.types import is_float, numpy_dtype
from torch_meanings import evaluate_in_torch, run_in_torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.node import Argument, Node, Value
    from aneforge.ops.types import Array, TensorType
    from aneforge.testing.calls import Drawn

WIDE = "fp64"
STEP = 1e-6


@dataclass(frozen=True)
class Call:
    """A call of one operation as a graph: its floating-point operands are inputs where they may be."""

    node: Node
    feeds: Mapping[str, Array]
    """Values of all inputs, by name."""
    params: Mapping[str, Tensor]
    """Inputs of floating-point numbers."""

    @property
    def results(self) -> list[Tensor]:
        """Results that have gradients."""
        return [Tensor(self.node, index) for index, kind in enumerate(self.node.types) if is_float(kind.dtype)]


class Maker:
    """Makes the inputs and constants of a call."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.feeds: dict[str, Array] = {}
        self.params: dict[str, Tensor] = {}

    def value(self, values: Array, kind: TensorType, *, constant: bool) -> Value:
        """Return an operand's values as a constant, or as an input."""
        dtype = self.dtype if is_float(kind.dtype) else kind.dtype
        if constant:
            return Dense(np.asarray(values, numpy_dtype(dtype), order="C"))
        name = f"x{len(self.feeds)}"
        made = Tensor(build("input", {}, {"shape": kind.shape, "dtype": dtype, "name": name}))
        self.feeds[name] = values
        if is_float(dtype):
            self.params[name] = made
        return made


def call_of(
    drawn: Drawn, dtype: str = WIDE, baked: frozenset[str] = frozenset(), *, bake_integers: bool = True
) -> Call:
    """Return a drawn call as a graph; operands that are named in `baked` are constants."""
    maker = Maker(dtype)
    operands: dict[str, Argument | None] = {}
    for operand in drawn.op.operands:
        values, kind = drawn.values.get(operand.name), drawn.types.get(operand.name)
        if values is None or kind is None:
            continue

        def made(one: Array, type_: TensorType, kind: OperandKind = operand.kind, name: str = operand.name) -> Value:
            whole = kind is OperandKind.EITHER and not is_float(type_.dtype) and bake_integers
            return maker.value(one, type_, constant=kind is OperandKind.CONSTANT or whole or name in baked)

        if isinstance(values, tuple):
            kinds = cast("tuple[TensorType, ...]", kind)
            operands[operand.name] = tuple(made(one, type_) for one, type_ in zip(values, kinds, strict=True))
        else:
            operands[operand.name] = made(values, cast("TensorType", kind))
    attributes = {
        name: widened_body(value, dtype)
        if isinstance(value, Body)
        else dtype
        if name in ("dtype", "output_dtype") and isinstance(value, str) and is_float(value)
        else value
        for name, value in drawn.sample.attributes.items()
    }
    return Call(build(drawn.op, operands, attributes), maker.feeds, maker.params)


def widened_body(body: Body, dtype: str) -> Body:
    """Return the body of a loop in another floating-point element type."""
    becomes = {one: dtype for one in list_element_types(graph_of(body)) if is_float(one) and one != dtype}
    with np.errstate(over="ignore"):  # the largest fp64 is compared with numbers of fp16
        return body_of(retype_graph(graph_of(body), becomes).graph)


def has_gradient(call: Call) -> bool:
    """Return whether a call has a result and an operand of floating-point numbers."""
    return bool(call.results) and bool(call.params)


def backs_of(results: Sequence[Output], generator: np.random.Generator) -> dict[str, Array]:
    """Return numbers for the gradients at results, by the names of inputs that take them."""
    return {f"g{number}": generator.uniform(-1, 1, result.shape) for number, result in enumerate(results)}


def backward_graph(results: Sequence[Tensor], params: Mapping[str, Tensor]) -> af.Graph:
    """Return the graph of the gradients at parameters, fed with those at results."""
    given = [
        Tensor(build("input", {}, {"shape": result.shape, "dtype": result.dtype, "name": f"g{number}"}))
        for number, result in enumerate(results)
    ]
    found = af.backward_from(given, results, list(params.values()))
    return af.Graph({name: found[param] for name, param in params.items()})


def gradients_of(call: Call, backs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the gradients at parameters, in the mathematics of the graph that `backward_from` builds."""
    graph = backward_graph(call.results, call.params)
    every = {**call.feeds, **backs}
    return af.reference(graph, {name: every[name] for name in graph.inputs})


def slope(
    results: Sequence[Tensor], feeds: Mapping[str, Array], along: Mapping[str, Array], backs: Mapping[str, Array]
) -> float:
    """Return how fast results, weighted by what comes back, change along a direction of the inputs."""
    graph = af.Graph(dict(zip(backs, results, strict=True)))
    totals: list[float] = []
    for sign in (STEP, -STEP):
        moved = {name: values + sign * along[name] if name in along else values for name, values in feeds.items()}
        outputs = af.reference(graph, {name: moved[name] for name in graph.inputs})
        totals.append(sum(float(np.sum(outputs[name] * back)) for name, back in backs.items()))
    return (totals[0] - totals[1]) / (2 * STEP)


def drawn_feeds(graph: af.Graph, generator: np.random.Generator, given: Mapping[str, Array]) -> dict[str, Array]:
    """Return values for the inputs of a graph: those that are given, and drawn ones."""
    kinds = {name: node.types[0] for name, node in graph.inputs.items()}
    return {name: given.get(name, generator.uniform(-1, 1, kind.shape)) for name, kind in kinds.items()}


KINKED = ("abs", "clip", "leaky_relu", "relu", "relu6")


def differentiate(total: torch.Tensor, leaves: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    """Return torch's gradients; None for a tensor that has no part in the total."""
    return cast("tuple[torch.Tensor | None, ...]", torch.autograd.grad(total, leaves, allow_unused=True))


def is_on_a_kink(graph: af.Graph, feeds: Mapping[str, Array]) -> bool:
    """Return whether an activation meets a number at which it has two slopes, of which torch may take the other."""
    read = {
        f"y{number}": node.operands["x"]
        for number, node in enumerate(graph.nodes)
        if node.op.name in KINKED and isinstance(node.operands["x"], Output)
    }
    if not read:
        return False
    asked = af.Graph(read)
    found = af.reference(asked, {name: feeds[name] for name in asked.inputs})
    return any(bool(np.any(values == np.rint(values))) for values in found.values())


def compare_with_torch(graph: af.Graph, generator: np.random.Generator, feeds: Mapping[str, Array]) -> float:
    """Compare the gradients of a graph at all its floating-point inputs with those of torch, in float64.

    Returns:
        The largest difference, as a share of the largest number of a gradient.
    """
    kinds = {name: node.types[0] for name, node in graph.inputs.items()}
    outputs = {name: Tensor(one.node, one.index) for name, one in graph.outputs.items() if is_float(one.dtype)}
    every = {name: Tensor(node) for name, node in graph.inputs.items() if is_float(kinds[name].dtype)}
    leaves = {name: torch.tensor(values, requires_grad=name in every) for name, values in feeds.items()}
    results = evaluate_in_torch(graph, leaves)
    backs = backs_of(list(outputs.values()), generator)
    parts = [(results[name] * torch.tensor(back)).sum() for name, back in zip(outputs, backs.values(), strict=True)]
    total = torch.stack(parts).sum()
    found = differentiate(total, [leaves[name] for name in every])
    expected = {name: one.numpy() for name, one in zip(every, found, strict=True) if one is not None}
    made = backward_graph(list(outputs.values()), {name: every[name] for name in expected})
    values = {**feeds, **backs}
    ours = af.reference(made, {name: values[name] for name in made.inputs})
    worst = 0.0
    for name, gradient in expected.items():
        scale = float(np.max(np.abs(gradient), initial=0.0)) or 1.0
        np.testing.assert_allclose(ours[name] / scale, gradient / scale, rtol=1e-6, atol=1e-8, err_msg=name)
        worst = max(worst, float(np.max(np.abs(ours[name] - gradient), initial=0.0)) / scale)
    return worst


def torch_gradients(call: Call, backs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the gradients at parameters that torch gives."""
    leaves = {name: torch.tensor(values) for name, values in call.feeds.items()}
    for name in call.params:
        leaves[name].requires_grad_()

    def tensor_of(value: Value) -> torch.Tensor:
        if isinstance(value, Constant):
            return torch.tensor(value.dense())
        return leaves[str(value.node.attributes["name"])]

    operands = [
        tuple(map(tensor_of, one)) if isinstance(one, tuple) else None if one is None else tensor_of(one)
        for one in (call.node.operands.get(operand.name) for operand in call.node.op.operands)
    ]
    results = [one for one in run_in_torch(call.node, operands) if one.is_floating_point()]
    total = torch.stack([(one * torch.tensor(back)).sum() for one, back in zip(results, backs.values(), strict=True)])
    found = differentiate(total.sum(), [leaves[name] for name in call.params])
    return {
        name: np.zeros(call.feeds[name].shape) if one is None else one.numpy()
        for name, one in zip(call.params, found, strict=True)
    }


def widened(graph: af.Graph, *, unbaked: bool = False) -> tuple[af.Graph, dict[str, Array]]:
    """Return a graph with the floating-point numbers of the mathematics, and the values of weights that became inputs.

    `unbaked` makes inputs of constants, wherever an operation takes either.
    """
    now: dict[tuple[Node, int], Tensor] = {}
    weights: dict[str, Array] = {}

    def value(one: Value, kind: OperandKind) -> Value:
        if isinstance(one, Output):
            return now[one.node, one.index]
        if not is_float(one.type.dtype):
            return one
        numbers = one.dense().astype(np.float64)
        if not unbaked or kind is not OperandKind.EITHER:
            return Dense(numbers)
        name = f"weight{len(weights)}"
        weights[name] = numbers
        return Tensor(build("input", {}, {"shape": numbers.shape, "dtype": WIDE, "name": name}))

    for node in graph.nodes:
        operands: dict[str, Argument | None] = {}
        for name, argument in node.operands.items():
            kind = node.op.named_operands[name].kind
            several = isinstance(argument, tuple)
            operands[name] = tuple(value(one, kind) for one in argument) if several else value(argument, kind)
        attributes = {
            name: WIDE if name in ("dtype", "output_dtype") and isinstance(one, str) and is_float(one) else one
            for name, one in node.attributes.items()
        }
        if node.op.name == "state":  # what it holds at the start is one more input
            attributes = {"shape": node.types[0].shape, "dtype": WIDE, "name": node.text("name")}
        made = build("input" if node.op.name == "state" else node.op, operands, attributes)
        now.update({(node, index): Tensor(made, index) for index in range(len(made.types))})
    outputs = {name: now[output.node, output.index] for name, output in graph.outputs.items()}
    return af.Graph(outputs), weights
