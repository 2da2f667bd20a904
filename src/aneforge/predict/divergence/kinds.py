"""The documented verdict on one kind of operation: which fields of two targets choose a different route for it.

Three fields matter: whether a slice inside the width passes the fixed-point crop, whether a square is fused into the
reduction before it (0x494), and from which extent on reductions go through a transpose (0x3f0). The verdict looks at
fields alone, so it flags a risk where a whole graph (`divergence`) may be proven equal.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, GraphTypeError
from aneforge.predict.divergence.graphs import Strength
from aneforge.targets import FP16_SLICE_SAT, TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.targets import Target

__all__ = ["predict_fp16_divergence"]

SLICES = {"slice", "crop"}
"""Words of kinds that cut: `slice_by_size` and `slice_by_index` have the first."""
SQUARED = {"square", "squares", "rms", "variance", "l2"}
"""Words of kinds in which a square or a product follows a reduction."""
REDUCED = {"softmax", "norm", "mean", "sum", "rms", "variance", "l2", "l1", "average"}
"""Words of kinds that add; one that begins with `reduce` or ends with `norm` does too."""
WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z0-9])(?=norm\b)")
"""Where a word begins that no sign parts from the one before: `RMSNorm`, `rmsnorm`."""
EXTREMES = {"max", "min", "argmax", "argmin"}
"""Words of reductions that compare and add nothing: no order changes them."""


def predict_fp16_divergence(
    kind: str,
    shape: Sequence[int],
    target_a: TargetLike,
    target_b: TargetLike,
    begin: Sequence[int] | None = None,
    max_abs: float | None = None,
) -> Strength:
    """Return how far apart two targets can be in an operation: saturation, round1, ulp1 or none, the strongest found.

    `kind` is read word by word (`slice_by_size`, `rms_norm`, `reduce_sum`). `begin` is where a slice begins along each
    axis; a finite `max_abs` of at most 4094 says that no element is large enough for the crop.

    >>> from aneforge.targets import Family
    >>> str(predict_fp16_divergence("slice_by_size", (1, 8), Family.A13, Family.A16, begin=(0, 2)))
    'saturation'
    >>> str(predict_fp16_divergence("slice_by_size", (1, 8), Family.A13, Family.A16, begin=(0, 2), max_abs=4094))
    'none'
    >>> str(predict_fp16_divergence("rms_norm", (64, 256), Family.A13, Family.A14))
    'round1'
    >>> str(predict_fp16_divergence("softmax", (64, 256), Family.A14, Family.A15))
    'ulp1'

    Raises:
        UnknownTargetError: Nothing has that name.
        GraphError: The shape, the begin or the magnitude is none.
        GraphTypeError: The kind is not a text.
    """
    words = words_of(kind)
    checked(shape, begin, max_abs)
    first, second = resolve(target_a), resolve(target_b)
    if words & SLICES and begin and begin[-1] and differ("width_slice_crop_x16", first, second):
        small = max_abs is not None and math.isfinite(max_abs) and max_abs <= FP16_SLICE_SAT
        return Strength.NONE if small else Strength.SATURATION
    if words & SQUARED and differ("square_after_reduction", first, second):
        return Strength.ROUND1
    adds = words & REDUCED or any(word.startswith("reduce") or word.endswith("norm") for word in words)
    if adds and not words & EXTREMES and differ("reduction_transpose_extent", first, second):
        return Strength.ULP1
    return Strength.NONE


def words_of(kind: str) -> set[str]:
    """Return the words of a kind, in small letters; the names of classes and functions are read alike.

    >>> sorted(words_of("ios17.reduce_L2_norm"))
    ['ios17', 'l2', 'norm', 'reduce']
    >>> sorted(words_of("RMSNorm")), sorted(words_of("rmsnorm")), sorted(words_of("SliceBySize"))
    (['norm', 'rms'], ['norm', 'rms'], ['by', 'size', 'slice'])

    Raises:
        GraphTypeError: It is not a text.
    """
    if not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("the kind of an operation is not a text", seen=type(kind).__name__)
    return {word for word in re.split(r"[^a-z0-9]+", WORD_BEGINS.sub("_", kind).lower()) if word}


def checked(shape: Sequence[int], begin: Sequence[int] | None, max_abs: float | None) -> None:
    """Check that a begin has an entry for every axis, and that a magnitude is none below zero.

    Raises:
        GraphError: One of them does not fit.
    """
    if begin is not None and len(begin) != len(shape):
        raise GraphError("the begin of a slice needs one number for every axis", seen=list(begin), limit=list(shape))
    if any(extent < 0 for extent in shape):
        raise GraphError("a shape has no negative extents", seen=list(shape))
    if max_abs is not None and not max_abs >= 0:
        raise GraphError("max_abs is no magnitude", seen=max_abs, limit="0 or more")


def differ(field: str, first: Target, second: Target) -> bool:
    """Tell whether a field of two targets differs; one of which no source tells differs from one that is known."""
    groups = [target.datapath if target.datapath.knows(field) else target.hal for target in (first, second)]
    return groups[0].get(field) != groups[1].get(field)
