"""`aneforge hwx dis`: the tasks of a file as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from aneforge import hwx
from aneforge.cli import main
from aneforge.formats.hwx.descriptors.disassembly import disassemble
from hwx_tools import hand_made

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a container made here, of two tasks."""
    path = tmp_path / "own.hwx"
    hwx.write(hand_made(), path)
    return path


def test_all_tasks(file: Path) -> None:
    done = CliRunner().invoke(main.whole_app(), ["hwx", "dis", str(file)])
    assert done.exit_code == 0
    assert done.stdout == disassemble(hwx.tasks_of(hand_made())) + "\n"


def test_one_task_with_all_fields(file: Path) -> None:
    done = CliRunner().invoke(main.whole_app(), ["hwx", "dis", str(file), "--td", "1", "--raw"])
    first, _, identity, *_ = done.stdout.splitlines()
    assert first == "task 1 at 0x300: 157 words, generation 7"
    assert identity == (
        "  0x0300  header.identity                        02000001  task_id=1, network_id=0, later=0, last=1"
    )


@pytest.mark.parametrize("command", ["dis", "show", "diff"])
def test_a_damaged_list_of_tasks_is_an_error_that_names_the_file(command: str, file: Path, tmp_path: Path) -> None:
    content = bytearray(file.read_bytes())
    content[hand_made().text.file_offset + 0x300 + 4 * 7 + 2] = 0x77
    broken = tmp_path / "broken.hwx"
    broken.write_bytes(content)
    files = [str(file)] * (command == "diff") + [str(broken)]
    done = CliRunner().invoke(main.whole_app(), ["hwx", command, *files])
    assert str(done.exception) == (
        f"at {broken}: the task at 0x770000 leaves the section (got 0x770004, limit {hand_made().text.size:#x})"
    )
    counted = CliRunner().invoke(main.whole_app(), ["hwx", "lint", str(broken)]).stdout.splitlines()[-1]
    assert counted.startswith("1 finding, ")


def test_a_task_that_is_not_there(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["aneforge", "hwx", "dis", str(file), "--td", "2"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    assert "there is no such task (got 2, limit 1)" in " ".join(capsys.readouterr().err.split())
