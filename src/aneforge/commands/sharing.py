"""Compiles a graph for many targets, each distinct program once.

Two targets that give the same answer to every question that the compiler asked get the same program, so the questions
are noted while it compiles. What a target says of itself by name only (its notes, its evidence) is made anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.compiler.compile import Compiled, Later, build, expect_accepted
from aneforge.compiler.schedule.chaining import chaining_enabled
from aneforge.compiler.schedule.rules import rules
from aneforge.errors import GraphError
from aneforge.records import dataclass
from aneforge.targets import Properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.graph.graph import Graph
    from aneforge.targets import Property, Target, Value

__all__ = ["Answers", "Compiler", "Made", "Question", "answer_of", "watched"]

Question = tuple[str, str]
"""A group of properties, and the name of one in it."""
Answers = tuple[tuple[Question, "Value | None"], ...]


@dataclass(frozen=True, slots=True)
class Made:
    """What a graph became on one target: a compiled program, or the reason why there is none."""

    compiled: Compiled | None
    failure: GraphError | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """One compile, with everything that decided it."""

    kind: tuple[object, ...]
    answers: Answers
    made: Made


class Watched(Properties):
    """Properties that note which of them are asked for."""

    __slots__ = ("asked",)

    asked: set[Question]

    @classmethod
    def of(cls, known: Properties, asked: set[Question]) -> Watched:
        """Return properties that note questions in a set."""
        made = cls(known.group, known.target, known.tier, known.table, known.aliases)
        object.__setattr__(made, "asked", asked)
        return made

    def __iter__(self) -> Iterator[str]:
        self.asked.update((self.group, name) for name in self.table)
        return super().__iter__()

    def _property(self, name: str) -> Property:
        self.asked.add((self.group, self.aliases.get(name, name)))
        return super()._property(name)


class Compiler:
    """Compiles one graph; programs that several targets share are made once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.shared: list[Shared] = []

    def compile(self, target: Target) -> Made:
        """Return what the graph becomes on a target.

        A refusal is compiled for every target, because its text names the target.
        """
        kind = kind_of(target)
        for one in self.shared:
            if one.kind == kind and all(answer_of(target, asked) == answer for asked, answer in one.answers):
                return checked(renamed(one.made, target))
        asked: set[Question] = set()
        made = compiled(self.graph, watched(target, asked))
        if made.compiled is not None:
            answers = tuple((question, answer_of(target, question)) for question in sorted(asked))
            self.shared.append(Shared(kind, answers, made))
            made = checked(renamed(made, target))
        return made


def kind_of(target: Target) -> tuple[object, ...]:
    """Return all that decides a program beside the properties."""
    streams = tuple((name, stream.streams) for name, stream in target.streams.items())
    return target.tier, target.family, target.legality, streams


def answer_of(target: Target, question: Question) -> Value | None:
    """Return what a target says to a question; nothing where it is not known."""
    group, name = question
    return next(known for known in target.groups.values() if known.group == group).get(name)


def watched(target: Target, asked: set[Question]) -> Target:
    """Return a target that notes what it is asked."""
    return replace(
        target,
        hal=Watched.of(target.hal, asked),
        limits=Watched.of(target.limits, asked),
        datapath=Watched.of(target.datapath, asked),
        geometry=Watched.of(target.geometry, asked),
    )


def compiled(graph: Graph, target: Target) -> Made:
    """Compile a graph for a target; one that runs no MIL programs is refused, as everywhere."""
    try:
        found = build(graph, target)
        found.observed  # noqa: B018 - targets that share the program share it, too
        found.plan  # noqa: B018 - what it asks of the target decides whether another may share it
    except GraphError as refusal:
        return Made(None, failure=refusal)
    return Made(found)


def checked(made: Made) -> Made:
    """Return what was made, if the validators accept it on its target."""
    try:
        return made if made.compiled is None else Made(expect_accepted(made.compiled))
    except GraphError as refusal:
        return Made(None, failure=refusal)


def renamed(made: Made, target: Target) -> Made:
    """Return what was made for one target as it is for another that gets the same program."""
    if made.compiled is None:
        return made
    before = made.compiled
    notes = tuple(note.for_target(target.name) for note in before.program.notes)
    _, how = chaining_enabled(target, rules())
    order = replace(before.schedule, target=target.name, notes=(how,))
    memory = replace(before.plan, target=target.name, notes=(how, *before.plan.notes[len(before.schedule.notes) :]))
    program = replace(before.program, target=target, notes=notes)
    now = Compiled(replace(before.retargeted, target=target.name), program, Later(order, memory, before.later.observed))
    return replace(made, compiled=now)
