"""The inputs of a model: their shapes with every symbolic length bound, and values that are fixed when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, GraphTypeError, UnknownNameError
from aneforge.formats.onnx.dtypes import ELEMENT_TYPES, FOREIGN_TYPES, element_type_name
from aneforge.formats.onnx.onnx_values import Foreign
from aneforge.formats.onnx.structure import check_texts
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.findings import Reason
from aneforge.formats.shared.shapes import (
    Input,
    Shapes,
    bound_shape,
    check_names,
    check_shapes,
    expect_bound,
    placeholder,
)
from aneforge.ops.constant import Dense
from aneforge.ops.types import Array, TensorType, is_float, is_integer, numpy_dtype, value_range

if TYPE_CHECKING:
    import onnx

    from aneforge.formats.onnx.onnx_values import Held

__all__ = ["Shapes", "Values", "bind_inputs"]

Values = Mapping[str, object]
"""Arrays for inputs that are fixed when the model is read."""
OTHER_TYPES = {
    "sequence_type": ("a sequence", Reason.SEQUENCE),
    "optional_type": ("an optional", Reason.OPTIONAL),
    "map_type": ("a map", Reason.MAP),
    "sparse_tensor_type": ("a sparse tensor", Reason.FORM),
    "opaque_type": ("of an opaque type", Reason.FORM),
}


def bind_inputs(
    graph: onnx.GraphProto, shapes: Shapes | None, values: Values | None, file: str | None
) -> dict[str, Held]:
    """Return what every input stands for; one that has an initialiser is not among them.

    Raises:
        GraphError: A dimension has no length, all such listed at once, or two; or a shape or value does not fit its
            input.
        GraphTypeError: `shapes` or `values` is not a mapping, or a shape is not a list of integers.
        UnknownNameError: A name in `shapes` or `values` is none of the model's.
    """
    stored = {tensor.name for tensor in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    given = [value for value in graph.input if value.name not in stored]
    described = {value.name: description(value) for value in given}
    inputs = [one for one in described.values() if isinstance(one, Input)]
    lengths = unified_lengths(inputs, check_shapes(shapes, inputs))
    fixed = check_values(values, inputs)
    wanted = [one for one in inputs if one.name not in fixed]
    expect_bound(wanted, lengths, file)
    found: dict[str, Held] = {}
    for name, one in described.items():
        if not isinstance(one, Input):
            found[name] = one
        elif name in fixed:
            found[name] = Dense(get_fixed_value(one, fixed[name], lengths))
        else:
            found[name] = placeholder(one, bound_shape(one, lengths), file)
    return found


def unified_lengths(
    inputs: Sequence[Input], lengths: Mapping[str, int | tuple[int, ...]]
) -> dict[str, int | tuple[int, ...]]:
    """Return lengths and shapes that a user gives, and the lengths that the shapes give to symbolic dimensions.

    Raises:
        GraphError: A dimension is given two lengths.
    """
    found = dict(lengths)
    sources = {name: f"shapes[{name!r}]" for name in lengths}
    for one in inputs:
        whole = lengths.get(one.name)
        if not isinstance(whole, tuple) or len(whole) != len(one.lengths or ()):
            continue  # a shape of another rank is reported when the input is made
        for axis, (name, length) in enumerate(zip(one.lengths or (), whole, strict=True)):
            if not isinstance(name, str) or isinstance(found.get(name), tuple):
                continue  # a list for an axis is reported when the axis is bound; an input may have the name of an axis
            if found.setdefault(name, length) != length:
                raise GraphError(
                    f"shapes= gives the dimension {name!r} two lengths",
                    seen=f"{found[name]} by {sources[name]} and {length} by axis {axis} of shapes[{one.name!r}]",
                    remedy="give one length for each name",
                )
            sources.setdefault(name, f"axis {axis} of shapes[{one.name!r}]")
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
        check_extents(f"input {value.name!r}", (one if isinstance(one, int) else 1 for one in lengths))
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


def check_values(values: object, inputs: Sequence[Input]) -> dict[str, object]:
    """Return the values that a user fixes, their names checked.

    Raises:
        GraphTypeError: It is not a mapping of names.
        UnknownNameError: A name is not an input.
    """
    known = [one.name for one in inputs]
    found = check_names(values, "values")
    for name in found:
        if name not in known:
            raise UnknownNameError.of("input", name, known)
    return found


def get_fixed_value(one: Input, value: object, lengths: Mapping[str, int | tuple[int, ...]]) -> Array:
    """Return the array of an input that is fixed, read-only.

    Raises:
        GraphTypeError: It is not an array of numbers that the input takes.
        GraphError: It has a different shape than the input.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise GraphTypeError(f"values[{one.name!r}] is not an array", seen=type(value).__name__) from None
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
            f"values[{one.name!r}] has a different shape than the input", seen=list(array.shape), limit=list(wanted)
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
