"""The words of a report do not contradict one another: what runs, what is proven, what was seen, what stands once."""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from onnx import numpy_helper

import aneforge as af
from aneforge import cli, report
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.comparing import compare
from aneforge.commands.compiling import compile_model
from aneforge.commands.diffing import diff
from aneforge.commands.explaining import explain
from aneforge.commands.feeding import feed_inputs
from aneforge.commands.noting import merge_notes, refusal_text
from aneforge.commands.running import run_model
from aneforge.errors import GraphError, IllegalGraphError, PrecisionWarning, UnknownNameError
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.report.gate import Threshold, fail_on_words, outcome
from aneforge.report.headline import shop_message
from aneforge.report.junit import junit
from aneforge.report.tables import markdown
from aneforge.rules.rule import Finding, Severity
from report_models import masked_model, saved

if TYPE_CHECKING:
    from aneforge.report.model import Report

OLD, NEW = "m1", "m5"
FOUND = Finding(
    rule="ANE-TEST-001", severity=Severity.REJECT, op="relu", location=None, message="", seen=None, limit=None,
    remedy="", evidence=None,
)  # fmt: skip


def wide() -> af.Tensor:
    return af.input((1, 4, 1, 20_000), name="x").relu()


def small_products() -> tuple[af.Graph, np.ndarray]:
    """Return a product whose operands are so small that it loses most bits on the grid, and inputs for it."""
    weight = np.random.default_rng(0).standard_normal((16, 1024)) / 32
    graph = af.Graph({"y": af.input((4, 1024), name="x").linear(weight)})
    return graph, (np.random.default_rng(1).standard_normal((4, 1024)) * 0.02).astype(np.float16)


def test_oversize_runs_after_splitting_and_fails_all_the_same() -> None:
    report = check(wide(), [OLD, "m4"])
    split, whole = report.targets
    assert (split.runs, whole.runs) == ("after splitting", "yes")
    assert (split.ok, split.failure, split.segments) == (False, None, 1)
    assert [line.split(" | ")[2] for line in markdown(report).splitlines() if line.startswith("| h1")] == [
        "after splitting",
        "yes",
    ]
    assert not outcome(report).ok
    assert outcome(report).counts == {"oversize": 2}
    assert outcome(report, Threshold(fail_on=("reject",))).ok


def test_what_is_rejected_does_not_run() -> None:
    report = check(af.topk(af.input((1, 8), name="x"), 2)[0], [OLD, "m4"])
    assert [one.runs for one in report.targets] == ["no", "yes"]
    assert outcome(report).counts == {"reject": 1}


def test_a_finding_that_targets_share_counts_once() -> None:
    result = outcome(check(wide(), [OLD, "m1-pro", "m1-max"]))
    assert len(result.failures) == 6
    assert result.counts == {"oversize": 2}
    assert {one.word for one in result.failures} == {"oversize"}


def test_a_bound_that_is_passed_is_no_proof() -> None:
    x = af.input((1, 4), name="x")
    passing = check(x * x, NEW, CheckOptions(ranges={"x": 300.0})).targets[0]
    assert passing.risk == "saturation"
    assert passing.risk_reason == (
        "possible for inputs within the ranges given, by interval bounds: first in mul, "
        "fp16 overflow: 9e+04 against 65504"
    )
    assert "proven" not in passing.findings[0].message
    below = check(x * x, NEW, CheckOptions(ranges={"x": 3.0})).targets[0]
    assert below.risk == "none"
    assert below.risk_reason.startswith("proven for all inputs within the ranges given: nothing becomes infinite")


def test_a_promise_of_the_graph_is_a_range() -> None:
    found = check(af.input((1, 64), name="x", max_abs=100.0).exp(), NEW).targets[0]
    assert found.risk == "saturation"
    assert "by interval bounds" in found.risk_reason
    assert check(af.input((1, 64), name="x").exp(), NEW).targets[0].risk == "unknown"


def test_ranges_never_prove_that_no_bits_are_lost() -> None:
    graph, sample = small_products()
    bounded = check(graph, NEW, CheckOptions(ranges={"x": 4.0})).targets[0]
    assert bounded.risk == "none"
    assert "sample inputs show how many bits small products lose" in bounded.risk_reason
    both = check(graph, NEW, CheckOptions(ranges={"x": 4.0}, samples={"x": sample})).targets[0]
    assert both.risk == "loss"
    seen, _, proven = both.risk_reason.partition("; ")
    assert seen.startswith("seen with the sample inputs: first in linear, product grid: products of about")
    assert proven.startswith("proven for all inputs within the ranges given: nothing becomes infinite")


