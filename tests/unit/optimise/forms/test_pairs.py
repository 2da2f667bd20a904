"""Numbers as sums of two fp16 tensors: twice the bits, on every family."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError

RANDOM = np.random.default_rng(3)


def parts(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[Any, Any]:
    hi = values.astype(np.float16)
    return hi, (values - hi).astype(np.float16)


def result(pair: af.Paired, feed: dict[str, Any], target: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    found = af.run(af.build_program(af.Graph({"hi": pair.hi, "lo": pair.lo}), target), feed).outputs
    return found["hi"].astype(np.float64) + found["lo"].astype(np.float64)


@pytest.mark.parametrize("target", ["h13", "h14", "h15", "h16g"])
def test_arithmetic_in_pairs_has_twice_the_bits(target: str) -> None:
    shape = (8, 256)
    names: tuple[str, ...] = ("a_hi", "a_lo", "b_hi", "b_lo")
    ports = [af.input(shape, name=name) for name in names]
    a, b = af.paired(ports[0], ports[1]), af.paired(ports[2], ports[3])
    drawn = (*parts(RANDOM.standard_normal(shape)), *parts(RANDOM.standard_normal(shape)))
    feed: dict[str, Any] = dict(zip(names, drawn, strict=True))
    x = feed["a_hi"].astype(np.float64) + feed["a_lo"]
    y = feed["b_hi"].astype(np.float64) + feed["b_lo"]
    for pair, wanted in ((a + b, x + y), (a - b, x - y), (a * b, x * y)):
        assert np.abs(result(pair, feed, target) - wanted).max() < 2**-20 * np.abs(wanted).max()
    for axis in (-1, 0):
        wanted = (x * y).sum(axis, keepdims=True)
        found = result(a.dot(b, axis), feed, target)
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() < 2**-15 * np.abs(wanted).max()


def test_a_sum_in_pairs_is_exact_for_all_magnitudes() -> None:
    a, b = af.input((1, 4096), name="a"), af.input((1, 4096), name="b")
    feed = {
        name: (RANDOM.standard_normal((1, 4096)) * 2.0 ** RANDOM.integers(-12, 12, (1, 4096))).astype(np.float16)
        for name in "ab"
    }
    pair = af.Paired(a, a - a) + b
    assert np.array_equal(result(pair, feed, "h13"), feed["a"].astype(np.float64) + feed["b"])
    pair = af.Paired(a, a - a) - b
    assert np.array_equal(result(pair, feed, "h13"), feed["a"].astype(np.float64) - feed["b"])


def test_a_difference_keeps_what_cancelling_uncovers() -> None:
    third = np.full((1, 4), 1000 / 3)
    hi, lo = parts(third)
    ports = [af.input((1, 4), name=name) for name in ("hi", "lo", "b")]
    model = af.compile(af.paired_subtract(af.paired(*ports[:2]), ports[2]), target="h13")
    assert np.allclose(model(hi, lo, hi), third - hi, rtol=1e-3)
    backwards = af.compile(af.paired_subtract(ports[2], af.paired(*ports[:2])), target="h13")
    assert np.allclose(backwards(hi, lo, hi), hi - third, rtol=1e-3)
    plain = af.compile(af.paired_subtract(ports[0], ports[1]), target="h13")
    assert np.array_equal(plain(hi, hi), np.zeros((1, 4)))


def test_what_is_no_pair() -> None:
    x = af.input((1, 4))
    with pytest.raises(GraphError, match="the two tensors of a pair have different types"):
        af.paired(x, af.input((1, 5)))
    with pytest.raises(GraphTypeError, match="a pair is made of two tensors"):
        af.paired(x, cast("Any", 1.0))
    pair = af.paired(x, x)
    with pytest.raises(GraphTypeError, match="a pair goes together with pairs and tensors"):
        cast("Any", pair + 2.0)
    with pytest.raises(GraphError, match="two pairs have different types"):
        cast("Any", pair * af.input((1, 5)))
    with pytest.raises(GraphTypeError, match="a difference is of pairs or tensors"):
        af.paired_subtract(cast("Any", 1), x)
