"""Time to price a compiled program and to place a graph, and growth with their size; the budget is linear time."""

from __future__ import annotations

import aneforge as af
from aneforge.analysis.cost import price
from aneforge.analysis.machine import machine_of
from aneforge.analysis.work import work_of
from aneforge.compiler.compile import compile_graph
from aneforge.targets import Family
from shared.timing import seconds

SIZES = (1_000, 10_000)
RUNS = 3


def chain(nodes: int) -> af.Graph:
    """Return many small operations one after another, all of which read the input too."""
    x = af.input((1, 8, 4, 4), name="x")
    y = x
    for _ in range(nodes // 2):
        y = (y + x).tanh()
    return af.Graph({"y": y})


def report(name: str, taken: list[float]) -> None:
    """Print the times of the sizes, and how the time for one node grows."""
    each = [time / size for time, size in zip(taken, SIZES, strict=True)]
    print(
        f"{name}: {', '.join(f'{size} nodes {time * 1e3:.0f} ms' for size, time in zip(SIZES, taken, strict=True))}; "
        f"time per node at {SIZES[-1]} over that at {SIZES[0]}: {each[-1] / each[0]:.2f}"
    )


def main() -> None:
    """Print every line."""
    graphs = [chain(size) for size in SIZES]
    compiled = [compile_graph(graph, Family.A16) for graph in graphs]
    machine = machine_of(Family.A16)
    report("price what was compiled", [seconds(lambda one=one: price(work_of(one), machine), RUNS) for one in compiled])
    report("compile and price", [seconds(lambda one=one: af.cost(one, Family.A16), RUNS) for one in graphs])
    report("documented heuristic", [seconds(lambda one=one: af.estimate(one), RUNS) for one in graphs])
    report(
        "placement through Core ML",
        [seconds(lambda one=one: af.placement(one, Family.A16, "coreml"), RUNS) for one in graphs],
    )


if __name__ == "__main__":
    main()
