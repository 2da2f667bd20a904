"""What a MIL program was read from, as far as errors and places speak of it: its text, or the messages of a package.

A place `at` is a character of the text, or the number of an operation of a package.
"""

from __future__ import annotations

import bisect
import re
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from aneforge.errors import Location
from aneforge.formats.mil.diagnostics import MilFinding, position
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.mil.diagnostics import MilError

__all__ = ["PackageSource", "Source", "TextSource"]


class Source(Protocol):
    """Where places of a program are."""

    @property
    def is_text(self) -> bool:
        """True where the rules of the compiler of MIL text apply."""
        ...

    def location(self, at: int, name: str | None) -> Location:
        """Return a place; `name` is that of the value that is made there."""
        ...

    def words(self, at: int) -> str:
        """Return a place of the same program, as a sentence has it."""
        ...

    def locate(self, error: MilError) -> None:
        """Give an error its place, once."""
        ...

    def finding(self, error: MilError) -> MilFinding:
        """Return what an error would have said."""
        ...


@dataclass(frozen=True)
class TextSource:
    r"""The text of a program, in a file or not.

    >>> TextSource("a\nb c", "model.mil").location(4, "c")
    Location(file='model.mil', line=2, node='c')
    """

    text: str
    file: str
    is_text = True

    @cached_property
    def breaks(self) -> list[int]:
        """Places of the line breaks."""
        return [match.start() for match in re.finditer("\n", self.text)]

    def line(self, at: int) -> int:
        """Return the line of a place, counted from 1."""
        return bisect.bisect_left(self.breaks, at) + 1

    def location(self, at: int, name: str | None) -> Location:
        """Return the line of a place, and the name of the value that is made there."""
        return Location(self.file, self.line(at), name)

    def words(self, at: int) -> str:
        """Return the line of a place."""
        return f"on line {self.line(at)}"

    def locate(self, error: MilError) -> None:
        """Find line and column of an error, once."""
        error.locate(self.text, self.file)

    def finding(self, error: MilError) -> MilFinding:
        """Return what an error would have said."""
        line, column, shown = position(self.text, error.at)
        return MilFinding.of(error, Location(self.file, line), column, shown)


@dataclass(frozen=True)
class PackageSource:
    """The operations of a package, whose places are their names.

    >>> PackageSource(("relu_0",), "model.mlpackage").location(0, None)
    Location(file='model.mlpackage', line=None, node='relu_0')
    """

    names: Sequence[str]
    """Names of the operations, by their numbers; other places are those of no operation."""
    file: str
    is_text = False

    def location(self, at: int, name: str | None) -> Location:
        """Return an operation of the package."""
        return Location(self.file, None, name or self.name(at))

    def words(self, at: int) -> str:
        """Return the name of an operation."""
        return f"in operation {self.name(at)!r}"

    def name(self, at: int) -> str | None:
        """Return the name of an operation."""
        return self.names[at] if 0 <= at < len(self.names) else None

    def locate(self, error: MilError) -> None:
        """Give an error the name of its operation, once."""
        if error.location is None:
            error.location = self.location(error.at, None)

    def finding(self, error: MilError) -> MilFinding:
        """Return what an error would have said."""
        return MilFinding.of(error, self.location(error.at, None))
