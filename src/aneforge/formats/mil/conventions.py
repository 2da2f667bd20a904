"""Operations that MIL has in the op table's form and with other conventions, brought to the table's by further nodes.

Source of truth: the operator tests that coremltools ships, whose expected numbers were run on Core ML.

- A recurrent layer in reverse gives its outputs in the order of its steps; the table gives each at its place in time.
- `batch_to_space` and `space_to_batch` count images as TensorFlow does, (i · bw + j) · N + n; the table counts them as
  the engine's layer does, (n · bh + i) · bw + j.
- Opsets before ios17 give `crop_resize` its boxes as [boxes, 1, 4 or 5, 1, 1], the image first where there are five.
- `concat` takes numbers without axes, of which coremltools' converter makes shapes.
- From ios17 on, products and activations with parameters take operands of different element types.
- `resize` to the nearest elements takes others than the table (`formats.mil.resizing`).
- `instance_norm` over three axes, which coremltools writes, is one over two: the table has 3 or 4 axes in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, Location
from aneforge.formats.mil.calls import Call, Parameter
from aneforge.formats.mil.folding import fold_tensor
from aneforge.formats.mil.mil_values import Encoded, Known, get_known_value
from aneforge.formats.mil.resizing import as_read
from aneforge.formats.mil.syntax import ValueType
from aneforge.graph.node import new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import find_op
from aneforge.ops.types import bits, is_float

if TYPE_CHECKING:
    from aneforge.graph.node import Argument, Value

__all__ = ["CONVENTIONS", "Form", "Made", "build_results", "generic"]

Made = Sequence[Tensor | Encoded]
Form = Callable[[Call, Location], Made]
"""A function of a statement that calls an operation, and of its place."""
VOLUME_RANK = 5
"""Axes of a batch of volumes: its images have three."""


def generic(call: Call, place: Location) -> Made:
    """Build the operation as the table has it."""
    call.check_names()
    return build_results(call.entry.name, call.operands(), call.attributes(), place)


def build_results(
    op: str, operands: dict[str, Argument | None], attributes: dict[str, object], place: Location
) -> list[Tensor]:
    """Return the results of a new node."""
    node = new_node(find_op(op), operands, attributes, place)
    return [Tensor(node, index) for index in range(len(node.types))]


def one(op: str, x: Value, place: Location, **attributes: object) -> Tensor:
    """Return the result of an operation of one tensor."""
    return build_results(op, {"x": x}, attributes, place)[0]


def normalise(call: Call, place: Location) -> Made:
    """Build a normalisation; its result is of the element type that is stated, whatever its parameters are of."""
    stated = [port.type.dtype for port in call.statement.results if isinstance(port.type, ValueType)]
    return [
        one("cast", result, place, dtype=dtype) if is_float(dtype) and result.dtype != dtype else result
        for result, dtype in zip(cast("list[Tensor]", generic(call, place)), stated, strict=False)
    ]


def instance_norm(call: Call, place: Location) -> Made:
    """Build a normalisation of images; the last two of three axes become one, for it is over all of them."""
    x = call.given.get("x")
    value = None if x is None or isinstance(x.value, tuple) else call.single(x.value, call.entry.operand("x"), x.at)
    if x is None or value is None or value.type.rank != VOLUME_RANK:
        return normalise(call, place)
    shape = value.type.shape
    flat = one("reshape", value, place, shape=(*shape[:3], shape[3] * shape[4]))
    given = {**call.given, "x": Parameter(flat, x.at, x.name_at)}
    (result,) = cast("list[Tensor]", normalise(Call(call.statement, call.entry, given), place))
    return [one("reshape", result, place, shape=shape)]


def concat(call: Call, place: Location) -> Made:
    """Build a concatenation; numbers without axes, of which converters make shapes, are lists of one."""
    values = call.given.get("values")
    if values is None or not isinstance(values.value, tuple):
        return generic(call, place)
    operand = call.entry.operand("values")
    parts = [call.single(one, operand, values.at) for one in values.value]
    if any(part.type.rank for part in parts):
        return generic(call, place)
    lists = tuple(as_list(part, place) for part in parts)
    given = {**call.given, "values": Parameter(lists, values.at, values.name_at)}
    return generic(Call(call.statement, call.entry, given), place)


def as_list(number: Value, place: Location) -> Tensor | Known:
    """Return a number without axes as a list of one; one that is known stays so."""
    if isinstance(number, Dense):
        return get_known_value(Dense(number.values.reshape(1)))
    return one("reshape", number, place, shape=(1,))


def resize(call: Call, place: Location) -> Made:
    """Build a resize; of nearest elements, those that MIL takes."""
    return [as_read(result) for result in cast("list[Tensor]", generic(call, place))]


def recurrent(call: Call, place: Location) -> Made:
    """Build a recurrent layer; one in reverse runs forward over the sequence reversed, which gives MIL's order."""
    call.check_names()
    operands, attributes = call.operands(), call.attributes()
    if attributes.get("direction") == "reverse" and attributes.get("output_sequence"):
        operands["x"] = one("reverse", cast("Value", operands["x"]), place, axes=(0,))
        attributes["direction"] = "forward"
    return build_results(call.entry.name, operands, attributes, place)


