"""Independent implementation of attention: torch's own, in double precision."""

import numpy as np
from torch.nn import functional

from oracle_tools import Array, Oracle, array, tensor


def sdpa(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    *,
    scale: float | None,
    is_causal: bool,
    native: bool,
) -> Array:
    del native  # it says where attention runs, not what it means
    batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    operands = [tensor(one).expand(*batch, *one.shape[-2:]) for one in (query, key, value)]
    mask = None
    if attn_mask is not None:
        mask = tensor(attn_mask).expand(*batch, query.shape[-2], key.shape[-2])
    return array(functional.scaled_dot_product_attention(*operands, attn_mask=mask, is_causal=is_causal, scale=scale))


ORACLES: dict[str, Oracle] = {"sdpa": sdpa}
