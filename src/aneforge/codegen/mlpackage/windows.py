"""Pooling, resizing, borders, slices and shapes in the forms that Core ML takes.

Source of truth: what coremltools says when it reads a program, and for the nearest elements of `resize` the operator
tests that it ships (`importers.mil.resizing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.codegen.mil.forms import made, one
from aneforge.codegen.mil.resizing import resized as resized_to_nearest
from aneforge.errors import GraphError, NotSupportedError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.importers.mil.resizing import gathered
from aneforge.ops.constant import Constant
from aneforge.ops.interpolation import extended
from aneforge.ops.types import value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.codegen.mil.forms import Operands
    from aneforge.graph.node import Argument, Node, Value

__all__ = ["counted_axis", "dilated", "mirrored", "pooled", "resized", "stated_shape", "stated_slice"]

LEAST, MOST = value_range("int32")


def rebuilt(node: Node, operands: Operands, **changed: object) -> Tensor:
    """Return a node with other attributes."""
    given: dict[str, Argument | None] = dict(operands)
    return Tensor(build(node.op, given, {**node.attributes, **changed}, node.location))


def pooled(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Write pooling over three axes, or with unequal padding, without `ceil_mode`, where that changes nothing.

    Raises:
        NotSupportedError: It changes the result.
    """
    given = node.attributes
    kernel, pad = (cast("tuple[int, ...]", given[name] or ()) for name in ("kernel_sizes", "pad"))
    if node.op.name == "l2_pool" and len(kernel) > 2:
        raise NotSupportedError(
            "Core ML does not take it over three axes", operation=node.op.name, location=node.location
        )
    even = pad[::2] == pad[1::2]
    if not given.get("ceil_mode") or (len(kernel) < 3 and even):
        return None
    try:
        result = rebuilt(node, operands, ceil_mode=False)
    except GraphError:  # without it, no window is left
        result = None
    if result is not None and result.type == node.types[0]:
        return [result]
    raise NotSupportedError(
        "Core ML does not take ceil_mode over three axes, or with unequal padding",
        operation=node.op.name,
        location=node.location,
        seen=f"{len(kernel)} axes, padding {list(pad)}",
        remedy="pad further at the ends, and leave ceil_mode out",
    )


def resized(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """State the lengths that change alone, and leave no nearest element to Core ML that it may choose otherwise."""
    rebuilt_nearest = resized_to_nearest(node, operands)
    if rebuilt_nearest is not None:
        return rebuilt_nearest
    shape, count = cast("tuple[int, ...]", node.attributes["shape"]), cast("int", node.attributes["resized_dims"])
    return [rebuilt(node, operands, shape=shape[-count:])] if len(shape) > count else None


def mirrored(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Gather a border that repeats the edge as it mirrors, which Core ML's `pad` has not."""
    if node.attributes["mode"] != "symmetric":
        return None
    x, pad = one(operands, "x"), cast("tuple[int, ...]", node.attributes["pad"])
    first = x.type.rank - len(pad) // 2
    places = {
        axis: extended(np.arange(-before, x.type.shape[axis] + behind), x.type.shape[axis], "symmetric")
        for axis, before, behind in zip(range(first, x.type.rank), pad[::2], pad[1::2], strict=True)
        if before or behind
    }
    return [gathered(node, x, places)] if places else [made(node, "identity", {"x": x})]


def stated_slice(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """State a slice in numbers that Core ML takes.

    The end of one that runs backwards past the first element, which coremltools counts from the last, is marked. A
    begin or an end beyond 32 bits, by which files say "to the end", is the largest of 32 bits: both lie beyond the
    axis.
    """
    given, shape = node.attributes, one(operands, "x").type.shape
    begin, end = (cast("tuple[int, ...]", given[name]) for name in ("begin", "end"))
    stride, mask = (cast("tuple[int, ...] | None", given[name]) for name in ("stride", "end_mask"))
    marks, steps = mask or (False,) * len(end), stride or (1,) * len(end)
    past = [step < 0 and stop < -extent for step, stop, extent in zip(steps, end, shape, strict=True)]
    short_begin, short_end = (tuple(min(max(place, LEAST), MOST) for place in places) for places in (begin, end))
    if not any(past) and (short_begin, short_end) == (begin, end):
        return None
    ends = tuple(0 if passed else stop for passed, stop in zip(past, short_end, strict=True))
    end_mask = tuple(map(any, zip(past, marks, strict=True))) if any(past) else mask
    return [rebuilt(node, operands, begin=short_begin, end=ends, end_mask=end_mask)]


def stated_shape(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """State the lengths that a reshape takes over from its operand, which Core ML allows at the same rank alone."""
    if 0 not in cast("tuple[int, ...]", node.attributes["shape"]):
        return None
    return [rebuilt(node, operands, shape=node.types[0].shape)]


def counted_axis(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Count the axis of a running sum from the front."""
    axis = cast("int", node.attributes["axis"])
    return [rebuilt(node, operands, axis=axis % one(operands, "x").type.rank)] if axis < 0 else None


def dilated(node: Node, operands: Operands) -> None:
    """Check a convolution whose weights are computed.

    Raises:
        NotSupportedError: It has dilations.
    """
    dilations = cast("tuple[int, ...]", node.attributes["dilations"] or ())
    if not isinstance(cast("Value", operands["weight"]), Constant) and any(count > 1 for count in dilations):
        raise NotSupportedError(
            "Core ML does not take dilations where the weights are computed",
            operation=node.op.name,
            location=node.location,
            seen=list(dilations),
            limit=1,
            remedy="give constant weights",
        )
