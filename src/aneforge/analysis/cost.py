"""The latency of a compiled program, layer by layer, with error bars.

A call costs its dispatch, the host's copies, and the layers one after another. A layer takes the longest of its
multiplies, of the stream of its weights (and of what must be read again because they do not fit) and of its tensors on
chip, which all run at once; inputs and outputs of the program then move from and to DRAM. Layers do not overlap:
independent branches were seen to gain nothing from it, on two chips on which it was tried.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.analysis.files import model
from aneforge.analysis.machine import INTERVAL, Basis, Machine, machine_of
from aneforge.analysis.work import NOTHING, LayerWork, Planned, ProgramWork, macs_of, work_of
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.passes.kernels import kernel_of
from aneforge.display import as_html, number_of
from aneforge.errors import GraphTypeError
from aneforge.evidence import EvidenceKind
from aneforge.graph.precision import to_fp16
from aneforge.records import dataclass
from aneforge.targets import place_of, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.analysis.bridged import OwnProgram
    from aneforge.analysis.energy import Energy
    from aneforge.analysis.work import SegmentWork
    from aneforge.compiler.ir.program import Program
    from aneforge.errors import Location
    from aneforge.graph.graph import GraphLike
    from aneforge.targets import Target, TargetLike

__all__ = [
    "DOUBTED_STEP",
    "Bound",
    "Cost",
    "CostPart",
    "LayerCost",
    "ProgramCost",
    "cost",
    "cost_of",
    "least_time",
    "price",
    "spread_of",
    "step_factor",
]

SHOWN = 20
"""Layers that the text of a cost lists."""
OWN_PROGRAMS = "layers that are programs of their own"
SLOW_WEIGHTS = "weights of slow channel counts"
RESTS_ON = {
    "dispatch": ("dispatch",),
    OWN_PROGRAMS: ("dispatch",),
    "host copies": ("host copies",),
    "multiplies": ("clock", "cores"),
    "weights": ("weight bandwidth",),
    SLOW_WEIGHTS: ("slow weights",),
    "on chip": ("clock", "on chip"),
    "activations": ("activations",),
    "elements": ("elements",),
    "fixed time of layers": ("clock",),
}
"""The parts of a time, and the rates of a machine that each rests on."""


class Bound(StrEnum):
    """What decides the time of a layer."""

    COMPUTE = "compute"
    WEIGHTS = "weights"
    ON_CHIP = "on chip"
    ACTIVATIONS = "activations"
    ELEMENTS = "elements"
    NOTHING = "nothing"


PART_NAMES = {Bound.COMPUTE: "multiplies", Bound.WEIGHTS: "weights", Bound.ON_CHIP: "on chip"}


@dataclass(frozen=True, slots=True)
class LayerCost:
    """The time of one layer, in microseconds."""

    name: str
    kind: str
    engine: str
    """NE, PE, TE or DMA."""
    segment: int
    location: Location | None
    microseconds: float
    low: float
    high: float
    """The interval that should hold eight of ten measurements, were layers measured alone; as wide as a network's."""
    compute: float
    """Multiplies at the rate of the array, as far as the shape fills it."""
    stream: float
    """Weights, and activations that are read again."""
    on_chip: float
    """Tensors that stay inside the program."""
    activations: float
    """Inputs and outputs of the program, between DRAM and the engine."""
    elements: float
    """What the kind costs for each element beyond moving it."""
    fixed: float
    macs: int
    utilisation: float
    bound: Bound
    slow: bool = False
    """Its weights are read slowly, for the number of its channels."""

    def part(self, bound: Bound) -> float:
        """Return the time that one thing would take by itself."""
        return {
            Bound.COMPUTE: self.compute,
            Bound.WEIGHTS: self.stream,
            Bound.ON_CHIP: self.on_chip,
            Bound.ACTIVATIONS: self.activations,
            Bound.ELEMENTS: self.elements,
        }.get(bound, 0.0)


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """What the host does for one program: a call, and copies."""

    segment: int
    dispatch: float
    copies: float
    bridge: str | None
    """The operation, where the program is a single layer that was measured as a whole."""
    spread: float = 0.0
    """Standard deviation of the logarithm of the error of such a program."""


@dataclass(frozen=True, slots=True)
class CostPart:
    """One part of a predicted time, and how it is known."""

    name: str
    microseconds: float
    basis: Basis
    """Of the least sure rate that it rests on."""
    text: str

    def __str__(self) -> str:
        return f"{self.name} {self.microseconds:.1f} µs: {self.basis} {self.text}"


