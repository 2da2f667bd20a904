"""A model of the public scheduler: the cheapest device for every operation, changes of device included.

The constants are those of its segmenter (`data/segmenter.toml`); how they act together is inferred, and checked against
the two behaviours that were seen: where a 3×3 convolution changes to the engine, and that no small program reaches it.
One pass over the operations in their order, each compared on every device.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from aneforge.analysis.files import DATA
from aneforge.evidence import Evidence  # noqa: TC001 - msgspec reads it
from aneforge.graph.graph import work_of
from aneforge.records import dataclass
from aneforge.rules.preflight import Status
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Node
    from aneforge.rules.preflight import OpReport

__all__ = ["Choice", "Device", "choose", "is_rebuilt_here", "node_times", "reasons_against", "switch"]


class Device(StrEnum):
    """Where an operation runs."""

    ANE = "ANE"
    CPU = "CPU"
    GPU = "GPU"
    NONE = "none"
    """Nowhere: it was refused."""


CHOOSABLE = (Device.CPU, Device.GPU, Device.ANE)


class DeviceEntry(Entry, frozen=True):
    """One device as the segmenter prices it."""

    gflops: float
    gigabytes: float
    launch: float
    transfer: float
    evidence: Evidence


class LeavesEntry(Entry, frozen=True):
    """Ends of the regression trees of the engine, by operation."""

    evidence: Evidence
    relu: tuple[float, float]
    add: tuple[float, float]
    mul: tuple[float, float]
    reduce_sum: tuple[float, float]
    max_pool: tuple[float, float]
    conv: tuple[float, float]
    matmul: tuple[float, float]
    linear: tuple[float, float]
    conv_transpose: tuple[float, float]


class OpsEntry(Entry, frozen=True):
    """Operations that are treated alike."""

    evidence: Evidence
    ops: tuple[str, ...]


class RulesEntry(Entry, frozen=True):
    """Rules that are treated alike."""

    evidence: Evidence
    rules: tuple[str, ...]


class SegmenterFile(Entry, frozen=True):
    """`segmenter.toml`."""

    devices: dict[str, DeviceEntry]
    leaves: LeavesEntry
    without_tree: OpsEntry
    views: OpsEntry
    rebuilt_here: RulesEntry


@dataclass(frozen=True, slots=True)
class Choice:
    """The device of one operation, and what the scheduler counts for it there, in units of its own."""

    device: Device
    units: float
    reason: str


@cache
def segmenter() -> SegmenterFile:
    """Return the constants."""
    return read(DATA / "segmenter.toml", SegmenterFile)


@cache
def entry(device: Device) -> DeviceEntry:
    """Return the constants of a device."""
    return segmenter().devices[device.value.lower()]


@cache
def leaf(op: str) -> tuple[float, float] | None:
    """Return the ends of an operation's tree for the engine, in nanoseconds; None where no tree is published."""
    found: tuple[float, float] | None = getattr(segmenter().leaves, op, None) if op != "evidence" else None
    return found


def reasons_against(node: Node, report: OpReport) -> str:
    """Return why the scheduler cannot send an operation to the engine; empty where it can."""
    if node.op.name in segmenter().without_tree.ops:
        return "the scheduler has no cost for it on the engine"
    if report.status in (Status.REJECT, Status.OVERSIZE):
        return f"{report.status} on the engine ({report.findings[0].rule}): {report.findings[0].message}"
    ours = next((one for one in report.findings if is_rebuilt_here(one.rule)), None)
    if ours is not None:
        return f"only this package's compiler builds it from others ({ours.rule}): {ours.message}"
    if node.op.support.mil_since is None:
        return "the front end has no form of it for the engine"
    return ""


def is_rebuilt_here(rule: str) -> bool:
    """Return whether what breaks a rule is built from other operations here, and by no compiler of Core ML."""
    return rule in segmenter().rebuilt_here.rules


def node_times(node: Node, devices: Sequence[Device]) -> dict[Device, float]:
    """Return what the scheduler counts for an operation on each device, its launch left out."""
    if node.op.name in segmenter().views.ops:
        return dict.fromkeys(devices, 0.0)
    work = work_of(node)
    moved = work.bytes_in + work.bytes_out + work.bytes_weights
    return {device: device_time(node.op.name, 2 * work.macs, moved, device) for device in devices}


def device_time(op: str, operations: int, moved: int, device: Device) -> float:
    """Return what the scheduler counts for so many operations and so many bytes on a device."""
    constants = entry(device)
    roofline = max(operations / constants.gflops, moved / constants.gigabytes) / 1e3
    ends = leaf(op) if device is Device.ANE else None
    return roofline if ends is None else min(max(roofline, ends[0] / 1e3), ends[1] / 1e3)


@cache
def switch(first: Device, second: Device) -> float:
    """Return what a change of device costs: the transfer off the one, launch of the other and transfer to it."""
    if first is second:
        return 0.0
    return entry(first).transfer + entry(second).launch + entry(second).transfer


def choose(nodes: Sequence[Node], barred: Sequence[str]) -> list[Choice]:
    """Return the cheapest devices for operations in their order; data begins and ends in the host's memory."""
    if not nodes:
        return []
    best = {device: switch(Device.CPU, device) for device in CHOOSABLE}
    came: list[dict[Device, Device]] = []
    times: list[dict[Device, float]] = []
    previous = dict(best)
    for place, (node, bar) in enumerate(zip(nodes, barred, strict=True)):
        allowed = [device for device in CHOOSABLE if not (bar and device is Device.ANE)]
        here = node_times(node, allowed)
        source: dict[Device, Device] = {}
        total: dict[Device, float] = {}
        for device in allowed:
            reached = {old: cost + (switch(old, device) if place else 0.0) for old, cost in previous.items()}
            if place == 0:
                reached = {device: previous[device]}
            source[device] = min(reached, key=lambda old: reached[old])
            total[device] = reached[source[device]] + here[device]
        came.append(source)
        times.append(here)
        previous = total
    device = min(previous, key=lambda last: previous[last] + switch(last, Device.CPU))
    chosen: list[Choice] = []
    for place in range(len(nodes) - 1, -1, -1):
        chosen.append(Choice(device, times[place][device], reason_for(nodes[place], device, times[place])))
        device = came[place][device]
    return chosen[::-1]


def reason_for(node: Node, device: Device, times: dict[Device, float]) -> str:
    """Return why an operation goes to a device."""
    if node.op.name in segmenter().views.ops:
        return "moves no data and follows its neighbours"
    if device is Device.ANE or Device.ANE not in times:
        return f"cheapest with its neighbours: {times[device]:.2f} scheduler units"
    saved = times[device] - times[Device.ANE]
    fixed = switch(Device.CPU, Device.ANE) + switch(Device.ANE, Device.CPU)
    return f"the engine would save {max(saved, 0.0):.1f} scheduler units here, and reaching it costs up to {fixed:.0f}"
