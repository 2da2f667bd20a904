"""Slices, joins, borders, blocks and sizes, in simpler moves: no element is computed, so the bits stay."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition
from aneforge.ops.interpolation import extended, nearest_indices
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array

__all__ = [
    "BATCH_TO_SPACE",
    "BATCH_TO_SPACE_THEN_CROP",
    "BOXES_WITH_IMAGES",
    "BRANCHES",
    "COMPUTED_BEFOREHAND",
    "CROP_BY_VIEWS",
    "FILLED",
    "MIRRORED_BY_GATHER",
    "NEAREST_BY_GATHER",
    "PADDED_BY_CONCAT",
    "REPEATED_BY_CONCAT",
    "REPEATED_BY_ROWS",
    "RESHAPED",
    "SELECT_OF_ONE_SHAPE",
    "SLICE_BY_VIEWS",
    "SLICE_OF_SIZE_BY_VIEWS",
    "SPACE_TO_BATCH",
    "SPACE_TO_BATCH_AFTER_PAD",
    "SPLIT_BY_VIEWS",
    "STACKED_BY_CONCAT",
    "UPSAMPLED_BY_FACTORS",
]


def view(x: Term, axis: int, part: range) -> Term:
    """Return the elements of a range along an axis, in rising order."""
    if part == range(x.shape[axis]):
        return x
    return x.input_view(axis=axis, offset=part.start, size=len(part), step=part.step)


def views(to: Site, x: Term, parts: Sequence[range]) -> Term:
    """Return the elements of a range along every axis.

    Raises:
        NotSupportedError: A range runs backwards, or is empty.
    """
    result = x
    for axis, part in enumerate(parts):
        if not part or part.step < 0:
            raise to.refusal(
                "a view must go forwards and have elements",
                seen=f"{part.start} to {part.stop} by {part.step}",
                remedy="use a slice with a positive stride",
            )
        # A range of one element has no step of its own.
        result = view(result, axis, part if len(part) > 1 else range(part.start, part.start + 1))
    return copied(result, x)


def copied(result: Term, x: Term) -> Term:
    """Return a result of its own: what changed nothing is copied."""
    constant = result.known is not None or result.is_declared
    return result.identity() if result is x or constant else result


def slice_of_size_by_views(to: Site, x: Term, *, begin: tuple[int, ...], size: tuple[int, ...]) -> Term:
    """Return views from begin on, of a size along every axis."""
    lines = zip(x.shape, begin, size, strict=True)
    return views(to, x, [range(first, extent if count == -1 else first + count) for extent, first, count in lines])


def slice_by_views(
    to: Site,
    x: Term,
    *,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    **masks: tuple[bool, ...] | None,
) -> Term:
    """Return views from begin to end by stride along every axis; axes that go, go by a reshape."""
    rank = len(x.shape)
    from_first, to_last, squeezed = (
        masks[name] or (False,) * rank for name in ("begin_mask", "end_mask", "squeeze_mask")
    )
    parts: list[range] = []
    for axis, (extent, step) in enumerate(zip(x.shape, stride or (1,) * rank, strict=True)):
        first = None if from_first[axis] else begin[axis]
        if squeezed[axis]:
            place = (first or 0) % extent
            parts.append(range(place, place + 1))
        else:
            parts.append(range(extent)[first : None if to_last[axis] else end[axis] : step])
    return views(to, x, parts).reshape(shape=to.results[0].shape)


def crop_by_views(to: Site, x: Term, *, crop_height: tuple[int, int], crop_width: tuple[int, int]) -> Term:
    """Return views without the borders."""
    batch, channels, height, width = x.shape
    (top, bottom), (left, right) = crop_height, crop_width
    return views(to, x, [range(batch), range(channels), range(top, height - bottom), range(left, width - right)])


def split_by_views(to: Site, x: Term, *, axis: int, **_: object) -> list[Term]:
    """Return a view for every part."""
    place = axis % len(x.shape)
    sizes = [kind.shape[place] for kind in to.results]
    starts = itertools.accumulate([0, *sizes])
    return [copied(view(x, place, range(start, start + size)), x) for start, size in zip(starts, sizes, strict=False)]


def stacked_by_concat(to: Site, values: Sequence[Term], *, axis: int) -> Term:
    """Return a concatenation along a new axis."""
    place = axis % len(to.results[0].shape)
    parts = tuple(value.expand_dims(axes=(place,)) for value in values)
    return parts[0] if len(parts) == 1 else to.op("concat", parts, axis=place)


def repeated_by_concat(to: Site, x: Term, *, reps: tuple[int, ...]) -> Term:
    """Return a concatenation of copies along every axis; an axis of length 1 is repeated."""
    result = x
    for axis, count in enumerate(reps):
        if count == 1:
            continue
        if result.shape[axis] == 1:
            result = result.broadcast(shape=lengthened(result.shape, axis, count))
        else:
            result = to.op("concat", (result,) * count, axis=axis)
    return copied(result, x)


def repeated_by_rows(_: Site, x: Term, *, reps: tuple[int, ...]) -> Term:
    """Return x repeated along each axis as an axis of length 1 before it, which takes any count."""
    result = x
    for axis, count in enumerate(reps):
        if count == 1:
            continue
        shape = result.shape
        flat, place = with_single_axis(shape, axis)
        rows = result.reshape(shape=flat).tile(reps=lengthened((1,) * len(flat), place, count))
        result = rows.reshape(shape=lengthened(shape, axis, count * shape[axis]))
    return copied(result, x)


def with_single_axis(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int]:
    """Return a shape of four axes with one of length 1 before an axis, and its place; its longest axis is short.

    >>> with_single_axis((64, 8, 1, 8, 14), 2), with_single_axis((1, 64, 112, 112), 1)
    (((64, 8, 1, 112), 2), ((1, 1, 7168, 112), 1))
    """
    before, trailing = shape[:axis], shape[axis:]
    rows = (((*both, 1, math.prod(trailing)), 2) for both in in_two(before))
    channels = (((math.prod(before), 1, *both), 1) for both in in_two(trailing))
    return min((*rows, *channels), key=lambda one: max(one[0]))


def in_two(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the shapes of two axes that hold the elements of a shape in their order."""
    for place in range(len(shape) + 1):
        yield math.prod(shape[:place]), math.prod(shape[place:])


