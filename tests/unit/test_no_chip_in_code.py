"""Code outside `targets/` knows no chip and no target: what differs between them is data."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from aneforge.targets import database

OTHER_MEANINGS = {"t0", "t1", "m9", "u1", "u2", "u3", "u4"}
"""Target names that are also short identifiers and element types elsewhere."""


def chip_words() -> re.Pattern[str]:
    targets = set(database().targets) - OTHER_MEANINGS
    chips = {chip.name.partition(" ")[0] for chip in database().chips.values()}
    return re.compile(rf"(?<![\w.-])({'|'.join(sorted(targets | chips))})(?!\w)", re.IGNORECASE)


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_string_outside_targets_names_a_chip(repository: Path) -> None:
    package = repository / "src" / "aneforge"
    words = chip_words()
    found = [
        f"{path.relative_to(package)}:{line}: {match[0]}"
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] != "targets"
        for line, text in strings_of(path)
        for match in words.finditer(text)
    ]
    assert found == []


def test_the_pattern_finds_names() -> None:
    text = "an H13 and an m4-pro, M1 Max; not h13x, fp16 or Family.A15"
    assert [match[0] for match in chip_words().finditer(text)] == ["H13", "m4", "M1"]
