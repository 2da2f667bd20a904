"""The graphs of a decoder: a prompt at once, one token, or a few tokens that are verified; all layers or a part of them.

A graph takes rows of the residual, so that the first part takes embeddings and every other what the part before gave.
The last part ends with the head, in tiles of the vocabulary that fit an axis of the target, an output each.

| graph | inputs | outputs |
| --- | --- | --- |
| prefill | `hidden` [tokens, width], `last` [1, tokens] for the last part | `keys_N`, `values_N` [heads, tokens, width], `hidden` or `logits_N` |
| step (one or more tokens) | `hidden`, `placement` [1, context, tokens], `mask` [1, tokens, context], `cosine`, `sine` [tokens, 1, width], `keys_N`, `values_N` | `keys_N_next`, `values_N_next`, `hidden` or `logits_N` |

A step of layers with a memory has windows and memories in place of keys and values; of several tokens, which may be
padded, `real` [tokens, 1] and `window` [kernel − 1 + tokens, kernel − 1] distinguish tokens from padding. Where tokens are
verified, what such a layer keeps after the first, the second and so on are outputs too (`memory_N_after_1`).
"""  # noqa: E501 - a table

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import aneforge as af
from aneforge.errors import UnsupportedModelError
from aneforge.llm.architecture import AttentionSpec, DeltaNetSpec, DenseSpec
from aneforge.llm.graphs.causal_attention import attend_prompt, attend_with_cache
from aneforge.llm.graphs.decoder_blocks import LayerWeights, Rotation, dense, normalise
from aneforge.llm.graphs.delta_net import TokenFlags, delta_net_state_shapes, mix_by_delta_net
from aneforge.llm.graphs.experts import mix_experts
from aneforge.llm.rope import rope_tables, rotation_matrix
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig, LayerSpec, NormSpec
    from aneforge.llm.graphs.decoder_blocks import WeightReader

__all__ = [
    "DecoderPart",
    "attention_width",
    "name_after",
    "prefill_graph",
    "shapes_held",
    "split_vocabulary",
    "step_graph",
]

SHORTEST_LIMIT = 16384
"""The longest axis that every family has (`max_tensor_dim`)."""


@dataclass(frozen=True, slots=True)
class DecoderPart:
    """Layers `first` to `last` of a decoder, without the one at `last`; with the head where `head` says so."""

    config: DecoderConfig
    read: WeightReader
    context: int
    """How many places the cache has."""
    first: int
    last: int
    head: bool
    vocabulary_tile: int
    """The longest axis of the target."""
    trace: bool = False
    """Whether the residual after every layer, and between its parts, is an output too."""
    longest_axis: int = SHORTEST_LIMIT
    """Experts are grouped below it."""
    residual_scale: float = 1.0
    """What embeddings and projections into the residual were divided by, so that no outlier overflows."""
    wide_norms: bool = True
    """Whether norms of the residual have the form that survives every range of fp16."""

    @property
    def layers(self) -> list[tuple[int, LayerSpec]]:
        """The layers with their numbers."""
        return [(number, self.config.layers[number]) for number in range(self.first, self.last)]

    @property
    def norm(self) -> NormSpec:
        """The norm of the residual: with its epsilon divided as its squares are, nothing changes by the scale."""
        return replace(self.config.norm, epsilon=self.config.norm.epsilon / self.residual_scale**2)

    def weights(self, number: int) -> LayerWeights:
        """Return the weights of a layer."""
        return LayerWeights(self.read, f"layers.{number}.")


