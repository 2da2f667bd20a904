"""Large weights found in the bytes of a model, without a copy.

The protobuf library copies every field that it parses, and gives another copy when a field is read. Weights are
most of a model, so they are taken out first: this module walks the wire format of `ModelProto`, `GraphProto` and
`TensorProto` (field numbers of onnx.proto), cuts the long data fields of the initialisers out of the message, and
returns the short rest for the library to parse, with views into the original bytes for what was cut.

Nothing is interpreted here but lengths. Whatever does not look like the wire format is one error; whatever is legal and
unusual, such as a field that comes twice, is left in place for the library.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CutModel", "cut_weights"]

MODEL_GRAPH = 7
GRAPH_INITIALIZER = 5
TENSOR_DATA = {4: "float_data", 9: "raw_data", 10: "double_data"}
"""Fields of `TensorProto` whose bytes on the wire are the numbers themselves: two packed lists, and the raw bytes."""
CUT_LEAST = 4096
"""Shorter data stays: a copy of it costs less than its bookkeeping."""
FIELDS_MOST = 4_000_000
"""Fields of one message; far above any real model, and below what would take minutes and gigabytes to walk."""
VARINT, DELIMITED = 0, 2
FIXED_LENGTHS = {1: 8, 5: 4}
"""Bytes of the kinds of fields that have a fixed length."""


@dataclass(frozen=True, slots=True)
class CutModel:
    """A model without the long data of its initialisers."""

    rest: bytes
    data: dict[int, tuple[str, memoryview]]
    """What was cut, by the place of its initialiser in the graph: the field's name and its bytes."""


@dataclass(slots=True)
class Piece:
    """A message put together from parts of another."""

    parts: list[memoryview | bytes] = field(default_factory=list["memoryview | bytes"])
    length: int = 0

    def add(self, part: memoryview | bytes) -> None:
        """Append bytes."""
        if len(part):
            self.parts.append(part)
            self.length += len(part)

    def add_message(self, number: int, message: Piece) -> None:
        """Append a message as a field."""
        self.add(varint_bytes(number << 3 | DELIMITED) + varint_bytes(message.length))
        self.parts += message.parts
        self.length += message.length


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: where it begins with its tag, and where its contents are."""

    number: int
    kind: int
    start: int
    begin: int
    end: int


def cut_weights(model: bytes | memoryview) -> CutModel:
    """Return a model without the long data of its initialisers, and that data.

    Raises:
        GraphError: The bytes are not a message of the wire format.
    """
    view = memoryview(model)
    graphs = [found for found in fields(view, 0, len(view)) if found.number == MODEL_GRAPH]
    if len(graphs) != 1 or graphs[0].kind != DELIMITED:
        return CutModel(bytes(model), {})
    graph = graphs[0]
    data: dict[int, tuple[str, memoryview]] = {}
    rest = Piece()
    rest.add(view[: graph.start])
    rest.add_message(MODEL_GRAPH, cut_graph(view, graph, data))
    rest.add(view[graph.end :])
    return CutModel(b"".join(rest.parts), data) if data else CutModel(bytes(model), {})


def cut_graph(view: memoryview, graph: Field, data: dict[int, tuple[str, memoryview]]) -> Piece:
    """Return a graph without the long data of its initialisers, which is added to `data`."""
    rest = Piece()
    kept = graph.begin
    place = 0
    for found in fields(view, graph.begin, graph.end):
        if found.number != GRAPH_INITIALIZER or found.kind != DELIMITED:
            continue
        cut = long_data(view, found)
        if cut is not None:
            tensor = Piece()
            tensor.add(view[found.begin : cut.start])
            tensor.add(view[cut.end : found.end])
            rest.add(view[kept : found.start])
            rest.add_message(GRAPH_INITIALIZER, tensor)
            kept = found.end
            data[place] = TENSOR_DATA[cut.number], view[cut.begin : cut.end]
        place += 1
    rest.add(view[kept : graph.end])
    return rest


def long_data(view: memoryview, tensor: Field) -> Field | None:
    """Return the field of a tensor that holds its numbers, if it is long and the only one."""
    if tensor.end - tensor.begin < CUT_LEAST:
        return None
    holders = [found for found in fields(view, tensor.begin, tensor.end) if found.number in TENSOR_DATA]
    if len(holders) != 1 or holders[0].kind != DELIMITED:
        return None
    return holders[0] if holders[0].end - holders[0].begin >= CUT_LEAST else None


def fields(view: memoryview, begin: int, end: int) -> Iterator[Field]:
    """Return the fields of the message between two places.

    Raises:
        GraphError: A field does not end before the message does, or is of no known kind.
    """
    place = begin
    for _ in range(FIELDS_MOST):
        if place >= end:
            return
        start = place
        tag, place = varint(view, place, end)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            length = varint(view, place, end)[1] - place
        elif kind == DELIMITED:
            length, place = varint(view, place, end)
        elif kind in FIXED_LENGTHS:
            length = FIXED_LENGTHS[kind]
        else:
            raise malformed(start, f"a field of the unknown kind {kind}")
        if length > end - place or not number:
            raise malformed(start, f"field {number} of {length} bytes", limit=f"{end - place} bytes that are left")
        yield Field(number, kind, start, place, place + length)
        place += length
    if place < end:
        raise GraphError("the model has too many fields in one message", seen=f"over {FIELDS_MOST}", limit=FIELDS_MOST)


def varint(view: memoryview, place: int, end: int) -> tuple[int, int]:
    """Return a number of variable length and the place after it.

    >>> varint(memoryview(bytes([0xAC, 0x02])), 0, 2)
    (300, 2)

    Raises:
        GraphError: It does not end in time.
    """
    value = 0
    for shift in range(0, 70, 7):
        if place >= end:
            break
        byte = view[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise malformed(place, "a number that does not end", limit=f"{end - place} bytes that are left")


def varint_bytes(value: int) -> bytes:
    """Return a number in the wire's variable length.

    >>> varint_bytes(300).hex()
    'ac02'
    """
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def malformed(place: int, seen: str, limit: object = None) -> GraphError:
    """Return the error of bytes that are not a model."""
    return GraphError(
        f"the bytes are not an ONNX model: the message breaks at byte {place}",
        seen=seen,
        limit=limit,
        remedy="check that the file is complete and is an ONNX model in its binary form",
    )
