"""Errors of outputs are numbers that a report can hold, whatever the outputs are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.commands.output_errors import output_error, signal_to_noise

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=4))
def test_errors_of_finite_outputs_are_finite(pairs: list[tuple[float, float]]) -> None:
    found, wanted = np.array(pairs).T
    error = output_error("y", found, wanted)
    assert error.largest is not None
    assert all(math.isfinite(one) for one in (error.largest, error.snr or 0.0, error.relative or 0.0))


def test_noise_too_small_for_a_quotient_has_a_ratio() -> None:
    assert signal_to_noise(np.array([1.0, 1e-160]), np.array([1.0, 0.0])) == pytest.approx(3200.0)


def test_the_ratio_of_large_numbers() -> None:
    assert signal_to_noise(np.array([9e299]), np.array([1e300])) == pytest.approx(20.0)


def test_signals_without_noise_have_no_ratio() -> None:
    assert signal_to_noise(np.array([1.0]), np.array([1.0])) is None
