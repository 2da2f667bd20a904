"""What the chaining study found: experiments, classes, rules, failures and states, from `data/chaining_study.toml`.

Every class and rule of this room names the experiments that it rests on. What the simulation adds where the study saw
nothing is said in `modelled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from aneforge.errors import ChainingError, DataFileError, UnknownNameError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.targets.schema import Entry, read

__all__ = [
    "SIMULATED",
    "Experiment",
    "Outcome",
    "StudiedClass",
    "StudiedRule",
    "Study",
    "Violation",
    "chaining_error",
    "class_evidence",
    "experiments_text",
    "failure",
    "studied_class",
    "study",
]

SIMULATED = "simulated"
"""What every output of the simulation says of itself."""


class Outcome(StrEnum):
    """What came of an experiment."""

    SOLVED = "solved"
    PARTLY = "partly"
    FAILED = "failed"
    MEASURED = "measured"
    NOTHING = "nothing"
    """It showed nothing new."""
    WITHDRAWN = "withdrawn"
    """Its authors took back what they had published."""
    CORRECTS = "corrects"
    """It corrects an earlier one."""


class Experiment(Entry, frozen=True):
    """One experiment."""

    title: str
    found: str
    outcome: Outcome


class StudiedClass(Entry, frozen=True):
    """A class of the private framework."""

    summary: str
    factory: str
    experiments: tuple[str, ...]
    works: str
    modelled: str = ""
    """What the simulation adds; empty where it adds nothing."""


class StudiedRule(Entry, frozen=True):
    """What a chaining request must be."""

    parameter: str
    rule: str
    why: str
    remedy: str
    experiments: tuple[str, ...]
    kind: EvidenceKind
    system: str = ""
    """What the system said; empty where nobody tried."""


class Failure(Entry, frozen=True):
    """What ends a call."""

    system: str
    why: str
    experiments: tuple[str, ...]
    code: int | None = None


class StateEntry(Entry, frozen=True):
    """A state of a model."""

    text: str
    experiments: tuple[str, ...]
    number: int | None = None


class TypeEncoding(Entry, frozen=True):
    """The types of a method's parameters, or of a structure's members."""

    encoding: str
    text: str
    experiments: tuple[str, ...]


class StudiedModel(Entry, frozen=True):
    """The model that the study has in mind."""

    layers: int
    evaluations: int
    """Calls for one token."""
    round_trips_saved: int
    """Of a chain."""


class Study(Entry, frozen=True):
    """The data file."""

    source: str
    on: tuple[str, ...]
    model: StudiedModel
    experiments: dict[str, Experiment]
    encodings: dict[str, TypeEncoding]
    classes: dict[str, StudiedClass]
    rules: dict[str, StudiedRule]
    failures: dict[str, Failure]
    states: dict[str, StateEntry]

    def evidence(self, experiments: tuple[str, ...], kind: EvidenceKind = EvidenceKind.MEASURED) -> Evidence:
        """Return experiments as the evidence of something."""
        return Evidence(kind, f"{self.source}, {experiments_text(experiments)}", self.on)


@cache
def study() -> Study:
    """Return what the study found.

    Raises:
        DataFileError: An entry names an experiment that is not listed.
    """
    found = read(Path(__file__).parent.parent / "data" / "chaining_study.toml", Study)
    resting = (
        *found.encodings.values(),
        *found.classes.values(),
        *found.rules.values(),
        *found.failures.values(),
        *found.states.values(),
    )
    if unknown := sorted({name for one in resting for name in one.experiments} - found.experiments.keys()):
        raise DataFileError(f"chaining_study.toml: there is no experiment called {', '.join(unknown)}")
    return found


def experiments_text(names: tuple[str, ...]) -> str:
    """Return experiments in words.

    >>> experiments_text(("K",)), experiments_text(("v1", "v2", "L"))
    ('experiment K', 'experiments v1, v2 and L')
    """
    if len(names) == 1:
        return f"experiment {names[0]}"
    return f"experiments {', '.join(names[:-1])} and {names[-1]}"


def studied_class(name: str) -> tuple[str, StudiedClass]:
    """Return a class by its name, with or without the underscore, whatever its case.

    >>> studied_class("anebuffer")[0]
    '_ANEBuffer'

    Raises:
        UnknownNameError: The study knows no such class.
    """
    known = {word.lstrip("_").casefold(): word for word in study().classes}
    key = name.lstrip("_").casefold()
    if key not in known:
        raise UnknownNameError.of("class of the chaining study", name, study().classes)
    return known[key], study().classes[known[key]]


def class_evidence(kind: type) -> Evidence:
    """Return the experiments that a class of this room rests on.

    >>> from aneforge.runtime.chaining import ANEBuffer
    >>> class_evidence(ANEBuffer).source
    'maderix repository, experiment v2'

    Raises:
        UnknownNameError: It is a class that the study does not know.
    """
    name, known = studied_class(kind.__name__)
    return Evidence(
        EvidenceKind.MEASURED, study().evidence(known.experiments).source, study().on, f"{name}: {known.works}"
    )


def failure(name: str, operation: str, *, url: str = "", remedy: str | None = None) -> ChainingError:
    """Return the error that ends a call as it did in the study."""
    known = study().failures[name]
    return chaining_error(
        known.system.format(url=url), known.why, known.experiments, operation=operation, code=known.code, remedy=remedy
    )


@dataclass(frozen=True, slots=True)
class Violation:
    """Something in a request that a rule of the study forbids."""

    rule: str
    """Its id."""
    parameter: str
    """As the factory names it."""
    seen: str
    """What was given."""

    @property
    def known(self) -> StudiedRule:
        """The rule."""
        return study().rules[self.rule]

    @property
    def evidence(self) -> Evidence:
        """The experiments that the rule rests on."""
        return study().evidence(self.known.experiments, self.known.kind)

    def __str__(self) -> str:
        said = f" The system says: {self.known.system}." if self.known.system else " What the system says is not known."
        return (
            f"{self.rule} {self.parameter}: {self.known.rule} Got {self.seen}.{said} {self.known.why} "
            f"Remedy: {self.known.remedy} [{self.evidence.short}]"
        )


def chaining_error(
    system: str,
    why: str,
    experiments: tuple[str, ...],
    *,
    operation: str,
    code: int | None = None,
    remedy: str | None = None,
) -> ChainingError:
    """Return an error in the system's words, with the cause and the experiments."""
    error = ChainingError(f"{system}. {why} [{experiments_text(experiments)}]", operation=operation, remedy=remedy)
    error.system, error.code, error.experiments = system, code, experiments
    return error
