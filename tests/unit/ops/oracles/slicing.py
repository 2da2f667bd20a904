"""Independent implementations of slicing and padding: places by Python's own lists, then torch; plain loops."""

import itertools

import torch

from oracle_tools import Array, Oracle, array, tensor


def selected(x: Array, places: list[list[int]]) -> Array:
    """Take the given places of every axis."""
    result = tensor(x)
    for axis, wanted in enumerate(places):
        result = torch.index_select(result, axis, torch.tensor(wanted, dtype=torch.int64))
    return array(result)


def slice_by_size(x: Array, *, begin: tuple[int, ...], size: tuple[int, ...]) -> Array:
    result = tensor(x)
    for axis, (first, count) in enumerate(zip(begin, size, strict=True)):
        result = torch.narrow(result, axis, first, x.shape[axis] - first if count < 0 else count)
    return array(result)


def region_places(
    extents: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    masks: tuple[tuple[int, ...] | None, ...],
) -> tuple[list[list[int]], list[int]]:
    """Return the places of a region on every axis, and the axes that are dropped."""
    begin_mask, end_mask, squeeze_mask = (mask or [0] * len(extents) for mask in masks)
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


def slice_by_index(
    x: Array,
    *,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] | None,
    **masks: tuple[int, ...] | None,
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
    **masks: tuple[int, ...] | None,
) -> Array:
    ordered = (masks["begin_mask"], masks["end_mask"], masks["squeeze_mask"])
    places, _ = region_places(x.shape, begin, end, stride, ordered)
    result = x.copy()
    left = iter(update.ravel().tolist())
    for place in itertools.product(*places):
        result[place] = next(left)
    return result


def mirrored(every: list[int], before: int, after: int, mode: str) -> list[int]:
    """Return the places of an axis with its border in front of it and behind."""
    if mode == "replicate":
        return every[:1] * before + every + every[-1:] * after
    skipped = 1 if mode == "reflect" else 0
    backwards = every[::-1]
    return (
        backwards[len(every) - skipped - before : len(every) - skipped] + every + backwards[skipped : skipped + after]
    )


def pad(x: Array, *, pad: tuple[int, ...], mode: str, constant_val: float) -> Array:
    pairs = [(pad[place], pad[place + 1]) for place in range(0, len(pad), 2)]
    if mode == "constant":
        backwards = [side for pair in reversed(pairs) for side in pair]
        return array(torch.nn.functional.pad(tensor(x), backwards, value=constant_val))
    untouched = x.ndim - len(pairs)
    places = [list(range(extent)) for extent in x.shape]
    for axis, (before, after) in enumerate(pairs, untouched):
        places[axis] = mirrored(places[axis], before, after, mode)
    return selected(x, places)


def crop(x: Array, *, crop_height: tuple[int, int], crop_width: tuple[int, int]) -> Array:
    (top, bottom), (left, right) = crop_height, crop_width
    return array(torch.nn.functional.pad(tensor(x), [-left, -right, -top, -bottom]))


def reverse(x: Array, *, axes: tuple[int, ...] | None) -> Array:
    return array(torch.flip(tensor(x), list(range(x.ndim)) if axes is None else axes))


def reverse_sequence(x: Array, lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    sequences = tensor(x).movedim((batch_axis, seq_axis), (0, 1))
    parts = [
        torch.cat([sequence[:length].flip(0), sequence[length:]])
        for sequence, length in zip(sequences, lengths.tolist(), strict=True)
    ]
    return array(torch.stack(parts).movedim((0, 1), (batch_axis, seq_axis)))


def sliding_windows(x: Array, *, axis: int, size: int, stride: int) -> Array:
    along = axis if axis >= 0 else axis + x.ndim
    return array(tensor(x).unfold(along, size, stride).movedim(-1, along + 1))


def band_part(x: Array, *, lower: int, upper: int) -> Array:
    kept = tensor(x)
    if lower >= 0:
        kept = torch.triu(kept, -lower)
    if upper >= 0:
        kept = torch.tril(kept, upper)
    return array(kept)


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
    "pad": pad,
    "crop": crop,
    "reverse": reverse,
    "reverse_sequence": reverse_sequence,
    "sliding_windows": sliding_windows,
    "band_part": band_part,
    "input_view": input_view,
    "dynamic_slice": dynamic_slice,
}
