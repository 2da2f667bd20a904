"""How large values get in a program: from declared ranges, by proof, or from sample inputs, by looking.

Every layer is compared with the edges of the engine: fp16's largest number, the accumulator's 2^15, the 4,094 of the
fixed-point crop and of activations with int8 weights, and the grid of 2^-16 under which products lose their bits. The
margin is in bits: one bit is a factor of two.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from aneforge.analysis.divergence.arithmetic import crops
from aneforge.analysis.ranges.inner import nearest
from aneforge.analysis.ranges.inside import inside, inside_seen, inside_slots
from aneforge.analysis.ranges.interval import FINITE, hull, of_values
from aneforge.analysis.ranges.layer_ranges import exact_pair, get_known_ref, range_of_layer, reads_absent, situation_of
from aneforge.analysis.ranges.product_ranges import LOST, ROUNDS_TO_EDGE
from aneforge.analysis.ranges.program_ranges import declared_ranges, flow, read_samples
from aneforge.analysis.ranges.reached import find_reached
from aneforge.analysis.ranges.sums import weigh
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.calls import call_of_layer, op_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.display import as_html
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.engine.execution.layers import EXACT_PAIRS
from aneforge.engine.execution.run import prepare
from aneforge.engine.execution.run_products import PRODUCT_KINDS, encodes_activations
from aneforge.engine.golden import EDGE, PRODUCT_GRID
from aneforge.errors import GraphError, UnknownNameError
from aneforge.graph.precision import to_fp16
from aneforge.ops.numbers import FP16_INFINITY, FP16_MAX
from aneforge.ops.types import is_float
from aneforge.records import dataclass
from aneforge.targets import FP16_SLICE_SAT, TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.analysis.ranges.inner import Inner
    from aneforge.analysis.ranges.interval import Range
    from aneforge.analysis.ranges.situation import Found
    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.errors import Location
    from aneforge.graph.graph import GraphLike

    Array = npt.NDArray[Any]

__all__ = ["Concern", "Edge", "LayerRange", "RangeReport", "ranges"]

JUST = 2.0**-20
"""Bits by which the accumulator's edge is passed at least where a sum reaches it: reaching is too much."""
SIGNIFICANT_BITS = 11
"""Bits of an fp16 number, the hidden one included."""


class Edge(StrEnum):
    """An edge of the engine."""

    FP16 = "fp16 overflow"
    ACCUMULATOR = "accumulator edge"
    CROP = "fixed-point crop"
    INT8 = "int8 activations"
    GRID = "product grid"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise UnknownNameError.of("edge", value, [str(one) for one in cls])


REMEDIES = {
    Edge.FP16: "scale the operands down by a power of two, or clip them",
    Edge.ACCUMULATOR: "scale the weights down by a power of two and put its inverse into the gain after (af.rescale)",
    Edge.CROP: "promise a smaller range (max_abs of the input, clip), or begin the slice at 0 of the width",
    Edge.INT8: "keep these weights in fp16, or clip the activations",
    Edge.GRID: "scale the weights up by a power of two and put its inverse into the gain after (af.rescale)",
}


NOT_HERE = "its inputs can be infinite already, so look at the layers before it"
"""What helps against an infinite result that came in as one."""
INSIDE_ATTENTION = "scale the operands up by a power of two, and the result or scale= down by it"
"""What helps against the grid inside attention."""
VALUES_DOWN = "scale the values down by a power of two, and the result up by it (af.rescale)"
"""What helps against the edge inside attention."""
BY_SHARES = "the values by their shares"


