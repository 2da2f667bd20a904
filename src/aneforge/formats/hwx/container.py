"""What a compiled container holds, as typed values: header, load commands, contents, ports and base registers.

The container is a little-endian 64-bit Mach-O file with the magic 0xbeefface and commands of its own meaning: bindings
of ports, thread states (a program, or one of its tensors) and an identification text. Source: hwx-programs, checked on
real files of four compiler versions. LIEF 1.0 takes the magic, but leaves thread states empty and bindings unread, and
what it writes differs in each of 19 files; macholib 1.16 refuses the magic. So the codec is our own.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from aneforge.errors import HwxError
from aneforge.records import dataclass
from aneforge.targets import database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = [
    "CPU_TYPE",
    "MAGIC",
    "Base",
    "Body",
    "Container",
    "Direction",
    "Element",
    "Header",
    "Identification",
    "LoadCommand",
    "Note",
    "OtherCommand",
    "Port",
    "PortBinding",
    "ProgramState",
    "Relocation",
    "Section",
    "Segment",
    "Stray",
    "Symbol",
    "SymbolTable",
    "TaggedItem",
    "TensorState",
    "UnnamedWord",
    "generations",
]

MAGIC = 0xBEEFFACE
CPU_TYPE = 0x80
FILE_TYPE = 2
FLAGS = 0x0020_0000
TEXT_SEGMENT, TEXT_SECTION = "__TEXT", "__text"
NOT_CONSTANTS = frozenset({"__DEBUG", "__RUNTIME"})
"""Segments whose bytes no task reads."""


class Direction(IntEnum):
    """Whether a port is read or written."""

    INPUT = 1
    OUTPUT = 2


class Element(IntEnum):
    """Element types by the number that tensor states and type stabs give them (v9 names all of them)."""

    VOID = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    FLOAT16 = 5
    FLOAT = 6
    RAW10 = 7
    LUT = 8
    UINT4 = 9
    UINT6 = 10
    UINT1 = 11
    UINT2 = 12
    PACKED10 = 13
    Y10 = 14
    UINT16 = 15
    E4M3 = 16
    INT32 = 17
    UINT32 = 18
    INT64 = 19
    UINT64 = 20
    RAW12 = 21
    Y12 = 22
    INT4 = 23


@dataclass(frozen=True, slots=True)
class Header:
    """The first 32 bytes, without what follows from the commands."""

    cpu_subtype: int
    """Which engine the program is for; an id, not a rank."""
    cpu_type: int = CPU_TYPE
    file_type: int = FILE_TYPE
    flags: int = FLAGS
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Relocation:
    """A word of a section that holds a place in another one."""

    address: int
    """Byte offset in the section."""
    info: int
    """As stored: target in bits 0 to 23, relative 24, length 25 to 26, symbol instead of section 27, type 28 to 31."""

    @property
    def section(self) -> int:
        """Number of the section that the word points into, from 1."""
        return self.info & 0xFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A named range of addresses, with bytes in the file or without."""

    name: str
    segment: str
    address: int
    size: int
    file_offset: int = 0
    """0 where it has no bytes in the file."""
    alignment: int = 14
    """Exponent of two."""
    relocation_offset: int = 0
    flags: int
    reserved: tuple[int, int, int] = (0, 0, 0)
    relocations: tuple[Relocation, ...] = ()
    content: memoryview | None = field(default=None, repr=False)
    """Its bytes: a view of the file, not a copy."""

    @property
    def path(self) -> str:
        """Segment and section, as messages and tables name it."""
        return f"{self.segment}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A range of addresses, and of the file where it has bytes there."""

    name: str
    address: int
    size: int
    file_offset: int = 0
    file_size: int = 0
    protection: tuple[int, int] = (0, 0)
    """Largest and initial: read 1, write 2, execute 4."""
    flags: int = 0
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class PortBinding:
    """The address of a port by its name."""

    name: str
    address: int
    wide: bool
    """A 64-bit address, as compilers from v7 on write it."""


@dataclass(frozen=True, slots=True)
class Base:
    """A base register of a program."""

    index: int
    """Place in the table; a packet of a later generation names twice that number."""
    address: int


