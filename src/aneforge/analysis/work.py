"""What every layer of a compiled program does: multiplies, weights, tensors moved, by where the memory plan keeps them.

Everything is counted from the program, its schedule and its memory plan; rates and times are `cost.py`'s.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from aneforge.analysis.files import model
from aneforge.analysis.held_constants import HeldConstants
from aneforge.analysis.heuristic import layer_size
from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.memory.layout import extents_of
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.passes.kernels import kernel_of
from aneforge.compiler.schedule.schedule import schedule
from aneforge.ops.table import find_op
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program, Segment
    from aneforge.compiler.memory.plan import MemoryPlan
    from aneforge.compiler.passes.kernels import Kernel
    from aneforge.compiler.schedule.schedule import Schedule
    from aneforge.errors import Location
    from aneforge.ops.op import Op
    from aneforge.ops.types import TensorType

HALF = 2
"""Bytes of an fp16 value."""
NOTHING = "nothing to run: the outputs are the inputs, so there is no program"
"""What is said of a program without layers."""

__all__ = ["NOTHING", "LayerWork", "Planned", "ProgramWork", "SegmentWork", "macs_of", "plan_program", "work_of"]

WORK_UNIT = "neural_engine_work_unit"
"""The HAL field that says how many pixels the array takes at a time."""


@runtime_checkable
class Planned(Protocol):
    """What was compiled to the end: `compile_graph` returns it, and a model that was loaded is one."""

    @property
    def program(self) -> Program:
        """The legal program."""
        ...

    @property
    def schedule(self) -> Schedule:
        """The order of its layers."""
        ...

    @property
    def plan(self) -> MemoryPlan:
        """Where its tensors are."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedProgram:
    """A program with its schedule and its memory plan."""

    program: Program
    schedule: Schedule
    plan: MemoryPlan


def plan_program(program: Program) -> PlannedProgram:
    """Return a program with the schedule and the memory plan that are made for it."""
    order = schedule(program)
    return PlannedProgram(program, order, plan(program, order))


@dataclass(frozen=True, slots=True)
class LayerWork:
    """What one layer does."""

    name: str
    kind: str
    engine: str
    segment: int
    location: Location | None
    macs: int
    """Multiply-accumulates of the direct form."""
    utilisation: float
    """Share of the array that they keep busy: whole lanes of output channels, whole work units of pixels."""
    winograd: bool | str
    """`unknown` where it is not measured whether the target uses it; it is then priced as the direct form."""
    weight_bytes: int
    aliased: bool
    """Its number of input channels is one with which weights were seen to be read slowly, on some chips."""
    reread_bytes: int
    """Activations read from DRAM again: for the next part of the weights, by a later part of a split layer, or where
    tiles of a result share rows."""
    dram_bytes: int
    """What crosses the border of its program: inputs read the first time, and outputs written."""
    chip_bytes: int
    """What stays inside the program, and inputs that are read again.

    Tensors that the plan here puts into DRAM are in it too: networks run as if those never left the chip.
    """
    elements: int
    element_class: str | None
    """The class of `model.toml` whose cost for an element holds."""
    alone: bool
    """It reads nothing but inputs of its program and writes nothing but outputs."""
    idle: bool
    """It has no task: what it would copy is where it must."""
    shares_weights: bool = False
    """Its constants are those of an earlier layer, which a program holds once."""


@dataclass(frozen=True, slots=True)
class SegmentWork:
    """What the host moves for one program: a segment is one."""

    number: int
    bytes_in: int
    bytes_out: int
    bridge: str | None = None
    """The operation, where the segment is a layer that needs a program of its own."""
    bridge_work: int | None = None
    """The number that the time of such a layer is scaled with."""


@dataclass(frozen=True, slots=True)
class ProgramWork:
    """What a compiled program does."""

    target: str
    layers: tuple[LayerWork, ...]
    segments: tuple[SegmentWork, ...]
    keeps_states: bool
    """It is one step of many, such as a token of a language model."""

    @property
    def macs(self) -> int:
        """All multiply-accumulates."""
        return sum(layer.macs for layer in self.layers)

    @property
    def held_bytes(self) -> int:
        """The weights that it holds: those of several layers once."""
        return sum(layer.weight_bytes for layer in self.layers if not layer.shares_weights)

    @property
    def dram_bytes(self) -> int:
        """Everything that the engine moves to and from DRAM."""
        return sum(layer.weight_bytes + layer.reread_bytes + layer.dram_bytes for layer in self.layers)


def work_of(compiled: Planned) -> ProgramWork:
    """Return what every layer of a compiled program does.

    >>> import numpy as np
    >>> import aneforge as af
    >>> from aneforge.compiler.compile import compile_graph
    >>> x, weights = af.input((1, 16, 8, 8)), np.ones((32, 16, 3, 3), np.float16)
    >>> (layer,) = work_of(compile_graph(af.conv(x, weights, pad=1), af.targets.Family.A13)).layers
    >>> layer.macs == 32 * 16 * 9 * 64, layer.dram_bytes == 2 * (16 + 32) * 64
    (True, True)
    """
    counter = Counter(compiled)
    layers = tuple(counter.layer_work(layer) for layer in compiled.program.layers)
    return ProgramWork(compiled.program.target.name, layers, segments_of(compiled), bool(compiled.program.states))


