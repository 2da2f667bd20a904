"""A machine that runs a memory plan with names for numbers: who reads a tensor must find that tensor in its bytes.

It knows nothing of how plans are made or verified. Every unit of 16 bytes holds the name of the tensor that was written
there last; a layer writes its results where the plan says and finds its operands there, or the plan is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aneforge.compiler.memory.layout import extents_of
from aneforge.compiler.memory.plan import CHIP, Allocation, Memory, MemoryPlan
from aneforge.ops.types import bits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.schedule.schedule import Schedule

UNIT = 16
Array = npt.NDArray[Any]


class Machine:
    """Memories of names."""

    def __init__(self, program: Program, schedule: Schedule, plan: MemoryPlan) -> None:
        self.program, self.schedule, self.plan = program, schedule, plan
        self.memories = {space.home: np.full(space.size // UNIT + 1, -1) for space in plan.spaces}
        self.memories[CHIP] = np.full(plan.on_chip_bytes // UNIT, -1)
        self.tags: dict[str, int] = {}
        self.made_of: dict[str, frozenset[int]] = {}
        """The names that the bytes of a tensor may have: its own, or those of tensors that lie in its place."""
        self.values: dict[str, Value] = {}
        for value in (*(port.value for port in program.inputs), *(state.read for state in program.states)):
            self.values[value.name] = value
            self.write(value, plan.by_value[value.name])
        for layer in program.layers:
            self.values.update({result.name: result for result in layer.results})
        self.layers = {layer.name: layer for layer in program.layers}
        self.folds = {fold.value: fold for fold in plan.folds}

    def tag(self, name: str) -> int:
        """Return the number that stands for a name."""
        return self.tags.setdefault(name, len(self.tags))

    def units(self, value: Value, one: Allocation) -> Array:
        """Return the units in which the bytes of a tensor are."""
        if one.rows is not None:
            return np.arange(one.offset // UNIT, (one.offset + one.size) // UNIT)
        extents, strides = extents_of(value.shape), one.strides
        row = -(-extents.width * bits(value.type.dtype) // (8 * UNIT))
        begins = np.array([one.offset])
        for count, stride in (
            (extents.batch, strides.batch),
            (extents.depth, strides.depth),
            (extents.channels, strides.channel),
            (extents.rows, strides.row),
        ):
            begins = np.add.outer(begins, np.arange(count) * stride).ravel()
        return np.add.outer(begins // UNIT, np.arange(row)).ravel()

    def write(self, value: Value, one: Allocation, besides: Array | None = None) -> None:
        """Write a tensor, but for units that hold a part of it already."""
        memory = self.memories[one.home]
        held = None if besides is None else memory[besides]
        memory[self.units(value, one)] = self.tag(value.name)
        if besides is not None:
            memory[besides] = held
        self.made_of[value.name] = frozenset({self.tag(value.name)})

    def check(self, value: Value, one: Allocation, reader: str) -> None:
        """Check that the bytes of a tensor are there."""
        found = distinct(self.memories[one.home][self.units(value, one)])
        names = {number: name for name, number in self.tags.items()}
        wrong = found - self.made_of[value.name]
        assert not wrong, f"%{reader} reads %{value.name} and finds {[names.get(one, '?') for one in wrong]}"

    def run(self) -> None:
        """Run all steps, then look at what must be left."""
        for step, names in enumerate(self.schedule.steps):
            self.load(step)
            for window in self.plan.windows:
                if window.step == step:
                    begin, end = window.offset // UNIT, -(-(window.offset + window.size) // UNIT)
                    self.memories[CHIP][begin:end] = self.tag(f"window {window.layer} {window.operand}")
            layers = [self.layers[name] for name in names]
            for layer in layers:
                self.read_all(layer, step)
                self.run_layer(layer)
            rewritten = {one.over for one in self.plan.by_value.values() if one.first == step and one.over}
            for layer in layers:
                self.read_all(layer, step, rewritten)
        for value in (port.value for port in self.program.outputs):
            self.check(value, self.plan.by_value[value.name], "output")
        for state in self.program.states:
            if state.written is not None:
                self.check(state.written, self.plan.by_value[state.written.name], f"state {state.name}")

    def load(self, step: int) -> None:
        """Bring copies on chip."""
        for one in self.plan.allocations:
            if one.loaded and one.first == step:
                value, home = self.values[one.value], self.plan.by_value[one.value]
                members = [name for name, member in self.plan.by_value.items() if member.root == one.value]
                written = frozenset[int]().union(*(self.made_of.get(name, frozenset()) for name in members))
                self.made_of.setdefault(one.value, written)
                self.check(value, home, "a copy")
                tag = self.tag(f"copy of {one.value} at step {step}")
                self.memories[CHIP][one.offset // UNIT : (one.offset + one.size) // UNIT] = tag

    def read_all(self, layer: Layer, step: int, besides: Iterable[str | None] = ()) -> None:
        """Check all operands of a layer."""
        for value in layer.bottoms:
            one = self.plan.by_value[value.name]
            if one.root in besides or self.lies_there(layer, value.name):
                continue
            copies = [copy for copy in self.plan.copies.get(one.root, ()) if copy.first <= step <= copy.last]
            if not copies:
                self.check(value, one, layer.name)
                continue
            found = distinct(
                self.memories[CHIP][copies[0].offset // UNIT : (copies[0].offset + copies[0].size) // UNIT]
            )
            assert found == {self.tag(f"copy of {one.root} at step {copies[0].first}")}, (
                f"%{layer.name}: a copy is gone"
            )

    def lies_there(self, layer: Layer, name: str) -> bool:
        """Return whether a layer need not copy an operand."""
        return any(one in self.folds and self.folds[one].layer == layer.name for one in (name, layer.name))

    def run_layer(self, layer: Layer) -> None:
        """Write the results of a layer; one without a task writes nothing."""
        if layer.name in self.plan.idle:
            parts = [self.made_of[value.name] for value in layer.bottoms]
            self.made_of[layer.name] = frozenset[int]().union(*parts)
            return
        inside = [value for value in layer.bottoms if self.lies_there(layer, value.name)]
        held = [self.units(value, self.plan.by_value[value.name]) for value in inside]
        for result in layer.results:
            self.write(result, self.plan.by_value[result.name], np.concatenate(held) if held else None)
            parts = [self.made_of[value.name] for value in inside]
            self.made_of[result.name] = self.made_of[result.name].union(*parts)


def distinct(numbers: Array) -> set[int]:
    """Return the different numbers, each −1 or a tag, by counting: tags are few, and units are many."""
    return set((np.flatnonzero(np.bincount(numbers + 1)) - 1).tolist())


def least_on_chip(program: Program, schedule: Schedule, plan: MemoryPlan) -> int:
    """Return what the operands and results of one step take on chip at least, at the step where that is most."""
    layers = {layer.name: layer for layer in program.layers}
    most = 0
    for step in schedule.steps:
        rooms: set[tuple[int, int]] = set()
        for name in step:
            for value in (*layers[name].bottoms, *layers[name].results):
                root = plan.by_value[plan.by_value[value.name].root]
                if root.memory is Memory.L2:
                    rooms.add((root.offset, root.size))
        most = max(most, sum(size for _, size in rooms))
    return most
