"""Attributes and supports that several groups of operations share; an entry whose own is another one states it.

An entry without a support has the default: every family has it, and a source says so. Floors come from the
reconstruction of the op floors; an operation that it does not list is taken to need family 2, as every program in MIL
does.
"""

from __future__ import annotations

from aneforge.ops.op import Basis, Below, MilStatus, Support
from aneforge.ops.signature import REQUIRED, Attribute, AttributeKind, Required
from aneforge.ops.types import DTYPES

__all__ = [
    "AXES",
    "BRIDGE_F0",
    "DECOMPOSED",
    "F2",
    "INDEX_DTYPES",
    "KEEP_DIMS",
    "LIKELY_BRIDGE_F0",
    "LIKELY_BRIDGE_F2",
    "LIKELY_F0",
    "LIKELY_F2",
    "NOWHERE",
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

F2 = Support(floor=2)
LIKELY_F0 = Support(floor=0, basis=Basis.LIKELY)
LIKELY_F2 = Support(floor=2, basis=Basis.LIKELY)
NOWHERE = Support(floor=None, mil_since=None)
DECOMPOSED = Support(floor=None, below=Below.DECOMPOSE, mil_since=None)
"""No family has it, and every family that runs MIL has what it is written in."""

BRIDGE_F0 = Support(floor=0, mil_since=None, mil_otherwise=MilStatus.BRIDGE)
LIKELY_BRIDGE_F0 = Support(floor=0, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.BRIDGE)
LIKELY_BRIDGE_F2 = Support(floor=2, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.BRIDGE)


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
