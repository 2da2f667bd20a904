"""Where the values of a graph come from: the caller, the program itself, and what the last run left."""

from __future__ import annotations

from aneforge.ops import gradients
from aneforge.ops.common import SHAPE, dtype_attribute
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support
from aneforge.ops.sampling import FLOATS, Chooser, Sample, draw_shape
from aneforge.ops.signature import Attribute, AttributeKind
from aneforge.ops.types import TensorType

CATEGORY = Category.STRUCTURAL
DTYPE = dtype_attribute("fp16")
EVERYWHERE = Support(floor=0, basis=Basis.LIKELY, mil_since=2, mil_otherwise=MilStatus.INTERNAL)


def stated_type(*, shape: tuple[int, ...], dtype: str, **_: object) -> TensorType:
    """Return the type that the attributes state."""
    return TensorType(shape, dtype)


def sample_input(chooser: Chooser) -> Sample:
    """Draw the type and the promise of an input."""
    promise = chooser.choose([None, 0.0, 4094.0])
    dtype = chooser.choose(["fp16", "uint8", "fp32", "int64", "bool"])
    return Sample({}, {"shape": draw_shape(chooser, 0, 6), "dtype": dtype, "name": "x", "max_abs": promise})


def sample_state(chooser: Chooser) -> Sample:
    """Draw the type of a state."""
    return Sample({}, {"shape": draw_shape(chooser, 0, 4), "dtype": chooser.choose(FLOATS), "name": "kept"})


def sample_const(chooser: Chooser) -> Sample:
    """Draw the type of a constant."""
    return Sample({}, {"shape": draw_shape(chooser, 0, 4), "dtype": chooser.choose(["fp16", "int8", "bool"])})


CONST = Op(
    name="const",
    category=CATEGORY,
    summary="a constant",
    operands=(),
    attributes=(SHAPE, DTYPE),
    infer=stated_type,
    meaning=None,
    no_meaning="its value is the constant itself",
    sample=sample_const,
    support=EVERYWHERE,
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
INPUT = Op(
    name="input",
    category=CATEGORY,
    summary="a value that the caller gives; max_abs promises that no magnitude is larger",
    operands=(),
    attributes=(
        SHAPE,
        DTYPE,
        Attribute("name", AttributeKind.TEXT, None),
        Attribute("max_abs", AttributeKind.NUMBER, None, least=0),
    ),
    infer=stated_type,
    meaning=None,
    no_meaning="its value is given by the caller",
    sample=sample_input,
    in_mil=False,
    support=EVERYWHERE,
    catalogued=False,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
STATE = Op(
    name="state",
    category=CATEGORY,
    summary="the value of a state at the start of a run; the graph says what is written to it at the end",
    operands=(),
    attributes=(Attribute("name", AttributeKind.TEXT), SHAPE, DTYPE),
    infer=stated_type,
    meaning=None,
    no_meaning="its value is the one that the last run wrote",
    sample=sample_state,
    mil="read_state",
    opset="ios18",
    support=EVERYWHERE,
    catalogued=False,
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
