"""Ranges of a whole program: from its inputs through every layer."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.analysis.ranges.interval import ANYTHING, Range, of_type, of_values
from aneforge.analysis.ranges.layer_ranges import range_of_layer, shares_along
from aneforge.analysis.ranges.lengths import follow_length
from aneforge.analysis.ranges.situation import Flow, Found
from aneforge.engine.planar import host_fp16
from aneforge.errors import GraphTypeError, UnknownNameError
from aneforge.graph.methods.method_arguments import describe_argument, entries, is_number, misuse, number
from aneforge.ops.types import is_float
from aneforge.targets.watching import Watch, answers_alike

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from aneforge.analysis.ranges.lengths import Length
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import TensorType
    from aneforge.targets import Target
    from aneforge.targets.watching import Answers

    Array = npt.NDArray[Any]

__all__ = ["bound_magnitudes", "declared_ranges", "flow", "read_samples"]


RANGE = "a magnitude, or a low and a high end"
"""What a range is given as."""
ASKED = "ranges"
"""The argument, as errors name it."""
REAL_KINDS = tuple("biufV")
"""Sorts of NumPy's types that are real numbers; those of other packages, such as bfloat16, are the last."""


def flow(program: Program, given: Mapping[str, Range], layers: Sequence[Layer] | None = None) -> Flow:
    """Return the ranges of every value, given those of inputs and states; one that is not given can hold anything.

    `layers` are those to look at, with all that they depend on, where not every value is asked for.
    """
    ranges: dict[str, Range] = {}
    for port in program.inputs:
        ranges[port.value.name] = given.get(port.name, of_type(port.value.type.dtype))
    for state in program.states:
        ranges[state.read.name] = given.get(state.name, of_type(state.read.type.dtype))
    found: dict[str, Found] = {}
    shares: dict[str, int] = {}
    lengths: dict[str, Length] = {}
    recall = Recall(watch_on(program.target))
    for layer in program.layers if layers is None else layers:
        found[layer.name] = recall.range_of_layer(layer, ranges, shares, lengths)
        along, length = shares_along(layer), follow_length(layer, lengths)
        shares.update({} if along is None else {layer.result.name: along})
        lengths.update({} if length is None else {layer.result.name: length})
        ranges.update({result.name: one for result, one in zip(layer.results, found[layer.name].results, strict=True)})
    return Flow(ranges, found)


