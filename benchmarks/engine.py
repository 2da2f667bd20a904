"""The exact engine against float32 and against the golden model, as ratios in one run on the same threads.

    python benchmarks/engine.py            print every figure with its budget, and what the committed run had
    python benchmarks/engine.py --write    also write the figures to benchmarks/results/engine.json
    python benchmarks/engine.py --profile  print which kinds of layers of the networks take the time, and nothing else

A figure is the least time of some runs, ours and theirs by turns, so that both meet the same machine.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from aneforge.compiler.compile import build_program
from aneforge.engine import golden
from aneforge.engine.execution.layers import Notes
from aneforge.engine.execution.run import prepare
from aneforge.engine.execution.values import Values
from aneforge.engine.kernels import elements, library
from aneforge.engine.kernels.convolution import convolution, winograd_convolution
from aneforge.engine.kernels.matmul import int8_matmul, matmul
from aneforge.targets import Family

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from transformer import encoder
from unet import unet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import aneforge as af

Array = npt.NDArray[Any]
RESULTS = Path(__file__).parent / "results" / "engine.json"
RUNS = 9
SIZE = 1024
GOLDEN_SIZE = 512
TARGET = Family.A16
ONNX_IR = 10
"""A version of the ONNX file format that every runtime in use reads."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured, and what it must at least or at most be."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    more_is_better: bool = False

    @property
    def met(self) -> bool:
        """True if the budget is kept."""
        if self.budget is None:
            return True
        return self.value >= self.budget if self.more_is_better else self.value <= self.budget

    def __str__(self) -> str:
        sign = "at least" if self.more_is_better else "at most"
        budget = "" if self.budget is None else f", budget {sign} {self.budget:g}{'' if self.met else ': NOT MET'}"
        return f"{self.name}: {self.value:.3g} {self.unit}{budget}"


SPINNING = 0.3
"""Seconds after which the threads of another library sleep."""
WARMING = 2
"""Runs that are not counted: threads wake up, caches fill."""


def seconds(*functions: Callable[[], object], runs: int = RUNS) -> list[float]:
    """Return the least time of some runs of each function, the first ones not counted.

    On one thread it is the processor's time, which others on the machine do not lengthen, and functions take turns. On
    several threads each function has its runs in a row: those of BLAS and of onnxruntime spin for a while when they are
    done, and would take a processor from whoever is next.
    """
    if library.CURRENT.get().threads == 1:
        taken = [[timed(function, time.process_time) for function in functions] for _ in range(runs + 1)]
        return [min(times) for times in zip(*taken[1:], strict=True)]
    best: list[float] = []
    for function in functions:
        time.sleep(SPINNING)
        best.append(min([timed(function, time.perf_counter) for _ in range(runs + WARMING)][WARMING:]))
    return best