def lengthened(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    """Return a shape with another length along an axis."""
    return tuple(extent if place == axis else one for place, one in enumerate(shape))


def padded_by_concat(to: Site, x: Term, *, pad: tuple[int, ...], mode: str, constant_val: float) -> Term:
    """Return a concatenation with constants along every axis.

    Raises:
        NotSupportedError: What is put around it is taken from the tensor.
    """
    if mode != "constant":
        raise to.refusal(
            "no source gives the parameters of the layer that pads", seen=f"mode {mode}", remedy="use mode=constant"
        )
    pairs = [(0, 0)] * (len(x.shape) - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))
    value = to.constant(np.full((1,) * len(x.shape), constant_val), x.dtype, "constant_val")
    result = x
    for axis, (before, after) in enumerate(pairs):
        parts = [result]
        if before:
            parts.insert(0, value.broadcast(shape=lengthened(result.shape, axis, before)))
        if after:
            parts.append(value.broadcast(shape=lengthened(result.shape, axis, after)))
        result = result if len(parts) == 1 else to.op("concat", tuple(parts), axis=axis)
    return copied(result, x)


def space_to_batch_after_pad(to: Site, x: Term, *, block_shape: tuple[int, int], paddings: tuple[int, ...]) -> Term:
    """Return the operation on a tensor that was padded before."""
    return to.same(x.pad(pad=paddings, mode="constant", constant_val=0.0), block_shape=block_shape)


def batch_to_space_then_crop(to: Site, x: Term, *, block_shape: tuple[int, int], crops: tuple[int, ...]) -> Term:
    """Return the operation, with its borders cut off afterwards."""
    return to.same(x, block_shape=block_shape).crop(crop_height=crops[:2], crop_width=crops[2:])


