"""The first lines of a report: the verdict, and a row for every distinct result, by the names that shops use.

Terminal, Markdown and whatever else begins with a summary take it from here, so that they say the same.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.records import dataclass
from aneforge.report.finding_keys import counted_key
from aneforge.report.gate import STOPPING
from aneforge.report.model import COREML, NO, SPLIT, YES
from aneforge.report.numbers import NO_PROGRAM, interval_text, percent_text, time_text
from aneforge.report.time_shares import HOST
from aneforge.targets import database
from aneforge.targets.names import best_known, title_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from aneforge.report.gate import Outcome
    from aneforge.report.model import Change, Latency, Report, TargetReport
    from aneforge.rules.rule import Finding

__all__ = [
    "SHORT",
    "THE_ENGINE",
    "ResultRow",
    "about_chips",
    "alike",
    "change_text",
    "costs_of",
    "counting",
    "errors_text",
    "estimate_text",
    "in_shop_words",
    "join_names",
    "named_chips",
    "names_of",
    "places",
    "range_text",
    "reason_of",
    "result_row",
    "result_rows",
    "shop_message",
    "shop_name",
    "summary_line",
    "top_cost",
    "verdict_line",
]

ENGINE = "ANE"
DISPATCH, COPIES = "dispatch", "host copies"
"""The two parts of a call's time that are the host's, as a latency names them."""
SHORT = 24
"""Letters of a list of chips that is short enough for a verdict."""
NUMBERS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?!\w)")
"""Numbers of a text; what is part of a name is none."""
NEAR = 1.1
"""Times of one row differ by at most this factor; the intervals of predictions are several times as wide."""
FEW = 3
"""Chips that are named one by one in a verdict."""
SAME_TIME = "no split, the same time"
"""The price of a change that makes a model fit, and costs and gains no time."""
THE_ENGINE = "the engine"
"""How a text that holds for several chips calls what they have in common."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """Targets with one result: the same answer, the same largest cost, times that hardly differ."""

    chips: str
    targets: tuple[str, ...]
    runs: str
    time: str
    """Predicted, with the interval that should hold it; several targets have the range of their times."""
    cost: str
    """What takes most of the time, with its share."""
    change: str
    """What would gain most, with its price; empty where nothing is known to."""
    reason: str
    """Why there is no program; empty where there is one."""


def result_rows(report: Report) -> tuple[ResultRow, ...]:
    """Return a row for every distinct result, in the order of the targets.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> [row.runs for row in result_rows(check(af.input((1, 4), name="x").relu(), af.targets.Family.A15))]
    ['yes']
    """
    return tuple(result_row(report, places(report, group)) for group in alike(report))


def alike(report: Report) -> tuple[tuple[int, ...], ...]:
    """Return the places of targets, those with the same result together."""
    groups: list[list[int]] = []
    for place in range(len(report.targets)):
        near = next((group for group in groups if fares_alike(report, places(report, [*group, place]))), None)
        if near is None:
            groups.append([place])
        else:
            near.append(place)
    return tuple(tuple(group) for group in groups)


def places(report: Report, numbers: Iterable[int]) -> list[TargetReport]:
    """Return targets by their places."""
    return [report.targets[number] for number in numbers]


def fares_alike(report: Report, targets: Sequence[TargetReport]) -> bool:
    """Return whether targets have one result, except for times that hardly differ."""
    first, last = targets[0], targets[-1]
    if (first.runs, first.path, stopped_by(first)) != (last.runs, last.path, stopped_by(last)):
        return False
    if what_costs_most(report, first) != what_costs_most(report, last):
        return False
    if [one.option for one in first.changes[:1]] != [one.option for one in last.changes[:1]]:
        return False
    times = [one.latency.microseconds for one in targets if one.latency is not None]
    return not times or max(times) <= NEAR * min(times)


def result_row(report: Report, targets: Sequence[TargetReport]) -> ResultRow:
    """Return the row of targets with the same result."""
    first = targets[0]
    return ResultRow(
        chips=row_chips(report, targets),
        targets=tuple(dict.fromkeys(target.target for target in targets)),
        runs={SPLIT: "split"}.get(first.runs, first.runs),
        time=times_text(targets),
        cost=top_cost(report, first),
        change=change_text(first.changes[0], [one.changes[0] for one in targets]) if first.changes else "",
        reason=reason_of(report, first, [one.target for one in targets]),
    )


def row_chips(report: Report, targets: Sequence[TargetReport]) -> str:
    """Return the chips of a row by name, or that it is all of many."""
    names = [name for target in targets for name in names_of(target)]
    everywhere = len(targets) == len(report.targets) and len(names) > FEW
    return count_chips(names, len(names)) if everywhere else join_names(names)


def names_of(target: TargetReport) -> list[str]:
    """Return the chips of a target by their shop names; a target without a chip is called by its family."""
    chips = [name for name in target.title.split(", ") if name]
    if chips:
        return chips
    known = database().targets.get(target.target)
    return [target.target if known is None or known.family is None else f"{known.family.name} family"]


def shop_name(target: TargetReport) -> str:
    """Return a short name for a target: the best known of its chips."""
    return best_known(names_of(target))


def named_chips(report: Report, targets: Iterable[str]) -> str:
    """Return all chips of some targets by their shop names, those of one generation together."""
    wanted = set(targets)
    return join_names(name for one in report.targets if one.target in wanted for name in names_of(one))


def shop_message(report: Report, finding: Finding, targets: Collection[str] = ()) -> str:
    """Return the message of a finding with the shop name of its target in the place of the compiler's.

    Where several targets have the same message, it is about the engine. Numbers that differ between them become a
    range; of messages that differ in more, what is different is said of each.
    """
    known = next((one for one in report.targets if one.target == finding.target), None)
    if known is None:
        return finding.message
    same = [
        (target, one.message)
        for target in report.targets if target.target in targets
        for one in target.findings if counted_key(one) == counted_key(finding)
    ]  # fmt: skip
    if len(same) <= 1:
        return in_shop_words(finding.message, known.target, shop_name(known))
    of_first: dict[str, str] = {}
    for target, text in same:
        of_first.setdefault(
            in_shop_words(text, target.target, THE_ENGINE), in_shop_words(text, target.target, shop_name(target))
        )
    return join_numbers(tuple(of_first)) or join_clauses(of_first.values())


def join_numbers(texts: Sequence[str]) -> str:
    """Return texts that differ only in numbers as one, with ranges; nothing where they differ in more.

    >>> join_numbers(["7 of 4 to 9 µs", "7 of 12 to 3 µs"]), join_numbers(["a", "a"]), join_numbers(["a", "b"])
    ('7 of 4-12 to 3-9 µs', 'a', '')
    """
    parts = [NUMBERS.split(text) for text in texts]
    if len({tuple(one[::2]) for one in parts}) > 1:
        return ""
    return "".join(
        found[0] if len(set(found)) == 1 else "{}-{}".format(*ends_of(found)) for found in zip(*parts, strict=True)
    )


def ends_of(numbers: Sequence[str]) -> tuple[str, str]:
    """Return the smallest and the largest of some numbers, as they are written."""
    return min(numbers, key=float), max(numbers, key=float)


def join_clauses(texts: Iterable[str]) -> str:
    """Return texts as one: the clauses of all of them, each once.

    >>> join_clauses(["it needs B; P1 is of A", "it needs B; P2 is of A", "it needs B; P1 is of A"])
    'it needs B; P1 is of A; P2 is of A'
    """
    clauses = [clause for text in texts for clause in text.split("; ")]
    ending = "." if clauses[-1].endswith(".") else ""
    return "; ".join(dict.fromkeys(clause.removesuffix(".") for clause in clauses)) + ending


def in_shop_words(text: str, target: str, chip: str) -> str:
    """Return a text about a target with the name of its chip in the place of the compiler's.

    >>> in_shop_words("x1 takes at most 4", "x1", "Chip")
    'Chip takes at most 4'
    """
    return re.sub(rf"\b{re.escape(target)}\b", chip, text)


def about_chips(text: str, target: str) -> str:
    """Return an error about a target as one about its chips, which are named once.

    >>> from aneforge.targets import Family, resolve
    >>> name = resolve(Family.A15).name
    >>> about_chips(f"conv on {name}: too wide: {name} takes 4", name).partition(f"({name})")[2]
    ': too wide: the engine takes 4'
    >>> about_chips("on q1: too wide", "q1")
    'on q1: too wide'
    """
    known = database().targets.get(target)
    chips = "" if known is None else title_of(known)
    if not chips:
        return text
    first, found, rest = text.partition(f"on {target}: ")
    if not found:
        return in_shop_words(text, target, THE_ENGINE)
    rest = in_shop_words(rest.replace(f" on {target}: ", ": "), target, THE_ENGINE)
    return f"{first}on {join_names(chips.split(', '))} ({target}): {rest}"


def join_names(names: Iterable[str]) -> str:
    """Return chips by their shop names, those of one generation together, desktops first.

    >>> join_names(["P3", "M0", "M0 Pro", "M0 Max"]), join_names(["M0 Pro", "M0 Max"])
    ('M0/Pro/Max, P3', 'M0 Pro/Max')
    """
    generations: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        base, _, rest = name.partition(" ")
        generations.setdefault(name if rest == "family" else base, []).append("" if rest == "family" else rest)
    texts = [base + ("" if rests[0] == "" else " ") + "/".join(rests) for base, rests in generations.items()]
    return ", ".join(sorted(texts, key=lambda text: not text.startswith("M")))


def times_text(targets: Sequence[TargetReport]) -> str:
    """Return the predicted time, or the range of several, and the interval that should hold them all."""
    known = [one.latency for one in targets if one.latency is not None]
    if not known:
        return ""
    shown = estimate_text(known)
    if not all(one.microseconds > 0 for one in known):
        return shown
    low, high = min(one.low for one in known), max(one.high for one in known)
    return f"{shown} ({interval_text(low, high, shown.rpartition(' ')[2])})"


def estimate_text(known: Sequence[Latency]) -> str:
    """Return predicted times without their intervals: one, or the range of several; no time where nothing runs."""
    if not any(one.microseconds for one in known):
        return NO_PROGRAM
    texts = [time_text(one.microseconds) for one in sorted(known, key=lambda one: one.microseconds)]
    return texts[0] if texts[0] == texts[-1] else range_text(texts[0], texts[-1])


def range_text(first: str, last: str) -> str:
    """Return two times as a range; a unit that they share is said once.

    >>> range_text("739 µs", "742 µs"), range_text("990 µs", "1.1 ms")
    ('739-742 µs', '990 µs-1.1 ms')
    """
    number, _, unit = first.partition(" ")
    return f"{number}-{last}" if last.endswith(f" {unit}") else f"{first}-{last}"


def what_costs_most(report: Report, target: TargetReport) -> str:
    """Return what takes most of the time, without its share."""
    costs = costs_of(report, target)
    return max(costs, key=lambda one: costs[one], default="")


def top_cost(report: Report, target: TargetReport) -> str:
    """Return what takes most of the time, with its share of all: an operation, calls of programs, or a device."""
    costs = costs_of(report, target)
    total = sum(costs.values())
    if not total:
        return ""
    most = max(costs, key=lambda one: costs[one])
    return f"{most} {costs[most] / total:.0%}"


def costs_of(report: Report, target: TargetReport) -> dict[str, float]:
    """Return microseconds by what takes them."""
    if target.path == COREML and target.placement is not None and target.placement.on_engine < 1:
        return device_costs(target)
    calls = [one for one in target.timeline if one.engine == HOST]
    layers = [one for one in target.timeline if one.engine != HOST]
    inside = {one.segment: 0.0 for one in calls}
    for layer in layers:
        inside[layer.segment] += layer.duration
    own = {one.segment: operation(report, one.kind, one.nodes) for one in layers if not inside[one.segment]}
    counts = {op: list(own.values()).count(op) for op in own.values()}
    others = [one.duration for one in calls if one.segment not in own]
    found: dict[str, float] = {}
    if others:
        parts = () if target.latency is None else target.latency.parts
        dispatch = min(next((one.microseconds for one in parts if one.name == DISPATCH), math.inf), sum(others))
        found = {dispatches(len(others)): dispatch, COPIES: sum(others) - dispatch}
    for call in calls:
        op = own.get(call.segment)
        if op is not None:
            what = op if counts[op] == 1 else f"{counts[op]} {op}"
            found[what] = found.get(what, 0.0) + call.duration
    for layer in layers:
        op = operation(report, layer.kind, layer.nodes)
        found[op] = found.get(op, 0.0) + layer.duration
    return found


def device_costs(target: TargetReport) -> dict[str, float]:
    """Return microseconds by device, and those of the changes between them."""
    assert target.placement is not None  # noqa: S101 - the caller asked
    found: dict[str, float] = {}
    for segment in target.placement.segments:
        device = "engine" if segment.device == ENGINE else segment.device
        found[device] = found.get(device, 0.0) + (segment.microseconds or 0.0)
    found["changes of device"] = target.placement.hops_microseconds or 0.0
    return found


def dispatches(count: int) -> str:
    """Return calls of programs in words."""
    return DISPATCH if count == 1 else f"{count} dispatches"


def operation(report: Report, kind: str, nodes: Sequence[int]) -> str:
    """Return the user's operation that a layer is mostly: the one of its kind, else the first that it carries out."""
    ops = [report.nodes[node].op for node in nodes]
    return kind if kind in ops or not ops else ops[0]


