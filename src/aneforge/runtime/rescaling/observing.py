"""How large the operands of products get: seen on the engine with sample inputs, or told by someone who proved it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.compiler.pipeline import build_program
from aneforge.engine.execution.run import prepare
from aneforge.errors import AneforgeError
from aneforge.graph.graph import PLACEHOLDERS, Graph
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.ops.types import is_float
from aneforge.runtime.rescaling.measuring import quietly
from aneforge.runtime.rescaling.policy import policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.node import Node, Output
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Key = tuple[Node, int]

__all__ = ["Observed", "fresh", "observe", "probes_of", "sums_of"]


@dataclass(slots=True)
class Observed:
    """What is known of the operands of products."""

    most: dict[Key, float] = field(default_factory=dict["Key", float])
    """The largest magnitude of a tensor."""
    sums: dict[tuple[Key, int], float] = field(default_factory=dict[tuple["Key", int], float])
    """The largest sum of magnitudes along an axis of a tensor."""
    places: dict[tuple[Key, int], Array] = field(default_factory=dict[tuple["Key", int], "Array"])
    """The largest magnitude of every place of an axis."""
    seen: list[dict[Key, Array]] = field(default_factory=list[dict["Key", "Array"]])
    """The values of the first sample, as the engine has them; and of others, where those are to be tried too."""
    proven: bool = False
    """Magnitudes hold for all inputs."""

    def declared(self, bounds: Mapping[Key, float]) -> Observed:
        """Return the same with magnitudes that were proven in the place of those that were seen."""
        return Observed(dict(bounds), seen=self.seen, proven=True)

    @property
    def arrays(self) -> dict[Key, Array]:
        """The values of the first sample."""
        return self.seen[0]

    def magnitude(self, value: Output) -> float:
        """Return the largest magnitude of a tensor."""
        return self.most[value.node, value.index] * grown()

    def largest(self, value: Output, axis: int) -> Array:
        """Return the largest magnitude of every place of an axis."""
        return self.places[(value.node, value.index), axis] * grown()

    def total(self, value: Output, axis: int) -> float:
        """Return the largest sum of magnitudes along an axis."""
        key = ((value.node, value.index), axis % value.type.rank)
        if key in self.sums:
            return self.sums[key] * grown()
        node, depth = value.node, value.shape[axis]
        if node.op.name == "softmax" and int(str(node.attributes["axis"])) % value.type.rank == key[1]:
            return policy().softmax_row.sum
        return depth * self.magnitude(value)


def grown() -> float:
    """Return by which factor values of a rescaled program may be larger than those that were seen."""
    return 1.0 + policy().rounding_growth.part


def probes_of(values: Iterable[Output]) -> Graph | None:
    """Return a graph whose outputs are the values that someone wants to see; None where all of them are inputs."""
    wanted = {(value.node, value.index): value for value in values if value.node.op.name not in PLACEHOLDERS}
    named = {f"probe{number}": Tensor(value.node, value.index) for number, value in enumerate(wanted.values())}
    return Graph(named) if named else None


def observe(
    graph: Graph,
    values: Sequence[Output],
    target: Target,
    samples: Sequence[Mapping[str, Array]],
    *,
    kept: int = 1,
) -> Observed:
    """Return what sample inputs show of values: on the target's engine, or in float64 where those cannot be outputs.

    Sizes are those of all samples, the values themselves are `kept` of so many.
    """
    found = Observed()
    probes = probes_of(values)
    keys = [] if probes is None else [(output.node, output.index) for output in probes.outputs.values()]
    names = {node: name for name, node in graph.inputs.items()}
    ready = None
    if probes is not None:
        try:
            ready = prepare(build_program(probes, target))
        except AneforgeError:
            ready = None  # an operand may be of a rank or type that no output has
    for sample in samples:
        seen: dict[Key, Array] = {
            (value.node, value.index): np.asarray(sample[names[value.node]]) for value in values if value.node in names
        }
        if probes is not None:
            fed = {name: sample[name] for name in probes.inputs}
            outputs = evaluate(probes, fed)[0] if ready is None else quietly(ready, fed).outputs
            seen.update(zip(keys, outputs.values(), strict=True))
        numbers = {key: as_engine(array) for key, array in seen.items()}
        add_sizes(found, numbers)
        if len(found.seen) < kept:
            found.seen.append(numbers)
    return found


def as_engine(array: Array) -> Array:
    """Return values as the engine has them, to calculate with."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float64)


