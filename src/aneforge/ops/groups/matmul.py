"""Products of matrices, and of tensors by labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import in_type, wide
from aneforge.ops.common import LIKELY_F0
from aneforge.ops.gradient import through
from aneforge.ops.labels import label_extents, labels_of
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.results import Product
from aneforge.ops.sampling import NUMBERS_AND_INT8, Chooser, Fill, Sample, draw_broadcast_pair
from aneforge.ops.shapes import broadcast, common_dtype, expect_least_rank, expect_number, expect_one_each, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, Operand, OperandKind
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from aneforge.ops.forms import Details

CATEGORY = Category.LAYER
MATRIX_PRODUCT = frozenset({Trait.MATRIX_PRODUCT})
PAIR = Product("x", "y")
TRANSPOSES = (
    Attribute("transpose_x", AttributeKind.FLAG, default=False),
    Attribute("transpose_y", AttributeKind.FLAG, default=False),
)
EQUATION = Attribute("equation", AttributeKind.TEXT)


def transposed(shape: tuple[int, ...], *, transpose: bool) -> tuple[int, ...]:
    """Return a shape with its last two axes exchanged where asked; a vector has no such axes."""
    return (*shape[:-2], shape[-1], shape[-2]) if transpose and len(shape) > 1 else shape


def matmul_type(x: TensorType, y: TensorType, *, transpose_x: bool = False, transpose_y: bool = False) -> TensorType:
    """Return the type of a matrix product: a vector is a row on the left, a column on the right."""
    dtype = common_dtype(x, y)
    expect_number(x)
    for name, operand in (("x", x), ("y", y)):
        if operand.rank == 0:
            raise GraphError(f"{name} is a single number, not a vector or a matrix", seen=[], remedy="use mul")
    left = transposed(x.shape, transpose=transpose_x)
    right = transposed(y.shape, transpose=transpose_y)
    inner = right[-2] if y.rank > 1 else right[0]
    if left[-1] != inner:
        place = "second-last" if y.rank > 1 else "only"
        raise GraphError(
            f"the last axis of x and the {place} axis of y differ in length: {list(left)} by {list(right)}",
            seen=f"{left[-1]} and {inner}",
            limit="the same length",
            remedy="transpose_x and transpose_y exchange the last two axes of an operand",
        )
    batch = broadcast(TensorType(left[:-2]), TensorType(right[:-2]))
    rows = left[-2:-1] if x.rank > 1 else ()
    columns = right[-1:] if y.rank > 1 else ()
    return TensorType((*batch, *rows, *columns), dtype)


def product(x: Array, y: Array, *, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Multiply matrices."""
    left = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    right = np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
    return in_type(np.matmul(wide(left), wide(right)), x.dtype)


def matmul_macs(x: TensorType, y: TensorType, *, transpose_x: bool = False, transpose_y: bool = False) -> int:
    """Return the multiply-accumulates of a matrix product."""
    result = matmul_type(x, y, transpose_x=transpose_x, transpose_y=transpose_y)
    return result.size * transposed(x.shape, transpose=transpose_x)[-1]


def batched_type(x: TensorType, y: TensorType) -> TensorType:
    """Return the type of a product of two batches of matrices."""
    for name, operand in (("x", x), ("y", y)):
        expect_least_rank(operand, 2, "matrices", name)
    if x.shape[-1] != y.shape[-2]:
        raise GraphError(
            f"x.shape[-1] and y.shape[-2] differ: {list(x.shape)} by {list(y.shape)}",
            seen=f"{x.shape[-1]} and {y.shape[-2]}",
            limit="the same length",
        )
    return matmul_type(x, y)


def weighted_type(x: TensorType, y: TensorType) -> TensorType:
    """Return the type of a product of a batch of matrices with as many constant ones."""
    expect_rank(x, 3)
    expect_rank(y, 3, what="y")
    if x.shape[0] != y.shape[0]:
        raise GraphError(
            "there must be one weight for every matrix of the batch", seen=f"{y.shape[0]} weights", limit=x.shape[0]
        )
    return batched_type(x, y)


