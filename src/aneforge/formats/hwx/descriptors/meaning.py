"""What a task computes, read from its registers: engine, operation, shapes, places, kernel and epilogue.

This is what an executor reads and what the disassembly prints as one line. It says what the words say; a code that no
source explains is `unknown` and not guessed. Evidence of each register is in `layouts/`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.hwx.descriptors.task import Task

__all__ = [
    "CORES",
    "Engine",
    "Epilogue",
    "Extents",
    "Kernel",
    "Location",
    "Operand",
    "Planar",
    "Stream",
    "Surface",
    "TaskMeaning",
    "TaskOperation",
    "Window",
    "meaning",
]

CORES = 16
"""Neural cores that have a coefficient stream of their own."""


class Engine(StrEnum):
    """Which part of the engine works."""

    NEURAL = "NE"
    PLANAR = "PE"


class TaskOperation(StrEnum):
    """Kinds of tasks."""

    CONVOLUTION = "convolution"
    """Multiply and accumulate with a kernel."""
    CHANNEL_SUM = "sum of channels"
    """Multiply and accumulate where every weight is 1 and none is read."""
    CHANNEL_MAXIMUM = "maximum of channels"
    COPY = "copy"
    """The accumulator is passed by; an activation may follow."""
    UNARY = "one source"
    BINARY = "two sources"
    NORMALISE = "normalise"
    """(source 1 - row 0 of source 2) * row 1 of source 2."""
    REDUCE = "reduce"
    REDUCE_PAIR = "reduce two sources"
    POOL = "pool"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Extents:
    """Size of a tensor; in a task of several groups, of one group."""

    channels: int
    height: int
    width: int
    depth: int = 1

    def __str__(self) -> str:
        depth = f"{self.depth}×" if self.depth != 1 else ""
        return f"{self.channels}×{depth}{self.height}×{self.width}"


@dataclass(frozen=True, slots=True)
class Surface:
    """A tensor in memory. A stride is None where the task does not write it: the axis has one element."""

    bar: int | None
    """Base register, or in later generations the slot of the program descriptor, whose address is added."""
    base: int
    row: int | None
    plane: int | None
    depth: int | None
    group: int | None
    interleave: int | None
    """Channels that are side by side; None where the generation's format word is not known."""


@dataclass(frozen=True, slots=True)
class Location:
    """A tensor in L2, or the buffer through which it streams. A stride is None where the task does not write it."""

    base: int
    channel: int | None
    row: int | None
    depth: int | None
    group: int | None
    kind: int
    """Type code: 2 through DMA; 1 and 0 occur in chains within L2."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A source or the result of a task."""

    extents: Extents
    format: str
    memory: Surface | None
    """None where it stays in L2."""
    l2: Location
    transposed: bool = False
    """Channels and width are exchanged."""
    repeated: frozenset[str] = frozenset()
    """Axes that are repeated: width, height, depth, channels."""
    streamed: bool = False
    """The result goes through L2 without being kept there."""
    dependent: bool = False
    """The source was written to memory by an earlier task."""

    @property
    def place(self) -> str:
        """Where it is, as `BAR4+0x0` or `L2+0x2100`."""
        return f"L2+{self.l2.base:#x}" if self.memory is None else address_text(self.memory.bar, self.memory.base)


@dataclass(frozen=True, slots=True)
class Stream:
    """Constants in memory."""

    bar: int | None
    base: int
    size: int

    @property
    def place(self) -> str:
        """Where it is, as `BAR1+0x0`."""
        return address_text(self.bar, self.base)


@dataclass(frozen=True, slots=True)
class Window:
    """What an output of the neural engine sees of its source."""

    width: int
    height: int
    depth: int
    stride_x: int
    stride_y: int
    pad_left: int
    pad_top: int
    unicast: bool
    """Each output channel reads input channels of its own, as many as the next field says."""
    unicast_channels: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """Weights of a convolution."""

    format: str
    lanes: int
    """Output channels that a core computes together."""
    bias: bool
    sparse: bool
    palette_bits: int | None
    """None where the weights are not indices of a palette."""
    runtime: bool
    """The weights are a tensor that another task made."""
    streams: tuple[Stream | None, ...]
    """The constants of each core; None for a core without."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What the neural engine does with the accumulator."""

    accumulator_bias: float
    accumulator_bias_shift: int
    post_scale: float
    post_right_shift: int
    nonlinearity: str
    table: Stream | None
    """The 128 bytes of the activation's table, where there is one and it is not among the weights."""
    range_reduced: bool
    """The table needs the accumulator (DPE category 1)."""


