"""What was measured on one chip is not told of another: evidence in every form of a report, and in the gate."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aneforge as af
from aneforge.cli import main
from aneforge.cli.screen import show_report
from aneforge.commands.checking import check
from aneforge.errors import UnknownNameError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.report.gate import Threshold, evidence_word, kind_on, outcome
from aneforge.report.grouping import fold_results, group_findings
from aneforge.report.html.blocks import blocks_of
from aneforge.report.junit import junit
from aneforge.report.sarif import sarif
from aneforge.report.tables import annotation_lines, csv_text, markdown
from aneforge.report.written import report_from_json, report_to_json

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.report.model import Report

MEASURED, INFERRED = (
    f"{kind} (aneforge targets table; sources disagree, see C8)" for kind in ("measured on M1", "inferred")
)
"""The evidence of the widest kernel: 14 columns were refused by an M1; that an M2 refuses them is a conclusion."""

FIELDS = ["rule", "severity", "op", "node", "place", "message", "seen", "limit", "remedy", "evidence", "threads"]
"""What JSON has of a finding since its first version, in order."""


@pytest.fixture(scope="module")
def report() -> Report:
    """Return the report of a kernel that is too wide for two chips, one of which was measured."""
    x = af.input((1, 8, 16, 16), name="x")
    return check(af.conv(x, np.ones((8, 8, 3, 14), np.float16)), ["m1", "m2"])


def test_the_two_chips_differ_in_evidence_alone(report: Report) -> None:
    first, second = (target.findings[0] for target in report.targets)
    assert (first.rule, first.seen, first.limit) == (second.rule, second.seen, second.limit)
    assert [one.evidence and one.evidence.short for one in (first, second)] == [MEASURED, INFERRED]


def test_findings_of_unequal_evidence_are_not_grouped(report: Report) -> None:
    assert [(one.targets, one.finding.evidence_text) for one in group_findings(report)] == [
        ((report.targets[0].target,), MEASURED),
        ((report.targets[1].target,), INFERRED),
    ]
    assert [one.first.targets for one in fold_results(report)] == [tuple(one.target for one in report.targets)]


def test_on_the_terminal(report: Report, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_report(report, outcome(report))
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if "(ANE-KERNEL-001" in line]
    assert [head.partition(" on ")[2].partition(" (")[0] for head in heads] == ["all chips"]
    known = [line.strip() for line in lines if line.strip().startswith("evidence: ")]
    assert known == [f"evidence: M1: {MEASURED}; M2: {INFERRED}"]


def test_in_json_markdown_csv_and_annotations(report: Report) -> None:
    targets = json.loads(report_to_json(report))["targets"]
    assert [one["findings"][0]["evidence"]["kind"] for one in targets] == ["measured", "inferred"]
    assert report_from_json(report_to_json(report)) == report
    known = [line.partition("evidence: ")[2] for line in markdown(report).splitlines() if "evidence: " in line]
    assert known == [f"M1: {MEASURED}; M2: {INFERRED}"]
    rows = [row for row in csv.DictReader(io.StringIO(csv_text(report))) if row["rule"]]
    assert [row["evidence"] for row in rows] == [MEASURED, INFERRED]
    lines = annotation_lines(report, outcome(report)).splitlines()
    assert [line.partition("Evidence: ")[2] for line in lines[1:]] == [f"M1: {MEASURED}; M2: {INFERRED}."]


def test_a_report_without_the_later_fields_is_read(report: Report) -> None:
    made = json.loads(report_to_json(report))
    for target in made["targets"]:
        del target["changes"], target["errors"]
        if target["latency"] is not None:
            del target["latency"]["rests_on"]
        for finding in target["findings"]:
            del finding["target"], finding["what"], finding["details"], finding["share"]
            del finding["evidence"]["conflict"]
            names = [
                "rule",
                "severity",
                "op",
                "node",
                "place",
                "message",
                "seen",
                "limit",
                "remedy",
                "evidence",
                "threads",
            ]
            assert list(finding) == names
    read = report_from_json(json.dumps(made))
    assert [one.findings[0].location for one in read.targets] == [one.findings[0].location for one in report.targets]
    assert outcome(read).counts == {"oversize": 1}


def test_in_sarif(report: Report) -> None:
    results = json.loads(sarif(report))["runs"][0]["results"]
    assert [(one["properties"]["targets"], one["properties"]["evidence"]) for one in results] == [
        ([report.targets[0].target], MEASURED),
        ([report.targets[1].target], INFERRED),
    ]
    prints = [one["partialFingerprints"] for one in results]
    assert prints[0]["aneforge/v1"] == prints[1]["aneforge/v1"]
    assert prints[0]["aneforge/v2"] != prints[1]["aneforge/v2"], "a host would show one of the two alone"


def test_in_junit(report: Report) -> None:
    suites = ET.fromstring(junit(report)).findall("testsuite")  # noqa: S314 - it was just made
    texts = [suite.findtext("testcase[@name='conv']/failure") or "" for suite in suites]
    assert [text.partition("Evidence: ")[2] for text in texts] == [f"{MEASURED}.", f"{INFERRED}."]


def test_on_the_page(report: Report) -> None:
    blocks = [json.loads(gzip.decompress(base64.b64decode(block))) for block in blocks_of(report)]
    found = [blocks[target["findings"]]["evidence"][0] for target in blocks[0]["targets"]]
    assert [(one["kind"], one["on"]) for one in found] == [("measured", ["M1"]), ("inferred", [])]


def test_a_gate_counts_evidence_that_is_strong_enough(report: Report) -> None:
    everything, measured = outcome(report), outcome(report, Threshold(evidence=EvidenceKind.MEASURED))
    assert [one.target for one in everything.failures] == [one.target for one in report.targets]
    assert [one.target for one in measured.failures] == [report.targets[0].target]
    assert (everything.doubted, measured.doubted) == (0, 1)
    for weaker in (EvidenceKind.DECODED, EvidenceKind.INFERRED):
        kinds = [one.finding.evidence for one in outcome(report, Threshold(evidence=weaker)).failures if one.finding]
        assert all(one is not None and one.kind.reaches(weaker) for one in kinds)
        assert len(kinds) == (2 if weaker is EvidenceKind.INFERRED else 1)


def test_what_was_measured_on_other_chips_of_a_tier_is_inferred(report: Report) -> None:
    """M1 Pro has the tier of M1, and shares its values; nobody measured them there."""
    x = af.input((1, 8, 16, 16), name="x")
    pro = check(af.conv(x, np.ones((8, 8, 3, 14), np.float16)), "m1-pro")
    (finding,) = pro.targets[0].findings
    assert finding.evidence_text == MEASURED
    result = outcome(pro, Threshold(evidence=EvidenceKind.MEASURED))
    assert (result.ok, result.doubted) == (True, 1)
    assert not outcome(pro, Threshold(evidence=EvidenceKind.INFERRED)).ok
    assert not outcome(report, Threshold(evidence=EvidenceKind.MEASURED)).ok


def test_a_prediction_is_no_measurement(report: Report) -> None:
    loose = check(af.input((4, 64), name="x").softmax(), ["m1", "m4"])
    asked = ("divergence",)
    assert not outcome(loose, Threshold(asked)).ok
    assert not outcome(loose, Threshold(asked, evidence=EvidenceKind.INFERRED)).ok
    assert outcome(loose, Threshold(asked, evidence=EvidenceKind.DECODED)).ok
    for target in loose.targets:
        assert target.latency is not None
        assert target.latency.evidence == "inferred"
        assert target.latency.rests_on == "measured"
    del report


def test_words_of_evidence() -> None:
    assert evidence_word(" Decoded") is EvidenceKind.DECODED
    with pytest.raises(UnknownNameError, match="unknown evidence 'guessed'"):
        evidence_word("guessed")


def test_the_option_decides_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "wide.onnx"
    model.write_bytes(wide_kernel())
    asked = ["check", str(model), "-t"]
    assert main.run([*asked, "m2"]) == 1
    capsys.readouterr()
    assert main.run([*asked, "m2", "--evidence", "measured"]) == 0
    shown = capsys.readouterr().out
    assert "ANE-KERNEL-001" in shown
    assert "passed (1 finding with weaker evidence than asked for)" in shown
    assert main.run([*asked, "m2", "--evidence", "inferred", "-q"]) == 1
    assert main.run([*asked, "m1", "--evidence", "measured", "-q"]) == 1
    assert main.run([*asked, "m1", "--evidence", "seen", "-q"]) == 2


def wide_kernel() -> bytes:
    """Return an ONNX model of one convolution of 14 columns."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 8, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)
    weights = numpy_helper.from_array(np.ones((8, 8, 3, 14), np.float16), "w")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], "wide", [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()


def test_a_measured_value_is_inferred_on_other_targets_of_its_tier() -> None:
    seen = Evidence(EvidenceKind.MEASURED, "a study", on=("M1",))
    assert kind_on("h13", seen) is EvidenceKind.MEASURED
    assert kind_on("h13g", seen) is EvidenceKind.INFERRED
