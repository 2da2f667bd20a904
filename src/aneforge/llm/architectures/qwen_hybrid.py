"""Qwen3-Next and Qwen3.5: three layers of gated delta nets for each one of gated attention."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import CheckpointError, Location
from aneforge.llm.architecture import (
    Architecture,
    AttentionSpec,
    DeltaNetSpec,
    DenseSpec,
    ExpertsSpec,
    WeightSource,
)
from aneforge.llm.architectures.qwen_moe import expect_enough, locate_experts
from aneforge.llm.llama_form import (
    MOST_EXPERTS,
    describe_llama_form,
    expect_divisible,
    locate_attention,
    locate_dense,
    locate_norms,
    read_activation,
)
from aneforge.llm.prompt_lengths import LONGEST_PIECE
from aneforge.llm.rope_settings import read_rope

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings

NEXT, LATER, MIXTURES = "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"
FULL, LINEAR = "full_attention", "linear_attention"
IN_PIECES = f"prompts run in pieces of up to {LONGEST_PIECE} tokens: a gated delta net has a memory"
ROTATED = 0.25
"""The share of a head that rotary positions rotate where the settings do not say it."""


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan.

    Raises:
        CheckpointError: `layer_types` does not name every layer.
    """
    kind = settings.text("model_type")
    plan = describe_llama_form(settings, kind, head_norm=True)
    head_width = settings.integer("head_dim", 256)
    expect_divisible(settings, "linear_num_value_heads", "linear_num_key_heads")
    delta = DeltaNetSpec(
        key_heads=settings.integer("linear_num_key_heads"),
        value_heads=settings.integer("linear_num_value_heads"),
        key_width=settings.integer("linear_key_head_dim"),
        value_width=settings.integer("linear_value_head_dim"),
        kernel=settings.integer("linear_conv_kernel_dim", 4, least=2),
    )
    every = settings.integer("full_attention_interval", 4)
    kinds = settings.texts("layer_types") or tuple(
        LINEAR if (number + 1) % every else FULL for number in range(len(plan.layers))
    )
    if len(kinds) != len(plan.layers) or not {*kinds} <= {FULL, LINEAR}:
        raise CheckpointError(
            f"layer_types must name every layer, {FULL} or {LINEAR}",
            location=Location(settings.source),
            seen=list(kinds),
        )
    experts = read_experts(settings) if settings.has("num_experts") else None
    every_sparse, dense = settings.integer("decoder_sparse_step", 1), settings.numbers("mlp_only_layers")
    layers = tuple(
        replace(
            layer,
            mixer=gated(layer.mixer) if kinds[number] == FULL else delta,
            mlp=layer.mlp if experts is None or number in dense or (number + 1) % every_sparse else experts,
        )
        for number, layer in enumerate(plan.layers)
    )
    notes = (*plan.notes, IN_PIECES) if LINEAR in kinds else plan.notes
    return replace(plan, layers=layers, rope=read_rope(settings, head_width, fraction=ROTATED), notes=notes)


def gated(mixer: AttentionSpec | DeltaNetSpec) -> AttentionSpec:
    """Return attention whose result is gated."""
    assert isinstance(mixer, AttentionSpec)  # noqa: S101 - a layer in the form of Llama has attention
    return replace(mixer, gated=True)


def read_experts(settings: ModelSettings) -> ExpertsSpec:
    """Return the mixture of experts of a layer."""
    experts = ExpertsSpec(
        experts=settings.integer("num_experts", most=MOST_EXPERTS),
        chosen=settings.integer("num_experts_per_tok"),
        hidden=settings.integer("moe_intermediate_size"),
        activation=read_activation(settings, "hidden_act", "silu"),
        renormalised=settings.flag("norm_topk_prob", default=True),
        shared_hidden=settings.integer("shared_expert_intermediate_size"),
    )
    expect_enough(settings, experts)
    return experts


