"""Words to tasks and back: nothing is lost, and damage is a typed error."""

from dataclasses import replace

import numpy as np
import pytest

from aneforge.errors import HwxError, UnknownNameError
from aneforge.formats.hwx.descriptors.codec import (
    blank_task,
    decode_task,
    decode_tasks,
    encode_task,
    encode_tasks,
    pack_records,
)
from aneforge.formats.hwx.descriptors.layout import Style, generations, layout_of
from aneforge.formats.hwx.descriptors.task import Record, Task
from hwx_tasks import convolution, copy_task, data_folder, framed_add, linked, oracles, planar_add

FRAME = (1, 0, 0, 0)


def numbers(chance: np.random.Generator, count: int) -> list[int]:
    return chance.integers(1 << 32, size=count).tolist()


def framed_section(*tasks: Task) -> tuple[int, ...]:
    words: list[int] = list(FRAME)
    for task in tasks:
        words += encode_task(task)
        words += [0] * (-len(words) % 4)
    return tuple(words)


@pytest.mark.parametrize("task", [planar_add(), convolution(), copy_task(), framed_add()], ids=lambda one: one.size)
def test_a_task_survives(task: Task) -> None:
    assert decode_task(encode_task(task), task.generation) == task


@pytest.mark.parametrize("generation", generations())
def test_words_of_all_kinds_survive(generation: int) -> None:
    chance = np.random.default_rng(generation)
    layout = layout_of(generation)
    for _ in range(50):
        header = numbers(chance, layout.header_words + 1)
        place = layout.place("header.has_dependent")
        header[place.register.address // 4] |= place.field.mask
        style = layout.style
        dense = Record.dense(style, 4 * int(chance.integers(1 << 13)), tuple(numbers(chance, 5)))
        records = [dense]
        if style is Style.FRAMED:
            at = 4 * int(chance.integers(1 << 13))
            records.append(Record.scattered({at + 4 * int(chance.integers(1, 17)): numbers(chance, 1)[0], at: 7}))
            records.append(Record.based(int(chance.integers(256)), at, (1, 2)))
        words = (*header, *(word for one in records for word in (one.head, *one.values)))
        task = decode_task(words, generation)
        assert task.records == tuple(records)
        assert encode_task(task) == words


def test_unknown_bits_are_kept_and_marked() -> None:
    words = list(encode_task(planar_add()))
    words[0] |= 0x8000_0000
    task = decode_task(words, 7)
    assert [(word.label, word.unknown_bits) for word in task.unknown] == [("header.identity", 0x8000_0000)]
    assert encode_task(task) == tuple(words)


def test_fields_are_read_by_name() -> None:
    task = convolution()
    assert task.integer("common.kernel_width") == 3
    assert task.number("ne.post_scale") == 1.0
    assert task.code("ne.nonlinearity") == "relu"
    assert task.flag("ne.has_bias")
    assert not task.flag("ne.no_such_field")
    assert task.integer("kernel_source.coefficient_base", 2) == 2 * 0x1240
    assert task.slot("source.source1_base") is None


def test_what_is_not_written_has_its_default_or_none() -> None:
    task = framed_add()
    assert task.integer("common.source_depth") == 1
    assert task.number("pe.scale") == 1.0
    assert task.integer("source.source1_group") is None
    assert task.code("ne.nonlinearity") is None
    assert task.number("ne.post_scale") is None
    assert planar_add().integer("header.dependent_task") is None
    assert task.slot("destination.result_base") == 20


def test_the_last_of_two_writes_holds() -> None:
    task = framed_add()
    twice = replace(task, records=(*task.records, Record.dense(Style.FRAMED, 0x0C, (3,))))
    assert twice.integer("common.source_channels") == 3


def test_an_eleventh_word_follows_where_the_header_says_so() -> None:
    words = list(encode_task(planar_add().with_fields({"header.has_dependent": 1})))
    words.insert(10, 5)
    task = decode_task(words, 7)
    assert (len(task.header), task.integer("header.dependent_task")) == (11, 5)


def test_bits_of_a_record_that_no_form_uses_are_kept() -> None:
    head = Record.dense(Style.FRAMED, 0x500, (9,)).head | 1 << 30 | 1 << 22
    task = decode_task((*framed_add().header, head, 9), 11)
    assert task.records[0].unknown_bits == 1 << 30 | 1 << 22
    assert encode_task(task)[-2:] == (head, 9)


def test_a_list_of_tasks_is_followed_and_written_back() -> None:
    tasks = linked(copy_task(), convolution(), planar_add())
    section = encode_tasks(tasks)
    assert decode_tasks(section, 7, tasks[0].size) == tasks
    assert [task.offset for task in tasks] == [0, 0x200, 0x500]
    noisy = np.array(section, dtype=np.uint32)
    noisy[127] = 77
    assert encode_tasks(decode_tasks(noisy, 7, 126), noisy) == tuple(noisy.tolist())


def test_frames_are_skipped() -> None:
    first, second = framed_add(), framed_add().with_fields({"header.task_id": 1})
    section = framed_section(first, second)
    found = decode_tasks(section, 11)
    assert [task.integer("header.task_id") for task in found] == [0, 1]
    assert encode_tasks(found, section) == section


def test_a_list_that_needs_its_first_size_says_so() -> None:
    with pytest.raises(HwxError, match="need the size of the first"):
        decode_tasks(encode_task(planar_add()), 7)


@pytest.mark.parametrize("target", [4, 0x200])
def test_a_cyclic_list_is_an_error(target: int) -> None:
    first, second = linked(copy_task(), planar_add())
    looped = second.with_fields({"header.next_offset": target, "header.next_words": 125})
    section = encode_tasks((first, looped))
    with pytest.raises(HwxError, match="overlaps one that was read before: the list is cyclic or damaged"):
        decode_tasks(section, 7, 126)


def test_a_task_before_the_first_may_not_reach_into_it() -> None:
    first, second, third = linked(copy_task(), planar_add(), copy_task())
    moved = first.with_fields({"header.next_offset": third.offset})
    back = replace(third, header=second.header).with_fields({"header.next_offset": 0x300, "header.next_words": 125})
    with pytest.raises(HwxError, match="overlaps"):
        decode_tasks(encode_tasks((moved, back, second)), 7, 126)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, r"must have words \(got 0\)"),
        (127, r"leaves the section \(got 0x1fc, limit 0x1f8\)"),
        (1 << 31, r"leaves the section \(got 0x200000000, limit 0x1f8\)"),
    ],
)
def test_a_task_that_leaves_the_section_is_an_error(size: int, said: str) -> None:
    with pytest.raises(HwxError, match=f"the task at 0x0 {said}"):
        decode_tasks(encode_task(planar_add()), 7, size)


