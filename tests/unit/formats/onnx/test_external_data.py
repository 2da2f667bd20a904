"""Weights in files beside the model: what is read, and what is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import aneforge as af
from aneforge.errors import GraphError
from aneforge.formats.onnx.onnx_model import from_onnx
from unit.formats.onnx.onnx_models import made, node, numbers

if TYPE_CHECKING:
    from pathlib import Path

WEIGHT = numbers(64, 32)
NEEDS_LINKS = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="links need rights on Windows")


def saved(folder: Path, entries: dict[str, str]) -> Path:
    """Write a model whose weight is elsewhere, and return its path."""
    model = made([node("MatMul", ["x", "w"], ["y"])], {"x": ("fp32", [1, 64])}, weights={"w": WEIGHT})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\0" * 16 + WEIGHT.tobytes())
    entries = {"location": "sub/w.bin", "offset": "16", "length": str(WEIGHT.nbytes), "checksum": "unused"}
    (constant,) = from_onnx(saved(tmp_path, entries)).constants.values()
    assert np.array_equal(constant.dense(), WEIGHT.T)


def test_external_data_written_by_onnx_is_read(tmp_path: Path) -> None:
    model = made([node("MatMul", ["x", "w"], ["y"])], {"x": ("fp32", [1, 64])}, weights={"w": WEIGHT})
    path = tmp_path / "model.onnx"
    onnx.save_model(  # pyright: ignore[reportUnknownMemberType] - its stub leaves paths open
        model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    assert (tmp_path / "weights.bin").stat().st_size >= WEIGHT.nbytes
    x = numbers(1, 64)
    np.testing.assert_allclose(af.reference(from_onnx(path), [x])["y"], x.astype(np.float64) @ WEIGHT, rtol=1e-6)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../w.bin"}, "not below the model's folder"),
        ({"location": "sub/../../w.bin"}, "not below the model's folder"),
        ({"location": "/etc/passwd"}, "not below the model's folder"),
        ({"location": "C:\\w.bin"}, "not below the model's folder"),
        ({"location": "\\\\host\\share\\w.bin"}, "not below the model's folder"),
        ({"location": "..\\w.bin"}, "not below the model's folder"),
        ({"location": "a\0b"}, "not below the model's folder"),
        ({"location": "."}, "not below the model's folder"),
        ({}, "has no location"),
        ({"location": "missing.bin"}, "cannot be opened: No such file"),
        ({"location": "w.bin", "offset": "-1"}, "offset is not a number of bytes"),
        ({"location": "w.bin", "offset": "1" * 40}, "offset is not a number of bytes"),
        ({"location": "w.bin", "length": "ten"}, "length is not a number of bytes"),
        ({"location": "w.bin", "length": "8"}, "length is not that of the tensor"),
        ({"location": "w.bin", "offset": "1"}, "ends before it"),
        ({"location": "w.bin", "offset": "9" * 18}, "ends before it"),
        ({"location": "w.bin", "owner": "me"}, "unknown or comes twice"),
    ],
)
def test_what_is_refused(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (folder / "w.bin").write_bytes(WEIGHT.tobytes())
    with pytest.raises(GraphError, match=message):
        from_onnx(saved(folder, entries))


@NEEDS_LINKS
@pytest.mark.parametrize("relative", [True, False])
def test_links_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, relative: bool) -> None:
    if not relative:  # as on a system without relative opens
        monkeypatch.setattr(os, "supports_dir_fd", set[object]())
    folder = tmp_path / "model"
    folder.mkdir()
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "w.bin").write_bytes(WEIGHT.tobytes())
    (folder / "w.bin").symlink_to(secret / "w.bin")
    (folder / "sub").symlink_to(secret)
    for location, link in (("w.bin", "w.bin"), ("sub/w.bin", "sub")):
        with pytest.raises(GraphError, match=rf"'{link}' is a symbolic link, and links are not followed.*cp -rL"):
            from_onnx(saved(folder, {"location": location}))
    (folder / "plain.bin").write_bytes(WEIGHT.tobytes())
    assert from_onnx(saved(folder, {"location": "plain.bin"})).constants


@NEEDS_LINKS
def test_a_file_with_another_hard_link_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    os.link(tmp_path / "w.bin", folder / "w.bin")
    with pytest.raises(GraphError, match="another hard link"):
        from_onnx(saved(folder, {"location": "w.bin"}))


@NEEDS_LINKS
def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.bin")
    with pytest.raises(GraphError, match="not a plain file"):
        from_onnx(saved(tmp_path, {"location": "w.bin"}))
    (tmp_path / "folder").mkdir()
    with pytest.raises(GraphError, match=r"not a plain file|cannot be opened"):
        from_onnx(saved(tmp_path, {"location": "folder"}))


def test_bytes_have_no_folder_to_look_in(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    contents = saved(tmp_path, {"location": "w.bin"}).read_bytes()
    with pytest.raises(GraphError, match=r"no folder to look in.*path of the model"):
        from_onnx(contents)


def test_a_constant_within_a_node_may_be_external(tmp_path: Path) -> None:
    path = saved(tmp_path, {"location": "w.bin"})
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    model = onnx.ModelProto.FromString(path.read_bytes())
    constant = node("Constant", [], ["w"])
    attribute = constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    attribute.t.CopyFrom(model.graph.initializer[0])
    del model.graph.initializer[:]
    model.graph.node.insert(0, constant)
    path.write_bytes(model.SerializeToString())
    (found,) = from_onnx(path).constants.values()
    assert np.array_equal(found.dense(), WEIGHT.T)
