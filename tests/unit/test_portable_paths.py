"""Every tracked path can be checked out on Linux, macOS and Windows."""

import re
import shutil
import subprocess
from collections import Counter
from itertools import chain
from pathlib import Path, PurePosixPath

import pytest

LONGEST = 160
"""Windows takes 260 characters by default; a checkout's own folder needs some of them."""

SAME_NAME = 3
"""Modules of the package that may share a file name: more cannot be found by name."""

RESERVED = re.compile(r'[<>:"\\|?*\x00-\x1f]')
DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])", re.IGNORECASE)


def faults(path: str) -> list[str]:
    """Say why a path cannot be checked out everywhere."""
    found = [f"longer than {LONGEST} characters"] * (len(path) > LONGEST)
    for part in PurePosixPath(path).parts:
        found += ["a reserved character"] * bool(RESERVED.search(part))
        found += ["a space or dot at the end"] * part.endswith((" ", "."))
        found += ["the name of a device"] * bool(DEVICES.fullmatch(part.partition(".")[0].rstrip()))
        found += ["not ASCII, so written in more than one way"] * (not part.isascii())
    return found


def differ_only_in_case(paths: list[str]) -> list[str]:
    """Return the files and folders whose names a system that ignores case takes for one."""
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    counted = Counter(name.casefold() for name in chain(paths, folders))
    return sorted(name for name in chain(paths, folders) if counted[name.casefold()] > 1)


def test_every_tracked_path_is_portable(repository: Path) -> None:
    git = shutil.which("git")
    if git is None or not (repository / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files are tracked")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=repository, capture_output=True, check=True).stdout
    paths = listed.decode().rstrip("\0").split("\0")
    assert "pyproject.toml" in paths
    assert {path: found for path in paths if (found := faults(path))} == {}
    assert differ_only_in_case(paths) == []


def test_file_names_of_the_package_say_what_is_inside(repository: Path) -> None:
    names = Counter(path.name for path in (repository / "src" / "aneforge").rglob("*.py"))
    assert names.pop("__init__.py") > SAME_NAME
    assert [name for name, count in names.items() if count > SAME_NAME] == []


@pytest.mark.parametrize(
    "path",
    [
        "tests/golden/barrier: attention.txt",
        "what?.md",
        "a\\b",
        "docs./index.md",
        "docs/index ",
        "src/aux.py",
        "NUL",
        "com1.tar.gz",
        "con .txt",
        "größe.md",
        "a/" * 80 + "a",
    ],
)
def test_a_path_that_is_not_portable_is_found(path: str) -> None:
    assert len(faults(path)) == 1


@pytest.mark.parametrize(
    "path",
    [".ci/run", "src/aneforge/__init__.py", "auxiliary.py", "golden/test_names[aneforge._targets].txt", "a" * 160],
)
def test_a_portable_path_has_no_fault(path: str) -> None:
    assert faults(path) == []


def test_names_that_differ_only_in_case_are_found() -> None:
    assert differ_only_in_case(["Docs/a.md", "docs/b.md", "README.md", "readme.md", "c"]) == [
        "Docs",
        "README.md",
        "docs",
        "readme.md",
    ]
