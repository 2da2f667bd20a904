"""Where the operations of a graph land: on the engine directly, or where the public scheduler would send them.

The direct path is what rules, compiler and validators say. The path through Core ML is a model of its scheduler's known
behaviour and is labelled `inferred` as a whole.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

from aneforge.analysis.compute_plan import compare_with_plan, read_plan
from aneforge.analysis.cost import cost, price
from aneforge.analysis.machine import machine_of
from aneforge.analysis.segmenter import Choice, Device, choose, reasons_against, switch
from aneforge.analysis.work import NOTHING, work_of
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.splits import OVERSIZE
from aneforge.display import as_html, cut_lines
from aneforge.errors import GraphError, IllegalGraphError, NoDataError, NotSupportedError, UnknownNameError
from aneforge.evidence import EvidenceKind
from aneforge.formats.mlpackage.coreml_tools import coreml_tools
from aneforge.graph.graph import INPUT, STATE, Graph
from aneforge.graph.node import build
from aneforge.graph.precision import to_fp16
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant
from aneforge.ops.table import find_op
from aneforge.records import dataclass
from aneforge.rules.preflight import Status, preflight
from aneforge.targets import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.analysis.compute_plan import Audit
    from aneforge.analysis.cost import Cost
    from aneforge.analysis.machine import Machine
    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.program import Program
    from aneforge.errors import Location
    from aneforge.formats.mlpackage.coreml_tools import CoreMlTools
    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Node, Value
    from aneforge.rules.preflight import OpReport
    from aneforge.targets import TargetLike

__all__ = ["Advice", "Hop", "Operation", "Path", "PlacedSegment", "Placement", "placement"]


UNSURE = 2.0
"""The factor within which what the scheduler counts is taken for microseconds; no measurement bounds it."""
SCHEDULER = (
    "a model of the scheduler, which counts in units of its own; branches are taken in the order of the graph",
    f"in the time of a call its units off the engine count as microseconds, ± a factor of {UNSURE:g}: not measured",
)


class Path(StrEnum):
    """How a program reaches the engine."""

    DIRECT = "direct"
    COREML = "coreml"


@dataclass(frozen=True, slots=True)
class Operation:
    """Where one operation lands."""

    number: int
    """Its place among the operations of the graph."""
    op: str
    shape: tuple[int, ...]
    location: Location | None
    device: Device
    status: Status
    segment: int | None
    """None on the direct path where several segments share it, or none has it."""
    reason: str


@dataclass(frozen=True, slots=True)
class PlacedSegment:
    """What runs on one device without leaving it."""

    number: int
    device: Device
    members: tuple[str, ...]
    """Operations with their number, or layers on the direct path."""
    microseconds: float | None
    """Its predicted time; None where a scheduler's own counting is all there is."""
    scheduler_units: float | None = None
    """What the scheduler counts for it, in units of its own; None on the direct path."""


@dataclass(frozen=True, slots=True)
class Hop:
    """The cut between two segments that follow each other."""

    first: int
    second: int
    microseconds: float | None
    """What the cut costs beyond the work on its two sides; None where only a scheduler counts it."""
    moved_bytes: int
    scheduler_units: float | None = None
    """What the scheduler counts for it."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to take out so that two segments become one."""

    remove: tuple[str, ...]
    joins: tuple[int, int]
    saves_microseconds: float | None
    text: str
    saves_units: float | None = None
    """What the scheduler would count less."""


