"""What a decoder is made of: the plan of its layers, which settings alone give, and the weights that it asks for.

Every adapter (`architectures/`) turns the settings of a checkpoint into a `DecoderConfig` and says where each weight is
stored. Graphs, plans and reports read these and know no architecture by name. A weight has a *role*, such as
`layers.0.query.weight`; `weight_shapes` gives the shape of each, always [out, in] for a projection.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from aneforge.errors import Location, UnsupportedModelError
from aneforge.llm.settings import ModelSettings
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "Activation",
    "Architecture",
    "AttentionSpec",
    "DecoderConfig",
    "DeltaNetSpec",
    "DenseSpec",
    "ExpertsSpec",
    "LayerSpec",
    "ModelSettings",
    "NormSpec",
    "RopeScaling",
    "RopeSpec",
    "WeightSource",
    "count_parameters",
    "expect_context",
    "is_turned",
    "weight_shapes",
]

Activation = Literal["silu", "gelu", "gelu_tanh", "relu"]
RopeScaling = Literal["default", "linear", "dynamic", "yarn", "llama3", "longrope"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeSpec:
    """Rotary positions: which elements of a head are rotated, and by which frequencies."""

    base: float
    width: int
    """Elements of a head that are rotated; the others pass unchanged."""
    interleaved: bool = False
    """Whether a pair is two neighbours; otherwise it is an element of the first half and one of the second."""
    scaling: RopeScaling = "default"
    factor: float = 1.0
    trained_positions: int = 0
    """The context that the unscaled frequencies were trained for."""
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    fast: float = 32.0
    slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    """What cosine and sine are multiplied by; None where the scaling's own formula gives it."""
    magnitude: float | None = None
    magnitude_all: float | None = None
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NormSpec:
    """The normalisation before each part of a layer and before the head."""

    kind: Literal["rms", "layer"]
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec:
    """Causal attention with a key-value cache of [key_value_heads, context, head_width] twice."""

    heads: int
    key_value_heads: int
    head_width: int
    scale: float
    """What the products of queries and keys are multiplied by."""
    bias: bool = False
    output_bias: bool = False
    head_norm: bool = False
    """Whether queries and keys are normalised per head before they are rotated."""
    gated: bool = False
    """Whether the result is multiplied by the sigmoid of a second projection."""
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNetSpec:
    """A gated delta net: a convolution window and a recurrent state [value_heads, key_width, value_width]."""

    key_heads: int
    value_heads: int
    key_width: int
    value_width: int
    kernel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseSpec:
    """A feed-forward part: down(activation(gate(x)) · up(x)), or down(activation(up(x))) without a gate."""

    hidden: int
    activation: Activation
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsSpec:
    """A mixture of experts: each token is computed by the `chosen` best of `experts`, and by a shared one."""

    experts: int
    chosen: int
    hidden: int
    activation: Activation
    renormalised: bool
    shared_hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpec:
    """One layer: x + mixer(norm(x)), then x + mlp(norm(x))."""

    mixer: AttentionSpec | DeltaNetSpec
    mlp: DenseSpec | ExpertsSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """A decoder, as far as its graphs depend on it: what `describe_decoder` makes of the settings of a checkpoint.

    >>> import aneforge as af
    >>> small = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
    ...          "intermediate_size": 16, "vocab_size": 32, "max_position_embeddings": 64}
    >>> config = af.llm.describe_decoder(af.llm.ModelSettings(small, "config.json"))
    >>> config.architecture, len(config.layers), config.width, config.positions
    ('llama', 3, 8, 64)
    """

    architecture: str
    width: int
    vocabulary: int
    positions: int
    """The largest context that the settings allow."""
    layers: tuple[LayerSpec, ...]
    norm: NormSpec
    rope: RopeSpec | None
    """None where positions are learned: a table of rows that are added to embeddings."""
    tied_head: bool
    embedding_scale: float = 1.0
    head_bias: bool = False
    end_tokens: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    """What the settings ask for and what is done instead, where nothing changes by it; reports repeat it."""

    @property
    def recurrent(self) -> bool:
        """Whether a layer has a memory that is overwritten: prompts run in pieces against the cache."""
        return any(isinstance(layer.mixer, DeltaNetSpec) for layer in self.layers)

    @property
    def mixture(self) -> bool:
        """Whether a layer is a mixture of experts."""
        return any(isinstance(layer.mlp, ExpertsSpec) for layer in self.layers)


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Where a weight is stored: each tensor is transposed, its rows are taken, all are joined, and `added` is added."""

    names: tuple[str, ...]
    transposed: bool = False
    rows: tuple[int, int] | None = None
    added: float = 0.0
    row_groups: tuple[int, int, int] | None = None
    """(group, start, stop): of every `group` rows, those from start to stop, where heads hold several things."""
    exponential: bool = False
    """The weight is −exp of what is stored, as rates of decay are."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """An adapter: how the settings of some model types become a plan, and where their weights are."""

    name: str
    model_types: tuple[str, ...]
    describe: Callable[[ModelSettings], DecoderConfig]
    locate: Callable[[DecoderConfig], Mapping[str, WeightSource]]
    """The source of every role that `weight_shapes` lists; a tied head has none."""
    prefixes: tuple[str, ...] = ("", "model.", "transformer.")
    """Beginnings that a file may have before the names that `locate` gives, or lack."""


def weight_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight by its role; a tied head is not repeated.

    >>> from aneforge.llm.architectures import describe_decoder
    >>> small = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    ...          "intermediate_size": 16, "vocab_size": 32, "tie_word_embeddings": True}
    >>> shapes = weight_shapes(describe_decoder(ModelSettings(small, "config.json")))
    >>> shapes["layers.0.gate.weight"], "head.weight" in shapes
    ((16, 8), False)
    """
    shapes = {"embedding.weight": (config.vocabulary, config.width)}
    if config.rope is None:
        shapes["positions.weight"] = (config.positions, config.width)
    for number, layer in enumerate(config.layers):
        shapes |= {f"layers.{number}.{role}": shape for role, shape in layer_shapes(config, layer)}
    shapes |= dict(norm_shapes(config, "final_norm"))
    if not config.tied_head:
        shapes["head.weight"] = (config.vocabulary, config.width)
    if config.head_bias:
        shapes["head.bias"] = (config.vocabulary,)
    return shapes