def split_vocabulary(vocabulary: int, tile: int) -> list[tuple[int, int]]:
    """Return the tiles of a vocabulary, as equal as they can be.

    >>> split_vocabulary(40000, 16384)
    [(0, 13334), (13334, 26667), (26667, 40000)]
    """
    count = -(-vocabulary // tile)
    edges = [-(-vocabulary * place // count) for place in range(count + 1)]
    return list(itertools.pairwise(edges))


def prefill_graph(part: DecoderPart, tokens: int, *, all_rows: bool = False) -> af.Graph:
    """Return the graph of a prompt of so many tokens; `all_rows` gives the logits of every one of them."""
    config = part.config
    x = af.input((tokens, config.width), name="hidden")
    rotation = None
    if config.rope is not None:
        head_width = attention_width(config)
        cosine, sine = rope_tables(config.rope, range(tokens), part.context, head_width)
        shape = (tokens, 1, head_width)
        matrix = rotation_matrix(config.rope, head_width)
        rotation = Rotation(cosine.reshape(shape), sine.reshape(shape), matrix)
    outputs: dict[str, af.Tensor] = {}
    for number, layer in part.layers:
        weights = part.weights(number)
        normal = normalise(x, part.norm, weights.part("mixer_norm"), wide=part.wide_norms)
        mixed, keys, values = attend_prompt(normal, expect_attention(layer), config.norm, weights, rotation)
        between = x + mixed
        x = feed_forward(between, part, layer, weights)
        outputs |= {f"keys_{number}": keys, f"values_{number}": values}
        if part.trace:
            outputs |= {f"between_{number}": between, f"residual_{number}": x}
    if not part.head:
        return af.Graph({**outputs, "hidden": x})
    if not all_rows:
        x = choose_row(x)
    return af.Graph({**outputs, **head_outputs(x, part)})


def step_graph(
    part: DecoderPart, tokens: int = 1, *, states: bool = False, last_row: bool = False, verified: bool = False
) -> af.Graph:
    """Return the graph of one token, or of a few, that read and write the cache.

    The cache is inputs and outputs, which share buffers; or, with `states`, states of the graph. `last_row` gives the
    logits of the last token alone, which the input `last` [1, tokens] chooses as in a prefill. Tokens that are
    `verified` have the bits of steps of one token, and what layers with a memory keep after each token is an output.
    """
    config, context = part.config, part.context
    x = af.input((tokens, config.width), name="hidden")
    placement = af.input((1, context, tokens), name="placement", max_abs=1.0)
    mask = af.input((1, tokens, context), name="mask", max_abs=1e4)
    rotation = None
    if config.rope is not None:
        head_width = attention_width(config)
        cosine, sine = (af.input((tokens, 1, head_width), name=name) for name in ("cosine", "sine"))
        rotation = Rotation(cosine, sine, rotation_matrix(config.rope, head_width))
    flags = None if verified else token_flags(part, tokens)
    between_tokens: dict[str, af.Tensor] = {}
    written: dict[str, af.Tensor] = {}
    residuals: dict[str, af.Tensor] = {}
    for number, layer in part.layers:
        weights = part.weights(number)
        held = {
            name: af.state(f"{name}_{number}", shape) if states else af.input(shape, name=f"{name}_{number}")
            for name, shape in shapes_held(layer.mixer, context).items()
        }
        normal = normalise(x, part.norm, weights.part("mixer_norm"), wide=part.wide_norms)
        if isinstance(layer.mixer, AttentionSpec):
            cache = held["keys"], held["values"]
            mixed, keys, values = attend_with_cache(
                normal, layer.mixer, config.norm, weights, rotation, cache, placement, mask, verified=verified
            )
            kept = {"keys": keys, "values": values}
        else:
            mixed, (*earlier, kept) = mix_by_delta_net(normal, layer.mixer, config.norm, weights, held, flags)
            for count, after in enumerate(earlier, start=1):
                between_tokens |= {name_after(f"{name}_{number}", count): one for name, one in after.items()}
        between = x + mixed
        x = feed_forward(between, part, layer, weights)
        written |= {f"{name}_{number}": one for name, one in kept.items()}
        if part.trace:
            residuals |= {f"between_{number}": between, f"residual_{number}": x}
    if part.head and last_row:
        x = choose_row(x)
    outputs = {**residuals, **between_tokens, **(head_outputs(x, part) if part.head else {"hidden": x})}
    if states:
        return af.Graph(outputs, states=written)
    return af.Graph({**{f"{name}_next": one for name, one in written.items()}, **outputs})


def name_after(name: str, count: int) -> str:
    """Return the name of the output that has what a layer keeps after so many of the tokens that are verified."""
    return f"{name}_after_{count}"


def choose_row(x: af.Tensor) -> af.Tensor:
    """Return the last token's row, by a product with 0 and 1: prompts that were padded have theirs elsewhere."""
    return af.input((1, x.shape[0]), name="last") @ x


def token_flags(part: DecoderPart, tokens: int) -> TokenFlags | None:
    """Return what distinguishes tokens from padding, for layers with a memory that take several tokens."""
    kernels = [layer.mixer.kernel for _, layer in part.layers if isinstance(layer.mixer, DeltaNetSpec)]
    if tokens == 1 or not kernels:
        return None
    before = kernels[0] - 1
    real = af.input((tokens, 1), name="real", max_abs=1.0)
    return TokenFlags(real, af.input((before + tokens, before), name="window", max_abs=1.0))


def feed_forward(x: af.Tensor, part: DecoderPart, layer: LayerSpec, weights: LayerWeights) -> af.Tensor:
    """Return the residual after the second half of a layer."""
    normal = normalise(x, part.norm, weights.part("mlp_norm"), wide=part.wide_norms)
    if isinstance(layer.mlp, DenseSpec):
        return x + dense(normal, layer.mlp, weights)
    return x + mix_experts(normal, layer.mlp, weights, part.longest_axis)


def head_outputs(x: af.Tensor, part: DecoderPart) -> dict[str, af.Tensor]:
    """Return the logits of rows, a tile of the vocabulary each."""
    config = part.config
    normal = normalise(x, part.norm, LayerWeights(part.read, "final_norm."), wide=part.wide_norms)
    role = "embedding.weight" if config.tied_head else "head.weight"
    tiles = split_vocabulary(config.vocabulary, part.vocabulary_tile)
    return {f"logits_{place}": normal.linear(part.read(role, rows)) for place, rows in enumerate(tiles)}


def attention_width(config: DecoderConfig) -> int:
    """Return the width of the heads that rotary positions rotate, which some layer may have."""
    widths = (layer.mixer.head_width for layer in config.layers if isinstance(layer.mixer, AttentionSpec))
    return next(widths, 1 if config.rope is None else config.rope.width)


def shapes_held(mixer: AttentionSpec | DeltaNetSpec, context: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what a layer keeps between tokens, by name."""
    if isinstance(mixer, DeltaNetSpec):
        return delta_net_state_shapes(mixer)
    shape = (mixer.key_value_heads, context, mixer.head_width)
    return {"keys": shape, "values": shape}


def expect_attention(layer: LayerSpec) -> AttentionSpec:
    """Return the attention of a layer.

    Raises:
        UnsupportedModelError: It mixes tokens in another way.
    """
    if not isinstance(layer.mixer, AttentionSpec):
        raise UnsupportedModelError(
            "a gated delta net has no graph of a whole prompt",
            remedy="run it in pieces against the cache, as generate does",
        )
    return layer.mixer
