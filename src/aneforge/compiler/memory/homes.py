"""Which space in DRAM a tensor has: the buffer of an input, output or state, one between segments, or scratch.

A state that is written is rewritten in place where everybody who reads the old contents is done by then; otherwise the
new contents have a buffer of their own until the run ends.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.compiler.schedule.flow import rewritable
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program, State
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.compiler.schedule.schedule import Schedule

__all__ = ["Homes", "Lives", "homes_of"]


@dataclass(eq=False)
class Homes:
    """The spaces that tensors have in DRAM if they are there."""

    of: dict[str, str] = field(default_factory=dict[str, str])
    """By the name of the tensor; a tensor of a segment's scratch is not there."""
    rewritten: dict[str, str] = field(default_factory=dict[str, str])
    """New contents of states, and the old contents that they rewrite in place."""
    notes: list[str] = field(default_factory=list[str])


@dataclass(eq=False)
class Lives:
    """First writes and readers of tensors, those inside each other taken together."""

    program: Program
    schedule: Schedule
    roots: Mapping[str, str]

    def __post_init__(self) -> None:
        self.members: dict[str, list[str]] = {}
        for member, root in self.roots.items():
            self.members.setdefault(root, []).append(member)

    def together(self, name: str) -> list[str]:
        """Return a tensor that is in no other, and those that are in it."""
        return [name, *self.members.get(name, ())]

    def first_write(self, name: str) -> int:
        """Return the step in which anything is first written into the buffer of a tensor; an input is there at once."""
        if name not in self.program.producers:
            return 0
        writers = [self.program.producers[one] for one in self.together(name) if one in self.program.producers]
        return min(self.schedule.step_of[layer.name] for layer in writers)

    def readers(self, name: str) -> list[Layer]:
        """Return the layers that read anything of the buffer of a tensor."""
        return [layer for one in self.together(name) for layer in self.program.consumers.get(one, ())]

    def last_touch(self, name: str) -> int:
        """Return the last step in which anything of the buffer of a tensor is read or written."""
        writers = [self.program.producers[one] for one in self.together(name) if one in self.program.producers]
        return max((self.schedule.step_of[layer.name] for layer in (*writers, *self.readers(name))), default=0)


def homes_of(program: Program, lives: Lives, rules: Rules) -> Homes:
    """Return the spaces of everything that is not in scratch."""
    found = Homes()
    for port in program.inputs:
        found.of[port.value.name] = f"input {port.name}"
    for state in program.states:
        found.of[state.read.name] = f"state {state.name}"
    outputs = {port.value.name for port in program.outputs}
    for state in program.states:
        if state.written is not None:
            add_written(found, state, state.written, lives, outputs, rules)
    for port in program.outputs:
        if port.value.name in found.of:
            found.notes.append(f"output {port.name} is copied from {found.of[port.value.name]} when the run ends")
        else:
            found.of[port.value.name] = f"output {port.name}"
    add_between_segments(found, program)
    return found


def add_between_segments(found: Homes, program: Program) -> None:
    """Give everything that one segment passes to another a space of its own."""
    for layer in program.layers:
        for result in layer.results:
            readers = program.consumers.get(result.name, ())
            if result.name not in found.of and any(reader.segment != layer.segment for reader in readers):
                found.of[result.name] = f"between segments {result.name}"


def add_written(found: Homes, state: State, written: Value, lives: Lives, outputs: set[str], rules: Rules) -> None:
    """Give the new contents of a state a space: that of the old ones, where nobody reads those any more."""
    if written.name == state.read.name:
        return
    if written.name in found.of:
        found.notes.append(f"state {state.name} is copied from {found.of[written.name]} when the run ends")
        return
    if written.name in outputs:
        found.notes.append(f"state {state.name} is an output too and is copied when the run ends")
        return
    writer, step_of = lives.program.producers[written.name], lives.schedule.step_of
    step = lives.first_write(written.name)
    allowed = writer.name if state.read.name in rewritable(writer, rules) else ""
    late = [
        layer.name
        for layer in lives.readers(state.read.name)
        if step_of[layer.name] > step or (step_of[layer.name] == step and layer.name != allowed)
    ]
    if late:
        found.of[written.name] = f"next {state.name}"
        found.notes.append(f"state {state.name} is not rewritten in place: %{late[0]} still reads the old contents")
        return
    found.of[written.name] = f"state {state.name}"
    found.rewritten[written.name] = state.read.name
