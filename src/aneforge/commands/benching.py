"""`bench`: how fast the exact engine runs a model on this machine, with the prediction for the chip."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import numpy as np

from aneforge.analysis.cost import price
from aneforge.analysis.machine import machine_of
from aneforge.analysis.work import work_of
from aneforge.commands.feeding import feed_inputs
from aneforge.commands.model_and_targets import chip_of, chosen_targets, label_of, subject_of, with_chip
from aneforge.commands.target_report import latency_of
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import prepare
from aneforge.engine.kernels.library import library, paths, processors
from aneforge.records import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import GraphLike
    from aneforge.ops.types import Array
    from aneforge.report.model import Latency
    from aneforge.targets import TargetLike

__all__ = ["Benchmark", "bench"]

SHARES = (10, 50, 90, 99)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The engine's speed here, and the chip's as it is predicted."""

    model: str
    target: str
    runs: int
    preparing: float
    """Milliseconds from the compiled program to one that is ready."""
    milliseconds: Mapping[str, float]
    """Time of one run: least, p10, p50, p90, p99."""
    per_second: float
    """Runs in a second, at the median."""
    macs_per_second: float
    predicted: Latency
    """Of the chip."""
    kernels: str
    threads: int
    chip: str = ""
    """The chip that was named, else the best known with the target's engine; empty where no chip has it."""

    @property
    def label(self) -> str:
        """The target as users write it."""
        return with_chip(self.target, self.chip)


def bench(
    model: GraphLike | str | os.PathLike[str],
    targets: TargetLike | Iterable[TargetLike] = None,
    inputs: Mapping[str, Array] | None = None,
    *,
    runs: int = 10,
    seed: int = 0,
    shapes: Shapes | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Benchmark, ...]:
    """Run a model several times on the exact engine and return percentiles, with the predicted time of the chip.

    >>> import aneforge as af
    >>> found = bench(af.input((1, 64), name="x").relu(), af.targets.Family.A13, runs=3)
    >>> found[0].runs, found[0].milliseconds["p50"] > 0
    (3, True)

    Raises:
        GraphError: The model cannot be read, or an input has another shape.
        IllegalGraphError: It cannot run on one of the targets.
    """
    subject = subject_of(model, shapes=shapes)
    values, states = feed_inputs(subject.graph, inputs, seed)
    macs = subject.graph.work().macs
    found: list[Benchmark] = []
    for chosen in chosen_targets(targets):
        compiled = compile_graph(subject.graph, chosen.target, route=subject.route(chosen.target))
        began = time.perf_counter()
        ready = prepare(compiled.program)
        preparing = (time.perf_counter() - began) * 1e3
        times: list[float] = []
        values = compiled.feed(values)
        ready.run(values, states)  # the first run sets memory up
        gc.disable()
        try:
            for number in range(runs):
                if progress is not None:
                    progress(f"running on {label_of(chosen)}", number, runs)
                began = time.perf_counter()
                ready.run(values, states)
                times.append((time.perf_counter() - began) * 1e3)
        finally:
            gc.enable()
        shares = dict(zip((f"p{share}" for share in SHARES), np.percentile(times, SHARES).tolist(), strict=True))
        median = shares["p50"] / 1e3
        found.append(
            Benchmark(
                model=subject.name,
                target=chosen.target.name,
                runs=runs,
                preparing=preparing,
                milliseconds={"least": min(times), **shares},
                per_second=1 / median,
                macs_per_second=macs / median,
                predicted=latency_of(price(work_of(compiled), machine_of(chosen))),
                kernels=paths()[0] if library() is not None else "golden model, without kernels",
                threads=processors(),
                chip=chip_of(chosen),
            )
        )
    return tuple(found)
