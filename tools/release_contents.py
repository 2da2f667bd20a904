"""What a distribution may hold: the package, its data and C sources, and nothing of a checkout's tests or of others.

The names of a wheel and of an sdist, and what is wrong with them. `release.py` and a test ask it.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["changelog_version", "file_names", "metadata_text", "missing_files", "unwanted_files"]

ROOT = Path(__file__).parent.parent
SUFFIXES = frozenset({".c", ".css", ".cu", ".h", ".jinja", ".js", ".json", ".py", ".pyi", ".toml", ".typed"})
"""Kinds of files that the package is made of; no model, container, array or archive is among them."""
BUILT = frozenset({".dll", ".dylib", ".missing", ".so"})
"""Kinds of files that a wheel has besides: the libraries, or why they are missing."""
OF_AN_SDIST = frozenset(
    {
        ".gitignore",  # Hatchling adds it
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "SECURITY.md",
        "hatch_build.py",
        "pyproject.toml",
        "tools/native_build.py",
    }
)
NEEDED = (
    "aneforge/__init__.pyi",
    "aneforge/cli/entry.py",
    "aneforge/engine/cuda/native/products.cu",
    "aneforge/engine/kernels/native/numbers.h",
    "aneforge/py.typed",
    "aneforge/report/html/assets/page.html.jinja",
    "aneforge/runtime/dispatch/native/ane_open.h",
    "aneforge/targets/data/chips.toml",
)
BUILT_FROM = ("aneforge/engine/kernels/native/library.c", "aneforge/runtime/dispatch/native/abi.c")
HEADING = re.compile(r"^## (?P<version>\d+\.\d+\.\d+) \((?P<date>unreleased|\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)


def file_names(distribution: Path) -> list[str]:
    """Return the names of the files of a wheel, or of an sdist without the folder that all of it is in."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as wheel:
            return sorted(name for name in wheel.namelist() if not name.endswith("/"))
    with tarfile.open(distribution) as archive:
        return sorted(one.name.partition("/")[2] for one in archive.getmembers() if one.isfile())


def metadata_text(distribution: Path) -> str:
    """Return the metadata of a wheel or of an sdist."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            return wheel.read(name).decode()
    with tarfile.open(distribution) as archive:
        for one in archive.getmembers():
            opened = archive.extractfile(one) if one.name.endswith("/PKG-INFO") else None
            if opened is not None:
                return opened.read().decode()
    raise ValueError(f"{distribution} has no metadata")


def is_wanted(name: str) -> bool:
    """Return whether a file may be in a distribution, by its name in an sdist (where `src` is above it) or a wheel."""
    path = PurePosixPath(name.removeprefix("src/"))
    if path.parts[0].endswith(".dist-info") or name in OF_AN_SDIST:
        return True
    in_package = path.parts[0] == "aneforge" and not {"testing", "tests", "__pycache__"} & set(path.parts)
    if name.startswith("src/"):
        return in_package and (path.suffix in SUFFIXES or path.name == ".gitignore")
    return in_package and path.suffix in SUFFIXES | BUILT


def unwanted_files(names: Iterable[str]) -> list[str]:
    """Return the files that do not belong into a distribution.

    >>> unwanted_files(["aneforge/__init__.py", "aneforge/testing/graphs.py", "tests/conftest.py", "aneforge/a.hwx"])
    ['aneforge/testing/graphs.py', 'tests/conftest.py', 'aneforge/a.hwx']
    """
    return [name for name in names if not is_wanted(name)]


def missing_files(distribution: Path) -> list[str]:
    """Return the files that a wheel, or an sdist, must have and has not."""
    names = file_names(distribution)
    is_wheel = distribution.suffix == ".whl"
    wanted = NEEDED if is_wheel else tuple(f"src/{name}" for name in (*NEEDED, *BUILT_FROM))
    return [name for name in wanted if name not in names]


def changelog_version() -> tuple[str, str]:
    """Return the version that the changelog's first section is of, and its date or `unreleased`."""
    first = HEADING.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if first is None:
        raise ValueError("CHANGELOG.md has no heading of the form '## 1.2.3 (2026-01-31)'")
    return first["version"], first["date"]