@dataclass(frozen=True, slots=True)
class Concern:
    """One edge that a layer is compared with."""

    edge: Edge
    value: float
    """The largest magnitude that can come near it: of a result or a value inside the operation, a partial sum, an
    element, a product."""
    limit: float
    margin: float
    """Bits between the two; negative where the edge can be passed."""
    what: str | None = None
    """The value inside the operation that comes nearer than its result does, if one does."""
    advice: str | None = None
    """What helps against it."""

    @property
    def passed(self) -> bool:
        """The edge can be reached."""
        return self.margin < 0

    @property
    def inherited(self) -> bool:
        """The layer only passes on an infinite value that it reads."""
        return self.advice == NOT_HERE

    @property
    def remedy(self) -> str:
        """What helps."""
        return REMEDIES[self.edge] if self.advice is None else self.advice

    def __str__(self) -> str:
        inside = "" if self.what is None else f" of {self.what}"
        return f"{self.edge}{inside}: {self.value:.4g} against {self.limit:.6g}, margin {self.margin:+.1f} bits"


SHOWN_LINES = 30
"""Number of lines of a report that are printed."""


@dataclass(frozen=True, slots=True)
class LayerRange:
    """What one layer can give, and how near it is to the edges."""

    layer: str
    op: str
    location: Location | None
    range: Range
    """What leaves the layer."""
    concerns: tuple[Concern, ...]
    unknown: bool = False
    """It rests on a weight without values, so no more is known than its element type says, and no edge is compared."""

    @property
    def passed(self) -> tuple[Concern, ...]:
        """The edges that can be reached."""
        return tuple(concern for concern in self.concerns if concern.passed)

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        return f"{self.layer} {self.op}{where}: {'unknown' if self.unknown else self.range}"


@dataclass(frozen=True, slots=True)
class RangeReport:
    """The ranges of a program."""

    target: str
    source: str
    """`declared`: holds for all inputs within the ranges. `observe_ranges`: seen for the sample inputs, no proof."""
    inputs: Mapping[str, Range]
    layers: tuple[LayerRange, ...]
    notes: tuple[str, ...] = ()
    """What was done to the graph before it was compiled."""

    def first(self, edge: Edge | str) -> LayerRange | None:
        """Return the first layer that can reach an edge.

        Raises:
            ValueError: There is no such edge.
        """
        wanted = Edge(edge)
        return next((one for one in self.layers if any(concern.edge is wanted for concern in one.passed)), None)

    def margin(self, edge: Edge | str) -> float:
        """Return the smallest margin of all layers, in bits; infinite where no layer comes near the edge."""
        wanted = Edge(edge)
        return min(
            (concern.margin for one in self.layers for concern in one.concerns if concern.edge is wanted),
            default=math.inf,
        )

    def __str__(self) -> str:
        lines = [f"ranges on {self.target} ({self.source})"]
        lines += [f"  input {name}: {one}" for name, one in self.inputs.items()]
        for one in self.layers:
            lines.append(f"  {one}")
            lines += [f"    {concern}. Remedy: {concern.remedy}" for concern in one.passed]
        lines += [f"  {note}" for note in self.notes]
        more = len(lines) - SHOWN_LINES
        return "\n".join([*lines[:SHOWN_LINES], *([f"  and {more} more lines; `layers` has every layer"] * (more > 0))])

    def _repr_html_(self) -> str:
        return as_html(self)


