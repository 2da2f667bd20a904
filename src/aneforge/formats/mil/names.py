"""Names of values in MIL text: identifiers, each given once."""

from __future__ import annotations

import itertools
import re

from aneforge.formats.mil.elements import ELEMENTS

__all__ = ["Namer"]

OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_]", re.ASCII)
RESERVED = {
    *ELEMENTS,
    "BLOBFILE",
    "const",
    "dict",
    "false",
    "func",
    "inf",
    "list",
    "nan",
    "program",
    "state",
    "tensor",
    "true",
    "tuple",
}
"""Words of the grammar, which no value is called."""


class Namer:
    """Gives names, none of them twice.

    >>> namer = Namer()
    >>> namer.new("x/0"), namer.new("x:0"), namer.new("0"), namer.new("tensor")
    ('x_0', 'x_0_1', '_0', 'tensor_')
    """

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def new(self, wished: str) -> str:
        """Return a name that is as near to a wish as identifiers and the names given before allow."""
        name = identifier(wished)
        if name in self.taken:
            first = self.counts.get(name, 1)
            number = next(one for one in itertools.count(first) if f"{name}_{one}" not in self.taken)
            self.counts[name] = number + 1
            name = f"{name}_{number}"
        self.taken.add(name)
        return name


def identifier(wished: str) -> str:
    """Return an identifier for a wish: other characters become underscores."""
    name = wished if wished.isidentifier() and wished.isascii() else OTHER_CHARACTERS.sub("_", wished)
    if not name or name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if name in RESERVED else name
