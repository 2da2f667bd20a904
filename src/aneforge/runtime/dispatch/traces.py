"""Records of calls that the dispatch library writes (ANEFORGE_TRACE): read, and summed up."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import GraphError
from aneforge.records import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

__all__ = ["Call", "CallTimes", "ProgramCalls", "call_times", "program_calls", "read_trace"]


LONGEST_LINE = 1 << 20
"""Far more than any call has; what is longer is not a record, and is not read at once."""


class About(msgspec.Struct, frozen=True):
    """What the engine said of a program."""

    target: str
    layers: int
    exactness: str
    inputs: dict[str, str]
    outputs: dict[str, str]


class Details(msgspec.Struct, frozen=True):
    """What a call was about."""

    status: int
    program: str | None = None
    of: str | None = None
    """A port, a path, the options of a check."""
    bytes: int = 0
    about: About | None = None


class Call(msgspec.Struct, frozen=True):
    """One call of the library, in the form of trace viewers."""

    name: str
    ts: float
    """When it began, in microseconds of this machine's clock."""
    dur: float
    """How long it took, in microseconds."""
    pid: int
    tid: int
    args: Details


@dataclass(frozen=True, slots=True)
class CallTimes:
    """The calls of one function."""

    function: str
    count: int
    failed: int
    median: float
    longest: float
    total: float


@dataclass(frozen=True, slots=True)
class ProgramCalls:
    """A program that was compiled, and how it was executed."""

    program: str
    path: str
    about: About
    executions: int
    median: float
    """Microseconds of an execution; 0 where there was none."""


def read_trace(path: str | os.PathLike[str]) -> list[Call]:
    """Read a record of calls: a list of JSON objects, one a line, whose end may be missing.

    Raises:
        GraphError: A line is not a call.
        OSError: The file cannot be read.
    """
    decoder = msgspec.json.Decoder(Call)
    calls: list[Call] = []
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), 1):
            content = line.strip().rstrip(",")
            if content in {"", "[", "]"}:
                continue
            try:
                calls.append(decoder.decode(content))
            except msgspec.MsgspecError as error:
                raise GraphError(
                    f"{path}:{number} is not a call of the dispatch library: {error}",
                    remedy="give a file that ANEFORGE_TRACE named, one line for each call",
                ) from None
    return calls


def call_times(calls: Iterable[Call]) -> list[CallTimes]:
    """Return the time of each function, most of it first."""
    grouped: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        grouped[call.name].append(call)
    times = [
        CallTimes(
            function,
            len(group),
            sum(call.args.status < 0 for call in group),
            statistics.median(call.dur for call in group),
            max(call.dur for call in group),
            sum(call.dur for call in group),
        )
        for function, group in grouped.items()
    ]
    return sorted(times, key=lambda one: (-one.total, one.function))


def program_calls(calls: Iterable[Call]) -> list[ProgramCalls]:
    """Return every program that was compiled, in order, with its executions.

    A handle is used once in a process, so process and handle together name a program.
    """
    compiled: dict[tuple[int, str], Call] = {}
    executed: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for call in calls:
        if call.args.program is None:
            continue
        key = call.pid, call.args.program
        if call.name == "compile":
            compiled[key] = call
        elif call.name in {"execute", "execute_multi"}:
            executed[key].append(call.dur)
    return [describe(call, executed[key]) for key, call in compiled.items() if call.args.about is not None]


def describe(call: Call, times: list[float]) -> ProgramCalls:
    """Return a program as it was compiled."""
    details = call.args
    assert details.about is not None  # noqa: S101 - the caller asked
    median = statistics.median(times) if times else 0.0
    return ProgramCalls(details.program or "", details.of or "", details.about, len(times), median)
