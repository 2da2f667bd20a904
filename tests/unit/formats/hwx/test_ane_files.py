"""Files of the Linux driver: made from containers whose base registers have its order, read from either place."""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

import aneforge as af
from aneforge import hwx
from aneforge.cli import main
from aneforge.compiler.validators import validate_container
from aneforge.errors import HwxError
from aneforge.formats.hwx.ane_file import container_of, read_ane_bytes, read_program
from aneforge.formats.hwx.assembly import STYLES, assemble
from aneforge.formats.hwx.container import LoadCommand, ProgramState, TensorState
from aneforge.formats.hwx.read_hwx import read_bytes
from aneforge.formats.hwx.write_hwx import write_bytes
from hwx_tools import EACH_FIXTURE, fixture_path, hand_made, parts_of

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.formats.hwx.container import Container


def test_a_container_becomes_a_file_of_the_driver(tmp_path: Path) -> None:
    container = read_bytes(write_bytes(hand_made("v4", scratch=0x5000)))
    made = hwx.ane_of(container)
    path = tmp_path / "made.ane"
    hwx.write_ane(made, path)
    assert hwx.read_ane(path) == made
    written = path.read_bytes()
    assert struct.unpack_from("<Q2I2Q2I", written) == (0x580 + 128, 157 * 4, 2, 0x574, 128, 2, 1)
    assert struct.unpack_from("<8I", written, 0x28) == (1, 0, 0, 2, 1, 1, 1, 0)
    assert struct.unpack_from("<6Q", written, 0xA8 + 4 * 48) == (1, 3, 2, 40, 256, 128)
    assert written[0x1000 : 0x1000 + 0x574] == container.text.content
    assert written[0x1580:] == bytes(range(128))


def test_a_payload_at_the_other_place_is_read_and_said(tmp_path: Path) -> None:
    made = dataclasses.replace(hwx.ane_of(hand_made("v5")), payload_offset=0x800)
    hwx.write_ane(made, tmp_path / "made.ane")
    read = hwx.read_ane(tmp_path / "made.ane")
    assert read.payload_offset == 0x800
    assert read == made


@EACH_FIXTURE
def test_real_containers_in_the_drivers_order_become_files(name: str, tmp_path: Path) -> None:
    container = hwx.read(fixture_path(name))
    if "zin_ane_compiler v4" not in container.identification and "v5.4.1" not in container.identification:
        with pytest.raises(HwxError, match="the Linux driver needs another order of ports") as seen:
            hwx.ane_of(container)
        assert "outputs before inputs" in str(seen.value.remedy)
        return
    made = hwx.ane_of(container)
    hwx.write_ane(made, tmp_path / "made.ane")
    whole = fixture_path(name).read_bytes()
    start = container.text.file_offset
    assert (tmp_path / "made.ane").read_bytes()[0x1000:] == whole[start : start + made.payload_size]


def changed(container: Container, kind: type[object], **changes: object) -> Container:
    commands = tuple(
        LoadCommand(dataclasses.replace(one.body, **changes), one.size)  # pyright: ignore[reportArgumentType] - by name
        if isinstance(one.body, kind)
        else one
        for one in container.commands
    )
    return dataclasses.replace(container, commands=commands)


def test_containers_that_the_driver_does_not_take() -> None:
    made = hand_made()
    tail = assemble(dataclasses.replace(parts_of(made), text=memoryview(bytes(0x2A4))), STYLES["v4"])
    for wrong, message in (
        (changed(made, ProgramState, flavor=4), "the Linux driver takes programs whose tasks are a chain"),
        (tail, "the Linux driver takes one section of constants, at the next multiple of 16 bytes after the tasks"),
        (
            changed(made, TensorState, element=2),
            "the Linux library packs fp16 in rows of whole 64 bytes; port 'sum@out",
        ),
    ):
        with pytest.raises(HwxError, match=message):
            hwx.ane_of(wrong)


