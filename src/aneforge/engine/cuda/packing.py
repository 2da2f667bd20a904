"""Operands of products in the order in which kernels read them: `packed_chunk` of native/products.cu, on the host.

What is computed is packed by the kernel `pack`; constants are packed here once, with the bounds of their lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import golden

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Places = npt.NDArray[np.int64]

__all__ = [
    "CHUNK",
    "GROUP",
    "PACKED",
    "PART",
    "bounds_of_lines",
    "constant_extremes",
    "decoded",
    "pack_lines",
    "pad_places",
]

GROUP = 64
CHUNK = 16
PART = 4
PACKED = np.dtype([("numbers", np.float32, (CHUNK, GROUP)), ("halves", np.uint16, (CHUNK * GROUP,))])
SAFE = np.float32(1.0001)
"""Sums and norms in float32 are below their true values by less than this."""
NEVER_DROPPED_FROM = 13
"""The exponent's field of 2⁻², from which on no number is dropped."""


def halves_places(*, left: bool) -> Places:
    """Return where the halves of steps and lines are, as `threshold_place` and `magnitude_place` say.

    >>> halves_places(left=True)[0, [0, 3, 4, 16, 32]].tolist(), halves_places(left=False)[:3, 5].tolist()
    ([0, 3, 8, 4, 32], [9, 13, 137])
    """
    step, line = np.arange(CHUNK)[:, None], np.arange(GROUP)
    if left:
        return step * GROUP + (line & 32) + (line & 12) * 2 + (line & 16) // 4 + (line & 3)
    return (step // 2 * GROUP + (line & ~3)) * 2 + step % 2 * 4 + (line & 3)


def pack_lines(values: Array, places: Places, lines: Places, steps: Places, *, left: bool) -> Array:
    """Return lines packed, [batch][group][chunk]: left numbers moved, with thresholds, or right ones with magnitudes.

    >>> one = pack_lines(np.array([0.5, -2], np.float16), *(np.arange(n) for n in (1, 1, 2)), left=False)[0, 0, 0]
    >>> one["numbers"][:3, 0].tolist(), one["halves"][[0, 4, 8]].tolist()
    ([0.5, -2.0, 0.0], [14336, 16384, 0])
    """
    where = halves_places(left=left)
    groups, chunks = -(-len(lines) // GROUP), -(-len(steps) // CHUNK)
    out = np.zeros((len(places), groups, chunks), PACKED)
    for number, place in enumerate(places):
        for group in range(groups):
            here = values[(place + lines[group * GROUP : (group + 1) * GROUP])[:, None] + steps]
            whole = np.zeros((GROUP, chunks * CHUNK), np.float16)
            whole[: here.shape[0], : here.shape[1]] = here
            bits = np.ascontiguousarray(whole.T).view(np.uint16).reshape(chunks, CHUNK, GROUP)
            numbers = decoded(bits.view(np.float16))
            if left:
                field = np.maximum(bits >> 10 & 31, 1)
                numbers = (numbers.view(np.uint32) + np.uint32(1)).view(np.float32)
                halves = np.where(field < NEVER_DROPPED_FROM, (14 - np.minimum(field, 14)) << 10, 0)
            else:
                halves = bits & 0x7FFF
            out[number, group]["numbers"] = numbers
            out[number, group]["halves"][:, where] = halves
    return out


def decoded(values: Array) -> Array:
    """Return fp16 numbers in float32 as the engine reads them, which holds them exactly.

    >>> decoded(np.array([0.5, np.inf, np.nan], np.float16)).tolist()
    [0.5, 65536.0, 98304.0]
    """
    numbers = values.astype(np.float32)
    special = ~np.isfinite(numbers)
    if special.any():
        numbers[special] = golden.decode_operand(values[special])[0]
    return numbers


def bounds_of_lines(values: Array, places: Places, lines: Places, steps: Places) -> tuple[Array, ...]:
    """Return the largest sums and norms among the lines of a group, as `operand` of native/products.cu has them.

    They are sums of magnitudes and norms of every part, norms of every chunk, and the largest sum of a part, of a
    chunk and of all steps.

    >>> sums, norms, chunks, wholes = bounds_of_lines(np.full(8, -3, np.float16), *(np.arange(n) for n in (1, 1, 8)))
    >>> sums.round(1).tolist(), norms.round(1).tolist(), chunks.round(1).tolist(), wholes.round(1).tolist()
    ([[[12.0, 12.0]]], [[[6.0, 6.0]]], [[[8.5]]], [[[12.0, 24.0, 24.0]]])
    """
    groups, parts, chunks = (
        -(-count // size) for count, size in ((len(lines), GROUP), (len(steps), PART), (len(steps), CHUNK))
    )
    found = np.zeros((2, len(places), groups, parts), np.float32)
    norms = np.zeros((len(places), groups, chunks), np.float32)
    for number, place in enumerate(places):
        for group in range(groups):
            part = np.abs(decoded(values[(place + lines[group * GROUP : (group + 1) * GROUP])[:, None] + steps]))
            whole = np.zeros((part.shape[0], chunks * CHUNK), np.float32)
            whole[:, : part.shape[1]] = part
            cells = whole.reshape(part.shape[0], chunks * (CHUNK // PART), PART)[:, :parts]
            found[0, number, group] = cells.sum(axis=-1).max(axis=0)
            found[1, number, group] = np.sqrt(np.square(cells).sum(axis=-1).max(axis=0))
            norms[number, group] = np.sqrt(np.square(whole).reshape(-1, chunks, CHUNK).sum(axis=-1).max(axis=0))
    by_chunk = np.add.reduceat(found[0], np.arange(0, parts, CHUNK // PART), axis=-1)
    wholes = np.stack([found[0].max(axis=-1), by_chunk.max(axis=-1), by_chunk.sum(axis=-1)], axis=-1)
    return tuple(one * SAFE for one in (*found, norms, wholes))


def constant_extremes(values: Array) -> npt.NDArray[np.uint32]:
    """Return the bits of the largest magnitude of fp16 numbers, and of the least above 0."""
    bits = values.view(np.uint16) & np.uint16(0x7FFF)
    least = bits[bits > 0].min(initial=0xFFFF)
    return np.array([bits.max(initial=0), least], np.uint32)


def pad_places(places: Places, whole: int) -> Places:
    """Return places up to a multiple of some, the first one again where there are too few.

    >>> pad_places(np.array([3, 5, 9]), 4).tolist()
    [3, 5, 9, 3]
    """
    return np.concatenate([places, np.full(-len(places) % whole, places[0])])
