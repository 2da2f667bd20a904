"""Native layers: operations that run as a layer of their own, and cut the program that they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.graph.methods.base import build_checked
from aneforge.graph.node import users_location
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


def argmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return the index of the largest element along an axis of a matrix."""
    return x.argmax(axis)


def topk(x: Tensor, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:  # noqa: FBT001, FBT002 - the documented signature
    """Return the k largest elements along an axis, in order, and their indices.

    Raises:
        GraphError: k is 3 or 4, which no engine compiles, or longer than the axis.
    """
    if k in TOPK_REFUSED:
        raise GraphError(
            "no engine compiles topk with this k",
            operation="topk",
            location=users_location(),
            seen=k,
            limit=f"any but {TOPK_REFUSED}",
            remedy="take 5 and slice",
        )
    node = build_checked("topk", {"x": x}, k=k, axis=axis, ascending=not largest)
    return Tensor(node, 0), Tensor(node, 1)


def sort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Sort along an axis."""
    return x.apply("sort", axis=axis, descending=descending)


def cross_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the cross product of vectors of length 3 along the first axis."""
    return Tensor(build_checked("cross_product", {"a": a, "b": b}))


def cross_correlation(x: Tensor, template: Tensor) -> Tensor:
    """Slide a template [Th, Tw] over an image [H, W] and return the products' sums."""
    return Tensor(build_checked("cross_correlation", {"x": x, "template": template}))


def cost_volume(aux: Tensor, ref: Tensor, disparity_range: int) -> Tensor:
    """Compare two lines at every disparity up to a range."""
    return Tensor(build_checked("cost_volume", {"aux": aux, "ref": ref}, disparity_range=disparity_range))


def fps(points: Tensor, k: int) -> Tensor:
    """Return k points [k, 3], each the furthest from those before it."""
    return Tensor(build_checked("fps", {"points": points}, k=k))


def radius_search(points: Tensor, centroids: Tensor, radius: float) -> Tensor:
    """Tell with 0 and 1 which points [N, 3] lie within a radius of which centroids [Nc, 3]."""
    return Tensor(build_checked("radius_search", {"points": points, "centroids": centroids}, radius=radius))


def minmax_norm(x: Tensor, dimension: str = "width", eps: float = 1e-5) -> Tensor:
    """Scale [C, H, W] to the range from 0 to 1 along its width or height."""
    return x.apply("minmax_norm", dimension=dimension, epsilon=eps)


def lrn(x: Tensor, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, kernel_channel: int = 5) -> Tensor:
    """Divide [C, H, W] by a power of the sum of squares of neighbouring channels."""
    return x.apply("lrn", alpha=alpha, beta=beta, k=k, kernel_channel=kernel_channel)


def space_to_channel(x: Tensor, r: int) -> Tensor:
    """Move blocks of pixels into channels, block by block."""
    return x.apply("space_to_channel", block_size=r)


def channel_to_space(x: Tensor, r: int) -> Tensor:
    """Move channels into blocks of pixels, block by block."""
    return x.apply("channel_to_space", block_size=r)


def space_to_batch(x: Tensor, block: Sequence[int]) -> Tensor:
    """Move blocks of pixels into the batch."""
    return x.apply("space_to_batch", block_shape=list(block))


def batch_to_space(x: Tensor, block: Sequence[int]) -> Tensor:
    """Move the batch into blocks of pixels."""
    return x.apply("batch_to_space", block_shape=list(block))


def flatten(x: Tensor) -> Tensor:
    """Return the elements of [C, H, W] in a row."""
    return x.apply("flatten")


def input_view(x: Tensor, offset: int, size: int, axis: int = -1, step: int = 1) -> Tensor:
    """Return a window of a tensor along one axis."""
    return x.apply("input_view", axis=axis, offset=offset, size=size, step=step)


def dynamic_slice(x: Tensor, begin: Tensor, size: int) -> Tensor:
    """Return a window whose place is computed at run time."""
    return Tensor(build_checked("dynamic_slice", {"x": x, "begin": begin}, size=size))


def scaled_elementwise(x: Tensor, y: Tensor, op: str = "Add", scale: float = 1.0) -> Tensor:
    """Return an addition, product, minimum or maximum with a scale."""
    return Tensor(build_checked("scaled_elementwise", {"x": x, "y": y}, mode=op.lower(), scale=scale))
