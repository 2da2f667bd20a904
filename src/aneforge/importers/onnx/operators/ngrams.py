"""Counts of n-grams among whole numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.onnx.registry import operator
from aneforge.importers.onnx.values import Foreign

if TYPE_CHECKING:
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Value
    from aneforge.ops.types import Array

COMPARED_MOST = 2**26
"""Comparisons of one number of a window with one of an n-gram."""


@operator("TfIdfVectorizer", takes_all=True)
def vectorize(call: Call) -> Value:
    """Convert how often each n-gram of a list occurs in a row, with gaps between its numbers, and perhaps weighted."""
    if isinstance(call.held(0), Foreign) or call.has("pool_strings"):
        raise UnsupportedNodeError(Reason.STRING, "it counts n-grams of text", workaround="number the words beforehand")
    x, emit = call.value(0), call.emit
    rows = emit.expand(x, 0) if x.type.rank == 1 else x
    if rows.type.rank != 2:
        raise GraphError("its input is neither a row nor rows", seen=list(x.type.shape))
    places = np.array(call.attribute("ngram_indexes").ints, np.int64)
    grams = ngrams(call, len(places))
    if min(places, default=0) < 0 or max(places, default=0) >= COMPARED_MOST:
        raise GraphError("ngram_indexes are out of range", limit=f"0 to {COMPARED_MOST - 1}")
    width = int(max(places, default=-1)) + 1
    total = emit.filled((rows.type.shape[0], width), 0, "fp32")
    for first, own in grams:
        counts = occurrences(call, rows, own)
        if counts is not None:
            emit.room(len(own), width)
            chosen = np.zeros((len(own), width))
            chosen[np.arange(len(own)), places[first : first + len(own)]] = 1
            total = emit.add(total, emit.matmul(emit.cast(counts, "fp32"), emit.constant(chosen, "fp32")))
    result = weighted(call, total, places, width)
    return emit.reshape(result, (width,)) if x.type.rank == 1 else result


def ngrams(call: Call, count: int) -> list[tuple[int, Array]]:
    """Return the n-grams of every length that is counted: the number of the first, and all of them [grams, n].

    Raises:
        GraphError: The list does not part into n-grams.
    """
    pool = np.array(call.attribute("pool_int64s").ints, np.int64)
    starts = [*call.attribute("ngram_counts").ints, len(pool)]
    least, most = call.integer("min_gram_length"), call.integer("max_gram_length")
    found: list[tuple[int, Array]] = []
    first = 0
    for length, (begin, end) in enumerate(pairwise(starts), start=1):
        if not 0 <= begin <= end <= len(pool) or (end - begin) % length:
            raise GraphError("pool_int64s does not part into n-grams at ngram_counts", seen=starts[:8])
        own = pool[begin:end].reshape(-1, length)
        if least <= length <= most and len(own):
            found.append((first, own))
        first += len(own)
    if first != count:
        raise GraphError("there is not one index for each n-gram", seen=count, limit=first)
    return found


def occurrences(call: Call, rows: Value, grams: Array) -> Value | None:
    """Return how often each n-gram occurs in each row, [rows, grams]; nothing if no window is long enough."""
    emit = call.emit
    extent, length = rows.type.shape[1], grams.shape[1]
    skips = range(min(call.integer("max_skip_count"), extent) + 1) if length > 1 else range(1)
    emit.room(len(skips), extent)
    counts = [max(extent - (length - 1) * (skip + 1), 0) for skip in skips]
    if not any(counts):
        return None
    if sum(counts) * grams.size * max(rows.type.shape[0], 1) > COMPARED_MOST:
        raise GraphError("there are too many n-grams to compare", seen=sum(counts) * grams.size, limit=COMPARED_MOST)
    listed: list[Array] = [
        np.arange(count)[:, None] + np.arange(length) * (skip + 1) for skip, count in zip(skips, counts, strict=True)
    ]
    windows: Array = np.concatenate(listed)
    seen = emit.expand(emit.cast(emit.take(rows, windows, 1), "int64"), 2)  # [rows, windows, 1, n]
    same = emit.cast(emit.binary("equal", seen, emit.constant(grams, "int64")), "int32")
    whole = emit.reduce("reduce_min", same, (-1,), keep=False)
    return emit.reduce("reduce_sum", whole, (1,), keep=False)


def weighted(call: Call, counts: Value, places: Array, width: int) -> Value:
    """Return counts, whether they are above 0, or either times a weight, as the mode says."""
    emit = call.emit
    mode = call.choice("mode", "TF", "IDF", "TFIDF")
    if mode == "TF":
        return counts
    result = counts if mode == "TFIDF" else emit.cast(emit.binary("greater", counts, 0.0), "fp32")
    if not call.has("weights"):
        return result
    weights = np.zeros(width)
    weights[places] = list(call.attribute("weights").floats)
    return emit.mul(result, emit.constant(weights, "fp32"))
