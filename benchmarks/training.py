"""Training: a step against torch in float32, building and compiling gradients, memory, and stacks of layers.

    python benchmarks/training.py

Times are the least of several runs, in one process and with as many threads for both. Memory is what NumPy
allocates at most during a step (tracemalloc); what it is compared with is every tensor of the forward pass in fp16 and
the parameters and moments in float32.
"""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

import aneforge as af
from aneforge import streaming
from aneforge.engine.kernels.library import using
from aneforge.train.step_programs import build_programs

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "training"))

from mnist_parity import BATCH, Images, build_trainer

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
TURNS = 30
WARMING = 2
"""Runs that are not counted: threads wake up, caches fill."""
SPINNING = 0.3
"""Seconds after which the threads of another library sleep."""
TARGET = "m1"


def images() -> Images:
    """Return noise in the form of the experiment's images: times do not depend on what they show."""
    random = np.random.default_rng(0)
    return Images(random.integers(0, 256, (1000, 784), dtype=np.uint8), random.integers(0, 10, 1000))


def torch_step() -> Callable[[], None]:
    """Return a step of the same network in torch, float32, eager."""
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, bias=False), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(1352, 10)
    )
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    x, labels = torch.rand(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(network(x), labels).backward()  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
        optimizer.step()  # pyright: ignore[reportUnknownMemberType] - as above

    return step


def least(*calls: Callable[[], object], runs: int = TURNS, threads: int = 1) -> list[float]:
    """Return the shortest time of every call in seconds, the first ones not counted.

    On one thread it is the processor's time, in turns. On several threads each call has its runs in a row: threads of
    torch spin for a while when they are done, and would take a processor from whoever is next.
    """
    if threads == 1:
        taken = [[timed(call, time.process_time) for call in calls] for _ in range(runs + WARMING)]
        return [min(times) for times in zip(*taken[WARMING:], strict=True)]
    best: list[float] = []
    for call in calls:
        time.sleep(SPINNING)
        best.append(min([timed(call, time.perf_counter) for _ in range(runs + WARMING)][WARMING:]))
    return best


def timed(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return how long one run takes."""
    start = clock()
    call()
    return clock() - start


def compare_steps(trainer: af.Trainer) -> None:
    """Print the ratio of a step to torch's, on one thread and on one for each processor."""
    for threads in dict.fromkeys((1, os.cpu_count() or 1)):
        torch.set_num_threads(threads)
        with using(threads=threads):
            ours, theirs = least(trainer.step, torch_step(), threads=threads)
        print(
            f"a step of the parity network, batch {BATCH}, threads {threads}: {1e3 * ours:.1f} ms, torch float32 "
            f"{1e3 * theirs:.1f} ms: {ours / theirs:.1f} times (at most 10, goal 5)"
        )


def measure_building(trainer: af.Trainer) -> None:
    """Print how long building and compiling the programs of a step takes."""

    def build() -> None:
        build_programs(trainer.objective, trainer.parameters, 1024.0, TARGET, None).release()

    print(f"backward built and compiled, forward compiled: {least(build, runs=5)[0]:.2f} s (at most 1.5)")


def chain(length: int) -> tuple[af.Tensor, af.Tensor]:
    """Return a loss that is so many operations away from its parameter."""
    x = first = af.input((1, 8))
    for place in range(length):
        x = x.tanh() if place % 2 else x * 1.01
    return x.sum(), first


def measure_gradients() -> None:
    """Print how long the gradients of long chains take to build, per node."""
    for length in (100, 1000, 10_000):
        loss, first = chain(length)
        (seconds,) = least(partial(af.backward, loss, [first]), runs=3)
        print(f"gradients of {length:,} nodes: {seconds:.2f} s, {1e6 * seconds / length:.0f} µs a node")


def measure_memory(trainer: af.Trainer) -> None:
    """Print the most that a step allocates."""
    trainer.step()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    trainer.step()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    activations = sum(2 * kind.size for node in trainer.programs.forward.graph.nodes for kind in node.types)
    kept = sum(3 * one.value.nbytes for one in trainer.parameters)
    print(
        f"a step allocates {peak / 1e6:.1f} MB at most; activations {activations / 1e6:.1f} MB, parameters and moments "
        f"{kept / 1e6:.1f} MB: {peak / (activations + kept):.2f} times (at most 2.5)"
    )


def measure_stacks() -> None:
    """Print what stacks of 4 and 64 layers cost."""
    places, width = 64, 128
    random = np.random.default_rng(0)
    x = random.standard_normal((places, width)).astype(np.float16)

    def layer(params: list[af.Tensor], inner: af.Tensor) -> af.Tensor:
        return inner + (inner @ params[0]).tanh() @ params[1]

    for depth in (4, 64):
        layers = [
            [random.standard_normal(shape) / 16 for shape in ((width, 4 * width), (4 * width, width))]
            for _ in range(depth)
        ]
        start = time.process_time()
        stack = streaming.CheckpointedStack(layer, layers[0], (places, width), target=TARGET)
        compiled = time.process_time() - start
        stack.forward(layers[:1], x)
        tracemalloc.start()
        _, inputs = stack.forward(layers, x)
        kept = sum(one.nbytes for one in inputs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"a stack of {depth} layers: {len(stack.programs)} programs, compiled in {compiled:.2f} s; the forward "
            f"pass allocates {peak / 1e6:.2f} MB, of which inputs of layers {kept / 1e6:.2f} MB"
        )


def main() -> None:
    """Print every figure."""
    os.environ["ANEFORGE_CACHE_BYTES"] = "0"  # what is compiled is not found in the cache
    warnings.simplefilter("ignore")
    trainer = build_trainer(images(), TARGET, 1024)
    compare_steps(trainer)
    measure_building(trainer)
    measure_memory(trainer)
    measure_gradients()
    measure_stacks()


if __name__ == "__main__":
    main()
