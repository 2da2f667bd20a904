"""Gradients of matrix products, convolutions and correlations.

A convolution's data get a transposed convolution where the kernel is a constant. A kernel that is computed is rejected
by MIL for several images, so its data get products with the kernel, put back tap by tap; and the kernel itself gets one
product of what its windows saw with what comes back. The index of a tap is before the places, so that nothing that
is cut apart later begins inside of the width (the older families multiply such a slice by 16, which overflows).
"""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import TYPE_CHECKING, Unpack

from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.shifting import cut, place, reshape_to, together, unspread
from aneforge.ops.windows import ConvAttributes, TransposeAttributes, slides, window_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.ops.decomposition import Term
    from aneforge.ops.gradient import GradientSite, Passed
    from aneforge.ops.windows import Slide

__all__ = ["fold", "patch", "taps_of"]


def matrices(
    to: GradientSite, g: Term, x: Term, y: Term, *, transpose_x: bool = False, transpose_y: bool = False
) -> Sequence[Passed]:
    """Return g · yᵀ for x and xᵀ · g for y, summed back over a batch that was broadcast."""
    rows = x.reshape(shape=(1, x.shape[0])) if len(x.shape) == 1 else x
    columns = y.reshape(shape=(y.shape[0], 1)) if len(y.shape) == 1 else y
    tx, ty = transpose_x and rows is x, transpose_y and columns is y
    batch = g.shape[: len(g.shape) - (rows is x) - (columns is y)]
    high, wide = rows.shape[-1 if tx else -2], columns.shape[-2 if ty else -1]
    back = reshape_to(g, (*batch, high, wide))
    first = second = None
    if to.wants("x"):
        product = (
            to.op("matmul", columns, back, transpose_x=ty, transpose_y=True)
            if tx
            else to.op("matmul", back, columns, transpose_y=not ty)
        )
        first = reshape_to(unspread(product, rows.shape), x.shape)
    if to.wants("y"):
        second = reshape_to(second_factor(to, back, rows, columns, (tx, ty)), y.shape)
    return first, second


