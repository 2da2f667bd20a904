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
from aneforge.graph.node import Output, build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.signature import OperandKind
from aneforge.ops.types import is_float, numpy_dtype
from torch_meanings import run_in_torch

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

    def __init__(self, dtype: str, baked: frozenset[str], *, bake_integers: bool) -> None:
        self.dtype = dtype
        self.baked = baked
        self.bake_integers = bake_integers
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
    maker = Maker(dtype, baked, bake_integers=bake_integers)
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
        name: dtype if name in ("dtype", "output_dtype") and isinstance(value, str) and is_float(value) else value
        for name, value in drawn.sample.attributes.items()
    }
    return Call(build(drawn.op, operands, attributes), maker.feeds, maker.params)


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


def slope(call: Call, along: Mapping[str, Array], backs: Mapping[str, Array]) -> float:
    """Return how fast the results, weighted by what comes back, change along a direction of the inputs."""
    graph = af.Graph(dict(zip(backs, call.results, strict=True)))
    totals: list[float] = []
    for sign in (STEP, -STEP):
        moved = {name: values + sign * along[name] if name in along else values for name, values in call.feeds.items()}
        outputs = af.reference(graph, {name: moved[name] for name in graph.inputs})
        totals.append(sum(float(np.sum(outputs[name] * back)) for name, back in backs.items()))
    return (totals[0] - totals[1]) / (2 * STEP)


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
    found = torch.autograd.grad(total.sum(), [leaves[name] for name in call.params], allow_unused=True)
    return {
        name: np.zeros(call.feeds[name].shape) if one is None else one.numpy()
        for name, one in zip(call.params, found, strict=True)
    }
