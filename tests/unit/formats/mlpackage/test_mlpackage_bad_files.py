"""Packages that cannot be read: each gets one clear error, in bounded time and memory."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import sys
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import AneforgeError, GraphError, NotSupportedError
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mlpackage import messages, translation
from aneforge.formats.mlpackage.mlpackage_model import from_mlpackage, load_mlpackage, parse_model
from unit.formats.mlpackage.package_files import MODEL, WEIGHTS, changed, operation, saved

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aneforge.formats.mlpackage.messages import Model

pytest.importorskip("coremltools", reason="coremltools, whose protobuf classes read packages, is not installed")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package with weights in its blob."""
    weights = np.linspace(-1, 1, 12).reshape(3, 4).astype(np.float16)
    return saved(af.Graph({"y": af.input((1, 4), name="x").linear(weights).relu()}), tmp_path)


def manifest(package: Path, **entries: object) -> None:
    """Change entries of the manifest."""
    file = package / "Manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | entries), encoding="utf-8")


def item(path: str) -> dict[str, object]:
    return {"itemInfoEntries": {"a": {"path": path}}, "rootModelIdentifier": "a"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../../secret.mlmodel", "the model file is not inside of the package"),
        ("/etc/passwd", "the model file cannot be opened"),
        ("com.apple.CoreML/../../Manifest.json", "the model file is not inside of the package"),
        ("com.apple.CoreML\\model.mlmodel", "the model file is not inside of the package"),
        ("com.apple.CoreML/\0model.mlmodel", "the model file is not inside of the package"),
        ("com.apple.CoreML/none.mlmodel", "the model file cannot be opened: No such file or directory"),
        ("com.apple.CoreML", "the model file is not a regular file"),
        ("x" * 5000, "the model file cannot be opened: File name too long"),
        ("com.apple.CoreML/" + "é\u202e", "the model file cannot be opened: No such file or directory"),
    ],
)
def test_a_manifest_names_a_file_of_the_package(path: str, message: str, package: Path) -> None:
    manifest(package, **item(path))
    with pytest.raises(GraphError, match=message):
        load_mlpackage(package)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"itemInfoEntries": 3}', b"[" * 100_000, b'"' * 99]
)
def test_a_manifest_that_is_none(content: bytes, package: Path) -> None:
    (package / "Manifest.json").write_bytes(content)
    with pytest.raises(GraphError, match="the manifest of the package cannot be read"):
        load_mlpackage(package)


