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
from aneforge.engine.execution.run import prepare
from aneforge.errors import AneforgeError, GraphError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import find_op, ops
from aneforge.targets import resolve
from cuda_emulation import EmulatedDevice, compiler
from fuzz_cuda import OPERATIONS, RANDOM, Figures, try_operation
from unit.compiler.validators.sample_graphs import sample_graph

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

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
        *("dequantize", "quantize"),
    ],
)
def test_adversarial_numbers(name: str) -> None:
    figures = Figures()
    for round_ in range(12):
        try_operation(EmulatedDevice(), (500 + round_) * len(OPERATIONS) + OPERATIONS.index(name), figures)
    assert figures.different == []
    assert not figures.on_host
    assert figures.operations[name] == 12


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0])
def test_response_norms(beta: float) -> None:
    x = np.stack([np.roll(SPECIAL, shift).reshape(1, 6, 2) for shift in range(4)])
    expect_golden("local_response_norm", {"x": x}, {}, {"size": 5, "alpha": 0.5, "beta": beta, "k": 2.0})


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
