"""Independent implementations of padding, cropping and bands: places by Python's own lists, then torch."""

import torch

from oracle_tools import Array, Oracle, array, tensor


def selected(x: Array, places: list[list[int]]) -> Array:
    """Take the given places of every axis."""
    result = tensor(x)
    for axis, wanted in enumerate(places):
        result = torch.index_select(result, axis, torch.tensor(wanted, dtype=torch.int64))
    return array(result)


def mirrored(every: list[int], before: int, after: int, mode: str) -> list[int]:
    """Return the places of an axis with its border in front of it and after."""
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


def band_part(x: Array, *, lower: int, upper: int) -> Array:
    kept = tensor(x)
    if lower >= 0:
        kept = torch.triu(kept, -lower)
    if upper >= 0:
        kept = torch.tril(kept, upper)
    return array(kept)


ORACLES: dict[str, Oracle] = {
    "pad": pad,
    "crop": crop,
    "band_part": band_part,
}
