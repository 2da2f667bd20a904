"""The documented verdict on one kind of operation: which fields of two targets choose a different route for it.

Three fields matter: whether a slice inside the width passes the fixed-point crop, whether a square is fused into the
reduction before it (0x494), and from which extent on reductions go through a transpose (0x3f0). The verdict looks at
fields alone, so it flags a risk where a whole graph (`divergence`) may be proven equal.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from aneforge.analysis.divergence.graphs import Strength
from aneforge.errors import GraphTypeError
from aneforge.graph.methods.arguments import misuse, number, whole_list
from aneforge.targets import FP16_SLICE_SAT, TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.targets import Target

__all__ = ["predict_fp16_divergence"]

ASKED = "predict_fp16_divergence"
"""The question, as errors name it."""
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

    `kind` is read word by word (`slice_by_size`, `rms_norm`, `reduce_sum`). `shape` is that of what is read, `begin`
    where a slice begins along each axis of it, counted from the end where it is negative. A finite `max_abs` of at most
    4094 says that no element is large enough for the crop.

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
        GraphError: The begin has another rank than the shape or lies outside of it, or an extent or the magnitude is
            negative.
        GraphTypeError: The kind is not a text, the shape or begin no list of integers, or max_abs no number.
    """
    words = words_of(kind)
    begins, most = checked(shape, begin, max_abs)
    first, second = resolve(target_a), resolve(target_b)
    if words & SLICES and any(begins[-1:]) and differ("width_slice_crop_x16", first, second):
        return Strength.NONE if most <= FP16_SLICE_SAT else Strength.SATURATION
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


def checked(shape: object, begin: object, max_abs: object) -> tuple[tuple[int, ...], float]:
    """Return where a slice begins along each axis, counted from the front, and the largest magnitude of what it cuts.

    Without a begin it is empty, and without a magnitude that is infinite.

    >>> checked((1, 8), (0, -2), None)
    ((0, 6), inf)

    Raises:
        GraphError: An extent is negative, the begin has another rank or lies outside, or the magnitude is below zero.
        GraphTypeError: The shape or the begin is not a list of integers, or the magnitude no number.
    """
    extents = whole_list(shape, ASKED, "shape")
    if any(extent < 0 for extent in extents):
        raise misuse(ASKED, "a shape has no negative extents", seen=extents)
    begins = [] if begin is None else whole_list(begin, ASKED, "begin")
    if begin is not None and len(begins) != len(extents):
        raise misuse(ASKED, "the begin of a slice needs one number for every axis", seen=begins, limit=extents)
    pairs = list(zip(begins, extents, strict=False))
    if any(first and not -extent <= first < extent for first, extent in pairs):
        raise misuse(ASKED, "the begin of a slice lies outside of what it cuts", seen=begins, limit=extents)
    most = math.inf if max_abs is None else number(max_abs, ASKED, "max_abs", finite=False)
    if not most >= 0:
        raise misuse(ASKED, "max_abs is not a magnitude", seen=most, limit="0 or more")
    return tuple(first % extent if first else 0 for first, extent in pairs), most


def differ(field: str, first: Target, second: Target) -> bool:
    """Tell whether a field of two targets differs; one of which no source tells differs from one that is known."""
    groups = [target.datapath if target.datapath.knows(field) else target.hal for target in (first, second)]
    return groups[0].get(field) != groups[1].get(field)
