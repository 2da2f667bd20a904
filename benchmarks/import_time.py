"""Time of `import aneforge` and of reading the target database, in fresh processes, as ratios to their budgets."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

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


if __name__ == "__main__":
    main()
