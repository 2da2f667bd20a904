"""Independent resizing: torch and onnx where they have the mode, else exact fractions and a tent-shaped weight."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from oracle_tools import Array, Oracle, array, tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def flat(x: Array) -> Array:
    """Return images with all leading axes in one, as [1, C, H, W]."""
    return x.reshape(1, -1, *x.shape[-2:])


def by_torch(x: Array, height: int, width: int, *, align_corners: bool) -> Array:
    resized = torch.nn.functional.interpolate(
        tensor(flat(x)), size=(height, width), mode="bilinear", align_corners=align_corners
    )
    return array(resized).reshape(*x.shape[:-2], height, width)


def by_onnx(x: Array, height: int, width: int, coordinates: str) -> Array:
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode=coordinates
    )
    graph = helper.make_graph(
        [node],
        "resize",
        [
            helper.make_tensor_value_info("x", TensorProto.DOUBLE, [None] * 4),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [None] * 4)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    images = flat(x)
    sizes = np.array([*images.shape[:2], height, width], np.int64)
    run = cast("Callable[[None, dict[str, Array]], list[Array]]", getattr(ReferenceEvaluator(model), "run"))  # noqa: B009 - onnx types it as unknown
    return run(None, {"x": images, "sizes": sizes})[0].reshape(*x.shape[:-2], height, width)


def place(i: int, source: int, result: int, mode: str) -> Fraction:
    """Return where result i is read, exactly."""
    last = source - 1
    if mode == "OFFSET_CORNERS":
        part = Fraction(max(1, last), result)
        at = part / 2 + i * part
    elif mode == "UNALIGN_CORNERS":
        part = Fraction(source, result)
        at = i * part + part / 2 - Fraction(1, 2)
    elif mode == "DEFAULT":
        at = Fraction(i * source, result)
    elif result > 1:
        at = Fraction(i * last, result - 1)
    else:
        at = Fraction(last, 2) if mode == "ALIGN_CORNERS" else Fraction(0)
    return sorted([Fraction(0), at, Fraction(last)])[1]


def tent_weights(source: int, points: list[Fraction]) -> Array:
    return np.array([[float(max(Fraction(0), 1 - abs(point - j))) for j in range(source)] for point in points])


def by_fractions(x: Array, height: int, width: int, mode: str) -> Array:
    rows = tent_weights(x.shape[-2], [place(i, x.shape[-2], height, mode) for i in range(height)])
    columns = tent_weights(x.shape[-1], [place(i, x.shape[-1], width, mode) for i in range(width)])
    return array(torch.einsum("hi,...ij,wj->...hw", tensor(rows), tensor(x), tensor(columns)))


def resize_bilinear(x: Array, *, target_size_height: int, target_size_width: int, sampling_mode: str) -> Array:
    size = target_size_height, target_size_width
    match sampling_mode:
        case "STRICT_ALIGN_CORNERS":
            return by_torch(x, *size, align_corners=True)
        case "ALIGN_CORNERS" if 1 not in size:
            return by_onnx(x, *size, "align_corners")
        case "UNALIGN_CORNERS":
            return by_torch(x, *size, align_corners=False)
        case "DEFAULT":
            return by_onnx(x, *size, "asymmetric")
        case _:
            return by_fractions(x, *size, sampling_mode)


def chosen(source: int, result: int, mode: str) -> list[int]:
    """Return the elements taken by nearest-neighbour resizing."""
    points = [place(i, source, result, mode) for i in range(result)]
    if mode == "DEFAULT":
        return [math.floor(point) for point in points]
    # Of two equally near elements the later; the key compares the distance first.
    return [min(range(source), key=lambda j: (abs(point - j), -j)) for point in points]


def nearest(x: Array, height: int, width: int, mode: str = "DEFAULT") -> Array:
    rows, columns = chosen(x.shape[-2], height, mode), chosen(x.shape[-1], width, mode)
    result = np.zeros((*x.shape[:-2], height, width), x.dtype)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            result[..., i, j] = x[..., row, column]
    return result


def resize(
    x: Array, *, shape: tuple[int, ...], resized_dims: int, interpolation_mode: str, sampling_mode: str
) -> Array:
    """Multiply every resized axis by a matrix: a one for the element taken, or the weights of a tent."""
    result = tensor(x.astype(np.float64))
    for back in range(1, resized_dims + 1):
        source = x.shape[-back]
        count = shape[-back] if shape[-back] != 0 else source
        if interpolation_mode == "NEAREST_NEIGHBOR":
            weights = np.eye(source)[chosen(source, count, sampling_mode)]
        else:
            weights = tent_weights(source, [place(i, source, count, sampling_mode) for i in range(count)])
        result = torch.matmul(result.movedim(-back, -1), tensor(weights.T)).movedim(-1, -back)
    return array(result).astype(x.dtype)


def resize_nearest_neighbor(x: Array, *, target_size_height: int, target_size_width: int) -> Array:
    return nearest(x, target_size_height, target_size_width)


def scaled(x: Array, height_factor: float, width_factor: float) -> tuple[int, int]:
    """Multiply in single precision, as torch does it."""
    factors = torch.tensor([height_factor, width_factor], dtype=torch.float32)
    height, width = array(torch.floor(torch.tensor(x.shape[-2:], dtype=torch.float32) * factors))
    return int(height), int(width)


def upsample_bilinear(
    x: Array,
    *,
    scale_factor_height: float,
    scale_factor_width: float,
    align_corners: bool,
    half_pixel_centers: bool | None,
) -> Array:
    size = scaled(x, scale_factor_height, scale_factor_width)
    if half_pixel_centers is None or half_pixel_centers is not align_corners:
        return by_torch(x, *size, align_corners=align_corners)
    if not align_corners:
        return by_onnx(x, *size, "asymmetric")
    weights: list[Array] = []
    for source, result in zip(x.shape[-2:], size, strict=True):
        spacing = Fraction(source - 1, max(result - 1, 1))
        ends = Fraction(0), Fraction(source - 1)
        points = [sorted([*ends, spacing * (2 * i + 1) / 2 - Fraction(1, 2)])[1] for i in range(result)]
        weights.append(tent_weights(source, points))
    return array(torch.einsum("hi,...ij,wj->...hw", tensor(weights[0]), tensor(x), tensor(weights[1])))


def upsample_nearest_neighbor(x: Array, *, scale_factor_height: float, scale_factor_width: float) -> Array:
    return nearest(x, *scaled(x, scale_factor_height, scale_factor_width))


def upsample(x: Array, *, scale: int) -> Array:
    resized = torch.nn.functional.interpolate(tensor(flat(x)), scale_factor=float(scale), mode="nearest")
    return array(resized).reshape(*x.shape[:-2], x.shape[-2] * scale, x.shape[-1] * scale)


def by_element(x: Array, values: list[float]) -> Array:
    return np.array(values).reshape(x.shape)


def gamma(x: Array) -> Array:
    linear = cast("list[float]", x.ravel().tolist())
    return by_element(
        x, [12.92 * one if one <= 0.0031308 else 1.055 * math.exp(math.log(one) / 2.4) - 0.055 for one in linear]
    )


def degamma(x: Array) -> Array:
    coded = cast("list[float]", x.ravel().tolist())
    return by_element(
        x, [one / 12.92 if one <= 0.04045 else math.exp(2.4 * math.log((one + 0.055) / 1.055)) for one in coded]
    )


def pixel_buffer_to_tensor(x: Array) -> Array:
    return array(tensor(x).to(torch.float64))


def tensor_to_pixel_buffer(x: Array) -> Array:
    values = cast("list[float]", x.ravel().tolist())
    return np.array([min(255, max(0, int(abs(one) + 0.5) if one > 0 else 0)) for one in values], np.uint8).reshape(
        x.shape
    )


ORACLES: dict[str, Oracle] = {
    "resize": resize,
    "resize_bilinear": resize_bilinear,
    "resize_nearest_neighbor": resize_nearest_neighbor,
    "upsample_bilinear": upsample_bilinear,
    "upsample_nearest_neighbor": upsample_nearest_neighbor,
    "upsample": upsample,
    "gamma": gamma,
    "degamma": degamma,
    "pixel_buffer_to_tensor": pixel_buffer_to_tensor,
    "tensor_to_pixel_buffer": tensor_to_pixel_buffer,
}
