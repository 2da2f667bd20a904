"""Attention: its parts, its masks, and where it can be relied on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aneforge.engine import attention, golden, normalisation
from aneforge.engine.choices import choices
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.exactness import Exactness
from aneforge.engine.rounding import to_fp16
from aneforge.errors import PrecisionWarning
from aneforge.targets import resolve
from op_calls import value_of

Array = npt.NDArray[Any]
EARLY = choices().reduction.orders["early"]


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def attended(query: Array, key: Array, value: Array, mask: Array | None = None, **attributes: float) -> Array:
    operands = {"query": query, "key": key, "value": value, "attn_mask": mask}
    return arithmetic("sdpa", resolve("m1")).compute(operands, attributes)[0]


def test_the_parts() -> None:
    query, key, value = drawn(2, 5, 16), drawn(2, 7, 16, seed=1), drawn(2, 7, 3, seed=2)
    scores = to_fp16(golden.matmul(query, np.swapaxes(key, -1, -2)) * 0.25)
    weights = normalisation.softmax(scores, -1, EARLY)
    np.testing.assert_array_equal(attended(query, key, value).astype(np.float64), golden.matmul(weights, value))
    half_scale = to_fp16(golden.matmul(query, np.swapaxes(key, -1, -2)) * 0.5)
    expected = golden.matmul(normalisation.softmax(half_scale, -1, EARLY), value)
    np.testing.assert_array_equal(attended(query, key, value, scale=0.5).astype(np.float64), expected)


@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (256, 256), (64, 2048), (1, 2048)])
def test_the_error_is_of_the_size_that_was_seen(queries: int, keys: int) -> None:
    query, key, value = drawn(queries, 64), drawn(keys, 64, seed=1), drawn(keys, 64, seed=2)
    wide = [one.astype(np.float64) for one in (query, key, value)]
    meant = value_of("sdpa", *wide)
    error = np.linalg.norm(attended(query, key, value) - meant) / np.linalg.norm(meant)
    assert 5e-4 < error < 1e-2, "about 3e-3 was seen, and no more is known of it"


def test_masks() -> None:
    query, key, value = drawn(4, 8), drawn(4, 8, seed=1), np.eye(4, dtype=np.float16)
    causal = attended(query, key, value, is_causal=True)
    assert (np.triu(causal, 1) == 0).all()
    assert causal[0, 0] == 1
    bits = np.tri(4, dtype=np.bool_)
    np.testing.assert_array_equal(attended(query, key, value, bits), causal)
    added = np.where(bits, 0.0, -np.inf).astype(np.float16)
    np.testing.assert_array_equal(attended(query, key, value, added), causal)
    moderate = np.where(bits, 0.0, -1e4).astype(np.float16)
    np.testing.assert_array_equal(attended(query, key, value, moderate), causal)


@pytest.mark.parametrize(
    ("queries", "keys", "usable"),
    [
        (1, 1, True),
        (511, 2048, True),
        (2048, 511, True),
        (512, 512, False),
        (2048, 512, False),
        (1, 4096, False),
        (2049, 1, False),
    ],
)
def test_the_envelope(queries: int, keys: int, usable: bool) -> None:  # noqa: FBT001 - a parameter of the test
    label = attention.label_of_lengths(queries, keys)
    assert (label is None) == usable
    if label is not None:
        assert label.exactness is Exactness.UNKNOWN
        assert f"{queries} queries and {keys} keys" in label.reason


def test_outside_of_its_envelope_it_warns_and_its_label_says_unknown() -> None:
    query, key, value = drawn(1, 2), drawn(4096, 2), drawn(4096, 1)
    with pytest.warns(PrecisionWarning, match="sdpa: the native layer is unusable for 1 queries and 4096 keys"):
        attended(query, key, value)
    found = arithmetic("sdpa", resolve("m1"))
    assert found.label_of({"query": query, "key": key, "value": value}, {}).exactness is Exactness.UNKNOWN
    within = {"query": query, "key": key[:8], "value": value[:8]}
    assert found.label_of(within, {}).exactness is Exactness.MODELLED
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.compute(within, {})
