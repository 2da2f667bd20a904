"""`af.rescale`: products rescaled by powers of two, bounded by declared ranges or by what sample inputs show.

`rescale_graph` does the rescaling, for `compile` does it too. Here is what needs the range analysis: bounds that are
proven, and the proof that the rescaled program passes no edge that it did not pass.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.ranges.analysis import Edge
from aneforge.analysis.ranges.analysis import ranges as range_report
from aneforge.analysis.ranges.interval import FINITE
from aneforge.analysis.ranges.probes import bound_values
from aneforge.analysis.ranges.program_ranges import declared_ranges, read_samples
from aneforge.errors import GraphError
from aneforge.graph.graph import expect_values
from aneforge.graph.methods.method_arguments import whole as whole_number
from aneforge.graph.precision import to_fp16
from aneforge.ops.types import is_float
from aneforge.optimise.rescaling.rescale_graph import rescale_graph
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.optimise.rescaling.sample_inputs import SEED, count_sets, draw_integers
from aneforge.optimise.rescaling.trial_loop import find_operands
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.analysis.ranges.interval import Range
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node
    from aneforge.optimise.rescaling.rescaling_report import Rescaled
    from aneforge.targets import Target, TargetLike

    Array = npt.NDArray[Any]
    Draw = Callable[[Range, tuple[int, ...]], Array]

__all__ = ["rescale"]

NOT_PROVEN = "the rescaled program is not proven to stay below the accumulator's edge"
DEVIATIONS = 12
"""How many deviations wide a declared range is, for inputs that are drawn around its middle: what is bounded for good
has few elements near its ends."""

ALIKE_EVERY = 4
"""In one of this many sets the elements of a row are alike: their roundings add up, where others cancel."""


def rescale(
    graph: GraphLike,
    *,
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]] | None = None,
    ranges: Mapping[str, tuple[float, float] | float] | None = None,
    target: TargetLike = None,
    safety_bits: int | None = None,
) -> Rescaled:
    """Return an equivalent graph whose products are well above the accumulator's grid, with a report.

    Weights are multiplied by powers of two, one per product or one per output channel, and the inverse goes into the
    gain after the sum. The input of a norm is multiplied if its squares would not fit fp16. With `inputs`, sample
    values, factors are chosen by the observed magnitudes, with some bits of safety. With `ranges`, magnitudes or ends
    of inputs, factors are chosen by bounds that are proven for all inputs within them, and errors are measured on
    random inputs within them. With neither, inputs are random.

    A rescaling is used only if it improves outputs on those inputs and on fresh ones of the same distribution, and
    makes no output worse on smaller inputs, unless it leaves at most a tenth of the error on samples or removes an
    infinite error; and, with `ranges`, only if it is proven to stay below the accumulator's edge.

    >>> import numpy as np, aneforge as af
    >>> weight = np.random.default_rng(0).standard_normal((16, 1024)) / 32
    >>> graph = af.Graph({"y": af.input((4, 1024), name="x").linear(weight)})
    >>> found = af.rescale(graph, ranges={"x": 0.05}, target=af.targets.Family.A15)
    >>> found.applied[0].exponents, found.outputs[0].before > 0.004, found.outputs[0].after < 0.0005
    ((11,), True, True)

    Raises:
        GraphError: Both inputs and ranges are given, a sample or range does not fit, or safety_bits is out of range.
        GraphTypeError: Samples are not arrays by name, ranges not numbers by name, or safety_bits is not an integer.
        UnknownNameError: There is no input of that name.
        IllegalGraphError: An operation cannot run on the target.
    """
    if inputs is not None and ranges is not None:
        raise GraphError("sizes are either declared or observed", remedy="give ranges= or inputs=, not both")
    bits, samples = check_bits(safety_bits), collect_samples(inputs)
    half, resolved = to_fp16(graph), resolve(target)
    expect_values(half.graph, "scaling weights")
    if ranges is None:
        found = rescale_graph(half.graph, resolved, samples, safety_bits=bits)
    else:
        found = rescale_within(half.graph, resolved, ranges, bits or 0)
    return replace(found, remarks=(*half.notes, *found.remarks))


def rescale_within(
    whole: Graph, resolved: Target, ranges: Mapping[str, tuple[float, float] | float], first: int
) -> Rescaled:
    """Return a graph rescaled by what is proven of inputs within ranges; `first` bits are left free, or more."""
    declared = declared_ranges(whole, ranges, otherwise=FINITE)
    samples, bounds = draw_from(whole, declared), prove_bounds(whole, resolved, declared)
    small = draw_far_below(whole, declared)
    before = prove_margin(whole, ranges, resolved)
    for bits in (first, first + 2, first + 4):
        found = rescale_graph(whole, resolved, samples, bounds, bits, small=small)
        after = prove_margin(found.graph, ranges, resolved)
        if after >= min(before, 0.0):
            text = f"the least margin of all sums is proven to be {after:+.1f} bits, as it was {before:+.1f}"
            return replace(found, remarks=(*found.remarks, text))
    return undo(
        found, whole, f"{NOT_PROVEN}: the proven margin is {after:+.1f} bits; give more safety_bits, or samples"
    )


def undo(found: Rescaled, graph: Graph, remark: str) -> Rescaled:
    """Return a report with nothing done; remarks on what was done go with it."""
    products = tuple(one.refuse(NOT_PROVEN) if one.applied else one for one in found.products)
    outputs = tuple(replace(one, after=one.before, fresh_after=one.fresh_before) for one in found.outputs)
    return replace(
        found,
        graph=graph,
        products=products,
        outputs=outputs,
        layers_after=found.layers_before,
        remarks=(remark,),
    )


def prove_margin(graph: Graph, declared: Mapping[str, tuple[float, float] | float], target: Target) -> float:
    """Return the least margin of any sum below the accumulator's edge, by the range analysis of the whole program."""
    return range_report(graph, declared, target=target).margin(Edge.ACCUMULATOR)


