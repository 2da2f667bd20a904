"""Containers made here: what is written is read again, and every damage has its own message."""

from __future__ import annotations

import dataclasses
import random
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from aneforge import hwx
from aneforge.errors import HwxError
from aneforge.formats.hwx.assembly import STYLES, assemble
from aneforge.formats.hwx.container import (
    Base,
    Container,
    Header,
    LoadCommand,
    Note,
    OtherCommand,
    PortBinding,
    ProgramState,
    Section,
    Segment,
    SymbolTable,
    TaggedItem,
    TensorState,
    generations,
)
from aneforge.formats.hwx.descriptors.layout import layout_of
from aneforge.formats.hwx.load_commands import encode_body, encode_command
from aneforge.formats.hwx.read_hwx import read_bytes
from aneforge.formats.hwx.write_hwx import write_bytes
from hwx_tools import hand_made, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = 2**32 - 1
FRAMED = ProgramState(
    flavor=4,
    bases=(Base(0, 0x3000_0000), Base(8, 0x3001_0000)),
    text_address=0x3000_0000,
    task_count=1,
    frame_words=4,
    text_words=132,
    debug_events=3,
    log_events=2,
    items=(TaggedItem(7, 0x461C4000), TaggedItem(9, 5)),
    state_words=0x222,
    name="main",
)
"""A program of later generations."""


def place_of(data: bytes | bytearray, kind: int, skip: int = 0, flavor: int | None = None) -> int:
    """Return the place of a command in a file."""
    at = 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size, third = struct.unpack_from("<3I", data, at)
        if command == kind and flavor in (None, third):
            if not skip:
                return at
            skip -= 1
        at += size
    raise AssertionError("no such command")


def text_section(data: bytes | bytearray) -> int:
    return place_of(data, 0x19, 1) + 72


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("scratch", [0, 0x5000])
def test_a_container_is_read_as_it_was_assembled(style: str, scratch: int, tmp_path: Path) -> None:
    made = hand_made(style, scratch)
    hwx.write(made, tmp_path / "made.hwx")
    read = hwx.read(tmp_path / "made.hwx")
    assert read == made
    assert read.strays == ()
    assert [port.name.removesuffix("@output") for port in read.ports] == ["left", "right", "sum"]
    assert sorted(port.base or 0 for port in read.ports) == [4, 5, 6]
    assert [task.size for task in hwx.tasks_of(read)] == [157, 157]
    assert {base.index: base.address for base in read.program.bases}.get(3, 0) == next(
        (one.address for one in read.segments if one.name == "__DATA"), 0
    )
    assert set(read.targets) >= {"h13"}