@dataclass(frozen=True, slots=True)
class Times:
    """What a placement takes."""

    segments: tuple[PlacedSegment, ...]
    microseconds: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Placement:
    """Where the operations of a graph land on one target.

    Times of the path through Core ML are computed when they or the segments are first read: what is placed on the
    engine must be compiled for them.
    """

    target: str
    path: Path
    kind: EvidenceKind
    """How the answer is known: decoded rules of the compiler, or an inferred model of a scheduler."""
    operations: tuple[Operation, ...]
    hops: tuple[Hop, ...]
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]
    find_times: Callable[[], Times] = field(repr=False, compare=False)
    audit: Audit | None = None
    """Core ML's own plan next to the prediction, where it was asked for."""

    @cached_property
    def times(self) -> Times:
        """The segments with their times, and the time of a call."""
        return self.find_times()

    @property
    def segments(self) -> tuple[PlacedSegment, ...]:
        """What runs on one device without leaving it, in order."""
        return self.times.segments

    @property
    def microseconds(self) -> float | None:
        """The predicted time of a call, changes of device included; None where there is no program."""
        return self.times.microseconds

    @property
    def low(self) -> float | None:
        """The lower end of its interval."""
        return self.times.low

    @property
    def high(self) -> float | None:
        """The upper end of its interval."""
        return self.times.high

    @property
    def on_engine(self) -> float:
        """The share of operations that land on the engine."""
        return sum(one.device is Device.ANE for one in self.operations) / max(1, len(self.operations))

    def __str__(self) -> str:
        lines = [f"{self.path} on {self.target} ({self.kind}): {self.on_engine:.0%} of operations on the engine"]
        cuts = {hop.first: hop for hop in self.hops}
        for segment in self.segments:
            lines.append(f"  part {segment.number}: {segment.device}, {amount(segment)}, {show_members(segment)}")
            if hop := cuts.get(segment.number):
                lines.append(f"    cut to part {hop.second}: {amount(hop)}, {hop.moved_bytes:,} bytes")
        lines += [f"  {one.op} #{one.number}: {one.reason}" for one in self.operations if one.device is not Device.ANE]
        lines += [*(f"  {one.text}" for one in self.advice), *(f"  {note}" for note in self.notes)]
        return cut_lines([*lines, str(self.audit)] if self.audit is not None else lines)

    def _repr_html_(self) -> str:
        return as_html(self)


def amount(one: PlacedSegment | Hop) -> str:
    """Return a time in microseconds, or what a scheduler counts in its units."""
    return f"{one.scheduler_units:.1f} scheduler units" if one.microseconds is None else f"{one.microseconds:.1f} µs"


def show_members(segment: PlacedSegment) -> str:
    """Return the first members of a segment."""
    more = len(segment.members) - 4
    return ", ".join(segment.members[:4]) + (f" and {more} more" if more > 0 else "")


def placement(
    graph: GraphLike, target: TargetLike = None, path: str = "direct", *, audit: bool | CoreMlTools = False
) -> Placement:
    """Return on which device each operation of a graph runs.

    With `audit`, on a Mac with coremltools, the prediction is compared with Core ML's own plan, operation by operation
    of the ML package; an object with the interface of coremltools may be given instead of True.

    >>> import numpy as np
    >>> import aneforge as af
    >>> x, weights = af.input((1, 128, 32, 32)), np.ones((128, 128, 3, 3), np.float16)
    >>> y = af.conv(x, weights, pad=1)
    >>> [af.placement(y, af.targets.Family.A16, path).operations[0].device.value for path in ("direct", "coreml")]
    ['ANE', 'CPU']

    Raises:
        UnknownNameError: There is no such path.
        UnknownTargetError: The target name is unknown.
        BackendUnavailableError: An audit was requested, and Core ML cannot be used here.
        NotSupportedError: An audit was requested, and Core ML has no form of an operation.
    """
    if path not in tuple(Path):  # not a set: what is asked for may have no hash
        raise UnknownNameError.of("path", path, Path)
    half = to_fp16(graph)
    predict = direct if path == Path.DIRECT else coreml
    found = predict(half.graph, target)
    if audit is not False:
        from aneforge.formats.mlpackage.package import package_graph  # noqa: PLC0415 - imports coremltools

        tools = coreml_tools() if audit is True else audit
        packaged = predict(package_graph(half.graph).graph, target)
        predicted = [(mil_name(one.op), one.device) for one in packaged.operations]
        found = replace(found, audit=compare_with_plan(predicted, read_plan(half.graph, tools)))
    return replace(found, notes=(*half.notes, *found.notes))


def mil_name(op: str) -> str:
    """Return what MIL calls an operation of the table."""
    return find_op(op).mil_name or op


