"""Disassemblies of our own tasks, as text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.codec import decode_task, encode_task
from aneforge.formats.hwx.descriptors.disassembly import disassemble
from aneforge.formats.hwx.descriptors.layout import Style
from aneforge.formats.hwx.descriptors.task import Record
from hwx_tasks import copy_task, data_folder, framed_add, linked, oracles, planar_add

if TYPE_CHECKING:
    from golden_text import Golden


def test_the_short_form(golden: Golden) -> None:
    golden(disassemble(linked(planar_add(), copy_task()), only=0) + "\n")


def test_offsets_and_all_fields(golden: Golden) -> None:
    golden(disassemble((framed_add(),), raw=True) + "\n")


def test_all_tasks_are_shown_unless_one_is_chosen() -> None:
    tasks = linked(planar_add(), copy_task())
    assert [line for line in disassemble(tasks).splitlines() if line.startswith("task")] == [
        "task 0 at 0x0: 126 words, generation 7",
        "task 1 at 0x200: 126 words, generation 7",
    ]
    assert "task 0" not in disassemble(tasks, only=1)
    for place in (2, -1):
        with pytest.raises(HwxError, match="there is no such task"):
            disassemble(tasks, only=place)


def test_unknown_bits_are_marked() -> None:
    words = list(encode_task(planar_add()))
    words[0] |= 0xC000_0000
    assert "header.identity                        c2000000  last=1  unknown bits 0xc0000000" in disassemble(
        (decode_task(words, 7),)
    )


def test_unknown_registers_and_bits_of_records_are_marked() -> None:
    task = framed_add()
    odd = Record(Style.FRAMED, Record.dense(Style.FRAMED, 0x17000, (5,)).head | 1 << 30, (5,))
    text = disassemble((replace(task, records=(*task.records, odd)),))
    assert "record                                 40005c00  writes 1 register  unknown bits 0x40000000" in text
    assert "register 0x17000                       00000005  unknown bits 0x5" in text


def test_a_task_that_is_not_understood_is_shown_all_the_same() -> None:
    text = disassemble((replace(framed_add(), records=()),))
    assert "not understood: task 0 does not write common.task_type, and its default is not known" in text


def test_the_defect_of_generation_7_is_a_footnote_of_the_patch_register() -> None:
    old, new = disassemble((planar_add(),)), disassemble((framed_add(),))
    assert "common.patch                           00000034  patch_width_log2=4, patch_height_log2=3 [1]" in old
    assert "Compiler defect: SetPatchSettings<7>" in old
    assert "Compiler defect" not in new
    assert "[1]" not in disassemble((replace(framed_add(), records=()),))


def test_every_word_of_real_programs_is_shown() -> None:
    for oracle in oracles(data_folder()):
        tasks = [decode_task(words, oracle.generation) for words in oracle.tasks]
        text = disassemble(tasks, raw=True)
        assert sum(line.startswith("  0x") for line in text.splitlines()) == sum(map(len, oracle.tasks)), oracle.name
