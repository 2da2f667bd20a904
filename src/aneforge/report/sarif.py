"""A report as SARIF 2.1.0, the form in which code hosts show what analyses find.

One run for each model, one rule for every id that was found, one result for every finding and the targets that share
it. Places in a source file become regions; nodes of a model file become logical locations of that file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from aneforge._version import __version__
from aneforge.report.finding_texts import chips_text
from aneforge.report.grouping import group_findings
from aneforge.report.headline import shop_message
from aneforge.report.predicted import PREDICTED
from aneforge.rules.catalogue import rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.report.grouping import Grouped
    from aneforge.report.model import Report, UnreadModel
    from aneforge.targets import Value

__all__ = ["LEVELS", "sarif", "sarif_of_all"]

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"reject": "error", "oversize": "error", "decompose": "note", "warn": "warning", "info": "note"}
"""The levels of SARIF for our severities."""
FINGERPRINT, FINGERPRINT_OF_GROUP = "aneforge/v1", "aneforge/v2"
"""The second distinguishes findings of one operation that differ in limit or evidence."""


class Text(msgspec.Struct):
    """A message."""

    text: str


class Configuration(msgspec.Struct):
    """How bad a rule's findings are."""

    level: str


class RuleProperties(msgspec.Struct):
    """What SARIF has no field for."""

    threads: list[str]


class RuleEntry(msgspec.Struct, omit_defaults=True):
    """A rule."""

    id: str
    shortDescription: Text  # noqa: N815 - the field's name in SARIF
    defaultConfiguration: Configuration  # noqa: N815 - as above
    help: Text | None = None
    helpUri: str | None = None  # noqa: N815 - as above
    properties: RuleProperties | None = None


class Artifact(msgspec.Struct):
    """A file."""

    uri: str


class Region(msgspec.Struct):
    """A line of a file."""

    startLine: int  # noqa: N815 - the field's name in SARIF


class Physical(msgspec.Struct, omit_defaults=True):
    """A place in a file."""

    artifactLocation: Artifact  # noqa: N815 - the field's name in SARIF
    region: Region | None = None


class Logical(msgspec.Struct):
    """A node of a model."""

    name: str
    kind: str


class Spot(msgspec.Struct, omit_defaults=True):
    """Where a finding is."""

    physicalLocation: Physical | None = None  # noqa: N815 - the field's name in SARIF
    logicalLocations: list[Logical] | None = None  # noqa: N815 - as above


class ResultProperties(msgspec.Struct):
    """What SARIF has no field for."""

    targets: list[str]
    severity: str
    seen: Value | None
    limit: Value | None
    remedy: str
    evidence: str | None


class Result(msgspec.Struct):
    """A finding."""

    ruleId: str  # noqa: N815 - the field's name in SARIF
    ruleIndex: int  # noqa: N815 - as above
    level: str
    message: Text
    locations: list[Spot]
    partialFingerprints: dict[str, str]  # noqa: N815 - as above
    properties: ResultProperties


class Driver(msgspec.Struct):
    """The tool."""

    name: str
    version: str
    rules: list[RuleEntry]


class Tool(msgspec.Struct):
    """What ran."""

    driver: Driver


class RunDetails(msgspec.Struct):
    """What distinguishes the runs of one file; code hosts want them all different."""

    id: str


class Notification(msgspec.Struct):
    """Why the tool could not do what it was asked."""

    level: str
    message: Text
    locations: list[Spot]


class Invocation(msgspec.Struct):
    """What became of a run that found nothing because it failed."""

    executionSuccessful: bool  # noqa: N815 - the field's name in SARIF
    toolExecutionNotifications: list[Notification]  # noqa: N815 - as above


class Run(msgspec.Struct):
    """One check."""

    tool: Tool
    results: list[Result]
    invocations: list[Invocation] | msgspec.UnsetType = msgspec.UNSET
    automationDetails: RunDetails | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - the field's name in SARIF
    columnKind: str = "unicodeCodePoints"  # noqa: N815 - the field's name in SARIF


class Log(msgspec.Struct):
    """The whole file."""

    schema: str = msgspec.field(name="$schema")
    version: str
    runs: list[Run]


def sarif(report: Report) -> str:
    """Return a report as SARIF 2.1.0.

    >>> import json
    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> made = json.loads(sarif(check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15)))
    >>> [result["ruleId"] for result in made["runs"][0]["results"]]
    ['ANE-EXTENT-001', 'ANE-EXTENT-001']
    """
    return sarif_of_all([report])