def test_ranges_prove_that_products_are_small() -> None:
    graph, _ = small_products()
    found = check(graph, NEW, CheckOptions(ranges={"x": 0.01})).targets[0]
    assert found.risk == "loss"
    assert found.risk_reason.startswith("no product is larger for inputs within the ranges given: first in linear")


def test_a_long_sum_loses_bits_whatever_ranges_say() -> None:
    total = af.input((4, 1024), name="x", max_abs=1.0).sum(-1)
    found = check(total, NEW).targets[0]
    assert found.risk == "loss"
    assert found.risk_reason.startswith("proven for all inputs within the ranges given: nothing becomes infinite")
    assert "adds 1024 signed numbers in fp16 partial sums; relative error about 0.032" in found.risk_reason


def test_samples_and_ranges_tell_an_edge_once() -> None:
    x = af.input((1, 4), name="x")
    options = CheckOptions(ranges={"x": 300.0}, samples={"x": np.full((1, 4), 290.0)})
    found = check(x * x, NEW, options).targets[0]
    assert [one.rule for one in found.findings] == ["ANE-RANGE-001"]
    assert "(seen with the sample inputs)" in found.findings[0].message


def test_small_products_warn_where_rescaling_was_measured_to_gain() -> None:
    graph, sample = small_products()
    options = CheckOptions(samples={"x": sample})
    (unmeasured,) = check(graph, NEW, options).targets[0].findings
    assert (unmeasured.rule, unmeasured.severity) == ("ANE-RANGE-005", "info")
    assert unmeasured.message.endswith("--rescale measures the error.")
    target = check(graph, NEW, CheckOptions(samples={"x": sample}, rescale=True)).targets[0]
    (measured,) = target.findings
    assert measured.severity == "warn"
    assert "Measured error of this product: " in measured.message
    assert target.rescaling is not None
    assert target.rescaling.detail.startswith(
        "1 of 1 products rescaled; error on the sample inputs, before -> after: output y: "
    )
    before, after = map(float, re.findall(r"output y: ([\d.]+)% -> ([\d.]+)%", target.rescaling.detail)[0])
    assert before > 3 * after > 0


def test_an_edge_is_that_of_the_product_and_not_of_the_reshape_before_it() -> None:
    weight = np.full((16, 1024), 2.0**-7)
    x = af.input((1, 1024, 1, 1), name="x")
    graph = af.Graph({"y": x.reshape(1, 1024).linear(weight)})
    samples = {"x": np.full((1, 1024, 1, 1), 2.0**-2)}
    report = check(graph, NEW, CheckOptions(samples=samples))
    (found,) = report.targets[0].findings
    assert (found.rule, found.op) == ("ANE-RANGE-005", "linear")


def test_small_products_are_information_where_rescaling_gains_nothing() -> None:
    weight = np.full((16, 1024), 2.0**-7)
    graph = af.Graph({"y": af.input((4, 1024), name="x").linear(weight)})
    sample = np.full((4, 1024), 2.0**-2)
    (found,) = check(graph, NEW, CheckOptions(samples={"x": sample}, rescale=True)).targets[0].findings
    assert (found.rule, found.severity) == ("ANE-RANGE-005", "info")
    assert "Rescaling was tried and gains nothing here: " in found.message
    assert found.remedy == "not needed: af.rescale gains nothing here."


def test_notes_are_told_once_with_a_count() -> None:
    x = af.input((1, 1, 1, 64), name="x")
    parts = af.split(x, 8, axis=3)
    graph = af.Graph({f"y{number}": part for number, part in enumerate(parts)})
    made = compile_model(graph, OLD)
    (crop,) = (note for note in made.notes if "copied times 16" in note)
    assert crop.endswith("(7 times, first at 'split_1')")
    assert sum("copied times 16" in note for note in check(graph, OLD).targets[0].notes) == 1
    assert merge_notes([("a", ""), ("a", "")]) == ("a (2 times)",)


def test_a_refusal_tells_a_finding_of_many_operations_once() -> None:
    x = af.input((1, 8), name="x")
    graph = af.Graph({f"y{number}": af.topk(x + float(number), 2)[0] for number in range(5)})
    with pytest.raises(IllegalGraphError) as raised:
        run_model(graph, OLD, seed=0)
    assert len(raised.value.findings) == 5
    head, line = refusal_text(raised.value).splitlines()
    assert head == "on h13: the graph cannot run, 5 findings:"
    assert line.startswith("  ANE-FLOOR-002 reject: topk")
    assert line.endswith("And 4 more such operations.")
    assert check(graph, OLD).targets[0].failure == f"{head}\n{line}"
    assert refusal_text(GraphError("oh")) == "oh"


