"""Products of matrices and vectors, distances, and linear layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.shared.reducing import norm
from aneforge.formats.torch.registry import operator
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


def multiply_matrices(emit: Emitter, x: Value, y: Value) -> Value:
    """Return a product of matrices; one over no elements is 0, and booleans become numbers."""
    if x.type.rank < 2 or y.type.rank < 2:
        raise GraphError("an operand holds no matrices", seen=f"{x.type} and {y.type}")
    shape = (*np.broadcast_shapes(x.type.shape[:-2], y.type.shape[:-2]), x.type.shape[-2], y.type.shape[-1])
    if not x.type.size or not y.type.size:
        return emit.filled(shape, 0, x.type.dtype) if math.prod(shape) else emit.empty(shape, x.type.dtype)
    if x.type.dtype == "bool":
        return emit.cast(emit.matmul(emit.cast(x, "int32"), emit.cast(y, "int32")), "bool")
    return emit.matmul(x, y)


@operator("mm", "bmm")
def product(call: Call) -> Value:
    """Convert a product of matrices."""
    name = "mat2"
    return multiply_matrices(call.emit, call.value("self"), call.value(name))


@operator("matmul")
def general_product(call: Call) -> Value:
    """Convert a product of matrices, vectors or stacks of matrices."""
    x, y, emit = call.value("self"), call.value("other"), call.emit
    left = emit.expand(x, 0) if x.type.rank == 1 else x
    right = emit.expand(y, -1) if y.type.rank == 1 else y
    result = multiply_matrices(emit, left, right)
    shape = list(result.type.shape)
    if y.type.rank == 1:
        shape.pop()
    if x.type.rank == 1:
        shape.pop(-1 if y.type.rank == 1 else -2)
    return emit.reshape(result, shape)


@operator("dot", "vdot")
def inner_product(call: Call) -> Value:
    """Convert the sum of the products of two vectors."""
    x, y, emit = call.value("self"), call.value("tensor" if call.operator == "dot" else "other"), call.emit
    return emit.reshape(multiply_matrices(emit, emit.expand(x, 0), emit.expand(y, -1)), ())


@operator("mv")
def vector_product(call: Call) -> Value:
    """Convert a product of a matrix and a vector."""
    x, y, emit = call.value("self"), call.value("vec"), call.emit
    return emit.reshape(multiply_matrices(emit, x, emit.expand(y, -1)), (x.type.shape[0],))


@operator("linear")
def linear(call: Call) -> Value:
    """Convert a linear layer."""
    x, weight, bias, emit = call.value("input"), call.value("weight"), call.optional("bias"), call.emit
    layer = emit.linear(x, weight, bias)
    if layer is not None:
        return layer
    turned = emit.transpose(weight, (1, 0)) if weight.type.rank == 2 else emit.expand(weight, -1)
    rows = emit.expand(x, 0) if x.type.rank == 1 else x
    result = multiply_matrices(emit, rows, turned)
    shape = (*x.type.shape[:-1], *weight.type.shape[:-1])
    result = emit.reshape(result, shape)
    return result if bias is None else emit.add(result, bias)


@operator("addmm", "baddbmm", "addbmm", "addmv", "addr")
def added_product(call: Call) -> Value:
    """Convert beta · x + alpha · (a product); where beta is 0, x counts for nothing, even if it is NaN."""
    emit, dtype = call.emit, call.dtype()
    names = {
        "addmm": ("mat1", "mat2"),
        "baddbmm": ("batch1", "batch2"),
        "addbmm": ("batch1", "batch2"),
        "addmv": ("mat", "vec"),
        "addr": ("vec1", "vec2"),
    }[call.operator]
    first, second = (call.operand(name, dtype) for name in names)
    if call.operator == "addr":
        result = emit.binary(
            "logical_and" if dtype == "bool" else "mul", emit.expand(first, -1), emit.expand(second, 0)
        )
    elif call.operator == "addmv":
        result = emit.reshape(multiply_matrices(emit, first, emit.expand(second, -1)), first.type.shape[:1])
    else:
        plain = call.operator == "addmm" and call.number("alpha") == call.number("beta") == 1
        if plain and isinstance(second, Constant):
            layer = emit.linear(first, emit.transpose(second, (1, 0)), call.value("self"))
            if layer is not None:
                return layer
        result = multiply_matrices(emit, first, second)
    if call.operator == "addbmm":
        result = emit.reduce("reduce_sum", result, (0,), keep=False)
    return mix(call, result)


def mix(call: Call, product: Value) -> Value:
    """Return beta · x + alpha · a product."""
    emit, dtype = call.emit, call.dtype()
    alpha, beta = call.number("alpha"), call.number("beta")
    if dtype == "bool":
        both = product if alpha else emit.filled(product.type.shape, 0, "bool")
        return both if not beta else emit.binary("logical_or", both, call.value("self"))
    scaled = product if alpha == 1 else emit.binary("mul", product, emit.constant(alpha, dtype))
    if beta == 0:
        return scaled
    x = call.operand("self", dtype)
    x = x if beta == 1 else emit.binary("mul", x, emit.constant(beta, dtype))
    return emit.add(emit.spread(x, scaled.type.shape), scaled)


@operator("_cdist_forward")
def distances(call: Call) -> Value:
    """Convert the distances of all pairs of rows."""
    x, y, emit = call.value("x1"), call.value("x2"), call.emit
    batch = np.broadcast_shapes(x.type.shape[:-2], y.type.shape[:-2])
    shape = (*batch, x.type.shape[-2], y.type.shape[-2])
    if not math.prod(shape) or not x.type.shape[-1]:
        return emit.filled(shape, 0, x.type.dtype) if math.prod(shape) else emit.empty(shape, x.type.dtype)
    difference = emit.binary("sub", emit.expand(x, -2), emit.expand(y, -3))
    return norm(emit, difference, float(call.number("p")), (difference.type.rank - 1,), keep=False)


@operator("_pdist_forward")
def own_distances(call: Call) -> Value:
    """Convert the distances of all pairs of rows of one matrix, each pair once."""
    x, emit = call.value("self"), call.emit
    count = x.type.shape[0]
    emit.room(count, count)
    first, second = np.triu_indices(count, 1)
    if not first.size or not x.type.shape[1]:
        return emit.filled((first.size,), 0, x.type.dtype) if first.size else emit.empty((0,), x.type.dtype)
    difference = emit.binary("sub", emit.take(x, first, 0), emit.take(x, second, 0))
    return norm(emit, difference, float(call.number("p")), (difference.type.rank - 1,), keep=False)


@operator("_trilinear")
def sum_of_three(call: Call) -> Value:
    """Convert sums of products of three tensors that broadcast with further axes, as bilinear layers have them."""
    emit = call.emit
    operands = [emit.expand(call.value(f"i{place}"), *(call.integers(f"expand{place}") or ())) for place in range(1, 4)]
    product = emit.mul(emit.mul(operands[0], operands[1]), operands[2])
    return emit.reduce("reduce_sum", product, call.integers("sumdim") or (), keep=False)
