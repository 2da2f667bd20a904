"""The engine's activations: tables of 33 knots, interpolated in fp16 with three roundings.

Between the knots y[b] and y[c] a fraction f on the way gives, all ties away from zero:

    d = fp16(y[c] − y[b]);  p = eleven bits of f · d;  result = fp16(y[b] + p)

Two-sided tables are addressed outward from zero, odd ones by magnitude, the tables of exponentials, logarithms and
roots by a part of the number's own representation. Evidence: GELU is exact to ten digits wherever a figure is
published; the others give every extreme that was published for one chip (`activation_tables` and
`tables_besides_gelu` of the target database name the chips). Modelled: erf from 2 on; sine and cosine, whose table is
known and whose way into it is not (with an exact one the largest error is the published one, 6.3e-4). The table of elu
and that of softplus, if it has one, are not known and not here.
"""

from __future__ import annotations

from functools import cache
from math import erf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.rounding import to_eleven_bits, to_fp16
from aneforge.ops.numbers import FP16_INFINITY
from aneforge.records import dataclass
from aneforge.targets.schema import read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["ACTIVATIONS", "MODELLED_ERF_FROM", "inverse_knots", "reciprocal_root", "root_knots"]

SEGMENTS = 32
LOG2_E = 1.4423828125
"""log2(e) rounded to fp16, by which the engine multiplies before its table of powers of two."""
LN_2 = float(np.float16(np.log(2)))
MODELLED_ERF_FROM = 2.0
"""The table of erf ends here; between this and about 2.33 the engine's values are not determined."""


@dataclass(frozen=True, slots=True)
class Tail:
    """A line beyond the ends of a table, up to a clamp from which on it is constant."""

    slope: float
    intercept: float
    clamp: float
    clamp_value: float

    def value(self, x: Array) -> Array:
        """Return the line, each step rounded to fp16."""
        return to_fp16(to_fp16(x * self.slope) + self.intercept)


@cache
def data() -> Mapping[str, Mapping[str, Any]]:
    """Return the knots and tails that are not samples of a function."""
    return read(Path(__file__).parent / "data" / "activations.toml", dict[str, dict[str, Any]])


def samples(function: Callable[[Array], Array], points: Array) -> Array:
    """Return samples of a function, rounded to fp16 as NumPy does it, in float64."""
    return function(points).astype(np.float16).astype(np.float64)


def between(knots: Array, start: Array, end: Array, fraction: Array) -> Array:
    """Interpolate between two knots with the engine's three roundings."""
    difference = to_fp16(knots[end] - knots[start])
    part = to_eleven_bits(fraction * difference)
    return to_fp16(knots[start] + part)


