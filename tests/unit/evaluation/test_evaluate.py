"""A data set on every chip: what it adds up to, the same bytes however it is run, and one error for a mistake."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aneforge as af
from aneforge.cli import main
from aneforge.cli.waiting import bar
from aneforge.commands.evaluating import evaluate
from aneforge.commands.model_and_targets import label_of
from aneforge.errors import AneforgeError, BackendUnavailableError, GraphError
from aneforge.evaluation import store
from aneforge.evaluation.arrays import open_arrays
from aneforge.evaluation.jobs import Job, expect_same_build
from evaluation_models import CLASSES, FIRST, SECOND, classifier, drawn, saved_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give every test a folder and a cache of its own."""
    monkeypatch.setenv("ANEFORGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a run by name."""
    return {one.name: one.read_bytes() for one in sorted(folder.iterdir()) if one.name != ".lock"}


def test_a_data_set_on_two_chips() -> None:
    found = evaluate(classifier(), saved_data(Path("test.npz"), 10), [FIRST, SECOND], shard=4)
    summary = found.summary
    assert (summary.samples, summary.bad, found.failed) == (10, (), ())
    assert summary.float32 is not None
    assert (summary.float32.labelled, summary.float32.top1, summary.float32.top5) == (10, 1.0, 1.0)
    assert [one.label for one in summary.chips] == [label_of(af.targets.place_of(one)) for one in (FIRST, SECOND)]
    for chip in summary.chips:
        assert chip.scores.top1 == chip.agreement
        assert chip.error.largest is not None
        assert 0 < chip.error.largest < 0.05
        assert chip.error.p50 is not None
        assert chip.error.p50 <= chip.error.largest
    assert [one.same_bits for one in summary.pairs] == [1.0]
    assert found.timing is not None
    assert found.timing.samples == 10


def test_results_are_those_of_a_model_that_is_run_by_hand() -> None:
    values = drawn(3)
    with pytest.warns(af.SliceSaturationWarning):
        model = af.compile(classifier(), target=FIRST)
    by_hand = [cast("Array", model(one[None])).reshape(-1) for one in values]
    wanted = [af.reference(classifier(), [one[None]])["scores"].reshape(-1) for one in values]
    largest = max(
        float(np.max(np.abs(left - right.astype(np.float32)))) for left, right in zip(by_hand, wanted, strict=True)
    )
    summary = evaluate(classifier(), list(values), FIRST).summary
    assert summary.chips[0].error.largest == largest
    margins = [float(np.sort(one)[-1] - np.sort(one)[-2]) for one in by_hand]
    assert summary.chips[0].margin.largest == max(margins)


def test_samples_that_flip_have_both_answers_and_the_layer_where_they_begin() -> None:
    values = drawn(4)
    values[2] *= 8000  # beyond 4094, where a slice of the oldest family is infinite
    found = evaluate(classifier(), list(values), [FIRST, SECOND])
    assert [flip.sample for flip in found.summary.flips] == [2]
    answers = {one.side: one.top for one in found.summary.flips[0].answers}
    assert set(answers) == {"float32", *(one.label for one in found.summary.chips)}
    assert len(set(answers.values())) == 2
    assert [chip.not_finite for chip in found.summary.chips] == [1, 0]
    assert any("SliceSaturationWarning" in note for note in found.notes)
    assert found.summary.pairs[0].same_bits == 0.75
    assert found.explained[0].sample == 2
    assert any(
        layer.against == found.summary.chips[0].label and layer.op == "split" for layer in found.explained[0].layers
    )


def test_a_metric_of_the_user_is_averaged() -> None:
    def distance(outputs: Mapping[str, Array], label: int | None) -> float:
        assert label is not None
        return float(np.argmax(outputs["scores"]) == label) * 10

    found = evaluate(classifier(), saved_data(Path("test.npz"), 4), FIRST, metric=distance)
    assert found.metric == "distance"
    assert found.summary.float32 is not None
    assert found.summary.float32.metric == 10.0


def test_batches_shards_and_threads_change_no_bit(tmp_path: Path) -> None:
    data = saved_data(Path("test.npz"), 7)
    whole = evaluate(classifier(), data, [FIRST, SECOND], shard=7)
    parts = evaluate(classifier(), data, [FIRST, SECOND], shard=2)
    batched = evaluate(classifier(2), data, [FIRST, SECOND], shard=4, folder=tmp_path / "batched")
    assert whole.summary == parts.summary == batched.summary
    assert whole.explained == parts.explained == batched.explained, "elements of one sample are counted"
    assert {layer.against for one in whole.explained for layer in one.layers} == {"float32"}
    assert sorted(contents(tmp_path / "batched")) == ["run.json", "shard-000000.bin", "shard-000001.bin"]


def test_an_interrupted_run_goes_on_and_gives_the_same_bytes(tmp_path: Path) -> None:
    data = saved_data(Path("test.npz"), 9)
    whole = evaluate(classifier(), data, FIRST, shard=2, folder=tmp_path / "whole")

    def stop(done: int, total: int | None) -> None:
        assert total == 9
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(classifier(), data, FIRST, shard=2, folder=tmp_path / "parts", progress=stop)
    assert len(contents(tmp_path / "parts")) == 3
    (tmp_path / "parts" / ".0123.unfinished").write_bytes(b"half")  # what a killed process leaves
    told: list[int] = []
    resumed = evaluate(
        classifier(), data, FIRST, shard=2, folder=tmp_path / "parts", progress=lambda done, _: told.append(done)
    )
    assert told == [4, 6, 8, 9]
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert resumed.repeatable() == whole.repeatable()


def test_without_a_folder_an_interrupted_run_goes_on_too() -> None:
    data = saved_data(Path("test.npz"), 6)

    def stop(done: int, total: int | None) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(classifier(), data, FIRST, shard=2, progress=stop)
    (folder,) = Path("cache/evaluations").iterdir()
    next(folder.glob("shard-*")).unlink()
    told: list[int] = []
    evaluate(classifier(), data, FIRST, shard=2, progress=lambda done, _: told.append(done))
    assert told == [4, 6]
    assert not folder.exists()


def test_a_run_that_is_removed_is_known_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    data, real, removed = saved_data(Path("test.npz"), 4), Path.unlink, list[str]()

    def unlink(path: Path, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as the real one
        removed.append(path.name)
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    evaluate(classifier(), data, FIRST, shard=2)
    kept = [name for name in removed if not name.endswith(".unfinished")]
    assert kept[-2:] == ["run.json", ".lock"]
    assert sorted(kept[:-2]) == ["shard-000000.bin", "shard-000001.bin"]


def test_a_terminal_is_told_the_rate_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with bar("evaluating net", "samples") as tell:
        tell(50, 100)
        time.sleep(0.01)
        tell(60, 100)
    assert re.search(r"60/100\S* \S+ samples/s, 0:00:\d\d left", shown.getvalue())


def test_a_killed_process_leaves_what_the_same_command_goes_on_from(tmp_path: Path) -> None:
    af.save_mil(classifier(), tmp_path / "net.mil")
    saved_data(tmp_path / "test.npz", 100)
    asked = ["evaluate", "net.mil", "--data", "test.npz", "-t", "m1", "--shard", "2"]
    command = [sys.executable, "-m", "aneforge", *asked]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.Popen([*command, "--out", "parts"], env=environment, stdout=subprocess.DEVNULL)
    while killed.poll() is None and len(list(tmp_path.glob("parts/shard-*"))) < 3:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = len(list(tmp_path.glob("parts/shard-*")))
    assert before >= 3
    for folder, answer in (("parts", "parts.json"), ("whole", "whole.json")):
        assert main.run([*asked, "--out", folder, "--json", answer]) == 0
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert Path("parts.json").read_bytes() == Path("whole.json").read_bytes()


def test_a_full_disk_stops_the_run_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data, folder = saved_data(Path("test.npz"), 6), tmp_path / "parts"
    real, written = os.fsync, list[int]()

    def full(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(GraphError, match=r"results cannot be written \(got No space left.*the same command continues"):
        evaluate(classifier(), data, FIRST, shard=2, folder=folder)
    assert sorted(contents(folder)) == ["run.json", "shard-000000.bin"]
    monkeypatch.setattr(os, "fsync", real)
    resumed = evaluate(classifier(), data, FIRST, shard=2, folder=folder)
    assert resumed.repeatable() == evaluate(classifier(), data, FIRST, shard=2).repeatable()


def test_another_run_does_not_go_on_in_a_folder(tmp_path: Path) -> None:
    data, folder = saved_data(Path("test.npz"), 2), tmp_path / "run"
    evaluate(classifier(), data, FIRST, folder=folder)
    with pytest.raises(GraphError, match="holds the results of another run"):
        evaluate(classifier(), data, SECOND, folder=folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(GraphError, match="the folder is not empty and does not hold a run"):
        evaluate(classifier(), data, FIRST, folder=tmp_path / "mine")
    record = store.RunRecord("a", "b", "c", "d", ("e",), 1)
    held = store.RunFolder(tmp_path / "held")
    with held.open_run(record), pytest.raises(GraphError, match="another process writes"), held.open_run(record):
        pass
    with pytest.raises(GraphError, match="another run"), held.open_run(replace_build(record)):
        pass


def replace_build(record: store.RunRecord) -> store.RunRecord:
    return store.RunRecord(record.identity, "other", record.model, record.data, record.chips, record.shard)


def test_compressed_archives_give_the_same_rows() -> None:
    values = drawn(5)
    np.savez(Path("plain.npz"), x=values)
    np.savez_compressed(Path("packed.npz"), x=values)
    np.save(Path("one.npy"), values)
    for name in ("plain.npz", "packed.npz", "one.npy"):
        source = open_arrays(Path(name), {"x": (2, 4, 4)}, None)
        shards = list(source.shards(2, {0}))
        assert [shard.number for shard in shards] == [1, 2]
        rows = [sample.arrays["x"] for shard in shards for sample in shard.samples if sample.arrays is not None]
        np.testing.assert_array_equal(rows, values[2:])
        assert source.inputs["x"].mapped == (name != "packed.npz")


def test_bad_samples_are_listed_and_the_others_go_on() -> None:
    values = [drawn(1)[0], np.zeros((2, 4, 5)), np.array("text"), drawn(1)[0]]
    found = evaluate(classifier(), values, FIRST)
    assert found.summary.samples == 2
    assert [bad.sample for bad in found.summary.bad] == [1, 2]
    assert "input 'x' has another shape (got [2, 4, 5], expected [2, 4, 4])" in found.summary.bad[0].reason
    with pytest.raises(GraphError, match="sample 1: a bad sample: "):
        evaluate(classifier(), values, FIRST, fail_on_bad_sample=True)
    with pytest.raises(GraphError, match="no sample could be run"):
        evaluate(classifier(), values[1:3], FIRST)


class Rows:
    """A data set as PyTorch has it: read by numbers, and not iterable by itself."""

    def __init__(self, samples: list[object]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> object:
        return self.samples[index]

    __iter__ = None


def test_samples_of_every_form_give_the_same() -> None:
    values, labels = drawn(4), [0, 1, 2, 3]
    pairs: list[object] = list(zip(values, labels, strict=True))
    forms: list[tuple[object, object]] = [
        (values, labels),
        (iter(values), labels),
        (pairs, None),
        (iter(pairs), None),
        ([list(one) for one in cast("list[tuple[Array, int]]", pairs)], None),
        ([({"x": value}, np.int64(label)) for value, label in zip(values, labels, strict=True)], None),
        ([(value.tolist(), np.array(label)) for value, label in zip(values, labels, strict=True)], None),
        (Rows(pairs), None),
    ]
    found = [evaluate(classifier(), data, FIRST, labels=given).summary for data, given in forms]
    assert found[0].chips[0].scores.labelled == 4
    assert all(one == found[0] for one in found)


def test_items_that_are_no_samples_are_bad_ones() -> None:
    good = drawn(1)[0]
    items = [(good, 1.0), (drawn(3), np.arange(3)), (good, -1), (good, CLASSES), (good, None), [[1, [2]], 3], (good, 2)]
    summary = evaluate(classifier(), items, FIRST).summary
    assert (summary.samples, summary.chips[0].scores.labelled) == (2, 1)
    reasons = [bad.reason for bad in summary.bad]
    assert reasons[0].endswith("without the axis of the batch (got tuple of ndarray [2, 4, 4], float)")
    assert reasons[1].endswith("(got tuple of ndarray [3, 2, 4, 4], ndarray [3])")
    assert reasons[2] == "the label is not one of the classes (got -1, limit 0 to 5)"
    assert [bad.sample for bad in summary.bad] == [0, 1, 2, 3, 5]


@pytest.mark.parametrize(
    ("count", "message"),
    [(2, "got 2 labels, expected one for each of at least 3 samples"), (9, "got 9 labels, expected one for each of 5")],
)
def test_labels_that_do_not_fit_an_iterator_are_refused(count: int, message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        evaluate(classifier(), iter(drawn(5)), FIRST, labels=[0] * count, shard=3)


def test_labels_of_an_output_without_classes_are_refused() -> None:
    image = af.input((1, 3, 4, 4), name="x").relu()
    with pytest.raises(GraphError, match=r"labels are compared with classes, which output .* does not have"):
        evaluate(image, np.zeros((2, 3, 4, 4)), FIRST, labels=[0, 1])
    found = evaluate(
        image, np.zeros((2, 3, 4, 4)), FIRST, labels=[0, 1], metric=lambda _outputs, label: float(label or 0)
    )
    assert found.summary.chips[0].scores.metric == 0.5


def test_an_answer_that_is_not_a_number_is_no_class() -> None:
    logarithm = af.Graph({"y": af.input((1, 4), name="x").log()})
    summary = evaluate(logarithm, [(np.full(4, -1.0), 0), (np.arange(1.0, 5.0), 3)], FIRST).summary
    assert summary.float32 is not None
    assert (summary.float32.labelled, summary.float32.top1, summary.float32.top5) == (2, 0.5, 0.5)
    assert (summary.flips[0].answers[0].side, summary.flips[0].answers[0].top) == ("float32", None)


def test_the_chips_own_rate_is_that_of_its_predicted_time() -> None:
    for batch in (1, 4):
        (rate,) = evaluate(classifier(batch), drawn(4), FIRST).rates
        assert rate.low < rate.expected < rate.high
        assert rate.expected == batch * 1e6 / af.cost(classifier(batch), FIRST).microseconds


def test_a_metric_that_ends_the_process_is_one_that_raises() -> None:
    Path("metric.py").write_text("import sys\ndef leave(outputs, label):\n    sys.exit(label or 0)\n")
    Path("leaves.py").write_text("raise SystemExit(0)\n")
    with pytest.raises(GraphError, match=r"no sample could be run \(2 bad samples\).* the metric raised SystemExit: 0"):
        evaluate(classifier(), drawn(2), FIRST, metric="metric.py:leave")
    with pytest.raises(GraphError, match=r"leaves.py: the metric cannot be imported \(got SystemExit: 0\)"):
        evaluate(classifier(), drawn(2), FIRST, metric="leaves.py:leave")


def test_a_metric_that_raises_names_its_sample() -> None:
    def fails(outputs: Mapping[str, Array], label: int | None) -> float:
        return float(outputs["scores"].size / (label or 0))

    found = evaluate(classifier(2), [(one, index) for index, one in enumerate(drawn(4))], FIRST, metric=fails)
    assert [(bad.name, bad.reason) for bad in found.summary.bad] == [
        ("0", "the metric raised ZeroDivisionError: division by zero")
    ]
    assert found.summary.samples == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((3, 2, 8, 8))}, r"another shape \(got .*resize the images to 4 × 4"),
        ({"x": np.zeros((3, 4, 4, 2))}, r"transpose\(0, 3, 1, 2\)"),
        ({"a": np.zeros((3, 2, 4, 4)), "b": np.zeros(3)}, "inputs have no data.*missing x; the file has a, b"),
        ({"x": np.zeros((3, 2, 4, 4)), "labels": np.zeros(2, int)}, "the labels do not fit the data.*2 labels"),
        ({"x": np.zeros((3, 2, 4, 4)), "labels": np.zeros(3)}, "a label is not the number of a class"),
        (
            {"x": np.zeros((3, 2, 4, 4)), "labels": np.full(3, CLASSES)},
            "the labels do not fit the model.*expected classes 0 to 5",
        ),
        ({"x": np.zeros((0, 2, 4, 4))}, "there is no sample in the data"),
        ({"x": np.array([None])}, "not a file of arrays.*arrays of objects"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, Array], message: str) -> None:
    np.savez("test.npz", allow_pickle=True, **arrays)
    with pytest.raises(GraphError, match=message):
        evaluate(classifier(), "test.npz", FIRST)


def test_a_file_that_is_cut_is_refused() -> None:
    np.save("test.npy", drawn(3))
    whole = Path("test.npy").read_bytes()
    Path("test.npy").write_bytes(whole[:-1])
    with pytest.raises(GraphError, match=r"at test.npy: .*a truncated array: 383 of 384 bytes"):
        evaluate(classifier(), "test.npy", FIRST)
    with zipfile.ZipFile("test.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", whole[:200])
    with pytest.raises(GraphError, match="a truncated array: 72 of 384 bytes"):
        evaluate(classifier(), "test.npz", FIRST)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n", "labels do not fit the data.*2 labels"),
        ("name,label\n0,1\n1,2\n", "no label for 1 of 3 samples: 2"),
        ("1\ncat\n2\n", "a label is not the number of a class.*cat"),
        ("1,2,3\n", r"not one column, or names and labels \(got columns: 3, expected one or two\)"),
        ("", r"got columns: 0, expected one or two\). Remedy: give a CSV file"),
        ("0,1\n1,2\n2,3\n0,2\n", r"a sample has two labels \(got 1 and 2 for 0\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused(text: str, message: str) -> None:
    Path("labels.csv").write_text(text)
    np.savez("test.npz", x=drawn(3))
    with pytest.raises(GraphError, match=message):
        evaluate(classifier(), "test.npz", FIRST, labels="labels.csv")


def test_labels_of_a_csv_file_are_by_order_or_by_name() -> None:
    np.savez("test.npz", x=drawn(3))
    Path("order.csv").write_text("label\n1\n2\n3\n")
    Path("names.csv").write_text("2,3\n1,2\n0,1\n")
    first, second = (
        evaluate(classifier(), "test.npz", FIRST, labels=name).summary for name in ("order.csv", "names.csv")
    )
    assert first == second
    assert first.chips[0].scores.labelled == 3


def test_what_cannot_be_evaluated_is_one_error() -> None:
    np.savez("test.npz", x=drawn(1))
    Path("data.txt").write_text("")
    Path("broken.npz").write_bytes(b"PK no archive")
    Path("metric.py").write_text("def other(): pass\n")
    cases: list[tuple[dict[str, object], type[AneforgeError], str]] = [
        ({"device": "cuda"}, BackendUnavailableError, "backend 'cuda'"),
        ({"device": "tpu"}, AneforgeError, "device"),
        ({"data": "gone.npz"}, GraphError, "gone.npz: there is no such file or folder"),
        ({"data": "data.txt"}, GraphError, "of a kind that is not known"),
        ({"data": "broken.npz"}, GraphError, "not a file of arrays"),
        ({"data": 3}, GraphError, "neither a path nor an iterable"),
        ({"data": []}, GraphError, "no sample"),
        ({"batch": 2}, GraphError, "the model has another batch"),
        ({"shard": 0}, GraphError, "shard must be a positive number"),
        ({"output": "nothing"}, AneforgeError, "output"),
        ({"metric": "metric.py:mean"}, GraphError, "there is no such metric"),
        ({"metric": "gone.py:mean"}, GraphError, "the metric cannot be read"),
        ({"metric": "mean"}, GraphError, "module:function or file.py:function"),
    ]
    for options, kind, message in cases:
        given = {"data": "test.npz", "targets": FIRST} | options
        with pytest.raises(kind, match=re.escape(message)):
            evaluate(classifier(), **given)  # pyright: ignore[reportArgumentType] - the mistakes are the point
    state = af.state("memory", (1, 4))
    remembering = af.Graph({"y": af.input((1, 4), name="x") + state}, {"memory": state})
    with pytest.raises(GraphError, match="a model with states"):
        evaluate(remembering, [drawn(1)[0]], FIRST)
    with pytest.raises(GraphError, match="the first axis of every input and output"):
        evaluate(af.input((2, 4), name="x").reshape((1, 8)), [np.zeros(4)], FIRST)


def test_a_symbolic_first_dimension_is_the_batch() -> None:
    shape = ["batch", 4]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", ports[:1], ports[1:])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, "net.onnx")  # pyright: ignore[reportUnknownMemberType] - its types are partial
    samples = list(np.random.default_rng(0).standard_normal((5, 4)))
    one, three = (evaluate("net.onnx", samples, FIRST, batch=batch).summary for batch in (None, 3))
    assert one == three
    assert one.samples == 5


def test_the_command_prints_a_row_for_every_chip(capsys: pytest.CaptureFixture[str]) -> None:
    af.save_mil(classifier(), "net.mil")
    saved_data(Path("test.npz"), 6)
    Path("metric.py").write_text("def mean(outputs, label):\n    return float(outputs['scores'].mean())\n")
    assert main.run(["evaluate", "net.mil", "--data", "test.npz", "-t", "m1,m5", "--metric", "metric.py:mean"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^net.mil on test.npz: 6 samples, \S+ samples/s on 2 chips$", shown, re.MULTILINE)
    assert re.search(r"^float32 +100.00 % +100.00 %", shown, re.MULTILINE)
    assert re.search(r"^M1 \(h13\) ", shown, re.MULTILINE)
    assert "the same bits on 2 chips in every sample" in shown
    assert not list(Path("cache/evaluations").iterdir())
    assert main.run(["evaluate", "net.mil", "--data", "none/", "-t", "m1"]) == 2
    assert capsys.readouterr().err == "error: at none: there is no such file or folder. Remedy: check the path\n"


def test_of_several_models_one_that_cannot_be_read_leaves_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first.mil", "second.mil"):
        af.save_mil(classifier(), name)
    Path("broken.mil").write_text("program(")
    saved_data(Path("test.npz"), 2)
    command = [
        "evaluate",
        "first.mil",
        "broken.mil",
        "second.mil",
        "--data",
        "test.npz",
        "-t",
        "m1",
        "--json",
        "all.json",
    ]
    assert main.run(command) == 2
    answers = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert (answers["ok"], [one["model"] for one in answers["answer"]]) == (False, ["first.mil", "second.mil"])
    assert capsys.readouterr().err.count("error: ") == 1


def test_what_stops_every_run_stops_before_the_next_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write_synced", refuse)
    for name in ("first.mil", "second.mil"):
        af.save_mil(classifier(), name)
    saved_data(Path("test.npz"), 2)
    assert main.run(["evaluate", "first.mil", "second.mil", "--data", "test.npz", "-t", "m1"]) == 2
    assert capsys.readouterr().err.count("the results cannot be written") == 1


def test_results_do_not_overwrite_one_another_or_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    af.save_mil(classifier(), "net.mil")
    before = saved_data(Path("test.npz"), 2).read_bytes()
    command = ["evaluate", "net.mil", "--data", "test.npz", "-t", "m1", "--force"]
    assert main.run([*command, "--json", "test.npz"]) == 2
    assert "test.npz: the data itself would be overwritten (got --json)" in capsys.readouterr().err
    assert main.run([*command, "--json", "one", "--html", "one"]) == 2
    assert "one: two results would be written to the same file (got --json and --html)" in capsys.readouterr().err
    assert (Path("test.npz").read_bytes(), Path("one").exists()) == (before, False)


def test_a_worker_of_another_version_is_named() -> None:
    job = Job((), None, {}, 1, "y", None, None, None, "0.0.1 (other)")
    with pytest.raises(GraphError, match=r"^tcp://10.0.0.1:1: this process has a different version .*0.0.1 \(other\)"):
        expect_same_build(job, "tcp://10.0.0.1:1")
