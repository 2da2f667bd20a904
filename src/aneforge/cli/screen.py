"""The screen of `check`: will it run, why not, how fast and where does the time go, how exact, what to change.

The first and the last line are the verdict. A row for every distinct result follows, by the shop names of chips, then
the findings, worst first. Tables of counts, legends and reasons come with `-v`.
"""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from aneforge.cli.showing import cut_text, show_answers, show_details, where
from aneforge.cli.terminal import STYLES, console, print_wrapped
from aneforge.display import number_of
from aneforge.graph.precision import TAKEN
from aneforge.report.finding_texts import (
    chips_text,
    closing_line,
    evidence_by_chip,
    limit_text,
    names_once,
    shorten_names,
)
from aneforge.report.grouping import count_findings, fold_results
from aneforge.report.headline import (
    in_shop_words,
    named_chips,
    result_rows,
    shop_message,
    shop_name,
    verdict_line,
)
from aneforge.report.model import COREML, NO, YES
from aneforge.report.predicted import SOME_TARGETS
from aneforge.report.time_shares import share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from aneforge.report.gate import Outcome
    from aneforge.report.grouping import Folded
    from aneforge.report.headline import ResultRow
    from aneforge.report.model import Report

__all__ = ["CHECK", "MOST", "show_finding", "show_report"]

CHECK = "check"
MOST = 5
"""Findings that are printed if nothing else is asked for."""
THROUGH_COREML = "path: Core ML (or --path direct)"
DIRECTLY = "path: direct dispatch (or --path coreml)"
HEADINGS = ("chip", "", "runs", "time", "top cost", "what to change")
RUN_STYLES = {YES: "green", "split": "magenta", NO: "red"}
TARGET, RUNS, CHANGE = 1, 2, 5
"""Columns by their place in the headings."""
LAYOUTS = ((0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4), (0, 2, 3, 4))
"""Columns that are shown: as many as fit."""
GAP = 2
LEAST_REASON = 36
"""The width that a reason needs at least where no other result has a time there."""
LEAST_CHIPS = 20
"""The width that names of chips need at least where they become several lines."""
SHOWN_FAILURES = 5


def show_report(
    report: Report, result: Outcome, *, most: int = MOST, verbose: bool = False, command: str = CHECK
) -> None:
    """Print a report and whether it passes; tables and reasons are printed too if all is asked for.

    `command` is the one that prints it: a demonstration has no files and fails on nothing.
    """
    out = console()
    show_verdict(out, verdict_line(report, result), ok=result.ok)
    path = THROUGH_COREML if any(one.path == COREML for one in report.targets) else DIRECTLY
    halved = " in fp16" if TAKEN in report.notes else ""
    print_wrapped(out, f"{number_of(report.operations, 'operation')}, {report.format}{halved}; {path}", style="dim")
    for note in report.notes:
        if verbose or not is_said_above(note):
            print_wrapped(out, f"note: {note}", style="dim")
    show_rows(out, result_rows(report))
    print_wrapped(out, exactness_line(report), style="dim")
    show_answers(out, report)
    if verbose:
        show_details(out, report)
    show_findings(out, report, most=most, verbose=verbose, command=command)
    show_end(out, report, result)


def is_said_above(note: str) -> bool:
    """Return whether the lines above the notes say the same."""
    return note == TAKEN or note.startswith(SOME_TARGETS.id)


def show_verdict(out: Console, text: str, *, ok: bool) -> None:
    """Print a verdict, its first word in colour."""
    print_wrapped(out, text, word=("passed" if ok else "failed", "green" if ok else "red"))


def show_rows(out: Console, rows: tuple[ResultRow, ...]) -> None:
    """Print a line for every distinct result; a change is below it where the line is full.

    A line that is too long loses the compiler's names first, then the names of many chips become several lines; where
    that is not enough, rows become sentences.
    """
    cells = [[row.chips, " ".join(row.targets), row.runs, row.time, row.cost, row.change] for row in rows]
    with_program = [texts for row, texts in zip(rows, cells, strict=True) if not row.reason]
    widths = [
        max((len(text) for text in texts), default=0)
        for column in range(len(HEADINGS))
        for texts in [[line[column] for line in (cells if column <= RUNS else with_program)]]
    ]
    widths = [width and max(width, len(heading)) for width, heading in zip(widths, HEADINGS, strict=True)]
    reasons = LEAST_REASON if len(with_program) < len(rows) and not any(widths[RUNS + 1 :]) else 0
    shown = next((columns for columns in LAYOUTS if rest_width(widths, columns) - GAP <= out.width - reasons), None)
    if shown is None:
        shown, widths[0] = LAYOUTS[-1], min(widths[0], out.width - rest_width(widths, LAYOUTS[-1][1:]) - reasons)
        if widths[0] < LEAST_CHIPS:
            for row in rows:
                print_wrapped(out, sentence(row))
            return
    out.print(line_of(list(HEADINGS), widths, shown, bold=True), soft_wrap=True)
    for row, texts in zip(rows, cells, strict=True):
        show_row(out, row, texts, widths, tuple(one for one in shown if one <= RUNS or not row.reason))
    if CHANGE not in shown:
        show_changes(out, rows)


def show_row(out: Console, row: ResultRow, texts: list[str], widths: list[int], columns: tuple[int, ...]) -> None:
    """Print the line of a result; what has no program has its reason in the place of a time."""
    first, *more = textwrap.wrap(texts[0], widths[0], break_on_hyphens=False)
    line = line_of([first, *texts[1:]], widths, columns, run=row.runs)
    begin = len(line)
    reason, *rest = textwrap.wrap(cut_text(row.reason), max(20, out.width - begin)) or [""]
    line.append(reason)
    line.rstrip()
    out.print(line, soft_wrap=True)
    for chips, text in itertools.zip_longest(more, rest, fillvalue=""):
        out.print(f"{chips:{begin}}{text}".rstrip(), soft_wrap=True)