def ranges(
    graph: GraphLike,
    ranges: Mapping[str, tuple[float, float] | float] | None = None,
    *,
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]] | None = None,
    target: TargetLike = None,
) -> RangeReport:
    """Return the range of values, layer by layer, and their margin to the edges of the engine.

    `ranges` has a magnitude or two ends for inputs; the default is the `max_abs` that an input promises, or all finite
    fp16 numbers. Alternatively, `inputs` has sample values, one set or several: the report then has the observed
    ranges. Both may include states, with their values at the start of a run; other states can have any value, or are
    zeros in a sample. Wider floating-point tensors count as fp16, as in `compile`.

    >>> import aneforge as af
    >>> x = af.input((1, 4), name="x", max_abs=300.0)
    >>> report = ranges((x * x).relu(), target=af.targets.Family.A16)
    >>> report.first("fp16 overflow").op, round(report.margin("fp16 overflow"), 2)
    ('mul', -0.46)

    Raises:
        GraphError: A range is invalid, or both ranges and inputs are given.
        UnknownNameError: There is no input of that name.
        IllegalGraphError: The graph cannot run on the target.
    """
    if ranges is not None and inputs is not None:
        raise GraphError("ranges are either declared or observed", remedy="give ranges= or inputs=, not both")
    half, resolved = to_fp16(graph), resolve(target)
    original = half.graph
    compiled = compile_graph(original, resolved)
    program = compiled.program
    if inputs is not None:
        samples = read_samples(inputs, [*original.inputs, *original.state_placeholders])
        seen = observe_ranges(program, [compiled.feed(sample) for sample in samples])
        return replace(seen, notes=half.notes)
    declared = declared_ranges(original, ranges, otherwise=FINITE)
    found = flow(program, declared)
    given = {port.name: found.ranges[port.value.name] for port in program.inputs}
    unknown = find_unknown(program, found.ranges)
    layers = [
        LayerRange(
            layer.name, op_of_layer(layer), layer.location, hull(found.layers[layer.name].results), (), unknown=True
        )
        if layer.name in unknown
        else layer_range(layer, found.layers[layer.name], found.ranges, program, None)
        for layer in program.layers
    ]
    notes = (*half.notes, *([UNKNOWN.format(count=len(unknown), all=len(layers))] if unknown else []))
    return RangeReport(resolved.name, "declared", given, tuple(layers), notes)


UNKNOWN = "the ranges of {count} of {all} layers are unknown: they rest on weights without values"


def find_unknown(program: Program, known: Mapping[str, Range]) -> frozenset[str]:
    """Return the layers of which nothing is known because a weight has no values; what bounds its results ends it."""
    doubtful: set[str] = set()
    layers: set[str] = set()
    for layer in program.layers:
        rests = reads_absent(layer) or any(value.name in doubtful for value in layer.bottoms)
        open_results = {value.name for value in layer.results if not known[value.name].finite}
        if rests and open_results:
            doubtful |= open_results
            layers.add(layer.name)
    return frozenset(layers)


def observe_ranges(program: Program, samples: Sequence[Mapping[str, Array]]) -> RangeReport:
    """Return what sample inputs show: the values of every run, with what each layer read.

    Raises:
        GraphError: There is no sample, or one that does not fit.
    """
    if not samples:
        raise GraphError("there is no sample to observe")
    seen: dict[str, Range] = {}
    sizes, held = Sizes({}, {}, {}), {state.name for state in program.states}
    ready = prepare(program)
    for sample in samples:
        given = {name: values for name, values in sample.items() if name not in held}
        states = {name: values for name, values in sample.items() if name in held}
        values = ready.run(given, states, keep=True).values
        here = {name: of_values(array) for name, array in values.items()}
        for name, array in values.items():
            seen[name] = here[name] | seen[name] if name in seen else here[name]
            sizes.typical[name] = max(sizes.typical.get(name, 0.0), root_mean_square(array))
        for layer in program.layers:
            sizes.inside.setdefault(layer.name, []).extend(inside_seen(layer, here, program, values))
            if (reach := find_reached(layer, program.target, values)) is not None:
                sizes.reach[layer.name] = max(sizes.reach.get(layer.name, 0.0), reach)
    layers: list[LayerRange] = []
    for layer in program.layers:
        found = range_of_layer(layer, seen, program.target)
        layers.append(layer_range(layer, found, seen, program, sizes))
    given = {port.name: seen[port.value.name] for port in program.inputs}
    return RangeReport(program.target.name, "observed", given, tuple(layers))


@dataclass(frozen=True, slots=True)
class Sizes:
    """What sample inputs showed in addition to the ranges of values."""

    typical: dict[str, float]
    """The size of typical elements of every value."""
    inside: dict[str, list[Inner]]
    """The largest values inside every layer."""
    reach: dict[str, float]
    """How far partial sums of every product can have reached."""


def root_mean_square(array: Array) -> float:
    """Return the size of typical elements."""
    if not array.size:
        return 0.0
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(array.astype(np.float64)))))


