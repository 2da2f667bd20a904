"""The choice of tokens: greedy, drawn, the same everywhere; and what cannot be chosen from."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.errors import GraphError, GraphTypeError
from aneforge.llm.token_sampling import Sampling, choose_token, draw, exponential, token_probabilities

LOGITS = st.lists(st.floats(-80, 80, width=16), min_size=1, max_size=40)


@given(LOGITS)
@settings(deadline=None)
def test_greedy_is_the_first_of_the_largest(logits: list[float]) -> None:
    assert choose_token(logits) == logits.index(max(logits))
    assert choose_token(logits, Sampling(temperature=3.0, top_k=1), 5) == logits.index(max(logits))


@given(LOGITS, st.floats(0.05, 8), st.integers(0, 50), st.floats(0.01, 1))
@settings(max_examples=200, deadline=None)
def test_tokens_and_probabilities_are_those_of_the_definition(
    logits: list[float], temperature: float, top_k: int, top_p: float
) -> None:
    order = sorted(range(len(logits)), key=lambda place: (-logits[place], place))
    order = order[: top_k or len(order)]
    powers = [math.exp((logits[place] - logits[order[0]]) / temperature) for place in order]
    total = math.fsum(powers)
    reached, count = 0.0, 0
    while count < len(order) and (count == 0 or reached < top_p * (1 - 1e-12)):
        reached += powers[count] / total
        count += 1
    tokens, probabilities = token_probabilities(logits, Sampling(temperature, top_k, top_p))
    # A border that is reached to the last bit may fall on either side of the sum in floating point.
    at_border = abs(reached - top_p) < 1e-9 or abs(reached - powers[count - 1] / total - top_p) < 1e-9
    assert tokens.tolist() == order[:count] or at_border
    assert tokens.tolist() == order[: tokens.size]
    kept = powers[: tokens.size]
    # Subnormal probabilities may be flushed to 0, or hold few bits.
    smallest = float(np.finfo(np.float64).tiny)
    np.testing.assert_allclose(probabilities, np.array(kept) / math.fsum(kept), rtol=1e-12, atol=smallest)
    assert choose_token(logits, Sampling(temperature, top_k, top_p), 3) in order[: tokens.size]


def test_draws_follow_the_probabilities() -> None:
    logits = [1.0, 0.0, 2.0, -np.inf]
    warm = Sampling(temperature=1.5, seed=11)
    tokens, probabilities = token_probabilities(logits, warm)
    drawn = np.bincount([choose_token(logits, warm, position) for position in range(20000)], minlength=4)
    assert drawn[3] == 0
    np.testing.assert_allclose(drawn[tokens] / 20000, probabilities, atol=0.012)


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    logits = np.random.default_rng(0).standard_normal(500).astype(np.float16)
    warm = Sampling(temperature=1.0, seed=5)
    forwards = [choose_token(logits, warm, position) for position in range(50)]
    backwards = [choose_token(logits, warm, position) for position in reversed(range(50))]
    assert forwards == backwards[::-1]
    assert forwards != [choose_token(logits, Sampling(temperature=1.0, seed=6), position) for position in range(50)]
    assert len(set(forwards)) > 20


HEX = [
    "0x1.0000000000000p+0",
    "0x1.cf46d99d52b3ap-1",
    "0x1.78b56362cef38p-2",
    "0x1.cdfc263f6a0bap-16",
    "0x1.245639c3a49f7p-433",
    "0x1.32132bfae6577p-1010",
    "0x0.0p+0",
]
DRAWN = [27, 2, 7, 52, 7, 8, 40, 21, 20, 20, 45, 57]


def test_bits_that_must_never_change() -> None:
    """These were computed once: a change of any of them would change texts that users generated before."""
    assert [draw(0, 0), draw(1, 0), draw(0, 1)] == [0.9066102249283499, 0.4795516064962513, 0.5750996564021795]
    found = exponential(np.array([0.0, -0.1, -1.0, -10.5, -300.0, -699.9, -800.0]))
    assert [value.hex() for value in found.tolist()] == HEX
    logits = np.sin(np.arange(64, dtype=np.float32)).astype(np.float16)
    warm = Sampling(temperature=0.7, top_k=30, top_p=0.9, seed=123)
    assert [choose_token(logits, warm, position) for position in range(12)] == DRAWN


@given(st.floats(-700, 0))
@settings(max_examples=300, deadline=None)
def test_the_exponential_is_right_to_the_last_bits(x: float) -> None:
    exact = Fraction(math.exp(x))
    assert abs(Fraction(float(exponential(np.array([x]))[0])) - exact) <= exact * Fraction(1, 2**50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -0.1}, "temperature must be 0 or more"),
        ({"temperature": math.nan}, "temperature must be 0 or more"),
        ({"temperature": math.inf}, "temperature must be 0 or more"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.5}, "top_p must be above 0"),
        ({"top_k": -1}, "top_k must be 0 or more"),
        ({"seed": -1}, "seed must be 0 or more"),
    ],
)
def test_numbers_out_of_range(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Sampling(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [{"top_k": 1.5}, {"seed": True}, {"temperature": "hot"}, {"top_p": None}])
def test_no_numbers(arguments: dict[str, object]) -> None:
    with pytest.raises(GraphTypeError, match="must be a"):
        Sampling(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([], "one row of numbers"),
        ([[1.0, 2.0]], "one row of numbers"),
        ([1.0, math.nan], "token 1 is not a number"),
        ([math.inf, 1.0], "token 0 is not a number"),
        ([-math.inf, -math.inf], "every token is excluded"),
    ],
)
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0)])
def test_logits_that_cannot_be_chosen_from(logits: list[float], message: str, sampling: Sampling) -> None:
    with pytest.raises(GraphError, match=message):
        choose_token(logits, sampling)


def test_small_temperatures_neither_overflow_nor_divide_by_zero() -> None:
    for temperature in (5e-324, 1e-300, 1e-9):
        assert choose_token([1.0, 2.0, 1.999], Sampling(temperature=temperature), 0) == 1
