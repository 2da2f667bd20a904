"""The inputs of a model: their shapes with every symbolic length bound, and values that are fixed when it is read."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError, Location, UnknownNameError
from aneforge.graph.node import new_node
from aneforge.graph.tensor import Tensor
from aneforge.importers.onnx.dtypes import ELEMENT_TYPES, FOREIGN_TYPES, element_type_name
from aneforge.importers.onnx.findings import Reason
from aneforge.importers.onnx.structure import check_texts, in_file
from aneforge.importers.onnx.tensors import checked_extents
from aneforge.importers.onnx.values import Foreign
from aneforge.ops.constant import Dense
from aneforge.ops.table import op_named
from aneforge.ops.types import Array, TensorType, is_float, is_integer, numpy_dtype, value_range

if TYPE_CHECKING:
    import onnx

    from aneforge.importers.onnx.values import Held

__all__ = ["Shapes", "Values", "bound_inputs"]

Shapes = Mapping[str, int | Sequence[int]]
"""Lengths for symbolic dimensions by their names, and whole shapes for inputs by theirs."""
Values = Mapping[str, object]
"""Arrays for inputs that are fixed when the model is read."""
OTHER_TYPES = {
    "sequence_type": ("a sequence", Reason.SEQUENCE),
    "optional_type": ("an optional", Reason.OPTIONAL),
    "map_type": ("a map", Reason.MAP),
    "sparse_tensor_type": ("a sparse tensor", Reason.FORM),
    "opaque_type": ("of an opaque type", Reason.FORM),
}


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the model as the file describes it."""

    name: str
    dtype: str
    lengths: tuple[int | str | None, ...] | None
    """A number, the name of one, or nothing for each axis; nothing at all where not even the rank is known."""


