"""Targets that note what they are asked: two that would have answered alike get the same of a stage of the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from aneforge.targets import Properties, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aneforge.targets import Property

__all__ = ["Answers", "Question", "Watch", "answers_alike", "answers_to", "kind_of"]

Question = tuple[str, str]
"""A group of properties and the name of one in it, a mapping of the target and a name, or `TARGET` and an attribute."""
Answers = tuple[tuple[Question, object], ...]
TARGET = "target"
GROUPS = ("hal", "limits", "datapath", "geometry")
MAPPINGS = ("facts", "streams")


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


class WatchedMapping(Mapping[str, Any]):
    """A mapping of a target that notes which of its names are asked for."""

    def __init__(self, name: str, known: Mapping[str, Any], asked: set[Question]) -> None:
        self.name, self.known, self.asked = name, known, asked

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - as the mapping
        self.asked.add((self.name, key))
        return self.known[key]

    def __iter__(self) -> Iterator[str]:
        self.asked.add((TARGET, self.name))
        return iter(self.known)

    def __len__(self) -> int:
        self.asked.add((TARGET, self.name))
        return len(self.known)


def noted(name: str) -> property:
    """Return a property that notes that an attribute of a target is asked for."""
    slot = vars(Target)[name]

    def read(self: object) -> object:
        cast("set[Question]", vars(WatchedTarget)["asked"].__get__(self)).add((TARGET, name))
        return slot.__get__(self)

    return property(read)


NOTED = {one.name for one in fields(Target)} - {*GROUPS, *MAPPINGS, "name", "encodings", "find_conflicts"}
"""Attributes whose use is noted here. The rest notes it itself, or is the same for all targets; what the name of a
target is written into is written anew for every target."""
WatchedTarget = cast(
    "type[Target]", type("WatchedTarget", (Target,), {"__slots__": ("asked",), **{name: noted(name) for name in NOTED}})
)


class Watch:
    """A target that is watched while a graph is compiled for it, stage by stage."""

    def __init__(self, target: Target) -> None:
        self.plain = target
        self.now: set[Question] = set()
        self.before: set[Question] = set()
        self.groups = {name: Watched.of(getattr(target, name), self.now) for name in GROUPS}
        values: dict[str, Any] = {one.name: getattr(target, one.name) for one in fields(Target)}
        values |= self.groups
        values |= {name: WatchedMapping(name, values[name], self.now) for name in MAPPINGS}
        self.target = WatchedTarget(**values)
        object.__setattr__(self.target, "asked", self.now)

    def begin(self) -> None:
        """Begin a stage: what was asked before is asked anew."""
        self.before |= self.now
        self.now.clear()
        for known in self.groups.values():
            known.found.clear()

    def answers(self) -> Answers:
        """Return what the stage was told."""
        return answers_to(self.plain, self.now)

    def knows(self, answers: Answers) -> bool:
        """Return whether the target gives the same answers; the questions count as asked."""
        alike = answers_alike(self.plain, answers)
        if alike:
            self.before.update(question for question, _ in answers)
        return alike

    @property
    def all_answers(self) -> Answers:
        """What all stages were told."""
        return answers_to(self.plain, self.before | self.now)


def answers_to(target: Target, questions: Iterable[Question]) -> Answers:
    """Return what a target says to questions."""
    return tuple((question, answer_of(target, question)) for question in sorted(questions))


def answers_alike(target: Target, answers: Answers) -> bool:
    """Return whether a target says the same to the same questions."""
    return all(answer_of(target, question) == answer for question, answer in answers)


def answer_of(target: Target, question: Question) -> object:
    """Return what a target says to a question; nothing where it is not known."""
    group, name = question
    if group == TARGET:
        return getattr(target, name)
    if group in MAPPINGS:
        return getattr(target, group).get(name)
    return next(known for known in target.groups.values() if known.group == group).get(name)


def kind_of(target: Target) -> tuple[object, ...]:
    """Return what decides verdicts on graphs and programs beside the properties."""
    streams = tuple((name, stream.streams) for name, stream in target.streams.items())
    return target.tier, target.family, target.legality, streams
