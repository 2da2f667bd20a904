"""Checkpoints of language models: settings, and tensors that are read when they are asked for.

`Checkpoint` is what the rest of the room takes. A folder as Hugging Face writes it (`config.json` and safetensors, in
one file or in shards with an index) is read by `FolderCheckpoint`; tensors stay in their files, mapped into memory, and
rows of one can be read alone, so that a model is never in memory twice.
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import ml_dtypes  # noqa: F401  # pyright: ignore[reportUnusedImport] - gives NumPy the element type bfloat16

from aneforge.errors import CheckpointError, Location
from aneforge.packages import expect_package
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from aneforge.ops.types import Array

__all__ = ["Checkpoint", "FolderCheckpoint", "StoredTensor", "read_settings"]

CONFIG = "config.json"
GENERATION, END_TOKENS = "generation_config.json", "eos_token_id"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth")
CONVERSION = (
    "convert the weights where you trust their origin: transformers.AutoModelForCausalLM.from_pretrained(folder)"
    ".save_pretrained(new_folder) writes safetensors"
)
ELEMENT_TYPES = ("F16", "BF16", "F32", "F64")


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """What is known of a tensor before its values are read."""

    shape: tuple[int, ...]
    element_type: str
    """As the file names it: F16, BF16, F32, or a block encoding such as Q4_K."""


class Checkpoint(Protocol):
    """A language model as it is stored: settings in the names of `config.json`, tensors in those of Hugging Face.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from safetensors.numpy import save_file
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    >>> save_file({"model.norm.weight": np.ones(8, np.float16)}, folder / "model.safetensors")
    >>> stored: Checkpoint = FolderCheckpoint(folder)
    >>> stored.settings["model_type"], stored.tensors["model.norm.weight"].shape
    ('llama', (8,))
    """

    @property
    def source(self) -> str:
        """The path that errors name."""
        ...

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings, by the names of `config.json`."""
        ...

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Shapes and element types of all tensors, without their values."""
        ...

    def read(self, name: str, rows: slice = ...) -> Array:
        """Return a tensor, or rows of it, as a floating-point array in the element type of the file.

        Raises:
            CheckpointError: There is no such tensor, or it cannot be read.
        """
        ...


class TensorSlice(Protocol):
    """A tensor of an open file: the library does not type it."""

    def get_shape(self) -> Sequence[int]: ...
    def get_dtype(self) -> str: ...
    def __getitem__(self, rows: slice, /) -> Array: ...


class TensorFile(Protocol):
    """An open file of safetensors: the library does not type it."""

    def keys(self) -> Iterable[str]: ...
    def get_slice(self, name: str, /) -> TensorSlice: ...
    def get_tensor(self, name: str, /) -> Array: ...


def read_settings(path: str | os.PathLike[str]) -> dict[str, object]:
    """Return the settings of a model folder, or of a `config.json` itself.

    Raises:
        CheckpointError: There is no such file, or it is not a JSON object.
    """
    place = Path(path)
    if place.is_file() and place.suffix in (".bin", ".pt", ".pth", ".ckpt", ".safetensors"):
        pickle = place.suffix != ".safetensors"
        raise CheckpointError(
            "this is a pickle, which runs code when it is read; only safetensors are read"
            if pickle
            else "this is a file of tensors, without settings",
            location=Location(os.fspath(path)),
            remedy=CONVERSION if pickle else f"name its folder, which has {CONFIG} too",
        )
    file = place / CONFIG if place.is_dir() else place
    if not file.is_file():
        raise CheckpointError(
            f"there is no {CONFIG}" if place.is_dir() else "there is no such file or folder",
            location=Location(os.fspath(path)),
            remedy=f"name a folder with {CONFIG} and safetensors, as save_pretrained writes it",
        )
    found = read_json(file)
    if not isinstance(found, dict):
        raise CheckpointError("the settings must be a JSON object", location=Location(os.fspath(file)))
    return cast("dict[str, object]", found)


def read_json(file: Path) -> object:
    """Return what a JSON file holds.

    Raises:
        CheckpointError: It is not JSON.
    """
    try:
        return cast("object", json.loads(file.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"the file is not JSON: {error}", location=Location(os.fspath(file))) from None


class FolderCheckpoint:
    """A folder with `config.json` and safetensors.

    >>> FolderCheckpoint("/no/such/folder")
    Traceback (most recent call last):
    ...
    aneforge.errors.CheckpointError: at /no/such/folder: there is no such file or folder. Remedy: name a folder with config.json and safetensors, as save_pretrained writes it

    Raises:
        CheckpointError: The folder or its settings are missing or damaged.
    """  # noqa: E501 - a message is one line

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.settings: Mapping[str, object] = read_settings(folder) | self.generation_settings()
        self.opened: dict[str, TensorFile] = {}

    def generation_settings(self) -> dict[str, object]:
        """Return the tokens that end a text where a file of its own states them: it goes before `config.json`.

        Raises:
            CheckpointError: That file is not JSON.
        """
        file = self.folder / GENERATION
        found = read_json(file) if file.is_file() else None
        ends = cast("dict[str, object]", found).get(END_TOKENS) if isinstance(found, dict) else None
        return {} if ends is None else {END_TOKENS: ends}

    @property
    def source(self) -> str:
        """The folder."""
        return os.fspath(self.folder)

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Shapes and element types of all tensors.

        Raises:
            CheckpointError: There are no safetensors, a shard is missing or damaged, or an index names a tensor that
                its shard does not hold.
        """
        return self.described

    @cached_property
    def described(self) -> Mapping[str, StoredTensor]:
        """The same, found once."""
        return {name: self.describe(name) for name in self.places}

    @cached_property
    def places(self) -> Mapping[str, str]:
        """The file that each tensor is in; one file goes before an index, as for those who write both."""
        index = self.folder / INDEX
        if index.is_file() and not (self.folder / WEIGHTS).is_file():
            return dict(self.sharded(index))
        files = sorted(one.name for one in self.folder.glob("*.safetensors") if one.is_file())
        if not files:
            raise self.without_weights()
        if WEIGHTS not in files and len(files) > 1:
            raise CheckpointError(
                f"there are {len(files)} files of safetensors and no {INDEX} that maps tensors to files",
                location=Location(self.source),
                remedy="copy the index into the folder of its shards",
            )
        chosen = WEIGHTS if WEIGHTS in files else files[0]
        return dict.fromkeys(self.open(chosen).keys(), chosen)

    def sharded(self, index: Path) -> Iterator[tuple[str, str]]:
        """Yield the tensors of an index with their shards.

        Raises:
            CheckpointError: The index has no map, a shard is missing, or a shard lacks a tensor.
        """
        found = read_json(index)
        mapping = cast("dict[str, object]", found).get("weight_map") if isinstance(found, dict) else None
        if not isinstance(mapping, dict) or not mapping:
            raise CheckpointError("the index has no weight_map", location=Location(os.fspath(index)))
        places = {str(name): str(shard) for name, shard in cast("dict[object, object]", mapping).items()}
        shards = sorted(set(places.values()))
        missing = [shard for shard in shards if not (self.folder / shard).is_file()]
        if missing:
            raise CheckpointError(
                f"{len(missing)} of {len(shards)} shards are missing: {', '.join(missing[:4])}",
                location=Location(self.source),
                remedy="download the folder again, with all its shards",
            )
        held = {shard: set(self.open(shard).keys()) for shard in shards}
        for name, shard in places.items():
            if name not in held[shard]:
                raise CheckpointError(
                    f"the index places tensor {name!r} in {shard}, which does not hold it",
                    location=Location(self.source),
                    remedy="index and shards are of different versions: download the folder again",
                )
            yield name, shard

    def without_weights(self) -> CheckpointError:
        """Return the error for a folder without safetensors."""
        pickles = [one for one in PICKLES if (self.folder / one).is_file()]
        pickles += sorted(one.name for one in self.folder.glob("pytorch_model-*.bin"))
        if pickles:
            return CheckpointError(
                f"{pickles[0]} is a pickle, which runs code when it is read; only safetensors are read",
                location=Location(self.source),
                remedy=CONVERSION,
            )
        return CheckpointError(
            "there are no weights: no file of safetensors",
            location=Location(self.source),
            remedy=f"copy {WEIGHTS}, or all shards and {INDEX}, into the folder",
        )

    def open(self, name: str) -> TensorFile:
        """Return an open file of tensors, mapped into memory.

        Raises:
            CheckpointError: It is damaged.
            MissingPackageError: safetensors is not installed.
        """
        if name not in self.opened:
            self.opened[name] = open_tensors(self.folder / name)
        return self.opened[name]

    def describe(self, name: str) -> StoredTensor:
        """Return shape and element type of a tensor."""
        found = self.open(self.places[name]).get_slice(name)
        return StoredTensor(tuple(found.get_shape()), found.get_dtype())

    def read(self, name: str, rows: slice = slice(None)) -> Array:
        """Return a tensor, or rows of it.

        Raises:
            CheckpointError: There is no such tensor, or its elements are not floating-point numbers.
        """
        stored = self.tensors.get(name)
        if stored is None:
            raise CheckpointError(f"there is no tensor {name!r}", location=Location(self.source))
        if stored.element_type not in ELEMENT_TYPES:
            raise CheckpointError(
                f"tensor {name!r} has elements that are not read here",
                location=Location(self.source),
                seen=stored.element_type,
                limit=", ".join(ELEMENT_TYPES),
                remedy="take the checkpoint that is not quantised; compress= encodes the weights for the engine",
            )
        # Mapped for this tensor alone: pages of a file that stays mapped count as memory of the process.
        file = open_tensors(self.folder / self.places[name])
        return file.get_tensor(name) if rows == slice(None) else file.get_slice(name)[rows]


def open_tensors(path: Path) -> TensorFile:
    """Open a file of safetensors.

    Raises:
        CheckpointError: It is damaged.
        MissingPackageError: safetensors is not installed.
    """
    expect_package("safetensors")
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - an extra

    try:
        return cast("TensorFile", safe_open(os.fspath(path), framework="numpy"))
    except SafetensorError as error:
        raise CheckpointError(
            f"the file of tensors is damaged: {error}",
            location=Location(os.fspath(path)),
            remedy="download it again; a file that was cut off looks like this",
        ) from None