def reports_of(graph: Graph, target: TargetLike) -> list[OpReport]:
    """Return the verdict on every operation; placeholders have no verdict."""
    reports = preflight(graph, place_of(target).target).reports
    pairs = zip(graph.nodes, reports, strict=True)
    return [report for node, report in pairs if node.op.name not in (INPUT, STATE)]


def why(report: OpReport, *, runs: bool) -> str:
    """Return what the worst finding says, or that there is none."""
    if report.findings:
        return str(report.findings[0])
    return "native" if runs else "native, and in a graph that is refused"


def direct(graph: Graph, target: TargetLike) -> Placement:
    """Return what rules, compiler and validators say."""
    place, reports = place_of(target), reports_of(graph, target)
    notes: list[str] = []
    compiled: Compiled | None = None
    try:
        compiled = compile_graph(graph, place.target)
    except (IllegalGraphError, NotSupportedError) as refusal:
        notes.append(f"no program: {refusal}")
    only = compiled is not None and len(compiled.program.segments) == 1
    operations = tuple(
        Operation(
            number,
            report.op,
            report.shape,
            report.location,
            Device.NONE if compiled is None else Device.ANE,
            report.status,
            0 if only else None,
            why(report, runs=compiled is not None),
        )
        for number, report in enumerate(reports)
    )
    if compiled is None:
        nothing = partial(Times, ())
        return Placement(
            place.target.name, Path.DIRECT, EvidenceKind.DECODED, operations, (), (), tuple(notes), nothing
        )
    notes += describe_changes(compiled) if compiled.program.layers else [NOTHING]
    found = price(work_of(compiled), machine_of(target if target is not None else place.target))
    times = segment_times(found)
    segments = direct_segments(compiled, times)
    hops = direct_hops(compiled.program, found)
    return Placement(
        place.target.name,
        Path.DIRECT,
        EvidenceKind.DECODED,
        operations,
        hops,
        tuple(direct_advice(compiled, times, hops, found.machine)),
        tuple(notes),
        partial(Times, segments, found.microseconds, found.low, found.high),
    )


def describe_changes(compiled: Compiled) -> list[str]:
    """Return what became of operations that are oversize; the compiler's validators accepted what there is."""
    oversize = dict.fromkeys(f"{one.op} became {one.detail}" for one in compiled.changes if one.why == OVERSIZE)
    return list(oversize)


def segment_times(found: Cost) -> Mapping[int, float]:
    """Return the time of every program: its dispatch, its copies and its layers."""
    times = {program.segment: program.dispatch + program.copies for program in found.programs}
    for layer in found.layers:
        times[layer.segment] += layer.microseconds
    return times


def direct_segments(compiled: Compiled, times: Mapping[int, float]) -> tuple[PlacedSegment, ...]:
    """Return the programs that a graph became."""
    return tuple(
        PlacedSegment(
            segment.number,
            Device.ANE,
            tuple(f"{layer.kind.name} %{layer.name} on {layer.engine}" for layer in segment.layers),
            times[segment.number],
        )
        for segment in compiled.program.segments
    )


def direct_hops(program: Program, found: Cost) -> tuple[Hop, ...]:
    """Return the cuts between programs: another dispatch, and what is copied out and in again."""
    made = {result.name: layer.segment for layer in program.layers for result in layer.results}
    crossing: dict[tuple[int, int], dict[str, int]] = {}
    for layer in program.layers:
        for value in layer.bottoms:
            if value.name in made:
                crossing.setdefault((made[value.name], layer.segment), {})[value.name] = value.type.nbytes
    machine = found.machine
    hops: list[Hop] = []
    for first, second in pairwise(segment.number for segment in program.segments):
        moved = sum(crossing.get((first, second), {}).values())
        copies = moved / machine.host_out + moved / machine.host_in
        hops.append(Hop(first, second, machine.dispatch + copies, moved))
    return tuple(hops)


