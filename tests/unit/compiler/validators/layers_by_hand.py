"""Layers written by hand, good and bad: what the tests of validators share.

`changed` makes layers that no lowering would: a layer is not verified when it is made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.ir.layer import Layer, Value
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import TensorType, numpy_dtype

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Argument
    from aneforge.ops.signature import AttributeValue


def fp16(*shape: int) -> TensorType:
    return TensorType(shape)


def live(name: str, *shape: int, dtype: str = "fp16") -> Value:
    return Value(name, TensorType(shape, dtype))


def zeros(*shape: int, dtype: str = "fp16") -> Constant:
    return Dense(np.zeros(shape, numpy_dtype(dtype)))


def layer(kind: str, attributes: dict[str, object] | None = None, **operands: Argument) -> Layer:
    return new_layer(kind, operands, attributes or {}, "y", location=None)


def changed(
    old: Layer,
    attributes: dict[str, AttributeValue] | None = None,
    results: tuple[TensorType, ...] = (),
    **operands: Argument | None,
) -> Layer:
    """Return a layer with attributes, operands (None takes one away) or result types exchanged, right or wrong."""
    now = {name: value for name, value in {**old.operands, **operands}.items() if value is not None}
    made = tuple(Value(result.name, kind) for result, kind in zip(old.results, results, strict=False)) or old.results
    return replace(old, operands=now, attributes={**old.attributes, **(attributes or {})}, results=made)


def convolution(
    x: tuple[int, ...] = (1, 8, 32, 32), kernel: tuple[int, ...] = (8, 8, 3, 3), groups: int = 1, pad: int = 0
) -> Layer:
    count = len(kernel) - 2
    return layer(
        "convolution",
        {
            "strides": (1,) * count,
            "dilation_rates": (1,) * count,
            "groups": groups,
            "explicit_padding": (pad,) * (2 * count),
            "kernel_sizes": kernel[2:],
            "weights_layout": {1: "OIW", 2: "OIHW", 3: "OIDHW"}[count],
        },
        input=live("x", *x),
        weights=zeros(*kernel),
    )


def attention() -> Layer:
    rows = {name: live(name, 1, 2, 8, 4) for name in ("query", "key", "value")}
    return layer("sdpa", {"native": True}, attn_mask=live("mask", 8, 8), **rows)