def timed(function: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return how long one run takes."""
    start = clock()
    function()
    return clock() - start


def random(generator: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Return normal numbers in float32."""
    return (generator.standard_normal(shape) * scale).astype(np.float32)


# Products.


def products(generator: np.random.Generator, threads: str) -> Iterator[Figure]:
    """Compare matrix products on the best path with BLAS: ordinary numbers, such as need double precision, bytes."""
    x, w = random(generator, (SIZE, SIZE)), random(generator, (SIZE, SIZE), 1 / math.sqrt(SIZE))
    for name, scale, budget in [("ordinary", 1.0, 0.35), ("large", 500.0, 0.6)]:
        left, right = (x * scale).astype(np.float16), w.astype(np.float16)
        taken, blas = seconds(partial(matmul, left, right), partial(np.matmul, x, w))
        yield Figure(f"exact {SIZE}³, {name} numbers, {threads}", blas / taken, "of BLAS", budget, more_is_better=True)
    first, second = generator.integers(-128, 128, (2, SIZE, SIZE)).astype(np.int8)
    taken, blas = seconds(partial(int8_matmul, first, second), partial(np.matmul, x, w))
    yield Figure(f"int8 {SIZE}³, {threads}", blas / taken, "of float32 BLAS", more_is_better=True)


def against_golden(generator: np.random.Generator) -> Iterator[Figure]:
    """Compare a product with the golden model."""
    x, w = (random(generator, (GOLDEN_SIZE, GOLDEN_SIZE)).astype(np.float16) for _ in range(2))
    (slow,) = seconds(partial(golden.matmul, x, w), runs=1)
    (fast,) = seconds(partial(matmul, x, w))
    yield Figure(f"exact {GOLDEN_SIZE}³", slow / fast, "times the golden model", 100, more_is_better=True)


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of a network: channels in and out, width and height, kernel, stride."""

    inner: int
    outer: int
    extent: int
    kernel: int
    stride: int

    def __str__(self) -> str:
        size = f"[1, {self.inner}, {self.extent}, {self.extent}]"
        return f"{self.kernel}×{self.kernel} to {self.outer} of {size}, stride {self.stride}"


SEED_LAYER = Layer(256, 256, 32, 3, 1)
LAYERS = [
    SEED_LAYER,
    Layer(3, 64, 224, 7, 2),
    Layer(64, 64, 56, 3, 1),
    Layer(128, 128, 28, 3, 1),
    Layer(128, 256, 28, 3, 2),
    Layer(256, 256, 14, 3, 1),
    Layer(512, 512, 7, 3, 1),
    Layer(256, 512, 14, 1, 1),
]


def unfolded(x: Array, weight: Array, stride: int, pad: int) -> Array:
    """Return a convolution in float32 as one product of BLAS: what the windows see, copied into columns."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    seen = sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[0, :, ::stride, ::stride]
    places = seen.shape[1:3]
    columns = seen.transpose(0, 3, 4, 1, 2).reshape(-1, places[0] * places[1])
    return (weight.reshape(weight.shape[0], -1) @ columns).reshape(1, weight.shape[0], *places)


def convolutions(generator: np.random.Generator) -> Iterator[Figure]:
    """Compare convolutions of networks with BLAS on unfolded images, direct and by Winograd."""
    for layer in LAYERS:
        x = np.maximum(random(generator, (1, layer.inner, layer.extent, layer.extent)), 0)
        scale = 1 / math.sqrt(layer.inner * layer.kernel**2)
        weight = random(generator, (layer.outer, layer.inner, layer.kernel, layer.kernel), scale)
        pad = layer.kernel // 2
        images, kernels = x.astype(np.float16), weight.astype(np.float16)
        taken, blas = seconds(
            partial(convolution, images, kernels, stride=layer.stride, pad=pad),
            partial(unfolded, x, weight, layer.stride, pad),
        )
        square = layer.kernel == 3 and layer.stride == 1
        yield Figure(str(layer), blas / taken, "of BLAS", 0.35 if square else None, more_is_better=True)
        if layer is SEED_LAYER:
            yield Figure(f"{layer}, time", taken * 1000, "ms", 40)
        if square:
            (winograd,) = seconds(partial(winograd_convolution, images, kernels))
            yield Figure(f"{layer}, by Winograd", winograd / taken, "times the direct one's time")


def small_things(generator: np.random.Generator) -> Iterator[Figure]:
    """Count elements for each second: pairs, tables and conversion."""
    count = 1 << 22
    x, y = (random(generator, (count,)).astype(np.float16) for _ in range(2))
    values, table = random(generator, (count,)), elements.table_of(np.negative)
    for name, function in {
        "pairs added": partial(elements.add, x, y),
        "numbers looked up": partial(elements.lookup, x, table),
        "numbers rounded from float32": partial(elements.to_fp16, values),
    }.items():
        (taken,) = seconds(function)
        yield Figure(name, count / taken / 1e9, "in a nanosecond", more_is_better=True)


# Whole programs.


@dataclass(frozen=True, slots=True)
class Network:
    """A network, and how many times the time of onnxruntime it may take: on one thread and on several."""

    name: str
    graph: Callable[[], af.Graph]
    alone: float
    together: float


NETWORKS = [
    Network("ResNet-18", resnet18, 1.5, 1.8),
    Network("transformer of 12 layers", encoder, 2.2, 2.2),
    # Half of what the engine had before depthwise convolutions had a kernel: 5.54, and on two threads 6.66, which was
    # measured of that engine later, on another machine.
    Network("MobileNetV2", mobilenet_v2, 2.77, 3.33),
    Network("U-Net", unet, 2.5, 2.5),
]
BATCH = 8


def whole_programs(threads: int) -> Iterator[Figure]:
    """Compare compiled networks with onnxruntime in float32."""
    if find_spec("onnxruntime") is None:
        print("networks: not measured, onnxruntime is not installed (pip install 'aneforge-open[bench]')")
        return
    many = "one thread" if threads == 1 else f"{threads} threads"
    for network in NETWORKS:
        graph = network.graph()
        ours = run_of(graph)
        theirs = partial(session_of(graph, threads), feeds_of(graph))
        with library.using(threads=threads):
            taken, other = seconds(ours, theirs)
        budget = network.alone if threads == 1 else network.together
        yield Figure(f"{network.name}, {many}", taken / other, "times onnxruntime's float32", budget)
        yield Figure(f"{network.name}, {many}, time", taken * 1000, "ms")
    with library.using(threads=threads):
        one, several = seconds(run_of(resnet18()), run_of(resnet18(batch=BATCH)))
    yield Figure(
        f"ResNet-18, {BATCH} images at a time, {many}", several / BATCH / one, "times one alone, for each", 1.0
    )


def feeds_of(graph: af.Graph) -> dict[str, npt.NDArray[np.float32]]:
    """Return normal numbers for every input of a network."""
    generator = np.random.default_rng(1)
    return {name: random(generator, node.types[0].shape) for name, node in graph.inputs.items()}


def run_of(graph: af.Graph) -> Callable[[], object]:
    """Return a run of a network on the exact engine."""
    return partial(prepare(build_program(graph, TARGET)).run, feeds_of(graph))


def profile(network: Network, threads: int) -> Iterator[str]:
    """Tell which kinds of layers take the time of a network: the least of some runs of each layer."""
    ready = prepare(build_program(network.graph(), TARGET))
    feeds = feeds_of(network.graph())
    least: dict[str, float] = {}
    with library.using(threads=threads):
        for _ in range(RUNS + WARMING):
            values = Values({port.value.name: feeds[port.name].astype(np.float16) for port in ready.program.inputs})
            for step in ready.steps:
                operands = {name: step.operand(name, one, values) for name, one in step.layer.operands.items()}
                start = time.perf_counter()
                results = step.compute(operands, Notes())
                taken = time.perf_counter() - start
                least[step.layer.name] = min(least.get(step.layer.name, math.inf), taken)
                values.arrays |= {one.name: array for one, array in zip(step.layer.results, results, strict=True)}
    kinds: dict[str, list[float]] = {}
    for step in ready.steps:
        slots = "".join(f" + {stage.kind.name}" for _, stage in step.layer.epilogue.stages)
        kinds.setdefault(step.layer.kind.name + slots, []).append(least[step.layer.name])
    total = sum(least.values())
    yield f"{network.name}, threads: {threads}, all layers: {total * 1000:.1f} ms"
    for kind, times in sorted(kinds.items(), key=lambda one: -sum(one[1])):
        yield f"  {sum(times) / total:6.1%} {sum(times) * 1000:8.2f} ms  {len(times):4} × {kind}"


def session_of(graph: af.Graph, threads: int) -> Callable[[dict[str, npt.NDArray[np.float32]]], object]:
    """Return the same network in onnxruntime, float32, on so many threads."""
    from write_onnx import Writer  # noqa: PLC0415 - it needs onnx

    model = Writer(graph).model()
    model.ir_version = ONNX_IR
    onnxruntime: Any = import_module("onnxruntime")  # it has no types
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return partial(session.run, None)


# Memory, in fresh processes.

STATUS = """
import sys, numpy
from pathlib import Path
def status(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
"""
CALL = """
from aneforge.engine.kernels.matmul import matmul
from aneforge.engine.kernels.convolution import convolution, winograd_convolution
small = numpy.ones((1, 8, 8, 8), numpy.float16)
matmul(small[0, 0], small[0, 0]), winograd_convolution(small, numpy.ones((8, 8, 3, 3), numpy.float16))
before = status("VmRSS")
x, w = {operands}
result = {call}
print((status("VmHWM") - before) / (x.nbytes + w.nbytes + result.nbytes))
"""
NETWORK = """
sys.path.insert(0, {examples!r})
import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import prepare
from resnet18 import resnet18
image = af.input((1, 3, 32, 32), name="image")
# A network with few weights: the memory of many, freed again, would be taken for the next one's.
tiny = af.conv(image, numpy.ones((8, 3, 3, 3)), pad=1).relu().max_pool(2).mean((2, 3))
prepare(build_program(tiny, af.targets.Family.A16)).run({{"image": numpy.zeros((1, 3, 32, 32))}})
before = status("VmRSS")
program = build_program(resnet18(), af.targets.Family.A16)
ready = prepare(program)
for _ in range(2):
    values = ready.run({{"image": numpy.zeros((1, 3, 224, 224))}})
weights = sum(constant.nbytes for constant in program.constants.values())
largest = max(sum(value.type.nbytes for value in (*layer.bottoms, *layer.results)) for layer in program.layers)
print((status("VmHWM") - before) / (weights + largest))
"""
SQUARE = "numpy.ones((3072, 3072), numpy.float16), numpy.ones((3072, 3072), numpy.float16)"
FLAT = "numpy.ones((8, 8192), numpy.float16), numpy.ones((8192, 8192), numpy.float16)"
IMAGES = "numpy.ones((1, 1024, 56, 56), numpy.float16), numpy.ones((1024, 1024, 3, 3), numpy.float16)"
EXAMPLES = str(Path(__file__).parent.parent / "examples" / "networks")
MEMORY = {
    "product 3072³": CALL.format(operands=SQUARE, call="matmul(x, w)"),
    "product 8 × 8192 × 8192": CALL.format(operands=FLAT, call="matmul(x, w)"),
    "convolution 3×3, 1,024 channels, 56×56": CALL.format(operands=IMAGES, call="convolution(x, w, pad=1)"),
    "the same by Winograd": CALL.format(operands=IMAGES, call="winograd_convolution(x, w)"),
    "ResNet-18, weights and the largest layer": NETWORK.format(examples=EXAMPLES),
}


def memory() -> Iterator[Figure]:
    """Compare the memory that calls need at most, tensors included, with the tensors."""
    if not Path("/proc/self/status").exists():
        print("memory: not measured, this system does not say what a process takes")
        return
    for name, program in MEMORY.items():
        ratios: list[float] = []
        for _ in range(3):
            command = [sys.executable, "-c", STATUS + program]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            ratios.append(float(run.stdout))
        yield Figure(f"memory of {name}", statistics.median(ratios), "times the tensors", 3.0)


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}