def show_changes(out: Console, rows: tuple[ResultRow, ...]) -> None:
    """Print what to change, each change once with its price on every row that has it."""
    prices: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        what, _, price = row.change.partition(": ")
        if what:
            prices.setdefault(what, []).append((row.chips.partition(", ")[0].partition("/")[0], price))
    for what, known in prices.items():
        alike = {price for _, price in known}
        text = alike.pop() if len(alike) == 1 else ", ".join(f"{chip} {price}" for chip, price in known)
        print_wrapped(out, f"change: {what}: {cut_text(text, max(40, out.width - len(what) - 10))}")


def rest_width(widths: list[int], columns: tuple[int, ...]) -> int:
    """Return the width of some columns, with the gap next to each."""
    return sum(widths[column] + GAP for column in columns if widths[column])


def line_of(
    texts: list[str], widths: list[int], columns: tuple[int, ...], *, run: str = "", bold: bool = False
) -> Text:
    """Return the cells of a line; compiler names are dim, and the answer has its colour."""
    line = Text(style="bold" if bold else "")
    styles = {} if bold else {TARGET: "dim", RUNS: RUN_STYLES.get(run, "yellow")}
    for column in columns:
        if widths[column]:
            line.append(texts[column], styles.get(column, ""))
            line.append(" " * (widths[column] + GAP - len(texts[column])))
    if bold:
        line.rstrip()
    return line


def sentence(row: ResultRow) -> str:
    """Return a row in words, for a narrow terminal."""
    parts = [row.time, row.cost, row.reason, f"change: {row.change}" if row.change else ""]
    return f"{row.chips} ({', '.join(row.targets)}): {row.runs}; {'; '.join(part for part in parts if part)}"


def exactness_line(report: Report) -> str:
    """Return how sure bits are, what is known of overflow, and how to know more."""
    ran = [one for one in report.targets if one.failure is None]
    if not ran:
        return "exactness: not known without a program"
    words = by_chip([one.exactness for one in ran])
    risks = by_chip([one.risk for one in ran])
    asked = any(one.errors for one in ran)
    more = "-v says why" if asked else "--inputs FILE.npz shows errors"
    return f"exactness: {words}; fp16 overflow: {risks}; {more}"


def by_chip(words: Sequence[str]) -> str:
    """Return what is said of chips in one word, or all words where they differ.

    >>> by_chip(["exact", "exact"]), by_chip(["exact", "modelled"])
    ('exact', 'exact or modelled, by chip')
    """
    found = list(dict.fromkeys(words))
    return found[0] if len(found) == 1 else f"{' or '.join(found)}, by chip"


def show_findings(out: Console, report: Report, *, most: int, verbose: bool, command: str) -> None:
    """Print the findings, worst first."""
    found = fold_results(report)
    if not found:
        return
    count = count_findings(report)
    kinds = f" of {number_of(len(found), 'kind')}" if len(found) < count else ""
    out.print(f"\n[bold]{number_of(count, 'finding')}{kinds}{', worst first' if len(found) > 1 else ''}[/]")
    for one in found[:most]:
        show_finding(out, report, one, verbose=verbose)
    if len(found) > most:
        kept = ", --json FILE keeps all" if command == CHECK else ""
        more = number_of(len(found) - most, "more kind") if kinds else f"{len(found) - most} more"
        out.print(f"and {more} (--most {len(found)} prints all{kept})")


def show_finding(out: Console, report: Report, folded: Folded, *, verbose: bool) -> None:
    """Print one finding, and the other operations that have it too."""
    one = folded.first
    finding = one.finding
    others = len(folded.others)
    more = f" and {others} more" if others else ""
    share = f", {share_text(folded.shares)}" if folded.shares else ""
    on = chips_text(report, one.targets)
    head = f"{finding.severity} {finding.op}{where(one.node, finding.location)}{more} on {on} ({finding.rule}{share})"
    print_wrapped(out, head, word=(finding.severity, STYLES.get(finding.severity, "")))
    print_wrapped(out, shop_message(report, finding, one.targets), indent=2)
    if limit := limit_text(finding):
        print_wrapped(out, limit, indent=2)
    if finding.remedy:
        print_wrapped(out, f"remedy: {finding.remedy}", indent=2)
    print_wrapped(out, f"evidence: {evidence_by_chip(report, one, whole=verbose)}", indent=2, style="dim")
    if verbose and finding.threads:
        print_wrapped(out, f"reported in: {', '.join(finding.threads)}", indent=2, style="dim")
    if folded.others:
        print_wrapped(out, f"also: {shorten_names(names_once(folded.others))}", indent=2, style="dim")


def show_end(out: Console, report: Report, result: Outcome) -> None:
    """Print the verdict once more: whether the check passes, and if not, what counts, in the words of --fail-on."""
    whole = [one for one in result.failures if one.finding is None]
    for one in whole[:SHOWN_FAILURES]:
        reason = one.reason
        for target in report.targets:
            reason = in_shop_words(reason, target.target, shop_name(target))
        print_wrapped(out, f"{named_chips(report, [one.target]) or one.target}: {reason}")
    if len(whole) > SHOWN_FAILURES:
        print_wrapped(out, f"and {len(whole) - SHOWN_FAILURES} more")
    show_verdict(out, closing_line(report, result), ok=result.ok)
