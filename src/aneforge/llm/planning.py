"""The plan of a language model before any weight is read: chip by chip, context by context.

Settings (`config.json`) are enough. For every chip and context there are the bytes of weights and cache, programs, the
time to the first token and tokens per second with error bars and their parts; for every pair of a length and a context
whether a step of so many tokens compiles, and the rule that breaks it; and the encodings of weights side by side.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.analysis.cost import DOUBTED_STEP, step_factor
from aneforge.errors import GraphError, NotSupportedError
from aneforge.llm.architecture import count_parameters, expect_context, longest_context
from aneforge.llm.architectures import describe_decoder
from aneforge.llm.checkpoint import read_settings
from aneforge.llm.declared_weights import ENCODINGS
from aneforge.llm.hub import local_folder
from aneforge.llm.pricing import ChipPricing, DecoderGraphs
from aneforge.llm.prompt_lengths import LONGEST_VERIFIED, padded_length, split_prompt
from aneforge.llm.settings import ModelSettings
from aneforge.optimise.compress.encodings import blockwise, int4_palette, int8_per_channel
from aneforge.records import dataclass
from aneforge.rules.rule import Severity
from aneforge.targets import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.pricing import RunPrice
    from aneforge.targets import Place, TargetLike

__all__ = [
    "DEFAULT_CONTEXTS",
    "DEFAULT_LENGTHS",
    "VERIFIED",
    "ChipPlan",
    "Comparison",
    "ContextPlan",
    "DecoderPlan",
    "EncodingPlan",
    "PairPlan",
    "plan_decoder",
    "read_decoder",
]

DEFAULT_CONTEXTS = (512, 2048)
DEFAULT_LENGTHS = (1, 32, 64, 128, 256, 512)
DEFAULT_PROMPT = 128
VERIFIED = 5
"""Tokens of a verification: four guesses, as `generate_speculatively` takes, and the token before them."""
ENCODERS = {"int8": int8_per_channel, "int4": int4_palette, "blockwise": blockwise}
SAMPLE_ROWS = 4
"""Rows of random weights that the error of an encoding is measured on."""
STOPPING = (Severity.REJECT, Severity.OVERSIZE)
NO_SPLIT = "no split exists"
MIXTURE = (
    "experts: their weights are assumed to be read as slowly as in the one published layer, and the intervals of times "
    "are a factor of three wide, because of the one published step (conflict T18)"
)
COUNTED = re.compile(r"^\d+ (?=products )")
"""Notes on a graph count its layers, which are those of one layer of the model."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether a prompt is faster on the engine than elsewhere, by the figure that the user gave."""

    device: str
    microseconds: float
    """What the prompt takes there."""
    pays: str
    """yes or no where the whole interval of the prediction is on one side, else undecided."""


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """What a context costs on a chip."""

    context: int
    cache_bytes: int
    prompt: int
    """Tokens of the prompt."""
    prefill: RunPrice | None
    """Of the prompt, padded as `af.llm.load` pads it; in pieces where a layer has a memory."""
    decode: RunPrice | None
    """None where the chip does not run it; `refusals` says why."""
    verification: RunPrice | None
    """Of a token and the guesses after it, in one run, as speculative decoding has it; None as above."""
    refusals: tuple[str, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Whether a step of so many tokens against a cache of a context compiles."""

    length: int
    context: int
    verdict: str
    """legal, split (an operation is oversize, and the compiler splits it), illegal, or longer (than the context)."""
    rules: tuple[str, ...]
    """The rules that objected."""
    reason: str
    """What the first of them says."""


@dataclass(frozen=True, slots=True)
class EncodingPlan:
    """The weights of layers in one encoding."""

    encoding: str
    weight_bytes: int
    programs: int
    decode_microseconds: float
    decode_low: float
    decode_high: float
    error: float
    """Relative error of random normal weights: a trained model's own differ."""


@dataclass(frozen=True, slots=True)
class ChipPlan:
    """A decoder on one chip."""

    chip: str
    target: str
    weight_bytes: int
    chunks: int
    """Programs that the weights need, for decoding and for a prompt each."""
    largest_chunk_bytes: int
    vocabulary_tiles: int
    contexts: tuple[ContextPlan, ...]
    pairs: tuple[PairPlan, ...]
    encodings: tuple[EncodingPlan, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecoderPlan:
    """A decoder on several chips; `plan_decoder` makes one.

    >>> empty = DecoderPlan("", "llama", 0, 0, 0, 0, 0, chips=(), notes=())
    >>> empty.ok
    True
    """

    source: str
    architecture: str
    parameters: int
    layers: int
    width: int
    vocabulary: int
    positions: int
    chips: tuple[ChipPlan, ...]
    notes: tuple[str, ...]
    encoding: str = "fp16"
    """Of the weights of the layers."""

    @property
    def ok(self) -> bool:
        """Every chip runs a prompt and a step in every context that was asked for."""
        return not any(one.refusals for chip in self.chips for one in chip.contexts)


def read_decoder(path: str | os.PathLike[str]) -> tuple[DecoderConfig, str]:
    """Return the plan of layers of a model folder, a `config.json` or a GGUF file, and its path; no weight is read.

    Raises:
        CheckpointError: There are no settings, or one is wrong.
        UnsupportedModelError: The model is not supported here.
    """
    source = os.fspath(path)
    if Path(path).suffix == ".gguf":
        from aneforge.llm.gguf import GgufCheckpoint  # noqa: PLC0415 - it needs an extra

        return describe_decoder(ModelSettings(GgufCheckpoint(path).settings, source)), source
    return describe_decoder(ModelSettings(read_settings(local_folder(path, settings_only=True)), source)), source


def plan_decoder(
    model: str | os.PathLike[str] | DecoderConfig,
    targets: Iterable[TargetLike],
    *,
    contexts: Sequence[int] | None = None,
    lengths: Sequence[int] = DEFAULT_LENGTHS,
    prompt: int | None = None,
    encoding: str = "fp16",
    against: Mapping[str, float] | None = None,
) -> DecoderPlan:
    """Return what a language model takes on chips: no weight is read, its settings are enough.

    Contexts are 512 and 2048 where none are given, or all that a model with fewer positions has. `prompt` is how many
    tokens the first one waits for: 128 where it is not given, or those of a context that is shorter. `encoding` is that
    of the weights: fp16, int8, int4, blockwise. `against` gives tokens per second of the prompt on other devices, by
    name, to say where a prompt is faster.

    >>> import aneforge as af
    >>> small = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    ...          "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000}
    >>> config = af.llm.describe_decoder(af.llm.ModelSettings(small, "config.json"))
    >>> plan = plan_decoder(config, [af.targets.Family.A16], contexts=[256], lengths=[1, 64])
    >>> plan.chips[0].chunks, [one.verdict for one in plan.chips[0].pairs], plan.ok
    (1, ['legal', 'legal'], True)

    Raises:
        CheckpointError: There are no settings, or one is wrong.
        UnsupportedModelError: The model is not supported here, or a context is longer than its positions.
        GraphError: A number is below 1, there is no such encoding, or a prompt is longer than every context.
    """
    config, source = (model, "") if isinstance(model, af.llm.DecoderConfig) else read_decoder(model)
    if encoding not in ENCODINGS:
        raise GraphError("there is no such encoding of weights", seen=encoding, limit=", ".join(ENCODINGS))
    contexts = default_contexts(config) if contexts is None else contexts
    for name, numbers in (("context", contexts), ("length", lengths), ("prompt", [1 if prompt is None else prompt])):
        if not numbers or min(numbers) < 1:
            raise GraphError(f"a {name} must be 1 or more", seen=list(numbers))
    for context in contexts:
        expect_context(config, context, source)
    if prompt is not None and prompt > max(contexts):
        raise GraphError(
            "the prompt is longer than every context",
            seen=prompt,
            limit=max(contexts),
            remedy="plan a shorter prompt or a longer context",
        )
    given = dict(against or {})
    for device, rate in given.items():
        if not 0 < rate < float("inf"):
            raise GraphError(f"the speed of {device} must be positive, in tokens per second", seen=rate)
    errors = {name: encoding_error(config.width, name) for name in ENCODINGS}
    asked = Asked(tuple(contexts), tuple(lengths), DEFAULT_PROMPT if prompt is None else prompt, encoding, given)
    graphs = {name: DecoderGraphs(config, stored) for name, stored in ENCODINGS.items()}
    chips = [plan_chip(graphs, place_of(target), asked, errors) for target in targets]
    return DecoderPlan(
        source=source,
        architecture=config.architecture,
        parameters=count_parameters(config),
        layers=len(config.layers),
        width=config.width,
        vocabulary=config.vocabulary,
        positions=config.positions,
        chips=tuple(chips),
        notes=tuple(config.notes),
        encoding=encoding,
    )


def default_contexts(config: DecoderConfig) -> tuple[int, ...]:
    """Return the contexts of a plan for which none are given."""
    longest = longest_context(config)
    return tuple(one for one in DEFAULT_CONTEXTS if one <= longest) or (longest,)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a plan is asked for."""

    contexts: tuple[int, ...]
    lengths: tuple[int, ...]
    prompt: int
    encoding: str
    against: Mapping[str, float]


def plan_chip(graphs: Mapping[str, DecoderGraphs], place: Place, asked: Asked, errors: Mapping[str, float]) -> ChipPlan:
    """Return the plan of one chip."""
    dense = ChipPricing(graphs["fp16"], place)
    pricings = {name: dense if name == "fp16" else ChipPricing(one, place, dense) for name, one in graphs.items()}
    pricing = pricings[asked.encoding]
    found = tuple(
        plan_context(pricing, context, min(asked.prompt, context), asked.against) for context in asked.contexts
    )
    pairs = tuple(plan_pair(pricing, length, context) for context in asked.contexts for length in asked.lengths)
    shortest = min(asked.contexts)
    encodings = [plan_encoding(name, one, shortest, errors[name]) for name, one in pricings.items()]
    notes = [note for one in pricing.priced.values() for note in one.cost.notes]
    notes += [MIXTURE] if pricing.config.mixture else []
    notes += [DOUBTED_STEP] if step_factor(place.target) > 1 else []
    return ChipPlan(
        chip=place.name,
        target=place.target.name,
        weight_bytes=pricing.weight_bytes,
        chunks=len(pricing.chunks),
        largest_chunk_bytes=max(one.bytes for one in pricing.chunks),
        vocabulary_tiles=len(pricing.tiles),
        contexts=found,
        pairs=pairs,
        encodings=tuple(one for one in encodings if one is not None),
        notes=tuple(dict.fromkeys(COUNTED.sub("", note) for note in notes)),
    )


def plan_context(pricing: ChipPricing, context: int, prompt: int, against: Mapping[str, float]) -> ContextPlan:
    """Return what a context costs."""
    refusals: list[str] = []
    runs: list[RunPrice | None] = []
    recurrent = pricing.config.recurrent
    padded = max(length for _, length in split_prompt(prompt, context)) if recurrent else padded_length(prompt, context)
    for what, tokens in (("prompt", padded), ("step", 1), ("verification", min(VERIFIED, context))):
        whole = what == "prompt"
        try:
            if whole:
                runs.append(pricing.pieces(prompt, context) if recurrent else pricing.prefill(padded, context))
            else:
                runs.append(pricing.step(tokens, context))
        except NotSupportedError as error:
            runs.append(None)
            if what != "verification":  # nobody needs one to generate
                reason = refusal_of(pricing, tokens, context, prompt=whole and not recurrent)
                refusals.append(f"{what}: {reason or error.message}")
    prefill, decode, verification = runs
    compared = [] if prefill is None else [compare(prefill, prompt, *one) for one in against.items()]
    held = pricing.cache_bytes(context)
    return ContextPlan(context, held, prompt, prefill, decode, verification, tuple(refusals), tuple(compared))


def refusal_of(pricing: ChipPricing, tokens: int, context: int, *, prompt: bool) -> str:
    """Return the first rule that stops a layer, and what it says; nothing where only the compiler refuses it."""
    for number in pricing.graphs.kinds:
        graph = pricing.graphs.layer(number, tokens, context, prompt=prompt)
        for found in af.preflight(graph, pricing.place.target).findings:
            if found.severity in STOPPING:
                return f"{found.rule}: {found.message}"
    return ""


def compare(prefill: RunPrice, prompt: int, device: str, rate: float) -> Comparison:
    """Return whether a prompt is faster on the engine than on a device of a speed."""
    there = prompt * 1e6 / rate
    pays = "yes" if prefill.high < there else "no" if prefill.low > there else "undecided"
    return Comparison(device, there, pays)


def plan_pair(pricing: ChipPricing, length: int, context: int) -> PairPlan:
    """Return whether a step of so many tokens compiles, by the layers of every kind and the head.

    As many as are verified in one run are judged in the form of verification, more in that of the pieces of a prompt.
    """
    if length > context:
        return PairPlan(length, context, "longer", (), "the step has more tokens than the cache has places")
    verified = length <= LONGEST_VERIFIED
    graphs = [pricing.graphs.layer(number, length, context, verified=verified) for number in pricing.graphs.kinds]
    graphs.append(pricing.graphs.head(length, pricing.tile))
    verdicts = [af.preflight(graph, pricing.place.target) for graph in graphs]
    found = [one for verdict in verdicts for one in verdict.findings if one.severity in STOPPING]
    if not found:
        return PairPlan(length, context, "legal", (), "")
    rules = tuple(dict.fromkeys(one.rule for one in found))
    whole = any(verdict.reject or any(NO_SPLIT in text for text in verdict.splits) for verdict in verdicts)
    return PairPlan(length, context, "illegal" if whole else "split", rules, found[0].message)


def plan_encoding(encoding: str, pricing: ChipPricing, context: int, error: float) -> EncodingPlan | None:
    """Return the weights in one encoding, and what a step takes then; None where the chip does not run the step."""
    try:
        run = pricing.step(1, context)
    except NotSupportedError:
        return None
    return EncodingPlan(
        encoding=encoding,
        weight_bytes=pricing.weight_bytes,
        programs=run.programs,
        decode_microseconds=run.microseconds,
        decode_low=run.low,
        decode_high=run.high,
        error=error,
    )


def encoding_error(width: int, encoding: str) -> float:
    """Return the relative error of random normal weights of a width in an encoding; fp16 is what others are against.

    >>> encoding_error(512, "fp16"), 0.003 < encoding_error(512, "int8") < 0.02
    (0.0, True)
    """
    encode = ENCODERS.get(encoding)
    if encode is None:
        return 0.0
    weight = np.random.default_rng(0).standard_normal((SAMPLE_ROWS, width)).astype(np.float16)
    return float(np.linalg.norm(encode(weight).dense() - weight.astype(np.float64)) / np.linalg.norm(weight))
