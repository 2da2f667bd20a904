"""The report of a model: plain, frozen, ordered data that every written form is made of.

It holds only numbers, words, findings and their evidence, so that JSON keeps all of it and two reports can be compared
by value. Nodes are named by their place in `Report.nodes`, which is the order of the graph.
"""

from __future__ import annotations

from aneforge.display import as_html, cut_lines, number_of
from aneforge.errors import Location  # noqa: TC001 - msgspec reads the types of fields
from aneforge.evidence import EvidenceKind
from aneforge.graph.graph import PLACEHOLDERS
from aneforge.records import dataclass
from aneforge.report.numbers import percent_text
from aneforge.rules.rule import Finding  # noqa: TC001 - as above

__all__ = [
    "COREML",
    "DIFFERS",
    "DIRECT",
    "MAY_DIFFER",
    "NO",
    "SAME",
    "SPLIT",
    "VERSION",
    "YES",
    "Allocated",
    "Change",
    "Counts",
    "Difference",
    "Divergence",
    "Emission",
    "EmittedTask",
    "Latency",
    "Memory",
    "Node",
    "OutputError",
    "Placed",
    "Placement",
    "RefusedLayer",
    "Report",
    "Rescaling",
    "Step",
    "TargetReport",
    "Timed",
    "UnreadModel",
    "is_operation",
]

DIRECT, COREML = "direct", "coreml"
"""How a model reaches the engine."""
YES, SPLIT, NO = "yes", "after splitting", "no"
SAME, MAY_DIFFER, DIFFERS = "same", "may differ", "differs"
"""Whether a model runs on a target, in words."""
VERSION = 1
"""Number of this form; a reader refuses another."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of the model, the same on every target."""

    name: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    inputs: tuple[int, ...]
    """Nodes whose results it reads."""
    place: Location | None


def is_operation(node: Node) -> bool:
    """Return whether a node is an operation; inputs and states are not."""
    return node.op not in PLACEHOLDERS


@dataclass(frozen=True, slots=True)
class Counts:
    """How many operations have which verdict."""

    native: int
    decompose: int
    oversize: int
    reject: int


@dataclass(frozen=True, slots=True)
class TimePart:
    """One part of a predicted time, and how it is known."""

    name: str
    microseconds: float
    basis: str
    """measured, fitted, decoded or scaled: of the least sure rate that it rests on."""
    detail: str


@dataclass(frozen=True, slots=True)
class Latency:
    """A predicted time in microseconds with its error bars."""

    microseconds: float
    low: float
    high: float
    evidence: EvidenceKind
    """How the time itself is known: a prediction is inferred, whatever it rests on."""
    rests_on: EvidenceKind = EvidenceKind.INFERRED
    """Measured where rates of this very chip were measured, inferred where those of others stand for them."""
    parts: tuple[TimePart, ...] = ()
    """What the time is made of; the parts add up to it."""
    route: str = ""
    """The way to the engine whose calls are assumed, a name of `af.routes()`; empty where nothing says it."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One layer of the compiled program on the predicted timeline."""

    layer: str
    kind: str
    engine: str
    """NE, PE, TE, DMA or host."""
    segment: int
    partition: int
    start: float
    """Microseconds from the beginning of the program."""
    duration: float
    nodes: tuple[int, ...]
    """Operations of the model that it carries out."""
    bound: str
    """What limits it: arithmetic, weights, activations, …"""
    exactness: str
    step: int = 0
    """The step of the schedule in which it runs."""


@dataclass(frozen=True, slots=True)
class Step:
    """On-chip memory in use at one step of the schedule."""

    step: int
    buffers: int
    windows: int


