"""The published figures, and how they were made: the program, its input, and what its output was compared with.

`data/fingerprints.toml` has the figures. A recipe draws again what a public benchmark drew (NumPy's generators give the
same numbers everywhere), builds the program with the builder, and returns experiments. The figure is the mean of their
relative errors.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from aneforge.graph.builder.convolution import conv as convolve
from aneforge.graph.builder.inputs import input as placeholder
from aneforge.records import dataclass
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array

__all__ = ["FIGURES", "RECIPES", "Experiment", "Fingerprint", "half", "read_published", "relative_error"]

FIGURES = Path(__file__).parent / "data" / "fingerprints.toml"
LONG_ROW = 4096


class Fingerprint(Entry, frozen=True):
    """One published figure."""

    name: str
    workload: str
    size: int
    chips: tuple[str, ...]
    error: float
    tolerance: float
    """How far from the figure the engine may be, relative to it."""
    batch: int = 1


class Published(Entry, frozen=True):
    """`fingerprints.toml`."""

    fingerprints: tuple[Fingerprint, ...]
    """Figures that the engine reproduces."""
    open: tuple[Fingerprint, ...]
    """Figures of reductions, whose order of partial sums is not known."""


@cache
def read_published() -> Published:
    """Return the published figures.

    >>> len(read_published().fingerprints), read_published().fingerprints[0].name
    (14, 'linear 512')
    """
    return read(FIGURES, Published)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One program, its one input, and the reference."""

    graph: Tensor
    x: Array
    """As it was drawn; the program gets it in fp16, rounded as NumPy rounds."""
    reference: Array
    """Of the numbers before that rounding. Where it is shorter than the output, the first rows are compared."""


def half(values: Array) -> Array:
    """Return what the host passes: fp16, rounded as NumPy rounds."""
    return values.astype(np.float16)


def relative_error(answer: Array, reference: Array) -> float:
    """Return the Frobenius norm of the difference over that of the reference, in float64; of the reference's rows.

    >>> relative_error(np.array([[3.0], [9.0]]), np.array([[4.0]]))
    0.25
    """
    wide = reference.astype(np.float64)
    return float(np.linalg.norm(answer[: len(wide)].astype(np.float64) - wide) / np.linalg.norm(wide))


def input_like(x: Array) -> Tensor:
    """Return the input of a program that takes such an array."""
    return placeholder(x.shape, name="x")


# Products.


def square_linear(size: int, _: int) -> list[Experiment]:
    """Return x · Wᵀ for square matrices; 256 rows are compared."""
    generator = np.random.default_rng(0)
    scale = np.float32(np.sqrt(size))
    x, w = (generator.standard_normal((size, size)).astype(np.float32) / scale for _ in range(2))
    reference = x[:256].astype(np.float64) @ w.astype(np.float64).T
    return [Experiment(input_like(x).linear(half(w)), x, reference)]


def small_linear(size: int, rows: int) -> list[Experiment]:
    """Return x · Wᵀ for some rows; NumPy 2 makes the operands float64."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, size)).astype(np.float32) / np.sqrt(size)
    w = generator.standard_normal((size, size)).astype(np.float32) / np.sqrt(size)
    return [Experiment(input_like(x).linear(half(w)), x, x @ w.T)]


def dft(size: int, _: int) -> list[Experiment]:
    """Return the real and the imaginary part of a discrete Fourier transform, two programs."""
    x = np.random.default_rng(2).standard_normal((1, size))
    places = np.arange(size)
    angles = -2 * np.pi * np.outer(places, places) / size
    return [
        Experiment(input_like(x).linear(half(matrix)), x, x @ matrix.T) for matrix in (np.cos(angles), np.sin(angles))
    ]


def conv(size: int, batch: int) -> list[Experiment]:
    """Return a 3×3 convolution of 64×64 images; the first of the batch is compared."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((batch, size, 64, 64)).astype(np.float32)
    w = generator.standard_normal((size, size, 3, 3)).astype(np.float32) * he_scale(size)
    return [Experiment(convolve(input_like(x), half(w), stride=1, pad=1), x, exact_convolution(x[:1], w))]


