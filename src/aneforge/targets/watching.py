"""Targets that note what they are asked: two that would have answered alike get the same of a stage of the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from aneforge.targets.properties import Properties
from aneforge.targets.queries import was_measured_on
from aneforge.targets.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aneforge.targets.properties import Property

__all__ = ["Answers", "Question", "Sharing", "Watch", "answers_alike", "answers_to", "explain_answer", "kind_of"]

Found = TypeVar("Found")
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


def note(name: str) -> property:
    """Return a property that notes that an attribute of a target is asked for."""
    slot = vars(Target)[name]

    def read(self: object) -> object:
        cast("set[Question]", vars(WatchedTarget)["asked"].__get__(self)).add((TARGET, name))
        return slot.__get__(self)

    return property(read)


NOTED = {one.name for one in fields(Target)} - {*GROUPS, *MAPPINGS, "name", "encodings", "find_conflicts"}
"""Attributes whose use is noted here. The rest notes it itself, or is the same for all targets; what the name of a
target is written into is written again for every target."""
WatchedTarget = cast(
    "type[Target]", type("WatchedTarget", (Target,), {"__slots__": ("asked",), **{name: note(name) for name in NOTED}})
)


class Watch:
    """A target that is watched while a graph is compiled for it, stage by stage."""

    def __init__(self, target: Target) -> None:
        self.plain = target
        self.now: set[Question] = set()
        self.before: set[Question] = set()
        self.last_answers: Answers = ()
        self.groups = {name: Watched.of(getattr(target, name), self.now) for name in GROUPS}
        values: dict[str, Any] = {one.name: getattr(target, one.name) for one in fields(Target)}
        values |= self.groups
        values |= {name: WatchedMapping(name, values[name], self.now) for name in MAPPINGS}
        self.target = WatchedTarget(**values)
        object.__setattr__(self.target, "asked", self.now)

    def begin(self) -> None:
        """Begin a stage: what was asked before is asked again."""
        self.before |= self.now
        self.now.clear()
        for known in self.groups.values():
            known.found.clear()

    def answers(self) -> Answers:
        """Return what the stage was given."""
        return answers_to(self.plain, self.now)

    def knows(self, answers: Answers) -> bool:
        """Return whether the target gives the same answers; the questions count as asked."""
        alike = answers_alike(self.plain, answers)
        if alike:
            self.before.update(question for question, _ in answers)
        return alike

    @property
    def all_answers(self) -> Answers:
        """What all stages were given; the same tuple until something else is asked."""
        questions = self.before | self.now
        if len(questions) != len(self.last_answers):
            self.last_answers = answers_to(self.plain, questions)
        return self.last_answers


class Sharing(Generic[Found]):
    """What was made of something for one target, for all that answer alike."""

    def __init__(self, answer: Callable[[Target, Question], object] | None = None) -> None:
        self.answer = answer or answer_of
        self.found: dict[int, list[tuple[object, Answers, Found]]] = {}

    def find(self, thing: object, target: Target, make: Callable[[Target], Found]) -> Found:
        """Return what was made of a thing, by its identity; `make` makes it for a target that notes questions."""
        known = self.found.setdefault(id(thing), [])
        for _, answers, made in known:
            if answers_alike(target, answers, self.answer):
                return made
        watch = Watch(target)
        made = make(watch.target)
        # The thing is kept with the answer, so that no other can come to be at its address.
        known.append((thing, answers_to(target, watch.now, self.answer), made))
        return made


def answers_to(
    target: Target, questions: Iterable[Question], answer: Callable[[Target, Question], object] | None = None
) -> Answers:
    """Return what a target says to questions."""
    return tuple((question, (answer or answer_of)(target, question)) for question in sorted(questions))


def answers_alike(target: Target, answers: Answers, answer: Callable[[Target, Question], object] | None = None) -> bool:
    """Return whether a target says the same to the same questions."""
    return all((answer or answer_of)(target, question) == said for question, said in answers)


def explain_answer(target: Target, question: Question) -> object:
    """Return what a target says to a question, why that is believed, and whether it was measured on this very target.

    A fact can be measured for one target of a tier and not for another.
    """
    group, name = question
    if group == TARGET or group in MAPPINGS:
        return answer_of(target, question)
    known = group_of(target, group)
    fact = known.fact(name) if name in known else None
    return fact, fact is not None and was_measured_on(target, fact.evidence)


def group_of(target: Target, group: str) -> Properties:
    """Return a group of properties by its own name."""
    return next(known for name in GROUPS if (known := cast("Properties", getattr(target, name))).group == group)


def answer_of(target: Target, question: Question) -> object:
    """Return what a target says to a question; nothing where it is not known."""
    group, name = question
    if group == TARGET:
        return getattr(target, name)
    if group in MAPPINGS:
        return getattr(target, group).get(name)
    return group_of(target, group).get(name)


def kind_of(target: Target) -> tuple[object, ...]:
    """Return what decides verdicts on graphs and programs in addition to the properties."""
    streams = tuple((name, stream.streams) for name, stream in target.streams.items())
    return target.tier, target.family, target.legality, streams
