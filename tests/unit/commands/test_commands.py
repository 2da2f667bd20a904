"""The library functions after the other commands: compile, run, compare, reduce, diff, explain, lists, bench."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.commands.benching import bench
from aneforge.commands.checking import check
from aneforge.commands.comparing import Tolerance, compare
from aneforge.commands.compiling import EMITTERS, compile_model
from aneforge.commands.demo_networks import network
from aneforge.commands.demonstration import demonstrated, first_chips
from aneforge.commands.diffing import diff
from aneforge.commands.doctoring import doctor
from aneforge.commands.explaining import explain
from aneforge.commands.feeding import feed_inputs
from aneforge.commands.listing import list_ops, list_targets
from aneforge.commands.reducing import reduce_model
from aneforge.commands.running import run_model
from aneforge.errors import BackendUnavailableError, GraphError, IllegalGraphError, UnknownNameError, UnknownTargetError
from aneforge.rules import rules
from aneforge.runtime.executables import SoftwareEngine

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.ops.types import Array
    from aneforge.report.model import Report


def small() -> af.Graph:
    """Return a model of a few operations."""
    x = af.input((1, 8, 4, 4), name="x")
    weights = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float16)
    return af.Graph({"y": af.conv(x, weights, pad=1).relu().tanh()})


@pytest.mark.parametrize("emit", [name for name in EMITTERS if name not in ("hwx", "ane")])
def test_every_form_is_written_and_read_back(tmp_path: Path, emit: str) -> None:
    name = {"mlpackage": "net.mlpackage", "program": "net.aneprg"}.get(emit, "net")
    made = compile_model(small(), "m4", emit, tmp_path / name)
    assert made.path is not None
    if emit == "text":
        assert (tmp_path / name).read_text(encoding="utf-8").startswith("program for h16g {")
        return
    if emit == "program":
        assert af.load_program(made.path).target == "h16g"
        return
    assert list(af.load_model(made.path).inputs) == ["x"]


def test_weights_that_steps_share_are_counted_once(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    taken, kept = (generator.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    x, state = af.input((6, 32), name="x"), af.input((1, 32), name="state")
    for step in range(6):
        state = (x.slice_by_size((step, 0), (1, 32)).linear(taken) + state.linear(kept.copy())).tanh()
    (found,) = check(state, "m1").targets
    assert found.weight_bytes == taken.nbytes + kept.nbytes
    af.save_mil(af.Graph({"y": state}), tmp_path / "net.mil")
    written = sum(file.stat().st_size for file in (tmp_path / "net.mil").iterdir() if file.suffix == ".bin")
    assert found.weight_bytes <= written < 2 * found.weight_bytes, "as the file holds them"


def test_phases_are_kept_and_printed(tmp_path: Path) -> None:
    made = compile_model(small(), "m1", print_after="fold-padding", dump_phases=tmp_path / "phases")
    assert made.text is not None
    assert "anec.relu" in made.text
    assert min(path.name for path in (tmp_path / "phases").iterdir()) == "00-lower.anec"


def test_below_the_floor_of_mil_a_network_description_alone_is_written(tmp_path: Path) -> None:
    graph = af.Graph({"y": af.input((1, 4, 8, 8), name="x").relu()})
    made = compile_model(graph, "h11", "netplist", tmp_path / "net")
    (said,) = (note for note in made.notes if "MIL" in note)
    assert said.startswith("h11 runs no MIL programs; ")
    with pytest.raises(IllegalGraphError, match="ANE-FLOOR-001"):
        compile_model(graph, "h11")
    assert [one.failure is None for one in check(graph, ["h11", "h12"]).targets] == [False, False]


def test_a_network_description_is_judged_by_the_route_that_takes_it(tmp_path: Path) -> None:
    description = tmp_path / "net"
    compile_model(af.Graph({"y": af.input((1, 4, 8, 8), name="x").relu()}), "h11", "netplist", description)
    report = check(description / "net.plist", ["h11", "h12"])
    assert [one.ok for one in report.targets] == [True, True]
    assert not any(found.rule == "ANE-FLOOR-001" for one in report.targets for found in one.findings)
    assert compile_model(description / "net.plist", "h11").layers == 1
    values = {"x": np.linspace(-1, 1, 4 * 8 * 8, dtype=np.float16).reshape(1, 4, 8, 8)}
    (ran,) = run_model(description, "h11", values)
    assert ran.outputs["y"].tobytes() == np.maximum(values["x"], 0).tobytes()
    assert not any(one.differing for one in compare(description, "h11", "m1", values).errors)
    assert bench(description, "h11", values, runs=1)
    with pytest.raises(IllegalGraphError, match="ANE-FLOOR-001"):
        compile_model(description / "net.plist", "h11", "mil", tmp_path / "mil")
    sine = tmp_path / "sine"
    compile_model(af.Graph({"y": af.input((1, 4, 8, 8), name="x").sin()}), "m4", "netplist", sine)
    (failed,) = check(sine / "net.plist", ["h11"]).targets
    assert not failed.ok
    assert "sin" in str(failed.failure)
    assert "ANE-FLOOR-001" not in str(failed.failure)


def test_what_cannot_be_compiled_says_why(tmp_path: Path) -> None:
    with pytest.raises(IllegalGraphError, match="topk"):
        compile_model(network("keyword-spotter"), "m1")
    with pytest.raises(UnknownNameError, match="unknown form to emit 'tflite'"):
        compile_model(small(), "m1", "tflite")
    with pytest.raises(UnknownNameError, match="unknown pass 'fold'"):
        compile_model(small(), "m1", print_after="fold")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(GraphError, match="is not a folder"):
        compile_model(small(), "m1", "text", tmp_path / "file" / "net")


def test_a_model_runs_on_several_targets() -> None:
    found = run_model(small(), ["m1", "m4"], seed=0)
    assert [one.target for one in found] == ["h13", "h16g"]
    assert all(one.outputs["y"].shape == (1, 8, 4, 4) and one.outputs["y"].dtype == np.float16 for one in found)
    again = run_model(small(), "m1", seed=0)
    assert np.array_equal(found[0].outputs["y"], again[0].outputs["y"])
    exact = run_model(small(), "m1", seed=0, backend="reference")[0]
    assert exact.outputs["y"].dtype == np.float64
    assert np.allclose(exact.outputs["y"], found[0].outputs["y"], atol=0.01)


def test_a_run_that_fails_gives_back_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def fails(*_: object) -> None:
        raise GraphError("the device is gone")

    def released(_: object) -> None:
        told.append("released")

    monkeypatch.setattr(SoftwareEngine, "execute", fails)
    monkeypatch.setattr(SoftwareEngine, "release", released)
    with pytest.raises(GraphError, match="the device is gone"):
        run_model(af.input((1, 2), name="x").relu(), "m1", seed=0)
    assert told == ["released"]


def test_values_are_checked() -> None:
    with pytest.raises(GraphError, match=r"for input x \[1, 8, 4, 4\]"):
        run_model(small(), "m1")
    with pytest.raises(GraphError, match="has the wrong shape"):
        run_model(small(), "m1", {"x": np.zeros((2, 2))})
    with pytest.raises(UnknownNameError, match="unknown input 'y'"):
        run_model(small(), "m1", {"y": np.zeros((2, 2))})
    with pytest.raises(BackendUnavailableError):
        run_model(small(), "m1", seed=0, backend="e5rt")


def test_states_start_from_what_is_given() -> None:
    total = af.state("total", (1, 32))
    graph = af.Graph({"y": total + af.input((1, 32), name="x")}, states={"total": total + 1.0})
    given: dict[str, Array] = {"x": np.zeros((1, 32)), "total": np.full((1, 32), 2.0)}
    found = run_model(graph, "m4", given)[0]
    assert float(found.outputs["y"][0, 0]) == 2.0
    assert float(found.states["total"][0, 0]) == 3.0
    inputs, states = feed_inputs(graph, {"x": np.zeros((1, 32))})
    assert (list(inputs), states) == (["x"], {})


def test_the_first_difference_between_targets_is_named() -> None:
    x = af.input((1, 1, 1, 8), name="x")
    graph = af.Graph({"y": af.split(x.relu(), 2, axis=3)[1].abs()})
    found = compare(graph, "m1", "m4", {"x": np.full((1, 1, 1, 8), 5000.0)}, mark=True)
    first = found.first_difference
    assert first is not None
    assert (first.op, first.result, first.differing, first.largest, first.not_finite) == ("split", 1, 4, None, (4, 0))
    same = compare(graph, "m1", "m4", {"x": np.full((1, 1, 1, 8), 5.0)}, mark=True)
    assert same.equal
    assert len(same.nodes) == 4


def test_a_target_is_compared_with_the_mathematics() -> None:
    found = compare(small(), "m4", seed=0)
    assert found.second == "reference"
    assert found.hidden == 2
    whole = compare(small(), "m4", seed=0, mark=True)
    assert (whole.hidden, [one.op for one in whole.nodes]) == (0, ["conv", "relu", "tanh"])
    assert all(one.largest is not None and one.largest < 0.02 for one in whole.nodes)
    with pytest.raises(GraphError, match="name a target first"):
        compare(small(), "reference", "m4", seed=0)


def test_the_worst_operations_come_first() -> None:
    found = compare(small(), "m4", seed=0, mark=True)
    assert len(found.worst) > 1
    assert [one.badness for one in found.worst] == sorted((one.badness for one in found.worst), reverse=True)
    assert [one.name for one in found.errors] == ["y"]
    bounded = compare(small(), "m4", seed=0, tolerance=Tolerance(atol=0.02))
    assert bounded.passes
    assert not bounded.equal
    assert not compare(small(), "m4", seed=0, tolerance=Tolerance()).passes


def test_the_same_network_under_other_names_is_no_change() -> None:
    def report(prefix: str, channels: int = 8) -> Report:
        x = af.input((1, 8, 1, 20_000), name=f"{prefix}x")
        y = af.conv(x, np.ones((channels, 8, 1, 1), np.float16))
        return check(af.Graph({f"{prefix}y": (y.relu() + y.sigmoid()).tanh()}), "m1")

    same = diff(report("a"), report("b"))
    assert not same.changed
    assert same.renamed == 1, "of the operations only the input has a name of its own"
    other = diff(report("a"), report("b", channels=16))
    assert other.changed
    assert not other.targets[0].new or len(other.targets[0].new) == len(other.targets[0].gone)


def test_a_model_is_reduced_to_what_breaks_a_rule() -> None:
    found = reduce_model(network("keyword-spotter"), "rule ANE-FLOOR-002 m1")
    assert [node.op.name for node in found.graph.nodes] == ["input", "topk"]
    assert found.before == 6
    assert [finding.rule for finding in af.preflight(found.graph, "m1").findings] == ["ANE-FLOOR-002"]


def test_a_model_is_reduced_to_what_differs() -> None:
    x = af.input((1, 1, 1, 8), name="x")
    y = af.split((x.relu() * 1000.0).abs(), 2, axis=3)[1].relu()
    values: dict[str, Array] = {"x": np.full((1, 1, 1, 8), 5.0)}
    found = reduce_model(y, "diverges m1 m4", values)
    assert found.after < found.before
    left, right = (af.run(af.build_program(found.graph, one), found.inputs).outputs["y"] for one in ("m1", "m4"))
    assert not np.array_equal(left, right)


def test_a_model_is_reduced_to_what_is_not_finite() -> None:
    y = (af.input((1, 4), name="x").tanh() * 1000.0).square().relu()
    found = reduce_model(y, "nan m4", {"x": np.full((1, 4), 1.0)})
    assert [node.op.name for node in found.graph.nodes] == ["input", "square"]
    assert np.isinf(af.run(af.build_program(found.graph, "m4"), found.inputs).outputs["y"]).all()


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ("the bug", "this is not a property that can be kept"),
        ("rule ANE-NONE-001", "unknown rule"),
        ("diverges m1 m99", "unknown target"),
        ("nan m4", "does not have the property that is to be kept"),
    ],
)
def test_what_cannot_be_reduced_says_why(keep: str, message: str) -> None:
    with pytest.raises(GraphError if "unknown" not in message else (UnknownNameError, UnknownTargetError)) as caught:
        reduce_model(small(), keep)
    assert message in str(caught.value)


def test_states_become_inputs_of_what_is_left() -> None:
    total = af.state("total", (1, 32))
    sum_ = total + af.input((1, 32), name="x")
    net = af.Graph({"y": (sum_ * 4.0).exp()}, {"total": sum_})
    found = reduce_model(net, "nan m4", {"x": np.full((1, 32), 1.0), "total": np.full((1, 32), 3.0)})
    assert not found.graph.state_placeholders
    assert [node.op.name for node in found.graph.nodes] == ["input", "exp"]
    (kept,) = found.inputs.values()
    assert float(kept.flat[0]) == 16.0
    with pytest.raises(GraphError, match="does not have the property") as refused:
        reduce_model(net, "nan m4", {"x": np.full((1, 32), 1.0)})
    assert "states were treated as inputs" in str(refused.value), "from zeros the sum stays small"


def test_two_reports_are_told_apart() -> None:
    first, second = (check(af.input((1, 8, 1, n), name="x").relu(), ["m1", "m4"]) for n in (64, 17_000))
    found = diff(first, second)
    assert found.worse
    assert [one.target for one in found.targets if one.new] == ["h13"]
    back = diff(second, first)
    assert back.changed
    assert not back.worse
    assert not diff(first, first).changed
    assert diff(first, check(af.input((1, 8, 1, 64), name="x").relu(), ["m1"])).only_first == ("h16g",)


def test_chaining_is_the_study_not_the_hardware_field_of_that_name() -> None:
    assert explain(["chaining"]).kind == "study"
    assert explain(["hal", "chaining"]).kind == "hal"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["ane-extent-001"], "ANE-EXTENT-001"),
        (["rule", "ANE-QUIRK-003"], "ANE-QUIRK-003"),
        (["ANE-RANGE-001"], "ANE-RANGE-001"),
        (["hal", "0x81d"], "texture_engine"),
        (["hal", "texture_engine"], "texture_engine"),
        (["limit", "max_tensor_dim"], "max_tensor_dim"),
        (["op", "softplus"], "softplus"),
        (["target", "h17s"], "h17s"),
        (["chip", "M5 Pro"], "h17s"),
        (["pass", "fold-padding"], "fold-padding"),
        (["Segments"], "program"),
        (["crop", "route"], "crop route"),
        (["hal", "field"], "HAL field"),
    ],
)
def test_everything_can_be_explained(words: list[str], name: str) -> None:
    found = explain(words)
    assert found.name == name
    assert found.summary
    assert found.rows


def test_every_rule_can_be_explained() -> None:
    for rule in rules():
        assert explain([rule]).rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ANE-EXTENT-01"], "unknown rule 'ANE-EXTENT-01'; nearest: ANE-EXTENT-0"),
        (["hal", "0xzz"], "'0xzz' is not an offset"),
        (["hal", "texture"], "unknown hal field"),
        (["op", "softplu"], "nearest: softplus"),
        (["segmnt"], "unknown word 'segmnt'; nearest: segment"),
        (["colour", "red"], "cannot explain 'colour red'"),
    ],
)
def test_what_cannot_be_explained_says_what_can(words: list[str], message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        explain(words)
    assert message in str(caught.value)


def test_lists() -> None:
    assert [row.target for row in list_targets("families")] == ["h13", "h14", "h15", "h16s"]
    assert {row.status["h13"] for row in list_ops(["m1"])} == {"native", "decompose", "reject"}
    assert all(row.category == "activation" for row in list_ops(category="activation"))
    assert all("reject" in row.status.values() for row in list_ops(status="reject"))
    with pytest.raises(UnknownNameError, match="unknown category"):
        list_ops(category="activations")
    with pytest.raises(UnknownNameError, match="unknown status"):
        list_ops(status="rejected")


def test_a_benchmark_has_percentiles_and_a_prediction() -> None:
    found = bench(small(), ["m1"], runs=3)[0]
    times = list(found.milliseconds.values())
    assert list(found.milliseconds) == ["least", "p10", "p50", "p90", "p99"]
    assert times == sorted(times)
    assert found.predicted.microseconds > 0


def test_the_doctor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata  # noqa: PLC0415 - it is replaced here alone

    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name == "onnx":
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = doctor()
    missing = next(one for one in found.packages if one.name == "onnx")
    assert (missing.version, missing.install) == (None, "pip install 'aneforge-open[onnx]'")
    assert {one.name for one in found.backends if one.available} == {"software", "reference", "cpu_fp16"}
    monkeypatch.setenv("ANEFORGE_TARGET", "m4")
    assert doctor().host == "ANEFORGE_TARGET=m4"


def test_the_embedded_models_are_checked_on_every_generation() -> None:
    assert first_chips() == ["m1", "m2", "m3", "m4", "m5", "m6"]
    report = demonstrated("unet")[0]
    assert [one.title for one in report.targets] == ["M1", "M2", "M3", "M4", "M5", "M6"]
    assert all(one.ok for one in report.targets)
    with pytest.raises(UnknownNameError, match="unknown embedded model 'resnet'; nearest: resnet18"):
        demonstrated("resnet")


def test_compile_reports_the_program_of_what_it_writes(tmp_path: Path) -> None:
    """A description spells views and broadcasts out, and has the pieces of what it has no layer for."""
    x = af.input((6, 8), name="x")
    graph = af.Graph({"y": (x.rms_norm(np.ones(8)) * x).silu().softmax()})
    for emit, name in {"mil": "mil", "netplist": "net", "mlpackage": "net.mlpackage"}.items():
        made = compile_model(graph, "m1", emit, tmp_path / name)
        assert made.path is not None
        again = af.build_program(af.load_model(made.path), "m1")
        assert (made.layers, made.segments) == (len(again.layers), len(again.segments)), emit


def test_a_package_that_the_engine_does_not_take_whole_is_written_and_says_so(tmp_path: Path) -> None:
    """Core ML has no ports of uint8: its package casts int32, which runs on the CPU."""
    graph = af.Graph({"y": af.input((1, 4, 8, 8), name="x", dtype="uint8").cast("fp16").relu()})
    with pytest.warns(UserWarning, match="Core ML has no ports of"):
        made = compile_model(graph, "m1", "mlpackage", tmp_path / "net.mlpackage")
    assert any("Core ML runs on the CPU" in note and "ANE-DTYPE-001" in note for note in made.notes)


def test_what_a_format_holds_in_other_operations_is_listed(tmp_path: Path) -> None:
    graph = af.Graph({"y": af.input((1, 4, 8, 8), name="x").silu()})
    made = compile_model(graph, "m1", emit="netplist", output=tmp_path / "out")
    assert made.rebuilt == ("silu became x · sigmoid(x)",)
    assert compile_model(graph, "m1", emit="mil", output=tmp_path / "mil").rebuilt == ()


def test_what_reading_a_file_found_is_said_by_check_and_compile(tmp_path: Path) -> None:
    """What is found at several places is said once, and ports of fp32 by the note that tensors were taken as fp16."""
    file = tmp_path / "later.mil"
    ports = "tensor<fp32, [1, 4]> x, tensor<fp16, [1]> first, tensor<fp16, [1]> second"
    file.write_text(
        f"program(1.3) {{ func main<ios99>({ports}) {{ "
        'tensor<fp16, [1, 4]> h = cast(dtype = string("fp16"), x = x)[name = string("h")]; '
        'tensor<fp16, [1, 4]> y = relu(x = h)[name = string("y")]; } -> (y); }'
    )
    rules = [one.rule for one in af.load_model(file).findings]
    assert rules == ["MIL-OP-005", "MIL-PORT-001", "MIL-PORT-002", "MIL-PORT-002"]
    for notes in (check(file, "m1").notes, compile_model(file, "m1").notes):
        (opset,) = [note for note in notes if "MIL-OP-005" in note]
        assert opset.startswith("MIL-OP-005: The function states opset ios99, which is not known")
        assert sum("MIL-PORT-002" in note for note in notes) == 2
        assert not any("MIL-PORT-001" in note for note in notes)
        assert any("were taken as fp16" in note for note in notes)
