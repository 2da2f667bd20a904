"""Samples as a source gives them: arrays, or the bytes of an image that the task decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aneforge.errors import AneforgeError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from aneforge.ops.types import Array

__all__ = ["BadSampleError", "Sample", "Shard", "Source", "spans"]


class BadSampleError(AneforgeError, ValueError):
    """One sample cannot be used; the others can."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample before it is decoded."""

    index: int
    name: str
    arrays: Mapping[str, Array] | None = None
    """Values by the names of the inputs, without the axis of the batch."""
    encoded: bytes | None = None
    """An image as its file has it."""
    label: int | None = None
    problem: str = ""
    """Why it cannot be read."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Samples that one task runs."""

    number: int
    samples: tuple[Sample, ...]


class Source(Protocol):
    """Where samples come from, in one order."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    @property
    def count(self) -> int | None:
        """How many samples there are; None where only reading them shows it."""
        ...

    @property
    def identity(self) -> str:
        """What distinguishes its content from another's, for a run that goes on."""
        ...

    @property
    def labels(self) -> Sequence[int] | None:
        """The labels in the order of the samples, where they are known before the samples are read."""
        ...

    def shards(self, size: int, done: Container[int]) -> Iterator[Shard]:
        """Yield the samples in shards of a size, without those shards that are done."""
        ...


def spans(count: int, size: int, done: Container[int]) -> Iterator[tuple[int, range]]:
    """Yield the number and the indices of every shard that is not done.

    >>> list(spans(5, 2, {1}))
    [(0, range(0, 2)), (2, range(4, 5))]
    """
    for number, start in enumerate(range(0, count, size)):
        if number not in done:
            yield number, range(start, min(start + size, count))
