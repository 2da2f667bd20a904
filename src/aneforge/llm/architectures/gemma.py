"""Gemma 1: a Llama with embeddings times the root of the width, gains stored less one, and the tanh form of gelu."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from aneforge.llm.architecture import Architecture
from aneforge.llm.llama_form import describe_llama_form, locate_llama_form, read_activation

if TYPE_CHECKING:
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.settings import ModelSettings


def describe(settings: ModelSettings) -> DecoderConfig:
    """Return the plan of a Gemma; older files name `gelu` and mean its tanh form."""
    name = "hidden_activation" if settings.has("hidden_activation") else "hidden_act"
    stated = read_activation(settings, name, "gelu_pytorch_tanh")
    activation = "gelu_tanh" if stated == "gelu" else stated
    plan = describe_llama_form(settings, "gemma", tied=True, activation=activation)
    return replace(plan, embedding_scale=math.sqrt(plan.width))


ARCHITECTURE = Architecture("gemma", ("gemma",), describe, partial(locate_llama_form, norm_offset=1.0))
