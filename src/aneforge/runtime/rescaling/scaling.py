"""A graph rescaled for one target: the inputs that it is judged by, the search, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.planar import host_fp16
from aneforge.errors import GraphError
from aneforge.graph.graph import as_graph
from aneforge.graph.node import Output
from aneforge.graph.reference import fitted
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.runtime.magnitudes import promises_of
from aneforge.runtime.rescaling.choosing import MOST_OPERAND
from aneforge.runtime.rescaling.judging import Expected
from aneforge.runtime.rescaling.measuring import Whole, results_of
from aneforge.runtime.rescaling.norms import NORMS, lost_squares
from aneforge.runtime.rescaling.observing import fresh
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.report import OutputError, Rescaled
from aneforge.runtime.rescaling.searching import Evidence, Search, operands_of
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Argument, Node
    from aneforge.runtime.rescaling.report import ProductRescaling
    from aneforge.targets import Target, TargetLike

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]
    Bounds = Mapping[tuple[Node, int], float]

__all__ = ["drawn_whole", "operands_of", "rescaled", "sets_of_each"]

LARGEST_DRAWN = 4.0
"""Of a standard normal distribution one element of 16,000 is larger."""
INDICES = frozenset({"indices", "index"})
"""Names of operands that choose elements."""
SEED = 0x52455343414C45
"""No seed that weights are likely to be drawn with: inputs that equal weights would show results of another size."""


def rescaled(
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
    >>> found = rescaled(graph, af.targets.Family.A15)
    >>> print(found.outputs[0], found.layers_after - found.layers_before)
    y: error 0.718% -> 0.022%, on fresh inputs 0.721% -> 0.025% 0

    Raises:
        GraphError: A sample does not fit, or holds no finite number.
        GraphTypeError: A sample holds no numbers.
        IllegalGraphError: An operation cannot run on the target.
    """
    whole, resolved = as_graph(graph), resolve(target)
    given = [drawn_within(whole)] if samples is None else [handed_over(whole, sample) for sample in samples]
    source = "declared" if bounds is not None else "observed" if samples is not None else "drawn"
    safety = policy().safety(source) if safety_bits is None else safety_bits
    populations = 1 if bounds is None else len(given)
    sets = [*given, *fresh_sets(whole, given, populations)]
    try:
        exact = [results_of(whole, one) for one in sets]
    except GraphError as error:
        if samples is not None and error.operation is None:
            raise
        return unchanged(whole, resolved, source, safety, f"nothing to compare with: {error.message}")
    before = Whole.of(whole, resolved, sets, exact)
    shown = [*given, extremes(whole)] if samples is None else given
    less, more = policy().less, policy().more
    smaller = [handed_over(whole, one) for one in small]
    larger: list[dict[str, Array]] = []
    if bounds is None:
        smaller, larger = (resized(whole, given[0], one.parts, one.sets) for one in (less, more))
    expected = Expected(sets, exact, populations)
    evidence = Evidence(resolved, expected, shown, bounds, safety, samples is not None, smaller, larger)
    search = Search(whole, before, evidence)
    search.run()
    after, count = search.errors, len(given)
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
    products = by_place(tuple(search.reports.values()))
    layers = (before.layers, after.layers)
    return Rescaled(search.graph, resolved.name, source, safety, products, outputs, *layers, scaled_down(products))


def scaled_down(products: tuple[ProductRescaling, ...]) -> tuple[str, ...]:
    """Return a remark for every norm that is scaled down."""
    return tuple(
        f"{one.name} {one.op}: {lost_squares(one.exponents[0])}"
        for one in products
        if one.op in NORMS and one.exponents[0] < 0
    )


def by_place(products: tuple[ProductRescaling, ...]) -> tuple[ProductRescaling, ...]:
    """Return reports in the order of the nodes."""
    return tuple(sorted(products, key=lambda product: int(product.name[1:])))


def unchanged(graph: Graph, target: Target, source: str, safety: int, remark: str) -> Rescaled:
    """Return a graph that nothing was done to."""
    return Rescaled(graph, target.name, source, safety, (), (), 0, 0, (remark,))


