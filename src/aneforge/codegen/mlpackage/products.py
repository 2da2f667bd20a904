"""Products of matrices and attention in the forms that Core ML takes.

Source of truth: what the documentation of MIL's operations allows, and what coremltools says when it reads a program.
`matmul` takes matrices, and vectors in few cases; `einsum` multiplies along the axes −1 and −3, all others being alike;
attention has the same axes before the last two in queries, keys and values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from aneforge.codegen.mil.forms import made, one
from aneforge.errors import NotSupportedError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.groups.matmul import label_extents, labels_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.codegen.mil.forms import Operands
    from aneforge.graph.node import Argument, Node, Value

__all__ = ["attention", "labelled", "matrices"]


def matrices(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Give a vector the axis that makes it a matrix, a row on the left or a column on the right."""
    x, y = one(operands, "x"), one(operands, "y")
    if x.type.rank > 1 and y.type.rank > 1:
        return None
    flags = {name: bool(node.attributes[name]) for name in ("transpose_x", "transpose_y")}
    if x.type.rank == 1:
        x, flags["transpose_x"] = made(node, "expand_dims", {"x": x}, axes=(0,)), False
    if y.type.rank == 1:
        y, flags["transpose_y"] = made(node, "expand_dims", {"x": y}, axes=(1,)), False
    product = made(node, "matmul", {"x": x, "y": y}, **flags)
    return [made(node, "reshape", {"x": product}, shape=node.types[0].shape)] if node.types[0].rank else None


def attention(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Give queries, keys and values the same axes before the last two, of which there is one at least."""
    parts = {name: one(operands, name) for name in ("query", "key", "value")}
    batch = node.types[0].shape[:-2] or (1,)
    if all(part.type.shape[:-2] == batch for part in parts.values()):
        return None
    spread: dict[str, Argument | None] = {
        **operands,
        **{name: repeated(node, part, batch) for name, part in parts.items()},
    }
    result = Tensor(build(node.op, spread, node.attributes, node.location))
    if result.type == node.types[0]:
        return [result]
    return [made(node, "reshape", {"x": result}, shape=node.types[0].shape)]


def repeated(node: Node, x: Value, batch: tuple[int, ...]) -> Value:
    """Return matrices with given axes before them, repeated along those in which there is one alone."""
    own = (*(1,) * (len(batch) - x.type.rank + 2), *x.type.shape)
    raised = x if own == x.type.shape else made(node, "reshape", {"x": x}, shape=own)
    reps = (*(count // extent for count, extent in zip(batch, own[:-2], strict=True)), 1, 1)
    return raised if set(reps) == {1} else made(node, "tile", {"x": raised}, reps=reps)


def labelled(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Rebuild a sum of products by labels as one product of matrices, but for the one equation that Core ML takes.

    Raises:
        NotSupportedError: An operand has a label twice, or the result is a single number.
    """
    values = cast("tuple[Value, Value]", operands["values"])
    equation = str(node.attributes["equation"])
    left, right, result = labels_of(equation)
    if is_public(left, right, result):
        return None
    if not result or any(len(set(labels)) < len(labels) for labels in (left, right)):
        raise NotSupportedError(
            "Core ML does not take the equation, and no product of matrices is the same",
            operation=node.op.name,
            location=node.location,
            seen=repr(equation),
            limit="a label once in every operand, and a result with axes",
            remedy="take diagonals and sums in operations of their own",
        )
    extents = label_extents([value.type for value in values], equation)
    shared = [label for label in result if label in left and label in right]
    inner = [label for label in left if label in right and label not in result]
    rows, columns = ([label for label in result if label in own and label not in shared] for own in (left, right))
    first = laid(node, values[0], left, (shared, rows, inner), extents)
    second = laid(node, values[1], right, (shared, inner, columns), extents)
    product = made(node, "matmul", {"x": first, "y": second})
    order = [*shared, *rows, *columns]
    split = made(node, "reshape", {"x": product}, shape=tuple(extents[label] for label in order))
    perm = tuple(order.index(label) for label in result)
    return [split if perm == tuple(range(len(perm))) else made(node, "transpose", {"x": split}, perm=perm)]


def is_public(left: str, right: str, result: str) -> bool:
    """Tell whether an equation is one that Core ML takes: "nchw,nwhu->nchu" or "chw,whr->chr" by other letters.

    >>> is_public("bhqd", "bdqk", "bhqk"), is_public("ij", "jk", "ik")
    (True, False)
    """
    if len({len(left), len(right), len(result)}) != 1 or len(left) not in (3, 4):
        return False
    (c, h, w), (w_again, h_again, u) = left[-3:], right[-3:]
    same_batch = left[:-3] == right[:-3] == result[:-3]
    labels = left[:-3] + c + h + w + u
    return same_batch and (w, h) == (w_again, h_again) and result[-3:] == c + h + u and len(set(labels)) == len(labels)


def laid(
    node: Node, x: Value, labels: str, groups: tuple[list[str], list[str], list[str]], extents: Mapping[str, int]
) -> Value:
    """Return an operand as matrices: shared labels, those of its rows and of its columns, each group as one axis.

    Labels of no group are summed. A shared label that is 1 long here, and longer in the other operand, is repeated.
    """
    kept = [label for group in groups for label in group]
    alone = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    if alone:
        x = made(node, "reduce_sum", {"x": x}, axes=alone, keep_dims=False)
        labels = "".join(label for label in labels if label in kept)
    perm = tuple(labels.index(label) for label in kept)
    if perm != tuple(range(len(perm))):
        x = made(node, "transpose", {"x": x}, perm=perm)
    reps = tuple(extents[label] // extent for label, extent in zip(kept, x.type.shape, strict=True))
    if any(count > 1 for count in reps):
        x = made(node, "tile", {"x": x}, reps=reps)
    shape = tuple(math.prod(extents[label] for label in group) for group in groups)
    return x if shape == x.type.shape else made(node, "reshape", {"x": x}, shape=shape)
