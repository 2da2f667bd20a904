"""The messages of Core ML's model files, by the classes that coremltools generates from their protobuf schema.

The classes are loaded from the folder of the installed package without running it: `import coremltools` takes seconds
and prints what of Apple's frameworks is missing, and nothing of it is needed to read or write a file. A program that
imports coremltools as well gets the same classes, for protobuf keeps one of each name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from aneforge.errors import MissingPackageError
from aneforge.packages import expect_package, install_line
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "ArrayFeature",
    "Description",
    "Feature",
    "FeatureType",
    "ImageFeature",
    "Message",
    "MessageMap",
    "Messages",
    "MilArgument",
    "MilBlock",
    "MilDimension",
    "MilFunction",
    "MilOperation",
    "MilPort",
    "MilProgram",
    "MilTensorValue",
    "MilType",
    "MilValue",
    "Model",
    "Repeated",
    "SizeRange",
    "messages",
]

One = TypeVar("One")
Read_co = TypeVar("Read_co", covariant=True)
PRIVATE = "_aneforge_coreml_messages"
"""The name under which the classes are loaded where coremltools itself is not."""
REINSTALL = f"{install_line('coremltools')} --force-reinstall"


class Message(Protocol):
    """What every message has."""

    def WhichOneof(self, name: str) -> str | None:  # noqa: N802 - protobuf's name
        """Return which of several fields is there."""
        ...

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
        """Return whether a field is there."""
        ...

    def SetInParent(self) -> None:  # noqa: N802 - protobuf's name
        """Make the field that holds this message be there."""
        ...


class Repeated(Protocol[Read_co]):
    """A field of several messages."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Read_co]: ...
    def __getitem__(self, place: int) -> Read_co: ...
    def add(self) -> Read_co:
        """Add an empty message and return it."""
        ...


class Values(Protocol[One]):
    """A field of several numbers or texts."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[One]: ...
    def __getitem__(self, place: int) -> One: ...
    def append(self, one: One) -> None:
        """Add one."""
        ...

    def extend(self, several: Sequence[One]) -> None:
        """Add several."""
        ...


class MessageMap(Protocol[Read_co]):
    """A field of messages by name; one that is asked for is there from then on."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: object) -> bool: ...
    def __getitem__(self, name: str) -> Read_co: ...


class Constant(Message, Protocol):
    """A length that is known."""

    size: int


class Unknown(Message, Protocol):
    """A length that is not known; `variadic` stands for any number of axes."""

    variadic: bool


class MilDimension(Message, Protocol):
    """The length of an axis."""

    constant: Constant
    unknown: Unknown


class MilTensorType(Message, Protocol):
    """Element type and lengths of a tensor."""

    dataType: int  # noqa: N815 - the field's name
    rank: int
    dimensions: Repeated[MilDimension]


class MilListType(Message, Protocol):
    """The type of a list."""

    type: MilType
    length: MilDimension


class MilStateType(Message, Protocol):
    """The type of a state."""

    wrappedType: MilType  # noqa: N815 - the field's name


class MilDictionaryType(Message, Protocol):
    """The type of a dictionary."""

    keyType: MilType  # noqa: N815 - the field's name
    valueType: MilType  # noqa: N815 - the field's name


class MilType(Message, Protocol):
    """The type of a value."""

    tensorType: MilTensorType  # noqa: N815 - the field's name
    listType: MilListType  # noqa: N815 - the field's name
    stateType: MilStateType  # noqa: N815 - the field's name
    dictionaryType: MilDictionaryType  # noqa: N815 - the field's name


class Numbers(Message, Protocol[One]):
    """Numbers of one sort."""

    values: Values[One]


class Bytes(Message, Protocol):
    """Elements as they are stored."""

    values: bytes


class MilTensorValue(Message, Protocol):
    """The elements of a tensor, in one of these sorts."""

    floats: Numbers[float]
    doubles: Numbers[float]
    ints: Numbers[int]
    longInts: Numbers[int]  # noqa: N815 - the field's name
    bools: Numbers[bool]
    strings: Numbers[str]
    bytes: Bytes


class SeveralValues(Message, Protocol):
    """A list or a tuple of values."""

    values: Repeated[MilValue]


class Pair(Message, Protocol):
    """An entry of a dictionary."""

    key: MilValue
    value: MilValue


class Pairs(Message, Protocol):
    """A dictionary."""

    values: Repeated[Pair]


class ImmediateValue(Message, Protocol):
    """A value that the message itself holds."""

    tensor: MilTensorValue
    tuple: SeveralValues
    list: SeveralValues
    dictionary: Pairs


class BlobValue(Message, Protocol):
    """A value in a weights blob."""

    fileName: str  # noqa: N815 - the field's name
    offset: int


class MilValue(Message, Protocol):
    """A value with its type."""

    type: MilType
    immediateValue: ImmediateValue  # noqa: N815 - the field's name
    blobFileValue: BlobValue  # noqa: N815 - the field's name


class Binding(Message, Protocol):
    """What a parameter is given: the name of a value, or a value."""

    name: str
    value: MilValue


class MilArgument(Message, Protocol):
    """All that a parameter is given."""

    arguments: Repeated[Binding]


class MilPort(Message, Protocol):
    """A name and its type."""

    name: str
    type: MilType


class MilOperation(Message, Protocol):
    """An operation."""

    type: str
    inputs: MessageMap[MilArgument]
    outputs: Repeated[MilPort]
    blocks: Repeated[MilBlock]
    attributes: MessageMap[MilValue]


class MilBlock(Message, Protocol):
    """Operations, and which of their results the block gives."""

    inputs: Repeated[MilPort]
    outputs: Values[str]
    operations: Repeated[MilOperation]


