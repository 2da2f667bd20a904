"""How objects show themselves to people: at most a screen of text, and the same in a notebook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MOST_LINES", "as_html", "clauses_once", "cut_lines", "number_of"]

PUNCTUATION = re.compile(r"; |[()]")
"""What separates clauses, and the parentheses in which it does not."""
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

    >>> clauses_once("a (b; c); d; a (b; c)"), clauses_once("a (b (c): d; e (f)); d; e")
    ('a (b; c); d', 'a (b (c): d; e (f)); d; e')
    """
    clauses: list[str] = []
    depth = begin = 0
    for found in PUNCTUATION.finditer(text):
        depth = max(0, depth + {"(": 1, ")": -1}.get(found[0], 0))
        if found[0] == "; " and depth == 0:
            clauses.append(text[begin : found.start()])
            begin = found.end()
    return "; ".join(dict.fromkeys([*clauses, text[begin:]]))


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
    import html  # noqa: PLC0415 - loaded only in notebooks

    first, _, rest = cut_lines(str(shown).splitlines()).partition("\n")
    body = f"<pre>{html.escape(rest)}</pre>" if rest else ""
    return f"<div><strong>{html.escape(first)}</strong>{body}</div>"
