"""Scaled dot-product attention: the native layer, and where it can be relied on.

Seen: errors of about 3e-3 for sequences up to 2,048; unusable at 4,096, and once both sequences reach 512. Inside that
envelope the layer is modelled as its parts: scores on the multiply-accumulate path, times the scale in fp16, plus the
mask in fp16, a softmax that takes the largest off first (the layer needs the flag that says so), and the product with
the values on the multiply-accumulate path again. Outside of it the result is not known: the parts are computed all
the same, the label is *unknown*, and a `PrecisionWarning` says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.callsite import warn
from aneforge.engine.choices import choices
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.golden import matmul
from aneforge.engine.normalisation import GOLDEN, Steps
from aneforge.engine.planar import number
from aneforge.engine.reductions import adder_of
from aneforge.errors import PrecisionWarning
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["FOR_TARGET", "Parts", "attention", "label_of_lengths"]

NEVER = np.float16(-np.inf)
"""The score of what a mask hides."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What attention is made of; the kernels have it too."""

    matmul: Callable[[Array, Array], Array]
    steps: Steps
    adder: AdderChoice


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
    parts: Parts,
) -> Array:
    """Return softmax(scale · query · keyᵀ + mask) · value, part by part.

    A mask of bool and a causal one put −infinity where it does not hold.
    """
    queries, keys = query.shape[-2], key.shape[-2]
    label = label_of_lengths(queries, keys)
    if label is not None:
        warn(f"sdpa: {label.reason}", PrecisionWarning)
    factor = np.asarray(number(1 / math.sqrt(query.shape[-1]) if scale is None else scale), np.float16)
    scores = parts.steps.mul(parts.matmul(query, np.swapaxes(key, -1, -2)), factor)
    if is_causal and choices().attention.causal_mask_applies:
        scores = np.where(np.tri(queries, keys, dtype=np.bool_), scores, NEVER)
    if attn_mask is not None:
        bits = attn_mask.dtype == np.bool_
        scores = np.where(attn_mask, scores, NEVER) if bits else parts.steps.add(scores, attn_mask)
    return parts.matmul(parts.steps.softmax(scores, -1, parts.adder), value)


def sdpa_on(
    target: Target, multiply: Callable[[Array, Array], Array] = matmul, steps: Steps = GOLDEN
) -> Callable[..., Array]:
    """Return attention with the order of a target."""
    parts = Parts(multiply, steps, adder_of(target))

    def function(
        query: Array,
        key: Array,
        value: Array,
        attn_mask: Array | None,
        *,
        scale: float | None,
        is_causal: bool,
        **_: object,
    ) -> Array:
        return attention(query, key, value, attn_mask, scale=scale, is_causal=is_causal, parts=parts)

    return function


FOR_TARGET: Mapping[str, Callable[..., Callable[..., Array]]] = {"sdpa": sdpa_on}
"""Operations whose sums depend on the order of the target: functions of it and of their parts, else golden ones."""