@dataclass(frozen=True, slots=True)
class Cost:
    """The predicted latency of a compiled program."""

    target: str
    machine: Machine
    layers: tuple[LayerCost, ...]
    programs: tuple[ProgramCost, ...]
    energy: Energy | None
    """None where the power of the chip was not measured, and where nothing runs."""
    notes: tuple[str, ...]
    sure_to: float = 1.0
    """The least factor that the interval has in both directions: above 1 where other times were stated."""

    @property
    def microseconds(self) -> float:
        """The whole of one call."""
        return self.dispatch + self.copies + sum(layer.microseconds for layer in self.layers)

    @property
    def dispatch(self) -> float:
        """Fixed costs of the calls."""
        return sum((program.dispatch for program in self.programs), 0.0)

    @property
    def route(self) -> str:
        """The way to the engine whose calls are assumed, a name of `af.routes()`."""
        return self.machine.route

    @property
    def copies(self) -> float:
        """Copies between the caller's memory and the engine's."""
        return sum((program.copies for program in self.programs), 0.0)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of the error, as it was for single layers or for whole networks.

        Whole networks were predicted for chips with and without measurements alike. What a chip without them makes less
        sure is the host's part, which is most of a program of one layer and little of a network. Where nothing runs,
        nothing is unsure: it is 0.
        """
        if not self.microseconds:
            return 0.0
        several = sum(layer.microseconds > 0 for layer in self.layers) > 1
        host = (self.dispatch + self.copies) / self.microseconds
        usual = spread_of(self.machine, host) if several else self.machine.spread
        bridged = [program for program in self.programs if program.bridge]
        share = sum(program.dispatch for program in bridged) / self.microseconds
        whole = sum(program.spread * program.dispatch for program in bridged) / self.microseconds
        return max((1 - share) * usual + whole, math.log(self.sure_to) / INTERVAL)

    @property
    def low(self) -> float:
        """The lower end of the interval that should hold eight of ten measurements."""
        return self.microseconds * math.exp(-INTERVAL * self.spread)

    @property
    def high(self) -> float:
        """The upper end of it."""
        return self.microseconds * math.exp(INTERVAL * self.spread)

    @property
    def kind(self) -> EvidenceKind:
        """How the whole is known: a prediction is inferred, whatever its parts rest on. `parts` says what was measured.

        Where nothing runs there is nothing to predict, and no time is what the compiler says.
        """
        return EvidenceKind.INFERRED if self.microseconds else EvidenceKind.DECODED

    @property
    def parts(self) -> tuple[CostPart, ...]:
        """The parts that take time, which add up to the whole: measured, fitted, decoded or scaled, and from where."""
        times: dict[str, float] = dict.fromkeys(RESTS_ON, 0.0)
        for program in self.programs:
            times[OWN_PROGRAMS if program.bridge else "dispatch"] += program.dispatch
            times["host copies"] += program.copies
        for layer in self.layers:
            bound = max((Bound.COMPUTE, Bound.WEIGHTS, Bound.ON_CHIP), key=layer.part)
            slow = layer.slow and bound is Bound.WEIGHTS
            times[SLOW_WEIGHTS if slow else PART_NAMES[bound]] += layer.part(bound)
            times["activations"] += layer.activations
            times["elements"] += layer.elements
            times["fixed time of layers"] += layer.fixed
        return tuple(part_of(name, spent, self.machine) for name, spent in times.items() if spent)

    @property
    def by_engine(self) -> Mapping[str, float]:
        """Microseconds by unit, with the host's two parts; they add up to the whole."""
        found = {"NE": 0.0, "PE": 0.0, "TE": 0.0, "DMA": 0.0}
        for layer in self.layers:
            found[layer.engine] += layer.microseconds
        return {**found, "dispatch": self.dispatch, "copies": self.copies}

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:.1f}" for name, value in self.by_engine.items() if value) or "nothing"
        slowest = sorted((layer for layer in self.layers if layer.microseconds), key=lambda layer: -layer.microseconds)
        more = len(slowest) - SHOWN
        lines = [
            f"{self.microseconds:.1f} µs on {self.machine.name} ({self.low:.1f} to {self.high:.1f}): {parts}",
            *(
                f"  {layer.microseconds:9.2f} µs  {layer.engine:3} {layer.kind} %{layer.name} ({layer.bound})"
                for layer in slowest[:SHOWN]
            ),
            *([f"  and {more} faster layers"] if more > 0 else []),
            *([f"  energy of the engine: {self.energy}"] if self.energy else []),
            *(f"  {part}" for part in self.parts),
            *(f"  {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return as_html(self)


def cost(model_or_graph: GraphLike | Planned, target: TargetLike = None) -> Cost:
    """Return the predicted latency of a graph, or of a compiled model, layer by layer.

    For a chip instead of a target, its own bandwidth is used, and its own measurements if there are any.

    >>> import numpy as np
    >>> import aneforge as af
    >>> x, weights = af.input((1, 64, 56, 56)), np.ones((64, 64, 3, 3), np.float16)
    >>> found = af.cost(af.conv(x, weights, pad=1).relu(), af.targets.Family.A13)
    >>> [layer.engine for layer in found.layers], found.low < found.microseconds < found.high
    (['NE'], True)

    Raises:
        IllegalGraphError: An operation cannot run there, or the graph has no inputs.
        NotSupportedError: An operation has no form there.
        NoDataError: No source describes the target.
        GraphTypeError: The model was compiled for a different target.
    """
    if isinstance(model_or_graph, Planned):
        return cost_of(as_compiled(model_or_graph, target), target)
    half = to_fp16(model_or_graph)
    place = place_of(target)
    found = cost_of(compile_graph(half.graph, place), place)
    return replace(found, notes=(*half.notes, *found.notes))


def cost_of(compiled: Planned, target: TargetLike = None) -> Cost:
    """Return the predicted latency of what was compiled: on the chip that it was compiled for, or on another of it."""
    return price(work_of(compiled), machine_of(compiled.program.place if target is None else target))


def least_time(program: Program, machine: Machine) -> float:
    """Return what a program takes at least, dispatch and multiplies: known without a schedule and a memory plan."""
    macs = sum(macs_of(layer, kernel_of(layer)) for layer in program.layers)
    return machine.dispatch + macs / (model().winograd_gain.value * machine.macs)


def as_compiled(subject: Planned, target: TargetLike) -> Planned:
    """Return what was compiled.

    Raises:
        GraphTypeError: The model was compiled for a different target.
    """
    made = subject.program.target.name
    asked = made if target is None else place_of(target).target.name
    if asked != made:
        raise GraphTypeError(f"it was compiled for {made}", seen=asked, remedy="give the graph, or that target")
    return subject


def part_of(name: str, spent: float, machine: Machine) -> CostPart:
    """Return a part of a time with how it is known: as the least sure rate that it rests on."""
    rates = [rate for rate in machine.rates if rate.name in RESTS_ON[name]]
    order = list(Basis)
    basis = max((rate.basis for rate in rates), key=order.index)
    text = "; ".join(f"{rate.name} {rate.text}" if len(rates) > 1 else rate.text for rate in rates)
    if name == OWN_PROGRAMS:
        return CostPart(name, spent, Basis.SCALED, f"on the lines between points measured on one chip; dispatch {text}")
    if name == "dispatch":
        least, most = machine.dispatch_interval
        text = f"{text}; one call {machine.dispatch:.0f} µs ({least:.0f} to {most:.0f}) by {machine.route}"
    return CostPart(name, spent, basis, text)


def price(work: ProgramWork, machine: Machine) -> Cost:
    """Return the cost of a program's work on a machine."""
    bridges = {segment.number for segment in work.segments if measure_whole(segment, machine) is not None}
    layers = tuple(layer_cost(layer, machine, bridged=layer.segment in bridges) for layer in work.layers)
    programs = tuple(program_cost(segment, machine) for segment in work.segments)
    total = sum(one.dispatch + one.copies for one in programs) + sum(layer.microseconds for layer in layers)
    energy = None
    if machine.power is not None:
        from aneforge.analysis.energy import energy_of  # noqa: PLC0415 - the power of few chips was measured

        energy = energy_of(work, total, machine.power, machine.anchors)
    sure_to = step_factor(resolve(work.target)) if work.keeps_states else 1.0
    return Cost(work.target, machine, layers, programs, energy, tuple(notes_on(work, machine)), sure_to)


DOUBTED_STEP = (
    "it is stated without a figure that steps of language models take about twice as long on chips of this tier: not "
    "measured and not in the time, but within its interval (conflict T17)"
)


def step_factor(target: Target) -> float:
    """Return the least factor of the interval of one step of many: 1 but where other times were stated."""
    doubted = target.tier is not None and target.tier.name in model().doubted_step_tiers
    return model().doubted_step.value if doubted else 1.0


def notes_on(work: ProgramWork, machine: Machine) -> list[str]:
    """Return what a reader of a cost should know."""
    notes: list[str] = []
    unknown = sum(layer.winograd == "unknown" for layer in work.layers)
    if unknown:
        notes.append(f"{unknown} convolutions may run as Winograd, which was not measured; priced as the direct form")
    if any(segment.bridge for segment in work.segments):
        notes.append("layers that are programs of their own are priced by points measured on one chip")
    slow = sum(layer.aliased for layer in work.layers)
    if slow and machine.aliased_stream < machine.stream:
        notes.append(
            f"{number_of(slow, 'product')} {'has' if slow == 1 else 'have'} a multiple of "
            f"{model().aliased_channels.value:g} input channels: their weights are read at "
            f"{machine.aliased_stream / 1e3:.0f} instead of {machine.stream / 1e3:.0f} GB/s"
        )
    if work.keeps_states and step_factor(resolve(work.target)) > 1:
        notes.append(DOUBTED_STEP)
    if not work.layers:
        notes.append(NOTHING)
    elif machine.power is None:
        notes.append("no energy: the power of this chip was not measured")
    return notes


def program_cost(segment: SegmentWork, machine: Machine) -> ProgramCost:
    """Return what the host does for one program."""
    whole = measure_whole(segment, machine)
    if whole is not None:
        spread = max(whole.spread, machine.spread)  # no surer than what else is known of the chip
        return ProgramCost(segment.number, whole.microseconds, 0.0, segment.bridge, spread)
    copies = segment.bytes_in / machine.host_in + segment.bytes_out / machine.host_out
    return ProgramCost(segment.number, machine.dispatch, copies, None)


def measure_whole(segment: SegmentWork, machine: Machine) -> OwnProgram | None:
    """Return the whole time of a layer that is a program of its own, where a table has it."""
    if segment.bridge is None or segment.bridge_work is None:
        return None
    from aneforge.analysis.bridged import own_program  # noqa: PLC0415 - few layers are programs of their own

    return own_program(segment.bridge, segment.bridge_work, machine.dispatch)


def layer_cost(layer: LayerWork, machine: Machine, *, bridged: bool = False) -> LayerCost:
    """Return the time of one layer; one whose program was measured as a whole takes no other time."""
    free = layer.idle or bridged
    gain = model().winograd_gain.value if layer.winograd is True else 1.0
    weight_rate = machine.aliased_stream if layer.aliased else machine.stream
    compute = 0.0 if free else layer.macs / gain / (machine.macs * layer.utilisation)
    stream = 0.0 if free else layer.weight_bytes / weight_rate + layer.reread_bytes / machine.restream
    on_chip = 0.0 if free else layer.chip_bytes / machine.on_chip
    activations = 0.0 if free else layer.dram_bytes / machine.activation
    elements = 0.0 if free else element_time(layer, machine)
    fixed = 0.0 if free else machine.layer
    parts = {
        Bound.COMPUTE: compute,
        Bound.WEIGHTS: stream,
        Bound.ON_CHIP: on_chip,
        Bound.ACTIVATIONS: activations,
        Bound.ELEMENTS: elements,
    }
    largest = max(parts, key=lambda bound: parts[bound])
    total = max(compute, stream, on_chip) + activations + elements + fixed
    width = math.exp(INTERVAL * spread_of(machine, 0.0))
    return LayerCost(
        name=layer.name,
        kind=layer.kind,
        engine=layer.engine,
        segment=layer.segment,
        location=layer.location,
        microseconds=total,
        low=total / width,
        high=total * width,
        compute=compute,
        stream=stream,
        on_chip=on_chip,
        activations=activations,
        elements=elements,
        fixed=fixed,
        macs=layer.macs,
        utilisation=layer.utilisation,
        bound=largest if parts[largest] else Bound.NOTHING,
        slow=layer.aliased and machine.aliased_stream < machine.stream,
    )


def spread_of(machine: Machine, host: float) -> float:
    """Return the spread of a network of whose time the host takes a share."""
    return machine.network_spread + host * max(0.0, machine.spread - machine.network_spread)


def element_time(layer: LayerWork, machine: Machine) -> float:
    """Return what a layer takes for its elements beyond moving them.

    A program of that layer alone was measured, chip by chip; inside a network it costs what the array does for it.
    """
    if layer.element_class is None:
        return 0.0
    inside = machine.inside_nanoseconds[layer.element_class]
    return layer.elements / 1e3 * (machine.element_nanoseconds[layer.element_class] if layer.alone else inside)
