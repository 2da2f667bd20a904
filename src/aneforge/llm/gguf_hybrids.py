"""Hybrids of gated delta nets in GGUF files: names, settings, and the order of value heads.

Qwen3-Next has the projections of queries, keys, values and gates of a key head side by side in one tensor. Older files
store it so, newer ones store queries, keys and values of all heads one after the other, and gates separately.

Since Qwen3.5 the conversion changes what engines with tiled broadcasting want: value heads, which Hugging Face has side
by side for each key head, are stored with the first of every key head before the second of any. Rates of decay are
always stored as −exp of what Hugging Face stores, and gains of norms plus one, but for those of the delta nets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array

__all__ = [
    "ALL_PROJECTIONS",
    "BARE",
    "DELTA_LAYER",
    "DELTA_SETTINGS",
    "EXTRA_LAYERS",
    "GATES",
    "JOINED_LAYER",
    "OF_ALL_VALUES",
    "PROJECTIONS",
    "RATE",
    "KeyHeads",
    "TiledHeads",
    "delta_settings",
    "key_heads",
    "tiled_heads",
]

RATE = "ssm_a"
BARE = frozenset({RATE, "ssm_dt"})
"""Tensors whose names with Hugging Face end without `.weight` or `.bias`."""
DELTA_LAYER: Mapping[str, str] = {
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "post_attention_norm": "post_attention_layernorm",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_dt": "linear_attn.dt_bias",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
    RATE: "linear_attn.A_log",
}
DELTA_SETTINGS: Mapping[str, str] = {
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
    "full_attention_interval": "full_attention_interval",
}
JOINED_LAYER: Mapping[str, str] = {"ssm_in": "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba"}
"""Further names that Qwen3-Next has."""
PROJECTIONS, GATES, ALL_PROJECTIONS = ".in_proj_qkv.weight", ".in_proj_z.weight", ".in_proj_qkvz.weight"
OF_ALL_VALUES, EXTRA_LAYERS = "ssm.inner_size", "nextn_predict_layers"
JOINED, BY_ELEMENT = frozenset({"attn_qkv", "ssm_conv1d"}), frozenset({"attn_gate", "ssm_out"})


@dataclass(frozen=True, slots=True)
class TiledHeads:
    """An axis on which value heads are tiled, from a place on."""

    groups: int
    heads: int
    width: int
    start: int = 0
    columns: bool = False
    """They are on the axis of columns, not of rows."""

    def stored(self, places: Array) -> Array:
        """Return where the elements are that Hugging Face has at some places.

        >>> TiledHeads(groups=2, heads=4, width=1, start=1).stored(np.arange(5)).tolist()
        [0, 1, 3, 2, 4]
        """
        head, element = np.divmod(places - self.start, self.width)
        group, number = np.divmod(head, self.heads // self.groups)
        tiled = self.start + (number * self.groups + group) * self.width + element
        return np.where(places < self.start, places, tiled)


@dataclass(frozen=True, slots=True)
class KeyHeads:
    """Key heads whose projections Hugging Face has one after the other: a query, a key, values and their gates each."""

    count: int
    key: int
    """Rows of a query, or a key."""
    values: int
    """Rows of all values of a key head."""

    def stored(self, places: Array) -> tuple[Array, Array]:
        """Return where the rows are that Hugging Face has at some places, and which of them are gates.

        >>> rows, gates = KeyHeads(count=2, key=1, values=2).stored(np.arange(6, 12))
        >>> rows.tolist(), gates.tolist()
        ([1, 3, 6, 7, 2, 3], [False, False, False, False, True, True])
        """
        head, row = np.divmod(places, 2 * self.key + 2 * self.values)
        value, gate = row - 2 * self.key, row - 2 * self.key - self.values
        first = self.count * self.key
        query_or_key = np.where(row < self.key, head * self.key + row, first + head * self.key + row - self.key)
        rows = np.where(value < 0, query_or_key, 2 * first + head * self.values + value)
        return np.where(gate < 0, rows, head * self.values + gate), gate >= 0


def key_heads(settings: Mapping[str, object]) -> KeyHeads | None:
    """Return how projections of key heads are arranged; None where settings are missing."""
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    groups, heads, key, value = (one if isinstance(one := settings.get(name), int) else 0 for name in names)
    return KeyHeads(groups, key, heads // groups * value) if groups and key and value else None


def delta_settings(
    stated: Mapping[str, object], values: object, extra: object, linear: list[bool]
) -> dict[str, object]:
    """Return settings that no field states by itself: the width of value heads, and what each layer is.

    `values` is the width of all value heads, `extra` how many of the last layers only guess tokens ahead.

    >>> delta_settings({"num_hidden_layers": 3, "linear_num_value_heads": 4}, 32, 1, [True, False, False])
    {'linear_value_head_dim': 8, 'num_hidden_layers': 2, 'layer_types': ['linear_attention', 'full_attention']}
    """
    found: dict[str, object] = {}
    heads, layers = stated.get("linear_num_value_heads"), stated.get("num_hidden_layers")
    if isinstance(values, int) and isinstance(heads, int) and heads > 0 and values % heads == 0:
        found["linear_value_head_dim"] = values // heads
    if isinstance(layers, int):
        count = layers - (extra if isinstance(extra, int) else 0)
        found["num_hidden_layers"] = count
        found["layer_types"] = ["linear_attention" if one else "full_attention" for one in linear[:count]]
    return found


def tiled_heads(part: str, settings: Mapping[str, object]) -> TiledHeads | None:
    """Return how the value heads of a tensor are arranged; None where it has none, or settings are missing."""
    if part not in DELTA_LAYER or part.endswith("norm"):
        return None
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    groups, heads, key, value = (one if isinstance(one := settings.get(name), int) else 0 for name in names)
    if not groups or not heads or heads % groups:
        return None
    width = value if part in JOINED | BY_ELEMENT else 1
    return TiledHeads(groups, heads, max(1, width), 2 * groups * key if part in JOINED else 0, part == "ssm_out")
