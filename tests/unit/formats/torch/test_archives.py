"""`.pt2` files: what is read, and what is refused before PyTorch sees it."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from typing import TYPE_CHECKING, cast

import pytest
import torch

from aneforge.errors import GraphError
from aneforge.formats.torch.contents import check_expression, check_program, check_tree
from aneforge.formats.torch.torch_model import from_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
SAMPLES = "data/sample_inputs/model.pt"
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def good() -> bytes:
    buffer = io.BytesIO()
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.zeros(1, 4),))
    torch.export.save(program, buffer)
    return buffer.getvalue()


def unpacked(contents: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(contents)) as archive:
        return {one.filename: archive.read(one) for one in archive.infolist()}


def packed(files: Files, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, contents in files.items():
            archive.writestr(name, contents)
    return buffer.getvalue()


def named(files: Files, name: str) -> str:
    return next(one for one in files if one.partition("/")[2] == name)


def edited(files: Files, name: str, change: Callable[[dict[str, object]], None]) -> Files:
    tree = cast("dict[str, object]", json.loads(files[named(files, name)]))
    change(tree)
    return {**files, named(files, name): json.dumps(tree).encode()}


def refused(tmp_path: Path, contents: bytes, message: str) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(contents)
    with pytest.raises(GraphError, match=message) as raised:
        from_torch(path)
    assert raised.value.location is not None
    assert raised.value.location.file == str(path)


def test_a_file_that_was_packed_again_is_read(tmp_path: Path, good: bytes) -> None:
    (tmp_path / "model.pt2").write_bytes(packed(unpacked(good)))
    graph = from_torch(tmp_path / "model.pt2")
    assert [node.op.name for node in graph.nodes] == ["input", "linear"]


@pytest.mark.parametrize("cut", [0, 1, 100, 2000, -1, -30])
def test_a_file_that_is_cut_off(tmp_path: Path, good: bytes, cut: int) -> None:
    refused(tmp_path, good[:cut], "cut off|damaged")


def test_files_of_other_kinds(tmp_path: Path) -> None:
    refused(tmp_path, b"\x08\x07 no archive", "not an archive of torch.export")
    refused(tmp_path, packed({"word/document.xml": b"<x/>"}), "no archive_format of pt2")
    refused(tmp_path, packed({"model/archive_format": b"pt1"}), "no archive_format of pt2")
    with pytest.raises(GraphError, match="cannot be read: No such file"):
        from_torch(tmp_path / "missing.pt2")
    with pytest.raises(GraphError, match="cannot be read: Is a directory"):
        from_torch(tmp_path)


def test_a_compressed_archive_is_refused_before_it_grows(tmp_path: Path, good: bytes) -> None:
    bomb = {**unpacked(good), "archive/data/weights/weight_9": bytes(1 << 22)}
    refused(tmp_path, packed(bomb, zipfile.ZIP_DEFLATED), "together larger than the archive")
    refused(tmp_path, packed(unpacked(good), zipfile.ZIP_DEFLATED), "compressed|together larger")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "archive/../../outside", "archive\\..\\x", "archive/"])
def test_names_that_lead_outside(tmp_path: Path, good: bytes, name: str) -> None:
    refused(tmp_path, packed({**unpacked(good), name: b""}), "outside of its folder|two folders")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data/aotinductor/model/model.so", "compiled libraries"),
        ("data/constants/custom_obj_0", "pickled script objects"),
        ("data/constants/opaque_obj_0", "pickled Python objects"),
        ("data/weights/model.pt", "pickled weights of an older release"),
        ("extra/run.py", "further files"),
        ("models/other.json", "does not write"),
    ],
)
def test_contents_that_would_have_to_be_trusted(tmp_path: Path, good: bytes, name: str, message: str) -> None:
    files = unpacked(good)
    folder = next(iter(files)).partition("/")[0]
    refused(tmp_path, packed({**files, f"{folder}/{name}": b"x"}), message)


@pytest.mark.parametrize("name", [MODEL, WEIGHTS, SAMPLES])
def test_a_file_that_is_missing(tmp_path: Path, good: bytes, name: str) -> None:
    files = unpacked(good)
    del files[named(files, name)]
    refused(tmp_path, packed(files), "misses a file")


def test_texts_that_are_none(tmp_path: Path, good: bytes) -> None:
    files = unpacked(good)
    refused(tmp_path, packed({**files, named(files, MODEL): b"{"}), "is not valid JSON")
    refused(tmp_path, packed({**files, named(files, MODEL): b"[" * 100_000}), "is not valid JSON")
    refused(tmp_path, packed({**files, named(files, MODEL): b"[]"}), "holds no program")
    refused(tmp_path, packed({**files, named(files, WEIGHTS): b"{}"}), "holds no weights")


@pytest.mark.parametrize("version", [{"major": 99, "minor": 1}, {"major": "8"}, {}, 8, None])
def test_a_program_of_another_form_is_named(tmp_path: Path, good: bytes, version: object) -> None:
    def changed(tree: dict[str, object]) -> None:
        tree["schema_version"] = version

    refused(tmp_path, packed(edited(unpacked(good), MODEL, changed)), r"another version.*schema version.*which PyTorch")


class Trap:
    """What a pickle would run."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return print, ("a pickle was run",)