@dataclass(frozen=True, slots=True)
class Planar:
    """What the planar engine computes."""

    operation: str
    reduce: str
    absolute: bool
    negate_source1: bool
    negate_source2: bool
    bias: float
    scale: float
    pre_scale: float
    epsilon: float
    final_scale: float
    post_function: str
    relu: bool


@dataclass(frozen=True, slots=True)
class TaskMeaning:
    """What a task computes.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> (task,) = af.hwx.tasks_of(af.hwx.emit(x.relu(), af.targets.Family.A13).files[0].container)
    >>> print(meaning(task))
    NE copy, relu: 16×8×8 → 16×8×8; BAR4+0x0 → BAR5+0x0
    """

    index: int
    engine: Engine
    operation: TaskOperation
    sources: tuple[Operand, ...]
    result: Operand
    groups: int
    """How often the extents are worked through, with the strides of groups between."""
    cores: int
    """Neural cores at work, rounded up to a power of two; 0 on the planar engine."""
    tile_height: int | None
    patch: tuple[int, int] | None
    """Width and height of a patch of the planar engine; None on the neural engine."""
    dependent_task: int | None
    window: Window | None
    kernel: Kernel | None
    epilogue: Epilogue | None
    planar: Planar | None
    relu_of_source: bool

    def __str__(self) -> str:
        return f"{self.engine} {self.formula}: {self.shapes}; {self.places}"

    @property
    def formula(self) -> str:
        """What is computed, in short."""
        return planar_formula(self.operation, self.planar) if self.planar else neural_formula(self)

    @property
    def shapes(self) -> str:
        """Extents of sources and result."""
        groups = f" in {self.groups} groups" if self.groups != 1 else ""
        result = f"{self.result.extents}{' transposed' if self.result.transposed else ''}"
        return f"{', '.join(dict.fromkeys(str(one.extents) for one in self.sources))} → {result}{groups}"

    @property
    def places(self) -> str:
        """Where sources, constants and result are."""
        read = [one.place for one in self.sources]
        weights = next((stream for stream in self.kernel.streams if stream), None) if self.kernel else None
        read += [f"kernel {weights.place}"] if weights else []
        read += [f"table {self.epilogue.table.place}"] if self.epilogue and self.epilogue.table else []
        return f"{', '.join(read)} → {self.result.place}"


def meaning(task: Task) -> TaskMeaning:
    """Return what a task computes.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> [meaning(task).formula for task in af.hwx.tasks_of(container)]
    ['copy, relu']

    Raises:
        HwxError: The task does not write a register that is needed, and no source gives the default.
    """
    engine = Engine.NEURAL if task.integer("header.neural_cores") else Engine.PLANAR
    neural = engine is Engine.NEURAL
    operation = neural_operation(task) if neural else planar_operation(task)
    return TaskMeaning(
        index=require(task, "header.task_id"),
        engine=engine,
        operation=operation,
        sources=sources_of(task, operation),
        result=result_of(task, operation),
        groups=require(task, "common.groups"),
        cores=1 << require(task, "common.active_cores_log2") if neural else 0,
        tile_height=task.integer("common.tile_height"),
        patch=None if neural else patch_of(task),
        dependent_task=task.integer("header.dependent_task"),
        window=window_of(task) if neural else None,
        kernel=kernel_of(task) if operation is TaskOperation.CONVOLUTION else None,
        epilogue=epilogue_of(task) if neural else None,
        planar=None if neural else planar_of(task),
        relu_of_source=task.flag("l2.input_relu"),
    )


def require(task: Task, name: str, index: int = 0) -> int:
    """Return a field that must be known.

    Raises:
        HwxError: It is not written, and no source gives its default.
    """
    found = task.integer(name, index)
    if found is None:
        raise HwxError(f"task {task.integer('header.task_id')} does not write {name}, and its default is not known")
    return found


