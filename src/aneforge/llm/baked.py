"""Weights as the engine holds them: in fp16, each read from the checkpoint once and shared by all graphs that ask."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from aneforge.errors import CheckpointError, GraphError, Location
from aneforge.llm.architecture import is_turned, weight_shapes
from aneforge.ops.arithmetic import greatest_magnitude
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from aneforge.llm.checkpoint_weights import DecoderWeights
    from aneforge.ops.types import Array

__all__ = ["BakedWeights"]

WRITERS = ("output.weight", "output.bias", "down.weight", "down.bias", "experts.down.weight", "shared.down.weight")
"""Ends of the roles of projections that write into the residual."""


POWER_OF_TWO = 0.5
"""The mantissa of a power of two."""


class BakedWeights:
    """Weights in fp16. Those that write into the residual are divided by its scale, a power of two.

    They are kept, or last as long as a graph has them: programs whose weights are encoded hold no others.

    Raises:
        GraphError: The scale is not a power of two.
        CheckpointError: A weight is not finite, or too large for fp16; when it is read.
    """

    def __init__(self, weights: DecoderWeights, residual_scale: float = 1.0, *, kept: bool = True) -> None:
        if not (0 < residual_scale < math.inf and math.frexp(residual_scale)[0] == POWER_OF_TWO):
            raise GraphError("the residual scale must be a power of two", seen=residual_scale)
        self.weights = weights
        self.config = weights.config
        self.residual_scale = residual_scale
        self.held: MutableMapping[tuple[str, tuple[int, int] | None], Dense] = {} if kept else WeakValueDictionary()

    def __call__(self, role: str, rows: tuple[int, int] | None = None) -> Dense:
        """Return a weight, or rows of it, as a constant: graphs take it as it is, where an array would be copied."""
        found = self.held.get((role, rows))
        if found is None:
            found = self.held[role, rows] = Dense.owning(self.bake(role, rows))
        return found

    def bake(self, role: str, rows: tuple[int, int] | None) -> Array:
        """Return a weight, or rows of it, in fp16, converted in parts."""
        shape = weight_shapes(self.config)[role]
        count = shape[0] if rows is None else rows[1] - rows[0]
        made = np.empty((count, *shape[1:]), np.float16)
        filled = 0
        for block in self.weights.blocks(role, rows):
            made[filled : filled + len(block)] = self.in_half(role, block)
            filled += len(block)
        return np.ascontiguousarray(made.T) if is_turned(role) else made

    def in_half(self, role: str, values: Array) -> Array:
        """Return values in fp16, scaled where they write into the residual."""
        if self.residual_scale != 1.0 and role.endswith(WRITERS):
            values = values * np.float32(1 / self.residual_scale)
        with np.errstate(over="ignore", invalid="ignore"):
            half = values.astype(np.float16)
        if not math.isfinite(greatest_magnitude(half)):
            raise self.beyond_half(role, values)
        return half

    def beyond_half(self, role: str, values: Array) -> CheckpointError:
        """Return the error for a weight that does not fit fp16, or is not a number."""
        if not np.isfinite(values).all():
            return CheckpointError(
                f"the weight {role} has elements that are not finite numbers",
                location=Location(self.weights.checkpoint.source),
                seen=f"{values.size - np.isfinite(values).sum()} in the part that was read",
                remedy="the checkpoint is damaged: download it again",
            )
        return CheckpointError(
            f"the weight {role} does not fit fp16",
            location=Location(self.weights.checkpoint.source),
            seen=f"largest magnitude {np.abs(values).max():g}",
            limit=float(np.finfo(np.float16).max),
            remedy="--residual-scale 32 (residual_scale) divides weights that write into the residual"
            if role.endswith(WRITERS)
            else "take a checkpoint whose weights fit fp16: the engine has no wider ones",
        )

    def embed(self, ids: Sequence[int], start: int) -> Array:
        """Return what the first layer takes for tokens at positions from `start`: rows of the table, scaled."""
        rows = self.rows("embedding.weight", ids) * np.float32(self.config.embedding_scale)
        if self.config.rope is None:
            rows = rows + self.rows("positions.weight", range(start, start + len(ids)))
        with np.errstate(over="ignore", invalid="ignore"):
            half = (rows / np.float32(self.residual_scale)).astype(np.float16)
        if not math.isfinite(greatest_magnitude(half)):
            raise self.beyond_half("embedding.weight", rows)
        return half

    def rows(self, role: str, places: Sequence[int]) -> Array:
        """Return rows of a table in float32: from memory where it is there, else from the file."""
        table = self.held.get((role, None))
        if table is not None:
            return table.values[list(places)].astype(np.float32)
        return np.concatenate([self.weights.read_row(role, place) for place in places])
