"""Samples from any Python iterable: arrays, arrays by input, or pairs of one of these and a label."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Protocol, TypeGuard, cast

import numpy as np

from aneforge.errors import GraphError
from aneforge.evaluation.labels import REMEDY, expect_labels
from aneforge.evaluation.metrics import describe
from aneforge.evaluation.samples import Sample, Shard
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from aneforge.ops.types import Array

__all__ = ["IterableSource", "open_iterable"]

LISTED = 3
"""Parts of a sample that a message names."""


@dataclass(frozen=True, slots=True)
class IterableSource:
    """What an iterable gives, in its order."""

    items: Iterable[object]
    inputs: tuple[str, ...]
    labels: Sequence[int] | None

    @property
    def name(self) -> str:
        """The type of the iterable."""
        return type(self.items.rows if isinstance(self.items, Indexed) else self.items).__name__

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
        indexed, count = enumerate(self.items), 0
        for number in itertools.count():
            taken = list(itertools.islice(indexed, size))
            count += len(taken)
            self.expect_labelled(count, whole=len(taken) < size)
            if not taken:
                return
            if number not in done:
                yield Shard(number, tuple(self.sample(index, item) for index, item in taken))

    def expect_labelled(self, count: int, *, whole: bool) -> None:
        """Refuse labels of more or fewer samples than an iterator gives, which only reading it shows.

        Raises:
            GraphError: There are more samples than labels, or these are all of them and fewer.
        """
        if self.labels is not None and (count > len(self.labels) or (whole and count < len(self.labels))):
            raise GraphError(
                "the labels do not fit the data",
                seen=f"{len(self.labels)} labels",
                limit=f"one for each of {count} samples" if whole else f"one for each of at least {count} samples",
                remedy=REMEDY,
            )

    def sample(self, index: int, item: object) -> Sample:
        """Return one item as a sample; one that cannot be an array says so."""
        taken, own = parts_of(item)
        label = own if self.labels is None else self.labels[index]
        if not isinstance(taken, Mapping) and len(self.inputs) != 1:
            problem = f"the model has the inputs {', '.join(self.inputs)}: give a mapping of arrays by their names"
            return Sample(index, str(index), label=label, problem=problem)
        given = cast("Mapping[str, object]", taken) if isinstance(taken, Mapping) else {self.inputs[0]: taken}
        try:
            return Sample(index, str(index), {name: as_array(one) for name, one in given.items()}, label=label)
        except Exception as error:  # noqa: BLE001 - whatever a tensor of another library does
            seen = described(cast("object", item)) if isinstance(item, tuple | list) else describe(error)
            problem = "a sample is an array, or an array and the number of a class, without the axis of the batch"
            return Sample(index, str(index), label=label, problem=f"{problem} (got {seen})")


def open_iterable(items: object, inputs: tuple[str, ...], labels: object) -> IterableSource:
    """Open a Python iterable.

    Raises:
        GraphError: It is not one, it is empty, or the labels do not fit.
    """
    if is_indexed(items):
        items = Indexed(items)
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


class Rows(Protocol):
    """What gives samples by their numbers: a data set of PyTorch."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __getitem__(self, index: int, /) -> object:
        """Return one."""
        ...


@dataclass(frozen=True, slots=True)
class Indexed:
    """The samples of a data set that is read by numbers."""

    rows: Rows

    def __len__(self) -> int:
        """Return how many samples there are."""
        return len(self.rows)

    def __iter__(self) -> Iterator[object]:
        """Yield the samples in their order."""
        return (self.rows[index] for index in range(len(self.rows)))


def is_indexed(items: object) -> TypeGuard[Rows]:
    """Return whether something is read by numbers and cannot be iterated over by itself."""
    return not isinstance(items, Iterable) and hasattr(items, "__getitem__") and hasattr(items, "__len__")


def parts_of(item: object) -> tuple[object, int | None]:
    """Return the values and the label of an item: of two things the second is a label, if it can be one.

    A list of two numbers is a vector; loaders of PyTorch give a list of a tensor and a label.

    >>> parts_of(([1.0, 2.0], 3)), parts_of([1.0, 2]), parts_of(([1.0], None))
    (([1.0, 2.0], 3), ([1.0, 2], None), ([1.0], None))
    """
    if not isinstance(item, tuple | list):
        return item, None
    parts = cast("Sequence[object]", item)
    if len(parts) != 2:
        return parts, None
    first, second = parts
    if isinstance(item, list) and (isinstance(first, int | float) or getattr(first, "shape", None) == ()):
        return parts, None
    if second is None:
        return first, None
    return (first, int(cast("int", second))) if is_label(second) else (parts, None)


def described(value: object) -> str:
    """Return a value in a few words: its type, and its shape or its parts.

    >>> described((np.zeros((16, 3)), 0.5))
    'tuple of ndarray [16, 3], float'
    """
    name = type(value).__name__
    if isinstance(value, tuple | list):
        return f"{name} of {', '.join(map(described, cast('Sequence[object]', value)[:LISTED]))}"
    shape = getattr(value, "shape", None)
    return name if shape is None else f"{name} {list(shape)}"


def is_label(value: object) -> bool:
    """Return whether a value is the number of a class.

    >>> is_label(3), is_label(np.int64(3)), is_label(True), is_label(np.zeros(2))
    (True, True, False, False)
    """
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | np.integer):
        return True
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return False
    return type(cast("Array", value).item()) is int


def as_array(value: object) -> Array:
    """Return a value as an array; tensors of other libraries know how."""
    return np.asarray(value)