class Recall:
    """Recalls what was found at layers that read the same, for targets that answer alike.

    Targets share layers, and most of a program gives the same whatever its inputs are: a norm forgets their size.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.alike: dict[int, bool] = {}
        """Whether the target gives some answers, by their identity; the current layers keep them."""

    def range_of_layer(
        self, layer: Layer, ranges: Mapping[str, Range], shares: Mapping[str, int], lengths: Mapping[str, Length]
    ) -> Found:
        """Return what a layer can give."""
        known = KNOWN.setdefault(layer, [])
        read = tuple((ranges[one.name], shares.get(one.name), lengths.get(one.name)) for one in layer.bottoms)
        for before, answers, found in known:
            if before == read and self.gives(answers):
                return found
        found = range_of_layer(layer, ranges, self.watch.target, shares, lengths)
        known.append((read, self.watch.all_answers, found))
        return found

    def gives(self, answers: Answers) -> bool:
        """Return whether the target gives some answers."""
        if id(answers) not in self.alike:
            self.alike[id(answers)] = answers_alike(self.watch.plain, answers)
        return self.alike[id(answers)]


KNOWN: weakref.WeakKeyDictionary[Layer, list[tuple[object, Answers, Found]]] = weakref.WeakKeyDictionary()
"""What was found at layers that are still in use: for what they read, and for what the target answered."""


@lru_cache(maxsize=64)
def watch_on(target: Target) -> Watch:
    """Return the one watch on a target: tables of functions are made once for each target that is asked for them."""
    return Watch(target)


def bound_magnitudes(program: Program, promises: Mapping[str, float], values: Iterable[Value]) -> dict[str, float]:
    """Return the largest magnitude of those values that cannot be infinite, by name; promises are those of inputs.

    Only the layers that they depend on are looked at.

    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 4), name="x").relu() + 1.0, af.targets.Family.A16)
    >>> found = [bound_magnitudes(program, one, [program.outputs[0].value]) for one in ({"x": 2.0}, {})]
    >>> [list(one.values()) for one in found]
    [[3.0], []]
    """
    wanted = {value.name for value in values}
    needed = set(wanted)
    layers: list[Layer] = []
    for layer in reversed(program.layers):
        if any(result.name in needed for result in layer.results):
            needed.update(value.name for value in layer.bottoms)
            layers.append(layer)
    given = {name: Range(-most, most) for name, most in promises.items()}
    ranges = flow(program, given, tuple(reversed(layers))).ranges
    return {name: ranges[name].magnitude for name in wanted if ranges[name].finite}


def declared_ranges(
    graph: Graph, given: Mapping[str, tuple[float, float] | float] | None = None, *, otherwise: Range = ANYTHING
) -> dict[str, Range]:
    """Return the range of every input: what is given, else what its `max_abs` promises, else the default.

    A state has the range that is given for what it holds at the start of a run; without one it can hold anything.

    >>> import aneforge as af
    >>> x = af.input((1, 4), max_abs=2.0, name="x")
    >>> declared_ranges(af.Graph({"y": x.relu()}))
    {'x': Range(low=-2.0, high=2.0)}

    Raises:
        UnknownNameError: There is no input with a given name.
        GraphError: A range ends before it begins.
        GraphTypeError: A range is neither a number nor two, or they are not given by name.
    """
    check_by_name(given)
    for name in given or {}:
        if name not in graph.inputs and name not in graph.state_placeholders:
            raise UnknownNameError.of("input", name, [*graph.inputs, *graph.state_placeholders])
    found = {
        name: read_range(name, given[name], node.types[0])
        for name, node in graph.state_placeholders.items()
        if given and name in given
    }
    for name, node in graph.inputs.items():
        if given and name in given:
            found[name] = read_range(name, given[name], node.types[0])
            continue
        promise = node.attributes.get("max_abs")
        if isinstance(promise, int | float):
            found[name] = read_range(name, float(promise), node.types[0])
        elif is_float(node.types[0].dtype):
            found[name] = otherwise
    return found


def check_by_name(given: object) -> None:
    """Check that ranges are given by the names of inputs.

    Raises:
        GraphTypeError: They are not.
    """
    if given is None or isinstance(given, Mapping):
        return
    remedy = 'give a dict, such as {"x": 4.0} or {"x": (-1.0, 4.0)}'
    text = "the ranges are not given by the names of inputs"
    raise misuse(ASKED, text, seen=describe_argument(given), remedy=remedy, error=GraphTypeError)


def read_range(name: str, given: object, kind: TensorType) -> Range:
    """Return a range as the host passes its ends: a magnitude, or two ends.

    Raises:
        GraphError: It ends before it begins, or has more than two ends.
        GraphTypeError: It is neither a number nor two.
    """
    low, high = read_ends(f"the range of input {name!r}", given)
    if not low <= high:
        raise misuse(ASKED, f"the range of input {name!r} is empty", seen=f"{low} to {high}", limit=RANGE)
    ends = of_values(np.asarray(host_fp16(np.array([low, high])) if is_float(kind.dtype) else np.array([low, high])))
    whole = of_type(kind.dtype)
    return Range(max(ends.low, whole.low), min(ends.high, whole.high))


def read_ends(what: str, given: object) -> tuple[float, float]:
    """Return the two ends of a range; numbers and arrays of NumPy mean the same as Python's.

    >>> read_ends("x", 2), read_ends("x", np.float16(0.5)), read_ends("x", np.array([1, 4]))
    ((-2.0, 2.0), (-0.5, 0.5), (1.0, 4.0))

    Raises:
        GraphError: There are more than two, or no floating-point number is as large.
        GraphTypeError: It is neither a number nor two.
    """
    single = cast("Array", given)[()] if isinstance(given, np.ndarray) and given.ndim == 0 else cast("object", given)
    if is_number(single):
        high = number(single, ASKED, what, finite=False)
        return -high, high
    ends = entries(single, ASKED, what, most=2)
    if ends is None or len(ends) < 2:
        raise misuse(ASKED, f"{what} is not a range", seen=describe_argument(single), limit=RANGE, error=GraphTypeError)
    low, high = (number(end, ASKED, f"an end of {what}", finite=False) for end in ends)
    return low, high


def read_samples(
    inputs: Mapping[str, Array] | Iterable[Mapping[str, Array]], names: Collection[str] | None = None
) -> list[Mapping[str, Array]]:
    """Return sets of sample inputs, of which one or several are given; `names` are those of all inputs, where known.

    Raises:
        GraphTypeError: They are not arrays of real numbers by the names of inputs.
        UnknownNameError: There is no input of a name.
    """
    given = cast("object", inputs)
    several = isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes | np.ndarray)
    samples: list[object] = [*cast("Iterable[object]", given)] if several else [cast("object", given)]
    for sample in samples:
        if not isinstance(sample, Mapping):
            remedy = 'give a dict, such as {"x": array}, or a list of such'
            text = "sample inputs are not arrays by the names of inputs"
            raise GraphTypeError(text, seen=describe_argument(sample), remedy=remedy)
        for name, values in cast("Mapping[str, object]", sample).items():
            check_sample(name, values, names)
    return cast("list[Mapping[str, Array]]", samples)


def check_sample(name: str, values: object, names: Collection[str] | None) -> None:
    """Check that a sample is one of an input, and of real numbers; at its shape the engine looks.

    Raises:
        GraphTypeError: It holds something other than real numbers.
        UnknownNameError: There is no input of that name.
    """
    if names is not None and name not in names:
        raise UnknownNameError.of("input", name, names)
    if values is None:  # the engine misses it as if it were left out
        return
    try:
        kind = str(np.asarray(values).dtype.kind)
    except ValueError:  # rows of different lengths
        kind = ""
    if kind not in REAL_KINDS:
        raise GraphTypeError(
            f"the sample of input {name!r} is not an array of real numbers", seen=describe_argument(values)
        )
