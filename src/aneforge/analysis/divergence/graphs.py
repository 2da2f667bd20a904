"""Where two targets can give different answers for one graph, why, and by how much.

Two chips differ because they were given different programs, or because their datapaths differ. Both programs are
compiled and every value of theirs is numbered (`numbering`): outputs of equal numbers are equal bit for bit,
which is proof of `none`. What is left is explained layer by layer. Some differences are known of silicon and modelled
alike by the engine (the order of sums, the expansion of streamed weights): they are findings too, and say so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from aneforge.analysis.divergence.alignment import align_programs, canonical
from aneforge.analysis.divergence.arithmetic import unknown_arithmetic
from aneforge.analysis.divergence.numbering import Numbering
from aneforge.analysis.ranges.interval import FINITE, hull
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.calls import call_of_layer, op_of_layer
from aneforge.compiler.passes.choose_slice_route import ChooseSliceRoute
from aneforge.display import as_html, cut_lines
from aneforge.engine.choices import entry_of
from aneforge.graph.graph import expect_values
from aneforge.graph.precision import to_fp16
from aneforge.records import dataclass
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.analysis.divergence.alignment import Alignment, Apart
    from aneforge.analysis.divergence.arithmetic import Arithmetic
    from aneforge.analysis.divergence.numbering import Numbered
    from aneforge.analysis.ranges.situation import Flow
    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Note
    from aneforge.errors import Location
    from aneforge.graph.convert import Change
    from aneforge.graph.graph import Graph, GraphLike

__all__ = ["Cause", "Difference", "Divergence", "Side", "Strength", "between", "divergence", "divergence_of_programs"]


FIRST, SECOND = "{first}", "{second}"
"""Marks of the two targets in a template."""
SQUARE_FUSED = "one target squares a sum before it is rounded, the other after a rounding"


class Strength(StrEnum):
    """How far apart two answers can be, the strongest first. Four of them are the documented verdicts on operations.

    >>> max([Strength.ULP1, Strength.ROUND1], key=lambda one: one.rank)
    <Strength.ROUND1: 'round1'>
    """

    ELEMENTS = "elements"
    """One target returns wrong elements, and no source says which."""
    SATURATION = "saturation"
    """Finite on one target, infinite on the other."""
    APPROXIMATION = "approximation"
    """Two formulas of one function."""
    ROUNDINGS = "roundings"
    """The same terms, rounded in different places."""
    ROUND1 = "round1"
    """One rounding more or less."""
    ULP1 = "ulp1"
    """The same terms in another order: about one unit in the last place."""
    NONE = "none"

    @property
    def rank(self) -> int:
        """Place in the order: the strongest has the largest."""
        return len(Strength) - list(Strength).index(self)


class Cause(StrEnum):
    """Why two targets differ in a layer."""

    CROP = "crop route"
    JOIN = "join of cropped slices"
    WINOGRAD = "Winograd on width"
    REDUCTION = "reduction family"
    SQUARE = "square fused into a reduction"
    TABLE = "activation table"
    DECOMPOSITION = "decomposition"
    FOLD = "compression fold"
    FUSION = "fusion"
    SPLIT = "split"
    DATA = "datapath"
    UNKNOWN = "unknown arithmetic"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two targets differ."""

    layer: str
    op: str
    location: Location | None
    strength: Strength
    cause: Cause
    bound: float
    """How far apart the results of the operation itself can be, before the slots after it and for equal operands;
    infinite where nothing bounds it, NaN where it is not known."""
    on_engine: bool
    """The engine computes different bits or cannot know them; False for what is known of silicon and modelled alike."""
    template: str
    """Why, with the marks `FIRST` and `SECOND` in the places of the targets: several may share a program."""
    targets: tuple[str, str]

    @property
    def detail(self) -> str:
        """Why, in words."""
        return self.template.replace(FIRST, self.targets[0]).replace(SECOND, self.targets[1])

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        judged = "" if self.on_engine else "; the engine models both alike"
        return f"{self.strength}: {self.layer} {self.op}{where}: {self.cause}{self.apart} ({self.detail}{judged})"

    @property
    def apart(self) -> str:
        """The bound in words; numbers that differ by nothing can be zeros of both signs, which are other bits."""
        if math.isnan(self.bound):
            return ""
        if math.isinf(self.bound):
            return ", without a bound for inputs of any size"
        return f", differs by at most {self.bound:.3g}" if self.bound else ", differs at most in the sign of zero"


