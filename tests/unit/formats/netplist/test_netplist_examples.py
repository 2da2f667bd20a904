"""The example by hand and the script that authors others."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.netplist.reading import load_netplist, parse_netplist
from aneforge.formats.netplist.writing import netplist
from aneforge.graph.reference import reference

if TYPE_CHECKING:
    from pathlib import Path


def test_the_example_by_hand(repository: Path) -> None:
    graph = load_netplist(repository / "examples" / "netplist" / "upsampling.plist")
    image = np.random.default_rng(0).uniform(-1, 2, (1, 3, 4, 6))
    expected = np.clip(image, 0, 1).repeat(2, axis=2).repeat(2, axis=3)
    np.testing.assert_array_equal(reference(graph, [image])["large"], expected)
    again = netplist(graph)
    np.testing.assert_array_equal(
        reference(parse_netplist(again.data(binary=True), again.weights), [image])["large"], expected
    )


def test_the_script_that_authors_others(repository: Path, tmp_path: Path) -> None:
    script = repository / "examples" / "netplist" / "author.py"
    run = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=True)
    assert "attention: Transpose, Transpose, Transpose, SDPA, Transpose" in run.stdout
    assert "  silu: x · sigmoid(x)" in run.stdout
    for name in ("attention", "ranking", "points", "block"):
        assert load_netplist(tmp_path / name).outputs
