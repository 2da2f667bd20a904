"""Where operations land: directly, by the compiler's rules; through Core ML, by what was seen of its scheduler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.machine import machine_of
from aneforge.analysis.placement import Path
from aneforge.analysis.segmenter import Device, switch
from aneforge.errors import UnknownNameError, UnknownTargetError
from aneforge.evidence import EvidenceKind
from aneforge.rules.preflight import Status
from resnet18 import resnet18


def convolution(channels: int, x: af.Tensor | None = None, side: int = 32) -> af.Tensor:
    weights = np.ones((channels, channels, 3, 3), np.float16)
    return af.conv(af.input((1, channels, side, side)) if x is None else x, weights, pad=1)


def broken_chain() -> af.Tensor:
    """Return two stacks of large convolutions with an operation between them that has no tree for the engine."""
    first = convolution(256, convolution(256, side=64)).relu()
    chosen = af.argmax(first.reshape(256, 4096), axis=1)
    gate = af.cast(chosen, "fp16").reshape(1, 256, 1, 1)
    return convolution(256, convolution(256, first * gate)).relu()


@pytest.mark.parametrize(("channels", "device"), [(16, "CPU"), (64, "CPU"), (128, "CPU"), (256, "ANE"), (512, "ANE")])
def test_the_knee_of_a_convolution_is_where_it_was_seen(channels: int, device: str) -> None:
    (operation,) = af.placement(convolution(channels), "m5-pro", "coreml").operations
    assert operation.device == device


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["relu", "tanh", "square", "softmax", "sum"]), min_size=1, max_size=6), st.integers(1, 99)
)
def test_no_small_program_reaches_the_engine_through_coreml(names: list[str], columns: int) -> None:
    y = af.input((64, columns))
    for name in names:
        made = {"relu": y.relu, "tanh": y.tanh, "square": y.square}
        y = made[name]() if name in made else y.softmax(-1) if name == "softmax" else y.sum(-1)
    found = af.placement(y, "m5-pro", "coreml")
    assert {one.device for one in found.operations} == {Device.CPU}
    assert found.hops == ()


def test_directly_the_same_program_is_on_the_engine() -> None:
    found = af.placement(af.input((64, 256)).relu(), "m5-pro")
    assert found.on_engine == 1.0
    assert found.path is Path.DIRECT
    assert found.kind is EvidenceKind.DECODED
    assert found.operations[0].segment == 0
    assert found.segments[0].members == ("relu %t1 on PE",)


def test_a_network_stays_on_the_engine_on_both_paths() -> None:
    for path in Path:
        found = af.placement(resnet18(), "m4", path)
        assert found.on_engine == 1.0
        assert len(found.segments) == 1


def test_coreml_is_labelled_inferred() -> None:
    found = af.placement(convolution(256), "m4", "coreml")
    assert found.kind is EvidenceKind.INFERRED
    assert "(inferred)" in str(found)


def test_an_operation_without_a_tree_breaks_the_chain_and_is_named() -> None:
    found = af.placement(broken_chain(), "m4", "coreml")
    assert [segment.device for segment in found.segments] == [Device.ANE, Device.CPU, Device.ANE]
    away, back = switch(Device.ANE, Device.CPU), switch(Device.CPU, Device.ANE)
    assert [hop.scheduler_units for hop in found.hops] == [away, back] == [90.0, 140.0]
    assert [hop.microseconds for hop in found.hops] == [None] * 2, "units are no times"
    first, middle, last = found.segments
    assert middle.microseconds is None
    assert None not in (first.microseconds, last.microseconds), "parts on the engine are priced by the cost model"
    assert found.microseconds is not None
    assert found.microseconds > sum(one.microseconds or 0.0 for one in found.segments)
    assert found.hops[0].moved_bytes > 0
    (advice,) = found.advice
    assert [name.split()[0] for name in advice.remove] == ["argmax"]
    assert advice.joins == (0, 2)
    assert advice.saves_microseconds is None
    assert (advice.saves_units or 0.0) > away + back
    assert advice.text.endswith(" scheduler units less")
    assert advice.text.startswith("remove argmax #")
    (stopped,) = [one for one in found.operations if one.op == "argmax"]
    assert stopped.reason == "the scheduler has no cost for it on the engine"


def test_what_a_target_refuses_goes_elsewhere_through_coreml() -> None:
    found = af.placement(af.topk(af.input((1, 128)), 5), "m1", "coreml")
    assert found.operations[0].device is Device.CPU
    assert "reject on the engine (ANE-FLOOR-002)" in found.operations[0].reason


def test_what_a_target_refuses_has_no_place_directly() -> None:
    found = af.placement(af.topk(af.input((1, 128)), 5), "m1")
    assert found.operations[0].device is Device.NONE
    assert found.operations[0].status is Status.REJECT
    assert found.segments == ()
    assert found.on_engine == 0.0
    assert "no program" in found.notes[0]


def test_a_layer_of_its_own_is_a_cut_and_advice_names_it() -> None:
    q = af.input((1, 4, 32, 64))
    found = af.placement(af.sdpa(q.relu(), q, q, native=True).tanh(), "m5-pro")
    assert len(found.segments) == 3
    assert {one.segment for one in found.operations} == {None}
    (advice,) = found.advice
    assert advice.text.startswith("remove sdpa (%")
    machine = machine_of("m5-pro")
    copies = found.hops[0].moved_bytes / machine.host_out + found.hops[1].moved_bytes / machine.host_in
    taken = found.segments[1].microseconds
    assert taken is not None
    assert {one.scheduler_units for one in (*found.segments, *found.hops)} == {None}
    assert advice.saves_microseconds == pytest.approx(taken + machine.dispatch + copies)
    assert found.hops[0].moved_bytes == 2 * 4 * 32 * 64
    assert f"cut to part 1: {found.hops[0].microseconds:.1f} µs" in str(found)


def test_a_decomposed_operation_says_so() -> None:
    found = af.placement(af.input((1, 8)).sin(), "m1")
    assert found.operations[0].status is Status.DECOMPOSE
    assert found.operations[0].device is Device.ANE


@pytest.mark.parametrize("path", [[], {}, None, 5])
def test_what_is_no_name_is_one_error(path: Any) -> None:  # noqa: ANN401 - what a caller may slip in
    with pytest.raises(UnknownNameError, match="unknown path"):
        af.placement(convolution(16), "m4", path)


@pytest.mark.parametrize("path", ["direct", "coreml"])
def test_a_graph_in_which_nothing_runs_says_so(path: str) -> None:
    found = af.placement(af.input((1, 8)), "m4", path)
    assert (found.operations, found.segments) == ((), ())
    assert str(found).endswith("nothing to run: the outputs are the inputs, so there is no program")


def test_what_is_split_is_told_and_no_layer_is_rejected() -> None:
    found = af.placement(af.input((1, 1, 70_000)).relu(), "m1")
    assert found.notes[0].startswith("relu became 5 parts, with ")
    assert "reject" not in str(found)


def test_bad_names_are_one_error() -> None:
    with pytest.raises(UnknownNameError, match="unknown path 'core-ml'; nearest: coreml"):
        af.placement(convolution(16), "m4", "core-ml")
    with pytest.raises(UnknownTargetError):
        af.placement(convolution(16), "m44")


def test_views_follow_their_neighbours() -> None:
    y = convolution(256, convolution(256, side=64).reshape(1, 256, 64, 64))
    found = af.placement(y, "m4", "coreml")
    assert len(found.segments) == 1
    assert found.operations[1].reason == "moves no data and follows its neighbours"


def test_nothing_of_a_graph_without_a_program_is_on_the_engine() -> None:
    found = af.placement(af.topk(af.input((1, 128)).relu(), 5), "m1")
    assert [one.status for one in found.operations] == [Status.NATIVE, Status.REJECT]
    assert {one.device for one in found.operations} == {Device.NONE}
    assert found.operations[0].reason == "native, and in a graph that is refused"
