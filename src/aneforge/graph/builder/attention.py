"""Attention, and the composites of transformer blocks.

Weights are matrices [out, in], biases [out]. Sequences are matrices [S, D]; heads are side by side along D. Masks are
added to the scores, so −inf or a large negative number hides a key; they are tensors or arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphTypeError, NotSupportedError
from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.builder.combination import split
from aneforge.graph.convert import expand
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.methods.method_arguments import flag, misuse, number, part_of, whole
from aneforge.graph.node import Output
from aneforge.graph.tensor import Tensor
from aneforge.ops.decompositions.products import count_tiles
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.types import Array

__all__ = ["cross_attention", "geglu", "mha", "sdpa"]

NATIVE_SHORTER_BELOW = 512
NATIVE_LONGER_AT_MOST = 2048
"""The native layer is right only while the shorter sequence is below the one and the longer at most the other."""
CROSS_TILES_FROM = (768, 512)
"""Lengths of query and context from which cross-attention is tiled."""


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None = None,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - the documented signature
    attn_mask: Tensor | Array | None = None,
    *,
    native: bool = False,
) -> Tensor:
    """Return softmax(q · kᵀ · scale + mask) · v for [1, heads, S, D]; the scale is 1/√D by default.

    The mask is [1, 1, S, T] for S queries and T keys, and is added. k and v may have fewer heads, each shared by
    several heads of q. It runs as products and softmax over tiles of queries; `native` selects the engine's own layer,
    which is a program of its own, correct only for short sequences, and can be written only as a network description.
    `opt="routes"` of `compile` selects that layer automatically if it is legal and predicted to be faster.

    >>> import aneforge as af
    >>> q, k, v = (af.input((1, 8, 64, 32)) for _ in range(3))
    >>> af.sdpa(q, k, v, is_causal=True).shape
    (1, 8, 64, 32)

    Raises:
        GraphError: The shapes do not fit, or a mask and is_causal are given together.
        GraphTypeError: q, k or v is not a tensor, or the mask is neither a tensor nor an array of numbers.
        NotSupportedError: is_causal outside the native regime, or with sequences of different lengths.
    """
    query, key, value = (expect_heads(tensor, name) for name, tensor in (("q", q), ("k", k), ("v", v)))
    queries, keys = query.shape[2], key.shape[2]
    causal, own = flag(is_causal, "sdpa", "is_causal"), flag(native, "sdpa", "native")
    factor = None if scale is None else number(scale, "sdpa", "scale")
    if causal and attn_mask is not None:
        raise misuse("sdpa", "a mask and is_causal are given together", remedy="add the causal mask to the mask")
    mask = expect_mask(attn_mask, "sdpa")
    if mask is not None and mask.type.shape != (1, 1, queries, keys):
        raise misuse("sdpa", "the mask has the wrong shape", seen=list(mask.type.shape), limit=[1, 1, queries, keys])
    if causal and (queries != keys or not is_short(queries, keys)):
        raise misuse(
            "sdpa",
            "causal attention has only a native form, for short sequences of equal length",
            seen=f"{queries} queries and {keys} keys",
            limit=f"equal lengths below {NATIVE_SHORTER_BELOW}",
            remedy="pass an additive attn_mask",
            error=NotSupportedError,
        )
    with part_of("sdpa"):
        key, value = (repeat_heads(one, query.shape[1], name) for name, one in (("k", key), ("v", value)))
        operands = {"query": query, "key": key, "value": value, "attn_mask": mask}
        return Tensor(build_checked("sdpa", operands, scale=factor, is_causal=causal, native=own))


def is_short(queries: int, keys: int) -> bool:
    """Return whether sequences are short enough for the engine's own layer to be right."""
    return min(queries, keys) < NATIVE_SHORTER_BELOW and max(queries, keys) <= NATIVE_LONGER_AT_MOST