def segments_of(compiled: Planned) -> tuple[SegmentWork, ...]:
    """Return what the host copies for every segment: what it reads from outside, and what is read outside of it."""
    program = compiled.program
    made = {result.name: layer.segment for layer in program.layers for result in layer.results}
    reads: dict[int, dict[str, int]] = {}
    writes: dict[int, dict[str, int]] = {}
    for layer in program.layers:
        for value in layer.bottoms:
            if made.get(value.name) != layer.segment:
                reads.setdefault(layer.segment, {})[value.name] = value.type.nbytes
                if value.name in made:
                    writes.setdefault(made[value.name], {})[value.name] = value.type.nbytes
    for port in program.outputs:
        if port.value.name in made:
            writes.setdefault(made[port.value.name], {})[port.value.name] = port.value.type.nbytes
    # States stay in the engine's memory: no copy is made for them.
    for state in program.states:
        for known in reads.values():
            known.pop(state.read.name, None)
    return tuple(
        SegmentWork(
            segment.number,
            sum(reads.get(segment.number, {}).values()),
            sum(writes.get(segment.number, {}).values()),
            *(bridge_of(segment) if segment.bridge else (None, None)),
        )
        for segment in program.segments
    )


def bridge_of(segment: Segment) -> tuple[str | None, int | None]:
    """Return the operation of a layer that is a program of its own, and the number that its time is scaled with."""
    layer = next(layer for layer in segment.layers if layer.kind.bridge)
    op = layer.kind.op or layer.kind.name
    return op, layer_size(op, [ref.type for _, ref in layer.refs()], layer.core_types[0])


