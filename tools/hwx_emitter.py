"""Emits the programs that oracle files describe, and counts the words in which ours and Apple's differ.

An oracle's `params` name an operation and its shapes; nothing else of the file is read to emit it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import AneforgeError
from aneforge.formats.hwx.descriptors.codec import decode_task
from aneforge.formats.hwx.emission.planar_tasks import OPERATIONS
from aneforge.formats.hwx.emission.single_operations import TABLES, Operation, emit_operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.formats.hwx.descriptors.task import Task

__all__ = ["Comparison", "EmitterOracle", "Summary", "compare", "summarise"]

STRUCTURAL = ("reduce_norm", "matmul", "move")
"""Families whose programs are emitted by structure; all others of H13 have rules."""
ELEMENTWISE = frozenset({*OPERATIONS, *TABLES, "relu", "abs", "rsqrt", "leaky_relu"})
CYCLES_MASK = 0xFFFF
"""The compiler's estimate of time, of which no formula is known."""
SPARSE = "kernel_source.coefficient_"
"""Registers that depend on the zeros of a strided kernel."""


class EmitterOracle(msgspec.Struct, frozen=True):
    """What is read of an oracle file."""

    id: str
    generation: str
    tds: list[list[str]]
    params: Operation
    family: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One program: Apple's words and ours, by task and register."""

    name: str
    family: str
    operation: str
    generation: str
    theirs: dict[tuple[int, str], int]
    ours: dict[tuple[int, str], int]
    tasks: tuple[int, int]
    """How many tasks there are, theirs and ours."""
    strided: bool
    refusal: str = ""

    @property
    def structural(self) -> bool:
        """It belongs to a structural family."""
        return self.family in STRUCTURAL

    @property
    def elementwise(self) -> bool:
        """It computes one element of its result from one element of each tensor."""
        return self.operation in ELEMENTWISE

    @property
    def wrong(self) -> tuple[tuple[int, str], ...]:
        """Places that differ, but for the estimate of time and the blocks of a strided kernel."""
        places = self.theirs.keys() | self.ours.keys()
        return tuple(sorted(place for place in places if self.counts(place) and not self.equal(place)))

    def counts(self, place: tuple[int, str]) -> bool:
        """Tell whether a place must be equal in an exact program."""
        return not (self.strided and place[1].startswith(SPARSE))

    def equal(self, place: tuple[int, str]) -> bool:
        """Tell whether a place is equal, but for the estimate of time."""
        mine, its = self.ours.get(place), self.theirs.get(place)
        if place[1].startswith("header.") and "cycles" in place[1] and mine is not None and its is not None:
            return mine & ~CYCLES_MASK == its & ~CYCLES_MASK
        return mine == its


@dataclass(frozen=True, slots=True)
class Summary:
    """Programs of some families together."""

    programs: int
    exact: int
    same_tasks: int
    varying: tuple[int, int]
    """Words at positions that vary: equal, and all."""
    words: tuple[int, int]
    """All words: equal, and all."""
    refusals: tuple[str, ...]
    """Programs that were not emitted, with the reason."""

    @property
    def refused(self) -> str:
        """What to add to a result where programs were not emitted."""
        return f"; not emitted: {len(self.refusals)}, first {self.refusals[0]}" if self.refusals else ""

    @property
    def varying_share(self) -> float:
        """Share of the words at positions that vary which are equal."""
        return self.varying[0] / max(self.varying[1], 1)

    @property
    def share(self) -> float:
        """Share of all words that are equal."""
        return self.words[0] / max(self.words[1], 1)


def compare(oracle: EmitterOracle, generation: int, name: str) -> Comparison:
    """Emit an oracle's operation and compare it with Apple's program; `name` is that of its file."""
    theirs = [decode_task([int(word, 16) for word in words], generation) for words in oracle.tds]
    refusal = ""
    ours: Sequence[Task] = ()
    try:
        ours = emit_operation(oracle.params, oracle.generation)
    except AneforgeError as error:
        refusal = str(error)
    return Comparison(
        name=name,
        family=oracle.family,
        generation=oracle.generation,
        theirs=placed(theirs),
        ours=placed(part_of(ours, name)),
        tasks=(len(theirs), len(ours)),
        operation=oracle.params.op,
        strided=oracle.params.op == "conv" and tuple(oracle.params.stride) != (1, 1),
        refusal=refusal,
    )


def part_of(tasks: Sequence[Task], name: str) -> Sequence[Task]:
    """Return the tasks that a file has: all, or one where its name ends in the number of a task."""
    _, mark, number = name.rpartition(".td")
    return tasks[int(number) : int(number) + 1] if mark and number.isdigit() else tasks


def placed(tasks: Iterable[Task]) -> dict[tuple[int, str], int]:
    """Return the words of tasks by number and label; records count as words too, in their order."""
    found: dict[tuple[int, str], int] = {}
    for index, task in enumerate(tasks):
        seen: dict[str, int] = defaultdict(int)
        for word in task.words:
            label = word.label if not seen[word.label] else f"{word.label} again {seen[word.label]}"
            seen[word.label] += 1
            found[index, label] = word.word
        for number, record in enumerate(task.records):
            found[index, f"record {number}"] = record.head
    return found


def summarise(comparisons: Sequence[Comparison]) -> Summary:
    """Count over programs; a position varies where its word is not the same in all of their tasks."""
    values: dict[tuple[str, str], set[int]] = defaultdict(set)
    tasks: dict[tuple[str, str], int] = defaultdict(int)
    counted: dict[str, int] = defaultdict(int)
    for one in comparisons:
        counted[one.generation] += one.tasks[0]
        for (_, label), word in one.theirs.items():
            values[one.generation, label].add(word)
            tasks[one.generation, label] += 1
    varies = {key for key, found in values.items() if len(found) > 1 or tasks[key] != counted[key[0]]}
    varying, words = [0, 0], [0, 0]
    for one in comparisons:
        for place in one.theirs:
            equal = one.ours.get(place) == one.theirs[place]
            for total, counts in ((words, True), (varying, (one.generation, place[1]) in varies)):
                total[0] += counts and equal
                total[1] += counts
    return Summary(
        programs=len(comparisons),
        exact=sum(not one.wrong for one in comparisons),
        same_tasks=sum(one.tasks[0] == one.tasks[1] for one in comparisons),
        varying=(varying[0], varying[1]),
        words=(words[0], words[1]),
        refusals=tuple(f"{one.name}: {one.refusal}" for one in comparisons if one.refusal),
    )