def require_number(task: Task, name: str) -> float:
    """Return a floating-point field that must be known.

    Raises:
        HwxError: It is not written, and no source gives its default.
    """
    found = task.number(name)
    if found is None:
        raise HwxError(f"task {task.integer('header.task_id')} does not write {name}, and its default is not known")
    return found


NEURAL_OPERATIONS = {
    (0, False): TaskOperation.CONVOLUTION,
    (0, True): TaskOperation.CHANNEL_SUM,
    (3, True): TaskOperation.CHANNEL_MAXIMUM,
    (4, True): TaskOperation.COPY,
}
"""By the multiply-accumulate unit's operation, and whether weights are left out."""
PLANAR_OPERATIONS = {
    1: TaskOperation.POOL,
    2: TaskOperation.UNARY,
    3: TaskOperation.BINARY,
    4: TaskOperation.NORMALISE,
    5: TaskOperation.REDUCE,
    6: TaskOperation.REDUCE_PAIR,
}
"""By task type."""
TWO_SOURCES = {TaskOperation.BINARY, TaskOperation.NORMALISE, TaskOperation.REDUCE_PAIR}
REDUCTIONS = {TaskOperation.REDUCE, TaskOperation.REDUCE_PAIR}
AXES = ("width", "height", "depth", "channels")
"""Bits of a mask of repeated axes, the lowest first."""


def neural_operation(task: Task) -> TaskOperation:
    """Return the kind of a task of the neural engine."""
    if require(task, "common.task_type"):
        return TaskOperation.UNKNOWN
    unit = require(task, "ne.mac_operation"), task.flag("ne.implicit_ones")
    return NEURAL_OPERATIONS.get(unit, TaskOperation.UNKNOWN)


def planar_operation(task: Task) -> TaskOperation:
    """Return the kind of a task of the planar engine."""
    return PLANAR_OPERATIONS.get(require(task, "common.task_type"), TaskOperation.UNKNOWN)


def sources_of(task: Task, operation: TaskOperation) -> tuple[Operand, ...]:
    """Return what a task reads, weights and tables apart."""
    first = source_of(task, "source1", by_dma=task.flag("source.source1_enable"))
    if operation not in TWO_SOURCES:
        return (first,)
    by_dma = task.flag("common.source2_by_dma") or task.flag("source.source2_enable")
    return first, source_of(task, "source2", by_dma=by_dma)


def source_of(task: Task, name: str, *, by_dma: bool) -> Operand:
    """Return a source: its extents with repeated axes of one element, and its places."""
    mask = require(task, f"common.{name}_broadcast")
    repeated = frozenset(axis for bit, axis in enumerate(AXES) if mask >> bit & 1)
    extents = extents_of(task, "source", repeated)
    return Operand(
        extents=extents,
        format=task.code(f"common.{name}_format") or "unknown",
        memory=surface_of(task, "source", name) if by_dma else None,
        l2=location_of(task, name),
        transposed=task.flag(f"common.{name}_transpose"),
        repeated=repeated,
        dependent=task.flag(f"source.{name}_dependency"),
    )


def result_of(task: Task, operation: TaskOperation) -> Operand:
    """Return what a task writes.

    A reduction leaves one element per channel; its registers repeat the extents of the source.
    """
    reduced = AXES[:3] if operation in REDUCTIONS else ()
    return Operand(
        extents=extents_of(task, "result", frozenset(reduced)),
        format=task.code("common.result_format") or "unknown",
        memory=surface_of(task, "destination", "result") if task.flag("destination.result_enable") else None,
        l2=location_of(task, "result"),
        transposed=task.flag("common.result_transpose") or task.flag("common.output_transpose"),
        streamed=task.flag("l2.result_streamed"),
    )


def extents_of(task: Task, name: str, repeated: frozenset[str] = frozenset()) -> Extents:
    """Return the extents of the source or the result."""
    sizes = {axis: 1 if axis in repeated else require(task, f"common.{name}_{axis}") for axis in AXES}
    return Extents(sizes["channels"], sizes["height"], sizes["width"], sizes["depth"])


