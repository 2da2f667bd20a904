"""The documented estimate without a target: its formula, by hand."""

import math

import numpy as np

import aneforge as af
from aneforge.analysis.heuristic import heuristic, layer_microseconds

FLOOR, CUT, BYTES, FLOPS = 63.3, 75.6, 1.1e5, 1.96232e7


def test_small_programs_cost_the_dispatch() -> None:
    x = af.input((64, 256))
    assert af.estimate(x.relu().tanh().softmax(-1)) == FLOOR


def test_bytes_decide_a_vector_product() -> None:
    y = af.input((1, 4096)) @ np.zeros((4096, 4096), np.float16)
    assert math.isclose(af.estimate(y), 2 * (4096 + 4096 + 4096 * 4096) / BYTES)


def test_multiplies_decide_a_large_convolution() -> None:
    y = af.conv(af.input((1, 512, 32, 32)), np.zeros((512, 512, 3, 3), np.float16), pad=1)
    assert math.isclose(af.estimate(y), 2 * 512 * 512 * 9 * 1024 / FLOPS)


def test_only_what_exceeds_the_dispatch_adds_up() -> None:
    x = af.input((1, 4096))
    once = af.estimate(x @ np.zeros((4096, 4096), np.float16))
    twice = af.estimate((x @ np.zeros((4096, 4096), np.float16)) @ np.ones((4096, 4096), np.float16))
    assert math.isclose(twice, FLOOR + 2 * (once - FLOOR))


def test_int8_halves_weights_and_is_discounted_up_to_half_a_dispatch() -> None:
    y = af.input((1, 4096)) @ np.zeros((4096, 4096), np.float16)
    weights = 4096 * 4096
    expected = (2 * (4096 + 4096) + weights) / BYTES - min(0.49 * FLOOR, 0.5 * weights / BYTES)
    assert math.isclose(af.estimate(y, int8=True), expected)


def test_every_layer_of_its_own_is_a_cut() -> None:
    q = af.input((1, 8, 64, 64))
    alone, between = af.sdpa(q, q, q, native=True), af.sdpa(q.relu(), q, q, native=True).tanh()
    assert math.isclose(heuristic(alone), 172.5 + CUT)
    assert math.isclose(heuristic(between), 2 * FLOOR + 172.5 + CUT)


def test_the_nearest_point_is_scaled_and_never_below_the_dispatch() -> None:
    large, small = layer_microseconds("argmax", 16384), layer_microseconds("argmax", 1)
    assert large is not None
    assert small is not None
    assert math.isclose(large, 91.2 * 2)
    assert small == FLOOR
    assert layer_microseconds("relu", 100) is None
