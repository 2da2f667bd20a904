"""Samples from any Python iterable: arrays, arrays by input, or pairs of one of these and a label."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError
from aneforge.evaluation.labels import expect_labels
from aneforge.evaluation.samples import Sample, Shard
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from aneforge.ops.types import Array

__all__ = ["IterableSource", "open_iterable"]


@dataclass(frozen=True, slots=True)
class IterableSource:
    """What an iterable gives, in its order."""

    items: Iterable[object]
    inputs: tuple[str, ...]
    labels: Sequence[int] | None

    @property
    def name(self) -> str:
        """The type of the iterable."""
        return type(self.items).__name__

    @property
    def count(self) -> int | None:
        """Its length, where it has one."""
        return len(self.items) if isinstance(self.items, Sized) else None

    @property
    def identity(self) -> str:
        """Only its type and length: what it will give is not known before it is read."""
        return f"iterable {self.name} {self.count} {self.labels}"

    def shards(self, size: int, done: Container[int]) -> Iterator[Shard]:
        """Yield the samples that are not done; the others are taken from the iterable too."""
        indexed = enumerate(self.items)
        for number in itertools.count():
            taken = list(itertools.islice(indexed, size))
            if not taken:
                return
            if number not in done:
                yield Shard(number, tuple(self.sample(index, item) for index, item in taken))

    def sample(self, index: int, item: object) -> Sample:
        """Return one item as a sample."""
        label = self.labels[index] if self.labels is not None and index < len(self.labels) else None
        taken, parts = item, cast("tuple[object, ...]", item) if isinstance(item, tuple) else ()
        if len(parts) == 2 and is_label(parts[1]):
            taken, label = cast("tuple[object, int]", parts)
            label = int(label) if self.labels is None else self.labels[index]
        if isinstance(taken, Mapping):
            given = cast("Mapping[str, object]", taken)
            return Sample(index, str(index), {name: as_array(one) for name, one in given.items()}, label=label)
        if len(self.inputs) != 1:
            problem = f"the model has the inputs {', '.join(self.inputs)}: give a mapping of arrays by their names"
            return Sample(index, str(index), label=label, problem=problem)
        return Sample(index, str(index), {self.inputs[0]: as_array(taken)}, label=label)


def open_iterable(items: object, inputs: tuple[str, ...], labels: object) -> IterableSource:
    """Open a Python iterable.

    Raises:
        GraphError: It is not one, it is empty, or the labels do not fit.
    """
    if not isinstance(items, Iterable) or isinstance(items, bytes | Mapping):
        raise GraphError(
            "the data is neither a path nor an iterable of samples",
            seen=type(cast("object", items)).__name__,
            remedy="give arrays, mappings of arrays by input, or pairs of one of these and a label",
        )
    given = cast("Iterable[object]", items)
    count = len(given) if isinstance(given, Sized) else None
    if count == 0:
        raise GraphError("there is no sample in the data", seen=type(given).__name__)
    if labels is None:
        return IterableSource(given, inputs, None)
    listed = list(cast("Iterable[int]", labels))
    return IterableSource(given, inputs, expect_labels(listed, len(listed) if count is None else count))


def is_label(value: object) -> bool:
    """Return whether a value is the number of a class.

    >>> is_label(3), is_label(np.int64(3)), is_label(True), is_label(np.zeros(2))
    (True, True, False, False)
    """
    if isinstance(value, bool):
        return False
    return isinstance(value, int | np.integer) or (getattr(value, "shape", None) == () and hasattr(value, "item"))


def as_array(value: object) -> Array:
    """Return a value as an array; tensors of other libraries know how."""
    return np.asarray(value)
