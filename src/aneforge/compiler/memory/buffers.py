"""Buffers: tensors that are inside each other taken together, with everything that decides where they can be.

Places in the order of a segment count from 0. A buffer is live from the first write of any tensor in it to the last
read of any.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.compiler.memory.folding import FoldKind, copies_nothing, lies_there
from aneforge.compiler.memory.layout import on_chip_layout
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.ir.layer import Value
    from aneforge.compiler.memory.folding import Folds
    from aneforge.compiler.memory.layout import Banks, Layout
    from aneforge.compiler.schedule.flow import Flow
    from aneforge.compiler.schedule.rules import Rules

__all__ = ["Buffer", "Buffers"]


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Tensors that share one room."""

    root: Value
    """The tensor in which all others are."""
    members: tuple[str, ...]
    layout: Layout
    """On chip, as a whole."""
    restrided: bool
    writes: tuple[int, ...]
    """Places of the layers that write into it."""
    reads: tuple[int, ...]
    """Places of the layers that read bytes of it, in order."""
    complete: int
    """The place of the last layer that writes bytes of it; -1 where none of the segment does."""
    first: int
    """The place from which it is live."""
    last: int
    """The place until which it is live in the segment."""
    in_dram: bool
    """It is in DRAM whatever the schedule: it comes from outside the segment, or something in it leaves."""

    def reads_within(self, begin: int, end: int) -> int:
        """Return how many layers read it from a place on and before another."""
        return bisect_left(self.reads, end) - bisect_left(self.reads, begin)


@dataclass(eq=False)
class Buffers:
    """The buffers of a segment in a given order."""

    flow: Flow
    folds: Folds
    rules: Rules
    banks: Banks
    order: Sequence[int]
    of: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    """The buffer in which each tensor is."""

    def __post_init__(self) -> None:
        self.inside = dict(self.folds.inside)
        """What is folded still: a buffer that goes to DRAM, where lines are longer, may fall apart."""
        self.places = {number: place for place, number in enumerate(self.order)}
        values = {value.name: value for layer in self.flow.layers for value in (*layer.bottoms, *layer.results)}
        self.values: Mapping[str, Value] = values
        groups: dict[str, list[str]] = {}
        for name in values:
            groups.setdefault(self.folds.roots.get(name, name), []).append(name)
        for root, members in groups.items():
            self.add(root, members)

    def add(self, root: str, members: Sequence[str]) -> None:
        """Add the buffer of some tensors."""
        flow = self.flow
        writes = sorted(self.places[flow.writers[name]] for name in members if name in flow.writers)
        touched = {self.places[reader] for name in members for reader in flow.readers.get(name, ())}
        reads = {
            self.places[reader]
            for name in members
            for reader in flow.readers.get(name, ())
            if not lies_there(self.inside, flow.layers[reader], name)
        }
        writing = [
            place for place in writes if not copies_nothing(self.inside, flow.layers[self.order[place]], self.rules)
        ]
        restrided = self.restrided(members)
        made = Buffer(
            root=self.values[root],
            members=tuple(members),
            layout=on_chip_layout(self.values[root].type, self.banks, restrided=restrided),
            restrided=restrided,
            writes=tuple(writes),
            reads=tuple(sorted(reads)),
            complete=writing[-1] if writing else -1,
            first=writes[0] if writes else 0,
            last=max((*touched, *writes), default=0),
            in_dram=root not in flow.writers or any(name in flow.leaving for name in members),
        )
        self.of.update(dict.fromkeys(members, made))

    def restrided(self, members: Sequence[str]) -> bool:
        """Return whether rows are put into different banks: an engine that minds touches them, and none is a view."""
        if any((fold := self.inside.get(name)) is not None and fold.kind is FoldKind.VIEW for name in members):
            return False
        touching = {number for name in members for number in self.flow.readers.get(name, ())}
        touching.update(self.flow.writers[name] for name in members if name in self.flow.writers)
        return any(self.flow.layers[number].engine in self.rules.restrided_engines for number in touching)

    def split(self, buffer: Buffer) -> None:
        """Take apart, as a buffer goes to DRAM, the tensors that would be in other places there."""
        kept: dict[str, list[str]] = {buffer.root.name: [buffer.root.name]}
        roots = {buffer.root.name: buffer.root.name}
        pending = [name for name in buffer.members if name != buffer.root.name]
        for name in self.by_depth(pending):
            fold = self.inside[name]
            if fold.in_dram:
                roots[name] = roots[fold.inside]
                kept[roots[name]].append(name)
            else:
                del self.inside[name]
                roots[name] = name
                kept[name] = [name]
        if len(kept) > 1:
            for root, members in kept.items():
                self.add(root, members)

    def by_depth(self, names: Sequence[str]) -> list[str]:
        """Return tensors so that each comes after the one in which it is."""
        ordered: list[str] = []
        seen: set[str] = set()
        wanted = set(names)
        for name in names:
            chain: list[str] = []
            now = name
            while now in wanted and now not in seen:
                seen.add(now)
                chain.append(now)
                now = self.inside[now].inside
            ordered += reversed(chain)
        return ordered
