"""Gradients of two hundred drawn networks, and of the largest example network, against torch in float64.

The whole runs with `make test-external`, which also writes the figures; `make test` compares twenty.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from tabulate import tabulate

from aneforge.testing.networks import networks
from gradient_tools import compare_with_torch, drawn_feeds, is_on_a_kink, widened
from resnet18 import resnet18
from torch_meanings import is_in_torch

if TYPE_CHECKING:
    from aneforge.testing.graphs import DrawnGraph

RESULTS = Path(__file__).parent / "results.md"
FEW, MANY = 20, 200
AT_A_TIME = 40
"""Drawn with one seed: Hypothesis makes later graphs out of earlier ones."""
SWEEP = settings(deadline=None, database=None, max_examples=AT_A_TIME, phases=(Phase.generate,))


class Tally:
    """What was compared, and how far it is from torch."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.operations: set[str] = set()
        self.worst = 0.0

    def add(self, drawn: DrawnGraph, number: int) -> None:
        """Compare one network."""
        if not is_in_torch(drawn.graph):
            self.counts["with an operation that torch has not, not compared"] += 1
            return
        graph, _ = widened(drawn.graph)
        generator = np.random.default_rng(number)
        feeds = drawn_feeds(graph, generator, {})
        if is_on_a_kink(graph, feeds):
            self.counts["on a kink, not compared"] += 1
            return
        self.worst = max(self.worst, compare_with_torch(graph, generator, feeds))
        self.counts["compared"] += 1
        self.operations |= {node.op.name for node in graph.nodes}


def sweep(least: int) -> Tally:
    """Compare drawn networks until so many were."""
    tally, number = Tally(), 0
    while tally.counts["compared"] < least:

        @seed(number)
        @SWEEP
        @given(networks(), st.integers(0, 2**32 - 1))
        def compare(drawn: DrawnGraph, numbers: int) -> None:
            if tally.counts["compared"] < least:
                tally.add(drawn, numbers)

        compare()
        number += 1
    return tally


def test_gradients_of_drawn_networks_are_those_of_torch(request: pytest.FixtureRequest) -> None:
    whole = bool(request.config.getoption("--refresh-results"))
    tally = sweep(MANY if whole else FEW)
    if whole:
        exponent = int(np.ceil(np.log10(tally.worst)))
        rows = [*sorted(tally.counts.items()), ("operations in those compared", len(tally.operations))]
        table = tabulate(rows, ("drawn networks", "number"), tablefmt="github")
        below = f"Largest difference from torch, as a share of a gradient's largest number: below 1e{exponent}."
        RESULTS.write_text(f"{table}\n\n{below}\n", encoding="utf-8")
    assert tally.worst < 1e-8


def test_gradients_of_a_large_network_are_those_of_torch(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("11 million weights in float64: make test-external runs it, tests/unit/graph the other networks")
    graph, weights = widened(resnet18(size=32, classes=10), unbaked=True)
    generator = np.random.default_rng(0)
    assert compare_with_torch(graph, generator, drawn_feeds(graph, generator, weights)) < 1e-8


def test_the_recorded_number_of_networks() -> None:
    rows = [line.split("|") for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    assert {row[1].strip(): row[2].strip() for row in rows if len(row) > 2}["compared"] == str(MANY)
