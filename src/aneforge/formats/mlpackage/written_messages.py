"""A program as it is written, put into the messages of a model file; `translation` reads them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.mil.elements import TEXT, pack
from aneforge.formats.mil.literals import array_of, scalar_of, texts_of
from aneforge.formats.mil.metadata import BUILD_INFO
from aneforge.formats.mil.syntax import Blob, ListType, Literal, Reference, StateType, Tuple, ValueType
from aneforge.formats.mlpackage.mlpackage_values import element_names
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.mil.syntax import Function, NamedType, Statement, Type, Value
    from aneforge.formats.mlpackage.messages import (
        MilDimension,
        MilFunction,
        MilOperation,
        MilPort,
        MilProgram,
        MilTensorValue,
        MilType,
        MilValue,
        Repeated,
    )
    from aneforge.ops.types import Array

__all__ = ["round_numbers", "write_build_info", "write_function"]

OPSET_NAMES = {"ios15": "CoreML5", "ios16": "CoreML6", "ios17": "CoreML7", "ios18": "CoreML8"}
AS_NUMBERS = {
    "bool": "bools",
    "fp32": "floats",
    "fp64": "doubles",
    "int16": "ints",
    "int32": "ints",
    "int64": "longInts",
    "uint16": "ints",
    "uint64": "longInts",
}
"""Element types that a message holds as numbers, and in which field; all others are bytes, as coremltools has them."""


def write_function(message: MilFunction, function: Function) -> None:
    """Write a function."""
    write_ports(message.inputs, function.inputs)
    message.opset = OPSET_NAMES[function.opset]
    block = message.block_specializations[message.opset]
    block.outputs.extend([output.name for output in function.outputs])
    for statement in function.statements:
        write_operation(block.operations.add(), statement)


def write_operation(message: MilOperation, statement: Statement) -> None:
    """Write a statement."""
    message.type = statement.op
    for argument in statement.arguments:
        values = argument.value.items if isinstance(argument.value, Tuple) else (argument.value,)
        for value in values:
            binding = message.inputs[argument.name].arguments.add()
            if isinstance(value, Reference):
                binding.name = value.name
            else:
                write_value(binding.value, value)
    write_ports(message.outputs, statement.results)
    for attribute in statement.attributes:
        write_value(message.attributes[attribute.name], attribute.value)


def write_ports(message: Repeated[MilPort], ports: tuple[NamedType, ...]) -> None:
    """Write names with their types."""
    for port in ports:
        one = message.add()
        one.name = port.name
        write_type(one.type, port.type)


def write_type(message: MilType, kind: Type) -> None:
    """Write a type."""
    match kind:
        case StateType():
            write_type(message.stateType.wrappedType, kind.held)
        case ListType():
            write_type(message.listType.type, ValueType(kind.element.dtype, kind.element.extents))
            write_extent(message.listType.length, kind.length)
        case ValueType():
            tensor = message.tensorType
            tensor.dataType = element_codes()[kind.dtype]
            tensor.rank = kind.rank
            for extent in kind.extents or ():
                write_extent(tensor.dimensions.add(), extent)


def write_extent(message: MilDimension, extent: int | None) -> None:
    """Write the length of an axis."""
    if extent is None:
        message.unknown.SetInParent()
    else:
        message.constant.size = extent


def write_value(message: MilValue, value: Value) -> None:
    """Write a value: elements, or their place in the weights blob."""
    if isinstance(value, Blob):
        write_type(message.type, value.type)
        message.blobFileValue.fileName = str(scalar_of(value.path))
        message.blobFileValue.offset = int(scalar_of(value.offset))
        return
    literal = cast("Literal", value)
    write_type(message.type, literal.type)
    tensor = message.immediateValue.tensor
    if literal.type.dtype == TEXT:
        tensor.strings.values.extend(texts_of(literal) if literal.type.rank else [str(scalar_of(literal))])
        return
    write_elements(tensor, array_of(literal), literal.type.dtype)


def write_elements(message: MilTensorValue, values: Array, dtype: str) -> None:
    """Write the elements of a tensor."""
    field = AS_NUMBERS.get(dtype)
    if field is None:
        message.bytes.values = pack(values, dtype).tobytes()
        return
    stored = values.view(np.int64) if dtype == "uint64" else values
    numbers = getattr(message, field)
    numbers.SetInParent()  # an empty list is there too
    numbers.values.extend(stored.reshape(-1).tolist())


def write_build_info(message: MilProgram, info: Mapping[str, str]) -> None:
    """Write build info, a dictionary of texts."""
    value = message.attributes[BUILD_INFO]
    text = ValueType(TEXT)
    write_type(value.type.dictionaryType.keyType, text)
    write_type(value.type.dictionaryType.valueType, text)
    for key, entry in info.items():
        pair = value.immediateValue.dictionary.values.add()
        for part, shown in ((pair.key, key), (pair.value, entry)):
            write_type(part.type, text)
            part.immediateValue.tensor.strings.values.append(shown)


def round_numbers(function: Function) -> dict[str, float]:
    """Return the numbers of consts that their element types do not hold exactly, by name."""
    found: dict[str, float] = {}
    for statement in function.statements:
        value = next((one.value for one in statement.attributes if one.name == "val"), None)
        if (
            statement.op != "const"
            or not isinstance(value, Literal)
            or value.type.rank
            or not is_float(value.type.dtype)
        ):
            continue
        exact = float(scalar_of(value))
        if np.isfinite(exact) and float(array_of(value)) != exact:
            found[statement.results[0].name] = exact
    return found


def element_codes() -> dict[str, int]:
    """Return the schema's numbers by element type."""
    return {name: code for code, name in element_names().items()}
