"""Speculative decoding gives the tokens of plain decoding, for any draft."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.errors import GraphError
from aneforge.llm.speculative import draft_by_model, draft_by_repetition, generate_speculatively
from aneforge.llm.token_sampling import Sampling, choose_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float16]

VOCABULARY = 12


class SmallModel:
    """Logits that depend on every token before, with ties among them, and a cache whose rows are overwritten."""

    def __init__(self, seed: int, levels: int = 6) -> None:
        self.seed, self.levels = seed, levels
        self.cache: list[int] = []
        self.runs = 0

    def row(self, tokens: Sequence[int]) -> Rows:
        """Return the logits after some tokens."""
        digest = hashlib.sha256(bytes([self.seed, *tokens])).digest()
        return np.array([byte % self.levels for byte in digest[:VOCABULARY]], np.float16)

    def verify(self, tokens: Sequence[int], position: int) -> Rows:
        """Write tokens into the cache and return the logits after each."""
        assert 0 <= position <= len(self.cache), "a row of the cache was left out"
        self.runs += 1
        self.cache[position:] = tokens
        end = position + 1
        return np.stack([self.row(self.cache[: end + place]) for place in range(len(tokens))])


def plain(
    model: SmallModel, prompt: Sequence[int], most: int, ends: Sequence[int], context: int, sampling: Sampling
) -> list[int]:
    """Return what decoding one token at a time gives; a token of which the cache has no row is the last."""
    known = list(prompt)
    while len(known) < len(prompt) + most and len(known) <= context:
        known.append(choose_token(model.row(known), sampling, len(known)))
        if known[-1] in ends:
            break
    return known[len(prompt) :]


def nothing(*_: object) -> list[int]:
    """Return no guesses."""
    return []


PROMPTS = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6)
DRAFTS = st.one_of(
    st.lists(st.lists(st.integers(-2, VOCABULARY + 2), max_size=6), max_size=30),
    st.sampled_from(["itself", "other", "repetition", "nothing"]),
)


@given(
    PROMPTS,
    st.integers(0, 250),
    DRAFTS,
    st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(0, 24)),
    st.lists(st.integers(0, VOCABULARY - 1), max_size=2),
    st.sampled_from([Sampling(), Sampling(temperature=1.0, seed=3), Sampling(temperature=0.5, top_k=4, top_p=0.8)]),
)
@settings(max_examples=100, deadline=None)
def test_tokens_are_those_of_plain_decoding(
    prompt: list[int],
    seed: int,
    drafts: list[list[int]] | str,
    limits: tuple[int, int, int],
    ends: list[int],
    sampling: Sampling,
) -> None:
    most, guesses, spare = limits
    model, context = SmallModel(seed), len(prompt) + spare
    model.cache = list(prompt)
    waiting = iter(drafts) if isinstance(drafts, list) else iter(())

    def scripted(tokens: Sequence[int], count: int) -> Sequence[int]:
        assert list(tokens) == [*prompt, *told]
        assert 0 < count <= guesses
        return next(waiting, list[int]())

    named = {
        "itself": draft_by_model(SmallModel(seed).verify),
        "other": draft_by_model(SmallModel(seed + 1).verify),
        "repetition": draft_by_repetition,
        "nothing": nothing,
    }
    told: list[int] = []
    found = generate_speculatively(
        model.verify,
        named[drafts] if isinstance(drafts, str) else scripted,
        prompt,
        model.row(prompt),
        max_new_tokens=most,
        guesses=guesses,
        end_tokens=ends,
        context=context,
        sampling=sampling,
        on_token=told.append,
    )
    wanted = plain(SmallModel(seed), prompt, most, ends, context, sampling)
    assert list(found.tokens) == wanted == told
    assert len(model.cache) <= context
    assert found.runs == model.runs
    assert found.accepted <= found.proposed
    # Every run gives one token that is certain and those that were guessed right, but for the first, which is given.
    assert len(wanted) <= 1 + found.runs + found.accepted
    assert found.runs <= max(0, len(wanted) - 1)


@pytest.mark.parametrize("guesses", [1, 2, 4, 7])
def test_a_draft_that_is_always_right_saves_runs(guesses: int) -> None:
    model = SmallModel(3)
    model.cache = [1, 2]
    draft = draft_by_model(SmallModel(3).verify)
    found = generate_speculatively(model.verify, draft, [1, 2], model.row([1, 2]), max_new_tokens=33, guesses=guesses)
    assert found.accepted == found.proposed
    assert found.runs == -(-32 // (guesses + 1))
    assert found.tokens_per_run > guesses


def test_a_draft_that_is_never_right_costs_no_run() -> None:
    model = SmallModel(3)
    model.cache = [1, 2]

    def wrong(tokens: Sequence[int], count: int) -> list[int]:
        return [(choose_token(model.row(tokens)) + 1) % VOCABULARY] * count

    found = generate_speculatively(model.verify, wrong, [1, 2], model.row([1, 2]), max_new_tokens=20)
    assert (found.runs, found.accepted) == (19, 0)


def test_misuse() -> None:
    model = SmallModel(0)
    row = model.row([1])

    def one_row(*_: object) -> Rows:
        return row

    with pytest.raises(GraphError, match="the prompt is empty"):
        generate_speculatively(model.verify, nothing, [], row)
    with pytest.raises(GraphError, match="longer than the context"):
        generate_speculatively(model.verify, nothing, [1, 2, 3], row, context=2)
    with pytest.raises(GraphError, match="guesses must be 0 or more"):
        generate_speculatively(model.verify, nothing, [1], row, guesses=-1)
    with pytest.raises(GraphError, match="max_new_tokens must be 0 or more"):
        generate_speculatively(model.verify, nothing, [1], row, max_new_tokens=-1)
    with pytest.raises(GraphError, match="a row of logits for every token"):
        generate_speculatively(one_row, nothing, [1], row)
