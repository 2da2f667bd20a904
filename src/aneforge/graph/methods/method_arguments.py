"""What callers give, checked where it comes in: integers, numbers, flags, lists, axes.

Every misuse is one error that names the operation, the place in the user's file, what was given and what is allowed.
The op table checks attributes as well, under MIL's names for them; here they still have the names that the user wrote.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.node import Output, users_location

if TYPE_CHECKING:
    from collections.abc import Generator

    from aneforge.ops.types import Array

__all__ = [
    "axis_of",
    "describe_argument",
    "expect_makeable",
    "flag",
    "is_number",
    "misuse",
    "number",
    "one_list",
    "part_of",
    "text",
    "whole",
    "whole_list",
]

WHOLE_MOST = 2**63 - 1
"""Integers are those of 64 bits, as in every format that a program is written to."""
LIST_MOST = 64
"""No list of axes or extents is longer: NumPy's arrays have no more axes."""
MADE_MOST_BYTES = 64 * 2**20
"""The builder itself makes no larger constant: what needs one is a slip, and would take the machine's memory."""


# The errors


def misuse(
    op: str,
    message: str,
    *,
    seen: object = None,
    limit: object = None,
    remedy: str | None = None,
    error: type[GraphError] = GraphError,
) -> GraphError:
    """Return the error of an operation that was given what it cannot take, with the user's place."""
    return error(message, operation=op, location=users_location(), seen=seen, limit=limit, remedy=remedy)


def wrong_sort(op: str, what: str, wanted: str, value: object, remedy: str | None = None) -> GraphError:
    """Return the error of an argument that is not of the sort wanted."""
    return misuse(op, f"{what} is not {wanted}", seen=describe_argument(value), remedy=remedy, error=GraphTypeError)


def describe_argument(value: object) -> str:
    """Return a value in a few words, however large it is.

    >>> describe_argument(True), describe_argument([1] * 1000), describe_argument(np.zeros((2, 3)))
    ('True', '[1, 1, 1, 1, 1, 1, ...]', 'an array of float64 of shape [2, 3]')
    """
    if isinstance(value, Output):
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return f"an array of {array.dtype} of shape {list(array.shape)}"
    if isinstance(value, int) and not -WHOLE_MOST <= value <= WHOLE_MOST:
        return f"an integer of {value.bit_length()} bits"
    return reprlib.repr(value)


@contextmanager
def part_of(op: str) -> Generator[None]:
    """Let an error of an operation that another one is built from name both.

    >>> from aneforge.errors import Location
    >>> with part_of("mha"):
    ...     raise GraphError("the shapes do not fit", operation="linear", location=Location("a.py", 3))
    Traceback (most recent call last):
    aneforge.errors.GraphError: mha (linear) at a.py:3: the shapes do not fit
    """
    try:
        yield
    except GraphError as error:
        if not (error.operation or "").startswith(op):
            error.operation = f"{op} ({error.operation})" if error.operation else op
            error.location = error.location or users_location()
        raise


# One value


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is one number: Python's or NumPy's, whole or not; booleans are none.

    >>> is_number(2), is_number(np.float16(0.5)), is_number(True), is_number(np.array(2.0))
    (True, True, False, False)
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def whole(value: object, op: str, what: str, *, least: int = -WHOLE_MOST, most: int = WHOLE_MOST) -> int:
    """Return an integer, Python's or NumPy's, as Python's.

    >>> whole(np.int64(2), "pad", "k")
    2

    Raises:
        GraphTypeError: It is none.
        GraphError: It is too small or too large.
    """
    if not is_number(value) or isinstance(value, float | np.floating):
        raise wrong_sort(op, what, "an integer", value)
    found = int(value)
    if found < least:
        raise misuse(op, f"{what} is too small", seen=describe_argument(found), limit=f"at least {least}")
    if found > most:
        raise misuse(op, f"{what} is too large", seen=describe_argument(found), limit=f"at most {most}")
    return found


