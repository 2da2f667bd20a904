"""Bounds that are not values of the target database, in its form and with its evidence: `data/facts.toml`.

A sentence says what an operation should have been, where no number does; a flag says what a source states of all
targets, or of some.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from aneforge.errors import UnknownNameError
from aneforge.targets import schema
from aneforge.targets.database import property_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.targets import Property

__all__ = ["fact", "facts"]

FILE = Path(__file__).parent / "data" / "facts.toml"


@cache
def facts() -> Mapping[str, Property]:
    """Return every bound of the file by its name.

    Raises:
        DataFileError: The file is not as it should be.
    """
    entries = schema.read(FILE, dict[str, schema.PropertyEntry])
    return MappingProxyType({name: property_of(name, entry) for name, entry in entries.items()})


def fact(name: str) -> Property:
    """Return a bound by its name.

    >>> fact("three_dimensional_convolution_lowers").facts["all"].value
    False

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in facts():
        raise UnknownNameError.of("fact", name, facts())
    return facts()[name]
