"""`demo`: one story about one small network, and the embedded models, checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.demo_networks import NETWORKS, network
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import run
from aneforge.graph.builder.combination import split
from aneforge.graph.builder.inputs import input as placeholder
from aneforge.records import dataclass
from aneforge.report.model import NO, SPLIT, YES
from aneforge.targets import chip, database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aneforge.report.model import Report, TargetReport
    from aneforge.targets import TargetLike

__all__ = ["Sliced", "Story", "demonstrated", "first_chips", "tell_story"]

STORY = "keyword-spotter"
SLICED = 5000.0
"""A number that is far below what fp16 holds, and above what some chips can slice."""


@dataclass(frozen=True, slots=True)
class Sliced:
    """What one chip computes for the right half of a row of equal numbers."""

    chip: str
    value: float
    exactness: str


@dataclass(frozen=True, slots=True)
class Story:
    """A network with three different results on three chips, and a slice with two on two of them."""

    report: Report
    shown: tuple[TargetReport, ...]
    """A chip on which it does not run, one on which it does after splitting, and one on which it runs as it is."""
    slices: tuple[Sliced, ...]


def first_chips() -> list[str]:
    """Return the first chip of every generation of desktop engines: those that others are named after.

    >>> len(first_chips()) == len(set(first_chips())) > 3
    True
    """
    keys = list(database().chips)
    bases = {key.partition("-")[0] for key in keys if "-" in key}
    letters = {base[0] for base in bases if f"{base}-max" in keys}
    return [key for key in keys if key[0] in letters and "-" not in key]


def demonstrated(
    name: str | None = None,
    targets: Iterable[TargetLike] | None = None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Report, ...]:
    """Return the reports of the embedded models, or of one, on the first chip of every generation.

    >>> report, = demonstrated("keyword-spotter")
    >>> [target.ok for target in report.targets][:1]
    [False]

    Raises:
        UnknownNameError: There is no such model.
    """
    chosen = list(NETWORKS) if name is None else [name]
    names = first_chips() if targets is None else targets
    return tuple(
        check(network(one), names, CheckOptions(name=f"{one} (embedded)"), progress=progress) for one in chosen
    )


def tell_story(*, progress: Callable[[str, int, int], None] | None = None) -> Story:
    """Return what the demonstration shows: one network, three chips, and what only exact arithmetic shows.

    >>> story = tell_story()
    >>> [one.runs for one in story.shown], [one.value for one in story.slices], {one.exactness for one in story.slices}
    (['no', 'after splitting', 'yes'], [inf, 5000.0], {'exact'})
    """
    report = replace(demonstrated(STORY, progress=progress)[0], model=STORY)
    fared = {word: [one for one in report.targets if one.runs == word] for word in (NO, SPLIT, YES)}
    # The chips on the borders between two answers.
    shown = (fared[NO][-1], fared[SPLIT][-1], fared[YES][0])
    return Story(report, shown, tuple(slice_on(one.title) for one in (shown[0], shown[-1])))


def slice_on(name: str) -> Sliced:
    """Return what a chip computes for the right half of a row."""
    right = split(placeholder((1, 1, 1, 8), name="x"), 2, axis=3)[1]
    found = run(build_program({"y": right}, chip(name).key), {"x": np.full((1, 1, 1, 8), SLICED)})
    return Sliced(name, float(found.outputs["y"].max()), str(found.label.exactness))