def batch_to_space(_: Site, x: Term, *, block_shape: tuple[int, int], crops: tuple[int, ...]) -> Term:
    """Return the joining of several images: columns first, then rows, then the borders."""
    high, wide = block_shape
    count, channels, height, width = x.shape
    images = count // (high * wide)
    cut = x.reshape(shape=(images * high, wide, channels * height, width))
    columns = cut.transpose(perm=(0, 2, 3, 1))
    rows = columns.reshape(shape=(images, high, channels, height, width * wide))
    whole = rows.transpose(perm=(0, 2, 3, 1, 4))
    joined = whole.reshape(shape=(images, channels, height * high, width * wide))
    top, bottom, left, right = crops
    end = (images, channels, height * high - bottom, width * wide - right)
    return joined.slice_by_index(begin=(0, 0, top, left), end=end)


def space_to_batch(_: Site, x: Term, *, block_shape: tuple[int, int], paddings: tuple[int, ...]) -> Term:
    """Return the cutting of several images: the borders, then rows, then columns."""
    high, wide = block_shape
    images, channels = x.shape[:2]
    padded = x.pad(pad=(0, 0, 0, 0, *paddings), mode="constant", constant_val=0.0)
    height, width = padded.shape[2] // high, padded.shape[3] // wide
    rows = padded.reshape(shape=(images, channels, height, high, width * wide))
    cut = rows.transpose(perm=(0, 3, 1, 2, 4))
    columns = cut.reshape(shape=(images * high, channels * height, width, wide))
    moved = columns.transpose(perm=(0, 3, 1, 2))
    return moved.reshape(shape=(images * high * wide, channels, height, width))


def upsampled_by_factors(_: Site, x: Term, *, scale: int) -> Term:
    """Return the upsampling by two factors that are one."""
    return x.upsample_nearest_neighbor(scale_factor_height=float(scale), scale_factor_width=float(scale))


def gathered(to: Site, x: Term, places: Mapping[int, Array]) -> Term:
    """Return a tensor with the elements at given places of its axes."""
    result = x
    for axis, indices in places.items():
        result = result.gather(to.constant(indices, "int32"), axis=axis)
    return copied(result, x)


def nearest_by_gather(to: Site, x: Term, **__: object) -> Term:
    """Return the elements at or before each place: repeated where the factors are integers, else gathered."""
    before, after = x.shape, to.results[0].shape
    factors = [divmod(count, extent) for extent, count in zip(before[-2:], after[-2:], strict=True)]
    if len(before) > 2 and before[:-2] == after[:-2] and is_float(x.dtype) and not any(rest for _, rest in factors):
        high, wide = (float(factor) for factor, _ in factors)
        return x.upsample_nearest_neighbor(scale_factor_height=high, scale_factor_width=wide)
    lengths = enumerate(zip(before, after, strict=True))
    places = {axis: nearest_indices(extent, count, "DEFAULT") for axis, (extent, count) in lengths if extent != count}
    return gathered(to, x, places)


def mirrored_by_gather(to: Site, x: Term, *, pad: tuple[int, ...], **_: object) -> Term:
    """Return a border that repeats the edge as it mirrors, gathered."""
    first = len(x.shape) - len(pad) // 2
    places = {
        axis: extended(np.arange(-before, x.shape[axis] + after), x.shape[axis], "symmetric")
        for axis, before, after in zip(range(first, len(x.shape)), pad[::2], pad[1::2], strict=True)
        if before or after
    }
    return gathered(to, x, places)


def boxes_with_images(to: Site, x: Term, boxes: Term, box_indices: Term | None, **attributes: object) -> Term:
    """Return the crops with the image of every box named."""
    images = to.constant(np.zeros(boxes.shape[0], np.int32), "int32") if box_indices is None else box_indices
    return to.same(x, boxes, images, **attributes)


def select_of_one_shape(to: Site, cond: Term, a: Term, b: Term) -> Term:
    """Return the choice with `a` spread to the shape of the result."""
    shape = to.results[0].shape
    own = (*(1,) * (len(shape) - len(a.shape)), *a.shape)
    reps = tuple(1 if extent == count else count for count, extent in zip(shape, own, strict=True))
    return to.same(cond, a.reshape(shape=own).tile(reps=reps), b)