def second_factor(to: GradientSite, back: Term, x: Term, y: Term, transposes: tuple[bool, bool]) -> Term:
    """Return the gradient of the second matrix, summed back to its shape.

    Of one matrix for a whole batch, matrices of the batch are joined: a product sums more exactly than a reduction.
    """
    tx, ty = transposes
    batch = x.shape[:-2]
    if not tx and math.prod(batch) > 1 == math.prod(y.shape[:-2]) and back.shape[:-2] == batch:
        count, high = math.prod(batch), x.shape[-2]
        joined = together(count, high)
        lead = (count // joined, joined * high)
        x, back = (one.reshape(shape=(*lead, one.shape[-1])) for one in (x, back))
    product = (
        to.op("matmul", back, x, transpose_x=True, transpose_y=tx)
        if ty
        else to.op("matmul", x, back, transpose_x=not tx)
    )
    missing = len(y.shape) - len(product.shape)
    return unspread(product.reshape(shape=(*(1,) * missing, *product.shape)) if missing > 0 else product, y.shape)


def linear(_: GradientSite, g: Term, __: Term, weight: Term, ___: Term | None) -> Sequence[Passed]:
    """Return g · W."""
    return g.matmul(weight), None, None


# Windows


def taps_of(along: Sequence[Slide]) -> Iterator[tuple[int, ...]]:
    """Yield the places of a window's elements, the last axis first to move."""
    return itertools.product(*(range(slide.window) for slide in along))


def padded(x: Term, along: Sequence[Slide], value: float = 0.0) -> Term:
    """Return x with its border, and as long as all places of the window reach."""
    sides = [(slide.before, max(slide.reach - slide.before - slide.extent, 0)) for slide in along]
    flat = tuple(side for pair in sides for side in pair)
    return x.pad(pad=flat, mode="constant", constant_val=value) if any(flat) else x


def patch(whole: Term, along: Sequence[Slide], tap: Sequence[int]) -> Term:
    """Return what the window's element at a tap sees at all places, of a tensor with its border."""
    begin, end, stride = [0, 0], list(whole.shape[:2]), [1, 1]
    for slide, offset in zip(along, tap, strict=True):
        first = offset * slide.dilation
        begin.append(first)
        end.append(first + (slide.places - 1) * slide.stride + 1)
        stride.append(slide.stride if slide.places > 1 else 1)
    size = tuple(last - first for first, last in zip(begin, end, strict=True))
    if set(stride) == {1}:
        return whole if size == whole.shape else whole.slice_by_size(begin=tuple(begin), size=size)
    return whole.slice_by_index(begin=tuple(begin), end=tuple(end), stride=tuple(stride))


def fold(g: Term, axis: int, slide: Slide, offset: int) -> Term:
    """Return what comes back to one element of the window, at its places along an axis of the tensor."""
    room = max(slide.reach, slide.before + slide.extent)
    first = offset * slide.dilation
    part = range(first, first + (slide.places - 1) * slide.stride + 1, slide.stride)
    return cut(place(g, axis, room, part), axis, range(slide.before, slide.before + slide.extent))


def fold_all(g: Term, along: Sequence[Slide], tap: Sequence[int]) -> Term:
    """Return what comes back to one element of the window, at its places along all axes."""
    for axis, (slide, offset) in enumerate(zip(along, tap, strict=True), 2):
        g = fold(g, axis, slide, offset)
    return g


def row_blocks(along: Sequence[Slide]) -> list[range]:
    """Return the first axis of places in blocks, each with no more places than an axis may be long."""
    rows, rest = along[0].places, math.prod(slide.places for slide in along[1:])
    size = together(rows, rest)
    return [range(first, first + size) for first in range(0, rows, size)]


def columns_of(to: GradientSite, whole: Term, along: Sequence[Slide], rows: range) -> Term:
    """Return what windows at some rows of places see of a tensor with its border: [images, channels, taps, places]."""
    images, channels = whole.shape[:2]
    seen = tuple(
        cut(patch(whole, along, tap), 2, rows).reshape(shape=(images, channels, 1, count_of(along, rows)))
        for tap in taps_of(along)
    )
    return seen[0] if len(seen) == 1 else to.op("concat", seen, axis=2)


def count_of(along: Sequence[Slide], rows: range) -> int:
    """Return how many places some rows have."""
    return len(rows) * math.prod(slide.places for slide in along[1:])


def joined_images(x: Term, groups: int, count: int) -> Term:
    """Return images [N, …, places] as [parts, groups, channels, images and places]: as many images as fit into one."""
    images, channels = x.shape[0], math.prod(x.shape[1:]) // count
    joined = together(images, count)
    split = x.reshape(shape=(images // joined, joined, channels, count))
    turned = split.transpose(perm=(0, 2, 1, 3)) if joined > 1 else split
    return turned.reshape(shape=(images // joined, groups, channels // groups, joined * count))


def kernel_gradient(
    to: GradientSite, narrow: Term, wide: Term, weight: Term, along: Sequence[Slide], groups: int
) -> Term:
    """Return the product of what the windows of `wide` see with what belongs to them, for every tap of the kernel."""
    whole = padded(wide, along)
    products: list[Term] = []
    for rows in row_blocks(along):
        count = count_of(along, rows)
        lines = joined_images(cut(narrow, 2, rows), groups, count)
        seen = joined_images(columns_of(to, whole, along, rows), groups, count)
        products.append(unspread(lines.matmul(seen, transpose_y=True), (1, groups, lines.shape[2], seen.shape[2])))
    return reduce(lambda total, part: total + part, products).reshape(shape=weight.shape)


def spread_kernel(to: GradientSite, g: Term, weight: Term, along: Sequence[Slide], groups: int) -> Term:
    """Return a transposed convolution with a kernel that is computed: products, each put back to its tap's places."""
    images, channels = g.shape[:2]
    inner, taps = weight.shape[1], math.prod(weight.shape[2:])
    kernel = weight.reshape(shape=(1, groups, channels // groups, inner * taps))
    blocks: list[Term] = []
    for rows in row_blocks(along):
        count = count_of(along, rows)
        lines = cut(g, 2, rows).reshape(shape=(images, groups, channels // groups, count))
        product = to.op("matmul", kernel, lines, transpose_x=True)
        blocks.append(product.reshape(shape=(images, groups * inner, taps, count)))
    parts: list[Term] = []
    for number, tap in enumerate(taps_of(along)):
        own = [cut(block, 2, range(number, number + 1)) for block in blocks]
        parts.append(fold_all(in_rows(to, own, along), along, tap))
    return reduce(lambda total, part: total + part, parts)


def in_rows(to: GradientSite, blocks: Sequence[Term], along: Sequence[Slide]) -> Term:
    """Return blocks of rows of places as one image."""
    images, channels = blocks[0].shape[:2]
    rest = tuple(slide.places for slide in along[1:])
    size = along[0].places // len(blocks)
    shaped = tuple(block.reshape(shape=(images, channels, size, *rest)) for block in blocks)
    return shaped[0] if len(shaped) == 1 else to.op("concat", shaped, axis=2)


def by_channel(g: Term) -> Term:
    """Return the sums over all axes but the channels."""
    return g.reduce_sum(axes=tuple(axis for axis in range(len(g.shape)) if axis != 1), keep_dims=False)


def convolution(
    to: GradientSite, g: Term, x: Term, weight: Term, bias: Term | None, **attributes: Unpack[ConvAttributes]
) -> Sequence[Passed]:
    """Return the gradients of a convolution's data, kernel and bias."""
    groups = attributes["groups"]
    along = slides(x.shape[2:], weight.shape[2:], window_attributes(attributes))
    data = kernel = None
    if to.wants("x"):
        data = turned_round(to, g, weight, along, x.shape, attributes)
    if to.wants("weight"):
        kernel = kernel_gradient(to, g, x, weight, along, groups)
    return data, kernel, by_channel(g) if bias is not None and to.wants("bias") else None


def turned_round(
    to: GradientSite, g: Term, weight: Term, along: Sequence[Slide], shape: tuple[int, ...], attributes: ConvAttributes
) -> Term:
    """Return the transposed convolution that takes what comes back to the data."""
    if weight.known is None or any(slide.dilation > 1 for slide in along):
        return spread_kernel(to, g, weight, along, attributes["groups"])
    whole = to.op(
        "conv_transpose",
        g,
        weight,
        strides=tuple(slide.stride for slide in along),
        groups=attributes["groups"],
    )
    for axis, slide in enumerate(along, 2):
        whole = window_part(whole, axis, slide)
    return reshape_to(whole, shape)


def window_part(whole: Term, axis: int, slide: Slide) -> Term:
    """Return the part of all that windows reached which is the tensor and not its border; what none reached is 0."""
    missing = slide.before + slide.extent - slide.reach
    if missing > 0:
        sides = tuple(missing if place == axis and side else 0 for place in range(len(whole.shape)) for side in (0, 1))
        whole = whole.pad(pad=sides[4:], mode="constant", constant_val=0.0)
    return cut(whole, axis, range(slide.before, slide.before + slide.extent))


def transposed_convolution(
    to: GradientSite, g: Term, x: Term, weight: Term, bias: Term | None, **attributes: Unpack[TransposeAttributes]
) -> Sequence[Passed]:
    """Return the gradients of a transposed convolution: a convolution with the same kernel, and the kernel's own."""
    groups = attributes["groups"]
    along = slides(g.shape[2:], weight.shape[2:], window_attributes(attributes))
    data = kernel = None
    if to.wants("x"):
        if weight.known is None:
            data = gathered_kernel(to, g, weight, along, groups)
        else:
            data = to.op(
                "conv",
                g,
                weight,
                strides=tuple(slide.stride for slide in along),
                pad_type="custom",
                pad=tuple(side for slide in along for side in (slide.before, slide.after)),
                dilations=tuple(slide.dilation for slide in along),
                groups=groups,
            )
    if to.wants("weight"):
        kernel = kernel_gradient(to, x, g, weight, along, groups)
    return data, kernel, by_channel(g) if bias is not None and to.wants("bias") else None


def gathered_kernel(to: GradientSite, g: Term, weight: Term, along: Sequence[Slide], groups: int) -> Term:
    """Return a convolution with a kernel that is computed: products with what windows see."""
    images, channels, whole = g.shape[0], weight.shape[0], padded(g, along)
    inner = math.prod(weight.shape[1:])
    kernel = weight.reshape(shape=(1, groups, channels // groups, inner))
    blocks: list[Term] = []
    for rows in row_blocks(along):
        seen = columns_of(to, whole, along, rows).reshape(shape=(images, groups, inner, count_of(along, rows)))
        blocks.append(to.op("matmul", kernel, seen).reshape(shape=(images, channels, 1, count_of(along, rows))))
    return in_rows(to, blocks, along)


# Geometry


def correlation(to: GradientSite, g: Term, x: Term, template: Term) -> Sequence[Passed]:
    """Return the template turned round over g for x, and g as a template over x for the template."""
    first = second = None
    if to.wants("x"):
        high, wide = (extent - 1 for extent in template.shape)
        border = g.pad(pad=(high, high, wide, wide), mode="constant", constant_val=0.0)
        first = border.cross_correlation(template.reverse(axes=(0, 1)))
    if to.wants("template"):
        second = x.cross_correlation(g)
    return first, second


def cross_product(to: GradientSite, g: Term, a: Term, b: Term) -> Sequence[Passed]:
    """Return b × g for a and g × a for b."""
    return (
        b.cross_product(g) if to.wants("a") else None,
        g.cross_product(a) if to.wants("b") else None,
    )


def cost_volume(to: GradientSite, g: Term, aux: Term, ref: Term, *, disparity_range: int) -> Sequence[Passed]:
    """Return the signs of the differences times g, summed over disparities for aux, and put back for ref."""
    width, reach = aux.shape[0], ref.shape[0]
    first = second = None
    for disparity in range(disparity_range + 1):
        part = range(disparity, disparity + width)
        back = cut(g, 0, range(disparity, disparity + 1)).reshape(shape=(width,))
        signed = (aux - cut(ref, 0, part)).sign() * back
        moved = -place(signed, 0, reach, part)
        first = signed if first is None else first + signed
        second = moved if second is None else second + moved
    return first if to.wants("aux") else None, second if to.wants("ref") else None


MATMUL = Gradient("g · yᵀ; xᵀ · g", matrices)
LINEAR = Gradient("g · W", linear)
CONVOLUTION = Gradient(
    "a transposed convolution of g; products of g with what windows saw; Σ g by channel", convolution
)
CONV_TRANSPOSE = Gradient(
    "a convolution of g; products of x with what windows of g see; Σ g by channel", transposed_convolution
)
CORRELATION = Gradient("g with the template turned round; g as a template over x", correlation)
CROSS_PRODUCT = Gradient("b × g; g × a", cross_product)
COST_VOLUME = Gradient("sign(aux − ref) · g, summed over disparities; −it, put back to the places of ref", cost_volume)