def add_sizes(found: Observed, seen: Mapping[Key, Array]) -> None:
    """Add the sizes of one sample's values to what was seen."""
    for key, numbers in seen.items():
        magnitudes = np.abs(numbers)
        found.most[key] = max(found.most.get(key, 0.0), float(magnitudes.max(initial=0.0)))
        for axis in range(max(numbers.ndim - 2, 0), numbers.ndim):
            most = float(magnitudes.sum(axis=axis).max(initial=0.0))
            found.sums[key, axis] = max(found.sums.get((key, axis), 0.0), most)
        for axis in range(numbers.ndim):
            others = tuple(other for other in range(numbers.ndim) if other != axis)
            largest = magnitudes.max(axis=others, initial=0.0)
            found.places[key, axis] = np.maximum(found.places.get((key, axis), 0.0), largest)


def sums_of(weights: Array, rows: int | None, columns: int | tuple[int, ...] | None = None) -> Array:
    """Return the sums of magnitudes of weights: of every output channel, or the largest along some axes.

    >>> sums_of(np.array([[1.0, -2.0], [0.5, 0.5]]), 0).tolist()
    [3.0, 1.0]
    """
    magnitudes = np.abs(weights.astype(np.float64))
    if rows is None:
        return magnitudes.sum(axis=columns).max().reshape(1)
    return magnitudes.sum(axis=tuple(axis for axis in range(weights.ndim) if axis != rows))


def fresh(samples: Sequence[Mapping[str, Array]], graph: Graph, count: int, seed: int) -> list[dict[str, Array]]:
    """Return new inputs of the same distribution: elements drawn with replacement from all that the samples have.

    They are drawn in turns from all elements, from those of the same place of the last axis, and from those of the same
    place of the second axis, for channels may be there. Where some places of such an axis are far larger than others,
    elements keep to it. An input of whole numbers or truth values keeps one of the values that it had, for its elements
    may be indices.
    """
    random = np.random.default_rng(seed)

    def drawn(name: str, node: Node, turn: int) -> Array:
        held = np.stack([np.asarray(sample[name]) for sample in samples])
        if not is_float(node.types[0].dtype):
            return held[int(random.integers(len(held)))]
        axes = kept_axes(held)
        turns = [axis for axis in axes if is_uneven(held, axis)] or [None, *axes]
        return redrawn(held, turns[turn % len(turns)], random)

    return [{name: drawn(name, node, turn) for name, node in graph.inputs.items()} for turn in range(count)]


def kept_axes(held: Array) -> list[int]:
    """Return the axes of an input whose places may be channels, where each has enough elements to draw from.

    >>> kept_axes(np.zeros((1, 8, 16))), kept_axes(np.zeros((1, 1, 16))), kept_axes(np.zeros((2, 1, 3, 4, 4)))
    ([2], [], [4, 2])
    """
    found = list(dict.fromkeys([held.ndim - 1, 2])) if held.ndim > 3 else [held.ndim - 1]
    enough = policy().channels.enough
    return [axis for axis in found if held.shape[axis] > 1 and held.size >= enough * held.shape[axis]]


def is_uneven(held: Array, axis: int) -> bool:
    """Tell whether some place of an axis is far larger than most.

    >>> held = np.ones((1, 8, 4))
    >>> held[..., 3] = 30.0
    >>> is_uneven(held, 2), is_uneven(held, 1)
    (True, False)
    """
    others = tuple(other for other in range(held.ndim) if other != axis)
    squares = np.mean(np.square(held, dtype=np.float64), axis=others)
    return bool(squares.max() > policy().channels.uneven ** 2 * np.median(squares))


def redrawn(held: Array, axis: int | None, random: np.random.Generator) -> Array:
    """Return as many elements as one sample of all has, each drawn from those of the same place of an axis.

    >>> held = np.arange(6.0).reshape(1, 3, 2)
    >>> (redrawn(held, 2, np.random.default_rng(1)) % 2).tolist()
    [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    """
    shape = held.shape[1:]
    if axis is None:
        return random.choice(held.reshape(-1), shape)
    places = np.moveaxis(held, axis, 0).reshape(held.shape[axis], -1)
    others = shape[: axis - 1] + shape[axis:]
    chosen = random.integers(places.shape[1], size=(places.shape[0], math.prod(others)))
    return np.moveaxis(np.take_along_axis(places, chosen, axis=1).reshape(-1, *others), 0, axis - 1)
