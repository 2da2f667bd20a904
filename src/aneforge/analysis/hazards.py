"""Finite numbers that a program makes infinite though the mathematics of an operation does not: saturation hazards.

There are four routes. A slice that passes the fixed-point crop, and activations that meet streamed int8 weights, are
infinite above 4,094. An operation that the target does not have is rebuilt from others, which can overflow where its
own result is small (sine) or a copy (a resize by products, infinite from 2^15 on); so it is with squares that are added
under a root. And what reads inputs themselves can pass an edge for inputs within the ranges that they promise.

How large values get is known from promises of inputs (`max_abs`), or not at all: then whatever fp16 holds may come in,
and the hazard is there. Overflow of plain arithmetic of which nothing is known is none of these: `ranges` lists it.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.analysis.safe_magnitudes import keeps_finite, largest_safe
from aneforge.analysis.user_operations import name_at, operations_by_place
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.passes.choose_slice_route import FIXED_POINT, UNKNOWN, ChooseSliceRoute
from aneforge.engine.execution.run_products import PRODUCT_KINDS, encodes_activations
from aneforge.graph.graph import PLACEHOLDERS, read_promises
from aneforge.ops.arithmetic import greatest_magnitude
from aneforge.ops.declared import Declared
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.op import Trait
from aneforge.ops.types import is_float
from aneforge.records import dataclass
from aneforge.rules.preflight import Status
from aneforge.targets import FP16_SLICE_SAT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.rules.preflight import Preflight
    from aneforge.targets import Target

__all__ = ["Hazard", "Route", "find_hazards", "int8_hazards"]

CROPPED = (FIXED_POINT, UNKNOWN)
"""The formats of a slice's copy in which values may change: fixed point, and not known."""


class Route(StrEnum):
    """How finite numbers become infinite."""

    CROP = "fixed-point crop"
    INT8 = "int8 activations"
    REBUILT = "rebuilt operation"
    SQUARES = "fp16 overflow"
    RANGE = "range of the inputs"


PROMISE = "promise a smaller range (max_abs of the input), or put a clip before it"
REMEDIES = {
    Route.CROP: f"begin the slice at 0 of the width; or {PROMISE}",
    Route.INT8: f"keep these weights in fp16 or take int4; or {PROMISE}",
    Route.REBUILT: PROMISE,
    Route.SQUARES: f"scale the operands down by a power of two, and the result up by it; or {PROMISE}",
}
INSIDE = frozenset({Trait.RESIZING, Trait.SQUARING_SUM})
"""Traits of operations that can overflow inside, whatever the target does with them."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """One operation that makes finite numbers infinite, as far as ranges do not exclude it."""

    route: Route
    op: str
    location: Location | None
    target: str
    limit: float
    """The largest magnitude that stays finite."""
    reach: float
    """How large the values in question can get; infinite where nothing bounds them."""
    detail: str
    remedy: str
    layer: str = ""
    """The layer that carries it out, where it is one."""

    def __str__(self) -> str:
        place = f" at {self.location}" if self.location else ""
        reach = f" (they may reach {self.reach:.4g})" if math.isfinite(self.reach) else " (nothing bounds them)"
        return f"{self.op}{place} on {self.target}: {self.detail}{reach}. Remedy: {self.remedy}"


def find_hazards(graph: Graph, program: Program, verdict: Preflight) -> tuple[Hazard, ...]:
    """Return what can become infinite in a program, given the user's graph and the verdict on it.

    >>> import aneforge as af
    >>> from aneforge.rules.preflight import preflight
    >>> graph = af.Graph({"y": af.input((1, 8), max_abs=5000.0).slice_by_size((0, 2), (1, 4))})
    >>> family = af.targets.Family.A13
    >>> [str(one.route) for one in find_hazards(graph, af.build_program(graph, family), preflight(graph, family))]
    ['fixed-point crop']
    """
    return tuple(
        dict.fromkeys(
            (
                *crop_hazards(graph, program),
                *int8_hazards(graph, program),
                *rebuilt_hazards(graph, program.target, verdict),
                *range_hazards(graph, program),
            )
        )
    )


# Two routes that layers show.


def crop_hazards(graph: Graph, program: Program) -> list[Hazard]:
    """Return the slices of which a value can pass the edge of their copy."""
    edge = program.target.limits.get("slice_saturation_magnitude")
    limit = float(edge) if isinstance(edge, int | float) else 0.0
    layers = [one for one in program.layers if one.choices.get("format") in CROPPED and "elements" not in one.choices]
    notes = {note.layer: note.text for note in program.notes if note.stage == ChooseSliceRoute.name and note.layer}
    plain = {layer.name: f"magnitudes above {limit:g} become infinite" for layer in layers}
    return beyond(graph, program, layers, Route.CROP, limit, plain | notes)


def int8_hazards(graph: Graph, program: Program) -> list[Hazard]:
    """Return the products with streamed int8 weights whose activations can pass 4,094."""
    products = (layer for layer in program.layers if layer.kind.name in PRODUCT_KINDS)
    layers = [layer for layer in products if encodes_activations(layer, program.target)]
    detail = f"with int8 weights, activations of a magnitude above {FP16_SLICE_SAT:g} become infinite"
    return beyond(graph, program, layers, Route.INT8, FP16_SLICE_SAT, {layer.name: detail for layer in layers})


def beyond(
    graph: Graph, program: Program, layers: Sequence[Layer], route: Route, limit: float, details: Mapping[str, str]
) -> list[Hazard]:
    """Return the layers that can read a value beyond a limit."""
    if not layers:
        return []
    from aneforge.analysis.ranges.program_ranges import bound_magnitudes  # noqa: PLC0415 - most programs have none

    known = bound_magnitudes(program, read_promises(graph), [value for layer in layers for value in layer.bottoms])
    names, found = operations_by_place(graph), list[Hazard]()
    for layer in layers:
        numbers = [ref for _, ref in layer.refs() if is_float(ref.type.dtype) and not is_int8(ref)]
        reach = max((reach_of(ref, known) for ref in numbers), default=0.0)
        if reach > limit:
            op, detail = name_of(layer, names), details[layer.name]
            target, remedy = program.target.name, REMEDIES[route]
            found.append(Hazard(route, op, layer.location, target, limit, reach, detail, remedy, layer.name))
    return found


def is_int8(ref: Ref) -> bool:
    """Return whether an operand is a weight of int8, whose numbers are not activations."""
    return not isinstance(ref, Value) and ref.encoding == "int8"


def reach_of(ref: Ref, known: Mapping[str, float]) -> float:
    """Return how large an operand can get; a constant is as large as it is."""
    if isinstance(ref, Value):
        return known.get(ref.name, math.inf)
    return math.inf if isinstance(ref, Declared) else greatest_magnitude(ref.dense())


def name_of(layer: Layer, places: Mapping[Location, frozenset[str]]) -> str:
    """Return the user's operation that a layer carries out."""
    call = call_of_layer(layer)
    return name_at(layer.kind.name if call is None else call.op, layer.location, places)