def on_one_thread() -> list[Figure]:
    """Return the figures of one thread, from a process whose BLAS has no more either."""
    command = [sys.executable, __file__, "--one-thread"]
    run = subprocess.run(command, check=True, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True)
    return [Figure(**found) for found in json.loads(run.stdout)]


def shown(figures: list[Figure], before: dict[str, float]) -> None:
    """Print figures, and what the committed run had."""
    for figure in figures:
        past = before.get(figure.name)
        print(figure if past is None else f"{figure} (committed {past:.3g})")


def main() -> None:
    """Measure everything, print it, and write it if asked to."""
    if not library.available():
        return
    generator = np.random.default_rng(0)
    if "--profile" in sys.argv:
        for network in NETWORKS:
            for threads in sorted({1, library.processors()}):
                print(*profile(network, threads), sep="\n")
        return
    if "--one-thread" in sys.argv:
        with library.using(threads=1):
            figures = [*products(generator, "one thread"), *whole_programs(1)]
        print(json.dumps([asdict(figure) for figure in figures]))
        return
    alone = on_one_thread()
    figures = list(alone)
    for part in (products(generator, "all threads"), against_golden(generator), convolutions(generator)):
        figures += part
    figures += [*small_things(generator), *whole_programs(library.processors()), *memory()]
    committed = [Figure(**one) for one in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
    shown(figures, {one.name: one.value for one in committed})
    missed = [figure.name for figure in figures if not figure.met]
    print(f"{len(missed)} budgets not met{': ' if missed else ''}{', '.join(missed)}")
    busy = os.getloadavg()[0] > 2 * library.processors()
    if busy:
        print(
            "the machine is busy with other work: figures of several threads mean little; only those of one are written"
        )
        names = {figure.name for figure in alone}
        figures = [*alone, *(one for one in committed if one.name not in names)]
    if "--write" in sys.argv:
        RESULTS.parent.mkdir(exist_ok=True)
        unfinished = RESULTS.with_suffix(".unfinished")
        unfinished.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n", encoding="utf-8")
        unfinished.replace(RESULTS)


if __name__ == "__main__":
    main()
