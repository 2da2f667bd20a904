"""Names of the hub: refused with a remedy where the package that fetches is missing, and never taken for paths."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import aneforge as af
from aneforge import packages
from aneforge.errors import CheckpointError, MissingPackageError
from aneforge.llm.hub import is_hub_id, local_folder
from aneforge.llm.planning import read_decoder
from llm_folders import build_reference

if TYPE_CHECKING:
    from pathlib import Path

NAME = "some-owner/some-model"


def test_a_name_needs_the_package_that_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_installed(package: str) -> bool:
        return package != "huggingface_hub"

    monkeypatch.setattr(packages, "is_installed", is_installed)
    with pytest.raises(MissingPackageError) as caught:
        af.llm.load(NAME, target="m1")
    assert str(caught.value) == (
        "fetching a model by its name (a folder needs nothing) needs the package huggingface_hub. "
        "Remedy: pip install huggingface_hub"
    )


def test_a_name_is_fetched_by_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_reference("llama", tmp_path)
    asked: list[tuple[str, list[str]]] = []

    def fetch(name: str, *, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=fetch, __spec__=object()))
    with af.llm.load(NAME, target="m1", context=16) as lm:
        assert lm.config == read_decoder(NAME)[0] == read_decoder(tmp_path)[0]
    assert [name for name, _ in asked] == [NAME, NAME]
    assert asked[1][1] == ["config.json"]
    assert not any(".bin" in one for _, patterns in asked for one in patterns)


def test_what_cannot_be_fetched_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(name: str, *, allow_patterns: list[str]) -> str:
        raise OSError(f"no connection for {name}\nand {len(allow_patterns)} more lines")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=fetch, __spec__=object()))
    with pytest.raises(CheckpointError, match=f"at {NAME}: the model cannot be fetched: no connection for {NAME}. Rem"):
        local_folder(NAME)


def test_places_here_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for path in ("models/nothing-there", "one", "a/b/c", "./a", "../a/b", "/a/b", str(tmp_path)):
        assert not is_hub_id(path)
    assert is_hub_id(NAME)
    assert local_folder("models/nothing-there").name == "nothing-there"