@dataclass(frozen=True, slots=True)
class TaggedItem:
    """A value of the program with a tag: 9 is the largest estimate of any task, 7 a constant of later generations."""

    tag: int
    value: int
    size: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramState:
    """The program: base registers, the list of tasks, and counts of events."""

    flavor: int
    """1: tasks are a chain; 4: tasks follow one another in frames."""
    bases: tuple[Base, ...]
    text_address: int
    task_count: int
    first_task_words: int | None = None
    """Flavor 1: words of the first task."""
    frame_words: int | None = None
    """Flavor 4: words before the first task."""
    text_words: int | None = None
    """Flavor 4: words of the task section."""
    live_scratch: int = 0
    """Flavor 1: probably the most bytes of scratch that are in use together (inferred, one file)."""
    debug_events: int
    """Bits set in the debug-event masks of all tasks."""
    log_events: int
    """Bits set in the event masks of all tasks."""
    items: tuple[TaggedItem, ...] | None = None
    """None in files of compilers before v7, which have no list."""
    state_words: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorState:
    """A tensor that a program reads or writes."""

    direction: int
    element: int
    shape: tuple[int, int, int, int]
    """Batch, channels, height, width."""
    depth: int
    strides: tuple[int, int, int, int]
    """Bytes from one batch, channel, row and element to the next."""
    size: int
    """Bytes of one batch."""
    transfer_size: int
    """The size again, or in outputs of v4 and v5 the bytes up to the last element."""
    state_words: int
    module: str
    name: str
    """Name of its symbol."""
    port_name: str
    """Name of its binding."""