def conv_relu(size: int, batch: int) -> list[Experiment]:
    """Return a 3×3 convolution of 32×32 images to 64 channels, and a rectifier."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((batch, size, 32, 32)).astype(np.float32)
    w = generator.standard_normal((64, size, 3, 3)).astype(np.float32) * he_scale(size)
    graph = convolve(input_like(x), half(w), pad=1).relu()
    return [Experiment(graph, x, np.maximum(exact_convolution(x, w), 0))]


def he_scale(channels: int) -> np.float64:
    """Return the deviation of the weights; a NumPy scalar, so that NumPy 2 makes the product float64."""
    return np.sqrt(np.float64(2 / (9 * channels)))


def exact_convolution(x: Array, w: Array) -> Array:
    """Return a 3×3 convolution in float64."""
    around = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(around, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64), optimize=True)


# Rows of 4096 numbers.


def rows_of(count: int) -> Array:
    """Return the input of the row-wise figures: one generator draws 256, then 2048, then 8192 rows."""
    generator = np.random.default_rng(11)
    for drawn in (256, 2048, 8192):
        x = generator.standard_normal((drawn, LONG_ROW)).astype(np.float32)
        if drawn == count:
            return x
    raise ValueError(f"expected 256, 2048 or 8192 rows, got {count}")


def relu(rows: int, _: int) -> list[Experiment]:
    """Return a rectifier, whose error is that of the host's rounding."""
    x = rows_of(rows)
    return [Experiment(input_like(x).relu(), x, np.maximum(x, 0))]


def gelu(rows: int, _: int) -> list[Experiment]:
    """Return GELU against its tanh form, powers in float32 as the reference has them."""
    x = rows_of(rows)
    cubes = (x.astype(np.float64) ** 3).astype(np.float32)
    reference = x * 0.5 * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * cubes)))
    return [Experiment(input_like(x).gelu(), x, reference)]


def total(rows: int, _: int) -> list[Experiment]:
    """Return sums of rows against NumPy's own in float32."""
    x = rows_of(rows)
    return [Experiment(input_like(x).sum(-1), x, x.sum(axis=1, keepdims=True))]


def softmax(rows: int, _: int) -> list[Experiment]:
    """Return a softmax of rows against one in float32."""
    x = rows_of(rows)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return [Experiment(input_like(x).softmax(-1), x, powers / powers.sum(axis=1, keepdims=True))]


# Norms, in the steps in which the benchmark's builder wrote them.


def norm_inputs(rows: int) -> tuple[Array, Array, Array]:
    """Return the rows, gamma and beta of the figures of norms."""
    generator = np.random.default_rng(7)
    x = generator.standard_normal((rows, 768)).astype(np.float32)
    gamma = generator.standard_normal(768).astype(np.float32) * 0.1 + 1
    return x, gamma, generator.standard_normal(768).astype(np.float32) * 0.1


def layer_norm(rows: int, _: int) -> list[Experiment]:
    """Return a layer norm as reduce_mean, sub, mul, reduce_mean, add, rsqrt, mul, mul, add."""
    x, gamma, beta = norm_inputs(rows)
    source = input_like(x)
    distances = source - source.mean(-1)
    roots = (distances * distances).mean(-1).adds(1e-5).rsqrt()
    graph = distances * roots * half(gamma) + half(beta)
    wide = x - x.mean(axis=1, keepdims=True)
    spread = np.sqrt((wide**2).mean(axis=1, keepdims=True) + np.float32(1e-5))
    return [Experiment(graph, x, wide / spread * gamma + beta)]


def rms_norm(rows: int, _: int) -> list[Experiment]:
    """Return a root-mean-square norm as mul, reduce_sum, mul by 1 / n, add, rsqrt, mul, mul."""
    x, gamma, _beta = norm_inputs(rows)
    source = input_like(x)
    roots = (source * source).sum(-1).muls(1 / x.shape[1]).adds(1e-5).rsqrt()
    power = (x**2).mean(axis=1, keepdims=True) + np.float32(1e-5)
    return [Experiment(source * roots * half(gamma), x, x / np.sqrt(power) * gamma)]


RECIPES: dict[str, Callable[[int, int], list[Experiment]]] = {
    "conv": conv,
    "conv_relu": conv_relu,
    "dft": dft,
    "gelu": gelu,
    "layer_norm": layer_norm,
    "relu": relu,
    "rms_norm": rms_norm,
    "small_linear": small_linear,
    "softmax": softmax,
    "square_linear": square_linear,
    "sum": total,
}
"""What a figure calls its workload; each takes the figure's size and batch."""