def batch_to_space(call: Call, place: Location) -> Made:
    """Put images together; several are first brought into the order of the table."""
    call.check_names()
    operands, attributes = call.operands(), call.attributes()
    x, blocks = cast("Value", operands["x"]), block_count(attributes)
    if x.type.rank == 4 and x.type.shape[0] > blocks and not x.type.shape[0] % blocks:
        operands["x"] = move_images(x, blocks, x.type.shape[0] // blocks, place)
    return build_results(call.entry.name, operands, attributes, place)


def space_to_batch(call: Call, place: Location) -> Made:
    """Part images; those of several are brought into the order of MIL."""
    pieces = generic(call, place)
    (images,) = cast("list[Tensor]", pieces)
    count = images.shape[0] // block_count(call.attributes())
    return [move_images(images, count, images.shape[0] // count, place)] if count > 1 else pieces


def block_count(attributes: dict[str, object]) -> int:
    """Return how many images one is split into; 1 where the attributes do not say, for the table refuses them."""
    match attributes.get("block_shape"):
        case [int(high), int(wide)] if min(high, wide) > 0:
            return high * wide
        case _:
            return 1


def move_images(x: Value, outer: int, inner: int, place: Location) -> Tensor:
    """Return images that were counted as o · inner + i, counted as i · outer + o."""
    shape = x.type.shape
    pieces = one("reshape", x, place, shape=(outer, inner, *shape[1:]))
    return one("reshape", one("transpose", pieces, place, perm=(1, 0, 2, 3, 4)), place, shape=shape)


def crop_resize(call: Call, place: Location) -> Made:
    """Build crop_resize, of the older form too, which gives [boxes, images, channels, height, width]."""
    roi, x = call.given.get("roi"), call.given.get("x")
    if roi is None or x is None or isinstance(roi.value, tuple) or isinstance(x.value, tuple):
        return generic(call, place)
    regions = call.single(roi.value, call.entry.operand("boxes"), roi.at)
    images = call.single(x.value, call.entry.operand("x"), x.at).type.shape[0]
    shape = regions.type.shape
    if len(shape) != 5 or shape[2] not in (4, 5) or (shape[1], *shape[3:]) != (1, 1, 1):
        raise GraphError("the form of the regions is not known", seen=list(shape), limit="[boxes, 1, 4 or 5, 1, 1]")
    rows = one("reshape", regions, place, shape=(shape[0], 1, shape[2]))
    given = {name: parameter for name, parameter in call.given.items() if name != "roi"}
    if shape[2] == 5:
        index = one("slice_by_index", rows, place, begin=(0, 0, 0), end=(shape[0], 1, 1), squeeze_mask=(0, 1, 1))
        named: Tensor | Known = one("cast", index, place, dtype="int32")
        boxes = one("slice_by_index", rows, place, begin=(0, 0, 1), end=(shape[0], 1, 5))
        images = 1
    else:
        named = get_known_value(Dense.owning(np.tile(np.arange(images, dtype=np.int32), shape[0])))
        boxes = one("tile", rows, place, reps=(1, images, 1))
    given["box_indices"] = Parameter(named, roi.at, roi.name_at)
    flat = one("reshape", boxes, place, shape=(shape[0] * images, 4))
    given["boxes"] = Parameter(flat, roi.at, roi.name_at)
    (cut,) = cast("list[Tensor]", generic(Call(call.statement, call.entry, given), place))
    return [one("reshape", cut, place, shape=(shape[0], images, *cut.shape[1:]))]


def of_one_type(call: Call, place: Location) -> Made:
    """Build an operation of one element type; operands are widened to the widest floating one, the result is cast."""
    call.check_names()
    operands = call.operands()
    values = {
        name: cast("Value", value)
        for name, value in operands.items()
        if value is not None and cast("Value", value).type.dtype != "bool"  # a mask of attention
    }
    dtypes = {value.type.dtype for value in values.values()}
    floats = [dtype for dtype in dtypes if is_float(dtype)]
    if len(dtypes) < 2 or not floats:
        return build_results(call.entry.name, operands, call.attributes(), place)
    widest = max(floats, key=bits)
    for name, value in values.items():
        operands[name] = value if value.type.dtype == widest else widen(value, widest, place)
    (result,) = build_results(call.entry.name, operands, call.attributes(), place)
    stated = [port.type.dtype for port in call.statement.results if isinstance(port.type, ValueType)]
    return [one("cast", result, place, dtype=stated[0])] if stated and stated[0] != widest else [result]


def widen(value: Value, dtype: str, place: Location) -> Value:
    """Return a value in a wider floating-point type; a constant stays one, for weights must be."""
    computed = one("cast", value, place, dtype=dtype)
    return fold_tensor(computed) or computed


CONVENTIONS: dict[str, Form] = {
    "batch_norm": normalise,
    "batch_to_space": batch_to_space,
    "concat": concat,
    "conv": of_one_type,
    "conv_transpose": of_one_type,
    "crop_resize": crop_resize,
    "gru": recurrent,
    "instance_norm": instance_norm,
    "layer_norm": normalise,
    "linear": of_one_type,
    "lstm": recurrent,
    "matmul": of_one_type,
    "prelu": of_one_type,
    "resize": resize,
    "rnn": recurrent,
    "scaled_dot_product_attention": of_one_type,
    "softplus_parametric": of_one_type,
    "space_to_batch": space_to_batch,
}
"""Operations of other conventions, by their names in MIL."""
