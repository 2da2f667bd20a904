"""The terminal: consoles that respect width, pipes and NO_COLOR, and tables without lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["STYLES", "console", "plain_table"]

STYLES = {
    "native": "green", "decompose": "yellow", "oversize": "magenta", "reject": "red", "warn": "yellow", "info": "dim",
}  # fmt: skip


def console() -> Console:
    """Return the console of the answer; piped it has no colours and 80 columns, unless COLUMNS says otherwise."""
    return Console(highlight=False, emoji=False)


def plain_table(headings: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """Return a table without lines; the headings among `numbers` are those of right-aligned columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    return table
