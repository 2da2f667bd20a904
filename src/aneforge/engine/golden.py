"""The golden model: the engine's arithmetic in plain, readable NumPy. This file is the specification.

Everything faster must equal it bit for bit. Each function says which rounding happens where and how that is known.
Values are fp16, held in float64; one rounding is one call of `to_fp16`, `to_grid` or `to_eleven_bits`.

**Multiply and accumulate** (convolution, matmul, linear). Exact on every chip with published figures:

1. An operand is read as `rounding.decoded` says.
2. A product whose exponents add to −17 or less contributes nothing. The decision looks at exponents alone: a product of
   almost 2^-15 can vanish, one of 2^-16 can stay.
3. Any other product is exact (22 bits) and then rounded to a multiple of 2^-16.
4. The sum is exact fixed point: 15 bits before the point, 16 behind it. It starts at the bias, rounded to 2^-16. From
   2^15 on it is infinite, and stays so.
5. The result is the sum, rounded to fp16; a sum that rounds to 2^15 is infinite too.

In which order sums pass the edge is not known; here it is the order of the terms, channels first. Where the sum of the
magnitudes stays below 2^15 no order can pass it, and the result does not depend on that choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.rounding import decoded, to_fp16, to_grid

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Operand = tuple[Array, Array]

__all__ = ["accumulate", "convolution", "elementwise", "matmul", "product", "relu", "winograd_convolution"]

PRODUCT_GRID = 2.0**-16
DROPPED_UP_TO = -17
"""Sum of exponents up to which a product is dropped."""
EDGE = 2.0**15
"""From this magnitude on a sum is infinite."""


def product(x: Operand, w: Operand) -> Array:
    """Multiply decoded operands: dropped by exponent, else rounded to 2^-16 (steps 2 and 3)."""
    (x_values, x_exponents), (w_values, w_exponents) = x, w
    kept = x_exponents + w_exponents > DROPPED_UP_TO
    return np.where(kept, to_grid(x_values * w_values, PRODUCT_GRID), 0.0)


def accumulate(terms: Iterable[Array], start: Array) -> Array:
    """Add terms to a start value in fixed point; what reaches 2^15 at any moment is infinite and stays so (step 4).

    Multiples of 2^-16 are exact in float64 far beyond 2^15, so its addition is the fixed-point one.
    """
    total = to_grid(start, PRODUCT_GRID)
    stuck = np.where(np.abs(total) >= EDGE, np.sign(total), 0.0)
    for term in terms:
        total = total + term
        passed = (np.abs(total) >= EDGE) & (stuck == 0)
        stuck = np.where(passed, np.sign(total), stuck)
    return np.where(stuck != 0, np.copysign(np.inf, stuck), total)


def leave(total: Array) -> Array:
    """Round a sum to fp16 on its way out; one that rounds to 2^15 is infinite (step 5)."""
    result = to_fp16(total)
    return np.where(np.abs(result) >= EDGE, np.copysign(np.inf, result), result)


def matmul(x: Array, w: Array, bias: Array | None = None) -> Array:
    """Return x [..., M, K] times w [K, N], fp16 in and out.

    Raises:
        ValueError: The inner extents differ.
    """
    if x.shape[-1] != w.shape[0]:
        raise ValueError(f"the inner extents of {x.shape} and {w.shape} differ")
    a, b = decoded(x), decoded(w)
    shape = (*x.shape[:-1], w.shape[-1])
    start = np.broadcast_to(0.0 if bias is None else np.asarray(bias, np.float64), shape)
    terms = (product(column(a, k), row(b, k)) for k in range(w.shape[0]))
    return leave(accumulate(terms, start))


def column(operand: Operand, k: int) -> Operand:
    """Return column k of the left-hand matrix, ready to meet a row."""
    values, exponents = operand
    return values[..., k, None], exponents[..., k, None]


def row(operand: Operand, k: int) -> Operand:
    """Return row k of the right-hand matrix."""
    values, exponents = operand
    return values[k], exponents[k]


def convolution(x: Array, weight: Array, bias: Array | None = None, *, stride: int = 1, pad: int = 0) -> Array:
    """Return the direct convolution of images [N, C, H, W] with kernels [Cout, C, kH, kW], fp16 in and out.

    Exact for 3×3 kernels on the targets whose data say that they do not run Winograd.

    Raises:
        ValueError: Images and kernels have different channels.
    """
    if x.shape[1] != weight.shape[1]:
        raise ValueError(f"images {x.shape} and kernels {weight.shape} have different channels")
    images = padded(decoded(x), pad)
    kernels = decoded(weight)
    _, channels, height, width = weight.shape
    rows = (images[0].shape[2] - height) // stride + 1
    columns = (images[0].shape[3] - width) // stride + 1
    shape = (x.shape[0], weight.shape[0], rows, columns)
    start = np.zeros(shape) if bias is None else np.broadcast_to(bias.astype(np.float64)[None, :, None, None], shape)

    def terms() -> Iterable[Array]:
        for channel in range(channels):
            for i in range(height):
                for j in range(width):
                    window = np.s_[:, channel, None, i : i + stride * rows : stride, j : j + stride * columns : stride]
                    yield product(
                        (images[0][window], images[1][window]),
                        (spread(kernels[0][:, channel, i, j]), spread(kernels[1][:, channel, i, j])),
                    )

    return leave(accumulate(terms(), start))


def winograd_convolution(x: Array, weight: Array) -> Array:
    """Return a 3×3 convolution of stride 1 and padding 1 as one-dimensional Winograd F(2,3) along the width.

    Exact on even widths, for the targets whose value `winograd_on_width` says so. Kernel and data are transformed along
    the width, each value rounded once to fp16; the three rows of the kernel are summed directly; the four sums are
    combined in the accumulator. Modelled, because no figure tells: odd widths (the last tile is cut), and the edge,
    which is looked at in the combined sums alone although a transformed sum can pass it earlier.
    """
    kernels = [to_fp16(part) for part in kernel_transform(decoded(weight)[0])]
    width = x.shape[3]
    tiles = (width + 1) // 2
    image = np.pad(decoded(x)[0], ((0, 0), (0, 0), (1, 1), (1, 2 * tiles - width + 1)))
    columns = [image[..., start : start + 2 * tiles : 2] for start in range(4)]
    data = [to_fp16(part) for part in data_transform(columns)]
    sums = [direct_rows(part, kernel) for part, kernel in zip(data, kernels, strict=True)]
    pairs = np.stack([sums[0] + sums[1] + sums[2], sums[1] - sums[2] - sums[3]], axis=-1)
    joined = pairs.reshape(*pairs.shape[:3], 2 * tiles)[..., :width]
    return leave(np.where(np.abs(joined) >= EDGE, np.copysign(np.inf, joined), joined))


def kernel_transform(weight: Array) -> tuple[Array, Array, Array, Array]:
    """Return the four transformed columns of kernels [Cout, C, 3, 3], exact."""
    first, middle, last = weight[..., 0], weight[..., 1], weight[..., 2]
    return first, (first + middle + last) / 2, (first - middle + last) / 2, last


def data_transform(columns: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Return the four transformed columns of every tile, exact."""
    first, second, third, fourth = columns
    return first - third, second + third, third - second, second - fourth


