"""What is found of constants: once, however many programs read them.

The programs of all targets share the arrays of a model's weights, which never change.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from aneforge.ops.types import Array

__all__ = ["compute_once"]

Found = TypeVar("Found")
FOUND: dict[int, dict[Hashable, object]] = {}
"""By the identity of arrays that are still in use; views of an array are distinguished by address and strides."""


def compute_once(values: Array, what: Hashable, find: Callable[[Array], Found]) -> Found:
    """Return what is found of an array; where nobody can write to it, it is found once as long as the array lives.

    >>> weights = np.array([1.0, -3.0])
    >>> weights.flags.writeable = False
    >>> compute_once(weights, "largest", np.max), compute_once(weights, "largest", np.min)
    (np.float64(1.0), np.float64(1.0))
    """
    owner = values.base if isinstance(values.base, np.ndarray) else values
    if values.flags.writeable or owner.flags.writeable:
        return find(values)
    if id(owner) not in FOUND:
        FOUND[id(owner)] = {}
        weakref.finalize(owner, FOUND.pop, id(owner), None)
    known = FOUND[id(owner)]
    view = (what, values.ctypes.data, values.shape, values.strides, values.dtype)
    if view not in known:
        known[view] = find(values)
    return cast("Found", known[view])
