"""What a description cannot express, and the nearest form that it can: one table, `forms.toml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from aneforge.targets.schema import read

__all__ = ["FormsFile", "forms_table"]

PATH = Path(__file__).with_name("forms.toml")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all entries: an unknown key is an error."""


class GroupEntry(Entry, frozen=True):
    """Why several operations have no layer."""

    reason: str


class FormEntry(Entry, frozen=True):
    """An operation that has no layer: its group, and the nearest form that has one."""

    group: str
    nearest: str


class FormsFile(Entry, frozen=True):
    """The whole file."""

    groups: dict[str, GroupEntry]
    forms: dict[str, FormEntry]


@cache
def forms_table(path: Path = PATH) -> FormsFile:
    """Return the table, read once per process.

    >>> forms_table().forms["cumsum"].nearest
    'matmul with a triangular matrix of ones'

    Raises:
        DataFileError: The file is not in the form above.
    """
    return read(path, FormsFile)
