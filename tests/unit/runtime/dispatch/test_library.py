"""The dispatch library: its answers are the engine's, and whatever is wrong is an error code and a sentence."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.cli.main import run as run_command
from aneforge.errors import NotSupportedError, SliceSaturationWarning
from aneforge.formats.mil.blob import BlobWriter
from aneforge.runtime.dispatch import library
from dispatch_tools import INCREMENT, Abi, environment, needs_library

if TYPE_CHECKING:
    from aneforge.ops.types import Array

pytestmark = needs_library
NULL = ctypes.c_void_p(None)
FIRST, SECOND = ctypes.c_size_t(0), ctypes.c_size_t(1)
FOREIGN = ctypes.c_void_p(0x7F0012345678)
RANDOM = np.random.default_rng(11)


@pytest.fixture(scope="module")
def abi() -> Abi:
    """Return the library in this process."""
    return Abi.load()


@pytest.fixture(autouse=True)
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose what programs are compiled for."""
    monkeypatch.setenv("ANEFORGE_TARGET", "h13")


@pytest.fixture
def mil(tmp_path: Path) -> Path:
    """Return the file of a program that adds one to 64 values."""
    path = tmp_path / "model.mil"
    path.write_text(INCREMENT, encoding="utf-8")
    return path


@pytest.fixture
def handle(abi: Abi, mil: Path) -> ctypes.c_void_p:
    """Return that program, compiled."""
    found = abi.compile(mil, {"x": 128}, {"y": 128})
    assert found is not None
    return found


def pointer(array: Array) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def networks() -> dict[str, tuple[af.Tensor, list[Array]]]:
    """Return graphs of several kinds of layers, each with values for its inputs."""
    weight = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float16)
    image = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float16)
    rows = (RANDOM.standard_normal((4, 32)) * 30).astype(np.float16)
    bytes_ = RANDOM.integers(0, 256, (1, 5), np.uint8)  # an odd number, so the port is one byte longer
    a, b = af.input((4, 32), name="a"), af.input((4, 32), name="b")
    return {
        "convolution": (af.conv(af.input((1, 3, 8, 8), name="x"), weight, pad=1).gelu(), [image]),
        "softmax": (af.input((4, 32), name="x").softmax(), [rows]),
        "two inputs": (a * 3.0 - b.exp(), [rows, (rows / 30).astype(np.float16)]),
        "bytes": (af.input((1, 5), name="x", dtype="uint8").cast("fp16") * 0.1, [bytes_]),
    }


