"""`aneforge hwx`: what is printed of a container made here, what rules find in damaged ones, and what differs."""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from aneforge import hwx
from aneforge.cli import main
from aneforge.commands.hwx_files import diff, lint
from aneforge.compiler.validators import matrices_of, validate_container
from aneforge.compiler.validators.containers import target_of
from aneforge.errors import NoDataError
from aneforge.formats.hwx.assembly import STYLES, assemble
from aneforge.formats.hwx.container import Header
from aneforge.formats.hwx.write_hwx import write_bytes
from hwx_tools import EACH_FIXTURE, fixture_path, hand_made, parts_of

if TYPE_CHECKING:
    from pathlib import Path

    from golden_text import Golden


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give every command 80 columns, no colours and a folder with one container."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    hwx.write(hand_made("v4", scratch=0x5000), tmp_path / "made.hwx")


def printed(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main.whole_app(), ["hwx", *arguments])
    return result.exit_code, "\n".join(line.rstrip() for line in result.output.splitlines()) + "\n"


def test_show(golden: Golden) -> None:
    code, text = printed("show", "made.hwx")
    assert code == 0
    golden(text)


def test_show_of_what_is_not_understood(tmp_path: Path) -> None:
    whole = bytearray((tmp_path / "made.hwx").read_bytes())
    whole[-1] = 1
    whole[whole.index(b"made by hand")] = 0x1B
    (tmp_path / "odd.hwx").write_bytes(whole)
    _, text = printed("show", "odd.hwx")
    assert "not understood: 0 words of commands, 1 ranges of bytes" in text
    assert "compiler: \\x1bade by hand" in text


def test_lint_names_every_rule_that_is_broken(tmp_path: Path, golden: Golden) -> None:
    whole = bytearray((tmp_path / "made.hwx").read_bytes())
    made = hwx.read(tmp_path / "made.hwx")
    whole[-1] = 1
    text = made.text.file_offset
    struct.pack_into("<I", whole, text + 0x74, 0x4000)  # a relocated word
    state = whole.index(struct.pack("<4I", 4, 0x868, 1, 0x214))
    struct.pack_into("<Q", whole, state + 0x810, 0x1000)
    struct.pack_into("<Q", whole, state + 0x858, 1)
    (tmp_path / "damaged.hwx").write_bytes(whole)
    code, shown = printed("lint", "damaged.hwx")
    assert code == 1
    assert {one.rule for one in lint(tmp_path / "damaged.hwx")} >= {
        f"ANE-LOAD-{number:03}" for number in (5, 7, 10, 12)
    }
    golden(shown)


def test_lint_of_tasks_that_cannot_be_listed(tmp_path: Path) -> None:
    made = hwx.read(tmp_path / "made.hwx")
    whole = bytearray(write_bytes(made))
    struct.pack_into("<I", whole, made.text.file_offset + 0x300 + 28, 0x300)  # the second task is its own successor
    (tmp_path / "cyclic.hwx").write_bytes(whole)
    (found,) = lint(tmp_path / "cyclic.hwx")
    assert found.rule == "ANE-LOAD-011"
    assert "cyclic" in found.message


@EACH_FIXTURE
def test_nothing_is_found_in_real_files(name: str) -> None:
    assert lint(fixture_path(name)) == ()


@EACH_FIXTURE
def test_real_files_give_load_time_validation_its_matrices(name: str) -> None:
    container = hwx.read(fixture_path(name))
    matrices = matrices_of(container)
    assert [matrix.name for matrix in matrices] == [port.name for port in container.ports]
    assert {str(matrix.form) for matrix in matrices} == {"single-plane, uncompressed"}
    assert target_of(container).name == "h13"


def test_a_row_that_is_too_short_is_rejected_at_load(tmp_path: Path) -> None:
    whole = bytearray((tmp_path / "made.hwx").read_bytes())
    state = whole.index(struct.pack("<2I", 3, 0x1E))
    struct.pack_into("<Q", whole, state - 8 + 0x60, 64)  # rows of 80 bytes in 64
    (tmp_path / "short.hwx").write_bytes(whole)
    container = hwx.read(tmp_path / "short.hwx")
    rejected = {one.name: one.findings[0].finding.rule for one in validate_container(container) if one.findings}
    assert rejected == {"left": "ANE-LOAD-002"}
    assert [one.verdict.value for one in validate_container(container, "m1")].count("reject") == 1


def test_a_container_of_an_engine_without_a_target() -> None:
    with pytest.raises(NoDataError, match="no target has containers of subtype 99"):
        validate_container(dataclasses.replace(hand_made(), header=Header(99)))


def test_diff_of_one_file(tmp_path: Path) -> None:
    assert diff(tmp_path / "made.hwx", tmp_path / "made.hwx") == ()
    assert printed("diff", "made.hwx", "made.hwx") == (0, "nothing differs\n")


def test_diff(tmp_path: Path, golden: Golden) -> None:
    parts = parts_of(hwx.read(tmp_path / "made.hwx"))
    words = bytearray(parts.text)
    struct.pack_into("<I", words, 0x128, 0x00020028)  # width and height of the first task's source
    other = dataclasses.replace(
        parts,
        text=memoryview(bytes(words)),
        constants=memoryview(bytes(range(1, 129))),
        identification="made\nby another hand",
        log_events=6,
        scratch=0x5000,
    )
    hwx.write(assemble(other, STYLES["v4"]), tmp_path / "other.hwx")
    code, text = printed("diff", "made.hwx", "other.hwx")
    assert code == 1
    golden(text)
    _, short = printed("diff", "made.hwx", "other.hwx", "--most", "1")
    assert short.splitlines()[-1].startswith("and ")


def test_diff_of_programs_of_different_length(tmp_path: Path) -> None:
    parts = parts_of(hwx.read(tmp_path / "made.hwx"))
    words = bytearray(parts.text[:0x274])
    struct.pack_into("<I", words, 28, 0)
    one = dataclasses.replace(parts, text=memoryview(bytes(words)), task_count=1, relocations=(), scratch=0x5000)
    hwx.write(assemble(one, STYLES["v9"]), tmp_path / "one.hwx")
    found = {each.place: (each.first, each.second) for each in diff(tmp_path / "made.hwx", tmp_path / "one.hwx")}
    assert found["task 1"] == ("157 words", None)
    assert found["program item 9"] == (None, "0")


def test_a_mistake_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["hwx", "show", "none.hwx"]) == 2
    assert capsys.readouterr().err == "error: at none.hwx: it cannot be opened: No such file or directory\n"
