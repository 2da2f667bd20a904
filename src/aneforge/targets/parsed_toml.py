"""TOML files as tables, parsed once per machine: the standard library's parser is slow, and every start needs them.

A parsed table is kept where Python keeps the bytecode of a module that is next to the file, and is written under the
same conditions. It is used only while the hash of the file's bytes is the one that it was parsed from.
"""

from __future__ import annotations

import contextlib
import marshal
import sys
from importlib.util import cache_from_source, source_hash
from pathlib import Path
from typing import cast

from aneforge.errors import DataFileError

__all__ = ["parse_toml"]


def parse_toml(path: Path) -> dict[str, object]:
    """Return what a TOML file says.

    Raises:
        DataFileError: It is not TOML.
    """
    source = path.read_bytes()
    kept, key = keep_at(path), source_hash(source)
    known = None if kept is None else read_kept_table(kept, key)
    if known is not None:
        return known
    table = parse(path.name, source.decode("utf-8"))
    if kept is not None and not sys.dont_write_bytecode:
        keep(kept, key, table)
    return table


def parse(name: str, text: str) -> dict[str, object]:
    """Return what a text says.

    Raises:
        DataFileError: It is not TOML.
    """
    import tomllib  # noqa: PLC0415 - not needed where the table is kept

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataFileError(f"{name}: {error}") from error


def keep_at(path: Path) -> Path | None:
    """Return where the table of a file is kept; None where Python keeps no bytecode either."""
    try:
        return Path(cache_from_source(str(path))).with_name(f"{path.name}.{sys.implementation.cache_tag}.table")
    except NotImplementedError:
        return None


def read_kept_table(kept: Path, key: bytes) -> dict[str, object] | None:
    """Return a table that was kept; None where there is none, or not of these bytes."""
    try:
        # As trusted as the bytecode next to it.
        read = marshal.loads(kept.read_bytes())  # noqa: S302
        found, table = cast("tuple[bytes, dict[str, object]]", read)
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return table if found == key else None


def keep(kept: Path, key: bytes, table: dict[str, object]) -> None:
    """Keep a table, whole or not at all; an unwritable folder, or a date, which has no form, is not an error."""
    from aneforge.whole_files import replace_when_written  # noqa: PLC0415 - tables are kept once

    with contextlib.suppress(OSError, ValueError):
        written = marshal.dumps((key, table))
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replace_when_written(kept) as unfinished:
            unfinished.write_bytes(written)
