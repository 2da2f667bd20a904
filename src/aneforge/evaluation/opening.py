"""Data as users name it: a file, a folder, or an iterable of Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, cast

from aneforge.errors import GraphError, Location
from aneforge.evaluation.arrays import open_arrays
from aneforge.evaluation.images import open_images
from aneforge.evaluation.iterables import open_iterable
from aneforge.evaluation.labels import Labels, read_labels
from aneforge.evaluation.tables import ARROW, PARQUET, open_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.evaluation.samples import Source

__all__ = ["open_data"]


def open_data(data: object, wanted: Mapping[str, tuple[int, ...]], labels: object = None) -> Source:
    """Open data for the inputs of a model, given with the shape of a sample.

    Raises:
        GraphError: It is not there, of a kind that is not known, or does not fit the inputs or the labels.
        MissingPackageError: A package that it needs is not installed.
    """
    read = read_labels(Path(labels)) if is_path(labels) else labels
    if not is_path(data):
        return open_iterable(data, tuple(wanted), read.ordered if isinstance(read, Labels) else read)
    path = Path(data)
    if not path.exists():
        raise GraphError("there is no such file or folder", location=Location(str(path)), remedy="check the path")
    if read is not None and not isinstance(read, Labels):
        read = Labels(Location("labels"), tuple(cast("Iterable[int]", read)))  # checked with the samples
    if path.is_dir():
        return open_images(path, read)
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return open_arrays(path, wanted, read)
    if suffix in PARQUET | ARROW:
        return open_table(path, wanted, read)
    raise GraphError(
        "the data is of a kind that is not known",
        location=Location(str(path)),
        seen=suffix or "no suffix",
        limit=f".npy, .npz, {', '.join(sorted(PARQUET | ARROW))}, or a folder of images",
    )


def is_path(named: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a user names a file: by text or a path."""
    return isinstance(named, str | os.PathLike)