def change_text(change: Change, alike: Sequence[Change] = ()) -> str:
    """Return a change with its price; of several targets, that of the one that it helps most.

    >>> from aneforge.report.model import Change
    >>> change_text(Change("decompose 4 sdpa", "--opt 1", 2200.0, 640.0))
    'decompose 4 sdpa (--opt 1): 2.2 ms → 640 µs'
    """
    best = max((change, *alike), key=lambda one: one.gain)
    before, after = time_text(best.before), time_text(best.after)
    number, _, unit = before.partition(" ")
    if before == after:
        return f"{best.text} ({best.option}): {SAME_TIME}"
    return f"{best.text} ({best.option}): {number if after.endswith(f' {unit}') else before} → {after}"


def stopped_by(target: TargetReport) -> tuple[str, str] | None:
    """Return the operation and the rule because of which a target has no program."""
    if target.runs != NO:
        return None
    return next(((one.op, one.rule) for one in target.findings if one.severity in STOPPING), ("", ""))


def reason_of(report: Report, target: TargetReport, alike: Collection[str] = ()) -> str:
    """Return why a target has no program, and those with the same result, in one sentence; empty where it has one."""
    if target.runs != NO:
        return ""
    stopping = next((one for one in target.findings if one.severity in STOPPING), None)
    if stopping is not None:
        return shop_message(report, stopping, alike)
    return target.failure.splitlines()[0] if target.failure else ""


