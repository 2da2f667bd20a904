"""Attributes of operations as MIL text has them: typed literals.

MIL types every number. Where its operations ask for the type of another parameter (epsilon for that of gamma, a padding
value for that of x), the literal has it. A number that half precision cannot hold keeps its digits: the compiler that
reads `fp16(1e-5)` rounds it itself, and a reader of this package gets back what was meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import NotSupportedError
from aneforge.formats.mil.calls import FLATTENED, TUPLED
from aneforge.formats.mil.elements import TEXT
from aneforge.formats.mil.forms import TYPED_BY
from aneforge.formats.mil.literals import array_text, quote_text, scalar_text
from aneforge.formats.mil.syntax import Literal, Tuple, ValueType
from aneforge.ops.constant import Constant
from aneforge.ops.signature import Attribute, AttributeKind
from aneforge.ops.types import is_float, numpy_dtype, value_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.graph.node import Node
    from aneforge.ops.signature import AttributeValue

__all__ = ["attribute_literals", "scalar"]

OMITTED = {("sdpa", "scale"), ("sdpa", "is_causal"), ("sdpa", "native"), *((op, "dtype") for op in TYPED_BY)}
"""Attributes that MIL does not have: they are rebuilt, or given by the type of a literal."""
UNSIGNED = {("pixel_unshuffle", "downscale_factor"), ("resize", "resized_dims")}
"""Integers that MIL takes without a sign."""
SINGLE = {
    ("crop_resize", "spatial_scale"),
    *(("upsample_bilinear", f"scale_factor_{side}") for side in ("height", "width")),
}
"""Numbers that MIL takes in single precision, whatever the tensors are."""
COUNTED = {("upsample_nearest_neighbor", f"scale_factor_{side}") for side in ("height", "width")}
"""Numbers that are written as integers where all of them can be."""


def attribute_literals(node: Node, *, rounded: bool) -> Iterator[tuple[str, Literal | Tuple]]:
    """Yield the attributes of a node that MIL has, in the order of the op table; those left out are not there."""
    op = node.op.name
    for attribute in node.op.attributes:
        value = node.attributes[attribute.name]
        if value is None or (op, attribute.name) in OMITTED:
            continue
        yield attribute.name, literal_of(node, attribute, value, rounded=rounded)


def literal_of(node: Node, attribute: Attribute, value: AttributeValue, *, rounded: bool) -> Literal | Tuple:
    """Return the value of an attribute."""
    key = node.op.name, attribute.name
    match value:
        case bool():
            return scalar(value, "bool")
        case str():
            return scalar(value, TEXT)
        case int():
            return scalar(value, "uint32" if key in UNSIGNED else whole_dtype(value))
        case float():
            return scalar(value, number_dtype(node, attribute.name, value), rounded=rounded)
        case _:
            return list_literal(key, attribute.kind, cast("tuple[int, ...]", value))


def list_literal(key: tuple[str, str], kind: AttributeKind, items: tuple[int, ...]) -> Literal | Tuple:
    """Return a list: of integers or booleans in one tensor, or of several scalars."""
    if kind is AttributeKind.TEXTS:
        texts = ", ".join(quote_text(str(item)) for item in items)
        return Literal(ValueType(TEXT, (len(items),)), f"[{texts}]")
    dtype = {AttributeKind.FLAGS: "bool", AttributeKind.NUMBERS: "fp32"}.get(kind) or whole_dtype(*items)
    if key in TUPLED:
        return Tuple(tuple(scalar(item, dtype) for item in items))
    shape = (len(items) // 2, 2) if key in FLATTENED else (len(items),)
    values = np.array(items, numpy_dtype(dtype)).reshape(shape)
    return Literal(ValueType(dtype, shape), array_text(values, dtype))


def scalar(value: bool | float | str, dtype: str, *, rounded: bool = False) -> Literal:  # noqa: FBT001 - a literal's value
    """Return a literal of one value; if `rounded`, a number is the one that its element type holds."""
    if rounded and is_float(dtype):
        with np.errstate(over="ignore"):
            value = float(np.float64(value).astype(numpy_dtype(dtype)))
    return Literal(ValueType(dtype), scalar_text(value, dtype))


def number_dtype(node: Node, name: str, value: float) -> str:
    """Return the element type in which MIL takes a number."""
    key = node.op.name, name
    if key in SINGLE:
        return "fp32"
    if key in COUNTED:
        factors = [node.number(name) for op, name in COUNTED if op == node.op.name]
        return "int32" if all(holds("int32", one) for one in factors) else "fp32"
    if node.op.name in TYPED_BY:
        return node.optional_text("dtype") or first_dtype(node)
    parameters = [node.operands.get(parameter) for parameter in ("gamma", "beta")] if name == "epsilon" else []
    dtype = next((one.type.dtype for one in parameters if isinstance(one, Constant)), first_dtype(node))
    return dtype if holds(dtype, value) else "fp32"


def first_dtype(node: Node) -> str:
    """Return the element type of the first operand."""
    return next((value.type.dtype for _, value in node.values()), "fp32")


def holds(dtype: str, value: float) -> bool:
    """Return whether a literal of an element type can state a number.

    >>> holds("fp16", 0.1), holds("int32", 0.5), holds("bool", 1.0)
    (True, False, True)
    """
    if is_float(dtype):
        return True
    least, most = value_range(dtype)
    return least <= value <= most and float(value).is_integer()


def whole_dtype(*values: int) -> str:
    """Return the element type of integers: MIL's own, unless one is too large for it.

    Raises:
        NotSupportedError: One is too large for any.
    """
    for dtype in ("int32", "int64"):
        if all(holds(dtype, value) for value in values):
            return dtype
    raise NotSupportedError("an integer is too large for MIL text", limit="64 bits")
