"""The runtime over every way to the engine: software = library = fake e5rt = fake Path A, bit for bit."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings

import aneforge as af
from aneforge.errors import AneforgeError, NotSupportedError, RuntimeStateError
from aneforge.runtime.devices import DeviceBackend, DevicePort
from aneforge.runtime.dispatch.abi import AbiProgram
from aneforge.runtime.dispatch.espresso import EspressoProgram
from aneforge.runtime.dispatch.in_memory_model import InMemoryProgram
from aneforge.runtime.ports import Direction
from aneforge.runtime.streams.handoff import Handoff
from aneforge.runtime.streams.multi import execute_multi
from aneforge.runtime.streams.operations import Operation
from aneforge.runtime.streams.stream import ExecutionStream
from aneforge.testing.networks import networks
from llama_block import llama_block
from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from software_device import SoftwareDevice
from transformer import encoder, vision_transformer
from unet import unet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from aneforge.runtime.model import AnyModel
    from aneforge.testing.graphs import DrawnGraph
    from apple_fakes import Fakes, Way

Array = npt.NDArray[Any]
TARGET = "h16g"
EXAMPLES: dict[str, Callable[[], af.Graph]] = {
    "llama_block": lambda: llama_block(width=64, heads=2, places=8),
    "mobilenet_v2": lambda: mobilenet_v2(size=32, classes=10),
    "resnet18": lambda: resnet18(size=32, classes=10),
    "encoder": lambda: encoder(length=16, width=48, layers=2, heads=4),
    "vision_transformer": lambda: vision_transformer(size=32, width=48, layers=2),
    "unet": lambda: unet(size=16, channels=(8, 16)),
}


def backend(way: Way) -> DeviceBackend:
    return DeviceBackend(way.name, "the engine by one of its ways", way.device)


def dispatched(graph: af.Graph | af.Tensor, way: Way) -> AnyModel:
    return af.compile(graph, target=TARGET, backend=backend(way))


def outputs(model: AnyModel, values: Sequence[object]) -> Mapping[str, Array]:
    found = model(*values)
    return found if isinstance(found, dict) else {model.outputs[0]: found}


@cache
def wanted(name: str) -> tuple[af.Graph, tuple[Array, ...], tuple[Mapping[str, Array], ...]]:
    """Return an example network, its inputs, and what two calls on the software engine give."""
    graph, random = EXAMPLES[name](), np.random.default_rng(7)
    with af.compile(graph, target=TARGET) as model:
        values = tuple(random.standard_normal(port.type.shape) for port in model.loaded.inputs.values())
        return graph, values, tuple(outputs(model, values) for _ in range(2))


def same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.filterwarnings("ignore::aneforge.errors.PrecisionWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_networks(name: str, way: Way) -> None:
    graph, values, results = wanted(name)
    with dispatched(graph, way) as model:
        for result in results:  # a network with states gives something else the second time
            assert same(outputs(model, values), result)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=networks(most=6))
def test_drawn_networks(drawn: DrawnGraph, way: Way) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = af.compile(drawn.graph, target=TARGET)
        except AneforgeError:
            return
        values = [drawn.inputs[name] for name in model.inputs if name in drawn.inputs]
        with dispatched(drawn.graph, way) as other:
            assert same(outputs(other, values), outputs(model, values))


def running_sum() -> af.Graph:
    """Return a graph with a state that changes, one that stays, and names that no MIL text has."""
    total, fixed = af.state("the total", (1, 2, 3, 32)), af.state("fixed", (1, 2, 3, 32))
    return af.Graph({"y": total + af.input((1, 2, 3, 32), name="x/0") * fixed}, {"the total": total + 1.0})


def test_states(way: Way) -> None:
    step = np.arange(192.0).reshape(1, 2, 3, 32)
    with dispatched(running_sum(), way) as model, af.compile(running_sum(), target=TARGET) as software:
        for one in (model, software):
            one.loaded.write_state("fixed", np.full((1, 2, 3, 32), 0.5))
        for _ in range(3):
            assert same(outputs(model, [step]), outputs(software, [step]))
        assert model.loaded.read_state("the total")[0, 0, 0, 0] == 3
        found = [execute_multi(one.loaded, [{"x/0": step}] * 2) for one in (model, software)]
        assert all(same(one, other) for one, other in zip(*found, strict=True))
        assert model.loaded.read_state("the total").tobytes() == software.loaded.read_state("the total").tobytes()


def test_a_state_that_is_only_read(way: Way) -> None:
    fixed = af.state("fixed", (1, 32))
    graph, ones = af.Graph({"y": fixed * af.input((1, 32), name="x")}), np.ones((1, 32))
    nothing: dict[str, Array] = {}
    with dispatched(graph, way) as model:
        model.loaded.write_state("fixed", 3 * ones)
        for step in execute_multi(model.loaded, [{"x": ones}] * 2):
            assert (step["y"] == 3).all()
        found = execute_multi(model.loaded, [nothing] * 3, {"y": "x"}, {"x": ones})
        assert [step["y"].max() for step in found] == [3, 9, 27]


@pytest.mark.parametrize("inputs", [1, 2])
def test_several_steps_in_one_call(inputs: int, way: Way) -> None:
    x = af.input((1, 3, 5), name="x")
    graph = af.Graph({"y": x * 0.5 + (1.0 if inputs == 1 else af.input((1, 3, 5), name="z"))})
    feeds = [{} if inputs == 1 else {"z": np.full((1, 3, 5), number)} for number in range(4)]
    seeds = {"x": np.arange(15.0).reshape(1, 3, 5)}
    with dispatched(graph, way) as model, af.compile(graph, target=TARGET) as software:
        for _ in range(2):
            found = [execute_multi(one.loaded, feeds, {"y": "x"}, seeds) for one in (model, software)]
            assert all(same(one, other) for one, other in zip(*found, strict=True))


@pytest.fixture
def host_copies(way: Way, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every value that the host copies into a device's memory, out of it, or between two places of it."""
    noted: list[str] = []
    copy = np.copyto

    def noting(destination: Array, source: Array, casting: Literal["same_kind", "unsafe"] = "same_kind") -> None:
        noted.append("copy")
        copy(destination, source, casting=casting)

    def note_calls(kind: type, method: str) -> None:
        called = getattr(kind, method)

        def calls(self: object, port: str, data: Array, operation: int = 0) -> None:
            noted.append(f"{method} {port}")
            called(self, port, data, operation)

        monkeypatch.setattr(kind, method, calls)

    monkeypatch.setattr(np, "copyto", noting)
    for method in ("set_input", "get_output"):
        note_calls({"library": AbiProgram, "e5rt": EspressoProgram, "path_a": InMemoryProgram}[way.name], method)
    return noted


