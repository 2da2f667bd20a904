"""Real compiled containers are read in full and written back byte for byte; damaged ones are one typed error."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from aneforge import hwx
from aneforge.errors import HwxError
from aneforge.formats.hwx.assembly import STYLES, assemble
from aneforge.formats.hwx.read_hwx import read_bytes
from aneforge.formats.hwx.write_hwx import write_bytes
from hwx_tools import EACH_FIXTURE, REASON, fixture_path, hwx_data, parts_of

if TYPE_CHECKING:
    from pathlib import Path

CONSTANTS = "__TEXT/__const"


def manifest_entry(name: str) -> dict[str, Any]:
    folder = hwx_data()
    if folder is None:
        pytest.skip(REASON)
    entries = json.loads((folder / "fixtures" / "manifest.json").read_text(encoding="utf-8"))
    return next(entry for entry in entries if entry["name"] == name)


@EACH_FIXTURE
def test_a_real_file_is_written_back_byte_for_byte(name: str, tmp_path: Path) -> None:
    path = fixture_path(name)
    container = hwx.read(path)
    hwx.write(container, tmp_path / "copy.hwx")
    assert (tmp_path / "copy.hwx").read_bytes() == path.read_bytes()
    assert container.strays == ()
    assert [command for command in container.commands if command.unnamed] == []


@EACH_FIXTURE
def test_a_real_file_taken_apart_is_assembled_byte_for_byte(name: str) -> None:
    """Nothing of a file is kept but its tasks, constants, names, shapes and identification."""
    path = fixture_path(name)
    style = STYLES[manifest_entry(name)["compiler"].partition(".")[0]]
    made = assemble(parts_of(hwx.read(path)), style)
    assert write_bytes(made) == path.read_bytes()


@EACH_FIXTURE
def test_the_manifest_says_the_same(name: str) -> None:
    entry = manifest_entry(name)
    container = hwx.read(fixture_path(name))
    assert [task.size for task in hwx.tasks_of(container)] == entry["td_words"]
    assert container.constants[CONSTANTS].size == entry["const_bytes"]
    assert {str(base.index): hex(base.address) for base in container.program.bases} == entry["bars"]
    assert container.program.name == entry["network"]
    assert entry["compiler"] in container.identification
    directions = {1: "in", 2: "out"}
    described = [
        [tensor.name, directions[tensor.direction], [*tensor.shape, tensor.depth]] for tensor in container.tensors
    ]
    assert described == entry["io"]
    assert all(port.base is not None and port.element_name == "float16" for port in container.ports)
    assert container.generation == 7


@EACH_FIXTURE
def test_counts_of_events_are_those_of_the_tasks(name: str) -> None:
    container = hwx.read(fixture_path(name))
    headers = [task.header for task in hwx.tasks_of(container)]
    assert container.program.log_events == sum(words[2].bit_count() for words in headers)
    assert container.program.debug_events == sum(words[4].bit_count() for words in headers)
    for item in container.program.items or ():
        assert (item.tag, item.value) == (9, max(words[1] & 0xFFFF for words in headers))


@EACH_FIXTURE
def test_a_cut_file_is_an_error(name: str) -> None:
    whole = fixture_path(name).read_bytes()
    for end in range(0, len(whole), 64 if len(whole) < 2**16 else 4096):
        with pytest.raises(HwxError):
            read_bytes(memoryview(whole)[:end])


@EACH_FIXTURE
def test_flipped_bits_are_an_error_or_another_file(name: str) -> None:
    """Whatever is still read is written back as it was read, and its tasks are found or refused."""
    whole = fixture_path(name).read_bytes()
    chosen = random.Random(name)  # noqa: S311 - seeded, not secret
    end = 1 + max(place for place, byte in enumerate(whole[:0x8000]) if byte)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[chosen.randrange(end)] ^= 1 << chosen.randrange(8)
        try:
            container = read_bytes(bytes(damaged))
            assert write_bytes(container) == damaged
            assert hwx.tasks_of(container)
            assert container.ports
        except HwxError:
            continue