def test_example_inputs_are_never_unpickled_freely(
    tmp_path: Path, good: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    files = unpacked(good)
    buffer = io.BytesIO()
    torch.save((Trap(),), buffer)
    refused(tmp_path, packed({**files, named(files, SAMPLES): buffer.getvalue()}), "not plain tensors")
    refused(tmp_path, packed({**files, named(files, SAMPLES): pickle.dumps(Trap())}), "not plain tensors")
    assert "a pickle was run" not in capsys.readouterr().out


def test_weights_are_never_unpickled(tmp_path: Path, good: bytes) -> None:
    def pickled(tree: dict[str, object]) -> None:
        for payload in cast("dict[str, dict[str, object]]", tree["config"]).values():
            payload["use_pickle"] = True

    refused(tmp_path, packed(edited(unpacked(good), WEIGHTS, pickled)), "is pickled")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sizes", [{"as_int": 4096}, {"as_int": 4096}], "is outside of its file"),
        ("sizes", [{"as_int": 2**40}, {"as_int": 2}], "too long"),
        ("sizes", [{"as_int": -1}, {"as_int": 2}], "not a number"),
        ("strides", [{"as_int": 1}], "is outside of its file"),
        ("storage_offset", {"as_int": 2**33}, "is outside of its file"),
        ("storage_offset", {"as_expr": {"expr_str": "s0"}}, "not a number"),
    ],
)
def test_weights_lie_in_their_files(tmp_path: Path, good: bytes, key: str, value: object, message: str) -> None:
    def changed(tree: dict[str, object]) -> None:
        config = cast("dict[str, dict[str, dict[str, object]]]", tree["config"])
        config["weight"]["tensor_meta"][key] = value

    refused(tmp_path, packed(edited(unpacked(good), WEIGHTS, changed)), message)


@pytest.mark.parametrize(
    "target", ["torch.os.system", "torch.load", "_operator.attrgetter", "math.prod", "os.system", "#custom:f", 7, None]
)
def test_a_node_calls_operators_alone(target: object) -> None:
    with pytest.raises(GraphError, match="calls no operator"):
        check_program({"graph_module": {"graph": {"nodes": [{"target": target}]}}})


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Symbol('x').__class__",
        "(lambda: 1)()",
        "[1 for x in (1,)]",
        "eval('1')",
        "Symbol('a b')",
        "9**9**9",
        "open",
        "1 +",
        "(" * 3000,
        "s0" * 5000,
        3,
    ],
)
def test_a_symbolic_length_is_arithmetic(text: object) -> None:
    with pytest.raises(GraphError, match="a symbolic length of the program"):
        check_expression(text)


@pytest.mark.parametrize(
    "text",
    ["s77", "Mul(Integer(2), Symbol('s77', positive=True, integer=True))", "2*s0 + 1", "Max(1, s0//2)", "u0 > 3"],
)
def test_what_pytorch_writes_is_arithmetic(text: str) -> None:
    check_expression(text)


def test_containers_are_pythons_own() -> None:
    check_tree('[1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]')
    with pytest.raises(GraphError, match="container"):
        check_tree('[1, {"type": "collections.defaultdict", "context": "{}", "children_spec": []}]')
    with pytest.raises(GraphError, match="keys of a class"):
        check_tree(json.dumps([1, {"type": "builtins.dict", "context": '[{"__enum__": true, "fqn": "os:x"}]'}]))


def test_a_program_of_nested_containers_and_open_lengths_is_read(tmp_path: Path) -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: dict[str, list[torch.Tensor]]) -> OrderedDict[str, tuple[torch.Tensor, torch.Tensor]]:
            first, second = x["pair"]
            return OrderedDict(sums=(first + second, first[:, :1].repeat(1, first.shape[0] * 2)))

    length = torch.export.Dim("n", min=2, max=9)
    shapes = ({"pair": [{0: length}, {0: length}]},)
    program = torch.export.export(Nested(), ({"pair": [torch.ones(3, 2), torch.ones(3, 2)]},), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "nested.pt2")
    graph = from_torch(tmp_path / "nested.pt2", shapes={"x_pair_0": (4, 2), "x_pair_1": (4, 2)})
    assert {name: value.shape for name, value in graph.outputs.items()} == {"sums.0": (4, 2), "sums.1": (4, 8)}