def surface_of(task: Task, block: str, name: str) -> Surface:
    """Return where an operand is in memory."""
    stem = f"{block}.{name}"
    strides = (task.integer(f"{stem}_{axis}") for axis in ("row", "plane", "depth_stride", "group"))
    row, plane, depth, group = strides
    interleave = task.integer(f"{stem}_interleave") if task.layout.has(f"{stem}_interleave") else None
    bar = bar_of(task, f"{stem}_base", f"header.{name}_bar")
    return Surface(bar, base_of(task, f"{stem}_base"), row, plane, depth, group, interleave)


def location_of(task: Task, name: str) -> Location:
    """Return where an operand is in L2."""
    stem = f"l2.{name}_l2"
    channel, row, depth, group = (task.integer(f"{stem}_{axis}") for axis in ("channel", "row", "depth", "group"))
    kind = f"l2.{name}_type"
    code = task.integer(kind) if task.layout.has(kind) else task.integer("l2.source1_type")
    return Location(task.integer(f"{stem}_base") or 0, channel, row, depth, group, code or 0)


def bar_of(task: Task, base: str, bar: str) -> int | None:
    """Return the base register of an address, or its slot in generations whose records name it."""
    return task.integer(bar) if task.layout.has(bar) else task.slot(base)


def base_of(task: Task, name: str) -> int:
    """Return an address, with its high word where the generation has one."""
    high = f"{name}_high"
    return (task.integer(name) or 0) | ((task.integer(high) or 0) << 32 if task.layout.has(high) else 0)


def patch_of(task: Task) -> tuple[int, int]:
    """Return width and height of a patch."""
    return 1 << require(task, "common.patch_width_log2"), 1 << require(task, "common.patch_height_log2")


def window_of(task: Task) -> Window:
    """Return what an output sees of its source."""
    return Window(
        width=require(task, "common.kernel_width"),
        height=require(task, "common.kernel_height"),
        depth=require(task, "common.kernel_depth"),
        stride_x=require(task, "common.stride_x"),
        stride_y=require(task, "common.stride_y"),
        pad_left=require(task, "common.pad_left"),
        pad_top=require(task, "common.pad_top"),
        unicast=task.flag("common.unicast"),
        unicast_channels=require(task, "common.unicast_channels"),
    )


def kernel_of(task: Task) -> Kernel:
    """Return the weights of a convolution."""
    return Kernel(
        format=task.code("ne.kernel_format") or "unknown",
        lanes=1 << require(task, "common.lanes_log2"),
        bias=task.flag("ne.has_bias"),
        sparse=task.flag("ne.sparse_kernel"),
        palette_bits=task.integer("ne.palette_bits") if task.flag("ne.palettized") else None,
        runtime=task.flag("ne.runtime_kernel"),
        streams=streams_of(task),
    )


def streams_of(task: Task) -> tuple[Stream | None, ...]:
    """Return the coefficient stream of every core; all None where the task's streams are off."""
    if not task.flag("kernel_source.enable"):
        return (None,) * CORES
    return tuple(stream_of(task, core) for core in range(CORES))


def stream_of(task: Task, core: int) -> Stream | None:
    """Return the coefficient stream of a core; None where it has none."""
    if not task.flag("kernel_source.coefficient_enable", core):
        return None
    framed = task.layout.has("kernel_source.kernel_base")
    bar = task.slot("kernel_source.kernel_base") if framed else task.integer("header.kernel_bar")
    base = base_of(task, "kernel_source.kernel_base") if framed else 0
    offset = require(task, "kernel_source.coefficient_base", core)
    return Stream(bar, base + offset, require(task, "kernel_source.coefficient_size", core))


def epilogue_of(task: Task) -> Epilogue:
    """Return what happens to the accumulator."""
    nonlinearity = task.code("ne.nonlinearity") or "unknown"
    return Epilogue(
        accumulator_bias=require_number(task, "ne.accumulator_bias"),
        accumulator_bias_shift=require(task, "ne.accumulator_bias_shift"),
        post_scale=require_number(task, "ne.post_scale"),
        post_right_shift=require(task, "ne.post_right_shift"),
        nonlinearity=nonlinearity,
        table=table_of(task) if nonlinearity == "table" else None,
        range_reduced=require(task, "common.dpe_category") == 1,
    )


