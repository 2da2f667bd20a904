"""Steps of a layer, and what they read of it: extents, constants, axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from aneforge.compiler.memory.layout import extents_of
from aneforge.engine.planar import host_fp16
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.surfaces import Extent
from aneforge.ops.constant import Dense
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.ops.types import TensorType
    from aneforge.runtime.hwx.constant_pool import ConstantPool


__all__ = [
    "Step",
    "bias_of",
    "core_extent",
    "dense_values",
    "extent_of",
    "fp16_values",
    "get_planned_place",
    "scalar_of",
]


Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class Step:
    """Tasks that write one tensor."""

    result: Extent
    emit: Callable[[Sequence[Surface], Surface, ConstantPool, int], tuple[Draft, ...]]
    """From the surfaces of sources and result, the constants, and the place of its own scratch memory."""
    scratch: int = 0
    """Bytes of scratch memory that its tasks use between them."""


def extent_of(tensor: TensorType) -> Extent:
    """Return the extents of a tensor.

    Raises:
        HwxError: It has a batch or a depth.
    """
    found = extents_of(tensor.shape)
    if found.batch != 1 or found.depth != 1:
        raise HwxError("ANE-EMIT-005: no program with a batch or a depth is known", seen=tensor.shape)
    return Extent(found.channels, found.rows, found.width)


def core_extent(layer: Layer) -> Extent:
    """Return the extents of what a layer's operation gives, before its epilogue."""
    return extent_of(layer.core_types[0])


def scalar_of(constant: object) -> float:
    """Return a constant that is one number, rounded as the engine's host does it.

    Raises:
        HwxError: It has several.
    """
    values = np.unique(dense_values(constant))
    if values.size != 1:
        raise HwxError("ANE-EMIT-011: no program with a number for each channel is known", seen=values.size, limit=1)
    return float(host_fp16(values)[0])


def dense_values(constant: object) -> NDArray[np.float64]:
    """Return the numbers of a constant.

    Raises:
        HwxError: They are compressed.
    """
    if not isinstance(constant, Dense):
        raise HwxError("ANE-EMIT-012: no program with compressed constants is known", seen=type(constant).__name__)
    return np.asarray(constant.values, dtype=np.float64)


def fp16_values(constant: object) -> NDArray[np.float16]:
    """Return the weights of a layer, which are fp16 numbers.

    Raises:
        HwxError: They are compressed, or rounding would change one.
    """
    if isinstance(constant, Dense) and constant.values.dtype == np.float16:
        return np.asarray(constant.values, np.float16)
    values = dense_values(constant)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16)
    if not np.array_equal(rounded.astype(np.float64), values, equal_nan=True):
        raise HwxError("ANE-EMIT-012: weights must be fp16 numbers")
    return rounded


def bias_of(stage: Stage, outputs: int) -> NDArray[np.float16]:
    """Return the offsets of a stage as a bias for each output.

    Raises:
        HwxError: It has a gain other than 1.
    """
    gain = stage.operands.get("gain")
    if gain is not None and not np.all(dense_values(gain) == 1):
        raise HwxError("ANE-EMIT-011: no program of a convolution with a gain is known")
    offset = stage.operands.get("offset")
    values = np.zeros(1) if offset is None else dense_values(offset)
    return host_fp16(np.broadcast_to(values.reshape(-1), (outputs,))).astype(np.float16)


def get_planned_place(place: Place | None) -> Place:
    """Return a place of the memory plan.

    Raises:
        HwxError: The plan has none, which is a fault of the planner's.
    """
    if place is None:
        raise HwxError("ANE-EMIT-001: the memory plan has no place for this operation")
    return place
