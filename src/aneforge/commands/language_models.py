"""`aneforge llm check`: greedy decoding on chips, against the mathematics and between chips."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aneforge.commands.model_and_targets import chosen_targets
from aneforge.errors import GraphError
from aneforge.llm.architecture import count_parameters, longest_context
from aneforge.llm.exactness import Mathematics, perplexity
from aneforge.llm.language_model import DEFAULT_CONTEXT, load
from aneforge.llm.planning import read_decoder
from aneforge.records import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from aneforge.llm.exactness import Comparison
    from aneforge.llm.language_model import LanguageModel

__all__ = ["LanguageCheck", "TargetCheck", "check_language_model"]

FP16_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """One model on one target."""

    target: str
    tokens: tuple[int, ...]
    """What it generated."""
    against_float32: Comparison
    against_first: Comparison | None
    """Against the first target, on the text of that one; None for the first itself."""
    perplexity: float | None
    warnings: tuple[str, ...]
    encodings: str | None
    """What was made of the weights, where they are encoded."""
    cautions: tuple[str, ...]
    """Those of the warnings that say why tokens are worse than they need to be."""


@dataclass(frozen=True, slots=True)
class LanguageCheck:
    """A language model on targets."""

    model: str
    architecture: str
    parameters: int
    context: int
    prompt: tuple[int, ...]
    notes: tuple[str, ...]
    targets: tuple[TargetCheck, ...]
    magnitudes: tuple[float, ...]
    """The largest magnitude of the residual after every layer, without a scale, on the text of the first target."""
    residual_scale: float
    forms: str
    """The residual's scale and the form of its norms, and why."""
    perplexity_float32: float | None
    text: int = 0
    """Tokens of the text whose perplexity was measured."""
    window: int = 0
    """How many of them are read at a time, which is as far as a prediction sees back."""

    @property
    def first_overflow(self) -> int | None:
        """The first layer after which the residual does not fit fp16."""
        beyond = (place for place, one in enumerate(self.magnitudes) if one / self.residual_scale > FP16_LARGEST)
        return next(beyond, None)


def check_language_model(  # noqa: PLR0913 - the options of the command
    path: str | os.PathLike[str],
    targets: Sequence[str] | None,
    prompt: Sequence[int],
    *,
    tokens: int = 32,
    context: int | None = None,
    compress: str | None = None,
    residual_scale: float = 1.0,
    by_ranges: bool = False,
    text: Sequence[int] | None = None,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> LanguageCheck:
    """Generate greedily on every target, and say where and why tokens differ from float32 and between targets.

    `text` are tokens whose perplexity is wanted. `by_ranges` chooses the residual's scale and the form of its norms by
    what the prompt reaches.

    Raises:
        GraphError: There are no tokens to generate, or the prompt does not fit.
        CheckpointError: Files are missing, damaged or of another model.
        UnsupportedModelError: The model is not supported here.
        UnknownTargetError: A target name is unknown.
    """
    if tokens < 1:
        raise GraphError("the number of tokens must be 1 or more", seen=tokens)
    places = chosen_targets(targets)
    length = context if context is not None else needed_context(path, prompt, tokens, text)
    first = load(path, target=places[0].name, compress=compress, context=length, residual_scale=residual_scale)
    first = first.by_ranges(prompt) if by_ranges else first
    models = [first, *(first.for_target(place.name, compress) for place in places[1:])]
    mathematics = Mathematics(first)
    window = min(len(text), length) if text else 0
    found: list[TargetCheck] = []
    for place, model in enumerate(models):
        progress(f"decoding on {model.label}", place, len(models))
        found.append(
            check_target(model, None if place == 0 else first, mathematics, prompt, tokens, text or (), window)
        )
    whole = [*prompt, *found[0].tokens[:-1]]
    checked = LanguageCheck(
        model=Path(path).name,
        architecture=first.config.architecture,
        parameters=count_parameters(first.config),
        context=length,
        prompt=tuple(prompt),
        notes=first.notes,
        targets=tuple(found),
        magnitudes=mathematics.ranges(whole).layers,
        residual_scale=first.forms.residual_scale,
        forms=str(first.forms),
        perplexity_float32=perplexity(mathematics, text, window) if text else None,
        text=len(text or ()),
        window=window,
    )
    for model in models:
        model.release()
    return checked


def needed_context(path: str | os.PathLike[str], prompt: Sequence[int], tokens: int, text: Sequence[int] | None) -> int:
    """Return the context of a check for which none is given: what it generates, and as much of a text as usual."""
    generated = len(prompt) + tokens
    if not text:
        return generated
    return max(generated, min(len(text), DEFAULT_CONTEXT, longest_context(read_decoder(path)[0])))


def check_target(
    model: LanguageModel,
    first: LanguageModel | None,
    mathematics: Mathematics,
    prompt: Sequence[int],
    tokens: int,
    text: Sequence[int],
    window: int,
) -> TargetCheck:
    """Return the check of one target."""
    against = model.compare(mathematics, prompt, max_new_tokens=tokens)
    return TargetCheck(
        target=model.label,
        tokens=tuple(one.token for one in against.tokens),
        against_float32=against,
        against_first=None if first is None else first.compare(model, prompt, max_new_tokens=tokens),
        perplexity=perplexity(model, text, window) if text else None,
        warnings=model.warnings,
        encodings=None if model.encoded is None else str(model.encoded),
        cautions=model.cautions,
    )
