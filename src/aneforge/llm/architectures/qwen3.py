"""Qwen3: a Llama that normalises queries and keys per head, with a head width of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.llm.architecture import Architecture
from aneforge.llm.llama_form import describe_llama_form, locate_llama_form, with_windows

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a Qwen3."""
    return with_windows(describe_llama_form(settings, "qwen3", head_norm=True), settings, switch="use_sliding_window")


ARCHITECTURE = Architecture("qwen3", ("qwen3",), describe, locate_llama_form)