def check_bits(safety_bits: object) -> int | None:
    """Return bits to leave free, where a number of them is given.

    Raises:
        GraphError: They are too few or too many.
        GraphTypeError: It is not an integer.
    """
    if safety_bits is None:
        return None
    bits = whole_number(safety_bits, "rescale", "safety_bits")
    if not 0 <= bits <= math.log2(FINITE.high):
        raise GraphError("safety_bits must be a number of bits", seen=bits, limit="0 to 15")
    return bits


def collect_samples(
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]] | None,
) -> Sequence[Mapping[str, Array]] | None:
    """Return sets of sample inputs.

    Raises:
        GraphError: There is none.
        GraphTypeError: They are not arrays by name.
    """
    if inputs is None:
        return None
    samples = read_samples(inputs)
    if not samples:
        raise GraphError(
            "there is no sample to choose factors by", remedy="omit inputs, and samples are drawn at random"
        )
    return samples


def prove_bounds(graph: Graph, target: Target, declared: Mapping[str, Range]) -> Mapping[tuple[Node, int], float]:
    """Return how large the tensors that products read can get for any inputs within ranges."""
    values = find_operands(graph)
    names = {node: name for name, node in graph.inputs.items()}
    found = {
        (value.node, value.index): declared[names[value.node]].magnitude
        for value in values
        if value.node in names and names[value.node] in declared
    }
    return found | bound_values(values, target, declared)


def draw_from(graph: Graph, declared: Mapping[str, Range]) -> list[dict[str, Array]]:
    """Return inputs drawn from ranges: once evenly, and once around the middle, as most inputs are in theirs."""
    random = np.random.default_rng(SEED)

    def evenly(one: Range, shape: tuple[int, ...]) -> Array:
        return random.uniform(one.low, one.high, shape)

    def around_the_middle(one: Range, shape: tuple[int, ...]) -> Array:
        deviation = (one.high - one.low) / DEVIATIONS
        return np.clip(random.normal((one.low + one.high) / 2, deviation, shape), one.low, one.high)

    return [draw_inputs(graph, declared, draw, random) for draw in (evenly, around_the_middle)]


def draw_far_below(graph: Graph, declared: Mapping[str, Range]) -> list[dict[str, Array]]:
    """Return inputs far smaller than their ranges, in turns by the policy's parts: around what is nearest to zero.

    In every fourth set rows are of equal elements, whose roundings do not cancel.
    """
    random, chosen = np.random.default_rng(SEED), policy().small_rows
    turns = count_sets(graph, len(chosen.parts), chosen.sets)

    def small(part: float, *, alike: bool) -> Draw:
        def draw(one: Range, shape: tuple[int, ...]) -> Array:
            nearest = min(max(0.0, one.low), one.high)
            drawn = random.normal(nearest, part * one.magnitude, (*shape[:-1], 1) if alike and shape else shape)
            return np.broadcast_to(np.clip(drawn, one.low, one.high), shape)

        return draw

    return [
        draw_inputs(graph, declared, small(part, alike=turn % ALIKE_EVERY == ALIKE_EVERY - 1), random)
        for turn in range(turns)
        for part in chosen.parts
    ]


def draw_inputs(
    graph: Graph, declared: Mapping[str, Range], draw: Draw, random: np.random.Generator
) -> dict[str, Array]:
    """Return inputs drawn from their ranges, and integers."""
    return {
        name: draw(declared[name], node.types[0].shape)
        if is_float(node.types[0].dtype)
        else draw_integers(graph, node, random)
        for name, node in graph.inputs.items()
    }
