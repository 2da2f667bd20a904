"""What is known when a program is compiled: constants that operations make, encoded weights, and plain aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.compiler.ir.layer import Value
from aneforge.ops.constant import PALETTE_BITS, Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.declared import Declared
from aneforge.ops.op import Category, Trait
from aneforge.ops.types import bits, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.layer import Ref
    from aneforge.compiler.lower.emitter import Emitter, Rule
    from aneforge.ops.types import Array

__all__ = ["RULES", "fold"]

MOST_ELEMENTS = 2**24
"""Largest constant that is computed when a program is compiled."""


def fold(emit: Emitter) -> tuple[Ref, ...] | None:
    """Return the results of an operation on constants only, where its element type holds them without rounding."""
    node = emit.node
    known = not any(isinstance(ref, Value) for argument in emit.operands.values() for ref in each(argument))
    stored = node.op.category is Category.QUANTISATION  # a weight that is stored compressed stays so
    if not known or stored or Trait.RANDOM in node.op.traits or node.op.meaning is None:
        return None
    held = [cast("Constant", ref) for argument in emit.operands.values() for ref in each(argument)]
    if any(isinstance(one, Declared) for one in held):
        return move_weights(emit, held)
    if sum(kind.size for kind in node.types) > MOST_ELEMENTS:
        return None
    arrays = {
        name: tuple(map(wide, argument)) if isinstance(argument, tuple) else wide(cast("Constant", argument))
        for name, argument in emit.operands.items()
    }
    results = node.op.evaluate(arrays, node.attributes)
    kept: list[Constant] = []
    for array, kind in zip(results, node.types, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            held = array.astype(numpy_dtype(kind.dtype))
        if not np.array_equal(held.astype(array.dtype), array, equal_nan=array.dtype.kind == "f"):
            return None
        kept.append(Dense(np.asarray(held, order="C")))
    emit.note(f"{node.op.name} of constants is computed beforehand")
    return tuple(kept)


def move_weights(emit: Emitter, held: list[Constant]) -> tuple[Ref, ...] | None:
    """Return what an operation that only moves elements makes of weights without values; others may round and stay."""
    node = emit.node
    if node.op.category is not Category.STRUCTURAL:
        return None
    absent = next(one for one in held if isinstance(one, Declared))
    how = f"{node.op.name} {dict(node.attributes)} {[one.digest for one in held]}"
    emit.note(f"{node.op.name} of constants is computed beforehand")
    return tuple(absent.derive(f"{how} {place}", kind.shape, kind.dtype) for place, kind in enumerate(node.types))


def each(argument: object) -> tuple[object, ...]:
    """Return the tensors of an operand."""
    return cast("tuple[object, ...]", argument) if isinstance(argument, tuple) else (argument,)


def wide(ref: Ref) -> Array:
    """Return a constant in the type of the mathematics."""
    constant = cast("Constant", ref)
    values = constant.dense()
    return values.astype(np.float64) if values.dtype.kind not in "iub" else values


def alias(emit: Emitter) -> tuple[Ref, ...]:
    """Lower what gives its operand as it is."""
    return (emit.ref(emit.node.op.operands[0].name),)


def lower_written(emit: Emitter) -> tuple[Ref, ...]:
    """Lower the writing of a state: from here on it is what was written."""
    return (emit.ref("data"),)


def lower_filled(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a tensor of one number, in the shape of another: only that shape is read."""
    kind = emit.node.types[0]
    return (Dense(np.full(kind.shape, emit.node.attributes["value"], numpy_dtype(kind.dtype))),)


def lower_encoded_weight(emit: Emitter) -> tuple[Ref, ...]:
    """Lower an operation that stands for a compressed weight: the constant in that encoding.

    Where no encoding of constants holds it, it is computed beforehand and rounded to its element type, and said so.
    """
    encoder = ENCODERS.get(emit.node.op.name)
    constant = encoder(emit) if encoder else None
    if constant is not None and constant.type == emit.node.types[0]:
        return (constant,)
    arrays = {name: wide(cast("Constant", argument)) for name, argument in emit.operands.items()}
    results = emit.node.op.evaluate(arrays, emit.node.attributes)
    emit.note(f"{emit.node.op.name} is decoded before compilation: no encoding of weights has this form")
    return tuple(
        Dense(np.asarray(array, numpy_dtype(kind.dtype), order="C"))
        for array, kind in zip(results, emit.node.types, strict=True)
    )


def part(emit: Emitter, name: str) -> Array:
    """Return an operand's stored numbers."""
    return cast("Constant", emit.constant(name)).dense()


def optional_part(emit: Emitter, name: str) -> Array | None:
    """Return an optional operand's stored numbers."""
    constant = emit.constant(name)
    return None if constant is None else constant.dense()


def affine(emit: Emitter) -> Constant | None:
    """Return an int8 weight with a scale for every row."""
    axis = emit.node.integer("axis")
    quantized = part(emit, "quantized_data")
    if quantized.dtype != np.int8:
        return None
    rows = quantized.shape[axis]
    scale, zero = (np.broadcast_to(part(emit, name), (rows,)).copy() for name in ("scale", "zero_point"))
    return Int8Affine(quantized, scale, zero if zero.any() else None, axis)


def palette(emit: Emitter) -> Constant | None:
    """Return a weight of indices into one table of numbers; several tables, or tables of vectors, have no encoding."""
    indices, table = cast("Constant", emit.constant("indices")), part(emit, "lut")
    if table.ndim < 2 or table.size != table.shape[-2] or bits(indices.type.dtype) not in PALETTE_BITS:
        return None
    return Palette(indices.dense().astype(np.uint8), table.reshape(-1), bits(indices.type.dtype))


def sparse(emit: Emitter) -> Constant:
    """Return a weight of which only the elements that are not zero are stored."""
    return Sparse(part(emit, "mask").astype(np.bool_), part(emit, "nonzero_data"))


def blockwise(emit: Emitter) -> Constant:
    """Return a weight with a scale for every block."""
    return Blockwise(part(emit, "data"), part(emit, "scale"), optional_part(emit, "offset"))


ENCODERS: dict[str, Callable[[Emitter], Constant | None]] = {
    "constexpr_affine_dequantize": affine,
    "constexpr_lut_to_dense": palette,
    "constexpr_sparse_to_dense": sparse,
    "constexpr_blockwise_shift_scale": blockwise,
}
RULES: dict[str, Rule] = {
    "fill_like": lower_filled,
    **dict.fromkeys(("read_state", "tensor_buffer_to_tensor", "tensor_to_tensor_buffer", "ne_bypass"), alias),
    "write_state": lower_written,
    **dict.fromkeys(
        (*ENCODERS, "constexpr_lut_to_sparse", "constexpr_sparse_blockwise_shift_scale", "constexpr_cast"),
        lower_encoded_weight,
    ),
}
