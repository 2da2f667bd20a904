"""Pages of the documentation show what the commands print now; the files for CI are what a CI can read."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aneforge.report.written import load_report
from report_models import saved
from shell_tools import with_command

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT = re.compile(r"<!-- output of: python (?P<command>[^>]+) -->\n```text\n(?P<text>.*?)```", re.DOTALL)
PAGES = ("docs/tour.md",)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
CONSOLE_PAGES = (
    "docs/chaining.md",
    "docs/dispatch.md",
    "docs/how-to/collect.md",
    "docs/how-to/fix-one-model.md",
    "docs/training.md",
)


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_shown_output_is_real(page: str, repository: Path, clean_environment: dict[str, str]) -> None:
    shown = list(OUTPUT.finditer((repository / page).read_text(encoding="utf-8")))
    assert shown
    printed: dict[str, str] = {}
    for match in shown:
        command = match["command"]
        if command not in printed:
            printed[command] = subprocess.run(
                [sys.executable, *command.split()],
                capture_output=True,
                text=True,
                check=False,
                cwd=repository,
                env={**clean_environment, "COLUMNS": "80"},
            ).stdout
        assert trimmed(match["text"]) in trimmed(printed[command]), f"{page} shows what {command} no longer prints"


def console_commands(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page, in order, each with the output that is shown."""
    blocks = "".join(CONSOLE.findall(page))
    shown = [part.partition("\n") for part in re.split(r"^\$ ", blocks, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, _, output in shown]


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell here")
@pytest.mark.parametrize("page", CONSOLE_PAGES)
def test_console_blocks_print_what_is_shown(
    page: str, tmp_path: Path, repository: Path, clean_environment: dict[str, str]
) -> None:
    commands = console_commands((repository / page).read_text(encoding="utf-8"))
    assert commands
    environment = with_command(tmp_path, clean_environment)
    folder = tmp_path / "reader"
    folder.mkdir()
    (folder / "examples").symlink_to(repository / "examples")
    for command, output in commands:
        shell = [shutil.which("sh") or "sh", "-c", command]
        done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        same = doctest.OutputChecker().check_output(output, done.stdout, doctest.ELLIPSIS)
        assert same, f"{page}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell here")
def test_the_script_for_a_ci_works(tmp_path: Path, repository: Path, clean_environment: dict[str, str]) -> None:
    saved(tmp_path / "model.onnx", 20_000)
    environment = with_command(tmp_path, clean_environment)
    script = [shutil.which("sh") or "sh", str(repository / "examples" / "ci" / "check.sh"), "model.onnx", "known.json"]
    first = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert first.returncode == 0, first.stderr
    assert "commit it" in first.stdout
    assert [one.target for one in load_report(tmp_path / "known.json").targets] == ["h13", "h16g", "h17"]
    assert (tmp_path / "findings.xml").exists()
    saved(tmp_path / "model.onnx", 30_000)
    assert subprocess.run(script, cwd=tmp_path, capture_output=True, check=False, env=environment).returncode == 1
