"""Sequences and optionals: known while the model is read, gone when it is a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.graph.node import Output
from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.onnx.registry import operator
from aneforge.importers.onnx.values import LOST, Foreign, ListOf, Lost, Maybe
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Held, Value


def sequence(call: Call, place: int) -> ListOf:
    """Return an input that must be a sequence whose length is known.

    Raises:
        UnsupportedNodeError: It is an input of the model, or something else.
    """
    held = call.held(place)
    if isinstance(held, ListOf):
        return held
    if isinstance(held, Maybe) and isinstance(held.content, ListOf):
        return held.content
    if isinstance(held, Foreign):
        raise UnsupportedNodeError(held.reason, f"input {place} is {held.what}")
    raise GraphError(f"input {place} is not a sequence")


def index(call: Call, place: int, most: int, default: int) -> int:
    """Return a place of a sequence, counted from the front.

    Raises:
        GraphError: There is no such place.
    """
    if call.optional(place) is None:
        return default
    found = call.known_integer(place, "the place in the sequence")
    counted = found + most if found < 0 else found
    if not 0 <= counted <= most:
        raise GraphError("the sequence has no such place", seen=found, limit=most)
    return counted


@operator("SequenceEmpty")
def empty(call: Call) -> ListOf:
    """Convert a sequence without elements."""
    if call.has("dtype"):
        call.dtype("dtype")
    return ListOf(())


@operator("SequenceConstruct")
def construct(call: Call) -> ListOf:
    """Convert tensors made a sequence."""
    return ListOf(tuple(call.values()))


@operator("SequenceLength", takes_all=True)
def length(call: Call) -> Value:
    """Convert how many elements a sequence has."""
    return call.emit.constant(len(sequence(call, 0).items), "int64")


@operator("SequenceAt", takes_all=True)
def element(call: Call) -> Held:
    """Convert one element of a sequence."""
    items = sequence(call, 0).items
    place = index(call, 1, len(items), 0)
    if place == len(items):
        raise GraphError("the sequence has no such place", seen=place, limit=len(items) - 1)
    return items[place]


@operator("SequenceInsert", takes_all=True)
def insert(call: Call) -> ListOf:
    """Convert a sequence with one more element, by default at its end."""
    items = sequence(call, 0).items
    place = index(call, 2, len(items), len(items))
    return ListOf((*items[:place], call.value(1), *items[place:]))


@operator("SequenceErase", takes_all=True)
def erase(call: Call) -> ListOf:
    """Convert a sequence without one of its elements, by default the last."""
    items = sequence(call, 0).items
    place = index(call, 1, len(items), len(items) - 1)
    if not 0 <= place < len(items):
        raise GraphError("the sequence has no such place", seen=place, limit=len(items) - 1)
    return ListOf((*items[:place], *items[place + 1 :]))


@operator("SplitToSequence")
def split(call: Call) -> ListOf:
    """Convert the parts of a tensor along an axis as a sequence: single slices, or of one or several lengths."""
    x, emit = call.value(0), call.emit
    axis = call.axis(x.type.rank)
    extent = x.type.shape[axis]
    if call.optional(1) is None:
        emit.budget.take_nodes(extent)
        slices = [emit.part(x, axis, at, at + 1) for at in range(extent)]
        shape = [one for place, one in enumerate(x.type.shape) if place != axis]
        return ListOf(tuple(slices if call.flag("keepdims") else [emit.reshape(one, shape) for one in slices]))
    given = call.known(1, "the list of lengths")
    if given.ndim == 0 and int(given) > 0:
        each = int(given)
        emit.budget.take_nodes(-(-extent // each))
        sizes = [min(each, extent - at) for at in range(0, extent, each)]
    else:
        sizes = [int(one) for one in given.reshape(-1)]
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise GraphError("the lengths do not make up the axis", seen=sizes[:20], limit=extent)
    ends = np.cumsum(sizes).tolist()
    return ListOf(tuple(emit.part(x, axis, end - size, end) for end, size in zip(ends, sizes, strict=True)))


@operator("ConcatFromSequence", takes_all=True)
def concat(call: Call) -> Value:
    """Convert the tensors of a sequence one after another, or side by side along a new axis."""
    items = tuple(one for one in sequence(call, 0).items if isinstance(one, Output | Constant))
    if not items:
        raise GraphError("there is nothing to join", seen="an empty sequence")
    if call.flag("new_axis"):
        return call.emit.apply("stack", {"values": items}, axis=call.axis(items[0].type.rank + 1))
    return call.emit.concat(items, call.axis(items[0].type.rank))


@operator("SequenceMap", takes_all=True)
def mapped(call: Call) -> tuple[Held, ...]:
    """Convert a graph applied to every element of sequences, tensors given to each turn alike."""
    first = sequence(call, 0)
    body = call.attribute("body").g
    columns: list[list[Held]] = [[] for _ in range(call.outputs)]
    for turn in range(len(first.items)):
        results = call.surroundings.run_body(body, [turned(call, place, turn) for place in range(len(call.inputs))])
        if any(isinstance(one, Lost) for one in results):
            return (LOST,) * call.outputs
        for column, result in zip(columns, results, strict=False):
            column.append(result)
    return tuple(ListOf(tuple(column)) for column in columns)


def turned(call: Call, place: int, turn: int) -> Held:
    """Return what an input is in one turn.

    Raises:
        GraphError: A sequence is shorter than the first.
    """
    held = call.held(place)
    if not isinstance(held, ListOf):
        return call.value(place)
    if turn >= len(held.items):
        raise GraphError("the sequences have different lengths", seen=len(held.items))
    return held.items[turn]


@operator("Optional", takes_all=True)
def optional(call: Call) -> Maybe:
    """Convert an optional that holds something, or nothing."""
    return Maybe(call.held(0))


@operator("OptionalHasElement", takes_all=True)
def has_element(call: Call) -> Value:
    """Convert whether there is something."""
    held = call.held(0)
    if isinstance(held, Foreign) and held.reason is Reason.OPTIONAL:
        raise UnsupportedNodeError(held.reason, "its input is an optional of the model's")
    there = held is not None and not (isinstance(held, Maybe) and held.content is None)
    return call.emit.constant(np.array(there), "bool")


@operator("OptionalGetElement", takes_all=True)
def get_element(call: Call) -> Held:
    """Convert what an optional holds.

    Raises:
        GraphError: It holds nothing.
    """
    held = call.held(0)
    if isinstance(held, Foreign):
        raise UnsupportedNodeError(held.reason, f"its input is {held.what}")
    content = held.content if isinstance(held, Maybe) else held
    if content is None:
        raise GraphError("the optional holds nothing")
    return content
