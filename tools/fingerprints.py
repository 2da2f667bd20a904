"""Runs the golden model on the recipes of published figures and prints how close it comes.

`make fingerprints` runs it. The inputs are drawn again from NumPy's own generators, so nothing is downloaded. Figures
that the model reproduces and figures that are open (sums, softmax, norms: their order is not known) stand in two
tables; it is an error if one of the first is missed, or one of the second by more than is on record.
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

from aneforge.engine import golden, normalisation, reductions
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
    """How far from the figure the model may be, relative to it."""
    batch: int = 1


def fingerprints() -> list[Fingerprint]:
    """Return the figures that the model reproduces."""
    return listed("fingerprints")


def open_figures() -> list[Fingerprint]:
    """Return the figures that the model does not reproduce; their tolerance is how near it comes."""
    return listed("open")


def listed(heading: str) -> list[Fingerprint]:
    """Return the figures under a heading of the file."""
    entries = tomllib.loads(PATH.read_text(encoding="utf-8"))[heading]
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


def sum_rows(figure: Fingerprint, target: str) -> float:
    """Return the error of sums over rows of 4096 numbers against NumPy's own sum in float32."""
    x = rows_of(figure.size)
    answer = reductions.total(half(x), (1,), reductions.adder_of(resolve(target)))
    return relative_error(answer, x.sum(axis=1, keepdims=True))


def softmax_rows(figure: Fingerprint, target: str) -> float:
    """Return the error of a softmax over rows of 4096 numbers against one in float32."""
    x = rows_of(figure.size)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    answer = normalisation.softmax(half(x), 1, reductions.adder_of(resolve(target)))
    return relative_error(answer, powers / powers.sum(axis=1, keepdims=True))


def norm_inputs() -> tuple[Array, Array, Array]:
    """Return the rows, gamma and beta of the figures of norms."""
    generator = np.random.default_rng(7)
    x = generator.standard_normal((197, 768)).astype(np.float32)
    gamma = generator.standard_normal(768).astype(np.float32) * 0.1 + 1
    return x, gamma, generator.standard_normal(768).astype(np.float32) * 0.1


def layer_norm_rows(_: Fingerprint, target: str) -> float:
    """Return the error of a layer norm that was lowered step by step."""
    x, gamma, beta = norm_inputs()
    adder = reductions.adder_of(resolve(target))
    answer = normalisation.layer_norm_in_steps(half(x), half(gamma), half(beta), epsilon=1e-5, adder=adder)
    distances = x - x.mean(axis=1, keepdims=True)
    spread = np.sqrt((distances**2).mean(axis=1, keepdims=True) + np.float32(1e-5))
    return relative_error(answer, distances / spread * gamma + beta)


def rms_norm_rows(_: Fingerprint, target: str) -> float:
    """Return the error of a root-mean-square norm that was lowered step by step."""
    x, gamma, _beta = norm_inputs()
    adder = reductions.adder_of(resolve(target))
    answer = normalisation.rms_norm_in_steps(half(x), half(gamma), epsilon=1e-5, adder=adder)
    power = (x**2).mean(axis=1, keepdims=True) + np.float32(1e-5)
    return relative_error(answer, x / np.sqrt(power) * gamma)


WORKLOADS: dict[str, Callable[[Fingerprint, str], float]] = {
    "conv": conv,
    "conv_relu": conv_relu,
    "dft": dft,
    "gelu": gelu_rows,
    "layer_norm": layer_norm_rows,
    "relu": relu_rows,
    "rms_norm": rms_norm_rows,
    "small_linear": small_linear,
    "softmax": softmax_rows,
    "square_linear": square_linear,
    "sum": sum_rows,
}
SWITCHES = {
    "conv": "winograd_on_width",
    "conv_relu": "winograd_on_width",
    "layer_norm": "reduction_order",
    "rms_norm": "reduction_order",
    "softmax": "reduction_order",
    "sum": "reduction_order",
}
"""The value of a target on which a workload depends; the others are one for all."""


def disagreement(figure: Fingerprint) -> float:
    """Return how far the golden model is from a figure, relative to it, on the worst of its chips.

    Chips whose data select the same arithmetic share one run.
    """
    switch = SWITCHES.get(figure.workload)
    targets = {
        resolve(f"soc:{name}").datapath.get(switch) if switch else None: chip(name).target for name in figure.chips
    }
    return max(abs(WORKLOADS[figure.workload](figure, target) / figure.error - 1) for target in targets.values())


def show(console: Console, title: str, figures: list[Fingerprint]) -> int:
    """Print a table of figures and return how many are missed by more than their tolerance."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("figure", "chips", "published", "off by", "tolerance"):
        table.add_column(heading)
    missed = 0
    for figure in figures:
        off = disagreement(figure)
        missed += off > figure.tolerance
        table.add_row(figure.name, ", ".join(figure.chips), repr(figure.error), f"{off:.1e}", f"{figure.tolerance:.0e}")
    console.print(table)
    return missed


def main() -> None:
    """Print both tables; the exit code tells whether every figure is as near as it should be."""
    console = Console()
    missed = show(console, "Reproduced", fingerprints())
    missed += show(console, "\nOpen: the model comes near", open_figures())
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
