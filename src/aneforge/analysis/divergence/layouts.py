"""Values that are parts or other shapes of others, in one form: a number for the elements, and a shape around it.

Passes cut a layer that is too long for a target and join the parts, fold an axis into two, or send a slice through a
column. What such layers do to single elements is the same, so it is numbered on the whole: a function of single
elements goes below parts and shapes, parts that are side by side are joined again, and a reduction sees rows. Elements
are in rows, the last axis innermost, so that a part along one axis is a part of every row of a table with two axes.

Elements that are brought to any other places are known by these places, counted in what they come from at last. That
costs memory, so transposes by themselves are only remembered; they are looked through where something else is gathered.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.analysis.divergence.passages import Passage
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Places = npt.NDArray[np.int32]
    Key = tuple[object, ...]
    Shape = tuple[int, ...]
    Rows = tuple[int, int, int]

__all__ = ["Content", "Layouts", "rows_of"]

MOST_PLACES = 1 << 24
"""Of what elements are gathered from: what larger ones are made of is not looked through."""


@dataclass(frozen=True, slots=True)
class Content:
    """Elements in their order: the number of the value that holds them, and the shape that this value has."""

    number: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class Part:
    """A part of every row of a table."""

    rows: int
    length: int
    """Of a whole row."""
    begin: int
    size: int

    @property
    def places(self) -> Places:
        """The places in the whole of all elements."""
        first = np.arange(self.rows, dtype=np.int32)[:, None] * np.int32(self.length) + np.int32(self.begin)
        return (first + np.arange(self.size, dtype=np.int32)).reshape(-1)


@dataclass(frozen=True, slots=True)
class Turn:
    """Another order of axes, of a tensor without axes of one place."""

    shape: Shape
    perm: Shape

    @property
    def turned(self) -> Shape:
        """The shape after it."""
        return tuple(self.shape[axis] for axis in self.perm)

    @property
    def places(self) -> Places:
        """The places before of all elements."""
        return np.arange(math.prod(self.shape), dtype=np.int32).reshape(self.shape).transpose(self.perm).reshape(-1)


@dataclass(slots=True)
class Layouts:
    """Numbers for values that only arrange the elements of others; `number` gives one for every key."""

    number: Callable[[Key], int]
    contents: dict[int, Content] = field(default_factory=dict[int, Content])
    """What is under a number that stands for another shape."""
    parts: dict[int, tuple[Content, Part]] = field(default_factory=dict[int, tuple[Content, Part]])
    """Of what an element's number is a part."""
    turns: dict[int, tuple[Content, Turn]] = field(default_factory=dict[int, tuple[Content, Turn]])
    """Of what a number holds the elements with the axes in another order."""
    gathers: dict[int, tuple[Content, Places]] = field(default_factory=dict[int, "tuple[Content, Places]"])
    """Of what a number holds elements, and their places there."""

    def content(self, number: int, shape: Shape) -> Content:
        """Return the elements of a value."""
        return self.contents.get(number, Content(number, shape))

    def shaped(self, content: Content, shape: Shape) -> int:
        """Return the number of elements in a shape."""
        if shape == content.shape:
            return content.number
        number = self.number(("shaped", content.number, shape))
        self.contents[number] = content
        return number

    def part(self, content: Content, part: Part) -> Content:
        """Return a part of elements; all of them are themselves."""
        if part.size == part.length:
            return content
        number = self.number(("part", content.number, part.rows, part.length, part.begin, part.size))
        self.parts[number] = content, part
        return Content(number, (part.rows, part.size))

    def cut(self, number: int, shape: Shape, begins: Sequence[int], sizes: Sequence[int]) -> int:
        """Return the number of a block of a value, which is cut along one axis after the other."""
        content, now = self.content(number, shape), list(shape)
        for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
            inner = math.prod(now[axis + 1 :])
            rows = math.prod(now[:axis])
            content = self.part(content, Part(rows, now[axis] * inner, begin * inner, size * inner))
            now[axis] = size
        return self.shaped(content, tuple(now))

    def joined(self, values: Sequence[tuple[int, Shape]], axis: int, shape: Shape) -> int | None:
        """Return the number of values that are joined along an axis; None where they are not parts side by side."""
        found = [self.parts.get(self.content(number, own).number) for number, own in values]
        parts = [one for one in found if one is not None]
        if len(parts) != len(found) or not parts:
            return None
        (whole, first), end = parts[0], parts[0][1].begin
        for (base, part), (_, own) in zip(parts, values, strict=True):
            same = (base, part.rows, part.length) == (whole, first.rows, first.length)
            along = part.rows == math.prod(own[:axis]) and part.size == math.prod(own[axis:])
            if not same or not along or part.begin != end:
                return None
            end += part.size
        merged = Part(first.rows, first.length, first.begin, end - first.begin)
        return self.shaped(self.part(whole, merged), shape)

    def transposed(self, number: int, shape: Shape, perm: Sequence[int]) -> int:
        """Return the number of a value with its axes in another order."""
        content, own = self.content(number, shape), [axis % len(shape) for axis in perm]
        long = [axis for axis, extent in enumerate(shape) if extent != 1]
        turn = Turn(tuple(shape[axis] for axis in long), tuple(long.index(axis) for axis in own if shape[axis] != 1))
        permuted = tuple(shape[axis] for axis in own)
        base, before = self.turns.get(content.number, (content, None))
        if before is not None and before.turned == turn.shape:
            content, turn = base, Turn(before.shape, tuple(before.perm[axis] for axis in turn.perm))
        if turn.perm == tuple(range(len(turn.perm))):
            return self.shaped(content, permuted)
        if content.number in self.gathers:
            return self.gathered(content, turn.places, Passage.COPY, permuted)
        made = self.number(("transposed", content.number, turn.shape, turn.perm))
        self.turns[made] = content, turn
        return self.shaped(Content(made, turn.turned), permuted)

    def gathered(self, source: Content, places: Places, passage: Passage, shape: Shape) -> int:
        """Return the number of elements at some places, and in a shape, when each has passed something on its way.

        Where they are all elements in order of something on the way to where they come from, they are that.
        """
        content, whole = source, places
        while passage is not Passage.COPY or not in_order(whole, content):
            found = self.gathers.get(content.number) or self.parts.get(content.number) or self.turns.get(content.number)
            if found is None or math.prod(content.shape) > MOST_PLACES:
                break
            content, before = found
            whole = (before.places if isinstance(before, Part | Turn) else before)[whole]
        if passage is not Passage.COPY:
            content = Content(self.number(("passed", passage, content.number)), content.shape)
            source, places = content, whole
        if in_order(whole, content):
            return self.shaped(content, shape)
        made = self.number(("gathered", content.number, hashlib.sha256(whole.tobytes()).digest()))
        self.gathers.setdefault(made, (source, places))
        return self.shaped(Content(made, whole.shape), shape)

    def mapped(
        self, numbers: Sequence[int], shape: Shape, make: Callable[[tuple[int, ...]], int], rank: int = 0
    ) -> int:
        """Return the number of a function of single elements of values of one shape.

        `make` numbers it for values, which are what the given ones are parts or other shapes of; `rank` is that of the
        single numbers next to them. Where the values have several shapes, or fewer axes, the function would broadcast
        them: the number is another then.
        """
        contents = [self.content(number, shape) for number in numbers]
        taken: list[Part] = []
        while True:
            found = [self.parts.get(content.number) for content in contents]
            parts = [one for one in found if one is not None]
            if len(parts) != len(contents) or len({part for _, part in parts}) != 1:
                break
            taken.append(parts[0][1])
            contents = [base for base, _ in parts]
        made, own = make(tuple(content.number for content in contents)), contents[0].shape
        plain = len({content.shape for content in contents}) == 1 and rank <= len(own)
        content = Content(made if plain else self.number(("elements", made)), own)
        for part in reversed(taken):
            content = self.part(content, part)
        return self.shaped(content, shape)

    def reduced(self, content: Content, rows: Rows, make: Callable[[int, Rows], int]) -> Content:
        """Return what a reduction of rows makes of elements; that of a part that holds whole rows is a part.

        `make` numbers it for the number of elements and their rows.
        """
        base, part = self.parts.get(content.number, (content, None))
        wider = None if part is None else in_whole_rows(part, rows)
        if wider is None:
            return Content(make(content.number, rows), (rows[0], rows[2]))
        whole, taken = wider
        return self.part(self.reduced(base, whole, make), taken)


