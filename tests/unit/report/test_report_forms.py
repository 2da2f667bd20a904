"""The written forms of a report: SARIF, JUnit, CSV, Markdown, annotation lines, a trace, an ONNX file with verdicts."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import onnx
import pytest

import aneforge as af
from aneforge.commands.checking import check
from aneforge.commands.demo_networks import network
from aneforge.errors import GraphError, UnknownNameError
from aneforge.report.forms import FORMS, join_form, written_form
from aneforge.report.gate import STRICT, Threshold, fail_on_words, outcome
from aneforge.report.junit import junit
from aneforge.report.model import UnreadModel
from aneforge.report.sarif import sarif
from aneforge.report.tables import annotation_lines, csv_text, markdown
from aneforge.report.trace import chrome_trace
from report_models import saved

if TYPE_CHECKING:
    from aneforge.report.model import Report
    from golden_text import Golden

SCHEMA = json.loads((Path(__file__).parent / "sarif-2.1.0.json").read_text(encoding="utf-8"))
"""The schema of the OASIS standard, unchanged, as Microsoft's SARIF SDK ships it (MIT licence)."""


@pytest.fixture(scope="module")
def report() -> Report:
    """Return the report of a model that falls off one of two targets."""
    return check(network("keyword-spotter"), ["m1", "m4"])


