"""Independent implementations of slicing: places by Python's own lists, then torch; plain loops."""

import itertools

import torch

from oracle_tools import Array, Oracle, array, tensor


def selected(x: Array, places: list[list[int]]) -> Array:
    """Take the given places of every axis."""
    result = tensor(x)
    for axis, wanted in enumerate(places):
        result = torch.index_select(result, axis, torch.tensor(wanted, dtype=torch.int64))
    return array(result)


def region_places(
    extents: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    masks: tuple[tuple[bool, ...] | None, ...],
) -> tuple[list[list[int]], list[int]]:
    """Return the places of a region on every axis, and the axes that are dropped."""
    begin_mask, end_mask, squeeze_mask = (mask or [False] * len(extents) for mask in masks)
    places: list[list[int]] = []
    for axis, extent in enumerate(extents):
        every = list(range(extent))
        by = stride[axis] if stride else 1
        if squeeze_mask[axis]:
            places.append([0 if begin_mask[axis] else every[begin[axis]]])
        elif begin_mask[axis] and end_mask[axis]:
            places.append(every[::by])
        elif begin_mask[axis]:
            places.append(every[: end[axis] : by])
        elif end_mask[axis]:
            places.append(every[begin[axis] :: by])
        else:
            places.append(every[begin[axis] : end[axis] : by])
    return places, [axis for axis, dropped in enumerate(squeeze_mask) if dropped]


def slice_by_size(x: Array, *, begin: tuple[int, ...], size: tuple[int, ...]) -> Array:
    result = tensor(x)
    for axis, (first, count) in enumerate(zip(begin, size, strict=True)):
        result = torch.narrow(result, axis, first, x.shape[axis] - first if count < 0 else count)
    return array(result)


def slice_by_index(
    x: Array,
    *,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    **masks: tuple[bool, ...] | None,
) -> Array:
    ordered = (masks["begin_mask"], masks["end_mask"], masks["squeeze_mask"])
    places, dropped = region_places(x.shape, begin, end, stride, ordered)
    result = tensor(selected(x, places))
    for axis in reversed(dropped):
        result = result.select(axis, 0)
    return array(result)


def slice_update(
    x: Array,
    update: Array,
    *,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    **masks: tuple[bool, ...] | None,
) -> Array:
    ordered = (masks["begin_mask"], masks["end_mask"], masks["squeeze_mask"])
    places, _ = region_places(x.shape, begin, end, stride, ordered)
    result = x.copy()
    left = iter(update.ravel().tolist())
    for place in itertools.product(*places):
        result[place] = next(left)
    return result


def sliding_windows(x: Array, *, axis: int, size: int, stride: int) -> Array:
    along = axis if axis >= 0 else axis + x.ndim
    return array(tensor(x).unfold(along, size, stride).movedim(-1, along + 1))


def input_view(x: Array, *, axis: int, offset: int, size: int, step: int) -> Array:
    wanted = torch.tensor([offset + place * step for place in range(size)])
    return array(torch.index_select(tensor(x), axis, wanted))


def dynamic_slice(x: Array, begin: Array, *, size: int, background_value: float) -> Array:
    """Pad so far on both sides that the slice always lies within."""
    border = size + 3
    wide = torch.nn.functional.pad(tensor(x), [border, border], value=background_value)
    return array(wide.narrow(-1, int(begin.item()) + border, size))


ORACLES: dict[str, Oracle] = {
    "slice_by_size": slice_by_size,
    "slice_by_index": slice_by_index,
    "slice_update": slice_update,
    "sliding_windows": sliding_windows,
    "input_view": input_view,
    "dynamic_slice": dynamic_slice,
}
