"""A description in the making: symbols as numbers, equal units once, named and pruned when it is finished."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import Location
from aneforge.formats.netplist.document import (
    RESERVED,
    ConstantEntry,
    Dims,
    InputEntry,
    Network,
    NetworkOutput,
    Operation,
    OutputEntry,
    Parameter,
    Procedure,
    Unit,
)
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.graph.node import Node
    from aneforge.ops.types import Array

__all__ = ["ALIGNMENT", "Draft", "DraftUnit", "Payload", "Port", "StoredArray"]

ALIGNMENT = 64
"""Bytes to which constants are aligned in their file."""
OPERATION = "op0"
EMPTY_FILE, PAYLOAD_FILE = "weights.0", "weights.1"
PAYLOAD_PLACE = 1


@dataclass(frozen=True, slots=True)
class DraftInput:
    """An input port."""

    name: str
    dims: Dims
    stored: str


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array as it will be in a weights file, and a hash of its bytes; its shape and type are stored separately."""

    data: memoryview
    digest: bytes

    @classmethod
    def of(cls, values: Array) -> StoredArray:
        """Return an array laid out; one that has that layout already is not copied."""
        little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
        data = little.reshape(-1).view(np.uint8).data
        return cls(data, hashlib.sha256(data).digest())


@dataclass(frozen=True, slots=True)
class DraftConstant:
    """A constant, laid out as it will be in its file."""

    laid: StoredArray
    dims: Dims
    stored: str


@dataclass(frozen=True, slots=True)
class DraftUnit:
    """A unit."""

    type: str
    bottoms: tuple[int, ...]
    params: Mapping[str, Parameter]
    channels: int
    stored: str
    groups: int | None = None
    kernel: StoredArray | None = None
    node: Node | None = None
    """The operation that it is written for."""


@dataclass(frozen=True, slots=True)
class Port:
    """An output port."""

    name: str
    symbol: int
    stored: str


class Payload:
    """A weights file in the making: equal bytes are in it once."""

    def __init__(self) -> None:
        self.chunks: list[bytes | memoryview] = []
        self.size = 0
        self.places: dict[bytes, int] = {}

    def put(self, laid: StoredArray) -> int:
        """Return the offset at which an array is."""
        if laid.digest not in self.places:
            gap = -self.size % ALIGNMENT
            self.chunks += [bytes(gap), laid.data] if gap else [laid.data]
            self.places[laid.digest] = self.size + gap
            self.size += gap + len(laid.data)
        return self.places[laid.digest]


