"""Backends: what is there, what is not and why, and dispatch to a device that computes in software."""

from __future__ import annotations

import gc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.lower.lower import lower
from aneforge.errors import BackendUnavailableError, GraphError, NotSupportedError, RuntimeStateError, UnknownNameError
from aneforge.runtime.devices import ENGINE_MASK, DeviceBackend
from aneforge.runtime.paths import Need
from aneforge.runtime.slots import Slots
from aneforge.runtime.streams.multi import execute_multi
from aneforge.runtime.streams.operations import Operation
from aneforge.runtime.streams.stream import ExecutionStream
from aneforge.targets import resolve
from software_device import SoftwareDevice, SoftwareStream

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.runtime.devices import DevicePort
    from golden_text import Golden

RANDOM = np.random.default_rng(5)
WEIGHT = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float16)
SAMPLE = RANDOM.standard_normal((1, 3, 8, 8))


def network() -> af.Tensor:
    return af.conv(af.input((1, 3, 8, 8)), WEIGHT, pad=1).gelu()


def test_every_backend_says_whether_it_is_available(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    golden("\n".join(map(str, af.backends())) + "\n")


def no_package(_: str) -> None:
    """Find nothing."""


def test_on_a_mac_the_reason_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv("ANEFORGE_DYLIB", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", no_package)
    reasons = {status.name: status.reason for status in af.backends()}
    assert reasons["e5rt"].startswith("/System/Library/PrivateFrameworks/Espresso.framework/Espresso cannot be loaded")
    assert reasons["in_memory_model"].startswith("/usr/lib/libobjc.A.dylib cannot be loaded")
    assert reasons["coreml"] == "coremltools is not installed: pip install 'aneforge-open[coreml]'"
    assert "a baseline for comparisons" in reasons["mpsgraph"]
    assert "part of macOS" not in "".join(reasons.values())


@pytest.mark.parametrize("name", ["e5rt", "in_memory_model", "mpsgraph", "coreml", "path_b"])
def test_a_backend_that_is_not_available_is_an_error(name: str) -> None:
    with pytest.raises(BackendUnavailableError, match=f"backend '{name}' .* is not available: ") as caught:
        af.compile(network(), target="h13", backend=name)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.remedy


def test_path_b_answers_with_the_entitlement() -> None:
    with pytest.raises(BackendUnavailableError, match=r"com\.apple\.aned\.private\.allow"):
        af.compile(network(), target="h13", backend="path_b")


def test_the_backends_differ_as_they_say() -> None:
    exact = af.compile(network(), target="h13")
    half = af.compile(network(), target="h13", backend="cpu_fp16")
    real = af.compile(network(), target="h13", backend="reference")
    assert [model.backend for model in (exact, half, real)] == ["software", "cpu_fp16", "reference"]
    wanted = af.reference(network(), [SAMPLE])["y"]
    assert np.allclose(real(SAMPLE), wanted.astype(np.float32), rtol=1e-6)
    assert np.abs(half(SAMPLE) - wanted).max() < 0.01
    assert np.abs(exact(SAMPLE) - wanted).max() < 0.1
    assert not np.array_equal(exact(SAMPLE), half(SAMPLE))
    assert str(exact.exactness.exactness) == "exact"
    assert "not the engine's arithmetic" in str(half.exactness)
    assert "not the engine's arithmetic" in str(real.exactness)


def test_the_float64_reference_rounds_no_port() -> None:
    model = af.compile(af.input((1, 1)) * 1.0, target="h13", backend="reference")
    assert model(np.array([[1 / 3]])).tolist() == [[float(np.float32(1 / 3))]]
    assert model.input_view().dtype == np.float64


def test_the_fp16_reference_keeps_states_and_whole_numbers() -> None:
    total = af.state("total", (1, 32))
    graph = af.Graph({"y": total + af.input((1, 32), dtype="uint8").cast("fp16")}, {"total": total + 0.1})
    model = af.compile(graph, target="h16g", backend="cpu_fp16")
    values = [float(np.asarray(model(np.zeros((1, 32), np.uint8)))[0, 0]) for _ in range(3)]
    tenth = np.float16(0.1)
    assert values == [0.0, float(tenth), float(np.float16(float(tenth) * 2))]


# A device


def dispatched(device: SoftwareDevice) -> DeviceBackend:
    return DeviceBackend("fake", "a device that computes in software", device)


def test_dispatch_to_a_device() -> None:
    device = SoftwareDevice()
    with af.compile(network(), target="h13", backend=dispatched(device)) as model:
        assert np.array_equal(model(SAMPLE), af.compile(network(), target="h13")(SAMPLE))
        assert model.backend == "fake"
        assert str(model.exactness) == "exact: computed by the device itself"
    assert device.log == ["compile [384] -> [512]", "execute", "release"]


def test_a_model_that_nobody_holds_leaves_the_device() -> None:
    device = SoftwareDevice()
    model = af.compile(network(), target="h13", backend=dispatched(device))
    del model
    gc.collect()
    assert device.log[-1] == "release"


def test_a_program_that_is_one_too_many_leaves_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise RuntimeStateError("128 programs are loaded, and this one needs 1")

    monkeypatch.setattr(Slots, "take", full)
    device = SoftwareDevice()
    with pytest.raises(RuntimeStateError, match="128 programs are loaded"):
        af.compile(network(), target="h13", backend=dispatched(device))
    assert device.log[-1] == "release"


def test_a_device_gets_uint8_in_an_even_number_of_bytes() -> None:
    device = SoftwareDevice()
    model = af.compile(af.image_input((1, 1, 3, 3), scale=1.0), target="h13", backend=dispatched(device))
    pixels = np.arange(9, dtype=np.uint8).reshape(1, 1, 3, 3)
    assert np.array_equal(model(pixels), pixels)
    assert device.log[0] == "compile [10] -> [18]"


def test_a_device_is_given_the_graph_each_time(cache_folder: Path) -> None:
    for _ in range(2):
        device = SoftwareDevice()
        model = af.compile(network(), target="h13", backend=dispatched(device))
        assert device.log == ["compile [384] -> [512]"]
        model.release()
    assert cache_folder.exists()


class BrokenDevice(SoftwareDevice):
    """A device whose compiler fails until it is rescaled."""

    broken = True

    def compile(
        self,
        mil: Path,
        inputs: tuple[DevicePort, ...],
        outputs: tuple[DevicePort, ...],
        *,
        mask: int = ENGINE_MASK,
        cache: Path | None = None,
        target: str | None = None,
    ) -> SoftwareStream:
        """Fail, or compile."""
        if self.broken:
            self.log.append("failed")
            raise RuntimeError("the service said no")
        return super().compile(mil, inputs, outputs, mask=mask, cache=cache, target=target)


def test_a_device_that_failed_to_compile_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    device = BrokenDevice()
    backend = DeviceBackend("broken", "a broken device", device)
    out = af.input((1, 4)).relu()
    with pytest.raises(RuntimeError, match="the service said no"):
        af.compile(out, target="h13", backend=backend)
    with pytest.raises(af.CompileBackoffError, match=r"not tried again for 1\d\.\d s: the service said no"):
        af.compile(out, target="h13", backend=backend)
    assert device.log == ["failed"]
    af.compile(out, target="h13")  # what is compiled here waits for nobody
    af.compile(out, target="h13", backend=DeviceBackend("another", "a device", SoftwareDevice()))
    monkeypatch.setenv("ANEFORGE_COMPILE_BACKOFF", "soon")
    with pytest.raises(ValueError, match="ANEFORGE_COMPILE_BACKOFF is not a number of seconds"):
        af.compile(out, target="h13", backend=backend)
    monkeypatch.setenv("ANEFORGE_COMPILE_BACKOFF", "0")
    with pytest.raises(RuntimeError, match="the service said no"):
        af.compile(out, target="h13", backend=backend)
    monkeypatch.delenv("ANEFORGE_COMPILE_BACKOFF")
    monkeypatch.setenv("ANEFORGE_DISABLE_COMPILE_BREAKER", "1")
    with pytest.raises(RuntimeError, match="the service said no"):
        af.compile(out, target="h13", backend=backend)
    monkeypatch.delenv("ANEFORGE_DISABLE_COMPILE_BREAKER")
    device.broken = False
    with pytest.raises(af.CompileBackoffError):
        af.compile(out, target="h13", backend=backend)
    af.reset_compile_breaker()
    assert af.compile(out, target="h13", backend=backend)(np.ones((1, 4))).tolist() == [[1] * 4]


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(BackendUnavailableError, match=r"'fake' .* is not available: no driver"):
        af.compile(network(), target="h13", backend=dispatched(SoftwareDevice("no driver")))
    program = af.build_program(network(), "h13")
    with pytest.raises(BackendUnavailableError, match="no driver"):
        dispatched(SoftwareDevice("no driver")).load(program, None)


def test_a_device_that_answers_wrongly() -> None:
    device = SoftwareDevice(surplus=2)
    with pytest.raises(RuntimeStateError, match="the device has input 'x0' with another size"):
        af.compile(network(), target="h13", backend=dispatched(device))
    assert device.log[-1] == "release"


def test_what_a_device_does_not_take(tmp_path: Path) -> None:
    backend = dispatched(SoftwareDevice())
    path = af.compile(network(), target="h13").save(tmp_path / "net")
    with pytest.raises(NotSupportedError, match="this program was read from a file"):
        af.load_program(path, backend=backend)
    indices = af.Graph({"y": af.input((1, 32), name="x").greater(af.input((1, 32), name="z"))})
    program = lower(indices, resolve("h16g"))
    with pytest.raises(NotSupportedError, match="port 'y' has an element type that a device does not support"):
        backend.load(program, indices)


def counting() -> af.Graph:
    total, fixed = af.state("total", (1, 32)), af.state("fixed", (1, 32))
    return af.Graph({"the sum": total + af.input((1, 32), name="a step") + fixed}, {"total": total + 1.0})


def test_states_stay_in_the_memory_of_a_device() -> None:
    device = SoftwareDevice()
    with af.compile(counting(), target="h13", backend=dispatched(device)) as model:
        assert device.log[1:] == ["share 0.total_next -> 0.total"]
        model.loaded.write_state("fixed", np.full((1, 32), 0.5))
        assert [float(np.asarray(model(np.zeros((1, 32))))[0, 0]) for _ in range(3)] == [0.5, 1.5, 2.5]
        assert model.loaded.read_state("total")[0, 0] == 3
        found = execute_multi(model.loaded, [{"a step": np.zeros((1, 32))}] * 2)
        assert [float(step["the sum"][0, 0]) for step in found] == [3.5, 4.5]
    assert [line for line in device.log[2:] if "total" in line and not line.startswith("lend ")] == []


@pytest.mark.parametrize("steps", [64, 65])
def test_more_steps_than_a_process_loads_programs_run_one_operation(steps: int) -> None:
    device = SoftwareDevice()
    with af.compile(af.input((1, 4), name="x") + 1.0, target="h13", backend=dispatched(device)) as model:
        found = execute_multi(model.loaded, [{"x": np.full((1, 4), number)} for number in range(steps)])
    assert [step["y"][0, 0] for step in found] == [number + 1 for number in range(steps)]
    assert (device.log.count("execute_multi"), device.log.count("add")) == ((1, 63) if steps == 64 else (0, 0))


@pytest.mark.parametrize("lends_buffers", [True, False])
def test_outputs_are_resident_beside_states(lends_buffers: bool) -> None:  # noqa: FBT001 - a parameter of the test
    device = SoftwareDevice(lends_buffers=lends_buffers)
    nothing: dict[str, object] = {}
    with af.compile(counting(), target="h13", backend=dispatched(device)) as model:
        model.loaded.write_state("fixed", np.full((1, 32), 0.5))
        for sums in ([0.5, 2, 4.5], [3.5, 8, 13.5]):
            device.log.clear()
            found = execute_multi(model.loaded, [nothing] * 3, {"the sum": "a step"})
            assert [step["the sum"][0, 0] for step in found] == sums
            copied = [device.log.count(line) for line in ("set total", "get total_next")]
            assert copied == ([0, 0] if lends_buffers else [1, 1])  # before the first step and after the last
        assert model.loaded.read_state("total")[0, 0] == 6
        step = Operation(model.loaded)
        with ExecutionStream() as stream:
            stream.encode(step)
            stream.execute()
        assert step.read_output("the sum")[0, 0] == 6.5
        assert model.loaded.read_state("total")[0, 0] == 7


@pytest.mark.parametrize("operation_ports", [None, 1])
def test_what_is_resident_stays_in_the_memory_of_a_device(operation_ports: int | None) -> None:
    device = SoftwareDevice(operation_ports=operation_ports)
    y = af.input((1, 4), name="x") + af.input((1, 4), name="z")
    with af.compile(y, target="h13", backend=dispatched(device)) as model:
        for seed in (0.0, 2.0):
            feeds = [{"x": np.full((1, 4), n)} for n in (1, 2, 3)]
            found = execute_multi(model.loaded, feeds, {"y": "z"}, {"z": np.full((1, 4), seed)} if seed else None)
            assert [step["y"][0, 0] - seed for step in found] == [1, 3, 6]
    assert device.log.count("execute_multi") == (2 if operation_ports is None else 0)
    assert device.log.count("execute") == (0 if operation_ports is None else 6)
    assert device.log.count("set z") == 2
    assert device.log.count("compile [8, 8] -> [8]") == 2


def test_a_feed_that_does_not_fit_names_its_step() -> None:
    model = af.compile(af.input((1, 4), name="x").relu(), target="h13", backend=dispatched(SoftwareDevice()))
    with pytest.raises(GraphError, match="execute_multi, step 1: a feed has a value for every input"):
        execute_multi(model.loaded, [{"x": np.ones((1, 4))}, {}])
    wide = af.Graph({"y": af.input((1, 4), name="x").tile([1, 2])})
    model = af.compile(wide, target="h13", backend=dispatched(SoftwareDevice()))
    with pytest.raises(GraphError, match="cannot share its buffer"):
        execute_multi(model.loaded, [{}], {"y": "x"})


def test_ports_that_share_memory_on_a_device() -> None:
    device = SoftwareDevice()
    model = af.compile(af.input((1, 4), name="x") + 1.0, target="h13", backend=dispatched(device))
    model.loaded.share_buffer("y", "x")
    for _ in range(3):
        model.execute()
    assert model.output_view().tolist() == [[3] * 4]
    assert "set x" not in device.log


def test_a_view_keeps_the_memory_of_a_device() -> None:
    device = SoftwareDevice()
    model = af.compile(network(), target="h13", backend=dispatched(device))
    view = model.output_view()[0]
    model.release()
    assert "release" not in device.log
    assert float(view.max()) == 0
    del view
    assert device.log[-1] == "release"


def test_a_saved_program_runs_on_another_software_backend(tmp_path: Path) -> None:
    path = af.compile(network(), target="h13").save(tmp_path / "net")
    model = af.load_program(path, backend="reference")
    assert np.allclose(np.asarray(model(SAMPLE)), af.reference(network(), [SAMPLE])["y"], rtol=1e-6)


# Paths


def test_the_table_of_paths(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    golden("\n".join(f"{need}: {af.choose_path(need)}" for need in Need) + "\n")


def test_a_need_that_nobody_has() -> None:
    with pytest.raises(UnknownNameError, match="unknown need 'hotloop'; nearest: hot_loop"):
        af.choose_path("hotloop")


def test_every_backend_of_the_table_is_known() -> None:
    known = {status.name for status in af.backends()}
    for need in Need:
        choice = af.choose_path(need)
        assert set(choice.backends) <= known
        assert choice.available is any(status.available for status in af.backends() if status.name in choice.backends)
    with pytest.raises(GraphError):
        af.compile(network(), target="h13", backend=cast("Any", object()))
