"""The exact kernels against float32 BLAS and against the golden model, as ratios in one run on the same threads."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from aneforge.engine import golden
from aneforge.engine.kernels import elements, library
from aneforge.engine.kernels.convolution import convolution, winograd_convolution
from aneforge.engine.kernels.matmul import int8_matmul, matmul

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = npt.NDArray[Any]

RUNS = 9
SIZE = 1024
GOLDEN_SIZE = 512
BLAS_SHARE = 0.35
"""Budget: a product at this share of the speed of float32 BLAS."""
GOLDEN_RATIO = 100
CONVOLUTION_BUDGET = 0.040
MEMORY_BUDGET = 3.0


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of a network: channels in and out, width and height, kernel, stride."""

    inner: int
    outer: int
    extent: int
    kernel: int
    stride: int


LAYERS = [
    Layer(256, 256, 32, 3, 1),
    Layer(3, 64, 224, 7, 2),
    Layer(64, 64, 56, 3, 1),
    Layer(128, 128, 28, 3, 1),
    Layer(128, 256, 28, 3, 2),
    Layer(256, 256, 14, 3, 1),
    Layer(512, 512, 7, 3, 1),
    Layer(256, 512, 14, 1, 1),
]


def seconds(function: Callable[[], object], runs: int = RUNS) -> float:
    """Return the least time of some runs, the first not counted: what the machine can do when it is left alone."""
    function()
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def random(generator: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Return normal numbers in float32."""
    return (generator.standard_normal(shape) * scale).astype(np.float32)


def products(generator: np.random.Generator, threads: str) -> None:
    """Print matrix products on every path, against BLAS: ordinary numbers, and such as need double precision."""
    print(f"{threads}:")
    x, w = random(generator, (SIZE, SIZE)), random(generator, (SIZE, SIZE), 1 / math.sqrt(SIZE))
    for path in library.paths():
        for name, scale in [("ordinary", 1.0), ("large", 500.0)]:
            left, right = (x * scale).astype(np.float16), w.astype(np.float16)
            with library.using(path=path, threads=library.CURRENT.get().threads):
                taken = seconds(partial(matmul, left, right), 1 if path == "portable" else RUNS)
            blas = seconds(partial(np.matmul, x, w))
            share = f", budget {BLAS_SHARE:.0%}" if name == "ordinary" else ""
            print(f"  exact {SIZE}³, {path}, {name} numbers: {taken * 1000:.1f} ms, {blas / taken:.0%} of BLAS{share}")
    bytes_left, bytes_right = generator.integers(-128, 128, (2, SIZE, SIZE)).astype(np.int8)
    taken, blas = seconds(partial(int8_matmul, bytes_left, bytes_right)), seconds(partial(np.matmul, x, w))
    print(
        f"  int8 {SIZE}³: {taken * 1000:.1f} ms, {blas / taken:.0%} of float32 BLAS, which takes {blas * 1000:.1f} ms"
    )


def against_golden(generator: np.random.Generator) -> None:
    """Print how much faster a product is than the golden model."""
    x, w = (random(generator, (GOLDEN_SIZE, GOLDEN_SIZE)).astype(np.float16) for _ in range(2))
    slow = seconds(partial(golden.matmul, x, w), 1)
    for path in library.paths():
        with library.using(path=path):
            ratio = slow / seconds(partial(matmul, x, w))
        print(f"exact {GOLDEN_SIZE}³, {path}: {ratio:.0f} times the golden model, budget {GOLDEN_RATIO}")


def unfolded(x: Array, weight: Array, stride: int, pad: int) -> Array:
    """Return a convolution in float32 as one product of BLAS: what the windows see, copied into columns."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    seen = sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[0, :, ::stride, ::stride]
    places = seen.shape[1:3]
    columns = seen.transpose(0, 3, 4, 1, 2).reshape(-1, places[0] * places[1])
    return (weight.reshape(weight.shape[0], -1) @ columns).reshape(1, weight.shape[0], *places)


def convolutions(generator: np.random.Generator) -> None:
    """Print convolutions of networks against BLAS on unfolded images, direct and by Winograd."""
    for place, layer in enumerate(LAYERS):
        x = np.maximum(random(generator, (1, layer.inner, layer.extent, layer.extent)), 0)
        scale = 1 / math.sqrt(layer.inner * layer.kernel**2)
        weight = random(generator, (layer.outer, layer.inner, layer.kernel, layer.kernel), scale)
        pad = layer.kernel // 2
        images, kernels = x.astype(np.float16), weight.astype(np.float16)
        blas = seconds(partial(unfolded, x, weight, layer.stride, pad))
        taken = seconds(partial(convolution, images, kernels, stride=layer.stride, pad=pad))
        print(f"{layer}: {taken * 1000:.2f} ms, {blas / taken:.0%} of float32 BLAS on unfolded images")
        if layer.kernel == 3 and layer.stride == 1:
            print(f"  by Winograd: {seconds(partial(winograd_convolution, images, kernels)) * 1000:.2f} ms")
        if place == 0:
            print(f"  {taken / CONVOLUTION_BUDGET:.0%} of the budget of {CONVOLUTION_BUDGET * 1000:.0f} ms")


def small_things(generator: np.random.Generator) -> None:
    """Print elements for each second: pairs, tables and conversion."""
    count = 1 << 22
    x, y = (random(generator, (count,)).astype(np.float16) for _ in range(2))
    wide, table = random(generator, (count,)), elements.table_of(np.negative)
    for name, function in {
        "pairs added": partial(elements.add, x, y),
        "numbers looked up": partial(elements.lookup, x, table),
        "numbers rounded from float32": partial(elements.to_fp16, wide),
        "pairs of float32 added by NumPy": partial(np.add, wide, wide),
    }.items():
        print(f"{name}: {count / seconds(function) / 1e9:.2f} in a nanosecond")


PEAK = """
import numpy
from pathlib import Path
from aneforge.engine.kernels.matmul import matmul
from aneforge.engine.kernels.convolution import convolution, winograd_convolution
def status(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
small = numpy.ones((1, 8, 8, 8), numpy.float16)
matmul(small[0, 0], small[0, 0]), winograd_convolution(small, numpy.ones((8, 8, 3, 3), numpy.float16))
before = status("VmRSS")
x, w = {operands}
result = {call}
print((status("VmHWM") - before) / (x.nbytes + w.nbytes + result.nbytes))
"""
SQUARE = "numpy.ones((3072, 3072), numpy.float16), numpy.ones((3072, 3072), numpy.float16)"
FLAT = "numpy.ones((8, 8192), numpy.float16), numpy.ones((8192, 8192), numpy.float16)"
IMAGES = "numpy.ones((1, 1024, 56, 56), numpy.float16), numpy.ones((1024, 1024, 3, 3), numpy.float16)"
MEMORY = {
    "product 3072³": (SQUARE, "matmul(x, w)"),
    "product 8 × 8192 × 8192": (FLAT, "matmul(x, w)"),
    "convolution 3×3, 1,024 channels, 56×56": (IMAGES, "convolution(x, w, pad=1)"),
    "the same by Winograd": (IMAGES, "winograd_convolution(x, w)"),
}


def memory() -> None:
    """Print the memory that calls need at most, tensors included, as a ratio to the tensors, in fresh processes."""
    if not Path("/proc/self/status").exists():
        print("memory: not measured, this system does not say what a process takes")
        return
    for name, (operands, call) in MEMORY.items():
        program = PEAK.format(operands=operands, call=call)
        ratios: list[float] = []
        for _ in range(3):
            run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
            ratios.append(float(run.stdout))
        ratio = statistics.median(ratios)
        print(f"memory of {name}: {ratio:.2f} times the tensors, budget {MEMORY_BUDGET}")


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}


def main() -> None:
    """Print all of it; products first on one thread, in a process whose BLAS has no more either."""
    if not library.available():
        return
    generator = np.random.default_rng(0)
    if "--one-thread" in sys.argv:
        with library.using(threads=1):
            products(generator, "one thread")
        return
    subprocess.run([sys.executable, __file__, "--one-thread"], check=True, env={**os.environ, **ONE_THREAD})
    products(generator, "all threads")
    against_golden(generator)
    convolutions(generator)
    small_things(generator)
    memory()


if __name__ == "__main__":
    main()
