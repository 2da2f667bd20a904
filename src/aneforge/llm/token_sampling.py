"""The choice of a token from logits: the largest, or a draw with temperature, top-k, top-p and a seed.

A draw depends on the logits, the seed and the position of the token alone, not on what was drawn before. So it is the
same however the logits were computed: token by token, batched, in a process that went on after another, or verified
ahead of time. It is the same on every machine too: probabilities are computed by additions and products alone, which
all round alike, and not by the C library's exponential, which does not.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.methods.method_arguments import is_number
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.ops.types import Array

__all__ = ["GREEDY", "Sampling", "choose_token", "token_probabilities"]

LEAST_EXPONENT = -700.0
"""Powers of e below this one count as 0 next to the largest, which is 1: a million of them do not change the sum."""
INVERSE_LOG2 = 1.4426950408889634
LOG2_HIGH, LOG2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""The natural logarithm of 2 in two parts; the first has zeros at its end, so that small multiples of it are exact."""
COEFFICIENTS = tuple(1.0 / math.factorial(order) for order in range(13, -1, -1))
DRAW_BITS = 53


def expect_number(name: str, value: object, limit: str, fits: Callable[[float], bool]) -> None:
    """Check a number.

    Raises:
        GraphError: It is outside of its range.
        GraphTypeError: It is not a number.
    """
    if not is_number(value):
        raise GraphTypeError(f"{name} must be a number", seen=repr(value))
    if not fits(float(value)):
        raise GraphError(f"{name} must be {limit}", seen=float(value))


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen; without arguments it is the largest logit, the lower index of two that are equal.

    Logits are divided by the temperature; of those the `top_k` largest stay (0 is all), and of those the fewest whose
    probabilities together reach `top_p`.

    >>> Sampling(temperature=0.8, top_k=40, seed=7).greedy
    False

    Raises:
        GraphError: A number is outside of its range.
        GraphTypeError: It is not a number.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        expect_number("temperature", self.temperature, "0 or more", lambda value: 0 <= value < math.inf)
        expect_number("top_p", self.top_p, "above 0, and at most 1", lambda value: 0 < value <= 1)
        for name, value in (("top_k", self.top_k), ("seed", self.seed)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
                raise GraphTypeError(f"{name} must be an integer", seen=repr(value))
            if value < 0:
                raise GraphError(f"{name} must be 0 or more", seen=value)

    @property
    def greedy(self) -> bool:
        """The largest logit is taken, and nothing is drawn."""
        return self.temperature == 0 or self.top_k == 1


GREEDY = Sampling()


def choose_token(logits: Array | Sequence[float], sampling: Sampling = GREEDY, position: int = 0) -> int:
    """Return the token that follows, from the logits of one position; `position` is that of the new token.

    >>> choose_token([0.5, 2.0, 2.0])
    1
    >>> warm = Sampling(temperature=1.0, seed=3)
    >>> [choose_token([0.5, 2.0, 2.0], warm, position) for position in range(6)]
    [0, 0, 2, 1, 2, 1]

    Raises:
        GraphError: The logits are not one row of numbers, one is NaN or infinite, or all are minus infinity.
    """
    row = check_logits(logits)
    if sampling.greedy:
        return int(np.argmax(row))
    tokens, probabilities = token_probabilities(row, sampling)
    drawn = draw(sampling.seed, position)
    # The last one stands for what rounding leaves between the sum and 1.
    place = int(np.searchsorted(np.cumsum(probabilities), drawn, side="right"))
    return int(tokens[min(place, tokens.size - 1)])


def token_probabilities(logits: Array | Sequence[float], sampling: Sampling) -> tuple[Array, Array]:
    """Return the tokens that may be drawn, the likeliest first, and their probabilities, whose sum is 1 up to rounding.

    >>> tokens, probabilities = token_probabilities([0.0, 3.0, 1.0], Sampling(temperature=1.0, top_k=2))
    >>> tokens.tolist(), [round(float(one), 3) for one in probabilities]
    ([1, 2], [0.881, 0.119])

    Raises:
        GraphError: The logits are not one row of numbers, one is NaN or infinite, or all are minus infinity.
    """
    row = check_logits(logits)
    if sampling.greedy:
        return np.array([np.argmax(row)]), np.ones(1)
    tokens = largest_first(row, sampling.top_k)
    with np.errstate(over="ignore"):  # a small temperature makes minus infinity of a difference, whose power is 0
        powers = exponential((row[tokens] - row[tokens[0]]) / sampling.temperature)
    probabilities = powers / np.cumsum(powers)[-1]
    if sampling.top_p < 1:
        count = int(np.searchsorted(np.cumsum(probabilities), sampling.top_p, side="left")) + 1
        tokens, kept = tokens[:count], probabilities[:count]
        probabilities = kept / np.cumsum(kept)[-1]
    return tokens, probabilities


def check_logits(logits: Array | Sequence[float]) -> Array:
    """Return logits in float64, which holds those of every type.

    Raises:
        GraphError: They are not one row of numbers, one is NaN or infinite, or all are minus infinity.
    """
    row = np.asarray(logits).astype(np.float64)
    if row.ndim != 1 or not row.size:
        raise GraphError("logits must be one row of numbers", seen=list(row.shape), limit="[vocabulary]")
    if np.isnan(row).any() or row.max() == np.inf:
        place = int(np.flatnonzero(np.isnan(row) | (row == np.inf))[0])
        raise GraphError(
            f"the logit of token {place} is not a number that can be compared",
            seen=float(row[place]),
            remedy="look for the first layer that overflows with af.ranges",
        )
    if row.max() == -np.inf:
        raise GraphError("every token is excluded: all logits are minus infinity")
    return row


def largest_first(row: Array, count: int) -> Array:
    """Return the places of the largest numbers, the lower of two that are equal first; 0 is all but minus infinity."""
    if 0 < count < row.size:
        least = np.partition(row, row.size - count)[row.size - count]
        places = np.flatnonzero((row >= least) & (row > -np.inf))
    else:
        places = np.flatnonzero(row > -np.inf)
    order = places[np.argsort(-row[places], kind="stable")]
    return order[:count] if count else order


def exponential(x: Array) -> Array:
    """Return e to the power of numbers that are not above 0, by additions and products that every machine rounds alike.

    >>> float(abs(exponential(np.array([-1.0])) - np.exp(-1.0))[0]) < 1e-16
    True
    """
    inside = np.maximum(x, LEAST_EXPONENT)
    halvings = np.rint(inside * INVERSE_LOG2)
    rest = (inside - halvings * LOG2_HIGH) - halvings * LOG2_LOW
    total = np.zeros_like(rest)
    for coefficient in COEFFICIENTS:
        total = total * rest
        total = total + coefficient
    return np.where(x < LEAST_EXPONENT, 0.0, np.ldexp(total, halvings.astype(np.int32)))


def draw(seed: int, position: int) -> float:
    """Return a number from 0 up to, but not including, 1, for a seed and a position."""
    digest = hashlib.sha256(f"aneforge token {seed} {position}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - DRAW_BITS)) * 2.0**-DRAW_BITS
