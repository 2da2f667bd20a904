"""Saved programs: what is written comes back, and nothing else is ever read."""

from __future__ import annotations

import errno
import hashlib
import shutil
import warnings
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import msgspec
import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.printing import program_text
from aneforge.errors import ProgramFileError, RuntimeStateError
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.runtime.facts import ModelFacts
from aneforge.runtime.saved import files
from aneforge.runtime.saved.records import (
    ConstantRecord,
    Header,
    PartRecord,
    align,
    constant_of,
    part_records,
    read_part,
    store_part,
)
from llama_block import llama_block

if TYPE_CHECKING:
    from pathlib import Path

RANDOM = np.random.default_rng(2)


def network() -> af.Tensor:
    x = af.conv(af.input((1, 3, 8, 8)), RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float16), pad=1).relu()
    return x.reshape(1, 256).linear(RANDOM.standard_normal((16, 256)).astype(np.float16))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return af.compile(network(), target="h13").save(tmp_path / "net.aneprg")


def test_a_model_comes_back_whole(tmp_path: Path) -> None:
    model = af.compile(network(), target="h14")
    path = model.save(tmp_path / "deep" / "net.aneprg")
    assert [file.name for file in path.parent.iterdir()] == ["net.aneprg"]
    again = af.load_program(path)
    assert isinstance(again, af.Model)
    assert program_text(again.program) == program_text(model.program)
    assert again.facts == model.facts
    assert repr(again) == repr(model)
    sample = RANDOM.standard_normal((1, 3, 8, 8))
    assert np.array_equal(again(sample), model(sample))


