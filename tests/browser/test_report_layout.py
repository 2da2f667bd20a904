"""Places of operations in the graph, computed by the page's own script in Chromium."""

from __future__ import annotations

from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser

WIDTH = 150
"""Of an operation, as in layout.js."""

Inputs = list[list[int]]


def laid_out(browser: Browser, inputs: Inputs) -> tuple[list[float], list[float], list[int]]:
    """Return the places of nodes that read these nodes, and the row of each."""
    script = (files("aneforge.report.html") / "assets" / "scripts" / "layout.js").read_text(encoding="utf-8")
    page = browser.new_page()
    x, y, rows = page.evaluate(
        f"""inputs => {{
          {script}
          const consumers = inputs.map(() => []);
          inputs.forEach((sources, node) => sources.forEach((source) => consumers[source].push(node)));
          const made = layOut(inputs, consumers);
          return [[...made.x], [...made.y], [...made.rowOf]];
        }}""",
        inputs,
    )
    page.close()
    return x, y, rows


def random_inputs(seed: int, length: int) -> Inputs:
    random = np.random.default_rng(seed)
    return [
        sorted({int(one) for one in random.integers(max(0, node - 30), node, random.integers(0, 4))}) if node else []
        for node in range(length)
    ]


def expect_sound(inputs: Inputs, x: Sequence[float], y: Sequence[float], row_of: Sequence[int]) -> None:
    """Check that operations come in later rows than what they read, and that none covers another."""
    assert all(row_of[source] < row_of[node] for node, sources in enumerate(inputs) for source in sources)
    rows: dict[float, list[float]] = {}
    for left, top in zip(x, y, strict=True):
        rows.setdefault(top, []).append(left)
    for row in rows.values():
        row.sort()
        assert all(after - before >= WIDTH for before, after in pairwise(row))


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs(browser: Browser, seed: int) -> None:
    inputs = random_inputs(seed, 400)
    expect_sound(inputs, *laid_out(browser, inputs))


def test_a_chain_is_straight(browser: Browser) -> None:
    inputs = [[], *([number] for number in range(199))]
    x, y, rows = laid_out(browser, inputs)
    expect_sound(inputs, x, y, rows)
    assert rows == list(range(200))
    columns = len(set(x))
    width, height = max(x) - min(x), max(y)
    assert columns > 1
    assert 1 < width / height < 4, "it is about as wide as a screen"
    assert all(
        y[after] == y[before] + 70 or (y[after] == 0 and x[after] > x[before]) for before, after in pairwise(rows)
    )


def test_a_short_chain_is_one_column(browser: Browser) -> None:
    x, _, _ = laid_out(browser, [[], *([number] for number in range(23))])
    assert len(set(x)) == 1


def test_a_wide_graph_goes_on_in_further_rows(browser: Browser) -> None:
    inputs = [[], *([0] for _ in range(5000)), list(range(1, 5001))]
    x, y, rows = laid_out(browser, inputs)
    expect_sound(inputs, x, y, rows)
    assert max(x) - min(x) < 50 * 2 * WIDTH


def test_nothing(browser: Browser) -> None:
    assert laid_out(browser, []) == ([], [], [])
