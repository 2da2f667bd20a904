"""What decoders in the form of Llama have in common: most architectures differ from it in a few settings.

RMSNorm, attention, RMSNorm, gated feed-forward; weights under `model.layers.N.self_attn` and `model.layers.N.mlp`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from aneforge.errors import CheckpointError, Location, UnsupportedModelError
from aneforge.llm.architecture import (
    AttentionSpec,
    DecoderConfig,
    DenseSpec,
    LayerSpec,
    NormSpec,
    WeightSource,
)
from aneforge.llm.rope_settings import longest_positions, read_rope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.llm.architecture import Activation
    from aneforge.llm.settings import ModelSettings

__all__ = [
    "DEFAULT_FULL_LAYERS",
    "MOST_EXPERTS",
    "MOST_LAYERS",
    "describe_llama_form",
    "expect_divisible",
    "locate_attention",
    "locate_dense",
    "locate_llama_form",
    "locate_norms",
    "read_activation",
    "read_end_tokens",
    "with_windows",
]

ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
"""Activations by the names of `config.json`; the two other spellings of the tanh form differ in the last bits alone."""


DEFAULT_WINDOW, DEFAULT_FULL_LAYERS = 4096, 28
"""What Hugging Face takes for `sliding_window` and `max_window_layers` where a file does not have them."""
MOST_LAYERS, MOST_EXPERTS = 4096, 65536
"""More than any model has: a larger number is a mistake, which would take all memory."""


def describe_llama_form(
    settings: ModelSettings,
    architecture: str,
    *,
    bias: bool = False,
    head_norm: bool = False,
    tied: bool = False,
    activation: Activation | None = None,
) -> DecoderConfig:
    """Return the plan of a decoder in the form of Llama; keywords are what an architecture has by default.

    Raises:
        CheckpointError: A setting is missing or has a value of another sort.
        UnsupportedModelError: A setting asks for something that is not supported here.
    """
    heads, width = settings.integer("num_attention_heads"), settings.integer("hidden_size")
    if not settings.has("head_dim"):
        expect_divisible(settings, "hidden_size", "num_attention_heads")
    head_width = settings.integer("head_dim", width // heads)
    shared = settings.integer("num_key_value_heads", heads)
    if heads % shared:
        expect_divisible(settings, "num_attention_heads", "num_key_value_heads")
    output_bias = settings.flag("attention_bias")
    attention = AttentionSpec(
        heads=heads,
        key_value_heads=shared,
        head_width=head_width,
        scale=head_width**-0.5,
        bias=bias or output_bias,
        output_bias=output_bias,
        head_norm=head_norm,
    )
    dense = DenseSpec(
        hidden=settings.integer("intermediate_size"),
        activation=activation or read_activation(settings, "hidden_act", "silu"),
        bias=settings.flag("mlp_bias"),
    )
    rope = read_rope(settings, head_width)
    positions = longest_positions(settings, rope)
    unscaled = settings.integer("max_position_embeddings", positions)
    notes = (f"{rope.scaling} carries {unscaled} positions to {positions}",) if positions > unscaled else ()
    return DecoderConfig(
        architecture=architecture,
        width=width,
        vocabulary=settings.integer("vocab_size"),
        positions=positions,
        layers=(LayerSpec(mixer=attention, mlp=dense),) * settings.integer("num_hidden_layers", most=MOST_LAYERS),
        norm=NormSpec(kind="rms", epsilon=settings.positive("rms_norm_eps", 1e-6)),
        rope=rope,
        tied_head=settings.flag("tie_word_embeddings", default=tied),
        end_tokens=read_end_tokens(settings),
        notes=notes,
    )


def expect_divisible(settings: ModelSettings, whole: str, part: str) -> None:
    """Check that one setting is a multiple of another.

    Raises:
        CheckpointError: It is not.
    """
    if settings.integer(whole) % settings.integer(part):
        raise CheckpointError(
            f"the setting {whole!r} must be a multiple of {part!r}",
            location=Location(settings.source),
            seen=settings.integer(whole),
            limit=f"a multiple of {settings.integer(part)}",
        )


def read_activation(settings: ModelSettings, name: str, default: str) -> Activation:
    """Return the activation that a setting names.

    Raises:
        UnsupportedModelError: It is not known.
    """
    found = settings.text(name, default)
    if found not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"the activation {found!r} is not supported here",
            location=Location(settings.source),
            limit=", ".join(ACTIVATIONS),
        )
    return ACTIVATIONS[found]


def read_end_tokens(settings: ModelSettings) -> tuple[int, ...]:
    """Return the tokens that end a text: one, several, or none."""
    found = settings.values.get("eos_token_id")
    listed = cast("list[object]", found) if isinstance(found, list) else [found]
    return tuple(one for one in listed if isinstance(one, int) and not isinstance(one, bool))


def with_windows(
    config: DecoderConfig,
    settings: ModelSettings,
    *,
    default: int | None = DEFAULT_WINDOW,
    switch: str | None = None,
    kinds: Sequence[str] = (),
) -> DecoderConfig:
    """Return a plan whose layers have the sliding windows that the settings state.

    `default` is the window where the file has no such setting, `switch` the setting that switches windows on, and
    `kinds` are those of layers where the file does not list them. Without a switch all layers have the window, whatever
    the file lists, as Hugging Face has it. A window that is switched off, and one that is no
    shorter than the positions, changes nothing: a note says so.

    Raises:
        CheckpointError: The list of kinds of layers has another length, or the window is not an integer.
    """
    if settings.values.get("sliding_window", default) in (None, 0):
        return config
    window = settings.integer("sliding_window", default)
    if switch is not None and not settings.flag(switch):
        if not settings.has("sliding_window"):
            return config
        return replace(config, notes=(*config.notes, f"the sliding window of {window} tokens is switched off"))
    if window >= config.positions:
        note = f"the sliding window of {window} tokens covers all {config.positions} positions"
        return replace(config, notes=(*config.notes, note))
    listed = settings.texts("layer_types") if switch is not None else ()
    kinds = listed or kinds or list_windowed_layers(config, settings, switch)
    if len(kinds) != len(config.layers):
        raise CheckpointError(
            "layer_types must name every layer",
            location=Location(settings.source),
            seen=len(kinds),
            limit=len(config.layers),
        )
    layers = tuple(
        replace(layer, mixer=replace(layer.mixer, window=window))
        if kind == "sliding_attention" and isinstance(layer.mixer, AttentionSpec)
        else layer
        for layer, kind in zip(config.layers, kinds, strict=True)
    )
    if layers == config.layers:
        return config
    note = f"a sliding window of {window} tokens: it changes no context up to {window}; longer ones are refused"
    return replace(config, layers=layers, notes=(*config.notes, note))


def list_windowed_layers(config: DecoderConfig, settings: ModelSettings, switch: str | None) -> Sequence[str]:
    """Return the kinds of layers where the settings do not list them: with a switch, the first ones are full."""
    full = settings.integer("max_window_layers", DEFAULT_FULL_LAYERS, least=0) if switch is not None else 0
    return ["full_attention" if number < full else "sliding_attention" for number in range(len(config.layers))]


def locate_llama_form(config: DecoderConfig, *, norm_offset: float = 0.0) -> dict[str, WeightSource]:
    """Return the sources of the weights of a decoder in the form of Llama; names begin after `model.`."""
    sources = {"embedding.weight": WeightSource(("embed_tokens.weight",))}
    for number, layer in enumerate(config.layers):
        prefix = f"layers.{number}."
        sources |= locate_norms(prefix, norm_offset)
        assert isinstance(layer.mixer, AttentionSpec)  # noqa: S101 - every layer of this form has attention
        sources |= dict(locate_attention(prefix, layer.mixer, norm_offset))
        assert isinstance(layer.mlp, DenseSpec)  # noqa: S101 - and a dense part
        sources |= dict(locate_dense(prefix, "mlp.", layer.mlp))
    sources["final_norm.weight"] = WeightSource(("norm.weight",), added=norm_offset)
    if not config.tied_head:
        sources["head.weight"] = WeightSource(("lm_head.weight",))
    return sources


def locate_norms(prefix: str, offset: float = 0.0) -> dict[str, WeightSource]:
    """Return the sources of the two normalisations of a layer."""
    return {
        f"{prefix}mixer_norm.weight": WeightSource((f"{prefix}input_layernorm.weight",), added=offset),
        f"{prefix}mlp_norm.weight": WeightSource((f"{prefix}post_attention_layernorm.weight",), added=offset),
    }


def locate_attention(prefix: str, spec: AttentionSpec, offset: float = 0.0) -> Iterator[tuple[str, WeightSource]]:
    """Yield the sources of one attention, with a projection each for queries, keys and values."""
    stored = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    for role, name in stored.items():
        yield f"{prefix}{role}.weight", WeightSource((f"{prefix}self_attn.{name}.weight",))
        if spec.output_bias if role == "output" else spec.bias:
            yield f"{prefix}{role}.bias", WeightSource((f"{prefix}self_attn.{name}.bias",))
    if spec.head_norm:
        for role, name in (("query_norm", "q_norm"), ("key_norm", "k_norm")):
            yield f"{prefix}{role}.weight", WeightSource((f"{prefix}self_attn.{name}.weight",), added=offset)


def locate_dense(prefix: str, folder: str, spec: DenseSpec) -> Iterator[tuple[str, WeightSource]]:
    """Yield the sources of one feed-forward part."""
    for role, name in (("gate", "gate_proj"), ("up", "up_proj"), ("down", "down_proj")):
        yield f"{prefix}{role}.weight", WeightSource((f"{prefix}{folder}{name}.weight",))
        if spec.bias:
            yield f"{prefix}{role}.bias", WeightSource((f"{prefix}{folder}{name}.bias",))
