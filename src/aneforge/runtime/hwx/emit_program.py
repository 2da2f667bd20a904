"""`emit`: a compiled program as containers whose tasks the engine reads.

Every tensor between layers goes through scratch memory, and each layer's tasks pass results only on chip: that is what
single operations and products of two tensors were seen to do. How the compiler orders on-chip buffers of long chains,
and what some bits of the common configuration mean there, is not known; the note in the file says so.
"""

from __future__ import annotations

import itertools
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge._version import __version__
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.memory.arena import Arena
from aneforge.errors import HwxError, Location
from aneforge.formats.hwx.assembly import FRAMED_PROGRAMS, NO_CONSTANTS, STYLES, Parts, PlannedPort, assemble
from aneforge.formats.hwx.container import Direction
from aneforge.formats.hwx.descriptors.codec import encode_tasks
from aneforge.formats.hwx.descriptors.meaning import meaning
from aneforge.formats.hwx.emission.draft import link
from aneforge.formats.hwx.emission.surfaces import Access, Extent, Surface, surface_of
from aneforge.formats.hwx.layer_notes import TaskLayer, layer_lines
from aneforge.formats.hwx.program_tasks import count_events
from aneforge.graph.graph import expect_values
from aneforge.records import dataclass
from aneforge.rules.catalogue import rules
from aneforge.rules.subject import EMISSION, Operation
from aneforge.runtime.hwx.constant_pool import ConstantPool
from aneforge.runtime.hwx.framed_layers import single_task
from aneforge.runtime.hwx.layer_steps import steps_of
from aneforge.runtime.hwx.move_steps import is_view
from aneforge.runtime.hwx.step import extent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Port, Program
    from aneforge.compiler.memory.plan import MemoryPlan
    from aneforge.formats.hwx.container import Container
    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.graph.graph import GraphLike
    from aneforge.rules.rule import Finding
    from aneforge.runtime.hwx.framed_layers import SingleTask
    from aneforge.runtime.hwx.step import Step
    from aneforge.targets import Target, TargetLike

__all__ = ["EmittedFile", "EmittedProgram", "RefusedLayer", "emit", "emit_compiled"]

INFERRED = (
    "inferred: tensors between layers go through scratch memory, flags and events of tasks in long chains, "
    "post scales other than 1, convolutions whose rows and columns are left out afterwards, reshapes, parts and joins "
    "that move elements within a line, order of buffers on chip and bits 22 to 25 of the common configuration are not "
    "those of a known program"
)
"""What the file says of itself."""
FRAMED_INFERRED = (
    "inferred: segments, symbols and places of constants of this generation, of which no whole file was read, "
    "and tasks with a table or with a repeated tensor, but for those that were read"
)
"""What a file of a later generation says of itself."""
GENERATION = 7
FRAMED_STYLE = "v9"
"""Layout of files of later generations."""
ONE_EVENT_MORE = EMPTY_FRAME = 11
"""Programs of this generation state one debug event more than their tasks have (hwx-programs 1.4)."""
CONSTANT_BAR, SCRATCH_BAR, FIRST_PORT_BAR, MOST_PORTS = 1, 3, 4, 28
SCRATCH_SIZE = 1 << 30
PAGE = 0x4000


SHOWN_PARTS = 12
"""How many files and refused layers of a program are printed."""


@dataclass(frozen=True, slots=True)
class RefusedLayer:
    """A layer that no known program computes."""

    name: str
    kind: str
    reason: str

    location: Location | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}): {self.reason}"

    def finding(self, target: Target) -> Finding:
        """Return the refusal as a finding of the rule engine, with its remedy.

        Raises:
            HwxError: No rule has the id with which the reason begins.
        """
        subject = Operation(EMISSION, attributes={"refusal": self.reason}, location=self.location)
        for one in rules().values():
            if one.ops is not None and EMISSION in one.ops and (found := one.check(subject, target)):
                return found
        raise HwxError("a refusal must begin with the id of a rule", seen=self.reason)