@dataclass(frozen=True, slots=True)
class Divergence:
    """The verdict on a graph for two targets."""

    first: str
    second: str
    findings: tuple[Difference, ...]
    """The strongest first."""
    outputs: tuple[str, ...]
    """The outputs and states that can differ in a bit on the engine, or whose bits it cannot know."""
    notes: tuple[str, ...] = ()
    """What was done to the graph before it was compiled for either."""

    @property
    def verdict(self) -> Strength:
        """What the engine can show: the strongest finding in which it computes different bits, or cannot know them."""
        return strongest(finding for finding in self.findings if finding.on_engine)

    @property
    def on_silicon(self) -> Strength:
        """The strongest of all findings, those included that chips show and that the engine models alike."""
        return strongest(self.findings)

    @property
    def equal_on_engine(self) -> bool:
        """The engine gives the same bits for all inputs within the declared ranges."""
        return not self.outputs

    def __str__(self) -> str:
        beyond = f", {self.on_silicon} on silicon" if self.on_silicon is not self.verdict else ""
        head = f"{self.first} and {self.second}: {self.verdict}{beyond}"
        return cut_lines([head, *(f"  {line}" for line in (*self.findings, *self.notes))])

    def _repr_html_(self) -> str:
        return as_html(self)


def strongest(findings: Iterable[Difference]) -> Strength:
    """Return the strength of the strongest finding."""
    return max((finding.strength for finding in findings), key=lambda one: one.rank, default=Strength.NONE)


@dataclass(frozen=True, slots=True)
class Side:
    """A graph on one target: what it was rebuilt to, its program with numbers, and the ranges of its values."""

    graph: Graph
    changes: tuple[Change, ...]
    numbered: Numbered
    flow: Flow


def divergence(
    graph: GraphLike,
    a: TargetLike,
    b: TargetLike,
    *,
    ranges: Mapping[str, tuple[float, float] | float] | None = None,
) -> Divergence:
    """Return where two targets can give different answers, the strongest reason first.

    `ranges` bounds inputs by a magnitude or two ends; otherwise an input's `max_abs` is used, and without it the input
    can be any fp16 number.

    >>> import aneforge as af
    >>> x = af.input((1, 8), name="x")
    >>> cut = x.slice_by_size((0, 2), (1, 4))
    >>> family = af.targets.Family
    >>> found = divergence(cut, family.A13, family.A16)
    >>> str(found.verdict), str(found.findings[0].cause)
    ('saturation', 'crop route')
    >>> str(divergence(cut, family.A13, family.A16, ranges={"x": 4094.0}).verdict)
    'none'

    Raises:
        IllegalGraphError: An operation cannot run on one of the targets.
        NotSupportedError: An operation has no form there.
        UnknownTargetError: The target name is unknown.
        UnknownNameError: A range is given for an input that does not exist.
    """
    half = to_fp16(graph)
    made = [compile_graph(half.graph, resolve(target)) for target in (a, b)]
    found = divergence_of_programs(half.graph, made[0], made[1], ranges)
    return replace(found, notes=half.notes)


def divergence_of_programs(
    graph: Graph, first: Compiled, second: Compiled, ranges: Mapping[str, tuple[float, float] | float] | None = None
) -> Divergence:
    """Return where a graph of fp16 that was compiled for two targets can give different answers.

    Raises:
        UnknownNameError: A range is given for an input that does not exist.
    """
    from aneforge.analysis.ranges.program_ranges import declared_ranges, flow  # noqa: PLC0415 - a glance follows none

    expect_values(graph, "a comparison of two chips")
    numbering, inputs = Numbering(), declared_ranges(graph, ranges)
    sides: list[Side] = []
    for made in (first, second):
        found = flow(made.program, inputs)
        sides.append(Side(made.graph, made.retargeted.changes, numbering.program(made.program, found.ranges), found))
    return between(sides[0], sides[1], numbering)


def between(first: Side, second: Side, numbering: Numbering) -> Divergence:
    """Return where two programs of one graph can give different answers, given what their values hold."""
    together = align_programs(first.numbered.program, second.numbered.program, (first.graph, second.graph), numbering)
    findings = [*differing_pairs(together, first, second), *differing_groups(together, first, second)]
    left, right = first.numbered.leaving(), second.numbered.leaving()
    outputs = tuple(name for name in left if left[name] != right.get(name))
    if outputs and not any(finding.on_engine for finding in findings) and not together.same_graph:
        findings += find_unexplained(together, first, second)
    if not any(finding.on_engine for finding in findings):
        outputs = ()
    if not outputs:
        findings = [finding for finding in findings if not finding.on_engine]
    findings.sort(key=lambda finding: -finding.strength.rank)
    return Divergence(first.numbered.program.target.name, second.numbered.program.target.name, tuple(findings), outputs)


