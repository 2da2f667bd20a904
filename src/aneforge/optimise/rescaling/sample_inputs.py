"""Inputs that rescaling is judged by: samples as the host passes them, drawn ones, fresh ones, and other sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.planar import host_fp16
from aneforge.errors import GraphError
from aneforge.graph.graph import read_promises
from aneforge.graph.node import Output
from aneforge.graph.reference import fit_value
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.optimise.rescaling.power_exponents import MOST_OPERAND
from aneforge.optimise.rescaling.rescaling_policy import policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]

__all__ = [
    "SEED", "count_sets", "draw_extremes", "draw_integers", "draw_within", "fit_inputs", "redraw_samples",
    "redraw_sets", "resize_sample",
]  # fmt: skip

LARGEST_DRAWN = 4.0
"""Of a standard normal distribution one element of 16,000 is larger."""
INDICES = frozenset({"indices", "index"})
"""Names of operands that choose elements."""
SEED = 0x52455343414C45
"""A seed that weights are unlikely to be drawn with: inputs equal to weights would show results of another size."""


def count_sets(graph: Graph, kinds: int, most: int) -> int:
    """Return how many sets of each kind of inputs are tried: one at least, and no more than the work allows."""
    elements = sum(kind.size for node in graph.nodes for kind in node.types)
    chosen = policy().fresh
    work = max((graph.work().macs + chosen.element * elements) * kinds, 1)
    return max(1, min(most, chosen.work // work))


def redraw_sets(graph: Graph, given: Sequence[Sample], populations: int) -> list[dict[str, Array]]:
    """Return sets of fresh inputs: like all that were given, or in turns like the first of them, the second, and on."""
    count = count_sets(graph, len(given), policy().fresh.most)
    if populations == 1:
        return redraw_samples(given, graph, count, SEED)
    turns = max(1, count // populations)
    like = [redraw_samples([one], graph, turns, SEED + place) for place, one in enumerate(given)]
    return [one for turn in zip(*like, strict=True) for one in turn]


def resize_sample(graph: Graph, sample: Sample, parts: Sequence[float], most: int) -> list[dict[str, Array]]:
    """Return a sample, and fresh ones like it, at other sizes in turns, within what inputs promise.

    Integers and booleans stay, for they may be indices.
    """
    promises = read_promises(graph)
    real = {name for name, node in graph.inputs.items() if is_float(node.types[0].dtype)}
    more = count_sets(graph, len(parts), most) - 1

    def times(name: str, value: Array, part: float) -> Array:
        if name not in real:
            return value
        largest = promises.get(name, MOST_OPERAND)
        return np.clip(value.astype(np.float64) * part, -largest, largest)

    return [
        fit_inputs(graph, {name: times(name, value, part) for name, value in one.items()})
        for one in (sample, *redraw_samples([sample], graph, more, SEED))
        for part in parts
    ]


def fit_inputs(graph: Graph, sample: Sample) -> dict[str, Array]:
    """Return inputs as the host passes them, so that rounding them is not an error of the engine.

    Raises:
        GraphError: One is missing, unknown, of another shape, or not finite.
        GraphTypeError: One is not an array of numbers.
    """
    for name in sample:
        if name not in graph.inputs:
            raise GraphError(f"there is no input {name!r}", limit=", ".join(graph.inputs))
    found: dict[str, Array] = {}
    for name, node in graph.inputs.items():
        if name not in sample:
            raise GraphError(f"input {name!r} has no value", limit=", ".join(graph.inputs))
        value = fit_value(f"input {name!r}", sample[name], node.types[0])
        found[name] = host_fp16(value) if is_float(node.types[0].dtype) else value
        if is_float(node.types[0].dtype) and not np.all(np.isfinite(found[name])):
            raise GraphError(f"a sample of input {name!r} is not finite in fp16", remedy="give finite samples")
    return found


def draw_within(graph: Graph) -> dict[str, Array]:
    """Return drawn inputs of moderate size, none beyond what its input promises."""
    promises, random = read_promises(graph), np.random.default_rng(SEED)

    def draw(name: str, node: Node) -> Array:
        kind = node.types[0]
        if not is_float(kind.dtype):
            return draw_integers(graph, node, random)
        most = promises.get(name, np.inf)
        return np.clip(random.standard_normal(kind.shape), -most, most)

    return fit_inputs(graph, {name: draw(name, node) for name, node in graph.inputs.items()})


def draw_integers(graph: Graph, node: Node, random: np.random.Generator) -> Array:
    """Return integers for an input: 0 and 1, which any index allows; or pixels, where bytes are not an index."""
    kind = node.types[0]
    read_as = [
        name for reader in graph.consumers[node] for name, value in reader.operands.items() if is_result_of(value, node)
    ]
    pixels = kind.dtype == "uint8" and not any(name in INDICES for name in read_as)
    return random.integers(0, 256 if pixels else 2, kind.shape).astype(numpy_dtype(kind.dtype))


def is_result_of(value: Argument, node: Node) -> bool:
    """Return whether an operand is what a node gives."""
    return isinstance(value, Output) and value.node is node


def draw_extremes(graph: Graph) -> dict[str, Array]:
    """Return inputs as large as is promised, or of four deviations. They show sizes; no errors are taken of them."""
    promises, random = read_promises(graph), np.random.default_rng(SEED)

    def draw(name: str, value: Array) -> Array:
        if not is_float(graph.inputs[name].types[0].dtype):
            return value
        evenly = random.uniform(-1, 1, value.shape)
        return evenly / np.abs(evenly).max(initial=2.0**-24) * promises.get(name, LARGEST_DRAWN)

    return fit_inputs(graph, {name: draw(name, value) for name, value in draw_within(graph).items()})


def redraw_samples(samples: Sequence[Sample], graph: Graph, count: int, seed: int) -> list[dict[str, Array]]:
    """Return new inputs of the same distribution: elements drawn with replacement from all that the samples have.

    They are drawn in turns from all elements, from those of the same place of the last axis, and from those of the same
    place of the second axis, for channels may be there. Where some places of such an axis are far larger than others,
    elements keep to it. An input of integers or booleans keeps one of the values that it had, for its elements
    may be indices.
    """
    random = np.random.default_rng(seed)

    def draw(name: str, node: Node, turn: int) -> Array:
        held = np.stack([np.asarray(sample[name]) for sample in samples])
        if not is_float(node.types[0].dtype):
            return held[int(random.integers(len(held)))]
        axes = find_channel_axes(held)
        turns = [axis for axis in axes if is_uneven(held, axis)] or [None, *axes]
        return redraw_elements(held, turns[turn % len(turns)], random)

    return [{name: draw(name, node, turn) for name, node in graph.inputs.items()} for turn in range(count)]


def find_channel_axes(held: Array) -> list[int]:
    """Return the axes of an input whose places may be channels, where each has enough elements to draw from.

    >>> [find_channel_axes(np.zeros(shape)) for shape in ((1, 8, 16), (1, 1, 16), (2, 1, 3, 4, 4))]
    [[2], [], [4, 2]]
    """
    found = list(dict.fromkeys([held.ndim - 1, 2])) if held.ndim > 3 else [held.ndim - 1]
    enough = policy().channels.enough
    return [axis for axis in found if held.shape[axis] > 1 and held.size >= enough * held.shape[axis]]


def is_uneven(held: Array, axis: int) -> bool:
    """Return whether some place of an axis is far larger than most.

    >>> held = np.ones((1, 8, 4))
    >>> held[..., 3] = 30.0
    >>> is_uneven(held, 2), is_uneven(held, 1)
    (True, False)
    """
    others = tuple(other for other in range(held.ndim) if other != axis)
    squares = np.mean(np.square(held, dtype=np.float64), axis=others)
    return bool(squares.max() > policy().channels.uneven ** 2 * np.median(squares))


def redraw_elements(held: Array, axis: int | None, random: np.random.Generator) -> Array:
    """Return as many elements as one sample of all has, each drawn from those of the same place of an axis.

    >>> held = np.arange(6.0).reshape(1, 3, 2)
    >>> (redraw_elements(held, 2, np.random.default_rng(1)) % 2).tolist()
    [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    """
    shape = held.shape[1:]
    if axis is None:
        return random.choice(held.reshape(-1), shape)
    places = np.moveaxis(held, axis, 0).reshape(held.shape[axis], -1)
    others = shape[: axis - 1] + shape[axis:]
    chosen = random.integers(places.shape[1], size=(places.shape[0], math.prod(others)))
    return np.moveaxis(np.take_along_axis(places, chosen, axis=1).reshape(-1, *others), 0, axis - 1)
