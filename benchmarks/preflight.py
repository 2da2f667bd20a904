"""Time to build graphs and to check them, for one target and for all; growth with the size of the graph."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aneforge as af
from aneforge.targets import Family

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

from resnet18 import resnet18
from shared.timing import chain, seconds
from transformer import encoder

BUDGET_ALL_TARGETS = 0.050
SIZES = (1_000, 10_000, 100_000)


def report(name: str, build: Callable[[], af.Graph], runs: int) -> tuple[float, float]:
    """Print and return the times to build a graph and to check it on every target."""
    graph = build()
    count = len(graph.nodes)
    building = seconds(build, runs)
    one = seconds(lambda: af.preflight(graph, Family.A16), runs)
    every = seconds(lambda: af.preflight_all(graph), runs)
    print(
        f"{name}: {count} nodes; build {building * 1e3:.1f} ms, one target {one * 1e3:.1f} ms, all {every * 1e3:.1f} ms"
    )
    return building, every


def main() -> None:
    """Print every line."""
    af.preflight_all(af.input((1, 4)).relu())  # reads the tables once
    _, every = report("ResNet-18", resnet18, 5)
    print(f"  all targets: {every / BUDGET_ALL_TARGETS:.0%} of the budget of {BUDGET_ALL_TARGETS * 1e3:.0f} ms")
    report("transformer encoder", encoder, 5)
    per_node: list[tuple[float, float]] = []
    for size in SIZES:
        building, every = report(f"synthetic {size}", lambda size=size: chain(size), 1)
        per_node.append((building / size, every / size))
    growth = [per_node[-1][index] / per_node[0][index] for index in (0, 1)]
    print(f"  time per node at {SIZES[-1]} over that at {SIZES[0]}: build {growth[0]:.2f}, all targets {growth[1]:.2f}")


if __name__ == "__main__":
    main()
