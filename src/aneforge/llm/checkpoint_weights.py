"""Weights by role: found in a checkpoint under their stored names, checked against the plan, read one at a time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import CheckpointError, Location
from aneforge.llm.architecture import weight_shapes
from aneforge.llm.architectures import architecture_of
from aneforge.llm.settings import ModelSettings
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.llm.architecture import DecoderConfig, WeightSource
    from aneforge.llm.checkpoint import Checkpoint, StoredTensor
    from aneforge.ops.types import Array

__all__ = ["DecoderWeights", "find_weights"]

OTHER_USES = re.compile(
    r"""rotary_emb\.inv_freq$ | \.attn\.(masked_)?bias$  # tables that older files store
    | ^(model\.)?(mtp|visual)\.                         # drafting of more tokens, images
    | ^lm_head\.weight$ | ^(model\.)?output\.weight$    # a head that is tied is the table of embeddings
    """,
    re.VERBOSE,
)
"""Names of tensors without which a decoder has the same logits."""
BLOCK_ELEMENTS = 1 << 20
"""Numbers that are converted at a time: 4 MB in float32."""


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The weights of a decoder, all of them found and of the right shape; values are read when they are asked for."""

    checkpoint: Checkpoint
    config: DecoderConfig
    sources: Mapping[str, WeightSource]
    """By role, with the names that the checkpoint has."""
    unused: tuple[str, ...] = ()
    """Tensors that the checkpoint has and the plan has no place for, but for those that are known to be for others."""

    def read(self, role: str, rows: tuple[int, int] | None = None) -> Array:
        """Return a weight in float32, or rows of it, in the shape that its role has.

        Raises:
            CheckpointError: The file cannot be read.
        """
        return np.concatenate(list(self.blocks(role, rows)))

    def blocks(self, role: str, rows: tuple[int, int] | None = None) -> Iterator[Array]:
        """Yield a weight, or rows of it, in float32 and in parts of a bounded size: no tensor is in memory twice.

        Raises:
            CheckpointError: The file cannot be read.
        """
        source, shape = self.sources[role], weight_shapes(self.config)[role]
        first, last = (0, shape[0]) if rows is None else rows
        each = shape[0] // len(source.names)
        width = math.prod(shape[1:])
        step = max(1, BLOCK_ELEMENTS // max(1, width))
        for place, name in enumerate(source.names):
            start, stop = max(first - place * each, 0), min(last - place * each, each)
            for begin in range(start, stop, step if is_plain(source) else each):
                end = min(begin + step, stop) if is_plain(source) else stop
                found = self.read_part(source, name, (begin, end)).reshape(end - begin, *shape[1:])
                found = -np.exp(found) if source.exponential else found
                yield found + np.float32(source.added) if source.added else found

    def read_row(self, role: str, place: int) -> Array:
        """Return one row of a table, which is stored as it is, in float32."""
        (name,) = self.sources[role].names
        return self.checkpoint.read(name, slice(place, place + 1)).astype(np.float32)

    def read_part(self, source: WeightSource, name: str, rows: tuple[int, int]) -> Array:
        """Return rows of what a role takes of one stored tensor."""
        if is_plain(source):
            offset = 0 if source.rows is None else source.rows[0]
            return self.checkpoint.read(name, slice(offset + rows[0], offset + rows[1])).astype(np.float32)
        found = self.checkpoint.read(name)
        found = found.T if source.transposed else found
        taken = found if source.rows is None else found[slice(*source.rows)]
        if source.row_groups is not None:
            group, start, stop = source.row_groups
            grouped = taken.reshape(-1, group, *taken.shape[1:])[:, start:stop]
            taken = grouped.reshape(-1, *taken.shape[1:])
        return np.ascontiguousarray(taken[slice(*rows)], np.float32)


def is_plain(source: WeightSource) -> bool:
    """Return whether rows of a role are rows of the stored tensor, one after the other."""
    return not source.transposed and source.row_groups is None


def find_weights(checkpoint: Checkpoint) -> DecoderWeights:
    """Return the weights of a checkpoint, with its plan.

    Raises:
        CheckpointError: A tensor is missing or has another shape, or a setting is wrong.
        UnsupportedModelError: The model is not supported here.
    """
    settings = ModelSettings(checkpoint.settings, checkpoint.source)
    adapter = architecture_of(settings)
    config = adapter.describe(settings)
    located, shapes = adapter.locate(config), weight_shapes(config)
    sources: dict[str, WeightSource] = {}
    for role, shape in shapes.items():
        source = stored_source(checkpoint, located[role], adapter.prefixes, role)
        expect_shape(checkpoint, source, shape)
        sources[role] = source
    used = {name for source in sources.values() for name in source.names}
    left = (name for name in checkpoint.tensors if name not in used and OTHER_USES.search(name) is None)
    return DecoderWeights(checkpoint, config, sources, tuple(sorted(left)))


def stored_source(checkpoint: Checkpoint, source: WeightSource, prefixes: tuple[str, ...], role: str) -> WeightSource:
    """Return a source with the names that the checkpoint has: some leave a prefix out.

    Raises:
        CheckpointError: There is no such tensor.
    """
    found: list[str] = []
    for name in source.names:
        stored = next((prefix + name for prefix in prefixes if prefix + name in checkpoint.tensors), None)
        if stored is None:
            raise missing_tensor(checkpoint, name, role)
        found.append(stored)
    return replace(source, names=tuple(found))


def missing_tensor(checkpoint: Checkpoint, name: str, role: str) -> CheckpointError:
    """Return the error for a tensor that is not there; a head has a remedy of its own."""
    remedy = "the folder is incomplete, or its config.json is of another model"
    if role == "head.weight":
        remedy = "set tie_word_embeddings to true in config.json if the head is the table of embeddings"
    return CheckpointError(f"there is no tensor {name!r} ({role})", location=Location(checkpoint.source), remedy=remedy)


def expect_shape(checkpoint: Checkpoint, source: WeightSource, shape: tuple[int, ...]) -> None:
    """Check that stored tensors give the shape of their role.

    Raises:
        CheckpointError: They do not.
    """
    part = (shape[0] // len(source.names), *shape[1:])
    for name in source.names:
        stored = checkpoint.tensors[name]
        given = find_source_shape(stored, source)
        if np.prod(given) != np.prod(part) or given[0] != part[0]:
            raise CheckpointError(
                f"tensor {name!r} has a different shape than config.json asks for",
                location=Location(checkpoint.source),
                seen=list(stored.shape),
                limit=f"{list(part)}{' in the rows that are taken' if source.rows or source.row_groups else ''}",
                remedy="the tensors are of a different model than config.json",
            )


def find_source_shape(stored: StoredTensor, source: WeightSource) -> tuple[int, ...]:
    """Return the shape that a source gives, from that of the tensor that it takes."""
    shape = stored.shape[::-1] if source.transposed else stored.shape
    if source.rows is not None:
        start, stop = source.rows
        shape = (max(0, min(stop, shape[0]) - start), *shape[1:])
    if source.row_groups is not None:
        group, start, stop = source.row_groups
        shape = (shape[0] // group * (stop - start), *shape[1:])
    return shape
