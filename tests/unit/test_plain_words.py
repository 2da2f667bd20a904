"""What users read is plain technical English: messages do not use words that readers must translate."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

UNWANTED = re.compile(
    r"\b(told|parted|begun|beside|behind|mend(?:s|ed)?|whole[\s-]+numbers?|truth\s+values?)\b"
    r"|\b(no figure|no source tells|stands? against|none is)\b"
    r"|\b(?<!there )(is|are|was|were) no (?!longer|more|such|larger|smaller)"
    r"|\b(has|have) not (a|an|one|the|so|their|its)\b",
    re.IGNORECASE,
)
"""Instead: given, separated, started, next to, after, fixed, integer, boolean, "not measured", "must be"."""


UNUSUAL = re.compile(
    r"\b(told|parted|begun|beside|behind|mend(?:s|ed)?|whole[\s-]+numbers?|truth\s+values?)\b", re.IGNORECASE
)
"""Of these, what is unusual in any text; a page or a docstring may say that something is no longer there."""


def messages_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that are sentences, those of rules (their docstrings) among them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    comments = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and "checks" not in path.parts
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in comments:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def test_messages_are_plain(repository: Path) -> None:
    package = repository / "src" / "aneforge"
    found = [
        f"{path.relative_to(package)}:{line}: {match[0]!r} in {text.strip()!r}"
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] != "testing"
        for line, text in messages_of(path)
        for match in UNWANTED.finditer(text)
    ]
    assert found == []


def pages_and_data(repository: Path) -> Iterator[Path]:
    """Yield the files that users read in addition to messages: pages, templates, and the data that both quote."""
    yield from repository.glob("*.md")
    yield from (repository / "docs").rglob("*.md")
    yield from (repository / "src" / "aneforge").rglob("*.toml")
    yield from (repository / "src" / "aneforge").rglob("*.jinja")


def test_pages_and_data_are_plain(repository: Path) -> None:
    found = [
        f"{path.relative_to(repository)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"
        for path in pages_and_data(repository)
        for text in (path.read_text(encoding="utf-8"),)
        for match in UNUSUAL.finditer(text)
    ]
    assert found == []


def test_docstrings_are_plain(repository: Path) -> None:
    package = repository / "src" / "aneforge"
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {match[0]!r}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for match in UNUSUAL.finditer(node.value.value)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "max_abs is no magnitude",
        "the inputs have not one batch",
        "a gain behind it",
        "its weights beside it",
        "a whole number",
        "none is needed",
    ],
)
def test_other_words_are_found(text: str) -> None:
    assert UNWANTED.search(text)


@pytest.mark.parametrize(
    "text", ["there is no such file", "it has not been measured", "at most 4, and is no longer used"]
)
def test_plain_words_are_not(text: str) -> None:
    assert not UNWANTED.search(text)