def sarif_of_all(reports: Sequence[Report], unread: Sequence[UnreadModel] = ()) -> str:
    """Return the reports of several models as one file, with a run for each; one of a model not checked says why."""
    runs = [*map(run_of, reports), *map(unread_run, unread)]
    if len(runs) > 1:
        names = [*(report.model for report in reports), *(model.name for model in unread)]
        for name, run in zip(names, runs, strict=True):
            run.automationDetails = RunDetails(f"aneforge/{name}/")
    log = Log(SCHEMA, "2.1.0", runs)
    return msgspec.json.format(msgspec.json.encode(log), indent=1).decode() + "\n"


def run_of(report: Report) -> Run:
    """Return a report as one run of the tool."""
    found = group_findings(report)
    ids = sorted({one.finding.rule for one in found})
    levels = {one.finding.rule: LEVELS[one.finding.severity] for one in reversed(found)}
    entries = [rule_entry(rule, levels[rule]) for rule in ids]
    results = [result(report, one, ids.index(one.finding.rule)) for one in found]
    return Run(Tool(Driver("aneforge", report.tool, entries)), results)


def unread_run(model: UnreadModel) -> Run:
    """Return a model that could not be checked as one run of the tool, which failed."""
    spot = Spot(Physical(Artifact(uri_of(model.file))))
    failed = Invocation(False, [Notification("error", Text(model.reason), [spot])])  # noqa: FBT003 - a field of SARIF
    return Run(Tool(Driver("aneforge", __version__, [])), [], [failed])


def rule_entry(rule: str, level: str) -> RuleEntry:
    """Return a rule as SARIF holds it."""
    if rule in PREDICTED:
        known = PREDICTED[rule]
        statement, explanation, remedy, threads = known.message, known.explanation, known.remedy, known.threads
    else:
        legality = rules()[rule]
        statement, explanation, threads = legality.statement, legality.explanation, legality.threads
        remedy = legality.advice()
    helped = " ".join(part for part in (explanation, f"Remedy: {remedy}" if remedy else "") if part)
    properties = RuleProperties(list(threads)) if threads else None
    read = thread_uri(threads[0]) if threads else None
    return RuleEntry(rule, Text(statement), Configuration(level), Text(helped), read, properties)


def thread_uri(thread: str) -> str:
    """Return where a public thread can be read; a number is that of an issue or of a pull request.

    >>> thread_uri("owner/project#12")
    'https://github.com/owner/project/issues/12'
    """
    project, _, number = thread.partition("#")
    return f"https://github.com/{project}/issues/{number}"


def result(report: Report, one: Grouped, index: int) -> Result:
    """Return a finding as SARIF holds it."""
    finding = one.finding
    said = f"{shop_message(report, finding, one.targets)} On {chips_text(report, one.targets)}."
    remedy = f" Remedy: {finding.remedy}" if finding.remedy else ""
    evidence = None if finding.evidence is None else finding.evidence.short
    alike = f"{finding.rule}/{one.node}/{finding.op}/{finding.seen}"
    kind = "unknown" if finding.evidence is None else finding.evidence.kind
    return Result(
        ruleId=finding.rule,
        ruleIndex=index,
        level=LEVELS[finding.severity],
        message=Text(f"{finding.op}: {said}{remedy}"),
        locations=[spot(report, one)],
        partialFingerprints={FINGERPRINT: alike, FINGERPRINT_OF_GROUP: f"{alike}/{finding.limit}/{kind}"},
        properties=ResultProperties(
            list(one.targets), finding.severity, finding.seen, finding.limit, finding.remedy, evidence
        ),
    )


def spot(report: Report, one: Grouped) -> Spot:
    """Return where a finding is: a line of the user's file, or a node of the model."""
    place = one.finding.location
    file = report.model if place is None or place.file is None else place.file
    line = None if place is None or place.line is None else Region(place.line)
    logical = [Logical(one.node, "element")] if one.node else None
    return Spot(Physical(Artifact(uri_of(file)), line), logical)


def uri_of(file: str) -> str:
    """Return a path as a relative or absolute reference.

    >>> uri_of("models/my net.onnx")
    'models/my%20net.onnx'
    """
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
