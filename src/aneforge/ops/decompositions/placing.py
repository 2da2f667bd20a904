"""Elements at places: bands, one-hot vectors, sequences turned round and scatters, in choices and gathers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition
from aneforge.ops.types import bits, is_integer, value_range

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array

__all__ = ["BAND", "EQUAL_PLACES", "SCATTER", "SCATTER_ALONG_AXIS", "SCATTER_ND", "TURNED"]

Take = Callable[["Term", "Array"], "Term"]
"""Takes slices or elements along the axis of a scatter, by places for every column."""
EXACT_HALVES = 2048
"""Integers up to here are exact in fp16, in which every engine compares."""
PLACE, MOST_PLACES = "uint16", 1 << 16
"""How an engine holds the place of an element."""
PAIRS = {"add": "add", "sub": "sub", "mul": "mul", "div": "real_div", "max": "maximum", "min": "minimum"}
"""Operations by the modes of a scatter."""
NEUTRAL = {"add": -0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}
"""What changes no number in a mode; −0 leaves even the sign of a zero. In other modes it is the number itself."""


def band(to: Site, x: Term, *, lower: int, upper: int) -> Term:
    """Return x within a band of diagonals, 0 elsewhere."""
    rows, columns = x.shape[-2:]
    above = np.arange(columns) - np.arange(rows)[:, None]
    kept = ((lower < 0) | (-above <= lower)) & ((upper < 0) | (above <= upper))
    return to.constant(kept, "bool").select(x, to.constant(np.zeros(()), x.dtype))


def one_hot(
    to: Site, indices: Term, *, one_hot_vector_size: int, axis: int, on_value: float, off_value: float, dtype: str
) -> Term:
    """Return one value where an index is that of the place, another elsewhere."""
    rank = len(indices.shape) + 1
    along = axis % rank
    places = np.arange(one_hot_vector_size).reshape([-1 if place == along else 1 for place in range(rank)])
    held = [(EXACT_HALVES, "fp16"), (MOST_PLACES, PLACE)]
    compared = indices.cast(dtype=next((kind for most, kind in held if one_hot_vector_size <= most), "int32"))
    here = compared.expand_dims(axes=(along,)).equal(to.constant(places, compared.dtype))
    if is_integer(dtype) and bits(dtype) > bits(PLACE):
        # An engine holds such integers only as the result of a gather.
        return to.constant(np.array([off_value, on_value]), dtype).gather(here.cast(dtype="uint8"), axis=0)
    return here.select(*(to.constant(np.asarray(value), dtype) for value in (on_value, off_value)))


def look_up_places(to: Site, x: Term, lengths: Term, *, seq_axis: int, batch_axis: int) -> Term:
    """Return the elements at the places from which they come, computed from the lengths."""
    rank = len(x.shape)
    along, batch = seq_axis % rank, batch_axis % rank
    extent = x.shape[along]
    if lengths.known is None and extent < MOST_PLACES and not extent <= value_range(lengths.dtype)[1] < MOST_PLACES:
        lengths = lengths.cast(dtype=PLACE)
    own = np.broadcast_to(np.arange(extent).reshape([-1 if axis == along else 1 for axis in range(rank)]), x.shape)
    shape = tuple(x.shape[batch] if axis == batch else 1 for axis in range(rank))
    if lengths.known is not None:
        count = lengths.known.reshape(shape)
        source = to.constant(np.where(own < count, count - 1 - own, own), "int32")
    else:
        ends, here = lengths.reshape(shape=shape), to.constant(own, lengths.dtype)
        source = here.less(ends).select(ends - to.constant(own + 1, lengths.dtype), here)
    return x.gather_along_axis(source, axis=along)


# Scatters with known indices: what every place takes, one update after another.


def scatter(to: Site, data: Term, indices: Term, updates: Term, *, axis: int, mode: str, **_: object) -> Term:
    """Return data with slices along an axis combined."""
    along = axis % len(data.shape)
    places = known_places(to, indices, data.shape[along]).ravel()
    flat = updates.reshape(shape=(*data.shape[:along], places.size, *data.shape[along + 1 :]))

    def take(source: Term, taken: Array) -> Term:
        return source.gather(to.constant(taken.ravel(), "int32"), axis=along)

    return combined(to, (data, flat), mode, along, turns_of(places[:, None], data.shape[along]), take)


def scatter_nd(to: Site, data: Term, indices: Term, updates: Term, *, mode: str, **_: object) -> Term:
    """Return data with the parts at coordinates combined: the axes that they name are one."""
    count = indices.shape[-1]
    named, rest = data.shape[:count], data.shape[count:]
    coordinates = [known_places(to, indices, extent, axis) for axis, extent in enumerate(named)]
    places = np.ravel_multi_index(coordinates, named).ravel()
    rows = data.reshape(shape=(int(np.prod(named)), *rest))
    flat = updates.reshape(shape=(places.size, *rest))

    def take(source: Term, taken: Array) -> Term:
        return source.gather(to.constant(taken.ravel(), "int32"), axis=0)

    turns = turns_of(places[:, None], rows.shape[0])
    return combined(to, (rows, flat), mode, 0, turns, take).reshape(shape=data.shape)


def scatter_along_axis(
    to: Site, data: Term, indices: Term, updates: Term, *, axis: int, mode: str, **_: object
) -> Term:
    """Return data with elements along an axis combined, in every row at its own places."""
    along = axis % len(data.shape)
    places = known_places(to, indices, data.shape[along])
    rows = np.moveaxis(places, along, 0)
    others = rows.shape[1:]

    def take(source: Term, taken: Array) -> Term:
        lines = np.moveaxis(taken.reshape(-1, *others), 0, along)
        return source.gather_along_axis(to.constant(lines, "int32"), axis=along)

    turns = turns_of(rows.reshape(rows.shape[0], -1), data.shape[along])
    return combined(to, (data, updates), mode, along, turns, take)


def known_places(to: Site, indices: Term, extent: int, axis: int | None = None) -> Array:
    """Return indices counted from the front, those of one axis where the last axis of indices names several.

    Raises:
        NotSupportedError: They are computed at run time, or one is past the axis.
    """
    if indices.known is None:
        raise to.refusal(
            "its indices must be constants", seen="a tensor computed at run time", remedy="scatter on the host"
        )
    places = (indices.known if axis is None else indices.known[..., axis]).astype(np.int64)
    if places.size and not (-extent <= places.min() and places.max() < extent):
        raise to.refusal("an index is past the axis", seen=[int(places.min()), int(places.max())], limit=extent)
    return np.where(places < 0, places + extent, places)


def turns_of(places: Array, extent: int) -> Array:
    """Return, for the first update of every place, the second and so on, which update that is; −1 for none.

    Places have one line for every update, and columns that do not know of each other.

    >>> turns_of(np.array([[2], [0], [2]]), 3)[..., 0].tolist()
    [[1, -1, 0], [-1, -1, 2]]
    """
    count: int = places.shape[1]
    columns = np.arange(count)
    keys = (places * count + columns).ravel()
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    turn = np.empty(keys.size, np.int64)
    turn[order] = np.arange(keys.size) - np.repeat(starts, np.diff(starts, append=keys.size))
    turns = np.full((int(turn.max(initial=-1)) + 1, extent, count), -1)
    turns[turn.reshape(places.shape), places, columns] = np.arange(len(places))[:, None]
    return turns


def combined(to: Site, pair: tuple[Term, Term], mode: str, along: int, turns: Array, take: Take) -> Term:
    """Return data combined with its first updates, then with the second ones, and so on."""
    data, updates = pair
    if not len(turns):
        return data.identity()
    if mode in NEUTRAL:
        shape = tuple(1 if axis == along else extent for axis, extent in enumerate(updates.shape))
        source = to.op("concat", (updates, to.constant(np.full(shape, NEUTRAL[mode]), data.dtype)), axis=along)
        sources = np.where(turns < 0, updates.shape[along], turns)
    else:
        source = to.op("concat", (data, updates), axis=along)
        own, extent = np.arange(data.shape[along])[:, None], data.shape[along]
        if mode == "update":
            last = np.max(turns, axis=0)
            return take(source, np.where(last < 0, own, last + extent))
        sources = np.where(turns < 0, own, turns + extent)
    for one in sources:
        data = getattr(data, PAIRS[mode])(take(source, one))
    return data


def placing(name: str, form: str, build: Callable[..., Term], *constants: str) -> Decomposition:
    """Return a decomposition that computes nothing but what the operation does."""
    return Decomposition(name, form, build, SAME_MATHEMATICS, constants=constants)


SCATTERED = "updates gathered to their places, and combined with data there"
BAND = placing("mask", "x within a constant mask, else 0", band)
EQUAL_PLACES = placing("equal", "on_value where the index equals the place, else off_value", one_hot)
TURNED = placing("gather", "elements gathered along the axis", look_up_places)
SCATTER = placing("gather", SCATTERED, scatter, "indices")
SCATTER_ND = placing("gather", SCATTERED, scatter_nd, "indices")
SCATTER_ALONG_AXIS = placing("gather", SCATTERED, scatter_along_axis, "indices")