@dataclass(frozen=True, slots=True)
class EmittedFile:
    """One container, and which of its tasks compute which layer.

    >>> import aneforge as af
    >>> made = emit(af.input((1, 16, 8, 8), name="x").relu(), af.targets.Family.A13).files[0]
    >>> made.layers, made.inputs, made.outputs, made.container.size
    ({0: 't1'}, ('x',), ('y',), 49152)
    """

    container: Container
    layers: Mapping[int, str]
    """Names of layers by the numbers of tasks."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.container}; layers: {len(set(self.layers.values()))}"


@dataclass(frozen=True, slots=True)
class EmittedProgram:
    """What a program became: one file where every layer has a known program, otherwise files of what is between.

    >>> import aneforge as af
    >>> made = emit(af.input((1, 16, 8, 8), name="x").relu().erf(), af.targets.Family.A13)
    >>> made.whole, len(made.files), len(made.refused)
    (False, 0, 1)
    """

    files: tuple[EmittedFile, ...]
    refused: tuple[RefusedLayer, ...]
    same: Mapping[str, str] = field(default_factory=dict[str, str])
    """Outputs that have no port of their own: what they are is another output, or an input that nothing changes."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said of outputs without a port of their own."""
        return tuple(f"output {name!r} has no port of its own: it is {other!r}" for name, other in self.same.items())

    def __str__(self) -> str:
        shown = [*map(str, self.files), *(f"refused: {one}" for one in self.refused), *self.remarks]
        more = len(shown) - SHOWN_PARTS
        return "\n".join([*shown[:SHOWN_PARTS], *([f"and {more} more files and refused layers"] * (more > 0))])

    @property
    def whole(self) -> bool:
        """The first file is the whole program."""
        return not self.refused and len(self.files) == 1


def emit(graph: GraphLike, target: TargetLike = None, *, style: str = "v9") -> EmittedProgram:
    """Return a graph compiled for a target, as containers of tasks.

    >>> import aneforge as af
    >>> made = emit(af.input((1, 16, 8, 8), name="x").relu(), af.targets.Family.A13)
    >>> made.whole, made.files[0].layers
    (True, {0: 't1'})

    Raises:
        IllegalGraphError: An operation cannot run there.
        NotSupportedError: An operation has no form there.
        HwxError: No program of the target's generation is known, or none in this layout, or the program keeps states.
    """
    return emit_compiled(compile_graph(graph, target), style=style)


def emit_compiled(compiled: Compiled, *, style: str = "v9") -> EmittedProgram:
    """Return a compiled program as containers.

    `style` is the version of the compiler whose layout the files have; v4 and v5 are what files for the Linux driver
    are made from. Of generations after 7 every layer that is one elementwise task has a file of its own.

    Raises:
        HwxError: No program of the target's generation is known, or none in this layout, or the program keeps states.
    """
    program = compiled.program
    generation = program.target.descriptor_generation
    expect_values(compiled.graph, "a container of tasks")
    if generation is None or generation not in {GENERATION, *FRAMED_PROGRAMS}:
        raise HwxError(
            "ANE-EMIT-010: no program of this generation is known",
            seen=generation,
            limit=sorted((GENERATION, *FRAMED_PROGRAMS)),
            target=program.target.name,
        )
    if generation != GENERATION and style != FRAMED_STYLE:
        raise HwxError(
            "ANE-EMIT-010: this layout is known only of generation 7",
            seen=f"{style} for generation {generation}",
            target=program.target.name,
        )
    if program.states:
        raise HwxError("ANE-EMIT-013: no program that keeps states is known", seen=[one.name for one in program.states])
    by_name = {layer.name: layer for layer in program.layers}
    order = [by_name[name] for part in compiled.schedule.partitions for name in part.layers]
    if generation in FRAMED_PROGRAMS:
        files, refused = emit_alone(program, order, generation)
        return EmittedProgram(files, refused, outputs_without_ports(program))
    planned, refused = plan_layers(order, compiled.plan)
    files, unfit = emit_parts(program, order, planned, style)
    return EmittedProgram(files, in_order((*refused, *unfit), order), outputs_without_ports(program))


def emit_alone(
    program: Program, order: Sequence[Layer], generation: int
) -> tuple[tuple[EmittedFile, ...], tuple[RefusedLayer, ...]]:
    """Return a file of one task for each layer of a later generation that has one, and the other layers."""
    files: list[EmittedFile] = []
    refused: list[RefusedLayer] = []
    for layer in order:
        try:
            files.append(emit_single(program, layer, single_task(layer, generation)))
        except HwxError as error:
            refused.append(refused_layer(layer, error))
    return tuple(files), tuple(refused)


