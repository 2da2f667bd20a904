"""Native layers: operations that run as a layer of their own, and cut the program that they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.methods.base import build_checked
from aneforge.graph.methods.method_arguments import flag, misuse, number, text, whole, whole_list
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "argmax",
    "batch_to_space",
    "channel_to_space",
    "cost_volume",
    "cross_correlation",
    "cross_product",
    "dropout",
    "dynamic_slice",
    "flatten",
    "fps",
    "input_view",
    "lrn",
    "minmax_norm",
    "radius_search",
    "scaled_elementwise",
    "sort",
    "space_to_batch",
    "space_to_channel",
    "topk",
]

TOPK_REFUSED = (3, 4)
"""Counts that fail to compile on every engine that has the layer."""
FPS_MOST_CHOSEN = 1024
FPS_MOST_POINTS = 8192
"""The documented builder chooses no more points than the one, among no more than the other."""
SCALED_MODES = ("Add", "Mult", "Min", "Max")


def argmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return the index of the largest element along an axis of a matrix.

    >>> import aneforge as af
    >>> af.reference(af.argmax(af.input((1, 3))), [[[1.0, 3.0, 2.0]]])["y"].tolist()
    [[1.0]]
    """
    return expect_tensor(x, "argmax").argmax(axis)


def topk(x: Tensor, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:  # noqa: FBT001, FBT002 - the documented signature
    """Return the k largest elements along an axis, in order, and their indices; or the k smallest.

    >>> import aneforge as af
    >>> values, indices = af.topk(af.input((1, 8)), 2)
    >>> values.shape, indices.shape
    ((1, 2), (1, 2))

    Raises:
        GraphError: k is 3 or 4, which no engine compiles, or longer than the axis.
    """
    tensor = expect_tensor(x, "topk")
    count = whole(k, "topk", "k", least=1)
    if count in TOPK_REFUSED:
        raise misuse(
            "topk",
            "no engine compiles topk with this k",
            seen=count,
            limit=f"any but {TOPK_REFUSED}",
            remedy="use 5 and slice",
        )
    place, ascending = whole(axis, "topk", "axis"), not flag(largest, "topk", "largest")
    node = build_checked("topk", {"x": tensor}, k=count, axis=place, ascending=ascending)
    return Tensor(node, 0), Tensor(node, 1)


def sort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Sort along an axis.

    >>> import aneforge as af
    >>> af.reference(af.sort(af.input((1, 3))), [[[1.0, 3.0, 2.0]]])["y"].tolist()
    [[1.0, 2.0, 3.0]]
    """
    tensor = expect_tensor(x, "sort")
    return tensor.apply("sort", axis=whole(axis, "sort", "axis"), descending=flag(descending, "sort", "descending"))


def cross_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the cross product of vectors of length 3 along the first axis.

    >>> import aneforge as af
    >>> af.cross_product(af.input((3, 5)), af.input((3, 5))).shape
    (3, 5)
    """
    op = "cross_product"
    return Tensor(build_checked(op, {"a": expect_tensor(a, op, "a"), "b": expect_tensor(b, op, "b")}))


def cross_correlation(x: Tensor, template: Tensor) -> Tensor:
    """Slide a template [Th, Tw] over an image [H, W] and return the products' sums.

    >>> import aneforge as af
    >>> af.cross_correlation(af.input((8, 8)), af.input((3, 2))).shape
    (6, 7)
    """
    op = "cross_correlation"
    operands = {"x": expect_tensor(x, op), "template": expect_tensor(template, op, "template")}
    return Tensor(build_checked(op, operands))


def cost_volume(aux: Tensor, ref: Tensor, disparity_range: int) -> Tensor:
    """Compare two lines at every disparity up to a range.

    >>> import aneforge as af
    >>> af.cost_volume(af.input((8,)), af.input((12,)), 4).shape
    (5, 8)
    """
    op = "cost_volume"
    operands = {"aux": expect_tensor(aux, op, "aux"), "ref": expect_tensor(ref, op, "ref")}
    return Tensor(build_checked(op, operands, disparity_range=whole(disparity_range, op, "disparity_range", least=0)))


def fps(points: Tensor, k: int) -> Tensor:
    """Return k points [k, 3], each the furthest from those before it.

    >>> import aneforge as af
    >>> af.fps(af.input((100, 3)), 8).shape
    (8, 3)

    Raises:
        GraphError: There are more than 8192 points, or k is above 1024 or the number of points.
    """
    tensor = expect_tensor(points, "fps", "points")
    count = whole(k, "fps", "k", least=1, most=FPS_MOST_CHOSEN)
    if tensor.shape[:1] > (FPS_MOST_POINTS,):
        raise misuse("fps", "there are too many points", seen=tensor.shape[0], limit=FPS_MOST_POINTS)
    return Tensor(build_checked("fps", {"points": tensor}, k=count))


def radius_search(points: Tensor, centroids: Tensor, radius: float) -> Tensor:
    """Return, as 0 and 1, which points [N, 3] are within a radius of which centroids [Nc, 3].

    >>> import aneforge as af
    >>> af.radius_search(af.input((100, 3)), af.input((8, 3)), 0.5).shape
    (100, 8)
    """
    op = "radius_search"
    operands = {"points": expect_tensor(points, op, "points"), "centroids": expect_tensor(centroids, op, "centroids")}
    return Tensor(build_checked(op, operands, radius=number(radius, op, "radius")))


def minmax_norm(x: Tensor, dimension: str = "width", eps: float = 1e-5) -> Tensor:
    """Scale [C, H, W] to the range from 0 to 1 along its width or height.

    >>> import aneforge as af
    >>> af.minmax_norm(af.input((2, 4, 8)), "height").shape
    (2, 4, 8)
    """
    op = "minmax_norm"
    tensor = expect_tensor(x, op)
    return tensor.apply(op, dimension=text(dimension, op, "dimension"), epsilon=number(eps, op, "eps"))


def lrn(x: Tensor, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, kernel_channel: int = 5) -> Tensor:
    """Divide [C, H, W] by a power of the sum of squares of neighbouring channels.

    >>> import aneforge as af
    >>> af.lrn(af.input((8, 4, 4)), kernel_channel=3).shape
    (8, 4, 4)
    """
    return expect_tensor(x, "lrn").apply(
        "lrn",
        alpha=number(alpha, "lrn", "alpha"),
        beta=number(beta, "lrn", "beta"),
        k=number(k, "lrn", "k"),
        kernel_channel=whole(kernel_channel, "lrn", "kernel_channel", least=1),
    )


def space_to_channel(x: Tensor, r: int) -> Tensor:
    """Move blocks of pixels into channels, block by block.

    >>> import aneforge as af
    >>> af.space_to_channel(af.input((1, 3, 8, 8)), 2).shape
    (1, 12, 4, 4)
    """
    op = "space_to_channel"
    return expect_tensor(x, op).apply(op, block_size=whole(r, op, "r", least=1))


def channel_to_space(x: Tensor, r: int) -> Tensor:
    """Move channels into blocks of pixels, block by block.

    >>> import aneforge as af
    >>> af.channel_to_space(af.input((1, 12, 4, 4)), 2).shape
    (1, 3, 8, 8)
    """
    op = "channel_to_space"
    return expect_tensor(x, op).apply(op, block_size=whole(r, op, "r", least=1))


def space_to_batch(x: Tensor, block: Sequence[int]) -> Tensor:
    """Move blocks of pixels, of a height and a width, into the batch.

    >>> import aneforge as af
    >>> af.space_to_batch(af.input((1, 3, 8, 8)), [2, 4]).shape
    (8, 3, 4, 2)
    """
    op = "space_to_batch"
    return expect_tensor(x, op).apply(op, block_shape=whole_list(block, op, "block"))


def batch_to_space(x: Tensor, block: Sequence[int]) -> Tensor:
    """Move the batch into blocks of pixels, of a height and a width.

    >>> import aneforge as af
    >>> af.batch_to_space(af.input((8, 3, 4, 2)), [2, 4]).shape
    (1, 3, 8, 8)
    """
    op = "batch_to_space"
    return expect_tensor(x, op).apply(op, block_shape=whole_list(block, op, "block"))


def flatten(x: Tensor) -> Tensor:
    """Return the elements of [C, H, W] in a row.

    >>> import aneforge as af
    >>> af.flatten(af.input((2, 3, 4))).shape
    (24,)
    """
    return expect_tensor(x, "flatten").apply("flatten")


def input_view(x: Tensor, offset: int, size: int, axis: int = -1, step: int = 1) -> Tensor:
    """Return a window of a tensor along one axis.

    >>> import aneforge as af
    >>> af.input_view(af.input((1, 8)), offset=2, size=3).shape
    (1, 3)
    """
    op = "input_view"
    return expect_tensor(x, op).apply(
        op,
        axis=whole(axis, op, "axis"),
        offset=whole(offset, op, "offset", least=0),
        size=whole(size, op, "size", least=1),
        step=whole(step, op, "step", least=1),
    )


def dropout(x: Tensor, rate: float = 0.5, *, seed: int = -1) -> Tensor:
    """Set a random share of the elements to 0, and scale the others by 1 / (1 - rate); a seed of -1 means any seed.

    >>> import aneforge as af
    >>> af.reference(af.dropout(af.input((2, 3)), 0.0), [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])["y"].tolist()
    [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    """
    op = "dropout"
    chosen = whole(seed, op, "seed", least=-1)
    return expect_tensor(x, op).apply(op, rate=number(rate, op, "rate"), seed=chosen)


def dynamic_slice(x: Tensor, begin: Tensor, size: int) -> Tensor:
    """Return a window whose position is computed at run time.

    >>> import aneforge as af
    >>> af.dynamic_slice(af.input((1, 4)), af.input((1,)).cast("int32"), 2).shape
    (1, 2)
    """
    op = "dynamic_slice"
    operands = {"x": expect_tensor(x, op), "begin": expect_tensor(begin, op, "begin")}
    return Tensor(build_checked(op, operands, size=whole(size, op, "size", least=1)))


def scaled_elementwise(x: Tensor, y: Tensor, op: str = "Add", scale: float = 1.0) -> Tensor:
    """Return an addition, product, minimum or maximum with a scale; `op` is Add, Mult, Min or Max.

    >>> import aneforge as af
    >>> af.scaled_elementwise(af.input((1, 4)), af.input((1, 4)), "Max", scale=0.5).shape
    (1, 4)

    Raises:
        GraphError: There is no such operation.
        GraphTypeError: An operand is not a tensor, or the operation is not given by its name.
    """
    own = "scaled_elementwise"
    operands = {"x": expect_tensor(x, own), "y": expect_tensor(y, own, "y")}
    mode = text(op, own, "op")
    if mode.lower() not in {known.lower() for known in SCALED_MODES}:
        raise misuse(own, "op must be one of its choices", seen=repr(mode), limit=", ".join(SCALED_MODES))
    return Tensor(build_checked(own, operands, mode=mode.lower(), scale=number(scale, own, "scale")))
