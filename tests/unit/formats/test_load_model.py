"""The one front door: every format is found by its content, and what is none gets one sentence."""

from __future__ import annotations

import os
import plistlib
import shutil
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError
from aneforge.formats import detection
from aneforge.formats.detection import ModelFormat
from aneforge.formats.mil.blob import BlobWriter
from aneforge.formats.model import LoadedGraph
from aneforge.runtime.saved.files import MAGIC

if TYPE_CHECKING:
    from pathlib import Path


def graph() -> af.Graph:
    return af.Graph({"y": af.input((1, 8, 1, 4), name="x").relu()})


def onnx_file(path: Path) -> Path:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    helper = onnx.helper
    ports = [helper.make_tensor_value_info(name, 1, [1, 4]) for name in "xy"]
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    path.write_bytes(helper.make_model(made).SerializeToString())
    return path


def package(folder: Path) -> Path:
    pytest.importorskip("coremltools", reason="coremltools is not installed")
    return af.save_mlpackage(graph(), folder / "a.mlpackage")


def test_an_onnx_model_is_found_whatever_its_name(tmp_path: Path) -> None:
    loaded = af.load_model(onnx_file(tmp_path / "model.mlmodel"))
    assert isinstance(loaded, LoadedGraph)
    assert loaded.format is ModelFormat.ONNX
    assert repr(loaded) == f"<ONNX model {loaded.path}: graph of 2 nodes: x -> y>"
    assert af.reference(loaded, [np.array([[-1.0, 2, -3, 4]])])["y"].tolist() == [[0, 2, 0, 4]]


def test_packages_and_model_files_are_found(tmp_path: Path) -> None:
    path = package(tmp_path)
    plain = tmp_path / "folder"
    shutil.copytree(path, plain)
    file = tmp_path / "model.onnx"
    shutil.copy(path / "Data/com.apple.CoreML/model.mlmodel", file)
    assert af.load_model(path).format is ModelFormat.ML_PACKAGE
    assert af.load_model(str(plain)).format is ModelFormat.ML_PACKAGE
    assert af.load_model(file).format is ModelFormat.ML_MODEL


def test_text_and_descriptions_are_found(tmp_path: Path) -> None:
    model = af.save_mil(graph(), tmp_path / "mil")
    assert af.load_model(model).format is af.load_model(model.parent).format is ModelFormat.MIL
    spaced = tmp_path / "anything"
    spaced.write_bytes(b"\n  " + model.read_bytes())
    shutil.copy(model.parent / "weights.bin", tmp_path)
    assert af.load_model(spaced).format is ModelFormat.MIL
    description = af.save_netplist(graph(), tmp_path / "net")
    assert af.load_model(description).format is ModelFormat.NETPLIST
    content = plistlib.loads(description.read_bytes())
    binary = description.with_name("binary.onnx")
    binary.write_bytes(plistlib.dumps(content, fmt=plistlib.FMT_BINARY))
    xml = description.with_name("text.pt2")
    xml.write_bytes(plistlib.dumps(content, fmt=plistlib.FMT_XML))
    for file in (binary, xml):
        assert af.load_model(file).format is ModelFormat.NETPLIST


def test_an_exported_program_is_found(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    file = tmp_path / "model.bin"
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.zeros(1, 4),)), tmp_path / "model.pt2")
    (tmp_path / "model.pt2").rename(file)
    loaded = af.load_model(file)
    assert loaded.format is ModelFormat.EXPORTED
    assert [node.op.name for node in loaded.nodes] == ["input", "relu"]


def test_options_go_to_formats_that_have_them(tmp_path: Path) -> None:
    model = af.save_mil(graph(), tmp_path)
    assert af.load_model(model, function="main").format is ModelFormat.MIL
    with pytest.raises(
        GraphError,
        match=r"values= cannot be used with a file of this format \(got MIL text, expected shapes, function\)",
    ):
        af.load_model(model, values={"x": np.zeros((1, 2))})


