"""Qwen1.5-MoE, Qwen2-MoE and Qwen3-MoE: a Qwen whose feed-forward parts are mixtures of experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import CheckpointError, Location
from aneforge.llm.architecture import Architecture, AttentionSpec, DenseSpec, ExpertsSpec, WeightSource
from aneforge.llm.llama_form import (
    DEFAULT_FULL_LAYERS,
    MOST_EXPERTS,
    describe_llama_form,
    locate_attention,
    locate_dense,
    locate_norms,
    read_activation,
    with_windows,
)

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings

OLDER, NEWER = "qwen2_moe", "qwen3_moe"


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan; layers that `mlp_only_layers` or `decoder_sparse_step` leave out have a dense part."""
    older = settings.text("model_type") == OLDER
    plan = describe_llama_form(
        settings,
        OLDER if older else NEWER,
        bias=older and settings.flag("qkv_bias", default=True),
        head_norm=not older,
    )
    name = "num_experts" if settings.has("num_experts") else "num_local_experts"
    experts = ExpertsSpec(
        experts=settings.integer(name, most=MOST_EXPERTS),
        chosen=settings.integer("num_experts_per_tok"),
        hidden=settings.integer("moe_intermediate_size"),
        activation=read_activation(settings, "hidden_act", "silu"),
        renormalised=settings.flag("norm_topk_prob"),
        shared_hidden=settings.integer("shared_expert_intermediate_size") if older else 0,
    )
    expect_enough(settings, experts)
    every, dense = settings.integer("decoder_sparse_step", 1), settings.numbers("mlp_only_layers")
    layers = tuple(
        layer if number in dense or (number + 1) % every else replace(layer, mlp=experts)
        for number, layer in enumerate(plan.layers)
    )
    kinds = list_windowed_kinds(settings, len(layers), older=older)
    return with_windows(replace(plan, layers=layers), settings, switch="use_sliding_window", kinds=kinds)


def list_windowed_kinds(settings: ModelSettings, layers: int, *, older: bool) -> list[str]:
    """Return the kinds of layers where windows are switched on: every other of the first ones, or since Qwen3 all."""
    most = settings.integer("max_window_layers", DEFAULT_FULL_LAYERS, least=0)
    windowed = (not older or (number % 2 == 0 and number < most) for number in range(layers))
    return ["sliding_attention" if one else "full_attention" for one in windowed]


def expect_enough(settings: ModelSettings, experts: ExpertsSpec) -> None:
    """Check that no more experts are chosen than there are.

    Raises:
        CheckpointError: There are fewer.
    """
    if experts.chosen > experts.experts:
        raise CheckpointError(
            "more experts are chosen than there are",
            location=Location(settings.source),
            seen=experts.chosen,
            limit=experts.experts,
        )


def locate(config: DecoderConfig) -> dict[str, WeightSource]:
    """Return the sources; the tensors of the experts of a layer are joined."""
    sources = {
        "embedding.weight": WeightSource(("embed_tokens.weight",)),
        "final_norm.weight": WeightSource(("norm.weight",)),
        "head.weight": WeightSource(("lm_head.weight",)),
    }
    for number, layer in enumerate(config.layers):
        prefix = f"layers.{number}."
        assert isinstance(layer.mixer, AttentionSpec)  # noqa: S101 - as `describe` made it
        sources |= locate_norms(prefix) | dict(locate_attention(prefix, layer.mixer))
        if isinstance(layer.mlp, DenseSpec):
            sources |= dict(locate_dense(prefix, "mlp.", layer.mlp))
        else:
            sources |= locate_experts(prefix, layer.mlp)
    return sources


def locate_experts(prefix: str, spec: ExpertsSpec) -> dict[str, WeightSource]:
    """Return the sources of one mixture of experts."""
    stored = f"{prefix}mlp."
    sources = {f"{prefix}router.weight": WeightSource((f"{stored}gate.weight",))}
    for role in ("gate", "up", "down"):
        names = tuple(f"{stored}experts.{expert}.{role}_proj.weight" for expert in range(spec.experts))
        sources[f"{prefix}experts.{role}.weight"] = WeightSource(names, transposed=role == "down")
        if spec.shared_hidden:
            sources[f"{prefix}shared.{role}.weight"] = WeightSource((f"{stored}shared_expert.{role}_proj.weight",))
    if spec.shared_hidden:
        sources[f"{prefix}shared.router.weight"] = WeightSource((f"{stored}shared_expert_gate.weight",))
    return sources


ARCHITECTURE = Architecture("qwen_moe", (OLDER, NEWER), describe, locate)
