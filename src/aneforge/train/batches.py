"""What a trainer feeds: fixed arrays, and mini-batches of a data set in the order of the parity experiment."""

from __future__ import annotations

import copy
import json
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import CheckpointError, GraphError, GraphTypeError
from aneforge.graph.methods.base import as_array
from aneforge.ops.numbers import FP16_MAX
from aneforge.records import dataclass
from aneforge.train.checkpoints import Order
from aneforge.train.parameter import worst_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Node
    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array

__all__ = ["Batches", "Dataset", "build_dataset", "check_one_hot", "check_rows", "check_values"]


@dataclass
class Batches:
    """Row numbers of mini-batches: a permutation is used up in order; what is left over at its end is not used."""

    rows: int
    batch: int
    random: np.random.Generator
    order: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self) -> Array:
        """Return the rows of the next mini-batch."""
        if len(self.order) < self.batch:
            self.order = self.random.permutation(self.rows)
        taken, self.order = self.order[: self.batch], self.order[self.batch :]
        return taken

    def place(self) -> Order:
        """Return where the order is, in addition to the rows that are left of the permutation."""
        return Order(rows=self.rows, batch=self.batch, generator=json.dumps(self.random.bit_generator.state))


@dataclass
class Dataset:
    """Arrays whose rows are drawn into the batch of an input, by the input's node."""

    arrays: Mapping[Node, Array]
    batches: Batches
    current: Array | None = None
    """The rows that were drawn last."""

    def draw(self) -> dict[Node, Array]:
        """Return the next mini-batch."""
        self.current = self.batches.take()
        return self.rows_of(self.current)

    def last(self) -> dict[Node, Array]:
        """Return the mini-batch that was drawn last; before the first, the one that will be drawn."""
        return self.rows_of(copy.deepcopy(self.batches).take() if self.current is None else self.current)

    def rows_of(self, numbers: Array) -> dict[Node, Array]:
        """Return rows of every array."""
        return {node: array[numbers] for node, array in self.arrays.items()}

    def rows_to_come(self) -> dict[str, Array]:
        """Return the rows that are left of the permutation, and those that were drawn last, if any were."""
        return {"order": self.batches.order} | ({} if self.current is None else {"drawn": self.current})

    def go_to(self, place: Order, rows: Mapping[str, Array]) -> None:
        """Go on from a place in the order.

        Raises:
            CheckpointError: The place is not one of this data set.
        """
        for name in ("order", "drawn"):
            one = rows.get(name, np.empty(0, np.int64))
            if one.dtype != np.int64 or one.ndim != 1 or (one.size and not 0 <= one.min() <= one.max() < place.rows):
                raise CheckpointError(f"the rows {name!r} of the checkpoint are not rows of the data set")
        try:
            self.batches.random.bit_generator.state = json.loads(place.generator)
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"the state of the generator is damaged: {error}") from None
        self.batches.order, self.current = rows["order"], rows.get("drawn")

    def in_same_place(self) -> Dataset:
        """Return the same data with an order of its own that goes on from here."""
        return Dataset(self.arrays, copy.deepcopy(self.batches), self.current)


def build_dataset(x_input: Tensor, x: object, target_input: Tensor, y: object, seed: int) -> Dataset:
    """Return a data set for two inputs of one batch.

    Raises:
        GraphError: Shapes do not fit, a value is not finite in fp16, or the data are less than a batch.
        GraphTypeError: An argument is not an array of numbers.
    """
    rows = check_rows(x_input, x, "X")
    targets = check_rows(target_input, y, "the targets")
    batch = x_input.shape[0]
    if target_input.shape[0] != batch:
        raise GraphError(
            "both inputs must have the same batch", seen=f"{list(x_input.shape)} and {list(target_input.shape)}"
        )
    if len(rows) != len(targets):
        raise GraphError("X and the targets must have equally many rows", seen=f"{len(rows)} and {len(targets)}")
    if len(rows) < batch:
        raise GraphError(
            "the batch is larger than the data",
            seen=batch,
            limit=len(rows),
            remedy="make the inputs with a smaller batch",
        )
    batches = Batches(len(rows), batch, np.random.default_rng(seed))
    return Dataset({x_input.node: rows, target_input.node: targets}, batches)


def check_rows(place: Tensor, values: object, what: str) -> Array:
    """Return an array whose rows fit into the batch of an input.

    Raises:
        GraphError: They do not, or a value is not finite in fp16.
        GraphTypeError: It is not an array of numbers.
    """
    array = check_values(values, what)
    if not place.shape or array.shape[1:] != place.shape[1:] or array.ndim != len(place.shape):
        raise GraphError(
            f"the rows of {what} must have the shape of the input's",
            seen=list(array.shape),
            limit=f"[rows, {', '.join(map(str, place.shape[1:]))}]",
            remedy="reshape the rows" if what == "X" else "use np.eye(classes)[labels] for labels, or reshape the rows",
        )
    return array


def check_values(values: object, what: str) -> Array:
    """Return an array of numbers that are finite in fp16.

    Raises:
        GraphError: One is not.
        GraphTypeError: It is not an array of numbers.
    """
    array = as_array(values, "Trainer", what)
    if array.dtype.kind not in "fiub":
        raise GraphTypeError(f"{what} must be an array of numbers", seen=str(array.dtype))
    if not np.all(np.abs(array.astype(np.float32)) <= FP16_MAX):
        raise GraphError(
            f"{what} must be finite in fp16",
            seen=worst_of(array),
            limit=FP16_MAX,
            remedy="remove rows with NaN, and scale large values down",
        )
    return array


def check_one_hot(targets: Array) -> None:
    """Check the targets of a classification.

    Raises:
        GraphError: A row does not have a single 1 among zeros.
    """
    wrong = np.flatnonzero(((targets != 0) & (targets != 1)).any(axis=1) | (targets.sum(axis=1) != 1))
    if wrong.size:
        raise GraphError(
            "targets must be one-hot: a single 1 in each row",
            seen=f"row {wrong[0]}: {targets[wrong[0]].tolist()}",
            remedy="use np.eye(classes)[labels]",
        )
