"""Qwen2 and Qwen2.5: a Llama with biases at queries, keys and values, and windows that are switched off as a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.llm.architecture import Architecture
from aneforge.llm.llama_form import describe_llama_form, locate_llama_form, with_windows

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a Qwen2."""
    return with_windows(describe_llama_form(settings, "qwen2", bias=True), settings, switch="use_sliding_window")


ARCHITECTURE = Architecture("qwen2", ("qwen2",), describe, locate_llama_form)
