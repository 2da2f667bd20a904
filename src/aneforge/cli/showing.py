"""What commands print on the terminal: wrapped texts, names, and what `-v` adds to the screen of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from aneforge.cli.terminal import plain_table, print_wrapped
from aneforge.display import clauses_once, number_of
from aneforge.report.finding_texts import chips_text, shorten_names
from aneforge.report.headline import THE_ENGINE, in_shop_words, named_chips, shop_name
from aneforge.report.model import COREML, DIFFERS, MAY_DIFFER
from aneforge.report.numbers import bytes_text, latency_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from aneforge.errors import Location
    from aneforge.report.model import Divergence, Placement, Report, Rescaling, TargetReport

__all__ = [
    "cut_text",
    "show_answers",
    "show_details",
    "summary_table",
    "where",
]

NUMBERS = ("nat", "dec", "over", "rej", "prog", "latency", "weights", "on chip")
LEGEND = (
    "nat native, dec decomposed, over oversize, rej rejected; prog programs that the model is cut into; "
    "on chip: peak of the memory plan; fp16: overflow risk; exact: confidence in bit-exactness"
)
COREML_NUMBERS = ("engine", "CPU", "GPU", "parts", "latency")
COREML_LEGEND = (
    "engine: share of the operations there; CPU, GPU: operations that run there; parts: runs of operations on one "
    "device; latency: with all changes of device"
)
TABLE_WIDTH = 72
"""Columns that the table of targets needs; on a narrower terminal each target is a sentence."""
SHOWN_REASON = 160


def summary_table(targets: Sequence[TargetReport]) -> object:
    """Return the line of every target."""
    table = plain_table(["target", "chip", *NUMBERS, "fp16", "exact"], NUMBERS)
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for one in targets:
        counts = one.counts
        numbers = (
            Text(str(counts.native), "green" if counts.native else ""),
            Text(str(counts.decompose), "yellow" if counts.decompose else ""),
            Text(str(counts.oversize), "magenta" if counts.oversize else ""),
            Text(str(counts.reject), "red" if counts.reject else ""),
        )
        if one.failure is not None or one.memory is None:
            table.add_row(one.target, shop_name(one), *numbers, "-", "no program", "-", "-", "-", "-")
            continue
        table.add_row(
            one.target,
            shop_name(one),
            *numbers,
            str(one.segments),
            latency_text(one.latency),
            bytes_text(one.weight_bytes),
            bytes_text(one.memory.peak),
            short_risk(one),
            short_exactness(one),
        )
    return table


def coreml_table(targets: Sequence[TargetReport]) -> object:
    """Return the line of every target for a model that Core ML runs."""
    table = plain_table(["target", "chip", *COREML_NUMBERS, "fp16", "exact"], COREML_NUMBERS)
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for one in targets:
        placement = one.placement
        assert placement is not None  # noqa: S101 - every target of this path has one
        table.add_row(
            one.target,
            shop_name(one),
            Text(percent_text(placement.on_engine), "green" if placement.on_engine == 1 else "yellow"),
            *(str(placement.count(device)) for device in ("CPU", "GPU")),
            str(len(placement.segments)),
            latency_text(one.latency),
            short_risk(one),
            short_exactness(one),
        )
    return table


def short_risk(one: TargetReport) -> str:
    """Return what fp16 does, as a cell holds it."""
    return {"unknown": "?", "saturation": "inf", "none": "ok"}.get(one.risk, one.risk)


def short_exactness(one: TargetReport) -> str:
    """Return how sure bits are, as a cell holds it."""
    return {"modelled": "model", "unknown": "?"}.get(one.exactness, one.exactness)


def summary_text(one: TargetReport) -> str:
    """Return what the table says of a target in words."""
    counts = one.counts
    verdicts = (
        f"{counts.native} native, {counts.decompose} decomposed, {counts.oversize} oversize, {counts.reject} rejected"
    )
    named = f"{shop_name(one)} ({one.target})"
    if one.path == COREML and one.placement is not None:
        off = [f"{count} on the {device}" for device in ("CPU", "GPU") if (count := one.placement.count(device))]
        parts = number_of(len(one.placement.segments), "part")
        return f"{named}: {', '.join([one.runs, *off])}; {parts}, {latency_text(one.latency)}"
    if one.failure is not None or one.memory is None:
        return f"{named}: {verdicts}; no program"
    programs = number_of(one.segments, "program")
    sizes = f"weights {bytes_text(one.weight_bytes)}, on chip {bytes_text(one.memory.peak)}"
    known = f"fp16 {one.risk}, exactness {one.exactness}"
    return f"{named}: {verdicts}; {programs}, {latency_text(one.latency)}; {sizes}; {known}"


def show_failures(out: Console, report: Report) -> None:
    """Print why there is no program where no finding says it."""
    for one in report.targets:
        if one.failure is not None and not any(finding.severity == "reject" for finding in one.findings):
            out.print()
            print_wrapped(out, f"{shop_name(one)} ({one.target}): no program: {one.failure}", style="red")


def show_details(out: Console, report: Report) -> None:
    """Print what a screen leaves out: the table of counts with its legend, and reasons, each once for its targets."""
    out.print()
    coreml = any(one.path == COREML for one in report.targets)
    if out.width >= TABLE_WIDTH:
        out.print(coreml_table(report.targets) if coreml else summary_table(report.targets))
        print_wrapped(out, COREML_LEGEND if coreml else LEGEND, style="dim")
    else:
        for one in report.targets:
            print_wrapped(out, summary_text(one))
    show_failures(out, report)
    risks = [(one.target, f"{one.risk}: {clauses_once(one.risk_reason)}") for one in report.targets if one.risk_reason]
    show_shared(out, report, "fp16", risks)
    known = [
        (one.target, f"{one.exactness}: {clauses_once(one.exactness_reason)}")
        for one in report.targets
        if one.exactness_reason
    ]
    show_shared(out, report, "exactness", known)
    show_pairs(out, report, MAY_DIFFER)


def show_answers(out: Console, report: Report) -> None:
    """Print what was asked for in addition to the verdict: placements, rescalings, and differences seen in samples."""
    show_shared(
        out,
        report,
        "placement",
        [
            (
                one.target,
                f"{one.placement.path} ({one.placement.evidence}): {percent_text(one.placement.on_engine)} of "
                f"operations on the engine in {number_of(len(one.placement.segments), 'part')}. "
                f"{in_shop_words(advice_text(one.placement), one.target, THE_ENGINE)}".strip(),
            )
            for one in report.targets
            if one.placement is not None
        ],
    )
    show_shared(
        out,
        report,
        "rescaling",
        [
            (one.target, f"{risk_change(one.rescaling)}; {one.rescaling.detail}")
            for one in report.targets
            if one.rescaling is not None
        ],
    )
    show_pairs(out, report, DIFFERS)


def risk_change(rescaling: Rescaling) -> str:
    """Return the fp16 risk before and after rescaling; once where it stays."""
    both = dict.fromkeys((rescaling.before, rescaling.after))
    return f"fp16 risk {' -> '.join(both)}"


def advice_text(placement: Placement) -> str:
    """Return what would bring more onto the engine, else why something is not there."""
    return " ".join(placement.advice) or placement.reason


def show_pairs(out: Console, report: Report, word: str) -> None:
    """Print the pairs of targets that differ, or may, each difference once."""
    shared: dict[str, list[str]] = {}
    for pair in report.divergences:
        if pair.differences and pair.word == word:
            names = [named_chips(report, [one]) for one in (pair.first, pair.second)]
            shared.setdefault(differing(pair, report), []).append(" and ".join(names))
    for text, pairs in shared.items():
        print_wrapped(out, f"{word} between {shorten_names(pairs)}: {text}", style="dim")


def differing(pair: Divergence, report: Report) -> str:
    """Return how two targets may differ, the first of the model's operations in which they do, and what was seen."""
    first = pair.differences[0]
    node = None if first.node is None else report.nodes[first.node]
    where = first.op if node is None else f"{node.op} {node.name!r}"
    more = f", and in {len(pair.differences) - 1} more" if len(pair.differences) > 1 else ""
    seen = f"; {pair.seen}" if pair.seen else ""
    return f"{pair.strength}, first in {where} ({first.cause}){more}{seen}"


def show_shared(out: Console, report: Report, what: str, texts: Sequence[tuple[str, str]]) -> None:
    """Print texts that several targets share, each once."""
    shared: dict[str, list[str]] = {}
    for target, text in texts:
        shared.setdefault(text, []).append(target)
    for text, targets in shared.items():
        once = clauses_once(text)
        print_wrapped(out, f"{what} on {chips_text(report, targets)}: {once}", style="dim")


def cut_text(text: str, most: int = SHOWN_REASON + 2) -> str:
    """Return the beginning of a long text, and each of its clauses once.

    >>> cut_text("a; b; a"), len(cut_text("word " * 99)) <= SHOWN_REASON + 2
    ('a; b', True)
    """
    once = clauses_once(text)
    return once if len(once) <= most else f"{once[: most - 2].rstrip()} …"


def where(node: str, place: Location | None) -> str:
    """Return the place of a finding: the node of the model, and the line of the user's file."""
    named = f" {node!r}" if node else ""
    line = f" at {place.file}:{place.line}" if place is not None and place.file and place.line is not None else ""
    return named + line
