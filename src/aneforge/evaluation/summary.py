"""What the results of a run add up to: accuracy, agreement, errors and margins of every chip, and samples that flip.

Results are read shard by shard, in the order of the samples; what is kept of each is a few numbers.
"""

from __future__ import annotations

from array import array
from dataclasses import field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.evaluation.results import Answer, ChipAnswer, SampleResult, ShardResult

__all__ = [
    "FLOAT32",
    "ChipSummary",
    "Flip",
    "FlipAnswer",
    "Pair",
    "Percentiles",
    "Scores",
    "Side",
    "Summary",
    "UnusedSample",
    "summarise",
]

FLOAT32 = "float32"
"""How the reference is called in a list with chips."""
KEPT_WORST = 16
"""Samples that are kept as the worst; more are in the results of every sample."""


class Side(NamedTuple):
    """A chip as a summary names it."""

    target: str
    label: str
    exactness: str


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How a number is distributed over the samples; None where no sample has it."""

    samples: int
    p1: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    largest: float | None


@dataclass(frozen=True, slots=True)
class Scores:
    """How right one side is."""

    labelled: int
    """Samples that have a label."""
    top1: float | None
    """Share of them whose class comes first; None without labels or classes."""
    top5: float | None
    metric: float | None
    """Mean of the user's metric."""


@dataclass(frozen=True, slots=True)
class ChipSummary:
    """One chip over all samples; shares are of the samples that have what they are of."""

    target: str
    label: str
    exactness: str
    scores: Scores
    agreement: float | None
    """Share of samples whose first class is that of float32."""
    error: Percentiles
    """The largest distance of a sample's output from float32."""
    relative: Percentiles
    margin: Percentiles
    """The largest value of a sample less its second: small ones flip first."""
    not_finite: int
    """Samples with an output that is infinite or not a number."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two chips next to each other."""

    first: str
    second: str
    agreement: float | None
    """Share of samples with the same first class."""
    same_bits: float
    """Share of samples whose outputs have the same bits."""


@dataclass(frozen=True, slots=True)
class FlipAnswer:
    """The answer of one side to a sample that flips."""

    side: str
    top: int | None
    """None where no value is a number."""
    margin: float | None


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample to which not every side gives the same answer."""

    sample: int
    name: str
    label: int | None
    answers: tuple[FlipAnswer, ...]
    """That of float32 first, where there is one; then those of the chips."""
    error: float
    """The largest error of a chip; 0 without a reference."""


@dataclass(frozen=True, slots=True)
class UnusedSample:
    """A sample that could not be used, and why."""

    sample: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A run over all its samples."""

    samples: int
    bad: tuple[UnusedSample, ...]
    float32: Scores | None
    """What the reference reaches."""
    chips: tuple[ChipSummary, ...]
    pairs: tuple[Pair, ...]
    flips: tuple[Flip, ...]
    worst: tuple[tuple[int, float], ...]
    """The samples with the largest errors, and these; flipped ones first."""


def numbers() -> array[float]:
    """Return an empty column of numbers."""
    return array("d")


@dataclass(slots=True)
class Tally:
    """What is counted of one side."""

    samples: int = 0
    labelled: int = 0
    first: int = 0
    among: int = 0
    compared: int = 0
    agreed: int = 0
    not_finite: int = 0
    metrics: array[float] = field(default_factory=numbers)
    errors: array[float] = field(default_factory=numbers)
    relatives: array[float] = field(default_factory=numbers)
    margins: array[float] = field(default_factory=numbers)

    def add(self, answer: Answer, label: int | None) -> None:
        """Count an answer."""
        self.samples += 1
        if label is not None and answer.classes is not None:
            self.labelled += 1
            self.first += answer.classes[:1] == (label,)
            self.among += label in answer.classes
        add_number(self.metrics, answer.metric)
        add_number(self.margins, answer.margin)

    def add_chip(self, chip: ChipAnswer, reference: Answer | None, label: int | None) -> None:
        """Count an answer of a chip."""
        self.add(chip.answer, label)
        self.not_finite += not chip.finite
        add_number(self.errors, chip.error)
        add_number(self.relatives, chip.relative)
        if reference is not None and reference.classes is not None:
            self.compared += 1
            self.agreed += first_class(reference) == first_class(chip.answer)

    def scores(self) -> Scores:
        """Return how right the side is."""
        return Scores(
            self.labelled,
            share(self.first, self.labelled),
            share(self.among, self.labelled),
            float(np.mean(self.metrics)) if self.metrics else None,
        )


