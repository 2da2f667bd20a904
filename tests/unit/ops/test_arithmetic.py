"""Mathematics that several groups share."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.ops.arithmetic import greatest_magnitude


@given(st.lists(st.integers(0, 0xFFFF), max_size=6))
def test_the_greatest_of_any_halves(patterns: list[int]) -> None:
    """NaN of either sign, infinities, zeros of both signs and subnormal numbers are all among the patterns."""
    halves = np.array(patterns, np.uint16).view(np.float16)
    wanted = float(np.abs(halves.astype(np.float64)).max(initial=0.0))
    found = greatest_magnitude(halves)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays_may_lie_anyhow(dtype: type[np.floating]) -> None:
    values = np.array([[1.0, -8.0, 3.0], [0.5, 2.0, -4.0]], dtype)
    assert greatest_magnitude(values[:, ::2]) == 4.0
    assert greatest_magnitude(values.T) == 8.0
    assert greatest_magnitude(values[:0]) == 0.0
