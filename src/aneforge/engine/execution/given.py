"""Values that a caller gives to a program: the one place where they are checked and passed.

`run`, the ports of a loaded program, commands and tuning all ask here, so that they take and refuse the same. Real
numbers are rounded to the port's type, ties to even, as NumPy rounds; integers and booleans are never rounded, wrapped
or guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.callsite import warn
from aneforge.engine.kernels import elements
from aneforge.errors import GraphError, GraphTypeError, PrecisionWarning, UnknownNameError
from aneforge.ops.types import is_float, numpy_dtype, numpy_dtypes, value_range

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from aneforge.ops.types import Array, TensorType

__all__ = ["expect_fitting", "expect_known", "hand_over", "warn_of_infinities"]

REAL = set("fiub")
"""Kinds of NumPy types whose values are real numbers."""
OWN_TYPES = frozenset(numpy_dtypes().values())


def hand_over(what: str, value: object, kind: TensorType, element: np.dtype[Any]) -> Array:
    """Return a copy of a caller's value in the element type of a port, with a warning where it becomes infinite.

    >>> from aneforge.ops.types import TensorType
    >>> hand_over("input 'x'", [2049, 0.1], TensorType((2,)), np.dtype(np.float16)).tolist()
    [2048.0, 0.0999755859375]

    Raises:
        GraphTypeError: It is of a type that the port does not take.
        GraphError: It has another shape, or an integer that the port cannot hold.
    """
    array = expect_fitting(what, value, kind)
    passed: list[str] = []
    with np.errstate(over="call", call=lambda error, _: passed.append(error)):  # costs nothing where nothing overflows
        handed = elements.hand_over(array) if element == np.float16 else array.astype(element)
    if passed:
        warn_of_infinities(what.partition(" : ")[0], array, handed)  # the name without its type
    return handed


def warn_of_infinities(what: str, given: Array, handed: Array) -> None:
    """Warn of values that are finite as they are given and infinite as they are passed."""
    with np.errstate(invalid="ignore"):
        count = int(np.count_nonzero(np.isinf(handed) & np.isfinite(given.astype(np.float64))))
    if count:
        largest = "fp16, whose largest number is 65504" if handed.dtype == np.float16 else str(handed.dtype)
        be = "is" if count == 1 else "are"
        warn(f"{what}: {count} of {given.size} values {be} infinite in {largest}", PrecisionWarning)


def expect_fitting(what: str, value: object, kind: TensorType) -> Array:
    """Return a caller's value as the array that it is, after the check that a port of a type takes it.

    >>> from aneforge.ops.types import TensorType
    >>> expect_fitting("input 'x'", np.array([-8, 7], np.int8), TensorType((2,), "int4")).dtype.name
    'int8'

    Raises:
        GraphTypeError: It is of a type that the port does not take.
        GraphError: It has another shape, or an integer that the port cannot hold.
    """
    array = as_array(what, value)
    if array.dtype.kind not in REAL and array.dtype not in OWN_TYPES:
        raise GraphTypeError(f"{what} takes numbers", seen=str(array.dtype))
    if array.shape != kind.shape:
        raise GraphError(f"the value for {what} has the wrong shape", seen=list(array.shape), limit=list(kind.shape))
    if not is_float(kind.dtype):
        check_whole(what, array, kind.dtype)
    return array


def as_array(what: str, value: object) -> Array:
    """Return what a caller gave as an array.

    Raises:
        GraphError: It is not an array, or some of its elements are masked: what to compute with instead is not known.
    """
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise GraphError(f"the value for {what} is not an array: {error}", seen=type(value).__name__) from None
    if np.ma.is_masked(value):
        raise GraphTypeError(f"the value for {what} has masked elements", remedy="value.filled(…) gives them a value")
    return array


def check_whole(what: str, array: Array, dtype: str) -> None:
    """Check values for a port of integers or booleans.

    Raises:
        GraphTypeError: They are real numbers, or no booleans.
        GraphError: One is out of range.
    """
    if array.dtype == numpy_dtype(dtype):
        return
    if dtype == "bool" or array.dtype.kind not in "iu":
        raise GraphTypeError(
            f"{what} takes only {dtype}", seen=str(array.dtype), remedy="convert on the host, where rounding is seen"
        )
    least, most = value_range(dtype)
    if array.size and not (least <= int(array.min()) and int(array.max()) <= most):
        raise GraphError(
            f"a value for {what} is out of range", seen=f"{array.min()} … {array.max()}", limit=f"{least} … {most}"
        )


def expect_known(what: str, given: Mapping[str, object], known: Collection[str]) -> None:
    """Check that values are given under names that there are.

    Raises:
        UnknownNameError: One is not.
    """
    for name in given:
        if name not in known:
            raise UnknownNameError.of(what, name, known)