def test_sarif_follows_the_standard(report: Report) -> None:
    made = json.loads(sarif(report))
    jsonschema.validate(made, SCHEMA)
    run = made["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == sorted(set(rules))
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert {result["level"] for result in run["results"]} == {"error", "note"}
    read = {rule["id"]: rule.get("helpUri") for rule in run["tool"]["driver"]["rules"]}
    assert read["ANE-EXTENT-001"] == "https://github.com/ncdrone/rustane/issues/13"
    said = [one["message"]["text"] for one in made["runs"][0]["results"]]
    assert any(" On M1. " in one for one in said)
    assert [one for one in said if "h13" in one or "h16g" in one] == []


def test_sarif_of_a_clean_model_has_no_result() -> None:
    made = json.loads(sarif(check(af.input((1, 4), name="x").relu(), "m4")))
    jsonschema.validate(made, SCHEMA)
    assert made["runs"][0]["results"] == []


def test_sarif_names_the_line_of_a_graph_that_was_built(report: Report) -> None:
    del report
    made = json.loads(sarif(check(af.input((1, 8, 1, 17_000), name="x").relu(), "m1")))
    spot = made["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert spot["artifactLocation"]["uri"].endswith("test_report_forms.py")
    assert spot["region"]["startLine"] > 1


def test_models_that_could_not_be_checked_are_errors_of_joined_files(report: Report) -> None:
    unread = [UnreadModel("cut.onnx", "zoo/cut.onnx", "the bytes are not an ONNX model")]
    made = json.loads(join_form("sarif", [report], unread=unread))
    jsonschema.validate(made, SCHEMA)
    first, second = made["runs"]
    assert ("invocations" in first, second["invocations"][0]["executionSuccessful"]) == (False, False)
    notification = second["invocations"][0]["toolExecutionNotifications"][0]
    assert notification["message"]["text"] == unread[0].reason
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "zoo/cut.onnx"
    root = ET.fromstring(join_form("junit", [report], unread=unread))  # noqa: S314 - made here
    assert root.get("errors") == "1"
    assert int(root.get("tests", "0")) == len(list(root.iter("testcase")))
    (error,) = root.iter("error")
    assert error.get("message") == unread[0].reason
    assert "errors" not in ET.fromstring(join_form("junit", [report])).attrib  # noqa: S314 - made here


def test_the_schema_can_refuse() -> None:
    made = json.loads(sarif(check(af.input((1, 8, 1, 17_000), name="x").relu(), "m1")))
    made["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, SCHEMA)


def test_junit_has_a_case_for_each_kind_of_operation_and_target(report: Report) -> None:
    root = ET.fromstring(junit(report))  # noqa: S314 - it was just made
    suites = root.findall("testsuite")
    kinds = {node.op for node in report.nodes} | {"program"}
    assert [suite.get("name") for suite in suites] == ["graph on M1 (h13)", "graph on M4 (h16g)"]
    for suite in suites:
        assert {case.get("name") for case in suite.findall("testcase")} == kinds
    failed = {case.get("name") for case in suites[0].findall("testcase") if case.find("failure") is not None}
    assert failed == {"topk", "input", "conv"}
    assert suites[1].get("failures") == "0"
    assert root.get("failures") == "3"


def test_junit_survives_names_that_xml_cannot_hold() -> None:
    x = af.input((1, 8, 1, 17_000), name="a\x00<&")
    root = ET.fromstring(junit(check(x.relu(), "m1")))  # noqa: S314 - it was just made
    assert root.get("failures") == "2"


def test_csv_has_a_row_for_each_operation_and_target(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(report))))
    assert len(rows) == 2 * len(report.nodes)
    worst = next(row for row in rows if row["op"] == "topk" and row["target"] == "h13")
    assert (worst["verdict"], worst["rule"]) == ("reject", "ANE-FLOOR-002")


def test_markdown(report: Report, golden: Golden) -> None:
    golden(markdown(report))


def test_annotations(report: Report, golden: Golden) -> None:
    golden(annotation_lines(report, outcome(report)))


def test_what_does_not_fail_is_a_warning(report: Report) -> None:
    lines = annotation_lines(report, outcome(report, baseline=report)).splitlines()
    assert lines
    assert not any(line.startswith("::error") for line in lines)


def test_findings_of_one_rule_are_one_annotation() -> None:
    report = check(af.input((1, 8, 1, 17_000), name="x").relu().abs(), ["m1", "m4"])
    first, finding = annotation_lines(report, outcome(report)).splitlines()
    assert first.startswith("::error title=aneforge%3A failed::graph runs on M4, after splitting on M1")
    assert first.endswith("; failed: 3 of 3 findings (3 oversize); --fail-on reject lets splitting pass")
    assert finding.startswith("::error ")
    assert finding.endswith("Also: abs_2, x.")


def test_markdown_and_json_have_the_outcome_that_was_asked_for(report: Report) -> None:
    strict, nothing = Threshold(), Threshold(fail_on=())
    assert "\n**passed**: graph runs on M4, not on M1" in str(written_form("markdown", report, threshold=nothing))
    assert "\n**failed**: graph runs on M4, not on M1" in str(written_form("markdown", report))
    assert json.loads(written_form("json", report, threshold=nothing))["outcome"] == "passed"
    failed = json.loads(written_form("json", report, threshold=strict))
    assert failed["outcome"] == "failed"
    assert failed["verdict"].startswith("failed: graph runs on M4, not on M1")
    assert json.loads(written_form("json", report, threshold=strict, baseline=report))["outcome"] == "passed"


def test_a_trace_has_every_layer_and_the_memory(report: Report) -> None:
    events: list[dict[str, Any]] = json.loads(chrome_trace(report))["traceEvents"]
    target = report.targets[1]
    layers = [event for event in events if event["ph"] == "X"]
    assert len(layers) == len(target.timeline)
    assert target.latency is not None
    assert sum(event["dur"] for event in layers) == pytest.approx(target.latency.microseconds, abs=0.1)
    memory = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert target.memory is not None
    assert max(memory) == target.memory.peak


def test_an_onnx_model_carries_the_verdicts(tmp_path: Path) -> None:
    path = saved(tmp_path / "masked.onnx", 20_000)
    made = onnx.load_from_string(written_form("netron", check(path, ["m1", "m4"]), path))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - these are bytes
    properties = {node.name: {one.key: one.value for one in node.metadata_props} for node in made.graph.node}
    assert properties["conv1"]["aneforge.h13"] == "oversize"
    assert properties["conv1"]["aneforge.h16g"] == "native"
    assert properties["mask"]["aneforge.h16g.finding"].startswith("ANE-QUIRK-003: ")
    with pytest.raises(GraphError, match="only into ONNX models"):
        written_form("netron", check(network("keyword-spotter"), "m1"), path)


def test_every_form_can_be_written(report: Report) -> None:
    for form in set(FORMS) - {"netron"}:
        assert written_form(form, report)
    with pytest.raises(UnknownNameError, match="unknown form of a report 'xml'"):
        written_form("xml", report)


def test_a_check_fails_on_what_it_is_told_to(report: Report) -> None:
    assert not outcome(report).ok
    assert outcome(report, Threshold(())).ok
    severities = {one.finding.severity for one in outcome(report, Threshold(STRICT)).failures if one.finding}
    assert severities == {"reject", "oversize", "decompose"}
    shares = outcome(report, Threshold((), min_native=0.9)).failures
    assert [(one.target, one.reason) for one in shares] == [
        ("h13", "ANE-NATIVE-001: 42.9% of operations are native, wanted 90.0%")
    ]
    assert outcome(report, Threshold((), min_native=0.9), report).ok


def test_a_check_fails_on_divergence() -> None:
    report = check(af.input((4, 64), name="x").softmax(), ["m1", "m4"])
    divergence = outcome(report, Threshold(("divergence",))).failures
    assert [one.reason for one in divergence] == ["h13 and h16g may differ: ulp1"]
    assert outcome(report, Threshold(("divergence",)), report).known == 1


def test_a_baseline_lets_pass_what_is_known_and_nothing_else(report: Report) -> None:
    assert outcome(report, baseline=report).ok
    smaller = check(network("keyword-spotter"), "m4")
    assert not outcome(report, baseline=smaller).ok


def test_a_model_without_a_program_fails_even_without_a_finding() -> None:
    report = check(network("keyword-spotter"), "m1")
    target = report.targets[0]
    bare = dataclasses.replace(report, targets=(dataclasses.replace(target, findings=()),))
    assert outcome(bare).failures[0].reason.startswith("no program: ")


def test_words_to_fail_on() -> None:
    assert fail_on_words("none") == ()
    with pytest.raises(UnknownNameError, match="unknown condition to fail on 'rejected'; nearest: reject"):
        fail_on_words("rejected")
