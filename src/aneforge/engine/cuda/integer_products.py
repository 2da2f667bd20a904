"""Sums of products of integers as launches. They wrap, so any order of theirs has the bits of NumPy's.

As for other products, tables say where the numbers of a line and those of a step are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.cuda.tensors import Tensor, type_of
from aneforge.engine.kernels.arrays import places_of
from aneforge.ops.labels import label_extents, labels_of
from aneforge.ops.types import TensorType
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from aneforge.ops.windows import Slide

    Places = npt.NDArray[np.int64]

__all__ = ["convolve", "multiply_labels", "multiply_matrices"]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a product: where its batches, lines and steps are."""

    tensor: Tensor
    places: Places
    lines: Places
    steps: Places


def multiply(left: Side, right: Side, shape: Sequence[int], dtype: np.dtype[Any]) -> Tensor:
    """Lay out sums of products: [batch, line of the left, line of the right] in a shape, in a type that wraps."""
    build = left.tensor.builder
    out = build.empty(shape, dtype)
    count = out.size * build.samples
    tables = (left.places, right.places, left.lines, right.lines, left.steps, right.steps)
    build.over(
        "integer_product",
        count,
        *(build.at(one) for one in (left.tensor, right.tensor, out)),
        [count, left.lines.size, left.steps.size, right.lines.size],
        [type_of(one) for one in (left.tensor, right.tensor, out)],
        [build.places(one) if one.size else 0 for one in tables],
    )
    return out


def apart(x: Tensor) -> list[int]:
    """Return the steps of a tensor, 0 along axes of length 1, which broadcast."""
    return [0 if extent == 1 else step for extent, step in zip(x.shape, x.steps, strict=True)]


def multiply_matrices(x: Tensor, y: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Lay out x [..., M, K] times y [..., K, N], the leading axes broadcast; either may be a vector."""
    left, right = (x[None] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rows, columns = left.shape[-2], right.shape[-1]

    def side(one: Tensor, lines: int, steps: int) -> Side:
        along = [0] * (len(batch) - one.ndim + 2) + apart(one)[:-2]
        places = places_of([one.builder.samples, *batch], [one.sample, *along])
        return Side(one, places, *(places_of([one.shape[axis]], [one.steps[axis]]) for axis in (lines, steps)))

    found = multiply(side(left, -2, -1), side(right, -1, -2), [*batch, rows, columns], dtype)
    kept = [*batch, *([rows] if x.ndim > 1 else []), *([columns] if y.ndim > 1 else [])]
    return found.reshape(kept)


def multiply_labels(first: Tensor, second: Tensor, equation: str, dtype: np.dtype[Any]) -> Tensor:
    """Lay out the products of two tensors, added over the labels that the result does not have."""
    build = first.builder
    extents = label_extents([TensorType(one.shape) for one in (first, second)], equation)
    *operands, result = labels_of(equation)
    mine, other = ([label for label in result if label in own] for own in operands)
    batch = [label for label in mine if label in other]
    rows, columns = ([label for label in own if label not in batch] for own in (mine, other))
    summed = [label for label in extents if label not in result]

    def side(tensor: Tensor, labels: str, along: list[str]) -> Side:
        def places(axes: list[str], *before: int) -> Places:
            steps = [sum(one for one, own in zip(apart(tensor), labels, strict=True) if own == label) for label in axes]
            samples = [build.samples] * len(before)
            return places_of([*samples, *(extents[label] for label in axes)], [*before, *steps])

        return Side(tensor, places(batch, tensor.sample), places(along), places(summed))

    order = [*batch, *rows, *columns]
    left, right = side(first, operands[0], rows), side(second, operands[1], columns)
    found = multiply(left, right, [extents[label] for label in order], dtype)
    turned = [order.index(label) for label in result]
    shape, steps = ([of[one] for one in turned] for of in (found.shape, found.steps))
    return build.contiguous(build.moved(found, 0, shape, steps))


def convolve(images: Tensor, kernels: Tensor, along: Sequence[Slide], groups: int) -> Tensor:
    """Lay out the convolution of images [N, C, ...] that are padded with kernels [Cout, C / groups, ...]."""
    build = images.builder
    outer, inner, *kernel = kernels.shape
    places, rows = [slide.places for slide in along], outer // groups
    ways = [slide.stride * step for slide, step in zip(along, images.steps[2:], strict=True)]
    taps = [slide.dilation * step for slide, step in zip(along, images.steps[2:], strict=True)]
    extents = [build.samples, images.shape[0], groups]
    left = Side(
        kernels,
        places_of(extents, [kernels.sample, 0, rows * kernels.steps[0]]),
        places_of([rows], [kernels.steps[0]]),
        places_of(kernels.shape[1:], kernels.steps[1:]),
    )
    right = Side(
        images,
        places_of(extents, [images.sample, images.steps[0], inner * images.steps[1]]),
        places_of(places, ways),
        places_of([inner, *kernel], [images.steps[1], *taps]),
    )
    return multiply(left, right, [images.shape[0], outer, *places], images.dtype)
