"""Values inside an operation that overflow before its result does: ranges tell of them, and of nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.ranges.analysis import Edge, ranges
from aneforge.analysis.ranges.sums import ends_of, slack
from aneforge.compiler.compile import build_program
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.engine import normalisation, planar, pooling, reductions
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.execution.run import run
from aneforge.engine.planar import host_fp16
from aneforge.engine.reductions import adder_of
from aneforge.engine.rounding import to_fp16
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.ops.groups.pooling import pool_slides
from aneforge.ops.numbers import FP16_MAX
from divergence_tools import SLOW, TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.groups.pooling import PoolAttributes
    from divergence_tools import Array

FUZZ = settings(deadline=None, database=None, derandomize=True, suppress_health_check=SLOW)


def hand_written_norm(x: af.Tensor) -> af.Tensor:
    return x * (x.square().mean(-1) + 1e-5).rsqrt()


def mean_of(x: af.Tensor) -> af.Tensor:
    return x.mean(-1)


def mean_square(x: af.Tensor) -> af.Tensor:
    return x.square().mean(-1)


def logarithm(x: af.Tensor) -> af.Tensor:
    return x.abs().log_sum(-1)


def averages(x: af.Tensor) -> af.Tensor:
    return x.reshape(1, 1, 32, 32).avg_pool(8)


def twice_and_less(x: af.Tensor) -> af.Tensor:
    return x * 2.0 - 30000.0


def twice_and_less_in_a_slot(x: af.Tensor) -> af.Tensor:
    return x.relu() * 2.0 - 30000.0


def root_behind_an_offset(x: af.Tensor) -> af.Tensor:
    return af.Tensor(build("rsqrt", {"x": x}, {"epsilon": 32.0}))


def tiny_quotient(x: af.Tensor) -> af.Tensor:
    return x / (x.abs() + 2.0**-24)


def all_logarithm_of_powers(x: af.Tensor) -> af.Tensor:
    whole = af.concat([x.reshape(1, 1, 32, 32) for _ in range(65)], axis=1)
    return af.Tensor(build("reduce_log_sum_exp", {"x": whole}, {"axes": None, "keep_dims": True}))


def curves(x: af.Tensor) -> af.Tensor:
    constants = {name: Dense(np.full(1024, number, np.float16)) for name, number in (("alpha", 1.0), ("beta", 2.0))}
    return af.Tensor(build("softplus_parametric", {"x": x.reshape(1, 1024, 1), **constants}, {}))


def large_mean(x: af.Tensor) -> af.Tensor:
    return (x + 1050.0).layer_norm(np.ones(1024, np.float16), np.zeros(1024, np.float16))


@pytest.mark.parametrize(
    ("network", "op", "fits", "passes"),
    [
        (mean_of, "reduce_mean", 1023.0, 2048.0),
        (averages, "avg_pool", 1023.0, 2048.0),
        (mean_square, "reduce_mean", 31.9, 64.0),
        (hand_written_norm, "reduce_mean", 31.9, 64.0),
        (logarithm, "reduce_log_sum", 63.9, 256.0),
        (af.Tensor.softplus, "softplus", 11.0, 16.0),
        (curves, "softplus_parametric", 5.5, 6.0),
        (twice_and_less, "gain_offset_control", 32000.0, 40000.0),
        (twice_and_less_in_a_slot, "relu", 32000.0, 40000.0),
        (tiny_quotient, "real_div", None, 2.0**-22),
        (all_logarithm_of_powers, "reduce_log_sum_exp", None, 1.0),
        (root_behind_an_offset, "gain_offset_control", 65440.0, 65504.0),
        (large_mean, "layer_norm", None, 8.0),
    ],
)
def test_a_value_inside_overflows(
    network: Callable[[af.Tensor], af.Tensor], op: str, fits: float | None, passes: float
) -> None:
    y = network(af.input((1, 1024), name="x"))
    program = build_program(y, "h13")
    for size, expected in ((fits, None), (passes, op)):
        if size is None:
            continue
        samples = {"x": np.full((1, 1024), size)}
        if network is large_mean:
            samples["x"][:, ::7] = 0.0
        (result,) = run(program, samples).outputs.values()
        exact = af.reference(y, samples)["y"]
        off = float(np.abs(result - exact).max() / np.abs(exact).max())
        assert (off > 0.2) is (expected is not None)
        for report in (ranges(y, {"x": (0.0, size)}, target="h13"), ranges(y, inputs=samples, target="h13")):
            first = report.first(Edge.FP16)
            assert (None if first is None else first.op) == expected


def test_a_computed_gain_overflows_before_the_offset() -> None:
    x, vectors = af.input((1, 2, 1, 4), name="x"), [af.input((2,), name=name) for name in ("gain", "offset")]
    y = af.Tensor(build("dynamic_goc", {"x": x, "gain": vectors[0], "offset": vectors[1]}, {}))
    samples = {"x": np.full((1, 2, 1, 4), 40000.0), "gain": np.array([1.0, 2.0]), "offset": np.array([0.0, -30000.0])}
    declared = ranges(y, {"x": 40000.0, "gain": 2.0, "offset": (-30000.0, -30000.0)}, target="h16")
    for report in (declared, ranges(y, inputs=samples, target="h16")):
        assert report.layers[-1].passed[0].value == 80000.0
    samples["gain"] = np.array([1.0, 1.5])
    assert ranges(y, inputs=samples, target="h16").first(Edge.FP16) is None


def test_gains_of_channels_are_told_apart_where_values_were_seen() -> None:
    x = af.input((1, 2, 1, 4), name="x", max_abs=40000.0)
    y = x * np.array([1.0, 4.0]).reshape(1, 2, 1, 1) - 30000.0
    samples = {"x": np.broadcast_to(np.array([40000.0, 10.0]).reshape(1, 2, 1, 1), (1, 2, 1, 4))}
    assert ranges(y, target="h13").first(Edge.FP16) is not None
    assert ranges(y, inputs=samples, target="h13").first(Edge.FP16) is None


@pytest.mark.parametrize(("size", "passes"), [(4.0, False), (64.0, True)])
def test_scores_of_attention(size: float, *, passes: bool) -> None:
    query, key = (af.input((1, 1, 8, 64), name=name) for name in ("q", "k"))
    mask = af.input((1, 1, 8, 8), name="mask")
    samples = {name: np.full((1, 1, 8, 64), size) for name in ("q", "k")} | {"mask": np.full((1, 1, 8, 8), -np.inf)}
    samples["mask"][..., 0] = 0.0
    y = af.sdpa(query, key, query, attn_mask=mask, native=True)
    limits = {"q": size, "k": size, "mask": (-65504.0, 0.0)}
    for report in (ranges(y, limits, target="h16"), ranges(y, inputs=samples, target="h16")):
        assert (report.first(Edge.FP16) is not None) is passes
    assert ranges(y, limits | {"mask": 65504.0}, target="h16").first(Edge.FP16) is not None


def test_a_norm_of_one_number_squares_nothing() -> None:
    x = af.input((4, 1), name="x", max_abs=1000.0)
    y = x.layer_norm(np.ones(1, np.float16), np.zeros(1, np.float16))
    assert ranges(y, target="h13").first(Edge.FP16) is None


def test_the_remedy_of_a_mean_helps() -> None:
    x = af.input((1, 1000), name="x", max_abs=2048.0)
    first = ranges(x.mean(-1), target="h13").first(Edge.FP16)
    assert first is not None
    assert str(first.passed[0]) == "fp16 overflow of sums inside: 1.311e+05 against 65504, margin -1.0 bits"
    assert first.passed[0].remedy == "scale the operands down by a power of two, and the result up again after it"
    helped = (x * 0.25).mean(-1) * 4.0
    assert ranges(helped, target="h13").first(Edge.FP16) is None
    (result,) = run(build_program(helped, "h13"), {"x": np.full((1, 1000), 2048.0)}).outputs.values()
    assert result.item() == pytest.approx(2048.0, rel=2e-3)


def test_precision_risk_follows() -> None:
    found = af.precision_risk(af.input((4, 1000), max_abs=2048.0).mean(-1), target="h13")
    assert (found["graph_error"], [node["op"] for node in found["hotspots"]]) == (1.0, ["reduce_mean"])
    assert af.precision_risk(af.input((4, 1000), max_abs=1000.0).mean(-1), target="h13")["graph_error"] == 0.0


def test_sums_that_cancel_are_seen_not_to_overflow() -> None:
    x = af.input((1, 1000), name="x")
    samples = {"x": np.where(np.arange(1000) % 2, 5000.0, -5000.0)[None]}
    assert ranges(x.mean(-1), inputs=samples, target="h13").first(Edge.FP16) is None
    assert ranges(x.mean(-1), {"x": 5000.0}, target="h13").first(Edge.FP16) is not None
    # A sum that ends small after its parts overflowed is wrong all the same.
    samples = {"x": np.where(np.arange(1000) < 500, 5000.0, -4000.0)[None]}
    assert ranges(x.sum(-1), inputs=samples, target="h13").first(Edge.FP16) is not None


@dataclass
class Watch:
    """Tells whether a finite number became infinite in a rounding."""

    overflowed: bool = False

    def to_fp16(self, values: Array) -> Array:
        """Round as the engine does, and look."""
        results = to_fp16(values)
        self.overflowed |= bool((np.isinf(results) & np.isfinite(values)).any())
        return results


WATCHED = (normalisation, planar, pooling, reductions)
"""Modules of the golden model that round what is inside an operation."""


def overflows(program: Program, values: Array) -> bool:
    """Run the one operation of a program on the golden model and tell whether anything in it overflows."""
    call = call_of_layer(program.layers[-1])
    assert call is not None
    found, watch = arithmetic(call.op, program.target), Watch()
    with pytest.MonkeyPatch.context() as patch:
        for module in WATCHED:
            patch.setattr(module, "to_fp16", watch.to_fp16)
        found.golden_results({"x": host_fp16(values)}, found.op.complete(call.attributes))
    return watch.overflowed


TIGHT = ("avg_pool", "reduce_log_sum", "reduce_mean", "softplus")
"""Operations of which declared ranges tell to the last bit whether anything inside overflows."""
LOOSE = ("l2_pool", "reduce_l1_norm", "reduce_l2_norm", "reduce_sum", "reduce_sum_square")
"""Operations whose results overflow with what is inside: their ranges are wider by the slack of sums."""
BOUNDED = ("instance_norm",)
"""Operations inside which not all can be at once what each can be."""


@st.composite
def operations(draw: st.DrawFn) -> tuple[str, af.Tensor, float]:
    """Draw an operation on planes, and a magnitude near to where something inside it overflows."""
    op = draw(st.sampled_from(TIGHT + LOOSE + BOUNDED))
    shape = (1, 2, draw(st.integers(1, 12)), draw(st.integers(1, 14)))
    x, attributes = af.input(shape, name="x"), {}
    terms = shape[2] * shape[3]
    if "pool" in op:
        kernel = tuple(draw(st.integers(1, extent)) for extent in shape[2:])
        strides = draw(st.integers(1, 3))
        pads = tuple(draw(st.integers(0, (one - 1) // 2)) for one in kernel for _ in range(2))
        attributes = {"kernel_sizes": kernel, "strides": (strides, strides), "pad_type": "custom", "pad": pads}
        terms = math.prod(kernel)
    elif op.startswith("reduce"):
        attributes = {"axes": (2, 3), "keep_dims": True}
    edge = 11.09375 if op == "softplus" else 65504 / (terms if draw(st.booleans()) else min(terms, 64))
    size = math.sqrt(edge) if op in ("l2_pool", "reduce_l2_norm", "reduce_sum_square") else edge
    near = draw(st.sampled_from((1.0, 1.0, 0.5, 0.9, 1.2, 3.0, 30.0)))
    steps = draw(st.integers(-6, 6))
    most = np.float16(min(size * near * (1 + steps * 2.0**-10), 65504.0))
    return op, af.Tensor(build(op, {"x": x}, attributes)), float(most)


def always_padded(y: af.Tensor) -> bool:
    """Return whether every window of a pooling sees padding: zeros among its terms may round otherwise."""
    if "kernel_sizes" not in y.node.attributes:
        return False
    x = y.node.sources()[0]
    along = pool_slides(x.shape[2:], cast("PoolAttributes", y.node.attributes))
    return any(seen < places for seen, places in map(ends_of, along))


def test_a_window_that_sees_padding_adds_fewer_terms() -> None:
    """Of a window of three at the border two elements count: 43,680 of 65,504."""
    x = af.input((1, 2, 3, 1), name="x")
    attributes = {"kernel_sizes": (3, 1), "strides": (2, 2), "pad_type": "custom", "pad": (1, 0, 0, 0)}
    y = af.Tensor(build("avg_pool", {"x": x}, attributes))
    assert ranges(y, {"x": 21840.0}, target="h13").margin(Edge.FP16) > 0
    assert ranges(y, {"x": 33000.0}, target="h13").margin(Edge.FP16) < 0


@settings(FUZZ, max_examples=60)
@given(operations(), st.sampled_from(TARGETS), st.integers(0, 2**32 - 1))
def test_whatever_overflows_inside_is_told_and_nothing_else(
    drawn: tuple[str, af.Tensor, float], target: str, seed: int
) -> None:
    op, y, most = drawn
    generator, program = np.random.default_rng(seed), build_program(y, target)
    shape = program.inputs[0].value.type.shape
    told = ranges(y, {"x": most}, target=target).margin(Edge.FP16) < 0
    full = np.full(shape, most)
    signed = full * np.where(generator.random(shape) < generator.uniform(0.3, 1), 1.0, -1.0)
    for values in (full, signed, signed * generator.random(shape).round(), generator.uniform(-most, most, shape)):
        here = overflows(program, values)
        assert told or not here, "declared ranges miss an overflow"
        seen = ranges(y, inputs={"x": values}, target=target)
        assert (seen.margin(Edge.FP16) < 0) is here, str(seen)
    wider = 1 + 2 * slack(adder_of(program.target))
    exact = op in TIGHT and most * wider < FP16_MAX and not always_padded(y)
    if told and op not in BOUNDED:
        assert overflows(program, full if exact else full * wider), "declared ranges tell of what cannot be"
