"""Numbers that are hard on the kernels, and the comparison of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from aneforge.engine.kernels.library import paths

Array = npt.NDArray[Any]

PATHS = ["avx512", "avx2", "neon", "portable"]
SPECIAL = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7FFF, 0xFFFF],
    np.uint16,
)
"""Zeros, the ends of the subnormals, the largest numbers, and what others read as infinities and NaN."""


def on_every_path(function: Any) -> Any:  # noqa: ANN401 - a decorator of test functions of any signature
    """Run a test once for each path; one that this processor or build does not have is skipped."""
    parameters = [
        pytest.param(
            path, marks=pytest.mark.skipif(path not in paths(), reason=f"this processor or build has no path {path}")
        )
        for path in PATHS
    ]
    return pytest.mark.parametrize("path", parameters)(function)


needs_kernels = pytest.mark.skipif(not paths(), reason="the kernels are not built: no C compiler when it was installed")


def assert_same_bits(found: Array, expected: Array, *, zeros_alike: bool = False) -> None:
    """Compare fp16 numbers bit for bit, all NaN alike; the expected ones may be held in float64."""
    bits, wanted = found.view(np.uint16), expected.astype(np.float16).view(np.uint16)
    assert bits.shape == wanted.shape
    both_nan = ((bits & 0x7FFF) > 0x7C00) & ((wanted & 0x7FFF) > 0x7C00)
    both_zero = ((bits | wanted) & 0x7FFF) == 0
    wrong = (bits != wanted) & ~both_nan & ~(both_zero & zeros_alike)
    places = np.argwhere(wrong)[:3]
    shown = [f"{place.tolist()}: {bits[tuple(place)]:#06x}, not {wanted[tuple(place)]:#06x}" for place in places]
    assert not shown, f"{wrong.sum()} of {wrong.size} differ: {'; '.join(shown)}"


# Tensors, each of another sort of trouble. They take a generator and a shape.


def any_bits(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return bit patterns, every one as likely."""
    return generator.integers(0, 65536, shape).astype(np.uint16)


def of_scale(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return normal numbers of a scale that is drawn too."""
    return (generator.standard_normal(shape) * 2.0 ** generator.uniform(-12, 7)).astype(np.float16).view(np.uint16)


def near_threshold(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return numbers whose exponents add to about −17, at which products are dropped; fractions of all ones often."""
    field = generator.integers(5, 9, shape)
    fraction = np.where(generator.random(shape) < 0.5, generator.integers(0, 1024, shape), 1023)
    return (generator.integers(0, 2, shape) << 15 | field << 10 | fraction).astype(np.uint16)


def tied(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return few-bit odd numbers times 2^-8 or 2^-9: many products lie halfway between multiples of 2^-16."""
    odd = 2 * generator.integers(-40, 40, shape) + 1
    return (odd * 2.0 ** -generator.integers(8, 10, shape)).astype(np.float16).view(np.uint16)


def subnormal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return subnormals, and some large numbers that keep their products alive."""
    small = generator.integers(0, 1024, shape) | generator.integers(0, 2, shape) << 15
    large = (generator.standard_normal(shape) * 8).astype(np.float16).view(np.uint16)
    return np.where(generator.random(shape) < 0.7, small, large).astype(np.uint16)


def extreme(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return zeros, smallest and largest numbers, infinities and NaN."""
    return generator.choice(SPECIAL, shape)


def at_the_edge(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return powers of two whose products reach 2^14 and 2^15, so that sums pass the edge and come back."""
    power = 2.0 ** generator.integers(6, 9, shape)
    return (power * generator.choice([-1, 1], shape)).astype(np.float16).view(np.uint16)


def sparse(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return mostly zeros of both signs."""
    zeros = generator.integers(0, 2, shape) << 15
    return np.where(generator.random(shape) < 0.9, zeros, of_scale(generator, shape)).astype(np.uint16)


def mixed(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return harmless numbers with a few of any bits among them."""
    return np.where(generator.random(shape) < 0.02, any_bits(generator, shape), of_scale(generator, shape))


SORTS = [any_bits, of_scale, near_threshold, tied, subnormal, extreme, at_the_edge, sparse, mixed]


@st.composite
def tensors(draw: st.DrawFn, *shapes: tuple[int, ...]) -> tuple[Array, ...]:
    """Draw one fp16 tensor for each shape, each of a sort of its own."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    return tuple(draw(st.sampled_from(SORTS))(generator, shape).view(np.float16) for shape in shapes)


BIASES = [0.0, -0.0, -(2.0**-20), 2.0**-17, 1.5, 32767.99999, 32768.0, -32768.0, 1e9, np.inf, -np.inf, np.nan]


@st.composite
def biases(draw: st.DrawFn, shape: tuple[int, ...]) -> Array | None:
    """Draw a bias: none, ordinary numbers, or such as need care."""
    kind = draw(st.sampled_from(["none", "ordinary", "special"]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind == "none":
        return None
    if kind == "ordinary":
        return generator.standard_normal(shape) * 2.0 ** generator.integers(-18, 12)
    return generator.choice(BIASES, shape)
