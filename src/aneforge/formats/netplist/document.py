"""A network description in types: what the file says, wired by symbol, before any of it is a graph.

The reader makes it out of a property list, the writer out of a graph; both know its keys from here.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from aneforge.formats.netplist.schema import Dim
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.errors import Location

__all__ = [
    "RESERVED",
    "ConstantEntry",
    "Dims",
    "Document",
    "InputEntry",
    "Network",
    "NetworkOutput",
    "Operation",
    "OutputEntry",
    "Parameter",
    "Procedure",
    "Unit",
]

RESERVED = frozenset({"Units", "Weights", "Constants"})
"""Keys of a network that are not symbols."""

Parameter: TypeAlias = "bool | int | float | str | tuple[Parameter, ...] | Mapping[str, Parameter]"
"""A value in `Params` of a unit."""


@dataclass(frozen=True, slots=True)
class Dims:
    """The shape of a tensor: five extents.

    >>> dims = Dims(channel=3, width=8)
    >>> dims.size, dims.at(Dim.CHANNEL), dims.shape
    (24, 3, (1, 3, 1, 8))
    >>> str(dims)
    'batch 1, channel 3, depth 1, height 1, width 8'
    """

    batch: int = 1
    channel: int = 1
    depth: int = 1
    height: int = 1
    width: int = 1

    @classmethod
    def of(cls, extents: Mapping[Dim, int]) -> Dims:
        """Return the shape with some extents; the others are 1."""
        return cls(*(extents.get(dim, 1) for dim in Dim))

    @property
    def extents(self) -> tuple[int, int, int, int, int]:
        """The extents in the order of `Dim`."""
        return self.batch, self.channel, self.depth, self.height, self.width

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a graph's tensor: without the depth where that is 1."""
        return self.extents if self.depth != 1 else (self.batch, self.channel, self.height, self.width)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.extents)

    def at(self, dim: Dim) -> int:
        """Return one extent."""
        return self.extents[dim]

    def __str__(self) -> str:
        return ", ".join(f"{dim.name.lower()} {extent}" for dim, extent in zip(Dim, self.extents, strict=True))


@dataclass(frozen=True, slots=True)
class InputEntry:
    """An entry of an `InputList`: a port from outside, and the symbol of a network that it feeds."""

    name: str
    symbol: str
    operation: str
    dims: Dims
    type: str = "Float16"
    interleave: int = 1
    """How many channels are side by side in memory; it changes where elements are, not which there are."""


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """An entry of an `OutputList`: a port to outside, and the symbol of a network that it shows."""

    name: str
    symbol: str
    operation: str
    type: str = "Float16"
    interleave: int = 1
    channels: int | None = None
    """OutputChannels, which some descriptions state here; it is not binding."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An entry of an `OperationList`: one run of a network."""

    name: str
    network: str


@dataclass(frozen=True, slots=True)
class Procedure:
    """A callable entry point."""

    name: str
    inputs: tuple[InputEntry, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[OutputEntry, ...]
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ConstantEntry:
    """A constant tensor: where it is in which weights file."""

    symbol: str
    dims: Dims
    file: int
    """Its place in the network's list of weights files."""
    offset: int
    type: str = "Float16"
    interleave: int = 1
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Unit:
    """A layer: its type, the symbols that it reads, and its parameters."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    params: Mapping[str, Parameter]
    input_types: tuple[str, ...]
    output_type: str = "Float16"
    output_channels: int | None = None
    groups: int | None = None
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NetworkOutput:
    """A symbol of a network that procedures can show."""

    symbol: str
    bottom: str
    type: str = "Float16"
    interleave: int = 1
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Network:
    """Units wired by symbol, in their order, with constants and weights files."""

    name: str
    units: tuple[Unit, ...]
    outputs: tuple[NetworkOutput, ...]
    constants: tuple[ConstantEntry, ...] = ()
    weights: tuple[str, ...] = ()
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Document:
    """A whole network description."""

    networks: tuple[Network, ...]
    procedures: tuple[Procedure, ...]
    version: str = "1.0.10"
