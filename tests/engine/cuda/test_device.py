"""The code that talks to CuPy, with a module in its place: memory, graphs, obstacles, and what `doctor` says."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.commands.doctoring import doctor
from aneforge.compiler.compile import build_program
from aneforge.engine.cuda import device
from aneforge.engine.cuda.device import CudaDevice
from aneforge.engine.cuda.executable import DeviceExecutable
from aneforge.engine.cuda.tensors import UnsuitedError
from aneforge.engine.execution.run import prepare
from aneforge.errors import BackendUnavailableError
from aneforge.targets import resolve
from cuda_emulation import compiler
from fake_cupy import FakeCuPy, Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aneforge.engine.execution.run import Executable

Array = npt.NDArray[Any]
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler for the kernels")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[..., FakeCuPy]]:
    """Return what puts a machine in the place of this one."""

    def put(machine: Machine) -> FakeCuPy:
        fake = FakeCuPy(machine)
        monkeypatch.setitem(sys.modules, "cupy", fake)  # pyright: ignore[reportArgumentType]
        device.obstacle.cache_clear()
        return fake

    yield put
    device.obstacle.cache_clear()


@pytest.fixture(autouse=True)
def _without_response_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the kernel of response norms away, so that a program has a layer on the host."""

    def unsuited(*_: object) -> None:
        raise UnsuitedError("no kernel")

    monkeypatch.setattr("aneforge.engine.cuda.primitives.Builder.response_norm", unsuited)


def small() -> Executable:
    """Return a program with a weight and a layer on the host."""
    x = af.input((1, 64, 2, 2), name="x")
    weight = np.random.default_rng(0).standard_normal((8, 64, 1, 1)).astype(np.float16)
    graph = af.local_response_norm(af.conv(x, weight).relu(), size=9) * 2.0
    return prepare(build_program(graph, resolve("h16")))


def drawn(count: int) -> Array:
    return np.random.default_rng(1).standard_normal((count, 1, 64, 2, 2)).astype(np.float16)


def test_plans_run_as_graphs_with_one_download_of_every_result(machine: Callable[..., FakeCuPy]) -> None:
    fake, ready = machine(Machine()), small()
    executable = DeviceExecutable(ready, CudaDevice())
    values = drawn(3)
    got = executable.run_many({"x": values}, {})
    for sample in range(3):
        want = ready.run({"x": values[sample]})
        assert want.outputs["y"].tobytes() == got.outputs["y"][sample].tobytes()
        assert dict(want.labels) == dict(got.labels[sample])
    assert len(executable.on_host) == 1
    per_run = 1 + 1 + len(executable.loaded(1)[0].plan.findings)  # the result, the operand of the layer on the host
    assert [what for what, _ in fake.log].count("download") == 2 * per_run  # two samples, then one


def plain() -> Executable:
    """Return a program that has no layer on the host."""
    return prepare(build_program((af.input((1, 64, 2, 2), name="x") * 2.0).softmax(1), resolve("h16")))


def test_the_next_samples_are_uploaded_while_those_before_run(machine: Callable[..., FakeCuPy]) -> None:
    fake, ready = machine(Machine()), plain()
    executable = DeviceExecutable(ready, CudaDevice())
    executable.most = 2
    values = drawn(8)
    got = executable.run_many({"x": values}, {})
    assert got.outputs["y"].tobytes() == np.stack([ready.run({"x": one}).outputs["y"] for one in values]).tobytes()
    assert [dict(one) for one in got.labels] == [dict(ready.run({"x": one}).labels) for one in values]
    steps = [step for place, step in enumerate(fake.log) if place == 0 or fake.log[place - 1] != step]
    first, second = steps[0][1], steps[1][1]
    assert first is not second
    begin, turn = [("upload", first), ("upload", second)], [("download", first), ("upload", first)]
    assert steps == [*begin, *turn, ("download", second), ("upload", second), ("download", first), ("download", second)]


def test_where_memory_has_no_place_for_two_one_runs_after_the_other(machine: Callable[..., FakeCuPy]) -> None:
    fake, ready = machine(Machine()), plain()
    executable = DeviceExecutable(ready, CudaDevice())
    executable.most = 2
    executable.run_many({"x": drawn(2)}, {})
    fake.machine.memory = fake.used + 100
    values = drawn(6)
    got = executable.run_many({"x": values}, {})
    assert len({stream for _, stream in fake.log}) == 1
    assert got.outputs["y"].tobytes() == np.stack([ready.run({"x": one}).outputs["y"] for one in values]).tobytes()


