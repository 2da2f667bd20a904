"""Time of `import aneforge` and of reading the target database, in fresh processes, as ratios to their budgets.

Beside it, how many modules of the package the two main walks load: a check of a file, and a model that is called once.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 11
CHECK_ALL = """
import aneforge as af
operation = af.rules.Operation("relu", results=(af.rules.TensorType((1, 8, 8, 8)),))
for target in af.targets.group("all"):
    af.rules.check(operation, target)
"""
MEASURED = {
    "bare interpreter": ("", None),
    "import aneforge": ("import aneforge", 0.25),
    "import and resolve one target": ("import aneforge; aneforge.targets.resolve(2)", None),
    "import and check one operation on all targets": (CHECK_ALL, None),
}


LOADED = "import sys; print(sum(name.split('.')[0] == 'aneforge' for name in sys.modules), file=sys.stderr)"
CALLED = """
import numpy, aneforge as af
af.compile(af.input((1, 8), name="x").relu() + 1.0, target="m1")(numpy.ones((1, 8)))
"""
CHECKED = """
import sys
from aneforge.cli.main import run
run(["check", sys.argv[1], "--fail-on", "none"])
"""


def modules(program: str, *arguments: str) -> int:
    """Return how many modules of the package a fresh process has loaded when a program ends."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{program}\n{LOADED}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(ended.stderr.split()[-1])


def resnet(folder: str) -> str:
    """Write the example ResNet-18 as ONNX and return its path."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))
    from resnet18 import resnet18  # noqa: PLC0415 - found through the line above
    from write_onnx import Writer  # noqa: PLC0415 - as above

    path = Path(folder) / "resnet18.onnx"
    path.write_bytes(Writer(resnet18()).model().SerializeToString())
    return str(path)


def seconds(program: str) -> float:
    """Return the median time of a fresh process that runs a program."""
    times: list[float] = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Print one line per program: the time, its ratio to the bare interpreter, its share of the budget."""
    base = 0.0
    for name, (program, budget) in MEASURED.items():
        taken = seconds(program)
        base = base or taken
        share = f", {taken / budget:.0%} of the budget of {budget} s" if budget else ""
        print(f"{name}: {taken * 1000:.0f} ms, {taken / base:.1f} times the bare interpreter{share}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"modules loaded by aneforge check resnet18.onnx: {modules(CHECKED, resnet(folder))}")
    print(f"modules loaded by a model that is compiled and called: {modules(CALLED)}")


if __name__ == "__main__":
    main()
