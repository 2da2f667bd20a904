"""Ports of a loaded program: a name, a direction, a type, and the buffer that values pass through.

A buffer is an ordinary NumPy array in the element type in which the backend passes values. It starts zeroed and at
a multiple of 64 bytes, as buffers of the real runtime do, and stays the same object until another one is bound.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine.execution.given import hand_over
from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array, TensorType

__all__ = [
    "Direction",
    "Port",
    "buffer_for",
    "check_buffer",
    "check_memory",
    "convert_value",
    "expect_apart",
]

ALIGNMENT = 64


class Direction(StrEnum):
    """Which way values go through a port."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(slots=True)
class Port:
    """A place at which values enter or leave a loaded program."""

    name: str
    direction: Direction
    type: TensorType
    buffer: Array

    def __str__(self) -> str:
        return f"{self.direction} {self.name!r} : {self.type}"


def buffer_for(kind: TensorType, element: np.dtype[Any]) -> Array:
    """Return a zeroed buffer for values of a type, at a multiple of 64 bytes."""
    held = np.zeros(kind.size * element.itemsize + ALIGNMENT, np.uint8)
    start = -held.ctypes.data % ALIGNMENT
    return held[start : start + kind.size * element.itemsize].view(element).reshape(kind.shape)


def check_buffer(port: Port, buffer: object) -> Array:
    """Return a buffer that a caller brings for a port.

    Raises:
        GraphTypeError: It is not an array, or one of other elements.
        GraphError: It has another shape, is not contiguous, or cannot be written to and must be.
    """
    if not isinstance(buffer, np.ndarray):
        raise GraphTypeError(f"the buffer for {port} must be a NumPy array", seen=type(buffer).__name__)
    array = cast("Array", buffer)
    if array.dtype != port.buffer.dtype:
        raise GraphTypeError(f"the buffer for {port} holds other elements", seen=array.dtype, limit=port.buffer.dtype)
    if array.shape != port.type.shape:
        raise GraphError(
            f"the buffer for {port} has another shape", seen=list(array.shape), limit=list(port.type.shape)
        )
    if not array.flags.c_contiguous:
        raise GraphError(f"the buffer for {port} is not contiguous", remedy="np.ascontiguousarray makes it so")
    if port.direction is Direction.OUTPUT and not array.flags.writeable:
        raise GraphError(f"the buffer for {port} cannot be written to")
    return array


def expect_apart(port: Port, buffer: Array, outputs: Iterable[Port]) -> None:
    """Check that no two outputs are written to one place.

    Raises:
        GraphError: The buffer is in another output's memory.
    """
    if port.direction is not Direction.OUTPUT:
        return
    for other in outputs:
        # Buffers are contiguous, so their bounds say it all.
        if other is not port and np.may_share_memory(other.buffer, buffer):
            raise GraphError(
                f"the buffer for {port} overlaps the memory of {other}, which is written",
                remedy="give every output memory of its own",
            )


def check_memory(program: Program) -> None:
    """Check that this machine holds what a program needs at least: all its ports and states, or its largest tensor.

    A program that was read from a file has passed no rule about sizes.

    Raises:
        RuntimeStateError: It does not.
    """
    held = [port.value for port in (*program.inputs, *program.outputs)] + [state.read for state in program.states]
    largest = max((result.type.nbytes for layer in program.layers for result in layer.results), default=0)
    needed = max(sum(value.type.nbytes for value in held), largest)
    most = physical_bytes()
    if most is not None and needed > most:
        raise RuntimeStateError(
            "the tensors of the program are larger than the memory of this machine",
            seen=f"{needed:,} bytes",
            limit=f"{most:,} bytes",
            target=program.target.name,
            remedy="cut the tensors into tiles",
        )


@cache
def physical_bytes() -> int | None:
    """Return how much memory this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def convert_value(port: Port, value: object) -> Array:
    """Return a caller's value in the element type of a port: real numbers rounded ties to even, as NumPy rounds.

    Raises:
        GraphTypeError: It is of a type that the port does not take.
        GraphError: It has another shape, or an integer that the port cannot hold.
    """
    return hand_over(str(port), value, port.type, port.buffer.dtype)