def bound_inputs(
    graph: onnx.GraphProto, shapes: Shapes | None, values: Values | None, file: str | None
) -> dict[str, Held]:
    """Return what every input stands for; one that has an initialiser is not among them.

    Raises:
        GraphError: A dimension has no length, all such listed at once, or a shape or value does not fit its input.
        GraphTypeError: `shapes` or `values` is no mapping, or a shape is no list of whole numbers.
        UnknownNameError: A name in `shapes` or `values` is none of the model's.
    """
    stored = {tensor.name for tensor in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    given = [value for value in graph.input if value.name not in stored]
    described = {value.name: description(value) for value in given}
    inputs = [one for one in described.values() if isinstance(one, Input)]
    lengths = checked_shapes(shapes, inputs)
    fixed = checked_values(values, inputs)
    wanted = [one for one in inputs if one.name not in fixed]
    expect_bound(wanted, lengths, file)
    found: dict[str, Held] = {}
    for name, one in described.items():
        if not isinstance(one, Input):
            found[name] = one
        elif name in fixed:
            found[name] = Dense(fixed_value(one, fixed[name], lengths))
        else:
            found[name] = placeholder(one, bound_shape(one, lengths), file)
    return found


def description(value: onnx.ValueInfoProto) -> Input | Foreign:
    """Return an input as the file describes it.

    Raises:
        GraphError: It has no type.
    """
    kind = value.type.WhichOneof("value")
    if kind in OTHER_TYPES:
        what, reason = OTHER_TYPES[kind]
        return Foreign(what, reason)
    if kind != "tensor_type":
        raise GraphError(f"input {value.name!r} has no type")
    number = value.type.tensor_type.elem_type
    if number in FOREIGN_TYPES:
        name, reason = FOREIGN_TYPES[number]
        return Foreign(f"a tensor of {name}", reason)
    if number not in ELEMENT_TYPES:
        raise GraphError(f"input {value.name!r} has no known element type", seen=element_type_name(number))
    lengths = None
    if value.type.tensor_type.HasField("shape"):
        lengths = tuple(length_of(dimension) for dimension in value.type.tensor_type.shape.dim)
        checked_extents(f"input {value.name!r}", (one if isinstance(one, int) else 1 for one in lengths))
    return Input(value.name, ELEMENT_TYPES[number], lengths)


def length_of(dimension: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Return the length of an axis, or its name, or nothing."""
    match dimension.WhichOneof("value"):
        case "dim_value":
            return dimension.dim_value
        case "dim_param":
            check_texts("a dimension", [dimension.dim_param], None)
            return dimension.dim_param or None
        case _:
            return None


def checked_shapes(shapes: object, inputs: Sequence[Input]) -> dict[str, int | tuple[int, ...]]:
    """Return the lengths and shapes that a user gives, their names checked.

    Raises:
        GraphTypeError: It is no mapping of names to whole numbers or lists of them.
        GraphError: A length is negative.
        UnknownNameError: A name is no symbolic dimension and no input.
    """
    symbols = {length for one in inputs for length in one.lengths or () if isinstance(length, str)}
    ranks = {one.name: one for one in inputs}
    found: dict[str, int | tuple[int, ...]] = {}
    for name, length in named(shapes, "shapes").items():
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
            f"shapes[{name!r}] is neither a whole number nor a list of them",
            seen=reprlib.repr(length),
            remedy='give shapes={"batch": 1} or shapes={"input": (1, 3, 224, 224)}',
        )
    shape = checked_extents(f"shapes[{name!r}]", whole)
    return shape if several else shape[0]


def checked_values(values: object, inputs: Sequence[Input]) -> dict[str, object]:
    """Return the values that a user fixes, their names checked.

    Raises:
        GraphTypeError: It is no mapping of names.
        UnknownNameError: A name is no input.
    """
    known = [one.name for one in inputs]
    found = named(values, "values")
    for name in found:
        if name not in known:
            raise UnknownNameError.of("input", name, known)
    return found


def named(given: object, what: str) -> dict[str, object]:
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
        raise GraphError(
            f"the model has {len(open_ones)} open dimensions: {'; '.join(open_ones)}",
            location=in_file(file),
            remedy=f"bind them, such as shapes={{{', '.join(names.values())}}}",
        )


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
    checked_extents(f"input {one.name!r}", shape)
    attributes = {"shape": shape, "dtype": one.dtype, "name": one.name}
    return Tensor(new_node(op_named("input"), {}, attributes, Location(file, node=one.name)))


def fixed_value(one: Input, value: object, lengths: Mapping[str, int | tuple[int, ...]]) -> Array:
    """Return the array of an input that is fixed, read-only.

    Raises:
        GraphTypeError: It is no array of numbers that the input takes.
        GraphError: It has another shape than the input.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise GraphTypeError(f"values[{one.name!r}] is no array", seen=type(value).__name__) from None
    expect_held(one, array)
    wanted = one.lengths or ()
    fits = one.lengths is None or (
        array.ndim == len(wanted)
        and all(
            length == extent
            for length, extent in zip((known_length(length, lengths) for length in wanted), array.shape, strict=True)
            if length is not None
        )
    )
    if not fits:
        raise GraphError(
            f"values[{one.name!r}] has another shape than the input", seen=list(array.shape), limit=list(wanted)
        )
    copy = array.astype(numpy_dtype(one.dtype))
    copy.flags.writeable = False
    return copy


def known_length(length: int | str | None, lengths: Mapping[str, int | tuple[int, ...]]) -> int | None:
    """Return the length of an axis if it is known."""
    if isinstance(length, str):
        found = lengths.get(length)
        return found if isinstance(found, int) else None
    return length


def expect_held(one: Input, array: Array) -> None:
    """Check that an input's element type holds the numbers of an array.

    Raises:
        GraphTypeError: It holds another sort of numbers.
        GraphError: One is out of range.
    """
    wanted = numpy_dtype(one.dtype)
    if array.dtype == wanted:
        return
    sorts = "fiu" if is_float(one.dtype) else "iu" if is_integer(one.dtype) else "b"
    if array.dtype.kind not in sorts:
        raise GraphTypeError(f"values[{one.name!r}] does not fit an input of {one.dtype}", seen=str(array.dtype))
    if is_integer(one.dtype) and array.size:
        low, high = value_range(one.dtype)
        least, most = int(array.min()), int(array.max())
        if least < low or most > high:
            seen = least if least < low else most
            raise GraphError(
                f"values[{one.name!r}] is out of range for {one.dtype}", seen=seen, limit=f"{low} to {high}"
            )


def declared_type(value: onnx.ValueInfoProto) -> TensorType | None:
    """Return the type that the model declares for an output, if it declares all of it."""
    described = description(value) if value.type.WhichOneof("value") == "tensor_type" else None
    if not isinstance(described, Input) or described.lengths is None:
        return None
    lengths = tuple(length for length in described.lengths if isinstance(length, int))
    return TensorType(lengths, described.dtype) if len(lengths) == len(described.lengths) else None