@pytest.mark.parametrize("name", networks())
@pytest.mark.parametrize("chip", ["h13", "h16g"])
def test_the_bits_are_those_of_the_engine(
    name: str, chip: str, abi: Abi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", chip)
    graph, values = networks()[name]
    af.save_mil(graph, tmp_path)
    names = list(af.Graph({"y": graph}).inputs)
    sizes = {port: array.nbytes + array.nbytes % 2 for port, array in zip(names, values, strict=True)}
    wanted = af.compile(graph, target=chip, opt=0).loaded.eval(*values)["y"]
    # Ports may come in any order.
    handle = abi.compile(tmp_path / "model.mil", dict(reversed(sizes.items())), {"y": wanted.nbytes})
    for port, array in zip(names, values, strict=True):
        padded = np.frombuffer(array.tobytes().ljust(sizes[port], b"\0"), np.uint16)
        assert (
            abi.call("program_set_input_fp16", handle, port.encode(), pointer(padded), ctypes.c_size_t(len(padded)))
            == 0
        )
    found = np.zeros(wanted.shape, np.float16)
    assert abi.call("program_execute", handle) == 0
    assert abi.call("program_get_output_fp16", handle, b"y", pointer(found), ctypes.c_size_t(found.size)) == 0
    assert np.array_equal(found.view(np.uint16), wanted.view(np.uint16))
    abi.call("program_release", handle)


def test_a_state_outlives_an_execution(abi: Abi, tmp_path: Path) -> None:
    total = af.state("total", (1, 32))
    af.save_mil(af.Graph({"y": total + af.input((1, 32), name="x")}, {"total": total + 1.0}), tmp_path)
    handle = abi.compile(tmp_path / "model.mil", {"x": 64}, {"y": 64})
    found = np.zeros(32, np.float16)
    for step in range(3):
        assert abi.call("program_execute", handle) == 0
        abi.call("program_get_output_fp16", handle, b"y", pointer(found), ctypes.c_size_t(32))
        assert found[0] == step
    abi.call("program_release", handle)


# What is wrong


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mil": None}, "the path of the MIL program is NULL"),
        ({"mil": "/nowhere/model.mil"}, "compile: /nowhere/model.mil: No such file or directory"),
        ({"mil": "/dev/zero"}, "compile: /dev/zero is not a regular file"),
        ({"mil": "/"}, "compile: / is not a regular file"),
        ({"mask": 1}, "device mask 0x1 has no Neural Engine (0x4)"),
        ({"inputs": {"x": 126}}, "port 'x' has more bytes than the client gave it (got 126, limit 128)"),
        ({"inputs": {"x": 0}}, "input port 'x' has 0 bytes"),
        ({"inputs": {"x": 1 << 60}}, f"input port 'x' has {1 << 60} bytes"),
        ({"inputs": {}}, "the client gave no bytes for input port 'x'"),
        ({"inputs": {"x": 128, "z": 128}}, "unknown input port 'z'"),
        ({"outputs": {"x": 128}}, "unknown output port 'x'"),
    ],
)
def test_what_cannot_be_compiled_is_null_with_a_reason(
    change: dict[str, object], said: str, abi: Abi, mil: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = {"mil": mil, "inputs": {"x": 128}, "outputs": {"y": 128}, "mask": 4} | change
    assert abi.compile(given["mil"], given["inputs"], given["outputs"], mask=given["mask"]) is None  # pyright: ignore[reportArgumentType] - one of them is of the wrong kind
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("program(1.3) { func main", "model.mil"),
        (INCREMENT.replace("add(", "no_such_operation("), "no_such_operation"),
        (INCREMENT.replace("fp16, [1, 64]> y", "fp16, [1, 63]> y"), "63"),
        (INCREMENT.replace("fp16", "int32").replace("0x1p+0", "1"), "int32"),
    ],
)
def test_a_program_that_cannot_be_read_says_why(
    text: str, said: str, abi: Abi, mil: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mil.write_text(text, encoding="utf-8")
    assert abi.compile(mil, {"x": 256}, {"y": 256}) is None
    printed = capfd.readouterr().err
    assert printed.startswith("ane_open: ")
    assert said in printed
    assert "Traceback" not in printed


WEIGHED = """program(1.3) { func main<ios18>(tensor<fp16, [1, 64]> x) {
  tensor<fp16, [1, 64]> w = const()[name = string("w"), val = tensor<fp16, [1, 64]>(
      BLOBFILE(path = string("@model_path/weights.bin"), offset = uint64(64)))];
  tensor<fp16, [1, 64]> y = add(x = x, y = w)[name = string("y")];
} -> (y); }
"""


def weights_of(value: float) -> bytes:
    writer = BlobWriter()
    writer.add(np.full(64, value, np.float16), "fp16")
    return writer.tobytes()


@pytest.mark.parametrize("later", [b"", weights_of(5)], ids=["truncated", "others"])
def test_weights_that_are_written_anew_are_not_those_of_a_program(later: bytes, abi: Abi, tmp_path: Path) -> None:
    (tmp_path / "model.mil").write_text(WEIGHED, encoding="utf-8")
    (tmp_path / "weights.bin").write_bytes(weights_of(3))
    handle = abi.compile(tmp_path / "model.mil", {"x": 128}, {"y": 128})
    (tmp_path / "weights.bin").write_bytes(later)
    found = np.zeros(64, np.float16)
    assert abi.call("program_execute", handle) == 0
    abi.call("program_get_output_fp16", handle, b"y", pointer(found), ctypes.c_size_t(64))
    assert (found == 3).all()
    abi.call("program_release", handle)


def test_weights_that_nobody_writes(abi: Abi, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.mil").write_text(WEIGHED, encoding="utf-8")
    os.mkfifo(tmp_path / "weights.bin")
    assert abi.compile(tmp_path / "model.mil", {"x": 128}, {"y": 128}) is None
    assert "not a regular file" in capfd.readouterr().err


def test_null_arrays_of_names(abi: Abi, mil: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one, path, mask = ctypes.c_size_t(1), os.fsencode(mil), ctypes.c_uint64(4)
    compile_ = abi.library.ane_e5rt_program_compile
    assert compile_(path, None, mask, None, None, one, None, None, ctypes.c_size_t(0)) is None
    assert "names or sizes of input ports are NULL" in capfd.readouterr().err
    names = (ctypes.c_char_p * 1)(None)
    assert compile_(path, None, mask, names, (ctypes.c_size_t * 1)(128), one, None, None, ctypes.c_size_t(0)) is None
    assert "the name of input port 0 is NULL" in capfd.readouterr().err
    assert (
        compile_(path, None, mask, names, (ctypes.c_size_t * 1)(128), ctypes.c_size_t(1 << 40), None, None, one) is None
    )
    assert f"{1 << 40} input ports, and at most 65536 are possible" in capfd.readouterr().err


HANDLED = {
    "program_set_input_fp16": (b"x", NULL, ctypes.c_size_t(0)),
    "program_get_output_fp16": (b"y", NULL, ctypes.c_size_t(0)),
    "program_execute": (),
    "program_input_buffer": (b"x", NULL, NULL),
    "program_output_buffer": (b"y", NULL, NULL),
    "program_share_buffer": (FIRST, b"y", FIRST, b"x"),
    "program_add_op": (b"/nowhere", b"x", ctypes.c_size_t(2), b"y", ctypes.c_size_t(2)),
    "program_set_input_fp16_op": (FIRST, b"x", NULL, ctypes.c_size_t(0)),
    "program_get_output_fp16_op": (FIRST, b"y", NULL, ctypes.c_size_t(0)),
    "program_execute_multi": (),
    "program_chain_ops": (FIRST, SECOND, b"event"),
    "program_get_event_last_signaled": (FIRST, NULL),
    "program_get_chain_event_last_signaled": (FIRST, NULL),
    "program_execute_async": (),
    "program_wait_for_completion": (),
    "program_get_final_event_signaled": (NULL, NULL),
}
"""Functions of a handle, with arguments that are fine otherwise."""


@pytest.mark.parametrize("name", HANDLED)
def test_a_handle_that_is_not_one(
    name: str, abi: Abi, handle: ctypes.c_void_p, capfd: pytest.CaptureFixture[str]
) -> None:
    abi.call("program_release", handle)
    capfd.readouterr()
    for bad in (NULL, FOREIGN, handle):
        assert abi.call(name, bad, *HANDLED[name]) == -1
    function = name.removeprefix("program_")
    assert capfd.readouterr().err.splitlines() == [
        f"ane_open: {function}: the handle is NULL",
        f"ane_open: {function}: there is no such handle, or it was released",
        f"ane_open: {function}: there is no such handle, or it was released",
    ]


def test_no_handle_has_no_operations(abi: Abi, handle: ctypes.c_void_p) -> None:
    assert abi.library.ane_e5rt_program_get_op_count(handle) == 1
    assert abi.library.ane_e5rt_program_get_op_count(NULL) == 0


def test_the_header_and_this_table_have_the_same_functions() -> None:
    header = (Path(library.__file__).parent / "native" / "ane_open.h").read_text(encoding="utf-8")
    named = {part.split("(")[0].split()[-1].lstrip("*") for part in header.split("ANE_OPEN_EXPORT ")[2:]}
    others = {
        "program_get_op_count",
        "program_compile",
        "program_release",
        "compile_check",
        "make_completion_block",
        "free_completion_block",
    }
    named -= {"ane_open_use_target", "ane_open_lend_port"}  # which no other library has
    assert {name.removeprefix("ane_e5rt_") for name in named} == HANDLED.keys() | others


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("set_input_fp16", (b"z", NULL, ctypes.c_size_t(0)), "operation 0 has no input port 'z'"),
        ("set_input_fp16", (b"y", NULL, ctypes.c_size_t(0)), "operation 0 has no input port 'y'"),
        ("set_input_fp16", (None, NULL, ctypes.c_size_t(0)), "the name of the port is NULL"),
        ("set_input_fp16", (b"x", NULL, ctypes.c_size_t(1)), "the values for port 'x' are NULL"),
        ("set_input_fp16", (b"x", FOREIGN, ctypes.c_size_t(65)), "port 'x' has 128 bytes, and 65 elements of 2"),
        ("set_input_fp16", (b"x", FOREIGN, ctypes.c_size_t(1 << 63)), "port 'x' has 128 bytes"),
        ("get_output_fp16", (b"x", NULL, ctypes.c_size_t(0)), "operation 0 has no output port 'x'"),
        ("get_output_fp16", (b"y", NULL, ctypes.c_size_t(1)), "the place for port 'y' is NULL"),
        ("set_input_fp16_op", (SECOND, b"x", NULL, ctypes.c_size_t(0)), "there is no operation 1; the program has 1"),
        ("get_output_fp16_op", (ctypes.c_size_t(-1), b"y", NULL, FIRST), "there is no operation 18446744073709551615;"),
        ("share_buffer", (FIRST, b"z", FIRST, b"x"), "operation 0 has no output port 'z'"),
        ("share_buffer", (FIRST, b"y", ctypes.c_size_t(2), b"x"), "there is no operation 2; the program has 1"),
        ("chain_ops", (FIRST, FIRST, b"event"), "operation 0 cannot wait for operation 0 of 1"),
        ("chain_ops", (FIRST, SECOND, b""), "eventName is NULL"),
        ("get_event_last_signaled", (ctypes.c_size_t(7), NULL), "there is no operation 7; the program has 1"),
        ("add_op", (b"/nowhere", b"x", ctypes.c_size_t(2), b"y", ctypes.c_size_t(2)), "add_op: /nowhere: No such file"),
    ],
)
def test_arguments_that_are_wrong(
    name: str,
    arguments: tuple[object, ...],
    said: str,
    abi: Abi,
    handle: ctypes.c_void_p,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert abi.call(f"program_{name}", handle, *arguments) == -1
    assert said in capfd.readouterr().err
    assert abi.call("program_execute", handle) == 0  # and nothing is lost
    abi.call("program_release", handle)


def test_a_buffer_that_is_too_small_is_not_shared(
    abi: Abi, handle: ctypes.c_void_p, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    large = tmp_path / "large.mil"
    large.write_text(INCREMENT.replace("64", "640"), encoding="utf-8")
    arguments = (os.fsencode(large), b"x", ctypes.c_size_t(1280), b"y", ctypes.c_size_t(1280))
    assert abi.call("program_add_op", handle, *arguments) == 1
    assert abi.call("program_share_buffer", handle, FIRST, b"y", SECOND, b"x") == -1
    assert "port 'x' has more bytes than the client gave it" in capfd.readouterr().err
    assert abi.call("program_execute_multi", handle) == 0
    abi.call("program_release", handle)


def test_a_buffer_that_is_lent_outlives_its_program(abi: Abi, mil: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def lend(source: object, output: bytes, sink: object, to_input: bytes) -> int:
        return abi.library.ane_open_lend_port(source, 1, output, sink, 0, to_input)

    source, sink, other = (abi.compile(mil, {"x": 128}, {"y": 128}) for _ in range(3))
    assert lend(source, b"y", sink, b"x") == 0
    assert abi.call("program_execute", source) == 0
    assert abi.call("program_execute", sink) == 0
    abi.call("program_release", source)
    found = np.zeros(64, np.float16)
    assert abi.call("program_execute", sink) == 0
    assert abi.call("program_get_output_fp16", sink, b"y", pointer(found), ctypes.c_size_t(64)) == 0
    assert (found == 2).all()
    assert abi.call("program_set_input_fp16", sink, b"x", pointer(found), ctypes.c_size_t(64)) == 0
    capfd.readouterr()
    for wrong in ((source, b"y", other, b"x"), (other, b"y", NULL, b"x"), (other, b"z", other, b"x")):
        assert lend(*wrong) == -1
    fresh = abi.compile(mil, {"x": 128}, {"y": 128})
    for wrong in ((fresh, b"z", other, b"x"), (fresh, b"y", other, b"z"), (fresh, b"y", sink, b"x")):
        assert lend(*wrong) == -1
    assert [line.removeprefix("ane_open: lend_port: ") for line in capfd.readouterr().err.splitlines()] == [
        "there is no such handle, or it was released",
        "the handle is NULL",
        "operation 0 has no output port 'z'",
        "operation 0 has no output port 'z'",
        "operation 0 has no input port 'z'",
        "a program takes buffers before its first execution",
    ]
    assert lend(other, b"y", other, b"x") == 0  # with itself
    assert abi.library.ane_open_lend_port(other, 1, b"y", fresh, 2, b"x") == -1
    assert "direction 2 is neither 0 (input) nor 1 (output)" in capfd.readouterr().err
    for one in (sink, other, fresh):
        abi.call("program_release", one)


def test_ports_of_both_directions_are_lent(abi: Abi, mil: Path) -> None:
    first, second = (abi.compile(mil, {"x": 128}, {"y": 128}) for _ in range(2))
    lend, found = abi.library.ane_open_lend_port, np.zeros(64, np.float16)
    assert abi.call("program_share_buffer", first, FIRST, b"y", FIRST, b"x") == 0
    assert abi.call("program_execute", first) == 0  # a program that ran may lend
    assert lend(first, 0, b"x", second, 0, b"x") == 0
    assert lend(first, 0, b"x", second, 1, b"y") == 0
    for one in (second, first, second):
        assert abi.call("program_execute", one) == 0
    abi.call("program_release", first)
    assert abi.call("program_execute", second) == 0
    assert abi.call("program_get_output_fp16", second, b"y", pointer(found), ctypes.c_size_t(64)) == 0
    assert (found == 5).all()
    abi.call("program_release", second)


# Targets


def test_an_unknown_target_is_an_error_with_the_nearest_names(
    abi: Abi, mil: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "h13zz")
    assert abi.compile(mil, {"x": 128}, {"y": 128}) is None
    assert "h13" in capfd.readouterr().err


SINE = INCREMENT.replace("add(x = x, y = one)", "sin(x = x)")


def checked(abi: Abi, path: Path, options: str | None) -> int:
    return abi.call(
        "compile_check", os.fsencode(path), None, ctypes.c_uint64(4), None if options is None else options.encode()
    )


def test_compile_check_says_what_a_target_takes_as_it_is(
    abi: Abi, mil: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sine = tmp_path / "sine.mil"
    sine.write_text(SINE, encoding="utf-8")
    assert checked(abi, mil, None) == 0
    assert checked(abi, mil, "TargetArchitecture=h17s") == 0
    assert checked(abi, sine, "TargetArchitecture=h13") == -1  # our compiler would build it from others
    assert checked(abi, sine, "TargetArchitecture=h16g") == 0
    capfd.readouterr()
    assert checked(abi, mil, "TargetArchitecture=zzz") == -1  # never the host's
    assert "unknown TargetArchitecture 'zzz'" in capfd.readouterr().err
    assert checked(abi, mil, "TargetArchitecture=m1") == -1  # a chip is not an architecture
    assert checked(abi, mil, "Architecture=h13") == -2
    assert checked(abi, tmp_path / "none.mil", None) == -1


# The cache folder of the client


def test_a_cache_folder_is_not_needed(abi: Abi, mil: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    for cache in (tmp_path / "missing", taken, "/proc", "x" * 5000):
        assert abi.compile(mil, {"x": 128}, {"y": 128}, cache=cache) is not None
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "missing").exists()


# The library as a backend


def test_as_a_backend_it_computes_for_the_target_and_says_that_it_is_no_silicon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANEFORGE_DYLIB", str(library.library_path()))
    monkeypatch.setenv("ANEFORGE_TARGET", "h13")  # what a model is compiled for counts
    crop = af.input((1, 4, 1, 64), name="x").slice_by_size((0, 0, 0, 3), (1, 4, 1, 8))
    large = np.full((1, 4, 1, 64), 5000.0)
    for chip in ("h13", "h16g"):
        with pytest.warns(SliceSaturationWarning) if chip == "h13" else nullcontext():
            here, there = (af.compile(crop, target=chip, backend=name) for name in ("software", "e5rt"))
        assert np.array_equal(here(large), there(large))
        assert "a software engine through a dispatch library" in str(there.exactness)
        assert there.exactness.exactness == "modelled"


# The interpreter, and other packages of our name

CLIENT = """
import ctypes, os, sys
import aneforge
print(aneforge.WHOSE)
library = ctypes.CDLL(os.environ["ANEFORGE_DYLIB"])
library.ane_e5rt_program_compile.restype = ctypes.c_void_p
names = [(ctypes.c_char_p * 1)(name) for name in (b"x", b"y")]
size, one = (ctypes.c_size_t * 1)(128), ctypes.c_size_t(1)
handle = ctypes.c_void_p(library.ane_e5rt_program_compile(
    sys.argv[1].encode(), None, ctypes.c_uint64(4), names[0], size, one, names[1], size, one))
print(library.ane_e5rt_program_execute(handle))
"""


@pytest.fixture
def strange(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `import aneforge` is another package, and everything points elsewhere."""
    other = tmp_path / "other" / "aneforge"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text('WHOSE = "theirs"\n')
    elsewhere = str(tmp_path / "nowhere")
    return environment(
        PYTHONPATH=str(other.parent), VIRTUAL_ENV=elsewhere, ANEFORGE_DYLIB=str(library.library_path()), LANG="C"
    )


def test_the_engine_is_ours_whatever_the_client_imports(mil: Path, tmp_path: Path, strange: dict[str, str]) -> None:
    assert library.record_interpreter() is None
    record = tmp_path / "record.json"
    strange["ANEFORGE_TRACE"] = str(record)
    folder = tmp_path / "other"
    ended = subprocess.run(
        [sys.executable, "-c", CLIENT, mil], check=True, capture_output=True, text=True, env=strange, cwd=folder
    )
    assert ended.stdout == "theirs\n0\n"
    events = json.loads(record.read_text(encoding="utf-8"))
    assert [event["name"] for event in events] == ["compile", "execute"]
    about = events[0]["args"]["about"]
    assert (about["target"], about["inputs"], about["exactness"]) == ("h13", {"x": "fp16[1, 64]"}, "exact")


def test_an_interpreter_that_is_not_there(mil: Path, strange: dict[str, str]) -> None:
    strange["ANEFORGE_ENGINE_PYTHON"] = "/no/such/python"
    ended = subprocess.run([sys.executable, "-c", CLIENT, mil], check=True, capture_output=True, text=True, env=strange)
    assert ended.stdout == "theirs\n-1\n"
    assert "the interpreter of the engine cannot be run: /no/such/python: No such file" in ended.stderr


def test_an_interpreter_without_the_engine_is_an_error_and_not_a_hang(mil: Path, strange: dict[str, str]) -> None:
    strange["ANEFORGE_ENGINE_PYTHON"] = "/bin/true"
    ended = subprocess.run([sys.executable, "-c", CLIENT, mil], check=True, capture_output=True, text=True, env=strange)
    assert ended.stdout == "theirs\n-1\n"
    assert "the engine's process" in ended.stderr


def test_the_command_prints_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["dispatch-library"]) == 0
    assert capsys.readouterr().out == f"{library.PATH}\n"
    assert library.RECORD.read_text(encoding="utf-8") == f"{sys.executable}\n"


def test_a_folder_that_cannot_be_written_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(library, "RECORD", tmp_path / "missing" / "libane_open.python")
    assert run_command(["dispatch-library"]) == 0
    assert f"set ANEFORGE_ENGINE_PYTHON={sys.executable} for clients" in capsys.readouterr().err


def test_a_library_that_is_not_built_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "PATH", tmp_path / "libane_open.so")
    with pytest.raises(NotSupportedError, match="the dispatch library is not built"):
        library.library_path()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NotSupportedError, match='on a Mac the backend "e5rt" reaches the engine itself'):
        library.library_path()
