"""Hybrids of gated delta nets in GGUF files: names, settings, and the order in which value heads stand.

The conversion changes what engines with tiled broadcasting want: value heads, which Hugging Face has side by side for
each key head, stand with the first of every key head before the second of any; rates of decay are stored as −exp of
what Hugging Face stores; gains of norms plus one, but for those of the delta nets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array

__all__ = [
    "BARE",
    "DELTA_LAYER",
    "DELTA_SETTINGS",
    "EXTRA_LAYERS",
    "OF_ALL_VALUES",
    "RATE",
    "TiledHeads",
    "delta_settings",
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
OF_ALL_VALUES, EXTRA_LAYERS = "ssm.inner_size", "nextn_predict_layers"
JOINED, BY_ELEMENT = frozenset({"attn_qkv", "ssm_conv1d"}), frozenset({"attn_gate", "ssm_out"})


@dataclass(frozen=True, slots=True)
class TiledHeads:
    """An axis on which value heads stand tiled, from a place on."""

    groups: int
    heads: int
    width: int
    start: int = 0
    columns: bool = False
    """They are on the axis of columns, not of rows."""

    def stored(self, places: Array) -> Array:
        """Return where the elements stand that Hugging Face has at some places.

        >>> TiledHeads(groups=2, heads=4, width=1, start=1).stored(np.arange(5)).tolist()
        [0, 1, 3, 2, 4]
        """
        head, element = np.divmod(places - self.start, self.width)
        group, number = np.divmod(head, self.heads // self.groups)
        tiled = self.start + (number * self.groups + group) * self.width + element
        return np.where(places < self.start, places, tiled)


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
    """Return how the value heads of a tensor stand; None where it has none, or settings are missing."""
    if part not in DELTA_LAYER or part.endswith("norm"):
        return None
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    groups, heads, key, value = (one if isinstance(one := settings.get(name), int) else 0 for name in names)
    if not groups or not heads or heads % groups:
        return None
    width = value if part in JOINED | BY_ELEMENT else 1
    return TiledHeads(groups, heads, max(1, width), 2 * groups * key if part in JOINED else 0, part == "ssm_out")