def verdict_line(report: Report, result: Outcome) -> str:
    """Return the verdict in one sentence: does it pass, and the summary.

    >>> import aneforge as af
    >>> from aneforge.report import check, outcome
    >>> report = check(af.input((1, 4), name="x").relu(), af.targets.Family.A15)
    >>> verdict_line(report, outcome(report)).startswith("passed: graph runs on ")
    True
    """
    head = "passed" if result.ok else "failed"
    return f"{head}: {report.model} {summary_line(report)}"


def summary_line(report: Report) -> str:
    """Return where a model runs, how fast and how exactly, as the rest of a sentence that begins with its name."""
    return ", ".join([*runs_texts(report), *time_range(report), *errors_text(report)])


def runs_texts(report: Report) -> list[str]:
    """Return where a model runs, in words."""
    if not report.targets:
        return ["was checked on no chip"]
    if any(one.path == COREML for one in report.targets):
        shares = [one.placement.on_engine for one in report.targets if one.placement is not None]
        low, high = percent_text(min(shares)), percent_text(max(shares))
        if max(shares) == 0:
            return [f"runs through Core ML, only on {devices_text(report)}: no part of it on the engine"]
        share = low if low == high else f"{low} to {high}"
        return [f"runs through Core ML, {share} of its operations on the engine"]
    chips = {word: [name for one in report.targets if one.runs == word for name in names_of(one)]
             for word in (YES, SPLIT, NO)}  # fmt: skip
    total = sum(map(len, chips.values()))
    if not chips[SPLIT] and not chips[NO]:
        return [f"runs on {count_chips(chips[YES], total)}"]
    if not chips[YES] and not chips[SPLIT]:
        names = count_chips(chips[NO], total)
        return [f"runs on none of {names.removeprefix('all ')}" if total > FEW else f"does not run on {names}"]
    texts = [f"runs on {count_chips(chips[YES], total)}"] if chips[YES] else []
    if chips[SPLIT]:
        texts.append(f"{'' if texts else 'runs '}after splitting on {count_chips(chips[SPLIT], total)}")
    return [*texts, *([f"not on {count_chips(chips[NO], total)}"] if chips[NO] else [])]


