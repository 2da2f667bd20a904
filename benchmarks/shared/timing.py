"""How benchmarks time an action, and the chain of small operations that several of them grow."""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING

import aneforge as af

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds(action: Callable[[], object], runs: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the median time of an action, the collector off as in `timeit`: its passes grow with all that lives."""
    times: list[float] = []
    gc.disable()
    try:
        for _ in range(runs):
            start = clock()
            action()
            times.append(clock() - start)
    finally:
        gc.enable()
    return statistics.median(times)


def chain(length: int) -> af.Graph:
    """Return a synthetic graph of many small operations."""
    x = af.input((1, 8, 4, 4))
    y = x
    for number in range(length // 2):
        y = (y * 1.5).relu() if number % 3 else (y + x).tanh()
    return af.Graph({"y": y})