def direct_rows(data: Array, kernel: Array) -> Array:
    """Return the sums over channels and kernel rows of one transformed column: [N, Cout, H, tiles]."""
    a, b = decoded(data.astype(np.float16)), decoded(kernel.astype(np.float16))
    rows = data.shape[2] - 2
    total = np.zeros((data.shape[0], kernel.shape[0], rows, data.shape[3]))
    for channel in range(kernel.shape[1]):
        for i in range(3):
            window = np.s_[:, channel, None, i : i + rows]
            total += product((a[0][window], a[1][window]), (spread(b[0][:, channel, i]), spread(b[1][:, channel, i])))
    return total


def padded(operand: Operand, pad: int) -> Operand:
    """Return images with zeros around; a zero has the least exponent and contributes nothing."""
    around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    return np.pad(operand[0], around), np.pad(operand[1], around, constant_values=-14)


def spread(values: Array) -> Array:
    """Return one number per output channel, ready to meet images."""
    return values[None, :, None, None]


def elementwise(result: Array) -> Array:
    """Round the exact result of an addition, subtraction, product or choice on the planar engine.

    Full fp16 range, subnormals kept (measured: 2^-12 · 2^-12 is 2^-24, 2048 + 1 is 2050).
    """
    return to_fp16(result)


def relu(values: Array) -> Array:
    """Return max(x, 0); it rounds nothing."""
    return np.maximum(values, 0.0)
