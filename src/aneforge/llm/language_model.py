"""Language models that run: `af.llm.load` takes a checkpoint, compiles its graphs for one target, and generates tokens.

The host embeds tokens and chooses the next one; everything between is a program. Graphs are compiled when they are
first needed: a prefill for each length of prompts (a power of two, the rest is padding), a step of one token, and steps
of several that are verified at once.
"""

from __future__ import annotations

import operator
import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, NotSupportedError
from aneforge.llm.architecture import expect_context, longest_context
from aneforge.llm.baked import BakedWeights
from aneforge.llm.checkpoint import FolderCheckpoint
from aneforge.llm.checkpoint_weights import find_weights
from aneforge.llm.chunks import split_layers
from aneforge.llm.declared_weights import ENCODINGS, encoded_share
from aneforge.llm.decoder_programs import KeyValueCache, PrefillProgram, StepProgram
from aneforge.llm.encoded import EncodedWeights
from aneforge.llm.exactness import Mathematics, compare_sides, traced
from aneforge.llm.graphs.decoder import DecoderPart
from aneforge.llm.hub import local_folder
from aneforge.llm.number_forms import NumberForms, choose_forms
from aneforge.llm.prompt_lengths import padded_length, split_prompt, split_verified
from aneforge.llm.rope import length_note
from aneforge.llm.token_sampling import GREEDY, Sampling, choose_token
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from aneforge.llm.checkpoint import Checkpoint
    from aneforge.llm.exactness import Comparison, Side
    from aneforge.llm.planning import DecoderPlan
    from aneforge.ops.types import Array
    from aneforge.targets import TargetLike

__all__ = ["DEFAULT_CONTEXT", "LanguageModel", "load"]

DEFAULT_CONTEXT = 512
INFINITE = (
    "numbers became infinite on the way: sums of products from 32,768 on, others from 65,520 on. Remedy: --by-ranges "
    "or --residual-scale 32 (by_ranges, residual_scale) divide the residual"
)


def load(
    path: str | os.PathLike[str] | Checkpoint,
    *,
    target: TargetLike = None,
    compress: str | None = None,
    context: int | None = None,
    chunk_bytes: int | None = None,
    residual_scale: float = 1.0,
) -> LanguageModel:
    """Return a language model for one target.

    `path` is a folder of Hugging Face (config.json and safetensors), a GGUF file, a checkpoint that is open, or a name
    of the hub (`owner/name`), which is fetched where the package huggingface_hub is installed. `context` is how many
    tokens fit, prompt and answer together: 512 or as many as the model has positions, where it is not given. `compress`
    is that of `af.compile`. Layers are cut into programs of at most `chunk_bytes` of constants, those of the target
    where it is not given.
    `residual_scale`, a power of two, divides the residual, for models whose outliers pass 65,504; norms have the form
    that survives every range of fp16. `by_ranges` of the model chooses both.

    >>> import aneforge as af
    >>> af.llm.load("/no/such/folder", target=af.targets.Family.A16)
    Traceback (most recent call last):
    ...
    aneforge.errors.CheckpointError: at /no/such/folder: there is no such file or folder. Remedy: name a folder with config.json and safetensors, as save_pretrained writes it

    Raises:
        CheckpointError: Files are missing, damaged or of another model.
        MissingPackageError: A package that reads or fetches it is not installed.
        UnsupportedModelError: The model is not supported here, or the context is too long for it.
        UnknownTargetError: The target name is unknown.
    """  # noqa: E501 - a message is one line
    checkpoint = open_checkpoint(path) if isinstance(path, str | os.PathLike) else path
    weights = find_weights(checkpoint)
    asked = min(DEFAULT_CONTEXT, longest_context(weights.config)) if context is None else context
    if asked < 1:
        raise GraphError("context must be at least 1", seen=asked)
    expect_context(weights.config, asked, checkpoint.source)
    options = ModelOptions(target, compress, asked, chunk_bytes)
    return LanguageModel(BakedWeights(weights, residual_scale, kept=compress is None), options)


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Return the checkpoint at a path: a GGUF file, or a folder, which may be one of the hub.

    Raises:
        CheckpointError: There is none, or it is damaged.
        MissingPackageError: It is a name of the hub, and the package that fetches it is not installed.
    """
    if Path(path).suffix == ".gguf":
        from aneforge.llm.gguf import GgufCheckpoint  # noqa: PLC0415 - loaded when it is needed

        return GgufCheckpoint(path)
    return FolderCheckpoint(local_folder(path))


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What a model is made for."""

    target: TargetLike
    compress: str | None
    context: int
    chunk_bytes: int | None