def devices_text(report: Report) -> str:
    """Return the devices on which Core ML runs a model."""
    placements = (one.placement for one in report.targets if one.placement is not None)
    names = dict.fromkeys(segment.device for one in placements for segment in one.segments if segment.nodes)
    return " and ".join(f"the {name}" for name in names) or "no device"


def count_chips(names: Sequence[str], total: int) -> str:
    """Return chips by name if the names are short, else their number.

    >>> count_chips(["a", "b"], 2), count_chips(list("abcd"), 4), count_chips(list("abcdefghij"), 20)
    ('a, b', 'all 4 chips', '10 of 20 chips')
    """
    joined = join_names(names)
    if len(names) <= FEW or (len(names) < total and len(joined) <= SHORT):
        return joined
    return f"all {total} chips" if len(names) == total else f"{len(names)} of {total} chips"


def time_range(report: Report) -> list[str]:
    """Return the shortest and the longest predicted time."""
    times = sorted(one.latency.microseconds for one in report.targets if one.latency is not None)
    if not times:
        return []
    if not times[-1]:
        return [NO_PROGRAM]
    low, high = time_text(times[0]), time_text(times[-1])
    return [low if low == high else f"{low} to {high}"]


def errors_text(report: Report) -> list[str]:
    """Return how far outputs are from the mathematics for the sample inputs, on the worst of the targets."""
    errors = [one for target in report.targets for one in target.errors]
    if not errors:
        return []
    lost = max(errors, key=lambda one: one.not_finite[0] - one.not_finite[1])
    if lost.largest is None:
        return [f"{lost.not_finite[0]} of {lost.elements} elements of {lost.name} are infinite or NaN"]
    largest = max(one.largest or 0.0 for one in errors)
    parts = [f"largest error {largest:.2g}"] if largest else ["no error"]
    relative = max((one.relative for one in errors if one.relative is not None), default=0.0)
    parts += [f"relative {relative:.2g}"] if relative else []
    noises = [one.snr for one in errors if one.snr is not None]
    parts += [f"SNR {min(noises):.0f} dB"] if noises else []
    places = [one.argmax for one in errors if one.argmax is not None]
    parts += ["same argmax" if min(places) == 1 else f"argmax agrees in {min(places):.1%} of rows"] if places else []
    return parts


def counting(result: Outcome, count: int) -> str:
    """Return what counts against a model: how many of its findings, by which words, and what no finding stands for."""
    words = [f"{number} {word}" for word, number in result.counts.items()]
    whole = dict.fromkeys(one.word for one in result.failures if one.finding is None)
    parts = [f"{sum(result.counts.values())} of {number_of(count, 'finding')} ({', '.join(words)})"] if words else []
    return ", ".join([*parts, *whole])
