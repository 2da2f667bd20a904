"""A report as a table: Markdown for people, CSV for programs; and as annotation lines for a CI log."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.report.finding_keys import kind_of
from aneforge.report.finding_texts import chips_text, closing_line, evidence_by_chip, limit_text, names_once
from aneforge.report.gate import outcome
from aneforge.report.grouping import count_findings, fold_results
from aneforge.report.headline import result_rows, shop_message, verdict_line
from aneforge.report.model import COREML, DIRECT
from aneforge.report.numbers import bytes_text, latency_text
from aneforge.report.time_shares import share_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.report.gate import Failed, Outcome
    from aneforge.report.grouping import Folded
    from aneforge.report.headline import ResultRow
    from aneforge.report.model import Report, TargetReport

__all__ = ["CSV_COLUMNS", "annotation_lines", "csv_text", "markdown"]

PATHS = {DIRECT: "direct dispatch", COREML: "Core ML"}
"""How a model reaches the engine, in words."""
LEVELS = {"reject": "warning", "oversize": "warning", "warn": "warning"}
"""What a CI calls findings that do not fail a check; the others are notices. What fails one is an error."""
CHIP_COLUMNS = ("chips", "runs", "time", "most of it", "what to change")
TARGET_COLUMNS = (
    "target", "chips", "runs", "native", "decomposed", "oversize", "rejected", "programs", "latency", "weights",
    "on-chip peak", "fp16 risk", "exactness",
)  # fmt: skip
CSV_COLUMNS = [
    "target",
    "number",
    "node",
    "op",
    "dtype",
    "shape",
    "verdict",
    "rule",
    "severity",
    "seen",
    "limit",
    "message",
    "evidence",
]


def markdown(report: Report, result: Outcome | None = None) -> str:
    """Return a report as Markdown, in the order of the terminal: verdict, chips, findings, numbers of every target.

    The outcome is that of a check with the default threshold if none is given.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> report = check(af.input((1, 4), name="x").relu(), af.targets.Family.A15)
    >>> markdown(report).splitlines()[2].startswith("**passed**: graph runs on ")
    True
    """
    judged = result or outcome(report)
    paths = ", ".join(dict.fromkeys(PATHS[one.path] for one in report.targets))
    lines = [f"# {cell(report.model)}", "", bold_verdict(verdict_line(report, judged)), ""]
    lines += [f"{number_of(report.operations, 'operation')}, {report.format}. Path: {paths}.", ""]
    lines += [f"- {cell(note)}" for note in report.notes] + ([""] if report.notes else [])
    lines += markdown_table([CHIP_COLUMNS, *(chip_cells(row) for row in result_rows(report))])
    lines += finding_lines(report)
    lines += ["", "## Every target", ""]
    lines += markdown_table([TARGET_COLUMNS, *([cell(text) for text in markdown_row(one)] for one in report.targets)])
    lines += ["", *(f"- {one.target}: {cell(one.reason)}" for one in whole(judged))]
    lines += ["", bold_verdict(closing_line(report, judged))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def bold_verdict(line: str) -> str:
    """Return a verdict with its word in bold.

    >>> bold_verdict("passed (1 known from the baseline)")
    '**passed** (1 known from the baseline)'
    """
    return cell(re.sub(r"^(passed|failed)", r"**\1**", line))


def chip_cells(row: ResultRow) -> list[str]:
    """Return the cells of chips with the same result; what has no program has a reason in the place of a time."""
    return [cell(text) for text in (row.chips, row.runs, row.reason or row.time, row.cost, row.change)]


def finding_lines(report: Report) -> Iterator[str]:
    """Yield the findings, worst first, folded as the terminal folds them."""
    found = fold_results(report)
    if found:
        yield from ("", f"## {number_of(count_findings(report), 'finding')}, worst first", "")
    for folded in found:
        one, finding = folded.first, folded.first.finding
        at = f" at `{one.node}`" if one.node else ""
        share = f", {share_text(folded.shares)}" if folded.shares else ""
        chips = chips_text(report, one.targets)
        yield f"- **{finding.severity}** `{finding.op}`{at}{more_text(folded)} on {chips} ({finding.rule}{share})"
        yield f"    - {cell(shop_message(report, finding, one.targets))}"
        if limit := limit_text(finding):
            yield f"    - {limit}"
        if finding.remedy:
            yield f"    - remedy: {cell(finding.remedy)}"
        yield f"    - evidence: {cell(evidence_by_chip(report, one))}"
        if finding.threads:
            yield f"    - reported in: {', '.join(finding.threads)}"
        if folded.others:
            yield f"    - also: {cell(', '.join(names_once(folded.others)))}"


def brief_findings(report: Report, most: int = 5) -> Iterator[str]:
    """Yield the worst findings with their remedies, two lines for each, and how many are left out."""
    found = fold_results(report)
    for folded in found[:most]:
        one, finding = folded.first, folded.first.finding
        at = f" {one.node!r}" if one.node else ""
        on = chips_text(report, one.targets)
        message = shop_message(report, finding, one.targets)
        yield f"{finding.severity} {finding.op}{at}{more_text(folded)} on {on} ({finding.rule}): {message}"
        if finding.remedy:
            yield f"  remedy: {finding.remedy}"
    if len(found) > most:
        yield f"and {len(found) - most} more"


def more_text(folded: Folded) -> str:
    """Return how many other operations have a finding."""
    return f" and {len(folded.others)} more" if folded.others else ""


def markdown_row(target: TargetReport) -> list[str]:
    """Return the cells of one target."""
    counts = target.counts
    memory = "" if target.memory is None else bytes_text(target.memory.peak)
    program = [str(target.segments), latency_text(target.latency), bytes_text(target.weight_bytes), memory]
    return [
        target.target,
        target.title,
        target.runs,
        *(str(number) for number in (counts.native, counts.decompose, counts.oversize, counts.reject)),
        *(program if target.failure is None else ["", "no program", "", ""]),
        target.risk,
        target.exactness if target.failure is None else "",
    ]


def markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    for number, row in enumerate(rows):
        yield "| " + " | ".join(row) + " |"
        if number == 0:
            yield "| " + " | ".join("---" for _ in row) + " |"


def cell(text: str) -> str:
    r"""Return a text that stays within a cell.

    >>> cell("a|b\nc")
    'a&#124;b c'
    """
    return " ".join(text.replace("|", "&#124;").split())


def csv_text(report: Report) -> str:
    """Return every operation on every target as a row: verdict, and the worst finding.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> len(csv_text(check(af.input((1, 4), name="x").relu(), af.targets.Family.A13)).splitlines())
    3
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for target in report.targets:
        worst = {one.node: one for one in reversed(target.findings)}
        for number, (node, verdict) in enumerate(zip(report.nodes, target.verdicts, strict=True)):
            one = worst.get(number)
            found = ("",) * 6
            if one is not None:
                found = one.rule, one.severity, one.seen, one.limit, one.message, one.evidence_text
            shape = "x".join(map(str, node.shape))
            writer.writerow([target.target, number, node.name, node.op, node.dtype, shape, verdict, *found])
    return stream.getvalue()


