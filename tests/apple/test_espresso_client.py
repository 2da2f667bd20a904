"""Espresso's functions, as the client calls them: order, lifetime, events, and what it says of errors."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import NotSupportedError, RuntimeStateError, UnknownNameError
from aneforge.runtime.devices import DevicePort
from aneforge.runtime.dispatch.abi import AbiDevice
from aneforge.runtime.dispatch.espresso import EspressoDevice, EspressoError
from apple_fakes import build_fake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.runtime.devices import DeviceProgram
    from apple_fakes import Fakes

X, Y = (DevicePort("x", 8),), (DevicePort("y", 8),)


@pytest.fixture
def espresso(fakes: Fakes) -> Iterator[EspressoDevice]:
    yield fakes.espresso
    assert fakes.espresso.library.fake_espresso_live() == 0


@pytest.fixture
def mil(tmp_path: Path) -> Path:
    return af.save_mil(af.input((1, 4), name="x") + 1.0, tmp_path)


def numbers(program: DeviceProgram, operation: int) -> list[float]:
    found = np.empty(4, np.float16)
    program.get_output("y", found, operation)
    return found.tolist()


@pytest.fixture(params=["library", "e5rt"])
def stream(request: pytest.FixtureRequest, fakes: Fakes, mil: Path) -> Iterator[DeviceProgram]:
    """Three operations, each reading what the one before wrote; those that have events have them."""
    device = fakes.ways()[request.param].device
    program = device.compile(mil, X, Y)
    for step in (1, 2):
        assert program.add_operation(mil, X, Y) == step
        program.share_buffer(step - 1, "y", step, "x")
    yield program
    program.release()
    assert fakes.ways()[request.param].leaks() == 0


def test_a_stream_of_operations(stream: DeviceProgram) -> None:
    assert stream.operation_count() == 3
    stream.execute_multi()
    assert [numbers(stream, step) for step in range(3)] == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    stream.set_input("x", np.full(4, 10, np.float16))
    stream.execute()  # the first operation alone
    assert [numbers(stream, step)[0] for step in range(3)] == [11, 2, 3]
    stream.execute_multi()
    assert [numbers(stream, step)[0] for step in range(3)] == [11, 12, 13]
    with pytest.raises(RuntimeStateError):
        stream.share_buffer(0, "y", 1, "x")


def test_events_move_in_asynchronous_executions_alone(stream: DeviceProgram) -> None:
    with pytest.raises(RuntimeStateError):
        stream.wait_for_completion()
    stream.chain(0, 1, "first")
    stream.chain(1, 2, "second")
    stream.execute_multi()
    assert [stream.event_value(step) for step in range(3)] == [0, 0, 0]
    for _ in range(4):
        stream.execute_async()
    stream.wait_for_completion()
    assert [stream.event_value(step) for step in range(3)] == [4, 4, 4]
    assert [stream.chain_event_value(step) for step in (1, 2)] == [4, 4]
    assert stream.final_event_values() == (3, 4)
    assert numbers(stream, 2) == [3.0] * 4
    for wrong in (
        lambda: stream.chain(1, 0, "back"),
        lambda: stream.chain_event_value(0),
        lambda: stream.event_value(3),
    ):
        with pytest.raises(RuntimeStateError):
            wrong()


def test_an_operation_that_the_abi_cannot_add(fakes: Fakes, mil: Path) -> None:
    program = fakes.library.compile(mil, X, Y)
    with pytest.raises(NotSupportedError, match="adds operations of one input and one output"):
        program.add_operation(mil, X + X, Y)
    program.release()


def test_what_the_framework_says_of_a_wrong_order(espresso: EspressoDevice, mil: Path) -> None:
    with pytest.raises(EspressoError, match=r"E5RT: Invalid E5 path specified\. @ GetE5PathFromCompositeBundle \(1\)"):
        espresso.compile(mil.with_name("nowhere.mil"), X, Y)
    with pytest.raises(EspressoError, match=r"Cannot provide program function as nullptr\. @ Create"):
        espresso.create("e5rt_precompiled_compute_op_create_options_create_with_program_function", None)
    with pytest.raises(EspressoError, match="eventName is NULL"):
        espresso.create("e5rt_async_event_create", None, 0)
    with pytest.raises(EspressoError, match="Invalid BufferType"):
        espresso.create("e5rt_buffer_object_alloc", 64, 3)
    with pytest.raises(EspressoError, match="no input port of that name"):
        espresso.compile(mil, (DevicePort("z", 8),), Y)
    program = espresso.compile(mil, X, Y)
    first = program.operations[0]
    for said, function, held in (
        ("the stream is fresh", "e5rt_execution_stream_reset", program.stream),
        ("the operation is fresh", "e5rt_execution_stream_operation_prepare_op_for_encode", first.handle),
        ("no operation is encoded", "e5rt_execution_stream_execute_sync", program.stream),
    ):
        with pytest.raises(EspressoError, match=said):
            espresso.call(function, held)
    with pytest.raises(EspressoError, match="the completion is no block"):
        espresso.call("e5rt_execution_stream_submit_async", program.stream, None)
    program.execute()
    with pytest.raises(EspressoError, match="Reset stream to add more operations to stream"):
        espresso.call("e5rt_execution_stream_encode_operation", program.stream, first.handle)
    with pytest.raises(EspressoError, match="Port bindings cannot be changed while operation is in use"):
        first.bind(next(iter(first.ports)), first.own[0])
    with pytest.raises(EspressoError, match="what depends on it lives"):
        espresso.release(("e5rt_program_library_release", first.library))
    with pytest.raises(EspressoError, match="bound to a live operation"):
        espresso.release(("e5rt_buffer_object_release", first.own[0].handle))
    with pytest.raises(EspressoError, match="released twice, or by the wrong function"):
        espresso.release(("e5rt_program_function_release", first.library))
    program.release()


def test_what_the_client_says_itself(espresso: EspressoDevice, mil: Path) -> None:
    program = espresso.compile(mil, X, Y)
    with pytest.raises(RuntimeStateError, match=r"more bytes than input 'x' has \(got 10, limit 8\)"):
        program.set_input("x", np.zeros(5, np.float16))
    with pytest.raises(UnknownNameError, match="unknown output 'z'; known: y"):
        program.output_view("z")
    with pytest.raises(RuntimeStateError, match=r"there is no such operation \(got 1, limit 1\)"):
        program.set_input("x", np.zeros(4, np.float16), 1)
    with pytest.raises(RuntimeStateError, match="nothing was submitted to this stream"):
        program.wait_for_completion()
    program.add_operation(mil, X, Y)
    with pytest.raises(RuntimeStateError, match="an operation waits for an earlier one"):
        program.chain(1, 1, "self")
    with pytest.raises(RuntimeStateError, match="the operation waits for no event"):
        program.chain_event_value(1)
    program.execute()
    with pytest.raises(RuntimeStateError, match="buffers are shared before the first execution"):
        program.share_buffer(0, "y", 0, "x")
    program.release()


def test_profiling_is_asked_for(espresso: EspressoDevice, mil: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_PROFILE", "1")
    assert espresso.compile_check(mil) == 0


def test_a_submission_that_fails(espresso: EspressoDevice, mil: Path) -> None:
    program = espresso.compile(mil, X, Y)
    program.add_operation(mil, X, Y)
    # An operation that waits for what comes after it never runs; the client's own check is passed by.
    late = program.operations[1].bind_event("late")
    name = "e5rt_execution_stream_operation_bind_dependent_events"
    espresso.call(name, program.operations[0].handle, (ctypes.c_void_p * 1)(late), 1)
    program.execute_async()
    with pytest.raises(RuntimeStateError, match="the event of its last operation did not move"):
        program.wait_for_completion()
    program.release()  # nothing is left, though the last submission failed


def test_a_framework_without_compiler_options(fakes: Fakes, mil: Path, tmp_path: Path) -> None:
    del fakes  # it names the engine
    older = EspressoDevice(build_fake("fake_espresso", tmp_path, "-DWITHOUT_CUSTOM_OPTIONS"))
    assert older.compile_check(mil) == 0
    assert older.compile_check(mil, options="TargetArchitecture=h13") == -2


OTHER_NAMES = (
    *("config_options_create", "config_options_set_cache_bundle_location", "config_options_release"),
    *("create_with_config", "options_create", "options_set_compute_device_types_mask"),
    *("options_set_force_recompilation", "options_set_segmenter", "options_release", "compile", "release"),
)


def test_a_framework_with_what_the_documents_name_alone(fakes: Fakes, mil: Path, tmp_path: Path) -> None:
    del fakes  # it names the engine
    undocumented = ("get_last_error_message", "execution_stream_operation_bind_dependent_events")
    renamed = [f"-De5rt_e5_compiler_{name}=e5rt_compiler_{name}" for name in OTHER_NAMES]
    renamed += [f"-De5rt_{name}=not_there_{name}" for name in undocumented]
    device = EspressoDevice(build_fake("fake_espresso", tmp_path, *renamed))
    assert device.obstacle() is None
    program = device.compile(mil, X, Y)
    assert program.add_operation(mil, X, Y) == 1
    program.share_buffer(0, "y", 1, "x")
    program.execute_multi()
    assert numbers(program, 1) == [2.0] * 4
    with pytest.raises(RuntimeStateError, match="it lacks e5rt_execution_stream_operation_bind_dependent_events"):
        program.chain(0, 1, "first")
    with pytest.raises(EspressoError, match=r"E5RT: no message \(1\)"):
        device.compile(mil.with_name("nowhere.mil"), X, Y)
    program.release()
    assert device.library.fake_espresso_live() == 0


def test_a_program_that_was_released(espresso: EspressoDevice, mil: Path) -> None:
    program = espresso.compile(mil, X, Y)
    program.release()
    for asked in (
        program.execute,
        program.execute_multi,
        program.execute_async,
        lambda: program.input_view("x"),
        lambda: program.output_view("y"),
        lambda: program.share_buffer(0, "y", 0, "x"),
    ):
        with pytest.raises(RuntimeStateError):
            asked()


def test_one_object_that_is_not_released_keeps_no_other(espresso: EspressoDevice, mil: Path) -> None:
    program = espresso.compile(mil, X, Y)
    buffer, event = program.operations[0].own[0].handle, program.operations[0].events[0]
    with pytest.raises(EspressoError, match="bound to a live operation"):
        espresso.release(("e5rt_buffer_object_release", buffer), ("e5rt_async_event_release", event))
    program.operations[0].events.clear()
    program.release()


def test_libraries_that_are_not_what_they_should_be(fakes: Fakes) -> None:
    espresso, engine = fakes.espresso.path, fakes.in_memory.frameworks.objc
    said = EspressoDevice(engine).obstacle()
    assert said is not None
    assert "is stale or another library: it lacks e5rt_e5_compiler_config_options_create, " in said
    assert "lacks ane_e5rt_program_compile, " in str(AbiDevice(Path(espresso)).obstacle())
    assert str(AbiDevice(Path("/nowhere.so")).obstacle()).startswith("/nowhere.so cannot be loaded: ")
