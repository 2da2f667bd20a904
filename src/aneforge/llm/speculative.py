"""Speculative decoding: a draft guesses tokens, one run of the model verifies them all, and the text stays the same.

The functions are pure: the model and the draft are callables. A token is accepted only if it is the one that the model
itself would have chosen there, so the result is that of plain decoding for any draft, good, bad or random; a good draft
makes it take fewer runs. This holds for sampling as well, since a draw depends on the position alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from aneforge.errors import GraphError
from aneforge.llm.token_sampling import GREEDY, Sampling, choose_token
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from aneforge.ops.types import Array

__all__ = ["Draft", "Speculation", "Verify", "draft_by_model", "draft_by_repetition", "generate_speculatively"]

Verify: TypeAlias = "Callable[[Sequence[int], int], Array]"
"""Takes tokens and the position of the first, writes their rows into the cache from there on, and returns the logits
after each: [tokens, vocabulary]. Rows of tokens that are rejected are written again by the next call."""
Draft: TypeAlias = "Callable[[Sequence[int], int], Sequence[int]]"
"""Takes all tokens so far and a number, and returns at most so many guesses of what follows; it may return none."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """What was generated, and at what price.

    >>> Speculation(tokens=(5, 6, 7, 8), runs=2, proposed=4, accepted=2).tokens_per_run
    2.0
    """

    tokens: tuple[int, ...]
    runs: int
    """Runs of the model after the prompt; plain decoding takes one for every token but the last."""
    proposed: int
    accepted: int
    """Tokens that the draft guessed, and those that the model would have chosen too."""

    @property
    def tokens_per_run(self) -> float:
        """Tokens that a run gave on average."""
        return len(self.tokens) / self.runs if self.runs else float(len(self.tokens))


def generate_speculatively(  # noqa: PLR0913 - the parts of every generation
    verify: Verify,
    draft: Draft,
    prompt: Sequence[int],
    logits: Array,
    *,
    max_new_tokens: int = 40,
    guesses: int = 4,
    end_tokens: Container[int] = (),
    context: int | None = None,
    sampling: Sampling = GREEDY,
    on_token: Callable[[int], None] | None = None,
) -> Speculation:
    """Return the tokens that follow a prompt: those of plain decoding, whatever the draft guesses.

    The prompt is in the model's cache already, and `logits` are those after its last token. At most `guesses` tokens
    are verified together with the one that is certain. Generation ends after an end token, which is among the tokens;
    after `max_new_tokens`; and where the last token has no place in a `context` any more, so that nothing follows it.

    >>> count_up = lambda tokens, position: np.eye(10)[[(token + 1) % 10 for token in tokens]]
    >>> found = generate_speculatively(
    ...     count_up, lambda tokens, most: [tokens[-1] + 1] * most, [1, 2], np.eye(10)[3], max_new_tokens=6
    ... )
    >>> found.tokens, found.runs
    ((3, 4, 5, 6, 7, 8), 3)

    Raises:
        GraphError: The prompt is empty or longer than the context, a number is negative, or `verify` returns another
            shape.
    """
    if guesses < 0:
        raise GraphError("guesses must be 0 or more", seen=guesses)
    text = Text(prompt, int(np.asarray(logits).shape[-1]), sampling, max_new_tokens, end_tokens, context, on_token)
    runs = proposed = accepted = 0
    text.take(logits)
    while text.goes_on:
        room = min(guesses, text.room)
        guessed = usable(draft(text.tokens, room), text.vocabulary, room) if room > 0 else []
        rows = verified(verify, [text.tokens[-1], *guessed], len(text.tokens) - 1, text.vocabulary)
        right = text.accept(rows, guessed)
        runs, proposed, accepted = runs + 1, proposed + len(guessed), accepted + right
    return Speculation(tuple(text.tokens[len(prompt) :]), runs, proposed, accepted)


class Text:
    """A prompt, what was generated after it, and where that ends."""

    def __init__(
        self,
        prompt: Sequence[int],
        vocabulary: int,
        sampling: Sampling,
        most: int,
        end_tokens: Container[int],
        context: int | None,
        on_token: Callable[[int], None] | None,
    ) -> None:
        if not prompt:
            raise GraphError("the prompt is empty", remedy="begin with the token that begins a text")
        if most < 0:
            raise GraphError("max_new_tokens must be 0 or more", seen=most)
        if context is not None and len(prompt) > context:
            raise GraphError("the prompt is longer than the context", seen=len(prompt), limit=context)
        self.tokens, self.vocabulary, self.sampling = list(prompt), vocabulary, sampling
        self.most, self.end_tokens, self.on_token = len(prompt) + most, end_tokens, on_token
        self.context = self.most if context is None else context

    @property
    def goes_on(self) -> bool:
        """Another token follows: the last one is not an end, there may be more, and it has a place in the cache."""
        return len(self.tokens) < self.most and len(self.tokens) <= self.context and not self.ended

    @property
    def ended(self) -> bool:
        """The last token ends the text."""
        return self.tokens[-1] in self.end_tokens

    @property
    def room(self) -> int:
        """How many guesses could be accepted: each needs a place in the cache, and one more token follows them."""
        return min(self.most - len(self.tokens) - 1, self.context - len(self.tokens))

    def take(self, row: Array) -> int | None:
        """Choose the token after a row of logits and return it; None where the text is as long as it may be."""
        if len(self.tokens) >= self.most:
            return None
        token = choose_token(row, self.sampling, len(self.tokens))
        self.tokens.append(token)
        if self.on_token is not None:
            self.on_token(token)
        return token

    def accept(self, rows: Array, guessed: Sequence[int]) -> int:
        """Take tokens up to the first that was not guessed and return how many were."""
        for place, row in enumerate(rows):
            token = self.take(row)
            if place == len(guessed) or token != guessed[place]:
                return place
            if self.ended:
                return place + 1
        return len(guessed)


def usable(guesses: Sequence[int], vocabulary: int, most: int) -> list[int]:
    """Return guesses up to the first that is no token of the model: it could not be accepted, nor anything after it."""
    found: list[int] = []
    for guess in guesses[:most]:
        if not 0 <= guess < vocabulary:
            break
        found.append(int(guess))
    return found


def verified(verify: Verify, tokens: list[int], position: int, vocabulary: int) -> Array:
    """Return the logits after every token.

    Raises:
        GraphError: There is not a row for every token.
    """
    rows = np.asarray(verify(tokens, position))
    if rows.shape != (len(tokens), vocabulary):
        raise GraphError(
            "verify must return a row of logits for every token", seen=list(rows.shape), limit=[len(tokens), vocabulary]
        )
    return rows


def draft_by_model(verify: Verify) -> Draft:
    """Return the draft that a smaller model gives, greedily.

    It has a cache of its own, which is kept right here: tokens that the other model rejected are written again.

    >>> draft = draft_by_model(lambda tokens, position: np.eye(10)[[(token + 1) % 10 for token in tokens]])
    >>> draft([3, 4], 3)
    [5, 6, 7]
    """
    cached: list[int] = []

    def guess(tokens: Sequence[int], most: int) -> Sequence[int]:
        same = next((place for place, pair in enumerate(zip(cached, tokens, strict=False)) if pair[0] != pair[1]), None)
        # The last token is run in any case: its logits are needed.
        begin = min(len(cached) if same is None else same, len(tokens) - 1)
        cached[begin:] = tokens[begin:]
        found: list[int] = []
        rows = np.asarray(verify(list(tokens[begin:]), begin))
        while len(found) < most:
            found.append(choose_token(rows[-1]))
            if len(found) < most:
                rows = np.asarray(verify([found[-1]], len(cached)))
                cached.append(found[-1])
        return found

    return guess


def draft_by_repetition(tokens: Sequence[int], most: int, *, longest: int = 4) -> Sequence[int]:
    """Return what followed the last tokens when they stood in the text before: a draft that needs no model.

    The longest repeated ending counts, of at most `longest` tokens, and of its places the last.

    >>> draft_by_repetition([5, 1, 2, 3, 9, 1, 2], 2)
    [3, 9]
    >>> draft_by_repetition([1, 2, 3], 2)
    []
    """
    known = list(tokens)
    for length in range(min(longest, len(known) - 1), 0, -1):
        ending = known[-length:]
        for begin in range(len(known) - length - 1, -1, -1):
            if known[begin : begin + length] == ending:
                return known[begin + length : begin + length + most]
    return []
