"""Thread states: the program and its tensors, as words at fixed places and names after them.

Where a field is, is data (`PROGRAMS`, the offsets of tensors); decoding and encoding read the same tables. Source:
hwx-programs. Words that no table names are zero in every file that was seen.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.container import Base, ProgramState, TaggedItem, TensorState
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "HEAD",
    "PROGRAMS",
    "TENSOR_FLAVOR",
    "decode_program",
    "decode_tensor",
    "decode_text",
    "encode_items",
    "encode_program",
    "encode_tensor",
    "encode_text",
    "string_at",
]

HEAD = 16
"""Bytes before the words of a state: command, size, flavor, number of words."""
BASES, BASES_END = 0x10, 0x810
"""One address of eight bytes for each base register."""
TENSOR_FLAVOR = 3
TENSOR_KIND = 3
SHORTEST_TENSOR = (0x88 - HEAD) // 4


@dataclass(frozen=True, slots=True)
class ProgramLayout:
    """Where a program of one flavor has its fields: bytes from the start of the command."""

    numbers: Mapping[str, tuple[int, str]]
    """Fields with their places and forms."""
    fixed: Mapping[int, tuple[str, int]]
    """Values that every file has, by their places. Their meaning is not known."""
    name_at: int
    items_at: int


PROGRAMS: Mapping[int, ProgramLayout] = {
    1: ProgramLayout(
        {
            "text_address": (0x810, "<Q"),
            "last_word": (0x818, "<I"),
            "task_count": (0x81C, "<I"),
            "live_scratch": (0x848, "<Q"),
            "debug_events": (0x850, "<Q"),
            "log_events": (0x858, "<Q"),
        },
        {0x824: ("<I", 0xFFFF)},
        name_at=0x83C,
        items_at=0x860,
    ),
    4: ProgramLayout(
        {
            "text_address": (0x810, "<Q"),
            "frame_words": (0x820, "<I"),
            "text_words": (0x824, "<I"),
            "task_count": (0x830, "<I"),
            "debug_events": (0x860, "<Q"),
            "log_events": (0x868, "<Q"),
        },
        {0x838: ("<Q", 2**64 - 1), 0x844: ("<I", 0xFFFF)},
        name_at=0x848,
        items_at=0x870,
    ),
}
"""Layouts of programs by the flavor of their state."""


def decode_program(data: memoryview, at: int) -> ProgramState:
    """Return the program that a command holds; `at` is the place of the command in the file.

    Raises:
        HwxError: The state is too short for its fields, or a name or an item is outside of it.
    """
    flavor, state_words, end = state_head(data, at)
    layout = PROGRAMS[flavor]
    if end < layout.items_at:
        raise HwxError.at(
            at + 12, "the words of the program state are too few", seen=state_words, limit=(layout.items_at - HEAD) // 4
        )
    numbers = {name: number_at(data, place, form) for name, (place, form) in layout.numbers.items()}
    addresses = struct.unpack_from(f"<{(BASES_END - BASES) // 8}Q", data, BASES)
    last_word = numbers.get("last_word")
    return ProgramState(
        flavor=flavor,
        bases=tuple(Base(index, address) for index, address in enumerate(addresses) if address),
        text_address=numbers["text_address"],
        task_count=numbers["task_count"],
        first_task_words=None if last_word is None else last_word + 1,
        frame_words=numbers.get("frame_words"),
        text_words=numbers.get("text_words"),
        live_scratch=numbers.get("live_scratch", 0),
        debug_events=numbers["debug_events"],
        log_events=numbers["log_events"],
        items=decode_items(data, layout.items_at, end, at) if end > layout.items_at else None,
        state_words=state_words,
        name=string_at(data, number_at(data, layout.name_at, "<I"), at),
    )


def encode_program(state: ProgramState, command: int) -> bytes:
    """Return a program as a command.

    Raises:
        HwxError: A number does not fit its field, a base register does not exist, or the items do not fill the state.
    """
    layout = PROGRAMS[state.flavor]
    made = bytearray(HEAD + 4 * state.state_words)
    end = len(made)
    items = encode_items(state.items)
    if layout.items_at + len(items) != end:
        raise HwxError("the items of the program must end with its state", seen=layout.items_at + len(items), limit=end)
    numbers = {
        "text_address": state.text_address,
        "last_word": (state.first_task_words or 1) - 1,
        "task_count": state.task_count,
        "frame_words": state.frame_words or 0,
        "text_words": state.text_words or 0,
        "live_scratch": state.live_scratch,
        "debug_events": state.debug_events,
        "log_events": state.log_events,
    }
    struct.pack_into("<4I", made, 0, command, 0, state.flavor, state.state_words)
    registers = (BASES_END - BASES) // 8
    for base in state.bases:
        if not 0 <= base.index < registers:
            raise HwxError(f"a base register must be one of {registers}", seen=base.index)
        put_number(made, BASES + 8 * base.index, "<Q", base.address)
    for name, (place, form) in layout.numbers.items():
        put_number(made, place, form, numbers[name])
    for place, (form, value) in layout.fixed.items():
        put_number(made, place, form, value)
    put_number(made, layout.name_at, "<I", end)
    made[layout.items_at : end] = items
    return with_names(made, (state.name,))


def decode_items(data: memoryview, start: int, end: int, at: int) -> tuple[TaggedItem, ...]:
    """Return the tagged values of a program.

    Raises:
        HwxError: One is outside the state, or they do not end with it.
    """
    count, place = number_at(data, start, "<Q"), start + 8
    found: list[TaggedItem] = []
    while place + 8 <= end and len(found) < count:
        tag, size = struct.unpack_from("<2I", data, place)
        if place + 8 + size > end:
            raise HwxError.at(at + place, "a tagged item must end within the program state", seen=size)
        found.append(TaggedItem(tag, int.from_bytes(data[place + 8 : place + 8 + size], "little"), size))
        place += 8 + size
    if len(found) != count or place != end:
        raise HwxError.at(at + start, "the tagged items must fill the program state", seen=count, limit=len(found))
    return tuple(found)


def encode_items(items: tuple[TaggedItem, ...] | None) -> bytes:
    """Return tagged values as bytes; none at all for a program without a list.

    Raises:
        HwxError: A value does not fit its size.
    """
    if items is None:
        return b""
    made = bytearray(struct.pack("<Q", len(items)))
    for one in items:
        if not 0 <= one.value < 1 << 8 * one.size:
            raise HwxError("the value of a tagged item must fit its size", seen=one.value, limit=f"{one.size} bytes")
        made += struct.pack("<2I", one.tag, one.size) + one.value.to_bytes(one.size, "little")
    return bytes(made)


def decode_tensor(data: memoryview, at: int) -> TensorState:
    """Return the tensor that a command holds; `at` is the place of the command in the file.

    Raises:
        HwxError: The state is too short for its fields, or a name is outside the command.
    """
    _, state_words, _ = state_head(data, at)
    if state_words < SHORTEST_TENSOR:
        raise HwxError.at(at + 12, "the words of the tensor state are too few", seen=state_words, limit=SHORTEST_TENSOR)
    direction, module_at, _, name_at, element = struct.unpack_from("<5I", data, 0x14)
    batch, channels, height, width, depth = struct.unpack_from("<5I", data, 0x28)
    by_batch, by_channel, by_row, by_element, size = struct.unpack_from("<5Q", data, 0x50)
    port_name_at, transfer_size = struct.unpack_from("<IQ", data, 0x7C)
    return TensorState(
        direction=direction,
        element=element,
        shape=(batch, channels, height, width),
        depth=depth,
        strides=(by_batch, by_channel, by_row, by_element),
        size=size,
        transfer_size=transfer_size,
        state_words=state_words,
        module=string_at(data, module_at, at),
        name=string_at(data, name_at, at),
        port_name=string_at(data, port_name_at, at),
    )


def encode_tensor(state: TensorState, command: int) -> bytes:
    """Return a tensor as a command.

    Raises:
        HwxError: A number does not fit its field.
    """
    made = bytearray(HEAD + 4 * state.state_words)
    module_at = len(made)
    name_at = module_at + len(encode_text(state.module)) + 1
    port_name_at = name_at + len(encode_text(state.name)) + 1
    values: tuple[tuple[int, str, int], ...] = (
        *((4 * place, "<I", value) for place, value in enumerate((command, 0, TENSOR_FLAVOR, state.state_words))),
        *((0x10 + 4 * place, "<I", value) for place, value in enumerate((TENSOR_KIND, state.direction, module_at))),
        (0x20, "<I", name_at),
        (0x24, "<I", state.element),
        *((0x28 + 4 * place, "<I", value) for place, value in enumerate((*state.shape, state.depth))),
        *((0x50 + 8 * place, "<Q", value) for place, value in enumerate((*state.strides, state.size))),
        (0x78, "<I", 1),  # one in every file; its meaning is not known
        (0x7C, "<I", port_name_at),
        (0x80, "<Q", state.transfer_size),
    )
    for place, form, value in values:
        put_number(made, place, form, value)
    return with_names(made, (state.module, state.name, state.port_name))


def state_head(data: memoryview, at: int) -> tuple[int, int, int]:
    """Return flavor, number of words and end of a state.

    Raises:
        HwxError: The words are more than the command has.
    """
    flavor, words = struct.unpack_from("<2I", data, 8)
    if HEAD + 4 * words > len(data):
        raise HwxError.at(
            at + 12, "the words of a state must end within its command", seen=words, limit=(len(data) - HEAD) // 4
        )
    return flavor, words, HEAD + 4 * words


def number_at(data: memoryview, place: int, form: str) -> int:
    """Return a number in a command."""
    (value,) = struct.unpack_from(form, data, place)
    return int(value)


def put_number(made: bytearray, place: int, form: str, value: int) -> None:
    """Write a number into a command.

    Raises:
        HwxError: It does not fit, or has no place there.
    """
    try:
        struct.pack_into(form, made, place, value)
    except struct.error:
        limit = f"0 to {(1 << 8 * struct.calcsize(form)) - 1:#x} within {len(made)} bytes"
        raise HwxError.at(place, "a number does not fit its field", seen=value, limit=limit) from None


def string_at(data: memoryview, place: int, at: int) -> str:
    """Return the text at a place of a command, up to its NUL.

    Raises:
        HwxError: It begins or ends outside the command.
    """
    text = bytes(data[place:]) if place < len(data) else b""
    end = text.find(b"\0")
    if end < 0:
        raise HwxError.at(at + min(place, len(data)), "a name must end within its command", seen=place, limit=len(data))
    return decode_text(text[:end])


def decode_text(text: bytes) -> str:
    """Return bytes as text; what is not UTF-8 is kept so that it can be written again."""
    return text.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return text as the bytes that it was read from."""
    return text.encode("utf-8", "surrogateescape")


def with_names(made: bytearray, names: tuple[str, ...]) -> bytes:
    """Return a state with its names, each with a NUL."""
    return bytes(made) + b"".join(encode_text(name) + b"\0" for name in names)