def test_a_refusal_hides_no_value() -> None:
    wide, many = af.input((1, 4, 1, 20_000), name="wide"), af.input((70_000, 4, 1, 8), name="many")
    found = [
        str(one)
        for report in af.preflight(af.Graph({"a": wide.relu(), "b": many.relu(), "c": wide.relu()}), OLD).reports
        for one in report.findings
    ]
    assert len({line.split()[0] for line in found}) == 1, "one rule"
    told = refusal_text(IllegalGraphError.of("h13", found))
    assert "20000" in told
    assert "70000" in told


def test_a_warning_of_values_is_at_the_users_own_line() -> None:
    with pytest.warns(PrecisionWarning, match="1 of 2 values is infinite in fp16") as told:
        run_model(af.input((1, 2), name="x").relu(), NEW, {"x": np.array([[1e6, 1.0]])})
    assert [one.filename for one in told] == [__file__]


def test_what_a_checker_is_told_to_pass_over_has_a_reason() -> None:
    unexplained = [
        f"{path.name}: {line.strip()}"
        for room in (report, cli)
        for path in Path(str(room.__file__)).parent.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"# (?:noqa|pyright: ignore)(?!.* - \S)", line)
    ]
    assert unexplained == []


def test_the_operation_that_cuts_a_program_is_named() -> None:
    q, k, v = (af.input((1, 2, 8, 4), name=name) for name in "qkv")
    mixed = af.sdpa(q.relu(), k, v, native=True).relu()
    target = check(mixed, NEW).targets[0]
    assert target.segments == 3
    (cut,) = (one for one in target.findings if one.rule == "ANE-SEGMENT-002")
    assert (cut.op, cut.severity) == ("sdpa", "info")
    assert cut.message.startswith(
        "sdpa needs a program of its own, so that the model is cut into 3 programs; each after the"
    )
    assert cut.remedy.startswith("omit native: attention is then built from matmul and softmax")
    assert cut.evidence is not None
    assert cut.evidence.kind == "decoded"
    assert explain(["ane-segment-002"]).kind == "prediction"
    assert not any(one.rule == "ANE-SEGMENT-002" for one in check(wide(), "m4").targets[0].findings)


def test_the_reference_has_the_weights_of_the_file(tmp_path: Path) -> None:
    model = masked_model()
    path = saved(tmp_path / "masked.onnx")
    impulse = np.zeros((1, 8, 1, 64), np.float32)
    impulse[0, 0, 0, 5] = 1.0
    found = compare(path, NEW, inputs={"x": impulse}, mark=True)
    assert found.reference == "float64, with the weights and inputs as their files have them, not rounded to fp16"
    weights = next(numpy_helper.to_array(one) for one in model.graph.initializer if one.name == "w")[:, 0]
    rounding = np.abs(weights.astype(np.float64) - weights.astype(np.float16)).max()
    first = found.nodes[0]
    assert (first.op, first.largest) == ("conv", rounding), "an impulse shows the weights themselves"
    assert compare(path, OLD, NEW, {"x": impulse}).reference == ""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((1, 2)) * 1j, r"input 'x' takes numbers \(got complex128\)"),
        (np.array([["a", "b"]]), r"input 'x' takes numbers \(got <U1\)"),
        (np.ones((2, 1)), r"input 'x' has the wrong shape \(got \[2, 1\], expected \[1, 2\]\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(value: np.ndarray, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        feed_inputs(af.Graph({"y": af.input((1, 2), name="x").relu()}), {"x": value})


def test_commands_and_the_runtime_take_and_refuse_the_same_integers() -> None:
    graph = af.Graph({"y": af.cast(af.input((1, 2), dtype="uint8", name="x"), "fp16")})
    model = af.compile(graph, target="m1")
    for values, message in (
        ([0.5, 1.0], "takes only uint8"),
        ([3.0, 255.0], "takes only uint8"),
        ([True, False], "takes only uint8"),
        ([300, 0], "out of range"),
        ([-1, 0], "out of range"),
    ):
        given = np.array([values])
        with pytest.raises(GraphError, match=message):
            feed_inputs(graph, {"x": given})
        with pytest.raises(GraphError, match=message):
            model(given)
    assert feed_inputs(graph, {"x": np.array([[3, 255]])})[0]["x"].tolist() == [[3, 255]]


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, np.int8, np.int64])
def test_inputs_of_four_bits_take_integers_of_any_type(dtype: type) -> None:
    x = af.Tensor(build("input", {}, {"shape": (2, 2), "dtype": "int4", "name": "x"}), 0)
    graph = af.Graph({"y": af.cast(x, "fp16")})
    values = cast("npt.NDArray[Any]", np.array([[-8, 7], [0, 1]]).astype(dtype))
    inputs, _ = feed_inputs(graph, {"x": values})
    assert af.reference(graph, inputs)["y"].tolist() == [[-8.0, 7.0], [0.0, 1.0]]
    (found,) = check(graph, "m5", CheckOptions(samples=inputs)).targets
    assert [finding.rule for finding in found.findings] == ["ANE-DTYPE-001"]
    with pytest.raises(GraphError, match="out of range"):
        feed_inputs(graph, {"x": np.full((2, 2), 8, np.int8)})


