"""The registers of every generation: whole, without overlaps, and in agreement with the target database."""

import pytest

from aneforge.errors import DataFileError, HwxError, UnknownNameError
from aneforge.formats.hwx.descriptors.layout import (
    BlockEntry,
    Field,
    FieldEntry,
    FieldType,
    LayoutFile,
    RegisterEntry,
    field_of,
    generations,
    layout_of,
    patch_places,
    read_file,
    register_of,
)
from aneforge.targets import database

EVIDENCE = layout_of(7).evidence


def field(bits: str, kind: FieldType = FieldType.UNSIGNED, unit: int = 1) -> Field:
    return field_of(FieldEntry("x", bits, kind, unit), EVIDENCE)


@pytest.mark.parametrize("generation", generations())
def test_registers_lie_in_their_block_and_share_no_address_and_no_bit(generation: int) -> None:
    for block in layout_of(generation).blocks.values():
        taken: set[int] = set()
        for register in block.registers:
            addresses = {register.address + 4 * index for index in range(register.count)}
            assert not addresses & taken, register.label
            taken |= addresses
            assert all(block.address <= one < block.address + 4 * block.words for one in addresses), register.label
            assert register.known_bits.bit_count() == sum(one.width for one in register.fields), register.label


@pytest.mark.parametrize("generation", generations())
def test_what_is_known_has_a_source(generation: int) -> None:
    layout = layout_of(generation)
    known = [layout.evidence, layout.framing_evidence, *(place.field.evidence for place in layout.fields.values())]
    known += [layout.defaults_evidence] if layout.defaults_evidence else []
    assert {one.source.split()[0] for one in known} <= set(database().sources)
    defaults = [register.label for register, _ in layout.by_address.values() if register.default is not None]
    assert not defaults or layout.defaults_evidence


@pytest.mark.parametrize(
    ("generation", "offset", "register"),
    [
        (7, 0x200, 0x2C),
        (8, 0x224, 0x30),
        (10, 0x12C, None),
        (11, 0x21C, 0x30),
        (17, 0x23C, 0x44),
        (19, 0x248, 0x44),
        (20, 0x26C, 0x44),
    ],
)
def test_offsets_of_the_patch_width_in_the_compiler_are_registers(
    generation: int, offset: int, register: int | None
) -> None:
    place = patch_places()[generation]
    assert place.object_offset == offset == database().descriptors[generation].patch_width_offset
    assert (place.register.address if place.register else None) == register
    assert len(patch_places()) == 7


def test_the_defect_of_generation_7_is_marked_and_no_other_has_one() -> None:
    marked = {generation: place.defect for generation, place in patch_places().items() if place.defect}
    assert set(marked) == {7}
    assert "tile-overlap-pad-reflect" in marked[7]


def test_a_generation_without_registers_is_an_error() -> None:
    with pytest.raises(HwxError, match="the registers of generation 10 are not known"):
        layout_of(10)


def test_an_unknown_field_is_an_error_that_names_near_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"common\.source_width"):
        layout_of(7).place("common.source_widht")


def test_a_register_without_a_name_is_found_by_its_block() -> None:
    assert layout_of(7).label_at(0x13840) == "source+0x40"
    assert layout_of(7).label_at(0x3FF0000) == "register 0x3ff0000"


@pytest.mark.parametrize(
    ("kind", "bits", "unit", "value", "word"),
    [
        (FieldType.UNSIGNED, "31:6", 64, 0x1240, 0x1240),
        (FieldType.UNSIGNED, "9:5", 1, 3, 0x60),
        (FieldType.SIGNED, "12:8", 1, -4, 0x1C00),
        (FieldType.SIGNED, "12:8", 1, 15, 0xF00),
        (FieldType.FP16, "31:16", 1, 1.0, 0x3C000000),
        (FieldType.FP32, "31:0", 1, 0.015625, 0x3C800000),
    ],
)
def test_values_and_bits(kind: FieldType, bits: str, unit: int, value: float, word: int) -> None:
    known = field(bits, kind, unit)
    assert known.value(word) == value
    assert known.with_value(0, value) == word
    assert known.with_value(0xFFFFFFFF, value) == (0xFFFFFFFF & ~known.mask) | word


@pytest.mark.parametrize(
    ("kind", "bits", "unit", "value"),
    [
        (FieldType.UNSIGNED, "9:5", 1, 32),
        (FieldType.UNSIGNED, "9:5", 1, -1),
        (FieldType.UNSIGNED, "31:6", 64, 65),
        (FieldType.SIGNED, "12:8", 1, 16),
        (FieldType.SIGNED, "12:8", 1, 0.5),
    ],
)
def test_a_value_that_does_not_fit_is_an_error(kind: FieldType, bits: str, unit: int, value: float) -> None:
    with pytest.raises(HwxError, match="the value of x must fit bits"):
        field(bits, kind, unit).with_value(0, value)


@pytest.mark.parametrize("bits", ["32:0", "0:4", "a", ""])
def test_bits_outside_a_word_are_an_error(bits: str) -> None:
    with pytest.raises(DataFileError, match="bits of field x must be a range within 31:0"):
        field(bits)


def test_a_register_needs_fields() -> None:
    with pytest.raises(DataFileError, match=r"register b.r must have fields"):
        register_of("b", BlockEntry(0, 1), RegisterEntry("r", 0), None, EVIDENCE)


def test_a_file_of_another_generation_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    file = read_file(7)

    def read_seventh(*_: object) -> LayoutFile:
        return file

    monkeypatch.setattr("aneforge.formats.hwx.descriptors.layout.schema.read", read_seventh)
    with pytest.raises(DataFileError, match=r"generation8.toml must be of generation 8 \(got 7\)"):
        read_file.__wrapped__(8)
