"""Surfaces, and what a chaining request wraps them in: surface objects, buffers with a symbol index, output sets.

A surface here is plain memory: values are dense, in the element type of the symbol. Real surfaces have rows with
strides, which the study did not look at.
"""

from __future__ import annotations

import itertools
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_instance, check_integer, check_items
from aneforge.runtime.chaining.chaining_study import name_as_studied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.types import Array

__all__ = ["ANEBuffer", "ANEIOSurfaceObject", "ANEIOSurfaceOutputSets", "BufferSource", "IOSurface"]

NUMBERS = itertools.count(1)
"""Surfaces without a name are numbered in the order in which they are made."""


class IOSurface:
    """Memory that the host and the engine share.

    >>> surface = IOSurface(8, name="x")
    >>> surface.write(np.array([1, 2], np.float16))
    >>> surface.read(np.float16, (2,)).tolist(), surface
    ([1.0, 2.0], <surface 'x' of 8 bytes>)

    Raises:
        GraphTypeError: The size is not an integer, or the name is not text.
        GraphError: The size is not positive, or more than this machine can give.
    """

    def __init__(self, nbytes: int, name: str = "") -> None:
        if not check_integer(nbytes, "the size of a surface", bits=48):
            raise GraphError("a surface must have at least one byte", seen=nbytes)
        self.name = check_instance(name, str, "the name of a surface") or f"surface {next(NUMBERS)}"
        try:
            self.memory = np.zeros(nbytes, np.uint8)
        except MemoryError:
            raise GraphError("there is not enough memory for a surface", seen=nbytes) from None

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.memory.nbytes

    def write(self, values: Array) -> None:
        """Copy values into the surface, from its start.

        Raises:
            GraphTypeError: It is not an array of numbers.
            GraphError: They are longer than the surface.
        """
        if not isinstance(values, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError("values written to a surface must be a NumPy array", seen=type(values).__name__)
        if values.dtype.hasobject:
            raise GraphTypeError("values written to a surface must be numbers", seen=str(values.dtype))
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        if flat.nbytes > self.nbytes:
            raise GraphError(f"{self} is too small for the values", seen=flat.nbytes, limit=self.nbytes)
        self.memory[: flat.nbytes] = flat

    def read(self, element: type[np.generic] | np.dtype[Any], shape: Sequence[int]) -> Array:
        """Return a copy of the values at its start.

        Raises:
            GraphTypeError: The element is not a type of numbers, or the shape holds something other than integers.
            GraphError: The surface is shorter than they are.
        """
        try:
            kind = np.dtype(element)
        except TypeError:
            raise GraphTypeError("the element of a surface must be a NumPy type", seen=repr(element)) from None
        check_items(shape if isinstance(shape, list) else tuple(shape), int, "the shape")
        if any(length < 0 for length in shape):
            raise GraphError("the lengths of a shape must be 0 or more", seen=tuple(shape))
        needed = kind.itemsize * int(np.prod(shape, dtype=np.int64))
        if needed > self.nbytes:
            raise GraphError(f"{self} does not hold so many values", seen=needed, limit=self.nbytes)
        return cast("Array", self.memory[:needed].view(kind).reshape(tuple(shape)).copy())

    def __repr__(self) -> str:
        return f"<surface {self.name!r} of {self.nbytes} bytes>"


@name_as_studied("_ANEIOSurfaceObject")
@dataclass(frozen=True, slots=True)
class ANEIOSurfaceObject:
    """`_ANEIOSurfaceObject`: a thin wrapper of a surface. It has no symbol index, so a chaining request cannot take it.

    >>> print(ANEIOSurfaceObject(IOSurface(64, name="x")))
    _ANEIOSurfaceObject: { ioSurface=x ; startOffset=0 }

    Raises:
        GraphTypeError: It is not a surface.
    """

    surface: IOSurface

    def __post_init__(self) -> None:
        check_instance(self.surface, IOSurface, "the surface of a surface object", "IOSurface(nbytes) makes one")

    def __str__(self) -> str:
        return f"_ANEIOSurfaceObject: {{ ioSurface={self.surface.name} ; startOffset=0 }}"


class BufferSource(IntEnum):
    """Who produces a buffer; the system prints it as ANEBufferProducerAgent. Only these three were tried.

    >>> ANEBuffer(ANEIOSurfaceObject(IOSurface(64)), symbol_index=0, source=BufferSource.OUTPUT).source
    <BufferSource.OUTPUT: 1>
    """

    ANE = 0
    OUTPUT = 1
    UNKNOWN = 2


@name_as_studied("_ANEBuffer")
@dataclass(frozen=True, slots=True)
class ANEBuffer:
    """`_ANEBuffer`: a surface object with the index of a symbol of the model and its producer.

    >>> print(ANEBuffer(ANEIOSurfaceObject(IOSurface(64, name="x")), symbol_index=0, source=1))
    _ANEBuffer: { ioSurface=x ; symbolIndex=0 ; ANEBufferProducerAgent=1 }

    Raises:
        GraphTypeError: It is a raw surface, not a surface object; or a number is not an integer.
        GraphError: The source is not one that was seen.
    """

    io_surface_object: ANEIOSurfaceObject
    symbol_index: int
    source: int = BufferSource.ANE

    def __post_init__(self) -> None:
        check_instance(
            self.io_surface_object,
            ANEIOSurfaceObject,
            "the surface object of a buffer",
            "wrap the surface: ANEIOSurfaceObject(surface)",
        )
        check_integer(self.symbol_index, "the symbol index of a buffer", bits=32)
        if type(self.source) not in (int, BufferSource) or self.source not in tuple(BufferSource):
            raise GraphError("the source of a buffer must be 0, 1 or 2", seen=repr(self.source))

    @property
    def surface(self) -> IOSurface:
        """The memory."""
        return self.io_surface_object.surface

    def __str__(self) -> str:
        return (
            f"_ANEBuffer: {{ ioSurface={self.surface.name} ; symbolIndex={self.symbol_index} ; "
            f"ANEBufferProducerAgent={int(self.source)} }}"
        )


@name_as_studied("_ANEIOSurfaceOutputSets")
@dataclass(frozen=True, slots=True)
class ANEIOSurfaceOutputSets:
    """`_ANEIOSurfaceOutputSets`: the buffers that one execution writes, and a surface for statistics.

    The real factory returns nil without a stats surface: such a set prints as nil, and no request with it validates.

    >>> output = ANEBuffer(ANEIOSurfaceObject(IOSurface(64, name="y")), symbol_index=0, source=1)
    >>> print(ANEIOSurfaceOutputSets(None, [output]))
    nil

    Raises:
        GraphTypeError: The stats surface is neither a surface nor None, or the buffers are not a list.
    """

    stats_sur_ref: IOSurface | None
    output_buffer: Sequence[ANEBuffer]

    def __post_init__(self) -> None:
        if self.stats_sur_ref is not None:
            check_instance(self.stats_sur_ref, IOSurface, "the stats surface", "IOSurface(64) makes one")
        if not isinstance(self.output_buffer, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError("the buffers of an output set must be a list", seen=type(self.output_buffer).__name__)
        object.__setattr__(self, "output_buffer", tuple(self.output_buffer))

    @property
    def is_nil(self) -> bool:
        """True where the real factory returns nil."""
        return self.stats_sur_ref is None

    def __str__(self) -> str:
        if self.stats_sur_ref is None:
            return "nil"
        listed = ", ".join(map(str, self.output_buffer))
        return f"_ANEIOSurfaceOutputSets: {{ statsSurRef={self.stats_sur_ref.name} ; outputBuffer=( {listed} ) }}"
