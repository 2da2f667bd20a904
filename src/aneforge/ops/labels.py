"""Products by labels: the equations of einsum, taken apart and checked."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

from aneforge.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.types import TensorType

__all__ = ["label_extents", "labels_of"]


def labels_of(equation: str) -> tuple[str, str, str]:
    """Return the labels of the two operands and of the result.

    >>> labels_of("ij, jk -> ik")
    ('ij', 'jk', 'ik')

    Raises:
        GraphError: The equation is not of this form, or the result's labels are not the operands'.
    """
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    operands = inputs.split(",")
    if not arrow or len(operands) != 2:
        raise GraphError(
            "the equation is not of two operands and a result", seen=repr(equation), limit="such as 'ij,jk->ik'"
        )
    for label in "".join((*operands, result)):
        if label not in string.ascii_letters:
            raise GraphError(f"the equation has {label!r} for a label", seen=repr(equation), limit="letters")
    for label in result:
        if label not in inputs:
            raise GraphError(f"the result has the label {label!r}, which no operand has", seen=repr(equation))
        if result.count(label) > 1:
            raise GraphError(f"the result has the label {label!r} twice", seen=repr(equation))
    return operands[0], operands[1], result


def label_extents(values: Sequence[TensorType], equation: str) -> dict[str, int]:
    """Return the length that every label stands for; a label of both operands and the result may be 1 long in one.

    Raises:
        GraphError: There are not two operands, one does not have as many axes as labels, or one label has two lengths.
    """
    *operands, result = labels_of(equation)
    if len(values) != 2:
        raise GraphError("einsum takes two operands", seen=f"{len(values)} operands", limit=2)
    extents: dict[str, int] = {}
    for position, (labels, value) in enumerate(zip(operands, values, strict=True)):
        if len(labels) != value.rank:
            raise GraphError(
                f"operand {position} has labels {labels!r} and shape {list(value.shape)}",
                seen=f"rank {value.rank}",
                limit=f"rank {len(labels)}",
            )
        for label, extent in own_extents(labels, value, equation).items():
            known = extents.setdefault(label, extent)
            if known == extent:
                continue
            if label not in result or 1 not in (known, extent):
                raise GraphError(
                    f"the label {label!r} of {equation!r} has two lengths",
                    seen=f"{known} and {extent}",
                    limit="one length, or 1 in one operand for a label of the result",
                )
            extents[label] = known if extent == 1 else extent
    return extents


def own_extents(labels: str, value: TensorType, equation: str) -> dict[str, int]:
    """Return the length that every label of one operand stands for.

    Raises:
        GraphError: One label has two lengths.
    """
    extents: dict[str, int] = {}
    for label, extent in zip(labels, value.shape, strict=True):
        if extents.setdefault(label, extent) != extent:
            raise GraphError(
                f"the label {label!r} of {equation!r} has two lengths", seen=f"{extents[label]} and {extent}"
            )
    return extents
