"""The documented question about one kind of operation: a graph of it is built, and `divergence` answers.

A kind is the name of an operation, or of a pattern of a few of them that the documented question names. Weights are
drawn, since a kind has none; whatever else a shape does not say has a moderate value, such as a window of 3.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from aneforge.analysis.divergence.graphs import Strength, divergence
from aneforge.errors import AneforgeError, GraphTypeError, NotSupportedError, UnknownNameError
from aneforge.graph.builder import attention, convolution, image, inputs, normalisation
from aneforge.graph.graph import Graph
from aneforge.graph.methods.method_arguments import misuse, number, whole_list
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.op import Trait
from aneforge.ops.table import names
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.ops.types import Array

    Begins = tuple[int, ...]
    Building = Callable[[Tensor, Begins], Tensor]

__all__ = ["PATTERNS", "kinds", "predict_fp16_divergence"]

ASKED = "predict_fp16_divergence"
"""The question, as errors name it."""
WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=rms)(?=norm\b)|(?<=layer)(?=norm\b)")
"""Where a word begins that no sign separates from the one before: `RMSNorm`, `rmsnorm`."""
OPSET = re.compile(r"^ios\d+\.")
CHANNELS = 8
"""Output channels of products that are asked for."""
IMAGE_RANK = 4


def predict_fp16_divergence(
    kind: str,
    shape: Sequence[int],
    target_a: TargetLike,
    target_b: TargetLike,
    begin: Sequence[int] | None = None,
    max_abs: float | None = None,
) -> Strength:
    """Return how far apart two targets may be in an operation, the strongest reason first: none is equality.

    `kind` is an operation of the table or a pattern (`kinds()`), in any of the usual spellings (`rms_norm`, `RMSNorm`,
    `ios17.reduce_sum`). `shape` is that of what is read, `begin` where a slice begins along each axis of it, counted
    from the end where it is negative. `max_abs` bounds what is read. The answer is that of `divergence` on a graph of
    that operation alone: saturation, round1, ulp1 and none as documented, and roundings, approximation and elements
    for what the documented verdicts do not name, such as Winograd. It also counts what is known only of silicon.

    >>> from aneforge.targets import Family
    >>> str(predict_fp16_divergence("slice_by_size", (1, 8), Family.A13, Family.A16, begin=(0, 2)))
    'saturation'
    >>> str(predict_fp16_divergence("slice_by_size", (1, 8), Family.A13, Family.A16, begin=(0, 2), max_abs=4094))
    'none'
    >>> str(predict_fp16_divergence("rms_norm", (64, 256), Family.A13, Family.A14))
    'round1'
    >>> str(predict_fp16_divergence("resize_bilinear", (1, 8, 32, 32), Family.A13, Family.A14))
    'roundings'

    Raises:
        UnknownTargetError: The target name is unknown.
        UnknownNameError: There is no such kind; the error has the nearest.
        GraphError: The begin has a different rank than the shape or is outside of it, an extent or the magnitude is
            negative, the operation takes no such shape, or it does not run on one of the targets.
        NotSupportedError: A shape does not say what the operation needs: build the graph and ask `divergence`.
        GraphTypeError: The kind is not a text, the shape or begin not a list of integers, or max_abs not a number.
    """
    name = find_kind(kind)
    extents, begins, most = check(shape, begin, max_abs)
    first, second = resolve(target_a), resolve(target_b)
    graph = Graph({"y": built(name, extents, begins)})
    ranges = {} if math.isinf(most) else dict.fromkeys(graph.inputs, most)
    return divergence(graph, first, second, ranges=ranges).on_silicon


def kinds() -> list[str]:
    """Return every kind that can be asked for: operations, their aliases, and patterns.

    >>> {"conv", "global_argmax", "variance"} <= set(kinds())
    True
    """
    return sorted({*names(), *PATTERNS})


def find_kind(kind: str) -> str:
    """Return the name of a kind in the spelling of the tables.

    >>> [find_kind(one) for one in ("ios17.reduce_sum", "RMSNorm", "rmsnorm", "SliceBySize", "CROP")]
    ['reduce_sum', 'rms_norm', 'rms_norm', 'slice_by_size', 'crop']

    Raises:
        GraphTypeError: It is not a text.
        UnknownNameError: There is none; the error has the nearest names.
    """
    if not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("the kind of an operation is not a text", seen=type(kind).__name__)
    plain = OPSET.sub("", kind)
    spelled = "_".join(re.findall(r"[a-z0-9]+", WORD_BEGINS.sub("_", plain).lower()))
    for name in (plain, spelled):
        if name in PATTERNS or name in names():
            return name
    raise UnknownNameError.of("kind of operation", kind, kinds())


def check(shape: object, begin: object, max_abs: object) -> tuple[tuple[int, ...], Begins, float]:
    """Return a shape, where a slice begins along each axis counted from the front, and the largest magnitude.

    Without a begin it is empty, and without a magnitude that is infinite.

    >>> check((1, 8), (0, -2), None)
    ((1, 8), (0, 6), inf)

    Raises:
        GraphError: An extent is negative, the begin has another rank or is outside, or the magnitude is below zero.
        GraphTypeError: The shape or the begin is not a list of integers, or the magnitude not a number.
    """
    extents = whole_list(shape, ASKED, "shape")
    if any(extent < 0 for extent in extents):
        raise misuse(ASKED, "a shape has no negative extents", seen=extents)
    begins = [] if begin is None else whole_list(begin, ASKED, "begin")
    if begin is not None and len(begins) != len(extents):
        raise misuse(ASKED, "the begin of a slice needs one number for every axis", seen=begins, limit=extents)
    pairs = list(zip(begins, extents, strict=False))
    if any(first and not -extent <= first < extent for first, extent in pairs):
        raise misuse(ASKED, "the begin of a slice is outside of the tensor", seen=begins, limit=extents)
    most = math.inf if max_abs is None else number(max_abs, ASKED, "max_abs", finite=False)
    if not most >= 0:
        raise misuse(ASKED, "max_abs must be 0 or more", seen=most)
    return tuple(extents), tuple(first % extent if first else 0 for first, extent in pairs), most


# Graphs of single kinds.


def built(name: str, shape: tuple[int, ...], begins: Begins) -> Tensor:
    """Return a graph of a kind.

    Raises:
        GraphError: It takes no such shape.
        NotSupportedError: A shape does not say what it needs.
    """
    x = inputs.input(shape)
    building = PATTERNS.get(name) or FILLED.get(name)
    return building(x, begins) if building else plainly(name, x)


def plainly(name: str, x: Tensor) -> Tensor:
    """Return an operation that needs no more than one or two tensors of a shape; along the last axis, if it has one.

    Raises:
        NotSupportedError: It needs more.
    """
    entry = names()[name]
    axes = {"axes": (-1,)} if Trait.REDUCTION in entry.traits else {}
    errors: list[str] = []
    for operands in ({"x": x}, {"x": x, "y": inputs.input(x.shape)}):
        for attributes in ({**axes}, {}):
            try:
                return Tensor(build(name, operands, attributes))
            except AneforgeError as error:
                errors.append(error.message)
    raise NotSupportedError(
        "a shape is not enough for this kind of operation",
        operation=name,
        seen=errors[0],
        remedy="build the graph, and ask af.divergence",
    )


def draw(*shape: int) -> Array:
    """Return weights: normal numbers, small enough that sums of many are moderate."""
    return np.random.default_rng(0).standard_normal(shape) / math.sqrt(max(1, math.prod(shape[1:])))


def cut(x: Tensor, begins: Begins) -> Tensor:
    """Return a slice from its begin to the end."""
    first = begins or (0,) * len(x.shape)
    return x.slice_by_size(first, [extent - one for extent, one in zip(x.shape, first, strict=True)])


def cut_by_index(x: Tensor, begins: Begins) -> Tensor:
    """Return the same, by the places where it begins and ends."""
    first = begins or (0,) * len(x.shape)
    return Tensor(build("slice_by_index", {"x": x}, {"begin": first, "end": tuple(x.shape)}))


def crop(x: Tensor, begins: Begins) -> Tensor:
    """Return an image without what is before the begin of its last two axes."""
    whole = x.reshape(*(1,) * (IMAGE_RANK - len(x.shape)), *x.shape) if len(x.shape) < IMAGE_RANK else x
    top, left = (0, 0, *begins)[-2:]
    return image.crop(whole, top, 0, left, 0)


def double(resize: Callable[[Tensor, int, int], Tensor]) -> Building:
    """Return what makes an image twice as high and as wide."""

    def building(x: Tensor, _: Begins) -> Tensor:
        if len(x.shape) != IMAGE_RANK:
            raise misuse(ASKED, "an image has four axes [N, C, H, W]", seen=list(x.shape))
        return resize(x, 2 * x.shape[2], 2 * x.shape[3])

    return building


def rows_of(x: Tensor) -> Tensor:
    """Return a tensor as a matrix of its last axis."""
    return x if len(x.shape) == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def rms_norm(x: Tensor, _: Begins) -> Tensor:
    """Return rows over the root of their mean square."""
    return rows_of(x).rms_norm(np.ones(x.shape[-1]))


def layer_norm(x: Tensor, _: Begins) -> Tensor:
    """Return rows less their mean, over their deviation."""
    return rows_of(x).layer_norm(np.ones(x.shape[-1]), np.zeros(x.shape[-1]))


def attend(x: Tensor, _: Begins) -> Tensor:
    """Return attention of queries, keys and values of one shape."""
    return attention.sdpa(x, inputs.input(x.shape), inputs.input(x.shape))


def variance(x: Tensor, _: Begins) -> Tensor:
    """Return the mean of squared distances from the mean, along the last axis."""
    return (x - x.mean(-1)).square().mean(-1)


def normalise(x: Tensor, _: Begins) -> Tensor:
    """Return a batch normalisation by ones."""
    ones = np.ones(x.shape[1])
    return normalisation.batch_norm(x, ones, ones, ones, ones)


FILLED: Mapping[str, Building] = {
    "avg_pool": lambda x, _: x.avg_pool(3),
    "max_pool": lambda x, _: x.max_pool(3),
    "batch_norm": normalise,
    "conv": lambda x, _: convolution.conv(x, draw(CHANNELS, x.shape[1], 3, 3), pad=1),
    "conv_transpose": lambda x, _: convolution.conv_transpose(x, draw(x.shape[1], CHANNELS, 3, 3)),
    "crop": crop,
    "group_norm": lambda x, _: x.group_norm(np.ones(x.shape[1]), np.zeros(x.shape[1]), num_groups=1),
    "linear": lambda x, _: x.linear(draw(CHANNELS, x.shape[-1])),
    "matmul": lambda x, _: x @ draw(x.shape[-1], CHANNELS),
    "resize": double(image.resize_bilinear),
    "resize_bilinear": double(image.resize_bilinear),
    "resize_nearest_neighbor": double(image.resize_nearest_neighbor),
    "rms_norm": rms_norm,
    "sdpa": attend,
    "slice_by_index": cut_by_index,
    "slice_by_size": cut,
}
"""Operations that need more than tensors of one shape, and what they are given."""
PATTERNS: Mapping[str, Building] = {
    "l2": lambda x, _: x.l2_norm(),
    "mean": lambda x, _: x.mean(-1),
    "norm": layer_norm,
    "reduce_square": lambda x, _: x.sum(-1).square(),
    "rms": rms_norm,
    "slice": cut,
    "sum": lambda x, _: x.sum(-1),
    "var": variance,
    "variance": variance,
}
"""Patterns that the documented question names in addition to operations, as graphs of the tensor that they read."""