def in_order(places: Places, content: Content) -> bool:
    """Return whether places are all of a content, one after another."""
    size = math.prod(content.shape)
    return places.size == size and np.array_equal(places, np.arange(size, dtype=np.int32))


def in_whole_rows(part: Part, rows: Rows) -> tuple[Rows, Part] | None:
    """Return the rows of a whole whose part has some, and the part of their results; None where rows were cut.

    >>> in_whole_rows(Part(1, 40, 20, 20), (5, 4, 1)), in_whole_rows(Part(4, 9, 3, 2), (1, 4, 2))
    (((10, 4, 1), Part(rows=1, length=10, begin=5, size=5)), ((1, 4, 9), Part(rows=1, length=9, begin=3, size=2)))
    >>> in_whole_rows(Part(1, 40, 10, 20), (1, 20, 1)) is None
    True
    """
    outer, terms, inner = rows
    if not any(extent % (terms * inner) for extent in (part.length, part.begin, part.size)):
        result = Part(part.rows, part.length // terms, part.begin // terms, part.size // terms)
        return (part.rows * part.length // (terms * inner), terms, inner), result
    if part.rows % (outer * terms):
        return None
    before = part.rows // (outer * terms)
    return (outer, terms, before * part.length), Part(outer * before, part.length, part.begin, part.size)


def rows_of(shape: Shape, axes: Sequence[int]) -> Rows | None:
    """Return how a reduction sees a tensor: what is before its axes, along them, and after; None where they are apart.

    Axes of one place count for nothing.

    >>> rows_of((4, 1, 2, 8), (2, 3)), rows_of((4, 1, 16), (1, 2)), rows_of((4, 5, 6), (0, 2))
    ((4, 16, 1), (4, 16, 1), None)
    """
    extents = [1, 1, 1]
    place = 0
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        goes = axis in axes
        place = 1 if goes and place == 0 else 2 if not goes and place == 1 else place
        if goes != (place == 1):
            return None
        extents[place] *= extent
    return extents[0], extents[1], extents[2]
