"""How exact a language model is on a chip: tokens with their margins, the first that flips, the layer where it began.

Greedy decoding makes numbers visible as tokens. Two sides are compared on the same text: the tokens that one of them
generated, with the logits that each side has for every one of them. A side is a model on a target, the same with
encoded weights, or the mathematics of the graph (float64, weights as fp16 holds them), rounded to float32.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

import aneforge as af
from aneforge.errors import GraphError
from aneforge.llm.decoder_programs import place_tokens
from aneforge.llm.graphs.decoder import prefill_graph, step_graph
from aneforge.llm.number_forms import ResidualRanges
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.llm.graphs.decoder import DecoderPart
    from aneforge.llm.language_model import LanguageModel
    from aneforge.ops.types import Array

__all__ = [
    "Comparison",
    "Mathematics",
    "Side",
    "TokenComparison",
    "compare_sides",
    "margin_of",
    "perplexity",
]

TRACED = ("logits", "residual", "between")
"""Prefix of the names of traced outputs."""
BEGIN_SHARE = 0.5
"""A difference begins at the first layer that has this share of the largest difference of any layer."""


class Side(Protocol):
    """One side of a comparison."""

    @property
    def label(self) -> str:
        """What reports call it."""
        ...

    def follow(self, prompt: Sequence[int], tokens: Sequence[int]) -> Array:
        """Return the logits [tokens, vocabulary] from which each token of a given continuation was to be chosen."""
        ...

    def trace(self, ids: Sequence[int]) -> Array:
        """Return the residual of the last token after every layer [layers, width]."""
        ...

    def score(self, ids: Sequence[int]) -> Array:
        """Return the logits after every token of a text."""
        ...


class Mathematics:
    """The graphs of a model as the mathematics gives them: float64, without any rounding of the engine's."""

    label = "float32"

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.last: tuple[tuple[int, ...], dict[str, Array]] = ((), {})

    @property
    def parts(self) -> list[DecoderPart]:
        """The chunks, with weights as fp16 holds them, whatever encoding the model has."""
        return [dataclasses.replace(part, read=self.model.weights) for part in traced(self.model.parts)]

    def evaluate(self, ids: Sequence[int]) -> dict[str, Array]:
        """Return logits and residuals of every token of a text; those of the last one are kept."""
        if self.last[0] != tuple(ids):
            self.last = tuple(ids), self.evaluated(ids)
        return self.last[1]

    def evaluated(self, ids: Sequence[int]) -> dict[str, Array]:
        """Return the same, computed."""
        if self.model.recurrent:
            return self.evaluated_one_by_one(ids)
        rows: Array = self.model.weights.embed(ids, 0).astype(np.float64)
        found: dict[str, Array] = {}
        for part in self.parts:
            given = af.reference(prefill_graph(part, len(ids), all_rows=True), {"hidden": rows})
            rows = given.get("hidden", rows)
            found |= {name: one for name, one in given.items() if name.startswith(TRACED)}
        return found

    def evaluated_one_by_one(self, ids: Sequence[int]) -> dict[str, Array]:
        """Return the same of a model whose layers have a memory, token by token."""
        model = self.model
        graphs = [step_graph(part) for part in self.parts]
        held = {name: np.zeros(one.shape) for name, one in model.cache.buffers.items()}
        rows: dict[str, list[Array]] = {}
        for place, token in enumerate(ids):
            given: dict[str, Array] = {"hidden": model.weights.embed([token], place)}
            given |= place_tokens(model.config, model.context, place, 1)
            for graph in graphs:
                every = given | held
                found = af.reference(graph, {name: every[name] for name in graph.inputs})
                held |= {name: found[f"{name}_next"] for name in held if f"{name}_next" in found}
                given |= {name: one for name, one in found.items() if name == "hidden"}
                for name in found:
                    if name.startswith(TRACED):
                        rows.setdefault(name, []).append(found[name][0])
        return {name: np.stack(one) for name, one in rows.items()}

    def score(self, ids: Sequence[int]) -> Array:
        """Return the logits after every token of a text, rounded to float32."""
        found = self.evaluate(ids)
        return join_tiles(found).astype(np.float32)

    def follow(self, prompt: Sequence[int], tokens: Sequence[int]) -> Array:
        """Return the logits from which each token of a continuation was to be chosen."""
        return self.score([*prompt, *tokens[:-1]])[len(prompt) - 1 :]

    def trace(self, ids: Sequence[int]) -> Array:
        """Return the residual of the last token after every layer."""
        found = self.evaluate(ids)
        return np.stack([found[f"residual_{number}"][-1] for number in range(len(self.model.config.layers))])

    def ranges(self, ids: Sequence[int]) -> ResidualRanges:
        """Return what the residual reaches on a text, over all of its tokens."""
        found, scale = self.evaluate(ids), self.model.weights.residual_scale
        layers = range(len(self.model.config.layers))
        read = [self.model.weights.embed(ids, 0).astype(np.float64)]
        read += [found[f"{place}_{number}"] for number in layers for place in ("between", "residual")]
        squares = [np.square(one * scale) for one in read]
        return ResidualRanges(
            layers=tuple(float(np.max(np.abs(found[f"residual_{number}"]))) * scale for number in layers),
            largest=float(max(np.max(np.abs(one)) for one in read)) * scale,
            square_sum=float(max(one.sum(-1).max() for one in squares)),
            mean_square=float(min(one.mean(-1).min() for one in squares)),
        )


