"""How large the operands of products get: seen on the engine with sample inputs, or proven by someone else."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.ranges.probes import probe_values
from aneforge.errors import AneforgeError
from aneforge.graph.reference import evaluate
from aneforge.optimise.rescaling.engine_errors import Ready
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Output
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Key = tuple[Node, int]

__all__ = ["Observed", "observe"]


@dataclass(slots=True)
class Observed:
    """What is known of the operands of products."""

    most: dict[Key, float] = field(default_factory=dict["Key", float])
    """The largest magnitude of a tensor."""
    sums: dict[tuple[Key, int], float] = field(default_factory=dict[tuple["Key", int], float])
    """The largest sum of magnitudes along an axis of a tensor."""
    places: dict[tuple[Key, int], Array] = field(default_factory=dict[tuple["Key", int], "Array"])
    """The largest magnitude of every place of an axis, where that was asked for."""
    seen: list[dict[Key, Array]] = field(default_factory=list[dict["Key", "Array"]])
    """The values of the first sample, as the engine has them; and of others, where those are to be tried too."""
    proven: bool = False
    """Magnitudes hold for all inputs."""

    def replace_sizes(self, bounds: Mapping[Key, float]) -> Observed:
        """Return the same with magnitudes that were proven in the place of those that were seen."""
        return Observed(dict(bounds), seen=self.seen, proven=True)

    @property
    def arrays(self) -> dict[Key, Array]:
        """The values of the first sample."""
        return self.seen[0]

    def bound(self, value: Output) -> float:
        """Return the largest magnitude of a tensor."""
        return self.most[value.node, value.index] * allow_growth()

    def bound_places(self, value: Output, axis: int) -> Array:
        """Return the largest magnitude of every place of an axis."""
        return self.places[(value.node, value.index), axis] * allow_growth()

    def bound_total(self, value: Output, axis: int) -> float:
        """Return the largest sum of magnitudes along an axis."""
        key = ((value.node, value.index), axis % value.type.rank)
        if key in self.sums:
            return self.sums[key] * allow_growth()
        node, depth = value.node, value.shape[axis]
        if node.op.name == "softmax" and node.integer("axis") % value.type.rank == key[1]:
            return policy().softmax_row.sum
        return depth * self.bound(value)


def allow_growth() -> float:
    """Return by which factor values of a rescaled program may be larger than those that were seen."""
    return 1.0 + policy().rounding_growth.part


def observe(
    graph: Graph,
    values: Sequence[Output],
    target: Target,
    samples: Sequence[Mapping[str, Array]],
    *,
    kept: int = 1,
    places: bool = False,
) -> Observed:
    """Return what sample inputs show of values: on the target's engine, or in float64 where those cannot be outputs.

    Sizes are those of all samples, the values themselves are `kept` of so many; `places` adds those of every place.
    """
    found = Observed()
    probes = probe_values(values)
    keys = [] if probes is None else [(output.node, output.index) for output in probes.outputs.values()]
    names = {node: name for name, node in graph.inputs.items()}
    ready = None
    if probes is not None:
        try:
            ready = Ready.of(probes, target)
        except AneforgeError:
            ready = None  # an operand may be of a rank or type that no output has
    for sample in samples:
        seen: dict[Key, Array] = {
            (value.node, value.index): np.asarray(sample[names[value.node]]) for value in values if value.node in names
        }
        if probes is not None:
            fed = {name: sample[name] for name in probes.inputs}
            outputs = evaluate(probes, fed)[0] if ready is None else ready.run(fed).outputs
            seen.update(zip(keys, outputs.values(), strict=True))
        numbers = {key: round_values(array) for key, array in seen.items()}
        add_sizes(found, numbers, places=places)
        if len(found.seen) < kept:
            found.seen.append(numbers)
    return found


def round_values(array: Array) -> Array:
    """Return values as the engine has them, to calculate with."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16, copy=False).astype(np.float64)


def add_sizes(found: Observed, seen: Mapping[Key, Array], *, places: bool) -> None:
    """Add the sizes of one sample's values to what was seen."""
    for key, numbers in seen.items():
        magnitudes = np.abs(numbers)
        found.most[key] = max(found.most.get(key, 0.0), float(magnitudes.max(initial=0.0)))
        for axis in range(max(numbers.ndim - 2, 0), numbers.ndim):
            most = float(magnitudes.sum(axis=axis).max(initial=0.0))
            found.sums[key, axis] = max(found.sums.get((key, axis), 0.0), most)
        for axis in range(numbers.ndim if places else 0):
            others = tuple(other for other in range(numbers.ndim) if other != axis)
            largest = magnitudes.max(axis=others, initial=0.0)
            found.places[key, axis] = np.maximum(found.places.get((key, axis), 0.0), largest)
