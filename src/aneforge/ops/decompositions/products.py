"""Convolutions, matrix products, products by labels and attention, in simpler ones."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Unpack

from aneforge.arrays import np
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition
from aneforge.ops.decompositions.norms import along
from aneforge.ops.labels import labels_of
from aneforge.ops.windows import TransposeAttributes, slides, window_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array
    from aneforge.ops.windows import Slide

__all__ = [
    "ATTENTION_ALIKE",
    "ATTENTION_BY_PRODUCTS",
    "BIAS_ADDED",
    "CONVOLUTION_OF_ZEROS",
    "LABELS_BY_MATMUL",
    "LINEAR_BY_MATMUL",
    "LINEAR_OF_ROWS",
    "MATRICES_OF_VECTORS",
    "PLAIN_CONVOLUTION",
    "count_tiles",
]


def add_bias(to: Site, result: Term, bias: Term | None) -> Term:
    """Return a result with one number added for every channel."""
    return result if bias is None else result + along(to, bias, (1,), result, "bias")


def bias_added(to: Site, x: Term, weight: Term, bias: Term | None, **attributes: object) -> Term:
    """Return the convolution without its bias, which is added to the result."""
    return add_bias(to, to.same(x, weight, **attributes), bias)


def plain_convolution(_: Site, x: Term, weight: Term, bias: Term | None, **attributes: object) -> Term:
    """Return the plain convolution that the engine's own form of one is."""
    return x.conv(weight, bias, **attributes)


def linear(_: Site, x: Term, weight: Term, bias: Term | None) -> Term:
    """Return a product with the transposed weight, plus the bias."""
    result = x.matmul(weight, transpose_y=True)
    return result if bias is None else result + bias


def linear_of_rows(to: Site, x: Term, weight: Term, bias: Term | None) -> Term:
    """Return the layer of all rows in one matrix, in the shape of the result."""
    rows = x.reshape(shape=(math.prod(x.shape[:-1]), x.shape[-1]))
    return to.same(rows, weight, bias).reshape(shape=to.results[0].shape)


def matrices_of_vectors(to: Site, x: Term, y: Term, *, transpose_x: bool, transpose_y: bool) -> Term:
    """Return the product with vectors as matrices: a row on the left, a column on the right."""
    if len(x.shape) == 1:
        x, transpose_x = x.expand_dims(axes=(0,)), False
    if len(y.shape) == 1:
        y, transpose_y = y.expand_dims(axes=(1,)), False
    return x.matmul(y, transpose_x=transpose_x, transpose_y=transpose_y).reshape(shape=to.results[0].shape)


# Products by labels


def labels_by_matmul(to: Site, values: Sequence[Term], *, equation: str) -> Term:
    """Return a matrix product between transposes.

    Labels of both operands and the result are a batch; those of both operands only are contracted; those of one
    operand only are summed before the product if the result does not have them.
    """
    first, second, result = labels_of(equation)
    lhs, first = without_diagonals(to, values[0], first)
    rhs, second = without_diagonals(to, values[1], second)
    batch = [label for label in result if label in first and label in second]
    contracted = [label for label in first if label in second and label not in result]
    rows = [label for label in result if label in first and label not in second]
    columns = [label for label in result if label in second and label not in first]
    left, left_extents = as_matrices(lhs, first, (batch, rows, contracted))
    right, right_extents = as_matrices(rhs, second, (batch, contracted, columns))
    extents = {**right_extents, **left_extents}
    extents.update({label: max(left_extents[label], right_extents[label]) for label in batch})
    order = [*batch, *rows, *columns]
    spread = reshaped(left.matmul(right), tuple(extents[label] for label in order))
    return transposed(spread, tuple(order.index(label) for label in result))


def without_diagonals(to: Site, x: Term, labels: str) -> tuple[Term, str]:
    """Return an operand in which no label is there twice: a diagonal is what a mask leaves, summed along one axis."""
    while len(set(labels)) < len(labels):
        last = max(place for place, label in enumerate(labels) if labels.index(label) < place)
        first = labels.index(labels[last])
        shape = tuple(extent if place in (first, last) else 1 for place, extent in enumerate(x.shape))
        mask = to.constant(np.eye(x.shape[last]).reshape(shape), x.dtype)
        x = (x * mask).reduce_sum(axes=(last,), keep_dims=False)
        labels = labels[:last] + labels[last + 1 :]
    return x, labels


def as_matrices(x: Term, labels: str, groups: Sequence[Sequence[str]]) -> tuple[Term, dict[str, int]]:
    """Return an operand as batches of matrices, with the length of each of its labels."""
    kept = [label for group in groups for label in group]
    extents = dict(zip(labels, x.shape, strict=True))
    alone = tuple(place for place, label in enumerate(labels) if label not in kept)
    if alone:
        x = x.reduce_sum(axes=alone, keep_dims=False)
    left = [label for label in labels if label in kept]
    x = transposed(x, tuple(left.index(label) for label in kept))
    batch, *matrix = groups
    shape = (
        *(extents[label] for label in batch),
        *(math.prod(extents[label] for label in group) for group in matrix),
    )
    return reshaped(x, shape), {label: extents[label] for label in kept}


