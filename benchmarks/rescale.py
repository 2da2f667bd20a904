"""Rescaling: the exact engine's error before and after, and the layers that it costs.

    python benchmarks/rescale.py              the table of the documentation
    python benchmarks/rescale.py --norms      small transformers whose inputs are of all sizes
    python benchmarks/rescale.py --networks   the example networks, which takes minutes

Inputs of the last two columns were seen neither when factors were chosen nor when they were accepted.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import aneforge as af
from aneforge.optimise.rescaling.engine_errors import GraphErrors, evaluate_exactly
from aneforge.targets import resolve

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

from resnet18 import resnet18
from transformer import Norm, encoder, layer_norm, rms_norm, vision_transformer

Array = npt.NDArray[Any]
DEPTHS = (256, 512, 1024, 2048, 4096, 8192)
PLACES = 2048
TARGETS = ("h13", "h16", "h17")
DEVIATIONS = (0.0001, 0.002, 0.02, 1.0, 16.0, 60.0)
"""Of what enters a transformer: embeddings are about 0.02, the residual stream of deep language models tens."""


@dataclass(frozen=True)
class Case:
    """A graph and the size of its inputs, which are normally distributed."""

    name: str
    graph: af.Graph
    deviation: float = 1.0

    def inputs(self, seed: int) -> dict[str, Array]:
        """Draw a set of inputs."""
        random = np.random.default_rng(seed)
        return {
            name: (random.standard_normal(node.types[0].shape) * self.deviation).astype(np.float16)
            for name, node in self.graph.inputs.items()
        }


def linear(depth: int) -> Case:
    """Return a linear layer whose operands are both scaled by the root of its length."""
    weight = np.random.default_rng(depth).standard_normal((256, depth)) / np.sqrt(depth)
    graph = af.Graph({"y": af.input((32, depth), name="x").linear(weight.astype(np.float16))})
    return Case(f"linear, K = {depth}", graph, depth**-0.5)


def attention(width: int = 64) -> Case:
    """Return attention over a long sequence: probabilities of about 1/2048 times values."""
    random = np.random.default_rng(1)
    weights = [
        drawn.astype(np.float16)
        for _ in range(4)
        for drawn in (random.standard_normal((width, width)) / np.sqrt(width), random.standard_normal(width) * 0.01)
    ]
    graph = af.Graph({"y": af.mha(af.input((PLACES, width), name="x"), *weights, n_heads=2)})
    return Case(f"attention, S = {PLACES}", graph)


def transformer(norm: Norm, deviation: float) -> Case:
    """Return a transformer of four layers whose inputs have a size."""
    graph = encoder(length=64, width=256, layers=4, heads=4, norm=norm)
    return Case(f"transformer, {norm.__name__}, inputs of {deviation:g}", graph, deviation)


def cases(asked: list[str]) -> list[Case]:
    """Return what is measured."""
    if "--norms" in asked:
        return [transformer(norm, deviation) for norm in (layer_norm, rms_norm) for deviation in DEVIATIONS]
    if "--networks" in asked:
        return [
            Case("transformer encoder", encoder()),
            Case("vision transformer", vision_transformer()),
            Case("ResNet-18", resnet18()),
        ]
    return [*map(linear, DEPTHS), attention()]


def main() -> None:
    """Print a row for every graph and target."""
    print("| graph | target | products rescaled | layers | error | rescaled | unseen inputs | rescaled | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in cases(sys.argv[1:]):
        for target in TARGETS:
            start = time.perf_counter()
            found = af.rescale(case.graph, inputs=case.inputs(seed=2), target=target)
            seconds = time.perf_counter() - start
            unseen = case.inputs(seed=3)
            exact = [evaluate_exactly(case.graph, unseen)]
            graphs = (case.graph, found.graph)
            before, after = (GraphErrors.measure(graph, resolve(target), [unseen], exact) for graph in graphs)
            (output,) = found.outputs
            print(
                f"| {case.name} | {target} | {len(found.applied)} of {len(found.products)} "
                f"| {found.layers_before} → {found.layers_after} | {output.before:.3%} | {output.after:.3%} "
                f"| {before.errors[output.name][0]:.3%} | {after.errors[output.name][0]:.3%} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
