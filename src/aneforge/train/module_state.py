"""What a step of a torch module has in addition to parameters and data: masks of dropout, and buffers that it moves.

Both are the host's. It draws masks from a seed and the number of the mini-batch, so that a run can be repeated, resumed
and compared; and it moves running statistics towards those of a mini-batch in float32, in which small moves are not
lost.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Node
    from aneforge.ops.types import Array

__all__ = ["Mask", "ModuleState", "MovedBuffer"]

SEED, DRAWN = "dropout_seed", "masks_drawn"
"""The numbers of a checkpoint that say which masks come next."""


@dataclass(frozen=True, slots=True)
class Mask:
    """An input that takes 0 for what dropout leaves out, and 1/keep for the rest."""

    node: Node
    keep: float

    def draw(self, random: np.random.Generator) -> Array:
        """Return a mask."""
        kept = random.random(self.node.types[0].shape, np.float32) < self.keep
        return kept * np.float32(1 / self.keep)


@dataclass(frozen=True, slots=True)
class MovedBuffer:
    """A buffer that every mini-batch moves towards outputs of the step, as running statistics are."""

    name: str
    moves: tuple[tuple[str, float], ...]
    """Outputs of the step, and the share of the way to each, in order."""
    counter: str | None = None
    """Where the buffer is the mean of all mini-batches: the buffer that counts them. It says the shares then."""

    def shares(self, values: Mapping[str, Array]) -> list[float]:
        """Return the share of the way to each output, with the current values."""
        if self.counter is None:
            return [share for _, share in self.moves]
        before = int(values[self.counter])
        return [1 / (before + place) for place in range(1, len(self.moves) + 1)]


@dataclass
class ModuleState:
    """Masks and buffers of one run."""

    masks: tuple[Mask, ...] = ()
    moved: tuple[MovedBuffer, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    """By how much a mini-batch raises buffers that count, by name."""
    values: dict[str, Array] = field(default_factory=dict[str, "Array"])
    """The buffers that change, by name."""
    seed: int = 0
    drawn: int = 0
    """How many mini-batches have had masks."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of a step that buffers move towards."""
        return tuple(output for one in self.moved for output, _ in one.moves)

    @property
    def numbers(self) -> dict[str, int | float]:
        """The numbers that say which masks come next; none where there are no masks."""
        return {SEED: self.seed, DRAWN: self.drawn} if self.masks else {}

    def set_numbers(self, numbers: Mapping[str, int | float]) -> None:
        """Go on from numbers of a run."""
        self.seed, self.drawn = int(numbers.get(SEED, self.seed)), int(numbers.get(DRAWN, self.drawn))

    def masks_of(self, number: int) -> dict[Node, Array]:
        """Return the masks of a mini-batch by its number, from 1."""
        random = np.random.default_rng((self.seed, number))
        return {one.node: one.draw(random) for one in self.masks}

    def next_masks(self) -> dict[Node, Array]:
        """Return the masks that are drawn next."""
        return self.masks_of(self.drawn + 1)

    def draw(self) -> dict[Node, Array]:
        """Draw the masks of the next mini-batch."""
        found = self.next_masks()
        self.drawn += 1
        return found

    def without_dropout(self) -> dict[Node, Array]:
        """Return masks that leave nothing out."""
        return {one.node: np.ones(one.node.types[0].shape, np.float32) for one in self.masks}

    def move(self, found: Mapping[str, Array]) -> None:
        """Move the buffers towards what a step gave; where one of it is not finite, all stay as they are."""
        if not all(np.isfinite(found[name]).all() for name in self.outputs):
            return
        for one in self.moved:
            value = self.values[one.name]
            for (output, _), share in zip(one.moves, one.shares(self.values), strict=True):
                value += np.float32(share) * (found[output].reshape(value.shape) - value)
        for name, more in self.counters.items():
            self.values[name] += more

    def copy(self) -> ModuleState:
        """Return a state that goes on by itself."""
        return replace(self, values={name: value.copy() for name, value in self.values.items()})