SHAPES = pytest.mark.parametrize("shape", [(1, 3, 5), (1, 2, 3, 32)], ids=["gaps between rows", "dense rows"])


@SHAPES
def test_what_operations_share_never_crosses_the_host(shape: tuple[int, ...], way: Way, host_copies: list[str]) -> None:
    with dispatched(af.input(shape, name="x") + 1.0, way) as model:
        first, second = Operation(model.loaded, "first"), Operation(model.loaded, "second")
        first.share_buffer("y", second, "x")
        second.share_buffer("y", first, "x")
        first.set_input("x", np.full(shape, 10))
        assert host_copies == ["copy"]  # the first value, and then no other
        alone = Operation(model.loaded, "alone")
        alone.share_buffer("y", alone, "x")
        with ExecutionStream() as stream:
            for step in (first, second, alone):
                stream.encode(step)
            for _ in range(4):
                stream.execute()
        assert host_copies == ["copy"]
        assert (second.read_output("y") == 18).all()
        assert (first.port("x").buffer == 18).all()
        assert (alone.read_output("y") == 4).all()
        held = first.port("y").buffer
        del first, second, alone, stream, step
        assert (held == 17).all()  # whoever has a view keeps the memory


def test_states_never_cross_the_host(way: Way, host_copies: list[str]) -> None:
    total = af.state("total", (1, 2, 3, 32))
    graph = af.Graph({"y": total + af.input((1, 2, 3, 32), name="x")}, {"total": total + 1.0})
    with dispatched(graph, way) as model:
        for _ in range(4):
            model.execute()
        assert host_copies == []
        assert (model.output_view() == 3).all()