def test_a_manifest_without_a_model(package: Path) -> None:
    manifest(package, rootModelIdentifier="nothing")
    with pytest.raises(GraphError, match="the manifest names no model"):
        load_mlpackage(package)
    (package / "Manifest.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(GraphError, match=r"the manifest is too large \(got 1048577 bytes, limit 1048576 bytes\)"):
        load_mlpackage(package)
    (package / "Manifest.json").unlink()
    with pytest.raises(GraphError, match=r"the folder is not an ML package \(got no Manifest.json\)"):
        load_mlpackage(package)


def test_links_out_of_the_package_are_not_followed(package: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    os.replace(package / WEIGHTS, outside)  # noqa: PTH105 - a move of a file of the package
    (package / WEIGHTS).symlink_to(outside)
    with pytest.raises(MilError, match="MIL-BLOB-002"):
        load_mlpackage(package)
    (package / WEIGHTS).unlink()
    (package / WEIGHTS).symlink_to(package / WEIGHTS)
    with pytest.raises(MilError, match="MIL-BLOB-001"):
        load_mlpackage(package)
    (package / WEIGHTS).unlink()
    os.mkfifo(package / WEIGHTS)
    with pytest.raises(MilError, match="not a regular file"):
        load_mlpackage(package)


def test_every_truncation_is_one_error(package: Path) -> None:
    content = (package / MODEL).read_bytes()
    weights = package / WEIGHTS
    for length in range(0, len(content), 3):
        with contextlib.suppress(AneforgeError):  # anything else fails the test
            parse_model(content[:length], "cut.mlmodel", package, package).graph()
    weights.write_bytes(weights.read_bytes()[:130])
    with pytest.raises(MilError, match="MIL-BLOB-005"):
        from_mlpackage(package)
    weights.write_bytes(b"")
    with pytest.raises(MilError, match=r"(?s)MIL-PACKAGE-003.*belongs to another model"):
        from_mlpackage(package)
    weights.unlink()
    with pytest.raises(MilError, match="MIL-BLOB-001"):
        from_mlpackage(package)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x08", b"\xff" * 64, b"\x08" + b"\xff" * 9 + b"\x7f", b"not a model at all", b"\x12\xff\xff\xff\xff\x0f"],
    ids=["empty", "a tag", "ones", "huge varint", "text", "huge length"],
)
def test_bytes_that_are_no_model(content: bytes) -> None:
    with pytest.raises(GraphError, match=r"the file is not a Core ML model|has no ML program"):
        parse_model(content, "bad.mlmodel")


def test_other_models_are_named(package: Path) -> None:
    def change(model: Model) -> None:
        model.neuralNetwork.SetInParent()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a field that is not read

    with pytest.raises(NotSupportedError, match=r"has no ML program \(got neural network\).*convert_to='mlprogram'"):
        load_mlpackage(changed(package, change))


def blob(model: Model) -> messages.MilValue:
    """Return the place of the weights."""
    values = [one.attributes["val"] for one in operations(model) if one.type == "const"]
    return next(value for value in values if value.WhichOneof("value") == "blobFileValue")


def operations(model: Model) -> list[messages.MilOperation]:
    function = model.mlProgram.functions["main"]
    (opset,) = function.block_specializations
    return list(function.block_specializations[opset].operations)


def set_path(path: str) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        blob(model).blobFileValue.fileName = path

    return change


def set_offset(offset: int) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        blob(model).blobFileValue.offset = offset

    return change


def set_input_size(size: int) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        model.mlProgram.functions["main"].inputs[0].type.tensorType.dimensions[1].constant.size = size

    return change


def set_rank(rank: int) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        model.mlProgram.functions["main"].inputs[0].type.tensorType.rank = rank

    return change


def set_dtype(code: int) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        model.mlProgram.functions["main"].inputs[0].type.tensorType.dataType = code

    return change


def set_op(op: str) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        operation(model, "relu").type = op

    return change


def rename(name: str) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        operation(model, "linear").outputs[0].name = name

    return change


def read_itself(model: Model) -> None:
    linear, relu = operation(model, "linear"), operation(model, "relu")
    linear.inputs["x"].arguments[0].name = relu.outputs[0].name


def no_functions(model: Model) -> None:
    model.mlProgram.functions.clear()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - protobuf's


def no_block(model: Model) -> None:
    function = model.mlProgram.functions["main"]
    function.block_specializations.clear()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - protobuf's


def fewer_values(model: Model) -> None:
    blob(model).immediateValue.tensor.floats.values.append(1.0)


def a_dictionary(model: Model) -> None:
    blob(model).immediateValue.dictionary.SetInParent()


def no_type(model: Model) -> None:
    blob(model).ClearField("type")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a message


def many_axes(model: Model) -> None:
    tensor = model.mlProgram.functions["main"].inputs[0].type.tensorType
    for _ in range(100):
        tensor.dimensions.add().constant.size = 1


def stated(dimensions: tuple[int, int]) -> Callable[[Model], None]:
    """State other lengths for the weights."""

    def change(model: Model) -> None:
        for place, size in enumerate(dimensions):
            blob(model).type.tensorType.dimensions[place].constant.size = size

    return change


def many_references(model: Model) -> None:
    """Refer to the one blob again and again, by other lengths each time."""
    function = model.mlProgram.functions["main"]
    (opset,) = function.block_specializations
    block = function.block_specializations[opset]
    weights = next(one for one in operations(model) if blob(model) == one.attributes["val"])
    for number in (1, 2, 4, 6, 12):
        copy = block.operations.add()
        copy.CopyFrom(weights)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a message
        copy.outputs[0].name = f"copy_{number}"
        tensor = copy.attributes["val"].type.tensorType
        tensor.dimensions[0].constant.size, tensor.dimensions[1].constant.size = number, 12 // number


def deep_blocks(model: Model) -> None:
    block = operation(model, "relu").blocks.add()
    for _ in range(20):
        inner = block.operations.add()
        inner.type = "cond"
        block = inner.blocks.add()


CASES: dict[str, tuple[Callable[[Model], None], str]] = {
    "weights outside": (set_path("@model_path/../../../../etc/passwd"), "MIL-BLOB-002.*leaves the folder"),
    "weights at the root": (set_path("/etc/passwd"), "MIL-BLOB-00[12]"),
    "no weights name": (set_path(""), "MIL-BLOB-00[12]"),
    "offset past the end": (set_offset(2**40), "MIL-BLOB-004.*There is no blob at the offset"),
    "largest offset": (set_offset(2**64 - 1), "MIL-BLOB-004"),
    "offset between blobs": (set_offset(65), "MIL-BLOB-004"),
    "offset of the head": (set_offset(0), "MIL-BLOB-004"),
    "an axis of 2^31": (set_input_size(2**31), "MIL-OP-003|MIL-TYPE-001"),
    "an axis of 2^64 - 1, which is -1": (set_input_size(2**64 - 1), "MIL-TYPE-004.*a longer axis, than a"),
    "an empty axis": (set_input_size(0), "MIL-OP-003|MIL-TYPE-001"),
    "another rank": (set_rank(3), "MIL-TYPE-003.*3 axes, 2 lengths"),
    "unknown rank": (set_rank(-1), "MIL-TYPE-003.*any number of axes"),
    "many axes": (many_axes, "MIL-TYPE-004.*102 axes"),
    "unknown element type": (set_dtype(77), "MIL-TYPE-002.*number 77"),
    "texts at a port": (set_dtype(2), "MIL-TYPE-006"),
    "unknown operation": (set_op("rellu"), "MIL-OP-001.*There is no operation rellu"),
    "operation that is none": (set_op(""), "MIL-OP-001"),
    "a name twice": (rename("x"), "MIL-NAME-001.*x is defined twice"),
    "a name of nothing": (rename("other"), "MIL-NAME-002"),
    "a circle": (read_itself, "MIL-NAME-003.*used before it is defined"),
    "no function": (no_functions, "MIL-NAME-006"),
    "no operations": (no_block, "MIL-PACKAGE-001.*has no operations for its opset"),
    "fewer values than the type": (fewer_values, "MIL-TYPE-005.*1 values"),
    "a dictionary as weights": (a_dictionary, "MIL-TYPE-006.*dictionary"),
    "a value without a type": (no_type, "MIL-TYPE-006.*no type"),
    "more weights than the file": (stated((2**20, 2**20)), "MIL-PACKAGE-003.*more weights than the file"),
    "weights of 2^95 bytes": (stated((2**47, 2**47)), "MIL-PACKAGE-003.*more weights than the file"),
    "one blob in many shapes": (many_references, "MIL-PACKAGE-003.*bytes up to this one"),
    "blocks in blocks": (deep_blocks, "MIL-OP-002.*nested blocks"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_program_is_one_error(name: str, package: Path) -> None:
    change, message = CASES[name]
    changed(package, change)
    with pytest.raises(AneforgeError) as raised:
        from_mlpackage(package)
    text = str(raised.value).replace("\n", " ")
    assert "model.mlpackage" in text
    assert re.search(message, text), text


def test_the_parts_of_a_program_are_counted(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_mlpackage(package)
    monkeypatch.setattr(translation, "MOST_PARTS", 8)
    with pytest.raises(MilError, match=r"(?s)MIL-PACKAGE-002.*more operations and parameters than can be read"):
        load_mlpackage(package)


def test_a_bomb_is_refused_before_it_is_unfolded(package: Path) -> None:
    changed(package, stated((2**20, 2**12)))
    weights = package / WEIGHTS
    with weights.open("r+b") as file:
        file.truncate(2**34)  # a file of holes: it states 16 GiB and takes none
    tracemalloc.start()
    with pytest.raises(MilError, match="MIL-BLOB-007"):
        from_mlpackage(package)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_model_file_of_holes_is_refused_by_its_size(package: Path) -> None:
    with (package / MODEL).open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(GraphError, match=r"the model file is too large \(got 1099511627776 bytes, limit 2147483647"):
        load_mlpackage(package)


def no_package(_: str) -> None:
    """Find no package."""


def test_a_missing_package_is_named_with_the_line_that_installs_it(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages.messages.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", no_package)
    monkeypatch.delitem(sys.modules, "coremltools.proto", raising=False)
    with pytest.raises(
        ImportError, match=r"needs the package coremltools\. Remedy: pip install 'aneforge-open\[coreml\]'"
    ):
        from_mlpackage(package)
    messages.messages.cache_clear()
