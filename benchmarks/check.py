"""Time of `aneforge check` on a ResNet-18 file for every target, process start included, beside that of onnxruntime.

Both are measured in the same run, in turns, each in fresh processes: the command as a user starts it, and a process
that creates an onnxruntime session of the same file. Processor time is printed too, for machines that do other things.
Before it, `aneforge --help` and `aneforge explain` of one subject of every kind, each in fresh processes. `--large`
measures checks of large networks instead, which takes minutes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import aneforge as af
from aneforge.commands.checking import CheckOptions, check
from aneforge.graph.node import build
from aneforge.ops.constant import Dense

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))
from transformer import encoder

BUDGET, GOAL = 0.6, 0.5
RUNS = 5
EXPLAIN_BUDGET, EXPLAIN_RUNS = 0.15, 9
EXPLAINED = (
    "ANE-EXTENT-001",
    "ANE-RANGE-001",
    "C8",
    "hal 0x81d",
    "limit max_tensor_dim",
    "target h13",
    "m1",
    "A14 family",
    "segment",
    "op softplus",
    "softmax",
    "Gemm",
    "torch.nn.functional.gelu",
    "validator Softmax",
    "affine transform is not supported on this architecture",
    "pass fold-padding",
    "route e5rt",
    "e5rt",
    "guide",
    "chaining",
    "chaining _ANEBuffer",
)
"""What is explained: one subject of every kind, and those that can be named alone too."""
IR_VERSION = 10
"""Of the file format: one that every onnxruntime of the last years reads."""
SESSION = "import onnxruntime, sys; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"


def measured(arguments: list[str], compiled: Path) -> tuple[float, float]:
    """Return the seconds of one process, on the wall and of processors.

    Bytecode is kept in a folder, as an installed package keeps its own.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(compiled)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_explained() -> None:
    """Print the medians of `--help` and of an explanation of every kind, by the time of processors."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder)
        medians: list[tuple[float, float, str]] = []
        for arguments in (["--help"], *(["explain", *words.split()] for words in EXPLAINED)):
            measured(["-m", "aneforge", *arguments], compiled)  # writes the bytecode
            times = [measured(["-m", "aneforge", *arguments], compiled) for _ in range(EXPLAIN_RUNS)]
            wall, busy = (statistics.median(one) for one in zip(*times, strict=True))
            medians.append((busy, wall, " ".join(arguments)))
    for busy, wall, what in sorted(medians):
        print(f"{what}: {wall:.3f} s ({busy:.3f} s of processors), {wall / EXPLAIN_BUDGET:.0%} of {EXPLAIN_BUDGET:g} s")


def recurrent(steps: int, width: int = 64) -> af.Graph:
    """Return a recurrent network, unrolled: five operations a step, and two weights for all of them."""
    numbers = np.random.default_rng(0)
    taken, kept = (np.asarray(numbers.standard_normal((width, width)) * 0.05, np.float16) for _ in range(2))
    x, state = af.input((steps, width), name="x"), af.input((1, width), name="state")
    for step in range(steps):
        part = x.slice_by_size((step, 0), (1, width))
        state = (part.linear(taken) + state.linear(kept)).tanh()
    return af.Graph({"y": state})


def long_lstm(steps: int, width: int = 64) -> af.Graph:
    """Return an LSTM over a long sequence: one operation, which only the program of the engine has step by step."""
    numbers = np.random.default_rng(0)
    taken, kept = (Dense(np.asarray(numbers.standard_normal((4 * width, width)) * 0.05, np.float16)) for _ in range(2))
    x = af.input((steps, 1, width), name="x")
    start = {name: Dense(np.zeros((1, width), np.float16)) for name in ("initial_h", "initial_c")}
    weights = {"weight_ih": taken, "weight_hh": kept, "bias": Dense(np.zeros(4 * width, np.float16))}
    node = build("lstm", {"x": x, **start, **weights}, {"output_sequence": True})
    return af.Graph({"y": af.Tensor(node)})


def chain(operations: int) -> af.Graph:
    """Return a chain of so many operations."""
    y = af.input((1, 16, 8, 8), name="x")
    for _ in range(operations // 2):
        y = (y * 0.99).relu()
    return af.Graph({"y": y})


def print_large() -> None:
    """Print the time and the memory of checks of large networks, built here, each once; memory is the most so far."""
    chips = ["m1", "m2", "m3", "m4", "m5", "a15"]
    deep, scaled = CheckOptions(deep=True), CheckOptions(rescale=True)
    cases = (
        ("a transformer of 24 layers on 6 chips", lambda: encoder(layers=24), chips, CheckOptions()),
        ("the same, --deep", lambda: encoder(layers=24), chips, deep),
        ("the same on one chip, --rescale", lambda: encoder(layers=24), chips[:1], scaled),
        ("a recurrent network, unrolled", lambda: recurrent(895), chips[:1], CheckOptions()),
        ("an LSTM of 500 steps", lambda: long_lstm(500), chips[:1], CheckOptions()),
        ("the same on 6 chips", lambda: long_lstm(500), chips, CheckOptions()),
        ("a chain", lambda: chain(10_000), chips[:1], CheckOptions()),
        ("a chain ten times as long", lambda: chain(100_000), chips[:1], CheckOptions()),
    )
    for name, network, targets, options in cases:
        graph = network()
        began = time.process_time()
        check(graph, targets, options)
        busy = time.process_time() - began
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"check of {name}, {len(graph.nodes)} operations: {busy:.2f} s of processors, {most:.0f} MiB")


def main() -> None:
    """Print the times, or why there are none."""
    if "--large" in sys.argv:
        print_large()
        return
    print_explained()
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if "onnx" in missing:
        print("check is not measured: onnx is not installed (pip install 'aneforge-open[onnx]')")
        return
    from resnet18 import resnet18  # noqa: PLC0415 - only where onnx is installed
    from write_onnx import Writer  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet18.onnx"
        model = Writer(resnet18()).model()
        model.ir_version = IR_VERSION
        path.write_bytes(model.SerializeToString())
        command = ["-m", "aneforge", "check", str(path), "--target", "all", "--fail-on", "none"]
        report = Path(folder) / "report.json"
        subprocess.run([sys.executable, *command, "-q", "--json", str(report)], check=True)
        targets = len(json.loads(report.read_text(encoding="utf-8"))["targets"])
        ours: list[tuple[float, float]] = []
        theirs: list[tuple[float, float]] = []
        one: list[tuple[float, float]] = []
        compiled = Path(folder) / "bytecode"
        measured(command, compiled)  # writes the bytecode
        for _ in range(RUNS):
            ours.append(measured(command, compiled))
            one.append(measured([*command[:4], "--target", "m1", "--fail-on", "none"], compiled))
            if not missing:
                theirs.append(measured(["-c", SESSION, str(path)], compiled))
        wall, busy = (statistics.median(times) for times in zip(*ours, strict=True))
        alone, _ = (statistics.median(times) for times in zip(*one, strict=True))
        print(
            f"check of ResNet-18 on {targets} targets: {wall:.2f} s ({busy:.2f} s of processors); "
            f"budget {BUDGET:g} s, goal {GOAL:g} s; each further target {(wall - alone) / (targets - 1) * 1e3:.1f} ms"
        )
        if not theirs:
            print("  onnxruntime is not installed: nothing to compare with")
            return
        session, session_busy = (statistics.median(times) for times in zip(*theirs, strict=True))
        print(
            f"  an onnxruntime session of the same file: {session:.2f} s ({session_busy:.2f} s of processors); "
            f"check takes {wall / session:.2f} times as long"
        )


if __name__ == "__main__":
    main()
