"""The data inside an HTML report: tables by column, as JSON, compressed, in base64.

A report is cut into blocks that the page unpacks when they are wanted: a report of many targets opens as fast as one of
a single target. Equal parts of targets, such as the timeline of one program that many of them run, are one block.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from dataclasses import field, fields, is_dataclass
from typing import TYPE_CHECKING, cast

import msgspec

from aneforge.records import dataclass
from aneforge.report.cards import cards
from aneforge.report.glossary import find_term
from aneforge.report.grouping import fold_target
from aneforge.report.headline import join_names, reason_of, shop_name, summary_line
from aneforge.report.headline import names_of as chips_of
from aneforge.report.model import Allocated, Difference, EmittedTask, Node, RefusedLayer, Step, Timed
from aneforge.rules.rule import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from aneforge.report.cards import Card
    from aneforge.report.model import Divergence, Emission, Memory, Report, TargetReport

__all__ = ["Blocks", "Json", "blocks_of", "columns", "pack", "plain"]

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
Row = Node | Finding | Timed | Step | Allocated | Difference | EmittedTask | RefusedLayer

TERMS = (
    "NE", "PE", "TE", "DMA", "host", "dispatch", "program",
    "compute", "weights", "on chip", "activations", "elements", "fixed time",
    "buffers", "windows", "resident", "streamed", "chained", "dependent", "in place", "in place dependent", "ring",
    "ring dependent", "in place dram",
    "native", "decompose", "oversize", "reject",
)  # fmt: skip
"""Words of the page that say what they mean when they are pointed at, as the glossary does."""
SAFE_INTEGER = 2**53 - 1
"""The largest integer that a browser reads without a loss."""
WRITTEN_ALIKE = frozenset({str, bool, type(None)})
"""Types whose values are in JSON what they are."""
REPEATED = 2
"""A column whose values come this often on average is written as a list of values and places in it."""


@dataclass(slots=True)
class Blocks:
    """Packed blocks in the order of their numbers; the first is the index that names all others."""

    packed: list[str] = field(default_factory=list[str])
    known: dict[object, int] = field(default_factory=dict[object, int])

    def add(self, key: object, content: Callable[[], Json]) -> int:
        """Return the number of the block for a key; its content is made only if no equal key was there before."""
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = len(self.packed)
            self.packed.append(pack(content()))
        return number


def blocks_of(report: Report) -> list[str]:
    """Return the packed blocks of a report, the index first.

    >>> from aneforge.report.model import Report
    >>> [block[:5] for block in blocks_of(Report("a.onnx", "ONNX", nodes=(), targets=()))]
    ['H4sIA', 'H4sIA']
    """
    blocks = Blocks()
    blocks.packed.append("")
    index: Json = {
        "model": report.model,
        "format": report.format,
        "tool": report.tool,
        "version": report.version,
        "notes": list(report.notes),
        "count": report.operations,
        "chips": sum(len(chips_of(target)) for target in report.targets),
        "summary": summary_line(report),
        "cards": [card_entry(one) for one in cards(report)],
        "terms": {word: found[1].text for word in TERMS if (found := find_term(word)) is not None},
        "nodes": blocks.add(("nodes", report.nodes), lambda: columns(Node, report.nodes)),
        "targets": [target_entry(report, target, blocks) for target in report.targets],
        "divergences": divergence_entries(report, blocks),
    }
    blocks.packed[0] = pack(index)
    return blocks.packed


def card_entry(card: Card) -> Json:
    """Return what the page shows of targets with the same result."""
    return {
        "chips": card.row.chips,
        "targets": list(card.row.targets),
        "places": list(card.places),
        "runs": card.row.runs,
        "answer": card.answer,
        "time": card.time,
        "interval": card.interval,
        "cost": card.row.cost,
        "programs": card.programs,
        "shares": [{"name": one.name, "share": one.share} for one in card.shares],
        "changes": list(card.changes),
        "change": card.row.change,
        "reason": card.row.reason or card.elsewhere,
        "headline": card.headline,
    }


def target_entry(report: Report, target: TargetReport, blocks: Blocks) -> Json:
    """Return what the index says of one target: its summary, and the blocks that hold the rest."""
    memory = target.memory
    return {
        "target": target.target,
        "title": target.title,
        "chip": join_names(chips_of(target)),
        "short": shop_name(target),
        "reason": reason_of(report, target),
        "ok": target.ok,
        "runs": target.runs,
        "path": target.path,
        "counts": plain(target.counts),
        "nativeFraction": target.native_fraction,
        "failure": target.failure,
        "layers": target.layers,
        "programs": target.segments,
        "latency": plain(target.latency),
        "weightBytes": target.weight_bytes,
        "activationBytes": target.activation_bytes,
        "peak": None if memory is None else memory.peak,
        "capacity": None if memory is None else memory.capacity,
        "risk": target.risk,
        "riskReason": target.risk_reason,
        "exactness": target.exactness,
        "exactnessReason": target.exactness_reason,
        "findingCount": len(target.findings),
        "rescaling": plain(target.rescaling),
        "verdicts": blocks.add(("verdicts", target.verdicts), lambda: column(target.verdicts)),
        "findings": blocks.add(
            ("findings", *map(without_target, target.findings)), lambda: columns(Finding, target.findings)
        ),
        "groups": blocks.add(
            ("groups", *map(without_target, target.findings), target.timeline),
            lambda: [{"numbers": list(one.numbers), "share": one.share} for one in fold_target(target)],
        ),
        "timeline": blocks.add(("timeline", target.timeline), lambda: columns(Timed, target.timeline)),
        "memory": blocks.add(("memory", memory), lambda: memory_content(memory)),
        "tasks": blocks.add(("tasks", target.emission), lambda: tasks_content(target.emission)),
        "remarks": blocks.add(
            ("remarks", target.notes, target.placement),
            lambda: {"notes": column(target.notes), "placement": plain(target.placement)},
        ),
    }


def without_target(finding: Finding) -> Finding:
    """Return what findings of several targets have in common."""
    return msgspec.structs.replace(finding, target="")


def memory_content(memory: Memory | None) -> Json:
    """Return a memory plan by columns."""
    if memory is None:
        return None
    return {"steps": columns(Step, memory.timeline), "allocations": columns(Allocated, memory.allocations)}


def tasks_content(emission: Emission | None) -> Json:
    """Return tasks and refused layers by columns."""
    if emission is None:
        return None
    return {
        "tasks": columns(EmittedTask, emission.tasks),
        "refused": columns(RefusedLayer, emission.refused),
        "idle": list(emission.idle),
        "failure": emission.failure,
    }


def divergence_entries(report: Report, blocks: Blocks) -> list[Json]:
    """Return what the index says of comparisons, each with the shop names of its chips.

    Several chips can have one target, and every target is compared once: they are in the order of the targets.
    """
    waiting: dict[str, list[str]] = {}
    for target in report.targets:
        waiting.setdefault(target.target, []).append(join_names(chips_of(target)))
    found: list[Json] = []
    base = ""
    for divergence in report.divergences:
        base = base or waiting.get(divergence.first, [divergence.first]).pop(0)
        second = (waiting.get(divergence.second) or [divergence.second]).pop(0)
        found.append({**divergence_entry(divergence, blocks), "firstChip": base, "secondChip": second})
    return found


def divergence_entry(divergence: Divergence, blocks: Blocks) -> dict[str, Json]:
    """Return what the index says of a comparison: how far operations of a name differ, and the block with the rest."""
    heat: dict[str, dict[str, int]] = {}
    for one in divergence.differences:
        counts = heat.setdefault(one.op, {})
        counts[one.strength] = counts.get(one.strength, 0) + 1
    return {
        "first": divergence.first,
        "second": divergence.second,
        "strength": divergence.strength,
        "word": divergence.word,
        "seen": divergence.seen,
        "heat": {op: dict[str, Json](counts) for op, counts in heat.items()},
        "differences": blocks.add(
            ("differences", divergence.differences), lambda: columns(Difference, divergence.differences)
        ),
    }


def columns(kind: type[Row], rows: Sequence[Row]) -> Json:
    """Return records of one kind as one column for each field; the page knows the target of a finding.

    >>> columns(Step, (Step(0, 64, 8), Step(1, 64, 8), Step(2, 64, 16)))
    {'step': [0, 1, 2], 'buffers': {'values': [64], 'places': [0, 0, 0]}, 'windows': [8, 8, 16]}
    """
    made: dict[str, Json] = {}
    for attribute, name in names_of(kind):
        if (kind, attribute) != (Finding, "target"):
            made[name] = column([getattr(row, attribute) for row in rows])
    return made


def names_of(kind: type[object]) -> list[tuple[str, str]]:
    """Return the fields of a record, each with the name that JSON has for it."""
    if issubclass(kind, msgspec.Struct):
        return list(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    return [(one.name, one.name) for one in fields(cast("type[Node]", kind))]


def column(values: Sequence[object]) -> Json:
    """Return the values of a column, each once where they repeat."""
    kinds = set(map(type, values))
    places: dict[object, int] = {}
    numbers: list[Json] = [places.setdefault(key, len(places)) for key in keys_of(values, kinds)]
    if len(places) * REPEATED > len(values):
        return plain_values(values, kinds)
    first = dict(zip(reversed(numbers), reversed(values), strict=True))
    return {"values": [plain(first[number]) for number in range(len(places))], "places": numbers}


def keys_of(values: Sequence[object], kinds: Collection[type]) -> Iterable[object]:
    """Return what distinguishes values: 1, 1.0 and True are equal, as 0.0 and -0.0 are, and are not written alike."""
    if len(kinds) > 1:
        return ((type(value), repr(value) if isinstance(value, float) else value) for value in values)
    return map(repr, values) if any(issubclass(kind, float) for kind in kinds) else values


def plain_values(values: Sequence[object], kinds: Collection[type]) -> list[Json]:
    """Return values of some types as JSON, as `plain` does, without looking at each where they are so already."""
    if WRITTEN_ALIKE.issuperset(kinds):
        return cast("list[Json]", list(values))
    if set(kinds) == {int} and max(map(abs, cast("Sequence[int]", values))) <= SAFE_INTEGER:
        return cast("list[Json]", list(values))
    if set(kinds) == {float} and all(map(math.isfinite, cast("Sequence[float]", values))):
        return cast("list[Json]", list(values))
    return [plain(value) for value in values]


def plain(value: object) -> Json:
    """Return a value of a report as JSON; numbers that JSON or a browser cannot hold become words.

    >>> plain((float("inf"), 2**60, 3))
    ['inf', '1152921504606846976', 3]
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= SAFE_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, tuple):
        return [plain(one) for one in cast("tuple[object, ...]", value)]
    if is_dataclass(value) or isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, attribute)) for attribute, name in names_of(type(value))}
    raise TypeError(f"a report holds a {type(value).__name__}")


def pack(content: Json) -> str:
    """Return JSON as the page unpacks it; the same content gives the same text everywhere."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode("ascii")