def test_labels_of_layers_on_the_host_are_those_of_their_own_samples(machine: Callable[..., FakeCuPy]) -> None:
    machine(Machine())
    ready = small()
    executable = DeviceExecutable(ready, CudaDevice())
    executable.most = 1
    values = drawn(4)
    values[1] = np.inf
    got = executable.run_many({"x": values}, {})
    with np.errstate(all="ignore"):
        assert [dict(one) for one in got.labels] == [dict(ready.run({"x": one}).labels) for one in values]


def test_memory_goes_back_when_a_program_is_released(machine: Callable[..., FakeCuPy]) -> None:
    fake = machine(Machine())
    executable = DeviceExecutable(small(), CudaDevice())
    executable.run_many({"x": drawn(3)}, {})
    assert fake.used > 0
    executable.release()
    gc.collect()
    assert fake.used == 0


def test_plans_for_other_numbers_of_samples_make_room(machine: Callable[..., FakeCuPy]) -> None:
    """With two plans at a time in memory that has place for one, samples still run together."""
    fake, ready = machine(Machine()), small()
    executable = DeviceExecutable(ready, CudaDevice())
    executable.run_many({"x": drawn(16)}, {})
    fake.machine.memory = fake.used * 10 // 8
    got = executable.run_many({"x": drawn(8 + 16)}, {})
    assert executable.most >= 16
    assert got.outputs["y"].tobytes() == np.stack([ready.run({"x": one}).outputs["y"] for one in drawn(24)]).tobytes()


@pytest.mark.parametrize("memory", [1000, 20_000])
def test_memory_that_does_not_suffice_for_constants_is_one_error(machine: Callable[..., FakeCuPy], memory: int) -> None:
    machine(Machine(memory=memory))
    executable = DeviceExecutable(small(), CudaDevice())
    with pytest.raises(BackendUnavailableError, match=r"too little memory.*limit .* bytes.*backend 'software'"):
        executable.run_many({"x": drawn(2)}, {})


def test_memory_that_another_process_took_meanwhile_is_the_same_error(
    machine: Callable[..., FakeCuPy], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(Machine(memory=20_000))
    executable = DeviceExecutable(small(), CudaDevice())
    monkeypatch.setattr(executable.device, "free_memory", lambda: 2**30)
    with pytest.raises(BackendUnavailableError, match="too little memory"):
        executable.run_many({"x": drawn(2)}, {})


OBSTACLES: dict[str, tuple[Machine, str]] = {
    "no driver": (
        Machine(fails="driver"),
        "CUDA cannot be used (cudaErrorInsufficientDriver: driver version is insuff",
    ),
    "no card": (Machine(count=0), 'there is no NVIDIA GPU; the backend "software" computes the same bits'),
    "no NVRTC": (Machine(fails="nvrtc"), "NVRTC, which compiles the kernels, cannot be used"),
    "an old card": (Machine(capability="61"), "compute capability 6.1, and the kernels need 7.0"),
    "an old driver": (Machine(driver=12040), "CuPy is of CUDA 13 (NVRTC 13.0) and the driver of CUDA 12; pip install"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_stands_in_the_way_is_one_sentence_at_every_door(machine: Callable[..., FakeCuPy], name: str) -> None:
    given, expected = OBSTACLES[name]
    machine(given)
    said = str(device.obstacle())
    assert expected in said
    assert "\n" not in said
    with pytest.raises(BackendUnavailableError) as error:
        CudaDevice()
    assert said in str(error.value)
    found = doctor()
    assert (found.gpu, [one.reason for one in found.backends if one.name == "cuda"]) == ("", [said])


def test_the_doctor_says_what_the_card_is(machine: Callable[..., FakeCuPy]) -> None:
    machine(Machine(ratio=64))
    assert doctor().gpu == (
        "Emulated, 1 GiB, 132 multiprocessors; driver of CUDA 13.0, CuPy 14.0 of CUDA 13.0; "
        "fp64 at 1/64 of the rate of fp32"
    )
