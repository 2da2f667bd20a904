"""The README is one screen, and no printed line installs another project's distribution."""

import re
import subprocess
from pathlib import Path

import pytest

FOREIGN_INSTALL = re.compile(r"pip install[^\n`]*\baneforge(?!-open)\b")


SCREEN = 50
"""Lines of a page that are seen at once."""


def test_the_readme_is_one_screen(repository: Path) -> None:
    lines = (repository / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= 120


def test_links_of_the_readme_lead_somewhere(repository: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (repository / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 5
    assert [link for link in links if not (repository / link).exists()] == []


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