# Layers alike but for their arithmetic.


def differing_pairs(together: Alignment, first: Side, second: Side) -> list[Difference]:
    """Return the findings on layers that both programs have."""
    found: list[Difference] = []
    for one, other in together.pairs:
        left, right = first.numbered.arithmetics[one.name], second.numbered.arithmetics[other.name]
        if left.square != right.square:
            found.append(square_finding(one, targets_of(first, second)))
        if replace(left, square="").on_silicon != replace(right, square="").on_silicon:
            found.append(pair_finding(one, (left, right), first, second, other))
    return found


def targets_of(first: Side, second: Side) -> tuple[str, str]:
    """Return the names of the targets of two sides."""
    return first.numbered.program.target.name, second.numbered.program.target.name


def square_finding(layer: Layer, targets: tuple[str, str]) -> Difference:
    """Return the finding on a sum and a square that one target may fuse on silicon, where no program does."""
    template = f"{SQUARE_FUSED}, according to the hardware field 0x494"
    where = (layer.name, op_of_layer(layer), layer.location)
    return Difference(*where, Strength.ROUND1, Cause.SQUARE, math.nan, False, template, targets)  # noqa: FBT003 - a field


def pair_finding(
    layer: Layer, arithmetics: tuple[Arithmetic, Arithmetic], first: Side, second: Side, other: Layer
) -> Difference:
    """Return the finding on a layer whose arithmetics differ."""
    left, right = arithmetics
    on_engine = left.on_engine != right.on_engine
    bound = width(first, second, (layer,), (other,))
    if left.elements != right.elements:
        strength, cause, bound = Strength.ELEMENTS, Cause.JOIN, math.nan
        detail = wrong_elements(*(mark for mark, one in zip((FIRST, SECOND), arithmetics, strict=True) if one.elements))
    elif left.route != right.route:
        strength, cause, bound = Strength.SATURATION, Cause.CROP, math.inf
        detail = f"on {FIRST if left.route else SECOND} magnitudes above 4094 become infinite"
    elif left.form != right.form:
        strength, cause = Strength.ROUNDINGS, Cause.WINOGRAD
        bound = min(bound, winograd_bound(layer, other, first, second))
        detail = f"{left.form} on {FIRST}, {right.form} on {SECOND}"
    elif left.epsilon != right.epsilon and not nearly_equal(left.epsilon, right.epsilon):
        strength, cause = Strength.ROUNDINGS, Cause.DATA
        detail = f"{left.epsilon} is added to the variance on {FIRST}, {right.epsilon} on {SECOND}"
    elif left.adder != right.adder or left.order != right.order:
        strength, cause = Strength.ULP1, Cause.REDUCTION
        bound = bound if left.epsilon != right.epsilon else min(bound, order_bound(layer, first, second))
        detail = f"sums in the {left.order} order on {FIRST}, in the {right.order} order on {SECOND}"
    elif left.epsilon != right.epsilon:
        strength, cause = Strength.ULP1, Cause.DATA
        detail = f"{left.epsilon} is added to the variance on {FIRST}, {right.epsilon} on {SECOND}"
    elif left.int8 != right.int8:
        strength, cause, bound = Strength.SATURATION, Cause.FOLD, math.inf
        detail = describe_int8_infinity(FIRST if left.int8 else SECOND)
    elif left.weights != right.weights:
        strength, cause = Strength.ROUNDINGS, Cause.FOLD
        bound = bound if on_engine else math.nan
        detail = f"weights {fate(left)} on {FIRST}, {fate(right)} on {SECOND}"
    elif left.unknown != right.unknown and (entry := unknown_arithmetic(layer)) is not None:
        strength, cause, bound, detail = Strength.ROUNDINGS, Cause.UNKNOWN, math.nan, entry.reason
    else:
        differing = [name for name, value in left.data if (name, value) not in right.data]
        table = any(name in ("activation_tables", "tables_besides_gelu") for name in differing)
        strength, cause = Strength.ROUNDINGS, Cause.TABLE if table else Cause.DATA
        bound, detail = math.nan, f"the data of the targets differ in {', '.join(differing) or 'their datapath'}"
    where = (layer.name, op_of_layer(layer), layer.location)
    return Difference(*where, strength, cause, bound, on_engine, detail, targets_of(first, second))


