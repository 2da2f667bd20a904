"""Labels: the classes that samples should have, from a CSV file, an array of the data, or a sequence."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, Location
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["REMEDY", "Labels", "expect_classes", "expect_labels", "read_labels"]

LISTED = 3
FORMS = "give a CSV file of one column, or of names of samples and labels; or the array `labels` in the .npz file"
REMEDY = "give one label for every sample, in their order; or a CSV file of two columns, names of samples and labels"


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of samples: in their order, or by their names."""

    place: Location
    ordered: tuple[int, ...] = ()
    named: Mapping[str, int] | None = None

    def in_order(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the labels of samples, given their names in order.

        Raises:
            GraphError: There are more or fewer labels than samples, or a sample has none.
        """
        if self.named is None:
            return expect_labels(self.ordered, len(names), self.place)
        missing = [name for name in names if name not in self.named]
        if missing:
            listed = ", ".join(missing[:LISTED]) + (", …" if len(missing) > LISTED else "")
            raise GraphError(
                "the labels do not fit the data",
                location=self.place,
                seen=f"no label for {len(missing)} of {len(names)} samples: {listed}",
                remedy="name every sample in the first column, as it is called in the data",
            )
        return tuple(self.named[name] for name in names)


def read_labels(path: Path) -> Labels:
    """Read labels from a CSV file: one column in the order of the samples, or names and labels; a header is skipped.

    Raises:
        GraphError: It cannot be read, a label is not an integer, or a sample has two.
    """
    place = Location(str(path))
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        seen = error.strerror if isinstance(error, OSError) else error
        raise GraphError("the labels cannot be read", location=place, seen=seen, remedy=FORMS) from None
    if rows and not is_integer(rows[0][-1]):
        rows = rows[1:]
    widths = {len(row) for row in rows}
    if widths not in ({1}, {2}):
        raise GraphError(
            "the labels are not one column, or names and labels",
            location=place,
            seen=f"columns: {', '.join(map(str, sorted(widths))) or 0}",
            limit="one or two",
            remedy=FORMS,
        )
    wrong = next((row[-1] for row in rows if not is_integer(row[-1])), None)
    if wrong is not None:
        raise GraphError("a label is not the number of a class", location=place, seen=wrong, limit="0, 1, 2, …")
    if widths == {1}:
        return Labels(place, tuple(int(row[0]) for row in rows))
    named: dict[str, int] = {}
    for name, label in rows:
        if named.setdefault(name.strip(), int(label)) != int(label):
            seen = f"{named[name.strip()]} and {int(label)} for {name.strip()}"
            raise GraphError("a sample has two labels", location=place, seen=seen)
    return Labels(place, named=named)


def is_integer(text: str) -> bool:
    """Return whether a cell holds the number of a class."""
    return text.strip().isascii() and text.strip().isdecimal()


def expect_labels(given: object, count: int, place: Location | None = None) -> tuple[int, ...]:
    """Return labels in the order of the samples.

    >>> expect_labels([3, 1], 2)
    (3, 1)

    Raises:
        GraphError: They are not integers from 0 on, or there are more or fewer than samples.
    """
    array = np.asarray(given)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) != count:
        raise GraphError(
            "the labels do not fit the data",
            location=place,
            seen=f"{len(array)} labels" if array.ndim == 1 else f"labels of the shape {list(array.shape)}",
            limit=f"one for each of {count} samples",
            remedy=REMEDY,
        )
    if array.dtype.kind not in "iu" or (array.size and int(array.min()) < 0):
        number, wrong = next((number, one) for number, one in enumerate(array.tolist()) if not is_class(one))
        seen = f"{wrong!r} for sample {number}"
        raise GraphError("a label is not the number of a class", location=place, seen=seen, limit="0, 1, 2, …")
    return tuple(cast("list[int]", array.tolist()))


def is_class(value: object) -> bool:
    """Return whether a label is the number of a class.

    >>> is_class(3), is_class(-1), is_class(3.0), is_class(True)
    (True, False, False, False)
    """
    return type(value) is int and value >= 0


def expect_classes(labels: Sequence[int] | None, classes: int | None) -> None:
    """Refuse labels that are not classes of the model.

    >>> expect_classes([0, 9], 10)

    Raises:
        GraphError: One is larger than the last class.
    """
    if labels and classes is not None and max(labels) >= classes:
        raise GraphError(
            "the labels do not fit the model",
            seen=f"label {max(labels)} of sample {labels.index(max(labels))}",
            limit=f"classes 0 to {classes - 1}",
            remedy="number the classes from 0 on, or name the output that has them: --output NAME",
        )
