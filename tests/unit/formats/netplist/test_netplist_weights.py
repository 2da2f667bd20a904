"""Constants, kernels and weights files: where they lie, how they are laid out, and how they can be wrong."""

from __future__ import annotations

import mmap
import os
import sys
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from aneforge.errors import AneforgeError, GraphError, GraphTypeError
from aneforge.formats.netplist import netplist_weights, reading
from aneforge.formats.netplist.reading import load_netplist, parse_netplist
from aneforge.formats.netplist.sketch import Plain, Sketch, one_unit
from aneforge.graph.reference import reference
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.ops.types import Array


def constant_sketch(values: Array, **others: Plain) -> Sketch:
    """Return a sketch that shows one constant."""
    sketch = Sketch()
    sketch.constant("c", values, **others)
    sketch.output("y", "c", str(cast("dict[str, Plain]", sketch.network["c"])["ConstantType"]))
    return sketch


def shown_values(sketch: Sketch) -> Array:
    """Return the value of the constant."""
    return reference(parse_netplist(sketch.data(), sketch.weights))["y"]


def message_of(sketch: Sketch, files: dict[str, bytes] | None = None) -> str:
    """Return the message with which a description is refused."""
    with pytest.raises(AneforgeError) as caught:
        parse_netplist(sketch.data(), sketch.weights if files is None else files, file="net.plist")
    return str(caught.value)


# What lies where


@pytest.mark.parametrize("dtype", [np.float16, np.uint16, np.uint8, np.int8])
def test_element_types(dtype: type[np.generic]) -> None:
    values = np.arange(24).astype(dtype).reshape(2, 3, 1, 2, 2)
    np.testing.assert_array_equal(shown_values(constant_sketch(values)), values[:, :, 0])


def test_a_constant_with_depth_keeps_five_axes() -> None:
    values = np.arange(24).astype(np.float16).reshape(1, 2, 3, 2, 2)
    np.testing.assert_array_equal(shown_values(constant_sketch(values)), values)


def test_an_odd_offset() -> None:
    sketch = Sketch()
    sketch.payload += b"\xff"
    sketch.constant("c", np.arange(3, dtype=np.float16).reshape(1, 1, 1, 1, 3))
    sketch.output("y", "c")
    assert shown_values(sketch).ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize("interleave", [1, 2, 3, 6])
def test_interleaved_channels_are_taken_apart(interleave: int) -> None:
    values = np.arange(2 * 6 * 2 * 3).astype(np.float16).reshape(2, 6, 1, 2, 3)
    # Channels of a group lie side by side after the width.
    laid = np.moveaxis(values.reshape(2, 6 // interleave, interleave, 1, 2, 3), 2, -1)
    sketch = constant_sketch(values, ConstantInterleave=interleave)
    sketch.payload[:] = np.ascontiguousarray(laid).tobytes()
    np.testing.assert_array_equal(shown_values(sketch), values[:, :, 0])


def test_channels_that_do_not_interleave() -> None:
    text = message_of(constant_sketch(np.zeros((1, 5, 1, 1, 1), np.float16), ConstantInterleave=2))
    assert "constant 'c': 5 channels cannot be interleaved in groups of 2" in text
    assert "no source says how the last group is padded" in text


def test_two_constants_in_the_same_bytes() -> None:
    sketch = constant_sketch(np.ones((1, 1, 1, 1, 4), np.float16))
    cast("list[Plain]", sketch.network["Constants"]).append("d")
    sketch.network["d"] = {**cast("dict[str, Plain]", sketch.network["c"]), "ConstantName": "d"}
    sketch.output("z", "d")
    found = reference(parse_netplist(sketch.data(), sketch.weights))
    np.testing.assert_array_equal(found["y"], found["z"])


# What is wrong


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("ConstantIndex", 2, "constant 'c': ConstantIndex names no weights file (got 2, expected less than 2"),
        ("ConstantIndex", -1, "constant 'c': ConstantIndex is out of range (got -1"),
        ("ConstantByteOffset", 2, "constant 'c' passes the end of 'weights.1' (got bytes 2 to 10, limit 8 bytes)"),
        ("ConstantByteOffset", 2**63 - 1, "constant 'c' passes the end of 'weights.1'"),
        ("ConstantByteOffset", -1, "constant 'c': ConstantByteOffset is out of range (got -1"),
        ("ConstantWidth", 5, "constant 'c' passes the end of 'weights.1' (got bytes 0 to 10, limit 8 bytes)"),
        ("ConstantWidth", 2**62, "constant 'c' passes the end of 'weights.1' (got bytes 0 to 9223372036854775808"),
        ("ConstantWidth", 0, "constant 'c': ConstantWidth is out of range (got 0"),
        ("ConstantType", "Float32", "constant 'c': unknown element type in ConstantType 'Float32'"),
        ("ConstantName", "d", "constant 'c': ConstantName is not the key under which it is listed"),
        ("ConstantInterleave", 0, "constant 'c': ConstantInterleave is out of range (got 0"),
        ("ConstantPadding", 0, "constant 'c': unknown key 'ConstantPadding'"),
        ("ConstantIndex", 0, "constant 'c' passes the end of 'weights.0' (got bytes 0 to 8, limit 0 bytes)"),
    ],
)
def test_a_constant_that_is_wrong(key: str, value: Plain, message: str) -> None:
    text = message_of(constant_sketch(np.zeros((1, 1, 1, 1, 4), np.float16), **{key: value}))
    assert message in text
    assert "node 'c' of net.plist:" in text


