"""Pages of the documentation show what the commands print now; the files for CI are what a CI can read."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image

from aneforge.cli import main
from aneforge.report.written import load_report
from report_models import saved
from shell_tools import with_command

CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```(?:sh|bash|shell)\n(.*?)```", re.DOTALL)
REPOSITORY = Path(__file__).parents[3]
WRITTEN = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md"))]
EXAMPLES = "docs/reference/cli.md"
"""The examples of --help, which name files of the user's: they are read as the command line reads them, and not run."""
CONSOLE_PAGES = [
    name for page in WRITTEN
    if CONSOLE.search(page.read_text("utf-8")) and (name := str(page.relative_to(REPOSITORY))) != EXAMPLES
]  # fmt: skip
"""Pages with commands."""
NOT_HERE = ("pip install", "make ", "pipx ")
"""Commands that would change this environment; the tests of releases and of the files for CI run them."""
MAY_FAIL = ("aneforge check", "aneforge compare", "aneforge diff", "aneforge hwx diff", "aneforge llm plan")
"""Commands whose exit code is an answer."""
ROOMS = [one.name for one in (REPOSITORY / "src" / "aneforge").iterdir() if one.is_dir() and one.name.isidentifier()]
NAMED_FILE = re.compile(
    rf"(?<![\w/.-])(?:src|tests|tools|benchmarks|examples|aneforge|{'|'.join(ROOMS)})/[\w/.-]*\w\.(?:py|toml|tsv|md|json|c|mil|sh)\b"
)
"""A file of this repository, named from its root, from src or from the package."""
IN_A_SHELL = re.compile(r"[|;&<>$*?`]")


def console_commands(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page, in order, each with the output that is shown."""
    blocks = "".join(CONSOLE.findall(page))
    shown = [part.partition("\n") for part in re.split(r"^\$ ", blocks, flags=re.MULTILINE)[1:]]
    return [(command.partition("  #")[0].rstrip(), output) for command, _, output in shown]


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who types what a page shows, in a folder with the examples and a model of their own."""

    folder: Path
    environment: dict[str, str]
    captured: pytest.CaptureFixture[str]

    def types(self, command: str) -> tuple[int, str, str]:
        """Return the exit code of a command, and what it prints and complains about.

        A plain call of ours needs no process of its own, which would load everything anew.
        """
        words = shlex.split(command)
        if words[0] == "python" and words[1].startswith("examples/fixing/"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", words[1:])
                runpy.run_path(words[1], run_name="__main__")
            printed, complaints = self.captured.readouterr()
            return 0, printed, complaints
        if words[0] == "aneforge" and not IN_A_SHELL.search(command) and words[1] != "dispatch-library":
            code = main.run(words[1:])
            printed, complaints = self.captured.readouterr()
            return code, printed, complaints
        done = subprocess.run(
            [shutil.which("sh") or "sh", "-c", command],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def reader(
    tmp_path: Path,
    clean_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Reader:
    """Return a reader in a folder of their own."""
    folder = tmp_path / "reader"
    folder.mkdir()
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    saved(folder / "model.onnx", 64)
    (folder / "images").mkdir()
    for name in ("cat.png", "dog.png"):
        Image.new("RGB", (200, 160)).save(folder / "images" / name)
    (folder / "labels.csv").write_text("cat.png,3\ndog.png,5\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("ANEFORGE_TARGET", raising=False)
    return Reader(folder, with_command(tmp_path, clean_environment), capsys)


def test_every_page_with_commands_is_found() -> None:
    assert {"README.md", "docs/tour.md", "docs/guides/ci.md", "docs/how-to/dead-ends.md"} <= set(CONSOLE_PAGES)
    unread = [str(page) for page in WRITTEN if SHELL.search(page.read_text("utf-8"))]
    assert unread == [], "commands are written as console blocks, which are run"


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell here")
@pytest.mark.parametrize("page", CONSOLE_PAGES)
def test_console_blocks_print_what_is_shown(page: str, reader: Reader) -> None:
    commands = console_commands((REPOSITORY / page).read_text(encoding="utf-8"))
    assert commands
    for command, output in commands:
        if command.startswith(NOT_HERE):
            assert not output
            continue
        code, printed, complaints = reader.types(command)
        said = f"{page}: {command}\n{printed}{complaints}"
        if output:
            assert doctest.OutputChecker().check_output(output, printed, doctest.ELLIPSIS), said
        # A check that fails is what some pages show; anything else is a command that does not work.
        assert code == 0 or (code == 1 and command.startswith(MAY_FAIL) and output), said


def example_calls() -> list[str]:
    """Return the calls of ours in the examples of --help."""
    commands = [command for command, _ in console_commands((REPOSITORY / EXAMPLES).read_text(encoding="utf-8"))]
    return [call.strip() for command in commands for call in command.split("; ") if call.startswith("aneforge ")]


@pytest.mark.parametrize("call", example_calls())
def test_examples_of_the_help_are_understood(call: str) -> None:
    command: Any = typer.main.get_command(main.whole_app())
    name, context, rest = "aneforge", None, shlex.split(call)[1:]
    while hasattr(command, "resolve_command"):
        context = command.make_context(name, rest, parent=context)
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])  # noqa: SLF001 - where click keeps what it has not read
    read = command.make_context(name, rest, parent=context)
    assert read.command is command
    assert not read.args


def test_an_example_with_an_unknown_option_would_be_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        test_examples_of_the_help_are_understood("aneforge check model.onnx --no-such-option")


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


def test_files_that_pages_name_exist() -> None:
    roots = (REPOSITORY, REPOSITORY / "src", REPOSITORY / "src" / "aneforge")
    named = {(page.name, one) for page in WRITTEN for one in NAMED_FILE.findall(page.read_text("utf-8"))}
    assert len(named) > 20
    assert [(page, one) for page, one in sorted(named) if not any((root / one).exists() for root in roots)] == []
