"""Time from a graph to a legal program, for one target and for all; growth with the number of layers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.targets import group

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

from resnet18 import resnet18
from shared.timing import seconds
from transformer import encoder

TARGET = "h16g"
BUDGET_RESNET = 0.100
SIZES = (1_000, 10_000)


def chain(layers: int) -> af.Graph:
    """Return convolutions with bias and activation, every third joined with what was before: that many layers."""
    weight = Dense(np.full((8, 8, 1, 1), 0.125, np.float16))
    bias = Dense(np.ones(8, np.float16))
    y = af.input((1, 8, 16, 16))
    for number in range(layers):
        following = y if number % 3 == 2 else Tensor(build("conv", {"x": y, "weight": weight, "bias": bias}))
        y = following + y.relu() if following is y else following.relu()
    return af.Graph({"y": y})


def report(name: str, graph: af.Graph, runs: int) -> float:
    """Print and return the time to compile a graph for one target, and print it for all that run MIL programs."""
    every = [target for target in group("all") if target.limits.get("mil_programs") is True]
    layers = len(build_program(graph, TARGET).layers)
    one = seconds(lambda: build_program(graph, TARGET), runs)
    line = f"{name}: {len(graph.nodes)} nodes, {layers} layers; one target {one * 1e3:.1f} ms"
    if runs > 1:
        several = seconds(lambda: [build_program(graph, target) for target in every], 1)
        line += f", all {len(every)} {several * 1e3:.0f} ms"
    print(line)
    return one


def main() -> None:
    """Print every line."""
    one = report("ResNet-18", resnet18(), 5)
    print(f"  one target: {one / BUDGET_RESNET:.0%} of the budget of {BUDGET_RESNET * 1e3:.0f} ms")
    report("transformer encoder", encoder(), 5)
    per_layer = [report(f"synthetic {size}", chain(size), 1) / size for size in SIZES]
    print(f"  time per layer, {SIZES[-1]} over {SIZES[0]}: {per_layer[-1] / per_layer[0]:.2f} (1 is linear)")


if __name__ == "__main__":
    main()