def repeat_heads(x: Tensor, count: int, what: str) -> Tensor:
    """Return keys or values with every head repeated for the queries that share it.

    Raises:
        GraphError: The number of heads does not divide that of the queries.
    """
    _, own, length, width = x.shape
    if own == count:
        return x
    if not own or count % own:
        raise misuse("sdpa", f"the heads of {what} do not divide those of q", seen=own, limit=f"a divisor of {count}")
    return x.reshape(own, 1, length, width).tile((1, count // own, 1, 1)).reshape(1, count, length, width)


def mha(  # noqa: PLR0913, PLR0917 - the documented signature
    x: Tensor, Wq: Array, bq: Array, Wk: Array, bk: Array, Wv: Array, bv: Array, Wo: Array, bo: Array,  # noqa: N803 - the documented names
    n_heads: int, mask: Tensor | Array | None = None,
) -> Tensor:  # fmt: skip
    """Return multi-head self-attention of a sequence [S, D].

    The mask is [S, S], or any shape that broadcasts to [1, heads, S, S], and is added.

    >>> import numpy as np
    >>> import aneforge as af
    >>> weights = [np.zeros((16, 16)), np.zeros(16)] * 4
    >>> af.mha(af.input((10, 16)), *weights, n_heads=4).shape
    (10, 16)

    Raises:
        GraphError: The width is not divisible by the heads, or a shape does not fit.
        GraphTypeError: It is not a tensor, or a weight or the mask has the wrong type.
    """
    op = "mha"
    sequence = expect_sequence(x, op, "x")
    count = whole(n_heads, op, "n_heads", least=1)
    added = expect_mask(mask, op, (1, count, sequence.shape[0], sequence.shape[0]))
    with part_of(op):
        q, k, v = (heads(sequence.linear(w, b), count) for w, b in ((Wq, bq), (Wk, bk), (Wv, bv)))
        return merge(build_tiled_attention(q, k, v, None, added, count_tiles(sequence.shape[0]))).linear(Wo, bo)


def cross_attention(  # noqa: PLR0913, PLR0917 - the documented signature
    x: Tensor, context: Tensor, Wq: Array, bq: Array, Wk: Array, bk: Array, Wv: Array, bv: Array, Wo: Array, bo: Array,  # noqa: N803 - the documented names
    n_heads: int, mask: Tensor | Array | None = None,
) -> Tensor:  # fmt: skip
    """Return multi-head attention of a sequence [S, D] over a context [T, E].

    The mask is [S, T], or any shape that broadcasts to [1, heads, S, T], and is added.

    >>> import numpy as np
    >>> import aneforge as af
    >>> weights = [np.zeros((16, 16)), np.zeros(16)] * 4
    >>> af.cross_attention(af.input((10, 16)), af.input((7, 16)), *weights, n_heads=4).shape
    (10, 16)

    Raises:
        GraphError: The width is not divisible by the heads, or a shape does not fit.
        GraphTypeError: It is not a tensor, or a weight or the mask has the wrong type.
    """
    op = "cross_attention"
    sequence, other = expect_sequence(x, op, "x"), expect_sequence(context, op, "context")
    count = whole(n_heads, op, "n_heads", least=1)
    queries, keys = sequence.shape[0], other.shape[0]
    added = expect_mask(mask, op, (1, count, queries, keys))
    long = queries >= CROSS_TILES_FROM[0] and keys >= CROSS_TILES_FROM[1]
    with part_of(op):
        q = heads(sequence.linear(Wq, bq), count)
        k, v = (heads(other.linear(w, b), count) for w, b in ((Wk, bk), (Wv, bv)))
        return merge(build_tiled_attention(q, k, v, None, added, count_tiles(queries) if long else 1)).linear(Wo, bo)


def geglu(x: Tensor, W: Array, b: Array | None = None) -> Tensor:  # noqa: N803 - the documented name
    """Project to twice the width, and return the first half times gelu of the second.

    >>> import numpy as np
    >>> import aneforge as af
    >>> af.geglu(af.input((2, 3)), np.zeros((8, 3)), np.zeros(8)).shape
    (2, 4)

    Raises:
        GraphError: The shapes do not fit, or the weight does not have an even number of rows.
        GraphTypeError: It is not a tensor, or the weights are not arrays of floating-point numbers.
    """
    tensor = expect_tensor(x, "geglu")
    with part_of("geglu"):
        value, gate = split(tensor.linear(W, b), 2, axis=-1)
        return value * gate.gelu()


def heads(x: Tensor, count: int) -> Tensor:
    """Return a sequence [S, heads · d] as [1, heads, S, d].

    Raises:
        GraphError: The width is not divisible by the heads.
    """
    length, width = x.shape
    if width % count:
        raise misuse("heads", "the width is not divisible by the heads", seen=width, limit=f"a multiple of {count}")
    return x.reshape(1, length, count, width // count).transpose(0, 2, 1, 3)


def merge(x: Tensor) -> Tensor:
    """Return [1, heads, S, d] as a sequence [S, heads · d]."""
    _, count, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(length, count * width)


def build_tiled_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, mask: Value | None, count: int
) -> Tensor:
    """Return attention built from products and softmax over so many tiles of queries."""
    operands: dict[str, Argument] = {"query": q, "key": k, "value": v}
    if mask is not None:
        operands["attn_mask"] = mask
    return expand("sdpa", operands, {"scale": scale}, tiles=count)


# What the caller gives


def expect_sequence(value: object, op: str, what: str) -> Tensor:
    """Return a sequence [S, D].

    Raises:
        GraphTypeError: It is not a tensor.
        GraphError: It is not a matrix.
    """
    tensor = expect_tensor(value, op, what)
    if len(tensor.shape) != 2:
        raise misuse(op, f"{what} is not a sequence [S, D]", seen=list(tensor.shape), remedy="reshape it")
    return tensor


def expect_heads(value: object, what: str) -> Tensor:
    """Return the heads of a sequence, [1, heads, S, D].

    Raises:
        GraphTypeError: It is not a tensor.
        GraphError: It is laid out otherwise.
    """
    tensor = expect_tensor(value, "sdpa", what)
    if len(tensor.shape) != 4 or tensor.shape[0] != 1:
        raise misuse("sdpa", f"{what} is not [1, heads, S, D]", seen=list(tensor.shape))
    return tensor


def expect_mask(mask: object, op: str, scores: tuple[int, ...] | None = None) -> Value | None:
    """Return a mask to be added, an array as a constant; or none. It must broadcast to the scores where they are given.

    Raises:
        GraphTypeError: It is neither a tensor nor an array, or holds no floating-point numbers.
        GraphError: It does not broadcast to the scores.
    """
    if mask is None:
        return None
    found = mask if isinstance(mask, Output) else weight(mask, op, "the mask")
    if not is_float(found.type.dtype):
        raise misuse(
            op,
            "the mask is added, and must hold floating-point numbers",
            seen=found.type.dtype,
            remedy="for a tensor of bool write where(mask, 0.0, -65504.0)",
            error=GraphTypeError,
        )
    if scores is not None and not broadcasts_to(found.type.shape, scores):
        _, count, queries, keys = scores
        raise misuse(
            op,
            "the mask does not broadcast to the scores",
            seen=list(found.type.shape),
            limit=f"[{queries}, {keys}], or what broadcasts to [1, {count}, {queries}, {keys}]",
        )
    return found


def broadcasts_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether a shape broadcasts to another without making it larger.

    >>> broadcasts_to((5, 1), (1, 2, 5, 7)), broadcasts_to((2, 2, 5, 7), (1, 2, 5, 7))
    (True, False)
    """
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False
