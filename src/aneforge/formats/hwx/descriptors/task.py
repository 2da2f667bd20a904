"""One task descriptor: its header, the records that write registers, and everything read by name.

Nothing is lost: a task keeps its words, known or not, and names are a view of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.layout import Layout, Place, Register, Style, layout_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Record", "Task", "Word", "Write"]

SCATTERED, ADDRESS = 1 << 31, 1 << 29


@dataclass(frozen=True, slots=True)
class Record:
    """One record: a word that says which registers are written, and their values.

    >>> Record.dense(Style.FRAMED, 0x500, (1, 2)).addresses
    (1280, 1284)
    """

    style: Style
    head: int
    values: tuple[int, ...]

    @classmethod
    def dense(cls, style: Style, address: int, values: tuple[int, ...]) -> Record:
        """Return a record that writes registers which follow one another."""
        if style is Style.LINKED:
            return cls(style, (len(values) - 1) << 26 | address, values)
        return cls(style, (len(values) - 1) << 15 | address >> 2, values)

    @classmethod
    def scattered(cls, values: Mapping[int, int]) -> Record:
        """Return a record that writes the first register and any of the sixteen after it."""
        first = min(values)
        mask = sum(1 << ((address - first) // 4 - 1) for address in values if address != first)
        ordered = tuple(values[address] for address in sorted(values))
        return cls(Style.FRAMED, SCATTERED | mask << 15 | first >> 2, ordered)

    @classmethod
    def based(cls, slot: int, address: int, values: tuple[int, ...]) -> Record:
        """Return a record to whose value the address in a slot of the program descriptor is added."""
        return cls(Style.FRAMED, ADDRESS | slot << 21 | (len(values) - 1) << 15 | address >> 2, values)

    @property
    def addresses(self) -> tuple[int, ...]:
        """Addresses of the registers that it writes, in the order of its values."""
        first = self.first
        if self.style is Style.FRAMED and self.head & SCATTERED:
            mask = self.head >> 15 & 0xFFFF
            return (first, *(first + 4 + 4 * place for place in range(16) if mask >> place & 1))
        return tuple(first + 4 * place for place in range(self.count))

    @property
    def first(self) -> int:
        """Address of the first register."""
        return self.head & 0x3FF_FFFF if self.style is Style.LINKED else 4 * (self.head & 0x7FFF)

    @property
    def count(self) -> int:
        """How many registers it writes."""
        if self.style is Style.LINKED:
            return (self.head >> 26) + 1
        if self.head & SCATTERED:
            return (self.head >> 15 & 0xFFFF).bit_count() + 1
        return (self.head >> 15 & 0x3F) + 1

    @property
    def slot(self) -> int | None:
        """Slot of the program descriptor whose address is added; None where there is none."""
        if self.style is Style.LINKED or self.head & SCATTERED or not self.head & ADDRESS:
            return None
        return self.head >> 21 & 0xFF

    @property
    def unknown_bits(self) -> int:
        """Bits of its head that no form uses."""
        if self.style is Style.LINKED or self.head & SCATTERED:
            return 0
        used = ADDRESS | 0x1F_FFFF | (0xFF << 21 if self.head & ADDRESS else 0)
        return self.head & ~used


@dataclass(frozen=True, slots=True)
class Write:
    """One value that a record writes."""

    address: int
    word: int
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A header word or a register that is written, with what is known of it."""

    label: str
    address: int
    word: int
    register: Register | None
    """None where the register is in no list."""
    slot: int | None = None

    @property
    def unknown_bits(self) -> int:
        """Bits that are set and that no field names."""
        return self.word & ~(self.register.known_bits if self.register else 0)


