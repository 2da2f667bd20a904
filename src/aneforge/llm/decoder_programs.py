"""Compiled programs of a decoder: chunks of layers that hand the residual on, and a cache that stays in its buffers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.callsite import keep_warnings
from aneforge.engine.doubts import SPECIAL
from aneforge.errors import GraphError, NotSupportedError, UnsupportedModelError
from aneforge.llm.architecture import DeltaNetSpec
from aneforge.llm.graphs.causal_attention import causal_mask
from aneforge.llm.graphs.decoder import DecoderPart, attention_width, name_after, prefill_graph, shapes_held, step_graph
from aneforge.llm.rope import rope_tables
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.llm.architecture import DecoderConfig
    from aneforge.ops.types import Array
    from aneforge.targets import TargetLike

REMEMBERED = 16
"""Tokens after which memories are kept for a rewind, in addition to those of the last run."""

STOPPING = (Severity.REJECT, Severity.OVERSIZE)

__all__ = ["KeyValueCache", "PrefillProgram", "StepProgram", "compile_graph", "describe_refusal", "place_tokens"]


class KeyValueCache:
    """What every layer keeps between tokens, in fp16, in buffers that programs share.

    Keys and values are [key_value_heads, context, width]; a gated delta net keeps windows and a memory. These are
    overwritten by every token: what they were is remembered where tokens are verified, so that some can be taken back.
    """

    def __init__(self, config: DecoderConfig, context: int) -> None:
        self.context = context
        self.length = 0
        """How many places are filled."""
        self.buffers: dict[str, Array] = {}
        self.overwritten: list[str] = []
        """The buffers of windows and memories."""
        self.remembered: dict[int, dict[str, Array]] = {}
        """What was in them after so many tokens."""
        for number, layer in enumerate(config.layers):
            for name, shape in shapes_held(layer.mixer, context).items():
                self.buffers[f"{name}_{number}"] = np.zeros(shape, np.float16)
                if isinstance(layer.mixer, DeltaNetSpec):
                    self.overwritten.append(f"{name}_{number}")

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(one.nbytes for one in self.buffers.values())

    def clear(self) -> None:
        """Forget everything."""
        self.length = 0
        self.remembered.clear()
        for one in self.buffers.values():
            one.fill(0)

    def remember(self) -> None:
        """Keep what windows and memories are now, so that the next tokens can be taken back."""
        self.remembered[self.length] = {name: self.buffers[name].copy() for name in self.overwritten}

    def rewind(self, length: int) -> None:
        """Forget tokens from a place on: the next ones overwrite keys and values, memories become as they were.

        Raises:
            GraphError: There are not as many tokens.
            UnsupportedModelError: A memory was overwritten, and what it was is not remembered.
        """
        if not 0 <= length <= self.length:
            raise GraphError("there are not as many tokens in the cache", seen=length, limit=self.length)
        if self.overwritten and length != self.length:
            if length not in self.remembered:
                raise UnsupportedModelError(
                    "a memory that was overwritten cannot be rewound: it is remembered where tokens are verified",
                    seen=length,
                    limit=min(self.remembered, default=self.length),
                    remedy=f"run the text again, or ask for at most {REMEMBERED} guesses",
                )
            for name, one in self.remembered[length].items():
                self.buffers[name][...] = one
        kept = range(length - REMEMBERED, length + 1)
        self.remembered = {place: one for place, one in self.remembered.items() if place in kept}
        self.length = length

    def begin(self, found: Mapping[str, Array], tokens: int) -> None:
        """Take keys and values of a prompt, without those of its padding."""
        for name, held in self.buffers.items():
            if name in found:
                held[:, :tokens] = found[name][:, :tokens]
                held[:, tokens:] = 0
        self.length = tokens


def met_infinity(model: af.MultiModel) -> bool:
    """Return whether the last run met a number that is infinite, which no decoder means."""
    label = model.last_label
    return label is not None and SPECIAL.reason in label.reason


def compile_graph(graph: af.Graph, target: TargetLike, what: str) -> tuple[af.MultiModel, tuple[str, ...]]:
    """Compile one graph of a decoder, and return it with what was warned of, each sort once.

    Raises:
        NotSupportedError: The target does not run it.
    """
    try:
        with keep_warnings() as messages:
            model = af.compile_multi(graph, target=target)
    except NotSupportedError as error:
        raise describe_refusal(graph, target, what) or error from None
    return model, tuple(dict.fromkeys(messages))


def describe_refusal(graph: af.Graph, target: TargetLike, what: str) -> NotSupportedError | None:
    """Return why a target does not run a graph of a decoder, by the first rule that stops it; None without such a rule.

    The lines of the package that built its operations say nothing to the user.
    """
    name = af.targets.resolve(target).name
    stopping = [one for one in af.preflight(graph, target).findings if one.severity in STOPPING]
    if not stopping:
        return None
    return NotSupportedError(
        f"{what} does not run: {stopping[0].rule}: {stopping[0].message.rstrip('.')}",
        target=name,
        remedy="`aneforge llm plan` shows which lengths and contexts the chip takes",
    )


class PrefillProgram:
    """A prompt of up to so many tokens, in one run per chunk."""

    def __init__(self, parts: Sequence[DecoderPart], tokens: int, target: TargetLike, *, all_rows: bool) -> None:
        self.tokens = tokens
        self.parts = tuple(parts)
        self.all_rows = all_rows
        what = f"a prompt of {tokens} tokens"
        built = [compile_graph(prefill_graph(part, tokens, all_rows=all_rows), target, what) for part in parts]
        self.models = [model for model, _ in built]
        self.warnings = tuple(dict.fromkeys(text for _, texts in built for text in texts))
        self.infinite = False
        """Whether a number became infinite in any run."""

    def run(self, hidden: Array) -> dict[str, Array]:
        """Return the outputs of all chunks by name; rows beyond the prompt are padding."""
        count = len(hidden)
        rows = np.zeros((self.tokens, hidden.shape[1]), np.float16)
        rows[:count] = hidden
        rows[count:] = hidden[-1]
        last = np.zeros((1, self.tokens), np.float16)
        last[0, count - 1] = 1
        found: dict[str, Array] = {}
        for model in self.models:
            inputs = {"hidden": rows, "last": last}
            given = model(**{name: inputs[name] for name in model.inputs})
            self.infinite |= met_infinity(model)
            rows = given.pop("hidden", rows)
            found |= given
        return found

    def release(self) -> None:
        """Give back what the programs hold."""
        for model in self.models:
            model.release()


class StepProgram:
    """One token, or several, against the cache.

    `last_row` gives the logits of the last one alone. Of tokens that are `verified`, what layers keep after each
    is known.
    """

    def __init__(
        self,
        parts: Sequence[DecoderPart],
        tokens: int,
        cache: KeyValueCache,
        target: TargetLike,
        *,
        last_row: bool = False,
        verified: bool = False,
    ) -> None:
        self.tokens, self.cache = tokens, cache
        self.config = parts[0].config
        graphs = (step_graph(part, tokens, last_row=last_row, verified=verified) for part in parts)
        what = f"a step of {tokens} token{'s' if tokens > 1 else ''} in a context of {cache.context}"
        built = [compile_graph(graph, target, what) for graph in graphs]
        self.models = [model for model, _ in built]
        self.warnings = tuple(dict.fromkeys(text for _, texts in built for text in texts))
        self.infinite = False
        """Whether a number became infinite in any run."""
        for model in self.models:
            for name in [one for one in model.inputs if one in cache.buffers]:
                model.loaded.bind(name, cache.buffers[name])
                model.loaded.bind(f"{name}_next", cache.buffers[name])

    def run(self, hidden: Array, position: int, *, remember: bool = False) -> dict[str, Array]:
        """Run tokens at positions from `position`; the cache has what they leave afterwards.

        There may be fewer than the program takes: rows beyond them are padding. The cache can `remember` what was
        before each token of a program that verifies.
        """
        if remember:
            self.cache.remember()
        count = len(hidden)
        rows = np.concatenate([hidden, np.repeat(hidden[-1:], self.tokens - count, axis=0)])
        inputs = {"hidden": rows, **self.place(position, count)}
        found: dict[str, Array] = {}
        for model in self.models:
            for name, value in inputs.items():
                if name in model.inputs:
                    model.loaded.set_input(name, value)
            model.execute()
            self.infinite |= met_infinity(model)
            if "hidden" in model.outputs:
                inputs["hidden"] = model.loaded.read_output("hidden")
            given = [name for name in model.outputs if name.startswith(("logits_", "residual_"))]
            found |= {name: model.loaded.read_output(name).astype(np.float32) for name in given}
            for place, name in itertools.product(range(1, count), self.cache.overwritten if remember else ()):
                if name_after(name, place) in model.outputs:
                    after = model.loaded.read_output(name_after(name, place))
                    self.cache.remembered.setdefault(position + place, {})[name] = after
        self.cache.length = position + count
        return found

    def place(self, position: int, count: int = 1) -> dict[str, Array]:
        """Return what says where so many tokens are."""
        return place_tokens(self.config, self.cache.context, position, self.tokens, count)

    def release(self) -> None:
        """Give back what the programs hold."""
        for model in self.models:
            model.release()


def place_tokens(
    config: DecoderConfig, context: int, position: int, tokens: int, count: int | None = None
) -> dict[str, Array]:
    """Return the inputs that say where the tokens of a step are: placement, mask, rotary tables, and what is padding.

    Of `tokens` rows the first `count` are tokens, which is all where it is not given.
    """
    real = tokens if count is None else count
    here = np.arange(real)
    placement = np.zeros((1, context, tokens), np.float16)
    placement[0, position + here, here] = 1
    last = np.zeros((1, tokens), np.float16)
    last[0, real - 1] = 1
    found = {"placement": placement, "mask": causal_mask(tokens, context, position)[None], "last": last}
    if config.rope is not None:
        width = attention_width(config)
        cosine, sine = rope_tables(config.rope, range(position, position + tokens), context, width)
        found |= {"cosine": cosine[:, None], "sine": sine[:, None]}
    kernels = [layer.mixer.kernel for layer in config.layers if isinstance(layer.mixer, DeltaNetSpec)]
    if kernels and tokens > 1:
        before = kernels[0] - 1
        window = np.eye(before + tokens, before, -real, dtype=np.float16)
        found |= {"real": (np.arange(tokens) < real).astype(np.float16)[:, None], "window": window}
    return found
