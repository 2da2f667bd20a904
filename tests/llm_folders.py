"""Folders of small random language models, written by the classes of Hugging Face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import torch
import transformers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["COMMON", "SMALL", "HuggingFaceModel", "build_config", "build_reference", "reference_logits"]

COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 160,
    "max_position_embeddings": 128,
}
HYBRID = {
    **COMMON,
    "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}
SMALL: Mapping[str, Mapping[str, object]] = {
    "llama": COMMON,
    "mistral": {**COMMON, "sliding_window": None},
    "qwen2": COMMON,
    "qwen3": {**COMMON, "head_dim": 32},
    "gemma": {**COMMON, "head_dim": 32, "num_key_value_heads": 1},
    "phi3": {**COMMON, "pad_token_id": 0, "original_max_position_embeddings": 128},
    "qwen2_moe": {
        **COMMON,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 48,
        "mlp_only_layers": [1],
    },
    "qwen3_moe": {
        **COMMON,
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    },
    "qwen3_next": {
        **HYBRID,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 48,
    },
    "qwen3_5_text": HYBRID,
    "qwen3_5_moe_text": {
        **HYBRID,
        "num_experts": 3,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 48,
    },
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 160, "n_positions": 128},
}
"""Settings of a small model of each architecture."""


class HuggingFaceModel(Protocol):
    """A model of Hugging Face, as far as tests use it."""

    def save_pretrained(self, folder: str, *, max_shard_size: str = ...) -> None:
        """Write the model."""
        ...

    def __call__(self, ids: torch.Tensor) -> object:
        """Return what has logits."""
        ...


def build_config(kind: str, settings: Mapping[str, object]) -> transformers.PretrainedConfig:
    """Return the configuration of a model type."""
    return transformers.AutoConfig.for_model(kind, **settings)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType]


def build_reference(
    kind: str, folder: Path, *, seed: int = 0, shard: str = "1GB", residual: float = 1.0, **changed: object
) -> HuggingFaceModel:
    """Write a random model of a type to a folder, and return it; its weights are large enough to matter in fp16.

    `residual` multiplies what writes into the residual, after which it is as much larger.
    """
    settings = {**SMALL[kind], **changed}
    config = build_config(kind, settings)
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType] - torch leaves it untyped
    model = cast("torch.nn.Module", transformers.AutoModelForCausalLM.from_config(config))  # pyright: ignore[reportUnknownMemberType]
    model.eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                one.mul_(residual)
            if one.ndim > 1:
                one.mul_(4.0)
            else:
                one.add_(torch.randn_like(one) * 0.1)
    found = cast("HuggingFaceModel", model)
    found.save_pretrained(str(folder), max_shard_size=shard)
    return found


def reference_logits(model: HuggingFaceModel, ids: list[int]) -> NDArray[np.float32]:
    """Return the logits of every position in float32."""
    with torch.no_grad():
        found = cast("torch.Tensor", model(torch.tensor([ids])).logits)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return found[0].float().numpy()
