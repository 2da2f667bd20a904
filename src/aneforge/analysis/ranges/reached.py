"""How far the sums of a product reached for the values of a sample, whatever the order in which terms are added.

No partial sum is beyond that of only the positive terms, or of only the negative ones. Both follow from two sums: of
the terms, and of their magnitudes. The ranges of what a product reads bound them too, as if all elements were as large
as the largest; a sample knows better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.ranges.interval import as_read
from aneforge.compiler.affine import affine_of_stage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.engine.execution.epilogue import along
from aneforge.engine.execution.run_products import PRODUCT_KINDS, convolution_form
from aneforge.engine.golden import data_transform, kernel_transform
from aneforge.engine.planar import read
from aneforge.engine.products import pads_of
from aneforge.engine.rounding import to_fp16
from aneforge.ops.windows import ConvAttributes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["find_reached"]

ROWS = 3
"""Rows of a kernel that runs as Winograd."""


def find_reached(layer: Layer, target: Target, values: Mapping[str, Array]) -> float | None:
    """Return the largest magnitude that partial sums of a product can have had; None for what adds no products."""
    call = call_of_layer(layer) if layer.kind.name in PRODUCT_KINDS else None
    if call is None:
        return None
    form = convolution_form(layer, call, target) if call.op == "conv" else "direct"
    if form == "scaling":
        return None
    (first, x), (second, weights) = ((name, numbers(ref, values)) for name, ref in layer.refs())
    start = start_of(layer)
    if form == "winograd":
        # Sums and differences of four sums leave, so which of their terms are positive is not known.
        pads = pads_of(x.shape[2:], weights.shape[2:], call.attributes_as(ConvAttributes))
        offsets = np.abs(start).reshape(-1, 1, 1, 1)
        return float((transform_magnitudes(x, weights, pads) + offsets).max(initial=0.0))
    (terms,) = layer.kind.evaluate({first: x, second: weights}, layer.attributes)
    (magnitudes,) = layer.kind.evaluate({first: np.abs(x), second: np.abs(weights)}, layer.attributes)
    positive = (magnitudes + np.abs(start) + terms + start) / 2
    return float(np.maximum(positive, magnitudes + np.abs(start) - positive).max(initial=0.0))


def numbers(ref: Ref, values: Mapping[str, Array]) -> Array:
    """Return an operand as the engine reads it."""
    return as_read(values[ref.name] if isinstance(ref, Value) else ref.dense())


def start_of(layer: Layer) -> Array:
    """Return where sums start: at an offset without a gain directly after the product, else at 0."""
    stages, rank = layer.epilogue.stages, layer.core_types[0].rank
    if not stages or stages[0][0] is not Slot.GAIN_OFFSET:
        return np.zeros(())
    affine = affine_of_stage(stages[0][1], rank)
    laid = along(affine.offset, rank, affine.axis) if affine.gain is None else None
    return np.zeros(()) if laid is None else read(laid)


def transform_magnitudes(x: Array, weights: Array, pads: list[tuple[int, int]]) -> Array:
    """Return the sums of magnitudes of transformed and combined sums: [Cout, N, rows, tiles]."""
    (top, bottom), (left, right) = pads
    width = x.shape[3] + left + right - 2
    tiles = (width + 1) // 2
    image = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right + 2 * tiles - width)))
    columns = [image[..., begin : begin + 2 * tiles : 2] for begin in range(4)]
    pairs = zip(data_transform(columns), kernel_transform(weights), strict=True)
    sums = [add_row_products(np.abs(read(to_fp16(data))), np.abs(read(to_fp16(kernel)))) for data, kernel in pairs]
    # Both results of a tile are made of the two in the middle and one at an end.
    return np.maximum(sums[0], sums[3]) + sums[1] + sums[2]


def add_row_products(data: Array, kernel: Array) -> Array:
    """Return the sums of one transformed column [N, C, H, tiles] with kernels [Cout, C, 3]: [Cout, N, rows, tiles]."""
    rows = data.shape[2] - ROWS + 1
    parts = [np.tensordot(kernel[:, :, row], data[:, :, row : row + rows], (1, 1)) for row in range(ROWS)]
    return np.sum(parts, axis=0)
