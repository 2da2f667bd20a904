"""Fourier transforms: products with tables of sines and cosines, along one axis after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.shared.spectra import real_signal, transform_pair
from aneforge.formats.torch.operators.torch_complexes import complex_of
from aneforge.formats.torch.registry import complex_operator
from aneforge.formats.torch.torch_values import Complex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.formats.torch.call import Call
    from aneforge.formats.torch.torch_values import Held

ROOT_SCALED, SCALED = 1, 2
"""How a transform is normalised: by the root of the number of elements, or by their number."""


@complex_operator("_fft_r2c")
def of_real(call: Call) -> Held:
    """Convert a transform of real numbers: only the last axis may be cut to the half that determines the rest."""
    x, axes = call.value("self"), transformed_axes(call)
    scale = find_normalising_factor(call, [x.type.shape[axis] for axis in axes])
    last = x.type.shape[axes[-1]]
    count = last // 2 + 1 if call.flag("onesided") else last
    found = Complex(*transform_pair(call.emit, x, None, axes[-1], count))
    return rescale(call, along_axes(call, found, axes[:-1]), scale)


@complex_operator("_fft_c2c")
def of_complex(call: Call) -> Held:
    """Convert a transform, or its inverse."""
    x, axes = complex_of(call, "self"), transformed_axes(call)
    scale = find_normalising_factor(call, [x.real.type.shape[axis] for axis in axes])
    return rescale(call, along_axes(call, x, axes, back=not call.flag("forward")), scale)


@complex_operator("_fft_c2r")
def to_real(call: Call) -> Held:
    """Convert the inverse transform of the half that says all to real numbers."""
    x, axes, length = complex_of(call, "self"), transformed_axes(call), call.integer("last_dim_size")
    scale = find_normalising_factor(call, [*(x.real.type.shape[axis] for axis in axes[:-1]), length])
    found = along_axes(call, x, axes[:-1], back=True)
    return real_signal(call.emit, found.real, found.imaginary, axes[-1], length, scale)


def along_axes(call: Call, x: Complex, axes: Iterable[int], *, back: bool = False) -> Complex:
    """Return a transform along one axis after another, or its inverse."""
    found = x
    for axis in axes:
        count = found.real.type.shape[axis]
        found = Complex(*transform_pair(call.emit, found.real, found.imaginary, axis, count, back=back))
    return found


def transformed_axes(call: Call) -> tuple[int, ...]:
    """Return the axes of a transform.

    Raises:
        GraphError: There are none.
    """
    found = call.integers("dim")
    if not found:
        raise GraphError("the transform has no axes")
    return found


def find_normalising_factor(call: Call, lengths: Iterable[int]) -> float:
    """Return the factor of a transform over axes of some lengths."""
    count = float(np.prod([*lengths]))
    return {ROOT_SCALED: count**-0.5, SCALED: 1 / count}.get(call.integer("normalization"), 1.0)


def rescale(call: Call, x: Complex, scale: float) -> Complex:
    """Return complex numbers times a number."""
    return x if scale == 1 else Complex(call.emit.mul(x.real, scale), call.emit.mul(x.imaginary, scale))
