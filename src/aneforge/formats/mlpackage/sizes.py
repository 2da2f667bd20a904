"""What a package may ask for, weighed before it is read: its parts are counted, and its weights are in its files.

A small file can say much: an operation is a few bytes of a message and some kilobytes in memory, and a reference to a
weights blob is a line that stands for as many elements as it states.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from aneforge.formats.mil.blob import CODES, DESCRIPTOR_BYTES
from aneforge.formats.mil.diagnostics import MilRule
from aneforge.formats.mil.elements import count_packed_bytes
from aneforge.formats.mil.literals import scalar_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from aneforge.formats.mil.syntax import Blob

__all__ = ["MOST_PARTS", "TOO_MANY_PARTS", "check_stated_sizes"]

MOST_PARTS = 2**21
"""Operations, their parameters, results and attributes in a program. Programs of large language models have some ten
thousand operations. The reader's own objects took 284 bytes a part in a chain of operations, 0.6 GiB for this many."""
TOO_MANY_PARTS = MilRule.of(
    "MIL-PACKAGE-002",
    """The program has more operations and parameters than can be read.

    Remedy: split the model.
    """,
)
MORE_THAN_THE_FILE = MilRule.of(
    "MIL-PACKAGE-003",
    """The program states more weights than the file {name} holds.

    Remedy: check whether the weights file is truncated, or belongs to another model.
    """,
)


def check_stated_sizes(blobs: Iterable[Blob], files: Mapping[str, Path]) -> None:
    """Check that all weights that a program refers to, each counted once, have room in the files that it names.

    Raises:
        MilError: They have not.
    """
    stated: Counter[str] = Counter()
    seen: set[tuple[str, int, str]] = set()
    room = {path: file.stat().st_size for path, file in files.items()}
    for blob in blobs:
        path, kind = str(scalar_of(blob.path)), blob.type
        key = path, int(scalar_of(blob.offset)), str(kind)
        if key in seen or not kind.known or kind.dtype not in CODES:  # the two last are refused where they are read
            continue
        seen.add(key)
        stated[path] += DESCRIPTOR_BYTES + count_packed_bytes(kind.dtype, math.prod(kind.shape))
        if stated[path] > room[path]:
            found = f"{stated[path]} bytes up to this one"
            raise MORE_THAN_THE_FILE.broken(blob.at, name=path, found=found, expected=f"up to {room[path]} bytes")