class MilFunction(Message, Protocol):
    """A function: its inputs, and its operations for an opset."""

    inputs: Repeated[MilPort]
    opset: str
    block_specializations: MessageMap[MilBlock]


class MilProgram(Message, Protocol):
    """A program."""

    version: int
    functions: MessageMap[MilFunction]
    attributes: MessageMap[MilValue]


class SizeRange(Message, Protocol):
    """The least and the greatest length of an axis; a negative one is none."""

    lowerBound: int  # noqa: N815 - the field's name
    upperBound: int  # noqa: N815 - the field's name


class ShapeRange(Message, Protocol):
    """Lengths of all axes."""

    sizeRanges: Repeated[SizeRange]  # noqa: N815 - the field's name


class Shape(Message, Protocol):
    """One shape."""

    shape: Values[int]


class EnumeratedShapes(Message, Protocol):
    """Shapes of a list."""

    shapes: Repeated[Shape]


class ArrayFeature(Message, Protocol):
    """Shape and element type of an array at a port."""

    shape: Values[int]
    dataType: int  # noqa: N815 - the field's name
    enumeratedShapes: EnumeratedShapes  # noqa: N815 - the field's name
    shapeRange: ShapeRange  # noqa: N815 - the field's name


class ImageSize(Message, Protocol):
    """One size of an image."""

    width: int
    height: int


class EnumeratedSizes(Message, Protocol):
    """Sizes of a list."""

    sizes: Repeated[ImageSize]


class ImageSizeRange(Message, Protocol):
    """Sizes within ranges."""

    widthRange: SizeRange  # noqa: N815 - the field's name
    heightRange: SizeRange  # noqa: N815 - the field's name


class ImageFeature(Message, Protocol):
    """The size of an image at a port."""

    width: int
    height: int
    enumeratedSizes: EnumeratedSizes  # noqa: N815 - the field's name
    imageSizeRange: ImageSizeRange  # noqa: N815 - the field's name


class StateFeature(Message, Protocol):
    """What a state holds."""

    arrayType: ArrayFeature  # noqa: N815 - the field's name


class FeatureType(Message, Protocol):
    """The type of a port, as a program that runs the model sees it."""

    multiArrayType: ArrayFeature  # noqa: N815 - the field's name
    imageType: ImageFeature  # noqa: N815 - the field's name
    stateType: StateFeature  # noqa: N815 - the field's name


class Feature(Message, Protocol):
    """A port, as a program that runs the model sees it."""

    name: str
    type: FeatureType


class Ports(Message, Protocol):
    """The ports of a model or of one of its functions."""

    name: str
    input: Repeated[Feature]
    output: Repeated[Feature]
    state: Repeated[Feature]


class Description(Ports, Protocol):
    """The ports of a model, or those of each of its functions."""

    functions: Repeated[Ports]
    defaultFunctionName: str  # noqa: N815 - the field's name


class Model(Message, Protocol):
    """A model file."""

    specificationVersion: int  # noqa: N815 - the field's name
    description: Description
    mlProgram: MilProgram  # noqa: N815 - the field's name

    def SerializeToString(self, *, deterministic: bool) -> bytes:  # noqa: N802 - protobuf's name
        """Return the file's content."""
        ...


class ModelClass(Protocol):
    """The class of model files."""

    def __call__(self) -> Model:
        """Return an empty model."""
        ...

    def FromString(self, content: bytes) -> Model:  # noqa: N802 - protobuf's name
        """Read a file's content."""
        ...


class Codes(Protocol):
    """The names of an enumeration."""

    def items(self) -> Sequence[tuple[str, int]]:
        """Return names and numbers."""
        ...


@dataclass(frozen=True, slots=True)
class Messages:
    """What is needed of the schema."""

    model: ModelClass
    decode_error: type[Exception]
    """What reading a file that is not a message raises."""
    element_codes: dict[str, int]
    """Numbers of element types in programs, by the schema's names."""
    array_codes: dict[str, int]
    """Numbers of element types at ports, by the schema's names."""


@cache
def messages() -> Messages:
    """Return the classes of the schema.

    Raises:
        MissingPackageError: coremltools is not installed, or not whole.
    """
    load = loader()
    try:
        protobuf = importlib.import_module("google.protobuf.message")
        mil, features, model = (load(name) for name in ("MIL_pb2", "FeatureTypes_pb2", "Model_pb2"))
    except ImportError as error:
        raise MissingPackageError(
            f"coremltools is installed, and its protobuf classes cannot be loaded: {error}",
            remedy=REINSTALL,
        ) from None
    return Messages(
        cast("ModelClass", model.Model),
        cast("type[Exception]", protobuf.DecodeError),
        dict(cast("Codes", mil.DataType).items()),
        dict(cast("Codes", features.ArrayFeatureType.ArrayDataType).items()),
    )


def loader() -> Callable[[str], ModuleType]:
    """Return what loads a module of the schema: from coremltools if it is loaded, else from its folder.

    Raises:
        MissingPackageError: coremltools is not installed.
    """
    if "coremltools.proto" in sys.modules:
        return lambda name: importlib.import_module(f"coremltools.proto.{name}")
    expect_package("coremltools")
    found = importlib.util.find_spec("coremltools")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError("coremltools is installed, and has no files", remedy=REINSTALL)
    if PRIVATE not in sys.modules:
        package = ModuleType(PRIVATE)
        package.__path__ = [str(Path(folder, "proto")) for folder in found.submodule_search_locations]
        sys.modules[PRIVATE] = package
    return lambda name: importlib.import_module(f"{PRIVATE}.{name}")
