"""What users reported of whole models, not of an operation: each with the smallest model that shows it.

Reports about one operation are tested beside the rules.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aneforge as af
from aneforge.cli import main
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.explaining import explain
from aneforge.commands.explanation import thread_link
from aneforge.report.gate import Threshold, outcome
from aneforge.report.predicted import PREDICTED
from aneforge.report.sarif import rule_entry
from aneforge.rules import rules
from report_models import saved

THREADS = {
    "apple/coremltools#2687": "ANE-QUIRK-002",
    "apple/coremltools#2359": "ANE-QUIRK-002",
    "apple/coremltools#2669": "ANE-QUIRK-003",
    "cactus-compute/cactus#734": "ANE-QUIRK-003",
    "apple/coremltools#2631": "ANE-STATE-001",
    "ncdrone/rustane#13": "ANE-EXTENT-001",
    "sbryngelson/ANEForge#181": "ANE-EXTENT-001",
    "pytorch/executorch#7907": "ANE-EXTENT-003",
    "microsoft/onnxruntime#14212": "ANE-RANK-001",
    "hollance/neural-engine#2": "ANE-KERNEL-004",
    "apple/coremltools#2173": "ANE-STRIDE-001",
    "apple/coremltools#2370": "ANE-SHAPE-001",
    "ekhodzitsky/gigastt#42": "ANE-SHAPE-001",
    "pytorch/executorch#8445": "ANE-SEGMENT-001",
    "pytorch/executorch#4091": "ANE-SEGMENT-001",
    "apple/coreai-models#205": "ANE-NATIVE-001",
    "Pummelchen/NVMAI#7": "ANE-NATIVE-001",
    "apple/coreai-models#279": "ANE-WEIGHT-002",
    "apple/coremltools#2503": "ANE-CHIPS-002",
    "FluidInference/FluidAudio#828": "ANE-CHIPS-002",
    "sbryngelson/ANEForge#149": "ANE-QUIRK-004",
}
"""Every thread in which users reported a failure, and the rule that knows it."""


@pytest.mark.parametrize(("thread", "rule"), THREADS.items())
def test_every_report_has_a_rule_that_links_to_it(thread: str, rule: str) -> None:
    known = PREDICTED[rule].threads if rule in PREDICTED else rules()[rule].threads
    assert thread in known
    rows = {row.label: row.value for row in explain([rule]).rows}
    assert thread_link(thread) in rows["reported in"].split(", ")
    assert rows["remedy"]
    entry = rule_entry(rule, "note")
    assert entry.properties is not None
    assert thread in entry.properties.threads


def test_open_dimensions_are_listed_with_lengths_to_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(Path("open.onnx"), batch="batch")
    assert main.run(["check", "open.onnx"]) == 2
    error, option, advice = capsys.readouterr().err.splitlines()
    assert "axis 0 of input 'x' is 'batch'" in error
    assert option == "hint: here that is --shape batch=1"
    assert advice.startswith("hint: ANE-SHAPE-001: A model whose dimensions are open or ranged runs off the engine")
    assert "one model for each of a few, such as 32, 128 and 512" in advice
    report = check("open.onnx", "m4", CheckOptions(shapes={"batch": 2}))
    assert any(note.startswith("checked with batch=2. ANE-SHAPE-001: ") for note in report.notes)
    assert not any("ANE-SHAPE-001" in note for note in check(saved(Path("fixed.onnx")), "m4").notes)


def cut_by_a_ranking() -> af.Graph:
    """Return convolutions with a ranking between them, which the first family does not have."""
    weight = np.full((128, 128, 3, 3), 0.01, np.float16)
    y = af.input((1, 128, 32, 32), name="x")
    for _ in range(4):
        y = af.conv(y, weight, pad=1).relu()
    y = af.topk(y, 32)[0]
    for _ in range(4):
        y = af.conv(y, weight, pad=1).relu()
    return af.Graph({"y": y})


def test_an_operation_in_the_middle_that_leaves_the_engine_is_named_with_its_cost() -> None:
    found = check(cut_by_a_ranking(), ["m1", "m4"], CheckOptions(placement="coreml")).targets
    (cut,) = (one for one in found[0].findings if one.rule == "ANE-SEGMENT-001")
    assert found[0].placement is not None
    assert [segment.device for segment in found[0].placement.segments] == ["ANE", "CPU", "ANE"]
    cost = found[0].placement.hops_scheduler_units
    assert cost
    assert found[0].placement.hops_microseconds is None, "what a scheduler counts is no time"
    assert (cut.op, cut.severity, cut.seen) == ("topk", "info", "CPU")
    assert f"cost {cost:g} units of the scheduler at every call" in cut.message
    assert cut.evidence is not None
    assert cut.evidence.kind == "inferred"
    assert not any(one.rule == "ANE-SEGMENT-001" for one in found[1].findings)


def test_a_model_of_which_nothing_is_native_does_not_pass() -> None:
    report = check(af.input((1, 4, 1, 20_000), name="x").relu(), "m1")
    assert report.targets[0].counts.native == 0
    assert not outcome(report).ok
    shared = outcome(report, Threshold(fail_on=(), min_native=0.95))
    reason = "ANE-NATIVE-001: 0.0% of operations are native, wanted 95.0%"
    assert [one.reason for one in shared.failures] == [reason]
    assert outcome(report, Threshold(fail_on=(), min_native=0.0)).ok


def test_a_model_that_runs_on_some_chips_alone_says_on_which_it_does_not() -> None:
    wide = af.input((1, 4, 1, 20_000), name="x").relu()
    notes = check(wide, ["m1", "m2", "m4"]).notes
    assert notes[0] == "ANE-CHIPS-002: it runs as it is on 1 of 3 targets and after splitting on M1, M2"
    assert not any("ANE-CHIPS-002" in note for note in check(wide, ["m1", "m2"]).notes), "it is the same on both"
    largest, _ = af.topk(af.input((1, 8), name="scores"), 2)
    both = af.Graph({"y": wide, "largest": largest})
    assert check(both, ["m1", "m2", "m4"]).notes[0] == (
        "ANE-CHIPS-002: it runs as it is on 1 of 3 targets, after splitting on M2 and not on M1"
    )
    assert check(both, ["m1", "m4"]).notes == ("ANE-CHIPS-002: it runs as it is on 1 of 2 targets and not on M1",)
    assert check(wide, "m4").notes == ()
