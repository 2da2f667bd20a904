"""Rows that a loop of a fixed count writes and reads, one in each iteration: they are known when the program is read.

Converters spell recurrent layers as a loop that gathers one row of its input and scatters one row of its result, by a
counter. Written out, every counter is a constant: the gathers are slices, what was written is read where it was made,
and the result is the rows one after another. No engine has a scatter.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.mil.folding import fold_tensor
from aneforge.graph.node import Output, build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node, Value

__all__ = ["with_known_rows"]

CAST, GATHER, SCATTER = "cast", "gather", "scatter"
WRITES = ("update", "add")
"""Modes of a scatter whose result is what was written, the second only on zeros, the sign of a zero aside."""
MOST_PIECES = 2**18
"""Rows of all tensors that are put together of what was written; a file that asks for more keeps its scatters."""


@dataclass(slots=True)
class History:
    """A tensor and the rows along an axis that scatters wrote, one after another; they share what was written."""

    base: Value
    axis: int
    writes: dict[int, list[tuple[int, Value]]] = field(default_factory=dict["int", "list[tuple[int, Value]]"])
    """What was written into each row, each with the number of the scatter that did it."""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor as it is after some of the scatters that wrote its rows."""

    history: History
    count: int

    @property
    def axis(self) -> int:
        """The axis along which rows were written."""
        return self.history.axis

    @property
    def base(self) -> Value:
        """The tensor before any row was written."""
        return self.history.base

    def row(self, place: int) -> Value | None:
        """Return what was written into a row last; None where nothing was."""
        writes = self.history.writes.get(place, [])
        last = bisect_right(writes, self.count, key=itemgetter(0))
        return writes[last - 1][1] if last else None

    def then(self, parts: Mapping[int, Value]) -> Rows | None:
        """Return the tensor with more rows written; None where another scatter wrote into it already."""
        if self.history.count != self.count:
            return None
        self.history.count += 1
        for place, value in parts.items():
            self.history.writes.setdefault(place, []).append((self.history.count, value))
        return Rows(self.history, self.history.count)


