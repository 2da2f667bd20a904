"""The glossary: every term that we print, defined once, in `data/glossary.toml`.

`aneforge explain WORD` prints an entry, and the page of the reference is generated from the same file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aneforge.targets.schema import read

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Group", "Term", "find_term", "glossary", "spellings"]


class Term(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a term means."""

    text: str
    also: tuple[str, ...] = ()
    """Other forms of the term, such as its plural or a column's short name."""
    see: str = ""
    """The page that says more, seen from the folder of the reference."""


class Group(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Terms that belong together, in the order of the page."""

    title: str
    terms: dict[str, Term]


class Glossary(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The data file."""

    groups: tuple[Group, ...]


@cache
def glossary() -> tuple[Group, ...]:
    """Return all terms, by group."""
    return read(Path(__file__).with_name("data") / "glossary.toml", Glossary).groups


@cache
def spellings() -> Mapping[str, str]:
    """Return the term for every form in which it is written, in small letters."""
    return {
        form.casefold(): name
        for group in glossary()
        for name, term in group.terms.items()
        for form in (name, *term.also)
    }


def find_term(word: str) -> tuple[str, Term] | None:
    """Return a term and what it means, whatever its case; None if the glossary does not have it.

    >>> found = find_term("Segments")
    >>> found is not None and found[0]
    'program'
    """
    name = spellings().get(word.casefold())
    return next(((name, group.terms[name]) for group in glossary() if name in group.terms), None) if name else None
