"""Attributes that several groups of operations share."""

from __future__ import annotations

from aneforge.ops.signature import REQUIRED, Attribute, AttributeKind, Required
from aneforge.ops.types import DTYPES

__all__ = [
    "AXES",
    "INDEX_DTYPES",
    "KEEP_DIMS",
    "SHAPE",
    "axis_attribute",
    "dtype_attribute",
    "epsilon_attribute",
    "index_dtype_attribute",
]

SHAPE = Attribute("shape", AttributeKind.INTEGERS, least=0)
AXES = Attribute("axes", AttributeKind.INTEGERS, None)
"""Axes that may be left out; what stands for them then is the operation's own."""
KEEP_DIMS = Attribute("keep_dims", AttributeKind.FLAG, default=False)
INDEX_DTYPES = ("int32", "uint16")


def axis_attribute(default: int | Required | None = REQUIRED) -> Attribute:
    """Return the attribute that names one axis, counted from either end.

    >>> axis_attribute(-1).default
    -1
    """
    return Attribute("axis", AttributeKind.INTEGER, default)


def dtype_attribute(default: str | Required | None = REQUIRED, name: str = "dtype") -> Attribute:
    """Return the attribute that names an element type.

    >>> dtype_attribute("fp16").checked("int8")
    'int8'
    """
    return Attribute(name, AttributeKind.TEXT, default, choices=tuple(DTYPES))


def index_dtype_attribute(name: str) -> Attribute:
    """Return the attribute that names the element type in which places are given.

    >>> index_dtype_attribute("output_dtype").default
    'int32'
    """
    return Attribute(name, AttributeKind.TEXT, "int32", choices=INDEX_DTYPES)


def epsilon_attribute(default: float) -> Attribute:
    """Return the attribute that is added, or bounds something, against a division by 0.

    >>> epsilon_attribute(1e-5).checked(0)
    0.0
    """
    return Attribute("epsilon", AttributeKind.NUMBER, default, least=0, finite=True)