def traced(parts: Sequence[DecoderPart]) -> list[DecoderPart]:
    """Return parts that give the residual after every layer."""
    return [dataclasses.replace(part, trace=True) for part in parts]


def join_tiles(found: dict[str, Array]) -> Array:
    """Return the tiles of the vocabulary side by side."""
    tiles = sorted((name for name in found if name.startswith("logits")), key=tile_number)
    return np.concatenate([found[name] for name in tiles], axis=-1)


def tile_number(name: str) -> int:
    """Return the number at the end of a name."""
    return int(name.rpartition("_")[2])


@dataclass(frozen=True, slots=True)
class TokenComparison:
    """One token of a text, and what each side would have chosen there."""

    position: int
    """Its place in the text, prompt included."""
    token: int
    other_token: int
    margin: float
    """By how much the best logit of the first side is above its second."""
    other_margin: float
    difference: float
    """The largest difference of a logit between the sides."""

    @property
    def flips(self) -> bool:
        """Whether the sides disagree."""
        return self.token != self.other_token


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides on one text."""

    label: str
    other: str
    prompt: int
    """Tokens of the prompt."""
    tokens: tuple[TokenComparison, ...]
    layers: tuple[float, ...] = ()
    """Where a token flips: the relative difference of the residual after every layer, at that token."""

    @property
    def first_flip(self) -> TokenComparison | None:
        """The first token on which the sides disagree."""
        return next((one for one in self.tokens if one.flips), None)

    @property
    def began_at(self) -> int | None:
        """The first layer after which half of the largest difference is there; None without a flip."""
        if not self.layers:
            return None
        return next(place for place, one in enumerate(self.layers) if one >= BEGIN_SHARE * max(self.layers))

    @property
    def smallest_margin(self) -> float:
        """The smallest margin of the first side."""
        return min(one.margin for one in self.tokens)

    @property
    def largest_difference(self) -> float:
        """The largest difference of a logit."""
        return max(one.difference for one in self.tokens)

    def __str__(self) -> str:
        flips = sum(one.flips for one in self.tokens)
        text = (
            f"{self.label} against {self.other}: {len(self.tokens) - flips} of {len(self.tokens)} tokens agree; "
            f"smallest margin {self.smallest_margin:.3g}, largest difference of a logit {self.largest_difference:.3g}"
        )
        flip = self.first_flip
        if flip is None:
            return text
        return (
            f"{text}\nfirst flip at position {flip.position}: {flip.token} on {self.label} (margin {flip.margin:.3g}), "
            f"{flip.other_token} on {self.other} (margin {flip.other_margin:.3g}), with a difference of logits of "
            f"{flip.difference:.3g} there; it began at layer {self.began_at}"
        )


def compare_sides(side: Side, other: Side, prompt: Sequence[int], tokens: Sequence[int], logits: Array) -> Comparison:
    """Compare two sides on a continuation that the first one generated, with the logits that it had.

    Raises:
        GraphError: There are no tokens to compare.
    """
    if not tokens:
        raise GraphError("there are no tokens to compare", remedy="generate at least one")
    others = other.follow(prompt, tokens)
    compared = tuple(
        TokenComparison(
            position=len(prompt) + place,
            token=int(np.argmax(row)),
            other_token=int(np.argmax(there)),
            margin=margin_of(row),
            other_margin=margin_of(there),
            difference=float(np.max(np.abs(row - there))),
        )
        for place, (row, there) in enumerate(zip(logits, others, strict=True))
    )
    found = Comparison(side.label, other.label, len(prompt), compared)
    flip = found.first_flip
    if flip is None:
        return found
    text = [*prompt, *tokens][: flip.position]
    here, there = side.trace(text).astype(np.float64), other.trace(text).astype(np.float64)
    sizes = np.maximum(np.linalg.norm(there, axis=1), np.finfo(np.float32).tiny)
    layers = tuple((np.linalg.norm(here - there, axis=1) / sizes).tolist())
    return dataclasses.replace(found, layers=layers)


def margin_of(logits: Array) -> float:
    """Return by how much the best logit is above the second.

    >>> margin_of(np.array([1.0, 4.0, 3.5]))
    0.5
    """
    if len(logits) == 1:
        return math.inf
    second, best = np.partition(logits, -2)[-2:]
    return float(best - second)


def perplexity(side: Side, ids: Sequence[int], window: int, on_token: Callable[[int], object] | None = None) -> float:
    """Return the perplexity of a text, in windows that do not see one another.

    Raises:
        GraphError: The text has fewer than two tokens.
    """
    if len(ids) < 2:
        raise GraphError("the perplexity of a text needs two tokens or more", seen=len(ids))
    total, count = 0.0, 0
    for start in range(0, len(ids) - 1, window):
        part = ids[start : start + window]
        if len(part) < 2:
            continue
        logits = side.score(part)[:-1].astype(np.float64)
        chosen = np.array(part[1:])
        peak = logits.max(axis=1)
        totals = peak + np.log(np.exp(logits - peak[:, None]).sum(axis=1))
        total += float(np.sum(totals - logits[np.arange(len(chosen)), chosen]))
        count += len(chosen)
        if on_token is not None:
            on_token(count)
    return math.exp(total / count)
