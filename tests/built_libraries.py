"""The C libraries of this checkout in a copy of its sources, so that a test that builds packages compiles nothing."""

from __future__ import annotations

import platform
import shutil
from typing import TYPE_CHECKING

import native_build

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["put_built_libraries"]


def put_built_libraries(tree: Path) -> set[str]:
    """Put the libraries into a copy, with the stamps that say what they are of; return their names in a wheel."""
    names: set[str] = set()
    for one in native_build.LIBRARIES:
        if not (one.folder / one.file_name).exists():
            continue
        inside = one.folder.relative_to(native_build.PACKAGE)
        folder = tree / "src" / "aneforge" / inside
        shutil.copy2(one.folder / one.file_name, folder)
        key = one.fingerprint(native_build.machine_name(platform.machine()))
        (folder / one.stamp_name).write_text(key, encoding="utf-8")
        names.add(f"aneforge/{inside.as_posix()}/{one.file_name}")
    return names
