"""Puts a container together from tasks, constants and ports, as one of four versions of the compiler lays it out.

Every rule about chained programs was checked by taking 19 real files apart and assembling them again, byte for byte.
Inferred is the place of scratch memory: v7 has it after the tasks, and the other styles are taken to as well. Of framed
programs (later generations) no whole file was seen, only their program states (hwx-programs): segments and symbols are
taken to be those of v9. Of the segment in which some of them have their constants, its name is known and the base
register that it has after two ports; its place next to the tasks and its access are inferred.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.container import (
    Base,
    Container,
    Direction,
    Element,
    Header,
    Identification,
    LoadCommand,
    Note,
    PortBinding,
    ProgramState,
    Relocation,
    Section,
    Segment,
    Symbol,
    SymbolTable,
    TaggedItem,
    TensorState,
    generations,
)
from aneforge.formats.hwx.load_commands import RELOCATION, SYMBOL, encode_body
from aneforge.formats.hwx.thread_states import HEAD as STATE_HEAD
from aneforge.formats.hwx.thread_states import PROGRAMS, encode_items, encode_text
from aneforge.formats.hwx.write_hwx import HEADER
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from aneforge.formats.hwx.container import Body

__all__ = ["FRAMED_PROGRAMS", "STYLES", "Parts", "PlannedPort", "Style", "assemble", "round_up"]

PAGE = 0x4000
FIRST_ADDRESS = 0x3000_0000
CONSTANT_ALIGNMENT = 6
NO_CONSTANTS = bytes(PAGE)
"""What programs without constants have in their place."""
TEXT_BASE, CONSTANT_BASE, SCRATCH_BASE, FIRST_PORT_BASE = 0, 1, 3, 4
LARGEST_ESTIMATE = 9
"""Tag of the item that holds the largest estimate of any task."""
CHAINED_GENERATIONS = (5, 6, 7)
CHAINED, FRAMED = 1, 4
"""Flavors of program states."""
FRAME_WORDS = 4
RELATIVE_WORD = 0x0500_0000
"""A relocation of four bytes, relative, against a section."""
NAMED, TYPE_STAB, SHAPE_STAB = 0xF, 0x80, 0x20
OUTPUT_SUFFIX = "@output"
TEXT_KEY, SCRATCH_KEY, CONSTANTS_KEY = "/text", "/scratch", "/constants"
"""Keys of regions in addition to the names of ports."""
SHAPE_NUMBERS = 5
"""Type numbers that the text of a shape takes: one for itself, one for each axis."""
TYPE_STABS = (
    "void:t1=1",
    "int8:t2=r2;0;127",
    "uint8:t3=r1;0;255",
    "int16:t4=r1;-32768;32767",
    "float16:t5=r1;2;0",
    "float:t6=r1;4;0",
    "raw10:t7=r1;-512;511",
    "lut:t8=",
    "uint4:t9=r1;0;15",
    "uint6:t10=r1;0;63",
    "uint1:t11=r1;0,1",
    "uint2:t12=r1;0;3",
    "packed10:t13=r1;-512;511",
    "y10:t14=r1;-512;511",
    "uint16:t15=r1;0;65535",
    "e4m3:t16=r1;1;0",
    "int32:t17=r1;-2147483648;2147483647",
    "uint32:t18=r1;0;4294967295",
    "int64:t19=r1;-9223372036854775808;9223372036854775807",
    "uint64:t20=r1;0;18446744073709551615",
    "raw12:t21=r1;-512;511",
    "y12:t22=r1;-512;511",
    "int4:t23=r1;-8;7",
)
"""Debugging texts that name the element types, as files have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How one version of the compiler lays out a container."""

    text_first: bool
    """Tasks and constants come before the ports."""
    outputs_first: bool
    """Base registers of outputs come before those of inputs; otherwise they follow the addresses."""
    wide_bindings: bool
    tensor_words: int
    has_items: bool
    has_note: bool
    symbols_with_suffix: bool
    """Symbols and bindings of outputs have the suffix that their tensor states have."""
    types: int
    """Element types that it names."""
    description: int
    """Description of the symbols of inputs and constants."""
    whole_outputs: bool
    """Outputs are transferred with the room after their last element."""
    type_numbers: int
    """Type numbers in descriptions of shapes wrap here."""


OLD = 2**16
STYLES: Mapping[str, Style] = {
    "v4": Style(
        text_first=True,
        outputs_first=True,
        wide_bindings=False,
        tensor_words=0x1E,
        has_items=False,
        has_note=False,
        symbols_with_suffix=True,
        types=10,
        description=2,
        whole_outputs=False,
        type_numbers=OLD,
    ),
    "v5": Style(
        text_first=True,
        outputs_first=True,
        wide_bindings=False,
        tensor_words=0x34A,
        has_items=False,
        has_note=True,
        symbols_with_suffix=False,
        types=15,
        description=2,
        whole_outputs=False,
        type_numbers=OLD,
    ),
    "v7": Style(
        text_first=True,
        outputs_first=False,
        wide_bindings=True,
        tensor_words=0x34A,
        has_items=True,
        has_note=False,
        symbols_with_suffix=False,
        types=15,
        description=2,
        whole_outputs=True,
        type_numbers=32,
    ),
    "v9": Style(
        text_first=False,
        outputs_first=False,
        wide_bindings=True,
        tensor_words=0x34A,
        has_items=True,
        has_note=False,
        symbols_with_suffix=False,
        types=23,
        description=0,
        whole_outputs=True,
        type_numbers=32,
    ),
}
"""Styles by the version of the compiler that has them: 4.2, 5.4, 7.6 and 9.509."""


@dataclass(frozen=True, slots=True)
class FramedProgram:
    """Base registers and items of a framed program, which packets name by twice the index of the register."""

    first_port: int
    """Index of the register of the first port; the others follow in steps of two."""
    items: tuple[TaggedItem, ...] = ()
    """Items before the largest estimate."""
    own_constants: bool = False
    """Constants are in a segment of their own, whose base register follows those of the ports."""


TEN_THOUSAND = TaggedItem(7, 0x461C_4000)
"""The fp32 number 10000.0; its meaning is not known."""
FRAMED_PROGRAMS: Mapping[int, FramedProgram] = {
    8: FramedProgram(12),
    11: FramedProgram(8),
    17: FramedProgram(12, (TEN_THOUSAND,), own_constants=True),
    19: FramedProgram(12, (TEN_THOUSAND,), own_constants=True),
    20: FramedProgram(12, (TEN_THOUSAND,), own_constants=True),
}
"""Framed programs by generation; 8, 11 and 17 were seen, 19 and 20 are taken to be as 17 (inferred)."""
FRAMED_CONSTANTS, FRAMED_STEP = 2, 2


@dataclass(frozen=True, slots=True)
class PlannedPort:
    """A tensor that a program reads or writes."""

    name: str
    direction: Direction
    shape: tuple[int, int, int, int]
    element: Element = Element.FLOAT16
    element_bytes: int = 2

    @property
    def strides(self) -> tuple[int, int, int, int]:
        """Bytes from one batch, channel, row and element to the next: rows are multiples of 64 bytes."""
        _, channels, height, width = self.shape
        row = round_up(max(self.element_bytes * width, 1), 64)
        return row * height * channels, row * height, row, self.element_bytes

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.shape[0] * self.strides[0]

    @property
    def used(self) -> int:
        """Bytes up to the last element."""
        return self.element_bytes + sum(
            (count - 1) * stride for count, stride in zip(self.shape, self.strides, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a container is assembled from."""

    cpu_subtype: int
    text: memoryview
    """The task section."""
    first_task_words: int = 0
    """Of a chain; tasks in frames say their own size."""
    task_count: int
    ports: Sequence[PlannedPort]
    """In the order of their addresses."""
    tensors: Sequence[str] = ()
    """Names of the ports in the order of their declaration; inputs and then outputs by address where it is empty."""
    constants: memoryview = field(default_factory=lambda: memoryview(NO_CONSTANTS))
    constant_symbols: Sequence[tuple[str, int]] = ()
    """Names of constants with their places in the section."""
    relocations: Sequence[int] = ()
    """Places in the task section that hold places in the constants."""
    scratch: int = 0
    """Bytes of memory for intermediate tensors."""
    live_scratch: int = 0
    debug_events: int = 0
    log_events: int = 0
    largest_estimate: int = 0
    name: str = "net"
    identification: str


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where everything is when the program runs."""

    text: int
    constants: int
    scratch: int
    ports: Mapping[str, int]


def assemble(parts: Parts, style: Style) -> Container:
    """Return the container of a program.

    Raises:
        HwxError: Two ports have one name, the names of the declaration are not those of the ports, or no source says
            how programs of the generation are described.
    """
    addresses = place_addresses(parts, style)
    symbols = place_names(
        [*constant_symbols(parts, style, addresses), *port_symbols(parts, style, addresses), *stabs(parts, style)]
    )
    bodies: tuple[Body, ...] = (
        *(
            PortBinding(symbol_name(port, style), addresses.ports[port.name], style.wide_bindings)
            for port in parts.ports
        ),
        program_state(parts, style, addresses),
        *(tensor_state(parts, style, port) for port in list_declared_ports(parts)),
        Identification(parts.identification),
        *((Note("src model info", 0x28, 1, bytes(8)),) if style.has_note else ()),
    )
    # The places in the file change no size of a command, so a first draft gives the sizes.
    draft = [*place_segments(parts, style, addresses, 0, 0), *bodies, symbols]
    table_at = HEADER.size + sum(len(encode_body(body)) for body in draft)
    strings_at = table_at + SYMBOL.size * len(symbols.symbols)
    relocations_at = round_up(strings_at + symbols.string_size, RELOCATION.size)
    contents_at = round_up(relocations_at + RELOCATION.size * len(parts.relocations), PAGE)
    final: tuple[Body, ...] = (
        *place_segments(parts, style, addresses, contents_at, relocations_at if parts.relocations else 0),
        *bodies,
        replace(symbols, offset=table_at, string_offset=strings_at),
    )
    commands = tuple(LoadCommand(body, len(encode_body(body))) for body in final)
    return Container(
        Header(parts.cpu_subtype), commands, contents_at + own_segment_size(parts) + text_segment_size(parts)
    )


def place_addresses(parts: Parts, style: Style) -> Addresses:
    """Return the address of everything: regions of whole pages, one after the other."""
    text: list[tuple[str, int]] = [(TEXT_KEY, text_segment_size(parts))]
    scratch = [(SCRATCH_KEY, parts.scratch)] if parts.scratch else []
    constants = [(CONSTANTS_KEY, len(parts.constants))] if has_own_segment(parts) else []
    ports = [(port.name, port.size) for port in parts.ports]
    at = FIRST_ADDRESS
    found: dict[str, int] = {}
    ordered = (*constants, *text, *scratch, *ports) if style.text_first else (*ports, *scratch, *constants, *text)
    for key, size in ordered:
        found[key] = at
        at += round_up(size, PAGE)
    return Addresses(
        text=found[TEXT_KEY],
        constants=found.get(CONSTANTS_KEY, found[TEXT_KEY] + constants_place(parts)),
        scratch=found.get(SCRATCH_KEY, 0),
        ports={port.name: found[port.name] for port in parts.ports},
    )


def has_own_segment(parts: Parts) -> bool:
    """Return whether the constants of a program are in a segment of their own."""
    generation = generations().get(parts.cpu_subtype)
    known = None if generation is None else FRAMED_PROGRAMS.get(generation)
    return known is not None and known.own_constants and bytes(parts.constants) != NO_CONSTANTS


def own_segment_size(parts: Parts) -> int:
    """Return the bytes of the segment of constants; 0 where they are next to the tasks."""
    return round_up(len(parts.constants), PAGE) if has_own_segment(parts) else 0


def constants_place(parts: Parts) -> int:
    """Return the place of the constants in the segment of tasks."""
    return round_up(len(parts.text), 1 << CONSTANT_ALIGNMENT)


def constants_in_text(parts: Parts) -> memoryview:
    """Return the constants that are next to the tasks: those of a program without any where it has them elsewhere."""
    return memoryview(NO_CONSTANTS) if has_own_segment(parts) else parts.constants


def text_segment_size(parts: Parts) -> int:
    """Return the bytes of the segment of tasks and of the constants next to them."""
    return round_up(constants_place(parts) + len(constants_in_text(parts)), PAGE)


def place_segments(
    parts: Parts, style: Style, addresses: Addresses, contents_at: int, relocations_at: int
) -> tuple[Segment, ...]:
    """Return the segments in the order of the file, for a place of what they hold and one of the relocations."""
    zero = Segment(name="__PAGEZERO", address=0, size=PAGE, flags=4)
    constants = (constants_segment(parts, addresses, contents_at),) if has_own_segment(parts) else ()
    text = text_segment(parts, style, addresses, contents_at + own_segment_size(parts), relocations_at)
    ports = tuple(port_segment(port, addresses.ports[port.name]) for port in parts.ports)
    scratch = (scratch_segment(parts.scratch, addresses.scratch),) if parts.scratch else ()
    if style.text_first:
        return (zero, *constants, text, *scratch, *ports)
    return (zero, *ports, *scratch, *constants, text)


def constants_segment(parts: Parts, addresses: Addresses, at: int) -> Segment:
    """Return the segment of constants that are not next to the tasks."""
    section = Section(
        name="__kern_0",
        segment="__KERN_0",
        address=addresses.constants,
        size=len(parts.constants),
        file_offset=at,
        alignment=CONSTANT_ALIGNMENT,
        flags=0x26,
        content=parts.constants,
    )
    size = own_segment_size(parts)
    return Segment(
        name="__KERN_0",
        address=addresses.constants,
        size=size,
        file_offset=at,
        file_size=size,
        protection=(1, 1),
        flags=4,
        sections=(section,),
    )


def text_segment(parts: Parts, style: Style, addresses: Addresses, at: int, relocations_at: int) -> Segment:
    """Return the segment of tasks and constants."""
    info = RELATIVE_WORD | constants_ordinal(parts, style)
    text = Section(
        name="__text",
        segment="__TEXT",
        address=addresses.text,
        size=len(parts.text),
        file_offset=at,
        relocation_offset=relocations_at,
        flags=0x128 if parts.relocations else 0x28,
        relocations=tuple(Relocation(place, info) for place in parts.relocations),
        content=parts.text,
    )
    constant_bytes = constants_in_text(parts)
    constants = Section(
        name="__const",
        segment="__TEXT",
        address=addresses.text + constants_place(parts),
        size=len(constant_bytes),
        file_offset=at + constants_place(parts),
        alignment=CONSTANT_ALIGNMENT,
        flags=0x26,
        content=constant_bytes,
    )
    size = text_segment_size(parts)
    return Segment(
        name="__TEXT",
        address=addresses.text,
        size=size,
        file_offset=at,
        file_size=size,
        protection=(5, 5),
        flags=0 if parts.relocations else 4,
        sections=(text, constants),
    )


def port_segment(port: PlannedPort, address: int) -> Segment:
    """Return the segment of a port; it has no bytes in the file."""
    read = port.direction == Direction.INPUT
    name, flags, protection = ("__const", 0x21, (1, 1)) if read else ("__data", 0x23, (2, 2))
    section = Section(name=name, segment="__FVMLIB", address=address, size=port.size, flags=flags)
    return Segment(
        name="__FVMLIB",
        address=address,
        size=round_up(port.size, PAGE),
        protection=protection,
        flags=6,
        sections=(section,),
    )


def scratch_segment(size: int, address: int) -> Segment:
    """Return the segment of memory for intermediate tensors; it has no bytes in the file."""
    section = Section(name="__bss", segment="__DATA", address=address, size=size, flags=0x25)
    return Segment(
        name="__DATA", address=address, size=round_up(size, PAGE), protection=(3, 3), flags=4, sections=(section,)
    )


def constants_ordinal(parts: Parts, style: Style) -> int:
    """Return the number of the section of constants, from 1: before that of the tasks in a segment of its own."""
    before = 0 if style.text_first else len(parts.ports) + bool(parts.scratch)
    return before + (1 if has_own_segment(parts) else 2)


def port_ordinal(parts: Parts, style: Style, place: int) -> int:
    """Return the number of the section of a port, from 1."""
    return place + (3 + bool(parts.scratch) + has_own_segment(parts) if style.text_first else 1)


def program_state(parts: Parts, style: Style, addresses: Addresses) -> ProgramState:
    """Return the program with its base registers.

    Raises:
        HwxError: No source says how programs of its generation are described.
    """
    generation = generations().get(parts.cpu_subtype)
    if generation in CHAINED_GENERATIONS:
        return build_chained_program(parts, style, addresses)
    if generation is None or generation not in FRAMED_PROGRAMS:
        known = sorted((*CHAINED_GENERATIONS, *FRAMED_PROGRAMS))
        raise HwxError("programs of this generation are not known", seen=generation, limit=known)
    return build_framed_program(parts, FRAMED_PROGRAMS[generation], addresses)


def build_chained_program(parts: Parts, style: Style, addresses: Addresses) -> ProgramState:
    """Return a program whose tasks are a chain."""
    first = [port for port in parts.ports if style.outputs_first and port.direction == Direction.OUTPUT]
    ordered = (*first, *(port for port in parts.ports if port not in first))
    registers = [(TEXT_BASE, addresses.text), (CONSTANT_BASE, addresses.constants)]
    registers += [(SCRATCH_BASE, addresses.scratch)] if parts.scratch else []
    registers += [(FIRST_PORT_BASE + place, addresses.ports[port.name]) for place, port in enumerate(ordered)]
    items = (TaggedItem(LARGEST_ESTIMATE, parts.largest_estimate),) if style.has_items else None
    return ProgramState(
        flavor=CHAINED,
        bases=tuple(Base(index, address) for index, address in registers),
        text_address=addresses.text,
        task_count=parts.task_count,
        first_task_words=parts.first_task_words,
        live_scratch=parts.live_scratch,
        debug_events=parts.debug_events,
        log_events=parts.log_events,
        items=items,
        state_words=state_words(CHAINED, items),
        name=parts.name,
    )


def build_framed_program(parts: Parts, known: FramedProgram, addresses: Addresses) -> ProgramState:
    """Return a program whose tasks follow one another in frames; ports have registers in the order of addresses.

    Raises:
        HwxError: It has scratch memory, and no file says where that is.
    """
    if parts.scratch:
        raise HwxError("where programs of this generation have scratch memory is not known", seen=parts.scratch)
    placed = [addresses.ports[port.name] for port in parts.ports]
    placed += [addresses.constants] if has_own_segment(parts) else []
    registers = [(0, addresses.text), (FRAMED_CONSTANTS, addresses.text + constants_place(parts))]
    registers += [(known.first_port + FRAMED_STEP * place, address) for place, address in enumerate(placed)]
    items = (*known.items, TaggedItem(LARGEST_ESTIMATE, parts.largest_estimate))
    return ProgramState(
        flavor=FRAMED,
        bases=tuple(Base(index, address) for index, address in registers),
        text_address=addresses.text,
        task_count=parts.task_count,
        frame_words=FRAME_WORDS,
        text_words=len(parts.text) // 4,
        debug_events=parts.debug_events,
        log_events=parts.log_events,
        items=items,
        state_words=state_words(FRAMED, items),
        name=parts.name,
    )


def state_words(flavor: int, items: tuple[TaggedItem, ...] | None) -> int:
    """Return the words of a program state: those before its items, then the items.

    >>> [hex(state_words(1, items)) for items in (None, (TaggedItem(9, 0),))]
    ['0x214', '0x21a']
    """
    return (PROGRAMS[flavor].items_at + len(encode_items(items)) - STATE_HEAD) // 4


def list_declared_ports(parts: Parts) -> list[PlannedPort]:
    """Return the ports in the order of their declaration.

    Raises:
        HwxError: Two ports have one name, or the names of the declaration are not those of the ports.
    """
    by_name = {port.name: port for port in parts.ports}
    by_direction = [port.name for direction in Direction for port in parts.ports if port.direction == direction]
    names = parts.tensors or by_direction
    if sorted(names) != sorted(by_name) or len(by_name) != len(parts.ports):
        raise HwxError("the declared names must be those of the ports", seen=list(names), limit=by_direction)
    return [by_name[name] for name in names]


def tensor_state(parts: Parts, style: Style, port: PlannedPort) -> TensorState:
    """Return the state of a port."""
    written = port.direction == Direction.OUTPUT
    return TensorState(
        direction=port.direction,
        element=port.element,
        shape=port.shape,
        depth=1,
        strides=port.strides,
        size=port.strides[0],
        transfer_size=port.used if written and not style.whole_outputs else port.strides[0],
        state_words=style.tensor_words,
        module=parts.name,
        name=port.name + OUTPUT_SUFFIX if written else port.name,
        port_name=symbol_name(port, style),
    )


def symbol_name(port: PlannedPort, style: Style) -> str:
    """Return the name of a port in symbols and bindings."""
    suffixed = style.symbols_with_suffix and port.direction == Direction.OUTPUT
    return port.name + OUTPUT_SUFFIX if suffixed else port.name


def constant_symbols(parts: Parts, style: Style, addresses: Addresses) -> Iterator[Symbol]:
    """Yield the symbols of constants."""
    ordinal = constants_ordinal(parts, style)
    for name, place in parts.constant_symbols:
        yield new_symbol(name, NAMED, ordinal, style.description, addresses.constants + place)


def port_symbols(parts: Parts, style: Style, addresses: Addresses) -> Iterator[Symbol]:
    """Yield the symbols of ports."""
    for place, port in enumerate(parts.ports):
        description = style.description if port.direction == Direction.INPUT else 0
        ordinal = port_ordinal(parts, style, place)
        yield new_symbol(symbol_name(port, style), NAMED, ordinal, description, addresses.ports[port.name])


def stabs(parts: Parts, style: Style) -> Iterator[Symbol]:
    """Yield the debugging texts: element types, then shapes."""
    for text in TYPE_STABS[: style.types]:
        yield new_symbol(text, TYPE_STAB, 0, 0, 0)
    for place, port in enumerate(parts.ports):
        number = style.types + 1 + SHAPE_NUMBERS * place
        text = shape_stab(symbol_name(port, style), number, port)
        yield new_symbol(text, SHAPE_STAB, 0, number % style.type_numbers, 0)


def shape_stab(name: str, number: int, port: PlannedPort) -> str:
    """Return the debugging text of a shape.

    >>> shape_stab("x", 11, PlannedPort("x", Direction.INPUT, (1, 3, 1, 1)))
    'x:t11=ar1;0;1;12=s192n:ar1;0;3;13=s64c:ar1;0;1;14=s64h:ar1;0;1;15=s2w:5'
    """
    axes = zip("nchw", port.shape, port.strides, strict=True)
    parts = (f"ar1;0;{count};{number + 1 + place}=s{stride}{axis}" for place, (axis, count, stride) in enumerate(axes))
    return f"{name}:t{number}={':'.join(parts)}:{port.element.value}"


def new_symbol(name: str, kind: int, section: int, description: int, value: int) -> Symbol:
    """Return a symbol whose name has no place yet."""
    return Symbol(name=name, name_offset=0, type=kind, section=section, description=description, value=value)


def place_names(symbols: Iterable[Symbol]) -> SymbolTable:
    """Return symbols with the places of their names: a NUL, then each name with one."""
    at, placed = 1, list[Symbol]()
    for one in symbols:
        placed.append(replace(one, name_offset=at))
        at += len(encode_text(one.name)) + 1
    return SymbolTable(offset=0, string_offset=0, string_size=at, symbols=tuple(placed))


def round_up(value: int, unit: int) -> int:
    """Return the next multiple of a unit.

    >>> round_up(0x274, 64), round_up(64, 64)
    (640, 64)
    """
    return -(-value // unit) * unit
