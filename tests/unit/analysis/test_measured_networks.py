"""Whole networks with published latencies: they are what they are called, and the predicted latencies are near."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
import calibrate_cost as tool
from aneforge.analysis.files import machines_file, networks
from aneforge.analysis.machine import machine_of
from aneforge.analysis.routes import programs
from measured_networks import network
from published_figures import network_figures

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.analysis.files import NetworkMeasurement
    from aneforge.analysis.machine import Machine

PUBLISHED = {
    ("mobileone", "s2"): (1.3, 7.8),
    ("mobileone", "s3"): (None, 10.1),
    ("mobileone", "s4"): (3.0, 14.8),
    ("repvit", "m0.9"): (0.8, 5.1),
    ("repvit", "m1.0"): (1.1, 6.8),
    ("repvit", "m1.1"): (1.3, 8.2),
    ("repvit", "m1.5"): (2.3, 14.0),
    ("repvit", "m2.3"): (4.5, 22.9),
    ("fastvit", "t8"): (0.7, 4.0),
    ("fastvit", "ma36"): (None, 42.7),
    ("resnet50", ""): (None, 25.6),
    ("depth_anything_small", ""): (None, 24.8),
}
"""Billions of multiplies and millions of weights, where they were published beside the latency; for ResNet-50 it is
half the 48.8 MiB of its file."""


PRICED_LAST = ("depth_anything_small", "whisper_encoder", "encoder_decoder", "decoding_step")
"""Networks that were priced for the first time when the model was complete."""


def weights_of(graph: af.Graph) -> float:
    """Count the weights of a graph in millions; every node's own, though all are zeros."""
    return sum(constant.type.size for node in graph.nodes for constant in node.constants()) / 1e6


@pytest.mark.parametrize(("name", "variant"), PUBLISHED)
def test_a_network_does_the_published_work(name: str, variant: str) -> None:
    built = network(name, variant)
    assert isinstance(built, af.Tensor)
    graph = af.Graph({"y": built})
    multiplies, weights = PUBLISHED[name, variant]
    if multiplies is not None:
        assert math.isclose(graph.work().macs / 1e9, multiplies, rel_tol=0.03)
    assert math.isclose(weights_of(graph), weights, rel_tol=0.03)


def test_a_network_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="no network is known as 'resnet50' with the variant 'large'"):
        network("resnet50", "large")
    with pytest.raises(ValueError, match="no network is known as 'repvit' with the variant ''"):
        network("repvit", "")


def committed(chip: str) -> Machine:
    """Return the machine that the package has for a chip."""
    return machine_of(f"soc:{chip}")


@cache
def errors(*, calibrates: bool) -> dict[NetworkMeasurement, float]:
    """Return the logarithms of predicted over measured of one part."""
    rows = [row for row in networks() if row.calibrates is calibrates]
    return dict(zip(rows, tool.network_errors(rows, committed), strict=True))


def page(repository: Path) -> str:
    """Return the page of the cost model in one line."""
    return " ".join((repository / "docs" / "cost.md").read_text(encoding="utf-8").split())


def median(found: list[float]) -> float:
    return float(np.median(np.abs(np.expm1(found))))


def test_networks_that_nothing_was_fitted_to_are_predicted() -> None:
    assert median(list(errors(calibrates=False).values())) <= 0.25


def test_networks_that_constants_were_fitted_to_are_explained() -> None:
    assert median(list(errors(calibrates=True).values())) <= 0.10


def test_every_generation_is_among_them() -> None:
    # The known miss took as long as an empty call, so it may have run elsewhere.
    near = {row: error for row, error in errors(calibrates=False).items() if row.network != "mobilenet_v3_small"}
    for chip in {row.chip for row in near}:
        assert median([error for row, error in near.items() if row.chip == chip]) <= 0.45, chip
    assert max(abs(error) for error in near.values()) <= math.log(1.75)


def test_error_bars_that_other_networks_ask_for_hold_a_network(repository: Path) -> None:
    found = errors(calibrates=False)
    held = tool.inside_bars_of_others(list(found), np.array(list(found.values())))
    assert 0.7 <= np.mean(held) <= 0.9
    assert f"from the other networks each time, they contain {held.sum()} of {len(held)}" in page(repository)


def test_the_page_says_how_many_intervals_hold_their_network(repository: Path) -> None:
    """`tools/published_figures.py` lists them."""
    found = list(network_figures())
    inside = sum(one.inside for one in found)
    assert f"{inside} of {len(found)} networks" in page(repository)
    assert all(one.row.endswith("| yes |") is one.inside for one in found)


def test_a_network_widens_no_error_bars_of_its_own() -> None:
    first, *others = networks()
    rows = [first, first, *(row for row in others if row.network != first.network)][:12]
    found = np.array([0.9, -0.9, *(0.1 for _ in rows[2:])])
    assert tool.inside_bars_of_others(rows, found).tolist() == [False, False, *(True for _ in rows[2:])]


def test_the_committed_error_bars_are_those_of_the_test_part() -> None:
    found = np.array(list(errors(calibrates=False).values()))
    assert math.isclose(machines_file().spread.network, tool.robust_spread(found), rel_tol=0.02)


def test_the_committed_calls_are_what_the_tool_fits() -> None:
    chips = machines_file().chips
    found = {**tool.fit_calls(networks(), chips), **tool.fit_program_calls(programs(), chips)}
    assert set(found) == set(machines_file().calls)
    for chip, call in machines_file().calls.items():
        assert math.isclose(call.dispatch, found[chip].dispatch, rel_tol=0.02), chip
        assert call.rows == found[chip].rows


def test_bytes_on_chip_are_those_that_explain_the_calibration_part_best() -> None:
    rows, chips = list(errors(calibrates=True)), machines_file().chips

    def unexplained(tried: float) -> float:
        return float(
            np.sum(tool.network_errors(rows, tool.machines(chips, tool.fit_calls(rows, chips, tried), tried)) ** 2)
        )

    assert min(tool.TRIED_ON_CHIP, key=unexplained) == tool.model().on_chip_bytes.value


def test_no_call_is_fitted_to_the_test_part() -> None:
    strange = [
        row if row.calibrates else type(row)(row.chip, row.network, row.variant, 2 * row.microseconds, row.calibrates)
        for row in networks()
    ]
    assert tool.fit_calls(strange, machines_file().chips) == tool.fit_calls(networks(), machines_file().chips)


def test_the_networks_of_the_page_are_those_of_the_tool(repository: Path) -> None:
    text = page(repository)
    for calibrates in (True, False):
        found = list(errors(calibrates=calibrates).values())
        assert f"{len(found)} rows, {median(found) * 100:.1f} %" in text
    late = [error for row, error in errors(calibrates=False).items() if row.network in PRICED_LAST]
    early = [error for row, error in errors(calibrates=False).items() if row.network not in PRICED_LAST]
    assert (
        f"their median is {median(late) * 100:.1f} %, that of the other test rows {median(early) * 100:.1f} %" in text
    )
    names, chips = ({getattr(row, field) for row in networks()} for field in ("network", "chip"))
    assert f"{len(networks())} published latencies of {len(names)} networks on {len(chips)} chips" in text
