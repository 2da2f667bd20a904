"""The form of a layer that is not an operation of the op table: its operands, attributes, shape rule and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.signature import Attribute, Operand
    from aneforge.ops.types import Array, TensorType

__all__ = ["LayerForm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerForm:
    """What a layer takes and gives."""

    operands: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    infer: Callable[..., TensorType]
    meaning: Callable[..., Array]