def test_saving_is_deterministic(tmp_path: Path) -> None:
    model = af.compile(network(), target="h13")
    first, second = (model.save(tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second
    assert af.load_program(tmp_path / "a").save(tmp_path / "c").read_bytes() == first


def test_weights_are_mapped_not_copied(saved: Path) -> None:
    model = af.load_program(saved)
    for constant in model.program.constants.values():
        for part in constant.parts.values():
            base: Any = part
            while isinstance(getattr(base, "base", None), np.ndarray):
                base = base.base
            assert isinstance(base, np.memmap)
            assert not part.flags.writeable


def test_a_mapped_file_may_be_written_again(saved: Path) -> None:
    model = af.load_program(saved)
    assert isinstance(model, af.Model)
    sample = np.ones((1, 3, 8, 8))
    before = model(sample)
    model.save(saved)
    af.compile(af.input((1, 2)).relu(), target="h13").save(saved)
    assert np.array_equal(model(sample), before)


@pytest.mark.filterwarnings("ignore:ANE-QUIRK-008")  # the example has a silu
def test_several_outputs_states_segments_and_reports_come_back(tmp_path: Path) -> None:
    total = af.state("total", (1, 64))
    weight = RANDOM.standard_normal((64, 64)).astype(np.float16)
    graph = af.Graph({"a": total.linear(weight), "b": af.input((1, 64)) + 1.0}, {"total": total + 1.0})
    with pytest.warns(af.SaturationWarning, match="linear at .* with int8 weights"):
        model = af.compile(graph, target="h16g", compress="int8")
    again = af.load_program(model.save(tmp_path / "net"))
    assert isinstance(model, af.MultiModel)
    assert isinstance(again, af.MultiModel)
    assert again.weights == model.weights
    assert again.weights[0].encoding == "int8"
    for _ in range(2):
        found, wanted = again(np.ones((1, 64))), model(np.ones((1, 64)))
        assert all(np.array_equal(found[name], wanted[name]) for name in ("a", "b"))
    block = af.compile(llama_block(), target="h16g")
    assert repr(af.load_program(block.save(tmp_path / "block"))) == repr(block)


@pytest.mark.parametrize("compress", ["int8", "int4", "sparse", "blockwise"])
def test_every_encoding_of_weights_comes_back(compress: str, tmp_path: Path) -> None:
    weight = RANDOM.standard_normal((64, 64)).astype(np.float16)
    weight[np.abs(weight) < 1] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", af.PrecisionWarning)  # that users report wrong numbers is no matter here
        model = af.compile(af.input((1, 64)).linear(weight), target="h16g", compress=compress, compress_atol=1.0)
    again = af.load_program(model.save(tmp_path / "net"))
    assert again.program.constants == model.program.constants
    assert again.weights == model.weights


@pytest.mark.parametrize(
    "constant",
    [
        Dense(np.array(3.0, np.float16)),
        Dense(np.zeros((0, 4), np.float32)),
        Dense(np.arange(7, dtype=np.int8)),
        Dense(np.array([1, -2, 3], ml_dtypes.int4)),
        Dense(np.array([1.5, 2], ml_dtypes.bfloat16)),
        Dense(np.array([True, False])),
        Int8Affine(np.array([[1, 2]], np.int8), np.array([0.5], np.float16), np.array([1], np.int8)),
        Int8Affine(np.array([[1, 2]], np.uint8), np.array([0.5, 1], np.float32), axis=1),
        Palette(np.array([0, 1], np.uint8), np.array([1, 2], np.float16), 6),
        Sparse(np.array([[True, False]]), np.array([2], np.float16)),
        Blockwise(np.ones((2, 4), np.int8), np.ones((2, 2), np.float16), np.zeros((2, 2), np.int8)),
        Blockwise(np.ones((2, 4), ml_dtypes.uint4), np.ones((1, 1), np.float16)),
    ],
    ids=str,
)
def test_every_constant_comes_back(constant: Constant) -> None:
    body = bytearray()
    records: list[PartRecord] = []
    for one in part_records(constant, 0):
        body.extend(bytes(one.offset - len(body)))
        body.extend(store_part(constant.parts[one.name]).tobytes())
        assert len(body) == one.offset + one.nbytes
        records.append(one)
    record = ConstantRecord("t1.weights", constant.encoding, tuple(records))
    whole = np.frombuffer(bytes(body), np.uint8)
    assert constant_of(record, {one.name: read_part(one, whole) for one in records}) == constant


def test_indices_and_masks_take_the_bits_that_they_need(tmp_path: Path) -> None:
    weight = np.where(RANDOM.random((64, 1024)) < 0.2, 1.5, 0.0).astype(np.float16)
    x = af.input((1, 1024))
    for compress, most in (("int4", 33 << 10), ("sparse", 36 << 10)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", af.PrecisionWarning)
            model = af.compile(x.linear(weight), target="h16g", compress=compress)
        path = model.save(tmp_path / compress)
        stored = sum(constant.nbytes for constant in model.program.constants.values())
        assert stored < path.stat().st_size < most + 4096
        again = af.load_program(path)
        assert again.program.constants == model.program.constants
        sample = RANDOM.standard_normal((1, 1024))
        assert np.array_equal(cast("af.Model", again)(sample), model(sample))


def test_bits_behind_the_last_element_count_too() -> None:
    record = PartRecord("mask", "bool", (3,), 0, bits=1)
    found = read_part(record, np.array([0b101], np.uint8))
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [True, False, True]
    with pytest.raises(ProgramFileError, match="array 'mask': bits after its last element are set"):
        read_part(record, np.array([0b1101], np.uint8))


def test_a_program_of_huge_tensors_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = af.compile(af.input((1, 64)).relu(), target="h13").save(tmp_path / "net")
    text = program_text(af.load_program(path).program).encode()
    content = path.read_bytes()
    begin = sections(path)["text"][0]
    for extent in (b"64000000000000", b"4611686018427387904"):
        other = text.replace(b"fp16[1, 64]", b"fp16[1, " + extent + b"]")
        path.write_bytes(content[:begin] + other)
        rewritten(path, {"text": text_span(other), "nbytes": len(other)})
        with pytest.raises((RuntimeStateError, ProgramFileError), match=r"larger than the memory|damaged"):
            af.load_program(path)


def test_arrays_that_make_no_constant() -> None:
    with pytest.raises(
        ProgramFileError, match="constant @w is not a valid huffman constant: there is no such encoding"
    ):
        constant_of(ConstantRecord("w", "huffman", ()), {})
    with pytest.raises(ProgramFileError, match="constant @w is not a valid sparse constant"):
        constant_of(ConstantRecord("w", "sparse", ()), {"mask": np.array([True])})
    with pytest.raises(ProgramFileError, match="constant @w is not a valid int8 constant"):
        constant_of(ConstantRecord("w", "int8", ()), {})


# Damage


def sections(path: Path) -> dict[str, tuple[int, int]]:
    """Return where each section of a file lies."""
    content = path.read_bytes()
    _, _, header_bytes, _ = files.PREFIX.unpack_from(content)
    begin = align(files.PREFIX.size + header_bytes)
    header = msgspec.json.decode(content[files.PREFIX.size : files.PREFIX.size + header_bytes], type=Header)
    found = {
        "magic": (0, 8),
        "version": (8, 12),
        "header length": (12, 16),
        "header hash": (16, 48),
        "header": (48, 48 + header_bytes),
        "gap": (48 + header_bytes, begin),
        "text": (begin, begin + header.text.nbytes),
    }
    for record in header.constants:
        for part in record.parts:
            found[f"{record.symbol}.{part.name}"] = (begin + part.offset, begin + part.offset + part.nbytes)
    return found


EXPECTED = {
    "magic": "this is not a saved program",
    "version": "an older version|a later version",
    "header length": "damaged: its header|cut off",
    "header hash": "damaged: its header",
    "header": "damaged: its header",
    "gap": "damaged: bytes between",
    "text": "damaged: its text",
}


def test_a_changed_byte_anywhere_is_noticed(saved: Path) -> None:
    content = saved.read_bytes()
    for name, (begin, end) in sections(saved).items():
        for place in {begin, (begin + end) // 2, end - 1} if end > begin else ():
            changed = bytearray(content)
            changed[place] ^= 0x40
            saved.write_bytes(changed)
            with pytest.raises(ProgramFileError, match=EXPECTED.get(name, "damaged: constant|damaged: ")) as caught:
                af.load_program(saved)
            assert str(saved) in str(caught.value)


def test_every_byte_of_a_small_file_counts(tmp_path: Path) -> None:
    weight = np.ones((2, 2), np.float16)
    path = af.compile(af.input((1, 2)).linear(weight), target="h13").save(tmp_path / "net")
    content = path.read_bytes()
    for place in range(0, len(content), 7):  # a prime step over every section
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        with pytest.raises(ProgramFileError):
            af.load_program(path)


def test_a_file_that_is_cut_off_anywhere(saved: Path) -> None:
    content = saved.read_bytes()
    ends = {end for span in sections(saved).values() for end in (*span, span[0] + 1)} - {len(content)}
    for end in sorted(ends):
        saved.write_bytes(content[:end])
        with pytest.raises(ProgramFileError, match="cut off" if end else "not a saved program"):
            af.load_program(saved)


def test_a_file_with_something_behind_it(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(ProgramFileError, match="1 bytes follow its end"):
        af.load_program(saved)


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04" * 20, b"\x80\x04pickle", b"{}", b"program for h13 {\n}\n", bytes(100)]
)
def test_other_files_are_no_programs(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ProgramFileError, match="this is not a saved program"):
        af.load_program(path)


def rewritten(path: Path, change: dict[str, object]) -> None:
    """Write a file again with another header, whose hash is right."""
    content = path.read_bytes()
    _, _, header_bytes, _ = files.PREFIX.unpack_from(content)
    old_begin = align(files.PREFIX.size + header_bytes)
    header = msgspec.json.decode(content[files.PREFIX.size : files.PREFIX.size + header_bytes])
    header.update(change)
    written = msgspec.json.encode(header)
    prefix = files.PREFIX.pack(files.MAGIC, files.VERSION, len(written), hashlib.sha256(written).digest())
    start = prefix + written
    path.write_bytes(start + bytes(align(len(start)) - len(start)) + content[old_begin:])


def text_span(text: bytes, offset: int = 0) -> dict[str, object]:
    return {"offset": offset, "nbytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"unknown": 1}, "its header has another form"),
        ({"nbytes": "many"}, "its header has another form"),
        ({"nbytes": -64}, "bytes follow its end"),
        ({"nbytes": 1 << 60}, "cut off"),
        ({"text": {"offset": 64, "nbytes": 1, "sha256": ""}}, "wrong place of the text section"),
        ({"text": {"offset": 0, "nbytes": -1, "sha256": ""}}, "wrong place of the text section"),
        ({"text": {"offset": 0, "nbytes": 1 << 40, "sha256": ""}}, "wrong place of the text section"),
        ({"constants": []}, "its sections do not fill it"),
    ],
)
def test_a_header_that_lies_is_found_out(change: dict[str, object], text: str, saved: Path) -> None:
    rewritten(saved, change)
    with pytest.raises(ProgramFileError, match=text):
        af.load_program(saved)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"dtype": "fp7"}, "has the type fp7"),
        ({"shape": [-1, 4]}, r"has the type \w+ \[-1, 4\]"),
        ({"offset": 0}, "wrong offset of array"),
        ({"shape": [1 << 20, 1 << 20]}, "passes the end"),
        ({"shape": [1 << 62, 1 << 62]}, "passes the end"),
        ({"bits": 0}, "has elements of 0 bits"),
        ({"bits": 9}, "has elements of 9 bits"),
        ({"bits": 4}, "has elements of 4 bits"),
    ],
)
def test_a_record_that_lies_is_found_out(part: dict[str, object], text: str, saved: Path) -> None:
    content = saved.read_bytes()
    _, _, header_bytes, _ = files.PREFIX.unpack_from(content)
    header = msgspec.json.decode(content[files.PREFIX.size : files.PREFIX.size + header_bytes])
    header["constants"][0]["parts"][0].update(part)
    rewritten(saved, {"constants": header["constants"]})
    with pytest.raises(ProgramFileError, match=text):
        af.load_program(saved)


