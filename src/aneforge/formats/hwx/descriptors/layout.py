"""Registers of task descriptors per generation: the typed form of the files in `layouts/`.

A field is found by its block and its own name, whatever register a generation keeps it in: the width of the source is
half a register in one generation and a register of its own in another, and `common.source_width` in both.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aneforge.errors import DataFileError, HwxError, UnknownNameError
from aneforge.evidence import Evidence  # noqa: TC001 - msgspec reads the types of fields
from aneforge.records import dataclass
from aneforge.targets import database, schema

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Block",
    "Field",
    "FieldType",
    "Layout",
    "PatchPlace",
    "Pattern",
    "Patterns",
    "Place",
    "Register",
    "Style",
    "field_name",
    "generations",
    "layout_of",
    "patch_places",
]

FOLDER = Path(__file__).parent / "layouts"
HEADER = "header"
WORD = 0xFFFF_FFFF
BITS = re.compile(r"(\d+)(?::(\d+))?")


class Style(StrEnum):
    """How the tasks of a section follow one another, and how records say what they write."""

    LINKED = "linked"
    """Each task names offset and size of the next; a record writes registers that follow one another."""
    FRAMED = "framed"
    """Each task says its own size and starts at a multiple of 16 bytes; records are dense, scattered or addresses."""


class FieldType(StrEnum):
    """How the bits of a field are read."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FP16 = "fp16"
    FP32 = "fp32"


class FieldEntry(schema.Entry, frozen=True):
    """A field as the file has it."""

    name: str
    bits: str
    type: FieldType = FieldType.UNSIGNED
    unit: int = 1
    """What one step of the stored number means; an address that leaves its low bits out is in bytes this way."""
    hex: bool = False
    codes: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    summary: str = ""
    evidence: Evidence | None = None


class RegisterEntry(schema.Entry, frozen=True):
    """A register as the file has it."""

    name: str
    at: int
    fields: tuple[FieldEntry, ...] | None = None
    """None: those of the register of this name in the block that this one is like."""
    count: int = 1
    default: int | None = None
    patch_width: bool = False
    evidence: Evidence | None = None


class BlockEntry(schema.Entry, frozen=True):
    """A block as the file has it."""

    at: int
    words: int
    summary: str = ""
    like: int | None = None
    """Generation whose registers of this block are taken over."""
    registers: tuple[RegisterEntry, ...] = ()


class FramingEntry(schema.Entry, frozen=True):
    """How tasks are framed, as the file has it."""

    style: Style
    header_words: int
    evidence: Evidence


class Pattern(schema.Entry, frozen=True):
    """Values of a header word under a mask, by the place of a task among those of its program."""

    mask: int
    only: tuple[int, ...]
    first: tuple[int, ...]
    middle: tuple[int, ...]
    last: tuple[int, ...]

    def values(self, index: int, count: int) -> tuple[int, ...]:
        """Return the values of a task at a place."""
        if count == 1:
            return self.only
        if index == 0:
            return self.first
        return self.last if index == count - 1 else self.middle


class Patterns(schema.Entry, frozen=True):
    """Patterns of a generation's header words."""

    evidence: Evidence
    flags: Pattern
    log_events: Pattern
    debug_log_events: Pattern


class LayoutFile(schema.Entry, frozen=True):
    """One file of `layouts/`."""

    generation: int
    evidence: Evidence
    framing: FramingEntry
    blocks: dict[str, BlockEntry]
    defaults_evidence: Evidence | None = None
    patterns: Patterns | None = None
    forms: dict[str, tuple[tuple[int, int], ...]] = msgspec.field(
        default_factory=dict[str, tuple[tuple[int, int], ...]]
    )


