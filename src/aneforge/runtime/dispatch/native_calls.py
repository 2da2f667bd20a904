"""What all clients that call native code share: loading a library, its functions with their types, memory as arrays."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.errors import RuntimeStateError
from aneforge.records import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from aneforge.ops.types import Array

__all__ = ["Block", "Signature", "address_of", "as_bytes", "bind_functions", "load_library"]


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a native function."""

    result: Any
    """A type of ctypes, or None for a function that gives nothing."""
    arguments: tuple[Any, ...]


def load_library(path: str | os.PathLike[str]) -> ctypes.CDLL:
    """Load a library.

    Raises:
        RuntimeStateError: It cannot be loaded.
    """
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise RuntimeStateError(f"{path} cannot be loaded: {error}") from None


def bind_functions(
    library: ctypes.CDLL, path: str | os.PathLike[str], signatures: Mapping[str, Signature]
) -> dict[str, Callable[..., Any]]:
    """Return functions of a library by name, with their types.

    Raises:
        RuntimeStateError: The library lacks one of them.
    """
    found: dict[str, Callable[..., Any]] = {}
    missing: list[str] = []
    for name, signature in signatures.items():
        try:
            function = library[name]
        except AttributeError:
            missing.append(name)
            continue
        function.restype = signature.result
        function.argtypes = signature.arguments
        found[name] = function
    if missing:
        raise RuntimeStateError(
            f"{path} is stale or another library: it lacks {', '.join(missing)}",
            remedy="build it from the same version as its clients",
        )
    return found


def as_bytes(address: int, nbytes: int) -> Array:
    """Return native memory as an array of bytes, without a copy; its owner must outlive it."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def address_of(array: Array) -> int:
    """Return where the bytes of an array begin.

    Raises:
        RuntimeStateError: They do not follow one another.
    """
    if not array.flags.c_contiguous:
        raise RuntimeStateError("native code takes only contiguous arrays", seen=f"strides {array.strides}")
    return array.ctypes.data


class BlockDescriptor(ctypes.Structure):
    """What every block of the blocks runtime points to."""

    _fields_ = (("reserved", ctypes.c_ulong), ("size", ctypes.c_ulong))


class BlockLiteral(ctypes.Structure):
    """A block in the layout of compilers (block ABI of the blocks runtime)."""

    _fields_ = (
        ("isa", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("invoke", ctypes.c_void_p),
        ("descriptor", ctypes.POINTER(BlockDescriptor)),
    )


class Block:
    """An Objective-C block of no arguments that calls a function of Python; it must outlive its callers.

    It is marked global, so that retaining and copying leave it where it is.
    """

    IS_GLOBAL = 1 << 28

    def __init__(self, library: ctypes.CDLL, function: Callable[[], None]) -> None:
        def invoke(block: int | None) -> None:
            del block  # the closure has all that is needed
            function()

        self.invoke = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(invoke)
        self.descriptor = BlockDescriptor(0, ctypes.sizeof(BlockLiteral))
        self.literal = BlockLiteral(
            ctypes.addressof(ctypes.c_char.in_dll(library, "_NSConcreteGlobalBlock")),
            self.IS_GLOBAL,
            0,
            ctypes.cast(self.invoke, ctypes.c_void_p),
            ctypes.pointer(self.descriptor),
        )

    @property
    def address(self) -> int:
        """Where it is."""
        return ctypes.addressof(self.literal)
