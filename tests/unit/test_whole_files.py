"""Files appear whole: what is raised meanwhile leaves what was there, and what was abandoned goes by its age."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from aneforge.whole_files import ABANDONED_SECONDS, UNFINISHED, remove_abandoned, replace_when_written, write_synced

if TYPE_CHECKING:
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