def test_inputs_that_fp16_makes_infinite_are_warned_of() -> None:
    graph = af.Graph({"y": af.input((1, 3), name="x").relu()})
    with pytest.warns(PrecisionWarning, match="input 'x': 1 of 3 values is infinite in fp16"):
        feed_inputs(graph, {"x": np.array([[1e6, 1.0, np.inf]])})
    with pytest.warns(PrecisionWarning, match=r"input 'x': 2 of 3 values are NaN"):
        feed_inputs(graph, {"x": np.array([[np.nan, np.nan, 1.0]])})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feed_inputs(graph, {"x": np.array([[65504.0, -65504.0, np.inf]])})


def test_inputs_outside_of_their_range_are_warned_of() -> None:
    graph = af.Graph({"y": af.input((1, 3), name="x", max_abs=4).relu()})
    sample = {"x": np.array([[4.0, -4.5, 5.0]])}
    with pytest.warns(
        PrecisionWarning, match="input 'x': 2 of 3 values are outside of its range of -4 to 4, such as -4.5"
    ):
        feed_inputs(graph, sample)
    with pytest.warns(PrecisionWarning, match="input 'x': 1 of 3 values is outside of its range of -5 to 4.5"):
        check(graph, "m1", CheckOptions(samples=sample, ranges={"x": (-5.0, 4.5)}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feed_inputs(graph, sample, ranges={"x": 5.0})
        feed_inputs(graph, None, seed=0)


def test_samples_of_a_check_are_held_against_the_model() -> None:
    x = af.input((1, 2), name="x").relu()
    with pytest.raises(UnknownNameError, match="unknown input 'X'; nearest: x"):
        check(x, NEW, CheckOptions(samples={"X": np.zeros((1, 2))}))
    with pytest.raises(GraphError, match="no values are given for input"):
        check(x, NEW, CheckOptions(samples={}))


def test_a_saved_program_runs(tmp_path: Path) -> None:
    graph = af.Graph({"y": af.input((1, 4), name="x") * 3.0})
    path = compile_model(graph, NEW, "program", tmp_path / "net.aneprg").path
    assert path is not None
    sample = {"x": np.arange(4.0)[None]}
    (ran,) = run_model(path, inputs=sample)
    (direct,) = run_model(graph, NEW, sample)
    assert ran.target == direct.target
    assert ran.outputs["y"].tolist() == direct.outputs["y"].tolist() == [[0, 3, 6, 9]]
    assert run_model(path, "h17", sample)[0].target == "h17"
    with pytest.raises(GraphError, match=r"a saved program is for one target \(got \['h13'\], expected h17\)"):
        run_model(path, [OLD, NEW], sample)
    with pytest.raises(GraphError, match="a saved program has fixed shapes"):
        run_model(path, inputs=sample, shapes={"x": (1, 4)})
    with pytest.raises(UnknownNameError, match="unknown input 'z'"):
        run_model(path, inputs={"z": np.zeros(1)})
    with pytest.raises(GraphError, match="no values are given for input"):
        run_model(path)
    for command in (check, compare):
        with pytest.raises(GraphError, match=r"a program that was compiled for one target.*aneforge run FILE runs it"):
            command(path, NEW)


def test_a_conflict_between_sources_can_be_explained() -> None:
    found = explain(["c10"])
    assert found == explain(["conflict", "C10"])
    assert (found.kind, found.name) == ("conflict between sources", "C10")
    assert [row.label for row in found.rows][:4] == ["chosen", "rejected", "why", "sources"]
    assert all(explain([name]).summary.endswith("?") for name in af.targets.database().conflicts)
    with pytest.raises(UnknownNameError, match=r"unknown rule 'C999'.*a conflict between sources"):
        explain(["C999"])


def test_a_case_without_a_program_is_no_success() -> None:
    report = check(af.topk(af.input((1, 8), name="x"), 2)[0], [OLD, "m4"])
    first, second = ET.fromstring(junit(report))  # noqa: S314 - our own text
    assert (first.get("skipped"), second.get("skipped")) == ("1", "0")
    (whole,) = (case for case in first if case.get("name") == "program")
    skipped = whole.find("skipped")
    assert skipped is not None
    assert str(skipped.get("message")).startswith("no program: on h13: the graph cannot run")
    assert all(case.find("skipped") is None for case in second)


def test_a_finding_on_several_chips_speaks_of_all_of_them() -> None:
    report = check(af.topk(af.input((1, 3, 8, 8), name="x").relu().reshape((1, 192)), 5)[0], [OLD, "m2", "m3", "m4"])
    cut = next(one for target in report.targets for one in target.findings if one.rule == "ANE-SEGMENT-002")
    having = [target.target for target in report.targets if cut.rule in {one.rule for one in target.findings}]
    assert having == ["h14g", "h15", "h16g"]
    costs = [found[1] for target in report.targets for one in target.findings if one.rule == cut.rule
             if (found := re.search(r"predicted at ([\d.]+) µs", one.message)) is not None]  # fmt: skip
    assert len(set(costs)) == len(having)
    whole = shop_message(report, cut, having)
    assert f"predicted at {min(costs, key=float)}-{max(costs, key=float)} µs" in whole
    assert f"predicted at {costs[0]} µs" in shop_message(report, cut)


def test_findings_that_differ_in_words_name_each_family() -> None:
    early, late = (
        msgspec.structs.replace(FOUND, target=target, message=f"it needs more; {target} is of the {family} family.")
        for target, family in (("h13", "A13"), ("h14g", "A14"))
    )
    report = check(af.input((1, 4), name="x").relu(), [OLD, "m2"])
    both = replace(
        report,
        targets=tuple(
            replace(one, findings=(found,)) for one, found in zip(report.targets, (early, late), strict=True)
        ),
    )
    text = shop_message(both, early, ["h13", "h14g"])
    assert text == "it needs more; M1 is of the A13 family; M2 is of the A14 family."


def test_a_smaller_graph_is_not_worse_for_having_fewer_operations() -> None:
    x = af.input((1, 4), name="x")
    longer, shorter = check(x.relu().relu(), OLD), check(x.relu(), OLD)
    found = diff(longer, shorter)
    assert found.targets[0].after.native < found.targets[0].before.native
    assert not found.worse


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_constants_that_are_no_numbers_are_told(dtype: str) -> None:
    weight = np.ones((4, 8), np.float16 if dtype == "fp16" else np.float32)
    weight[1, 2:4] = np.nan
    weight[2, 2], weight[2, 3] = np.inf, -np.inf
    x = af.Tensor(build("input", {}, {"name": "x", "shape": (2, 8), "dtype": dtype}))
    notes = check(af.Tensor(build("linear", {"x": x, "weight": Dense(weight)}, {})), OLD).notes
    assert [note for note in notes if re.fullmatch(r"a constant of linear.* holds NaN in 2 of 32 elements", note)]


@pytest.mark.parametrize("word", ["guide ch. 4", "field-reports", "aneforge targets table", "m6-study"])
def test_sources_are_explained_as_evidence_names_them(word: str) -> None:
    found = explain(word.split())
    assert (found.kind, found.name) == ("source", word.split(maxsplit=1)[0])
    assert found == explain([word])


def test_a_diff_keeps_the_order_that_was_asked_for() -> None:
    def report(width: int) -> Report:
        return check(af.input((1, 8, 1, width), name="x").relu(), [OLD, "m4", NEW, OLD])

    assert [one.target for one in diff(report(64), report(17_000)).targets] == ["h13", "h16g", "h17"]


def test_sample_values_of_states_are_said_to_be_left_out() -> None:
    total = af.state("total", (1, 32))
    graph = af.Graph({"y": total + af.input((1, 32), name="x")}, states={"total": total + 1.0})
    samples = {"x": np.zeros((1, 32)), "total": np.full((1, 32), 60_000.0)}
    report = check(graph, NEW, CheckOptions(samples=samples))
    assert report.notes == ("sample values of states are not looked at, states start at zero: total",)
    assert report.targets[0].risk == "none"


def test_choices_are_listed_whole() -> None:
    with pytest.raises(UnknownNameError, match="known: mil, netplist, mlpackage, program, text"):
        compile_model(wide(), NEW, "onnx")
    with pytest.raises(UnknownNameError, match=r"some of reject, oversize, .*divergence, or none"):
        fail_on_words("all")
