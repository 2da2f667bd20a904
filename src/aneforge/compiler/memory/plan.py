"""What a memory plan is: an allocation for every tensor, windows of streams, packed weights, and a timeline."""

from __future__ import annotations

# The plan is written to JSON and read back, so the types of its fields are needed when it runs.
from collections.abc import Mapping  # noqa: TC003 - read from JSON
from dataclasses import field
from enum import IntEnum, StrEnum
from functools import cached_property

from aneforge.compiler.memory.folding import Fold, Refusal  # noqa: TC001 - read from JSON
from aneforge.compiler.memory.layout import Strides  # noqa: TC001 - read from JSON
from aneforge.compiler.memory.task_places import LayerPlaces
from aneforge.compiler.memory.weights import PackedWeights  # noqa: TC001 - read from JSON
from aneforge.display import as_html, cut_lines
from aneforge.records import dataclass

__all__ = ["CHIP", "RESULT", "Allocation", "AllocationState", "Memory", "MemoryPlan", "Moment", "Space", "Window"]


CHIP = "chip"
"""The space on chip."""
RESULT = "result"
"""What a window is for, where it is not an operand."""


class AllocationState(IntEnum):
    """The nine states of a tensor's allocation (table 22.2 of the guide)."""

    RESIDENT = 0
    """Plain on-chip resident operand."""
    STREAMED = 1
    """Streamed from dynamic memory."""
    CHAINED = 2
    """Supplies the next operation directly in L2: the double-buffer state."""
    DEPENDENT = 3
    """Depends on an L2 producer."""
    IN_PLACE = 4
    """In-place rewrite in L2."""
    IN_PLACE_DEPENDENT = 5
    """In-place rewrite, L2-dependent."""
    RING = 6
    """Ring-buffer resident."""
    RING_DEPENDENT = 7
    """Ring-buffer resident, L2-dependent."""
    IN_PLACE_DRAM = 8
    """In-place in dynamic memory."""

    @property
    def in_dram(self) -> bool:
        """Its tensors are in DRAM."""
        return self in (AllocationState.STREAMED, AllocationState.IN_PLACE_DRAM)


class Memory(StrEnum):
    """The two memories that the plan gives room in."""

    L2 = "L2"
    """On chip."""
    DRAM = "DRAM"


@dataclass(frozen=True, slots=True)
class Allocation:
    """Room of a tensor in a memory for some steps."""

    value: str
    state: AllocationState
    memory: Memory
    home: str
    """The space in that memory: the chip, the scratch of a segment, an input, an output, a state."""
    offset: int
    size: int
    """Bytes from the first of the tensor to its last; parts of another tensor may be in between."""
    strides: Strides
    first: int
    last: int
    """The first and the last step in which it is needed, both counted."""
    root: str
    """The tensor inside which it is; itself, if inside none."""
    rows: int | None = None
    """How many rows of a chained tensor are there at a time; None for all of it."""
    over: str | None = None
    """The tensor that it rewrites in place."""
    loaded: bool = False
    """It is a copy on chip of what has its room in DRAM."""
    bank_requests: tuple[int, int] | None = None
    """How often the banks are asked for a column of rows: as the rows would be without a gap, and as they are."""


@dataclass(frozen=True, slots=True)
class Window:
    """On-chip room through which a tensor in DRAM streams while a layer runs."""

    layer: str
    operand: str
    """The name of the operand, or `result`."""
    value: str
    offset: int
    size: int
    rows: int
    """Whole rows that it holds; 0 where it holds a part of one."""
    step: int


@dataclass(frozen=True, slots=True)
class Space:
    """A space in DRAM and the bytes that it takes."""

    home: str
    size: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What is on chip in one step."""

    step: int
    buffers: int
    """Bytes of buffers."""
    windows: int
    """Bytes of windows of streams."""

    @property
    def total(self) -> int:
        """All bytes."""
        return self.buffers + self.windows


@dataclass(frozen=True)
class MemoryPlan:
    """Where every tensor of a scheduled program is."""

    target: str
    on_chip_bytes: int
    allocations: tuple[Allocation, ...]
    windows: tuple[Window, ...]
    weights: tuple[PackedWeights, ...]
    spaces: tuple[Space, ...]
    """The spaces in DRAM."""
    timeline: tuple[Moment, ...]
    peak: int
    """The most bytes that are on chip at once, windows of streams included."""
    idle: tuple[str, ...]
    """Layers without a task: what they would copy is where it must."""
    folds: tuple[Fold, ...]
    refused_folds: tuple[Refusal, ...]
    notes: tuple[str, ...]
    places: Mapping[str, LayerPlaces] = field(default_factory=dict[str, LayerPlaces])
    """By layer: where its tasks keep their sources on chip, and in which pieces they work. Layers alike have one."""

    @cached_property
    def by_value(self) -> Mapping[str, Allocation]:
        """The allocation of every tensor; copies on chip left out."""
        return {one.value: one for one in self.allocations if not one.loaded}

    @cached_property
    def copies(self) -> Mapping[str, list[Allocation]]:
        """The copies on chip of tensors in DRAM, by the tensor."""
        found: dict[str, list[Allocation]] = {}
        for one in self.allocations:
            if one.loaded:
                found.setdefault(one.value, []).append(one)
        return found

    def __str__(self) -> str:
        from aneforge.compiler.memory.print_plan import plan_text  # noqa: PLC0415 - it imports this module

        return cut_lines(plan_text(self).splitlines())

    def _repr_html_(self) -> str:
        return as_html(self)
