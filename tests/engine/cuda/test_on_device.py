"""No layer of a program goes to the host: operations of the texture engine, norms, powers, places that are computed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine.cuda.executable import DeviceExecutable
from aneforge.engine.cuda.planned_layers import plan_program
from aneforge.engine.cuda.single import run_operation
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.execution.run import Executable, prepare
from aneforge.errors import AneforgeError, GraphError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import DTYPES, is_float, numpy_dtype, value_range
from aneforge.targets import resolve
from cuda_emulation import EmulatedDevice, compiler
from fuzz_cuda import OPERATIONS, RANDOM, Figures, try_operation
from unit.compiler.validators.sample_graphs import sample_graph

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from aneforge.engine.execution.run import Run

Array = npt.NDArray[Any]
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler for the kernels")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.0**-24, -65504.0, 3.0, 65.0, 0.5], np.float16)


@pytest.fixture(autouse=True)
def _quiet() -> Generator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def expect_golden(
    name: str, given: Mapping[str, Array], constants: Mapping[str, Array | None], attributes: Mapping[str, Any]
) -> None:
    """Compare an operation on a few samples, bit for bit."""
    target, complete = resolve("h16"), find_op(name).complete(attributes)
    (got,) = run_operation(EmulatedDevice(), name, target, given, constants, complete)
    for sample in range(len(got)):
        single = {operand: array[sample] for operand, array in given.items()}
        (wanted,) = arithmetic(name, target).golden_results({**constants, **single}, complete)
        assert np.ascontiguousarray(wanted).tobytes() == got[sample].tobytes()


def test_no_operation_that_a_program_has_goes_to_the_host() -> None:
    planned, said = 0, list[str]()
    for number, (name, op) in enumerate(ops().items()):
        if name in RANDOM:
            continue
        try:
            graph = sample_graph(op, number).graph
            ready = prepare(build_program(graph, resolve(("h13", "h16")[number % 2])))
        except AneforgeError:
            continue  # no program has it in the form that was drawn
        planned += 1
        said += [f"{step.layer}: {step.reason}" for step in plan_program(ready, 2, {}).plan.host_steps]
    assert said == []
    assert planned > 100


@pytest.mark.parametrize(
    "name",
    [
        *("affine", "crop_resize", "dynamic_slice", "fps", "gather", "gather_along_axis", "gather_hw", "gather_nd"),
        *("local_response_norm", "minmax_norm", "radius_search", "resample", "scaled_elementwise", "slice_update"),
        *("cast", "conv", "conv_transpose", "einsum", "lrn", "matmul", "max_pool", "pow", "quantize"),
    ],
)
def test_adversarial_numbers(name: str) -> None:
    figures = Figures()
    for round_ in range(12):
        try_operation(EmulatedDevice(), (500 + round_) * len(OPERATIONS) + OPERATIONS.index(name), figures)
    assert figures.different == []
    assert not figures.on_host
    assert figures.operations[name] == 12


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 2.0, 0.6, -1.3, 0.0])
@pytest.mark.parametrize("size", [5, 12])
def test_response_norms(beta: float, size: int) -> None:
    x = np.stack([np.roll(SPECIAL, shift).reshape(1, 6, 2) for shift in range(4)])
    expect_golden("local_response_norm", {"x": x}, {}, {"size": size, "alpha": 0.5, "beta": beta, "k": 2.0})
    long = np.random.default_rng(7).standard_normal((2, 40, 3, 1)).astype(np.float16)
    expect_golden("lrn", {"x": long}, {}, {"kernel_channel": size, "alpha": 1.0, "beta": beta, "k": 1.0})


def test_where_two_numbers_are_too_near_for_a_power_the_cpu_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves of odd subnormal numbers are between two numbers: 16 to the power of 1/4 is 2, or a hair beside it."""
    graph = af.local_response_norm(af.input((1, 2, 3, 1), name="x"), size=9, alpha=0.0, beta=0.25, k=16.0) * 1.0
    ready = prepare(build_program(graph, resolve("h16")))
    machine = DeviceExecutable(ready, EmulatedDevice())
    ordinary, ties = np.arange(1.0, 7.0), np.arange(-5, 7, 2) * 2.0**-24
    values = np.stack([ordinary, ties, ordinary]).astype(np.float16).reshape(3, 1, 2, 3, 1)
    wanted = [ready.run({"x": one}) for one in values]
    computed: list[bytes] = []
    run = Executable.run

    def noted(ready: Executable, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Run:
        computed.append(inputs["x"].tobytes())
        return run(ready, inputs, states)

    monkeypatch.setattr(Executable, "run", noted)
    got = machine.run_many({"x": values}, {})
    assert machine.on_host == ()
    assert computed == [values[1].tobytes()]
    assert got.outputs["y"].tobytes() == b"".join(one.outputs["y"].tobytes() for one in wanted)
    assert [dict(one) for one in got.labels] == [dict(one.labels) for one in wanted]
    assert got.label.exactness == max((one.label for one in wanted), key=lambda label: label.exactness).exactness


@pytest.mark.parametrize(
    ("name", "shapes", "attributes"),
    [
        ("conv", ((2, 6, 5, 4), (4, 3, 3, 2)), {"groups": 2, "strides": (2, 1), "pad": (1, 0, 2, 1)}),
        ("conv_transpose", ((2, 4, 3, 2), (4, 3, 3, 2)), {"groups": 2, "strides": (2, 3), "pad": (1, 0, 2, 0)}),
        ("matmul", ((2, 1, 3, 5), (4, 5, 2)), {}),
        ("matmul", ((5,), (4, 5, 2)), {}),
        ("einsum", ((3, 3), (3, 4)), {"equation": "ii,ij->j"}),
        ("pow", ((2, 3, 4), (3, 4)), {}),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int4", "int32"])
def test_integers_wrap_as_in_the_meaning(
    name: str, shapes: tuple[tuple[int, ...], ...], attributes: dict[str, Any], dtype: str
) -> None:
    generator = np.random.default_rng(11)
    low, high = value_range(dtype)
    first, second = (generator.integers(low, high, (2, *one), endpoint=True) for one in shapes)
    x, other = (one.astype(numpy_dtype(dtype)) for one in (first, second))
    left, right = ("x", "weight") if "conv" in name else ("x", "y")
    if name == "einsum":
        target, complete = resolve("h16"), find_op(name).complete(attributes)
        (got,) = run_operation(EmulatedDevice(), name, target, {"values": (x, other)}, {}, complete)
        for sample in range(2):
            (wanted,) = arithmetic(name, target).golden_results({"values": (x[sample], other[sample])}, complete)
            assert wanted.tobytes() == got[sample].tobytes()
        return
    plain = {**attributes, "pad_type": "custom"} if "pad" in attributes else attributes
    expect_golden(name, {left: x, right: other}, {}, plain)
    expect_golden(name, {left: x}, {right: other[0]}, plain)


@pytest.mark.parametrize("given", ["fp16", "int8", "uint4", "int32"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_to_every_type(given: str, dtype: str) -> None:
    target, low_high = resolve("h16"), value_range(given) if given != "fp16" else (0, 0)
    drawn = np.random.default_rng(3).integers(*low_high, (2, 40), endpoint=True)
    x = np.stack([np.roll(SPECIAL, 1), SPECIAL]) if given == "fp16" else drawn.astype(numpy_dtype(given))
    (got,) = run_operation(EmulatedDevice(), "cast", target, {"x": x}, {}, {"dtype": dtype})
    for sample in range(2):
        (wanted,) = arithmetic("cast", target).golden_results({"x": x[sample]}, {"dtype": dtype})
        wanted = wanted.astype(np.float16) if is_float(dtype) else wanted
        assert wanted.dtype == got.dtype
        assert wanted.tobytes() == got[sample].tobytes()


def test_integers_of_four_bits_stay_on_the_device() -> None:
    nibbles = af.cast(af.input((2, 3), name="x"), "int4").transpose((1, 0))
    ready = prepare(build_program(af.cast(nibbles, "fp16"), resolve("h16")))
    machine = DeviceExecutable(ready, EmulatedDevice())
    values = np.array([[[-9, -8, 7], [8, 1.5, np.nan]]], np.float16)
    assert machine.on_host == ()
    assert (
        machine.run_many({"x": values}, {}).outputs["y"].tobytes() == ready.run({"x": values[0]}).outputs["y"].tobytes()
    )


@pytest.mark.parametrize("gain", [None, 0.001])
@pytest.mark.parametrize("pad", [0, (1, 0, 2, 1)])
def test_a_convolution_of_one_channel_is_a_scaling_in_every_form(
    gain: float | None, pad: int | tuple[int, ...]
) -> None:
    weight = np.array([0.5, -3, 60000], np.float16).reshape(3, 1, 1, 1)
    scaled = af.conv(af.input((1, 1, 3, 4), name="x"), weight, pad=pad, bias=np.array([1, np.inf, 0], np.float16))
    ready = prepare(build_program(scaled if gain is None else scaled * gain, resolve("h16")))
    machine = DeviceExecutable(ready, EmulatedDevice())
    values = np.stack([SPECIAL, SPECIAL[::-1]]).reshape(2, 1, 1, 3, 4)
    got = machine.run_many({"x": values}, {})
    assert machine.on_host == ()
    for sample in range(2):
        assert ready.run({"x": values[sample]}).outputs["y"].tobytes() == got.outputs["y"][sample].tobytes()


def test_powers_that_are_just_between_two_numbers_are_rounded_as_by_the_golden_model() -> None:
    x = np.array([65, 67, -65, 47, 2, 0.5, 1 + 2**-10, 18.875], np.float16)
    y = np.array([2, 2, 2, 3, -25, 25, 11, -(1.5**-13)], np.float16)
    expect_golden("pow", {"x": x[None, :, None]}, {"y": y}, {})
    expect_golden("pow", {"x": SPECIAL[None, :, None], "y": SPECIAL[None]}, {}, {})
    expect_golden("pow", {"y": np.stack([y, SPECIAL[:8]])}, {"x": x}, {})


def test_copies_move_the_bits_of_what_is_no_number() -> None:
    table = np.array([0x7E01, 0xFFFF, 0x7C00, 0x8000, 1], np.uint16).view(np.float16)
    indices = np.array([[4, -5, 0], [1, -1, 2]], np.int32)
    expect_golden("gather", {"indices": indices}, {"x": table}, {"axis": 0})
    expect_golden("dynamic_slice", {"x": np.stack([table, table]), "begin": indices[:, :1]}, {}, {"size": 3})
    expect_golden("slice_update", {"update": indices[:, :1]}, {"x": np.zeros(3, np.int32)}, {"begin": [1], "end": [2]})


def test_channels_are_quantised_by_scales_of_their_own() -> None:
    scale = np.array([0.1, 2.0**-24, 65504.0], np.float16)
    wide = np.tile(SPECIAL, (2, 25, 1))
    many = np.resize(np.array([0.1, 0.0, np.inf, -(2.0**-24), 0.3], np.float16), 300)
    attributes = {"output_dtype": "uint8", "axis": 1}
    expect_golden("quantize", {"input": wide.reshape(2, 1, 300)}, {"scale": many, "zero_point": None}, attributes)
    counted = np.arange(600).astype(np.uint8).reshape(2, 300, 1)
    expect_golden("dequantize", {"input": counted}, {"scale": many, "zero_point": counted[0, :, 0]}, {"axis": 0})
    x = np.stack([np.roll(SPECIAL, 1).reshape(2, 3, 2), SPECIAL.reshape(2, 3, 2)])
    zero = np.array([-5, 0, 127], np.int8)
    for axis in (1, -2):
        attributes = {"output_dtype": "int8", "axis": axis}
        expect_golden("quantize", {"input": x}, {"scale": scale, "zero_point": zero}, attributes)
        codes = np.arange(-128, 124, 21, dtype=np.int8).reshape(1, 2, 3, 2)
        expect_golden("dequantize", {"input": codes}, {"scale": scale, "zero_point": None}, {"axis": axis})


def gathered() -> af.Tensor:
    """Return numbers of a table at places that are computed from an input."""
    operands = {"x": af.input((5,), name="table"), "indices": af.cast(af.input((3,), name="x"), "int32")}
    return Tensor(build(find_op("gather"), operands, {"axis": 0})) * 2.0


def test_a_place_past_its_axis_is_the_error_of_the_cpu() -> None:
    ready = prepare(build_program(gathered(), resolve("h16")))
    machine = DeviceExecutable(ready, EmulatedDevice())
    good, bad = np.array([4, 0, -5], np.float16), np.array([0, 5, 6], np.float16)
    table = np.arange(5, dtype=np.float16)
    tables = np.stack([table, table])
    assert machine.on_host == ()
    found = machine.run_many({"x": np.stack([good, good]), "table": tables}, {})
    assert found.outputs["y"].tolist() == [[8, 0, 0], [8, 0, 0]]
    with pytest.raises(GraphError) as wanted:
        ready.run({"x": bad, "table": table})
    with pytest.raises(GraphError) as refused:
        machine.run_many({"x": np.stack([good, bad]), "table": tables}, {})
    assert str(refused.value) == str(wanted.value)
    assert "past the axis" in str(refused.value)


def test_infinite_constants_are_moved_and_constants_alone_are_computed_once() -> None:
    x = af.input((1, 4), name="x")
    mask = Dense(np.array([[-np.inf, np.nan]], np.float16))
    threes = Tensor(build(find_op("fill_like"), {"ref_tensor": x}, {"value": 3.0}))
    masked = Tensor(build(find_op("concat"), {"values": (x, mask)}, {"axis": 1}))
    ready = prepare(build_program(af.Graph({"y": masked, "z": threes}), resolve("h16")))
    machine = DeviceExecutable(ready, EmulatedDevice())
    values = SPECIAL.reshape(3, 1, 4)
    got = machine.run_many({"x": values}, {})
    assert machine.on_host == ()
    for sample in range(3):
        want = ready.run({"x": values[sample]})
        assert all(array.tobytes() == got.outputs[name][sample].tobytes() for name, array in want.outputs.items())
        assert dict(want.labels) == dict(got.labels[sample])