class Counter:
    """Counts the work of layers in their order, so that a second reading of a tensor is known as one."""

    def __init__(self, compiled: Planned) -> None:
        target = compiled.program.target
        self.plan = compiled.plan
        self.resident = compiled.schedule.working_set_limit
        self.half = compiled.plan.on_chip_bytes // 2
        self.idle = frozenset(compiled.plan.idle)
        self.packed: Mapping[str, int] = {one.layer: one.total_bytes for one in compiled.plan.weights}
        unit = target.hal.get(WORK_UNIT)
        self.pixels = unit if isinstance(unit, int) and unit > 0 else 1
        self.classes = {kind: name for name, one in model().classes.items() for kind in one.kinds}
        self.read: set[tuple[int, str]] = set()
        self.makers = {result.name: layer.segment for layer in compiled.program.layers for result in layer.results}
        self.leaving = frozenset(self.find_root(name) for name in leaving(compiled.program, self.makers))
        self.constants = HeldConstants()
        self.held: set[tuple[int, ...]] = set()

    def layer_work(self, layer: Layer) -> LayerWork:
        """Return the work of one layer."""
        kernel = kernel_of(layer)
        idle = layer.name in self.idle
        first, again, chip, largest = (0, 0, 0, 0) if idle else self.readings(layer)
        written = [] if idle else list(layer.results)
        to_dram = sum(value.type.nbytes for value in written if self.root(value) in self.leaving)
        passes = loads(layer)
        if kernel is not None and passes > 1:
            # Weights that do not fit: either the activations are read for every part of them, or, where these are cut
            # into parts that fit instead, the weights for every part of the activations.
            parts = -(-largest // self.part_bytes(kernel))
            again += min(largest * (passes - 1), self.packed.get(layer.name, 0) * max(0, parts - 1))
        again += 0 if idle else self.overlap_bytes(layer)
        return LayerWork(
            name=layer.name,
            kind=layer.kind.name,
            engine=layer.engine.value,
            segment=layer.segment,
            location=layer.location,
            macs=macs_of(layer, kernel),
            utilisation=utilisation(layer, kernel, self.pixels),
            winograd=cast("bool | str", layer.choices.get("winograd", False)),
            weight_bytes=self.weights(layer),
            aliased=is_aliased(kernel),
            reread_bytes=again,
            dram_bytes=first + to_dram,
            chip_bytes=chip + sum(value.type.nbytes for value in written) - to_dram,
            elements=max([value.type.size for value in (*layer.bottoms, *layer.results)]),
            element_class=self.classes.get(layer.kind.name),
            alone=self.alone(layer),
            idle=idle,
            shares_weights=self.shares_weights(layer),
        )

    def readings(self, layer: Layer) -> tuple[int, int, int, int]:
        """Return bytes read first of inputs, again of inputs, on chip, and of the largest tensor that does not fit."""
        first = again = chip = largest = 0
        # What only moves data reads no more of a tensor than it writes: a slice leaves the rest where it is.
        moves = layer.engine in (Engine.DMA, Engine.TE)
        most = sum(result.type.nbytes for result in layer.results) if moves else None
        for value in layer.bottoms:
            size = value.type.nbytes if most is None else min(value.type.nbytes, most)
            if size > self.resident:
                largest = max(largest, size)
            if self.inside(layer, value):
                chip += size
                continue
            key = layer.segment, self.root(value)
            if key not in self.read:
                self.read.add(key)
                first += size
            elif size > self.resident:
                again += size
            else:
                chip += size
        return first, again, chip, largest

    def overlap_bytes(self, layer: Layer) -> int:
        """Return the bytes of rows that a convolution reads again because tiles of its result share them."""
        places = self.plan.places.get(layer.name)
        if places is None or not places.overlap:
            return 0
        extents = extents_of(layer.bottoms[0].shape)
        return places.overlap * extents.channels * extents.width * HALF

    def part_bytes(self, kernel: Kernel) -> int:
        """Return the bytes of activations that stay on chip at a time: a power of two of rows, in half of the memory.

        The other half takes the next part meanwhile. That the rows are a power of two is what makes a product of side
        6144 slower than its size, as was measured.
        """
        row = max(1, kernel.inner * HALF)
        return row * power_of_two(max(1, self.half // row))

    def alone(self, layer: Layer) -> bool:
        """Return whether a layer reads nothing that its program makes, and makes nothing that its program reads."""
        reads = any(self.inside(layer, value) for value in layer.bottoms)
        return not reads and all(self.root(value) in self.leaving for value in layer.results)

    def weights(self, layer: Layer) -> int:
        """Return the bytes of a layer's constants: as packed where it is a product, else as they are stored."""
        if layer.name in self.packed:
            return self.packed[layer.name]
        return sum(constant.nbytes for _, constant in layer.constants())

    def shares_weights(self, layer: Layer) -> bool:
        """Return whether an earlier layer has the constants of this one, packed alike."""
        held = tuple(self.constants.number(constant) for _, constant in layer.constants())
        if not held:
            return False
        key = (self.weights(layer), *held)
        shared = key in self.held
        self.held.add(key)
        return shared

    def inside(self, layer: Layer, value: Value) -> bool:
        """Return whether a tensor that a layer reads was made by the same program; a part of an input was not."""
        return self.makers.get(self.root(value)) == layer.segment

    def root(self, value: Value) -> str:
        """Return the tensor inside which another is."""
        return self.find_root(value.name)

    def find_root(self, name: str) -> str:
        """Return the name of the tensor inside which the one of a name is."""
        known = self.plan.by_value.get(name)
        return name if known is None else known.root


def leaving(program: Program, makers: Mapping[str, int]) -> frozenset[str]:
    """Return the tensors that leave the program that made them: outputs, states, and what another segment reads."""
    crossing = {
        value.name
        for layer in program.layers
        for value in layer.bottoms
        if makers.get(value.name, layer.segment) != layer.segment
    }
    written = {state.written.name for state in program.states if state.written is not None}
    return frozenset({port.value.name for port in program.outputs} | written | crossing)


def is_aliased(kernel: Kernel | None) -> bool:
    """Return whether a product has as many inputs as were seen to be slow; a layer may hold a part of the outputs."""
    return kernel is not None and kernel.inner > 0 and kernel.inner % int(model().aliased_channels.value) == 0


def power_of_two(number: int) -> int:
    """Return the largest power of two that is no larger."""
    return 1 << (number.bit_length() - 1)


def loads(layer: Layer) -> int:
    """Return how often a product fills the memory for weights: once, but where they stream through it."""
    passes = layer.choices.get("passes")
    return passes if layer.choices.get("kernel_path") == "streamed" and isinstance(passes, int) else 1


def macs_of(layer: Layer, kernel: Kernel | None) -> int:
    """Return the multiply-accumulates of a layer."""
    if kernel is None:
        return operation_macs(layer)
    if layer.kind.name == "deconvolution":
        _, read = next(iter(layer.refs()))  # which may be a constant, where the bias is not
        return read.type.size * kernel.channels * kernel.inner // read.type.shape[1]
    return layer.core_types[0].size * kernel.inner


def operation_macs(layer: Layer) -> int:
    """Return the multiply-accumulates that the op table counts for the operation that a layer is."""
    found: Op | None = None if layer.kind.op is None else find_op(layer.kind.op)
    if found is None or found.macs is None:
        return 0
    types: dict[str, TensorType | tuple[TensorType, ...] | None] = {
        name: tuple(ref.type for ref in argument) if isinstance(argument, tuple) else argument.type
        for name, argument in layer.operands.items()
    }
    return found.work(types, layer.attributes).macs


def utilisation(layer: Layer, kernel: Kernel | None, unit: int) -> float:
    """Return the share of the array that a product keeps busy."""
    if kernel is None or kernel.channels == 0:
        return 1.0
    pixels = max(1, layer.core_types[0].size // kernel.channels)
    share = pixels / (-(-pixels // unit) * unit)
    lanes, tiles, cores = (layer.choices.get(name) for name in ("lanes", "tiles", "active_cores"))
    if isinstance(lanes, tuple) and isinstance(tiles, tuple) and isinstance(cores, int):
        numbers = zip(cast("tuple[int, ...]", lanes), cast("tuple[int, ...]", tiles), strict=False)
        room = sum(math.prod(pair) for pair in numbers) * cores
        share *= min(1.0, kernel.channels / room) if room else 1.0
    return share
