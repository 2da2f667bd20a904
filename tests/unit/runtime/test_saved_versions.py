"""Saved programs over time: old files are read with the same bits or refused with the remedy; labels are never stored.

`saved_programs/version_N.aneprg` was written by the first code with version N of the format, from this graph:

    x = af.input((1, 4, 1, 64), name="x")
    left, right = af.split(af.conv(x, kernel).relu(), 2, axis=3)
    y = (left + right).reshape(1, 128).linear(matrix)
    total = af.state("total", (1, 32))
    af.compile(af.Graph({"y": y, "seen": total * 2.0}, {"total": total + y}), target="h13", compress="sparse")

Weights and values are small integers, so that no sum is rounded, whatever its order.
"""

from __future__ import annotations

import hashlib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.ir.parsing import GRAMMAR
from aneforge.errors import ProgramFileError
from aneforge.ops.signature import REQUIRED
from aneforge.ops.types import DTYPES
from aneforge.optimise.compress.graphs import WeightReport
from aneforge.runtime.facts import CATEGORIES
from aneforge.runtime.saved import files, records
from aneforge.runtime.saved.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from golden_text import Golden

FOLDER = Path(__file__).parent / "saved_programs"
READ = FOLDER / f"version_{files.VERSION}.aneprg"


def expected() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a sample and the answer to it, in integers."""
    draw = np.random.default_rng(7)
    kernel = draw.integers(-2, 3, (4, 4, 1, 1))[:, :, 0, 0]
    matrix = draw.integers(1, 4, (32, 128)) * (draw.random((32, 128)) < 0.25)
    sample = (np.arange(256) % 5 - 2).reshape(1, 4, 1, 64)
    convolved = np.maximum(np.einsum("oi,nihw->nohw", kernel, sample), 0)
    return sample, (convolved[..., :32] + convolved[..., 32:]).reshape(1, 128) @ matrix.T


def test_a_file_that_the_first_code_of_this_version_wrote_is_read() -> None:
    model = af.load_program(READ)
    assert isinstance(model, af.MultiModel)
    sample, wanted = expected()
    for seen in (np.zeros_like(wanted), 2 * wanted):
        found = model(sample.astype(np.float32))
        assert np.array_equal(found["y"], wanted)
        assert np.array_equal(found["seen"], seen)
    assert [weight.encoding for weight in model.weights] == ["fp16", "sparse"]
    assert "DispatchFloorWarning" in str(model.facts.warnings[0])


def test_a_file_of_this_version_is_written_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may have got a field with a default. Where more changed, raise VERSION: the old file is then refused."""
    monkeypatch.setattr(files, "__version__", "0.1.0")  # which wrote the file
    (old, old_body), (new, new_body) = header_of(READ), header_of(af.load_program(READ).save(tmp_path / "again"))
    assert new_body == old_body
    assert says_all(new, old)


def says_all(new: object, old: object) -> bool:
    """Return whether a record says everything that an older one says."""
    if isinstance(old, dict) and isinstance(new, dict):
        later, held = cast("dict[str, object]", new), cast("dict[str, object]", old)
        return all(key in later and says_all(later[key], value) for key, value in held.items())
    if isinstance(old, list) and isinstance(new, list):
        pairs = zip(cast("list[object]", new), cast("list[object]", old), strict=True)
        return all(says_all(one, other) for one, other in pairs)
    return new == old


def test_every_version_has_its_file() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == [
        f"version_{number}.aneprg" for number in range(1, files.VERSION + 1)
    ]


def test_the_version_is_the_documented_one(repository: Path) -> None:
    row = f"version of the format, {files.VERSION} |"
    assert row in (repository / "docs" / "models.md").read_text(encoding="utf-8")
    assert row in (files.__doc__ or "")


@pytest.mark.parametrize("version", range(1, files.VERSION))
def test_a_file_of_an_older_version_is_refused_with_the_remedy(version: int) -> None:
    with pytest.raises(ProgramFileError, match=rf"an older version of the format \(got {version}, limit ") as caught:
        af.load_program(FOLDER / f"version_{version}.aneprg")
    assert caught.value.remedy == "compile the model and save it again"


