"""Norms that were taken apart: bounded by the length of rows, and by nothing that only looks like it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.ranges.analysis import Edge, ranges
from aneforge.analysis.ranges.interval import of_values
from aneforge.analysis.ranges.lengths import Form, Length, by_function
from aneforge.analysis.ranges.program_ranges import flow
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import run

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Norm = Callable[[af.Tensor, float], af.Tensor]

ROWS = 3


def ones(count: int) -> Array:
    return np.ones(count, np.float16)


def rms(x: af.Tensor, epsilon: float) -> af.Tensor:
    return x.rms_norm(ones(x.shape[1]), epsilon)


def by_mean(x: af.Tensor, epsilon: float) -> af.Tensor:
    return ((x * x).mean(-1) + epsilon).rsqrt() * x


def by_root(x: af.Tensor, epsilon: float) -> af.Tensor:
    return x / (x.square().mean(-1) + epsilon).sqrt()


def by_sum(x: af.Tensor, epsilon: float) -> af.Tensor:
    return x * x.square().sum(-1).rsqrt(eps=epsilon)


def by_inverse(x: af.Tensor, epsilon: float) -> af.Tensor:
    return x * (x.square().sum(-1) + epsilon).sqrt().inverse(eps=0.0)


def grouped(x: af.Tensor, epsilon: float) -> af.Tensor:
    count = x.shape[1]
    return x.reshape(1, ROWS, 1, count).group_norm(ones(ROWS), np.zeros(ROWS, np.float16), ROWS, epsilon)


def along_channels(x: af.Tensor, epsilon: float) -> af.Tensor:
    count = x.shape[1]
    turned = x.transpose(1, 0).reshape(1, count, 1, ROWS)
    return turned.channel_layer_norm(ones(count), np.zeros(count, np.float16), epsilon)


NORMS: tuple[Norm, ...] = (rms, by_mean, by_root, by_sum, by_inverse, grouped, along_channels)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [0.01, 1.0, 5.0])
def test_a_norm_of_small_numbers_overflows_nowhere(norm: Norm, size: float) -> None:
    report = ranges(norm(af.input((ROWS, 64), name="x"), 1e-5), {"x": size}, target="h16")
    assert report.first(Edge.FP16) is None
    assert report.layers[-1].range.magnitude < 1.2 * math.sqrt(64)


@settings(deadline=None, database=None, derandomize=True, max_examples=120)
@given(st.data())
def test_no_number_by_its_length_leaves_its_range(data: st.DataObject) -> None:
    norm = data.draw(st.sampled_from(NORMS))
    count = data.draw(st.sampled_from([1, 2, 5, 64, 65, 200]))
    epsilon = data.draw(st.sampled_from([0.0, 1e-12, 1e-7, 1e-5, 1e-3, 1.0]))
    exponents = data.draw(st.tuples(st.integers(-24, 15), st.integers(-24, 15)))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    x = np.ldexp(random.choice([-1.0, 0.0, 1.0], (ROWS, count)), min(exponents))
    x[np.arange(ROWS), random.integers(count, size=ROWS)] = np.ldexp(random.uniform(1, 2, ROWS), max(exponents))
    program = build_program(
        norm(af.input((ROWS, count), name="x"), epsilon), data.draw(st.sampled_from(["h13", "h16"]))
    )
    held = np.clip(x, -65504, 65504).astype(np.float16)
    found = flow(program, {"x": of_values(held)}).ranges
    values = run(program, {"x": held}, keep=True).values
    for layer in program.layers:
        seen, bound = of_values(values[layer.result.name]), found[layer.result.name]
        assert bound.low <= seen.low, layer
        assert seen.high <= bound.high, layer


def test_a_square_is_not_negative() -> None:
    x = af.input((1, 4), name="x")
    y = af.input((1, 4), name="y")
    assert ranges(x * x, {"x": 2.0}, target="h16").layers[-1].range.low == 0.0
    assert ranges(x * x * 0.5 + 1.0, {"x": 2.0}, target="h16").layers[-1].range.low == 1.0
    assert ranges(x * x, {"x": (2.0, 3.0)}, target="h16").layers[-1].range.low == 4.0
    assert ranges(x * y, {"x": 2.0, "y": 2.0}, target="h16").layers[-1].range.low == -4.0


def unlike() -> list[af.Tensor]:
    """Return what is no norm: another tensor, another sum, an epsilon or a clip that makes lengths smaller."""
    x, other = af.input((4, 16), name="x"), af.input((4, 16), name="other")
    squares = x.square().mean(-1)
    return [
        other * (squares + 1e-5).rsqrt(),
        x * (squares - 1.0).rsqrt(eps=1e-5),
        x * (squares * 0.25 + 1e-5).rsqrt(),
        x / (squares + 1e-5),
        x / (squares.clip(0.0, 1e-4) + 1e-5).sqrt(),
        x * (x.abs().mean(-1) + 1e-5).rsqrt(),
        x * (x.square().amax(-1) + 1e-5).rsqrt(),
        (squares + 1e-5).rsqrt() / x,
        x * (squares + 1e-5).sqrt(),
    ]


@pytest.mark.parametrize("place", range(9))
def test_what_is_no_norm_is_no_smaller_for_it(place: int) -> None:
    program = build_program(unlike()[place], "h16")
    (port,) = program.outputs
    assert not flow(program, {}).ranges[port.value.name].finite


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_of_anything_is_finite(norm: Norm) -> None:
    program = build_program(norm(af.input((ROWS, 16), name="x"), 1e-5), "h16")
    (port,) = program.outputs
    assert flow(program, {}).ranges[port.value.name].finite


def test_what_functions_make_of_lengths() -> None:
    total, length = Length("x", Form.SUM), Length("x", Form.LENGTH)
    assert by_function(total, "rsqrt", {"epsilon": -1.0}) is None
    assert by_function(length, "inverse", {"epsilon": 0.0}) == Length("x", Form.INVERSE)
    assert by_function(length, "clip", {"alpha": 1.0, "beta": math.inf}) == length
    assert by_function(length, "clip", {"alpha": 1.0, "beta": 2.0}) is None
    assert by_function(length, "rsqrt", {"epsilon": 0.0}) is None


def test_a_sum_that_drops_its_axis_is_not_followed() -> None:
    x = af.input((4, 4), name="x")
    total = x.square().apply("reduce_mean", axes=(-1,), keep_dims=False)
    assert not ranges(x * (total + 1e-7).rsqrt(), {"x": 200.0}, target="h16").layers[-1].range.finite
