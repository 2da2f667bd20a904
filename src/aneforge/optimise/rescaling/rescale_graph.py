"""A graph rescaled for one target: the inputs that it is judged by, the loop of trials, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs] - it has none

from aneforge.errors import GraphError
from aneforge.graph.convert import unroll
from aneforge.graph.graph import as_graph
from aneforge.ops.op import Trait
from aneforge.ops.table import ops_with
from aneforge.optimise.rescaling.engine_errors import GraphErrors, evaluate_exactly
from aneforge.optimise.rescaling.error_changes import Expected
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.optimise.rescaling.rescaling_report import OutputError, Rescaled
from aneforge.optimise.rescaling.sample_inputs import (
    draw_extremes,
    draw_within,
    fit_inputs,
    redraw_sets,
    resize_sample,
)
from aneforge.optimise.rescaling.scale_norms import describe_lost_squares
from aneforge.optimise.rescaling.trial_loop import TrialBasis, TrialLoop
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Node
    from aneforge.targets import TargetLike

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]
    Bounds = Mapping[tuple[Node, int], float]

__all__ = ["rescale_graph"]


def rescale_graph(
    graph: GraphLike,
    target: TargetLike = None,
    samples: Sequence[Sample] | None = None,
    bounds: Bounds | None = None,
    safety_bits: int | None = None,
    *,
    small: Sequence[Sample] = (),
) -> Rescaled:
    """Return a graph with its products rescaled by powers of two, and the engine's errors before and after.

    `samples` are sets of inputs; without them some are drawn: of a standard normal distribution, within what inputs
    promise. `bounds` are proven magnitudes of the tensors that products read, in the place of those that are seen, and
    `small` are inputs far below them. Without bounds samples are tried at a few other sizes, too. On such inputs
    nothing may become worse.

    >>> import numpy as np, aneforge as af
    >>> weight = np.random.default_rng(0).standard_normal((16, 1024)) / 32
    >>> graph = af.Graph({"y": (af.input((4, 1024), name="x") * 2.0**-5).linear(weight)})
    >>> found = rescale_graph(graph, af.targets.Family.A15)
    >>> print(found.outputs[0], found.layers_after - found.layers_before)
    y: error 0.718% -> 0.022%, on fresh inputs 0.721% -> 0.025% 0

    Raises:
        GraphError: A sample does not fit, or holds no finite number.
        GraphTypeError: A sample holds no numbers.
        IllegalGraphError: An operation cannot run on the target.
    """
    whole, resolved = unroll(as_graph(graph)).graph, resolve(target)
    given = [draw_within(whole)] if samples is None else [fit_inputs(whole, sample) for sample in samples]
    source = "declared" if bounds is not None else "observed" if samples is not None else "drawn"
    safety = policy().safety(source) if safety_bits is None else safety_bits
    populations = 1 if bounds is None else len(given)
    sets = [*given, *redraw_sets(whole, given, populations)]
    shown = [*given, draw_extremes(whole)] if samples is None else given
    smaller, larger = [fit_inputs(whole, one) for one in small], []
    if bounds is None:
        less, more = policy().less, policy().more
        smaller, larger = (resize_sample(whole, given[0], one.parts, one.sets) for one in (less, more))
    with threadpool_limits(1, user_api="blas"):  # its threads wait for work by turning, and so take the engine's cores
        try:
            exact = [evaluate_exactly(whole, one) for one in sets]
        except GraphError as error:
            if samples is not None and error.operation is None:
                raise
            remark = f"nothing to compare with: {error.message}"
            return Rescaled(whole, resolved.name, source, safety, (), (), 0, 0, (remark,))
        before = GraphErrors.measure(whole, resolved, sets, exact)
        expected = Expected(sets, exact, populations)
        basis = TrialBasis(resolved, expected, shown, bounds, safety, samples is not None, smaller, larger)
        loop = TrialLoop(whole, before, basis)
        loop.run()
    products = tuple(sorted(loop.reports.values(), key=lambda product: int(product.name[1:])))
    remarks = tuple(
        f"{one.name} {one.op}: {describe_lost_squares(one.exponents[0])}"
        for one in products
        if one.op in ops_with(Trait.NORMALISING) and one.exponents[0] < 0
    )
    return Rescaled(
        loop.graph,
        resolved.name,
        source,
        safety,
        products,
        compare_outputs(before, loop.errors, len(given)),
        before.layers,
        loop.errors.layers,
        remarks,
    )


def compare_outputs(before: GraphErrors, after: GraphErrors, given: int) -> tuple[OutputError, ...]:
    """Return the largest errors of every output, on the first sets, which were given, and on fresh ones."""
    return tuple(
        OutputError(name, max(then[:given]), max(now[:given]), max(then[given:]), max(now[given:]))
        for name, then in before.errors.items()
        for now in (after.errors[name],)
    )