@dataclass(frozen=True)
class Task:
    """One task.

    Fields are asked for by block and name, as `common.source_width`. A field that the task does not write has the
    register's default; where no default is known, the answer is None.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> (task,) = af.hwx.tasks_of(af.hwx.emit(x.relu(), af.targets.Family.A13).files[0].container)
    >>> task.size, task.integer("common.source_width"), task.code("common.source1_format"), len(task.unknown)
    (126, 8, 'fp16', 1)
    """

    generation: int
    header: tuple[int, ...]
    records: tuple[Record, ...]
    offset: int = 0
    """Bytes from the start of the section."""

    @property
    def layout(self) -> Layout:
        """The registers of its generation."""
        return layout_of(self.generation)

    @property
    def size(self) -> int:
        """Its words."""
        return len(self.header) + sum(1 + len(record.values) for record in self.records)

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        """What its records write, in order."""
        return tuple(
            Write(address, word, record.slot)
            for record in self.records
            for address, word in zip(record.addresses, record.values, strict=True)
        )

    @cached_property
    def registers(self) -> Mapping[int, Write]:
        """The last value of every register that it writes, by address."""
        return {write.address: write for write in self.writes}

    def word(self, name: str, index: int = 0) -> int | None:
        """Return the register that holds a field; its default where it is not written, None where no default is known.

        Raises:
            UnknownNameError: The generation has no such field.
        """
        register = self.layout.place(name).register
        if register.block == "header":
            number = register.address // 4
            return self.header[number] if number < len(self.header) else None
        written = self.registers.get(register.address + 4 * index)
        return register.default if written is None else written.word

    def integer(self, name: str, index: int = 0) -> int | None:
        """Return a field that is an integer, in its unit; None where it is not written and has no default."""
        word = self.word(name, index)
        return None if word is None else int(self.layout.place(name).field.value(word))

    def number(self, name: str) -> float | None:
        """Return a field that is a floating-point number; None where it is not written and has no default."""
        word = self.word(name)
        return None if word is None else float(self.layout.place(name).field.value(word))

    def flag(self, name: str, index: int = 0) -> bool:
        """Return whether a field is set: it exists in this generation, is written or has a default, and is not 0."""
        return self.layout.has(name) and bool(self.integer(name, index))

    def code(self, name: str) -> str | None:
        """Return what the code of a field says; None where it is not written, or the code is unknown."""
        word = self.word(name)
        if word is None:
            return None
        field = self.layout.place(name).field
        return field.codes.get(field.raw(word))

    def slot(self, name: str) -> int | None:
        """Return the slot whose address is added to a register; None where it is not written by an address packet."""
        written = self.registers.get(self.layout.place(name).register.address)
        return None if written is None else written.slot

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Every header word and every value that is written, in the order of the task, with its name."""
        return tuple(self._words())

    @property
    def unknown(self) -> tuple[Word, ...]:
        """Words in which bits are set that no field names."""
        return tuple(word for word in self.words if word.unknown_bits)

    def with_fields(self, values: Mapping[str, float]) -> Task:
        """Return the task with fields changed; a name may end in an index, as `kernel_source.coefficient_base[3]`.

        Raises:
            UnknownNameError: The generation has no such field.
            HwxError: A value does not fit its field, or the task does not write the register.
        """
        changed = self
        for name, value in values.items():
            stem, _, index = name.partition("[")
            changed = changed._with_field(self.layout.place(stem), int(index.rstrip("]") or 0), value)
        return changed

    def _words(self) -> Iterator[Word]:
        layout = self.layout
        for number, word in enumerate(self.header):
            register = layout.header.get(number)
            yield Word(register.label if register else f"header+{4 * number:#04x}", 4 * number, word, register)
        for write in self.writes:
            found, index = layout.by_address.get(write.address, (None, 0))
            label = found.label_of(index) if found else layout.label_at(write.address)
            yield Word(label, write.address, write.word, found, write.slot)

    def _with_field(self, place: Place, index: int, value: float) -> Task:
        register = place.register
        if register.block == "header":
            number = register.address // 4
            self._must_hold(place, written=number < len(self.header))
            header = list(self.header)
            header[number] = place.field.with_value(header[number], value)
            return replace(self, header=tuple(header))
        address = register.address + 4 * index
        self._must_hold(place, written=index < register.count and address in self.registers)
        records = tuple(
            replace(
                record,
                values=tuple(
                    place.field.with_value(word, value) if at == address else word
                    for at, word in zip(record.addresses, record.values, strict=True)
                ),
            )
            for record in self.records
        )
        return replace(self, records=records)

    def _must_hold(self, place: Place, *, written: bool) -> None:
        if not written:
            raise HwxError(f"the task does not write {place.register.label}")