@dataclass(frozen=True, slots=True)
class Identification:
    """The text of the compiler about itself: version, modules, command line."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A note to an owner; in files it points at one zero byte within itself."""

    owner: str
    offset: int
    size: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A symbol, or a debugging text in the place of one."""

    name: str
    name_offset: int
    type: int
    section: int
    description: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolTable:
    """Symbols, and where they and their names are in the file."""

    offset: int
    string_offset: int
    string_size: int
    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class OtherCommand:
    """A command whose meaning is not known, or a thread state of another flavor."""

    command: int
    content: bytes


Body = Segment | PortBinding | ProgramState | TensorState | Identification | Note | SymbolTable | OtherCommand


@dataclass(frozen=True, slots=True)
class UnnamedWord:
    """A word of a command that has a different value than its known meaning gives it."""

    offset: int
    """Bytes from the start of the command."""
    value: int


@dataclass(frozen=True, slots=True)
class LoadCommand:
    """A command, and what its meaning leaves open."""

    body: Body
    size: int
    unnamed: tuple[UnnamedWord, ...] = ()


@dataclass(frozen=True, slots=True)
class Stray:
    """Bytes of the file that no command points at."""

    offset: int
    content: memoryview = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """What a program reads or writes, with everything that the file says of it.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> port = af.hwx.emit(x.relu(), af.targets.Family.A13).files[0].container.ports[0]
    >>> port.name, port.direction.name, port.element_name, port.shape, port.strides, port.base
    ('x', 'INPUT', 'float16', (1, 16, 8, 8), (8192, 512, 64, 2), 4)
    """

    name: str
    direction: Direction
    element: int
    shape: tuple[int, int, int, int]
    depth: int
    strides: tuple[int, int, int, int]
    size: int
    address: int
    base: int | None
    """Index of its base register; None where no register holds its address."""

    @property
    def element_name(self) -> str:
        """Name of the element type.

        >>> Port(name="x", direction=Direction.INPUT, element=5, shape=(1, 1, 1, 1), depth=1, strides=(64, 64, 64, 2),
        ...      size=64, address=0, base=4).element_name
        'float16'
        """
        known = {one.value: one.name.lower() for one in Element}
        return known.get(self.element, f"type {self.element}")


Kind = TypeVar("Kind", bound=Body)


@dataclass(frozen=True, slots=True)
class Container:
    """A compiled container: everything that its file says.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13).files[0].container
    >>> container.generation, container.program.task_count, [port.name for port in container.ports]
    (7, 1, ['x', 'y'])
    """

    header: Header
    commands: tuple[LoadCommand, ...]
    size: int
    """Bytes of the file."""
    strays: tuple[Stray, ...] = ()

    def __str__(self) -> str:
        ports = ", ".join(one.name for one in self.bodies(PortBinding)) or "none"
        return f"container of {self.size} bytes, engine subtype {self.header.cpu_subtype}, ports: {ports}"

    @property
    def generation(self) -> int:
        """Generation of its task descriptors.

        Raises:
            HwxError: No source says which generation engines of this subtype read.
        """
        found = generations().get(self.header.cpu_subtype)
        if found is None:
            raise HwxError.at(8, "the engine is not known", seen=self.header.cpu_subtype, limit=sorted(generations()))
        return found

    @property
    def targets(self) -> tuple[str, ...]:
        """Targets whose containers have this subtype."""
        return tuple(
            name for name, target in database().targets.items() if target.cpu_subtype == self.header.cpu_subtype
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments in the order of the file."""
        return self.bodies(Segment)

    @property
    def sections(self) -> tuple[Section, ...]:
        """Sections of all segments; symbols and relocations count them from 1."""
        return tuple(section for segment in self.segments for section in segment.sections)

    @property
    def text(self) -> Section:
        """The section of the tasks.

        Raises:
            HwxError: There is none, or more than one.
        """
        found = [one for one in self.sections if (one.segment, one.name) == (TEXT_SEGMENT, TEXT_SECTION)]
        if len(found) != 1 or found[0].content is None:
            raise HwxError("the file must have one task section with content", seen=len(found), limit=1)
        return found[0]

    @property
    def words(self) -> NDArray[np.uint32]:
        """The words of the task section: a view of the file.

        Raises:
            HwxError: There is no task section, or its size is not a multiple of four.
        """
        section = self.text
        if section.content is None or section.size % 4:
            raise HwxError.at(
                section.file_offset, "the size of the task section must be a multiple of 4", seen=section.size
            )
        return np.frombuffer(section.content, dtype="<u4")

    @property
    def constants(self) -> Mapping[str, Section]:
        """Sections of constants (weights, biases, tables) by segment and name, as `__TEXT/__const`."""
        return {
            one.path: one
            for one in self.sections
            if one.content is not None
            and one.segment not in NOT_CONSTANTS
            and (one.segment, one.name) != (TEXT_SEGMENT, TEXT_SECTION)
        }

    @property
    def program(self) -> ProgramState:
        """The state of the program.

        Raises:
            HwxError: There is none, or more than one.
        """
        found = self.bodies(ProgramState)
        if len(found) != 1:
            raise HwxError("the file must have one program state", seen=len(found), limit=1)
        return found[0]

    @property
    def tensors(self) -> tuple[TensorState, ...]:
        """States of the tensors that the program reads and writes."""
        return self.bodies(TensorState)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Symbols and debugging texts."""
        return tuple(one for table in self.bodies(SymbolTable) for one in table.symbols)

    @property
    def identification(self) -> str:
        """What the compiler says of itself; empty where it says nothing."""
        return "\n".join(one.text for one in self.bodies(Identification))

    @property
    def ports(self) -> tuple[Port, ...]:
        """What the program reads and writes, in the order of the file.

        Raises:
            HwxError: A tensor has no binding, or is neither read nor written.
        """
        bound = {one.name: one.address for one in self.bodies(PortBinding)}
        bases = {one.address: one.index for one in reversed(self.program.bases)}
        return tuple(port_of(tensor, bound, bases) for tensor in self.tensors)

    def bodies(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """Return the commands of one kind."""
        return tuple(one.body for one in self.commands if isinstance(one.body, kind))


def port_of(tensor: TensorState, bound: Mapping[str, int], bases: Mapping[int, int]) -> Port:
    """Return a tensor with its address and its base register.

    Raises:
        HwxError: It has no binding, or is neither read nor written.
    """
    if tensor.direction not in tuple(Direction):
        raise HwxError(
            f"the direction of tensor {tensor.name!r} must be 1 (input) or 2 (output)", seen=tensor.direction
        )
    name = next((one for one in (tensor.port_name, tensor.name) if one in bound), None)
    if name is None:
        raise HwxError(f"tensor {tensor.name!r} has no binding", seen=sorted(bound))
    return Port(
        name=name,
        direction=Direction(tensor.direction),
        element=tensor.element,
        shape=tensor.shape,
        depth=tensor.depth,
        strides=tensor.strides,
        size=tensor.size,
        address=bound[name],
        base=bases.get(bound[name]),
    )


@cache
def generations() -> Mapping[int, int]:
    """Return the generation of task descriptors by the subtype of the container's header."""
    return {
        target.cpu_subtype: target.descriptor_generation
        for target in database().targets.values()
        if target.cpu_subtype is not None and target.descriptor_generation is not None
    }
