"""Reads the written forms of a report back: what each says of findings, of every target, and of the outcome.

One finding is one tuple in all forms, and one target is another, so that forms can be compared.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import gzip
import io
import json
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from unittest.mock import patch

import msgspec

from aneforge.cli.screen import show_report
from aneforge.evidence import Evidence
from aneforge.report.gate import FAIL_ON, outcome
from aneforge.report.grouping import fold_results
from aneforge.report.html.page import html
from aneforge.report.junit import junit
from aneforge.report.model import NO, Latency
from aneforge.report.numbers import NO_PROGRAM, latency_text
from aneforge.report.sarif import sarif
from aneforge.report.tables import csv_text, markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.report.gate import Threshold
    from aneforge.report.model import Report

__all__ = ["disagreeing_forms"]

Finding = tuple[str, str, str, str, str]
"""Target, rule, severity, name of the node, evidence."""
NO_LIMIT = "none, the limit is unknown"
WIDE = {"COLUMNS": "400"}


class Line(NamedTuple):
    """What a form says of one target."""

    latency: str
    risk: str
    exactness: str


def disagreeing_forms(report: Report, threshold: Threshold) -> Iterator[tuple[str, str]]:
    """Yield the forms that do not say what the report says, each with how."""
    findings, lines = sorted(in_order(report)), lines_of(report)
    page = page_blocks(report)
    shown = terminal(report, threshold)
    for form, found in (
        ("SARIF", sarif_findings(report)),
        ("HTML", page_findings(page)),
    ):
        if sorted(found) != findings:
            yield f"{form} has other findings", f"{sorted(found)}\n{findings}"
    for form, said in (
        ("Markdown", markdown_lines(report)),
        ("HTML", page_lines(page)),
        ("terminal", terminal_lines(shown, lines)),
    ):
        if said != lines:
            yield f"{form} has another line for a target", f"{said}\n{lines}"
    if markdown_findings(report) != folded_findings(report):
        yield "Markdown has other findings", f"{markdown_findings(report)}\n{folded_findings(report)}"
    if csv_worst(report) != worst_of_nodes(report):
        yield "CSV has other findings", f"{csv_worst(report)}\n{worst_of_nodes(report)}"
    yield from other_rows(report, shown)
    yield from other_outcomes(report, threshold, shown)


def in_order(report: Report) -> list[Finding]:
    """Return the findings of a report, those of a target worst first."""
    return [
        (
            target.target,
            one.rule,
            one.severity,
            "" if one.node is None else report.nodes[one.node].name,
            one.evidence_text,
        )
        for target in report.targets
        for one in target.findings
    ]


def lines_of(report: Report) -> Mapping[str, Line]:
    """Return what a report says of its targets."""
    return {
        one.target: Line(
            "no program" if one.failure is not None else latency_text(one.latency),
            one.risk,
            "" if one.failure is not None else one.exactness,
        )
        for one in report.targets
    }


def sarif_findings(report: Report) -> Iterator[Finding]:
    """Yield the findings that SARIF has."""
    for one in json.loads(sarif(report))["runs"][0]["results"]:
        logical, own = one["locations"][0].get("logicalLocations"), one["properties"]
        node = logical[0]["name"] if logical else ""
        for target in own["targets"]:
            yield target, one["ruleId"], own["severity"], node, own["evidence"] or NO_LIMIT


HEAD = re.compile(
    r"- \*\*(\w+)\*\* `[^`]*`(?: at `([^`]*)`)?(?: and (\d+) more)? on .* "
    r"\((\S+?)(?:, (?:\d+-|less than )?\d+% of the time)?\)"
)
"""Severity, name of the node, number of others, rule."""


def markdown_findings(report: Report) -> list[tuple[str, str, str, int]]:
    """Return the findings that Markdown has: rule, severity, name of the node, number of other operations."""
    heads = [found for line in markdown(report).splitlines() if (found := HEAD.fullmatch(line)) is not None]
    return [(head[4], head[1], head[2] or "", int(head[3] or 0)) for head in heads]


def folded_findings(report: Report) -> list[tuple[str, str, str, int]]:
    """Return the findings of a report as they are folded for readers."""
    return [
        (one.first.finding.rule, one.first.finding.severity, one.first.node, len(one.others))
        for one in fold_results(report)
    ]


def markdown_lines(report: Report) -> Mapping[str, Line]:
    """Return what Markdown says of the targets."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in markdown(report).splitlines() if line[:1] == "|"
    ]
    start = next(place for place, row in enumerate(rows) if row[0] == "target")
    names = {name: place for place, name in enumerate(rows[start])}
    wanted = [names[name] for name in ("latency", "fp16 risk", "exactness")]
    return {row[0]: Line(*(row[place] for place in wanted)) for row in rows[start + 2 :]}


BLOCK = re.compile(r'<script type="application/octet-stream" id="block-\d+">([^<]*)</script>')


def page_blocks(report: Report) -> list[Any]:
    """Return what the page unpacks."""
    return [json.loads(gzip.decompress(base64.b64decode(block))) for block in BLOCK.findall(html(report))]