@dataclass(frozen=True, slots=True)
class Field:
    """Some bits of a register, and what they are."""

    name: str
    low: int
    width: int
    type: FieldType
    unit: int
    hex: bool
    codes: Mapping[int, str]
    summary: str
    evidence: Evidence

    @property
    def mask(self) -> int:
        """Its bits in the register."""
        return ((1 << self.width) - 1) << self.low

    @property
    def bits(self) -> str:
        """Its bits in words, as `14:0`."""
        return f"{self.low + self.width - 1}:{self.low}" if self.width > 1 else str(self.low)

    def raw(self, word: int) -> int:
        """Return the stored number."""
        return (word & self.mask) >> self.low

    def value(self, word: int) -> int | float:
        """Return what the bits say: a number in the field's unit, or a float."""
        raw = self.raw(word)
        match self.type:
            case FieldType.FP16:
                return float(np.uint16(raw).view(np.float16))
            case FieldType.FP32:
                return float(np.uint32(raw).view(np.float32))
            case FieldType.SIGNED:
                return raw - (1 << self.width) if raw >> (self.width - 1) else raw
            case FieldType.UNSIGNED:
                return raw * self.unit

    def with_value(self, word: int, value: float) -> int:
        """Return a register with the field set.

        Raises:
            HwxError: The value does not fit.
        """
        raw = self.stored(value)
        if raw is None:
            raise HwxError(f"the value of {self.name} must fit bits {self.bits} in steps of {self.unit}", seen=value)
        return (word & ~self.mask & WORD) | (raw << self.low)

    def stored(self, value: float) -> int | None:
        """Return the number that is stored for a value; None where there is none."""
        match self.type:
            case FieldType.FP16:
                return int(np.float16(value).view(np.uint16))
            case FieldType.FP32:
                return int(np.float32(value).view(np.uint32))
            case FieldType.SIGNED:
                half = 1 << (self.width - 1)
                return int(value) % (2 * half) if -half <= value < half and value == int(value) else None
            case FieldType.UNSIGNED:
                steps, rest = divmod(value, self.unit)
                return int(steps) if not rest and 0 <= steps < 1 << self.width else None

    def text(self, word: int) -> str:
        """Return the value as a disassembly prints it."""
        value = self.value(word)
        if isinstance(value, float):
            return f"{value:g}"
        if self.codes:
            return f"{value} ({self.codes.get(value, 'unknown code')})"
        return f"{value:#x}" if self.hex or self.unit > 1 else str(value)


@dataclass(frozen=True, slots=True)
class Register:
    """One register, or several of one form that follow each other."""

    block: str
    name: str
    address: int
    count: int
    fields: tuple[Field, ...]
    default: int | None
    patch_width: bool
    """It holds the patch width whose place in the compiler's object `descriptors.toml` gives."""

    @property
    def label(self) -> str:
        """Block and name."""
        return f"{self.block}.{self.name}"

    @property
    def known_bits(self) -> int:
        """Bits that some field names."""
        return sum(field.mask for field in self.fields)

    def label_of(self, index: int) -> str:
        """Return the name of one of several."""
        return self.label if self.count == 1 else f"{self.label}[{index}]"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field is."""

    register: Register
    field: Field


@dataclass(frozen=True, slots=True)
class Block:
    """Registers of one unit of the engine."""

    name: str
    address: int
    words: int
    summary: str
    registers: tuple[Register, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything that is known of one generation's descriptors."""

    generation: int
    style: Style
    header_words: int
    blocks: Mapping[str, Block]
    fields: Mapping[str, Place]
    by_address: Mapping[int, tuple[Register, int]]
    """Registers of records by address, with the place among those of one form."""
    header: Mapping[int, Register]
    """Header words by number."""
    forms: Mapping[str, tuple[tuple[int, int], ...]]
    """Records of whole tasks: address and number of registers of each."""
    patterns: Patterns | None
    """Values that header words have in real programs; None where too few were read."""
    evidence: Evidence
    framing_evidence: Evidence
    defaults_evidence: Evidence | None

    def place(self, name: str) -> Place:
        """Return where a field is, by its block and name.

        Raises:
            UnknownNameError: This generation has no such field.
        """
        if name not in self.fields:
            raise UnknownNameError.of(f"field of generation {self.generation}", name, self.fields)
        return self.fields[name]

    def has(self, name: str) -> bool:
        """Return whether this generation has a field of that name."""
        return name in self.fields

    def label_at(self, address: int) -> str:
        """Return a name for a register that is in no list: its block and its offset there."""
        for block in self.blocks.values():
            if block.name != HEADER and block.address <= address < block.address + 4 * block.words:
                return f"{block.name}+{address - block.address:#04x}"
        return f"register {address:#x}"

    @property
    def patch_register(self) -> Register:
        """The register that holds the patch width."""
        return next(register for register, _ in self.by_address.values() if register.patch_width)


def field_name(block: str, field: str) -> str:
    """Return the name under which a field is found."""
    return f"{block}.{field}"


@cache
def generations() -> tuple[int, ...]:
    """Return the generations whose registers are known.

    >>> generations()
    (7, 8, 11, 17, 19, 20)
    """
    return tuple(sorted(int(path.stem.removeprefix("generation")) for path in FOLDER.glob("generation*.toml")))