def nearly_equal(first: float | None, second: float | None) -> bool:
    """Return whether two epsilons are equal, rounded to fp16 and to fp32: the root of their ratio is within an ulp.

    >>> nearly_equal(1.0013580322265625e-05, 1e-05), nearly_equal(0.0, 1e-12)
    (True, False)
    """
    return first is not None and second is not None and math.isclose(first, second, rel_tol=2.0**-9)


def wrong_elements(*targets: str) -> str:
    """Return what is known of a join of cropped slices."""
    return f"wrong elements come out on {' and on '.join(targets)}, and no source says which"


def describe_int8_infinity(target: str) -> str:
    """Return what happens to large activations where int8 weights stream."""
    return f"with int8 weights, activations above 4094 become infinite on {target}"


def fate(arithmetic: Arithmetic) -> str:
    """Return what becomes of encoded weights, in one word."""
    return arithmetic.weights or "fold"


def width(first: Side, second: Side, left: Sequence[Layer], right: Sequence[Layer]) -> float:
    """Return the width of what both can give at all, which bounds any difference; infinite where either can be."""
    ranges = [
        *(side.flow.layers[layer.name].core for side, layers in ((first, left), (second, right)) for layer in layers),
    ]
    whole = hull(ranges)
    return whole.high - whole.low if whole.low in FINITE and whole.high in FINITE else math.inf


def winograd_bound(layer: Layer, other: Layer, first: Side, second: Side) -> float:
    """Return how far the two forms of a convolution can be apart: their sums, and one rounding of each."""
    one, two = first.flow.layers[layer.name].total, second.flow.layers[other.name].total
    if one is None or two is None:
        return math.inf
    ends = np.stack([one.low, one.high, two.low, two.high])
    if not np.isfinite(ends).all():
        return math.inf
    from aneforge.analysis.ranges.product_ranges import LOST  # noqa: PLC0415 - a glance knows no sums

    apart = float(np.max(np.abs(ends[:2] - ends[2:])))
    return apart + 2 * one.terms * LOST + float(np.abs(ends).max()) * 2.0**-10 + 2.0**-24


def order_bound(layer: Layer, first: Side, second: Side) -> float:
    """Return how far two orders of one sum can be apart, for plain sums and means; infinite for others."""
    call = call_of_layer(layer)
    if call is None or call.op not in ("reduce_sum", "reduce_mean", "avg_pool") or not layer.bottoms:
        return math.inf
    x = first.flow.ranges[layer.bottoms[0].name]
    if not x.finite:
        return math.inf
    from aneforge.analysis.ranges.sums import slack_of  # noqa: PLC0415 - a glance knows few ranges

    terms = layer.bottoms[0].type.size // max(layer.results[0].type.size, 1) if call.op == "reduce_sum" else 1
    share = sum(slack_of(side.numbered.program.target) for side in (first, second))
    return terms * x.magnitude * (share + 2.0**-10)


# Layers that only one of the programs has.


def differing_groups(together: Alignment, first: Side, second: Side) -> list[Difference]:
    """Return the findings on layers without a partner; layers that only move bits make none on their own."""
    found: list[Difference] = []
    for apart in together.apart:
        if together.same_graph and moves_only((*apart.first, *apart.second), first, second):
            continue
        finding = group_finding(apart, first, second)
        equal = same_results(apart, first, second, together)
        if not equal or finding.cause is Cause.SQUARE:
            found.append(replace(finding, on_engine=not equal))
    return found


def same_results(apart: Apart, first: Side, second: Side, together: Alignment) -> bool:
    """Return whether what leaves both groups of layers has the same names and the same numbers."""
    left = {name: first.numbered.numbers[name] for name in leaving_group(apart.first, first)}
    right = {
        canonical(name, together.renamed): second.numbered.numbers[name] for name in leaving_group(apart.second, second)
    }
    return left == right


def leaving_group(layers: Sequence[Layer], side: Side) -> list[str]:
    """Return the values that layers make for others, or for the outside."""
    program, own = side.numbered.program, {layer.name for layer in layers}
    return [
        result.name
        for layer in layers
        for result in layer.results
        if result.name in program.kept or any(one.name not in own for one in program.consumers.get(result.name, ()))
    ]


