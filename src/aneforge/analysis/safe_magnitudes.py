"""Up to which magnitude an operation stays finite on a target, where its mathematics does: the engine is asked.

An operation that the target does not have is rebuilt from others, which can overflow inside; so can a sum of squares
under a root. A function of single elements is asked for every finite fp16 number. Anything else that is asked gives
copies, averages or bounded numbers: it is asked for tensors of equal numbers, ever larger, for no partial
sum is larger than that of equal terms.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import prepare
from aneforge.errors import AneforgeError
from aneforge.graph.graph import Graph
from aneforge.graph.node import Output, build
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.op import Trait
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType, is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.engine.execution.run import Executable
    from aneforge.graph.node import Argument, Node
    from aneforge.ops.op import Op
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["keeps_finite", "largest_safe"]

KEEPING = frozenset({Trait.AVERAGING, Trait.BOUNDING, Trait.EXTREME, Trait.RESIZING, Trait.SHRINKING})
"""Traits of operations whose results are no larger than what goes in."""
MOST_ELEMENTS = 1 << 22
"""Larger tensors are not filled: a resize is asked of smaller images, of anything else nothing is known."""
SIZES = ("target_size_height", "target_size_width")
"""Attributes that shrink with the image."""
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = EVERY[np.isfinite(EVERY)]
MAGNITUDES = np.sort(FINITE[FINITE > 0])
FAR_BELOW = FP16_MAX / 2
"""Results of functions beyond this are near the edge: what becomes infinite there just overflows, by its own error."""
PLANE = (1, 1, 62, 1024)
"""A shape that holds every finite fp16 number once."""


def keeps_finite(node: Node) -> bool:
    """Return whether an operation gives finite numbers of finite ones, or can be asked for every one of them.

    >>> import aneforge as af
    >>> x = af.input((1, 4))
    >>> [keeps_finite(y.node) for y in (x.sin(), x.reshape(4, 1), x * x)]
    [True, True, False]
    """
    op = node.op
    if is_function(op, tuple(node.operands)) or op.movement is not None or KEEPING & op.traits:
        return True
    return math.isfinite(op.codomain_for(node.attributes).magnitude)


def is_function(op: Op, operands: tuple[str, ...]) -> bool:
    """Return whether an operation is a function of the single elements of only one tensor."""
    return Trait.ELEMENTWISE in op.traits and operands == ("x",)


def largest_safe(node: Node, target: Target) -> float:
    """Return the largest magnitude up to which an operation stays finite on a target, where its mathematics does.

    >>> import aneforge as af
    >>> up = af.resize_nearest_neighbor(af.input((1, 3, 2, 2)), 4, 4).node
    >>> [largest_safe(up, af.targets.resolve(family)) for family in (af.targets.Family.A13, af.targets.Family.A16)]
    [32752.0, 65504.0]
    """
    operands = tuple((name, kinds_of(argument)) for name, argument in node.operands.items())
    try:
        return safe_call(node.op.name, tuple(node.attributes.items()), operands, target.name)
    except AneforgeError:
        return FP16_MAX  # it does not compile by itself; compiling the whole graph says why


def kinds_of(argument: Argument) -> object:
    """Return the types of tensors; constants as they are."""
    if isinstance(argument, tuple):
        return tuple(kinds_of(one) for one in argument)
    return argument.type if isinstance(argument, Output) else argument


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operation whose tensors come from outside, ready to run."""

    graph: Graph
    ready: Executable

    def result(self, numbers: Array | float) -> Array:
        """Return what comes out where every floating-point tensor holds these numbers, and all others zeros."""
        return self.ready.run(self.filled(numbers)).outputs["y"]

    def filled(self, numbers: Array | float) -> dict[str, Array]:
        """Return inputs of which every floating-point tensor holds these numbers, and all others zeros."""
        kinds = {name: node.types[0] for name, node in self.graph.inputs.items()}
        values = {name: np.asarray(numbers if is_float(kind.dtype) else 0) for name, kind in kinds.items()}
        return {
            name: np.broadcast_to(values[name], kind.shape).astype(numpy_dtype(kind.dtype))
            for name, kind in kinds.items()
        }


