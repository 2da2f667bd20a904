"""Convolutions of strides that no engine has: blocks of elements become channels, and a stride of 1 is left.

Along an axis of stride s, elements are taken in blocks of s. A kernel of at most s elements sees one block at every
place, so the rest of the block is cut off and the kernel becomes one element of several channels; a longer kernel
becomes one of ⌈length / s⌉ blocks, the last of them filled up with zeros.

    before:  %y = conv(x = %x[1, 3, 28, 28], weight = @w[8, 3, 14, 14], strides = [14, 14])
    after:   %y = conv(x = %blocks[1, 588, 2, 2], weight = @w[8, 588, 1, 1])
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

from aneforge.arrays import np
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition
from aneforge.ops.windows import ConvAttributes, slides, window_attributes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array
    from aneforge.ops.windows import Slide

__all__ = ["BLOCKS"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks along one axis of a convolution."""

    slide: Slide

    @property
    def moves(self) -> bool:
        """True if elements of this axis become channels; one of stride 1 stays as it is."""
        return self.slide.stride > 1

    @property
    def seen(self) -> int:
        """How many elements of a block the kernel sees."""
        return min(self.slide.span, self.slide.stride)

    @property
    def window(self) -> int:
        """How many blocks the kernel sees."""
        return -(-self.slide.span // self.slide.stride)

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return self.slide.places + self.window - 1

    @property
    def length(self) -> int:
        """How many elements all blocks have."""
        return self.count * self.slide.stride

    @property
    def after(self) -> int:
        """How many elements the last block needs after the last one of x; less than 0 if x has more."""
        return self.length - self.slide.before - self.slide.extent

    @property
    def padding(self) -> tuple[int, int]:
        """What the convolution that is left pads."""
        return (0, 0) if self.moves else (self.slide.before, self.slide.after)


def blocks_as_channels(
    to: Site, x: Term, weight: Term, bias: Term | None, **attributes: Unpack[ConvAttributes]
) -> Term:
    """Return a convolution of stride 1 over blocks."""
    along = [Blocks(slide) for slide in slides(x.shape[2:], weight.shape[2:], window_attributes(attributes))]
    if weight.known is None:
        kernel = in_channels(lengthened(weight, along), along, [one.window for one in along])
    else:
        if weight.encoding is not None:
            to.note(f"the kernel was stored as {weight.encoding}, and is stored as {weight.dtype} here")
        kernel = to.constant(rearranged(weight.known, along), weight.dtype)
    return to.same(
        in_channels(filled(x, along), along, [one.count for one in along]),
        kernel,
        bias,
        pad_type="custom",
        pad=tuple(side for one in along for side in one.padding),
        dilations=tuple(1 if one.moves else one.slide.dilation for one in along),
        groups=attributes["groups"],
    )


def filled(x: Term, along: Sequence[Blocks]) -> Term:
    """Return x with its padding, and as long as its blocks are."""
    sides = tuple(max(side, 0) if one.moves else 0 for one in along for side in (one.slide.before, one.after))
    padded = x.pad(pad=sides, mode="constant", constant_val=0.0) if any(sides) else x
    lengths = [one.length if one.moves else one.slide.extent for one in along]
    return first_elements(padded, (*x.shape[:2], *lengths))


def first_elements(x: Term, size: tuple[int, ...]) -> Term:
    """Return the first elements of every axis."""
    return x if x.shape == size else x.slice_by_size(begin=(0,) * len(size), size=size)


def in_channels(x: Term, along: Sequence[Blocks], counts: Sequence[int]) -> Term:
    """Return x with the elements of every block as channels, one axis after the other.

    No step has more than four axes: what is before the axis, its blocks and what is after it are merged.
    """
    result = x
    for axis, (one, count) in enumerate(zip(along, counts, strict=True), 2):
        if not one.moves or result.shape[axis] == count:
            continue
        batch, channels, *extents = result.shape
        before, after = extents[: axis - 2], extents[axis - 1 :]
        images, blocks, rest = batch * channels, math.prod((*before, count)), math.prod(after)
        apart = result.reshape(shape=(images, blocks, result.shape[axis] // count, rest))
        kept = first_elements(apart, (images, blocks, one.seen, rest))
        moved = kept if one.seen == 1 else kept.transpose(perm=(0, 2, 1, 3))
        result = moved.reshape(shape=(batch, channels * one.seen, *before, count, *after))
    return result


def lengthened(kernel: Term, along: Sequence[Blocks]) -> Term:
    """Return a kernel that is not a constant with zeros in its gaps, and as long as its blocks are."""
    result = kernel
    for axis, one in enumerate(along, 2):
        if not one.moves:
            continue
        before, after = result.shape[:axis], result.shape[axis + 1 :]
        if one.slide.dilation > 1:
            apart = result.reshape(shape=(math.prod(before), one.slide.window, 1, math.prod(after)))
            spread = apart.pad(pad=(0, one.slide.dilation - 1, 0, 0), mode="constant", constant_val=0.0)
            longer = spread.reshape(shape=(*before, one.slide.window * one.slide.dilation, *after))
            result = first_elements(longer, (*before, one.slide.span, *after))
        missing = one.window * one.seen - one.slide.span
        if missing:
            sides = (0, missing, *(0,) * (2 * len(after)))
            result = result.pad(pad=sides, mode="constant", constant_val=0.0)
    return result


def rearranged(kernel: Array, along: Sequence[Blocks]) -> Array:
    """Return a constant kernel over blocks: its input channels are those that `in_channels` makes."""
    result = kernel
    for axis, one in enumerate(along, 2):
        if not one.moves:
            continue
        outer, inner, *lengths = result.shape
        before, after = lengths[: axis - 2], lengths[axis - 1 :]
        dense = np.zeros((outer, inner, *before, one.window * one.seen, *after))
        np.moveaxis(dense, axis, 0)[: one.slide.span : one.slide.dilation] = np.moveaxis(result, axis, 0)
        apart = dense.reshape(outer, inner, *before, one.window, one.seen, *after)
        result = np.moveaxis(apart, axis + 1, 2).reshape(outer, inner * one.seen, *before, one.window, *after)
    return result


BLOCKS = Decomposition(
    "blocks",
    "a convolution of stride 1 over blocks whose elements are channels",
    blocks_as_channels,
    SAME_MATHEMATICS,
    same_operation=True,
)
