"""Path A as the client calls it: order, strides, surfaces, network descriptions, and what it says of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import NotSupportedError, RuntimeStateError, UnknownNameError
from aneforge.runtime.devices import DevicePort
from aneforge.runtime.dispatch.in_memory_model import InMemoryModelDevice, Surface
from aneforge.runtime.dispatch.objc import ObjectiveCError
from aneforge.runtime.dispatch.surface_layouts import Layout
from apple_fakes import build_fake, in_one_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from apple_fakes import Fakes

X, Y = (DevicePort("x", 8),), (DevicePort("y", 8),)


@pytest.fixture
def engine(fakes: Fakes) -> Iterator[InMemoryModelDevice]:
    library = fakes.in_memory.objc.library
    before = library.fake_objc_live(), library.fake_objc_misuse()
    yield fakes.in_memory
    assert (library.fake_objc_live(), library.fake_objc_misuse()) == before


@pytest.fixture
def mil(tmp_path: Path) -> Path:
    return af.save_mil(af.input((1, 4), name="x") + 1.0, tmp_path)


def test_a_network_description(engine: InMemoryModelDevice, mil: Path, tmp_path: Path) -> None:
    graph = af.Graph({"y": af.input((1, 4, 1, 1), name="x").relu()})
    folder = tmp_path / "network"
    folder.mkdir()
    (folder / "net.plist").write_bytes(b"<?xml version='1.0'?><plist/>")
    (folder / "weights.0").write_bytes(b"")
    stands_for = af.save_mil(graph, tmp_path / "stands_for")
    engine.objc.library.fake_objc_set_network(str(stands_for).encode())
    program = engine.compile(folder / "net.plist", X, Y)
    program.set_input("x", np.array([-1, 2, -3, 4], np.float16))
    program.execute()
    found = np.empty(4, np.float16)
    program.get_output("y", found)
    assert found.tolist() == [0, 2, 0, 4]
    program.release()
    assert engine.compile_check(mil) == 0


def test_where_elements_lie() -> None:
    padded = Layout("x", (2, 3, 1, 4, 5), (3 * 4 * 64, 4 * 64, 3 * 4 * 64, 64, 2))
    assert (padded.nbytes, padded.dense) == (2 * 3 * 4 * 64, False)
    tight = Layout("x", (2, 3, 1, 4, 32), (3 * 4 * 64, 4 * 64, 3 * 4 * 64, 64, 2))
    assert tight.dense
    deep = Layout("x", (1, 2, 3, 1, 32), (3 * 2 * 64, 64, 2 * 64, 64, 2))
    assert not deep.dense  # planes of one depth follow one another
    assert Layout.without_gaps("x", (1, 1, 1, 1, 1)).nbytes == 65536
    assert Layout.without_gaps("x", (1, 1, 1, 1, 1 << 20)).nbytes == 2 << 20
    several = Layout.without_gaps("x", (2, 3, 1, 4, 5))
    assert (several.nbytes, several.dense) == (2 * 3 * 4 * 5 * 2, True)


def test_a_model_that_does_not_say_how_ports_lie(fakes: Fakes, tmp_path: Path) -> None:
    del fakes  # it names the engine
    engine = InMemoryModelDevice(in_one_library(build_fake("fake_neural_engine", tmp_path, "-DWITHOUT_ATTRIBUTES")))
    graph = af.Graph({"y": af.input((2, 3, 5), name="x") - af.input((2, 3, 5), name="z")})
    program = engine.compile(
        af.save_mil(graph, tmp_path), (DevicePort("x", 60), DevicePort("z", 60)), (DevicePort("y", 60),)
    )
    values, found = np.arange(30, dtype=np.float16), np.empty(30, np.float16)
    program.set_input("x", values * 3)
    program.set_input("z", values)
    program.execute()
    program.get_output("y", found)
    assert found.tolist() == (values * 2).tolist()
    program.release()
    with pytest.raises(RuntimeStateError):
        program.execute_multi()
    assert engine.objc.library.fake_objc_live() == engine.objc.library.fake_objc_misuse() == 0


def test_a_program_without_a_weights_file(engine: InMemoryModelDevice, mil: Path) -> None:
    (mil.parent / "weights.bin").unlink()
    program = engine.compile(mil, X, Y)
    program.execute()
    program.release()


@pytest.mark.parametrize("width", [5, 32])
def test_values_pass_padded_rows(width: int, engine: InMemoryModelDevice, tmp_path: Path) -> None:
    mil = af.save_mil(af.input((2, 3, 4, width), name="x") * 2.0, tmp_path)
    nbytes = 2 * 3 * 4 * width * 2
    program = engine.compile(mil, (DevicePort("x", nbytes),), (DevicePort("y", nbytes),))
    entry, end = program.input_view("x").view(np.float16), program.output_view("y").view(np.float16)
    values = (np.arange(nbytes // 2) % 100).reshape(entry.shape)
    for factor in (1, 2):
        entry[...] = values * factor
        program.execute()
        assert np.array_equal(end, entry * 2)
    program.set_input("x", np.full(3, 7, np.float16))
    assert entry.reshape(-1)[:4].tolist() == [7, 7, 7, 6]
    program.release()


def test_what_the_framework_says(engine: InMemoryModelDevice, tmp_path: Path) -> None:
    (tmp_path / "model.mil").write_text("not a program", encoding="utf-8")
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(ObjectiveCError, match=r"com\.apple\.appleneuralengine 4: InvalidMILProgram") as caught:
        engine.compile(tmp_path / "model.mil", X, Y)
    assert (caught.value.code, caught.value.operation) == (4, "compileWithQoS:options:error:")
    assert engine.compile_check(tmp_path / "model.mil") == 4
    (tmp_path / "model.mil").write_bytes(b"")
    with pytest.raises(ObjectiveCError, match="no model of "):
        engine.compile(tmp_path / "model.mil", X, Y)


def test_what_the_client_says_itself(engine: InMemoryModelDevice, mil: Path, tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="runs only on the Neural Engine"):
        engine.compile(mil, X, Y, mask=7)
    with pytest.raises(UnknownNameError, match="unknown live input 'z'; known: x"):
        engine.compile(mil, (DevicePort("z", 8),), Y)
    program = engine.compile(mil, X, Y)
    with pytest.raises(RuntimeStateError, match=r"more bytes than input 'x' has \(got 10, limit 8\)"):
        program.set_input("x", np.zeros(5, np.float16))
    with pytest.raises(UnknownNameError, match="unknown output 'z'; known: y"):
        program.output_view("z")
    with pytest.raises(RuntimeStateError, match="there is no such operation"):
        program.set_input("x", np.zeros(4, np.float16), 1)
    wide = af.save_mil(af.input((1, 2, 2), name="x").relu(), tmp_path / "wide")
    program.add_operation(wide, X, Y)
    with pytest.raises(RuntimeStateError, match="have different layouts on their surfaces"):
        program.share_buffer(0, "y", 1, "x")
    assert program.operation_count() == 2
    program.execute()
    with pytest.raises(RuntimeStateError, match="surfaces are shared before the first execution"):
        program.share_buffer(0, "y", 0, "x")
    for asked in (
        lambda: program.chain(0, 1, "event"),
        lambda: program.event_value(0),
        lambda: program.chain_event_value(1),
        program.execute_async,
        program.wait_for_completion,
        program.final_event_values,
    ):
        with pytest.raises(NotSupportedError, match="evaluates synchronously and has no events"):
            asked()
    program.release()


def test_a_surface_that_the_system_does_not_make(engine: InMemoryModelDevice) -> None:
    with engine.objc.pool(), pytest.raises(RuntimeStateError, match="no surface of -64 bytes for 'x'"):
        Surface.of(engine, Layout("x", (1, 1, 1, 1, 1), (-64, 0, 0, 0, 2)))


def test_classes_and_messages_that_are_not_there(fakes: Fakes) -> None:
    objc = fakes.in_memory.objc
    with pytest.raises(RuntimeStateError, match="no class NSTelephone"):
        objc.get_class("NSTelephone")
    with objc.pool():
        assert objc.failure("load", None).message == "the message failed without an NSError"
        assert objc.read_text(None) == ""
    said = InMemoryModelDevice(in_one_library(fakes.espresso.path)).obstacle()
    assert said is not None
    assert "it lacks objc_getClass" in said
