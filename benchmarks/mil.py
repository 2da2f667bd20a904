"""MIL text: time to read and print a large program, growth with its size, and what happens to weights on the way.

Times are the processor's, so that what else runs on the machine does not count.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.formats.mil.mil_files import write_mil
from aneforge.formats.mil.program import load_mil, parse_mil
from aneforge.formats.mil.text import mil_text
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from shared.timing import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

STATEMENTS = 10_000
BUDGET_READ = 2.0
BUDGET_PRINT = 0.5
WEIGHT_BYTES = 256 << 20
RUNS = 3


def network(statements: int) -> af.Graph:
    """Return a graph that is written as about so many statements: small convolutions, sums, products, activations."""
    weight = Dense(np.ones((8, 8, 1, 1), np.float16))
    x = af.input((1, 8, 4, 4), name="x")
    y = x
    for number in range(statements // 8):
        y = af.Tensor(build("conv", {"x": y, "weight": weight}, {"strides": (1, 1), "dilations": (1, 1)}))
        y = (y * 1.5 + x).relu() if number % 2 else (y + 0.5).tanh() * x
    return af.Graph({"y": y})


def report_text(statements: int) -> float:
    """Print the times for a program, and return that of reading it per statement."""
    graph = network(statements)
    text, blob = mil_text(graph).text, mil_text(graph).weights.tobytes()
    count = text.count("[name = ")
    parsing = seconds(lambda: parse_mil(text, blob), RUNS, process_time)
    reading = seconds(lambda: parse_mil(text, blob).graph(), RUNS, process_time)
    program = parse_mil(text, blob)
    printing = seconds(lambda: str(program), RUNS, process_time)
    writing = seconds(lambda: mil_text(graph).text, RUNS, process_time)
    print(
        f"MIL of {count} statements, {len(text) / 1e6:.1f} MB: parse {parsing:.2f} s, parse and make the graph "
        f"{reading:.2f} s, print {printing:.3f} s, write from the graph {writing:.3f} s"
    )
    if statements == STATEMENTS:
        print(f"  reading: {reading / BUDGET_READ:.0%} of the budget of {BUDGET_READ:.1f} s")
        print(f"  writing: {writing / BUDGET_PRINT:.0%} of the budget of {BUDGET_PRINT:.1f} s")
    return reading / count


def report_weights() -> None:
    """Print the memory that reading and writing large weights takes beyond the weights themselves."""
    values = np.zeros((WEIGHT_BYTES // 2 // 1024, 1024), np.float16)
    x = af.input((1, 1024), name="x")
    graph = af.Graph({"y": af.Tensor(build("linear", {"x": x, "weight": Dense.owning(values)}))})
    with tempfile.TemporaryDirectory() as folder:
        taken = peak_of(lambda: write_mil(graph, folder))
        size = (Path(folder) / "weights.bin").stat().st_size
        read = peak_of(lambda: load_mil(folder).graph())
        duration = seconds(lambda: load_mil(folder).graph(), RUNS, process_time)
    share = max(taken, read) / size
    print(
        f"weights of {size / 2**20:.0f} MiB: writing takes {taken / 2**20:.2f} MiB more memory, reading "
        f"{read / 2**20:.2f} MiB and {duration * 1e3:.1f} ms; copies held at once: {share:.3f}"
    )


def peak_of(action: Callable[[], object]) -> int:
    """Return the largest memory that an action took at once."""
    action()  # what is made once
    tracemalloc.start()
    action()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main() -> None:
    """Print every line."""
    parse_mil(mil_text(network(20)).text, mil_text(network(20)).weights.tobytes()).graph()  # makes the parser once
    per_statement = [report_text(size) for size in (1_000, STATEMENTS, 50_000)]
    print(f"  time per statement at 50,000 over that at 1,000: {per_statement[-1] / per_statement[0]:.2f}")
    report_weights()


if __name__ == "__main__":
    main()
