"""Independent implementations of quantisation: torch where it has the operation, loops over places elsewhere."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch

from aneforge.ops.types import bits
from oracle_tools import Array, Oracle, array, tensor


def cast_value(value: float, dtype: str) -> float:
    if dtype == "bool":
        return bool(value)
    if dtype.startswith(("fp", "bf")):
        return float(value)
    whole = math.trunc(value) % (1 << bits(dtype))
    return whole if dtype.startswith("u") or whole < 1 << (bits(dtype) - 1) else whole - (1 << bits(dtype))


def saturated(value: float, dtype: str) -> float:
    unsigned = dtype.startswith("u")
    if not dtype.startswith(("int", "uint")):
        return cast_value(value, dtype)
    least = 0 if unsigned else -(1 << (bits(dtype) - 1))
    most = (1 << (bits(dtype) if unsigned else bits(dtype) - 1)) - 1
    return min(max(math.trunc(value), least), most)


def cast(x: Array, *, dtype: str) -> Array:
    change = saturated if x.dtype.kind == "f" else cast_value
    return np.array([change(value.item(), dtype) for value in x.ravel()]).reshape(x.shape)


def constexpr_cast(source_val: Array, *, output_dtype: str) -> Array:
    return cast(source_val, dtype=output_dtype)


def by_place(shape: tuple[int, ...], value: Callable[[tuple[int, ...]], float]) -> Array:
    return np.array([value(place) for place in itertools.product(*map(range, shape))]).reshape(shape)


def at(part: Array | None, place: tuple[int, ...], axis: int | None) -> float:
    if part is None:
        return 0
    return part.item() if part.ndim == 0 or axis is None else part[place[axis]].item()


def quantize(x: Array, scale: Array, zero_point: Array | None, *, output_dtype: str, axis: int | None) -> Array:
    least, most = (0, 255) if output_dtype == "uint8" else (-128, 127)
    return by_place(
        x.shape,
        lambda place: min(
            max(round(x[place].item() / at(scale, place, axis)) + at(zero_point, place, axis), least), most
        ),
    )


def dequantize(x: Array, scale: Array, zero_point: Array | None, *, axis: int | None) -> Array:
    return by_place(x.shape, lambda place: at(scale, place, axis) * (x[place].item() - at(zero_point, place, axis)))


def affine(x: Array, scale: Array, zero_point: Array, *, axis: int) -> Array:
    return dequantize(x, scale, zero_point, axis=axis)


def block_of(place: tuple[int, ...], shape: tuple[int, ...], blocks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(at * count // extent for at, extent, count in zip(place, shape, blocks, strict=True))


def lut_to_dense(indices: Array, lut: Array, *, vector_axis: int | None) -> Array:
    if lut.ndim == 1:
        lut = lut.reshape(*([1] * indices.ndim), -1, 1)
    axis = (vector_axis or 0) % indices.ndim
    vector = lut.shape[-1]
    shape = tuple(extent * vector if one == axis else extent for one, extent in enumerate(indices.shape))

    def looked_up(place: tuple[int, ...]) -> float:
        source = tuple(at // vector if one == axis else at for one, at in enumerate(place))
        block = block_of(source, indices.shape, lut.shape[:-2])
        return lut[(*block, int(indices[source]), place[axis] % vector)].item()

    return by_place(shape, looked_up)


def sparse_to_dense(mask: Array, nonzero_data: Array) -> Array:
    return array(
        torch.zeros(mask.shape, dtype=tensor(nonzero_data).dtype).masked_scatter(
            tensor(mask.astype(np.bool_)), tensor(nonzero_data)
        )
    )


def scaled(data: Array, scale: Array, offset: Array | None) -> Array:
    def number(place: tuple[int, ...]) -> float:
        block = block_of(place, data.shape, scale.shape)
        return scale[block].item() * (float(data[place]) - (0.0 if offset is None else float(offset[block])))

    return by_place(data.shape, number)


def places_set(mask: Array) -> list[tuple[int, ...]]:
    return [place for place in itertools.product(*map(range, mask.shape)) if mask[place]]


def dense_of(mask: Array, nonzero_data: Array) -> Array:
    dense = np.zeros(mask.shape)
    for place, value in zip(places_set(mask), nonzero_data, strict=True):
        dense[place] = float(value)
    return dense


def sparse_scaled(mask: Array, nonzero_data: Array, scale: Array, offset: Array | None) -> tuple[Array, Array]:
    dense = scaled(dense_of(mask, nonzero_data), scale, offset)
    return mask, np.array([dense[place] for place in places_set(mask)])


def lut_to_sparse(mask: Array, nonzero: Array, lut: Array, *, vector_axis: int | None) -> tuple[Array, Array]:
    dense = lut_to_dense(dense_of(mask, nonzero), lut, vector_axis=vector_axis)
    length = dense.shape[vector_axis or 0] // mask.shape[vector_axis or 0]
    repeated = np.concatenate(
        [one for one in np.split(mask, mask.shape[vector_axis or 0], vector_axis or 0) for _ in range(length)],
        vector_axis or 0,
    )
    return repeated, np.array([dense[place] for place in places_set(repeated)])


ORACLES: dict[str, Oracle] = {
    "cast": cast,
    "constexpr_cast": constexpr_cast,
    "quantize": quantize,
    "dequantize": dequantize,
    "constexpr_affine_dequantize": affine,
    "constexpr_lut_to_dense": lut_to_dense,
    "constexpr_sparse_to_dense": sparse_to_dense,
    "constexpr_blockwise_shift_scale": scaled,
    "constexpr_sparse_blockwise_shift_scale": sparse_scaled,
    "constexpr_lut_to_sparse": lut_to_sparse,
}
