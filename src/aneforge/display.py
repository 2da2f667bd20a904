"""How objects show themselves to people: at most a screen of text, and the same in a notebook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MOST_LINES", "as_html", "clauses_once", "cut_lines", "number_of"]

CLAUSES = re.compile(r"; (?![^()]*\))")
"""What is between two clauses that are not in parentheses."""
MOST_LINES = 40
"""Lines of a text that are shown."""


def cut_lines(lines: Iterable[str], most: int = MOST_LINES) -> str:
    r"""Return lines as one text, the first of many and how many are left out.

    >>> cut_lines(["a", "b", "c"], most=2)
    'a\n… and 2 more lines'
    """
    whole = [part for line in lines for part in line.splitlines() or [""]]
    if len(whole) <= most:
        return "\n".join(whole)
    return "\n".join((*whole[: most - 1], f"… and {len(whole) - most + 1} more lines"))


def clauses_once(text: str) -> str:
    """Return a text whose clauses, separated by semicolons, are each there once; what is in parentheses stays whole.

    >>> clauses_once("a (b; c); d; a (b; c)")
    'a (b; c); d'
    """
    return "; ".join(dict.fromkeys(CLAUSES.split(text)))


def number_of(count: int, noun: str) -> str:
    """Return how many there are of something.

    >>> number_of(1, "layer"), number_of(0, "layer")
    ('1 layer', '0 layers')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def as_html(shown: object) -> str:
    r"""Return the text of an object as a notebook shows it: its first line stands out.

    >>> as_html("ok\n  a < b")
    '<div><strong>ok</strong><pre>  a &lt; b</pre></div>'
    """
    import html  # noqa: PLC0415 - loaded in notebooks alone

    first, _, rest = cut_lines(str(shown).splitlines()).partition("\n")
    body = f"<pre>{html.escape(rest)}</pre>" if rest else ""
    return f"<div><strong>{html.escape(first)}</strong>{body}</div>"
