"""Files appear whole: what is raised meanwhile leaves what was there, and what was abandoned goes by its age."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, BinaryIO

import pytest

from aneforge.whole_files import (
    ABANDONED_SECONDS,
    UNFINISHED,
    remove_abandoned,
    replace_when_written,
    write_synced,
    write_together,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def write_twice(place: Path) -> None:
    place.write_bytes(b"se")
    place.mkdir()


def test_what_is_raised_while_a_file_is_written_leaves_the_one_that_was_there(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    write_synced(target, b"first")
    with pytest.raises(OSError, match="exists"), replace_when_written(target) as unfinished:
        write_twice(unfinished)
    assert target.read_bytes() == b"first"
    assert names(tmp_path) == ["a.bin"]


def fill_the_disk(file: BinaryIO) -> None:
    file.write(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fails", ["weights", "model"])
def test_of_files_that_belong_together_all_are_replaced_or_none(tmp_path: Path, fails: str) -> None:
    """New weights beside an old description are neither of the two models."""
    write_together({tmp_path / "weights": bytes_writer(b"w1"), tmp_path / "model": bytes_writer(b"m1")})
    new = tmp_path / "made" / "here"
    for folder in (tmp_path, new):
        with pytest.raises(OSError, match="No space left"):
            write_together(
                {folder / "weights": bytes_writer(b"w2"), folder / "model": bytes_writer(b"m2")}
                | {folder / fails: fill_the_disk}
            )
    assert names(tmp_path) == ["model", "weights"], "no temporary file, and no folder that was made for them"
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"m1", b"w1"]


def bytes_writer(content: bytes) -> Callable[[BinaryIO], object]:
    return lambda file: file.write(content)


def test_names_of_any_length_that_the_system_takes_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("é" * 125 + ".b")
    write_synced(target, b"whole")
    assert target.read_bytes() == b"whole"


def test_what_a_killed_process_left_is_removed_once_it_is_old(tmp_path: Path) -> None:
    target = tmp_path / "run[1].bin"
    with replace_when_written(target) as unfinished:
        unfinished.touch()
    target.unlink()
    name = unfinished.name
    for one in (name, f".other.0{UNFINISHED}"):
        (tmp_path / one).touch()
    remove_abandoned(target)
    assert len(names(tmp_path)) == 2  # another process may be writing
    old = time.time() - ABANDONED_SECONDS - 1
    for one in names(tmp_path):
        os.utime(tmp_path / one, (old, old))
    remove_abandoned(target)
    assert names(tmp_path) == [f".other.0{UNFINISHED}"]