def emit_single(program: Program, layer: Layer, made: SingleTask) -> EmittedFile:
    """Return the file of one task; ports have base registers in the order first source, result, second source."""
    inputs = {port_name(program.inputs, value): value for value in made.sources}
    name = port_name(program.outputs, layer.result)
    outputs = {f"{name}_result" if name in inputs else name: layer.result}
    first, *others = inputs.items()
    ports = [
        PlannedPort(port, Direction.OUTPUT if port in outputs else Direction.INPUT, port_shape(value))
        for port, value in (first, *outputs.items(), *others)
    ]
    owner = {0: TaskLayer(layer.name, layer.kind.name)}
    parts = Parts(
        cpu_subtype=program.target.cpu_subtype or 0,
        text=encode_alone(made.task),
        first_task_words=made.task.size,
        task_count=1,
        ports=ports,
        constants=memoryview(made.constants),
        constant_symbols=() if made.constants == NO_CONSTANTS else ((f"K{0:064x}", 0),),
        debug_events=count_events([made.task], "debug_log_events") + (made.task.generation == ONE_EVENT_MORE),
        log_events=count_events([made.task], "log_events"),
        largest_estimate=made.task.integer("header.execution_cycles") or 0,
        identification="\n".join((f"aneforge {__version__}", FRAMED_INFERRED, *layer_lines(owner))),
        name="main",
    )
    return EmittedFile(assemble(parts, STYLES[FRAMED_STYLE]), {0: layer.name}, tuple(inputs), tuple(outputs))


def encode_alone(task: Task) -> memoryview:
    """Return the bytes of a task after its frame, which begins with 1 except in generation 11 (hwx-programs 2.2)."""
    words = np.array(encode_tasks([task]), dtype="<u4")
    words[0] = task.generation != EMPTY_FRAME
    return memoryview(words.tobytes())


def outputs_without_ports(program: Program) -> dict[str, str]:
    """Return outputs whose values another port has, by that port."""
    known = {port.value.name: port.name for port in program.inputs}
    found: dict[str, str] = {}
    for port in program.outputs:
        if port.value.name in known:
            found[port.name] = known[port.value.name]
        known.setdefault(port.value.name, port.name)
    return found


def plan_layers(
    order: Sequence[Layer], plan: MemoryPlan
) -> tuple[dict[str, tuple[Step, ...]], tuple[RefusedLayer, ...]]:
    """Return the steps of every layer that has some, and the layers that have none."""
    planned: dict[str, tuple[Step, ...]] = {}
    refused: list[RefusedLayer] = []
    for layer in order:
        try:
            planned[layer.name] = steps_of(layer, plan.places.get(layer.name))
        except HwxError as error:
            refused.append(refused_layer(layer, error))
    return planned, tuple(refused)


def refused_layer(layer: Layer, error: HwxError) -> RefusedLayer:
    """Return a layer with the reason why it has no tasks."""
    return RefusedLayer(layer.name, layer.kind.name, str(error), layer.location)


def in_order(refused: Sequence[RefusedLayer], order: Sequence[Layer]) -> tuple[RefusedLayer, ...]:
    """Return refused layers in the order of the program."""
    places = {layer.name: place for place, layer in enumerate(order)}
    return tuple(sorted(refused, key=lambda one: places[one.name]))


def emit_parts(
    program: Program, order: Sequence[Layer], planned: Mapping[str, tuple[Step, ...]], style: str
) -> tuple[tuple[EmittedFile, ...], tuple[RefusedLayer, ...]]:
    """Return the files of a program, and the layers whose tasks do not fit the chip, which are left out of them."""
    refused: list[RefusedLayer] = []
    while True:
        kept = {name: steps for name, steps in planned.items() if name not in {one.name for one in refused}}
        files: list[EmittedFile] = []
        for part in split_at_refused(order, kept):
            made = emit_part(program, part, kept, style)
            if isinstance(made, RefusedLayer):
                refused.append(made)
                break
            files.append(made)
        else:
            return tuple(files), tuple(refused)


def split_at_refused(order: Sequence[Layer], planned: Mapping[str, object]) -> Iterable[list[Layer]]:
    """Yield runs of layers that are emitted together: what is refused, and the end of a segment, cut them."""
    groups = itertools.groupby(order, key=lambda layer: (layer.name in planned, layer.segment))
    for (emitted, _), layers in groups:
        if emitted:
            yield list(layers)


def emit_part(
    program: Program, layers: Sequence[Layer], planned: Mapping[str, tuple[Step, ...]], style: str
) -> EmittedFile | RefusedLayer:
    """Return the container of some layers: what they read from outside is an input, what is read outside an output.

    Where the tasks of a layer do not fit the chip, that layer is returned.
    """
    homes = Homes.of(program, layers, style)
    pool = ConstantPool()
    drafts: list[Draft] = []
    owners: dict[int, TaskLayer] = {}
    for index, layer in enumerate(layers):
        if not homes.is_alias(layer):
            try:
                made = list(emit_layer(layer, planned[layer.name], homes, pool))
            except HwxError as error:
                return refused_layer(layer, error)
            owners |= {len(drafts) + place: TaskLayer(layer.name, layer.kind.name) for place in range(len(made))}
            drafts += made
        homes.release(index)
    tasks = link(drafts, GENERATION, full=STYLES[style].outputs_first)
    notes = "\n".join((f"aneforge {__version__}", INFERRED, *layer_lines(owners)))
    parts = parts_of(tasks, pool, homes, notes, program.target.cpu_subtype or 0)
    names = {task: layer.name for task, layer in owners.items()}
    return EmittedFile(assemble(parts, STYLES[style]), names, tuple(homes.inputs), tuple(homes.outputs))