def transposed(x: Term, perm: tuple[int, ...]) -> Term:
    """Return a tensor with its axes in another order, or itself if that is the order it has."""
    return x if perm == tuple(range(len(perm))) else x.transpose(perm=perm)


def reshaped(x: Term, shape: tuple[int, ...]) -> Term:
    """Return a tensor in another shape, or itself if it has that."""
    return x if x.shape == shape else x.reshape(shape=shape)


# Transposed convolutions


def convolution_of_zeros(
    to: Site, x: Term, weight: Term, bias: Term | None, **attributes: Unpack[TransposeAttributes]
) -> Term:
    """Return a convolution, with the kernel reversed, of a tensor with zeros between its elements.

    Raises:
        NotSupportedError: The kernel is computed at run time, or has gaps.
    """
    if weight.known is None and not weight.is_declared:
        raise to.refusal("the kernel must be a constant", remedy="give a constant kernel, or use matmul and concat")
    result = to.results[0].shape[2:]
    along_axes = slides(result, weight.shape[2:], window_attributes(attributes))
    groups = attributes["groups"]
    if any(slide.dilation != 1 for slide in along_axes):
        raise to.refusal("the kernel must have no gaps", remedy="use a larger kernel with zeros in the gaps")
    pads = [transposed_padding(slide, extent) for slide, extent in zip(along_axes, x.shape[2:], strict=True)]
    spread = with_zeros(to, x, [slide.stride for slide in along_axes])
    for axis, (front, back) in enumerate(pads, 2):
        extent = spread.shape[axis]
        kept = range(max(-front, 0), extent - max(-back, 0))
        if len(kept) < extent:
            spread = spread.input_view(axis=axis, offset=kept.start, size=len(kept))
    if weight.known is None:
        inner, outer, *window = weight.shape
        kernel = to.derived(weight, "reversed", (outer * groups, inner // groups, *window), weight.dtype)
    else:
        kernel = to.constant(reversed_kernel(weight.known, groups), weight.dtype)
    sides = tuple(max(side, 0) for pair in pads for side in pair)
    return add_bias(to, spread.conv(kernel, pad_type="custom", pad=sides, groups=groups), bias)


def transposed_padding(slide: Slide, extent: int) -> tuple[int, int]:
    """Return the padding around a tensor with stride − 1 zeros after every element that gives the result's length.

    The kernel ends at an element, and the result is extent · stride + padding − kernel + 1 long.
    """
    front = slide.window - 1 - slide.before
    return front, slide.extent - 1 + slide.window - extent * slide.stride - front


def with_zeros(to: Site, x: Term, steps: Sequence[int]) -> Term:
    """Return x with step − 1 zeros after every element along every spatial axis: a kernel of one 1."""
    if set(steps) == {1}:
        return x
    batch, channels, *extents = x.shape
    ones = to.constant(np.ones((channels, 1, *(1 for _ in steps))), x.dtype)
    longer = (batch, channels, *(extent * step for extent, step in zip(extents, steps, strict=True)))
    return x.conv_transpose(ones, strides=tuple(steps), groups=channels, output_shape=longer)


def reversed_kernel(values: Array, groups: int) -> Array:
    """Return the kernel of a transposed convolution as that of the convolution which it is."""
    inner, outer, *kernel = values.shape
    apart = values.reshape(groups, inner // groups, outer, *kernel).swapaxes(1, 2)
    joined = apart.reshape(groups * outer, inner // groups, *kernel)
    return np.flip(joined, axis=tuple(range(2, joined.ndim)))


# Attention


HIDDEN = -1e4
"""What is added to a score that a mask hides (aneforge docs, language models): its exponential is 0, and it is far from
the infinities of fp16, which turn whole rows into garbage."""
TILES_MOST = 4096
"""More tiles of queries are not built: every one is several operations, and no engine takes so long an axis."""


def count_tiles(queries: int) -> int:
    """Return into how many tiles queries are cut: the documented rule of thumb.

    >>> count_tiles(128), count_tiles(1024)
    (1, 2)
    """
    return max(1, (queries + 256) // 512)


def attention_by_products(  # noqa: PLR0913 - the operands and attributes of the operation
    to: Site,
    query: Term,
    key: Term,
    value: Term,
    attn_mask: Term | None,
    *,
    scale: float | None,
    is_causal: bool,
    tiles: int | None = None,
    **_: object,
) -> Term:
    """Return attention of tiles of queries, joined: a product, the mask, a softmax, and a product.

    Raises:
        NotSupportedError: There are too many tiles.
    """
    queries = query.shape[-2]
    count = count_tiles(queries) if tiles is None else tiles
    if count > TILES_MOST:
        raise to.refusal(
            "the sequence is too long to be built from tiles",
            seen=queries,
            limit=f"less than {512 * TILES_MOST + 256} queries",
            remedy="attend over parts of the sequence",
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask = added_mask(to, attn_mask, query, is_causal=is_causal)
    keys = transposed(key, (*range(len(key.shape) - 2), len(key.shape) - 1, len(key.shape) - 2))
    edges = [queries * number // count for number in range(count + 1)]
    parts: list[Term] = []
    for first, end in pairwise(edges):
        scores = rows_of(to, query, first, end).matmul(keys) * factor
        if mask is not None:
            scores = scores + rows_of(to, mask, first, end)
        parts.append(scores.softmax(axis=-1).matmul(value))
    return parts[0] if count == 1 else to.op("concat", tuple(parts), axis=len(to.results[0].shape) - 2)


def added_mask(to: Site, mask: Term | None, query: Term, *, is_causal: bool) -> Term | None:
    """Return what is added to the scores; booleans keep where they are true."""
    if is_causal:
        seen = np.tri(query.shape[-2], dtype=np.bool_)
        return to.constant(np.where(seen, 0.0, HIDDEN), query.dtype)
    if mask is None or mask.dtype != "bool":
        return mask
    if mask.known is not None:
        return to.constant(np.where(mask.known, 0.0, HIDDEN), query.dtype)
    return mask.select(to.constant(np.zeros(()), query.dtype), to.constant(np.array(HIDDEN), query.dtype))


def rows_of(to: Site, x: Term, first: int, end: int) -> Term:
    """Return the rows that belong to a tile of queries: all that there are, if one stands for all."""
    if len(x.shape) < 2 or x.shape[-2] in (1, end - first):
        return x
    if x.known is not None:
        return to.constant(x.known[..., first:end, :], x.dtype)
    if x.is_declared:
        return to.derived(x, f"rows {first}", (*x.shape[:-2], end - first, x.shape[-1]), x.dtype)
    begin = [0] * len(x.shape)
    begin[-2] = first
    return x.slice_by_size(begin=tuple(begin), size=(*x.shape[:-2], end - first, x.shape[-1]))


def attention_alike(
    to: Site, query: Term, key: Term, value: Term, attn_mask: Term | None, **attributes: object
) -> Term:
    """Return attention with the same axes before the last two in queries, keys and values, one of them at least."""
    batch = to.results[0].shape[:-2] or (1,)
    spread = [repeated(part, batch) for part in (query, key, value)]
    return reshaped(to.same(*spread, attn_mask, **attributes), to.results[0].shape)


def repeated(x: Term, batch: tuple[int, ...]) -> Term:
    """Return matrices with given axes before them, repeated along those in which there is only one."""
    own = (*(1,) * (len(batch) - len(x.shape) + 2), *x.shape)
    raised = reshaped(x, own)
    reps = (*(count // extent for count, extent in zip(batch, own[:-2], strict=True)), 1, 1)
    return raised if set(reps) == {1} else raised.tile(reps=reps)


BIAS_ADDED = Decomposition(
    "bias added", "a convolution, then its bias", bias_added, SAME_MATHEMATICS, same_operation=True
)
PLAIN_CONVOLUTION = Decomposition("plain", "a plain convolution", plain_convolution, SAME_MATHEMATICS, same_bits=True)
LINEAR_BY_MATMUL = Decomposition("matmul", "a product with the weight, then its bias", linear, SAME_MATHEMATICS)
LINEAR_OF_ROWS = Decomposition(
    "rows",
    "the same layer of all rows in one matrix, between reshapes",
    linear_of_rows,
    SAME_MATHEMATICS,
    same_operation=True,
    same_bits=True,
)
MATRICES_OF_VECTORS = Decomposition(
    "matrices",
    "vectors as matrices of one row or column",
    matrices_of_vectors,
    SAME_MATHEMATICS,
    same_bits=True,
    same_operation=True,
)
LABELS_BY_MATMUL = Decomposition("matmul", "a matrix product between transposes", labels_by_matmul, SAME_MATHEMATICS)
CONVOLUTION_OF_ZEROS = Decomposition(
    "zeros", "a convolution of x with zeros between its elements", convolution_of_zeros, SAME_MATHEMATICS
)
ATTENTION_BY_PRODUCTS = Decomposition(
    "products", "products and softmax, over tiles of queries", attention_by_products, SAME_MATHEMATICS
)
ATTENTION_ALIKE = Decomposition(
    "alike",
    "queries, keys and values repeated to the same axes",
    attention_alike,
    SAME_MATHEMATICS,
    same_bits=True,
    same_operation=True,
)
