"""Products of matrices, and of tensors by labels."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.formats.shared.emitter import Emitter

DETERMINANT_MOST = 256
"""Largest matrix whose determinant is unrolled: two products of matrices for each row."""


@operator("MatMul")
def matmul(call: Call) -> Value:
    """Convert a product of matrices."""
    return call.emit.matmul(call.value(0), call.value(1))


@operator("Gemm")
def general_matmul(call: Call) -> Value:
    """Convert alpha · A · B + beta · C, A and B transposed as asked."""
    a, b, c, emit = call.value(0), call.value(1), call.optional(2), call.emit
    if a.type.rank != 2 or b.type.rank != 2:
        raise GraphError("A and B are not matrices", seen=f"{a.type} and {b.type}")
    alpha, beta = call.number("alpha"), call.number("beta")
    left = emit.transpose(a, (1, 0)) if call.flag("transA") else a
    if isinstance(b, Constant) and isinstance(c, Constant) and (alpha, beta) == (1, 1):
        columns = c.type.shape[-1:]
        bias = emit.reshape(c, columns) if c.type.shape in (columns, (1, *columns)) else c
        layer = emit.linear(left, b if call.flag("transB") else emit.transpose(b, (1, 0)), bias)
        if layer is not None:
            return layer
    product = emit.matmul(left, b, transpose_y=call.flag("transB"))
    scaled = product if alpha == 1 else scaled_by(emit, product, alpha)
    if c is None or beta == 0:
        return scaled
    return emit.add(scaled, c if beta == 1 else scaled_by(emit, c, beta))


def scaled_by(emit: Emitter, x: Value, factor: float) -> Value:
    """Return x times a number; integers go through real ones, as ONNX's own functions do it."""
    if is_float(x.type.dtype):
        return emit.mul(x, factor)
    return emit.cast(emit.mul(emit.cast(x, "fp64"), factor), x.type.dtype)


@operator("Einsum")
def einsum(call: Call) -> Value:
    """Convert a sum of products by labels: two operands at a time, a single one together with the number 1."""
    emit, values = call.emit, call.values()
    inputs, result = labels(call.text("equation"), [value.type.rank for value in values])
    if len(values) == 1:
        values, inputs = [values[0], emit.number(1, values[0])], [inputs[0], ""]
    current, own = values[0], inputs[0]
    for place in range(1, len(values)):
        later = "".join(inputs[place + 1 :]) + result
        joined = (
            result
            if place == len(values) - 1
            else "".join(dict.fromkeys(one for one in own + inputs[place] if one in later))
        )
        equation = f"{own},{inputs[place]}->{joined}"
        current, own = emit.apply("einsum", {"values": (current, values[place])}, equation=equation), joined
    return current


def labels(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the result, dots replaced by letters and a missing result made.

    Raises:
        GraphError: The equation is not one of these operands.
    """
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    operands = inputs.split(",")
    if len(operands) != len(ranks):
        raise GraphError(
            "the equation must have one term for each operand", seen=repr(equation)[:100], limit=len(ranks)
        )
    free = [letter for letter in string.ascii_letters if letter not in equation]
    dots = [
        rank - len(one.replace("...", "")) if "..." in one else 0 for one, rank in zip(operands, ranks, strict=True)
    ]
    most = max(dots, default=0)
    if min(dots, default=0) < 0 or most > len(free):
        raise GraphError("the equation does not fit its operands", seen=repr(equation)[:100])
    letters = "".join(free[:most])
    filled = [one.replace("...", letters[most - count :]) for one, count in zip(operands, dots, strict=True)]
    if not arrow:
        once = sorted(letter for letter in set("".join(operands)) - {"."} if "".join(operands).count(letter) == 1)
        result = "..." + "".join(once)
    return filled, result.replace("...", letters)


@operator("Det")
def determinant(call: Call) -> Value:
    """Convert the determinant by the recurrence of Faddeev and LeVerrier: products and traces, no pivot to be 0."""
    x, emit = call.value(0), call.emit
    if x.type.rank < 2 or x.type.shape[-1] != x.type.shape[-2] or not x.type.shape[-1]:
        raise GraphError("its input must hold square matrices", seen=list(x.type.shape))
    count = x.type.shape[-1]
    if count > DETERMINANT_MOST:
        raise GraphError("the matrices are too large to be unrolled", seen=count, limit=DETERMINANT_MOST)
    unit = emit.constant(np.eye(count), x.type.dtype)
    product = x
    coefficient = emit.number(0, x)
    for step in range(1, count + 1):
        if step > 1:
            shifted = emit.add(product, emit.mul(unit, emit.expand(coefficient, -1, -2)))
            product = emit.apply("matmul", {"x": x, "y": shifted})
        trace = emit.reduce("reduce_sum", emit.mul(product, unit), (-2, -1), keep=False)
        coefficient = emit.mul(trace, -1 / step)
    return coefficient if count % 2 == 0 else emit.mul(coefficient, -1.0)
