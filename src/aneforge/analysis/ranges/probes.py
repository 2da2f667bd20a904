"""How large single values of a graph can get: a graph that has them as outputs, and the ranges of its program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.analysis.ranges.program_ranges import declared_ranges, flow
from aneforge.compiler.compile import build_program
from aneforge.errors import AneforgeError
from aneforge.graph.graph import PLACEHOLDERS, Graph
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.analysis.ranges.interval import Range
    from aneforge.graph.node import Node, Output
    from aneforge.targets import Target

__all__ = ["bound_by_promises", "bound_values", "probe_values"]


def probe_values(values: Iterable[Output]) -> Graph | None:
    """Return a graph whose outputs are the values that someone wants to see; None where all of them are inputs."""
    wanted = {(value.node, value.index): value for value in values if value.node.op.name not in PLACEHOLDERS}
    named = {f"probe{number}": Tensor(value.node, value.index) for number, value in enumerate(wanted.values())}
    return Graph(named) if named else None


def bound_values(
    values: Iterable[Output], target: Target, given: Mapping[str, Range] | None = None
) -> dict[tuple[Node, int], float]:
    """Return how large values can get on a target for any inputs within ranges, or else within what they promise.

    Inputs themselves are left out. What can be infinite is.

    Raises:
        AneforgeError: A value does not compile there, or is of a rank or type that no output has.
    """
    probes = probe_values(values)
    if probes is None:
        return {}
    program = build_program(probes, target)
    ranges = flow(program, declared_ranges(probes) if given is None else given).ranges
    by_name = {port.name: ranges[port.value.name] for port in program.outputs}
    return {
        (output.node, output.index): by_name[name].magnitude if by_name[name].finite else math.inf
        for name, output in probes.outputs.items()
    }


def bound_by_promises(values: Sequence[Output], target: Target) -> dict[tuple[Node, int], float]:
    """Return how large values can get for any inputs within their promises; infinite for what nothing bounds.

    >>> import aneforge as af
    >>> x, target = af.input((1, 4), max_abs=300.0), af.targets.resolve(af.targets.Family.A16)
    >>> list(bound_by_promises([x, x.sigmoid(), x * x, af.input((1, 4))], target).values())
    [300.0, 1.0, inf, inf]
    """
    promises = [value.node.attributes.get("max_abs") for value in values]
    found = {
        (value.node, value.index): float(promise) if isinstance(promise, int | float) else math.inf
        for value, promise in zip(values, promises, strict=True)
    }
    try:
        return found | bound_values(values, target)
    except AneforgeError:
        return found  # it does not compile there, or a value is of a rank or type that no output has