def moves_only(layers: Sequence[Layer], first: Side, second: Side) -> bool:
    """Return whether layers only move bits: passes keep their meaning, so they move the same ones."""
    for layer in layers:
        call = call_of_layer(layer)
        if call is None or layer.epilogue:
            return False
        sides = [side.numbered.arithmetics.get(layer.name) for side in (first, second)]
        if any(one is not None and one.elements for one in sides):
            return False
        plain = call.op in ("slice_by_size", "slice_by_index") and all(one is None or not one.route for one in sides)
        if not entry_of(call.op).copies and not plain:
            return False
    return True


def group_finding(apart: Apart, first: Side, second: Side) -> Difference:
    """Return the finding on layers that stand for the same part of the graph and differ."""
    layers = (*apart.first, *apart.second)
    last = (apart.first or apart.second)[-1]
    kinds = [{layer.kind.name for layer in one} for one in (apart.first, apart.second)]
    texts = [change.detail for side in (first, second) for change in side.changes]
    bound = width(first, second, apart.first[-1:], apart.second[-1:])
    sides = ((FIRST, first, apart.first), (SECOND, second, apart.second))
    notes = [note.for_target(mark).text for mark, side, one in sides for note in notes_on(side, one)]
    crop = any(side.numbered.arithmetics[layer.name].route for _, side, one in sides for layer in one)
    encoding = [mark for mark, side, one in sides if any(side.numbered.arithmetics[layer.name].int8 for layer in one)]
    joins = [mark for mark, side, one in sides if any(side.numbered.arithmetics[layer.name].elements for layer in one)]
    if joins:
        strength, cause, bound, detail = Strength.ELEMENTS, Cause.JOIN, math.nan, wrong_elements(*joins)
    elif crop:
        strength, cause, detail = Strength.SATURATION, Cause.CROP, "a slice passes the fixed-point crop on one of them"
        bound = math.inf
    elif len(encoding) == 1:
        strength, cause, bound, detail = Strength.SATURATION, Cause.FOLD, math.inf, describe_int8_infinity(*encoding)
    elif ("square_after_reduction" in kinds[0]) != ("square_after_reduction" in kinds[1]):
        strength, cause = Strength.ROUND1, Cause.SQUARE
        detail = SQUARE_FUSED
    elif rebuilt(first) != rebuilt(second) and texts:
        strength, cause, detail = Strength.APPROXIMATION, Cause.DECOMPOSITION, "; ".join(dict.fromkeys(texts))
    elif kinds[0] == kinds[1]:
        strength, cause, detail = Strength.ROUNDINGS, Cause.FUSION, "fused operations after an operation differ"
    else:
        strength, cause = Strength.ROUNDINGS, Cause.SPLIT
        detail = "; ".join(dict.fromkeys(notes)) or f"{name_kinds(apart.first)} against {name_kinds(apart.second)}"
    where, targets = (last.name, op_of_layer(last), locate(layers)), targets_of(first, second)
    return Difference(*where, strength, cause, bound, True, detail, targets)  # noqa: FBT003 - a field


def rebuilt(side: Side) -> list[tuple[object, ...]]:
    """Return the operations that were rebuilt, each with what it became; why differs from target to target."""
    return [(change.op, change.location, change.detail, change.decomposition) for change in side.changes]


def notes_on(side: Side, layers: Sequence[Layer]) -> list[Note]:
    """Return what the passes noted on layers, or on the layers that they were made of.

    What was noted of a slice's route is no reason for a split: a slice that the crop changes is a finding of its own.
    """
    stems = {layer.name.split(".")[0] for layer in layers}
    notes = (note for note in side.numbered.program.notes if note.stage != ChooseSliceRoute.name)
    return [note for note in notes if note.layer and note.layer.split(".")[0] in stems]


def find_unexplained(together: Alignment, first: Side, second: Side) -> list[Difference]:
    """Return the finding on programs of different operations in which no layer stands out."""
    last = second.numbered.program.layers[-1]
    bound = width(first, second, first.numbered.program.layers[-1:], (last,))
    return [
        Difference(
            layer=last.name,
            op=op_of_layer(last),
            location=last.location,
            strength=Strength.APPROXIMATION,
            cause=Cause.DECOMPOSITION,
            bound=bound,
            on_engine=True,
            template=f"the programs differ in {len(together.apart)} places",
            targets=targets_of(first, second),
        )
    ]


def name_kinds(layers: Sequence[Layer]) -> str:
    """Return layers by their kinds, a few of them."""
    kinds = list(dict.fromkeys(layer.kind.name for layer in layers))
    return ", ".join(kinds[:4]) or "nothing"


def locate(layers: Sequence[Layer]) -> Location | None:
    """Return the first place that layers name."""
    return next((layer.location for layer in layers if layer.location is not None), None)