def test_a_pointer_far_beyond_the_section_says_where_its_task_would_end() -> None:
    task = planar_add().with_fields({"header.next_offset": 0xFFFF_FF00, "header.next_words": 125})
    with pytest.raises(HwxError, match=r"the task at 0xffffff00 leaves the section \(got 0x1000000f8, limit 0x1f8\)"):
        decode_tasks(encode_task(task), 7, 126)


def test_a_framed_task_that_leaves_the_section_is_an_error() -> None:
    with pytest.raises(HwxError, match="the task at 0x10 leaves the section"):
        decode_tasks(framed_section(framed_add())[:-4], 11)


def test_a_pointer_between_words_is_an_error() -> None:
    task = planar_add().with_fields({"header.next_offset": 0x202})
    with pytest.raises(HwxError, match="must name the next at a multiple of 4"):
        decode_tasks((*encode_task(task), *[0] * 200), 7, 126)


def test_a_record_that_ends_after_its_task_is_an_error() -> None:
    with pytest.raises(HwxError, match="the record at 0x1d8 ends after its task"):
        decode_task(encode_task(planar_add())[:-1], 7)


def test_a_record_between_words_is_an_error() -> None:
    words = list(encode_task(planar_add()))
    words[10] |= 1
    with pytest.raises(HwxError, match="the record at 0x28 must write at a multiple of 4"):
        decode_task(words, 7)


@pytest.mark.parametrize("length", [0, 3, 9])
def test_a_task_that_ends_within_its_header_is_an_error(length: int) -> None:
    with pytest.raises(HwxError, match="the task at 0x0 ends within its header"):
        decode_task(encode_task(planar_add())[:length], 7)


def test_an_unknown_form_is_an_error() -> None:
    with pytest.raises(HwxError, match="generation 11 has no form 'full'"):
        blank_task(11, "full")


def test_a_field_that_a_task_does_not_write_cannot_be_set() -> None:
    for name in ("kernel_source.coefficient_base[3]", "header.dependent_task", "kernel_source.coefficient_enable[16]"):
        with pytest.raises(HwxError, match="the task does not write"):
            planar_add().with_fields({name: 0})
    with pytest.raises(UnknownNameError):
        planar_add().with_fields({"common.nothing": 0})


def test_damage_is_a_typed_error_or_another_task() -> None:
    tasks = linked(copy_task(), convolution(), planar_add())
    section = np.array(encode_tasks(tasks), dtype=np.uint32)
    chance = np.random.default_rng(22)
    for _ in range(400):
        damaged = section.copy()
        damaged[chance.integers(len(damaged))] ^= np.uint32(1 << int(chance.integers(32)))
        try:
            found = decode_tasks(damaged, 7, tasks[0].size)
        except HwxError:
            continue
        assert encode_tasks(found, damaged) == tuple(damaged.tolist())


def test_real_programs_survive() -> None:
    found = list(oracles(data_folder()))
    assert found
    for oracle in found:
        for words in oracle.tasks:
            assert encode_task(decode_task(words, oracle.generation)) == words, oracle.name


def test_records_are_as_few_as_can_be() -> None:
    assert [record.count for record in pack_records(dict.fromkeys(range(0, 4 * 100, 4), 1))] == [64, 36]
    assert pack_records({0x1900: 5}) == (Record.dense(Style.FRAMED, 0x1900, (5,)),)
    assert pack_records({0x10: 1, 0x50: 2, 0x54: 3}) == (
        Record.scattered({0x10: 1, 0x50: 2}),
        Record.dense(Style.FRAMED, 0x54, (3,)),
    )
    assert pack_records({}) == ()


def test_records_of_real_programs_are_packed_the_same() -> None:
    """Address packets and padding, which are records of their own after the others, are left out."""
    for oracle in oracles(data_folder()):
        for words in oracle.tasks if layout_of(oracle.generation).style is Style.FRAMED else ():
            task = decode_task(words, oracle.generation)
            plain = [record for record in task.records if record.slot is None and 0xDEAD not in record.values]
            for block in task.layout.blocks.values():
                end = block.address + 4 * block.words
                own = tuple(record for record in plain if block.address <= record.first < end)
                values = {at: word for record in own for at, word in zip(record.addresses, record.values, strict=True)}
                assert pack_records(values) == own, (oracle.name, block.name)
