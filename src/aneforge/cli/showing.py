"""A report on the terminal: a line for each target, then the findings, worst first."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from aneforge.cli.terminal import STYLES, console, plain_table
from aneforge.report.grouping import fold_findings
from aneforge.report.model import COREML, DIFFERS, MAY_DIFFER, SPLIT
from aneforge.report.numbers import bytes_text, latency_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from aneforge.errors import Location
    from aneforge.report.gate import Outcome
    from aneforge.report.grouping import Folded
    from aneforge.report.model import Divergence, Report, TargetReport

__all__ = ["cut_text", "print_wrapped", "show_finding", "show_report", "summary_table"]

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
THROUGH_COREML = "path: Core ML, which runs elsewhere what the engine does not take (--path direct asks for all of it)"
DIRECTLY = "path: direct dispatch, all operations on the engine (--path coreml asks where Core ML would run them)"
TABLE_WIDTH = 72
"""Columns that the table of targets needs; on a narrower terminal each target is a sentence."""
SHOWN_TARGETS = 6
SHOWN_REASON = 160
CUT = ("fp16", "exactness")
"""What has reasons that are cut; the others are answers to what was asked for."""
SHOWN_FAILURES = 5
CHECK = "check"


def show_report(
    report: Report, result: Outcome, *, most: int = 20, verbose: bool = False, command: str = "check"
) -> None:
    """Print a report and whether it passes; long reasons are cut unless all is asked for.

    `command` is the one that prints it: a demonstration has no files and fails on nothing.
    """
    out = console()
    out.print(f"[bold]{escape(report.model)}[/]: {len(report.nodes)} operations, {report.format}")
    for note in report.notes:
        print_wrapped(out, f"note: {note}", style="dim")
    out.print()
    coreml = any(one.path == COREML for one in report.targets)
    print_wrapped(out, THROUGH_COREML if coreml else DIRECTLY, style="dim")
    if out.width >= TABLE_WIDTH:
        out.print(coreml_table(report.targets) if coreml else summary_table(report.targets))
        print_wrapped(out, COREML_LEGEND if coreml else LEGEND, style="dim")
    else:
        for one in report.targets:
            print_wrapped(out, summary_text(one))
    show_failures(out, report)
    kept = ", --json FILE keeps all" if command == CHECK else ""
    show_extras(out, report, f"… -v prints the whole reasons{kept}", verbose=verbose)
    found = fold_findings(report)
    count = sum(1 + len(one.others) for one in found)
    if found:
        out.print(f"\n[bold]{findings_text(count)}, worst first[/]")
    for one in found[:most]:
        show_finding(out, one)
    if len(found) > most:
        out.print(f"\nand {len(found) - most} more (--most {len(found)} prints all{kept})")
    show_outcome(out, report, result, count, command)


def segments_text(count: int) -> str:
    """Return a number of segments.

    >>> segments_text(1), segments_text(2)
    ('1 segment', '2 segments')
    """
    return "1 segment" if count == 1 else f"{count} segments"


def findings_text(count: int) -> str:
    """Return a number of findings.

    >>> findings_text(1), findings_text(2)
    ('1 finding', '2 findings')
    """
    return "1 finding" if count == 1 else f"{count} findings"


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
            table.add_row(one.target, chip_of(one), *numbers, "-", "no program", "-", "-", "-", "-")
            continue
        table.add_row(
            one.target,
            chip_of(one),
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
            chip_of(one),
            Text(f"{placement.on_engine:.0%}", "green" if placement.on_engine == 1 else "yellow"),
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
    named = f"{one.target} ({chip_of(one)})" if chip_of(one) else one.target
    if one.path == COREML and one.placement is not None:
        off = [f"{count} on the {device}" for device in ("CPU", "GPU") if (count := one.placement.count(device))]
        parts = segments_text(len(one.placement.segments))
        return f"{named}: {', '.join([one.runs, *off])}; {parts}, {latency_text(one.latency)}"
    if one.failure is not None or one.memory is None:
        return f"{named}: {verdicts}; no program"
    programs = "1 program" if one.segments == 1 else f"{one.segments} programs"
    sizes = f"weights {bytes_text(one.weight_bytes)}, on chip {bytes_text(one.memory.peak)}"
    known = f"fp16 {one.risk}, exactness {one.exactness}"
    return f"{named}: {verdicts}; {programs}, {latency_text(one.latency)}; {sizes}; {known}"


def chip_of(target: TargetReport) -> str:
    """Return one chip of a target: the last and best known of its list, shortest name first."""
    names = [name for name in target.title.split(", ") if name]
    chosen = min(reversed(names), key=len, default="")
    return f"{chosen}+" if len(names) > 1 else chosen


def show_failures(out: Console, report: Report) -> None:
    """Print why there is no program where no finding says it."""
    for one in report.targets:
        if one.failure is not None and not any(finding.severity == "reject" for finding in one.findings):
            out.print()
            print_wrapped(out, f"{one.target}: no program: {one.failure}", style="red")


def show_extras(out: Console, report: Report, rest: str, *, verbose: bool) -> None:
    """Print risks, placements, rescalings and differences, each once for the targets that share it.

    `rest` says how to see what was cut, where something was.
    """
    was_cut = False
    for what, texts in (
        ("fp16", [(one.target, f"{one.risk}: {one.risk_reason}") for one in report.targets if one.risk_reason]),
        (
            "exactness",
            [
                (one.target, f"{one.exactness}: {one.exactness_reason}")
                for one in report.targets
                if one.exactness_reason
            ],
        ),
        (
            "placement",
            [
                (
                    one.target,
                    f"{one.placement.path} ({one.placement.evidence}): {one.placement.on_engine:.0%} of operations on "
                    f"the engine in {segments_text(len(one.placement.segments))}. "
                    f"{' '.join(one.placement.advice) or one.placement.reason}".strip(),
                )
                for one in report.targets
                if one.placement is not None
            ],
        ),
        (
            "rescaling",
            [
                (one.target, f"{one.rescaling.before} becomes {one.rescaling.after}; {one.rescaling.detail}")
                for one in report.targets
                if one.rescaling is not None
            ],
        ),
        *(
            (
                word,
                [
                    (f"{pair.first}/{pair.second}", differing(pair, report))
                    for pair in report.divergences
                    if pair.differences and pair.word == word
                ],
            )
            for word in (DIFFERS, MAY_DIFFER)
        ),
    ):
        was_cut |= show_shared(out, what, texts, verbose=verbose or what not in CUT)
    if was_cut:
        print_wrapped(out, rest, style="dim")


def differing(pair: Divergence, report: Report) -> str:
    """Return how two targets may differ, the first of the model's operations in which they do, and what was seen."""
    first = pair.differences[0]
    node = None if first.node is None else report.nodes[first.node]
    where = first.op if node is None else f"{node.op} {node.name!r}"
    more = f", and in {len(pair.differences) - 1} more" if len(pair.differences) > 1 else ""
    seen = f"; {pair.seen}" if pair.seen else ""
    return f"{pair.strength}, first in {where} ({first.cause}){more}{seen}"


