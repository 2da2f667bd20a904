"""Time to emit a program as a compiled container beyond the time to compile it: weights of a ResNet-18.

The network has the stages, widths and blocks of a ResNet-18 on maps of 56x56; what has no known program (a 7x7 kernel,
pooling, 3x3 kernels with a stride) is a 3x3 kernel or a 1x1 kernel with a stride, so that all of it is one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.compiler.compile import compile_graph
from aneforge.formats.hwx.write_hwx import write_bytes
from aneforge.runtime.hwx.emit_program import emit_compiled
from shared.timing import seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUDGET = 0.300
RUNS = 5


DRAWN = np.random.default_rng(0)


def weights(*shape: int) -> NDArray[np.float16]:
    """Return weights of a shape."""
    return (DRAWN.standard_normal(shape) / 32).astype(np.float16)


def network() -> af.Graph:
    """Return a network with the weights of a ResNet-18."""
    y = af.conv(af.input((1, 16, 56, 56), name="x"), weights(64, 16, 3, 3), bias=weights(64), pad=1).relu()
    for stage, channels in enumerate((64, 128, 256, 512)):
        if stage:
            y = af.conv(y, weights(channels, channels // 2, 1, 1), bias=weights(channels), stride=2)
        for _ in range(2):
            z = af.conv(y, weights(channels, channels, 3, 3), bias=weights(channels), pad=1).relu()
            z = af.conv(z, weights(channels, channels, 3, 3), bias=weights(channels), pad=1)
            y = (y + z).relu()
    return af.Graph({"y": y.mean((2, 3)).reshape((1, 512)).linear(weights(1000, 512), weights(1000))})


def main() -> None:
    """Print the times and their ratio."""
    graph = network()
    compiled = compile_graph(graph, "m1")
    made = emit_compiled(compiled)
    size = sum(section.size for section in made.files[0].container.constants.values())
    scheduled = seconds(lambda: compile_graph(graph, "m1").schedule, RUNS)
    emitted = seconds(lambda: emit_compiled(compiled), RUNS)
    written = seconds(lambda: write_bytes(made.files[0].container), RUNS)
    tasks = len(made.files[0].layers)
    print(
        f"{len(compiled.program.layers)} layers, {tasks} tasks, {size / 1e6:.1f} MB of constants, whole: {made.whole}"
    )
    print(f"compile and schedule {scheduled * 1e3:.0f} ms")
    print(
        f"emit                 {emitted * 1e3:.0f} ms, {emitted / scheduled:.2f} of that (budget {BUDGET * 1e3:.0f} ms)"
    )
    print(f"write                {written * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