def direct_advice(
    compiled: Compiled, times: Mapping[int, float], hops: Sequence[Hop], machine: Machine
) -> list[Advice]:
    """Return which layers of their own are between two programs that could be one.

    Without them their own dispatch and one more are saved, and what they read and wrote is not copied on either side.
    """
    segments = compiled.program.segments
    moved = {hop.first: hop.moved_bytes for hop in hops}
    found: list[Advice] = []
    for before, middle, after in zip(segments, segments[1:], segments[2:], strict=False):
        if not middle.bridge or before.bridge or after.bridge:
            continue
        named = [f"{layer.kind.op or layer.kind.name} (%{layer.name})" for layer in middle.layers]
        copies = moved[before.number] / machine.host_out + moved[middle.number] / machine.host_in
        saves = times[middle.number] + machine.dispatch + copies
        joins = before.number, after.number
        found.append(Advice(tuple(named), joins, saves, advice(named, joins, saves, "µs")))
    return found


def advice(remove: Sequence[str], joins: tuple[int, int], saves: float, unit: str) -> str:
    """Return the advice to take operations out in words."""
    return f"remove {', '.join(remove)} to join parts {joins[0]} and {joins[1]}: about {saves:.0f} {unit} less"


def coreml(graph: Graph, target: TargetLike) -> Placement:
    """Return what the public scheduler is thought to do."""
    place, reports = place_of(target), reports_of(graph, target)
    nodes = [node for node in graph.nodes if node.op.name not in (INPUT, STATE)]
    barred = [reasons_against(node, report) for node, report in zip(nodes, reports, strict=True)]
    choices = choose(nodes, barred)
    numbers = segment_numbers(choices)
    operations = tuple(
        Operation(
            number,
            report.op,
            report.shape,
            report.location,
            choice.device,
            report.status,
            segment,
            bar or choice.reason,
        )
        for number, (report, choice, segment, bar) in enumerate(zip(reports, choices, numbers, barred, strict=True))
    )
    parts = coreml_segments(operations, choices)
    moved = [sum(kind.nbytes for kind in node.types) for node in nodes]
    hops = coreml_hops(parts, operations, moved)
    return Placement(
        place.target.name,
        Path.COREML,
        EvidenceKind.INFERRED,
        operations,
        hops,
        tuple(coreml_advice(parts, operations, barred, hops)),
        SCHEDULER if operations else (NOTHING,),
        partial(coreml_times, graph, target, parts, numbers, hops),
    )


def coreml_times(
    graph: Graph,
    target: TargetLike,
    parts: Sequence[PlacedSegment],
    numbers: Sequence[int],
    hops: Sequence[Hop],
) -> Times:
    """Return the segments with the times of those on the engine, and the time of a call."""
    nodes = [node for node in graph.nodes if node.op.name not in (INPUT, STATE)]
    times = {part.number: engine_time(graph, nodes, part, numbers, target) for part in parts}
    segments = tuple(
        part if (time := times[part.number]) is None else replace(part, microseconds=time.microseconds)
        for part in parts
    )
    outside = host_hops(segments)
    return Times(
        segments, *(total_time(segments, times, hops, outside, which) for which in ("microseconds", "low", "high"))
    )


def engine_time(
    graph: Graph, nodes: Sequence[Node], part: PlacedSegment, numbers: Sequence[int], target: TargetLike
) -> Cost | None:
    """Return what the cost model says of a segment on the engine; None for another device, or where it says nothing."""
    if part.device is not Device.ANE:
        return None
    own = [node for node, number in zip(nodes, numbers, strict=True) if number == part.number]
    try:
        return cost(graph if len(own) == len(nodes) else isolate(graph, own), target)
    except (GraphError, NoDataError):
        return None


