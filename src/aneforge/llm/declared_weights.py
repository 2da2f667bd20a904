"""Weights of a decoder before any is read: shapes and encodings, and the bytes that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.llm.architecture import is_turned, weight_shapes
from aneforge.ops.declared import declare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.llm.architecture import DecoderConfig
    from aneforge.ops.declared import Declared

__all__ = ["ENCODINGS", "DeclaredWeights", "encoded_share", "is_encoded"]

ENCODINGS: Mapping[str, str] = {"fp16": "dense", "int8": "int8", "int4": "palette4", "blockwise": "blockwise"}
"""Encodings by the names that `compress=` has for them, and those that constants have."""


def is_encoded(role: str, shape: tuple[int, ...]) -> bool:
    """Return whether a weight is encoded where encodings are asked for: matrices of layers, that products read.

    >>> is_encoded("layers.0.up.weight", (8, 4)), is_encoded("head.weight", (8, 4))
    (True, False)
    """
    return len(shape) > 1 and role.startswith("layers.") and ".convolution." not in role


class DeclaredWeights:
    """Weights of a decoder without values: matrices of layers in an encoding, the head and vectors in fp16."""

    def __init__(self, config: DecoderConfig, encoding: str = "dense") -> None:
        self.shapes = weight_shapes(config)
        self.encoding = encoding
        self.held: dict[tuple[str, tuple[int, int] | None], Declared] = {}

    def __call__(self, role: str, rows: tuple[int, int] | None = None) -> Declared:
        """Return a weight by its role, or rows of it."""
        if (role, rows) not in self.held:
            shape = self.shapes[role]
            taken = shape if rows is None else (rows[1] - rows[0], *shape[1:])
            taken = taken[::-1] if is_turned(role) else taken
            stored = self.encoding if is_encoded(role, shape) else "dense"
            self.held[role, rows] = declare(taken, "fp16", stored, name=role)
        return self.held[role, rows]

    def layer_bytes(self, number: int) -> int:
        """Return the bytes of the weights of a layer."""
        prefix = f"layers.{number}."
        return sum(self(role).nbytes for role in self.shapes if role.startswith(prefix))

    @property
    def share(self) -> float:
        """What the encoding leaves of the fp16 bytes of matrices in layers."""
        layer = {role: shape for role, shape in self.shapes.items() if role.startswith("layers.0.")}
        matrices = [role for role, shape in layer.items() if is_encoded(role, shape)]
        return sum(self(role).nbytes for role in matrices) / sum(self(role).type.nbytes for role in matrices)


def encoded_share(config: DecoderConfig, compress: str | None) -> float:
    """Return what `compress=` leaves of the fp16 bytes of matrices in layers; 1 where that depends on their values.

    >>> from aneforge.llm.architectures import describe_decoder
    >>> from aneforge.llm.settings import ModelSettings
    >>> small = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    ...          "intermediate_size": 128, "vocab_size": 32}
    >>> config = describe_decoder(ModelSettings(small, "config.json"))
    >>> encoded_share(config, None), encoded_share(config, "auto"), 0.5 < encoded_share(config, "int8") < 0.52
    (1.0, 1.0, True)
    """
    return DeclaredWeights(config, ENCODINGS.get(compress or "", "dense")).share
