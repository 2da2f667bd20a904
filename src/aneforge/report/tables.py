"""A report as a table: Markdown for people, CSV for programs; and as annotation lines for a CI log."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from aneforge.report.gate import shared_key
from aneforge.report.grouping import group_findings
from aneforge.report.model import COREML, DIRECT
from aneforge.report.numbers import bytes_text, latency_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.report.gate import Failed, Outcome
    from aneforge.report.model import Report, TargetReport

__all__ = ["annotation_lines", "csv_text", "markdown"]

PATHS = {DIRECT: "direct dispatch", COREML: "Core ML"}
"""How a model reaches the engine, in words."""
LEVELS = {"reject": "warning", "oversize": "warning", "warn": "warning"}
"""What a CI calls findings that do not fail a check; the others are notices. What fails one is an error."""
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


def markdown(report: Report) -> str:
    """Return a report as Markdown: a table of targets, then every finding once.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> print(markdown(check(af.input((1, 4), name="x").relu(), af.targets.Family.A13)).splitlines()[0])
    # graph
    """
    rows = [
        ["target", "chips", "runs", "native", "decomposed", "oversize", "rejected", "programs", "latency", "weights",
         "on-chip peak", "fp16 risk", "exactness"],
        *([cell(text) for text in markdown_row(one)] for one in report.targets),
    ]  # fmt: skip
    paths = ", ".join(dict.fromkeys(PATHS[one.path] for one in report.targets))
    verdict = [f"**{cell(report.verdict)}**", ""] if report.verdict else []
    lines = [
        f"# {cell(report.model)}",
        "",
        *verdict,
        f"{len(report.nodes)} operations, {report.format}. Path: {paths}.",
        "",
    ]
    lines += [f"- {note}" for note in report.notes] + ([""] if report.notes else [])
    lines += markdown_table(rows)
    found = group_findings(report)
    if found:
        lines += ["", "## Findings", ""]
    for one in found:
        finding = one.finding
        at = f" at `{one.node}`" if one.node else ""
        lines.append(f"- **{finding.rule}** {finding.severity}: `{finding.op}`{at} on {', '.join(one.targets)}")
        lines.append(f"    - {cell(finding.message)}")
        lines += [f"    - remedy: {cell(finding.remedy)}"] if finding.remedy else []
        lines.append(f"    - evidence: {cell(finding.evidence_text)}")
        lines += [f"    - reported in: {', '.join(finding.threads)}"] if finding.threads else []
    return "\n".join(lines) + "\n"


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
    """Return lines that a CI shows beside the code: errors for what fails, warnings and notices for the rest.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> from aneforge.report.gate import outcome
    >>> report = check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15)
    >>> annotation_lines(report, outcome(report)).startswith("::error ")
    True
    """
    failing = {id(one.finding) for one in result.failures}
    counted = {shared_key(one.finding) for one in result.failures if one.finding is not None}
    lines: list[str] = []
    for one in group_findings(report):
        finding = one.finding
        fails = id(finding) in failing or shared_key(finding) in counted
        level = "error" if fails else LEVELS.get(finding.severity, "notice")
        place = finding.location
        properties = [f"title={escaped(f'{finding.rule} {finding.op}', inside=True)}"]
        if place is not None and place.file is not None:
            properties.insert(0, f"file={escaped(place.file, inside=True)}")
            properties += [f"line={place.line}"] if place.line is not None else []
        node = f"{one.node}: " if one.node else ""
        remedy = f" Remedy: {finding.remedy}" if finding.remedy else ""
        text = f"{node}{finding.message} ({', '.join(one.targets)}){remedy} Evidence: {finding.evidence_text}."
        lines.append(f"::{level} {','.join(properties)}::{escaped(text)}")
    lines += [f"::error title=aneforge {one.target}::{escaped(one.reason)}" for one in whole(result)]
    return "".join(f"{line}\n" for line in lines)


def whole(result: Outcome) -> list[Failed]:
    """Return the failures that no finding stands for."""
    return [one for one in result.failures if one.finding is None]


def escaped(text: str, *, inside: bool = False) -> str:
    r"""Return a text as a line of annotation holds it; within a property, separators are written as codes too.

    >>> escaped("50%\na:b", inside=True)
    '50%25%0Aa%3Ab'
    """
    made = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return made.replace(":", "%3A").replace(",", "%2C") if inside else made
