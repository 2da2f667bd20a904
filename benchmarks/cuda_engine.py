"""The GPU engine: rates of exact products, and of whole networks with many samples at a time, beside the CPU engine.

    python benchmarks/cuda_engine.py            print every figure with its yardstick
    python benchmarks/cuda_engine.py --log benchmarks/results/cuda.tsv    also append them: date, device, driver
    python benchmarks/cuda_engine.py --profile    also print the time of every kernel in the networks

Products are timed by events of the device around graphs that were captured, the least of several; networks by the
host's clock with upload and download, and their bits are compared with the CPU's on two samples. The CPU's own rate
is that of its kernels on two threads of the same machine.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.compiler.compile import build_program
from aneforge.engine.cuda.device import CudaDevice, device_facts
from aneforge.engine.cuda.executable import DeviceExecutable
from aneforge.engine.cuda.plans import Launch, Role
from aneforge.engine.cuda.primitives import Builder
from aneforge.engine.cuda.product_launches import Multiplier
from aneforge.engine.execution.run import prepare
from aneforge.engine.kernels import library
from aneforge.engine.kernels.matmul import matmul
from aneforge.targets import Family

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

from resnet18 import resnet18
from transformer import encoder

if TYPE_CHECKING:
    import numpy.typing as npt

    import aneforge as af

    Array = npt.NDArray[Any]

TARGET = Family.A16
RUNS = 5
PRINTED = 40
"""Rows of a profile."""
CHECKED = 256
"""Rows and columns of a product that are compared with the CPU's."""


def time_product(device: CudaDevice, size: int, x: Array, w: Array) -> tuple[float, int]:
    """Return products per second of a square matrix product, and how many of its results differ from the CPU's."""
    builder = Builder(1, {})
    left, right = (builder.empty((size, size), role=Role.KEPT) for _ in range(2))
    builder.plan.inputs = {"x": left, "w": right}
    builder.plan.outputs = {"y": Multiplier(builder).matmul(left, right)}
    builder.plan.items[:0] = builder.begin()
    loaded: Any = device.load(builder.plan)
    loaded.start({"x": x[None], "w": w[None]})
    outputs, _ = loaded.finish()
    wanted = matmul(x[:CHECKED], np.ascontiguousarray(w[:, :CHECKED]))
    different = int((wanted.view(np.uint16) != outputs["y"][0, :CHECKED, :CHECKED].view(np.uint16)).sum())
    times: list[float] = []
    for _ in range(RUNS):
        begin, end = device.cupy.cuda.Event(), device.cupy.cuda.Event()
        begin.record(loaded.stream)
        for part in loaded.parts:
            part.launch(loaded.stream)
        end.record(loaded.stream)
        end.synchronize()
        times.append(device.cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    loaded.release()
    return size**3 / min(times), different


def profile(device: CudaDevice, machine: DeviceExecutable, samples: int) -> None:
    """Print the time of the kernels of a plan, each launch by itself between two events, the least of several runs."""
    planned, (loaded, *_) = machine.loaded(samples)
    lane: Any = loaded
    launches = [item for item in planned.plan.items if isinstance(item, Launch)]
    least = [float("inf")] * len(launches)
    for _ in range(RUNS):
        events = [device.cupy.cuda.Event() for _ in range(len(launches) + 1)]
        with lane.stream:
            events[0].record(lane.stream)
            for event, launch in zip(events[1:], launches, strict=True):
                lane.launch(launch)
                event.record(lane.stream)
        events[-1].synchronize()
        spans = [device.cupy.cuda.get_elapsed_time(*pair) for pair in pairwise(events)]
        least = [min(pair) for pair in zip(least, spans, strict=True)]
    by_kernel: dict[str, list[float]] = {}
    for launch, span in zip(launches, least, strict=True):
        by_kernel.setdefault(f"{launch.kernel} {launch.grid}", []).append(span)
    print(f"  {sum(least):.2f} ms in {len(launches)} launches, each by itself:")
    for name, spans in sorted(by_kernel.items(), key=lambda item: -sum(item[1]))[:PRINTED]:
        print(f"  {sum(spans):7.3f} ms  {len(spans):4} × {1e3 * sum(spans) / len(spans):7.1f} µs  {name}")


def time_network(
    device: CudaDevice, graph: af.Graph, samples: int, *, profiled: bool = False
) -> tuple[float, float, int]:
    """Return samples per second on the GPU and on the CPU, and how many outputs of two samples differ."""
    ready = prepare(build_program(graph, TARGET))
    machine = DeviceExecutable(ready, device)
    generator = np.random.default_rng(1)
    inputs = {
        port.name: generator.standard_normal((samples, *port.value.type.shape)).astype(np.float16)
        for port in ready.program.inputs
    }
    found = machine.run_many(inputs, {})
    times: list[float] = []
    for _ in range(RUNS):
        start = time.perf_counter()
        machine.run_many(inputs, {})
        times.append(time.perf_counter() - start)
    different, own = 0, list[float]()
    for sample in (0, samples - 1) * RUNS:
        with library.using(threads=2):
            start = time.perf_counter()
            want = ready.run({name: one[sample] for name, one in inputs.items()})
            own.append(time.perf_counter() - start)
        for name, array in want.outputs.items():
            different += int((array.view(np.uint16) != found.outputs[name][sample].view(np.uint16)).sum())
    if machine.on_host:
        print(f"  on the host: {'; '.join(machine.on_host)}")
    if profiled:
        profile(device, machine, samples)
    machine.release()
    return samples / min(times), 1 / min(own), different


def main() -> None:
    """Measure, print, and append to a log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--size", type=int, default=4096)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    device = CudaDevice()
    print(f"{device_facts()}; kernels ready after {time.perf_counter() - start:.1f} s")
    generator = np.random.default_rng(0)
    size = options.size
    figures: list[tuple[str, str, int]] = []
    ordinary = generator.standard_normal((size, size)).astype(np.float16)
    weights = (generator.standard_normal((size, size)) / np.sqrt(size)).astype(np.float16)
    whole = generator.integers(-8, 9, (size, size)).astype(np.float16)
    for name, x, w in (
        ("product, ordinary numbers", ordinary, weights),
        ("product, unit normals", ordinary, ordinary.T.copy()),
        ("product, none dropped", whole, (whole / 16).astype(np.float16)),
        ("product, large numbers", ordinary * np.float16(30), ordinary),
    ):
        rate, different = time_product(device, size, x, w)
        figures.append((f"{name} {size}^3", f"{rate / 1e12:.2f} TMAC/s", different))
        print(*figures[-1], flush=True)
    for name, graph, samples in (("ResNet-18", resnet18(), 64), ("transformer of 12 layers", encoder(), 32)):
        rate, own, different = time_network(device, graph, samples, profiled=options.profile)
        figures.append(
            (f"{name}, {samples} samples", f"{rate:.0f}/s, {rate / own:.0f} times two threads of the CPU", different)
        )
        print(*figures[-1], flush=True)
    if options.log is not None:
        facts = device_facts()
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        with options.log.open("a", encoding="utf-8") as file:
            for name, value, different in figures:
                file.write(
                    "\t".join([day, facts["device"], facts["driver"], facts["cupy"], name, value, str(different)])
                    + "\n"
                )
    sys.exit(any(different for _, _, different in figures))


if __name__ == "__main__":
    main()