def test_damaged_files_of_the_driver(tmp_path: Path) -> None:
    made = hwx.ane_of(hand_made())
    path = tmp_path / "made.ane"
    hwx.write_ane(made, path)
    whole = path.read_bytes()
    for place, form, value, message in (
        (0, "<Q", 2**32 - 1, "the payload must have the size of tasks and constants"),
        (8, "<I", 2**32 - 1, "wrong size of the first task"),
        (0x20, "<I", 2**32 - 1, "each port must have a buffer"),
        (0x6A8, "<I", 1, "the bytes between header, tasks and constants must be zero"),
        (0x1574, "<I", 1, "the bytes between header, tasks and constants must be zero"),
    ):
        damaged = bytearray(whole)
        struct.pack_into(form, damaged, place, value)
        with pytest.raises(HwxError, match=message):
            read_ane_bytes(bytes(damaged))
    for end, message in ((64, "the file is too small for a header"), (0x1100, "the file must end with its payload")):
        path.write_bytes(whole[:end])
        with pytest.raises(HwxError, match=f"at {path}: offset 0x0: {message}"):
            hwx.read_ane(path)
    with pytest.raises(HwxError, match="a number does not fit its field"):
        hwx.write_ane(dataclasses.replace(made, task_count=2**32), path)


def test_a_file_of_the_driver_is_a_container_again(tmp_path: Path) -> None:
    x = af.input((1, 16, 8, 8), name="x")
    weights = np.linspace(-1, 1, 32 * 16, dtype=np.float16).reshape(32, 16, 1, 1)
    container = hwx.emit(af.conv(x, weights).relu(), "m1", style="v5").files[0].container
    hwx.write_ane(hwx.ane_of(container), tmp_path / "made.ane")
    again = read_program(tmp_path / "made.ane")
    assert hwx.ane_of(again) == hwx.ane_of(container)
    assert again.text.content == container.text.content
    assert {str(one.verdict) for one in validate_container(again)} == {"accept"}
    given = np.random.default_rng(3).normal(size=x.shape).astype(np.float16)
    (expected,) = hwx.execute(container, {"x": given}).outputs.values()
    (found,) = hwx.execute(tmp_path / "made.ane", {"input5": given}).outputs.values()
    assert np.array_equal(found.view(np.uint16), expected.view(np.uint16))
    assert [node.op.name for node in af.load_model(tmp_path / "made.ane").nodes].count("conv") == 1


def test_files_of_the_driver_are_shown_and_disassembled(tmp_path: Path) -> None:
    container = hwx.emit(af.input((1, 16, 8, 8), name="x").relu(), "m1", style="v5").files[0].container
    file = tmp_path / "made.ane"
    hwx.write_ane(hwx.ane_of(container), file)
    shown = CliRunner().invoke(main.whole_app(), ["hwx", "show", str(file)])
    assert "a file of the Linux driver, payload at 0x1000" in " ".join(shown.output.split())
    assert "output4" in shown.output
    disassembled = CliRunner().invoke(main.whole_app(), ["hwx", "dis", str(file)])
    assert "NE copy, relu: 16×8×8 → 16×8×8" in disassembled.output


def test_rows_of_another_form_are_refused(tmp_path: Path) -> None:
    made = hwx.ane_of(hand_made("v5"))
    shapes = [*made.shapes]
    shapes[4] = (*shapes[4][:5], 32)
    hwx.write_ane(dataclasses.replace(made, shapes=tuple(shapes)), tmp_path / "made.ane")
    with pytest.raises(HwxError, match="buffer 4 has rows of another form") as seen:
        read_program(tmp_path / "made.ane")
    assert str(tmp_path / "made.ane") in str(seen.value)


def test_constants_must_lie_where_a_container_has_them() -> None:
    made = hwx.ane_of(hand_made("v5"))
    longer = memoryview(bytes(made.text) + bytes(16))
    with pytest.raises(HwxError, match="this file has constants at a place where a container has none"):
        container_of(dataclasses.replace(made, text=longer))
