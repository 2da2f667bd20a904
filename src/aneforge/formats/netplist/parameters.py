"""`Params` of a unit, checked against the table of layers: every key known, every value of its kind and domain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import NotSupportedError
from aneforge.formats.netplist.plist import PlistDict, PlistValue, quote_value
from aneforge.formats.netplist.rows import row_of_unit
from aneforge.formats.netplist.schema import DIMENSIONS, Dim, ParamEntry, ParamKind, layer_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.formats.netplist.document import Parameter
    from aneforge.formats.netplist.keys import Keys

__all__ = ["Parameters", "bits_of", "number_of", "read_params", "records_of"]

BITS = (-(1 << 15), (1 << 16) - 1)
"""Bit patterns of fp16 are written as numbers of 16 bits, with a sign or without."""


def number_of(bits: int) -> float:
    """Return the number of which 16 bits are the fp16.

    >>> number_of(0x3C00), number_of(-32768)
    (1.0, -0.0)
    """
    return float(np.array([bits & 0xFFFF], np.uint16).view(np.float16)[0])


def bits_of(value: float) -> int:
    """Return the bit pattern of a number in fp16, rounded to it.

    >>> hex(bits_of(1.0)), hex(bits_of(-0.1))
    ('0x3c00', '0xae66')
    """
    with np.errstate(over="ignore"):
        return int(np.array([value]).astype(np.float16).view(np.uint16)[0])


def read_params(layer: str, unit: Keys) -> Mapping[str, Parameter]:
    """Return the parameters of a unit, defaults filled in; numbers that were bit patterns are numbers.

    Raises:
        GraphError: A parameter is missing, or of another kind.
        UnknownNameError: A parameter is unknown, or a choice is none.
        NotSupportedError: No source says what a value means.
    """
    entries = layer_table().layers[layer].params
    found = unit.get("Params")
    keys = unit.as_child("Params", PlistDict() if found is None else found, unit.what)
    params = read_entries(entries, keys, layer)
    if layer == "Neuron":
        check_neuron(params, keys)
    return params


def read_entries(entries: Mapping[str, ParamEntry], keys: Keys, layer: str) -> dict[str, Parameter]:
    """Return the values of several parameters."""
    params: dict[str, Parameter] = {}
    for name, entry in entries.items():
        found = keys.get(name)
        if found is None and entry.default is not None:
            params[name] = entry.default
        elif found is not None or not entry.optional:
            value = read_value(name, entry, keys.need(name) if found is None else found, keys, layer)
            check_known(name, entry, value, keys, layer)
            params[name] = value
    keys.finish()
    return params


def read_value(name: str, entry: ParamEntry, found: PlistValue, keys: Keys, layer: str) -> Parameter:
    """Return a value in the kind of its parameter."""
    match entry.kind:
        case ParamKind.INTEGER:
            return keys.as_integer(name, found, least=entry.least)
        case ParamKind.CHOICE:
            return read_name(name, found, layer_table().layers[layer].choices(name, entry), keys)
        case ParamKind.DIMENSION | ParamKind.DIMENSIONS | ParamKind.INTEGERS | ParamKind.RECORDS:
            return read_items(name, entry, found, keys, layer)
        case _:
            readers = {ParamKind.BITS: read_bits, ParamKind.NUMBER: read_number, ParamKind.FLAG: read_flag}
            return readers[entry.kind](name, found, keys)


def read_items(name: str, entry: ParamEntry, found: PlistValue, keys: Keys, layer: str) -> Parameter:
    """Return a value that is a list of others; one name stands for a list of one dimension."""
    if entry.kind is ParamKind.RECORDS:
        records = [keys.as_child(name, item, keys.what) for item in read_list(name, found, entry.count, keys)]
        return tuple(read_entries(entry.fields, record, layer) for record in records)
    if entry.kind is ParamKind.INTEGERS:
        items = read_list(name, found, entry.count, keys)
        return tuple(keys.as_integer(name, item, least=entry.least) for item in items)
    names = read_dimensions(name, entry, found, keys, layer)
    return names[0] if entry.kind is ParamKind.DIMENSION else names


def read_number(name: str, found: object, keys: Keys) -> float:
    """Return a finite number.

    Raises:
        GraphError: It is none.
    """
    return keys.as_number(name, found)


def read_bits(name: str, found: object, keys: Keys) -> float:
    """Return the number after a bit pattern.

    Raises:
        GraphError: It is not a pattern of 16 bits, or not a number.
    """
    if isinstance(found, float):
        raise keys.error(
            f"{name} is a bit pattern of fp16, and is given as a number", seen=found, remedy=f"write {bits_of(found)}"
        )
    bits = keys.as_integer(name, found, least=None)
    if not BITS[0] <= bits <= BITS[1]:
        raise keys.error(f"{name} is not a bit pattern of fp16", seen=bits, limit=f"{BITS[0]} to {BITS[1]}")
    value = number_of(bits)
    if math.isnan(value):
        raise keys.error(f"{name} is not a number", seen=f"{bits & 0xFFFF:#06x}")
    return value


def read_flag(name: str, found: object, keys: Keys) -> bool:
    """Return a boolean; 0 and 1 stand for one too.

    Raises:
        GraphError: It is none.
    """
    if isinstance(found, bool) or (isinstance(found, int) and found in (0, 1)):
        return bool(found)
    raise keys.wrong(name, found, "flag")


def read_name(name: str, found: object, choices: tuple[str, ...], keys: Keys) -> str:
    """Return one of several names.

    Raises:
        GraphError: It is not text.
        UnknownNameError: It is none of them.
    """
    if not isinstance(found, str):
        raise keys.wrong(name, found, "text")
    if found not in choices:
        raise keys.unknown(f"{name}", found, choices)
    return found


def read_dimensions(name: str, entry: ParamEntry, found: PlistValue, keys: Keys, layer: str) -> tuple[str, ...]:
    """Return several dimensions, each one once; one name stands for a list of one.

    Raises:
        GraphError: There are too few, or one is given twice.
        UnknownNameError: One is none.
    """
    count = (1, 1) if entry.kind is ParamKind.DIMENSION else entry.count or (1, len(Dim))
    items = read_list(name, [found] if isinstance(found, str) else found, count, keys)
    choices = layer_table().layers[layer].choices(name, entry) or DIMENSIONS
    names = tuple(read_name(name, item, choices, keys) for item in items)
    if len(set(names)) < len(names):
        raise keys.error(f"{name} names a dimension twice", seen=", ".join(names))
    return names


def read_list(name: str, found: PlistValue, count: tuple[int, int] | None, keys: Keys) -> list[PlistValue]:
    """Return a list of an allowed length.

    Raises:
        GraphError: It is none, or of another length.
    """
    if not isinstance(found, list):
        raise keys.wrong(name, found, "list")
    if count is not None and not count[0] <= len(found) <= count[1]:
        wanted = str(count[0]) if count[0] == count[1] else f"{count[0]} to {count[1]}"
        raise keys.error(f"{name} has another number of entries", seen=len(found), limit=wanted)
    return found


def check_known(name: str, entry: ParamEntry, value: Parameter, keys: Keys, layer: str) -> None:
    """Check that the meaning of a value is known.

    Raises:
        NotSupportedError: It is not.
    """
    if entry.only is not None and value not in entry.only:
        raise NotSupportedError(
            f"{keys.what}: {name} has a value without a known meaning: {entry.why}",
            operation=layer,
            location=keys.location,
            seen=quote_value(value),
            limit=", ".join(map(str, entry.only)),
        )


def check_neuron(params: dict[str, Parameter], keys: Keys) -> None:
    """Check that an activation has its own parameters and no others.

    Raises:
        GraphError: One is missing, or belongs to another activation.
    """
    row = row_of_unit("Neuron", params).entry
    kind, own = row.params["Type"], {*row.params, *row.keys} - {"Type"}
    for name in keys.values:
        if name != "Type" and name not in own:
            raise keys.error(f"a {kind} neuron has no {name}", limit=", ".join(sorted(own)) or "no parameters")
    for name in row.keys:
        if name not in params:
            raise keys.error(f"a {kind} neuron needs {name}")


def records_of(layer: str, name: str, pairs: Iterable[tuple[Dim, Parameter]]) -> tuple[Mapping[str, Parameter], ...]:
    """Return what is said of dimensions as a parameter that is a list of records.

    >>> records_of("Broadcast", "BroadcastInfo", [(Dim.WIDTH, 4)])
    ({'Dimension': 'Width', 'Size': 4},)
    """
    first, second = layer_table().layers[layer].params[name].fields
    return tuple({first: dim.spelling, second: value} for dim, value in pairs)


class Parameters:
    """The checked parameters of a unit, each in its type."""

    def __init__(self, params: Mapping[str, Parameter]) -> None:
        self.params = params

    def has(self, name: str) -> bool:
        """Return whether an optional parameter is given."""
        return name in self.params

    def integer(self, name: str) -> int:
        """Return an integer."""
        return cast("int", self.params[name])

    def number(self, name: str) -> float:
        """Return a number."""
        return cast("float", self.params[name])

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return cast("bool", self.params[name])

    def text(self, name: str) -> str:
        """Return a name."""
        return cast("str", self.params[name])

    def dim(self, name: str) -> Dim:
        """Return a dimension."""
        return Dim.named(self.text(name))

    def dims(self, name: str) -> tuple[Dim, ...]:
        """Return several dimensions."""
        return tuple(map(Dim.named, cast("tuple[str, ...]", self.params[name])))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return several integers."""
        return cast("tuple[int, ...]", self.params[name])

    def pairs(self, name: str) -> list[tuple[Dim, Parameter]]:
        """Return several records, each as a dimension and what is said of it; `records_of` is the inverse."""
        records = cast("tuple[Mapping[str, Parameter], ...]", self.params[name])
        return [(Dim.named(cast("str", dim)), value) for dim, value in (record.values() for record in records)]

    def pads(self, *sides: str) -> tuple[int, ...]:
        """Return the padding at several sides."""
        return tuple(self.integer(f"Pad{side}") for side in sides)