def table_of(task: Task) -> Stream | None:
    """Return the table of an activation: a stream of its own, or the first core's where no weights are read."""
    if task.layout.has("kernel_source.table_base"):
        base = "kernel_source.table_base"
        return Stream(task.slot(base), base_of(task, base), require(task, "kernel_source.table_size"))
    return streams_of(task)[0] if task.flag("ne.implicit_ones") else None


def planar_of(task: Task) -> Planar:
    """Return what the planar engine computes."""
    return Planar(
        operation=task.code("pe.planar_operation") or "unknown",
        reduce=task.code("pe.reduce_kind") or "unknown",
        absolute=task.flag("pe.absolute"),
        negate_source1=task.flag("pe.negate_source1"),
        negate_source2=task.flag("pe.negate_source2"),
        bias=require_number(task, "pe.bias"),
        scale=require_number(task, "pe.scale"),
        pre_scale=require_number(task, "pe.pre_scale"),
        epsilon=require_number(task, "pe.epsilon"),
        final_scale=require_number(task, "pe.final_scale"),
        post_function=task.code("pe.post_function") or "unknown",
        relu=task.flag("pe.relu"),
    )


def address_text(bar: int | None, base: int) -> str:
    """Return an address in memory; a question mark where the base register is not given.

    >>> address_text(4, 256), address_text(None, 0)
    ('BAR4+0x100', '?+0x0')
    """
    return f"{'?' if bar is None else f'BAR{bar}'}+{base:#x}"


def neural_formula(found: TaskMeaning) -> str:
    """Return what a task of the neural engine computes, in short."""
    window, epilogue, kernel = found.window, found.epilogue, found.kernel
    words = [window_formula(found.operation, window) if window else str(found.operation)]
    if kernel:
        words += [word for word, given in (("bias", kernel.bias), ("runtime kernel", kernel.runtime)) if given]
    if epilogue and epilogue.accumulator_bias:
        words.append(f"+ {epilogue.accumulator_bias:.4g}")
    if epilogue and epilogue.nonlinearity != "none":
        words.append(epilogue.nonlinearity)
    return ", ".join(words)


def window_formula(operation: TaskOperation, window: Window) -> str:
    """Return an operation of the neural engine with its window, in short."""
    if operation is TaskOperation.CHANNEL_SUM and window.unicast and window.unicast_channels == 1:
        return "accumulate"
    words = ["depthwise"] if window.unicast and operation is TaskOperation.CONVOLUTION else []
    words.append(str(operation))
    if (window.width, window.height) != (1, 1):
        words.append(f"{window.height}×{window.width}")
    if (window.stride_x, window.stride_y) != (1, 1):
        words.append(f"stride {window.stride_y}×{window.stride_x}")
    return " ".join(words)


def planar_formula(operation: TaskOperation, planar: Planar) -> str:
    """Return what a task of the planar engine computes, in short."""
    if operation is TaskOperation.NORMALISE:
        return "(x - y[0]) * y[1]"
    inner = scaled(combine(operation, planar), planar)
    if operation in REDUCTIONS:
        inner = f"{planar.reduce}({inner})"
        inner += f" * {planar.final_scale:.6g}" if planar.final_scale != 1 else ""
        inner += f" + {planar.epsilon:.4g}" if planar.epsilon else ""
    if operation in {TaskOperation.POOL, TaskOperation.UNKNOWN}:
        return f"{operation}"
    return inner if planar.post_function == "none" else f"{planar.post_function}({inner})"


def combine(operation: TaskOperation, planar: Planar) -> str:
    """Return how the sources are combined."""
    x = "-x" if planar.negate_source1 else "x"
    if operation not in TWO_SOURCES:
        return "|x|" if planar.absolute else x
    sign = "-" if planar.negate_source2 else "+"
    y = "-y" if planar.negate_source2 else "y"
    match planar.operation:
        case "add":
            return f"{x} {sign} y"
        case "mul":
            return f"{x} * {y}"
        case "square of sum":
            return f"({x} {sign} y)²"
        case name:
            return f"{name}({x}, {y})"


def scaled(text: str, planar: Planar) -> str:
    """Return an expression with the scale and the bias that follow it."""
    if planar.scale != 1:
        text = f"({text}) * {planar.scale:.6g}" if " " in text else f"{text} * {planar.scale:.6g}"
    return f"{text} + {planar.bias:.6g}" if planar.bias else text
