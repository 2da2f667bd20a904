"""Adapters, one file for each architecture: a file that is put here is found by itself.

A file has `ARCHITECTURE`, which says of which model types it is, how settings become a plan, and where weights are.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, cast

from aneforge.errors import Location, UnsupportedModelError, nearest_names
from aneforge.llm.architecture import Architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings

__all__ = ["architecture_of", "describe_decoder", "names"]

SOFT_CAPPING = "caps logits of attention (softcapping), which is not supported here"
TWO_ROPES = "alternates windows with two sorts of rotary positions, and normalises after each part: not supported here"
REFUSED: Mapping[str, str] = {
    "gemma2": SOFT_CAPPING,
    "gemma3": TWO_ROPES,
    "gemma3_text": TWO_ROPES,
}
"""Model types that look like one that is known and are not computed like it."""
CAPPINGS = ("attn_logit_softcapping", "final_logit_softcapping")
OTHERWISE = (
    "af.from_torch takes the class of Hugging Face as any other network: "
    "torch.export of AutoModelForCausalLM, without the cache"
)


@cache
def list_adapters() -> Mapping[str, Architecture]:
    """Return the adapters by model type."""
    found: dict[str, Architecture] = {}
    for module in pkgutil.iter_modules(__path__):
        adapter = cast("object", importlib.import_module(f"{__name__}.{module.name}").ARCHITECTURE)
        assert isinstance(adapter, Architecture)  # noqa: S101 - what every file here has
        found |= dict.fromkeys(adapter.model_types, adapter)
    return found


def names() -> tuple[str, ...]:
    """Return the model types that have an adapter.

    >>> "llama" in names()
    True
    """
    return tuple(sorted(list_adapters()))


def architecture_of(settings: ModelSettings) -> Architecture:
    """Return the adapter of a model.

    Raises:
        UnsupportedModelError: There is none, or the model only looks like one that there is.
    """
    kind = settings.text("model_type")
    where = Location(settings.source)
    if kind in REFUSED:
        raise UnsupportedModelError(f"{kind} {REFUSED[kind]}", location=where, remedy=OTHERWISE)
    for capping in CAPPINGS:
        if settings.has(capping):
            raise UnsupportedModelError(
                f"{kind} with {capping} caps logits, which is not supported here",
                location=where,
                seen=settings.values[capping],
                remedy=OTHERWISE,
            )
    if settings.has("quantization_config"):
        raise UnsupportedModelError(
            "the checkpoint is stored quantised, in an encoding that is not read",
            location=where,
            seen=settings.nested("quantization_config").text("quant_method", "no method named"),
            remedy="take the checkpoint that is not quantised; compress= encodes the weights for the engine",
        )
    if kind not in list_adapters():
        like = ", ".join(nearest_names(kind, names()))
        raise UnsupportedModelError(
            f"there is no adapter for the model type {kind!r}" + (f"; nearest: {like}" if like else ""),
            location=where,
            limit=", ".join(names()),
            remedy=OTHERWISE,
        )
    return list_adapters()[kind]


def describe_decoder(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a decoder from its settings alone.

    >>> from aneforge.llm.settings import ModelSettings
    >>> small = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    ...          "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 32}
    >>> describe_decoder(ModelSettings(small, "config.json")).layers[0].mixer.key_value_heads
    1

    Raises:
        CheckpointError: A setting is missing or has a value of another sort.
        UnsupportedModelError: There is no adapter, or a setting asks for something that is not supported here.
    """
    return architecture_of(settings).describe(settings)
