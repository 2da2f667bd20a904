"""Time and memory of reading ONNX models: ResNet-18 against `onnx.load`, and a model of 1 GiB against its size.

Two copies of the weights is what the protobuf library needs (the file, and the message); the importer looks into the
file's bytes. Memory is the peak of a fresh process, less that of one that imports the same modules and reads nothing.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from shared.timing import seconds

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

RUNS = 9
TIME_BUDGET = 2.0
MEMORY_BUDGET = 1.25
LAYERS, WIDTH = 16, 4096
PEAK = """
import resource
from pathlib import Path
import aneforge as af
import onnx
from aneforge.formats.onnx.conversion import graph_of
{statement}
status = Path("/proc/self/status")
if status.exists():  # of this process alone; what getrusage tells there is inherited from the one that started it
    print(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak_bytes(statement: str) -> int:
    """Return the largest memory of a fresh process that runs a statement."""
    program = PEAK.format(statement=statement)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(run.stdout) * 1024


def write_large(path: Path) -> None:
    """Write a chain of matrix products whose weights are 1 GiB, one weight at a time."""
    import numpy as np  # noqa: PLC0415 - only where onnx is installed
    from onnx import TensorProto, helper  # noqa: PLC0415 - as above

    from aneforge.formats.onnx.wire import varint_bytes  # noqa: PLC0415 - as above

    names = ["x", *(f"h{layer}" for layer in range(LAYERS))]
    nodes = [
        helper.make_node("MatMul", [names[layer], f"w{layer}"], [names[layer + 1]], name=f"layer{layer}")
        for layer in range(LAYERS)
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "large", ports[:1], ports[1:]).SerializeToString()
    model = helper.make_model(helper.make_graph([], "", [], []), opset_imports=[helper.make_opsetid("", 20)])
    model.ClearField("graph")
    size = 4 * WIDTH * WIDTH
    heads = [
        TensorProto(name=f"w{layer}", dims=[WIDTH, WIDTH], data_type=TensorProto.FLOAT).SerializeToString()
        + varint_bytes(9 << 3 | 2)
        + varint_bytes(size)
        for layer in range(LAYERS)
    ]
    fields = [varint_bytes(5 << 3 | 2) + varint_bytes(len(head) + size) + head for head in heads]
    total = len(graph) + sum(len(head) + size for head in fields)
    generator = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(model.SerializeToString() + varint_bytes(7 << 3 | 2) + varint_bytes(total) + graph)
        for head in fields:
            file.write(head)
            file.write(generator.random((WIDTH, WIDTH), np.float32).tobytes())


def report_time(folder: Path) -> None:
    """Print the time to read ResNet-18, and its ratio to that of `onnx.load`."""
    import onnx  # noqa: PLC0415 - only where it is installed

    from aneforge.formats.onnx.onnx_model import from_onnx  # noqa: PLC0415 - as above
    from resnet18 import resnet18  # noqa: PLC0415 - as above
    from write_onnx import Writer  # noqa: PLC0415 - as above

    path = folder / "resnet18.onnx"
    path.write_bytes(Writer(resnet18()).model().SerializeToString())
    from_onnx(path)  # reads the tables once
    ours, theirs = seconds(lambda: from_onnx(path), RUNS), seconds(lambda: onnx.load(str(path)), RUNS)  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType] - its stub leaves paths open
    size = path.stat().st_size / 1e6
    print(
        f"ResNet-18 of {size:.0f} MB: import {ours * 1e3:.1f} ms, onnx.load {theirs * 1e3:.1f} ms, "
        f"{ours / theirs:.2f} times as long; budget {TIME_BUDGET:g}"
    )


def report_memory(folder: Path) -> None:
    """Print the peak memory of reading a model of 1 GiB, as a ratio to its size."""
    path = folder / "large.onnx"
    write_large(path)
    size = path.stat().st_size
    base = peak_bytes("pass")
    ours = peak_bytes(f"graph = graph_of({str(path)!r}, None, None)") - base
    theirs = peak_bytes(f"model = onnx.load({str(path)!r})") - base
    print(
        f"model of {size / 2**30:.2f} GiB: import takes {ours / size:.2f} times its size in memory, onnx.load "
        f"{theirs / size:.2f} times; budget {MEMORY_BUDGET:g}"
    )


def main() -> None:
    """Print both lines, or why there are none."""
    if importlib.util.find_spec("onnx") is None:
        print("reading ONNX models is not measured: onnx is not installed (pip install 'aneforge-open[onnx]')")
        return
    with tempfile.TemporaryDirectory() as folder:
        report_time(Path(folder))
        report_memory(Path(folder))


if __name__ == "__main__":
    main()
