"""`doctor --compare`: how the facts of a collection differ from what this package predicts for the same chip.

Bits are compared with those of the software engine, run here for the collection's target; times with the interval of
`af.cost` for its chip. Programs are taken from this package's own tables by their names: nothing that a collection says
decides what is run.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.analysis.cost import cost
from aneforge.commands.collecting import (
    Draw,
    FigureCase,
    ProgramCase,
    full_plan,
    measure_figure,
    measure_reduction,
    program_graph,
)
from aneforge.records import dataclass
from aneforge.runtime.backends import choose_backend
from aneforge.targets import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.commands.collecting import Progress
    from aneforge.commands.collection import Bits, Collection, FigureReading, ReductionReading
    from aneforge.targets import Place

__all__ = ["CollectionComparison", "ComparedReading", "Verdict", "compare_collection"]


class Verdict(StrEnum):
    """What comparing a reading with our prediction gives."""

    EQUAL = "equal bits"
    DIFFERENT = "different bits"
    INSIDE = "inside the interval"
    FASTER = "faster than predicted"
    SLOWER = "slower than predicted"
    FAILED = "failed there"
    NOT_COMPARED = "not compared"

    @property
    def agrees(self) -> bool:
        """The reading is what was predicted, or says nothing."""
        return self in (Verdict.EQUAL, Verdict.INSIDE, Verdict.NOT_COMPARED)


@dataclass(frozen=True, slots=True)
class ComparedReading:
    """A reading, and what comparing it gave."""

    backend: str
    part: str
    """`fingerprints`, `latencies` or `reductions`."""
    name: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True)
class CollectionComparison:
    """Every reading of a collection, compared."""

    place: str
    """The chip that predictions are for, or its target."""
    readings: tuple[ComparedReading, ...]

    @property
    def counts(self) -> Mapping[tuple[str, str], Counter[Verdict]]:
        """How often each verdict was given, by backend and part."""
        found: dict[tuple[str, str], Counter[Verdict]] = {}
        for one in self.readings:
            found.setdefault((one.backend, one.part), Counter())[one.verdict] += 1
        return found

    @property
    def products_differ(self) -> bool:
        """A published program, whose arithmetic is known, has other bits there."""
        return any(one.part == "fingerprints" and one.verdict is Verdict.DIFFERENT for one in self.readings)


def compare_collection(collection: Collection, *, progress: Progress | None = None) -> CollectionComparison:
    """Compare the readings of a collection with our predictions.

    Raises:
        UnknownTargetError: The collection names a target or a chip that this version does not know.
    """
    manifest = collection.manifest
    place = place_of(manifest.chip if manifest.target_from == "machine" and manifest.chip else manifest.target)
    total = len(collection.fingerprints) + len(collection.latencies) + len(collection.reductions)
    found: list[ComparedReading] = []
    for one in all_readings(collection, place):
        if progress is not None:
            progress(f"comparing {one.name}", len(found), total)
        found.append(one)
    return CollectionComparison(place.name, tuple(found))


def all_readings(collection: Collection, place: Place) -> Iterator[ComparedReading]:
    """Yield every reading, compared when it is asked for."""
    yield from compare_figures(collection, place)
    yield from compare_latencies(collection, place)
    yield from compare_reductions(collection, place)


def compare_figures(collection: Collection, place: Place) -> Iterator[ComparedReading]:
    """Yield the published programs; each runs here once, whichever backends it was run by."""
    known = set(full_plan().figures)
    expected: dict[FigureCase, FigureReading] = {}
    for one in collection.fingerprints:
        case = FigureCase(one.workload, one.size, one.batch)
        name = f"{one.workload} {one.size}, batch {one.batch}"
        verdict, detail = Verdict.NOT_COMPARED, "this version has no such program"
        if one.failure:
            verdict, detail = Verdict.FAILED, one.failure
        elif case in known:
            if case not in expected:
                expected[case] = measure_figure(case, place.target, choose_backend(None))
            verdict, detail = compare_bits(one.outputs, expected[case].outputs)
        yield ComparedReading(one.backend, "fingerprints", name, verdict, detail)


def compare_latencies(collection: Collection, place: Place) -> Iterator[ComparedReading]:
    """Yield the times; those of software are not the chip's."""
    on_device = {one.name for one in collection.doors if one.reaches_device}
    known = set(full_plan().programs)
    for one in collection.latencies:
        case = ProgramCase(one.workload, one.shape)
        name = f"{one.workload} {'×'.join(map(str, one.shape))}"
        verdict, detail = Verdict.NOT_COMPARED, "this version has no such program"
        if one.failure:
            verdict, detail = Verdict.FAILED, one.failure
        elif one.backend not in on_device:
            detail = "no device was reached: a time of software, not of the chip"
        elif case in known:
            verdict, detail = compare_time(one.median, case, place)
        yield ComparedReading(one.backend, "latencies", name, verdict, detail)


def compare_time(median: float, case: ProgramCase, place: Place) -> tuple[Verdict, str]:
    """Return whether a time is in the interval of the prediction."""
    predicted = cost(program_graph(case), place)
    detail = f"{median:.1f} µs; predicted {predicted.microseconds:.1f} ({predicted.low:.1f} to {predicted.high:.1f})"
    if median < predicted.low:
        return Verdict.FASTER, detail
    return (Verdict.SLOWER if median > predicted.high else Verdict.INSIDE), detail


def compare_reductions(collection: Collection, place: Place) -> Iterator[ComparedReading]:
    """Yield the reductions; each runs here once for all draws."""
    known = {(one.workload, one.shape): one for one in full_plan().reductions}
    expected: dict[tuple[str, tuple[int, ...]], dict[Draw, ReductionReading]] = {}
    for one in collection.reductions:
        key, draw = (one.workload, one.shape), Draw(one.recipe, one.seed)
        name = f"{one.workload} {'×'.join(map(str, one.shape))}, {one.recipe} {one.seed}"
        verdict, detail = Verdict.NOT_COMPARED, "this version has no such program"
        if one.failure:
            verdict, detail = Verdict.FAILED, one.failure
        elif key in known and draw in known[key].draws:
            if key not in expected:
                ours = measure_reduction(known[key], place.target, choose_backend(None))
                expected[key] = dict(zip(known[key].draws, ours, strict=True))
            verdict, detail = compare_reduction(one, expected[key][draw])
        yield ComparedReading(one.backend, "reductions", name, verdict, detail)


def compare_reduction(theirs: ReductionReading, ours: ReductionReading) -> tuple[Verdict, str]:
    """Return whether two reductions of the same numbers have the same bits."""
    if theirs.input_sha256 != ours.input_sha256:
        return Verdict.NOT_COMPARED, "its numbers were drawn by another version of NumPy, and differ"
    return compare_bits(
        () if theirs.output is None else (theirs.output,), () if ours.output is None else (ours.output,)
    )


def compare_bits(theirs: tuple[Bits, ...], ours: tuple[Bits, ...]) -> tuple[Verdict, str]:
    """Return whether outputs have the same bits."""
    if len(theirs) == len(ours) and all(a.sha256 == b.sha256 for a, b in zip(theirs, ours, strict=True)):
        return Verdict.EQUAL, ""
    kept = sum(len(one.values) for one in theirs)
    pairs = [(a, b) for a, b in zip(theirs, ours, strict=False) if (a.dtype, len(a.first)) == (b.dtype, len(b.first))]
    same = sum(int((a.values == b.values).sum()) for a, b in pairs)
    return Verdict.DIFFERENT, f"of the first {kept} elements {same} have the same value"