def with_known_rows(graph: Graph) -> Graph:
    """Return a graph without scatters and gathers of rows that are known, as far as they can be left out.

    >>> import aneforge as af, numpy as np
    >>> from aneforge.graph.node import build
    >>> x = af.input((1, 2), name="x")
    >>> where = {"indices": Dense(np.int32([1])), "updates": x}
    >>> made = Tensor(build("scatter", {"data": Dense(np.zeros((3, 2), np.float16)), **where}, {"mode": "add"}))
    >>> [node.op.name for node in with_known_rows(af.Graph({"y": made})).nodes]
    ['input', 'concat']
    """
    if not any(node.op.name == SCATTER for node in graph.nodes):
        return graph
    graph = rewrite(graph, there_and_back)
    rows: dict[Node, Rows] = {}
    room = MOST_PIECES
    returned = {output.node for output in (*graph.outputs.values(), *graph.states.values())}

    def is_read_whole(node: Node) -> bool:
        return node in returned or any(not passes_rows(reader, node) for reader in graph.consumers[node])

    def replace(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        if node.op.name == GATHER:
            return gather(node, operands, rows)
        if node.op.name != SCATTER:
            return None
        nonlocal room
        whole = is_read_whole(node)
        room -= node.types[0].shape[node.integer("axis")] if whole and node.types[0].rank else 0
        found = scatter(node, operands, rows) if room >= 0 else None
        if found is None:
            return None
        if whole:
            return [join_rows(found, node)]
        made = Tensor(build(SCATTER, dict(operands), node.attributes, node.location))
        rows[made.node] = found
        return [made]

    return rewrite(graph, replace)


def there_and_back(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
    """Return the source of an fp16 number's cast to fp32 and back, which converters put around what a loop carries."""
    wide = operands.get("x")
    if node.op.name != CAST or not isinstance(wide, Tensor) or wide.node.op.name != CAST:
        return None
    source = wide.node.operands["x"]
    if not isinstance(source, Tensor) or node.types[0] != source.type:
        return None
    return [source] if (source.type.dtype, wide.type.dtype) == ("fp16", "fp32") else None


def passes_rows(reader: Node, node: Node) -> bool:
    """Return whether a reader takes or writes rows of a scatter's result by indices that are known."""
    if reader.op.name not in (GATHER, SCATTER) or get_known_places(reader.operands["indices"]) is None:
        return False
    source = reader.operands["x" if reader.op.name == GATHER else "data"]
    return isinstance(source, Output) and source.node is node and sum(one.node is node for one in reader.sources()) == 1


def get_known_places(indices: Argument) -> list[int] | None:
    """Return indices that are known when the program is read: one number, or a list of them."""
    if isinstance(indices, Constant):
        known = indices.dense()
    else:
        found = fold_tensor(indices) if isinstance(indices, Tensor) else None
        if found is None:
            return None
        known = found.values
    return [int(one) for one in known.reshape(-1)] if known.ndim <= 1 else None


def scatter(node: Node, operands: Mapping[str, Argument], rows: Mapping[Node, Rows]) -> Rows | None:
    """Return a tensor with the rows that a scatter writes; None where they are not known, or not written for good."""
    data, updates = cast("Value", operands["data"]), cast("Value", operands["updates"])
    axis = node.integer("axis") % data.type.rank
    before = rows.get(data.node) if isinstance(data, Output) else None
    before = Rows(History(data, axis), 0) if before is None else before
    mode, extent = node.text("mode"), data.type.shape[axis]
    places = get_known_places(operands["indices"])
    if places is None or mode not in WRITES or before.axis != axis or len(updates.type.shape) != data.type.rank:
        return None
    places = [place % extent for place in places if -extent <= place < extent]
    if len(set(places)) != updates.type.shape[axis]:
        return None
    if mode == "add" and (not is_zero(before.base) or any(before.row(place) is not None for place in places)):
        return None
    return before.then({place: part(updates, axis, number, node) for number, place in enumerate(places)})


def is_zero(value: Value) -> bool:
    """Return whether a value is known to hold only zeros."""
    known = value if isinstance(value, Constant) else fold_tensor(value) if isinstance(value, Tensor) else None
    return known is not None and not known.dense().any()


def part(value: Value, axis: int, place: int, node: Node, count: int = 1) -> Value:
    """Return some rows of a value along an axis."""
    shape = value.type.shape
    if count == shape[axis]:
        return value
    if isinstance(value, Constant):
        return Dense(np.take(value.dense(), range(place, place + count), axis))
    begin = tuple(place if one == axis else 0 for one in range(len(shape)))
    size = tuple(count if one == axis else length for one, length in enumerate(shape))
    return Tensor(build("slice_by_size", {"x": value}, {"begin": begin, "size": size}, node.location))


def gather(node: Node, operands: Mapping[str, Argument], rows: Mapping[Node, Rows]) -> Sequence[Tensor] | None:
    """Return the one row that a gather takes, from where it was made; None where it is not known, or a constant."""
    x, axis = cast("Value", operands["x"]), node.integer("axis")
    places = get_known_places(operands["indices"])
    if places is None or len(places) != 1 or node.attributes.get("batch_dims") or not isinstance(x, Tensor):
        return None
    axis, extent, held = axis % x.type.rank, x.type.shape[axis], rows.get(x.node)
    if not -extent <= places[0] < extent or (held is not None and held.axis != axis):
        return None
    place = places[0] % extent
    row = None if held is None else held.row(place)
    row = part(x if held is None else held.base, axis, place, node) if row is None else row
    if isinstance(row, Constant):
        return None
    return [Tensor(build("reshape", {"x": row}, {"shape": node.types[0].shape}, node.location))]


def join_rows(rows: Rows, node: Node) -> Tensor:
    """Return the rows one after another: those that were written, and runs of those that were not."""
    return Tensor(build("concat", {"values": tuple(pieces(rows, node))}, {"axis": rows.axis}, node.location))


def pieces(rows: Rows, node: Node) -> Iterator[Value]:
    """Yield what a tensor is joined of."""
    written = [rows.row(place) for place in range(rows.base.type.shape[rows.axis])]
    begin = 0
    for place, row in enumerate([*written, None]):
        is_end = place == len(written)
        if row is None and not is_end:
            continue
        if begin < place:
            yield part(rows.base, rows.axis, begin, node, place - begin)
        if row is not None:
            yield row
        begin = place + 1
