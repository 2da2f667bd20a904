"""`.pt2` files with something changed at random: a graph, or one error that names the file, and never anything else.

A few dozen seeds run here; the kinds of changes that broke the reader in longer runs are tests of their own below.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import io
import json
import random
import stat
import zipfile
from typing import TYPE_CHECKING, cast

import pytest
import torch
from torch import Tensor, nn

from aneforge.errors import AneforgeError, GraphError
from aneforge.formats.torch.torch_model import from_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS = range(32)
MODEL = "models/model.json"
ODD = (None, -1, 2**31, 2**63, 2**80, 1e308, True, "", [], {}, "x" * 5000, "s0", [[]])
"""What is put in place of something in a program's text."""
Files = dict[str, bytes]
Place = tuple[dict[str, object] | list[object], str | int]


class Small(nn.Module):
    """A layer, a cache that is written, and containers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("kept", torch.zeros(4, 3))

    def forward(self, x: Tensor, place: Tensor) -> dict[str, object]:
        """Return results in containers."""
        kept = cast("Tensor", self.kept)
        kept.index_copy_(0, place, self.layer(x))
        return {"y": kept * 2, "z": (x.relu().view(3, 1),)}


@pytest.fixture(scope="module")
def good() -> bytes:
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(Small(), (torch.zeros(1, 3), torch.tensor([0]))), buffer)
    return buffer.getvalue()


def unpacked(contents: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(contents)) as archive:
        return {one.filename: archive.read(one) for one in archive.infolist()}


def packed(files: Files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, contents in files.items():
            archive.writestr(name, contents)
    return buffer.getvalue()


def model_name(files: Files) -> str:
    return next(name for name in files if name.endswith(MODEL))


# The changes.


def cut(contents: bytes, draw: random.Random) -> bytes:
    return contents[: draw.randrange(len(contents))]


def flipped(contents: bytes, draw: random.Random) -> bytes:
    changed = bytearray(contents)
    for _ in range(draw.choice((1, 2, 8))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def flipped_directory(contents: bytes, draw: random.Random) -> bytes:
    return contents[:-1200] + flipped(contents[-1200:], draw)


def swapped(contents: bytes, draw: random.Random) -> bytes:
    files = unpacked(contents)
    first, second = draw.sample(list(files), 2)
    files[first], files[second] = files[second], files[first]
    return packed(files)


def resized(contents: bytes, draw: random.Random) -> bytes:
    files = unpacked(contents)
    name = draw.choice(list(files))
    files[name] = (files[name] + bytes(4000))[: draw.randrange(len(files[name]) + 4000)]
    return packed(files)


def dropped(contents: bytes, draw: random.Random) -> bytes:
    files = unpacked(contents)
    del files[draw.choice(list(files))]
    return packed(files)


def places_of(tree: object) -> list[Place]:
    found: list[Place] = []
    stack = [tree]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            branch = cast("dict[str, object]", top)
            found.extend((branch, key) for key in branch)
            stack.extend(branch.values())
        elif isinstance(top, list):
            items = cast("list[object]", top)
            found.extend((items, key) for key in range(len(items)))
            stack.extend(items)
    return found


def rewritten(contents: bytes, draw: random.Random) -> bytes:
    files = unpacked(contents)
    tree = json.loads(files[model_name(files)])
    parent, key = draw.choice(places_of(tree))
    if draw.random() < 0.2:
        del parent[key]  # pyright: ignore[reportArgumentType, reportCallIssue] - the key belongs to its parent
    else:
        parent[key] = draw.choice(ODD)  # pyright: ignore[reportArgumentType, reportCallIssue] - the same
    return packed({**files, model_name(files): json.dumps(tree).encode()})


CHANGES = (cut, flipped, flipped_directory, swapped, resized, dropped, rewritten, rewritten)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_file_is_read_or_is_one_error(
    seed: int, tmp_path: Path, good: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(CHANGES[seed % len(CHANGES)](good, random.Random(seed)))  # noqa: S311 - no secret is drawn
    caplog.clear()
    said = outcome(path)
    assert said is None or said.startswith(f"at {path}"), said
    assert not [record for record in caplog.records if record.name == "torch.export"]


def outcome(path: Path) -> str | None:
    """Return the error of a file, or nothing where it is read; anything else than one of ours gets out."""
    try:
        from_torch(path)
    except AneforgeError as error:
        return str(error)
    return None


# What longer runs found.


def refused(path: Path, good: bytes, change: Callable[[dict[str, object]], None], message: str) -> None:
    files = unpacked(good)
    tree = cast("dict[str, object]", json.loads(files[model_name(files)]))
    change(tree)
    path.write_bytes(packed({**files, model_name(files): json.dumps(tree).encode()}))
    with pytest.raises(GraphError, match=message) as raised:
        from_torch(path)
    assert raised.value.location is not None
    assert raised.value.location.file == str(path)


def test_a_shape_that_pytorch_cannot_run(tmp_path: Path, good: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """PyTorch reads the program, and fails when it runs it without data to take it apart."""

    def change(tree: dict[str, object]) -> None:
        for parent, key in places_of(tree):
            if key == "as_ints" and cast("dict[str, object]", parent)["as_ints"] == [3, 1]:
                cast("dict[str, object]", parent)["as_ints"] = [-2, 1]

    refused(tmp_path / "model.pt2", good, change, "cannot take the program apart")
    assert not [record for record in caplog.records if record.name == "torch._subclasses.fake_tensor"]


def test_pytorchs_own_log_is_kept_quiet(tmp_path: Path, good: bytes, caplog: pytest.LogCaptureFixture) -> None:
    def change(tree: dict[str, object]) -> None:
        for parent, key in places_of(tree):
            if key == "tensor_values":
                cast("dict[str, object]", parent)["tensor_values"] = {}

    refused(tmp_path / "model.pt2", good, change, "cannot read the program")
    assert not [record for record in caplog.records if record.name == "torch.export"]


def test_an_archive_on_several_disks(tmp_path: Path, good: bytes) -> None:
    """Python's zipfile raises that before it says whether a file is an archive at all."""
    contents = bytearray(good)
    at = contents.rfind(b"PK\x06\x07")  # the place of the 64-bit directory: its last four bytes are the number of disks
    contents[at + 16] = 7
    path = tmp_path / "model.pt2"
    path.write_bytes(contents)
    with pytest.raises(GraphError, match="the archive is damaged"):
        from_torch(path)


# What archives can be made to say.


def with_entry(good: bytes, *, link: bool) -> bytes:
    files = unpacked(good)
    folder = next(iter(files)).partition("/")[0]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, one in files.items():
            archive.writestr(name, one)
        entry = zipfile.ZipInfo(f"{folder}/data/weights/weight_9")
        if link:
            entry.create_system = 3
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, b"/etc/passwd")
    return buffer.getvalue()


def test_a_link_is_a_file_like_others(tmp_path: Path, good: bytes) -> None:
    """Nothing is unpacked to the disk, so that a link in an archive leads nowhere; this one nobody reads."""
    path = tmp_path / "model.pt2"
    path.write_bytes(with_entry(good, link=True))
    assert from_torch(path).outputs


def test_sizes_that_are_larger_than_the_archive(tmp_path: Path, good: bytes) -> None:
    contents = bytearray(with_entry(good, link=False))
    at = contents.rfind(b"PK\x01\x02")  # the directory's last entry: bytes 20 to 28 are its sizes
    contents[at + 20 : at + 28] = (2**31).to_bytes(4, "little") * 2
    path = tmp_path / "model.pt2"
    path.write_bytes(contents)
    with pytest.raises(GraphError, match="together larger than the archive"):
        from_torch(path)
