"""Checkpoints: all that a training run consists of, in one safetensors file that loads bit for bit.

The tensors are parameters, moments and the rows that are still to be drawn; the header is JSON: the text of
the network, counters and the state of the generator. A digest of all of it shows a damaged file. A file is written
under another name and renamed, so that an interrupted run leaves the last one whole.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import msgspec
import numpy as np

from aneforge.errors import CheckpointError, Location
from aneforge.packages import expect_package
from aneforge.records import dataclass
from aneforge.typed_decoding import decode_typed
from aneforge.whole_files import remove_abandoned, write_synced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array

__all__ = [
    "SCALE_CHANGES",
    "Header",
    "Order",
    "Snapshot",
    "network_lines",
    "read_checkpoint",
    "write_checkpoint",
]

KEY = "aneforge.checkpoint"
SCALE_CHANGES = "scale_changes"
"""The number that says that the loss scale changes in a run."""
FORM = 2
"""The number of this form of the header."""
WITHOUT_DIGEST = 1
"""The form before it, which is read as well; others are refused."""
PLACE = re.compile(r' at(?: "(?:[^"\\]|\\.)*")?(?: line \d+)?(?: node "(?:[^"\\]|\\.)*")?$')
"""Where a line of a graph's text names the user's file: the same network may be written elsewhere."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Where the order of mini-batches is; the rows themselves are tensors of the file."""

    rows: int
    batch: int
    generator: str
    """The state of the generator, as JSON: its numbers have 128 bits."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint holds in addition to tensors."""

    form: int = FORM
    network: tuple[str, ...]
    """The lines of the network's text."""
    optimizer: str
    numbers: dict[str, int | float]
    """Counters, and the state of the loss scale."""
    order: Order | None
    digest: str = ""
    """Of header and tensors; empty while it is computed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a run."""

    header: Header
    tensors: Mapping[str, Array]


def network_lines(graph: Graph) -> tuple[str, ...]:
    """Return the text of a network without the places in the user's files.

    >>> import aneforge as af
    >>> network_lines(af.Graph({"y": af.input((1, 2), name="x").relu()}))[2]
    '  %1 = relu(x = %0) : fp16[1, 2]'
    """
    return tuple(PLACE.sub("", line) for line in str(graph).splitlines())


def write_checkpoint(path: str | os.PathLike[str], snapshot: Snapshot) -> Path:
    """Write a state to a file that appears whole or not at all.

    Raises:
        MissingPackageError: safetensors is not installed.
        OSError: The file cannot be written.
    """
    expect_package("safetensors")
    from safetensors.numpy import save  # noqa: PLC0415 - an extra

    tensors = {name: np.asarray(one, order="C") for name, one in snapshot.tensors.items()}
    header = msgspec.structs.replace(snapshot.header, digest=digest_of(snapshot.header, tensors))
    content = save(tensors, {KEY: msgspec.json.encode(header).decode()})
    target = Path(os.path.realpath(path))  # a link stays one
    write_synced(target, content)
    remove_abandoned(target)
    return Path(path)


def digest_of(header: Header, tensors: Mapping[str, Array]) -> str:
    """Return what shows that a header or a tensor was changed."""
    found = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(header, digest="")))
    for name, one in sorted(tensors.items()):
        found.update(f"{name} {describe(one)}".encode())
        found.update(np.ascontiguousarray(one).data)
    return found.hexdigest()


class TensorFile(Protocol):
    """An open file of safetensors, as far as it is used here: the library does not type what it opens."""

    def metadata(self) -> Mapping[str, str] | None: ...
    def keys(self) -> Iterable[str]: ...
    def get_tensor(self, name: str, /) -> Array: ...


