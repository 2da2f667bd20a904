"""Constants that are in memory already: what an entry of the cache leaves out, and what programs of one process share.

Weights are most of a program. An entry is looked up by its graph, whose weights are in memory then. The program takes
them where they are, whole or in parts: neither the disk nor the memory has them once more for every program. Weights
that the compiler made, such as encoded ones that it folded, are in the entry; programs that have the same share them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from aneforge.ops.declared import Declared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import Graph
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array

__all__ = ["NOTHING_KNOWN", "SHARED", "KnownArrays"]

SHARED: WeakValueDictionary[str, Constant] = WeakValueDictionary()
"""Constants of programs that were read or written, by their hashes, as long as somebody has them."""
STATED = re.compile(r"^ *constant @(\S+) : .* sha256:([0-9a-f]{64})$", re.MULTILINE)


class KnownArrays:
    """Arrays by name: the hash of the constant that they are of, and their name in it.

    >>> whole = np.arange(6, dtype=np.int8)
    >>> known = KnownArrays({"weights": whole})
    >>> known.place(whole[2:].reshape(2, 2)), known.place(whole.copy())
    (('weights', 2), None)
    >>> known.find("weights", 2, 4).tolist(), known.find("weights", 4, 4)
    ([2, 3, 4, 5], None)
    """

    def __init__(self, by_name: Mapping[str, Array], *, share: bool = True) -> None:
        self.by_name = by_name
        self.share = share
        """Whether constants of other programs are taken too; a file that stands by itself is read and checked whole."""

    def shared(self, text: str) -> Mapping[str, Constant]:
        """Return constants of other programs, by the symbols of a program's text, which has their hashes."""
        stated: list[tuple[str, str]] = STATED.findall(text) if self.share else []
        found = ((symbol, SHARED.get(digest)) for symbol, digest in stated)
        return {symbol: constant for symbol, constant in found if constant is not None}

    @classmethod
    def of(cls, graph: Graph) -> KnownArrays:
        """Return the arrays of a graph's constants."""
        found: dict[str, Array] = {}
        for constant in graph.constants.values():
            if not isinstance(constant, Declared):  # it has no values
                found |= {f"{constant.digest} {name}": part for name, part in constant.parts.items()}
        return cls({name: part for name, part in found.items() if part.flags.c_contiguous and part.size})

    @cached_property
    def places(self) -> list[tuple[int, int, str]]:
        """Where the arrays begin and end in memory, in order."""
        begins = ((array.ctypes.data, array.nbytes, name) for name, array in self.by_name.items())
        return sorted((begin, begin + size, name) for begin, size, name in begins)

    def place(self, array: Array) -> tuple[str, int] | None:
        """Return the name of the array that has another's memory, and the byte of it at which that begins."""
        if not array.flags.c_contiguous or not array.size:
            return None
        start = array.ctypes.data
        number = bisect_right(self.places, start, key=lambda one: one[0]) - 1
        if number < 0:
            return None
        begin, end, name = self.places[number]
        return (name, start - begin) if start + array.nbytes <= end else None

    def find(self, name: str, begin: int, length: int) -> Array | None:
        """Return so many bytes that an array has from one on, None where there is no such array or it is too short.

        Whether its numbers are those that were written is for the hash of a constant to say.
        """
        whole = self.by_name.get(name)
        if whole is None or not 0 <= begin <= whole.nbytes - length:
            return None
        return whole.reshape(-1).view(np.uint8)[begin : begin + length]


NOTHING_KNOWN = KnownArrays({}, share=False)
"""For a file that stands by itself."""
