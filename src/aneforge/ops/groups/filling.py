"""Operations that make a tensor out of a shape and numbers."""

from __future__ import annotations

import math

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import LIKELY_F2, SHAPE, dtype_attribute
from aneforge.ops.definition import meaning_dtype
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support
from aneforge.ops.sampling import NUMBERS, Chooser, Sample, draw_any, draw_shape
from aneforge.ops.shapes import expect_representable
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType, is_float

CATEGORY = Category.STRUCTURAL


def fill_type(*, shape: tuple[int, ...], value: float, dtype: str) -> TensorType:
    """Return the type of a tensor of one value."""
    expect_representable("value", value, dtype)
    return TensorType(shape, dtype)


def fill(*, shape: tuple[int, ...], value: float, dtype: str) -> Array:
    """Return a tensor of one value."""
    return np.full(shape, value, meaning_dtype(dtype))


def sample_fill(chooser: Chooser) -> Sample:
    """Draw a shape, a value and an element type that has it."""
    value, dtype = chooser.choose([(0.0, "fp16"), (-2.5, "fp32"), (7.0, "int32"), (200.0, "uint8"), (1.0, "bool")])
    return Sample({}, {"shape": draw_shape(chooser), "value": value, "dtype": dtype})


def fill_like_type(ref_tensor: TensorType, *, value: float, dtype: str | None) -> TensorType:
    """Return the type of a tensor of one value in another's shape."""
    return fill_type(shape=ref_tensor.shape, value=value, dtype=dtype or ref_tensor.dtype)


def fill_like(ref_tensor: Array, *, value: float, dtype: str | None) -> Array:
    """Return a tensor of one value in another's shape."""
    return np.full(ref_tensor.shape, value, meaning_dtype(dtype) if dtype else ref_tensor.dtype)


def sample_fill_like(chooser: Chooser) -> Sample:
    """Draw a reference, a value and an element type that has it."""
    ref = draw_any(chooser, draw_shape(chooser))
    value, dtype = chooser.choose([(1.0, None), (0.0, None), (-2.5, "fp16"), (7.0, "int32")])
    return Sample({"ref_tensor": ref}, {"value": value, "dtype": dtype})


def range_length(start: float, end: float, step: float) -> int:
    """Return how many numbers are between two, the end not included.

    >>> range_length(0, 7, 3), range_length(0, 7, -1)
    (3, 0)

    Raises:
        GraphError: The range has no end.
    """
    if step == 0 or not all(map(math.isfinite, (start, end, step))):
        raise GraphError(
            "the range never ends",
            seen=f"from {start:g} to {end:g} by {step:g}",
            limit="finite, by a step other than 0",
        )
    return max(0, math.ceil((end - start) / step))


def range_type(*, start: float, end: float, step: float, dtype: str) -> TensorType:
    """Return the type of a range of numbers."""
    length = range_length(start, end, step)
    if not is_float(dtype) and not step.is_integer():
        raise GraphError(f"step is not an integer, as {dtype} needs it", seen=step, remedy="give a floating dtype")
    for name, value in (("start", start), ("the last number", start + max(0, length - 1) * step)):
        expect_representable(name, value, dtype)
    return TensorType((length,), dtype)


def number_range(*, start: float, end: float, step: float, dtype: str) -> Array:
    """Return the numbers from start to end, the end not included."""
    return (start + np.arange(range_length(start, end, step)) * step).astype(meaning_dtype(dtype))


def sample_range(chooser: Chooser) -> Sample:
    """Draw a range up or down, with an end that the steps meet or pass."""
    dtype = chooser.choose(NUMBERS)
    step = chooser.choose([1.0, 2.0, 3.0] if dtype == "int32" else [0.25, 0.5, 1.0, 1.5]) * chooser.choose([1, -1])
    start = float(chooser.integer(-5, 5))
    over = chooser.choose([0.0, 0.5]) if dtype != "int32" else 0.0
    end = start + chooser.integer(1, 6) * step - over * step
    return Sample({}, {"start": start, "end": end, "step": step, "dtype": dtype})


FILL = Op(
    name="fill",
    category=CATEGORY,
    summary="a tensor of one value",
    operands=(),
    attributes=(
        SHAPE,
        Attribute("value", AttributeKind.NUMBER, 0.0),
        dtype_attribute("fp16"),
    ),
    infer=fill_type,
    meaning=fill,
    sample=sample_fill,
    support=LIKELY_F2,
    decompositions=lambda: (decompositions.movement.FILLED,),
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
FILL_LIKE = Op(
    name="fill_like",
    category=CATEGORY,
    summary="a tensor of one value in the shape of another, and in its element type unless `dtype` says another",
    operands=(Operand("ref_tensor"),),
    attributes=(
        Attribute("value", AttributeKind.NUMBER, 0.0),
        dtype_attribute(None),
    ),
    infer=fill_like_type,
    meaning=fill_like,
    sample=sample_fill_like,
    opset="ios16",
    support=LIKELY_F2,
    decompositions=lambda: (decompositions.movement.FILLED,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.STEPS,
)
RANGE_1D = Op(
    name="range_1d",
    category=CATEGORY,
    summary="start, start + step, start + 2·step, … before end",
    operands=(),
    attributes=(
        Attribute("start", AttributeKind.NUMBER),
        Attribute("end", AttributeKind.NUMBER),
        Attribute("step", AttributeKind.NUMBER),
        dtype_attribute("fp16"),
    ),
    infer=range_type,
    meaning=number_range,
    sample=sample_range,
    support=Support(floor=2, basis=Basis.LIKELY, mil_since=3, mil_otherwise=MilStatus.BRIDGE),
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
