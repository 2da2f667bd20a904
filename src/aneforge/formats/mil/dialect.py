"""The dialect of MIL text: every node is one operation of MIL, in the form that the text has of it.

Source of truth: the operator tests that coremltools ships, whose expected numbers were run on Core ML (`conventions`
and `resizing` have the differences from the op table), and the statements that ANEForge 0.4.0 emits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.graph.dialect import Dialect, Objection
from aneforge.ops.op import Surface

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Node, Value

__all__ = ["LINEAR_AXES", "OPSET", "mil_dialect", "mil_objection"]

LINEAR_AXES = 3
"""Most axes of the input of a linear layer in MIL; the engine's own takes four (`linear_max_rank`)."""
OPSET = "ios18"
"""The opset in which text is written."""
Check = Callable[["Node"], Objection | None]


def mil_dialect(opset: str = OPSET) -> Dialect:
    """Return the dialect of MIL text in an opset."""

    def objection(node: Node) -> Objection | None:
        if node.op.mil_name is not None and node.op.opset > opset:
            return Objection(f"MIL has it from {node.op.opset} on", seen=opset, limit=node.op.opset)
        return mil_objection(node)

    return Dialect("MIL text", objection)


def mil_objection(node: Node) -> Objection | None:
    """Return why a node is not an operation of MIL, whatever the opset."""
    check = CHECKS.get(node.op.name)
    if check is not None:
        return check(node)
    if node.op.mil_name is not None:
        return None
    supplied = any(one.supplies for one in node.op.decompositions())
    own = "" if node.op.surface is Surface.MIL else f"it runs as {node.op.surface}: "
    remedy = f"{own}write a network description, or build it from other operations"
    return Objection("it has no form in MIL text", remedy=remedy, final=supplied)


def parameter_types(node: Node) -> Objection | None:
    """Object to parameters of a normalisation in several element types."""
    dtypes = {value.type.dtype for name, value in node.values() if name != "x"}
    if len(dtypes) < 2:
        return None
    return Objection(
        "MIL takes the parameters of a normalisation in one element type", decomposition="one type of parameters"
    )


def rows_of_linear(node: Node) -> Objection | None:
    """Object to a linear layer of more axes than MIL takes."""
    rank = cast("Value", node.operands["x"]).type.rank
    if rank <= LINEAR_AXES:
        return None
    return Objection("MIL takes a linear layer of three axes", seen=rank, limit=LINEAR_AXES, decomposition="rows")


def several_images(node: Node) -> Objection | None:
    """Object to blocks of several images, which MIL counts in another order."""
    batch = cast("Value", node.operands["x"]).type.shape[0]
    high, wide = node.integers("block_shape")
    images = batch // (high * wide) if node.op.name == "batch_to_space" else batch
    return None if images == 1 else Objection("MIL counts blocks of several images in another order")


def reversed_outputs(node: Node) -> Objection | None:
    """Object to a recurrent layer in reverse: MIL gives its outputs in the order of steps, a graph at their places."""
    if node.text("direction") != "reverse" or not node.flag("output_sequence"):
        return None
    return Objection("MIL gives the outputs of a reversed layer in the order of steps", decomposition="forward")


def nearest_elements(node: Node) -> Objection | None:
    """Object to a resize whose elements MIL takes otherwise, or whose ties no source decides."""
    from aneforge.formats.mil import resizing  # noqa: PLC0415 - few graphs resize

    if not resizing.is_nearest_default(node):
        return None
    agree = all(
        np.array_equal(resizing.own_places(*lengths), resizing.nearest_places(*lengths, upper=upper))
        for lengths in resizing.resized_axes(node).values()
        for upper in (False, True)
    )
    return None if agree else Objection("MIL may take other nearest elements")


def own_scale(node: Node) -> Objection | None:
    """Object to attention with a scale or a causal mask of its own, and to the engine's own layer for it."""
    if node.flag("native"):
        return Objection(
            "the engine's own attention layer cannot be written in MIL: compilers build MIL's attention from products",
            remedy="write a network description, or omit native",
            final=True,
        )
    scale, width = node.attributes["scale"], cast("Value", node.operands["query"]).type.shape[-1]
    if scale in (None, 1 / math.sqrt(width)) and not node.flag("is_causal"):
        return None
    return Objection("MIL scales attention by 1/√D, and takes masks as tensors", decomposition="products")


def always(why: str) -> Check:
    """Return the check of an operation that MIL never takes."""
    return lambda _: Objection(why)


def not_written(node: Node) -> Objection | None:
    """Refuse an operation of which the graph holds no more than its name."""
    return Objection(f"a graph cannot write it: {node.op.no_meaning}", final=True)


CHECKS: Mapping[str, Check] = {
    "batch_norm": parameter_types,
    "batch_to_space": several_images,
    "call": not_written,
    "cond": always("MIL's conditions are blocks of statements"),
    "const": not_written,
    "gru": reversed_outputs,
    "instance_norm": parameter_types,
    "l2_norm": always("the operation of MIL has no axes, and adds epsilon"),
    "layer_norm": parameter_types,
    "linear": rows_of_linear,
    "lstm": reversed_outputs,
    "resize": nearest_elements,
    "rnn": reversed_outputs,
    "sdpa": own_scale,
    "space_to_batch": several_images,
    "while_loop": not_written,
}
"""Operations that MIL takes only in some forms, by the check of a node."""