def emit_layer(layer: Layer, steps: Sequence[Step], homes: Homes, pool: ConstantPool) -> Iterable[Draft]:
    """Yield the tasks of a layer; what its steps pass on has room of its own in scratch memory."""
    sources = [homes.read(value) for value in dict.fromkeys(layer.bottoms)]
    for step, last in zip(steps, [False] * (len(steps) - 1) + [True], strict=True):
        room = homes.room(step.scratch) if step.scratch else 0
        if last:
            yield from step.emit(sources, homes.written_surface(layer.result), pool, room)
            return
        between = homes.temporary(step.result)
        yield from step.emit(sources, between, pool, room)
        sources = [between]


class Homes:
    """Where the tensors of a file are: ports have base registers of their own, others share scratch memory."""

    def __init__(self, inputs: Mapping[str, Value], outputs: Mapping[str, Value], *, outputs_first: bool) -> None:
        self.inputs = inputs
        """Ports that are read, by name."""
        self.outputs = outputs
        """Ports that are written, by name."""
        names = (*outputs, *inputs) if outputs_first else (*inputs, *outputs)
        if len(names) > MOST_PORTS:
            raise HwxError("ANE-EMIT-014: a program has too few base registers", seen=len(names), limit=MOST_PORTS)
        self._bars = {name: FIRST_PORT_BAR + place for place, name in enumerate(names)}
        self._ports = {value.name: name for name, value in (*inputs.items(), *outputs.items())}
        self._alias: dict[str, str] = {}
        self._arena = Arena(SCRATCH_SIZE)
        self._places: dict[str, tuple[int, int]] = {}
        self._last: dict[str, int] = {}
        self._temporary: list[tuple[int, int]] = []

    @classmethod
    def of(cls, program: Program, layers: Sequence[Layer], style: str) -> Homes:
        """Return the homes of the tensors of some layers of a program."""
        made = {layer.name for layer in layers}
        read = {value.name: value for layer in layers for value in layer.bottoms if value.name not in made}
        inputs = {port_name(program.inputs, value): value for value in read.values()}
        kept = {port.value.name for port in program.outputs}
        outside = {value.name for layer in program.layers if layer.name not in made for value in layer.bottoms}
        results = [layer.result for layer in layers if layer.name in kept | outside]
        named = {port_name(program.outputs, value): value for value in results}
        outputs = {f"{name}_result" if name in inputs else name: value for name, value in named.items()}
        homes = cls(inputs, outputs, outputs_first=STYLES[style].outputs_first)
        homes.find_aliases(layers)
        return homes

    def find_aliases(self, layers: Sequence[Layer]) -> None:
        """Note which views share the memory of what they view, and when each tensor is last read."""
        taken: set[str] = set()
        for layer in layers:
            if not is_view(layer):
                continue
            root, name = self.root(layer.bottoms[0].name), layer.name
            if name not in self._ports:
                self._alias[name] = root
            elif root not in self._ports and root not in taken:
                self._alias[root] = name
                taken.add(name)
        for index, layer in enumerate(layers):
            for value in (*layer.bottoms, layer.result):
                self._last[self.root(value.name)] = index

    def root(self, name: str) -> str:
        """Return the tensor whose memory a tensor has."""
        while name in self._alias:
            name = self._alias[name]
        return name

    def is_alias(self, layer: Layer) -> bool:
        """Return whether a layer moves nothing."""
        return is_view(layer) and self.root(layer.name) == self.root(layer.bottoms[0].name)

    def read(self, value: Value) -> Surface:
        """Return the surface of a tensor that is read."""
        surface = self._surface(value)
        port = self._ports.get(self.root(value.name))
        return surface if port in self.inputs else replace(surface, access=Access.WRITTEN_BEFORE)

    def written_surface(self, value: Value) -> Surface:
        """Return the surface of a tensor that is written: room in scratch memory where it is not an output."""
        surface = self._surface(value)
        return surface if self.root(value.name) in self._ports else replace(surface, access=Access.WRITTEN_BEFORE)

    def _surface(self, value: Value) -> Surface:
        extent, root = extent_of(value.type), self.root(value.name)
        if root in self._ports:
            return surface_of(extent, self._bars[self._ports[root]])
        if root not in self._places:
            size = surface_of(extent, SCRATCH_BAR).depth
            self._places[root] = (self._take(size), size)
        return surface_of(extent, SCRATCH_BAR, base=self._places[root][0])

    def temporary(self, extent: Extent) -> Surface:
        """Return the surface of what one step of a layer passes to the next."""
        place = self.room(surface_of(extent, SCRATCH_BAR).depth)
        return replace(surface_of(extent, SCRATCH_BAR, base=place), access=Access.WRITTEN_BEFORE)

    def room(self, size: int) -> int:
        """Return room in scratch memory that is free again after the layer."""
        place = self._take(size)
        self._temporary.append((place, size))
        return place

    def _take(self, size: int) -> int:
        place = self._arena.take(size)
        if place is None:
            raise HwxError("ANE-EMIT-014: the tensors do not fit scratch memory", seen=size, limit=SCRATCH_SIZE)
        return place

    def release(self, index: int) -> None:
        """Free what is not read after a layer."""
        for place, size in self._temporary:
            self._arena.give_back(place, size)
        self._temporary.clear()
        for name in [name for name in self._places if self._last[name] == index]:
            self._arena.give_back(*self._places.pop(name))

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        return self._arena.highest