class Draft:
    """Inputs, constants and units by their numbers."""

    def __init__(self) -> None:
        self.entries: list[DraftInput | DraftConstant | DraftUnit] = []
        self.known: dict[object, int] = {}
        self.sources: dict[int, Node] = {}
        """The operations that finished units are written for, by the identity of the units' locations."""

    def put(self, key: object, entry: DraftInput | DraftConstant | DraftUnit) -> int:
        """Return the number of an entry; an equal one that was there before has it already."""
        if key not in self.known:
            self.known[key] = len(self.entries)
            self.entries.append(entry)
        return self.known[key]

    def input(self, name: str, dims: Dims, stored: str) -> int:
        """Return the number of an input port."""
        return self.put(("input", name), DraftInput(name, dims, stored))

    def constant(self, values: Array, dims: Dims, stored: str) -> int:
        """Return the number of a constant."""
        laid = StoredArray.of(values)
        return self.put(("constant", laid.digest, dims, stored), DraftConstant(laid, dims, stored))

    def unit(self, unit: DraftUnit) -> int:
        """Return the number of a unit."""
        kernel = None if unit.kernel is None else unit.kernel.digest
        key = (unit.type, unit.bottoms, freeze(unit.params), unit.channels, unit.stored, unit.groups, kernel)
        return self.put(key, unit)

    def stored(self, symbol: int) -> str:
        """Return the element type of a symbol."""
        return self.entries[symbol].stored

    # The finished description

    def network(self, name: str, outputs: Sequence[Port], payload: Payload) -> tuple[Network, Procedure]:
        """Return the network and the procedure that runs it; what no output needs is left out."""
        needed = self.needed_symbols(port.symbol for port in outputs)
        names = self.names(needed, outputs)
        units: list[Unit] = []
        constants: list[ConstantEntry] = []
        for symbol in needed:
            entry = self.entries[symbol]
            if isinstance(entry, DraftUnit):
                units.append(self.finished_unit(entry, names[symbol], names, payload))
            elif isinstance(entry, DraftConstant):
                offset = payload.put(entry.laid)
                constants.append(ConstantEntry(names[symbol], entry.dims, PAYLOAD_PLACE, offset, entry.stored))
        shown = [NetworkOutput(port.name, names[port.symbol], port.stored) for port in outputs]
        files = (EMPTY_FILE, PAYLOAD_FILE) if constants or any("KernelIndex" in unit.params for unit in units) else ()
        inputs = [
            InputEntry(entry.name, entry.name, OPERATION, entry.dims, entry.stored)
            for entry in self.entries
            if isinstance(entry, DraftInput)
        ]
        procedure = Procedure(
            name,
            tuple(inputs),
            (Operation(OPERATION, name),),
            tuple(OutputEntry(port.name, port.name, OPERATION, port.stored) for port in outputs),
        )
        network = Network(name, tuple(units), tuple(shown), tuple(constants), files or (EMPTY_FILE,))
        return network, procedure

    def needed_symbols(self, outputs: Iterable[int]) -> list[int]:
        """Return the symbols that outputs need, in the order in which they were made; inputs are always needed."""
        found = {place for place, entry in enumerate(self.entries) if isinstance(entry, DraftInput)}
        stack = list(outputs)
        while stack:
            symbol = stack.pop()
            if symbol in found:
                continue
            found.add(symbol)
            entry = self.entries[symbol]
            stack += entry.bottoms if isinstance(entry, DraftUnit) else ()
        return sorted(found)

    def names(self, needed: Iterable[int], outputs: Sequence[Port]) -> dict[int, str]:
        """Return names for symbols that nothing else has."""
        taken = {*RESERVED, *(port.name for port in outputs)}
        taken |= {entry.name for entry in self.entries if isinstance(entry, DraftInput)}
        counts = {"u": 0, "c": 0}
        names: dict[int, str] = {}
        for symbol in needed:
            entry = self.entries[symbol]
            if isinstance(entry, DraftInput):
                names[symbol] = entry.name
                continue
            letter = "u" if isinstance(entry, DraftUnit) else "c"
            while (name := f"{letter}{counts[letter]}") in taken:
                counts[letter] += 1
            counts[letter] += 1
            names[symbol] = name
        return names

    def finished_unit(self, unit: DraftUnit, name: str, names: Mapping[int, str], payload: Payload) -> Unit:
        """Return a unit by the names of its symbols."""
        params = dict(unit.params)
        if unit.kernel is not None:
            params |= {"KernelIndex": PAYLOAD_PLACE, "KernelOffset": payload.put(unit.kernel)}
        return Unit(
            name=name,
            type=unit.type,
            bottoms=tuple(names[bottom] for bottom in unit.bottoms),
            params=params,
            input_types=tuple(self.stored(bottom) for bottom in unit.bottoms),
            output_type=unit.stored,
            output_channels=unit.channels,
            groups=unit.groups,
            location=self.place_of(unit),
        )

    def place_of(self, unit: DraftUnit) -> Location | None:
        """Return where the user made what a unit is written for, in an object by which the unit's node is known."""
        if unit.node is None:
            return None
        known = unit.node.location or Location()
        place = Location(known.file, known.line, known.node)
        self.sources[id(place)] = unit.node
        return place


def freeze(value: Parameter) -> object:
    """Return a parameter in a form that can be a key; numbers of different types are distinguished."""
    if isinstance(value, Mapping):
        return tuple((key, freeze(item)) for key, item in sorted(value.items()))
    if isinstance(value, tuple):
        return tuple(map(freeze, value))
    return type(value).__name__, repr(value)