NONE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "noise": (b"\x00\x01\x02\x03" * 99, r"begins with b'\\x00\\x01"),
    "text": (b"hello, this is a letter", "begins with b'hello, this '"),
    "pickle": (b"\x80\x04\x95", r"a pickle, .* never read because it can run code.*torch\.export\.save"),
    "newest pickle": (b"\x80\x05\x95", "a pickle"),
    "hdf5": (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes them.*coremltools"),
    "tflite": (b"\x1c\x00\x00\x00TFL3", "a TensorFlow Lite model.*to ONNX"),
    "gguf": (b"GGUF\x03\x00\x00\x00", r"weights in GGUF, without a graph.*torch\.export\.save"),
    "safetensors": (
        b"\x3a" + bytes(7) + b'{"w":{"dtype":"F32","shape":[1]',
        r"weights in safetensors.*torch\.export\.save",
    ),
    "array": (b"\x93NUMPY\x01\x00", "a NumPy array.*--inputs"),
    "program": (b"\x89ANEPRG\n\x02\x00\x00\x00", "a program that was compiled for one target.*aneforge run FILE"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    "huge varint": (b"\xff" * 64, "unknown format: expected ONNX model, "),
    "cut zip": (b"PK\x03\x04broken", "a zip archive that is cut off"),
    "huge length": (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "unknown format: expected ONNX model, "),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_model_gets_one_sentence(name: str, tmp_path: Path) -> None:
    content, message = NONE[name]
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(GraphError, match=message) as raised:
        af.load_model(file)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_not_there_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="there is no such file"):
        af.load_model(tmp_path / "none.onnx")
    with pytest.raises(GraphError, match="the folder is not a model"):
        af.load_model(tmp_path)
    with pytest.raises(GraphTypeError, match="a model is loaded from a path"):
        af.load_model(3)  # pyright: ignore[reportArgumentType] - the wrong sort is what is tested
    with pytest.raises(GraphError, match="there is no such file"):
        af.load_model("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GraphError, match="it is neither a file nor a folder"):
        af.load_model(tmp_path / "pipe")


def test_a_saved_program_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    assert detection.SAVED_PROGRAM == MAGIC, "the writer is in a later room"
    path = af.compile(af.input((1, 2)).relu(), target="m4").save(tmp_path / "net.aneprg")
    assert detection.is_program_file(path)
    assert not detection.is_program_file(onnx_file(tmp_path / "model.onnx"))
    assert not detection.is_program_file(tmp_path)
    assert not detection.is_program_file("a\0b")
    os.mkfifo(tmp_path / "pipe")
    assert not detection.is_program_file(tmp_path / "pipe"), "nobody would write into it"


COMPILED_MODELS = {
    "model.espresso.net": ("a compiled Core ML model (.mlmodelc) of a neural network", "convert_to='mlprogram'"),
    "coremldata.bin": ("a compiled Core ML model (.mlmodelc) without a program", "that it was compiled from"),
    "com.apple.CoreML": ("the inside of an ML package", "give the folder above"),
    "model.mlmodel": ("the inside of an ML package", "or the file model.mlmodel"),
    "saved_model.pb": ("a TensorFlow saved model", "with coremltools"),
}


@pytest.mark.parametrize("name", COMPILED_MODELS)
def test_a_folder_that_looks_like_a_model_is_named(name: str, tmp_path: Path) -> None:
    seen, remedy = COMPILED_MODELS[name]
    (tmp_path / name).write_bytes(b"-")
    with pytest.raises(GraphError, match="the folder is not a model that can be read") as raised:
        af.load_model(tmp_path)
    assert seen in str(raised.value)
    assert remedy in str(raised.value)


COMPILED = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-version", "1877.40.3"}})]
{
    func main<ios16>(tensor<fp32, [?, 2]> x) [FlexibleShapeInformation = tuple<tuple<tensor<string, []>,
            dict<tensor<string, []>, tensor<int32, [?]>>>>((("DefaultShapes", {{"x", [1, 2]}})))] {
        tensor<fp32, [2]> w = const()[name = tensor<string, []>("w"), val = tensor<fp32, [2]>(BLOBFILE(
            path = tensor<string, []>("@model_path/weights/weight.bin"), offset = tensor<uint64, []>(64)))];
        tensor<fp32, [?, 2]> y = mul(x = x, y = w)[name = tensor<string, []>("y")];
    } -> (y);
}
"""


def test_a_compiled_model_is_read_from_its_program(tmp_path: Path) -> None:
    folder = tmp_path / "small.mlmodelc"
    (folder / "weights").mkdir(parents=True)
    writer = BlobWriter()
    writer.add(np.array([2.0, 3.0], np.float32), "fp32")
    (folder / "weights" / "weight.bin").write_bytes(writer.tobytes())
    (folder / "model.mil").write_text(COMPILED, encoding="utf-8")
    (folder / "coremldata.bin").write_bytes(b"-")
    with pytest.raises(GraphError, match="x has an axis of unknown length"):
        af.load_model(folder)
    with pytest.raises(GraphError, match="input 'x' has another shape"):
        af.load_model(folder, shapes={"x": (3, 3)})
    loaded = af.load_model(folder, shapes={"x": (3, 2)})
    assert loaded.format is ModelFormat.MIL
    assert af.reference(loaded, [np.ones((3, 2))])["y"].tolist() == [[2.0, 3.0]] * 3


ARCHIVES = {
    "state dict": (
        ("archive/data.pkl", "archive/data/0"),
        "a file of torch.save, with a state dict",
        "load the weights",
    ),
    "TorchScript": (("ts/data.pkl", "ts/code/model.py", "ts/constants.pkl"), "TorchScript", "scripted from"),
    "Keras": (("config.json", "model.weights.h5"), "a Keras model", "coremltools"),
    "arrays": (("x.npy",), "NumPy arrays", "--inputs"),
    "package": (("a.mlpackage/Manifest.json",), "a packed ML package", "unpack it"),
    "anything": (("letter.txt",), "a zip archive that torch.export did not write)", "torch.export.save"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_of_something_else_is_named(name: str, tmp_path: Path) -> None:
    members, seen, remedy = ARCHIVES[name]
    with zipfile.ZipFile(tmp_path / "a.pt2", "w") as archive:
        for member in members:
            archive.writestr(member, b"")
    with pytest.raises(GraphError, match="the file is not a model that can be read") as raised:
        af.load_model(tmp_path / "a.pt2")
    assert seen in str(raised.value)
    assert remedy in str(raised.value)


def test_files_of_torch_are_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "weights.pt")
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for file, words in (("weights.pt", "a state dict or a pickled model"), ("old.pt", "a pickle, as torch.save wrote")):
        with pytest.raises(GraphError, match=words):
            af.load_model(tmp_path / file)


@pytest.mark.parametrize("cut", [30, 200, 2000])
def test_an_exported_program_that_is_cut_off_is_named(tmp_path: Path, cut: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.zeros(1, 3),))
    torch.export.save(program, tmp_path / "whole.pt2")
    (tmp_path / "cut.pt2").write_bytes((tmp_path / "whole.pt2").read_bytes()[:-cut])
    with pytest.raises(GraphError, match="a zip archive that is cut off: it has no directory at its end"):
        af.load_model(tmp_path / "cut.pt2")


def test_an_archive_with_a_comment_is_not_cut_off(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x.npy", b"")
        archive.comment = b"a comment"
    with pytest.raises(GraphError, match="NumPy arrays"):
        af.load_model(tmp_path / "a.zip")
