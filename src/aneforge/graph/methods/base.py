"""What all methods share: an operation applied to this tensor, and arrays taken in as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

import numpy as np

from aneforge.callsite import warn
from aneforge.errors import GraphError, GraphTypeError, PrecisionWarning
from aneforge.graph.methods.method_arguments import describe_argument, is_number, misuse, number
from aneforge.graph.node import Node, Output, build, users_location
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.numbers import FP16_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Argument
    from aneforge.ops.types import Array

__all__ = ["BUILDER_MAX_RANK", "Methods", "build_checked", "constant_or_tensor", "weight"]

BUILDER_MAX_RANK = 5
"""The builder makes no tensor of a higher rank, whatever the target: the documented API refuses it at construction."""
WEIGHT_TYPES = ("float16", "float32", "float64")
NO_ARRAYS: tuple[type[object], ...] = (bool, np.bool_, str, bytes, range, complex, type(None))
"""What NumPy would make an array of, and none of floating-point numbers."""
WEIGHTS_IN_USE: WeakValueDictionary[tuple[object, ...], Dense] = WeakValueDictionary()
"""Constants by the address of the array that each was made of; the memory may hold other numbers by now."""


def build_checked(op: str, operands: Mapping[str, Argument | None], **attributes: object) -> Node:
    """Return a new node of the builder's: like `build`, and no result may be empty or have more axes than 5.

    Raises:
        GraphError: The operands or attributes do not fit the operation, or a result has too many axes or an empty one.
    """
    node = build(op, operands, attributes)
    for result in node.types:
        shape = list(result.shape)
        if result.rank > BUILDER_MAX_RANK:
            raise GraphError(
                f"a tensor of shape {shape} has too many axes",
                operation=op,
                location=node.location,
                seen=result.rank,
                limit=BUILDER_MAX_RANK,
                remedy="merge axes with reshape",
            )
        if 0 in shape:
            raise GraphError(
                f"a tensor of shape {shape} has an empty axis", operation=op, location=node.location, limit="1 or more"
            )
    return node


def weight(values: object, op: str, what: str = "the weight", *, of_tensor: str | None = None) -> Constant:
    """Return an array of weights as a constant in fp16, the type in which the engine holds them.

    `of_tensor` is the remedy for one who gives a tensor that is computed at run time.

    Raises:
        GraphTypeError: It is not an array of float16, float32 or float64.
    """
    if isinstance(values, Constant):
        return values
    if isinstance(values, Output):
        raise misuse(
            op,
            f"{what} is a tensor computed at run time",
            seen=describe_argument(values),
            limit=f"an array of {', '.join(WEIGHT_TYPES)}",
            remedy=of_tensor,
            error=GraphTypeError,
        )
    array = as_array(values, op, what)
    if str(array.dtype) not in WEIGHT_TYPES:
        raise misuse(
            op,
            f"{what} is not an array of floating-point numbers",
            seen=describe_argument(array),
            limit=", ".join(WEIGHT_TYPES),
            remedy="convert it with astype(numpy.float16)",
            error=GraphTypeError,
        )
    return in_half_precision(array)


def in_half_precision(array: Array) -> Constant:
    """Return an array as a constant in fp16; what is too large there becomes infinite, with a warning.

    The same array given again, unchanged, is the same constant: layers that share weights share their memory.
    """
    with np.errstate(over="ignore"):
        half = array.astype(np.float16, copy=False)
    if array.dtype != half.dtype and np.isinf(half).any() and (lost := np.isinf(half) & np.isfinite(array)).any():
        values = f"{np.count_nonzero(lost)} values such as {array[lost].flat[0]:g}"
        message = f"{users_location()}: {values} do not fit in fp16 and become infinite; the largest is {FP16_MAX:g}"
        warn(message, PrecisionWarning)
    place = (array.ctypes.data, array.shape, array.strides, array.dtype.str)
    known = WEIGHTS_IN_USE.get(place)
    if known is not None and have_same_bits(known.values, half):
        return known
    made = Dense.owning(half.copy("K") if np.may_share_memory(half, array) else half)
    WEIGHTS_IN_USE[place] = made
    return made


def have_same_bits(first: Array, second: Array) -> bool:
    """Return whether two arrays in fp16 hold the same bits; four numbers are compared at a time where that is possible.

    >>> zeros = np.zeros((2, 4), np.float16)
    >>> have_same_bits(zeros, zeros.copy()), have_same_bits(zeros, -zeros), have_same_bits(zeros, zeros.T)
    (True, False, False)
    """
    if first.shape != second.shape:
        return False
    if first.flags.c_contiguous and second.flags.c_contiguous and not first.size % 4:
        return bool((first.reshape(-1).view(np.uint64) == second.reshape(-1).view(np.uint64)).all())
    return np.array_equal(first.view(np.uint16), second.view(np.uint16))


def as_array(values: object, op: str, what: str) -> Array:
    """Return what NumPy makes an array of: arrays, and lists of equal lengths; a single number is none.

    Raises:
        GraphTypeError: It makes none of it.
    """
    problem = None
    if not isinstance(values, NO_ARRAYS) and not is_number(values):
        try:
            return np.asarray(values)
        except (ValueError, TypeError, OverflowError, RuntimeError) as error:  # ragged lists, what has no array
            problem = str(error)
    raise misuse(
        op,
        f"{what} is not an array of floating-point numbers" + (f": {problem}" if problem else ""),
        seen=describe_argument(values),
        limit=", ".join(WEIGHT_TYPES),
        error=GraphTypeError,
    )


def constant_or_tensor(value: object, op: str, what: str = "an operand") -> Output | Constant:
    """Return an operand: a tensor as it is, a number or an array of floating-point numbers as a constant in fp16.

    Raises:
        GraphTypeError: It is neither; booleans, texts and arrays of integers are not.
        GraphError: It is a number that no float holds.
    """
    if isinstance(value, Output | Constant):
        return value
    if is_number(value):
        return in_half_precision(np.asarray(number(value, op, what, finite=False)))
    if isinstance(value, NO_ARRAYS):
        raise misuse(
            op,
            f"{what} is neither a tensor, a number nor an array",
            seen=describe_argument(value),
            error=GraphTypeError,
        )
    return weight(value, op, what)


class Methods(Output):
    """A tensor to which operations can be applied."""

    __slots__ = ()

    def apply(self, op: str, operands: Mapping[str, Argument | None] | None = None, **attributes: object) -> Self:
        """Return the first result of an operation on this tensor.

        >>> import aneforge as af
        >>> af.input((1, 4)).apply("relu").shape
        (1, 4)
        """
        return type(self)(build_checked(op, {"x": self, **(operands or {})}, **attributes))
