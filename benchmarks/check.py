"""Time of `aneforge check` on a ResNet-18 file for every target, process start included, beside that of onnxruntime.

Both are measured in the same run, in turns, each in fresh processes: the command as a user starts it, and a process
that creates an onnxruntime session of the same file. Processor time is printed too, for machines that do other things.
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

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

BUDGET, GOAL = 1.0, 0.5
RUNS = 5
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


def main() -> None:
    """Print the times, or why there are none."""
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