def test_a_file_of_a_later_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    content = bytearray(READ.read_bytes())
    content[8:12] = (files.VERSION + 1).to_bytes(4, "little")
    (tmp_path / "later").write_bytes(content)
    with pytest.raises(ProgramFileError, match="a later version of the format") as caught:
        af.load_program(tmp_path / "later")
    assert caught.value.remedy == "read it with the version of the package that wrote it, or compile and save it again"


def test_a_version_has_cache_keys_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from aneforge.runtime.saved import cache  # noqa: PLC0415 - the module of which a value is replaced

    before = key_of(["graph"])
    monkeypatch.setattr(cache, "VERSION", files.VERSION + 1)
    assert key_of(["graph"]) != before


def form() -> Iterator[str]:
    """Yield what a file is made of: records, words, and the kinds of layers with the defaults that a text omits."""
    for record in ("Header", "Span", "ConstantRecord", "PartRecord", "FactsRecord", "CautionRecord", "SuppliedRecord"):
        for held in msgspec.structs.fields(getattr(records, record)):
            yield f"{record}.{held.encode_name}{'' if held.required else f' = {held.default!r}'}"
    for held in fields(WeightReport):
        yield f"WeightReport.{held.name}{'' if held.default is MISSING else f' = {held.default!r}'}"
    yield f"warnings: {', '.join(sorted(CATEGORIES))}"
    yield f"element types: {', '.join(f'{name} {bits}' for name, bits in DTYPES.items())}"
    yield f"units: {', '.join(Engine)}; slots: {', '.join(Slot)}"
    yield f"grammar of the text: sha256 {hashlib.sha256(GRAMMAR.encode()).hexdigest()}"
    for name, kind in sorted(kinds().items()):
        operands = ", ".join(operand.name for operand in kind.operands)
        yield f"{name}({operands})"
        for one in kind.attributes:
            yield f"{name}.{one.name}{'' if one.default is REQUIRED else f' = {one.default!r}'}"


@pytest.mark.parametrize("version", [files.VERSION])
def test_the_form_of_a_version(version: int, golden: Golden) -> None:
    """A line may be added, a field with a default. One that changes or goes changes old files: raise VERSION."""
    golden("\n".join((f"version {version}", *form())) + "\n")


# Labels


def modelled() -> af.Model:
    """Return a model whose arithmetic is known in part."""
    model = af.compile(af.input((1, 32)).softmax(axis=-1), target="h13")
    assert model.exactness.exactness == "modelled"
    return model


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header of a file, and what follows it."""
    content = path.read_bytes()
    _, _, size, _ = files.PREFIX.unpack_from(content)
    end = files.PREFIX.size + size
    return msgspec.json.decode(content[files.PREFIX.size : end]), content[records.align(end) :]


def write_file(path: Path, header: dict[str, Any], body: bytes) -> None:
    """Write a file whose hashes are right, as somebody would who edits one."""
    written = msgspec.json.encode(header)
    start = files.PREFIX.pack(files.MAGIC, files.VERSION, len(written), hashlib.sha256(written).digest()) + written
    path.write_bytes(start + bytes(records.align(len(start)) - len(start)) + body)


def test_a_label_in_a_file_is_not_believed(tmp_path: Path) -> None:
    model = modelled()
    path = model.save(tmp_path / "net")
    header, body = header_of(path)
    assert "exact" not in str(header["facts"])
    assert not header["constants"], "arrays would have to be moved"
    text = body[: header["text"]["nbytes"]]
    claimed = text[: text.rindex(b"}")] + b'  note "exactness" "exact"\n}\n'
    header["facts"] |= {"warnings": [], "remarks": ["exactness: exact"]}
    header["text"] = {"offset": 0, "nbytes": len(claimed), "sha256": hashlib.sha256(claimed).hexdigest()}
    header["nbytes"] += len(claimed) - len(text)
    write_file(path, header, claimed)
    again = af.load_program(path)
    assert again.exactness == model.exactness
    assert "modelled" in repr(again)


@pytest.mark.parametrize("where", ["header", "facts"])
def test_a_field_for_a_label_is_refused(where: str, tmp_path: Path) -> None:
    path = modelled().save(tmp_path / "net")
    header, body = header_of(path)
    cast("dict[str, Any]", header if where == "header" else header["facts"])["exactness"] = "exact"
    write_file(path, header, body)
    with pytest.raises(ProgramFileError, match=r"its header has another form: .*unknown field `exactness`"):
        af.load_program(path)
