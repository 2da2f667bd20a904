"""Times of layers that are programs of their own: between measured points, and how far off."""

from __future__ import annotations

import math
from statistics import fmean, median

import pytest

import aneforge as af
from aneforge.analysis.bridged import SPREAD, between_points, own_program
from aneforge.analysis.heuristic import host, layer_microseconds

TABLES = {op: points for op, points in host().layers.items() if len(points) > 1}


def left_out() -> list[float]:
    """Return the logarithms of errors on points that are left out one by one."""
    return [
        math.log(between_points([*points[:place], *points[place + 1 :]], point.work) / point.microseconds)
        for points in TABLES.values()
        for place, point in enumerate(points)
    ]


@pytest.mark.parametrize("op", TABLES)
def test_a_measured_point_is_its_own_time(op: str) -> None:
    for point in TABLES[op]:
        alike = [one.microseconds for one in TABLES[op] if one.work == point.work]
        assert between_points(TABLES[op], point.work) == pytest.approx(fmean(alike))


def test_the_spread_is_what_points_left_out_show() -> None:
    errors = left_out()
    assert math.sqrt(fmean(error**2 for error in errors)) == pytest.approx(SPREAD, abs=0.005)
    assert math.exp(median(map(abs, errors))) < 1.45


def test_the_nearest_point_is_further_off_than_a_line() -> None:
    points = host().layers["sdpa"]
    far = points[-1].work * 4
    nearest = layer_microseconds("sdpa", far)
    assert nearest is not None
    assert between_points(points, far) < nearest
    for place in (1, 2):
        kept = [*points[:place], *points[place + 1 :]]
        assert between_points(kept, points[place].work) == pytest.approx(points[place].microseconds, rel=0.2)


def test_more_work_beyond_the_last_point_is_never_cheaper() -> None:
    for points in TABLES.values():
        last = max(point.work for point in points)
        times = [between_points(points, last * times) for times in (1, 2, 4, 8)]
        assert times == sorted(times)


def test_another_chip_is_less_sure() -> None:
    here, there = own_program("sdpa", 10**6, host().dispatch), own_program("sdpa", 10**6, 3 * host().dispatch)
    assert here is not None
    assert there is not None
    assert (here.spread, there.microseconds) == (SPREAD, pytest.approx(3 * here.microseconds))
    assert there.spread > here.spread
    assert own_program("relu", 1, 1.0) is None


def test_work_beyond_the_last_point_is_less_sure() -> None:
    points = host().layers["sort"]
    last = max(point.work for point in points)
    spreads = [own_program("sort", last * times, host().dispatch) for times in (1, 4, 128)]
    assert [one and one.spread for one in spreads] == [
        SPREAD,
        pytest.approx(math.hypot(SPREAD, math.log(4) / 2)),
        pytest.approx(math.hypot(SPREAD, math.log(128) / 2)),
    ]


def test_a_network_with_such_a_layer_is_as_unsure_as_its_share() -> None:
    query, key, value = (af.input((1, 8, 128, 64), name=name) for name in "qkv")
    found = af.cost(af.sdpa(query, key, value, native=True), "m5-pro")
    assert found.high / found.low > math.exp(2 * SPREAD)
