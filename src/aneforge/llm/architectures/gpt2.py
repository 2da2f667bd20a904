"""GPT-2: learned positions, layer norms, biases everywhere; queries, keys, values in one tensor, stored [in, out]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import Location, UnsupportedModelError
from aneforge.llm.architecture import (
    Architecture,
    AttentionSpec,
    DecoderConfig,
    DenseSpec,
    LayerSpec,
    NormSpec,
    WeightSource,
)
from aneforge.llm.llama_form import MOST_LAYERS, expect_divisible, read_activation, read_end_tokens

if TYPE_CHECKING:
    from aneforge.llm.settings import ModelSettings

REFUSED = ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention")


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a GPT-2.

    Raises:
        UnsupportedModelError: Attention is scaled by layer, computed in float32, or looks at another sequence too.
    """
    for name in REFUSED:
        if settings.flag(name):
            raise UnsupportedModelError(f"GPT-2 with {name} is not supported here", location=Location(settings.source))
    width, heads = settings.integer("n_embd"), settings.integer("n_head")
    expect_divisible(settings, "n_embd", "n_head")
    scaled = settings.flag("scale_attn_weights", default=True)
    attention = AttentionSpec(
        heads=heads,
        key_value_heads=heads,
        head_width=width // heads,
        scale=(width // heads) ** -0.5 if scaled else 1.0,
        bias=True,
        output_bias=True,
    )
    activation = read_activation(settings, "activation_function", "gelu_new")
    dense = DenseSpec(hidden=settings.integer("n_inner", 4 * width), activation=activation, gated=False, bias=True)
    return DecoderConfig(
        architecture="gpt2",
        width=width,
        vocabulary=settings.integer("vocab_size"),
        positions=settings.integer("n_positions", 1024),
        layers=(LayerSpec(mixer=attention, mlp=dense),) * settings.integer("n_layer", most=MOST_LAYERS),
        norm=NormSpec(kind="layer", epsilon=settings.positive("layer_norm_epsilon", 1e-5)),
        rope=None,
        tied_head=settings.flag("tie_word_embeddings", default=True),
        end_tokens=read_end_tokens(settings),
    )


def locate(config: DecoderConfig) -> dict[str, WeightSource]:
    """Return the sources; names begin after `transformer.`."""
    width = config.width
    sources = {
        "embedding.weight": WeightSource(("wte.weight",)),
        "positions.weight": WeightSource(("wpe.weight",)),
    }
    stored = {"output": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
    for number in range(len(config.layers)):
        role, name = f"layers.{number}.", f"h.{number}."
        for kind in ("weight", "bias"):
            stacked = kind == "weight"
            sources[f"{role}mixer_norm.{kind}"] = WeightSource((f"{name}ln_1.{kind}",))
            sources[f"{role}mlp_norm.{kind}"] = WeightSource((f"{name}ln_2.{kind}",))
            for place, part in enumerate(("query", "key", "value")):
                rows = (place * width, (place + 1) * width)
                sources[f"{role}{part}.{kind}"] = WeightSource((f"{name}attn.c_attn.{kind}",), stacked, rows)
            for part, tensor in stored.items():
                sources[f"{role}{part}.{kind}"] = WeightSource((f"{name}{tensor}.{kind}",), stacked)
    for kind in ("weight", "bias"):
        sources[f"final_norm.{kind}"] = WeightSource((f"ln_f.{kind}",))
    if not config.tied_head:
        sources["head.weight"] = WeightSource(("lm_head.weight",))
    return sources


ARCHITECTURE = Architecture("gpt2", ("gpt2",), describe, locate)
