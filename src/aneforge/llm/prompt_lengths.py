"""Lengths of the programs that run a prompt: few of them serve all prompts."""

from __future__ import annotations

__all__ = ["LONGEST_PIECE", "LONGEST_VERIFIED", "padded_length", "split_prompt", "split_verified"]

SHORTEST_PREFILL = 16
"""The shortest prefill that is compiled: shorter prompts are padded to it."""
LONGEST_PIECE = 64
"""Tokens that a layer with a memory takes at once: what pairs of tokens take grows with their square."""
LONGEST_VERIFIED = 8
"""Tokens that are verified in one run: each is written into the cache by operations of its own."""


def padded_length(tokens: int, context: int) -> int:
    """Return the length that a prompt is padded to: a power of two, so that few programs serve all prompts.

    >>> padded_length(3, 512), padded_length(100, 512), padded_length(300, 400)
    (16, 128, 400)
    """
    return min(max(SHORTEST_PREFILL, 1 << (tokens - 1).bit_length()), context)


def split_prompt(tokens: int, context: int) -> list[tuple[int, int]]:
    """Return the pieces in which layers with a memory take a prompt: the tokens of each, and what it is padded to.

    >>> split_prompt(100, 512), split_prompt(65, 512), split_prompt(3, 512)
    ([(64, 64), (36, 64)], [(64, 64), (1, 1)], [(3, 16)])
    """
    counts = [min(LONGEST_PIECE, tokens - start) for start in range(0, tokens, LONGEST_PIECE)]
    return [(count, 1 if count == 1 else padded_length(count, context)) for count in counts]


def split_verified(tokens: int) -> list[int]:
    """Return the runs in which tokens are verified, by how many each has.

    >>> split_verified(5), split_verified(19)
    ([5], [8, 8, 3])
    """
    return [min(LONGEST_VERIFIED, tokens - start) for start in range(0, tokens, LONGEST_VERIFIED)]
