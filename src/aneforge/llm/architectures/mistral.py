"""Mistral: a Llama whose attention may be limited to a sliding window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.llm.architecture import Architecture
from aneforge.llm.llama_form import describe_llama_form, locate_llama_form, with_windows

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a Mistral."""
    return with_windows(describe_llama_form(settings, "mistral"), settings)


ARCHITECTURE = Architecture("mistral", ("mistral",), describe, locate_llama_form)
