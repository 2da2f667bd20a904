"""The page about MIL lists every rule as the rule itself says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from aneforge.formats.mil.diagnostics import mil_rules

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MARK = "Every rule about programs:\n\n"


def rules_table() -> str:
    """Return the rules as a Markdown table."""
    rows = [(f"`{rule.id}`", rule.severity, rule.statement(), rule.advice()) for rule in mil_rules().values()]
    cells = [[str(cell).replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in rows]
    return tabulate(cells, ("rule", "severity", "statement", "remedy"), tablefmt="github", disable_numparse=True) + "\n"


def test_the_page_lists_every_rule(repository: Path, pytestconfig: pytest.Config) -> None:
    page = repository / "docs" / "mil.md"
    before, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    assert mark
    expected = f"{before}{MARK}{rules_table()}"
    if pytestconfig.getoption("--update-golden"):
        page.write_text(expected, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == expected
