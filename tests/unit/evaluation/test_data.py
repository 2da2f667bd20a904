"""Data in folders of images and in tables, and results in Parquet files and on a page."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

import aneforge as af
from aneforge.cli import main
from aneforge.commands.evaluating import evaluate
from aneforge.errors import GraphError, MissingPackageError
from aneforge.evaluation.images import ImageOptions, decode_image
from aneforge.evaluation.samples import BadSampleError
from evaluation_models import FIRST, SECOND, classifier, drawn

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give every test a folder and a cache of its own."""
    monkeypatch.setenv("ANEFORGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def colours() -> af.Graph:
    """Return a network that says which of three colours an image of 4 × 6 has most of."""
    x = af.input((1, 3, 4, 6), name="image")
    return af.Graph({"scores": x.mean(axis=(2, 3))})


def saved_images(folder: Path, count: int) -> Path:
    """Save images of one colour, red, green and blue in turn, in folders of their own."""
    for index in range(count):
        pixels = np.zeros((8, 12, 3), np.uint8)
        pixels[:, :, index % 3] = 200
        (folder / f"{index % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{index % 2}" / f"{index}.png")
    return folder


def test_a_folder_of_images_with_labels_by_name() -> None:
    saved_images(Path("images"), 6)
    Path("labels.csv").write_text("\n".join(f"{index % 2}/{index}.png,{index % 3}" for index in range(6)))
    options = ImageOptions(resize=(4,), mean=(0.5,), std=(0.25, 0.5, 1.0))
    found = evaluate(colours(), "images", FIRST, labels="labels.csv", images=options)
    assert (found.summary.samples, found.summary.bad) == (6, ())
    assert found.summary.chips[0].scores.labelled == 6


def test_images_are_resized_cropped_and_normalised_as_asked() -> None:
    pixels = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    options = ImageOptions(crop=(4, 6), scale=2.0, mean=(1.0, 2.0, 3.0), std=(4.0,))
    wanted = (pixels[2:6, 3:9].transpose(2, 0, 1) / 2.0 - np.array([1, 2, 3]).reshape(3, 1, 1)) / 4.0
    np.testing.assert_array_equal(decode_image(written.getvalue(), (3, 4, 6), options), wanted.astype(np.float32))
    small = Image.fromarray(pixels).resize((6, 4), Image.Resampling.BILINEAR)
    resized = decode_image(written.getvalue(), (3, 4, 6), ImageOptions(resize=(4,), scale=1.0))
    np.testing.assert_array_equal(resized, np.asarray(small, np.float32).transpose(2, 0, 1))
    with pytest.raises(
        BadSampleError, match=r"got 8 × 12, expected height × width of 4 × 6\).*--resize 4,6, or --resize 6 --crop"
    ):
        decode_image(written.getvalue(), (3, 4, 6), ImageOptions())
    with pytest.raises(BadSampleError, match="the input does not take images"):
        decode_image(written.getvalue(), (5,), ImageOptions())


def test_broken_and_missing_images_are_counted_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    af.save_mil(colours(), "net.mil")
    saved_images(Path("images"), 4)
    whole = Path("images/0/0.png").read_bytes()
    Path("images/0/cut.png").write_bytes(whole[: len(whole) // 2])
    Path("images/0/text.jpg").write_text("no image")
    Path("images/1/gone.png").symlink_to("nowhere.png")
    Path("images/folder.png").mkdir()
    command = ["evaluate", "net.mil", "--data", "images", "-t", "m1", "--resize", "4", "--json", "a.json"]
    assert main.run(command) == 0
    shown = capsys.readouterr().out
    assert "net.mil on images: 4 samples" in shown
    assert "3 bad samples, left out:" in shown
    bad = json.loads(Path("a.json").read_text())["answer"][0]["summary"]["bad"]
    assert [one["name"] for one in bad] == ["0/cut.png", "0/text.jpg", "1/gone.png"]
    assert main.run([*command, "--fail-on-bad-sample"]) == 2
    assert "sample 0/cut.png: a bad sample: the image cannot be read: " in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_images_of_more_than_8_bits_are_bad_samples(mode: str) -> None:
    written = io.BytesIO()
    Image.new(mode, (6, 4)).save(written, "TIFF")
    with pytest.raises(BadSampleError, match=rf"more than 8 bits for a channel \(got mode {mode}"):
        decode_image(written.getvalue(), (3, 4, 6), ImageOptions())


def test_images_that_labels_name_and_that_are_not_there_are_counted_and_listed() -> None:
    saved_images(Path("images"), 2)
    Path("labels.csv").write_text("0/0.png,1\n1/1.png,0\n0/gone.png,1\n/far/away.png,2\n")
    found = evaluate(colours(), "images", FIRST, labels="labels.csv", images=ImageOptions((4, 6)), shard=1)
    assert found.summary.samples == 2
    assert {(bad.name, bad.reason) for bad in found.summary.bad} == {
        (name, "cannot be read: No such file or directory") for name in ("0/gone.png", "/far/away.png")
    }
    with pytest.raises(GraphError, match="a bad sample: cannot be read: No such file or directory"):
        evaluate(
            colours(),
            "images",
            FIRST,
            labels="labels.csv",
            images=ImageOptions((4, 6)),
            shard=1,
            fail_on_bad_sample=True,
        )


def test_images_that_do_not_fit_are_one_error() -> None:
    Path("empty").mkdir()
    with pytest.raises(GraphError, match="at empty: there is no image in the folder"):
        evaluate(colours(), "empty", FIRST)
    saved_images(Path("images"), 2)
    Path("labels.csv").write_text("0/0.png,1\n")
    with pytest.raises(GraphError, match=r"no label for 1 of 2 samples: 1/1.png"):
        evaluate(colours(), "images", FIRST, labels="labels.csv")
    with pytest.raises(GraphError, match=r"no sample could be run \(2 bad samples\).*--resize 4,6"):
        evaluate(colours(), "images", FIRST)
    with pytest.raises(GraphError, match="--mean is one number for each channel"):
        evaluate(colours(), "images", FIRST, images=ImageOptions(mean=(1.0, 2.0)))
    with pytest.raises(GraphError, match="images cannot be divided by zero"):
        evaluate(colours(), "images", FIRST, images=ImageOptions(std=(0.0,)))
    with pytest.raises(GraphError, match="the input does not take images"):
        evaluate(classifier(), "images", FIRST)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_table_gives_what_its_rows_give(suffix: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="tables need pyarrow (the extra data)")
    values = drawn(5)
    table = pa.table({"x": [one.reshape(-1).tolist() for one in values], "label": [0, 1, 2, 3, 4]})
    path = Path(f"test.{suffix}")
    if suffix == "parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, path, row_group_size=2)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    found = evaluate(classifier(), path, [FIRST], shard=2)
    listed = [(one, label) for label, one in enumerate(values)]
    assert found.summary == evaluate(classifier(), listed, [FIRST]).summary
    images = pa.table({"image": [{"bytes": b"none", "path": "a"}], "label": [0]})
    importlib.import_module("pyarrow.parquet").write_table(images, "images.parquet")
    with pytest.raises(
        GraphError,
        match=r"no sample could be run \(1 bad sample\); the first is .*: the image cannot be read: cannot identify",
    ):
        evaluate(colours(), "images.parquet", FIRST)
    with pytest.raises(GraphError, match=r"inputs have no data.*missing x, z; the columns are image, label"):
        evaluate(af.Graph({"y": af.input((1, 2), name="x") + af.input((1, 2), name="z")}), "images.parquet", FIRST)
    path.write_bytes(b"no table")
    with pytest.raises(GraphError, match="the table cannot be read"):
        evaluate(classifier(), path, FIRST)


def test_results_of_every_sample_are_written_as_parquet() -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow (the extra data)")
    np.savez("test.npz", x=drawn(5), labels=np.zeros(5, int))
    found = evaluate(classifier(), "test.npz", [FIRST, SECOND], shard=2, parquet="a.parquet")
    evaluate(classifier(), "test.npz", [FIRST, SECOND], shard=2, parquet="b.parquet")
    assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes()
    rows = pq.read_table("a.parquet").to_pylist()
    assert [row["chip"] for row in rows] == ["float32", *(one.label for one in found.summary.chips)] * 5
    errors = [row["error"] for row in rows if row["chip"] == found.summary.chips[0].label]
    assert max(errors) == found.summary.chips[0].error.largest
    assert sum(row["top"][0] == row["label"] for row in rows if row["chip"] == "float32") / 5 == (
        found.summary.float32 and found.summary.float32.top1
    )


def test_the_page_shows_the_samples_that_flip() -> None:
    graph = af.Graph({"scores": af.split(af.input((1, 1, 2, 6), name="<b>"), 2, axis=3)[1].reshape((1, 6))})
    af.save_mil(graph, "net.mil")
    values = np.random.default_rng(3).uniform(0, 1, (3, 1, 2, 6))
    values[1, 0, :, 3:] = [[1, 5000, 6000], [2, 3, 4]]  # infinite in the oldest family from 4094 on
    np.savez("test.npz", x=values, labels=np.array([0, 2, 1]))
    for name in ("a.html", "b.html"):
        assert main.run(["evaluate", "net.mil", "--data", "test.npz", "-t", "m1,m5", "--html", name]) == 0
    page = Path("a.html").read_text(encoding="utf-8")
    assert page == Path("b.html").read_text(encoding="utf-8")
    assert "Samples with different answers" in page
    (picture,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert Image.open(io.BytesIO(base64.b64decode(picture))).size == (6, 2)


def test_the_same_command_replaces_what_it_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow (the extra data)")
    af.save_mil(classifier(), "net.mil")
    np.savez("test.npz", x=drawn(2))
    written = ["a.html", "a.json", "a.parquet"]
    options = [text for name in written for text in (f"--{Path(name).suffix[1:]}", name)]
    command = ["evaluate", "net.mil", "--data", "test.npz", "-t", "m1", "--out", "run", *options]
    assert main.run(command) == 0
    before = [Path(name).read_bytes() for name in written]
    assert main.run(command) == 0, capsys.readouterr().err
    assert [Path(name).read_bytes() for name in written] == before
    Path("a.html").write_text("<!DOCTYPE html><title>mine</title>")
    assert main.run(command) == 2


def test_packages_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    hidden = {"PIL", "pyarrow", "distributed"}

    def find_others(name: str) -> ModuleSpec | None:
        return None if name in hidden else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_others)
    saved_images(Path("images"), 1)
    Path("test.parquet").write_bytes(b"")
    np.savez("test.npz", x=drawn(1))
    for data, options, extra in (
        ("images", {}, "data"),
        ("test.parquet", {}, "data"),
        ("test.npz", {"parquet": "a.parquet"}, "data"),
        ("test.npz", {"workers": 2}, "cluster"),
    ):
        graph = colours() if data == "images" else classifier()
        with pytest.raises(MissingPackageError, match=re.escape(f"pip install 'aneforge-open[{extra}]'")):
            evaluate(graph, data, FIRST, **options)  # pyright: ignore[reportArgumentType] - options of several types