def layer_range(
    layer: Layer, found: Found, known: Mapping[str, Range], program: Program, sizes: Sizes | None
) -> LayerRange:
    """Return one layer with the edges that it is compared with; `sizes` are those that were seen."""
    results = hull(known[result.name] for result in layer.results) if sizes is not None else hull(found.results)
    concerns = tuple(concerns_of(layer, found, results, known, program, sizes))
    return LayerRange(layer.name, op_of_layer(layer), layer.location, results, concerns)


def concerns_of(
    layer: Layer, found: Found, results: Range, known: Mapping[str, Range], program: Program, sizes: Sizes | None
) -> Iterator[Concern]:
    """Yield the edges that a layer is compared with."""
    if is_float(layer.core_types[0].dtype):
        yield overflow(layer, found, results, known, program, sizes)
    if found.total is not None and found.total.reach > 0:
        reach = found.total.reach if sizes is None else sizes.reach[layer.name]
        yield below(Edge.ACCUMULATOR, reach + found.total.terms * LOST, EDGE)
        yield from grid(layer, found, None if sizes is None else sizes.typical)
    yield from int8(layer, known, program)
    call = call_of_layer(layer)
    if call is not None and call.op in CROPS and layer.bottoms:
        x = layer.bottoms[0]
        if crops(call.op, call.attributes, x.type, program.target):
            yield below(Edge.CROP, known[x.name].magnitude, FP16_SLICE_SAT)
    if call is not None and call.op == "sdpa":
        yield edge_of_attention(layer, known)
        concern = grid_of_attention(layer, known, None if sizes is None else sizes.typical)
        yield from [] if concern is None else [concern]


def overflow(
    layer: Layer, found: Found, results: Range, known: Mapping[str, Range], program: Program, sizes: Sizes | None
) -> Concern:
    """Return what comes nearest to fp16's largest number: a result, or a value inside the operation or its slots."""
    most = largest(layer, found, results, known, program) if sizes is None else largest_seen(layer, results, sizes)
    result = below(Edge.FP16, most, FP16_MAX)
    if math.isinf(most) and not all(known[one.name].finite for one in layer.bottoms):
        result = replace(result, advice=NOT_HERE)
    if sizes is None:
        inner = nearest([*inside(layer, known, program), *inside_slots(layer, found, program)])
    else:
        inner = nearest(sizes.inside[layer.name])
    if inner is None:
        return result
    within = replace(below(Edge.FP16, inner.value, inner.limit), what=inner.what, advice=inner.remedy)
    # What nothing is known of but that it is infinite says less than what made it so, or than what became of it.
    if result.passed and math.isinf(inner.value):
        return result
    return within if within.margin < result.margin or (within.passed and math.isinf(result.value)) else result


def largest_seen(layer: Layer, results: Range, sizes: Sizes) -> float:
    """Return the largest magnitude of results that were seen; of infinite ones of a product, the reach of its sums."""
    if results.finite:
        return results.magnitude
    return max(sizes.reach[layer.name], FP16_INFINITY) if layer.name in sizes.reach else math.inf


def largest(layer: Layer, found: Found, results: Range, known: Mapping[str, Range], program: Program) -> float:
    """Return the largest magnitude that is rounded to fp16: of the operation before its slots, or of the results.

    After a product or pair, gain and offset work before anything is rounded.
    """
    leaves = results.magnitude if results.finite else math.inf
    stages = layer.epilogue.stages
    at_once = layer.kind.name in PRODUCT_KINDS or layer.kind.name in EXACT_PAIRS
    if at_once and stages and stages[0][0] is Slot.GAIN_OFFSET:
        return leaves
    if found.core.finite:
        return max(found.core.magnitude, leaves)
    return compute_unlimited_magnitude(layer, found, known, program)