def number(value: object, op: str, what: str, *, finite: bool = True) -> float:
    """Return a number, Python's or NumPy's, as Python's float.

    >>> number(np.float32(0.5), "elu", "alpha")
    0.5

    Raises:
        GraphTypeError: It is none.
        GraphError: No float holds it, or it is not finite where it must be.
    """
    if not is_number(value):
        raise wrong_sort(op, what, "a number", value)
    try:
        found = float(value)
    except OverflowError:
        raise misuse(op, f"{what} is too large for a floating-point number", seen=describe_argument(value)) from None
    if finite and not math.isfinite(found):
        raise misuse(op, f"{what} is not finite", seen=found)
    return found


def flag(value: object, op: str, what: str) -> bool:
    """Return a boolean, Python's or NumPy's, as Python's.

    Raises:
        GraphTypeError: It is none.
    """
    if not isinstance(value, bool | np.bool_):
        raise wrong_sort(op, what, "True or False", value)
    return bool(cast("object", value))


def text(value: object, op: str, what: str) -> str:
    """Return a text.

    Raises:
        GraphTypeError: It is none.
    """
    if not isinstance(value, str):
        raise wrong_sort(op, what, "a text", value)
    return value


def axis_of(axis: object, rank: int, op: str, what: str = "axis") -> int:
    """Return an axis of a tensor, counted from the front.

    >>> axis_of(-1, 3, "softmax")
    2

    Raises:
        GraphTypeError: It is not an integer.
        GraphError: The tensor has no such axis.
    """
    found = whole(axis, op, what)
    if not -rank <= found < rank:
        limit = f"{-rank} to {rank - 1}" if rank else "a tensor with axes"
        raise misuse(op, f"{what} is not an axis of a tensor of rank {rank}", seen=found, limit=limit)
    return found % rank


# Several values


def entries(values: object, op: str, what: str, most: int) -> Sequence[object] | None:
    """Return the entries of a list, a tuple, another sequence or a 1-D array; nothing for anything else.

    Raises:
        GraphError: There are too many.
    """
    if isinstance(values, np.ndarray):
        array = cast("Array", values)
        found = cast("Sequence[object]", array) if array.ndim == 1 else None
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview):
        found = cast("Sequence[object]", values)
    else:
        found = None
    if found is not None and len(found) > most:
        raise misuse(op, f"{what} has too many entries", seen=len(found), limit=f"at most {most}")
    return found


def whole_list(values: object, op: str, what: str, *, most: int = LIST_MOST) -> list[int]:
    """Return integers that were given as a list, a tuple or a 1-D array.

    >>> whole_list(np.array([2, 3]), "tile", "reps")
    [2, 3]

    Raises:
        GraphTypeError: It is not such a thing, or one entry is not an integer.
        GraphError: There are too many.
    """
    found = entries(values, op, what, most)
    if found is None:
        raise wrong_sort(op, what, "a list of integers", values)
    return [whole(value, op, f"{what}[{place}]") for place, value in enumerate(found)]


def one_list(values: Sequence[object], op: str, what: str) -> list[int]:
    """Return integers that were given one by one, or as one list.

    >>> one_list((1, 2), "reshape", "shape"), one_list(([1, 2],), "reshape", "shape")
    ([1, 2], [1, 2])

    Raises:
        GraphTypeError: They are neither.
    """
    if len(values) == 1 and not is_number(values[0]):
        return whole_list(values[0], op, what)
    return whole_list(values, op, what)


def expect_makeable(elements: int, op: str, made: str, limit: str, remedy: str) -> None:
    """Check that a constant of fp16 that the builder makes by itself does not take the machine's memory.

    Raises:
        GraphError: It would.
    """
    if 2 * elements > MADE_MOST_BYTES:
        raise misuse(op, f"{made} would take {2 * elements / 2**20:.0f} MiB", limit=f"64 MiB: {limit}", remedy=remedy)
