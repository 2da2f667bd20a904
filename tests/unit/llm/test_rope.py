"""Rotary positions of every scaling against those of Hugging Face."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from aneforge.llm.architecture import RopeSpec
from aneforge.llm.rope import attention_factor, inverse_frequencies, rope_tables, rotation_matrix
from aneforge.llm.rope_settings import read_rope
from aneforge.llm.settings import ModelSettings
from llm_folders import build_config

if TYPE_CHECKING:
    from collections.abc import Mapping

SCALINGS: Mapping[str, Mapping[str, object]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 64},
    "yarn exact": {"factor": 8.0, "original_max_position_embeddings": 64, "truncate": False, "beta_fast": 16.0},
    "yarn magnitudes": {"factor": 8.0, "original_max_position_embeddings": 64, "mscale": 0.7, "mscale_all_dim": 1.3},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "longrope": {
        "short_factor": [1.0 + place / 10 for place in range(8)],
        "long_factor": [2.0 + place for place in range(8)],
        "original_max_position_embeddings": 64,
    },
}


@pytest.mark.parametrize("context", [64, 512])
@pytest.mark.parametrize("case", sorted(SCALINGS))
def test_frequencies_are_those_of_hugging_face(case: str, context: int) -> None:
    kind = case.partition(" ")[0]
    stated = {"rope_theta": 1e4, "rope_type": kind, **SCALINGS[case]}
    settings = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 512, "rope_parameters": stated}
    if kind == "dynamic":
        settings["max_position_embeddings"] = 64
    spec = read_rope(ModelSettings(settings, "config.json"), 16)
    if kind == "default":
        assert inverse_frequencies(spec, context) == pytest.approx(1e4 ** -(np.arange(0, 16, 2) / 16))
        return
    config = build_config("llama", settings)
    expected, factor = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=context)
    assert inverse_frequencies(spec, context) == pytest.approx(expected.numpy(), rel=1e-5)
    assert attention_factor(spec) == pytest.approx(factor)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [4, 6])
def test_tables_and_matrix_turn_every_pair(width: int, interleaved: bool) -> None:  # noqa: FBT001 - a case
    spec = RopeSpec(base=100.0, width=width, interleaved=interleaved)
    x, place = np.random.default_rng(0).standard_normal(6), 3
    cosine, sine = (table[0].astype(np.float64) for table in rope_tables(spec, [place], 32, 6))
    turned = x * cosine + rotation_matrix(spec, 6) @ x * sine
    pairs = range(width // 2)
    first, second = ([2 * one for one in pairs], [2 * one + 1 for one in pairs])
    if not interleaved:
        first, second = (list(pairs), [one + width // 2 for one in pairs])
    expected = x.copy()
    for pair, one, other in zip(pairs, first, second, strict=True):
        angle = place * 100.0 ** (-2 * pair / width)
        number = complex(x[one], x[other]) * complex(np.cos(angle), np.sin(angle))
        expected[one], expected[other] = number.real, number.imag
    assert turned == pytest.approx(expected, abs=2e-3)
