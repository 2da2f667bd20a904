"""Segments: bridges alone, all other layers in as few segments as the chains of both allow."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.passes.cut_segments import CutSegments
from legalisation_tools import assert_same_meaning, inputs_of, layer, program_of, value

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program

X = value("x", 1, 2, 8, 4)


def relu(x: Value, name: str) -> Layer:
    """Return a layer that shares a program with others."""
    return layer("relu", {"x": x}, name)


def attention(query: Value, key: Value, name: str) -> Layer:
    """Return a layer that needs a program of its own."""
    return layer("sdpa", {"query": query, "key": key, "value": key}, name)


def numbers(program: Program) -> dict[str, int]:
    """Return the segment of every layer."""
    return {one.name: one.segment for one in CutSegments()(program).program.layers}


def test_without_bridges_nothing_is_cut() -> None:
    assert not CutSegments()(program_of("h13", relu(X, "a"))).modified


def test_layers_that_need_no_bridge_wait_for_those_that_do() -> None:
    bridge = attention(X, X, "a")
    early, late = relu(X, "b"), relu(bridge.result, "c")
    total = layer("add", {"x": early.result, "y": late.result}, "d")
    assert numbers(program_of("h13", early, bridge, late, total)) == {"a": 0, "b": 1, "c": 1, "d": 1}


def test_neighbouring_bridges_are_programs_of_their_own() -> None:
    first = attention(X, X, "a")
    second = attention(first.result, X, "b")
    third = attention(X, X, "c")
    assert numbers(program_of("h13", first, second, third)) == {"a": 0, "b": 1, "c": 2}


def test_reshapes_are_never_programs() -> None:
    before = layer("reshape", {"x": value("x", 16, 4)}, "a", shape=(1, 2, 8, 4))
    bridge = attention(before.result, before.result, "b")
    after = layer("reshape", {"x": bridge.result}, "c", shape=(16, 4))
    made = program_of("h13", before, bridge, after)
    assert numbers(made) == {"a": 0, "b": 0, "c": 0}
    assert numbers(program_of("h13", before, bridge, after, relu(after.result, "d")))["d"] == 1
    again = CutSegments()(CutSegments()(made).program)
    assert not again.modified
    assert_same_meaning(made, again.program, inputs_of(made), 0)


def test_a_second_run_changes_nothing() -> None:
    bridge = attention(X, X, "a")
    made = CutSegments()(program_of("h13", relu(X, "b"), bridge, relu(bridge.result, "c"))).program
    assert not CutSegments()(made).modified


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), count=st.integers(1, 14))
def test_segments_are_right_and_as_few_as_can_be(data: st.DataObject, count: int) -> None:
    values, layers = [X], list[type(relu(X, "t"))]()
    for number in range(count):
        first, second = (data.draw(st.sampled_from(range(len(values)))) for _ in range(2))
        name = f"t{number}"
        if data.draw(st.booleans()):
            layers.append(attention(values[first], values[second], name))
        else:
            layers.append(layer("add", {"x": values[first], "y": values[second]}, name))
        values.append(layers[-1].result)
    before = program_of("h13", *layers)
    after = CutSegments()(before).program
    assert_same_meaning(before, after, inputs_of(before), 0)
    for segment in after.segments:
        assert len(segment.layers) == 1 or not segment.bridge
    plain = [segment for segment in after.segments if not segment.bridge]
    assert len(plain) == longest_chain(before)
    order = {one.name: place for place, one in enumerate(after.layers)}
    for one, other in pairwise(layers):
        if after.producers[one.name].segment == after.producers[other.name].segment:
            assert order[one.name] < order[other.name]


def longest_chain(program: Program) -> int:
    """Return the most runs of plain layers, with bridges between them, on one way through the program."""
    runs: dict[str, tuple[int, bool]] = {}
    for one in program.layers:
        before = [runs[bottom.name] for bottom in one.bottoms if bottom.name in runs]
        if one.kind.bridge:
            most = max((count for count, _ in before), default=0)
        else:
            most = max((count + (bridge or count == 0) for count, bridge in before), default=1)
        runs[one.name] = (most, one.kind.bridge)
    return max((count for count, _ in runs.values()), default=0)