class LanguageModel:
    """A decoder for one target: `generate` continues a prompt; `prefill` and `step` are its parts.

    `load` makes one. It holds programs and weights until it is released or leaves a with statement.

    >>> import aneforge as af
    >>> with af.llm.load("small-llama", target=af.targets.Family.A16) as model:  # doctest: +SKIP
    ...     model.generate([72, 101, 108], max_new_tokens=6)
    """

    def __init__(self, weights: BakedWeights, options: ModelOptions, forms: NumberForms | None = None) -> None:
        self.options = options
        self.forms = NumberForms(weights.residual_scale) if forms is None else forms
        """The residual's scale and the form of its norms, and why."""
        self.weights = weights
        self.config = weights.config
        self.asked, self.compress, self.context = options.target, options.compress, options.context
        self.target = runnable(options.target)
        self.cache = KeyValueCache(self.config, self.context)
        tile = self.target.limits.integer("max_tensor_dim")
        most = options.chunk_bytes
        most = self.target.limits.integer("program_constant_bytes") if most is None else most
        self.encoded = None if self.compress is None else EncodedWeights(weights, self.compress, options.target)
        self.parts = tuple(
            DecoderPart(
                self.config,
                weights if self.encoded is None else self.encoded,
                self.context,
                chunk.first,
                chunk.last,
                head=chunk.head,
                vocabulary_tile=tile,
                longest_axis=tile,
                residual_scale=weights.residual_scale,
                wide_norms=self.forms.wide_norms,
            )
            for chunk in split_layers(self.config, most, encoded_share(self.config, self.compress))
        )
        self.prefills: dict[tuple[int, bool], PrefillProgram] = {}
        self.steps: dict[tuple[int, bool, bool], StepProgram] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the settings ask for and what is done instead, in this context."""
        scaled = None if self.config.rope is None else length_note(self.config.rope, self.context)
        return self.config.notes if scaled is None else (*self.config.notes, scaled)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The cautions, and what compiling warned of so far, each once."""
        compiling = (text for program in self.programs for text in program.warnings)
        return tuple(dict.fromkeys((*self.cautions, *compiling)))

    @property
    def cautions(self) -> tuple[str, ...]:
        """What makes tokens worse than they need to be: tensors without a place, large errors, infinite numbers."""
        encoding = () if self.encoded is None else self.encoded.warnings
        infinite = (INFINITE,) if any(program.infinite for program in self.programs) else ()
        return (*unused_tensors(self.weights.weights.unused, self.config), *encoding, *infinite)

    @property
    def programs(self) -> tuple[PrefillProgram | StepProgram, ...]:
        """The programs that are compiled."""
        return (*self.prefills.values(), *self.steps.values())

    def prefill_length(self, tokens: int) -> int:
        """Return the length that a prompt is padded to."""
        return padded_length(tokens, self.context)

    def prefill_program(self, tokens: int, *, all_rows: bool = False) -> PrefillProgram:
        """Return the program of prompts of so many tokens, compiled when it is first asked for."""
        key = self.prefill_length(tokens), all_rows
        if key not in self.prefills:
            self.prefills[key] = PrefillProgram(self.parts, key[0], self.asked, all_rows=all_rows)
        return self.prefills[key]

    def step_program(self, tokens: int = 1, *, last_row: bool = False, verified: bool = False) -> StepProgram:
        """Return the program of so many tokens against the cache, compiled when it is first asked for.

        Those that are `verified` have the bits of steps of one token.
        """
        key = tokens, last_row and tokens > 1, verified and tokens > 1
        if key not in self.steps:
            self.steps[key] = StepProgram(self.parts, tokens, self.cache, self.asked, last_row=key[1], verified=key[2])
        return self.steps[key]

    def prefill(self, ids: Sequence[int]) -> Array:
        """Run a prompt, put its keys and values into the cache, and return the logits of the next token.

        Raises:
            GraphError: The prompt is empty, longer than the context, or has a token that is not in the vocabulary.
        """
        tokens = self.checked(ids)
        self.expect_room(len(tokens))
        if self.recurrent:
            return self.run_in_pieces(tokens, last_row=True)[-1]
        program = self.prefill_program(len(tokens))
        found = program.run(self.weights.embed(tokens, 0))
        self.cache.begin(found, len(tokens))
        return join_logits(found)[0]

    def score(self, ids: Sequence[int]) -> Array:
        """Return the logits after every token of a text [tokens, vocabulary].

        The cache is not touched, unless layers are recurrent: then it has the text.

        Raises:
            GraphError: The text is empty, longer than the context, or has a token that is not in the vocabulary.
        """
        tokens = self.checked(ids)
        self.expect_room(len(tokens))
        if self.recurrent:
            return self.run_in_pieces(tokens, last_row=False)
        found = self.prefill_program(len(tokens), all_rows=True).run(self.weights.embed(tokens, 0))
        return join_logits(found)[: len(tokens)]

    @property
    def recurrent(self) -> bool:
        """Whether a layer has a memory that is overwritten: prompts run in pieces against the cache."""
        return self.config.recurrent

    def run_in_pieces(self, tokens: Sequence[int], *, last_row: bool) -> Array:
        """Run a text from its beginning against the cache, and return the logits after the last of each piece, or all.

        Pieces are of a length that few programs serve, and the last one is padded.
        """
        self.cache.clear()
        rows: list[Array] = []
        for count, length in split_prompt(len(tokens), self.context):
            start = self.cache.length
            program = self.step_program(length, last_row=last_row)
            found = program.run(self.weights.embed(tokens[start : start + count], start), start)
            rows.append(join_logits(found)[:count])
        return np.concatenate(rows)

    def step(self, *ids: int) -> Array:
        """Run the next token against the cache, and return logits; several are run together, with a row each.

        Raises:
            GraphError: The cache is full, or a token is not in the vocabulary.
        """
        rows = self.run_steps(ids, remember=False)
        return rows[0] if len(ids) == 1 else rows

    def run_steps(self, ids: Sequence[int], *, remember: bool) -> Array:
        """Run the next tokens against the cache, which can `remember` what was before each; return a row for each."""
        tokens = self.checked(ids)
        self.expect_room(self.cache.length + len(tokens))
        rows: list[Array] = []
        left = iter(tokens)
        for count in split_verified(len(tokens)):
            some, start = list(islice(left, count)), self.cache.length
            program = self.step_program(count, verified=True)
            rows.append(join_logits(program.run(self.weights.embed(some, start), start, remember=remember)))
        return np.concatenate(rows)

    def verify(self, tokens: Sequence[int], position: int) -> Array:
        """Run tokens that begin at a position, up to 8 in one run, and return logits with a row each.

        What the cache has from that position on is overwritten: `af.llm.generate_speculatively` calls it. Rows have the
        bits of steps of one token. The memories of recurrent layers are remembered: the next call may begin at any of
        these tokens, or a few before them. At position 0 such a model takes the tokens as a prompt.

        Raises:
            GraphError: The cache is not that long, or the tokens do not fit the context or the vocabulary.
            UnsupportedModelError: A layer is recurrent, and its memory at the position is not remembered.
        """
        if self.recurrent and position == 0:
            return self.score(tokens)
        self.rewind(position)
        return self.run_steps(tokens, remember=self.recurrent)

    @property
    def label(self) -> str:
        """What reports call it: the target, and the encoding of its weights."""
        name = self.asked if isinstance(self.asked, str) else self.target.name
        return name if self.compress is None else f"{name} {self.compress}"

    def follow(self, prompt: Sequence[int], tokens: Sequence[int]) -> Array:
        """Return the logits [tokens, vocabulary] from which each token of a given continuation was to be chosen.

        Raises:
            GraphError: The text does not fit the context, or has a token that is not in the vocabulary.
        """
        return np.stack([self.prefill(prompt), *(self.step(one) for one in tokens[:-1])])

    def trace(self, ids: Sequence[int]) -> Array:
        """Return the residual of the last token of a text after every layer [layers, width].

        Raises:
            GraphError: The text does not fit the context, or has a token that is not in the vocabulary.
        """
        tokens = self.checked(ids)
        self.expect_room(len(tokens))
        if self.recurrent:
            return self.trace_in_pieces(tokens)
        parts, length = traced(self.parts), self.prefill_length(len(tokens))
        program = PrefillProgram(parts, length, self.asked, all_rows=False)
        found = program.run(self.weights.embed(tokens, 0))
        program.release()
        layers = range(len(self.config.layers))
        return np.stack([found[f"residual_{number}"][len(tokens) - 1] for number in layers])

    def trace_in_pieces(self, tokens: Sequence[int]) -> Array:
        """Return the same for a model whose layers have a memory; the model's own is not touched."""
        cache, parts = KeyValueCache(self.config, self.context), traced(self.parts)
        programs: dict[int, StepProgram] = {}
        found: Mapping[str, Array] = {}
        last = 0
        for count, length in split_prompt(len(tokens), self.context):
            if length not in programs:
                programs[length] = StepProgram(parts, length, cache, self.asked, last_row=length > 1)
            start, last = cache.length, count - 1
            found = programs[length].run(self.weights.embed(tokens[start : start + count], start), start)
        for program in programs.values():
            program.release()
        return np.stack([found[f"residual_{number}"][last] for number in range(len(self.config.layers))])

    def for_target(self, target: TargetLike, compress: str | None = None) -> LanguageModel:
        """Return the same model for another target, or in another encoding; weights in memory are shared."""
        return LanguageModel(self.weights, replace(self.options, target=target, compress=compress), self.forms)

    def by_ranges(self, ids: Sequence[int]) -> LanguageModel:
        """Return the same model with the forms of numbers chosen by what the residual reaches on a text.

        `forms` says which: the residual's scale, and whether its norms are the engine's own, which are shorter, or of
        the form that survives every range of fp16. The text is computed in float64.

        Raises:
            GraphError: The text is empty, or has a token that is not in the vocabulary.
        """
        forms = choose_forms(Mathematics(self).ranges(self.checked(ids)), self.config.norm)
        weights = self.weights
        if forms.residual_scale != weights.residual_scale:
            weights = BakedWeights(weights.weights, forms.residual_scale, kept=self.compress is None)
        return LanguageModel(weights, self.options, forms)

    def compare(self, other: Side, prompt: Sequence[int], *, max_new_tokens: int = 32) -> Comparison:
        """Generate greedily, and compare tokens and logits with another side: a model, or `Mathematics`.

        Raises:
            GraphError: The prompt is empty, longer than the context, or has a token that is not in the vocabulary.
        """
        rows: list[Array] = []

        def keep(logits: Array) -> int:
            rows.append(logits)
            return best_token(logits)

        tokens = self.generate(prompt, max_new_tokens=max_new_tokens, choose=keep)
        return compare_sides(self, other, prompt, tokens, np.stack(rows))

    def divergence(
        self, target: TargetLike, prompt: Sequence[int] | None = None, *, max_new_tokens: int = 32
    ) -> Comparison:
        """Return where this model and the same one on another target part: the first token that flips, and its layer.

        Without a prompt, a seeded one of eight tokens is taken.

        Raises:
            GraphError: The prompt is empty, longer than the context, or has a token that is not in the vocabulary.
            UnknownTargetError: The target name is unknown.
        """
        asked = self.seeded_prompt() if prompt is None else prompt
        with self.for_target(target, self.compress) as other:
            return self.compare(other, asked, max_new_tokens=min(max_new_tokens, self.context - len(asked)))

    def plan(self, *, prompt: int = 128) -> DecoderPlan:
        """Return what the model takes on its target in its context: programs, bytes, times, encodings side by side.

        Weights that were compressed with `auto` or `sparse` count as fp16: their encoding depends on their values.
        """
        from aneforge.llm.planning import plan_decoder  # noqa: PLC0415 - few ask for it

        encoding = "fp16" if self.compress is None or self.compress not in ENCODINGS else self.compress
        return plan_decoder(
            self.config, [self.asked], contexts=[self.context], prompt=min(prompt, self.context), encoding=encoding
        )

    def seeded_prompt(self) -> list[int]:
        """Return a prompt for those who have none: tokens of a seeded generator, which are the same everywhere."""
        drawn = np.random.Generator(np.random.PCG64(0)).integers(0, self.config.vocabulary, 8)
        return [int(one) for one in drawn[: max(1, self.context // 2)]]

    def rewind(self, length: int) -> None:
        """Forget tokens from a place on: they are overwritten by the next ones.

        Raises:
            GraphError: The cache is not that long.
            UnsupportedModelError: A layer is recurrent, and its memory there is not remembered, as `verify` does.
        """
        self.cache.rewind(length)

    def generate(
        self,
        ids: Sequence[int],
        *,
        max_new_tokens: int = 40,
        end_tokens: Iterable[int] | None = None,
        sampling: Sampling = GREEDY,
        choose: Callable[[Array], int] | None = None,
        on_token: Callable[[int], object] | None = None,
    ) -> list[int]:
        """Return the tokens that continue a prompt.

        It ends after `max_new_tokens`, when the context is full, or with one of `end_tokens` (those of the checkpoint
        where none are given), which is returned too. `sampling` draws tokens as `generate_speculatively` does; the best
        ones are taken where it is not given. `choose` gives a token for logits in a way of its own. `on_token` is
        called with every token as it comes.

        Raises:
            GraphError: The prompt is empty, longer than the context, or has a token that is not in the vocabulary; or
                logits are not numbers.
        """
        ends = frozenset(self.config.end_tokens if end_tokens is None else end_tokens)
        if max_new_tokens < 0:
            raise GraphError("max_new_tokens must be 0 or more", seen=max_new_tokens)
        made: list[int] = []
        logits = self.prefill(ids)
        while len(made) < max_new_tokens:
            made.append(choose_token(logits, sampling, len(ids) + len(made)) if choose is None else choose(logits))
            if on_token is not None:
                on_token(made[-1])
            if made[-1] in ends or len(made) == max_new_tokens or self.cache.length == self.context:
                break
            logits = self.step(made[-1])
        return made

    def checked(self, ids: Sequence[int]) -> list[int]:
        """Return tokens as integers of the vocabulary.

        Raises:
            GraphError: There is none, or one is not in the vocabulary.
            GraphTypeError: One is not an integer.
        """
        try:
            tokens = [operator.index(one) for one in ids]
        except TypeError:
            raise GraphTypeError("tokens must be integers", seen=repr(ids)[:60]) from None
        if not tokens:
            raise GraphError("there are no tokens", remedy="give at least one, such as the token that begins a text")
        for one in tokens:
            if not 0 <= one < self.config.vocabulary:
                raise GraphError(
                    "a token is not in the vocabulary",
                    seen=one,
                    limit=self.config.vocabulary - 1,
                    remedy="the tokenizer that came with the weights gives its tokens",
                )
        return tokens

    def expect_room(self, length: int) -> None:
        """Check that so many tokens fit the context.

        Raises:
            GraphError: They do not.
        """
        if length > self.context:
            raise GraphError(
                "the tokens do not fit the context",
                seen=length,
                limit=self.context,
                remedy=f"ask for a context of {length} (--context {length}, or context={length} of load)"
                if length <= longest_context(self.config)
                else f"shorten the text: the model takes {longest_context(self.config)}",
            )

    def release(self) -> None:
        """Give back all programs; the next call compiles again."""
        for program in self.programs:
            program.release()
        self.prefills.clear()
        self.steps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def unused_tensors(names: Sequence[str], config: af.llm.DecoderConfig) -> tuple[str, ...]:
    """Return the caution about tensors of a checkpoint that the plan has no place for, if there are any."""
    if not names:
        return ()
    count = "1 stored tensor has" if len(names) == 1 else f"{len(names)} stored tensors have"
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    layers = "1 layer" if len(config.layers) == 1 else f"{len(config.layers)} layers"
    kind = f"a {config.architecture} of {layers} by these settings"
    return (f"{count} no place in {kind}, and nothing uses them: {names[0]}{more}. Remedy: check config.json",)


def runnable(target: TargetLike) -> af.targets.Target:
    """Return a target that runs what a model becomes.

    Raises:
        UnknownTargetError: The target name is unknown.
        NotSupportedError: The target runs no MIL programs.
    """
    found = af.targets.resolve(target)
    if found.limits.get("mil_programs") is not True:
        raise NotSupportedError(
            "a language model becomes MIL programs, which this target does not run",
            target=found.name,
            remedy="choose a later target; `aneforge targets` lists them",
        )
    return found


def best_token(logits: Array) -> int:
    """Return the token with the largest logit, the first of equals."""
    return int(np.argmax(logits))


def join_logits(found: Mapping[str, Array]) -> Array:
    """Return the tiles of the vocabulary side by side."""
    tiles = [found[f"logits_{place}"] for place in range(len(found)) if f"logits_{place}" in found]
    return np.concatenate(tiles, axis=-1)
