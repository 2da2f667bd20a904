"""What aneforge made itself, and may replace: anything else stays where it is, unless the user says otherwise.

Each form is recognised by its content. A form without a mark of its own, such as a network description, could be
anybody's, and is never taken for ours.
"""

from __future__ import annotations

import json
import re
import zipfile
from typing import TYPE_CHECKING, cast

from aneforge.commands.outputs import is_stream, refuse_file
from aneforge.errors import GraphError, Location
from aneforge.evaluation.tables import PARQUET_MARK
from aneforge.report.tables import CSV_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["ARCHIVE_COMMENT", "is_made_here", "refuse_foreign", "refuse_output"]

ARCHIVE_COMMENT = b"aneforge"
"""The comment of an archive that is written here."""
HEAD = 1 << 16
"""Bytes of a file that are looked at, from its beginning, or from its end where a form says there who made it."""
MIL_HEAD = (
    rb'program\(1\.3\)\n\[buildInfo = dict<string, string>\(\{\{"coremlc-component-MIL", "[\d.]+"\}, '
    rb'\{"coremlc-version", "[\d.]+"\}(, \{"aneforge\.[^}]*\})*\}\)\]\n'
)
"""The first lines of MIL text as this package writes them; those of other tools name their tool or have other types."""
PROGRAM_HEAD, TEXT_HEAD = b"\x89ANEPRG\n", b"program for "
PARQUET_HEAD = b"PAR1"
BEGINNINGS = tuple(
    map(
        re.compile,
        (
            MIL_HEAD,
            rb'\{\s*"version": \d+,\s*"command": ',  # the answer of a command
            rb'\{\s*"model": "(?:[^"\\]|\\.)*",\s*"format": ',  # a report
            rb'\{\s*"\$schema": "[^"]*sarif[^"]*"[^}]*"driver": \{\s*"name": "aneforge"',
            rb'\{"otherData": \{"tool": "aneforge"\}',  # a trace
            rb"<\?xml [^>]*\?>\s*<testsuites name=\"aneforge check\"",
            rb"<!(?i:doctype) html>(?s:.*)<title>[^<]*: aneforge (?:report|evaluation)</title>",
            rb"# .*\n\n\*\*(?:passed|failed)\*\*: ",  # Markdown
            ",".join(CSV_COLUMNS).encode(),
            rb"\xce\xfa\xef\xbe(?s:.*)\0aneforge \d[\w.]*\n",  # a compiled container: its identification
            rb"(?s:.*)\x0a.aneforge\.",  # an ONNX model with verdicts: keys of metadata
        ),
    )
)
"""How the text forms begin that are written here."""


def refuse_foreign(files: Sequence[Path], *, force: bool = False) -> None:
    """Refuse to replace files that another tool made; the first of several says whose all of them are.

    >>> from pathlib import Path
    >>> refuse_foreign([Path("no such file")])

    Raises:
        GraphError: Something is there that aneforge did not make.
    """
    there = next((one for one in files if one.is_file() or one.is_dir()), None)
    if force or there is None or (there == files[0] and is_made_here(there)):
        return
    raise GraphError(
        "the file exists and does not look like a file that aneforge made",
        location=Location(str(there)),
        remedy="write to another path, or overwrite it with --force",
    )


def refuse_output(path: Path, model: object = None, *, force: bool = False) -> None:
    """Refuse a file that could not be written, or that another tool made, before any work is done for it.

    >>> from pathlib import Path
    >>> refuse_output(Path("report.json"))

    Raises:
        GraphError: It cannot be written, is part of the model, or is not aneforge's and `force` is not given.
    """
    refuse_file(path, model)
    if not is_stream(path):
        refuse_foreign([path], force=force)


def is_made_here(path: Path) -> bool:
    """Return whether aneforge wrote what is at a path.

    Raises:
        OSError: It cannot be read.
    """
    if path.is_dir():
        return is_own_package(path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return archive.comment == ARCHIVE_COMMENT
    with path.open("rb") as file:
        head = file.read(HEAD)
        if head.startswith(PARQUET_HEAD):
            file.seek(max(0, path.stat().st_size - HEAD))
            return PARQUET_MARK in file.read()
    return (
        not head
        or head.startswith((PROGRAM_HEAD, TEXT_HEAD))
        or any(form.match(head) is not None for form in BEGINNINGS)
    )


def is_own_package(folder: Path) -> bool:
    """Return whether an ML package has the identifiers that are written here; an empty folder has no owner."""
    from aneforge.formats.mlpackage.mlpackage_files import MANIFEST  # noqa: PLC0415 - few outputs are packages
    from aneforge.formats.mlpackage.package import ROOT_IDENTIFIER  # noqa: PLC0415 - few outputs are packages

    if not (folder / MANIFEST).is_file():
        return not any(folder.iterdir())
    try:
        manifest: object = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except ValueError:
        return False
    if not isinstance(manifest, dict):
        return False
    return cast("dict[str, object]", manifest).get("rootModelIdentifier") == ROOT_IDENTIFIER
