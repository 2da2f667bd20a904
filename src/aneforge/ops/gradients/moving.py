"""Gradients of what moves elements: they go back to where they came from, and sums where one went to several places."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.shifting import (
    contract,
    cut,
    keep_where,
    place,
    reshape_to,
    sum_blocks,
    unspread,
    zeros,
)
from aneforge.ops.interpolation import extended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Term
    from aneforge.ops.gradient import GradientSite, Passed, PassedOn


def reshaped(_: GradientSite, g: Term, x: Term, *__: object, **___: object) -> Term:
    """Return g in the shape of x."""
    return reshape_to(g, x.shape)


def reshaped_like(_: GradientSite, g: Term, x: Term, references: Sequence[Term], **__: object) -> PassedOn:
    """Return g in the shape of x, and nothing for those whose shapes are read."""
    return reshape_to(g, x.shape), [None for _ in references]


def transposed(_: GradientSite, g: Term, __: Term, *, perm: tuple[int, ...]) -> Term:
    """Return g with its axes back in their order."""
    places = [axis % len(perm) for axis in perm]
    return g.transpose(perm=tuple(places.index(axis) for axis in range(len(places))))


def reversed_elements(_: GradientSite, g: Term, __: Term, *, axes: tuple[int, ...] | None) -> Term:
    """Return g backwards."""
    return g.reverse(axes=axes)


def reversed_sequence(_: GradientSite, g: Term, __: Term, lengths: Term, **attributes: int) -> Sequence[Passed]:
    """Return g with the same elements backwards."""
    return g.reverse_sequence(lengths, **attributes), None


def spread_elements(_: GradientSite, g: Term, x: Term, **__: object) -> Term:
    """Return g, summed where elements were repeated."""
    return unspread(g, x.shape)


def tiled(_: GradientSite, g: Term, x: Term, *, reps: tuple[int, ...]) -> Term:
    """Return g, summed over the copies."""
    for axis, (extent, count) in enumerate(zip(x.shape, reps, strict=True)):
        if count > 1 and extent == 1:
            g = g.reduce_sum(axes=(axis,), keep_dims=True)
        elif count > 1:
            parts = [cut(g, axis, range(first, first + extent)) for first in range(0, extent * count, extent)]
            g = reduce(lambda total, part: total + part, parts)
    return g


# Parts


def put_back(g: Term, shape: Sequence[int], parts: Sequence[range]) -> Term:
    """Return g at ranges of a tensor of zeros; one that runs backwards is turned round."""
    backwards = tuple(axis for axis, part in enumerate(parts) if part.step < 0 and len(part) > 1)
    if backwards:
        g = g.reverse(axes=backwards)
    for axis, (extent, part) in enumerate(zip(shape, parts, strict=True)):
        one = range(part[0], part[0] + 1) if len(part) == 1 else part
        g = place(g, axis, extent, one if one.step > 0 else one[::-1])
    return g


def block(_: GradientSite, g: Term, x: Term, *, begin: tuple[int, ...], size: tuple[int, ...]) -> Term:
    """Return g between zeros."""
    lines = zip(x.shape, begin, size, strict=True)
    return put_back(
        g, x.shape, [range(first, extent if count == -1 else first + count) for extent, first, count in lines]
    )


def region_of(
    shape: Sequence[int],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    masks: dict[str, tuple[bool, ...] | None],
) -> list[range]:
    """Return the elements of a region along every axis."""
    rank = len(shape)
    from_first, to_last, squeezed = (
        masks[name] or (False,) * rank for name in ("begin_mask", "end_mask", "squeeze_mask")
    )
    parts: list[range] = []
    for axis, (extent, step) in enumerate(zip(shape, stride or (1,) * rank, strict=True)):
        first = None if from_first[axis] else begin[axis]
        if squeezed[axis]:
            at = (first or 0) % extent
            parts.append(range(at, at + 1))
        else:
            parts.append(range(extent)[first : None if to_last[axis] else end[axis] : step])
    return parts


def region(
    _: GradientSite,
    g: Term,
    x: Term,
    *,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    **masks: tuple[bool, ...] | None,
) -> Term:
    """Return g at the elements of the region, zeros elsewhere."""
    parts = region_of(x.shape, begin, end, stride, masks)
    return put_back(reshape_to(g, [len(part) for part in parts]), x.shape, parts)


def written_region(to: GradientSite, g: Term, _: Term, update: Term, **attributes: object) -> Sequence[Passed]:
    """Return g with zeros in the region for x, and its region for what was written."""
    rest = g.slice_update(zeros(to, update.shape, update.dtype), **attributes) if to.wants("x") else None
    return rest, g.slice_by_index(**attributes) if to.wants("update") else None


def view(_: GradientSite, g: Term, x: Term, *, axis: int, offset: int, size: int, step: int) -> Term:
    """Return g at the elements of the view, zeros elsewhere."""
    return place(g, axis % len(x.shape), x.shape[axis], range(offset, offset + (size - 1) * step + 1, step))


def cropped(_: GradientSite, g: Term, x: Term, *, crop_height: tuple[int, int], crop_width: tuple[int, int]) -> Term:
    """Return g with zeros for its borders."""
    return g.pad(pad=(*crop_height, *crop_width), mode="constant", constant_val=0.0) if x.shape != g.shape else g


def split(to: GradientSite, g: Sequence[Passed], x: Term, *, axis: int, **_: object) -> Term:
    """Return the parts, joined; zeros where nothing comes back."""
    parts = tuple(
        zeros(to, kind.shape, kind.dtype) if one is None else one for one, kind in zip(g, to.results, strict=True)
    )
    return parts[0] if len(parts) == 1 else to.op("concat", parts, axis=axis % len(x.shape))


def joined(_: GradientSite, g: Term, values: Sequence[Term], *, axis: int, interleave: bool = False) -> PassedOn:
    """Return the part of g that belongs to each tensor."""
    along, count = axis % len(g.shape), len(values)
    if interleave:
        return [[cut(g, along, range(number, g.shape[along], count)) for number in range(count)]]
    edges = itertools.accumulate([value.shape[along] for value in values], initial=0)
    return [[cut(g, along, range(first, last)) for first, last in itertools.pairwise(edges)]]


def stacked(_: GradientSite, g: Term, values: Sequence[Term], *, axis: int) -> PassedOn:
    """Return the slice of g that belongs to each tensor."""
    along = axis % len(g.shape)
    return [
        [cut(g, along, range(number, number + 1)).reshape(shape=value.shape) for number, value in enumerate(values)]
    ]


def bordered(to: GradientSite, g: Term, x: Term, *, pad: tuple[int, ...], mode: str, constant_val: float) -> Term:
    """Return g without its border; where the border repeats elements, they get what comes back to it too."""
    del constant_val
    first = len(x.shape) - len(pad) // 2
    for axis, before, after in zip(range(first, len(x.shape)), pad[::2], pad[1::2], strict=True):
        extent = x.shape[axis]
        if mode == "constant":
            g = cut(g, axis, range(before, before + extent))
        elif before or after:
            kinds = {"reflect": "reflection", "symmetric": "symmetric", "replicate": "border"}
            sources = extended(np.arange(-before, extent + after), extent, kinds[mode])
            g = contract(to, g, axis, np.eye(extent)[sources])
    return g


def band(_: GradientSite, g: Term, __: Term, *, lower: int, upper: int) -> Term:
    """Return the band of g."""
    return g.band_part(lower=lower, upper=upper)


def windows(to: GradientSite, g: Term, x: Term, *, axis: int, size: int, stride: int) -> Term:
    """Return g, summed over the windows that an element is in."""
    along = axis % len(x.shape)
    count, extent = g.shape[along], x.shape[along]
    places = (np.arange(count)[:, None] * stride + np.arange(size)).ravel()
    flat = g.reshape(shape=(*g.shape[:along], count * size, *g.shape[along + 2 :]))
    return contract(to, flat, along, np.eye(extent)[places])


# Blocks


def depth_to_space(_: GradientSite, g: Term, __: Term, *, block_size: int) -> Term:
    """Return g, its blocks as channels."""
    return g.space_to_depth(block_size=block_size)


def space_to_depth(_: GradientSite, g: Term, __: Term, *, block_size: int) -> Term:
    """Return g, its channels as blocks."""
    return g.depth_to_space(block_size=block_size)


def channel_to_space(_: GradientSite, g: Term, __: Term, *, block_size: int) -> Term:
    """Return g, its blocks as channels."""
    return g.space_to_channel(block_size=block_size)


def space_to_channel(_: GradientSite, g: Term, __: Term, *, block_size: int) -> Term:
    """Return g, its channels as blocks."""
    return g.channel_to_space(block_size=block_size)


def shuffled(_: GradientSite, g: Term, __: Term, *, upscale_factor: int) -> Term:
    """Return g, its blocks as channels."""
    return g.pixel_unshuffle(downscale_factor=upscale_factor)


def unshuffled(_: GradientSite, g: Term, __: Term, *, downscale_factor: int) -> Term:
    """Return g, its channels as blocks."""
    return g.pixel_shuffle(upscale_factor=downscale_factor)


def batch_to_space(_: GradientSite, g: Term, __: Term, *, block_shape: tuple[int, ...], crops: tuple[int, ...]) -> Term:
    """Return g cut into images, zeros for its borders."""
    return g.space_to_batch(block_shape=block_shape, paddings=crops)


def space_to_batch(
    _: GradientSite, g: Term, __: Term, *, block_shape: tuple[int, ...], paddings: tuple[int, ...]
) -> Term:
    """Return g joined to images, without borders."""
    return g.batch_to_space(block_shape=block_shape, crops=paddings)


def upsampled(_: GradientSite, g: Term, x: Term, *, scale: int) -> Term:
    """Return the sums of blocks."""
    for axis in (len(x.shape) - 2, len(x.shape) - 1):
        g = sum_blocks(g, axis, scale)
    return g


# Branches, states and buffers


def branches(to: GradientSite, g: Sequence[Passed], pred: Term, *_: Sequence[Term]) -> PassedOn:
    """Return g for the values of the branch that is taken."""
    other = pred.logical_not()
    return None, *(
        [None if one is None else keep_where(to, spread_flag(flag, one), one) for one in g] for flag in (pred, other)
    )


def spread_flag(pred: Term, like: Term) -> Term:
    """Return one boolean with as many axes as a tensor has."""
    return reshape_to(pred, (1,) * len(like.shape))


def stored(_: GradientSite, g: Term, *__: object) -> Sequence[Passed]:
    """Return g for what is written; the state itself is overwritten."""
    return None, g


def turned_buffer(_: GradientSite, g: Term, buffer: Term, *, offset: int, axis: int) -> Term:
    """Return g turned back."""
    length = buffer.shape[axis]
    return g.circular_buffer_to_tensor(offset=-offset % length, axis=axis)


def written_buffer(to: GradientSite, g: Term, buffer: Term, x: Term, *, offset: int, axis: int) -> Sequence[Passed]:
    """Return g with zeros where x was written for the buffer, and the part that was written for x."""
    along = axis % len(buffer.shape)
    rest = (
        g.tensor_to_circular_buffer(zeros(to, x.shape, x.dtype), offset=offset, axis=axis)
        if to.wants("buffer")
        else None
    )
    turned = g.circular_buffer_to_tensor(offset=offset, axis=axis) if to.wants("x") else None
    return rest, None if turned is None else cut(turned, along, range(x.shape[along]))


RESHAPED = Gradient("g in the shape of x", reshaped)
RESHAPED_LIKE = Gradient("g in the shape of x", reshaped_like)
TRANSPOSED = Gradient("g with its axes back in their order", transposed)
REVERSED = Gradient("g backwards", reversed_elements)
REVERSED_SEQUENCE = Gradient("g backwards, by the same lengths", reversed_sequence)
SPREAD = Gradient("g, summed over repeated axes", spread_elements)
TILED = Gradient("g, summed over the copies", tiled)
BLOCK = Gradient("g between zeros", block)
REGION = Gradient("g at the region, zeros elsewhere", region)
WRITTEN_REGION = Gradient("g with zeros in the region; the region of g", written_region)
VIEW = Gradient("g at the view, zeros elsewhere", view)
CROPPED = Gradient("g with zeros for its borders", cropped)
SPLIT = Gradient("the parts of g, joined", split, several=True)
JOINED = Gradient("the part of g that belongs to each tensor", joined)
STACKED = Gradient("the slice of g that belongs to each tensor", stacked)
BORDERED = Gradient("g without its border, and that of the border where it repeats elements", bordered)
BAND = Gradient("the same band of g", band)
WINDOWS = Gradient("g, summed over the windows that an element is in", windows)
DEPTH_TO_SPACE = Gradient("space_to_depth(g)", depth_to_space)
SPACE_TO_DEPTH = Gradient("depth_to_space(g)", space_to_depth)
CHANNEL_TO_SPACE = Gradient("space_to_channel(g)", channel_to_space)
SPACE_TO_CHANNEL = Gradient("channel_to_space(g)", space_to_channel)
SHUFFLED = Gradient("pixel_unshuffle(g)", shuffled)
UNSHUFFLED = Gradient("pixel_shuffle(g)", unshuffled)
BATCH_TO_SPACE = Gradient("space_to_batch(g)", batch_to_space)
SPACE_TO_BATCH = Gradient("batch_to_space(g)", space_to_batch)
UPSAMPLED = Gradient("the sums of blocks of g", upsampled)
BRANCHES = Gradient("g for the values of the branch that is taken", branches, several=True)
STORED = Gradient("g for what is written", stored)
TURNED_BUFFER = Gradient("g, turned back", turned_buffer)
WRITTEN_BUFFER = Gradient("g with zeros where x was written; the part of g that was", written_buffer)