def column(values: Any) -> list[Any]:  # noqa: ANN401 - of JSON
    """Return a column of the page, whether its values are written once or not."""
    if not isinstance(values, dict):
        return values
    packed = cast("dict[str, list[Any]]", values)
    return [packed["values"][place] for place in packed["places"]]


def page_findings(blocks: list[Any]) -> Iterator[Finding]:
    """Yield the findings that the page has."""
    names = column(blocks[blocks[0]["nodes"]]["name"])
    for target in blocks[0]["targets"]:
        rows = {name: column(values) for name, values in blocks[target["findings"]].items()}
        for rule, severity, node, known in zip(
            rows["rule"], rows["severity"], rows["node"], rows["evidence"], strict=True
        ):
            evidence = NO_LIMIT if known is None else msgspec.convert(known, Evidence).short
            yield target["target"], rule, severity, "" if node is None else names[node], evidence


def page_lines(blocks: list[Any]) -> Mapping[str, Line]:
    """Return what the page says of the targets."""
    found: dict[str, Line] = {}
    for one in blocks[0]["targets"]:
        latency = None if one["latency"] is None else msgspec.convert(one["latency"], Latency)
        failed = one["failure"] is not None
        found[one["target"]] = Line(
            "no program" if failed else latency_text(latency), one["risk"], "" if failed else one["exactness"]
        )
    return found


def terminal(report: Report, threshold: Threshold) -> list[str]:
    """Return the lines that `check` prints."""
    stream = io.StringIO()
    with patch.dict("os.environ", WIDE), contextlib.redirect_stdout(stream):
        show_report(report, outcome(report, threshold), most=len(in_order(report)), verbose=True)
    return stream.getvalue().splitlines()


UNITS = {"µs": 1.0, "ms": 1e3, "s": 1e6}
RANGE = re.compile(r"([\d.]+)(?: (µs|ms|s))?(?:-([\d.]+))? (µs|ms|s)\b")


def other_rows(report: Report, shown: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the screen that have another time than a target of theirs, and targets without a row."""
    begin = next(number for number, line in enumerate(shown) if line.startswith("chip "))
    end = next(number for number, line in enumerate(shown) if line.startswith("exactness: "))
    for target in report.targets:
        row = next((line for line in shown[begin:end] if target.target in line.split()), None)
        if row is None:
            yield "the terminal has no row for a target", target.target
            continue
        told = RANGE.search(row)
        if target.latency is None or told is None:
            if target.latency is not None and target.runs != NO and NO_PROGRAM not in row:
                yield "the terminal has a row without a time", row
            continue
        low = float(told[1]) * UNITS[told[2] or told[4]]
        high = float(told[3] or told[1]) * UNITS[told[4]]
        if not 0.94 * low <= target.latency.microseconds <= 1.06 * high:
            yield "the terminal has another time in a row", f"{row}: {target.latency.microseconds}"


SHORT = {"?": "unknown", "inf": "saturation", "ok": "none", "model": "modelled", "-": ""}


def terminal_lines(shown: list[str], expected: Mapping[str, Line]) -> Mapping[str, Line]:
    """Return what the terminal says of the targets; without a program it has no risk to tell."""
    begin = next(number for number, line in enumerate(shown) if line.startswith("target"))
    found: dict[str, Line] = {}
    for line in shown[begin + 1 : begin + 1 + len(expected)]:
        name, *cells = line.split()
        latency = re.search(rf"{NO_PROGRAM}|no program|[\d.]+ (?:µs|ms|s)(?: \([\d.]+-[\d.]+\))?", line)
        risk, exactness = (SHORT.get(cell, cell) for cell in cells[-2:])
        failed = latency is not None and latency[0] == "no program"
        found[name] = Line("" if latency is None else latency[0], expected[name].risk if failed else risk, exactness)
    return found


def csv_worst(report: Report) -> list[tuple[str, str, str, str]]:
    """Return the worst findings of nodes on every target as CSV has them; nodes may share a name."""
    rows = csv.DictReader(io.StringIO(csv_text(report)))
    return [(row["target"], row["node"], row["rule"], row["severity"]) for row in rows if row["rule"]]


def worst_of_nodes(report: Report) -> list[tuple[str, str, str, str]]:
    """Return the worst findings of nodes on every target, in the order of the graph."""
    return [
        (target.target, report.nodes[node].name, one.rule, one.severity)
        for target in report.targets
        for node, one in sorted({one.node: one for one in reversed(target.findings) if one.node is not None}.items())
    ]


def other_outcomes(report: Report, threshold: Threshold, shown: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the forms that pass or fail where the report does not."""
    result = outcome(report, threshold)
    printed = shown[-1]
    for line in (shown[0], printed):
        if line.startswith("passed") is not result.ok or not line.startswith(("passed", "failed")):
            yield "the terminal has another outcome", line
    counts = {word: int(number) for number, word in re.findall(rf"(\d+) ({'|'.join(FAIL_ON)})\b", printed)}
    if counts != result.counts:
        yield "the terminal counts otherwise", f"{printed}: {result.counts}"
    cases = ET.fromstring(junit(report, threshold))  # noqa: S314 - it was just made
    if (cases.get("failures") == "0") is not result.ok:
        yield "JUnit has another outcome", f"{cases.get('failures')}: {result.failures}"