def summarise(sides: Sequence[Side], shards: Iterable[ShardResult]) -> Summary:
    """Return what the results of a run add up to."""
    tallies, float32 = [Tally() for _ in sides], Tally()
    pairs = {pair: [0, 0] for pair in combinations(range(len(sides)), 2)}
    bad: list[UnusedSample] = []
    flips: list[Flip] = []
    worst: list[tuple[bool, float, int]] = []
    samples, classes = 0, False
    for shard in shards:
        bad += [UnusedSample(one.index, one.name, one.reason) for one in shard.bad]
        for one in shard.samples:
            samples += 1
            classes = classes or one.chips[0].answer.classes is not None
            if one.reference is not None:
                float32.add(one.reference, one.label)
            for tally, chip in zip(tallies, one.chips, strict=True):
                tally.add_chip(chip, one.reference, one.label)
            for (first, second), counts in pairs.items():
                left, right = one.chips[first], one.chips[second]
                counts[0] += first_class(left.answer) == first_class(right.answer)
                counts[1] += left.bits == right.bits
            flip = flip_of(one, sides)
            flips += [flip] if flip is not None else []
            worst.append((flip is not None, largest_error(one), -one.index))
        worst = sorted(worst, reverse=True)[:KEPT_WORST]
    return Summary(
        samples=samples,
        bad=tuple(bad),
        float32=float32.scores() if float32.samples else None,
        chips=tuple(chip_summary(side, tally) for side, tally in zip(sides, tallies, strict=True)),
        pairs=tuple(
            Pair(
                sides[first].label,
                sides[second].label,
                share(counts[0], samples) if classes else None,
                counts[1] / samples,
            )
            for (first, second), counts in pairs.items()
            if samples
        ),
        flips=tuple(flips),
        worst=tuple((-index, error) for flipped, error, index in worst if flipped or error > 0),
    )


def chip_summary(side: Side, tally: Tally) -> ChipSummary:
    """Return what was counted of a chip."""
    return ChipSummary(
        target=side.target,
        label=side.label,
        exactness=side.exactness,
        scores=tally.scores(),
        agreement=share(tally.agreed, tally.compared),
        error=percentiles(tally.errors),
        relative=percentiles(tally.relatives),
        margin=percentiles(tally.margins),
        not_finite=tally.not_finite,
    )


def flip_of(one: SampleResult, sides: Sequence[Side]) -> Flip | None:
    """Return a sample as one that flips; None where every side gives the same answer."""
    named = [(FLOAT32, one.reference)] if one.reference is not None else []
    named += [(side.label, chip.answer) for side, chip in zip(sides, one.chips, strict=True)]
    answers = tuple(FlipAnswer(side, first_class(answer), answer.margin) for side, answer in named)
    if len({answer.top for answer in answers}) == 1:
        return None
    return Flip(one.index, one.name, one.label, answers, largest_error(one))


def first_class(answer: Answer) -> int | None:
    """Return the class with the largest value; None where no value is a number, or the output has no classes."""
    return answer.classes[0] if answer.classes else None


def largest_error(one: SampleResult) -> float:
    """Return the largest error of a chip for a sample; one that is finite on only one side is the largest of all."""
    if one.reference is None:
        return 0.0
    return max(float("inf") if chip.error is None else chip.error for chip in one.chips)


def percentiles(values: array[float]) -> Percentiles:
    """Return how numbers are distributed; each percentile is a number that is there."""
    if not values:
        return Percentiles(0, None, None, None, None, None)
    found = np.quantile(np.asarray(values), [0.01, 0.5, 0.9, 0.99, 1.0], method="higher")
    return Percentiles(len(values), *(float(one) for one in found))


def share(count: int, total: int) -> float | None:
    """Return a share; None of nothing."""
    return count / total if total else None


def add_number(column: array[float], value: float | None) -> None:
    """Append a number, where there is one."""
    if value is not None:
        column.append(value)
