"""Copies whose places an operand says that is computed: its bits move as they are, and a place past an axis is noted.

The twin of the meanings in `ops.groups.indexing`, without their loops over batches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.cuda.meanings import Meant, as_meant
from aneforge.engine.cuda.tensors import Tensor, UnsuitedError
from aneforge.ops.attributed import AttributeReader
from aneforge.ops.groups.indexing import coordinates, places

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.engine.cuda.primitives import Builder
    from aneforge.ops.signature import AttributeValue

    Array = npt.NDArray[Any]

__all__ = ["lay_out_gathering"]


def lay_out_gathering(
    builder: Builder, name: str, x: Tensor | Array, indices: Tensor, attributes: Mapping[str, AttributeValue]
) -> Tensor:
    """Lay out a choice of elements of x by indices.

    Raises:
        UnsuitedError: There are no kernels for it.
    """
    source: Any = Meant(builder.as_tensor(x))
    given: Any = Meant(indices)
    if not source.size or not given.size:
        raise UnsuitedError("no elements")
    read = AttributeReader(attributes)
    match name:
        case "gather":
            found = gather(source, given, read.integer("axis") % source.ndim, read.integer("batch_dims"))
        case "gather_along_axis":
            found = gather_along_axis(source, given, read.integer("axis") % source.ndim)
        case "gather_nd":
            found = gather_nd(source, given, read.integer("batch_dims"))
        case "gather_hw":
            rows, columns = coordinates(given, source.shape[-2:])
            found = source[..., rows, columns]
        case _:
            found = dynamic_slice(source, given, read.integer("size"), read.number("background_value"))
    return builder.contiguous(found.tensor)


def gather(x: Any, indices: Any, axis: int, batch_dims: int) -> Meant:  # noqa: ANN401 - as NumPy's
    """Take slices along an axis, within every batch by its own indices."""
    taken = places(indices, x.shape[axis])
    if not batch_dims:
        return x[(slice(None),) * axis + (taken,)]
    batch, between = x.shape[:batch_dims], x.shape[batch_dims:axis]
    first = np.moveaxis(x, axis, batch_dims).reshape(math.prod(batch), *(x.shape[axis], *between, *x.shape[axis + 1 :]))
    chosen = taken.reshape(math.prod(batch), -1)
    found = first[np.arange(math.prod(batch))[:, None], chosen]
    laid = found.reshape(*batch, chosen.shape[1], *between, *x.shape[axis + 1 :])
    shape = (*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :])
    return np.moveaxis(laid, batch_dims, axis).reshape(shape)  # type: ignore[return-value]


def gather_along_axis(x: Any, indices: Any, axis: int) -> Meant:  # noqa: ANN401 - as above
    """Take elements along an axis, in every row by its own indices."""
    return np.take_along_axis(x, places(indices, x.shape[axis]), axis)  # type: ignore[return-value]


def gather_nd(x: Any, indices: Any, batch_dims: int) -> Meant:  # noqa: ANN401 - as above
    """Take parts of a tensor by coordinates, within every batch by its own."""
    batch, count = math.prod(x.shape[:batch_dims]), indices.shape[-1]
    named = x.shape[batch_dims : batch_dims + count]
    lead = indices.shape[batch_dims:-1]
    chosen = coordinates(indices.reshape(batch, *lead, count), named)
    own = np.arange(batch).reshape(batch, *(1 for _ in lead))
    found = x.reshape(batch, *x.shape[batch_dims:])[(own, *chosen)]
    return found.reshape((*indices.shape[:-1], *x.shape[batch_dims + count :]))


def dynamic_slice(x: Any, begin: Any, size: int, background: float) -> Meant:  # noqa: ANN401 - as above
    """Take a slice of the last axis from a place on; what is outside of x is the background, one element after it."""
    extent = x.shape[-1]
    filled = np.full((*x.shape[:-1], 1), background, x.tensor.dtype)
    whole = np.concatenate([x, Meant(x.builder.constant(filled, ("background", background, *filled.shape)))], axis=-1)
    first = begin.astype(np.int64).reshape(1)
    place = first + np.arange(size)
    inside = np.logical_and(place >= 0, place < extent)
    return whole[..., np.where(inside, place, as_meant(x.builder, np.array([extent])))]  # type: ignore[return-value]
