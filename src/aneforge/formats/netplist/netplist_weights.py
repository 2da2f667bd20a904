"""Weights files: constants and kernels as arrays that look into the files, which are not read before they are used."""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.formats.netplist.plist import quote_value
from aneforge.formats.netplist.schema import layer_table
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from mmap import mmap
    from typing import Any

    from aneforge.errors import Location
    from aneforge.formats.netplist.document import ConstantEntry, Network
    from aneforge.ops.types import Array

    Buffer = bytes | bytearray | memoryview[Any] | mmap

__all__ = ["WeightFiles"]

MOST_MADE = 1 << 27
"""Bytes that a description may make without a file: kernels of ones."""
MOST_COPIES = 4
"""How often the bytes of the files may be copied, to undo interleaving."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A part of a file that something is in."""

    start: int
    end: int
    owner: str
    location: Location | None


@dataclass
class WeightFiles:
    """The weights files of a description by name, and which parts of them are taken."""

    files: Mapping[str, Buffer]
    taken: dict[str, list[Taken]] = field(default_factory=dict[str, list[Taken]])
    made: int = 0
    """Bytes that were made in memory, and are in no file."""

    def make_room(self, nbytes: int, what: str, location: Location | None) -> None:
        """Count bytes that are made in memory.

        Raises:
            GraphError: A description makes more than its size warrants.
        """
        self.made += nbytes
        if self.made > self.most_made:
            raise GraphError(
                f"{what} would take more memory than the weights files warrant",
                location=location,
                seen=f"{self.made} bytes",
                limit=f"{self.most_made} bytes",
            )

    @cached_property
    def most_made(self) -> int:
        """How many bytes may be made in memory."""
        return MOST_MADE + MOST_COPIES * sum(bytes_of(name, held, None).nbytes for name, held in self.files.items())

    def constant(self, network: Network, entry: ConstantEntry) -> Constant:
        """Return a constant of a network, in the shape of a graph's tensor.

        Raises:
            GraphError: Its file is missing or too short, or its channels cannot be interleaved so.
        """
        dims, interleave = entry.dims, entry.interleave
        owner = f"constant {quote_value(entry.symbol)}"
        values = self.array(network, entry.file, entry.offset, entry.type, dims.extents, owner, entry.location)
        if interleave == 1:
            return Dense(values.reshape(dims.shape))
        if dims.channel % interleave:
            raise GraphError(
                f"{owner}: {dims.channel} channels cannot be interleaved in groups of {interleave}",
                location=entry.location,
                seen=f"{dims.channel} channels",
                limit=f"a multiple of {interleave}: no source says how the last group is padded",
            )
        self.make_room(values.nbytes, owner, entry.location)
        batch, channel, *rest = dims.extents
        apart = values.reshape(batch, channel // interleave, *rest, interleave)
        return Dense(np.moveaxis(apart, -1, 2).reshape(dims.shape))

    def array(
        self,
        network: Network,
        place: int,
        offset: int,
        element_type: str,
        shape: Sequence[int],
        owner: str,
        location: Location | None,
    ) -> Array:
        """Return a part of a file as a flat array that looks into it.

        Raises:
            GraphError: The file is missing or too short.
        """
        if place >= len(network.weights):
            raise GraphError(
                f"{owner} is in a weights file that the network does not list",
                location=location,
                seen=place,
                limit=f"less than {len(network.weights)}, as Weights lists",
            )
        name = network.weights[place]
        if name not in self.files:
            raise GraphError(
                f"{owner} is in a weights file that is missing",
                location=location,
                seen=quote_value(name),
                limit=", ".join(map(quote_value, self.files)) or "no weights files given",
                remedy="put the file next to the description, or give its bytes",
            )
        dtype = numpy_dtype(layer_table().element_types[element_type].dtype).newbyteorder("<")
        count = math.prod(shape)
        end = offset + count * dtype.itemsize
        held = bytes_of(name, self.files[name], location)
        if end > held.nbytes:
            raise GraphError(
                f"{owner} passes the end of {quote_value(name)}",
                location=location,
                seen=f"bytes {offset} to {end}" if end < 1 << 64 else "more bytes than any file has",
                limit=f"{held.nbytes} bytes",
            )
        self.taken.setdefault(name, []).append(Taken(offset, end, owner, location))
        values = np.frombuffer(held, dtype, count, offset)
        return values.astype(dtype.newbyteorder("="), copy=False)

    def check_overlaps(self) -> None:
        """Check that no two things are in the same bytes, unless in exactly the same.

        Raises:
            GraphError: Two overlap.
        """
        for name, parts in self.taken.items():
            ordered = sorted(parts, key=lambda part: (part.start, part.end))
            for before, after in pairwise(ordered):
                same = (before.start, before.end) == (after.start, after.end)
                if after.start < before.end and not same:
                    raise GraphError(
                        f"{after.owner} and {before.owner} overlap in {quote_value(name)}",
                        location=after.location,
                        seen=f"bytes {after.start} to {after.end}",
                        limit=f"from {before.end} on",
                    )


def bytes_of(name: str, held: object, location: Location | None) -> memoryview[Any]:
    """Return the bytes of a weights file.

    Raises:
        GraphTypeError: What was given for it holds no bytes.
    """
    try:
        return memoryview(cast("bytes", held)).cast("B")
    except TypeError:
        raise GraphTypeError(
            f"weights file {quote_value(name)} is not given as bytes", location=location, seen=type(held).__name__
        ) from None
