"""Llama 1 to 3, and what shares its settings: SmolLM, TinyLlama, Yi and others of the model type `llama`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.llm.architecture import Architecture
from aneforge.llm.llama_form import describe_llama_form, locate_llama_form

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a Llama."""
    return describe_llama_form(settings, "llama")


ARCHITECTURE = Architecture("llama", ("llama",), describe, locate_llama_form)