def test_a_container_may_be_written_over_the_file_it_was_read_from(tmp_path: Path) -> None:
    path = tmp_path / "made.hwx"
    hwx.write(hand_made(), path)
    before = path.read_bytes()
    read = hwx.read(path)
    hwx.write(read, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_no_command_gives_is_kept() -> None:
    whole = bytearray(write_bytes(hand_made()))
    symbols = place_of(whole, 0x2)
    strings = struct.unpack_from("<I", whole, symbols + 16)[0]
    whole[strings] = 7  # before the first name
    whole[0x3000:0x3003] = b"odd"
    whole[-1] = 1
    struct.pack_into("<I", whole, place_of(whole, 0x4, flavor=1) + 0x820, 0x1234)
    read = read_bytes(bytes(whole))
    assert [(one.offset, bytes(one.content)) for one in read.strays] == [
        (strings, b"\7"),
        (0x3000, b"odd"),
        (len(whole) - 1, b"\1"),
    ]
    (unnamed,) = [word for command in read.commands for word in command.unnamed]
    assert (unnamed.offset, unnamed.value) == (0x820, 0x1234)
    assert write_bytes(read) == whole


def test_commands_of_other_kinds_are_kept() -> None:
    made = hand_made()
    for body in (OtherCommand(0x77, bytes(range(8))), Note("somebody", 0x28, 1, bytes(8)), FRAMED):
        command = LoadCommand(body, len(encode_body(body)))
        whole = encode_command(command)
        parsed = read_bytes(write_bytes(with_command(made, command)))
        assert parsed.commands[-1].body == body
        assert whole in write_bytes(parsed)


def with_command(container: Container, command: LoadCommand) -> Container:
    """Return a container with one more command; its tables move behind it."""
    room = command.size
    table = container.bodies(SymbolTable)[0]
    moved = dataclasses.replace(table, offset=table.offset + room, string_offset=table.string_offset + room)
    commands = [one for one in container.commands if not isinstance(one.body, SymbolTable)]
    kept = [without_relocations(one) for one in commands]
    return dataclasses.replace(container, commands=(*kept, LoadCommand(moved, 24), command))


def without_relocations(command: LoadCommand) -> LoadCommand:
    if not isinstance(command.body, Segment):
        return command
    sections = tuple(dataclasses.replace(one, relocations=(), relocation_offset=0) for one in command.body.sections)
    return dataclasses.replace(command, body=dataclasses.replace(command.body, sections=sections))


def put(form: str, value: int, place: int | Callable[[bytearray], int]) -> Callable[[bytearray], None]:
    """Return a damage: a number at a place."""

    def damage(data: bytearray) -> None:
        struct.pack_into(form, data, place if isinstance(place, int) else place(data), value)

    return damage


def at(kind: int, offset: int, skip: int = 0, flavor: int | None = None) -> Callable[[bytearray], int]:
    """Return the place of a field of a command."""
    return lambda data: place_of(data, kind, skip, flavor) + offset


def in_text(offset: int) -> Callable[[bytearray], int]:
    """Return the place of a field of the task section's entry."""
    return lambda data: text_section(data) + offset


DAMAGES: dict[str, Callable[[bytearray], None]] = {
    "the file does not begin as a container does": put("<I", 0xFEEDFACF, 0),
    "the container must be for a Neural Engine": put("<I", 12, 4),
    "the commands must end within the file": put("<I", MOST, 0x14),
    "too many commands": put("<I", MOST, 0x10),
    "wrong size of a command": put("<I", 12, 36),
    "the commands must fill their stated size": put("<I", 3, 0x10),
    "the sections must end within their command": put("<I", MOST, at(0x19, 64, 1)),
    "the segment must end within the file": put("<Q", MOST, at(0x19, 48, 1)),
    "the addresses of the segment must end below 2^64": put("<Q", 2**64 - 1, at(0x19, 24, 1)),
    "the addresses of section '__text' must be within its segment": put("<Q", MOST, in_text(40)),
    "the bytes of section '__text' must be within its segment": put("<I", 0x100, in_text(48)),
    "the relocations must end within the file": put("<I", MOST, in_text(56)),
    "too many relocations": put("<I", MOST, in_text(60)),
    "the symbols must end within the file": put("<I", MOST, at(0x2, 8)),
    "too many symbols": put("<I", MOST, at(0x2, 12)),
    "the names of symbols must end within the file": put("<I", MOST, at(0x2, 20)),
    "the name of a symbol must be within the names": put("<I", 1, at(0x2, 20)),
    "the words of a state must end within its command": put("<I", MOST, at(0x4, 12)),
    "the words of the program state are too few": put("<I", 30, at(0x4, 12)),
    "the words of the tensor state are too few": put("<I", 29, at(0x4, 12, flavor=3)),
    "a name must end within its command": put("<I", MOST, at(0x4, 0x20, flavor=3)),
    "the command is too small for its content": put("<I", 0x8C, at(0x4, 0x18, 2, flavor=3)),
    "the addresses of segments __TEXT and __FVMLIB must not overlap": put("<Q", 0x100000, at(0x19, 32, 1)),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_each_damage_has_its_message(message: str, tmp_path: Path) -> None:
    whole = bytearray(write_bytes(hand_made()))
    DAMAGES[message](whole)
    path = tmp_path / "damaged.hwx"
    path.write_bytes(whole)
    with pytest.raises(HwxError, match=message.replace("^", r"\^")) as seen:
        hwx.read(path)
    assert seen.value.location is not None
    assert seen.value.location.file == str(path)
    assert str(seen.value).startswith(f"at {path}: ")


@pytest.mark.parametrize("style", STYLES)
def test_cut_and_flipped_files_are_an_error_or_another_file(style: str) -> None:
    """What is still read is written back as it was read; nothing but the one error comes out."""
    whole = write_bytes(hand_made(style))
    for end in range(0, len(whole), 64):
        with pytest.raises(HwxError):
            read_bytes(whole[:end])
    chosen = random.Random(style)  # noqa: S311 - seeded, not secret
    refused = 0
    for number in range(400):
        damaged = bytearray(whole)
        place = chosen.randrange(0x900 if number % 2 else len(whole) - 4)
        if number % 4 == 1:
            damaged[place : place + 4] = MOST.to_bytes(4, "little")
        else:
            damaged[place] ^= 1 << chosen.randrange(8)
        try:
            container = read_bytes(bytes(damaged))
            assert write_bytes(container) == damaged
            assert hwx.tasks_of(container)
            assert container.ports
        except HwxError:
            refused += 1
    assert refused > 20


def test_parts_of_the_file_that_overlap() -> None:
    whole = bytearray(write_bytes(hand_made()))
    struct.pack_into("<2Q", whole, place_of(whole, 0x19, 1) + 40, 0, len(whole))
    struct.pack_into("<I", whole, text_section(whole) + 48, 0x40)
    with pytest.raises(HwxError, match="the commands and section __TEXT/__text must not overlap"):
        read_bytes(bytes(whole))


def test_commands_that_are_too_small() -> None:
    whole = bytearray(write_bytes(hand_made()))
    for kind in (0x19, 0x2, 0x4, 0x6, 0x31):
        struct.pack_into("<5I", whole, 16, 1, 8, 0, 0, kind)
        struct.pack_into("<I", whole, 36, 8)
        with pytest.raises(HwxError, match="the command is too small for its fields"):
            read_bytes(bytes(whole))
    assert read_bytes(bytes(write_bytes(hand_made()))).identification == "made by hand"


def test_tables_that_share_bytes_are_refused() -> None:
    """Sections that all name one large table would make it as often as there are sections."""
    whole = bytearray(write_bytes(hand_made()))
    entry = text_section(whole)
    for section in (entry, entry + 80):
        struct.pack_into("<2I", whole, section + 56, 0, len(whole) // 8 - 8)
    with pytest.raises(HwxError, match="the relocations must not share bytes with another table"):
        read_bytes(bytes(whole))


def test_names_that_share_bytes_are_refused() -> None:
    whole = bytearray(write_bytes(hand_made()))
    table = place_of(whole, 0x2)
    offset, count, strings, size = struct.unpack_from("<4I", whole, table + 8)
    whole[strings : strings + size - 1] = b"x" * (size - 1)
    for index in range(count):
        struct.pack_into("<I", whole, offset + 16 * index, 0)
    with pytest.raises(HwxError, match="names of symbols must not share bytes"):
        read_bytes(bytes(whole))


def test_a_command_full_of_unknown_words_is_refused() -> None:
    body = bytearray(HEADER_OF_ONE)
    command = struct.pack("<2I3I", 0x6, 0x8000, 20, 0, 0) + b"\0" * 4 + b"\1" * (0x8000 - 24)
    struct.pack_into("<2I", body, 16, 1, len(command))
    with pytest.raises(HwxError, match="too many words of the command have no known meaning"):
        read_bytes(bytes(body) + command)


HEADER_OF_ONE = struct.pack("<8I", 0xBEEFFACE, 0x80, 4, 2, 0, 0, 0, 0)


def test_commands_that_are_too_large() -> None:
    body = bytearray(HEADER_OF_ONE)
    struct.pack_into("<2I", body, 16, 1, 2**24 + 8)
    with pytest.raises(HwxError, match="the commands are too large"):
        read_bytes(bytes(body) + bytes(2**24 + 8))


def test_items_of_a_program() -> None:
    whole = bytearray(write_bytes(hand_made("v9")))
    state = place_of(whole, 0x4)
    struct.pack_into("<I", whole, state + 0x86C, 0x100)
    with pytest.raises(HwxError, match="a tagged item must end within the program state"):
        read_bytes(bytes(whole))
    struct.pack_into("<I", whole, state + 0x860, 0)
    with pytest.raises(HwxError, match="the tagged items must fill the program state"):
        read_bytes(bytes(whole))


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "it is empty"), (b"\xce\xfa\xef\xbe", "the file is too small for a header")]
)
def test_small_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "small.hwx").write_bytes(content)
    with pytest.raises(HwxError, match=message):
        hwx.read(tmp_path / "small.hwx")