@cache
def layout_of(generation: int) -> Layout:
    """Return the registers of a generation.

    >>> layout_of(7).place("common.source_width").register.label
    'common.source_dimensions'

    Raises:
        HwxError: The registers of that generation are not known.
    """
    if generation not in generations():
        raise HwxError(f"the registers of generation {generation} are not known", seen=generation, limit=generations())
    file = read_file(generation)
    blocks = {name: block_of(name, entry, file) for name, entry in file.blocks.items()}
    records = [block for block in blocks.values() if block.name != HEADER]
    return Layout(
        generation=generation,
        style=file.framing.style,
        header_words=file.framing.header_words,
        blocks=blocks,
        fields={
            field_name(block.name, field.name): Place(register, field)
            for block in blocks.values()
            for register in block.registers
            for field in register.fields
        },
        by_address={
            register.address + 4 * index: (register, index)
            for block in records
            for register in block.registers
            for index in range(register.count)
        },
        header={register.address // 4: register for register in blocks[HEADER].registers},
        forms=file.forms,
        patterns=file.patterns,
        evidence=file.evidence,
        framing_evidence=file.framing.evidence,
        defaults_evidence=file.defaults_evidence,
    )


@cache
def read_file(generation: int) -> LayoutFile:
    """Return a file of `layouts/`.

    Raises:
        DataFileError: It is not as it should be.
    """
    path = FOLDER / f"generation{generation}.toml"
    file = schema.read(path, LayoutFile)
    if file.generation != generation:
        raise DataFileError(f"{path.name} must be of generation {generation} (got {file.generation})")
    return file


def block_of(name: str, entry: BlockEntry, file: LayoutFile) -> Block:
    """Return a block, with what it takes over from another generation."""
    taken = inherit_registers(name, entry)
    own = {one.name: register_of(name, entry, one, taken.get(one.name), file.evidence) for one in entry.registers}
    registers = {**taken, **own}
    summary = entry.summary or (read_file(entry.like).blocks[name].summary if entry.like is not None else "")
    ordered = tuple(sorted(registers.values(), key=lambda one: one.address))
    return Block(name, entry.at, entry.words, summary, ordered)


def inherit_registers(name: str, entry: BlockEntry) -> dict[str, Register]:
    """Return the registers that a block takes over, at its own address."""
    if entry.like is None:
        return {}
    file = read_file(entry.like)
    source = block_of(name, file.blocks[name], file)
    return {
        one.name: Register(
            name, one.name, one.address - source.address + entry.at, one.count, one.fields, one.default, one.patch_width
        )
        for one in source.registers
    }


def register_of(
    block: str, entry: BlockEntry, register: RegisterEntry, taken: Register | None, evidence: Evidence
) -> Register:
    """Return a register of a file.

    Raises:
        DataFileError: It has no fields, and there is none to take them from.
    """
    if register.fields is None and taken is None:
        raise DataFileError(f"register {block}.{register.name} must have fields, or a block that it takes them from")
    if register.fields is None and taken is not None:
        fields, patch_width = taken.fields, taken.patch_width
    else:
        given = register.evidence or evidence
        fields, patch_width = tuple(field_of(one, given) for one in register.fields or ()), register.patch_width
    return Register(block, register.name, entry.at + register.at, register.count, fields, register.default, patch_width)


def field_of(entry: FieldEntry, evidence: Evidence) -> Field:
    """Return a field of a file.

    Raises:
        DataFileError: Its bits are not a range of a word.
    """
    found = BITS.fullmatch(entry.bits)
    high, low = (int(found[1]), int(found[2] or found[1])) if found else (0, 32)
    if not 0 <= low <= high < 32:
        raise DataFileError(f"bits of field {entry.name} must be a range within 31:0 (got {entry.bits!r})")
    return Field(
        name=entry.name,
        low=low,
        width=high - low + 1,
        type=entry.type,
        unit=entry.unit,
        hex=entry.hex,
        codes={int(code): meaning for code, meaning in entry.codes.items()},
        summary=entry.summary,
        evidence=entry.evidence or evidence,
    )


@dataclass(frozen=True, slots=True)
class PatchPlace:
    """Where a generation keeps the patch width: in the compiler's object, and in the descriptor."""

    object_offset: int
    """Bytes from the start of the compiler's object (table 35.5 of the guide)."""
    register: Register | None
    """None where only the object's offset is known."""
    defect: str
    """A known defect of the compiler at this place; empty where there is none."""


def patch_places() -> Mapping[int, PatchPlace]:
    """Return where the generations keep the patch width, by generation.

    >>> place = patch_places()[7]
    >>> hex(place.object_offset), hex(place.register.address)
    ('0x200', '0x2c')
    """
    return {
        number: PatchPlace(
            known.patch_width_offset,
            layout_of(number).patch_register if number in generations() else None,
            known.defect,
        )
        for number, known in database().descriptors.items()
        if known.patch_width_offset is not None
    }
