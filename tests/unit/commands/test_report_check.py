"""The report of a model: what it holds, and that targets which share a program are told the truth about theirs."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge._targets import predict_fp16_divergence
from aneforge.analysis.exactness import labels_of_layers
from aneforge.cli.screen import show_report
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.comparing import compare
from aneforge.commands.demo_networks import NETWORKS, network
from aneforge.commands.model_and_targets import chosen_targets, subject_of, title_of_place
from aneforge.commands.outputs import save
from aneforge.commands.report_nodes import origins, report_nodes, trace_layers
from aneforge.commands.sharing import Compiler
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import prepare, run
from aneforge.errors import GraphError, NoDataError, UnknownTargetError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.report.cards import cards
from aneforge.report.finding_texts import closing_line
from aneforge.report.gate import outcome
from aneforge.report.grouping import fold_results
from aneforge.report.headline import costs_of, top_cost
from aneforge.report.model import SPLIT
from aneforge.report.predicted import OFF_ENGINE
from aneforge.report.tables import markdown
from aneforge.report.written import load_report, report_from_json, report_to_json

if TYPE_CHECKING:
    from pathlib import Path

PLACE = re.compile(r' at "[^"]*" line \d+')
SMALL = ("transformer", "keyword-spotter")


def fallen() -> af.Graph:
    """Return a model that is too wide for older targets."""
    return af.Graph({"y": af.input((1, 8, 1, 17_000), name="x").relu().sin()})


@pytest.mark.parametrize("value", [1.0, 2000.0], ids=["below the edge", "past the edge"])
def test_samples_can_make_a_program_less_sure_on_every_target(value: float) -> None:
    """The programs are one, and so are the runs; what is known of the targets is not."""
    graph = af.Graph({"y": af.input((2, 64), name="x") @ np.ones((64, 8), np.float16)})
    samples = {"x": np.full((2, 64), value)}
    for told in check(graph, ["h15", "m1", "m4"], CheckOptions(samples=samples)).targets:
        ran = run(compile_graph(graph, told.target).program, samples)
        assert (told.exactness, told.exactness_reason) == (ran.label.exactness, ran.label.reason)
        assert {one.layer: one.exactness for one in told.timeline if one.nodes} == {
            name: label.exactness for name, label in ran.labels.items()
        }
        assert (told.exactness == "exact") is (value == 1.0 and told.target != "h15")


def test_a_difference_names_the_two_targets_that_are_compared() -> None:
    """Targets that share a program are looked at once."""
    x = af.input((1, 8, 16, 16), name="x")
    graph = af.Graph(
        {"y": af.conv(x, np.ones((8, 8, 3, 3), np.float16), pad=1).slice_by_size((0, 0, 0, 2), (1, 8, 8, 8))}
    )
    for pair in check(graph, ["m1", "m1-max", "m5", "m5-pro", "m6"]).divergences[1:]:
        winograd, crop = sorted(pair.differences, key=lambda one: one.cause)
        assert winograd.detail == f"direct on {pair.first}, winograd on {pair.second}"
        assert crop.detail == f"on {pair.first} magnitudes above 4094 become infinite"


@pytest.mark.parametrize("cut", [False, True], ids=["one program", "three programs"])
def test_what_takes_the_time_adds_up_and_has_the_dispatch_of_the_prediction(*, cut: bool) -> None:
    x = af.input((4, 512), name="x") @ np.ones((512, 512), np.float16)
    report = check(af.Graph({"y": (af.sort(x) if cut else x) @ np.ones((512, 8), np.float16)}), "m4")
    (found,) = report.targets
    assert found.latency is not None
    costs, parts = costs_of(report, found), {one.name: one.microseconds for one in found.latency.parts}
    assert sum(costs.values()) == pytest.approx(found.latency.microseconds, abs=0.01 * len(found.timeline))
    assert costs["2 dispatches" if cut else "dispatch"] == parts["dispatch"]
    assert costs["host copies"] <= parts["host copies"]


@pytest.mark.parametrize("name", SMALL)
def test_shared_programs_are_those_that_each_target_would_get(name: str) -> None:
    graph = network(name)
    compiler = Compiler(graph)
    layers: set[int] = set()
    for target in af.targets.group("all")[::2]:
        made = compiler.compile(target).compiled
        try:
            alone = compile_graph(graph, target)
        except GraphError:
            assert made is None
            continue
        assert made is not None
        # A decomposition has the place of whoever compiles, which is another line here.
        assert PLACE.sub("", str(made.program)) == PLACE.sub("", str(alone.program))
        assert [note.text for note in made.program.notes] == [note.text for note in alone.program.notes]
        assert str(made.schedule) == str(alone.schedule)
        assert str(made.plan) == str(alone.plan)
        assert made.schedule.notes == alone.schedule.notes
        assert made.plan.notes == alone.plan.notes
        layers.add(id(made.program.layers))
    assert 1 < len(compiler.shared) < len(af.targets.group("all")[::2])
    assert 1 < len(layers) < len(compiler.shared)  # passes that were told the same are not run again


@pytest.mark.parametrize("name", ["unet", "keyword-spotter"])
@pytest.mark.parametrize("target", ["m4", "m5"])
def test_labels_without_weights_are_those_of_a_program_that_is_ready(name: str, target: str) -> None:
    program = af.build_program(network(name), target)
    assert labels_of_layers(program) == {step.layer.name: step.labels.known for step in prepare(program).steps}


def test_a_report_holds_verdicts_program_time_and_memory() -> None:
    report = check(network("unet"), ["m1", "m4-pro"])
    assert [one.target for one in report.targets] == ["h13", "h16g"]
    assert [one.title for one in report.targets] == ["M1", "M4 Pro"]
    for one in report.targets:
        assert one.ok
        assert (one.counts.native, len(one.verdicts)) == (report.operations, len(report.nodes))
        assert one.latency is not None
        assert one.latency.low < one.latency.microseconds < one.latency.high
        assert one.memory is not None
        assert one.memory.peak == max(step.buffers + step.windows for step in one.memory.timeline)
        assert 0 < one.memory.peak <= one.memory.capacity
        ends = [timed.start + timed.duration for timed in one.timeline]
        starts = [timed.start for timed in one.timeline]
        assert starts[1:] == pytest.approx(ends[:-1], abs=0.01)
        assert ends[-1] == pytest.approx(one.latency.microseconds, abs=0.5)


def test_every_operation_is_carried_out_by_a_layer() -> None:
    report = check(network("transformer"), "m1")
    carried = {node for timed in report.targets[0].timeline for node in timed.nodes}
    assert carried == {number for number, node in enumerate(report.nodes) if node.op != "input"}


def test_a_decomposed_operation_is_carried_out_by_the_layers_that_stand_for_it() -> None:
    graph = af.Graph({"y": af.input((1, 8), name="x").sin().relu()})
    retargeted = af.retarget(graph, "m1").graph
    program = af.build_program(graph, "m1")
    carried = trace_layers(program, retargeted, origins(graph, retargeted))
    assert {node for nodes in carried.values() for node in nodes} == {1, 2}


def test_the_cause_is_kept_where_there_is_no_program() -> None:
    one = check(network("keyword-spotter"), "m1").targets[0]
    assert not one.ok
    assert one.failure is not None
    assert "topk" in one.failure
    assert one.latency is None
    assert one.timeline == ()
    assert [finding.severity for finding in one.findings] == sorted(
        (finding.severity for finding in one.findings), key=["reject", "oversize", "decompose", "warn", "info"].index
    )


def test_json_keeps_everything_and_is_stable(tmp_path: Path) -> None:
    first, second = (check(fallen(), ["m1", "m4"], CheckOptions(deep=True)) for _ in range(2))
    text = report_to_json(first)
    assert text == report_to_json(second).replace("graph", "graph")
    assert report_from_json(text) == first
    path = save(tmp_path / "report.json", text)
    assert load_report(path) == first
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "this is not a report of aneforge"),
        ("{}", "this is not a report of aneforge"),
        ('{"version": 99, "model": "m"}', "the report has another version (got 99, limit 1)"),
        ('{"version": 1, "model": "m"}', "the report is damaged"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(GraphError) as caught:
        load_report(path)
    assert message in str(caught.value)
    assert "report.json" in str(caught.value)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(GraphError, match="cannot be written"):
        save(tmp_path / "taken", "text")
    with pytest.raises(GraphError, match="cannot be written"):
        save(tmp_path / "missing" / "file", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_samples_tell_where_values_overflow() -> None:
    graph = af.Graph({"y": af.input((1, 4), name="x") * 1000.0})
    seen = check(graph, "m4", CheckOptions(samples={"x": np.full((1, 4), 100.0)})).targets[0]
    assert seen.risk == "saturation"
    assert [finding.rule for finding in seen.findings] == ["ANE-RANGE-001"]
    assert seen.findings[0].node is not None
    fine = check(graph, "m4", CheckOptions(samples={"x": np.full((1, 4), 1.0)})).targets[0]
    assert (fine.risk, fine.findings) == ("none", ())


def test_ranges_prove_what_samples_only_show() -> None:
    graph = af.Graph({"y": af.input((1, 4), name="x") * 1000.0})
    assert check(graph, "m4", CheckOptions(ranges={"x": 100.0})).targets[0].risk == "saturation"
    assert check(graph, "m4", CheckOptions(ranges={"x": 1.0})).targets[0].risk == "none"
    unknown = check(graph, "m4").targets[0]
    assert unknown.risk == "unknown"
    assert "no ranges" in unknown.risk_reason


def test_programs_are_compared_by_what_ranges_bound() -> None:
    x = af.input((1, 8), name="x")
    graph = af.Graph({"y": x.slice_by_size((0, 2), (1, 4))})
    for options in (CheckOptions(), CheckOptions(deep=True)):
        found = check(graph, ["m1", "m4"], options).divergences[0]
        assert (found.strength, found.differences[0].cause, found.differences[0].node) == (
            "saturation",
            "crop route",
            1,
        )
        bounded = check(graph, ["m1", "m4"], dataclasses.replace(options, ranges={"x": 100.0})).divergences[0]
        assert bounded.strength == "none"
    largest = af.input((2, 8), name="x").clip(-1.0, 1.0).amax(0)
    for deep in (False, True):
        found = check(largest.slice_by_size((0, 2), (1, 4)), ["m1", "m4"], CheckOptions(deep=deep)).divergences[0]
        assert found.strength == "none"


def test_every_further_target_with_a_program_is_compared() -> None:
    kernel = np.ones((4, 4, 3, 3), np.float16)
    report = check(af.conv(af.input((1, 4, 8, 8), name="x"), kernel, pad=1), ["m1", "m2", "m5", "m5-pro"])
    assert [(one.second, one.strength) for one in report.divergences] == [
        ("h14g", "none"),
        ("h17", "roundings"),
        ("h17s", "roundings"),
    ]
    assert report.divergences[1].differences[0].cause == "Winograd on width"


def test_placement_is_added_when_asked() -> None:
    report = check(network("unet"), "m4", CheckOptions(placement="coreml"))
    placed = report.targets[0].placement
    assert placed is not None
    assert placed.evidence == "inferred"
    nodes = [node for segment in placed.segments for node in segment.nodes]
    assert sorted(nodes) == [number for number, node in enumerate(report.nodes) if node.op != "input"]
    assert check(network("unet"), "m4").targets[0].placement is None


def test_targets_by_every_name() -> None:
    names = [
        (one.target.name, title_of_place(one)) for one in chosen_targets(["m1, m4-pro", "h17", "family:a14", "m1"])
    ]
    assert names == [("h13", "M1"), ("h16g", "M4 Pro"), ("h17", "A18, A18 Pro, M5"), ("h14", "A15")]
    assert chosen_targets("shipping") == chosen_targets(), "those that run MIL programs, so that a check can pass"
    assert {one.target.name for one in chosen_targets()} < {one.target.name for one in chosen_targets("all")}
    assert all(title_of_place(one) for one in chosen_targets())
    silicon, known = ({one.name for one in af.targets.group(name)} for name in ("all", "known"))
    assert silicon - {one.target.name for one in chosen_targets("all")} == {"h11", "h12"}
    assert silicon < {one.target.name for one in chosen_targets("known")} < known
    with pytest.raises(UnknownTargetError):
        chosen_targets("m99")
    with pytest.raises(UnknownTargetError, match="no target is named"):
        chosen_targets(" , ")
    with pytest.raises(UnknownTargetError, match="a name between commas is empty"):
        chosen_targets("m1,,m4-pro")


def test_a_target_without_data_is_refused() -> None:
    with pytest.raises(NoDataError):
        check(fallen(), next(one.name for one in af.targets.group("known") if not one.has_data))


def test_names_of_nodes_come_from_the_file_or_the_operation() -> None:
    assert [node.name for node in report_nodes(network("keyword-spotter"))][:3] == ["window", "conv_1", "relu_2"]
    assert [node.name for node in report_nodes(fallen())] == ["x", "relu_1", "sin_2"]
    assert set(NETWORKS) == {"resnet18", "transformer", "unet", "keyword-spotter"}


def test_progress_tells_what_is_done() -> None:
    told: list[str] = []
    check(fallen(), ["m1", "m4"], CheckOptions(deep=True), progress=lambda what, done, total: told.append(what))  # noqa: ARG005 - the form of the callback
    assert told == ["reading the model", "compiling for M1", "compiling for M4", "comparing M1 with M4"]


def test_wider_floats_become_fp16_and_whole_numbers_stay() -> None:
    x = af.cast(af.input((1, 4), name="x"), "fp32")
    graph = af.Graph({"y": af.cast(x, "int32"), "z": x})
    made = af.to_fp16(graph)
    assert {name: output.dtype for name, output in made.graph.outputs.items()} == {"y": "int32", "z": "fp16"}
    already = af.Graph({"y": af.input((1, 4)).relu()})
    assert af.to_fp16(already).graph is already
    assert af.to_fp16(already).notes == ()
    assert subject_of(graph, keep_precision=True).graph is graph


def test_the_form_is_plain_data() -> None:
    report = check(fallen(), "m1")
    assert dataclasses.is_dataclass(report)
    assert dataclasses.asdict(report)["targets"][0]["target"] == "h13"
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.model = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue] - it is frozen


@pytest.mark.parametrize(("scale", "word", "differing"), [(1.0, "may differ", 0), (5000.0, "differs", 16)])
def test_check_and_compare_say_the_same_of_samples(scale: float, word: str, differing: int) -> None:
    """Without samples two targets may differ; with them they differ where bits do, and compare counts the same."""
    graph = af.Graph({"y": af.input((1, 4, 1, 8), name="x").slice_by_size((0, 0, 0, 4), (1, 4, 1, 4))})
    samples = {"x": np.full((1, 4, 1, 8), scale)}
    plain = check(graph, ["m1", "m4"]).divergences[0]
    assert (plain.word, plain.differing, plain.seen) == ("may differ", None, "")
    pair = check(graph, ["m1", "m4"], CheckOptions(samples=samples)).divergences[0]
    assert (pair.word, pair.differing, pair.elements) == (word, differing, 16)
    assert sum(one.differing for one in compare(graph, "m1", "m4", samples).nodes) == differing


def test_samples_make_the_comparison_a_deep_one() -> None:
    graph = af.Graph({"y": af.input((1, 8), name="x").slice_by_size((0, 2), (1, 4)).tanh()})
    samples = {"x": np.ones((1, 8))}
    deep, sampled = (
        check(graph, ["m1", "m4"], options).divergences[0]
        for options in (CheckOptions(deep=True), CheckOptions(samples=samples))
    )
    assert (deep.word, sampled.word) == ("same", "same")
    assert sampled.differences == deep.differences == ()


def test_a_batch_norm_with_given_statistics_sums_nothing_that_could_differ() -> None:
    ones = np.ones(8)
    y = af.batch_norm(af.input((1, 8, 4, 4), name="x"), ones, ones, ones, ones)
    assert predict_fp16_divergence("batch_norm", (1, 8, 4, 4), "m1", "m4") == "none", "one analysis answers both"
    plain = check(af.Graph({"y": y.relu()}), ["m1", "m4"]).divergences[0]
    assert (plain.strength, plain.differences) == ("none", ())
    pooled = check(af.Graph({"y": y.mean((2, 3))}), ["m1", "m4"]).divergences[0]
    assert [one.op for one in pooled.differences] == ["reduce_mean"]


def test_a_difference_is_told_of_its_own_operation_among_those_of_one_line() -> None:
    x = af.input((1, 8), name="x")
    report = check((x.slice_by_size((0, 2), (1, 4)).relu() + 1.0).abs(), ["m1", "m4"])
    node = report.divergences[0].differences[0].node
    assert node is not None
    assert report.nodes[node].op == "slice_by_size"


def test_a_label_is_that_of_its_own_target() -> None:
    """Of one tier one target was measured and the other not; they share the program."""
    product = af.conv(af.input((1, 16, 8, 8), name="x"), np.ones((16, 16, 1, 1), np.float16))
    for order in (["m2-pro", "h14"], ["h14", "m2-pro"]):
        found = {one.target: one for one in check(product, order).targets}
        assert (found["h14g"].exactness, found["h14"].exactness) == ("exact", "modelled")
        assert found["h14"].exactness_reason.startswith("accumulator was not measured for this target, only on M2 Pro")


def test_a_chip_with_the_name_of_a_family_is_checked() -> None:
    assert [one.target for one in check(af.input((1, 4), name="x").relu(), ["soc:a15", "m1"]).targets] == ["h14", "h13"]


def test_one_of_something_is_not_written_as_several() -> None:
    graph = af.Graph({"y": af.topk(af.input((1, 4), name="x"), 2)[0]})
    report = check(graph, "m1")
    assert str(report).startswith("graph: 1 operation, graph")
    assert str(report).splitlines()[1].endswith(" 1 finding")
    assert str(report).splitlines()[-1].startswith("  remedy: choose a later target")
    assert "\n1 operation, graph." in markdown(report)
    program = compile_graph(af.input((1, 4)).relu(), "m1").program
    assert repr(program) == "<program of 1 layer in 1 segment for h13>"


def patches(padding: int = 0) -> af.Graph:
    """Return a convolution over patches of 16x16, wider than any chip takes, and what follows it."""
    kernel = Dense.owning(np.full((8, 3, 16, 16), 0.01, np.float16))
    window = {"strides": (16, 16), "pad_type": "custom", "pad": (padding,) * 4}
    found = build("conv", {"x": af.input((1, 3, 64, 64), name="image"), "weight": kernel}, window)
    return af.Graph({"y": Tensor(found).relu()})


def test_what_makes_a_model_fit_is_named_in_the_change_and_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    report = check(patches(), ["m1", "m4"])
    assert [[(one.text, one.option, one.fits) for one in target.changes] for target in report.targets] == [
        [("patches as channels", "--opt 1", True)]
    ] * 2
    assert [card.changes for card in cards(report)] == [("patches as channels (--opt 1): no split, the same time",)] * 2
    show_report(report, outcome(report))
    lines = capsys.readouterr().out.splitlines()
    assert "change: patches as channels (--opt 1): no split, the same time" in lines
    assert " ".join(lines[-2:]).endswith("(2 oversize); --opt 1 makes it fit, --fail-on reject lets splitting pass")
    followed = check(patches(), ["m1", "m4"], CheckOptions(opt=1))
    assert outcome(followed).ok
    assert [target.changes for target in followed.targets] == [(), ()]


def test_an_option_that_does_not_make_a_model_fit_is_not_named() -> None:
    report = check(patches(padding=8), "m4")
    assert report.targets[0].runs == SPLIT
    assert report.targets[0].changes == ()
    assert closing_line(report, outcome(report)).endswith("(1 oversize); --fail-on reject lets splitting pass")


def test_core_ml_has_the_price_of_patches_on_the_engine() -> None:
    """Where the convolution runs elsewhere, data changes devices; the rest of the model costs the same."""
    before, after = (check(patches(), "m4", CheckOptions(path="coreml", opt=opt)).targets[0] for opt in (None, 1))
    assert before.latency is not None
    assert after.latency is not None
    assert [(one.before, one.after) for one in before.changes] == [
        (before.latency.microseconds, after.latency.microseconds)
    ]


def test_a_package_that_is_on_the_engine_has_the_costs_of_its_layers() -> None:
    """Where Core ML runs nothing elsewhere, "engine 100%" would say nothing."""
    image, kernel = af.input((1, 256, 56, 56), name="image"), np.full((256, 256, 3, 3), 0.01, np.float16)
    graph = af.Graph({"y": af.conv(af.conv(image, kernel, pad=1).relu(), kernel, pad=1)})
    direct, through = (check(graph, "m4", CheckOptions(path=path)) for path in ("direct", "coreml"))
    assert through.targets[0].runs == "100% on the engine"
    assert top_cost(through, through.targets[0]) == top_cost(direct, direct.targets[0]) != ""


def test_a_reason_that_names_a_chip_is_one_finding_of_all_chips() -> None:
    """The reason is of the operation, and says of each target the same."""
    x = af.input((1, 4), name="x").cast("int32")
    report = check(af.Graph({"y": x + x}), ["m1", "m2", "m4"], CheckOptions(path="coreml"))
    about = [one for one in fold_results(report) if one.first.finding.rule == OFF_ENGINE.id]
    assert [one.first.targets for one in about] == [("h13", "h14g", "h16g")]


def test_a_program_without_layers_has_nothing_to_change() -> None:
    report = check(af.input((1, 3, 1, 1), name="image"), ["m1", "m2"])
    assert [target.changes for target in report.targets] == [(), ()]
    assert "runs on M1, M2, no program needed" in markdown(report)
    assert "0.0 µs" not in markdown(report)
