"""Verdicts on graphs: the documented examples, and that every verdict explains itself."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import aneforge as af
from aneforge import _targets as tg
from aneforge.compiler.compile import compile_graph
from aneforge.errors import IllegalGraphError, NoDataError, UnknownNameError, UnknownTargetError
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.rules.preflight import JUDGED, OBSERVED, Status
from aneforge.targets import family_of, group, resolve, supports_mil


def names(reports: list[object]) -> list[str]:
    return [getattr(report, "op") for report in reports]  # noqa: B009 - reports of any kind


def test_the_documented_example() -> None:
    weights = np.zeros((8, 3, 3, 3), np.float16)
    x = af.input((1, 3, 32, 32))
    y = af.conv(x, weights, pad=1).relu()
    report = tg.preflight(y, tg.Family.A13)
    assert (report.ok, [r.op for r in report.reject], [r.op for r in report.oversize]) == (True, [], [])
    assert [r.op for r in report.native] == ["input", "conv", "relu"]


def test_a_verdict_prints_what_it_says() -> None:
    assert str(tg.preflight(af.input((1, 8)).relu(), "m1")) == "ok on h13: 2 native"
    report = tg.preflight(af.input((1, 8, 1, 17_000)).sin().relu(), "m1")
    first, *rest = str(report).splitlines()
    assert first.startswith("not ok on h13: ")
    assert rest == [f"  {finding}" for finding in (*report.findings, *report.splits)]
    assert len(rest) >= 3


def test_a_target_without_data_is_named_as_one() -> None:
    """Not by the field that happened to be asked first."""
    with pytest.raises(NoDataError, match="on h15m: no published source describes this target") as error:
        tg.preflight(af.input((1, 8)).relu(), "h15m")
    assert "choose a target with data" in str(error.value)


def test_sine_is_decomposed_before_the_third_generation() -> None:
    y = af.input((1, 8)).sin()
    assert [r.op for r in tg.preflight(y, "m1").decompose] == ["sin"]
    assert tg.preflight(y, "m1").ok
    assert tg.preflight(y, "m3").decompose == []


def test_topk_is_rejected_on_the_first_generation() -> None:
    values, _ = af.topk(af.input((1, 64)), 5)
    assert [r.op for r in tg.preflight(values, "m1").reject] == ["topk"]
    assert tg.preflight(values, "m2").ok


@pytest.mark.parametrize(("chip", "ok"), [("m1", False), ("m3", False), ("m4", True), ("m5", True)])
def test_a_17000_wide_tensor(chip: str, *, ok: bool) -> None:
    report = tg.preflight(af.input((1, 8, 1, 17_000)).relu(), chip)
    assert report.ok is ok
    if not ok:
        (finding,) = report.oversize[-1].findings
        assert (finding.seen, finding.limit, finding.rule) == (17_000, 16_384, "ANE-EXTENT-001")


def test_a_3x14_kernel() -> None:
    y = af.conv(af.input((1, 4, 32, 32)), np.zeros((4, 4, 3, 14), np.float16))
    assert [r.op for r in tg.preflight(y, "m1").oversize] == ["conv"]
    assert tg.preflight(y, "m4").ok


def test_the_inner_extent_of_group_norm() -> None:
    y = af.input((1, 8, 160, 160)).group_norm(np.ones(8), np.zeros(8), num_groups=2)
    (report,) = tg.preflight(y, "m1").oversize
    assert report.op == "group_norm"
    assert report.findings[0].seen == 160 * 160
    assert tg.preflight(y, "m4").ok


def test_affine_needs_the_texture_engine() -> None:
    y = af.affine(af.input((1, 3, 16, 16)), np.zeros((1, 6), np.float16), 8, 8)
    (report,) = tg.preflight(y, "m1").reject
    assert {finding.rule for finding in report.findings} >= {"ANE-GATE-001"}
    assert tg.preflight(y, "m2").ok


def test_70000_channels() -> None:
    y = af.input((1, 70_000, 1, 1)).relu()
    assert [r.op for r in tg.preflight(y, "m6").oversize] == ["input", "relu"]


def test_a_transposed_20000_wide_tensor() -> None:
    y = af.input((1, 4, 1, 20_000)).transpose(0, 1, 3, 2)
    report = tg.preflight(y, "m1")
    assert report.ok, [str(finding) for finding in report.findings]


def test_below_the_floor_everything_is_rejected() -> None:
    report = tg.preflight(af.input((1, 4)).relu(), tg.Family.OLDER)
    assert {r.status for r in report.reports} == {Status.REJECT}
    assert not report.ok


def test_what_no_family_has_is_rejected_everywhere() -> None:
    x = af.input((1, 4))
    y = af.Tensor(build("non_zero", {"x": x}))
    found = {name: report.reject for name, report in af.preflight_all(y).items() if name > "h12"}
    assert all([report.op for report in rejected] == ["non_zero"] for rejected in found.values())
    assert "whose shape depends on the values" in found["h13"][0].findings[0].message


def test_what_no_family_has_and_others_express_is_decomposed_everywhere() -> None:
    y = af.Tensor(build("tan", {"x": af.input((1, 4))}))
    reports = {name: report for name, report in af.preflight_all(y).items() if supports_mil(family_of(resolve(name)))}
    assert len(reports) > 10
    for name, report in reports.items():
        (found,) = report.decompose
        assert report.ok, name
        assert found.findings[0].message == (
            f"tan has no native form on any target; on {name} it becomes a polynomial on the quarter period, −1 over "
            "it beyond (largest relative error 2.4e-07 for x from -100 to 100)."
        )


def test_a_scatter_is_decomposed_where_its_indices_are_constants() -> None:
    data, updates = af.input((4,)), af.input((2,))
    places = Dense(np.array([0, 3], np.int32))
    known = af.Tensor(build("scatter", {"data": data, "indices": places, "updates": updates}))
    assert [report.op for report in tg.preflight(known, "m1").decompose] == ["scatter"]
    computed = af.Tensor(build("argsort", {"x": updates}))
    unknown = af.Tensor(build("scatter", {"data": data, "indices": computed, "updates": updates}))
    (report,) = tg.preflight(unknown, "m3").reject
    assert "only where indices is a constant" in report.findings[0].message


def test_a_verdict_explains_itself() -> None:
    y = af.input((1, 8, 1, 17_000)).relu()
    finding = tg.preflight(y, "m1").findings[0]
    assert finding.location is not None
    assert str(finding.location.file).endswith("test_preflight.py")
    assert finding.remedy
    assert finding.evidence is not None
    assert finding.evidence.kind == "measured"
    assert finding.target == "h13"


def test_all_targets_agree_with_each_one() -> None:
    x = af.input((1, 8, 1, 17_000))
    y = af.concat([x.sin(), af.Tensor(build("tan", {"x": x}))], axis=1)
    together = af.preflight_all(y)
    assert set(together) == {target.name for target in group("all")}
    for name, report in together.items():
        assert report == tg.preflight(y, name)


def test_every_operation_is_in_exactly_one_list() -> None:
    x = af.input((1, 8, 1, 17_000))
    report = tg.preflight(af.concat([x.sin(), x.relu()], axis=3), "m1")
    lists = [report.native, report.decompose, report.oversize, report.reject]
    assert sum(map(len, lists)) == len(report.reports) == 4


def test_wrong_targets() -> None:
    y = af.input((1, 4)).relu()
    with pytest.raises(UnknownTargetError):
        tg.preflight(y, "h99")
    with pytest.raises(NoDataError):
        tg.preflight(y, "h20")


def test_only_nodes_are_reported() -> None:
    y = af.input((1, 8)).sin()
    assert [r.op for r in tg.preflight(y, 1).reject] == ["input", "sin"]
    assert [r.op for r in tg.preflight(y, 2).reports] == ["input", "sin"]


def test_truth_values_and_indices_leave_through_a_cast() -> None:
    compared = af.input((4,)).greater(af.input((4,)))
    report = tg.preflight(compared, "m1")
    assert report.ok
    assert [(r.op, r.findings[0].rule) for r in report.decompose] == [("greater", "ANE-DTYPE-005")]
    values, indices = af.topk(af.input((4, 8)), 2)
    assert tg.preflight([values, indices], "m2").ok
    whole = af.Tensor(build("cast", {"x": values}, {"dtype": "int32"}))
    assert [finding.rule for finding in tg.preflight(whole, "m2").findings] == ["ANE-DTYPE-002", "ANE-DTYPE-003"]


def test_a_report_tells_whether_it_is_oversize() -> None:
    x = af.input((1, 8, 1, 17_000))
    rejected = tg.preflight(af.Tensor(build("sliding_windows", {"x": x}, {"axis": 1, "size": 2})), "m1").reject[0]
    assert rejected.oversize
    assert not tg.preflight(af.input((1, 8)), "m1").reports[0].oversize


def test_documented_keywords() -> None:
    y = af.input((1, 4)).relu()
    assert tg.preflight(out=y, family=2).ok
    assert tg.op_status(op="sin", family=2) == "decompose"
    assert tg.limit(name="conv_kw_max", family=2) == 13
    assert tg.native_streams(family=2) == {"int4", "sparse"}
    assert tg.has_texture_engine(family=3)
    assert af.device_status(op="conv", chip="m1") == "native"
    assert "conv" in af.ops_on(chip="m1", status="native")


@pytest.mark.parametrize("wrong", [2.0, [2], object(), 1j])
def test_what_names_no_target_is_refused(wrong: object) -> None:
    with pytest.raises(UnknownTargetError):
        tg.preflight(af.input((1, 4)), wrong)  # pyright: ignore[reportArgumentType] - what an untyped caller may pass


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown status 'natve'; nearest: native"):
        af.ops_on("m1", "natve")


def test_an_index_made_by_a_cast_is_an_index() -> None:
    begin = af.input((1,)).cast("int32")
    y = af.dynamic_slice(af.input((1, 4)), begin, 2)
    report = tg.preflight(y, "m2")
    assert report.ok, [str(finding) for finding in report.findings]


def test_a_rounding_before_a_product_with_a_number_is_warned_of() -> None:
    y = af.input((1, 4)).round() * 3.0
    report = tg.preflight(y, "m1")
    assert report.ok
    assert [(finding.rule, finding.op) for finding in report.findings] == [("ANE-QUIRK-001", "round")]


def test_a_graph_is_looked_at_once_and_forgotten_with_it() -> None:
    graph = af.Graph({"y": af.input((1, 8)).relu()})
    key = id(graph)
    verdict = af.preflight(graph, "m1")
    assert verdict.ok
    seen = OBSERVED[key]
    assert af.preflight(graph, "m1") is verdict
    assert af.preflight(graph, "m4").ok
    assert OBSERVED[key] is seen
    del graph
    gc.collect()
    assert key not in OBSERVED
    assert key not in JUDGED


def test_a_reduction_times_zero_is_refused_where_it_was_seen_to_fail() -> None:
    scaled = af.input((1, 8), name="x").sum(-1)
    report = af.preflight(scaled * 0.0, "m5")
    (finding,) = report.findings
    assert finding.rule == "ANE-QUIRK-006"
    assert finding.evidence is not None
    assert str(finding.evidence.kind) == "measured"
    assert not report.ok
    assert af.preflight(scaled * 0.5, "m5").ok
    assert af.preflight(scaled * 0.0, "m1").ok
    for zeros in (np.zeros((1, 1)), np.zeros(()), np.full((1,), -0.0)):
        assert [one.rule for one in af.preflight(scaled * zeros, "m5").findings] == ["ANE-QUIRK-006"]
        with pytest.raises(IllegalGraphError, match="ANE-QUIRK-006"):
            compile_graph(scaled * zeros, "m5")
    assert af.preflight(scaled * np.full((1, 1), 0.5), "m5").ok
    assert af.preflight(scaled.relu() * np.zeros((1, 1)), "m5").ok


def test_a_program_without_operations_is_warned_of() -> None:
    x = af.input((1, 8), name="x")
    assert [finding.rule for finding in af.preflight(x, "m1").findings] == ["ANE-QUIRK-007"]
    assert not af.preflight(x.relu(), "m1").findings


def test_a_silu_says_that_it_is_one_coarse_table() -> None:
    x = af.input((1, 8), name="x")
    (finding,) = af.preflight(x.silu(), "m4").findings
    assert (finding.rule, finding.op) == ("ANE-QUIRK-008", "silu")
    assert not af.preflight(x * x.sigmoid(), "m4").findings
