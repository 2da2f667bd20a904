"""Gradients of resizing: products with the weights by which every element was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.shifting import contract, sum_blocks
from aneforge.ops.interpolation import grid_points, linear_along, nearest_indices, upsampling_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.decomposition import Term
    from aneforge.ops.gradient import GradientSite
    from aneforge.ops.types import Array


def back_along(to: GradientSite, g: Term, x: Term, count: int, weights_of: Callable[[int, int], Array]) -> Term:
    """Return g taken back along the last axes, by the weights of every result."""
    for axis in range(len(x.shape) - count, len(x.shape)):
        g = contract(to, g, axis, weights_of(x.shape[axis], g.shape[axis]))
    return g


def nearest(to: GradientSite, g: Term, x: Term, count: int, mode: str) -> Term:
    """Return g, summed over the results that are one element; blocks of one length are sums."""
    for axis in range(len(x.shape) - count, len(x.shape)):
        extent, results = x.shape[axis], g.shape[axis]
        places = nearest_indices(extent, results, mode)
        factor = results // extent
        if factor and np.array_equal(places, np.repeat(np.arange(extent), factor)):
            g = sum_blocks(g, axis, factor)
        else:
            g = contract(to, g, axis, np.eye(extent)[places])
    return g


def linear_weights(mode: str) -> Callable[[int, int], Array]:
    """Return what gives the weights of linear reading in a sampling mode."""
    return lambda extent, count: linear_along(np.eye(extent), 0, grid_points(extent, count, mode))


def resized(
    to: GradientSite, g: Term, x: Term, *, resized_dims: int, interpolation_mode: str, sampling_mode: str, **_: object
) -> Term:
    """Return g taken back along the resized axes."""
    if interpolation_mode == "LINEAR":
        return back_along(to, g, x, resized_dims, linear_weights(sampling_mode))
    return nearest(to, g, x, resized_dims, sampling_mode)


def resized_linearly(to: GradientSite, g: Term, x: Term, *, sampling_mode: str, **_: object) -> Term:
    """Return g taken back along height and width."""
    return back_along(to, g, x, 2, linear_weights(sampling_mode))


def resized_to_nearest(to: GradientSite, g: Term, x: Term, **_: object) -> Term:
    """Return g, summed over the results that are one element."""
    return nearest(to, g, x, 2, "DEFAULT")


def upsampled_linearly(
    to: GradientSite, g: Term, x: Term, *, align_corners: bool, half_pixel_centers: bool | None, **_: object
) -> Term:
    """Return g taken back along height and width."""

    def weights(extent: int, count: int) -> Array:
        points = upsampling_points(extent, count, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
        return linear_along(np.eye(extent), 0, points)

    return back_along(to, g, x, 2, weights)


RESIZED = Gradient("g, summed with the weights by which elements were read", resized)
RESIZED_LINEARLY = Gradient("g, summed with the weights by which elements were read", resized_linearly)
NEAREST = Gradient("g, summed over the results that are one element", resized_to_nearest)
UPSAMPLED_LINEARLY = Gradient("g, summed with the weights by which elements were read", upsampled_linearly)
