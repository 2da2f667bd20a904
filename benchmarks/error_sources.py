"""Where the error of the example transformers comes from: the exact engine, with some arithmetic replaced by float64.

    python benchmarks/error_sources.py

Every row replaces the arithmetic of some kinds of layers: their results are computed in float64 from the fp16 numbers
that they read, and rounded to fp16 once. What an error falls to is what a perfect arithmetic there would leave; with
`products` that is the floor for every rescaling, since its products cannot be better than exact.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import aneforge as af
from aneforge.compiler.ir.evaluate import evaluate_layer
from aneforge.compiler.ir.layer import Epilogue
from aneforge.engine.execution.layers import Constants, step_of
from aneforge.engine.execution.run_products import PRODUCT_KINDS
from aneforge.engine.execution.values import Values
from aneforge.engine.planar import host_fp16
from aneforge.optimise.rescaling.engine_errors import evaluate_exactly, measure_error

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

from transformer import encoder, vision_transformer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program

Array = npt.NDArray[Any]
TARGETS = ("h13", "h17")
PRODUCTS, ACTIVATIONS = "products", "activations"
ROWS = (
    ("the engine as it is", frozenset[str]()),
    ("products", frozenset({PRODUCTS})),
    ("GELU", frozenset({ACTIVATIONS})),
    ("softmax", frozenset({"softmax"})),
    ("layer norm", frozenset({"layer_norm"})),
    ("all but products", frozenset({ACTIVATIONS, "softmax", "layer_norm"})),
    ("all of them: every tensor rounded once", frozenset({PRODUCTS, ACTIVATIONS, "softmax", "layer_norm"})),
)


@dataclass(frozen=True)
class Part:
    """A layer, or what is left of it without the activation after it, or that activation alone."""

    layer: Layer
    kind: str


def parts_of(layer: Layer) -> list[Part]:
    """Return a layer apart from the activation in its slot, which works on fp16 as one of its own does."""
    kind = PRODUCTS if layer.kind.name in PRODUCT_KINDS else layer.kind.name
    activation = layer.epilogue.post_activation
    if activation is None:
        return [Part(layer, kind)]
    plain = replace(layer, epilogue=replace(layer.epilogue, post_activation=None))
    (result,) = layer.results
    alone = replace(
        layer,
        kind=activation.kind,
        attributes=activation.attributes,
        operands={activation.kind.flowing: result, **activation.operands},
        epilogue=Epilogue(),
    )
    return [Part(plain, kind), Part(alone, ACTIVATIONS)]


def outputs_of(program: Program, inputs: Mapping[str, Array], exact: frozenset[str]) -> dict[str, Array]:
    """Run a program, the kinds in `exact` in float64 and rounded once, all others on the engine."""
    values, constants = Values(), Constants()
    for port in program.inputs:
        values.arrays[port.value.name] = host_fp16(inputs[port.name])
    for layer in program.layers:
        for part in parts_of(layer):
            if part.kind in exact:
                wide = {value.name: values.arrays[value.name].astype(np.float64) for value in part.layer.bottoms}
                results = tuple(map(host_fp16, evaluate_layer(part.layer, wide)))
            else:
                results, _ = step_of(part.layer, program, constants).run(values)
            values.arrays.update({one.name: array for one, array in zip(layer.results, results, strict=True)})
    return {port.name: values.arrays[port.value.name] for port in program.outputs}


def main() -> None:
    """Print a table for both transformers."""
    print(f"| float64 and one rounding | {' | '.join(f'{name}, {one}' for name in NETWORKS for one in TARGETS)} |")
    print(f"| --- |{' --- |' * len(NETWORKS) * len(TARGETS)}")
    cells: dict[str, list[str]] = {name: [] for name, _ in ROWS}
    start = time.perf_counter()
    for graph in NETWORKS.values():
        random = np.random.default_rng(2)
        inputs = {
            name: random.standard_normal(node.types[0].shape).astype(np.float16) for name, node in graph.inputs.items()
        }
        wanted = evaluate_exactly(graph, inputs)
        for target in TARGETS:
            program = af.build_program(graph, target)
            whole = af.run(program, inputs).outputs
            for name, exact in ROWS:
                found = outputs_of(program, inputs, exact)
                if not exact and any(found[one].tobytes() != whole[one].tobytes() for one in whole):
                    raise SystemExit(f"layers apart do not give the bits of the program for {target}")
                cells[name].append(" ".join(f"{measure_error(found[one], wanted[one]):.3%}" for one in wanted))
    for name, row in cells.items():
        print(f"| {name} | {' | '.join(row)} |")
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)


NETWORKS = {"encoder": encoder(), "vision transformer": vision_transformer()}

if __name__ == "__main__":
    main()
