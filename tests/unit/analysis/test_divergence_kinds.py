"""The documented verdict on one kind of operation, sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from aneforge import _targets as tg
from aneforge.analysis.divergence.graphs import Strength
from aneforge.analysis.divergence.kinds import kinds
from aneforge.errors import (
    AneforgeError,
    GraphError,
    GraphTypeError,
    NotSupportedError,
    UnknownNameError,
    UnknownTargetError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EARLY = ["h13", "h13g", "h14", "h14g", "m1", "m2", tg.Family.A13, tg.Family.A14]
LATE = ["h15", "h16s", "h17", "h18", tg.Family.A15, tg.Family.A16]


def slice_verdict(a: str | tg.Family, b: str | tg.Family, *begin: int, max_abs: float | None = None) -> str:
    shape = (8,) * len(begin)
    return tg.predict_fp16_divergence("slice_by_size", shape, a, b, begin=begin, max_abs=max_abs)


@pytest.mark.parametrize("early", EARLY)
@pytest.mark.parametrize("late", LATE)
def test_between_early_and_late(early: str, late: str) -> None:
    assert slice_verdict(early, late, 0, 0, 3) == "saturation"
    assert slice_verdict(late, early, 0, 0, 3) == "saturation"


@pytest.mark.parametrize("other", EARLY)
def test_both_early_families_saturate(other: str) -> None:
    assert slice_verdict("h13", other, 0, 3) == "none"


@pytest.mark.parametrize("kind", ["slice", "slice_by_size", "slice_by_index", "crop", "CROP", "ios16.slice_by_size"])
def test_kinds(kind: str) -> None:
    assert tg.predict_fp16_divergence(kind, (1, 8), "h13", "h16", begin=(0, 1)) == "saturation"


@pytest.mark.parametrize("pair", [("h13", "h16"), ("h16", "h13"), ("h14", "h17"), ("h13", "h14")])
def test_the_answer_is_one_of_four_and_the_same_both_ways(pair: tuple[str, str]) -> None:
    for kind in ("slice", "crop", "square", "rms", "variance", "l2", "softmax", "norm", "mean", "sum", "relu"):
        given = tg.predict_fp16_divergence(kind, (1, 512), *pair, begin=(0, 3))
        assert given in ("saturation", "round1", "ulp1", "none")
        assert given == tg.predict_fp16_divergence(kind, (1, 512), *reversed(pair), begin=(0, 3))


@pytest.mark.parametrize("kind", ["softmax", "rms_norm", "variance", "reduce_sum"])
def test_a_magnitude_gates_the_crop_alone(kind: str) -> None:
    plain = tg.predict_fp16_divergence(kind, (64, 256), "h13", "h16")
    assert tg.predict_fp16_divergence(kind, (64, 256), "h13", "h16", max_abs=1.0) == plain != "none"


def test_a_begin_of_zero_or_another_axis_is_clean() -> None:
    assert slice_verdict("h13", "h16", 0, 3, 0) == "none"
    assert tg.predict_fp16_divergence("slice_by_size", (1, 8), "h13", "h16") == "none"


@pytest.mark.parametrize(
    ("most", "verdict"),
    [(4094.0, "none"), (1.0, "none"), (4095.0, "saturation"), (float("inf"), "saturation"), (None, "saturation")],
)
def test_a_finite_magnitude_gates_it(most: float | None, verdict: str) -> None:
    assert slice_verdict("h13", "h16", 0, 3, max_abs=most) == verdict


@pytest.mark.parametrize(
    "kind",
    ["reduce_square", "reduce_sum_square", "rms", "rms_norm", "var", "variance", "l2", "l2_norm", "sq_after_reduce"],
)
def test_where_the_square_fuses_on_one(kind: str) -> None:
    assert tg.predict_fp16_divergence(kind, (64, 256), "h13", "h14") == "round1"
    assert tg.predict_fp16_divergence(kind, (64, 256), "h16", "h13") == "round1"


def test_where_it_fuses_on_both_the_order_is_left() -> None:
    assert tg.predict_fp16_divergence("rms_norm", (64, 256), "h14", "h16") == "ulp1"
    assert tg.predict_fp16_divergence("square", (64, 256), "h14", "h16") == "none"


@pytest.mark.parametrize(
    "kind",
    ["reduce_sum", "reduce_mean", "softmax", "layer_norm", "mean", "sum", "norm", "LayerNorm", "layernorm"],
)
def test_where_the_threshold_differs(kind: str) -> None:
    assert tg.predict_fp16_divergence(kind, (64, 256), "h14", "h15") == "ulp1"
    assert tg.predict_fp16_divergence(kind, (64, 256), "h13", "h14") == "none"
    assert tg.predict_fp16_divergence(kind, (64, 256), "h15", "h17") == "none"


@pytest.mark.parametrize("kind", ["reduce_max", "reduce_argmin"])
def test_comparisons_have_no_order(kind: str) -> None:
    assert tg.predict_fp16_divergence(kind, (64, 256), "h14", "h15") == "none"


@pytest.mark.parametrize("kind", ["matmul", "linear", "add", "relu", "square", "reduce_max"])
def test_other_kinds_have_no_route(kind: str) -> None:
    assert tg.predict_fp16_divergence(kind, (1, 8), "h13", "h18", begin=(0, 1)) == "none"


def test_what_the_documented_fields_do_not_tell_is_told_too() -> None:
    image = (1, 8, 32, 32)
    assert tg.predict_fp16_divergence("conv", image, "h13", "h17s") == "roundings", "Winograd"
    assert tg.predict_fp16_divergence("conv", image, "h13", "h14") == "none"
    assert tg.predict_fp16_divergence("resize_bilinear", image, "h13", "h14") == "roundings"
    assert tg.predict_fp16_divergence("sin", (1, 8), "h13", "h16") == "approximation"
    assert tg.predict_fp16_divergence("sdpa", image, "h13", "h16") == "ulp1"


@pytest.mark.parametrize(("kind", "nearest"), [("zzz", "known: "), ("softmx", "nearest: softmax"), ("", "known: ")])
def test_an_unknown_kind_is_an_error(kind: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown kind of operation {kind!r}; {nearest}"):
        tg.predict_fp16_divergence(kind, (1, 8), "h13", "h14")


def test_a_kind_that_a_shape_does_not_describe_is_an_error() -> None:
    with pytest.raises(NotSupportedError, match="a shape is not enough for this kind of operation"):
        tg.predict_fp16_divergence("einsum", (1, 8), "h13", "h14")
    with pytest.raises(GraphError, match="an image has four axes"):
        tg.predict_fp16_divergence("resize", (1, 8), "h13", "h14")


def test_every_kind_is_answered_by_the_analysis_of_a_graph_or_refused() -> None:
    answered = 0
    for kind in kinds():
        try:
            found = tg.predict_fp16_divergence(kind, (1, 4, 8, 8), "h14", "h17")
        except AneforgeError:
            continue
        assert isinstance(found, Strength)
        answered += 1
    assert answered > 100


def test_an_unknown_target() -> None:
    with pytest.raises(UnknownTargetError, match="zzz"):
        tg.predict_fp16_divergence("softmax", (1, 8), "zzz", "h16")


def test_a_begin_of_another_rank() -> None:
    with pytest.raises(GraphError, match="one number for every axis"):
        tg.predict_fp16_divergence("slice", (1, 8), "h13", "h16", begin=(1,))


@pytest.mark.parametrize("most", [-1.0, float("nan")])
def test_no_magnitude(most: float) -> None:
    with pytest.raises(GraphError, match="max_abs must be 0 or more"):
        tg.predict_fp16_divergence("slice", (1, 8), "h13", "h16", begin=(0, 1), max_abs=most)


@pytest.mark.parametrize(("begin", "verdict"), [(-2, "saturation"), (-8, "none"), (7, "saturation"), (0, "none")])
def test_a_begin_counts_from_the_end_where_it_is_negative(begin: int, verdict: str) -> None:
    assert tg.predict_fp16_divergence("slice", (1, 8), "h13", "h16", begin=(0, begin)) == verdict


def test_numbers_and_arrays_of_numpy_mean_the_same() -> None:
    ask = cast("Callable[..., str]", tg.predict_fp16_divergence)
    for begin in ([0, np.int64(2)], np.array([0, 2])):
        assert ask("slice", np.array([1, 8]), "h13", "h16", begin=begin) == "saturation"
        assert ask("slice", np.array([1, 8]), "h13", "h16", begin=begin, max_abs=np.float32(1.0)) == "none"


@pytest.mark.parametrize("begin", [(0, 8), (0, 99), (0, -9), (1, 0)])
def test_a_begin_outside(begin: tuple[int, int]) -> None:
    with pytest.raises(GraphError, match="is outside of the tensor"):
        tg.predict_fp16_divergence("slice", (1, 8), "h13", "h16", begin=begin)


@pytest.mark.parametrize(
    ("shape", "begin", "most", "message"),
    [
        ((1, 8), 2, None, "begin is not a list of integers"),
        ((1, 8), ("a", "b"), None, r"begin\[0\] is not an integer"),
        ((1, 8), (0, 2.5), None, r"begin\[1\] is not an integer"),
        ((1, 8), (0, True), None, r"begin\[1\] is not an integer"),
        ((1, 8), (0, 2), "x", "max_abs is not a number"),
        (None, None, None, "shape is not a list of integers"),
        (8, None, None, "shape is not a list of integers"),
    ],
)
def test_arguments_of_another_sort(shape: object, begin: object, most: object, message: str) -> None:
    ask = cast("Callable[..., str]", tg.predict_fp16_divergence)
    with pytest.raises(GraphTypeError, match=message) as caught:
        ask("slice", shape, "h13", "h16", begin=begin, max_abs=most)
    assert caught.value.operation == "predict_fp16_divergence"


def test_a_negative_extent() -> None:
    with pytest.raises(GraphError, match="negative extents"):
        tg.predict_fp16_divergence("softmax", (1, -8), "h13", "h16")


def test_no_text() -> None:
    with pytest.raises(GraphTypeError, match="not a text"):
        tg.predict_fp16_divergence(cast("str", 3), (1, 8), "h13", "h16")