def test_operations_of_a_program_with_states_never_cross_the_host(way: Way, host_copies: list[str]) -> None:
    shape = (1, 2, 3, 32)
    total, fixed = af.state("total", shape), af.state("fixed", shape)
    graph = af.Graph({"y": total + fixed * af.input(shape, name="x")}, {"total": total + 1.0})
    with dispatched(graph, way) as model:
        model.loaded.write_state("fixed", np.full(shape, 2.0))
        model.execute()  # operations are made of a program that ran too, and go on from its states
        first, second = Operation(model.loaded, "first"), Operation(model.loaded, "second")
        first.share_buffer("y", second, "x")
        first.set_input("x", np.full(shape, 10))
        assert host_copies == ["copy", "copy"]  # what was given above, and then nothing
        with ExecutionStream() as stream:
            stream.encode(first)
            stream.encode(second)
            for _ in range(2):
                stream.execute()
        model.execute()
        assert host_copies == ["copy", "copy"]
        assert (first.read_output("y") == 3 + 2 * 10).all()
        assert (second.read_output("y") == 4 + 2 * 23).all()
        assert (model.output_view() == 5).all()
        assert (model.loaded.read_state("total") == 6).all()
        held = first.port("y").buffer
        del first, second, stream
    assert (held == 23).all()


def test_outputs_are_resident_beside_states(way: Way, host_copies: list[str]) -> None:
    total = af.state("total", (1, 2, 3, 32))
    carried = af.input((1, 2, 3, 32), name="carried") * 2.0 + total
    graph = af.Graph({"next": carried, "seen": carried + af.input((1, 2, 3, 32), name="x")}, {"total": total + 1.0})
    feeds = [{"x": np.full((1, 2, 3, 32), number)} for number in range(3)]
    seeds = {"carried": np.ones((1, 2, 3, 32))}
    with dispatched(graph, way) as model, af.compile(graph, target=TARGET) as software:
        for _ in range(2):  # the second call goes on from the states that the first one left
            found = execute_multi(model.loaded, feeds, {"next": "carried"}, seeds)
            assert "copy" not in host_copies
            assert host_copies.count("set_input carried") == 1
            assert not any("total" in one for one in host_copies)
            wanted = execute_multi(software.loaded, feeds, {"next": "carried"}, seeds)
            assert all(same(one, other) for one, other in zip(found, wanted, strict=True))
            host_copies.clear()
        assert (model.loaded.read_state("total") == 6).all()
        assert (software.loaded.read_state("total") == 6).all()