@lru_cache(256)
def safe_call(
    op: str, attributes: tuple[tuple[str, Any], ...], operands: tuple[tuple[str, Any], ...], target: str
) -> float:
    """Return the largest safe magnitude of a call."""
    entry, given = find_op(op), dict(attributes)
    function = is_function(entry, tuple(name for name, _ in operands))
    kinds = {name: TensorType(PLANE) if function else one_channel(entry, kind) for name, kind in operands}
    if Trait.RESIZING in entry.traits:
        kinds, given = shrunk_image(kinds, given)
    if elements(kinds) > MOST_ELEMENTS:
        return FP16_MAX
    graph = Graph({"y": Tensor(build(op, {name: feed(kind) for name, kind in kinds.items()}, given))})
    call = Call(graph, prepare(build_program(graph, target)))
    if not function:
        return of_equal_numbers(call)
    with np.errstate(all="ignore"):
        (exact,) = entry.evaluate({"x": FINITE.astype(np.float64).reshape(PLANE)}, given)
    lost = ~np.isfinite(call.result(FINITE.reshape(PLANE))) & (np.abs(exact) <= FAR_BELOW)
    first = float(np.abs(FINITE.reshape(PLANE)[lost]).min(initial=np.inf))
    place = int(np.count_nonzero(first > MAGNITUDES))
    return float(MAGNITUDES[place - 1]) if place else 0.0


def of_equal_numbers(call: Call) -> float:
    """Return the largest magnitude for which tensors of equal numbers give finite ones; found by halving.

    Where the mathematics overflows no later than the engine, all magnitudes count as safe.
    """
    low, high = 0, len(MAGNITUDES)
    if np.isfinite(call.result(FP16_MAX)).all():
        return FP16_MAX
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if np.isfinite(call.result(float(MAGNITUDES[middle]))).all() else (low, middle)
    first = float(MAGNITUDES[low])
    (exact,) = evaluate(call.graph, call.filled(first))[0].values()
    if not (np.abs(exact.astype(np.float64)) <= FP16_MAX).all():
        return FP16_MAX
    return float(MAGNITUDES[low - 1]) if low else 0.0


def one_channel(entry: Op, kind: object) -> object:
    """Return the type of an image of one channel where an operation resizes; what is anything else as it is."""
    if Trait.RESIZING in entry.traits and isinstance(kind, TensorType) and kind.rank == len(PLANE):
        return TensorType((1, 1, *kind.shape[2:]), kind.dtype)
    return kind


def elements(kinds: Mapping[str, object]) -> int:
    """Return how many elements tensors have."""
    return sum(kind.size for kind in kinds.values() if isinstance(kind, TensorType))


def shrunk_image(
    kinds: Mapping[str, object], attributes: Mapping[str, Any]
) -> tuple[Mapping[str, object], dict[str, Any]]:
    """Return the operand and the attributes of a resize, the sides of a large image divided by what divides them all.

    The factors stay as they are, and with them what is added up: a larger image has no other sums, only more of them.
    """
    image = kinds["x"]
    if not isinstance(image, TensorType) or image.size <= MOST_ELEMENTS:
        return kinds, dict(attributes)
    divisor = math.gcd(*image.shape[-2:], *(attributes[name] for name in SIZES if name in attributes))
    shape = (*image.shape[:-2], *(extent // divisor for extent in image.shape[-2:]))
    shrunk = {name: value // divisor if name in SIZES else value for name, value in attributes.items()}
    return {**kinds, "x": TensorType(shape, image.dtype)}, shrunk


def feed(kind: object) -> Argument:
    """Return an operand: an input for a type, several for several, a constant as it is."""
    if isinstance(kind, tuple):
        return cast("tuple[Tensor, ...]", tuple(feed(one) for one in cast("tuple[object, ...]", kind)))
    if isinstance(kind, TensorType):
        return Tensor(build("input", {}, {"shape": kind.shape, "dtype": kind.dtype}))
    return cast("Argument", kind)