def sample_matmul(chooser: Chooser) -> Sample:
    """Draw a matrix product: vectors, matrices, and batches that broadcast."""
    transpose_x, transpose_y = chooser.choose([True, False]), chooser.choose([True, False])
    first, second = draw_batches(chooser)
    rows, inner, columns = (chooser.integer(1, 5) for _ in range(3))
    x = (inner,) if chooser.choose([False, False, True]) else (*first, rows, inner)
    y = (inner,) if chooser.choose([False, False, True]) else (*second, inner, columns)
    dtype = chooser.choose(NUMBERS_AND_INT8)
    return Sample(
        {
            "x": Fill(TensorType(transposed(x, transpose=transpose_x), dtype)),
            "y": Fill(TensorType(transposed(y, transpose=transpose_y), dtype)),
        },
        {"transpose_x": transpose_x, "transpose_y": transpose_y},
    )


def draw_batches(chooser: Chooser) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw the batch axes of two operands, which broadcast or are absent."""
    first, second = draw_broadcast_pair(chooser, most_rank=2)
    return chooser.choose([(first, second), ((), second), (first, ()), ((), ())])


def sample_bmm(chooser: Chooser) -> Sample:
    """Draw a product of batches of matrices."""
    first, second = draw_batches(chooser)
    rows, inner, columns = (chooser.integer(1, 5) for _ in range(3))
    dtype = chooser.choose(NUMBERS_AND_INT8)
    return Sample(
        {
            "x": Fill(TensorType((*first, rows, inner), dtype)),
            "y": Fill(TensorType((*second, inner, columns), dtype)),
        }
    )


def sample_bmm_w(chooser: Chooser) -> Sample:
    """Draw a product of a batch of matrices with constant ones."""
    batch, rows, inner, columns = (chooser.integer(1, 5) for _ in range(4))
    dtype = chooser.choose(NUMBERS_AND_INT8)
    return Sample(
        {
            "x": Fill(TensorType((batch, rows, inner), dtype)),
            "y": Fill(TensorType((batch, inner, columns), dtype)),
        }
    )


def linear_type(x: TensorType, weight: TensorType, bias: TensorType | None) -> TensorType:
    """Return the type of a linear layer's result."""
    dtype = common_dtype(x, weight, bias)
    expect_number(x)
    expect_rank(weight, 2, what="weight")
    outer, inner = weight.shape
    if x.rank == 0 or x.shape[-1] != inner:
        raise GraphError(
            f"the last axis of x of shape {list(x.shape)} does not fit the weight",
            seen=x.shape[-1] if x.rank else "a single number",
            limit=inner,
            remedy="weight is [D_out, D_in]; D_in is the length of the last axis of x",
        )
    expect_one_each(bias, outer, "row of the weight", "bias")
    return TensorType((*x.shape[:-1], outer), dtype)


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """Multiply the last axis by the rows of the weight, and add the bias."""
    result = np.matmul(wide(x), wide(weight).T)
    return (result if bias is None else result + wide(bias)).astype(x.dtype, copy=False)


def linear_macs(x: TensorType, weight: TensorType, _bias: TensorType | None) -> int:
    """Return the multiply-accumulates of a linear layer."""
    return x.size * weight.shape[0]


def sample_linear(chooser: Chooser) -> Sample:
    """Draw a linear layer."""
    outer, inner = chooser.integer(1, 5), chooser.integer(1, 5)
    others = tuple(chooser.integer(1, 4) for _ in range(chooser.integer(0, 3)))
    dtype = chooser.choose(NUMBERS_AND_INT8)
    return Sample(
        {
            "x": Fill(TensorType((*others, inner), dtype)),
            "weight": Fill(TensorType((outer, inner), dtype)),
            "bias": chooser.choose([None, Fill(TensorType((outer,), dtype))]),
        }
    )


def einsum_type(values: tuple[TensorType, ...], *, equation: str) -> TensorType:
    """Return the type of a sum of products by labels."""
    extents = label_extents(values, equation)
    dtype = common_dtype(*values)
    expect_number(values[0], "operand 0")
    return TensorType(tuple(extents[label] for label in labels_of(equation)[2]), dtype)


def einsum(values: tuple[Array, ...], *, equation: str) -> Array:
    """Add the products over every label that the result does not have."""
    return np.asarray(np.einsum(equation, *map(wide, values), optimize=True), values[0].dtype)


def einsum_macs(values: tuple[TensorType, ...], *, equation: str) -> int:
    """Return the multiply-accumulates: one for every combination of places along all labels."""
    return math.prod(label_extents(values, equation).values())