def test_steps_with_states_are_one_call_where_operations_have_many_ports(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    kind = {"library": AbiProgram, "e5rt": EspressoProgram, "path_a": InMemoryProgram}[way.name]
    for method in ("execute", "execute_multi"):
        called = getattr(kind, method)

        def noting(program: object, called: Callable[[object], None] = called, method: str = method) -> None:
            calls.append(method)
            called(program)

        monkeypatch.setattr(kind, method, noting)
    graph, step = running_sum(), np.arange(192.0).reshape(1, 2, 3, 32)
    with dispatched(graph, way) as model, af.compile(graph, target=TARGET) as software:
        for one in (model, software):
            one.loaded.write_state("fixed", np.full((1, 2, 3, 32), 0.5))
        for _ in range(2):
            found = [execute_multi(one.loaded, [{"x/0": step}] * 4) for one in (model, software)]
            assert all(same(one, other) for one, other in zip(*found, strict=True))
        assert calls == (["execute"] * 8 if way.name == "library" else ["execute_multi"] * 2)
        assert (model.loaded.read_state("the total") == 8).all()


def test_what_the_library_lends_to_added_operations(fakes: Fakes, tmp_path: Path) -> None:
    mil = af.save_mil(af.input((1, 4), name="x").relu(), tmp_path)
    ports = (DevicePort("x", 8),), (DevicePort("y", 8),)
    one, other = (fakes.library.compile(mil, *ports) for _ in range(2))
    other.add_operation(mil, *ports)
    with pytest.raises(NotSupportedError, match="lends memory only to first operations"):
        one.lend_buffer((Direction.OUTPUT, "y"), other, (Direction.INPUT, "x"), 1)
    for program in (one, other):
        program.release()


@pytest.mark.parametrize("steps", [2, 6])
def test_what_is_resident_crosses_the_host_once(steps: int, way: Way, host_copies: list[str]) -> None:
    graph = af.Graph({"y": af.input((1, 3, 5), name="total") + af.input((1, 3, 5), name="x")})
    with dispatched(graph, way) as model:
        found = execute_multi(model.loaded, [{"x": np.ones((1, 3, 5))}] * steps, {"y": "total"})
        assert (found[-1]["y"] == steps).all()
        assert host_copies.count("set_input total") == 1
        assert host_copies.count("set_input x") == host_copies.count("get_output y") == steps  # given, and given back
        assert "copy" not in host_copies


def test_memory_is_lent_within_a_device_alone(way: Way, tmp_path: Path) -> None:
    mil = af.save_mil(af.input((1, 4), name="x").relu(), tmp_path)
    ports = (DevicePort("x", 8),), (DevicePort("y", 8),)
    one, other = (way.device.compile(mil, *ports) for _ in range(2))
    stranger = SoftwareDevice().compile(mil, *ports, target="h16g")
    with pytest.raises(NotSupportedError, match="memory can be shared only between programs of one device"):
        one.lend_buffer((Direction.OUTPUT, "y"), stranger, (Direction.INPUT, "x"))
    for wrong in (("z", "x"), ("y", "z")):
        with pytest.raises((AneforgeError, RuntimeError)):
            one.lend_buffer((Direction.OUTPUT, wrong[0]), other, (Direction.INPUT, wrong[1]))
    other.execute()
    with pytest.raises(RuntimeStateError):
        one.lend_buffer((Direction.OUTPUT, "y"), other, (Direction.INPUT, "x"))
    for program in (one, other):
        program.release()


def test_operations_of_two_devices_pass_values_by_the_host(way: Way) -> None:
    graph = af.input((1, 3, 5), name="x") + 1.0
    with dispatched(graph, way) as model, af.compile(graph, target=TARGET) as software:
        first, second, third = Operation(model.loaded), Operation(software.loaded), Operation(model.loaded)
        first.share_buffer("y", second, "x")
        second.share_buffer("y", third, "x")
        with ExecutionStream() as stream:
            for step in (first, second, third):
                stream.encode(step)
            stream.execute()
        assert (third.read_output("y") == 3).all()
        del first, second, third, stream, step


def test_ports_that_share_memory(way: Way) -> None:
    with dispatched(af.input((1, 3, 5), name="x") + 1.0, way) as model:
        model.loaded.share_buffer("y", "x")
        for _ in range(3):
            model.execute()
        assert (model.output_view() == 3).all()
        model.input_view("x")[:] = 10
        model.execute()
        assert (model.loaded.read_output() == 11).all()
        with pytest.raises(RuntimeStateError, match="buffers are shared before the first execution"):
            model.loaded.share_buffer("y", "x")


def test_views_are_where_values_pass(way: Way) -> None:
    x = af.input((2, 3, 7), name="x")
    graph = af.Graph({"a": x.relu(), "b": x.abs()})
    with dispatched(graph, way) as model:
        entry, end = model.input_view(), model.output_view("b")
        for number in (1, 2):
            entry[:] = -number
            model.execute()
            assert (end == number).all()
            assert (model.output_view("a") == 0).all()
        bound = np.zeros((2, 3, 7), np.float16)
        model.loaded.bind("a", bound)
        assert same(model.loaded.eval(np.full((2, 3, 7), 3.0)), {"a": np.full((2, 3, 7), 3, np.float16), "b": bound})
        assert (bound == 3).all()
        del entry, end


def test_threads_call_one_model(way: Way) -> None:
    with dispatched(af.input((1, 16), name="x") + 1.0, way) as model, ThreadPoolExecutor(4) as pool:
        found = pool.map(model, [np.full((1, 16), number) for number in range(24)])
        for number, array in enumerate(found):
            assert np.array_equal(np.asarray(array), np.full((1, 16), number + 1))


def test_bytes_are_fed_in_an_even_number(way: Way) -> None:
    graph = af.image_input((1, 1, 3, 3), scale=1.0)
    pixels = np.arange(9, dtype=np.uint8).reshape(1, 1, 3, 3)
    if way.name == "path_a":
        with pytest.raises(NotSupportedError, match="must hold only fp16 numbers on its surface"):
            dispatched(graph, way)
        return
    with dispatched(graph, way) as model:
        assert np.array_equal(np.asarray(model(pixels)), pixels)


def test_a_program_that_is_handed_over(way: Way, tmp_path: Path) -> None:
    graph = af.Graph({"y": af.input((1, 4), name="x") * 2.0})
    saved = af.compile(graph, target=TARGET).save(tmp_path / "double")
    handed = Handoff.of(saved, mil=af.save_mil(graph, tmp_path / "mil").parent)
    with handed.load(backend=backend(way)) as loaded:
        assert loaded.eval([[1, 2, 3, 4]])["y"].tolist() == [[2, 4, 6, 8]]


def test_a_program_that_the_compiler_refuses(way: Way, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.mil"
    path.write_text("program(1.3) { func main<ios18>(tensor<fp16, [1]> x) { } }", encoding="utf-8")
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(RuntimeError, match=r"did not compile|MIL compilation failed|InvalidMILProgram"):
        way.device.compile(path, (), ())
    assert way.device.compile_check(path) != 0
    assert "Traceback" not in capfd.readouterr().err


def test_options_of_a_check(way: Way, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mil = af.save_mil(af.input((1, 4), name="x").relu(), tmp_path)
    assert way.device.compile_check(mil) == 0
    answers = [way.device.compile_check(mil, options=f"TargetArchitecture={name}") for name in ("h13", "h13x")]
    assert answers == {"library": [0, -1], "e5rt": [0, 11], "path_a": [-2, -2]}[way.name]
    assert ("unknown TargetArchitecture 'h13x'" in capfd.readouterr().err) is (way.name != "path_a")


def test_operations_that_are_not_there(way: Way, tmp_path: Path) -> None:
    mil = af.save_mil(af.input((1, 4), name="x").relu(), tmp_path)
    ports = backend(way).device.compile(mil, (DevicePort("x", 8),), (DevicePort("y", 8),))
    for wrong in (
        lambda: ports.set_input("z", np.zeros(4, np.float16)),
        lambda: ports.set_input("x", np.zeros(5, np.float16)),
        lambda: ports.set_input("x", np.zeros(4, np.float16), 1),
        lambda: ports.share_buffer(0, "y", 1, "x"),
        lambda: ports.output_view("x"),
    ):
        with pytest.raises((AneforgeError, RuntimeError)):
            wrong()
    ports.release()
    ports.release()
    with pytest.raises(RuntimeStateError):
        ports.set_input("x", np.zeros(4, np.float16))
