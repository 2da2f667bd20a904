"""Scaled dot-product attention: the native layer, and where it can be relied on.

Seen: errors of about 3e-3 for sequences up to 2,048; unusable at 4,096, and once both sequences reach 512. Inside that
envelope the layer is modelled as its parts: scores on the multiply-accumulate path, times the scale in fp16, plus the
mask in fp16, a softmax that takes the largest off first (without that flag the layer overflows), and the product with
the values on the multiply-accumulate path again. Outside of it nobody knows what comes out: the parts are computed all
the same, the label is *unknown*, and a `PrecisionWarning` says so.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.choices import choices
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.golden import matmul
from aneforge.engine.normalisation import softmax
from aneforge.engine.planar import add, number, read
from aneforge.engine.reductions import adder_of
from aneforge.engine.rounding import to_fp16
from aneforge.errors import PrecisionWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["FOR_TARGET", "attention", "label_of_lengths"]


def label_of_lengths(queries: int, keys: int) -> Label | None:
    """Return the label of attention outside its envelope, and None within.

    >>> label_of_lengths(1, 2048) is None, label_of_lengths(512, 512).exactness
    (True, <Exactness.UNKNOWN: 'unknown'>)
    """
    envelope = choices().attention
    if max(queries, keys) <= envelope.longest and min(queries, keys) < envelope.both_from:
        return None
    limits = f"{envelope.longest} for either, {envelope.both_from - 1} for one of them"
    return Label(
        Exactness.UNKNOWN,
        f"the native layer is unusable for {queries} queries and {keys} keys; it was seen to work up to {limits}",
    )


def attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    *,
    scale: float | None,
    is_causal: bool,
    adder: AdderChoice,
) -> Array:
    """Return softmax(scale · query · keyᵀ + mask) · value, part by part.

    A mask of bool and a causal one put −infinity where it does not hold.
    """
    queries, keys = query.shape[-2], key.shape[-2]
    label = label_of_lengths(queries, keys)
    if label is not None:
        warnings.warn(f"sdpa: {label.reason}", PrecisionWarning, stacklevel=2)
    factor = number(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scores = to_fp16(read(matmul(query, np.swapaxes(key, -1, -2))) * factor)
    if is_causal and choices().attention.causal_mask_applies:
        scores = np.where(np.tri(queries, keys, dtype=np.bool_), scores, -np.inf)
    if attn_mask is not None:
        bits = attn_mask.dtype == np.bool_
        scores = np.where(attn_mask, scores, -np.inf) if bits else add(scores, attn_mask)
    return matmul(softmax(scores, -1, adder), value)


def sdpa_on(target: Target) -> Callable[..., Array]:
    """Return attention with the order of a target."""
    adder = adder_of(target)

    def function(
        query: Array, key: Array, value: Array, attn_mask: Array | None, *, scale: float | None, is_causal: bool
    ) -> Array:
        return attention(query, key, value, attn_mask, scale=scale, is_causal=is_causal, adder=adder)

    return function


FOR_TARGET: Mapping[str, Callable[[Target], Callable[..., Array]]] = {"sdpa": sdpa_on}
"""Operations whose sums depend on the order of the target."""
