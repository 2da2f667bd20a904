"""A graph rescaled for one target: products tried one by one, then all together on the whole graph.

Rescalings stay where every output that they change has a smaller error on every set of inputs: those that factors were
chosen by, and fresh ones of the same distribution. Where all together do not, those that gain most are tried alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine.planar import host_fp16
from aneforge.errors import GraphError
from aneforge.graph.graph import as_graph
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.runtime.magnitudes import promises_of
from aneforge.runtime.rescaling.measuring import Whole, results_of
from aneforge.runtime.rescaling.observing import fresh, observe
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.products import depends_on_state, live_groups, weighted_products
from aneforge.runtime.rescaling.report import OutputError, Rescaled
from aneforge.runtime.rescaling.rewriting import rewritten
from aneforge.runtime.rescaling.trials import Situation, as_it_was, not_tried, try_live, try_weights
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node, Output
    from aneforge.ops.types import TensorType
    from aneforge.runtime.rescaling.report import ProductRescaling
    from aneforge.runtime.rescaling.trials import Trial
    from aneforge.targets import Target, TargetLike

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]
    Bounds = Mapping[tuple[Node, int], float]

__all__ = ["operands_of", "rescaled"]

SEED = 0x52455343414C45
"""No seed that weights are likely to be drawn with: inputs that equal weights would show results of another size."""
NOT_BETTER = "with it an output of the whole graph was not smaller in error on every set of inputs"
READS_STATE = "it reads what depends on a state, whose later values no run from zeros shows"


def operands_of(graph: Graph) -> tuple[Output, ...]:
    """Return the tensors that products read, whose sizes decide by how much these can be rescaled.

    Those that depend on a state are not among them: a run shows one moment of it.
    """
    found: list[Output] = [cast("Output", one.node.operands[one.other]) for one in weighted_products(graph)]
    for group in live_groups(graph):
        found += [cast("Output", node.operands[name]) for node, _, _ in group.members for name in ("x", "y")]
    hidden = depends_on_state(graph)
    return tuple({(value.node, value.index): value for value in found if value.node not in hidden}.values())


def rescaled(
    graph: GraphLike,
    target: TargetLike = None,
    samples: Sequence[Sample] | None = None,
    bounds: Bounds | None = None,
    safety_bits: int | None = None,
) -> Rescaled:
    """Return a graph with its products rescaled by powers of two, and the engine's errors before and after.

    `samples` are sets of inputs; without them some are drawn: of a standard normal distribution, within what inputs
    promise. `bounds` are proven magnitudes of the tensors that products read, in the place of those that are seen.

    >>> import numpy as np, aneforge as af
    >>> weight = np.random.default_rng(0).standard_normal((16, 1024)) / 32
    >>> graph = af.Graph({"y": (af.input((4, 1024), name="x") * 2.0**-5).linear(weight)})
    >>> found = rescaled(graph, af.targets.Family.A15)
    >>> print(found.outputs[0], found.layers_after - found.layers_before)
    y: error 0.718% -> 0.022%, on fresh inputs 0.631% -> 0.024% 0

    Raises:
        GraphError: A sample does not fit, or holds no finite number.
        IllegalGraphError: An operation cannot run on the target.
    """
    whole, resolved = as_graph(graph), resolve(target)
    given = [drawn_within(whole)] if samples is None else [handed_over(whole, sample) for sample in samples]
    source = "declared" if bounds is not None else "observed" if samples is not None else "drawn"
    safety = policy().safety(source) if safety_bits is None else safety_bits
    sets = [*given, *fresh(given, whole, fresh_count(whole, len(given)), SEED)]
    try:
        exact = [results_of(whole, one) for one in sets]
    except GraphError as error:
        if samples is not None and error.operation is None:
            raise
        return unchanged(whole, resolved, source, safety, f"nothing to compare with: {error.message}")
    before = Whole.of(whole, resolved, sets, exact)
    shown = [*given, *extremes(whole)] if samples is None else given
    observed = observe(whole, operands_of(whole), resolved, shown)
    chosen_by = observed if bounds is None else observed.declared(bounds)
    trials = list(tried(Situation(whole, resolved, chosen_by, safety), depends_on_state(whole)))
    kept, after = better(whole, resolved, sets, exact, before, trials)
    graph_now = rewritten(whole, [trial.scaling for trial in kept if trial.scaling is not None])
    count = len(given)
    outputs = tuple(
        OutputError(
            name,
            max(errors[:count]),
            max(after.errors[name][:count]),
            max(errors[count:]),
            max(after.errors[name][count:]),
        )
        for name, errors in before.errors.items()
    )
    products = tuple(report for trial in trials for report in reports_of(trial, kept))
    return Rescaled(graph_now, resolved.name, source, safety, by_place(products), outputs, before.layers, after.layers)


def tried(situation: Situation, skipped: frozenset[Node]) -> Iterator[Trial]:
    """Try every product of a graph, and say why where that cannot be."""
    most = situation.observed.most
    for product in weighted_products(situation.graph):
        reason = hindrance([product.node], most, skipped)
        yield not_tried([(product.node, product.name)], reason) if reason else try_weights(product, situation)
    for group in live_groups(situation.graph):
        nodes = [(node, name) for node, name, _ in group.members]
        reason = hindrance([node for node, _ in nodes], most, skipped)
        yield not_tried(nodes, reason) if reason else try_live(group, situation)


def hindrance(nodes: Sequence[Node], most: Bounds, skipped: frozenset[Node]) -> str:
    """Return why products cannot be judged; empty where they can."""
    if any(node in skipped for node in nodes):
        return READS_STATE
    found = [most.get((value.node, value.index), float("inf")) for node in nodes for value in node.sources()]
    if not np.all(np.isfinite(found)):
        return "what it reads is not bounded by finite numbers"
    return "" if all(found) else "what it reads was zero throughout"


def better(
    graph: Graph,
    target: Target,
    sets: Sequence[Sample],
    exact: Sequence[Sample],
    before: Whole,
    trials: Sequence[Trial],
) -> tuple[list[Trial], Whole]:
    """Return the rescalings that together make no output worse, and the errors with them."""
    kept = sorted((trial for trial in trials if trial.scaling is not None), key=lambda trial: trial.gain)
    while kept:
        made = rewritten(graph, [trial.scaling for trial in kept if trial.scaling is not None])
        after = before.improved(made, target, sets, exact)
        if after is not None:
            return kept, after
        kept = kept[: len(kept) // 2]
    return [], before


def reports_of(trial: Trial, kept: Sequence[Trial]) -> tuple[ProductRescaling, ...]:
    """Return what is to be said of a trial, now that it is known whether it stays."""
    if trial.scaling is None or any(trial is one for one in kept):
        return trial.reports
    return tuple(as_it_was(one, NOT_BETTER) for one in trial.reports)


def by_place(products: tuple[ProductRescaling, ...]) -> tuple[ProductRescaling, ...]:
    """Return reports in the order of the nodes."""
    return tuple(sorted(products, key=lambda product: int(product.name[1:])))


def unchanged(graph: Graph, target: Target, source: str, safety: int, remark: str) -> Rescaled:
    """Return a graph that nothing was done to."""
    return Rescaled(graph, target.name, source, safety, (), (), 0, 0, (remark,))


def fresh_count(graph: Graph, given: int) -> int:
    """Return how many sets of fresh inputs are tried: one at least."""
    elements = sum(kind.size for node in graph.nodes for kind in node.types)
    chosen = policy().fresh
    work = max((graph.work().macs + chosen.element * elements) * given, 1)
    return max(1, min(chosen.most, chosen.work // work))


def handed_over(graph: Graph, sample: Sample) -> dict[str, Array]:
    """Return inputs as the host hands them over, so that rounding them is no error of the engine.

    Raises:
        GraphError: One is missing, unknown, or not finite.
    """
    for name in sample:
        if name not in graph.inputs:
            raise GraphError(f"there is no input {name!r}", limit=", ".join(graph.inputs))
    found: dict[str, Array] = {}
    for name, node in graph.inputs.items():
        if name not in sample:
            raise GraphError(f"input {name!r} has no value", limit=", ".join(graph.inputs))
        value = np.asarray(sample[name])
        found[name] = host_fp16(value.astype(np.float64)) if is_float(node.types[0].dtype) else value
        if is_float(node.types[0].dtype) and not np.all(np.isfinite(found[name])):
            raise GraphError(f"a sample of input {name!r} is not finite in fp16", remedy="give finite samples")
    return found


def drawn_within(graph: Graph) -> dict[str, Array]:
    """Return drawn inputs of moderate size, none beyond what its input promises."""
    promises, random = promises_of(graph), np.random.default_rng(SEED)

    def drawn(name: str, kind: TensorType) -> Array:
        if not is_float(kind.dtype):
            return random.integers(0, 2, kind.shape).astype(numpy_dtype(kind.dtype))
        return np.clip(random.standard_normal(kind.shape), *limits_of(promises.get(name)))

    return handed_over(graph, {name: drawn(name, node.types[0]) for name, node in graph.inputs.items()})


def limits_of(promise: float | None) -> tuple[float, float]:
    """Return both ends of what an input promises."""
    return (-np.inf, np.inf) if promise is None else (-promise, promise)


def extremes(graph: Graph) -> list[dict[str, Array]]:
    """Return inputs as large as is promised, where something is; they show sizes, and no errors are taken of them."""
    promises, random = promises_of(graph), np.random.default_rng(SEED)
    if not promises:
        return []
    large = {
        name: random.uniform(-promises[name], promises[name], value.shape) if name in promises else value
        for name, value in drawn_within(graph).items()
    }
    return [handed_over(graph, large)]
