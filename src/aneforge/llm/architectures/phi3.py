"""Phi-3, Phi-3.5 and Phi-4 of the model type `phi3`: a Llama whose projections are stored joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.llm.architecture import Architecture, AttentionSpec, DenseSpec, WeightSource
from aneforge.llm.llama_form import describe_llama_form, locate_llama_form, with_windows

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a Phi-3."""
    return with_windows(describe_llama_form(settings, "phi3"), settings, default=None)


def locate(config: DecoderConfig) -> dict[str, WeightSource]:
    """Return the sources: queries, keys and values are rows of one tensor, gate and up those of another."""
    sources = locate_llama_form(config)
    for number, layer in enumerate(config.layers):
        assert isinstance(layer.mixer, AttentionSpec)  # noqa: S101 - as `describe` made it
        assert isinstance(layer.mlp, DenseSpec)  # noqa: S101 - as above
        prefix, queries = f"layers.{number}.", layer.mixer.heads * layer.mixer.head_width
        keys, hidden = layer.mixer.key_value_heads * layer.mixer.head_width, layer.mlp.hidden
        attention, dense = f"{prefix}self_attn.qkv_proj.weight", f"{prefix}mlp.gate_up_proj.weight"
        sources |= {
            f"{prefix}query.weight": WeightSource((attention,), rows=(0, queries)),
            f"{prefix}key.weight": WeightSource((attention,), rows=(queries, queries + keys)),
            f"{prefix}value.weight": WeightSource((attention,), rows=(queries + keys, queries + 2 * keys)),
            f"{prefix}gate.weight": WeightSource((dense,), rows=(0, hidden)),
            f"{prefix}up.weight": WeightSource((dense,), rows=(hidden, 2 * hidden)),
        }
    return sources


ARCHITECTURE = Architecture("phi3", ("phi3",), describe, locate)
