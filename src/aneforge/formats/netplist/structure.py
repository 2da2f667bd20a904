"""A property list as a `Document`: every key known, every name wired to something, every type as it must be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aneforge.errors import Location, NotSupportedError
from aneforge.formats.netplist.document import (
    RESERVED,
    ConstantEntry,
    Dims,
    Document,
    InputEntry,
    Network,
    NetworkOutput,
    Operation,
    OutputEntry,
    Procedure,
    Unit,
)
from aneforge.formats.netplist.keys import Keys
from aneforge.formats.netplist.parameters import read_params
from aneforge.formats.netplist.plist import PlistDict, parse_plist, quote_value
from aneforge.formats.netplist.schema import layer_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["document_of", "parse_document"]

FLOAT = "Float16"
TOP = ("Version", "Networks", "ProcedureList")


def parse_document(data: bytes, file: str | None = None) -> Document:
    """Return what a network description says, XML or binary.

    >>> from aneforge.formats.netplist.writing import netplist
    >>> import aneforge as af
    >>> document = parse_document(netplist(af.input((1, 8)).relu()).data())
    >>> [unit.type for unit in document.networks[0].units]
    ['Neuron']

    Raises:
        GraphError: The file is not a network description; the error names the key and, in an XML file, the line.
        UnknownNameError: A key, a layer type or an element type is unknown.
        NotSupportedError: It is of another version, or has a layer whose parameters no source gives.
    """
    return document_of(parse_plist(data, file), file)


def document_of(plist: PlistDict, file: str | None = None) -> Document:
    """Return what a property list says as a network description.

    Raises:
        AneforgeError: It is not a network description, as for `parse_document`.
    """
    top = Keys(plist, "the description", file)
    version = top.text("Version", layer_table().version)
    if version != layer_table().version:
        raise NotSupportedError(
            "the description is of another version",
            location=Location(file),
            seen=quote_value(version),
            limit=layer_table().version,
        )
    names = top.texts("Networks")
    refuse_twice(top, "network", names)
    for name in names:
        if name in TOP:
            raise top.error("a network has the name of a key of the description", seen=quote_value(name))
    networks = tuple(read_network(name, top.child(name, f"network {quote_value(name)}")) for name in names)
    procedures = tuple(read_procedure(keys, set(names)) for keys in top.children("ProcedureList", "procedure"))
    if not procedures:
        raise top.error("there is no procedure to call", seen="an empty ProcedureList")
    refuse_twice(top, "procedure", (procedure.name for procedure in procedures))
    top.finish()
    return Document(networks, procedures, version)


def refuse_twice(keys: Keys, what: str, names: Iterable[str]) -> None:
    """Check that names are distinct.

    Raises:
        GraphError: One is given twice.
    """
    for name, count in Counter(names).items():
        if count > 1:
            raise keys.error(
                f"{count} {what}s have one name", seen=quote_value(name), remedy="give them different names"
            )


# Procedures


def read_procedure(keys: Keys, networks: set[str]) -> Procedure:
    """Return a procedure.

    Raises:
        GraphError: A key is missing, unknown or wrong, or two ports have one name.
    """
    name = keys.text("Name")
    keys.what = f"procedure {quote_value(name)}"
    operations = tuple(read_operation(one, networks) for one in keys.children("OperationList", "operation"))
    if not operations:
        raise keys.error("a procedure must have an operation", seen="an empty OperationList")
    refuse_twice(keys, "operation", (operation.name for operation in operations))
    known = {operation.name for operation in operations}
    inputs = one_of_each(keys, [read_input(one, known) for one in keys.children("InputList", "input")])
    outputs = tuple(read_output(one, known) for one in keys.children("OutputList", "output"))
    refuse_twice(keys, "output", (f"{port.operation}/{port.symbol}" for port in outputs))
    if not outputs:
        raise keys.error("a procedure must have an output", seen="an empty OutputList")
    keys.finish()
    return Procedure(name, inputs, operations, outputs, keys.location)


def one_of_each(keys: Keys, entries: Sequence[InputEntry]) -> tuple[InputEntry, ...]:
    """Return every input once: entries with one InputName are one input, and `Name` says which unit reads it.

    Raises:
        GraphError: Two of them are of different types.
    """
    found: dict[tuple[str, str], InputEntry] = {}
    for entry in entries:
        first = found.setdefault((entry.operation, entry.symbol), entry)
        if (first.dims, first.type, first.interleave) != (entry.dims, entry.type, entry.interleave):
            raise keys.error(
                "entries of one input differ", seen=f"{entry.dims}, {entry.type}", limit=f"{first.dims}, {first.type}"
            )
    return tuple(found.values())


def read_operation(keys: Keys, networks: set[str]) -> Operation:
    """Return an operation; descriptions call its name `OperationName` or `Name`, and the writer writes both.

    Raises:
        GraphError: A key is missing or unknown, or the names differ.
        UnknownNameError: There is no such network.
    """
    spellings = [keys.text(key) for key in ("OperationName", "Name") if keys.get(key) is not None]
    if not spellings:
        raise keys.error("key 'OperationName' is missing")
    if len(set(spellings)) > 1:
        raise keys.error("OperationName and Name differ", seen=" and ".join(map(quote_value, spellings)))
    network = keys.text("NetworkName")
    if network not in networks:
        raise keys.unknown("network", network, sorted(networks))
    keys.finish()
    return Operation(spellings[0], network)


def read_input(keys: Keys, operations: set[str]) -> InputEntry:
    """Return an input port.

    Raises:
        GraphError: A key is missing, unknown or wrong.
        UnknownNameError: Its element type or operation is unknown.
    """
    symbol = keys.text("InputName")
    keys.what = f"input {quote_value(symbol)}"
    extents = [
        keys.integer(entry.extent, least=1, default=1 if name == "Depth" else None)
        for name, entry in layer_table().dimensions.items()
    ]
    entry = InputEntry(
        name=keys.text("Name", symbol),
        symbol=symbol,
        operation=read_operation_name(keys, operations),
        dims=Dims(*extents),
        type=read_type(keys, "InputType"),
        interleave=keys.integer("InputInterleave", least=1, default=1),
    )
    keys.finish()
    return entry


def read_output(keys: Keys, operations: set[str]) -> OutputEntry:
    """Return an output port.

    Raises:
        GraphError: A key is missing, unknown or wrong.
        UnknownNameError: Its element type or operation is unknown.
    """
    symbol = keys.text("OutputName")
    keys.what = f"output {quote_value(symbol)}"
    entry = OutputEntry(
        name=keys.text("Name", symbol),
        symbol=symbol,
        operation=read_operation_name(keys, operations),
        type=read_type(keys, "OutputType"),
        interleave=keys.integer("OutputInterleave", least=1, default=1),
        channels=optional_channels(keys),
    )
    keys.finish()
    return entry


def optional_channels(keys: Keys) -> int | None:
    """Return what is stated of the channels of a result, if anything is."""
    return None if keys.get("OutputChannels") is None else keys.integer("OutputChannels", least=1)


def read_operation_name(keys: Keys, operations: set[str]) -> str:
    """Return the operation to which a port belongs.

    Raises:
        UnknownNameError: There is none of that name.
    """
    name = keys.text("OperationName")
    if name not in operations:
        raise keys.unknown("operation", name, sorted(operations))
    return name


def read_type(keys: Keys, key: str) -> str:
    """Return an element type; one that is left out is Float16.

    Raises:
        UnknownNameError: There is no such element type.
    """
    return known_type(keys, key, keys.text(key, FLOAT))


def known_type(keys: Keys, key: str, name: str) -> str:
    """Return the name of an element type, which must be known.

    Raises:
        UnknownNameError: It is not.
    """
    if name not in layer_table().element_types:
        raise keys.unknown(f"element type in {key}", name, layer_table().element_types)
    return name


# Networks


def read_network(name: str, keys: Keys) -> Network:
    """Return a network.

    Raises:
        GraphError: A key is missing, unknown or wrong, or a name is given twice.
    """
    unit_names = keys.texts("Units")
    constant_names = keys.optional_texts("Constants")
    refuse_twice(keys, "symbol", (*unit_names, *constant_names))
    for symbol in (*unit_names, *constant_names):
        if symbol in RESERVED:
            raise keys.error("a symbol has the name of a key of a network", seen=quote_value(symbol))
    weights = keys.optional_texts("Weights")
    refuse_twice(keys, "weights file", weights)
    constants = tuple(
        read_constant(symbol, keys.child(symbol, f"constant {quote_value(symbol)}", symbol), weights)
        for symbol in constant_names
    )
    units = tuple(read_unit(symbol, keys.child(symbol, f"unit {quote_value(symbol)}", symbol)) for symbol in unit_names)
    outputs = tuple(read_network_output(symbol, keys) for symbol in keys.values if symbol not in keys.asked)
    if not outputs:
        raise keys.error(
            "a network must have an output", remedy="give a dictionary with the key Bottom for every output"
        )
    return Network(name, units, outputs, constants, weights, keys.location)


def read_constant(symbol: str, keys: Keys, weights: tuple[str, ...]) -> ConstantEntry:
    """Return a constant.

    Raises:
        GraphError: A key is missing, unknown or wrong, or there is no such weights file.
    """
    own_name(keys, "ConstantName", symbol)
    dims = Dims(
        batch=keys.integer("ConstantBatchSize", least=1, default=1),
        channel=keys.integer("ConstantChannels", least=1, default=1),
        depth=keys.integer("ConstantDepth", least=1, default=1),
        height=keys.integer("ConstantHeight", least=1, default=1),
        width=keys.integer("ConstantWidth", least=1, default=1),
    )
    entry = ConstantEntry(
        symbol=symbol,
        dims=dims,
        file=weights_place(keys, "ConstantIndex", weights),
        offset=keys.integer("ConstantByteOffset", default=0),
        type=read_type(keys, "ConstantType"),
        interleave=keys.integer("ConstantInterleave", least=1, default=1),
        location=keys.location,
    )
    keys.finish()
    return entry


def weights_place(keys: Keys, key: str, weights: tuple[str, ...]) -> int:
    """Return the place of a weights file in a network's list.

    Raises:
        GraphError: The list is shorter.
    """
    place = keys.integer(key)
    if place >= len(weights):
        raise keys.error(
            f"{key} names no weights file", seen=place, limit=f"less than {len(weights)}, as Weights lists"
        )
    return place


def own_name(keys: Keys, key: str, symbol: str) -> None:
    """Check that a dictionary repeats its own name, where it does.

    Raises:
        GraphError: It says another.
    """
    stated = keys.text(key, symbol)
    if stated != symbol:
        raise keys.error(
            f"{key} is not the key under which it is listed", seen=quote_value(stated), limit=quote_value(symbol)
        )


def read_unit(symbol: str, keys: Keys) -> Unit:
    """Return a unit, its parameters checked.

    Raises:
        GraphError: A key is missing, unknown or wrong, or it reads too many or too few tensors.
        UnknownNameError: Its type, an element type or a parameter is unknown.
        NotSupportedError: No source gives its parameters, or a value of one has no known meaning.
    """
    own_name(keys, "Name", symbol)
    kind = keys.text("Type")
    table = layer_table()
    if kind not in table.layers:
        if kind in table.unit_types:
            raise NotSupportedError(
                f"no source gives the parameters of a {kind} unit",
                operation=kind,
                location=keys.location,
                remedy="build it from the layers that the documentation lists",
            )
        raise keys.unknown("layer type", kind, table.layers)
    layer = table.layers[kind]
    bottoms = keys.texts("Bottom")
    fewest, most = layer.bottoms
    if not fewest <= len(bottoms) <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise keys.error(f"a {kind} unit reads another number of tensors", seen=len(bottoms), limit=wanted)
    stated = keys.optional_texts("InputType") or ()
    if len(stated) > len(bottoms):
        raise keys.error("InputType has more entries than there are bottoms", seen=len(stated), limit=len(bottoms))
    stated += (FLOAT,) * (len(bottoms) - len(stated))
    unit = Unit(
        name=symbol,
        type=kind,
        bottoms=bottoms,
        params=read_params(kind, keys),
        input_types=tuple(known_type(keys, "InputType", one) for one in stated),
        output_type=read_type(keys, "OutputType"),
        output_channels=optional_channels(keys),
        groups=keys.integer("NumGroups", least=1, default=1) if layer.groups else None,
        location=keys.location,
    )
    keys.finish()
    return unit


def read_network_output(symbol: str, network: Keys) -> NetworkOutput:
    """Return a symbol that a network shows: what is neither unit nor constant must be one.

    Raises:
        GraphError: It is something else.
    """
    found = network.get(symbol)
    if not isinstance(found, PlistDict) or "Bottom" not in found:
        raise network.error(
            "a key is neither a unit, a constant nor an output",
            seen=quote_value(symbol),
            remedy="list it in Units or Constants, or give an output the key Bottom",
        )
    keys = network.child(symbol, f"output {quote_value(symbol)}", symbol)
    if "Type" in found or "Params" in found:
        raise keys.error("a unit is not listed in Units", remedy=f"put {quote_value(symbol)} into Units")
    own_name(keys, "OutputName", symbol)
    bottoms = keys.texts("Bottom")
    if len(bottoms) != 1:
        raise keys.error("an output must name one tensor", seen=len(bottoms), limit=1)
    entry = NetworkOutput(
        symbol=symbol,
        bottom=bottoms[0],
        type=read_type(keys, "OutputType"),
        interleave=keys.integer("OutputInterleave", least=1, default=1),
        location=keys.location,
    )
    keys.finish()
    return entry
