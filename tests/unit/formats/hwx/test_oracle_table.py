"""The table of yardsticks, on a folder of our own programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

import hwx_oracles
from aneforge.formats.hwx.descriptors.codec import encode_task
from aneforge.formats.hwx.write_hwx import write_bytes
from hwx_tasks import convolution, framed_add
from hwx_tools import hand_made

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.formats.hwx.descriptors.task import Task


def write_oracle(path: Path, target: str, *tasks: Task) -> None:
    words = [[f"{word:08x}" for word in encode_task(task)] for task in tasks]
    path.write_text(json.dumps({"id": path.stem, "generation": target, "tds": words}), encoding="utf-8")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage files in few places."""
    monkeypatch.setattr(hwx_oracles, "CUT", 4096)
    monkeypatch.setattr(hwx_oracles, "FLIPS", 20)


@pytest.mark.usefixtures("few")
def test_programs_of_our_own(tmp_path: Path) -> None:
    for inner in ("fixtures", "oracles"):
        (tmp_path / inner).mkdir()
    (tmp_path / "fixtures" / "own.hwx").write_bytes(write_bytes(hand_made()))
    (tmp_path / "tables.json").write_text("{}", encoding="utf-8")
    write_oracle(tmp_path / "oracles" / "conv.json", "h13", convolution())
    write_oracle(tmp_path / "oracles" / "add.json", "h14", framed_add())
    rows = hwx_oracles.measure_folder(tmp_path)
    found = {row.measure: (row.result, row.reached) for row in rows}
    assert found["write(read(f)) == f"] == ("1 of 1", True)
    assert found["encode(decode(words)) == words"] == ("4 of 4", True)
    assert found["tasks whose operation is understood"] == ("2 of 4; first wrong: own", False)
    assert all(row.result != "not built yet" for row in rows)
    assert rows[-1].reached
    assert "| yes" in hwx_oracles.table_of(rows)


@pytest.mark.usefixtures("few")
def test_what_cannot_be_read_is_counted_and_the_exit_code_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_oracle(tmp_path / "broken.json", "h13", convolution().with_fields({"header.later": 1}))
    text = (tmp_path / "broken.json").read_text(encoding="utf-8")
    (tmp_path / "cut.json").write_text(text.replace(', "01002031"]', "]"), encoding="utf-8")
    (tmp_path / "bad.hwx").write_bytes(b"no container")
    monkeypatch.setattr(sys, "argv", ["hwx_oracles.py", str(tmp_path)])
    assert hwx_oracles.main() == 1
    out = capsys.readouterr().out
    assert "0 of 1; first wrong: bad" in out
    assert "1 of 3; first wrong: cut" in out
    assert "0 of 1; first wrong: broken: ANE-TASK-002" in out


def test_a_folder_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["hwx_oracles.py"])
    assert hwx_oracles.main() == 2
    assert "usage" in capsys.readouterr().err


def test_a_target_without_descriptors_is_an_error(tmp_path: Path) -> None:
    write_oracle(tmp_path / "odd.json", "h99", convolution())
    with pytest.raises(SystemExit, match="no generation of task descriptors is known for target 'h99'"):
        hwx_oracles.measure_folder(tmp_path)


def test_an_empty_folder_measures_nothing(tmp_path: Path) -> None:
    assert {row.reached for row in hwx_oracles.measure_folder(tmp_path)} == {None}
