"""A table that a converter makes by itself is refused before it takes memory, not after."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import AneforgeError
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.shared import emitter
from aneforge.formats.shared.findings import InvalidModelError
from unit.formats.onnx.onnx_models import made, node, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx

    from aneforge.ops.types import Array
    from unit.formats.onnx.onnx_models import Port

RUNTIME = "com.microsoft"
LONG, SIDE = 2**22, 2**12
PEAK_MOST = 12 * 2**20
"""Bytes; what an import of one operator takes by itself is a small part of it, and every table below is 32 MiB or more
in 64 bits."""


def one(
    operator: str,
    inputs: Sequence[str],
    ports: Mapping[str, Port],
    weights: Mapping[str, Array] | None = None,
    attributes: Mapping[str, object] | None = None,
    domain: str = "",
) -> onnx.ModelProto:
    """Return a model of one node."""
    domains = {domain: 1} if domain else None
    return made([node(operator, inputs, ["y"], attributes, domain)], ports, ["y"], weights, domains=domains)


def refused(model: onnx.ModelProto, message: str, kind: type[AneforgeError] = AneforgeError) -> None:
    """Check that a model is refused without much memory."""
    data = model.SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=message):
            from_onnx(data)
        assert tracemalloc.get_traced_memory()[1] < PEAK_MOST
    finally:
        tracemalloc.stop()


HEADS: Mapping[str, object] = {"num_heads": 1}
TABLES: dict[str, onnx.ModelProto] = {
    "divisors of averages": one(
        "AveragePool",
        ["x"],
        {"x": ("fp32", [1, 1, SIDE, SIDE])},
        attributes={"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "dilations": [2, 2]},
    ),
    "lengths of lines": one(
        "Attention",
        ["x", "w", "", "m"],
        {"x": ("fp32", [1, LONG, 2]), "m": ("int32", [1])},
        {"w": numbers(2, 6)},
        HEADS,
        RUNTIME,
    ),
    "places from one on": one(
        "RotaryEmbedding",
        ["x", "p", "c", "s"],
        {"x": ("fp32", [1, 1, LONG, 4]), "p": ("int64", [1])},
        {"c": numbers(5, 2), "s": numbers(5, 2)},
        domain=RUNTIME,
    ),
    "places of shared keys": one(
        "GroupQueryAttention",
        ["q", "k", "k", "", "", "l", "t", "c", "s"],
        {"q": ("fp32", [1, LONG, 4]), "k": ("fp32", [1, LONG, 4])},
        {
            "l": np.array([LONG - 1], np.int32),
            "t": np.array([LONG], np.int32),
            "c": numbers(5, 2),
            "s": numbers(5, 2),
        },
        {"num_heads": 1, "kv_num_heads": 1, "do_rotary": 1},
        RUNTIME,
    ),
    "places of words": one(
        "EmbedLayerNormalization",
        ["x", "", "w", "p", "", "g", "b"],
        {"x": ("int32", [1, LONG])},
        {"w": numbers(4, 8), "p": numbers(5, 8), "g": numbers(8), "b": numbers(8)},
        domain=RUNTIME,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_refused_before_it_is_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "KNOWN_MOST", 2 * SIDE)
    refused(TABLES[name], "it needs a table of")


def test_blocks_of_no_weights_are_refused() -> None:
    model = one(
        "MatMulNBits",
        ["x", "w", "s"],
        {"x": ("fp32", [1, 2**20])},
        {"w": np.zeros(0, np.uint8), "s": numbers(4)},
        {"K": 2**20, "N": 2**20, "bits": 4, "block_size": 0},
        RUNTIME,
    )
    refused(model, "K, N and block_size are not all 1 or more", InvalidModelError)


def test_a_long_axis_resized_to_a_short_one_is_compared_with_no_square_matrix() -> None:
    model = one(
        "Resize",
        ["x", "", "", "s"],
        {"x": ("fp32", [1, 1, 2**17])},
        {"s": np.array([1, 1, 10])},
        {"mode": "cubic"},
    )
    (found,) = from_onnx(model).outputs.values()
    assert found.type.shape == (1, 1, 10)
