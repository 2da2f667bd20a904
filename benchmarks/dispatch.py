"""What the dispatch library adds to an execution: the way to the worker and back, against the engine in this process.

relu of 64 values, 2,000 executions each, the two in turns. Then 1,000 programs compiled and released one after the
other: memory of both processes before and after.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.runtime.dispatch.library import library_path, record_interpreter

if TYPE_CHECKING:
    from collections.abc import Callable

EXECUTIONS = 2000
TURNS = 20
BUDGET = 100.0
PROGRAMS = 1000
WARM_PROGRAMS = 100
VALUES = 64
TARGET = "h13"
PAGE = os.sysconf("SC_PAGE_SIZE")


class Client:
    """A program behind the library, as a C client has it."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.CDLL(str(library_path()))
        self.library.ane_e5rt_program_compile.restype = ctypes.c_void_p
        self.mil = str(folder / "model.mil").encode()

    def compile(self) -> ctypes.c_void_p:
        """Compile the program and return its handle."""
        names = [(ctypes.c_char_p * 1)(name) for name in (b"x", b"y")]
        size, one = (ctypes.c_size_t * 1)(2 * VALUES), ctypes.c_size_t(1)
        engine = ctypes.c_uint64(4)
        handle = self.library.ane_e5rt_program_compile(self.mil, None, engine, names[0], size, one, names[1], size, one)
        return ctypes.c_void_p(handle)

    def release(self, handle: ctypes.c_void_p) -> None:
        """Release a program."""
        self.library.ane_e5rt_program_release(handle)


def times(function: Callable[[], object], count: int) -> list[float]:
    """Return how long calls took, in microseconds."""
    found: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        found.append((time.perf_counter() - start) * 1e6)
    return found


def workers() -> list[int]:
    """Return the processes that serve this one: those of the library whose program text names the worker."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and b"dispatch.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def resident(process: int) -> int:
    """Return the bytes of a process that are in memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE


def measure_executions(client: Client) -> None:
    """Print what an execution through the library costs beyond one in this process."""
    handle = client.compile()
    model = af.compile(af.input((1, VALUES), name="x").relu(), target=TARGET)
    inside: list[float] = []
    through: list[float] = []
    for _ in range(TURNS):
        inside += times(model.execute, EXECUTIONS // TURNS)
        through += times(lambda: client.library.ane_e5rt_program_execute(handle), EXECUTIONS // TURNS)
    beyond = statistics.median(through) - statistics.median(inside)
    print(f"relu of {VALUES} values, median of {EXECUTIONS}: library {statistics.median(through):.1f} µs, ", end="")
    print(f"in process {statistics.median(inside):.1f} µs; p99 {np.percentile(through, 99):.1f} µs")
    print(f"beyond the engine's time: {beyond:.1f} µs, {beyond / BUDGET:.2f} of the budget of {BUDGET:.0f} µs")
    client.release(handle)


def measure_growth(client: Client, before: set[int]) -> None:
    """Print how much memory a thousand programs left behind in both processes."""
    (worker,) = set(workers()) - before
    for _ in range(WARM_PROGRAMS):
        client.release(client.compile())
    start = (resident(os.getpid()), resident(worker))
    for _ in range(PROGRAMS):
        client.release(client.compile())
    grown = [resident(process) - old for process, old in zip((os.getpid(), worker), start, strict=True)]
    print(f"{PROGRAMS} programs compiled and released: client {grown[0] / 1024:+.0f} KiB, ", end="")
    print(f"worker {grown[1] / 1024:+.0f} KiB ({grown[1] / PROGRAMS:.0f} bytes a program)")


def main() -> None:
    """Measure and print."""
    os.environ["ANEFORGE_TARGET"] = TARGET
    record_interpreter()
    before = set(workers())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        af.save_mil(af.input((1, VALUES), name="x").relu(), folder)
        client = Client(folder)
        measure_executions(client)
        measure_growth(client, before)


if __name__ == "__main__":
    main()
