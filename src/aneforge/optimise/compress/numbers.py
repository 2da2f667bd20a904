"""What every encoding asks of a weight before it looks at it, and how far decoded values may be from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.ops.arithmetic import greatest_magnitude
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["ELEMENT_TYPES", "check_weight", "relative_error"]

ELEMENT_TYPES = ("fp16", "fp32", "fp64")
"""The documented element types of weights."""
AT_ONCE = 1 << 20
"""Elements that are compared at once, so that no copy of a large weight in float64 is made."""


def check_weight(weight: object, dtype: str) -> Array:
    """Return a weight that can be encoded with values of an element type.

    >>> check_weight(np.array([[1.0, np.nan]]), "fp16")
    Traceback (most recent call last):
    ...
    aneforge.errors.GraphError: a weight to encode is not finite (got nan at [0, 1]). Remedy: fix or mask the weight

    Raises:
        GraphTypeError: It is not an array of float16, float32 or float64.
        GraphError: It has no elements, one is not finite, or one is larger than the element type holds.
    """
    if not is_float(dtype):
        raise GraphError("encoded weights decode to floating-point numbers", seen=dtype, limit=", ".join(ELEMENT_TYPES))
    values = as_floats(weight)
    if not values.size:
        raise GraphError("a weight to encode has no elements", seen=list(values.shape))
    greatest = greatest_magnitude(values)
    if not math.isfinite(greatest):
        raise infinite_weight(values)
    with np.errstate(over="ignore"):
        held = bool(np.isfinite(np.asarray(greatest).astype(numpy_dtype(dtype))))
    if not held:
        limit = float(np.finfo(numpy_dtype(dtype)).max)
        raise GraphError(f"a weight to encode is beyond {dtype}", seen=greatest, limit=limit, remedy="scale it down")
    return values


def as_floats(weight: object) -> Array:
    """Return a weight that must be an array of floating-point numbers.

    Raises:
        GraphTypeError: It is something else.
    """
    array = cast("Array", weight) if isinstance(weight, np.ndarray) else None
    if array is not None and array.dtype in [numpy_dtype(name) for name in ELEMENT_TYPES]:
        return array
    raise GraphTypeError(
        "a weight to encode is not an array of floating-point numbers",
        seen=str(array.dtype) if array is not None else type(cast("object", weight)).__name__,
        limit="float16, float32, float64",
    )


def infinite_weight(weight: Array) -> GraphError:
    """Return the error of a weight some of whose elements are not numbers, with the place of the first."""
    place = [int(axis) for axis in np.unravel_index(int(np.argmin(np.isfinite(weight))), weight.shape)]
    return GraphError(
        "a weight to encode is not finite",
        seen=f"{float(weight[tuple(place)])} at {place}",
        remedy="fix or mask the weight",
    )


def relative_error(decoded: Array, weight: Array) -> float:
    """Return ‖decoded − weight‖ / ‖weight‖, with the Euclidean norm over all elements.

    Of a weight that is all zeros it is 0 where the decoded values are zeros too, and infinite elsewhere.

    >>> relative_error(np.array([3.0, 4.0]), np.array([0.0, 4.0]))
    0.75
    """
    flat, values = weight.reshape(-1), decoded.reshape(-1)
    # Numbers are brought near one first: squares of very small ones would vanish, of very large ones overflow.
    unit = max(greatest_magnitude(flat), greatest_magnitude(values))
    if not unit or not math.isfinite(unit):
        return unit
    length = distance = 0.0
    for start in range(0, flat.size, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        wanted = flat[part].astype(np.float64) / unit
        length += float(np.square(wanted).sum())  # a product would be summed differently on more threads
        apart = values[part].astype(np.float64) / unit - wanted
        distance += float(np.square(apart).sum())
    return math.sqrt(distance / length) if length else math.inf