def outward(x: Array, knots: Array, step: float) -> Array:
    """Read a two-sided table of 33 knots, outward from its middle; the ends of the table are within it."""
    distance = np.abs(x) / step
    place = np.minimum(np.floor(distance), SEGMENTS // 2 - 1)
    direction = np.where(x < 0, -1, 1)
    start = (SEGMENTS // 2 + direction * place).astype(np.int64)
    return between(knots, start, start + direction, distance - place)


def by_magnitude(x: Array, knots: Array, step: float) -> Array:
    """Read a table of an odd function, for magnitudes within it."""
    distance = np.abs(x) / step
    place = np.minimum(np.floor(distance), SEGMENTS - 1).astype(np.int64)
    return np.copysign(between(knots, place, place + 1, distance - place), x)


def guard(
    function: Callable[[Array], Array], at: Callable[[Array], Array], otherwise: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return a function that is read off its table where `at` holds, and is `otherwise` elsewhere.

    NaN counts as an infinity of its own sign, as it does at every input of the engine.
    """

    def value(x: Array) -> Array:
        read = np.where(np.isnan(x), np.copysign(np.inf, x), x)
        inside = at(read)
        return np.where(inside, function(np.where(inside, read, 1.0)), otherwise(read))

    return value


def gelu(x: Array) -> Array:
    """Return GELU; its exact and its tanh form are one table, which gives −0.00075388 at 0."""
    table = data()["gelu"]
    inside = outward(np.clip(x, -4, 4), np.array(table["knots"]), table["step"])
    return np.where(x < -4, 0.0, np.where(x >= 4, x, inside))


def silu(x: Array) -> Array:
    """Return SiLU: a line below −8, zero from −10.203125 down, x from 8 on."""
    table = data()["silu"]
    below = Tail(**table["below"])
    inside = outward(np.clip(x, -8, 8), np.array(table["knots"]), table["step"])
    low = np.where(x <= below.clamp, below.clamp_value, below.value(x))
    return np.where(x < -8, low, np.where(x >= 8, x, inside))


def sigmoid(x: Array) -> Array:
    """Return the logistic function: lines beyond ±8, 0 from −9.9375 down, 1 from 8.3203125 on."""
    knots = samples(lambda points: 1 / (1 + np.exp(-points)), np.linspace(-8, 8, SEGMENTS + 1))
    below, above = Tail(**data()["sigmoid"]["below"]), Tail(**data()["sigmoid"]["above"])
    inside = outward(np.clip(x, -8, 8), knots, 0.5)
    low = np.where(x <= below.clamp, below.clamp_value, below.value(x))
    high = np.where(x >= above.clamp, above.clamp_value, above.value(x))
    return np.where(x < -8, low, np.where(x >= 8, high, inside))


def tanh(x: Array) -> Array:
    """Return the hyperbolic tangent; ±1 from magnitude 4 on."""
    knots = samples(np.tanh, np.linspace(0, 4, SEGMENTS + 1))
    inside = by_magnitude(np.clip(x, -4, 4), knots, 0.125)
    return np.where(np.abs(x) >= 4, np.sign(x), inside)


def error_function(x: Array) -> Array:
    """Return erf; from magnitude 2 on it is modelled as ±1."""
    knots = samples(np.vectorize(erf, otypes=[np.float64]), np.linspace(0, 2, SEGMENTS + 1))
    inside = by_magnitude(np.clip(x, -2, 2), knots, 0.0625)
    return np.where(np.abs(x) >= MODELLED_ERF_FROM, np.sign(x), inside)


def exp(x: Array) -> Array:
    """Return the exponential: 2 to the power fp16(x · log2 e), whole and fraction apart. Infinite from 11.094 on."""
    return power_of_two(to_fp16(x * LOG2_E))


def power_of_two(t: Array) -> Array:
    """Return 2 to a power, by a table of its fractional part."""
    knots = samples(np.exp2, np.arange(SEGMENTS + 1) / SEGMENTS)
    whole = np.floor(t)
    coordinate = (t - whole) * SEGMENTS
    place = np.minimum(np.floor(coordinate), SEGMENTS - 1).astype(np.int64)
    mantissa = between(knots, place, place + 1, coordinate - place)
    return to_fp16(np.ldexp(mantissa, np.clip(whole, -1000, 1000).astype(np.int64)))


def log(x: Array) -> Array:
    """Return the natural logarithm of positive numbers: fp16(log2(x) · ln 2), the logarithm rounded before."""
    return to_fp16(log2(x) * LN_2)


def log2(x: Array) -> Array:
    """Return the binary logarithm of positive numbers: fp16(log2 of the mantissa + exponent)."""
    knots = samples(np.log2, 0.5 + np.arange(SEGMENTS + 1) / (2 * SEGMENTS))
    mantissa, exponent = np.frexp(x)
    coordinate = (mantissa - 0.5) * 2 * SEGMENTS
    place = np.minimum(np.floor(coordinate), SEGMENTS - 1).astype(np.int64)
    return to_fp16(between(knots, place, place + 1, coordinate - place) + exponent)


def sqrt(x: Array) -> Array:
    """Return the square root of positive numbers."""
    return root(x, np.sqrt, 1)


def rsqrt(x: Array) -> Array:
    """Return 1 over the square root of positive numbers."""
    return root(x, reciprocal_root, -1)


def reciprocal_root(points: Array) -> Array:
    """Return 1 over the square root in float64, of which the table holds samples."""
    return 1 / np.sqrt(points)


def root_knots(function: Callable[[Array], Array]) -> Array:
    """Return the table of a root; its first eight entries are not read."""
    return np.concatenate([np.zeros(8), samples(function, np.arange(8, SEGMENTS + 1) / 16)])


def root(x: Array, function: Callable[[Array], Array], sign: int) -> Array:
    """Read a table of a root: x is m · 4^q with m from ½ up to 2, read at 16 · m in entries 8 to 32."""
    knots = root_knots(function)
    mantissa, exponent = np.frexp(x)
    odd = exponent % 2
    quarter = (exponent - odd) // 2
    coordinate = mantissa * np.where(odd, 2.0, 1.0) * 16
    place = np.minimum(np.floor(coordinate), SEGMENTS - 1).astype(np.int64)
    return to_fp16(np.ldexp(between(knots, place, place + 1, coordinate - place), sign * quarter))


def inverse(x: Array) -> Array:
    """Return 1 over x, without the epsilon that the operation adds first."""
    mantissa, exponent = np.frexp(np.abs(x))
    coordinate = (mantissa - 0.5) * 2 * SEGMENTS
    place = np.minimum(np.floor(coordinate), SEGMENTS - 1).astype(np.int64)
    magnitude = to_fp16(np.ldexp(between(inverse_knots(), place, place + 1, coordinate - place), -exponent))
    return np.copysign(magnitude, x)


def inverse_knots() -> Array:
    """Return the table of 1 over x, for x from ½ to 1."""
    return samples(np.reciprocal, 0.5 + np.arange(SEGMENTS + 1) / (2 * SEGMENTS))


def sine(x: Array) -> Array:
    """Return the sine: an odd table of a quarter of a turn, in steps of π / 64, and the turns taken off exactly."""
    return np.copysign(1.0, x) * quarter_turns(np.abs(x) * (2 * SEGMENTS / np.pi))


def cosine(x: Array) -> Array:
    """Return the cosine: the sine, a quarter of a turn further."""
    return quarter_turns(np.abs(x) * (2 * SEGMENTS / np.pi) + SEGMENTS)


def quarter_turns(coordinate: Array) -> Array:
    """Read the table of the sine at a positive angle in units of π / 64."""
    knots = samples(np.sin, np.arange(SEGMENTS + 1) * (np.pi / (2 * SEGMENTS)))
    half_turns = np.floor(coordinate / (2 * SEGMENTS))
    within = coordinate - half_turns * (2 * SEGMENTS)
    distance = np.where(within > SEGMENTS, 2 * SEGMENTS - within, within)
    place = np.minimum(np.floor(distance), SEGMENTS - 1).astype(np.int64)
    value = between(knots, place, place + 1, distance - place)
    return np.where(half_turns % 2 == 1, -value, value)


LOG_OF_ZERO = float(to_fp16(np.asarray(-FP16_INFINITY * LN_2)))
"""−45440, which was measured: the binary logarithm of 0 is −infinity, and that is the number −2^16 in the product."""
EXP_ARGUMENT = 32.0
"""Beyond this magnitude an exponential in fp16 is 0 or infinite, whatever its base."""


def finite(x: Array) -> Array:
    """Return where a value is finite."""
    return np.isfinite(x)


def positive(x: Array) -> Array:
    """Return where a value is positive and finite."""
    return (x > 0) & np.isfinite(x)


def moderate(x: Array) -> Array:
    """Return where an exponential neither vanishes nor overflows for certain."""
    return np.abs(x) <= EXP_ARGUMENT


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "cos": guard(cosine, finite, np.zeros_like),
    "erf": guard(error_function, finite, np.sign),
    "exp": guard(exp, moderate, lambda x: np.where(x > 0, np.inf, 0.0)),
    "exp2": guard(power_of_two, moderate, lambda x: np.where(x > 0, np.inf, 0.0)),
    "gelu": guard(gelu, finite, lambda x: np.where(x > 0, np.inf, 0.0)),
    "inverse": guard(inverse, lambda x: finite(x) & (x != 0), lambda x: np.where(x == 0, np.inf, 0.0)),
    "log": guard(log, positive, lambda x: np.where(x == 0, LOG_OF_ZERO, 0.0)),
    "log2": guard(log2, positive, lambda x: np.where(x == 0, -np.inf, 0.0)),
    "rsqrt": guard(rsqrt, positive, lambda x: np.where(x == 0, np.inf, 0.0)),
    "sigmoid": guard(sigmoid, finite, lambda x: np.where(x > 0, 1.0, 0.0)),
    "silu": guard(silu, finite, lambda x: np.where(x > 0, np.inf, 0.0)),
    "sin": guard(sine, finite, np.zeros_like),
    "sqrt": guard(sqrt, positive, lambda x: np.where(x > 0, np.inf, 0.0)),
    "tanh": guard(tanh, finite, np.sign),
}
"""Functions of fp16 values, held in float64.

Outside a table's domain they give what was measured on one chip: roots and logarithms of negative numbers are 0, the
logarithm of 0 is −45440, 1 over ±0 is +infinity; softplus is 0 from where its exponential overflows on, so the
logarithm of infinity is 0. Other infinities give the limit of the function, and 0 where there is none: modelled.
"""
