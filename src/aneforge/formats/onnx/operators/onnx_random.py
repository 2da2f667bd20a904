"""Numbers drawn at random. What a graph draws is not what another tool draws with the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.extents import check_extents
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value


def seed_of(call: Call) -> int:
    """Return the seed of a node as an integer; −1 for none. ONNX has real ones, whose bits are taken."""
    if not call.has("seed"):
        return -1
    return int(np.float32(call.number("seed")).view(np.uint32)) >> 1


def draw(call: Call, shape: tuple[int, ...], dtype: str) -> Value:
    """Return numbers drawn evenly or from the normal distribution."""
    normal = "Normal" in call.operator
    names = ("mean", "scale") if normal else ("low", "high")
    first, second = (call.number(name) for name in names)
    attributes = {"mean": first, "stddev": second} if normal else {"low": first, "high": second}
    kind = dtype if is_float(dtype) else "fp32"
    op = "random_normal" if normal else "random_uniform"
    return call.emit.cast(call.emit.apply(op, {}, shape=shape, seed=seed_of(call), dtype=kind, **attributes), dtype)


@operator("RandomNormal", "RandomUniform")
def random(call: Call) -> Value:
    """Convert numbers drawn for a shape."""
    return draw(call, check_extents("the shape", call.integers("shape") or ()), call.dtype("dtype"))


@operator("RandomNormalLike", "RandomUniformLike")
def random_like(call: Call) -> Value:
    """Convert numbers drawn for the shape of a tensor, in its element type unless another is given."""
    x = call.value(0)
    return draw(call, x.type.shape, call.dtype("dtype") if call.has("dtype") else x.type.dtype)


@operator("Multinomial")
def multinomial(call: Call) -> Value:
    """Convert classes drawn by the logarithms of their probabilities."""
    x = call.value(0)
    if x.type.rank != 2:
        raise GraphError("its input is not [batch, classes]", seen=list(x.type.shape))
    places = call.emit.apply(
        "random_categorical", {"x": x}, mode="logits", size=call.integer("sample_size"), seed=seed_of(call)
    )
    return call.emit.cast(places, call.dtype("dtype"))
