"""Operations whose results are sums of products of two operands, and nothing else but an offset."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Product"]


@dataclass(frozen=True, slots=True)
class Product:
    """The two operands that are multiplied."""

    data: str
    """What flows in."""
    weight: str
    """What it is multiplied by: the weights, where one of the two is constant."""