def compute_unlimited_magnitude(layer: Layer, found: Found, known: Mapping[str, Range], program: Program) -> float:
    """Return the magnitude of results, were there no limit: of pairs, squares, sums and products; else infinite."""
    call = call_of_layer(layer)
    if call is None:
        return math.inf
    if found.total is not None:
        return max(found.total.reach, FP16_INFINITY)
    situation = situation_of(layer, call, known, program.target)
    exact = exact_pair(layer, situation)
    if exact is not None:
        return max(exact.magnitude, FP16_INFINITY)
    match call.op:
        case "square":
            return max(situation.range("x").magnitude ** 2, FP16_INFINITY)
        case "reduce_sum" | "reduce_l1_norm":
            count = layer.operand("x").type.size // max(layer.core_types[0].size, 1)
            return max(count * situation.range("x").magnitude, FP16_INFINITY)
        case _:
            return math.inf


def below(edge: Edge, value: float, limit: float) -> Concern:
    """Return how far a magnitude is below an edge; a sum that reaches the accumulator's, or rounds to it, passed it."""
    margin = math.inf if value == 0 else math.log2(limit / value) if math.isfinite(value) else -math.inf
    reaches = edge is Edge.ACCUMULATOR and value >= ROUNDS_TO_EDGE
    return Concern(edge, value, limit, min(margin, -JUST) if reaches else margin)


def grid(layer: Layer, found: Found, typical: Mapping[str, float] | None) -> Iterator[Concern]:
    """Yield how many bits products have above the grid, less those of an fp16 number.

    Declared ranges bound products from above, so a negative margin is certain and a positive one no promise; of
    observed values the typical product counts.
    """
    assert found.total is not None, "asked only of products"  # noqa: S101 - the caller looked
    size = found.total.largest
    if typical is not None:
        size = math.prod(typical_size(ref, typical) for _, ref in list(layer.refs())[:2])
    yield from above_grid(size)


def edge_of_attention(layer: Layer, known: Mapping[str, Range]) -> Concern:
    """Return how far sums of values, weighed by shares, are below the accumulator's edge; scores as inside."""
    value = layer.operand("value")
    reach = weigh(get_known_ref(value, known).range.magnitude, value.type.shape[-2])
    return replace(below(Edge.ACCUMULATOR, reach, EDGE), what=BY_SHARES, advice=VALUES_DOWN)


def grid_of_attention(layer: Layer, known: Mapping[str, Range], typical: Mapping[str, float] | None) -> Concern | None:
    """Return the same of the two products inside attention, of the one that has fewer bits.

    A share is at most 1, and one over their count where all are alike.
    """
    query, key, value = (layer.operand(name) for name in ("query", "key", "value"))
    if typical is None:
        magnitudes = [get_known_ref(ref, known).range.magnitude for ref in (query, key, value)]
        scores, weighed_size = magnitudes[0] * magnitudes[1], magnitudes[2]
    else:
        scores = typical_size(query, typical) * typical_size(key, typical)
        weighed_size = typical_size(value, typical) / max(value.type.shape[-2], 1)
    both = [*above_grid(scores, "the scores"), *above_grid(weighed_size, BY_SHARES)]
    return min(both, key=lambda concern: concern.margin, default=None)


def typical_size(ref: Ref, typical: Mapping[str, float]) -> float:
    """Return the size of typical elements of a value that was seen, or of a constant."""
    return typical[ref.name] if isinstance(ref, Value) else root_mean_square(ref.dense())


def above_grid(size: float, what: str | None = None) -> Iterator[Concern]:
    """Yield how many bits products of a size have above the grid, less those of an fp16 number."""
    if size > 0 and math.isfinite(size):
        wanted = PRODUCT_GRID * 2.0 ** (SIGNIFICANT_BITS - 1)
        advice = None if what is None else INSIDE_ATTENTION
        yield Concern(Edge.GRID, size, wanted, math.log2(size / wanted), what, advice)


def int8(layer: Layer, known: Mapping[str, Range], program: Program) -> Iterator[Concern]:
    """Yield the edge of activations with int8 weights, where they pass the times-16 encoding."""
    if layer.kind.name in PRODUCT_KINDS and encodes_activations(layer, program.target) and layer.bottoms:
        yield below(Edge.INT8, known[layer.bottoms[0].name].magnitude, FP16_SLICE_SAT)
