"""Attributes that several groups of operations share."""

from __future__ import annotations

from aneforge.ops.signature import REQUIRED, Attribute, AttributeKind, Required
from aneforge.ops.types import DTYPES

__all__ = ["AXES", "KEEP_DIMS", "SHAPE", "axis_attribute", "dtype_attribute"]

SHAPE = Attribute("shape", AttributeKind.INTEGERS, least=0)
AXES = Attribute("axes", AttributeKind.INTEGERS, None)
"""Axes that may be left out; what stands for them then is the operation's own."""
KEEP_DIMS = Attribute("keep_dims", AttributeKind.FLAG, default=False)


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
