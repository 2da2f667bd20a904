"""A file for Core ML is asked where Core ML would run it; everything else whether the engine runs all of it."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import aneforge as af
from aneforge.analysis.placement import isolate
from aneforge.cli.main import whole_app
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.compiling import compile_model
from aneforge.errors import UnknownNameError
from aneforge.report.gate import STRICT, Threshold, outcome
from aneforge.report.grouping import group_findings
from aneforge.report.headline import THE_ENGINE, in_shop_words, verdict_line
from aneforge.report.sarif import sarif
from aneforge.report.tables import markdown
from aneforge.report.written import report_to_json

WEIGHTS = np.full((64, 64, 3, 3), 2.0**-8, np.float16)


def wide() -> af.Graph:
    """Return a model of which one operation is too wide for an old engine."""
    x = af.input((1, 1, 1, 16385), name="x")
    return af.Graph({"y": x.relu()})


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packages") / "wide.mlpackage"
    af.save_mlpackage(wide(), path)
    return path


def test_a_package_is_judged_by_the_partition_of_core_ml(package: Path) -> None:
    (found,) = check(package, "h13").targets
    assert (found.path, found.ok, found.failure) == ("coreml", True, None)
    assert found.placement is not None
    assert found.runs == "0% on the engine"
    assert found.placement.count("CPU") == 1
    assert found.placement.reason.startswith("relu: oversize on the engine (ANE-EXTENT-001): ")
    assert found.latency is not None
    assert found.latency.low < found.latency.microseconds < found.latency.high
    assert {one.severity for one in found.findings} <= {"warn", "info"}
    assert any(one.message.startswith("Core ML runs it elsewhere: ") for one in found.findings)


def test_the_same_package_dispatched_directly(package: Path) -> None:
    (found,) = check(package, "h13", CheckOptions(path="direct")).targets
    assert (found.path, found.ok) == ("direct", False)
    assert found.placement is None
    assert {"oversize"} <= {one.severity for one in found.findings}


def test_what_runs_elsewhere_is_not_in_the_arithmetic_of_the_engine() -> None:
    graph = af.Graph({"y": af.input((1, 1, 4, 8), name="x").sin() * 2.0})
    (direct,) = check(graph, "h13").targets
    (coreml,) = check(graph, "h13", CheckOptions(path="coreml")).targets
    assert direct.exactness == "modelled"
    assert (coreml.exactness, coreml.risk, coreml.risk_reason) == ("unknown", "unknown", "nothing runs on the engine")
    assert coreml.exactness_reason.startswith("Core ML runs all operations outside of the engine")
    assert {"decompose", "warn"} <= {one.severity for one in direct.findings}
    of_operations = [one for one in coreml.findings if one.node is not None]
    assert {one.rule for one in of_operations if one.severity != "info"} == {"ANE-FLOOR-003"}
    words = {"warn": "Core ML runs it elsewhere: ", "info": "Core ML is predicted to run it elsewhere"}
    assert all(one.message.startswith(words[one.severity]) for one in of_operations)


def test_what_only_this_compiler_builds_of_others_is_not_on_the_engine_in_core_ml(tmp_path: Path) -> None:
    """It was, for strides and repetitions that the engine does not have; the package that is compiled here is."""
    x = af.input((1, 64, 64, 64), name="x")
    repeated = af.conv(af.conv(x, WEIGHTS, pad=1).tile((1, 1, 1, 7)), WEIGHTS, pad=1)
    strided = af.conv(af.input((1, 3, 448, 448), name="x"), np.full((192, 3, 14, 14), 0.01, np.float16), stride=14)
    for place, (graph, op, rule) in enumerate(
        [(repeated, "tile", "ANE-TILE-002"), (strided, "conv", "ANE-STRIDE-001")]
    ):
        (found,) = check(graph, "m4", CheckOptions(path="coreml")).targets
        assert found.placement is not None
        assert found.placement.on_engine < 1
        (warned,) = (one for one in found.findings if one.rule == rule)
        assert (warned.op, warned.severity) == (op, "warn")
        assert warned.message.startswith("Core ML runs it elsewhere: ")
        assert "compile MODEL" in warned.remedy
        path = tmp_path / f"{place}.mlpackage"
        compile_model(graph, "m4", "mlpackage", path)
        (after,) = check(path, "m4").targets
        assert rule not in {one.rule for one in after.findings}
        assert after.placement is not None
        assert after.placement.on_engine > found.placement.on_engine


def test_a_model_of_which_nothing_is_on_the_engine_is_warned_of_in_every_form() -> None:
    """It passed without a word; each chip has its own reason, and one answer is never given for another."""
    graph = af.Graph({"y": af.input((1, 1, 8, 20_000), name="x").softmax(-1)})
    report = check(graph, ["m1", "m4", "a17pro"], CheckOptions(path="coreml"))
    for target in report.targets:
        (found,) = (one for one in target.findings if one.rule == "ANE-SEGMENT-003")
        assert target.placement is not None
        reason = in_shop_words(target.placement.reason, target.target, THE_ENGINE)
        assert (found.severity, found.node, found.seen) == ("warn", None, reason)
        assert str(found.seen) in found.message
    grouped = [one for one in group_findings(report) if one.finding.rule == "ANE-SEGMENT-003"]
    assert [one.targets for one in grouped] == [("h13",), ("h16g", "h16")]
    assert "oversize on the engine" in grouped[0].finding.message
    assert "would save" in grouped[1].finding.message
    line = "runs through Core ML, only on the CPU: no part of it on the engine"
    assert line in verdict_line(report, outcome(report))
    texts = markdown(report), report_to_json(report), sarif(report)
    assert all("nothing of the model on the engine" in text for text in texts)
    assert line in texts[0]
    assert outcome(report).ok
    assert not outcome(report, Threshold(fail_on=STRICT)).ok
    on_it = af.Graph({"y": af.conv(af.input((1, 64, 112, 112), name="x"), WEIGHTS, pad=1)})
    (engine,) = check(on_it, "m1", CheckOptions(path="coreml")).targets
    assert "ANE-SEGMENT-003" not in {one.rule for one in engine.findings}


def test_a_graph_is_dispatched_directly_unless_it_is_asked_otherwise() -> None:
    x = af.input((1, 64, 112, 112), name="x")
    graph = af.Graph({"y": af.conv(af.conv(x, WEIGHTS, pad=1).relu(), WEIGHTS, pad=1)})
    (direct,) = check(graph, "m1").targets
    (coreml,) = check(graph, "m1", CheckOptions(path="coreml")).targets
    assert (direct.path, coreml.path, coreml.runs) == ("direct", "coreml", "100% on the engine")
    assert direct.latency is not None
    assert coreml.latency is not None
    assert coreml.latency.microseconds == direct.latency.microseconds  # one program, dispatched once
    assert "Path: Core ML." in markdown(check(graph, "m1", CheckOptions(path="coreml")))
    with pytest.raises(UnknownNameError, match="unknown path 'cormel'"):
        check(graph, "m1", CheckOptions(path="cormel"))


def test_the_terminal_names_the_path(package: Path) -> None:
    shown = CliRunner().invoke(whole_app(), ["check", str(package), "-t", "m1"])
    assert shown.exit_code == 0, shown.output
    assert "path: Core ML" in shown.output
    assert "no program" not in shown.output
    direct = CliRunner().invoke(whole_app(), ["check", str(package), "-t", "m1", "--path", "direct"])
    assert direct.exit_code == 1
    assert "path: direct dispatch" in direct.output


def test_parts_of_a_model_are_priced_by_themselves() -> None:
    x = af.input((1, 4), name="x")
    graph = af.Graph({"y": af.concat([x.relu(), x.relu().tanh()], axis=1)})
    part = isolate(graph, [node for node in graph.nodes if node.op.name in ("relu", "tanh")])
    assert [len(part.inputs), len(part.outputs)] == [1, 2]