def test_files_that_cannot_be_opened_or_written(tmp_path: Path) -> None:
    with pytest.raises(HwxError, match="it cannot be opened: No such file"):
        hwx.read(tmp_path / "none.hwx")
    with pytest.raises(HwxError, match="it cannot be written: No such file"):
        hwx.write(hand_made(), tmp_path / "none" / "made.hwx")


def replaced(container: Container, kind: type[object], **changes: object) -> Container:
    """Return a container in which the first command of a kind has other values."""
    place = next(place for place, one in enumerate(container.commands) if isinstance(one.body, kind))
    command = container.commands[place]
    body = dataclasses.replace(command.body, **changes)  # pyright: ignore[reportArgumentType] - fields by name
    commands = (*container.commands[:place], LoadCommand(body, command.size), *container.commands[place + 1 :])
    return dataclasses.replace(container, commands=commands)


@pytest.mark.parametrize(
    ("subtype", "slots", "size"), [(5, (16, 20, 24), 0x890), (6, (24, 28, 32), 0x890), (7, (24, 28, 32), 0x8A0)]
)
def test_framed_programs(subtype: int, slots: tuple[int, ...], size: int) -> None:
    """Sizes and slots are those of the program states that sources print; no whole file was seen."""
    length = layout_of(generations()[subtype]).header_words
    text = struct.pack(f"<{4 + length}I", 1, 0, 0, 0, length << 16, *[0] * (length - 1))
    parts = dataclasses.replace(
        parts_of(hand_made("v9")),
        cpu_subtype=subtype,
        text=memoryview(text),
        task_count=1,
        relocations=(),
        constant_symbols=(),
        constants=memoryview(bytes(0x4000)),
        name="main",
    )
    read = read_bytes(write_bytes(assemble(parts, STYLES["v9"])))
    assert [2 * (port.base or 0) for port in read.ports] == list(slots)
    assert read.program.text_words == len(text) // 4
    assert [command.size for command in read.commands if isinstance(command.body, ProgramState)] == [size]
    assert [one.size for one in hwx.tasks_of(read)] == [length]
    with pytest.raises(HwxError, match="where programs of this generation have scratch memory is not known"):
        assemble(dataclasses.replace(parts, scratch=64), STYLES["v9"])
    with pytest.raises(HwxError, match="programs of this generation are not known"):
        assemble(dataclasses.replace(parts, cpu_subtype=8), STYLES["v9"])


