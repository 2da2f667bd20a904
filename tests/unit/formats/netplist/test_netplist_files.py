"""Descriptions on disk: what is saved, how it is saved, and that nothing half-written is ever seen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.netplist.reading import load_netplist
from aneforge.formats.netplist.writing import netplist, save_netplist
from aneforge.graph.reference import reference

if TYPE_CHECKING:
    from aneforge.graph.tensor import Tensor


def network() -> Tensor:
    """Return a small network with weights."""
    kernel = np.arange(24, dtype=np.float16).reshape(4, 3, 2, 1)
    return af.conv(af.input((1, 3, 4, 4), name="x"), kernel).tanh()


@pytest.mark.parametrize("binary", [False, True])
def test_saved_and_loaded(tmp_path: Path, binary: bool) -> None:  # noqa: FBT001 - a parameter of the test
    path = save_netplist(network(), tmp_path / "deep" / "model", binary=binary)
    assert path == tmp_path / "deep" / "model" / "net.plist"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["net.plist", "weights.0", "weights.1"]
    assert (path.parent / "weights.0").stat().st_size == 0
    assert path.read_bytes().startswith(b"bplist" if binary else b"<?xml")
    values = np.random.default_rng(0).standard_normal((1, 3, 4, 4))
    np.testing.assert_array_equal(reference(load_netplist(path), [values])["y"], reference(network(), [values])["y"])


def test_a_model_is_saved_over_itself(tmp_path: Path) -> None:
    first = save_netplist(network(), tmp_path)
    before = first.read_bytes(), (tmp_path / "weights.1").read_bytes()
    graph = load_netplist(first)  # its weights are still mapped
    save_netplist(graph, tmp_path)
    assert (first.read_bytes(), (tmp_path / "weights.1").read_bytes()) == before
    assert reference(graph, [np.ones((1, 3, 4, 4))])["y"].shape == (1, 4, 3, 4)


def test_mapped_weights_are_not_copied_when_they_are_written(tmp_path: Path) -> None:
    graph = load_netplist(save_netplist(network(), tmp_path))
    written = netplist(graph)
    (kernel,) = graph.constants.values()
    (chunk,) = written.payload.chunks
    assert np.shares_memory(np.frombuffer(chunk, np.uint8), kernel.dense())


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_netplist(af.input((1, 2)).relu(), tmp_path)
    before = (tmp_path / "net.plist").read_bytes()

    def refuse(_: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="the disk is full"):
        save_netplist(network(), tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["net.plist", "weights.0"]
    assert (tmp_path / "net.plist").read_bytes() == before


def test_the_description_appears_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appeared: list[str] = []
    original = Path.replace

    def watched(path: Path, target: Path) -> Path:
        appeared.append(target.name)
        return original(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    save_netplist(network(), tmp_path)
    assert appeared == ["weights.0", "weights.1", "net.plist"]


def test_a_new_folder_goes_again_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was left behind with an empty file of weights."""
    monkeypatch.setattr("aneforge.formats.netplist.writing.write_chunks", refuse_all)
    with pytest.raises(OSError, match="the disk is full"):
        save_netplist(network(), tmp_path / "made" / "net")
    assert not list(tmp_path.iterdir())


def refuse_all(*_: object) -> None:
    raise OSError("the disk is full")


def test_what_cannot_be_written_touches_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError):
        save_netplist(af.input((1, 2)).apply("erf"), tmp_path / "model")
    with pytest.raises(GraphError, match="XML does not have"):
        save_netplist(af.input((1, 2), name="\0").relu(), tmp_path / "model")
    assert not (tmp_path / "model").exists()
