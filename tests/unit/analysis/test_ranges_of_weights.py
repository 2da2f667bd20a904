"""What ranges need of weights is found quickly, and to the bit what the plain formulas give."""

from __future__ import annotations

import numpy as np

from aneforge.analysis.ranges.interval import Range, as_read, ends_by_bits, of_values
from aneforge.analysis.ranges.product_ranges import sums_along

EDGES = np.array([0, 0x8000, 1, 0x8001, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00], np.uint16)
"""Bits of zeros, subnormals, ones, the largest numbers, infinities and a NaN."""


def test_ends_are_those_of_the_numbers_that_the_engine_reads() -> None:
    numbers = np.random.default_rng(0)
    finite = 0
    for draw in range(2000):
        size = int(numbers.integers(1, 12))
        bits = numbers.integers(0, 1 << 16, size).astype(np.uint16) if draw % 2 else numbers.choice(EDGES, size)
        values = bits.view(np.float16)
        seen = as_read(values)
        assert of_values(values) == Range(float(seen.min()), float(seen.max()))
        assert (ends_by_bits(values) is None) == (not np.isfinite(values).all())
        finite += bool(np.isfinite(values).all())
    assert 500 < finite < 1900


def test_sums_of_weights_have_the_bits_of_their_definition() -> None:
    numbers = np.random.default_rng(1)
    for draw in range(60):
        shape = tuple(map(int, numbers.integers(1, 40, 3)))
        values = (numbers.standard_normal(shape) * 10.0 ** numbers.integers(-6, 3)).astype(np.float16)
        values = np.abs(values) if draw % 3 == 0 else np.zeros_like(values) if draw % 7 == 0 else values
        for channel in range(2):
            found = sums_along(channel, values)
            rows = np.moveaxis(as_read(values), channel, 0).reshape(shape[channel], -1)
            assert found.positive.tobytes() == np.maximum(rows, 0.0).sum(axis=1).tobytes()
            assert found.negative.tobytes() == np.maximum(-rows, 0.0).sum(axis=1).tobytes()
            assert found.largest == np.abs(rows).max()
