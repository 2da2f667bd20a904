"""Special functions: the domain and the error that each docstring states, checked on a dense grid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
import scipy.special

from aneforge.graph import special
from aneforge.graph.builder.inputs import input as graph_input
from aneforge.graph.graph import as_graph
from aneforge.graph.reference import reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array

HALF_PRECISION = 2.0**-12
"""The largest relative error of a number that fp16 rounds is 2^-11, of a value near 1 it is 2^-12."""
ROUNDING = 1e-12
"""Stated errors below this are of float64, not of a polynomial."""
POINTS = 100_001
STATED = re.compile(r"Domain: (\S+) <= x <= (\S+)\. Maximum error: (\S+) (absolute|relative|mixed)\.")

TRUTH: dict[str, Callable[[Array], Array]] = {
    "sin": np.sin,
    "cos": np.cos,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "lgamma": scipy.special.gammaln,
    "gamma": scipy.special.gamma,
    "gamma_via_lgamma": scipy.special.gamma,
    "bessel_j0": scipy.special.j0,
    "bessel_i0": scipy.special.i0,
    "bessel_k0": scipy.special.k0,
    "exp_wide": np.exp,
    "log_wide": np.log,
}


class Statement(NamedTuple):
    """What a docstring states."""

    low: float
    high: float
    error: float
    kind: str


def function(name: str) -> Callable[[Tensor], Tensor]:
    return getattr(special, name)


def statement(name: str) -> Statement:
    found = STATED.search(function(name).__doc__ or "")
    assert found, f"the docstring of {name} does not state its domain and error"
    low, high, error, kind = found.groups()
    return Statement(float(low), float(high), float(error), kind)


def grid(low: float, high: float) -> Array:
    """Return points evenly over a domain, densely near 0, by ratio if it is positive, and the seams of the pieces."""
    seams = np.array([-4.0, -3.0, -1.0, -0.5, 1 / 64, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0])
    parts = [np.linspace(low, high, POINTS), np.linspace(max(low, -6.0), min(high, 6.0), POINTS), seams]
    if low > 0:
        parts.append(np.geomspace(low, high, POINTS))
    points = np.concatenate([*parts, np.nextafter(seams, -np.inf), np.nextafter(seams, np.inf)])
    return points[(points >= low) & (points <= high)]


def evaluated(name: str, points: Array) -> Array:
    return reference(function(name)(graph_input(points.shape)), [points])["y"]


def errors(found: Array, true: Array, kind: str) -> Array:
    magnitude = np.abs(true)
    scales = {
        "absolute": np.ones_like(true),
        "relative": np.where(magnitude == 0, 1.0, magnitude),
        "mixed": np.maximum(magnitude, 1.0),
    }
    return np.abs(found - true) / scales[kind]


def test_every_function_is_checked() -> None:
    assert sorted(TRUTH) == sorted(special.__all__)


@pytest.mark.parametrize("name", special.__all__)
def test_the_stated_error_holds_and_is_not_idle(name: str) -> None:
    stated = statement(name)
    points = grid(stated.low, stated.high)
    largest = float(errors(evaluated(name, points), TRUTH[name](points), stated.kind).max())
    assert largest <= stated.error
    assert stated.error <= max(1.25 * largest, ROUNDING), "the docstring states more than there is"


@pytest.mark.parametrize("name", special.__all__)
def test_the_stated_error_is_below_half_precision(name: str) -> None:
    assert statement(name).error < HALF_PRECISION / 8


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_use_none_of_their_own(name: str) -> None:
    graph = as_graph(function(name)(graph_input((1, 4))))
    assert {node.op.name for node in graph.nodes} == {
        "input", "adds", "muls", "mul", "sub", "square", "round", "floor", "clip",
    }  # fmt: skip


@pytest.mark.parametrize("name", special.__all__)
def test_the_shape_is_kept(name: str) -> None:
    result = function(name)(graph_input((1, 2, 3, 4)))
    assert (result.shape, result.dtype) == ((1, 2, 3, 4), "fp16")


def test_symmetry() -> None:
    points = np.linspace(0.0, 13.0, 1001)
    for name, sign in (("sin", -1), ("cos", 1), ("bessel_j0", 1), ("bessel_i0", 1)):
        np.testing.assert_array_equal(evaluated(name, -points), sign * evaluated(name, points), err_msg=name)


def test_erf_stays_between_its_bounds() -> None:
    points = np.linspace(-100.0, 100.0, 10_001)
    found = evaluated("erf", points)
    assert np.abs(found).max() <= 1.0
    np.testing.assert_allclose(found, scipy.special.erf(points), atol=statement("erf").error)


def test_differences_keep_their_digits_near_zero() -> None:
    points = np.geomspace(1e-12, 1e-3, 100)
    for name in ("expm1", "log1p"):
        np.testing.assert_allclose(evaluated(name, points), TRUTH[name](points), rtol=statement(name).error)
        np.testing.assert_allclose(evaluated(name, -points), TRUTH[name](-points), rtol=statement(name).error)