def test_what_cannot_be_written() -> None:
    made = hand_made("v9")
    section = made.text
    text = dataclasses.replace(
        next(one for one in made.segments if one.name == "__TEXT"),
        sections=(dataclasses.replace(section, size=section.size - 4),),
    )
    long = Segment(name="x" * 17, address=0, size=0)
    table = made.bodies(SymbolTable)[0]
    for wrong, message in (
        (replaced(made, ProgramState, task_count=2**32), "a number does not fit its field"),
        (replaced(made, ProgramState, bases=(Base(256, 1),)), "a base register must be one of 256"),
        (replaced(made, ProgramState, items=()), "the items of the program must end with its state"),
        (replaced(made, ProgramState, items=(TaggedItem(9, -1),)), "the value of a tagged item must fit its size"),
        (replaced(made, PortBinding, address=2**64), "a number of PortBinding does not fit its field"),
        (replaced(made, TensorState, name="x" * 99), "the size of a command must be a multiple of 8 and fit"),
        (replaced(made, SymbolTable, string_size=9), "symbol 'K_ne_1' does not fit the names"),
        (replaced(made, SymbolTable, string_offset=table.offset), "the symbols and the names of symbols must not over"),
        (dataclasses.replace(made, header=Header(2**32)), "a number of the header does not fit its field"),
        (dataclasses.replace(made, size=0x4100), "section __TEXT/__text must end within the file"),
        (dataclasses.replace(made, commands=(LoadCommand(text, 0x98),)), "the content of __TEXT/__text must have its"),
        (dataclasses.replace(made, commands=(LoadCommand(long, 72),)), "has at most 16 bytes"),
    ):
        with pytest.raises(HwxError, match=message):
            write_bytes(wrong)


def test_questions_without_an_answer() -> None:
    made = hand_made()
    empty = dataclasses.replace(made, commands=())
    odd = Section(name="__text", segment="__TEXT", address=0, size=3, flags=0, content=memoryview(b"odd"))
    text = Segment(name="__TEXT", address=0, size=3, sections=(odd,))
    unbound = dataclasses.replace(
        made, commands=tuple(one for one in made.commands if not isinstance(one.body, PortBinding))
    )
    for ask, message in (
        (lambda: dataclasses.replace(made, header=Header(99)).generation, "the engine is not known"),
        (lambda: empty.text, "the file must have one task section with content"),
        (lambda: empty.program, "the file must have one program state"),
        (
            lambda: dataclasses.replace(made, commands=(LoadCommand(text, 0),)).words,
            "the size of the task section must be a multiple of 4",
        ),
        (lambda: replaced(made, TensorState, direction=7).ports, "the direction of tensor 'left' must be 1"),
        (lambda: unbound.ports, "tensor 'left' has no binding"),
        (
            lambda: hwx.tasks_of(replaced(made, ProgramState, task_count=5)),
            "the tasks must be as many as the program states",
        ),
        (
            lambda: assemble(dataclasses.replace(parts_of(made), tensors=["left"]), STYLES["v4"]),
            "the declared names must be those of the ports",
        ),
    ):
        with pytest.raises(HwxError, match=message):
            ask()


def test_a_large_file_is_mapped_not_loaded(tmp_path: Path) -> None:
    parts = dataclasses.replace(parts_of(hand_made()), constants=memoryview(bytes(2**24)))
    path = tmp_path / "large.hwx"
    hwx.write(assemble(parts, STYLES["v4"]), path)
    tracemalloc.start()
    read = hwx.read(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert not read.words.flags.writeable
