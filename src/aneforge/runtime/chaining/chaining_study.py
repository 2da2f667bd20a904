"""What the chaining study found: experiments, classes, rules, failures and states, from `data/chaining_study.toml`.

Every class and rule of this room names the experiments that it rests on. What the simulation adds where the study saw
nothing is said in `modelled`.
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import field

from aneforge.errors import AneforgeError, ChainingError, DataFileError, UnknownNameError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = [
    "ENTITLEMENT",
    "SIMULATED",
    "Correction",
    "Experiment",
    "Outcome",
    "Replaced",
    "RuntimeClass",
    "StudiedClass",
    "StudiedMethod",
    "StudiedRule",
    "Study",
    "Violation",
    "chaining_error",
    "class_evidence",
    "class_named",
    "experiments_text",
    "failure",
    "find_studied_class",
    "name_as_studied",
    "simulating",
    "study",
    "study_name",
]

SIMULATED = "simulated"
"""What every output of the simulation says of itself."""
ENTITLEMENT = "com.apple.aned.private.allow"
"""What a process must be entitled to before the daemon takes chained requests from it (aneforge docs, backends)."""


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
    UNREPORTED = "unreported"
    """Only a range of experiments names it."""


class Experiment(Entry, frozen=True):
    """One experiment."""

    title: str
    found: str
    outcome: Outcome
    file: str = ""
    """The test program of the study; empty where it names none."""
    date: str = ""
    figures: dict[str, float] = field(default_factory=dict[str, float])
    """Numbers that were printed, except for times: those are with the routes."""


class StudiedMethod(Entry, frozen=True):
    """A method of a class."""

    selector: str
    answer: str
    """What it did when it was called; *seen* where it was not."""
    experiments: tuple[str, ...]
    python: str = ""
    """The method of this room; empty where there is none."""


class StudiedClass(Entry, frozen=True):
    """A class of the private framework."""

    summary: str
    factory: str
    experiments: tuple[str, ...]
    works: str
    modelled: str = ""
    """What the simulation adds; empty where it adds nothing."""
    methods: tuple[StudiedMethod, ...] = ()
    """In addition to the factory."""
    properties: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """What was looked for and is not there."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """How many methods, properties and variables were listed."""


class RuntimeClass(Entry, frozen=True):
    """A class of the runtime that Core ML uses instead."""

    summary: str
    experiments: tuple[str, ...]
    methods: tuple[str, ...] = ()
    """Methods, properties and variables that the study names."""
    counts: dict[str, int] = field(default_factory=dict[str, int])


class Replaced(Entry, frozen=True):
    """A part of Core ML's way to the engine, before macOS 15 and since."""

    before: str
    since: str


class Correction(Entry, frozen=True):
    """What the study said first, and what it found to hold."""

    said: str
    holds: str
    experiments: tuple[str, ...]


class StudiedRule(Entry, frozen=True):
    """What a chaining request must be."""

    parameter: str
    rule: str
    why: str
    remedy: str
    experiments: tuple[str, ...]
    kind: EvidenceKind
    system: str = ""
    """What the system said; empty where it was not tried."""


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
    milliseconds_per_token: float
    """The study's own estimate, one call after the other."""


class Study(Entry, frozen=True):
    """The data file."""

    source: str
    on: tuple[str, ...]
    model: StudiedModel
    experiments: dict[str, Experiment]
    encodings: dict[str, TypeEncoding]
    classes: dict[str, StudiedClass]
    runtime_classes: dict[str, RuntimeClass]
    runtime_functions: dict[str, str]
    replaced: dict[str, Replaced]
    corrections: tuple[Correction, ...]
    rules: dict[str, StudiedRule]
    failures: dict[str, Failure]
    states: dict[str, StateEntry]

    def evidence(self, experiments: tuple[str, ...], kind: EvidenceKind = EvidenceKind.MEASURED) -> Evidence:
        """Return experiments as the evidence of something."""
        return Evidence(kind, f"{self.source}, {experiments_text(experiments)}", self.on)


@contextmanager
def simulating(operation: str) -> Generator[None]:
    """Let every error that is raised inside say that it is one of the simulation, and of which call.

    Raises:
        AneforgeError: What is raised inside.
    """
    try:
        yield
    except AneforgeError as error:
        if SIMULATED not in (error.operation or ""):
            error.operation = f"{error.operation or operation} ({SIMULATED})"
        raise


@cache
def study() -> Study:
    """Return what the study found.

    >>> study().states["loaded"].number
    3

    Raises:
        DataFileError: An entry names an experiment that is not listed.
    """
    found = read(Path(__file__).parent.parent / "data" / "chaining_study.toml", Study)
    resting = (
        *found.encodings.values(),
        *found.classes.values(),
        *(method for one in found.classes.values() for method in one.methods),
        *found.runtime_classes.values(),
        *found.corrections,
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


def find_studied_class(name: str) -> tuple[str, StudiedClass]:
    """Return a class by its name, with or without the underscore, whatever its case.

    >>> find_studied_class("anebuffer")[0]
    '_ANEBuffer'

    Raises:
        UnknownNameError: The study knows no such class.
    """
    known = {word.lstrip("_").casefold(): word for word in study().classes}
    key = name.lstrip("_").casefold()
    if key not in known:
        raise UnknownNameError.of("class of the chaining study", name, study().classes)
    return known[key], study().classes[known[key]]


Kind = TypeVar("Kind", bound=type)
MODELLED: dict[str, type] = {}
"""Classes of this room by the exact names of the study."""


def name_as_studied(name: str) -> Callable[[Kind], Kind]:
    """Return a decorator that gives a class of this room the exact name that the study has for it.

    In Python a leading underscore says that a name is private: linters and type checkers refuse its use elsewhere. The
    classes are therefore spelt without it, and the exact name is data: `study_name`, `class_named`.
    """

    def noted(kind: Kind) -> Kind:
        MODELLED[name] = kind
        return kind

    return noted


def class_named(name: str) -> type:
    """Return the class of this room with the exact name that the study has for it.

    >>> from aneforge.runtime import chaining
    >>> class_named("_ANEBuffer") is chaining.ANEBuffer is getattr(chaining, "_ANEBuffer")
    True

    Raises:
        UnknownNameError: The study knows no such class.
    """
    if name not in study().classes:
        raise UnknownNameError.of("class of the chaining study", name, study().classes)
    return getattr(importlib.import_module("aneforge.runtime.chaining"), name.removeprefix("_"))


def study_name(kind: type) -> str:
    """Return the exact name that the study has for a class of this room.

    >>> from aneforge.runtime.chaining import ANEBuffer
    >>> study_name(ANEBuffer)
    '_ANEBuffer'

    Raises:
        UnknownNameError: It is a class that the study does not know.
    """
    for name, one in MODELLED.items():
        if one is kind:
            return name
    raise UnknownNameError.of("class of the chaining study", kind.__name__, MODELLED)


def class_evidence(kind: type) -> Evidence:
    """Return the experiments that a class of this room rests on.

    >>> from aneforge.runtime.chaining import ANEBuffer
    >>> class_evidence(ANEBuffer).source
    'maderix repository, experiment v2'

    Raises:
        UnknownNameError: It is a class that the study does not know.
    """
    name = study_name(kind)
    known = study().classes[name]
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
