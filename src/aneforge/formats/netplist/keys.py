"""A dictionary of a description, asked key by key: one that is missing, unknown or wrong is a clear error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, Location, UnknownNameError, nearest_names
from aneforge.formats.netplist.plist import PlistDict, PlistValue, quote_value

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LARGEST_INTEGER", "Keys", "unknown_name"]

LARGEST_INTEGER = 2**63 - 1
"""Integers of a property list have 64 bits."""
MOST_COMPARED = 1000
"""Names among which the nearest to a wrong one are looked for."""
MOST_SHOWN = 120
"""Characters of a name that an error shows."""


def unknown_name(what: str, name: str, known: Iterable[str], location: Location | None) -> UnknownNameError:
    """Return the error for a name that is in no table; the nearest are looked for only among few and short ones.

    >>> print(unknown_name("symbol", "cov", ["conv", "relu"], Location("net.plist")))
    at net.plist: unknown symbol 'cov'; nearest: conv
    """
    names = list(known)
    if len(names) <= MOST_COMPARED and all(len(one) <= MOST_SHOWN for one in names):
        error = UnknownNameError.of(what, name[:MOST_SHOWN], names)
    else:
        error = UnknownNameError(f"unknown {what} {name[:MOST_SHOWN]!r}; {len(names)} are known")
    error.location = location
    return error


class Keys:
    """The keys of one dictionary, and where it is."""

    def __init__(self, values: PlistDict, what: str, file: str | None = None, node: str | None = None) -> None:
        self.values = values
        self.what = what
        self.file = file
        self.node = node if node is None or len(node) <= MOST_SHOWN else f"{node[:MOST_SHOWN]}..."
        self.asked: dict[str, None] = {}

    @property
    def location(self) -> Location:
        """Where the dictionary is: its line in an XML file, and the unit that it belongs to."""
        if self.values.line is not None:
            return Location(self.file or "the description", self.values.line, self.node)
        return Location(self.file, node=self.node)

    def error(
        self, message: str, *, seen: object = None, limit: object = None, remedy: str | None = None
    ) -> GraphError:
        """Return an error about this dictionary."""
        return GraphError(f"{self.what}: {message}", location=self.location, seen=seen, limit=limit, remedy=remedy)

    def unknown(self, what: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Return the error for a name that is in no table."""
        error = unknown_name(what, name, known, self.location)
        error.message = f"{self.what}: {error.message}"
        return error

    def get(self, key: str) -> PlistValue | None:
        """Return the value of a key, or None; the key counts as known from now on."""
        self.asked[key] = None
        return self.values.get(key)

    def need(self, key: str) -> PlistValue:
        """Return the value of a key that must be there.

        Raises:
            GraphError: It is not.
        """
        found = self.get(key)
        if found is None:
            others = [name for name in self.values if name not in self.asked and len(name) <= MOST_SHOWN]
            close = nearest_names(key, others) if len(others) <= MOST_COMPARED else []
            raise self.error(f"key {key!r} is missing", remedy=f"did you mean {close[0]!r}?" if close else None)
        return found

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text.

        Raises:
            GraphError: It is missing and has no default, or is none.
        """
        found = self.get(key) if default is not None else self.need(key)
        if found is None and default is not None:
            return default
        if not isinstance(found, str):
            raise self.wrong(key, found, "text")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts.

        Raises:
            GraphError: It is missing or is none.
        """
        return self.text_list(key, self.need(key))

    def optional_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, or nothing where the key is missing.

        Raises:
            GraphError: It is not a list of strings.
        """
        found = self.get(key)
        return () if found is None else self.text_list(key, found)

    def text_list(self, key: str, found: PlistValue) -> tuple[str, ...]:
        """Return a value as a list of texts; one text stands for a list of one.

        Raises:
            GraphError: It is neither.
        """
        items = [found] if isinstance(found, str) else found
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self.wrong(key, found, "list of texts")
        return tuple(item for item in items if isinstance(item, str))

    def integer(self, key: str, *, least: int = 0, default: int | None = None) -> int:
        """Return an integer.

        Raises:
            GraphError: It is missing and has no default, is none, or is too small or too large.
        """
        found = self.get(key) if default is not None else self.need(key)
        if found is None and default is not None:
            return default
        return self.as_integer(key, found, least=least)

    def as_integer(self, key: str, found: object, *, least: int | None = 0) -> int:
        """Return a value that must be an integer.

        Raises:
            GraphError: It is none, or is too small or too large.
        """
        if isinstance(found, bool) or not isinstance(found, int):
            raise self.wrong(key, found, "integer")
        lowest = -LARGEST_INTEGER - 1 if least is None else least
        if not lowest <= found <= LARGEST_INTEGER:
            raise self.error(f"{key} is out of range", seen=quote_value(found), limit=f"{lowest} to {LARGEST_INTEGER}")
        return found

    def as_number(self, key: str, found: object) -> float:
        """Return a value that must be a finite number.

        Raises:
            GraphError: It is none.
        """
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.wrong(key, found, "number")
        if isinstance(found, int) and abs(found) > LARGEST_INTEGER:
            raise self.error(
                f"{key} is out of range", seen=quote_value(found), limit=f"{-LARGEST_INTEGER} to {LARGEST_INTEGER}"
            )
        if not math.isfinite(found):
            raise self.error(f"{key} is not a finite number", seen=found)
        return float(found)

    def child(self, key: str, what: str, node: str | None = None) -> Keys:
        """Return the keys of a dictionary within this one.

        Raises:
            GraphError: It is missing or is none.
        """
        return self.as_child(key, self.need(key), what, node)

    def as_child(self, key: str, found: object, what: str, node: str | None = None) -> Keys:
        """Return the keys of a value that must be a dictionary.

        Raises:
            GraphError: It is none.
        """
        if not isinstance(found, PlistDict):
            raise self.wrong(key, found, "dictionary")
        return Keys(found, what, self.file, node or self.node)

    def children(self, key: str, what: str) -> list[Keys]:
        """Return the keys of every dictionary of a list.

        Raises:
            GraphError: It is missing or is not a list of dictionaries.
        """
        found = self.need(key)
        if not isinstance(found, list):
            raise self.wrong(key, found, "list of dictionaries")
        return [self.as_child(key, item, f"{what} {place}") for place, item in enumerate(found)]

    def wrong(self, key: str, found: object, wanted: str) -> GraphError:
        """Return the error for a value of the wrong type."""
        article = "an" if wanted[0] in "aeiou" else "a"
        return self.error(f"{key} is not {article} {wanted}", seen=quote_value(found))

    def finish(self) -> None:
        """Check that every key was asked for.

        Raises:
            UnknownNameError: One was not: it means nothing here.
        """
        for key in self.values:
            if key not in self.asked:
                raise self.unknown("key", key, self.asked)