def branches(_: Site, pred: Term, true_values: Sequence[Term], false_values: Sequence[Term]) -> list[Term]:
    """Return the choice of every value: both branches are computed already."""
    return [pred.select(yes, no) for yes, no in zip(true_values, false_values, strict=True)]


def filled(to: Site, *_: Term | None, value: float, **__: object) -> Term:
    """Return one number repeated to the shape."""
    kind = to.results[0]
    return to.constant(np.full((1,) * kind.rank, value), kind.dtype, "value").broadcast(shape=kind.shape)


def repeated_by_tile(to: Site, x: Term, *_: object, **__: object) -> Term:
    """Return a tensor repeated along the axes of length 1 that the shape makes longer."""
    shape = to.results[0].shape
    whole = (1,) * (len(shape) - len(x.shape)) + x.shape
    raised = x if whole == x.shape else x.reshape(shape=whole)
    return raised.tile(reps=tuple(wanted // held for wanted, held in zip(shape, whole, strict=True)))


def reshaped(to: Site, x: Term, *_: object, **__: object) -> Term:
    """Return a reshape to the shape, which is known."""
    return x.reshape(shape=to.results[0].shape)


def computed_beforehand(to: Site, *operands: Term | None, **_: object) -> list[Term]:
    """Return what an operation on constants gives.

    Raises:
        NotSupportedError: An operand is computed at run time.
    """
    if any(one is not None and one.known is None for one in operands):
        raise to.refusal("its operands must be constants")
    to.note("computed beforehand")
    return [to.constant(values, kind.dtype) for values, kind in zip(to.evaluated(), to.results, strict=True)]


def moving(
    name: str, form: str, build: Callable[..., Term | Sequence[Term]], *, same_operation: bool = False
) -> Decomposition:
    """Return a decomposition that computes nothing."""
    return Decomposition(name, form, build, SAME_MATHEMATICS, same_operation=same_operation, same_bits=True)


SLICE_BY_VIEWS = moving("views", "views along the axes", slice_by_views)
SLICE_OF_SIZE_BY_VIEWS = moving("views", "views along the axes", slice_of_size_by_views)
CROP_BY_VIEWS = moving("views", "views without the borders", crop_by_views)
SPLIT_BY_VIEWS = moving("views", "a view for every part", split_by_views)
STACKED_BY_CONCAT = moving("concat", "a concatenation along a new axis", stacked_by_concat)
REPEATED_BY_CONCAT = moving("concat", "concatenations along the axes", repeated_by_concat)
REPEATED_BY_ROWS = moving(
    "rows", "repetitions along an axis of length 1, between reshapes", repeated_by_rows, same_operation=True
)
PADDED_BY_CONCAT = moving("concat", "a concatenation with constants", padded_by_concat)
SPACE_TO_BATCH_AFTER_PAD = moving(
    "pad first", "a concatenation with zeros, then the operation", space_to_batch_after_pad, same_operation=True
)
BATCH_TO_SPACE_THEN_CROP = moving(
    "crop after", "the operation, then views without the borders", batch_to_space_then_crop, same_operation=True
)
SPACE_TO_BATCH = moving("transposes", "transposes between reshapes", space_to_batch)
BATCH_TO_SPACE = moving("transposes", "transposes between reshapes", batch_to_space)
UPSAMPLED_BY_FACTORS = moving("factors", "an upsampling by two equal factors", upsampled_by_factors)
NEAREST_BY_GATHER = moving("nearest", "elements repeated or gathered", nearest_by_gather)
MIRRORED_BY_GATHER = moving("gather", "elements gathered", mirrored_by_gather)
BOXES_WITH_IMAGES = moving("images", "the image of every box named", boxes_with_images, same_operation=True)
SELECT_OF_ONE_SHAPE = moving(
    "one shape", "the values broadcast to the shape of the result", select_of_one_shape, same_operation=True
)
BRANCHES = moving("select", "a choice of every value", branches)
REPEATED_BY_TILE = moving("tile", "repetitions along the axes", repeated_by_tile)
FILLED = moving("broadcast", "one number, repeated", filled)
RESHAPED = moving("reshape", "a reshape", reshaped)
COMPUTED_BEFOREHAND = moving("constant", "a constant", computed_beforehand)
