"""Random numbers: the stream is pinned, the distributions are what they claim to be, and misuse is named."""

import numpy as np
import pytest
from scipy import stats

from aneforge.errors import GraphError
from aneforge.ops.groups.random import (
    DROPOUT,
    RANDOM,
    RANDOM_BERNOULLI,
    RANDOM_CATEGORICAL,
    RANDOM_NORMAL,
    RANDOM_UNIFORM,
)
from aneforge.ops.op import Op
from aneforge.ops.types import Array, TensorType

MANY = 20_000
LEAST_P = 1e-3  # the seeds are fixed, so this either holds for ever or never


def drawn(op: Op, **attributes: object) -> Array:
    return op.evaluate({}, op.complete({"shape": [MANY], "seed": 7, **attributes}))[0]


def test_the_stream_of_a_seed_is_pinned() -> None:
    assert drawn(RANDOM_UNIFORM, shape=[3], seed=0).tolist() == [
        0.6369616873214543,
        0.2697867137638703,
        0.04097352393619469,
    ]


def test_a_seed_means_the_same_numbers_and_another_others() -> None:
    first = drawn(RANDOM_UNIFORM)
    np.testing.assert_array_equal(first, drawn(RANDOM_UNIFORM))
    assert not np.array_equal(first, drawn(RANDOM_UNIFORM, seed=8))


def test_elements_follow_one_another_in_the_stream() -> None:
    np.testing.assert_array_equal(drawn(RANDOM_UNIFORM, shape=[2, 3]).ravel(), drawn(RANDOM_UNIFORM, shape=[6]))


@pytest.mark.parametrize("op", [RANDOM_UNIFORM, RANDOM], ids=lambda op: op.name)
def test_uniform_numbers_are_uniform(op: Op) -> None:
    numbers = drawn(op, low=-2, high=6)
    assert -2 <= numbers.min() < numbers.max() < 6
    assert stats.kstest(numbers, "uniform", args=(-2, 8)).pvalue > LEAST_P


def test_normal_numbers_are_normal() -> None:
    numbers = drawn(RANDOM_NORMAL, mean=3, stddev=2)
    assert stats.kstest(numbers, "norm", args=(3, 2)).pvalue > LEAST_P


@pytest.mark.parametrize("prob", [0.1, 0.5, 0.9])
def test_ones_come_with_their_probability(prob: float) -> None:
    numbers = drawn(RANDOM_BERNOULLI, prob=prob)
    assert set(numbers.tolist()) == {0.0, 1.0}
    assert stats.binomtest(int(numbers.sum()), MANY, prob).pvalue > LEAST_P


def test_the_ends_of_a_probability_are_certain() -> None:
    assert drawn(RANDOM_BERNOULLI, prob=0).max() == 0
    assert drawn(RANDOM_BERNOULLI, prob=1).min() == 1


@pytest.mark.parametrize("mode", ["logits", "probs"])
def test_classes_come_with_their_probabilities(mode: str) -> None:
    probabilities = np.array([0.5, 0.0, 0.2, 0.3])
    with np.errstate(divide="ignore"):
        x = np.log(probabilities) + 5 if mode == "logits" else probabilities * 4
    attributes = RANDOM_CATEGORICAL.complete({"mode": mode, "size": MANY, "seed": 7})
    (classes,) = RANDOM_CATEGORICAL.evaluate({"x": x}, attributes)
    counts = np.bincount(classes.astype(int), minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[[0, 2, 3]], MANY * probabilities[[0, 2, 3]]).pvalue > LEAST_P


def test_dropout_drops_its_rate_and_keeps_the_mean() -> None:
    (kept,) = DROPOUT.evaluate({"x": np.ones(MANY)}, DROPOUT.complete({"rate": 0.75, "seed": 7}))
    assert set(kept.tolist()) == {0.0, 4.0}
    assert kept.mean() == pytest.approx(1, abs=0.05)


def test_dropout_of_nothing_is_the_identity() -> None:
    x = np.arange(4.0)
    np.testing.assert_array_equal(DROPOUT.evaluate({"x": x}, DROPOUT.complete({"rate": 0}))[0], x)


def test_dropout_of_everything_is_refused() -> None:
    with pytest.raises(GraphError, match="nothing would be kept"):
        DROPOUT.types({"x": TensorType((2,))}, DROPOUT.complete({"rate": 1}))
    with pytest.raises(GraphError, match="'rate' is too large"):
        DROPOUT.complete({"rate": 1.5})


def test_a_range_ends_behind_its_begin() -> None:
    with pytest.raises(GraphError, match=r"end of the range is before its start \(got 2 to 1\)"):
        RANDOM_UNIFORM.types({}, RANDOM_UNIFORM.complete({"shape": [2], "low": 2, "high": 1}))


def test_there_is_a_class_to_draw() -> None:
    with pytest.raises(GraphError, match="no class to draw"):
        RANDOM_CATEGORICAL.types({"x": TensorType((2, 0))}, RANDOM_CATEGORICAL.complete({}))


def test_a_runtime_chooses_the_stream_and_the_meaning_takes_the_first() -> None:
    assert RANDOM_UNIFORM.complete({"shape": [3]})["seed"] == -1
    np.testing.assert_array_equal(drawn(RANDOM_UNIFORM, seed=-1), drawn(RANDOM_UNIFORM, seed=0))


def test_there_are_no_seeds_below() -> None:
    with pytest.raises(GraphError, match="'seed' is too small"):
        RANDOM_NORMAL.complete({"shape": [1], "seed": -2})


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400])
def test_a_range_is_finite(value: float) -> None:
    with pytest.raises(GraphError, match=r"'high' is (not finite|too large)"):
        RANDOM_UNIFORM.complete({"shape": [1], "high": value})
