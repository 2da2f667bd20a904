"""Facts of the op table as passes ask them of layers: held against the engine, for every number there is."""

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.ranges.program_ranges import bound_magnitudes
from aneforge.compiler.compile import build_program
from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.ir.kind import Kind
from aneforge.compiler.schedule.rules import rules
from aneforge.engine.dispatch import arithmetic
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.ops.sampling import RandomChooser
from aneforge.targets import Family, resolve
from program_tools import lowered

EVERY_FP16 = np.arange(2**16, dtype=np.uint16).view(np.float16)
TARGET = resolve(Family.A16)


def functions_of_one() -> list[Kind]:
    """Return the kinds of layers that are a function of one real number."""
    found = (kind for kind in kinds().values() if kind.is_elementwise and kind.entry.is_function_of_one)
    return [one for one in found if one.name not in ("cast", "invert")]


@pytest.mark.parametrize("kind", functions_of_one(), ids=lambda kind: kind.name)
def test_what_is_never_negative_passes_an_activation_as_it_is(kind: Kind) -> None:
    """Merging leaves the second activation out: no number, no infinity and no NaN may show that, nor the sign of 0."""
    for seed in range(8):
        attributes = kind.entry.complete(kind.entry.sample(RandomChooser(np.random.default_rng(seed))).attributes)
        codomain = kind.codomain_for(attributes)
        if not codomain.is_never_negative or codomain.minus_zero:
            continue
        (given,) = arithmetic(kind.entry.name, TARGET).compute({"x": EVERY_FP16}, attributes)
        for second in ("relu", "leaky_relu", "abs"):
            (again,) = arithmetic(second, TARGET).compute({"x": given}, {})
            assert again.tobytes() == given.tobytes(), (second, attributes)


@pytest.mark.parametrize("op", ["relu6", "cos", "sigmoid_hard", "softsign", "atan", "tanh"])
def test_bounds_of_layers_hold_on_the_engine(op: str) -> None:
    program = build_program(af.Tensor(build(op, {"x": af.input((1, 1, 1, 2**16), name="x")})), "m4")
    last = program.layers[-1].result
    most = bound_magnitudes(program, {}, [last])[last.name]
    (results,) = arithmetic(op, TARGET).compute({"x": EVERY_FP16}, {})
    assert np.abs(results.astype(np.float64)).max() <= most <= 6.03


def magnitude_of(y: af.Tensor, target: str = "m4") -> float | None:
    """Return what is known of an output whose input is promised to stay within 1."""
    program = build_program(y, target)
    leaving = program.outputs[0].value
    return bound_magnitudes(program, {"x": 1.0}, [leaving]).get(leaving.name)


def image(*shape: int) -> af.Tensor:
    return af.input(shape, name="x")


def test_what_a_movement_adds_is_counted() -> None:
    """Numbers beside the tensor were counted for a pad alone."""
    coordinates = np.full((1, 2, 2, 2), 7.0, np.float16)
    sampled = {"sampling_mode": "bilinear", "padding_mode": "constant", "padding_value": 50.0}
    beside = {"coordinates_mode": "unnormalized", "align_corners": True}
    operands = {"x": image(1, 1, 4, 4), "coordinates": Dense(coordinates)}
    assert (magnitude_of(af.Tensor(build("resample", operands, {**sampled, **beside}))) or 0) >= 50
    padded = {"pad": (1, 1, 1, 1), "mode": "constant", "constant_val": 30.0}
    assert magnitude_of(af.Tensor(build("pad", {"x": image(1, 1, 4, 4)}, padded))) == 30
    assert magnitude_of(image(1, 1, 4, 4).transpose(0, 1, 3, 2).reshape(1, 16)) == 1


def test_indices_say_nothing_of_what_is_gathered() -> None:
    indices = Dense(np.array([3, 0], np.int32))
    assert magnitude_of(af.Tensor(build("gather", {"x": image(4, 4), "indices": indices}, {"axis": 0}))) == 1


def test_whole_numbers_wrap_around_in_a_cast() -> None:
    """The cast of −1 from int8 to uint8 is 255."""
    x = af.Tensor(build("input", {}, {"shape": (1, 4), "name": "x", "dtype": "int8"}))
    program = lowered(af.Graph({"y": af.Tensor(build("cast", {"x": x}, {"dtype": "uint8"}))}))
    leaving = program.outputs[0].value
    assert bound_magnitudes(program, {"x": 1.0}, [leaving])[leaving.name] == 255


def test_the_scheduler_counts_what_works_on_single_elements() -> None:
    """Its data file lists kinds of layers: those on single elements, and those with numbers of each channel besides."""
    single = {kind.name for kind in kinds().values() if kind.is_elementwise}
    by_channel = {"dequant", "gain_offset_control", "prelu", "quant", "softplus_parametric"}
    assert rules().pointwise_kinds == single | by_channel
