"""A document as the bytes of a property list, XML or binary."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError
from aneforge.formats.netplist.parameters import bits_of
from aneforge.formats.netplist.plist import quote_value
from aneforge.formats.netplist.schema import ParamKind, layer_table

if TYPE_CHECKING:
    from aneforge.formats.netplist.document import (
        ConstantEntry,
        Document,
        InputEntry,
        Network,
        NetworkOutput,
        OutputEntry,
        Parameter,
        Procedure,
        Unit,
    )
    from aneforge.formats.netplist.schema import ParamEntry

__all__ = ["document_bytes"]

Plain = bool | int | float | str | list["Plain"] | dict[str, "Plain"]
NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML has no character for, and the carriage return, which it gives back as a line feed."""


def document_bytes(document: Document, *, binary: bool = False) -> bytes:
    """Return a document as a property list.

    Raises:
        GraphError: A name has a character that XML does not have.
    """
    values: dict[str, Plain] = {
        "Version": document.version,
        "Networks": [network.name for network in document.networks],
        "ProcedureList": [procedure_values(procedure) for procedure in document.procedures],
    }
    for network in document.networks:
        values[network.name] = network_values(network)
    if not binary:
        check_characters(values)
    return plistlib.dumps(values, fmt=plistlib.FMT_BINARY if binary else plistlib.FMT_XML)


def check_characters(value: Plain) -> None:
    """Check that XML holds every text and gives it back.

    Raises:
        GraphError: It does not.
    """
    match value:
        case str():
            if NOT_IN_XML.search(value):
                raise GraphError(
                    "a name has a character that XML does not have",
                    seen=quote_value(value),
                    remedy="write it with binary=True",
                )
        case list():
            for item in value:
                check_characters(item)
        case dict():
            for key, item in value.items():
                check_characters(key)
                check_characters(item)
        case _:
            pass


# Procedures


def procedure_values(procedure: Procedure) -> Plain:
    """Return a procedure. Sources differ on the key of an operation's name, so both are written."""
    return {
        "Name": procedure.name,
        "InputList": [input_values(entry) for entry in procedure.inputs],
        "OperationList": [
            {"Name": operation.name, "NetworkName": operation.network, "OperationName": operation.name}
            for operation in procedure.operations
        ],
        "OutputList": [output_values(entry) for entry in procedure.outputs],
    }


def input_values(entry: InputEntry) -> Plain:
    """Return an input port."""
    extents: dict[str, Plain] = {
        dimension.extent: extent
        for dimension, extent in zip(layer_table().dimensions.values(), entry.dims.extents, strict=True)
    }
    return {
        **extents,
        "InputInterleave": entry.interleave,
        "InputName": entry.symbol,
        "InputType": entry.type,
        "Name": entry.name,
        "OperationName": entry.operation,
    }


def output_values(entry: OutputEntry) -> Plain:
    """Return an output port."""
    channels: dict[str, Plain] = {} if entry.channels is None else {"OutputChannels": entry.channels}
    return {
        "Name": entry.name,
        "OperationName": entry.operation,
        **channels,
        "OutputInterleave": entry.interleave,
        "OutputName": entry.symbol,
        "OutputType": entry.type,
    }


# Networks


def network_values(network: Network) -> Plain:
    """Return a network."""
    values: dict[str, Plain] = {
        "Units": [unit.name for unit in network.units],
        "Weights": list(network.weights),
    }
    if network.constants:
        values["Constants"] = [constant.symbol for constant in network.constants]
    values |= {constant.symbol: constant_values(constant) for constant in network.constants}
    values |= {unit.name: unit_values(unit) for unit in network.units}
    return values | {output.symbol: network_output_values(output) for output in network.outputs}


def constant_values(entry: ConstantEntry) -> Plain:
    """Return a constant."""
    return {
        "ConstantBatchSize": entry.dims.batch,
        "ConstantByteOffset": entry.offset,
        "ConstantChannels": entry.dims.channel,
        "ConstantDepth": entry.dims.depth,
        "ConstantHeight": entry.dims.height,
        "ConstantIndex": entry.file,
        "ConstantInterleave": entry.interleave,
        "ConstantName": entry.symbol,
        "ConstantType": entry.type,
        "ConstantWidth": entry.dims.width,
    }


def unit_values(unit: Unit) -> Plain:
    """Return a unit."""
    entries = layer_table().layers[unit.type].params
    values: dict[str, Plain] = {
        "Bottom": list(unit.bottoms),
        "InputType": list(unit.input_types),
        "Name": unit.name,
        "OutputType": unit.output_type,
        "Params": {name: param_value(entries[name], value) for name, value in unit.params.items()},
        "Type": unit.type,
    }
    if unit.output_channels is not None:
        values["OutputChannels"] = unit.output_channels
    if unit.groups is not None:
        values["NumGroups"] = unit.groups
    return values


def network_output_values(output: NetworkOutput) -> Plain:
    """Return a symbol that a network shows."""
    return {
        "Bottom": output.bottom,
        "OutputInterleave": output.interleave,
        "OutputName": output.symbol,
        "OutputType": output.type,
    }


def param_value(entry: ParamEntry, value: Parameter) -> Plain:
    """Return a parameter as a description has it: numbers as bit patterns where it wants them so."""
    if entry.kind is ParamKind.BITS:
        return bits_of(cast("float", value))
    if isinstance(value, Mapping):
        return {name: param_value(entry.fields[name], item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [param_value(entry, item) if isinstance(item, Mapping) else cast("Plain", item) for item in value]
    return value
