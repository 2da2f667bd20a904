"""Runs the golden model on the recipes of published figures and prints how close it comes.

`make fingerprints` runs it. The inputs are drawn again from NumPy's own generators, so nothing is downloaded.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from rich.console import Console
from rich.table import Table

from aneforge.engine import golden
from aneforge.engine.activations import gelu
from aneforge.targets import chip, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
PATH = Path(__file__).parent.parent / "tests" / "engine" / "fingerprints.toml"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One published figure."""

    name: str
    workload: str
    size: int
    chips: tuple[str, ...]
    error: float
    tolerance: float
    batch: int = 1


def fingerprints() -> list[Fingerprint]:
    """Return every figure."""
    entries = tomllib.loads(PATH.read_text(encoding="utf-8"))["fingerprints"]
    return [msgspec.convert(entry, Fingerprint) for entry in entries]


def relative_error(answer: Array, reference: Array) -> float:
    """Return the Frobenius norm of the difference over that of the reference, in float64."""
    wide = reference.astype(np.float64)
    return float(np.linalg.norm(answer - wide) / np.linalg.norm(wide))


def half(values: Array) -> Array:
    """Return what the host hands over: fp16, rounded as NumPy rounds."""
    return values.astype(np.float16)


def square_linear(figure: Fingerprint, _: str) -> float:
    """Return the error of x · Wᵀ for square matrices; 256 rows are compared."""
    generator = np.random.default_rng(0)
    scale = np.float32(np.sqrt(figure.size))
    x, w = (generator.standard_normal((figure.size,) * 2).astype(np.float32) / scale for _ in range(2))
    answer = golden.matmul(half(x)[:256], half(w).T)
    return relative_error(answer, x[:256].astype(np.float64) @ w.astype(np.float64).T)


def small_linear(figure: Fingerprint, _: str) -> float:
    """Return the error of x · Wᵀ for 64 rows; NumPy 2 makes the operands float64."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((64, figure.size)).astype(np.float32) / np.sqrt(figure.size)
    w = generator.standard_normal((figure.size,) * 2).astype(np.float32) / np.sqrt(figure.size)
    return relative_error(golden.matmul(half(x), half(w).T), x @ w.T)


def dft(figure: Fingerprint, _: str) -> float:
    """Return the mean error of the real and the imaginary part of a discrete Fourier transform."""
    x = np.random.default_rng(2).standard_normal(figure.size)
    places = np.arange(figure.size)
    angles = -2 * np.pi * np.outer(places, places) / figure.size
    errors = [
        relative_error(golden.matmul(half(x)[None], half(matrix).T)[0], matrix @ x)
        for matrix in (np.cos(angles), np.sin(angles))
    ]
    return float(np.mean(errors))


def conv(figure: Fingerprint, target: str) -> float:
    """Return the error of a 3×3 convolution of 64×64 images; the first of the batch is compared."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((figure.batch, figure.size, 64, 64)).astype(np.float32)
    w = generator.standard_normal((figure.size, figure.size, 3, 3)).astype(np.float32) * he_scale(figure.size)
    return relative_error(convolved(x[:1], w, target), exact_convolution(x[:1], w))


def conv_relu(figure: Fingerprint, target: str) -> float:
    """Return the error of a 3×3 convolution of 32×32 images and a rectifier."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((1, figure.size, 32, 32)).astype(np.float32)
    w = generator.standard_normal((64, figure.size, 3, 3)).astype(np.float32) * he_scale(figure.size)
    return relative_error(golden.relu(convolved(x, w, target)), np.maximum(exact_convolution(x, w), 0))


def he_scale(channels: int) -> np.float64:
    """Return the deviation of the weights; a NumPy scalar, so that NumPy 2 makes the product float64."""
    return np.sqrt(np.float64(2 / (9 * channels)))


def convolved(x: Array, w: Array, target: str) -> Array:
    """Return a 3×3 convolution in the form that the target's data says it runs in."""
    if resolve(target).datapath.flag("winograd_on_width"):
        return golden.winograd_convolution(half(x), half(w))
    return golden.convolution(half(x), half(w), pad=1)


def exact_convolution(x: Array, w: Array) -> Array:
    """Return a 3×3 convolution in float64."""
    around = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(around, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64), optimize=True)


def rows_of(size: int) -> Array:
    """Return the input of the row-wise figures: one generator draws 256, then 2048 rows."""
    generator = np.random.default_rng(11)
    for count in (256, 2048):
        x = generator.standard_normal((count, 4096)).astype(np.float32)
        if count == size:
            return x
    raise ValueError(f"no figure has {size} rows")


def relu_rows(figure: Fingerprint, _: str) -> float:
    """Return the error of a rectifier, which is that of the host's rounding."""
    x = rows_of(figure.size)
    return relative_error(golden.relu(half(x).astype(np.float64)), np.maximum(x, 0))


def gelu_rows(figure: Fingerprint, _: str) -> float:
    """Return the error of GELU against its tanh form, powers in float32 as the reference has them."""
    x = rows_of(figure.size)
    cubes = (x.astype(np.float64) ** 3).astype(np.float32)
    reference = x * 0.5 * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * cubes)))
    return relative_error(gelu(half(x).astype(np.float64)), reference)


WORKLOADS: dict[str, Callable[[Fingerprint, str], float]] = {
    "conv": conv,
    "conv_relu": conv_relu,
    "dft": dft,
    "gelu": gelu_rows,
    "relu": relu_rows,
    "small_linear": small_linear,
    "square_linear": square_linear,
}


def disagreement(figure: Fingerprint) -> float:
    """Return how far the golden model is from a figure, relative to it, on the worst of its chips.

    Chips whose data select the same arithmetic share one run.
    """
    targets = {resolve(f"soc:{name}").datapath.flag("winograd_on_width"): chip(name).target for name in figure.chips}
    return max(abs(WORKLOADS[figure.workload](figure, target) / figure.error - 1) for target in targets.values())


def main() -> None:
    """Print the table; the exit code tells whether every figure is reproduced."""
    table = Table(box=None, pad_edge=False)
    for heading in ("figure", "chips", "published", "off by", "tolerance"):
        table.add_column(heading)
    missed = 0
    for figure in fingerprints():
        off = disagreement(figure)
        missed += off > figure.tolerance
        table.add_row(figure.name, ", ".join(figure.chips), repr(figure.error), f"{off:.1e}", f"{figure.tolerance:.0e}")
    Console().print(table)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