def test_extents_whose_product_has_no_end() -> None:
    huge: dict[str, Plain] = dict.fromkeys(("ConstantWidth", "ConstantHeight", "ConstantDepth"), 2**62)
    text = message_of(constant_sketch(np.zeros((1, 1, 1, 1, 4), np.float16), **huge))
    assert "got more bytes than any file has" in text


def test_a_weights_file_that_is_missing() -> None:
    sketch = constant_sketch(np.zeros((1, 1, 1, 1, 4), np.float16))
    assert "constant 'c' is in a weights file that is missing (got 'weights.1', expected no weights files given)" in (
        message_of(sketch, {})
    )
    assert "expected 'weights.0')" in message_of(sketch, {"weights.0": b""})


def test_a_file_that_nothing_lies_in_may_be_missing() -> None:
    sketch = one_unit("Neuron", {"x": (1, 1, 1, 1, 1)}, {"Type": "ReLU"})
    assert len(parse_netplist(sketch.data()).nodes) == 2


def test_overlapping_constants() -> None:
    sketch = constant_sketch(np.zeros((1, 1, 1, 1, 4), np.float16))
    sketch.constant("d", np.zeros((1, 1, 1, 1, 4), np.float16), ConstantByteOffset=6)
    sketch.output("z", "d")
    text = message_of(sketch)
    assert "constant 'd' and constant 'c' overlap in 'weights.1' (got bytes 6 to 14, expected from 8 on)" in text


def test_a_kernel_that_overlaps_a_constant() -> None:
    sketch = constant_sketch(np.zeros((1, 1, 1, 1, 4), np.float16))
    sketch.input("x", {"channel": 4})
    params: dict[str, Plain] = {"Type": "Conv", "KernelMode": "Dense", "KernelIndex": 1, "KernelOffset": 0}
    sketch.unit("u", "Conv", ["x"], {**params, "KernelWidth": 1, "KernelHeight": 1}, OutputChannels=2)
    sketch.payload += bytes(16)
    sketch.output("z", "u")
    assert "the kernel of 'u' and constant 'c' overlap in 'weights.1'" in message_of(sketch)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"KernelIndex": 2}, "the kernel of 'u' is in a weights file that the network does not list (got 2"),
        ({"KernelOffset": 1}, "the kernel of 'u' passes the end of 'weights.1' (got bytes 1 to 9, limit 8 bytes)"),
        ({"KernelWidth": 2**40}, "the kernel of 'u' passes the end of 'weights.1'"),
        ({"KernelType": "Int8"}, "unknown KernelType 'Int8'"),
    ],
)
def test_a_kernel_that_is_wrong(params: dict[str, Plain], message: str) -> None:
    kernel = np.zeros((2, 2, 1, 1, 1), np.float16)
    known: dict[str, Plain] = {"Type": "Conv", "KernelMode": "Dense", "KernelWidth": 1, "KernelHeight": 1}
    sketch = one_unit("Conv", {"x": (1, 2, 1, 1, 1)}, known, kernel=kernel, OutputChannels=2)
    cast("dict[str, Plain]", cast("dict[str, Plain]", sketch.network["u"])["Params"]).update(params)
    assert message in message_of(sketch)


def test_weights_that_are_no_bytes() -> None:
    sketch = constant_sketch(np.zeros((1, 1, 1, 1, 4), np.float16))
    with pytest.raises(GraphTypeError, match=r"weights file 'weights\.1' is not given as bytes"):
        parse_netplist(sketch.data(), cast("dict[str, bytes]", {"weights.1": "text"}))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_weights_of_several_kinds(kind: type[bytes]) -> None:
    sketch = constant_sketch(np.arange(4, dtype=np.float16).reshape(1, 1, 1, 1, 4))
    graph = parse_netplist(sketch.data(), {"weights.1": kind(sketch.weights["weights.1"])})
    assert reference(graph)["y"].ravel().tolist() == [0, 1, 2, 3]


def test_a_file_of_other_elements_than_bytes() -> None:
    values = np.arange(4, dtype=np.float16).reshape(1, 1, 1, 1, 4)
    graph = parse_netplist(constant_sketch(values).data(), {"weights.1": memoryview(values.tobytes()).cast("H")})
    assert reference(graph)["y"].ravel().tolist() == [0, 1, 2, 3]


# Memory