def test_what_a_later_version_wrote_is_said_to_be_that(saved: Path) -> None:
    content = saved.read_bytes()
    _, _, header_bytes, _ = files.PREFIX.unpack_from(content)
    header = msgspec.json.decode(content[files.PREFIX.size : files.PREFIX.size + header_bytes])
    facts = header["facts"] | {"warnings": [{"category": "LaterWarning", "message": "m"}]}
    rewritten(saved, {"facts": facts, "made_by": "9.9"})
    with pytest.raises(ProgramFileError, match=r"does not know what version 9\.9 wrote: unknown class of warnings"):
        af.load_program(saved)


def test_a_target_that_is_not_known(saved: Path) -> None:
    model = af.load_program(saved)
    content = saved.read_bytes()
    text = program_text(model.program).encode()
    begin = sections(saved)["text"][0]
    other = text.replace(b"program for h13 {", b"program for h99 {")
    saved.write_bytes(content[:begin] + other + content[begin + len(text) :])
    rewritten(saved, {"text": text_span(other)})
    with pytest.raises(ProgramFileError, match="unknown target 'h99'"):
        af.load_program(saved)


@pytest.mark.parametrize("other", ["h14", "m2", af.targets.Family.A16, "h13g"])
def test_a_program_is_never_another_targets(other: str | int, saved: Path) -> None:
    with pytest.raises(ProgramFileError, match="the program is for another target") as caught:
        af.load_program(saved, target=other)
    assert caught.value.seen == "h13"
    assert af.load_program(saved, target="m1").target == "h13"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        af.load_program(tmp_path / "nothing")


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copy(saved, kept)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "pad", full)
    with pytest.raises(OSError, match="No space left"):
        af.load_program(saved).save(kept)
    assert kept.read_bytes() == saved.read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_is_named_as_one(tmp_path: Path) -> None:
    """By the system's own error, which a limit on the length of files gives, too; NumPy's says nothing of a reason."""
    resource = pytest.importorskip("resource", reason="limits of a process are set by the system's own way")
    program = af.build_program(af.input((1, 256)).linear(np.ones((256, 256), np.float16)), "h13")
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, most))
        with pytest.raises(OSError, match="too large") as error:
            files.write_program_file(tmp_path / "net.aneprg", program, ModelFacts(n_ops=1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert error.value.errno == errno.EFBIG


def test_arrays_are_written_as_they_lie() -> None:
    for array in (np.arange(6, dtype=np.float16).reshape(2, 3).T, np.array(3, np.int8), np.zeros((0, 2))):
        assert bytes(files.content_of(array)) == array.tobytes()
    assert bytes(files.content_of(np.ones(3, ml_dtypes.bfloat16))) == b"\x80\x3f" * 3