def isolate(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Return operations by themselves: what they read from elsewhere are inputs, what is read elsewhere are outputs.

    >>> import aneforge as af
    >>> graph = af.Graph({"y": af.input((1, 4), name="x").relu().tanh().exp()})
    >>> [node.op.name for node in isolate(graph, graph.nodes[2:3]).nodes]
    ['input', 'tanh']
    """
    inside = set(nodes)
    made: dict[tuple[Node, int], Tensor] = {}

    def own(value: Value) -> Value:
        if isinstance(value, Constant):
            return value
        key = value.node, value.index
        if key not in made:
            attributes = {"shape": value.type.shape, "dtype": value.type.dtype, "name": f"from{len(made)}"}
            made[key] = Tensor(build(INPUT, {}, attributes, value.node.location))
        return made[key]

    for node in nodes:
        operands = {
            name: tuple(map(own, one)) if isinstance(one, tuple) else own(one) for name, one in node.operands.items()
        }
        again = build(node.op, operands, node.attributes, node.location)
        made.update({(node, index): Tensor(again, index) for index in range(len(node.types))})
    leaving = {(one.node, one.index) for one in (*graph.outputs.values(), *graph.states.values())}
    leaving |= {(one.node, one.index) for node in graph.nodes if node not in inside for one in node.sources()}
    outputs = [key for key in made if key[0] in inside and key in leaving]
    return Graph({f"y{place}": made[key] for place, key in enumerate(outputs)})


def host_hops(segments: Sequence[PlacedSegment]) -> float:
    """Return what it costs to reach the first device from the host's memory, and to return from the last."""
    if not segments:
        return 0.0
    return switch(Device.CPU, segments[0].device) + switch(segments[-1].device, Device.CPU)


def total_time(
    segments: Sequence[PlacedSegment],
    times: Mapping[int, Cost | None],
    hops: Sequence[Hop],
    outside: float,
    which: str,
) -> float:
    """Return the predicted time of a call, or an end of its interval.

    A program on the engine has its dispatch in its own time, so changes to and from it are counted only where the cost
    model says nothing of a segment.
    """
    factor = {"low": 1 / UNSURE, "high": UNSURE}.get(which, 1.0)
    priced = {number for number, time in times.items() if time is not None}
    total = 0.0 if segments and {segments[0].number, segments[-1].number} <= priced else outside * factor
    for part in segments:
        time = times[part.number]
        total += (part.scheduler_units or 0.0) * factor if time is None else getattr(time, which)
    between = [hop for hop in hops if not {hop.first, hop.second} & priced]
    return total + sum((hop.scheduler_units or 0.0) * factor for hop in between)


def segment_numbers(choices: Sequence[Choice]) -> list[int]:
    """Return the segment of every operation: a new one wherever the device changes."""
    numbers: list[int] = []
    for place, choice in enumerate(choices):
        changed = place > 0 and choice.device is not choices[place - 1].device
        numbers.append((numbers[-1] if numbers else 0) + changed)
    return numbers


def coreml_segments(operations: Sequence[Operation], choices: Sequence[Choice]) -> tuple[PlacedSegment, ...]:
    """Return runs of operations on one device."""
    groups: dict[int, list[Operation]] = {}
    for operation in operations:
        groups.setdefault(operation.segment or 0, []).append(operation)
    return tuple(
        PlacedSegment(
            number,
            members[0].device,
            tuple(f"{one.op} #{one.number}" for one in members),
            None,
            sum(choices[one.number].units for one in members),
        )
        for number, members in groups.items()
    )


def coreml_hops(
    segments: Sequence[PlacedSegment], operations: Sequence[Operation], moved: Sequence[int]
) -> tuple[Hop, ...]:
    """Return the changes of device, with the bytes of the last result before each."""
    last = {one.segment: one.number for one in operations}
    return tuple(
        Hop(first.number, second.number, None, moved[last[first.number]], switch(first.device, second.device))
        for first, second in pairwise(segments)
    )


def coreml_advice(
    segments: Sequence[PlacedSegment], operations: Sequence[Operation], barred: Sequence[str], hops: Sequence[Hop]
) -> list[Advice]:
    """Return which operations, barred from the engine, are between two segments on it."""
    costs = {hop.first: hop.scheduler_units or 0.0 for hop in hops}
    stopping: dict[int | None, list[str]] = {}
    for one in operations:
        if barred[one.number]:
            stopping.setdefault(one.segment, []).append(f"{one.op} #{one.number}")
    found: list[Advice] = []
    for before, middle, after in zip(segments, segments[1:], segments[2:], strict=False):
        if before.device is not Device.ANE or after.device is not Device.ANE or middle.number not in stopping:
            continue
        saves = costs[before.number] + costs[middle.number] + (middle.scheduler_units or 0.0)
        remove, joins = stopping[middle.number], (before.number, after.number)
        text = advice(remove, joins, saves, "scheduler units")
        found.append(Advice(tuple(remove), joins, None, text, saves))
    return found