def locate(config: DecoderConfig) -> dict[str, WeightSource]:
    """Return the sources; gains of norms are stored less one, but for those of the delta nets."""
    sources = {
        "embedding.weight": WeightSource(("embed_tokens.weight",)),
        "final_norm.weight": WeightSource(("norm.weight",), added=1.0),
        "head.weight": WeightSource(("lm_head.weight",)),
    }
    for number, layer in enumerate(config.layers):
        prefix = f"layers.{number}."
        sources |= locate_norms(prefix, 1.0)
        if isinstance(layer.mixer, AttentionSpec):
            sources |= locate_gated_attention(prefix, layer.mixer)
        else:
            sources |= locate_delta_net(prefix, layer.mixer, joined=config.architecture == NEXT)
        if isinstance(layer.mlp, DenseSpec):
            sources |= dict(locate_dense(prefix, "mlp.", layer.mlp))
        else:
            sources |= locate_experts(prefix, layer.mlp)
    return sources


def locate_gated_attention(prefix: str, spec: AttentionSpec) -> dict[str, WeightSource]:
    """Return the sources of attention: every head of the stored queries is followed by its gate."""
    sources, width = dict(locate_attention(prefix, spec, 1.0)), spec.head_width
    for kind in ("weight", "bias") if spec.bias else ("weight",):
        stored = (f"{prefix}self_attn.q_proj.{kind}",)
        sources[f"{prefix}query.{kind}"] = WeightSource(stored, row_groups=(2 * width, 0, width))
        sources[f"{prefix}attention_gate.{kind}"] = WeightSource(stored, row_groups=(2 * width, width, 2 * width))
    return sources


def locate_delta_net(prefix: str, spec: DeltaNetSpec, *, joined: bool) -> dict[str, WeightSource]:
    """Return the sources of a delta net: joined by key head in Qwen3-Next, one after the other later."""
    stored, group = f"{prefix}linear_attn.", spec.value_heads // spec.key_heads
    keys, values = spec.key_heads * spec.key_width, spec.value_heads * spec.value_width
    taps = (f"{stored}conv1d.weight",)
    sources = {
        f"{prefix}convolution.query.weight": WeightSource(taps, rows=(0, keys)),
        f"{prefix}convolution.key.weight": WeightSource(taps, rows=(keys, 2 * keys)),
        f"{prefix}convolution.value.weight": WeightSource(taps, rows=(2 * keys, 2 * keys + values)),
        f"{prefix}decay.bias": WeightSource((f"{stored}dt_bias",)),
        f"{prefix}decay.rate": WeightSource((f"{stored}A_log",), exponential=True),
        f"{prefix}value_norm.weight": WeightSource((f"{stored}norm.weight",)),
        f"{prefix}output.weight": WeightSource((f"{stored}out_proj.weight",)),
    }
    if not joined:
        inner = (f"{stored}in_proj_qkv.weight",)
        return sources | {
            f"{prefix}query.weight": WeightSource(inner, rows=(0, keys)),
            f"{prefix}key.weight": WeightSource(inner, rows=(keys, 2 * keys)),
            f"{prefix}value.weight": WeightSource(inner, rows=(2 * keys, 2 * keys + values)),
            f"{prefix}output_gate.weight": WeightSource((f"{stored}in_proj_z.weight",)),
            f"{prefix}write_strength.weight": WeightSource((f"{stored}in_proj_b.weight",)),
            f"{prefix}decay.weight": WeightSource((f"{stored}in_proj_a.weight",)),
        }
    key, value = spec.key_width, group * spec.value_width
    inner, size, gates = (f"{stored}in_proj_qkvz.weight",), 2 * key + 2 * value, (f"{stored}in_proj_ba.weight",)
    return sources | {
        f"{prefix}query.weight": WeightSource(inner, row_groups=(size, 0, key)),
        f"{prefix}key.weight": WeightSource(inner, row_groups=(size, key, 2 * key)),
        f"{prefix}value.weight": WeightSource(inner, row_groups=(size, 2 * key, 2 * key + value)),
        f"{prefix}output_gate.weight": WeightSource(inner, row_groups=(size, 2 * key + value, size)),
        f"{prefix}write_strength.weight": WeightSource(gates, row_groups=(2 * group, 0, group)),
        f"{prefix}decay.weight": WeightSource(gates, row_groups=(2 * group, group, 2 * group)),
    }


ARCHITECTURE = Architecture("qwen_hybrid", (NEXT, LATER, MIXTURES), describe, locate)