def show_shared(out: Console, what: str, texts: Sequence[tuple[str, str]], *, verbose: bool) -> bool:
    """Print texts that several targets share, each once; return whether one was cut."""
    shared: dict[str, list[str]] = {}
    for target, text in texts:
        shared.setdefault(text, []).append(target)
    for text, targets in shared.items():
        print_wrapped(out, f"{what} on {listed(targets)}: {text if verbose else cut_text(text)}", style="dim")
    return not verbose and any(cut_text(text) != text for text in shared)


def cut_text(text: str) -> str:
    """Return the beginning of a long text, and each of its clauses once.

    >>> cut_text("a; b; a"), len(cut_text("word " * 99)) <= SHOWN_REASON + 2
    ('a; b', True)
    """
    once = "; ".join(dict.fromkeys(text.split("; ")))
    return once if len(once) <= SHOWN_REASON else f"{once[:SHOWN_REASON].rstrip()} …"


def names_once(names: Sequence[str]) -> list[str]:
    """Return names, each once, with how often it comes: one node of a file can become many operations.

    >>> names_once(["a", "b", "a"])
    ['a (2)', 'b']
    """
    return [name if count == 1 else f"{name} ({count})" for name, count in Counter(names).items()]


def listed(targets: Sequence[str]) -> str:
    """Return names of targets, the first few of many.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = len(targets) - SHOWN_TARGETS
    return ", ".join(targets[:SHOWN_TARGETS]) + (f" and {more} more" if more > 0 else "")


def show_finding(out: Console, folded: Folded) -> None:
    """Print one finding, and the other operations that have it too."""
    one = folded.first
    finding = one.finding
    out.print()
    others = len(folded.others)
    more = f" and {others} more operation{'s' if others > 1 else ''}" if others else ""
    place = where(one.node, finding.location)
    head = f"{finding.rule} {finding.severity} {finding.op}{place}{more} on {listed(one.targets)}"
    print_wrapped(out, head, word=(finding.severity, STYLES.get(finding.severity, "")))
    print_wrapped(out, finding.message, indent=2)
    if finding.limit is not None:
        print_wrapped(out, f"seen: {finding.seen}, limit: {finding.limit}", indent=2)
    if finding.remedy:
        print_wrapped(out, f"remedy: {finding.remedy}", indent=2)
    known = finding.evidence_text if finding.evidence is None else str(finding.evidence)
    print_wrapped(out, f"evidence: {known}", indent=2, style="dim")
    if finding.threads:
        print_wrapped(out, f"reported in: {', '.join(finding.threads)}", indent=2, style="dim")
    if folded.others:
        print_wrapped(out, f"also: {listed(names_once(folded.others))}", indent=2, style="dim")


def print_wrapped(
    out: Console, text: str, *, indent: int = 0, style: str = "", word: tuple[str, str] | None = None
) -> None:
    """Print a text within the width, every line indented and none with spaces at its end.

    A word can have a style of its own, where it comes first.
    """
    for line in text.splitlines() or [""]:
        space = " " * (indent + len(line) - len(line.lstrip()))
        made = textwrap.wrap(line.strip(), max(20, out.width), initial_indent=space, subsequent_indent=space)
        for part in made:
            shown = Text(part, style)
            if word is not None and word[0] in part:
                at = part.index(word[0])
                shown.stylize(word[1], at, at + len(word[0]))
                word = None
            out.print(shown, soft_wrap=True)


def where(node: str, place: Location | None) -> str:
    """Return the place of a finding: the node of the model, and the line of the user's file."""
    named = f" {node!r}" if node else ""
    line = f" at {place.file}:{place.line}" if place is not None and place.file and place.line is not None else ""
    return named + line


