"""Layers in chunks: one program holds only so many bytes of constants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.llm.architecture import layer_shapes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig

__all__ = ["Chunk", "split_layers"]

BYTES_OF_ELEMENT = 2


@dataclass(frozen=True, slots=True)
class Chunk:
    """Layers from `first` to the one before `last`, and the head where `head` says so."""

    first: int
    last: int
    head: bool
    bytes: int


def split_layers(config: DecoderConfig, most_bytes: int, share: float = 1.0) -> tuple[Chunk, ...]:
    """Return chunks of layers whose constants fit one program; `share` is what an encoding leaves of fp16 bytes.

    The head stays in fp16. A layer that is too large by itself is a chunk by itself.

    >>> from aneforge.llm.architectures import describe_decoder
    >>> from aneforge.llm.settings import ModelSettings
    >>> small = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
    ...          "intermediate_size": 16, "vocab_size": 32}
    >>> config = describe_decoder(ModelSettings(small, "config.json"))
    >>> [(one.first, one.last, one.head) for one in split_layers(config, 3000)]
    [(0, 2, False), (2, 3, True)]
    """
    sizes = [layer_bytes(config, number, share) for number in range(len(config.layers))]
    head = config.vocabulary * config.width * BYTES_OF_ELEMENT
    chunks: list[Chunk] = []
    first, total = 0, 0
    for number, size in enumerate(sizes):
        if number > first and total + size > most_bytes:
            chunks.append(Chunk(first, number, head=False, bytes=total))
            first, total = number, 0
        total += size
    if first < len(sizes) and total + head > most_bytes:
        chunks.append(Chunk(first, len(sizes), head=False, bytes=total))
        first, total = len(sizes), 0
    return (*chunks, Chunk(first, len(sizes), head=True, bytes=total + head))


def layer_bytes(config: DecoderConfig, number: int, share: float) -> int:
    """Return the bytes of a layer's weights: matrices in the encoding, vectors in fp16."""
    shapes = [shape for _, shape in layer_shapes(config, config.layers[number])]
    elements = {wide: sum(math.prod(one) for one in shapes if (len(one) > 1) == wide) for wide in (True, False)}
    return round(elements[True] * BYTES_OF_ELEMENT * share) + elements[False] * BYTES_OF_ELEMENT
