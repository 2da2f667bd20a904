"""What the tests of divergence and ranges share: pairs of targets, inputs that show differences, bits compared."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import HealthCheck

import aneforge as af
from aneforge.analysis.divergence.graphs import Divergence, Strength, divergence
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import prepare
from aneforge.errors import GraphError, NotSupportedError
from aneforge.testing.graphs import DrawnGraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from aneforge.engine.execution.run import Executable

    Array = npt.NDArray[Any]
    Inputs = Mapping[str, Array]

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
"""What Hypothesis would find fault with in graphs that are compiled and run."""
TARGETS = ("h13", "h14", "h15", "h16s", "h17s")
"""One target for every datapath that is known."""
PAIRS = [(one, other) for one in TARGETS for other in TARGETS if one < other]
SCALES = (1.0, 3000.0, 0.01, 30.0, 20000.0)
EXPONENTS = ((-12, 0), (-4, 4), (0, 8), (4, 15), (-16, 15), (-24, -8), (8, 16), (13, 16))
"""Of magnitudes to try: from subnormal numbers, which the grid of the accumulator swallows, to beyond its edge."""


DRAWS = 3
"""Of inputs of each range of magnitudes, dense and sparse."""
NO_TRIAL_SHOWS = (Strength.NONE, Strength.ELEMENTS)


def is_real(array: Array) -> bool:
    return array.dtype.kind == "f"


def trials(inputs: Inputs, *, many: bool) -> Iterator[Inputs]:
    """Yield inputs: as drawn and scaled, and, where many are wanted, of every magnitude that fp16 has.

    Half of those have few elements that are not zero: sums of many terms hide what one of them does.
    """
    for scale in SCALES if many else SCALES[:2]:
        yield {name: array * scale if is_real(array) else array for name, array in inputs.items()}
    generator = np.random.default_rng(1)

    def drawn(array: Array, low: int, high: int, kept: float) -> Array:
        numbers = np.ldexp(generator.uniform(-2, 2, array.shape), generator.integers(low, high, array.shape))
        return np.where(generator.random(array.shape) < kept, numbers, 0.0)

    for low, high in EXPONENTS if many else ():
        for kept in (1.0, 0.2) * DRAWS:
            yield {name: drawn(array, low, high, kept) if is_real(array) else array for name, array in inputs.items()}


def same_bits(first: Array, second: Array) -> bool:
    if first.dtype != second.dtype:
        return False
    return first.tobytes() == second.tobytes()


def outputs_differ(first: Executable, second: Executable, inputs: Inputs) -> bool:
    one, other = first.run(inputs), second.run(inputs)
    pairs = [(one.outputs[name], other.outputs[name]) for name in one.outputs]
    pairs += [(one.states[name], other.states[name]) for name in one.states]
    return any(not same_bits(left, right) for left, right in pairs)


@dataclass
class Tally:
    """Answers, and whether trials showed a difference."""

    counts: Counter[tuple[str, bool]] = field(default_factory=Counter[tuple[str, bool]])
    refused: int = 0

    @property
    def answers(self) -> int:
        """All answers."""
        return sum(self.counts.values())

    @property
    def flagged(self) -> int:
        """Answers other than none that trials can bear out."""
        return sum(count for (verdict, _), count in self.counts.items() if verdict not in NO_TRIAL_SHOWS)

    @property
    def idle(self) -> int:
        """Answers other than none that no trial bears out."""
        return sum(
            count for (verdict, shown), count in self.counts.items() if verdict not in NO_TRIAL_SHOWS and not shown
        )

    @property
    def unknown(self) -> int:
        """Answers on results of which the engine knows only that they are wrong, not what they are."""
        return sum(count for (verdict, _), count in self.counts.items() if verdict == Strength.ELEMENTS)

    def __str__(self) -> str:
        share = f"{self.idle / self.flagged:.0%}" if self.flagged else "none"
        return (
            f"{self.answers} answers, {self.flagged} other than none, of which {self.idle} ({share}) show no "
            f"difference; {self.unknown} on results that the engine does not know; "
            f"{self.refused} graphs do not run on both targets"
        )


def fed(drawn: DrawnGraph) -> DrawnGraph:
    """Return a graph that something is fed to: where an operation reads constants alone, an input beside it."""
    if drawn.graph.inputs:
        return drawn
    beside = af.input((1, 2), name="beside")
    return DrawnGraph(af.Graph({**drawn.graph.outputs, "beside_out": beside.relu()}), {"beside": np.ones((1, 2))})


def judged(drawn: DrawnGraph, pair: tuple[str, str], tally: Tally) -> Divergence | None:
    """Compare the answer on a graph with what the engine gives; fail where bits differ and the answer was none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            first, second = (build_program(drawn.graph, target) for target in pair)
        except GraphError:
            tally.refused += 1
            return None
        if any(port.name not in drawn.inputs for program in (first, second) for port in program.inputs):
            tally.refused += 1
            return None
        found = divergence(drawn.graph, *pair)
        flagged = found.verdict is not Strength.NONE
        ready = prepare(first), prepare(second)
        try:
            shown = any(outputs_differ(*ready, inputs) for inputs in trials(drawn.inputs, many=flagged))
        except NotSupportedError:  # no source gives the mathematics of an operation
            tally.refused += 1
            return found
    assert flagged or not shown, f"bits differ between {pair} and the answer was none\n{drawn.graph}"
    tally.counts[str(found.verdict), shown] += 1
    return found