# Operations that are rebuilt.


def rebuilt_hazards(graph: Graph, target: Target, verdict: Preflight) -> list[Hazard]:
    """Return the operations that overflow inside where their results would not: rebuilt ones, and roots of squares.

    What only moves elements is left out, except resizes: no target builds it from arithmetic, and layers show the crop.
    """
    rebuilt = [
        node
        for node, report in zip(graph.nodes, verdict.reports, strict=True)
        if INSIDE & node.op.traits
        or (report.status is Status.DECOMPOSE and node.op.movement is None and keeps_finite(node))
    ]
    read = {node: [value for value in node.sources() if is_float(value.type.dtype)] for node in rebuilt}
    limits = {node: largest_safe(node, target) for node, values in read.items() if values}
    unsafe = {node: limit for node, limit in limits.items() if limit < FP16_MAX}
    if not unsafe:
        return []
    from aneforge.analysis.ranges.probes import bound_by_promises  # noqa: PLC0415 - most graphs have none

    bounds = bound_by_promises([value for node in unsafe for value in read[node]], target)
    found: list[Hazard] = []
    for node, limit in unsafe.items():
        reach = max(bounds[value.node, value.index] for value in read[node])
        if reach > limit:
            squares = Trait.SQUARING_SUM in node.op.traits
            what = "it adds squares, which" if squares else "it is built from other operations there, which"
            detail = f"{what} become infinite for magnitudes above {limit:g}"
            route, op = Route.SQUARES if squares else Route.REBUILT, node.op.name
            found.append(Hazard(route, op, node.location, target.name, limit, reach, detail, REMEDIES[route]))
    return found


# Inputs within the ranges that they promise.


def range_hazards(graph: Graph, program: Program) -> list[Hazard]:
    """Return what reads inputs themselves and passes an edge for some within their promises, if all promise one.

    Farther inside, intervals are wider than what can come there: `ranges` says what is possible within them.
    """
    promises = read_promises(graph)
    inputs = {name for name, node in graph.inputs.items() if is_float(node.types[0].dtype)}
    if not inputs or not inputs <= promises.keys() or program.states:
        return []
    from aneforge.analysis.ranges.analysis import Edge, layer_range  # noqa: PLC0415 - most inputs promise nothing
    from aneforge.analysis.ranges.interval import FINITE  # noqa: PLC0415 - as above
    from aneforge.analysis.ranges.program_ranges import declared_ranges, flow  # noqa: PLC0415 - as above

    known = flow(program, declared_ranges(graph, otherwise=FINITE), layers := reading_inputs(program))
    names, found = operations_by_place(graph), list[Hazard]()
    # What keeps its elements' size has its own routes, and bounds of sums are too wide for what it is built of.
    operations = [node for node in graph.nodes if node.op.name not in PLACEHOLDERS]
    kept = {node.location for node in operations} - {node.location for node in operations if not keeps_finite(node)}
    for layer in layers:
        passed = layer_range(layer, known.layers[layer.name], known.ranges, program, None).passed
        own = {one.edge: one for one in passed if not one.inherited and one.what is None}
        plain = layer.location not in kept and not own.keys() & {Edge.CROP, Edge.INT8}
        concern = (own.get(Edge.ACCUMULATOR) or own.get(Edge.FP16)) if plain else None
        if concern is not None:
            op, detail = name_of(layer, names), f"{concern.edge} for inputs within the ranges that they promise"
            target, args = program.target.name, (concern.limit, concern.value, detail, concern.remedy)
            found.append(Hazard(Route.RANGE, op, layer.location, target, *args, layer.name))
    return found


def reading_inputs(program: Program) -> tuple[Layer, ...]:
    """Return the layers that read inputs of the program, or copies of them, and nothing else but constants."""
    from aneforge.analysis.divergence.functions import moves  # noqa: PLC0415 - most inputs promise nothing

    own = {port.value.name for port in program.inputs}
    found: list[Layer] = []
    for layer in program.layers:
        if all(value.name in own for value in layer.bottoms):
            found.append(layer)
            own |= {result.name for result in layer.results} if moves(layer) else set()
    return tuple(found)
