"""The predicted timeline as a Chrome trace: a process for each target, a thread for each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aneforge.report.time_shares import HOST

if TYPE_CHECKING:
    from aneforge.report.model import Report, TargetReport, Timed

__all__ = ["chrome_trace"]

ENGINES = (HOST, "NE", "PE", "TE", "DMA")


class Arguments(msgspec.Struct, omit_defaults=True):
    """What is shown with an event."""

    name: str | None = None
    segment: int | None = None
    partition: int | None = None
    bound: str | None = None
    exactness: str | None = None
    nodes: str | None = None
    bytes: int | None = None


class Event(msgspec.Struct, omit_defaults=True):
    """One event of a trace."""

    name: str
    ph: str
    pid: int
    tid: int
    ts: float | None = None
    dur: float | None = None
    cat: str | None = None
    args: Arguments | None = None


class Maker(msgspec.Struct):
    """Who wrote a trace."""

    tool: str = "aneforge"


class Trace(msgspec.Struct):
    """The whole file."""

    otherData: Maker  # noqa: N815 - the field's name in the format
    traceEvents: list[Event]  # noqa: N815 - the field's name in the format
    displayTimeUnit: str = "ns"  # noqa: N815 - as above


def chrome_trace(report: Report) -> str:
    """Return the predicted timelines of a report as a Chrome trace, which `chrome://tracing` and Perfetto open.

    >>> import json
    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> made = json.loads(chrome_trace(check(af.input((1, 4), name="x").relu(), af.targets.Family.A13)))
    >>> [event["name"] for event in made["traceEvents"] if event["ph"] == "X"]
    ['dispatch and copies call 0', 'relu t1']
    """
    events: list[Event] = []
    for process, target in enumerate(report.targets, 1):
        events.append(Event("process_name", "M", process, 0, args=Arguments(name=f"{target.target} ({target.title})")))
        events += [
            Event("thread_name", "M", process, thread, args=Arguments(name=engine))
            for thread, engine in enumerate(ENGINES)
        ]
        events += [layer_event(report, one, process) for one in target.timeline]
        events += memory_events(target, process)
    return msgspec.json.format(msgspec.json.encode(Trace(Maker(), events)), indent=0).decode() + "\n"


def layer_event(report: Report, one: Timed, process: int) -> Event:
    """Return the event of one layer."""
    names = ", ".join(report.nodes[node].name for node in one.nodes)
    shown = Arguments(None, one.segment, one.partition, one.bound, one.exactness, names or None)
    thread = ENGINES.index(one.engine)
    name, category = f"{one.kind} {one.layer}", f"program {one.segment}"
    return Event(name, "X", process, thread, one.start, one.duration, category, shown)


def memory_events(target: TargetReport, process: int) -> list[Event]:
    """Return the bytes on chip, at the times of the layers that begin each step."""
    if target.memory is None:
        return []
    starts: dict[int, float] = {}
    for one in target.timeline:
        if one.engine != HOST:
            starts.setdefault(one.step, one.start)
    return [
        Event("on-chip bytes", "C", process, 0, starts[one.step], args=Arguments(bytes=one.buffers + one.windows))
        for one in target.memory.timeline
        if one.step in starts
    ]
