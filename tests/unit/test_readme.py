"""The README shows real output, and no printed line installs another project's distribution."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

OUTPUT = re.compile(r"<!-- output of: (?P<command>[^>]+) -->\n```text\n(?P<text>.*?)```", re.DOTALL)
FOREIGN_INSTALL = re.compile(r"pip install[^\n`]*\baneforge(?!-open)\b")


def trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_shown_output_is_real(repository: Path, clean_environment: dict[str, str]) -> None:
    page = (repository / "README.md").read_text(encoding="utf-8")
    shown = list(OUTPUT.finditer(page))
    assert shown
    for match in shown:
        _, *arguments = match["command"].split()
        environment = {**clean_environment, "COLUMNS": "80"}
        run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment)
        lines = "\n".join(trimmed(match["text"]))
        assert lines in "\n".join(trimmed(run.stdout)), "the page shows what the command no longer prints"


@pytest.mark.parametrize("line", ["pip install aneforge", "pip install --upgrade 'aneforge[onnx]'"])
def test_the_pattern_finds_a_foreign_install(line: str) -> None:
    assert FOREIGN_INSTALL.search(line)


def test_no_printed_line_installs_another_distribution(repository: Path) -> None:
    files = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True).stdout  # noqa: S607 - git is on the path of a checkout
    this = Path(__file__).resolve()
    for name in files.splitlines():
        path = repository / name
        if path.resolve() != this and path.is_file():
            assert not FOREIGN_INSTALL.search(path.read_text(encoding="utf-8", errors="replace")), name
