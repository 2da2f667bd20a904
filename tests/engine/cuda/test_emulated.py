"""The kernels of GPUs on the host, as a C++ compiler has them: the golden model's bits, the CPU's labels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine import golden
from aneforge.engine.cuda.executable import DeviceExecutable
from aneforge.engine.cuda.single import run_operation
from aneforge.engine.cuda.tensors import UnsuitedError
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.execution.run import prepare
from aneforge.errors import BackendUnavailableError, NotSupportedError
from aneforge.ops.table import find_op
from aneforge.targets import resolve
from cuda_emulation import EmulatedDevice, compiler
from fuzz_cuda import OPERATIONS, Figures, try_operation, try_program

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Array = npt.NDArray[Any]
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler for the kernels")
SAMPLES = 2


@pytest.fixture(autouse=True)
def _quiet() -> Generator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def halves(generator: np.random.Generator, *shape: int, size: float = 1.0) -> Array:
    return (generator.standard_normal(shape) * size).astype(np.float16)


def expect_same_as_cpu(graph: af.Tensor, target: str, inputs: dict[str, Array]) -> DeviceExecutable:
    """Compare outputs and labels of every sample with those of the CPU, and return the program on the device."""
    ready = prepare(build_program(graph, resolve(target)))
    machine = DeviceExecutable(ready, EmulatedDevice())
    got = machine.run_many(inputs, {})
    for sample in range(len(next(iter(inputs.values())))):
        want = ready.run({name: one[sample] for name, one in inputs.items()})
        for name, array in want.outputs.items():
            assert array.tobytes() == got.outputs[name][sample].tobytes()
        assert dict(want.labels) == dict(got.labels[sample])
    return machine


def test_operations_of_the_table_have_the_bits_of_the_golden_model() -> None:
    figures = Figures()
    for number in range(len(OPERATIONS)):
        try_operation(EmulatedDevice(), 7_000_000 + number, figures)
    assert figures.different == []
    assert len(figures.operations) > 90


def test_windows_that_lie_along_more_axes_than_a_copy_takes_are_read_where_they_lie() -> None:
    """A largest value of int8 over windows of three axes."""
    figures = Figures()
    try_operation(EmulatedDevice(), 410_001_824, figures)
    assert figures.different == []
    assert not figures.on_host


def test_programs_have_the_bits_and_labels_of_the_cpu() -> None:
    figures = Figures()
    for number in (3, 4, 5, 6, 7):
        try_program(EmulatedDevice(), 9_000_000 + number, figures)
    assert figures.different == []
    assert figures.programs >= 4


@pytest.mark.parametrize("reach", [62.9, 63.1, 250.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_that_reach_what_bounds_of_a_chunk_allow(reach: float, sign: int) -> None:
    """Equal lines, whose product is that of their norms: 192 carried and 63 gathered stay below 256, 129 above 128."""
    steps, lines = 80, 70
    drawn = np.random.default_rng(9).uniform(0.9, 1.1, steps).reshape(-1, 16)
    line = (drawn * np.sqrt(reach / np.square(drawn).sum(axis=1, keepdims=True))).astype(np.float16).ravel()
    x, y = np.tile(line, (SAMPLES, lines, 1)), np.tile(sign * line[:, None], (SAMPLES, 1, lines)).astype(np.float16)
    target, complete = resolve("h16"), find_op("matmul").complete({})
    (got,) = run_operation(EmulatedDevice(), "matmul", target, {"x": x, "y": y}, {}, complete)
    (wanted,) = arithmetic("matmul", target).golden_results({"x": x[0], "y": y[0]}, complete)
    assert got[0].tobytes() == wanted.tobytes()


NETWORKS: dict[str, Callable[[af.Tensor, np.random.Generator], af.Tensor]] = {
    "convolution": lambda x, g: af.conv(x, halves(g, 12, 6, 3, 3, size=0.2), pad=1, bias=halves(g, 12)).relu(),
    "depthwise": lambda x, g: af.conv(x, halves(g, 6, 1, 3, 3), groups=6).gelu(),
    "large sums": lambda x, g: af.conv(x * 300.0, halves(g, 5, 6, 3, 3, size=20.0), pad=1),
    "batch norm": lambda x, g: af.batch_norm(
        af.conv(x, halves(g, 8, 6, 1, 1)),
        halves(g, 8),
        np.abs(halves(g, 8)) + np.float16(0.5),
        halves(g, 8),
        halves(g, 8),
    ),
    "softmax": lambda x, _: (x * 3.0).softmax(-1),
    "softmax over channels": lambda x, _: x.softmax(1),
    "group norm": lambda x, g: x.group_norm(halves(g, 6), halves(g, 6), 2),
    "reductions": lambda x, _: x.sum(-1) + x.mean(-1) * x.amax(-1),
    "movement": lambda x, _: af.concat(
        [x.transpose((0, 1, 3, 2)).reshape((1, 6, 40)).softmax(), x.reshape((1, 6, 40))], 1
    ),
    "slices": lambda x, _: (x * 3000.0).slice_by_size((0, 1, 2, 3), (1, 4, 3, 2)).silu(),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", ["h14", "h17"])
def test_layers_and_slots(name: str, target: str) -> None:
    generator = np.random.default_rng(5)
    graph = NETWORKS[name](af.input((1, 6, 5, 8), name="x"), generator)
    machine = expect_same_as_cpu(graph, target, {"x": halves(generator, SAMPLES, 1, 6, 5, 8)})
    assert machine.on_host == ()


def unsuited(*_: object) -> None:
    raise UnsuitedError("no kernel")


def test_a_layer_without_kernels_runs_on_the_host_and_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aneforge.engine.cuda.primitives.Builder.response_norm", unsuited)
    generator = np.random.default_rng(6)
    x = af.input((1, 2, 4, 4), name="x")
    graph = af.local_response_norm(x, size=9).relu()
    machine = expect_same_as_cpu(graph, "h16", {"x": halves(generator, SAMPLES, 1, 2, 4, 4)})
    (said,) = machine.on_host
    assert "local_response_norm" in said


def test_a_strict_compile_refuses_what_would_run_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aneforge.runtime.gpu.this_gpu", EmulatedDevice)
    monkeypatch.setattr("aneforge.engine.cuda.device.obstacle", lambda: None)
    x = af.input((1, 4, 8, 8), name="x")
    graph = af.concat([x, x], 1)
    assert af.compile(graph, target="h16", backend="cuda", strict=True).remarks == ()
    monkeypatch.setattr("aneforge.engine.cuda.device_operations.Operations.run", unsuited)
    model = af.compile(graph, target="h16", backend="cuda")
    assert [remark for remark in model.remarks if "concat" in remark and "runs on the host" in remark]
    with pytest.raises(NotSupportedError, match="would run on the host"):
        af.compile(graph, target="h16", backend="cuda", strict=True)


MEANINGS: dict[str, tuple[dict[str, Any], Callable[[np.random.Generator], Array]]] = {
    "resize_bilinear": (
        {"target_size_height": 7, "target_size_width": 3, "sampling_mode": "OFFSET_CORNERS"},
        lambda g: halves(g, 1, 2, 5, 4),
    ),
    "sort": ({"axis": -1}, lambda g: g.choice([0.0, -0.0, 1.5, np.inf, np.nan, -2.0], (3, 9)).astype(np.float16)),
    "topk": ({"k": 3, "axis": -1}, lambda g: g.integers(-3, 4, (4, 8)).astype(np.float16)),
    "cumsum": ({"axis": 1, "exclusive": True, "reverse": True}, lambda g: halves(g, 2, 6, 3, size=0.1)),
    "square": ({}, lambda g: g.integers(-128, 128, (4, 7)).astype(np.int8)),
    "reduce_sum": ({"axes": (1,)}, lambda g: g.integers(-(2**31), 2**31 - 1, (4, 7)).astype(np.int32)),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_mathematics_without_arithmetic_of_its_own(name: str) -> None:
    """What has its meaning alone is done step by step in NumPy's order, real numbers in float64, others wrapping."""
    attributes, draw = MEANINGS[name]
    target, complete = resolve("h16"), find_op(name).complete(attributes)
    x = np.stack([draw(np.random.default_rng(seed)) for seed in range(SAMPLES)])
    got = run_operation(EmulatedDevice(), name, target, {"x": x}, {}, complete)
    for sample in range(SAMPLES):
        wanted = arithmetic(name, target).golden_results({"x": x[sample]}, complete)
        for one, other in zip(wanted, got, strict=True):
            assert one.dtype == other.dtype
            assert np.ascontiguousarray(one).tobytes() == other[sample].tobytes()


