"""The inputs of a model, every symbolic length bound: by the name of the length, or by a whole shape for an input."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError, Location, UnknownNameError
from aneforge.formats.shared.extents import check_extents
from aneforge.graph.node import new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.table import find_op
from aneforge.records import dataclass

__all__ = [
    "Input",
    "OpenDimensionsError",
    "Shapes",
    "bound_shape",
    "check_names",
    "check_shapes",
    "expect_bound",
    "in_file",
    "placeholder",
]

Shapes = Mapping[str, int | Sequence[int]]
"""Lengths for symbolic dimensions by their names, and whole shapes for inputs by theirs."""


class OpenDimensionsError(GraphError):
    """Dimensions of a model have no length."""

    leading: frozenset[str] = frozenset()
    """The names of those that are the first of an input: the batch, as a rule."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the model as the file describes it."""

    name: str
    dtype: str
    lengths: tuple[int | str | None, ...] | None
    """A number, the name of one, or nothing for each axis; nothing at all where not even the rank is known."""


def in_file(file: str | None) -> Location | None:
    """Return the place of something about a whole file; nothing for a model that comes from none."""
    return Location(file) if file else None


def check_shapes(shapes: object, inputs: Sequence[Input]) -> dict[str, int | tuple[int, ...]]:
    """Return the lengths and shapes that a user gives, their names checked.

    Raises:
        GraphTypeError: It is not a mapping of names to integers or lists of them.
        GraphError: A length is negative.
        UnknownNameError: A name is not a symbolic dimension and not an input.
    """
    symbols = {length for one in inputs for length in one.lengths or () if isinstance(length, str)}
    ranks = {one.name: one for one in inputs}
    found: dict[str, int | tuple[int, ...]] = {}
    for name, length in check_names(shapes, "shapes").items():
        if name not in symbols and name not in ranks:
            raise UnknownNameError.of("symbolic dimension or input", name, [*sorted(symbols), *ranks])
        found[name] = checked_length(name, length)
        if isinstance(found[name], int) and name not in symbols:
            raise GraphTypeError(f"shapes[{name!r}] is for an input and is not a list", seen=reprlib.repr(length))
    return found


def checked_length(name: str, length: object) -> int | tuple[int, ...]:
    """Return a length or a shape.

    Raises:
        GraphTypeError: It is neither.
        GraphError: It is negative.
    """
    several = isinstance(length, list | tuple)
    items = cast("Sequence[object]", length) if several else (length,)
    plain = [cast("object", item.item()) if isinstance(item, np.generic) else item for item in items]
    whole = [item for item in plain if isinstance(item, int) and not isinstance(item, bool)]
    if len(whole) != len(items):
        raise GraphTypeError(
            f"shapes[{name!r}] is neither an integer nor a list of them",
            seen=reprlib.repr(length),
            remedy='give shapes={"batch": 1} or shapes={"input": (1, 3, 224, 224)}',
        )
    shape = check_extents(f"shapes[{name!r}]", whole)
    return shape if several else shape[0]


def check_names(given: object, what: str) -> dict[str, object]:
    """Return a mapping of names that a user gives; nothing is an empty one.

    Raises:
        GraphTypeError: It is something else.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise GraphTypeError(f"{what} is not a mapping of names", seen=type(given).__name__)
    found = dict(cast("Mapping[object, object]", given))
    for name in found:
        if not isinstance(name, str):
            raise GraphTypeError(f"a name in {what} is not text", seen=reprlib.repr(name))
    return cast("dict[str, object]", found)


def expect_bound(inputs: Sequence[Input], lengths: Mapping[str, int | tuple[int, ...]], file: str | None) -> None:
    """Check that every dimension has a length.

    Raises:
        GraphError: Some have none; all are listed.
    """
    open_ones: list[str] = []
    names: dict[str, str] = {}
    for one in inputs:
        if one.name in lengths:
            continue
        if one.lengths is None:
            open_ones.append(f"input {one.name!r} has no shape")
            names[one.name] = f'"{one.name}": (...)'
            continue
        for axis, length in enumerate(one.lengths):
            if length is None or (isinstance(length, str) and length not in lengths):
                open_ones.append(f"axis {axis} of input {one.name!r} is " + (repr(length) if length else "open"))
                key = length or one.name
                names[key] = f'"{key}": 1' if length else f'"{key}": ({", ".join("1" for _ in one.lengths)},)'
    if open_ones:
        error = OpenDimensionsError(
            f"the model has {len(open_ones)} open dimension{'s' if len(open_ones) > 1 else ''}: {'; '.join(open_ones)}",
            location=in_file(file),
            remedy=f"bind them, such as shapes={{{', '.join(names.values())}}} (--shape at the command line); for "
            "lengths that vary, read one graph for each of a few fixed ones and pad the data up to the next",
        )
        first = {one.lengths[0] for one in inputs if one.lengths and one.name not in lengths}
        error.leading = frozenset(name for name in first if isinstance(name, str) and name not in lengths)
        raise error


def bound_shape(one: Input, lengths: Mapping[str, int | tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of an input.

    Raises:
        GraphError: A shape that the user gives contradicts the file.
    """
    whole = lengths.get(one.name)
    if not isinstance(whole, tuple):
        return tuple(bound_length(length, lengths) for length in one.lengths or ())
    fits = one.lengths is None or (
        len(whole) == len(one.lengths)
        and all(not isinstance(length, int) or length == new for length, new in zip(one.lengths, whole, strict=True))
    )
    if not fits:
        raise GraphError(f"shapes[{one.name!r}] contradicts the model", seen=list(whole), limit=list(one.lengths or ()))
    return whole


def bound_length(length: int | str | None, lengths: Mapping[str, int | tuple[int, ...]]) -> int:
    """Return the length of an axis."""
    if isinstance(length, int):
        return length
    found = lengths[length or ""]
    if isinstance(found, int):
        return found
    raise GraphError(f"shapes[{length!r}] is for an axis and is a list", seen=list(found))


def placeholder(one: Input, shape: tuple[int, ...], file: str | None) -> Tensor:
    """Return an input of the graph."""
    check_extents(f"input {one.name!r}", shape)
    attributes = {"shape": shape, "dtype": one.dtype, "name": one.name}
    return Tensor(new_node(find_op("input"), {}, attributes, Location(file, node=one.name)))