def show_outcome(out: Console, report: Report, result: Outcome, count: int, command: str) -> None:
    """Print whether the check passes, and if not, on what it fails, in the words of --fail-on."""
    apart = [f"{result.known} known from the baseline"] if result.known else []
    apart += [f"{findings_text(result.doubted)} with weaker evidence than asked for"] if result.doubted else []
    known = f" ({', '.join(apart)})" if apart else ""
    if result.ok:
        out.print(f"\n[green]{'passed' if command == CHECK else 'aneforge check would pass'}[/]{known}")
        return
    head = "failed" if command == CHECK else "aneforge check would fail"
    out.print()
    print_wrapped(out, f"{head}: {counting(result, count)}{known}", word=(head, "red"))
    split = [one.target for one in report.targets if one.runs == SPLIT]
    if split and "oversize" in result.counts:
        print_wrapped(
            out,
            "oversize: as it is written it does not pass Apple's validator; the compiler splits it, so that it has a "
            f"program and runs after splitting on {listed(split)}. --fail-on reject lets that pass",
            indent=2,
        )
    whole = [one for one in result.failures if one.finding is None]
    for one in whole[:SHOWN_FAILURES]:
        print_wrapped(out, f"{one.target}: {one.reason}", indent=2)
    if len(whole) > SHOWN_FAILURES:
        print_wrapped(out, f"and {len(whole) - SHOWN_FAILURES} more", indent=2)


def counting(result: Outcome, count: int) -> str:
    """Return what counts against a model: how many of its findings, by which words, and what no finding stands for."""
    words = [f"{number} {word}" for word, number in result.counts.items()]
    whole = dict.fromkeys(one.word for one in result.failures if one.finding is None)
    parts = [f"{sum(result.counts.values())} of {findings_text(count)} ({', '.join(words)})"] if words else []
    return ", ".join([*parts, *whole])
