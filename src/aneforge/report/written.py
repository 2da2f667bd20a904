"""Reports as JSON.

The JSON holds every field in the order in which the dataclasses declare them, one to a line, so that two reports of the
same model compare line by line. A reader refuses another version of the form.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import GraphError, Location
from aneforge.report.model import VERSION, Report
from aneforge.typed_decoding import decode_typed

if TYPE_CHECKING:
    import os

__all__ = ["load_report", "report_from_json", "report_to_json"]


class Head(msgspec.Struct):
    """What distinguishes a report from other JSON."""

    version: int
    model: str


def report_to_json(report: Report) -> str:
    """Return a report as JSON text.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> report = check(af.input((1, 4), name="x").relu(), af.targets.Family.A13)
    >>> report_from_json(report_to_json(report)) == report
    True
    """
    return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"


def report_from_json(text: str | bytes, place: str | None = None) -> Report:
    """Read a report back.

    Raises:
        GraphError: It is not a report, or one of another version; the error names the file if it is given.
    """
    where = Location(place) if place else None
    try:
        head = decode_typed(text, Head)
    except msgspec.DecodeError as error:
        raise GraphError(
            "this is not a report of aneforge",
            location=where,
            seen=str(error),
            remedy="make one with: aneforge check MODEL --json FILE",
        ) from None
    if head.version != VERSION:
        raise GraphError("the report has another version", location=where, seen=head.version, limit=VERSION)
    try:
        return decode_typed(text, Report)
    except msgspec.DecodeError as error:
        raise GraphError("the report is damaged", location=where, seen=str(error)) from None


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a report from a file.

    Raises:
        GraphError: It cannot be read, is not a report, or one of another version.
    """
    file = Path(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise GraphError("the report cannot be read", location=Location(str(file)), seen=error.strerror) from None
    return report_from_json(content, str(file))
