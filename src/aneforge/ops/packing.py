"""Elements of a few bits, one after the other without gaps, the lowest bit of the first element first.

So files have them (blobs of MIL, saved programs), and so palettes hold their indices in memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from aneforge.arrays import np
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.ops.types import Array

__all__ = ["Packed", "count_packed_bytes", "expect_no_more", "pack_bits", "unpack_bits"]

AT_ONCE = 1 << 20
"""Elements that are packed at once, a multiple of eight, so that every part but the last ends with a byte."""


def count_packed_bytes(count: int, bits: int) -> int:
    """Return how many bytes so many elements take.

    >>> count_packed_bytes(3, 4), count_packed_bytes(16, 1)
    (2, 2)
    """
    return -(-count * bits // 8)


def pack_bits(elements: Array, bits: int) -> Array:
    """Return elements of one byte each, none of which needs more than so many bits, as bytes without gaps.

    >>> pack_bits(np.array([1, 2, 15], np.uint8), 4).tolist()
    [33, 15]
    """
    flat = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    made = np.empty(count_packed_bytes(flat.size, bits), np.uint8)
    for start in range(0, flat.size, AT_ONCE):
        part = flat[start : start + AT_ONCE]
        begin, length = start * bits // 8, count_packed_bytes(part.size, bits)
        made[begin : begin + length] = pack_words(part, bits)[:length]
    return made


def pack_words(elements: Array, bits: int) -> Array:
    """Return elements as bytes without gaps, in whole groups."""
    group, each, kind = group_of(bits)
    whole = elements if elements.size % each == 0 else np.pad(elements, (0, -elements.size % each))
    words = np.zeros(whole.size // each, kind)
    for place in range(each):
        words |= np.left_shift(whole[place::each], kind(place * bits), dtype=kind)
    if group == 1:
        return words
    return np.stack([(words >> kind(8 * place)).astype(np.uint8) for place in range(group)], axis=1).reshape(-1)


def unpack_bits(stored: Array, bits: int, count: int) -> Array:
    """Return so many elements of one byte each.

    >>> unpack_bits(np.array([33, 15], np.uint8), 4, 3).tolist()
    [1, 2, 15]
    """
    made = np.empty(count, np.uint8)
    for start in range(0, count, AT_ONCE):
        part = made[start : start + AT_ONCE]
        begin = start * bits // 8
        part[:] = unpack_words(stored[begin : begin + count_packed_bytes(part.size, bits)], bits)[: part.size]
    return made


def unpack_words(stored: Array, bits: int) -> Array:
    """Return the elements of bytes, the last group filled up."""
    group, each, kind = group_of(bits)
    whole = stored if stored.size % group == 0 else np.pad(stored, (0, -stored.size % group))
    words = np.zeros(whole.size // group, kind)
    for place in range(group):
        words |= np.left_shift(whole[place::group], kind(8 * place), dtype=kind)
    made = np.empty((words.size, each), np.uint8)
    for place in range(each):
        made[:, place] = words >> kind(place * bits) & kind((1 << bits) - 1)
    return made.reshape(-1)


def group_of(bits: int) -> tuple[int, int, type[np.uint8 | np.uint64]]:
    """Return the fewest bytes that hold a whole count of elements of some bits, that count, and a type for the bytes.

    >>> [group_of(bits)[:2] for bits in (4, 3, 6)]
    [(1, 2), (3, 8), (3, 4)]
    """
    group = math.lcm(bits, 8) // 8
    return group, group * 8 // bits, np.uint8 if group == 1 else np.uint64


def expect_no_more(stored: Array, bits: int, count: int) -> None:
    """Check that bytes have so many elements, and nothing after the last.

    Raises:
        ValueError: They have more or fewer, or bits after the last one are set.
    """
    if stored.dtype != np.uint8 or stored.shape != (count_packed_bytes(count, bits),):
        raise ValueError(f"{stored.dtype} {list(stored.shape)} are not {count} elements of {bits} bits in bytes")
    over = 8 * stored.size - count * bits
    if over and int(stored[-1]) >> (8 - over):
        raise ValueError("bits after its last element are set")


@dataclass(frozen=True, eq=False)
class Packed:
    """Unsigned integers of a few bits in a shape, held without gaps: whoever asks for them gets them unpacked.

    >>> packed = Packed.of(np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint8), 4)
    >>> packed.stored.tolist(), packed.part(0, 1, 1).unpacked().tolist()
    ([33, 67, 101, 135], [[5, 6, 7, 8]])
    """

    stored: Array
    """The bytes, which nobody can write to."""
    shape: tuple[int, ...]
    bits: int

    def __post_init__(self) -> None:
        expect_no_more(self.stored, self.bits, self.size)

    @classmethod
    def of(cls, elements: Array, bits: int) -> Self:
        """Return elements of one byte each, packed; read-only ones of eight bits are not copied."""
        stored = elements
        if bits < 8 or elements.flags.writeable or not elements.flags.c_contiguous:
            stored = pack_bits(elements, bits) if bits < 8 else np.array(elements, order="C")
            stored.flags.writeable = False
        return cls(stored.reshape(-1), tuple(elements.shape), bits)

    @property
    def size(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    def runs(self) -> Iterator[Array]:
        """Yield them unpacked in a row, some at a time."""
        for start in range(0, self.size, AT_ONCE):
            yield self.run(start, min(AT_ONCE, self.size - start))

    def run(self, first: int, count: int) -> Array:
        """Return some of them in a row, from one on that begins a byte."""
        begin = first * self.bits // 8
        stored = self.stored[begin : begin + count_packed_bytes(count, self.bits)]
        return stored if self.bits == 8 else unpack_bits(stored, self.bits, count)

    def unpacked(self) -> Array:
        """Return them with a byte each, read-only."""
        made = self.run(0, self.size).reshape(self.shape)
        made.flags.writeable = False
        return made

    def reshape(self, *shape: int) -> Self:
        """Return them in another shape of as many, over the same bytes."""
        return type(self)(self.stored, shape, self.bits)

    @property
    def T(self) -> Self:  # noqa: N802 - as arrays have it
        """They with the axes in the opposite order."""
        return self.of(self.unpacked().T, self.bits)

    def part(self, axis: int, begin: int, size: int) -> Self:
        """Return a part along an axis: over the same bytes where it is whole bytes one after the other."""
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        inner = math.prod(self.shape[axis + 1 :])
        first, count = begin * inner * self.bits, size * inner * self.bits
        if math.prod(self.shape[:axis]) == 1 and first % 8 == 0 and count % 8 == 0:
            return type(self)(self.stored[first // 8 : (first + count) // 8], shape, self.bits)
        index = (slice(None),) * axis + (slice(begin, begin + size),)
        return self.of(self.unpacked()[index], self.bits)
