"""Findings that no legality rule makes: what ranges and comparisons between targets show. One id each, explained."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DIVERGENCE", "PREDICTED", "Predicted", "rule_of_edge"]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A kind of finding that is predicted, not judged by a rule."""

    id: str
    edge: str
    """The edge of the engine that is passed; empty for what is none."""
    risk: str
    """saturation or loss, as a report calls the risk of fp16; empty for what is none."""
    message: str
    explanation: str


DIVERGENCE = Predicted(
    "ANE-CHIPS-001",
    "",
    "",
    "Two targets can give different answers.",
    "Their programs or their datapaths differ in that operation. `aneforge compare` runs both and shows the bits.",
)
EDGES = (
    Predicted(
        "ANE-RANGE-001",
        "fp16 overflow",
        "saturation",
        "A result can be larger than fp16 holds.",
        "The largest finite number of fp16 is 65504; what is larger becomes infinite.",
    ),
    Predicted(
        "ANE-RANGE-002",
        "accumulator edge",
        "saturation",
        "A partial sum can pass the edge of the accumulator.",
        "Sums of products are held in fixed point up to 2^15 in magnitude before they leave as fp16.",
    ),
    Predicted(
        "ANE-RANGE-003",
        "fixed-point crop",
        "saturation",
        "A slice can pass values that its fixed-point copy makes infinite.",
        "Where slices inside the width are copied with a factor of 16, magnitudes above 4094 become infinite.",
    ),
    Predicted(
        "ANE-RANGE-004",
        "int8 activations",
        "saturation",
        "Activations beside int8 weights can be too large for their encoding.",
        "They pass an encoding with a factor of 16, which makes magnitudes above 4094 infinite.",
    ),
    Predicted(
        "ANE-RANGE-005",
        "product grid",
        "loss",
        "Products are so small that they lose bits.",
        "Products are rounded to multiples of 2^-16, so small ones keep fewer bits than fp16 has.",
    ),
)
PREDICTED = {one.id: one for one in (*EDGES, DIVERGENCE)}


def rule_of_edge(edge: str) -> Predicted:
    """Return the kind of finding for an edge of the engine.

    >>> rule_of_edge("product grid").risk
    'loss'
    """
    return next(one for one in EDGES if one.edge == edge)
