"""The terminal: consoles that respect width, pipes and NO_COLOR, tables without lines, and wrapped texts."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["STYLES", "console", "plain_table", "print_wrapped"]

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


def print_wrapped(
    out: Console, text: str, *, indent: int = 0, style: str = "", word: tuple[str, str] | None = None
) -> None:
    """Print a text within the width, every line indented and none with spaces at its end.

    A word can have a style of its own, where it comes first.
    """
    for line in text.splitlines() or [""]:
        space = " " * (indent + len(line) - len(line.lstrip()))
        made = textwrap.wrap(
            line.strip(), max(20, out.width), initial_indent=space, subsequent_indent=space, break_on_hyphens=False
        )
        for part in made:
            shown = Text(part, style)
            if word is not None and word[0] in part:
                at = part.index(word[0])
                shown.stylize(word[1], at, at + len(word[0]))
                word = None
            out.print(shown, soft_wrap=True)