def test_memory_that_does_not_suffice_means_fewer_samples_at_a_time() -> None:
    generator = np.random.default_rng(8)
    ready = prepare(build_program(af.input((1, 64), name="x").softmax(), resolve("h16")))
    inputs = {"x": halves(generator, 9, 1, 64)}
    whole = DeviceExecutable(ready, EmulatedDevice()).run_many(inputs, {})
    small = DeviceExecutable(ready, EmulatedDevice(memory=2048))
    assert small.run_many(inputs, {}).outputs["y"].tobytes() == whole.outputs["y"].tobytes()
    assert small.most < 8
    with pytest.raises(BackendUnavailableError, match=r"the GPU has too little memory \(got .* bytes for a sample"):
        DeviceExecutable(ready, EmulatedDevice(memory=100)).run_many(inputs, {})


def test_states_go_from_one_sample_to_the_next() -> None:
    held = af.state("held", (1, 32))
    now = held + af.input((1, 32), name="x")
    graph = af.Graph({"y": now * 2.0}, {"held": now})
    ready = prepare(build_program(graph, resolve("h16")))
    values = halves(np.random.default_rng(9), 3, 1, 32)
    found = DeviceExecutable(ready, EmulatedDevice()).run_many({"x": values}, {"held": np.zeros((1, 32), np.float16)})
    states: dict[str, Array] = {}
    for sample in range(3):
        want = ready.run({"x": values[sample]}, states)
        states = dict(want.states)
        assert want.outputs["y"].tobytes() == found.outputs["y"][sample].tobytes()
    assert states["held"].tobytes() == found.states["held"][-1].tobytes()


