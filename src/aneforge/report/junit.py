"""A report as JUnit XML: one suite for each target, one case for each kind of operation in the model.

A case fails where a finding counts against it, so that a CI shows which operations fall off on which chip. What
concerns the whole model (a share of native operations, a difference between targets) is a case of its own; it is
skipped where there is no program and findings of operations say why.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from aneforge.report.gate import Threshold, outcome
from aneforge.report.headline import shop_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.report.gate import Failed
    from aneforge.report.model import Report, TargetReport, UnreadModel

__all__ = ["junit", "junit_of_all"]

NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
WHOLE = "program"
"""The case of what concerns the whole model."""


def junit(report: Report, threshold: Threshold | None = None, baseline: Report | None = None) -> str:
    """Return a report as JUnit XML.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> text = junit(check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15))
    >>> text.count("<testcase "), text.count("<failure ")
    (3, 2)
    """
    return junit_of_all([report], threshold, baseline)


def junit_of_all(
    reports: Iterable[Report],
    threshold: Threshold | None = None,
    baseline: Report | None = None,
    unread: Sequence[UnreadModel] = (),
) -> str:
    """Return the reports of several models as one file: their suites have the names of model and target.

    A model that could not be checked is a suite of one case, with an error.
    """
    root = ET.Element("testsuites", name="aneforge check")
    for report in reports:
        failures = outcome(report, threshold, baseline).failures
        for target in report.targets:
            root.append(suite(report, target, [one for one in failures if one.target == target.target]))
    root.extend(unread_suite(one) for one in unread)
    root.set("tests", str(sum(int(one.get("tests", "0")) for one in root)))
    root.set("failures", str(sum(int(one.get("failures", "0")) for one in root)))
    if unread:
        root.set("errors", str(len(unread)))
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def suite(report: Report, target: TargetReport, failures: list[Failed]) -> ET.Element:
    """Return the suite of one target: a case for every kind of operation, and one for the whole."""
    groups: dict[str, list[Failed]] = {op: [] for op in dict.fromkeys(node.op for node in report.nodes)}
    groups[WHOLE] = []
    for one in failures:
        node = one.finding.node if one.finding is not None else None
        groups[WHOLE if node is None else report.nodes[node].op].append(one)
    made = ET.Element(
        "testsuite",
        name=clean(f"{report.model} on {with_title(target)}"),
        tests=str(len(groups)),
        failures=str(sum(bool(found) for found in groups.values())),
        skipped=str(int(target.failure is not None and not groups[WHOLE])),
    )
    for op, found in groups.items():
        case = ET.SubElement(made, "testcase", classname=clean(f"{report.model}.{target.target}"), name=clean(op))
        if op == WHOLE and not found and target.failure is not None:
            ET.SubElement(case, "skipped", message=clean(f"no program: {target.failure}"))
        if found:
            made_of = ET.SubElement(case, "failure", message=clean(found[0].reason), type=rule_of(found[0]))
            made_of.text = clean("\n".join(text_of(report, one) for one in found))
    return made


def unread_suite(model: UnreadModel) -> ET.Element:
    """Return the suite of a model that could not be checked."""
    made = ET.Element("testsuite", name=clean(model.name), tests="1", failures="0", errors="1")
    case = ET.SubElement(made, "testcase", classname=clean(model.name), name=WHOLE)
    ET.SubElement(case, "error", message=clean(model.reason))
    return made


def with_title(target: TargetReport) -> str:
    """Return a target after the chips that have it."""
    return f"{target.title} ({target.target})" if target.title else target.target


def rule_of(failed: Failed) -> str:
    """Return the id of the rule after a failure, or a word for what no rule finds."""
    return WHOLE if failed.finding is None else failed.finding.rule


def text_of(report: Report, failed: Failed) -> str:
    """Return all that is to say of a failure."""
    finding = failed.finding
    if finding is None:
        return failed.reason
    place = "" if finding.location is None else f" ({place_text(finding.location.file, finding.location.line)})"
    remedy = f" Remedy: {finding.remedy}" if finding.remedy else ""
    return f"{failed.reason}{place}: {shop_message(report, finding)}{remedy} Evidence: {finding.evidence_text}."


def place_text(file: str | None, line: int | None) -> str:
    """Return a file and a line as one text."""
    return f"{file or 'unknown place'}{f':{line}' if line is not None else ''}"


def clean(text: str) -> str:
    r"""Return a text without characters that XML cannot hold.

    >>> clean("a\x00b")
    'a?b'
    """
    return NOT_IN_XML.sub("?", text)
