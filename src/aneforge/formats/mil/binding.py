"""Inputs of flexible shape, given the shapes that a graph is made for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, GraphTypeError, Location, UnknownNameError
from aneforge.formats.mil.syntax import StateType, ValueType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.mil.syntax import Function, NamedType

__all__ = ["bind_inputs", "held_type"]


def bind_inputs(function: Function, shapes: Mapping[str, Sequence[int]], file: str) -> Function:
    """Return a function whose inputs have the shapes that are given for them.

    Raises:
        UnknownNameError: There is no such input.
        GraphTypeError: A shape is not a list of lengths.
        GraphError: An input has another number of axes, or another length where it is known.
    """
    names = [port.name for port in function.inputs]
    for name in shapes:
        if name not in names:
            raise UnknownNameError.of("input", name, names)
    bound = (bind_port(port, shapes[port.name], file) if port.name in shapes else port for port in function.inputs)
    return replace(function, inputs=tuple(bound))


def held_type(port: NamedType) -> ValueType:
    """Return the type of a port, or of what a state holds."""
    kind = port.type.held if isinstance(port.type, StateType) else port.type
    return kind if isinstance(kind, ValueType) else kind.stacked


def bind_port(port: NamedType, shape: Sequence[int], file: str) -> NamedType:
    """Return an input with the shape that is given for it.

    Raises:
        GraphTypeError: The shape is not a list of lengths.
        GraphError: It is a state, or has another number of axes, or another length where it is known.
    """
    kind = port.type
    if not isinstance(kind, ValueType):
        raise GraphError(f"{port.name!r} is a state, whose shape is fixed", location=Location(file), limit=kind)
    if not isinstance(shape, list | tuple) or not all(isinstance(extent, int) for extent in shape):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError(f"the shape of input {port.name!r} is not a list of lengths", seen=repr(shape))
    given = tuple(shape)
    wanted = kind.extents or ()
    if len(given) != len(wanted) or any(
        one not in (None, two) or two < 0 for one, two in zip(wanted, given, strict=True)
    ):
        raise GraphError(f"input {port.name!r} has another shape", location=Location(file), seen=given, limit=kind)
    return replace(port, type=ValueType(kind.dtype, given or None))
