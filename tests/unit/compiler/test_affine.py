"""Gains and offsets that are joined: only where the slot's fp16 holds the numbers of the whole."""

from __future__ import annotations

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.affine import Affine


def gain(value: float | list[float], axis: int = 1) -> Affine:
    return Affine(np.array(value), None, axis)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (gain(256.0), gain(255.0), True),
        (gain(256.0), gain(256.0), False),
        (gain(2.0**-7), gain(2.0**-7), True),
        (gain(2.0**-7), gain(2.0**-8), False),
        (gain(0.0), gain(2.0**-8), True),
        (gain([2.0, 300.0]), gain([3.0, 300.0]), False),
        (gain([2.0, 3.0]), gain([2.0, 3.0], axis=2), False),
        (Affine(None, np.array(300.0), 1), gain(300.0), False),
        (gain(1e6), gain(2.0), True),
    ],
    ids=["the edge", "beyond", "normal", "subnormal", "zero", "one channel", "two axes", "an offset", "beyond already"],
)
def test_numbers_that_fp16_does_not_hold_are_not_made(first: Affine, second: Affine, *, joined: bool) -> None:
    assert first.joins(second) is joined


@pytest.mark.parametrize(
    ("factors", "expected"), [((1000.0, 1000.0), -1000.0), ((2.0**-10, 2.0**-10, 2.0**20), -1 / 1024)]
)
def test_a_chain_of_factors_keeps_its_value(factors: tuple[float, ...], expected: float) -> None:
    y = af.input((1, 64), name="x").linear(np.eye(64))
    for factor in factors:
        y = y * factor
    found = af.compile(y, target="m4")(np.full((1, 64), -1 / 1024 if expected > -1 else -0.001))
    assert np.abs(found / expected - 1).max() < 0.01