def sets_of_each(graph: Graph, kinds: int, most: int) -> int:
    """Return how many sets of each kind of inputs are tried: one at least, and no more than the work allows."""
    elements = sum(kind.size for node in graph.nodes for kind in node.types)
    chosen = policy().fresh
    work = max((graph.work().macs + chosen.element * elements) * kinds, 1)
    return max(1, min(most, chosen.work // work))


def fresh_sets(graph: Graph, given: Sequence[Sample], populations: int) -> list[dict[str, Array]]:
    """Return sets of fresh inputs: like all that were given, or in turns like the first of them, the second, and on."""
    count = sets_of_each(graph, len(given), policy().fresh.most)
    if populations == 1:
        return fresh(given, graph, count, SEED)
    turns = max(1, count // populations)
    like = [fresh([one], graph, turns, SEED + place) for place, one in enumerate(given)]
    return [one for turn in zip(*like, strict=True) for one in turn]


def resized(graph: Graph, sample: Sample, parts: Sequence[float], most: int) -> list[dict[str, Array]]:
    """Return a sample, and fresh ones like it, at other sizes in turns, within what inputs promise.

    Whole numbers and truth values stay, for they may be indices.
    """
    promises = promises_of(graph)
    real = {name for name, node in graph.inputs.items() if is_float(node.types[0].dtype)}
    more = sets_of_each(graph, len(parts), most) - 1

    def times(name: str, value: Array, part: float) -> Array:
        if name not in real:
            return value
        largest = promises.get(name, MOST_OPERAND)
        return np.clip(value.astype(np.float64) * part, -largest, largest)

    return [
        handed_over(graph, {name: times(name, value, part) for name, value in one.items()})
        for one in (sample, *fresh([sample], graph, more, SEED))
        for part in parts
    ]


def handed_over(graph: Graph, sample: Sample) -> dict[str, Array]:
    """Return inputs as the host hands them over, so that rounding them is no error of the engine.

    Raises:
        GraphError: One is missing, unknown, of another shape, or not finite.
        GraphTypeError: One is no array of numbers.
    """
    for name in sample:
        if name not in graph.inputs:
            raise GraphError(f"there is no input {name!r}", limit=", ".join(graph.inputs))
    found: dict[str, Array] = {}
    for name, node in graph.inputs.items():
        if name not in sample:
            raise GraphError(f"input {name!r} has no value", limit=", ".join(graph.inputs))
        value = fitted(f"input {name!r}", sample[name], node.types[0])
        found[name] = host_fp16(value) if is_float(node.types[0].dtype) else value
        if is_float(node.types[0].dtype) and not np.all(np.isfinite(found[name])):
            raise GraphError(f"a sample of input {name!r} is not finite in fp16", remedy="give finite samples")
    return found


def drawn_within(graph: Graph) -> dict[str, Array]:
    """Return drawn inputs of moderate size, none beyond what its input promises."""
    promises, random = promises_of(graph), np.random.default_rng(SEED)

    def drawn(name: str, node: Node) -> Array:
        kind = node.types[0]
        if not is_float(kind.dtype):
            return drawn_whole(graph, node, random)
        return np.clip(random.standard_normal(kind.shape), *limits_of(promises.get(name)))

    return handed_over(graph, {name: drawn(name, node) for name, node in graph.inputs.items()})


def drawn_whole(graph: Graph, node: Node, random: np.random.Generator) -> Array:
    """Return whole numbers for an input: 0 and 1, which any index allows; or pixels, where bytes are no index."""
    kind = node.types[0]
    read_as = [
        name for reader in graph.consumers[node] for name, value in reader.operands.items() if is_of(value, node)
    ]
    pixels = kind.dtype == "uint8" and not any(name in INDICES for name in read_as)
    return random.integers(0, 256 if pixels else 2, kind.shape).astype(numpy_dtype(kind.dtype))


def is_of(value: Argument, node: Node) -> bool:
    """Tell whether an operand is what a node gives."""
    return isinstance(value, Output) and value.node is node


def limits_of(promise: float | None) -> tuple[float, float]:
    """Return both ends of what an input promises."""
    return (-np.inf, np.inf) if promise is None else (-promise, promise)


def extremes(graph: Graph) -> dict[str, Array]:
    """Return inputs as large as is promised, or of four deviations. They show sizes; no errors are taken of them."""
    promises, random = promises_of(graph), np.random.default_rng(SEED)

    def drawn(name: str, value: Array) -> Array:
        if not is_float(graph.inputs[name].types[0].dtype):
            return value
        evenly = random.uniform(-1, 1, value.shape)
        return evenly / np.abs(evenly).max(initial=2.0**-24) * promises.get(name, LARGEST_DRAWN)

    return handed_over(graph, {name: drawn(name, value) for name, value in drawn_within(graph).items()})