@dataclass(frozen=True, slots=True)
class Allocated:
    """One value of the compiled program in memory."""

    value: str
    state: str
    """How it is held, by the compiler's name of the allocation state."""
    memory: str
    offset: int
    size: int
    first: int
    last: int
    """Steps between which it lives, both included."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory plan."""

    capacity: int
    """Bytes on the chip that the plan may use."""
    peak: int
    timeline: tuple[Step, ...]
    allocations: tuple[Allocated, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """Operations that run on one device one after another."""

    device: str
    nodes: tuple[int, ...]
    microseconds: float | None
    """The predicted time; None where a scheduler's own counting is all there is."""
    scheduler_units: float | None = None
    """What the scheduler counts for them, in units of its own."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a scheduler would send the operations of the model."""

    path: str
    evidence: EvidenceKind
    """How the answer is known."""
    on_engine: float
    """The share of operations that land on the engine."""
    segments: tuple[Placed, ...]
    hops_microseconds: float | None
    """What all changes of device cost together; None where only a scheduler counts it."""
    advice: tuple[str, ...]
    notes: tuple[str, ...]
    hops_scheduler_units: float | None = None
    """What the scheduler counts for them."""
    reason: str = ""
    """Why the first operation that is not on the engine is not there."""

    def count(self, device: str) -> int:
        """Return how many operations land on a device."""
        return sum(len(segment.nodes) for segment in self.segments if segment.device == device)


@dataclass(frozen=True, slots=True)
class Rescaling:
    """What scaling values by powers of two would gain."""

    before: str
    """The risk as it is, as in `TargetReport.risk`."""
    after: str
    detail: str


@dataclass(frozen=True, slots=True)
class EmittedTask:
    """One task of the containers that a program becomes."""

    file: int
    task: int
    """Its number in the file."""
    layer: str
    engine: str
    computes: str
    registers: str
    """What it says of its place on chip, and of tensors in memory."""
    nodes: tuple[int, ...]
    """Operations of the model that its layer carries out."""


@dataclass(frozen=True, slots=True)
class RefusedLayer:
    """A layer that no known program computes."""

    layer: str
    kind: str
    rule: str
    reason: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Emission:
    """The tasks that an engine would read, and what is not among them."""

    tasks: tuple[EmittedTask, ...] = ()
    refused: tuple[RefusedLayer, ...] = ()
    idle: tuple[str, ...] = ()
    """Layers without a task: what they would move is where it must."""
    failure: str | None = None
    """Why no task is known of this target's programs."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that could be changed, with its price: the predicted time of a call before and after it."""

    text: str
    option: str
    """What to type for it, after `check` or `compile`."""
    before: float
    """Microseconds."""
    after: float
    fits: bool = False
    """Everything that the compiler has to split runs as it is written then."""

    @property
    def gain(self) -> float:
        """Microseconds that it saves."""
        return self.before - self.after


@dataclass(frozen=True, slots=True)
class OutputError:
    """One output compared with what is expected of it."""

    name: str
    elements: int
    differing: int
    """Elements whose bits differ; where wider numbers are wanted, elements that are not those rounded to fp16."""
    outside: int
    """Elements outside the tolerance; without a tolerance, those whose bits differ."""
    largest: float | None
    """The largest difference; None where one side is finite and the other is not."""
    relative: float | None
    """That, divided by the largest magnitude that is wanted; None where everything wanted is zero."""
    snr: float | None
    """Signal-to-noise ratio in decibels; None where nothing differs or something is not finite."""
    argmax: float | None
    """Share of rows along the last axis whose largest element is at the same place; None for rows of one element."""
    not_finite: tuple[int, int]
    """Elements that are infinite or NaN, on either side."""


@dataclass(frozen=True, slots=True)
class TargetReport:
    """The model on one target."""

    target: str
    title: str
    """Chips that have this engine, as users call them."""
    ok: bool
    counts: Counts
    native_fraction: float
    verdicts: tuple[str, ...]
    """native, decompose, oversize or reject, for every node."""
    findings: tuple[Finding, ...]
    """Worst first."""
    failure: str | None = None
    """Why there is no compiled program; the fields below are empty then."""
    layers: int = 0
    segments: int = 0
    partitions: int = 0
    latency: Latency | None = None
    weight_bytes: int = 0
    activation_bytes: int = 0
    risk: str = "unknown"
    """The worst that fp16 does to the model: none, loss, saturation, or unknown."""
    risk_reason: str = ""
    """What that was found from, and where it happens first."""
    exactness: str = "unknown"
    """exact, modelled or unknown: the least sure layer."""
    exactness_reason: str = ""
    timeline: tuple[Timed, ...] = ()
    memory: Memory | None = None
    notes: tuple[str, ...] = ()
    """Decompositions, foldings and whatever else the compiler did that a reader should know."""
    placement: Placement | None = None
    """Where the public scheduler would send operations, where that was asked."""
    rescaling: Rescaling | None = None
    """What scaling by powers of two would gain, where that was asked."""
    emission: Emission | None = None
    """The program as tasks, where that was asked."""
    path: str = DIRECT
    """How the model reaches the engine: directly, where everything must run there, or through Core ML, which runs the
    rest elsewhere."""
    changes: tuple[Change, ...] = ()
    """What could be changed: what fits then comes first, and the largest gain."""
    errors: tuple[OutputError, ...] = ()
    """How far outputs for the sample inputs are from the mathematics, where there are some."""

    @property
    def runs(self) -> str:
        """Yes as it is written, after splitting by the compiler, or no; through Core ML the share on the engine.

        An oversize operation does not pass the validator as it is written; the compiler splits it, so that there is a
        program nevertheless.
        """
        if self.path == COREML and self.placement is not None:
            return f"{percent_text(self.placement.on_engine)} on the engine"
        if self.ok:
            return YES
        return SPLIT if self.failure is None and not self.counts.reject else NO


@dataclass(frozen=True, slots=True)
class Difference:
    """An operation whose bits may differ between two targets."""

    node: int | None
    layer: str
    op: str
    strength: str
    """saturation, approximation, roundings, round1 or ulp1."""
    cause: str
    bound: float | None
    """How far apart results can be; None where nothing bounds it or it is not known."""
    detail: str


@dataclass(frozen=True, slots=True)
class Divergence:
    """Two targets compared."""

    first: str
    second: str
    strength: str
    differences: tuple[Difference, ...]
    """Strongest first."""
    word: str = ""
    """same: equal bits for all inputs within the ranges, as far as is known. may differ: for some of them, or
    only on silicon. differs: for the sample inputs, on the exact engine."""
    differing: int | None = None
    """Elements of outputs whose bits differ for the sample inputs; None where there are none."""
    elements: int | None = None
    """Elements of outputs that were compared."""

    @property
    def seen(self) -> str:
        """What sample inputs showed, in words; empty where there were none."""
        if self.differing is None:
            return ""
        if not self.differing:
            return "the same bits for the sample inputs"
        return f"{self.differing} of {self.elements} elements of the outputs differ for the sample inputs"


@dataclass(frozen=True, slots=True)
class UnreadModel:
    """A model among several that could not be checked."""

    name: str
    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """A model on several targets."""

    model: str
    """Name of the file, or what the caller called the graph."""
    format: str
    """What kind of file it was."""
    nodes: tuple[Node, ...]
    targets: tuple[TargetReport, ...]
    divergences: tuple[Divergence, ...] = ()
    """Every target against the first."""
    notes: tuple[str, ...] = ()
    """What was done to the model before it was judged, such as the change to fp16."""
    tool: str = ""
    """Version of the package that made it."""
    version: int = VERSION
    outcome: str = ""
    """passed or failed, by the thresholds of the check that wrote it; empty where none was asked."""
    verdict: str = ""
    """The verdict in one sentence, as the terminal begins; empty as above."""

    @property
    def operations(self) -> int:
        """How many operations the model has; inputs and states are nodes but not operations."""
        return sum(map(is_operation, self.nodes))

    def __str__(self) -> str:
        head = f"{self.model}: {number_of(self.operations, 'operation')}, {self.format}"
        verdict = (self.verdict,) if self.verdict else ()
        from aneforge.report.tables import brief_findings  # noqa: PLC0415 - it imports this module

        targets = (f"  {target_line(one)}" for one in self.targets)
        return cut_lines((*verdict, head, *targets, *brief_findings(self)))

    def _repr_html_(self) -> str:
        return as_html(self)


def target_line(one: TargetReport) -> str:
    """Return what a report says of a target, as one line."""
    time = "" if one.latency is None else f", {one.latency.microseconds:.0f} µs"
    found = number_of(len(one.findings), "finding")
    return f"{one.title or one.target} ({one.target}): runs {one.runs}{time}, {found}"