def annotation_lines(report: Report, result: Outcome) -> str:
    """Return lines that a CI shows next to the code: the verdict, then the findings as the terminal folds them.

    What fails is an error, the rest are warnings and notices.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> from aneforge.report.gate import outcome
    >>> report = check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15)
    >>> annotation_lines(report, outcome(report)).startswith("::error title=aneforge%3A failed::graph runs ")
    True
    """
    word, _, rest = verdict_line(report, result).partition(": ")
    level = "notice" if result.ok else "error"
    verdict = f"{rest}; {closing_line(report, result)}"
    lines = [f"::{level} title={escape(f'aneforge: {word}', inside=True)}::{escape(verdict)}"]
    lines += [annotation(report, one, fails=fails_by(one, result)) for one in fold_results(report)]
    lines += [f"::error title=aneforge {one.target}::{escape(one.reason)}" for one in whole(result)]
    return "".join(f"{line}\n" for line in lines)


def fails_by(folded: Folded, result: Outcome) -> bool:
    """Return whether one of the findings that are folded into one is among the failures."""
    kind = kind_of(folded.first.finding)
    counted = [one for one in result.failures if one.finding is not None and kind_of(one.finding) == kind]
    return any(one.target in folded.first.targets for one in counted)


def annotation(report: Report, folded: Folded, *, fails: bool) -> str:
    """Return the line of findings that are folded into one, at the place of the first."""
    one, finding = folded.first, folded.first.finding
    level = "error" if fails else LEVELS.get(finding.severity, "notice")
    place = finding.location
    properties = [f"title={escape(f'{finding.rule} {finding.op}', inside=True)}"]
    if place is not None and place.file is not None:
        properties.insert(0, f"file={escape(place.file, inside=True)}")
        properties += [f"line={place.line}"] if place.line is not None else []
    node = f"{one.node}{more_text(folded)}: " if one.node else ""
    remedy = f" Remedy: {finding.remedy}" if finding.remedy else ""
    also = f" Also: {', '.join(names_once(folded.others))}." if folded.others else ""
    known = f" Evidence: {evidence_by_chip(report, one)}."
    message = f"{shop_message(report, finding, one.targets)} ({chips_text(report, one.targets)})"
    text = f"{node}{message}{remedy}{known}{also}"
    return f"::{level} {','.join(properties)}::{escape(text)}"


def whole(result: Outcome) -> list[Failed]:
    """Return the failures that no finding stands for."""
    return [one for one in result.failures if one.finding is None]


def escape(text: str, *, inside: bool = False) -> str:
    r"""Return a text as a line of annotation holds it; within a property, separators are written as codes too.

    >>> escape("50%\na:b", inside=True)
    '50%25%0Aa%3Ab'
    """
    made = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return made.replace(":", "%3A").replace(",", "%2C") if inside else made
