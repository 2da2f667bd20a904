"""The golden model: the engine's arithmetic in plain, readable NumPy. This file is the specification.

Everything faster must equal it bit for bit. Each function says which rounding happens where and how that is known.
Operands are fp16, in that type or held in float64; results are fp16 held in float64. One rounding is one call of
`to_fp16`, `to_grid` or `to_eleven_bits`. The planar engine, the activation unit, reductions, crops, quantised numbers
and attention have files of their own next to this one; `dispatch` finds the arithmetic of an operation.

**Multiply and accumulate** (convolution, matmul, linear). Exact on every chip with published figures:

1. An operand is read as `rounding.decode_operand` says.
2. A product whose exponents add to −17 or less contributes nothing. The decision looks only at exponents: a product of
   almost 2^-15 can vanish, one of 2^-16 can stay.
3. Any other product is exact (22 bits) and then rounded to a multiple of 2^-16.
4. The sum is exact fixed point: 15 bits before the point, 16 after it. It starts at the bias, rounded to 2^-16. From
   2^15 on it is infinite, and stays so.
5. The result is the sum, rounded to fp16; a sum that rounds to 2^15 is infinite too.

Evidence: 1 to 5 together give the published errors of `commands/data/fingerprints.toml` to twelve digits, and 2 and 3
follow only from those figures. Measured directly: the edge (32,752 passes, 32,768 does not, for every length tried),
exponent 31 on two late chips, and the bias as the start of the sum on the last one. Rejected by the figures, each
by itself: normalised or flushed subnormals, ties to even anywhere, another threshold of step 2, sums in fp32 or fp16.

In which order sums pass the edge is not known; here it is the order of the terms, channels first. Where the sum of the
magnitudes stays below 2^15 no order can pass it, and the result does not depend on that choice: `Sum.reach` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from aneforge.engine.rounding import LEAST_EXPONENT, decode_operand, to_fp16, to_grid
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Operand = tuple[Array, Array]
    PerAxis = int | Sequence[int]
    Padding = int | Sequence[tuple[int, int]]

__all__ = [
    "EDGE",
    "Sum",
    "Window",
    "accumulate",
    "apply_gain",
    "bias_operand",
    "convolution",
    "convolution_sum",
    "deconvolution",
    "deconvolution_sum",
    "elementwise",
    "matmul",
    "matmul_sum",
    "product",
    "relu",
    "scaling_convolution",
    "winograd_convolution",
    "winograd_reach",
    "winograd_total",
]

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


def bias_operand(bias: Array) -> Array:
    """Return a bias in float64 as the engine reads it: exponent 31 is an ordinary one, as in every operand.

    So an infinite bias is beyond the edge from the start, and one that is NaN too: NaN was never seen to come out.

    >>> bias_operand(np.array([0.5, -np.inf], np.float16)).tolist()
    [0.5, -65536.0]
    """
    wide = np.asarray(bias, np.float64)
    ordinary = np.isfinite(wide)
    return wide if ordinary.all() else np.where(ordinary, wide, decode_operand(np.where(ordinary, 0.0, wide))[0])


def round_out(total: Array) -> Array:
    """Round a sum to fp16 on its way out; one that rounds to 2^15 is infinite (step 5)."""
    result = to_fp16(total)
    return np.where(np.abs(result) >= EDGE, np.copysign(np.inf, result), result)


def apply_gain(total: Array, gain: Array | float, offset: Array | float | None) -> Array:
    """Return gain · total + offset of a sum that was not rounded before: one rounding, over the full range of fp16.

    That a gain directly after a sum saves its rounding is chosen; not measured. What is not a number (0 times an
    infinite sum) is 0, as 0 · ∞ was seen to be.

    >>> apply_gain(np.array([2049.0, np.inf]), np.array([2.0, 0.0]), 0.5).tolist()
    [4100.0, 0.0]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        result = total * gain if offset is None else total * gain + offset
    return to_fp16(np.where(np.isnan(result), 0.0, result))


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of products that is still to be done: where it starts, and its terms in order."""

    start: Array
    terms: Callable[[], Iterable[Array]]

    def total(self) -> Array:
        """Return the sum before it is rounded on its way out."""
        return accumulate(self.terms(), self.start)

    def result(self) -> Array:
        """Return the sum as it leaves the engine."""
        return round_out(self.total())

    def reach(self) -> Array:
        """Return the sum of the magnitudes: where it is below 2^15, no order of the terms can pass the edge.

        >>> matmul_sum(np.array([[3.0, -2.0]]), np.ones((2, 1))).reach().item()
        5.0
        """
        total = np.abs(to_grid(self.start, PRODUCT_GRID))
        for term in self.terms():
            total = total + np.abs(term)
        return total


def matmul(x: Array, w: Array, bias: Array | None = None) -> Array:
    """Return x [..., M, K] times w [..., K, N], the leading axes broadcast; a vector x is one row.

    It makes no difference whether w is constant or computed at run time.

    >>> matmul(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])).item()
    11.0

    Raises:
        ValueError: The inner extents differ.
    """
    return matmul_sum(x, w, bias).result()


def matmul_sum(x: Array, w: Array, bias: Array | None = None) -> Sum:
    """Return the sums of a matrix product, not yet done.

    Raises:
        ValueError: The inner extents differ.
    """
    if x.shape[-1] != w.shape[-2]:
        raise ValueError(f"the inner extents of {x.shape} and {w.shape} differ")
    a, b = decode_operand(x), decode_operand(w)
    batch = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    shape = (*batch, *x.shape[-2:-1], w.shape[-1])
    start = np.broadcast_to(0.0 if bias is None else bias_operand(bias), shape)
    return Sum(start, lambda: (product(column(a, k), row(b, k)) for k in range(w.shape[-2])))


def column(operand: Operand, k: int) -> Operand:
    """Return column k of the left-hand matrix, ready to meet a row."""
    values, exponents = operand
    return values[..., k, None], exponents[..., k, None]


def row(operand: Operand, k: int) -> Operand:
    """Return row k of the right-hand matrix, ready to meet a column."""
    values, exponents = operand
    return (values[k], exponents[k]) if values.ndim == 2 else (values[..., k, None, :], exponents[..., k, None, :])


class Window(TypedDict, total=False):
    """How a kernel goes over images: one number for all axes, or one for each; padding also as pairs."""

    stride: PerAxis
    pad: Padding
    dilation: PerAxis
    groups: int


@dataclass(frozen=True, slots=True)
class Slides:
    """How a kernel goes over images, one number for each axis."""

    strides: list[int]
    pads: list[tuple[int, int]]
    dilations: list[int]
    groups: int

    @classmethod
    def of(cls, axes: int, *, stride: PerAxis = 1, pad: Padding = 0, dilation: PerAxis = 1, groups: int = 1) -> Slides:
        """Return a window with its defaults: stride and dilation 1, no padding, one group."""
        return cls(one_each(stride, axes), pairs(pad, axes), one_each(dilation, axes), groups)


def convolution(x: Array, weight: Array, bias: Array | None = None, **window: Unpack[Window]) -> Array:
    """Return the direct convolution of images [N, C, …] with kernels [Cout, C / groups, …] over one to three axes.

    `pad` is one number for all sides, or a pair before and after for each axis. Exact for 3×3 kernels of stride 1 on
    the targets whose data say that they do not run Winograd, and for 1×1 kernels; every other shape is taken to have
    the same sum.

    >>> convolution(np.ones((1, 1, 3)), np.ones((1, 1, 2)), stride=2, pad=[(1, 0)]).ravel().tolist()
    [1.0, 2.0]

    Raises:
        ValueError: Images and kernels have different channels, or the groups do not divide them.
    """
    return convolution_sum(x, weight, bias, **window).result()


def convolution_sum(x: Array, weight: Array, bias: Array | None = None, **window: Unpack[Window]) -> Sum:
    """Return the sums of a convolution, not yet done: for every channel of a group, every tap of the kernel.

    Raises:
        ValueError: Images and kernels have different channels, or the groups do not divide them.
    """
    outer, inner, *kernel = weight.shape
    slides = Slides.of(len(kernel), **window)
    groups = slides.groups
    if x.shape[1] != inner * groups or outer % groups:
        raise ValueError(f"images {x.shape} and kernels {weight.shape} have different channels in {groups} groups")
    images, kernels = padded(decode_operand(x), slides.pads), decode_operand(weight)
    extents = images[0].shape[2:]
    spans = [gap * (length - 1) + 1 for gap, length in zip(slides.dilations, kernel, strict=True)]
    places = [(extent - span) // step + 1 for extent, span, step in zip(extents, spans, slides.strides, strict=True)]
    seen = reshape(images, (x.shape[0], groups, 1, inner, *extents))
    taps = reshape(kernels, (1, groups, outer // groups, inner, *kernel))
    shape = (x.shape[0], outer, *places)
    ones = (1,) * len(kernel)
    start = np.broadcast_to(0.0 if bias is None else bias_operand(bias).reshape(-1, *ones), shape)
    everything, along_places = (slice(None),) * 3, (None,) * len(kernel)

    def terms() -> Iterable[Array]:
        for channel in range(inner):
            for tap in np.ndindex(*kernel):
                images_there = at(seen, (*everything, channel, *places_of(tap, slides, places)))
                weights = at(taps, (*everything, channel, *tap, *along_places))
                yield product(images_there, weights).reshape(shape)

    return Sum(start, terms)


def reshape(operand: Operand, shape: tuple[int, ...]) -> Operand:
    """Return an operand in another shape."""
    return operand[0].reshape(shape), operand[1].reshape(shape)


def at(operand: Operand, index: tuple[slice | int | None, ...]) -> Operand:
    """Return a part of an operand."""
    return operand[0][index], operand[1][index]


def places_of(tap: Sequence[int], slides: Slides, places: Sequence[int]) -> Iterable[slice]:
    """Return where one tap of the kernel falls on the padded images, along every axis."""
    for offset, stride, dilation, count in zip(tap, slides.strides, slides.dilations, places, strict=True):
        first = offset * dilation
        yield slice(first, first + stride * (count - 1) + 1, stride)


def scaling_convolution(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return a 1×1 convolution of one input channel as a scaling: fp16(fp16(x · w) + bias), in the full range of fp16.

    Such a convolution was seen to pass 60,000, which the sum of the multiply-accumulate path cannot, so it does not run
    there. That the product is rounded before the bias is added is taken from the tails of the activation tables.
    """
    images, kernels = decode_operand(x)[0], decode_operand(weight)[0]
    scaled = to_fp16(images * kernels.reshape(1, -1, *(1,) * (x.ndim - 2)))
    if bias is None:
        return scaled
    return to_fp16(decode_operand(scaled)[0] + bias_operand(bias).reshape(-1, *(1,) * (x.ndim - 2)))


def deconvolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    extents: Sequence[int] | None = None,
    **window: Unpack[Window],
) -> Array:
    """Return the transpose of a convolution: images [N, C, …] and kernels [C, Cout / groups, …].

    `extents` are the lengths of the result's axes, where the shortest ones are not wanted.

    >>> deconvolution(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0]]]), stride=2).ravel().tolist()
    [1.0, 10.0, 2.0, 20.0]

    Raises:
        ValueError: Images and kernels have different channels, or the groups do not divide them.
    """
    return deconvolution_sum(x, weight, bias, extents=extents, **window).result()


def deconvolution_sum(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    extents: Sequence[int] | None = None,
    **window: Unpack[Window],
) -> Sum:
    """Return the sums of a transposed convolution, not yet done.

    It is the direct convolution of the images, zeros set between their elements, with the kernels turned round: a
    product with zero contributes nothing, so the sums have the same terms.

    Raises:
        ValueError: Images and kernels have different channels, or the groups do not divide them.
    """
    channels, outer, *kernel = weight.shape
    slides = Slides.of(len(kernel), **window)
    groups = slides.groups
    if x.shape[1] != channels or channels % groups:
        raise ValueError(f"images {x.shape} and kernels {weight.shape} have different channels in {groups} groups")
    by_group = weight.reshape(groups, channels // groups, outer, *kernel)
    turned = np.flip(np.swapaxes(by_group, 1, 2), axis=tuple(range(3, 3 + len(kernel))))
    kernels = turned.reshape(groups * outer, channels // groups, *kernel)
    apart = set_apart(x, slides.strides)
    spans = [gap * (length - 1) for gap, length in zip(slides.dilations, kernel, strict=True)]
    full = [extent + span for extent, span in zip(apart.shape[2:], spans, strict=True)]
    wanted = [n - sum(cut) for n, cut in zip(full, slides.pads, strict=True)] if extents is None else extents
    around = [
        (span - before, span + before + extent - n)
        for span, (before, _), n, extent in zip(spans, slides.pads, full, wanted, strict=True)
    ]
    grown = np.pad(apart, [(0, 0), (0, 0), *((max(before, 0), max(after, 0)) for before, after in around)])
    cut = (
        slice(max(-before, 0), n + min(after, 0)) for (before, after), n in zip(around, grown.shape[2:], strict=True)
    )
    return convolution_sum(grown[(..., *cut)], kernels, bias, dilation=slides.dilations, groups=groups)


def set_apart(x: Array, strides: Sequence[int]) -> Array:
    """Return images with zeros between their elements, so that neighbours are a stride apart.

    >>> set_apart(np.array([[[1.0, 2.0]]]), [3]).tolist()
    [[[1.0, 0.0, 0.0, 2.0]]]
    """
    extents = [(extent - 1) * stride + 1 for extent, stride in zip(x.shape[2:], strides, strict=True)]
    result = np.zeros((*x.shape[:2], *extents), x.dtype)
    result[(..., *(slice(None, None, stride) for stride in strides))] = x
    return result


def winograd_convolution(x: Array, weight: Array, bias: Array | None = None, *, pad: Padding = 1) -> Array:
    """Return a 3×3 convolution of stride 1 as one-dimensional Winograd F(2,3) along the width.

    Exact on even widths with a padding of 1 and without a bias, for the targets whose value `winograd_on_width` says
    so. Kernel and data are transformed along the width, each value rounded once to fp16; the three rows of the kernel
    are summed directly; the four sums are combined in the accumulator. Modelled, because it is not measured: odd widths
    (the last tile is cut), other padding, where the bias enters (here the combined sum starts from it), and the edge,
    which is looked at only in the combined sums, although a transformed sum can pass it earlier.
    """
    return round_out(winograd_total(x, weight, bias, pad=pad))


def winograd_total(x: Array, weight: Array, bias: Array | None = None, *, pad: Padding = 1) -> Array:
    """Return the combined sums of a Winograd convolution before they are rounded on their way out."""
    width, sums = transform_sums(x, weight, pad, product)
    pairs_of_columns = np.stack([sums[0] + sums[1] + sums[2], sums[1] - sums[2] - sums[3]], axis=-1)
    joined = pairs_of_columns.reshape(*pairs_of_columns.shape[:3], -1)[..., :width]
    total = joined if bias is None else joined + to_grid(spread(bias_operand(bias)), PRODUCT_GRID)
    return np.where(np.abs(total) >= EDGE, np.copysign(np.inf, total), total)


def winograd_reach(x: Array, weight: Array, bias: Array | None = None, *, pad: Padding = 1) -> float:
    """Return the largest sum of magnitudes that any of the transformed and combined sums can reach."""

    def magnitudes(first: Operand, second: Operand) -> Array:
        return np.abs(product(first, second))

    _, sums = transform_sums(x, weight, pad, magnitudes)
    most = np.maximum(sums[0] + sums[1] + sums[2], sums[1] + sums[2] + sums[3])
    return float(most.max(initial=0.0) + (0.0 if bias is None else np.abs(bias_operand(bias)).max(initial=0.0)))


def transform_sums(
    x: Array, weight: Array, pad: Padding, multiply: Callable[[Operand, Operand], Array]
) -> tuple[int, list[Array]]:
    """Return the width of the result and the four sums over channels and kernel rows, before they are combined."""
    kernels = [to_fp16(part) for part in kernel_transform(decode_operand(weight)[0])]
    (top, bottom), (left, right) = pairs(pad, 2)
    width = x.shape[3] + left + right - 2
    tiles = (width + 1) // 2
    image = np.pad(decode_operand(x)[0], ((0, 0), (0, 0), (top, bottom), (left, right + 2 * tiles - width)))
    columns = [image[..., start : start + 2 * tiles : 2] for start in range(4)]
    data = [to_fp16(part) for part in data_transform(columns)]
    return width, [direct_rows(part, kernel, multiply) for part, kernel in zip(data, kernels, strict=True)]


def kernel_transform(weight: Array) -> tuple[Array, Array, Array, Array]:
    """Return the four transformed columns of kernels [Cout, C, 3, 3], exact."""
    first, middle, last = weight[..., 0], weight[..., 1], weight[..., 2]
    return first, (first + middle + last) / 2, (first - middle + last) / 2, last


def data_transform(columns: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Return the four transformed columns of every tile, exact."""
    first, second, third, fourth = columns
    return first - third, second + third, third - second, second - fourth


def direct_rows(data: Array, kernel: Array, multiply: Callable[[Operand, Operand], Array] = product) -> Array:
    """Return the sums over channels and kernel rows of one transformed column: [N, Cout, H, tiles]."""
    a, b = decode_operand(data.astype(np.float16)), decode_operand(kernel.astype(np.float16))
    rows = data.shape[2] - 2
    total = np.zeros((data.shape[0], kernel.shape[0], rows, data.shape[3]))
    for channel in range(kernel.shape[1]):
        for i in range(3):
            window = np.s_[:, channel, None, i : i + rows]
            total += multiply((a[0][window], a[1][window]), (spread(b[0][:, channel, i]), spread(b[1][:, channel, i])))
    return total


def padded(operand: Operand, pad: Padding) -> Operand:
    """Return images with zeros around; a zero has the least exponent and contributes nothing."""
    around = ((0, 0), (0, 0), *pairs(pad, operand[0].ndim - 2))
    return np.pad(operand[0], around), np.pad(operand[1], around, constant_values=LEAST_EXPONENT)


def pairs(pad: Padding, axes: int) -> list[tuple[int, int]]:
    """Return the padding before and after each axis.

    >>> pairs(1, 2), pairs([(0, 2)], 1)
    ([(1, 1), (1, 1)], [(0, 2)])
    """
    return [(pad, pad)] * axes if isinstance(pad, int) else list(pad)


def one_each(value: PerAxis, axes: int) -> list[int]:
    """Return one number for each axis."""
    return [value] * axes if isinstance(value, int) else list(value)


def spread(values: Array) -> Array:
    """Return one number per output channel, ready to meet images."""
    return values[None, :, None, None]


def elementwise(result: Array) -> Array:
    """Round the exact result of an addition, subtraction, product or choice on the planar engine.

    Full fp16 range, subnormals kept (measured: 2^-12 · 2^-12 is 2^-24, 2048 + 1 is 2050).
    """
    return to_fp16(result)


def relu(values: Array) -> Array:
    """Return max(x, 0), which rounds nothing. It gives +0 for −0; which of the two the engine gives no source says."""
    return np.where(values > 0, values, 0.0)