EQUATIONS = (
    "ij,jk->ik",
    "bij , bkj -> bki",
    "bhqd,bhkd->bhqk",
    "nchw,nwhu->nchu",
    "i,j->ij",
    "ij,ij->",
    "ii,ij->j",
    "aAb,bc->Ac",
    "ij,kl->jl",
    "ijk,->kji",
)
"""What is drawn: products of matrices with and without a batch, an outer product, a trace, axes of one operand."""


def sample_einsum(chooser: Chooser) -> Sample:
    """Draw a sum of products by labels."""
    equation = chooser.choose(EQUATIONS)
    *operands, result = labels_of(equation)
    extents = {label: chooser.integer(1, 4) for label in sorted(set("".join(operands)))}
    shared = sorted(set(operands[0]) & set(operands[1]) & set(result))
    shortened = chooser.choose(["", *shared])  # a label of all three may be 1 long in an operand
    side = chooser.choose([0, 1])
    dtype = chooser.choose(NUMBERS_AND_INT8)
    fills = (
        Fill(TensorType(tuple(1 if (label, place) == (shortened, side) else extents[label] for label in labels), dtype))
        for place, labels in enumerate(operands)
    )
    return Sample({"values": tuple(fills)}, {"equation": equation})


def general_product(name: str, **details: Unpack[Details]) -> Op:
    """Return a matrix product with MIL's operands and attributes."""
    details["traits"] = MATRIX_PRODUCT
    details["product"] = PAIR
    details["gradient"] = lambda: gradients.multiplying.MATMUL
    return Op(
        name=name,
        category=CATEGORY,
        summary="Σ x[…, m, k] · y[…, k, n]",
        operands=(Operand("x"), Operand("y")),
        attributes=TRANSPOSES,
        infer=matmul_type,
        meaning=product,
        macs=matmul_macs,
        sample=sample_matmul,
        **details,
    )


MATMUL = general_product(
    "matmul", surface=Surface.FUSED, decompositions=lambda: (decompositions.products.MATRICES_OF_VECTORS,), in_mil=True
)
NE_MATMUL = general_product("ne_matmul", support=LIKELY_F0, in_mil=True)
BMM = Op(
    name="bmm",
    category=CATEGORY,
    summary="Σ x[…, m, k] · y[…, k, n] of two tensors",
    operands=(Operand("x", OperandKind.TENSOR), Operand("y", OperandKind.TENSOR)),
    infer=batched_type,
    meaning=product,
    macs=matmul_macs,
    sample=sample_bmm,
    traits=MATRIX_PRODUCT,
    product=PAIR,
    surface=Surface.FUSED,
    mil="matmul",
    catalogued=False,
    in_mil=True,
    gradient=lambda: gradients.multiplying.MATMUL,
)
BMM_W = Op(
    name="bmm_w",
    category=CATEGORY,
    summary="Σ x[b, m, k] · y[b, k, n] with a constant y",
    operands=(Operand("x"), Operand("y", OperandKind.CONSTANT)),
    infer=weighted_type,
    meaning=product,
    macs=matmul_macs,
    sample=sample_bmm_w,
    traits=MATRIX_PRODUCT,
    product=PAIR,
    surface=Surface.FUSED,
    mil="matmul",
    catalogued=False,
    in_mil=True,
    gradient=lambda: gradients.multiplying.MATMUL,
)
LINEAR = Op(
    name="linear",
    category=CATEGORY,
    summary="Σ x[…, k] · weight[n, k] + bias[n]",
    operands=(
        Operand("x"),
        Operand("weight", OperandKind.CONSTANT),
        Operand("bias", OperandKind.CONSTANT, optional=True),
    ),
    infer=linear_type,
    meaning=linear,
    macs=linear_macs,
    sample=sample_linear,
    product=Product("x", "weight"),
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.products.LINEAR_BY_MATMUL, decompositions.products.LINEAR_OF_ROWS),
    in_mil=True,
    gradient=lambda: gradients.multiplying.LINEAR,
)
EINSUM = Op(
    name="einsum",
    category=CATEGORY,
    summary="the sum of products over the labels that the result does not have; a label of all three broadcasts from 1",
    operands=(Operand("values", variadic=True),),
    attributes=(EQUATION,),
    infer=einsum_type,
    meaning=einsum,
    macs=einsum_macs,
    sample=sample_einsum,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.products.LABELS_BY_MATMUL,),
    in_mil=True,
    gradient=lambda: through("matmul", "through transposes and a matrix product"),
)