def read_checkpoint(path: str | os.PathLike[str], here: Snapshot) -> Snapshot:
    """Read a state that is to replace another one.

    Raises:
        CheckpointError: The file is not a checkpoint, damaged, or of another network; the first difference is named.
        MissingPackageError: safetensors is not installed.
        OSError: The file cannot be read.
    """
    expect_package("safetensors")
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - an extra

    if stat.S_ISDIR(Path(path).stat().st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    try:
        opened = cast("AbstractContextManager[TensorFile, None]", safe_open(os.fspath(path), framework="numpy"))
        with opened as file:
            held = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        header = header_of(held, tensors)
        check_same(header, tensors, here)
    except SafetensorError as error:
        raise CheckpointError(f"the file is not a checkpoint: {error}", location=Location(os.fspath(path))) from None
    except CheckpointError as error:
        error.location = Location(os.fspath(path))
        raise
    return Snapshot(header, tensors)


def header_of(held: Mapping[str, str], tensors: Mapping[str, Array]) -> Header:
    """Return the header of a file.

    Raises:
        CheckpointError: There is none, it is of another form, or header or tensors were changed.
    """
    if KEY not in held:
        raise CheckpointError(
            "the file is not a checkpoint of a training run: it has no header of one",
            remedy="read other files with the library safetensors, and write to the values of parameters",
        )
    try:
        header = decode_typed(held[KEY], Header)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"the header of the checkpoint is damaged: {error}") from None
    if header.form not in (FORM, WITHOUT_DIGEST):
        raise CheckpointError("the checkpoint was written by another version", seen=header.form, limit=FORM)
    is_checked = header.form != WITHOUT_DIGEST or header.digest
    if is_checked and header.digest != digest_of(header, tensors):
        raise CheckpointError(
            "the checkpoint is damaged: its digest is not that of its content", remedy="load an earlier one"
        )
    return header


def check_same(found: Header, tensors: Mapping[str, Array], here: Snapshot) -> None:
    """Check that a checkpoint is of this network, this optimiser and this data set.

    Raises:
        CheckpointError: It is not; the first difference is named.
    """
    check_networks(found.network, here.header.network)
    if found.optimizer != here.header.optimizer:
        raise CheckpointError(
            "the checkpoint was written with another optimizer", seen=found.optimizer, limit=here.header.optimizer
        )
    for name in sorted({*found.numbers, *here.header.numbers}):
        if (name in found.numbers) != (name in here.header.numbers):
            raise CheckpointError(
                f"only one of checkpoint and trainer has the number {name!r}",
                remedy="give the trainer the options that it had when the checkpoint was written",
            )
    scales = found.numbers["loss_scale"], here.header.numbers["loss_scale"]
    if scales[0] != scales[1] and SCALE_CHANGES not in found.numbers:
        raise CheckpointError("the checkpoint was written with another loss_scale", seen=scales[0], limit=scales[1])
    check_orders(found.order, here.header.order)
    drawn = ("order", "drawn")
    for name in sorted({*tensors, *here.tensors} - {*drawn}):
        one, other = (describe(kept.get(name)) for kept in (tensors, here.tensors))
        if one != other:
            raise CheckpointError(f"the checkpoint has another tensor {name!r}", seen=one, limit=other)


def check_networks(found: Sequence[str], here: Sequence[str]) -> None:
    """Compare two networks line by line.

    Raises:
        CheckpointError: They differ.
    """
    for one, other in zip_longest(found, here, fillvalue="nothing more"):
        if one != other:
            raise CheckpointError(
                "the checkpoint is of another network, which first differs at this operation",
                seen=one.strip(),
                limit=f"{other.strip()} in the network here",
            )


def check_orders(found: Order | None, here: Order | None) -> None:
    """Compare the data sets.

    Raises:
        CheckpointError: One has none, or other numbers of rows.
    """
    if found is None and here is None:
        return
    if found is None or here is None:
        raise CheckpointError(
            "the checkpoint was written with a data set, and there is none here"
            if here is None
            else "the checkpoint was written without a data set, and here is one",
            remedy="call set_dataset before load, as in the run that wrote the checkpoint",
        )
    if (found.rows, found.batch) != (here.rows, here.batch):
        raise CheckpointError(
            "the checkpoint was written with another data set",
            seen=f"{found.rows} rows in batches of {found.batch}",
            limit=f"{here.rows} rows in batches of {here.batch}",
        )


def describe(tensor: Array | None) -> str:
    """Return type and shape of a tensor, or that there is none."""
    return "no such tensor" if tensor is None else f"{tensor.dtype}{list(tensor.shape)}"