def port_name(ports: Sequence[Port], value: Value) -> str:
    """Return the name of a port: the program's, or the tensor's where the file is a part of it."""
    return next((port.name for port in ports if port.value.name == value.name), value.name)


def parts_of(tasks: Sequence[Task], pool: ConstantPool, homes: Homes, identification: str, cpu_subtype: int) -> Parts:
    """Return what a container of tasks is assembled from."""
    words = np.array(encode_tasks(tasks), dtype="<u4")
    ports = [
        PlannedPort(name, direction, port_shape(value))
        for direction, side in ((Direction.INPUT, homes.inputs), (Direction.OUTPUT, homes.outputs))
        for name, value in side.items()
    ]
    names_scratch = any(SCRATCH_BAR in bars_of(task) for task in tasks)
    streams = [stream for task in tasks for stream in streams_of(task)]
    return Parts(
        cpu_subtype=cpu_subtype,
        text=memoryview(words.tobytes()),
        first_task_words=tasks[0].size,
        task_count=len(tasks),
        ports=ports,
        constants=memoryview(pool.content() or NO_CONSTANTS),
        constant_symbols=[symbol for task in tasks for symbol in symbols_of(task)],
        relocations=[word for _, _, _, word in streams],
        scratch=max(homes.scratch, PAGE if names_scratch else 0),
        live_scratch=homes.scratch,
        debug_events=count_events(tasks, "debug_log_events"),
        log_events=count_events(tasks, "log_events"),
        largest_estimate=max(task.integer("header.execution_cycles") or 0 for task in tasks),
        identification=identification,
    )


def port_shape(value: Value) -> tuple[int, int, int, int]:
    """Return the shape of a port: batch, channels, rows, columns."""
    extent = extent_of(value.type)
    return 1, extent.channels, extent.height, extent.width


def bars_of(task: Task) -> set[int | None]:
    """Return the base registers that a task names."""
    names = ("source1", "source2", "result", "kernel")
    return {task.integer(f"header.{name}_bar") for name in names if task.flag(f"header.{name}_bar_enable")}


def symbols_of(task: Task) -> Iterable[tuple[str, int]]:
    """Yield names and places of constants: one for each core's weights, one in all for a table that all cores read."""
    name = f"K{task.integer('header.task_id') or 0:064x}"
    streams = list(streams_of(task))
    if streams and meaning(task).kernel is None:
        yield name, streams[0][2]
        return
    for _, core, place, _ in streams:
        yield f"{name}_ne_{core}", place


def streams_of(task: Task) -> Iterable[tuple[int, int, int, int]]:
    """Yield number, core, place of the coefficients and place of the word that says so, for streams of constants."""
    if not task.flag("kernel_source.enable") or task.integer("header.kernel_bar") != CONSTANT_BAR:
        return
    bases = task.layout.place("kernel_source.coefficient_base").register
    word = task.offset + 4 * len(task.header)
    for record in task.records:
        if record.first <= bases.address < record.first + 4 * record.count:
            word += 4 + bases.address - record.first
            break
        word += 4 + 4 * len(record.values)
    for core in range(bases.count):
        if task.flag("kernel_source.coefficient_enable", core):
            place = task.integer("kernel_source.coefficient_base", core) or 0
            yield task.integer("header.task_id") or 0, core, place, word + 4 * core
