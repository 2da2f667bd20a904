"""Tables of TOML files that are kept beside bytecode."""

from __future__ import annotations

import marshal
import sys
from typing import TYPE_CHECKING

import pytest

from aneforge.errors import DataFileError
from aneforge.targets.parsed_toml import keep_at, parse_toml

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def bytecode_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.toml"
    path.write_text("one = 1\n", encoding="utf-8")
    return path


def kept(path: Path) -> Path:
    found = keep_at(path)
    assert found is not None
    return found


def test_a_table_is_kept_and_used(file: Path) -> None:
    assert parse_toml(file) == {"one": 1}
    key, table = marshal.loads(kept(file).read_bytes())  # noqa: S302 - written by the line above
    assert table == {"one": 1}
    kept(file).write_bytes(marshal.dumps((key, {"one": 2})))
    assert parse_toml(file) == {"one": 2}


def test_another_text_of_the_same_length_is_parsed_again(file: Path) -> None:
    parse_toml(file)
    file.write_text("one = 3\n", encoding="utf-8")
    assert parse_toml(file) == {"one": 3}


@pytest.mark.parametrize("content", [b"", b"nonsense", marshal.dumps(1), marshal.dumps((1, 2, 3)), marshal.dumps(())])
def test_a_damaged_table_is_parsed_again(file: Path, content: bytes) -> None:
    parse_toml(file)
    kept(file).write_bytes(content)
    assert parse_toml(file) == {"one": 1}


def test_nothing_is_kept_where_python_keeps_no_bytecode(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert parse_toml(file) == {"one": 1}
    assert not kept(file).exists()


def test_a_folder_that_cannot_be_made_is_no_error(file: Path, tmp_path: Path) -> None:
    (tmp_path / "bytecode").write_text("a file", encoding="utf-8")
    assert parse_toml(file) == {"one": 1}


def test_dates_are_parsed_and_not_kept(file: Path) -> None:
    file.write_text("day = 2026-01-02\n", encoding="utf-8")
    assert str(parse_toml(file)["day"]) == "2026-01-02"
    assert not kept(file).exists()


def test_what_is_not_toml_names_the_file(file: Path) -> None:
    file.write_text("one = \n", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"numbers\.toml"):
        parse_toml(file)