def layer_shapes(config: DecoderConfig, layer: LayerSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield roles and shapes of one layer."""
    yield from norm_shapes(config, "mixer_norm")
    if isinstance(layer.mixer, AttentionSpec):
        yield from attention_shapes(config.width, layer.mixer)
    else:
        yield from delta_net_shapes(config.width, layer.mixer)
    yield from norm_shapes(config, "mlp_norm")
    if isinstance(layer.mlp, DenseSpec):
        yield from dense_shapes(config.width, layer.mlp)
    else:
        yield from experts_shapes(config.width, layer.mlp)


def norm_shapes(config: DecoderConfig, role: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the gain of a normalisation, and the offset that a layer norm has."""
    yield f"{role}.weight", (config.width,)
    if config.norm.kind == "layer":
        yield f"{role}.bias", (config.width,)


def attention_shapes(width: int, spec: AttentionSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield roles and shapes of attention."""
    queries, keys = spec.heads * spec.head_width, spec.key_value_heads * spec.head_width
    for role, rows in (("query", queries), ("key", keys), ("value", keys)):
        yield f"{role}.weight", (rows, width)
        if spec.bias:
            yield f"{role}.bias", (rows,)
    if spec.gated:
        yield "attention_gate.weight", (queries, width)
        if spec.bias:
            yield "attention_gate.bias", (queries,)
    yield "output.weight", (width, queries)
    if spec.output_bias:
        yield "output.bias", (width,)
    if spec.head_norm:
        yield "query_norm.weight", (spec.head_width,)
        yield "key_norm.weight", (spec.head_width,)


def delta_net_shapes(width: int, spec: DeltaNetSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield roles and shapes of a gated delta net."""
    keys, values = spec.key_heads * spec.key_width, spec.value_heads * spec.value_width
    for role, rows in (("query", keys), ("key", keys), ("value", values), ("output_gate", values)):
        yield f"{role}.weight", (rows, width)
    yield "write_strength.weight", (spec.value_heads, width)
    yield "decay.weight", (spec.value_heads, width)
    yield "decay.bias", (spec.value_heads,)
    yield "decay.rate", (spec.value_heads,)
    for role, rows in (("query", keys), ("key", keys), ("value", values)):
        yield f"convolution.{role}.weight", (rows, 1, 1, spec.kernel)
    yield "value_norm.weight", (spec.value_width,)
    yield "output.weight", (width, values)


def dense_shapes(width: int, spec: DenseSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield roles and shapes of a feed-forward part."""
    for role in ("gate", "up") if spec.gated else ("up",):
        yield f"{role}.weight", (spec.hidden, width)
        if spec.bias:
            yield f"{role}.bias", (spec.hidden,)
    yield "down.weight", (width, spec.hidden)
    if spec.bias:
        yield "down.bias", (width,)


def is_turned(role: str) -> bool:
    """Return whether readers of weights give rows of a role as columns: products read all matrices as [out, in].

    >>> is_turned("layers.0.experts.down.weight"), is_turned("layers.0.down.weight")
    (True, False)
    """
    return role.endswith(".experts.down.weight")


def experts_shapes(width: int, spec: ExpertsSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield roles and shapes of a mixture of experts."""
    yield "router.weight", (spec.experts, width)
    for role in ("gate", "up", "down"):  # those of all experts, one below the other; that of down is [in, out]
        yield f"experts.{role}.weight", (spec.experts * spec.hidden, width)
    if spec.shared_hidden:
        yield "shared.gate.weight", (spec.shared_hidden, width)
        yield "shared.up.weight", (spec.shared_hidden, width)
        yield "shared.down.weight", (width, spec.shared_hidden)
        yield "shared.router.weight", (1, width)


def count_parameters(config: DecoderConfig) -> int:
    """Return how many numbers the weights hold, a tied head once."""
    return sum(math.prod(shape) for shape in weight_shapes(config).values())


def longest_context(config: DecoderConfig) -> int:
    """Return the longest context that a model takes."""
    windows = [getattr(layer.mixer, "window", None) for layer in config.layers]
    return min([config.positions, *(one for one in windows if isinstance(one, int))])


def expect_context(config: DecoderConfig, context: int, source: str) -> None:
    """Check that a context can be computed as the model was trained.

    Raises:
        UnsupportedModelError: It is beyond the positions of the model, or longer than a sliding window.
    """
    windows = [
        layer.mixer.window
        for layer in config.layers
        if isinstance(layer.mixer, AttentionSpec) and layer.mixer.window is not None
    ]
    if windows and context > min(windows):
        raise UnsupportedModelError(
            "a sliding window shorter than the context is not supported here",
            location=Location(source),
            seen=f"context {context}",
            limit=f"window {min(windows)}",
            remedy=f"ask for a context of at most {min(*windows, config.positions)}",
        )
    if context > config.positions:
        raise UnsupportedModelError(
            "the context is longer than the positions of the model",
            location=Location(source),
            seen=context,
            limit=config.positions,
            remedy=f"ask for a context of at most {config.positions}",
        )