def test_a_kernel_of_ones_is_bounded() -> None:
    params: dict[str, Plain] = {"Type": "Conv", "KernelMode": "Unity", "KernelWidth": 2**20, "KernelHeight": 2**20}
    sketch = one_unit("Conv", {"x": (1, 1, 1, 2**30, 2**30)}, params, OutputChannels=1)
    text = message_of(sketch)
    assert "the kernel of 'u' would take more memory than the weights files warrant (got 2199023255552 bytes" in text


def test_kernels_of_ones_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netplist_weights, "MOST_MADE", 100)
    sketch = Sketch()
    sketch.input("x", {"height": 4, "width": 4})
    params: dict[str, Plain] = {"Type": "Conv", "KernelMode": "Unity", "KernelWidth": 4, "KernelHeight": 4}
    for number in range(4):
        sketch.unit(f"u{number}", "Conv", ["x"], params, OutputChannels=1)
        sketch.output(f"y{number}", f"u{number}")
    assert "the kernel of 'u3' would take more memory than the weights files warrant (got 128 bytes" in message_of(
        sketch
    )


def test_copies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netplist_weights, "MOST_MADE", 0)
    sketch = constant_sketch(np.zeros((1, 4, 1, 1, 4), np.float16), ConstantInterleave=2)
    for number in range(4):
        cast("list[Plain]", sketch.network["Constants"]).append(f"d{number}")
        entry = cast("dict[str, Plain]", sketch.network["c"])
        sketch.network[f"d{number}"] = {**entry, "ConstantName": f"d{number}"}
    assert "constant 'd3' would take more memory than the weights files warrant" in message_of(sketch)


# Files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a description of a kernel of two megabytes."""
    kernel = np.arange(1 << 20, dtype=np.float16).reshape(1024, 1024, 1, 1, 1)
    params: dict[str, Plain] = {"Type": "Conv", "KernelMode": "Dense", "KernelWidth": 1, "KernelHeight": 1}
    with np.errstate(over="ignore"):
        sketch = one_unit("Conv", {"x": (1, 1024, 1, 1, 1)}, params, kernel=kernel, OutputChannels=1024)
    (tmp_path / "net.plist").write_bytes(sketch.data())
    for name, data in sketch.weights.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_weights_files_are_mapped_and_not_copied(folder: Path) -> None:
    graph = load_netplist(folder / "net.plist")
    (constant,) = graph.constants.values()
    assert isinstance(constant, Dense)
    base: object = constant.values
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, memoryview)
    assert isinstance(base.obj, mmap.mmap)
    assert not constant.values.flags.writeable


def test_a_folder_stands_for_its_description(folder: Path) -> None:
    assert load_netplist(folder) == load_netplist(str(folder / "net.plist"))


def test_locations_name_the_file(folder: Path) -> None:
    node = load_netplist(folder).outputs["y"].node
    assert node.location is not None
    assert node.location.file == str(folder / "net.plist")


def test_a_description_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="the file cannot be read: No such file or directory"):
        load_netplist(tmp_path / "lost.plist")
    with pytest.raises(GraphError, match="the file cannot be read: embedded null byte"):
        load_netplist("a\0b")
    with pytest.raises(GraphError, match="the file cannot be read: File name too long"):
        load_netplist(tmp_path / ("a" * 5000))


def test_a_weights_file_that_is_not_there(folder: Path) -> None:
    (folder / "weights.1").unlink()
    with pytest.raises(GraphError, match=r"the kernel of 'u' is in a weights file that is missing \(got 'weights.1'"):
        load_netplist(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", ".", "..", "a\\b", "a\0b"])
def test_a_weights_file_out_of_the_folder(tmp_path: Path, name: str) -> None:
    sketch = one_unit("Neuron", {"x": (1, 1, 1, 1, 1)}, {"Type": "ReLU"})
    sketch.network["Weights"] = [name]
    (tmp_path / "net.plist").write_bytes(sketch.data(binary=True))
    with pytest.raises(GraphError, match="the name of a weights file is not that of a file next to the description"):
        load_netplist(tmp_path)


def test_a_weights_file_whose_name_the_system_does_not_take(tmp_path: Path) -> None:
    sketch = one_unit("Neuron", {"x": (1, 1, 1, 1, 1)}, {"Type": "ReLU"})
    sketch.network["Weights"] = ["w" * 5000]
    (tmp_path / "net.plist").write_bytes(sketch.data())
    with pytest.raises(GraphError, match="the file cannot be read: File name too long"):
        load_netplist(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.plist")
    with pytest.raises(GraphError, match="it is not a plain file"):
        load_netplist(tmp_path)
    (tmp_path / "net.plist").unlink()
    sketch = one_unit("Neuron", {"x": (1, 1, 1, 1, 1)}, {"Type": "ReLU"})
    (tmp_path / "net.plist").write_bytes(sketch.data())
    os.mkfifo(tmp_path / "weights.1")
    with pytest.raises(GraphError, match="it is not a plain file"):
        load_netplist(tmp_path)


def test_a_description_that_is_too_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 10)
    with pytest.raises(GraphError, match=r"the description is too large \(limit 10 bytes\)"):
        load_netplist(folder)