@pytest.mark.parametrize("start", [None, 0.0, -0.0, -(2.0**-24), 40000.0])
def test_products_at_the_edges_of_the_arithmetic(start: float | None) -> None:
    """Ties of the grid, products dropped by a hair, sums that pass the edge, and zeros with a sign."""
    generator = np.random.default_rng(3)
    x = np.stack([
        (generator.choice([1.0, 1.5, 1 + 2**-10], (9, 37)) * 2.0 ** generator.integers(-12, -3, (9, 37))),
        generator.choice([0.0, -0.0, 2.0**-24, 300.0, np.inf], (9, 37)),
    ]).astype(np.float16)  # fmt: skip
    weight = (generator.choice([-1.0, 1.0, 1.25], (5, 37)) * 2.0 ** generator.integers(-6, 2, (5, 37))).astype(
        np.float16
    )
    bias = None if start is None else np.full(5, start, np.float16)
    constants = {"weight": weight, "bias": bias}
    (got,) = run_operation(EmulatedDevice(), "linear", resolve("h16"), {"x": x}, constants, {})
    for sample in range(2):
        wide = None if bias is None else bias.astype(np.float64)
        assert golden.matmul(x[sample], weight.T, wide).astype(np.float16).tobytes() == got[sample].tobytes()


def test_what_has_no_kernels_says_why() -> None:
    codes = np.ones((1, 2, 3), np.int8)
    constants = {"scale": np.array([1, np.nan], np.float16), "zero_point": None}
    with pytest.raises(UnsuitedError, match="a scale that is NaN"):
        run_operation(EmulatedDevice(), "dequantize", resolve("h16"), {"input": codes}, constants, {"axis": 0})
