"""Operations of single elements whose layer has another form: numbers and constants that are gain and offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.compiler.ir.catalogue import kind_of_op
from aneforge.compiler.ir.kind import Engine
from aneforge.ops.declared import Declared
from aneforge.ops.windows import WindowAttributes, slides

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Ref
    from aneforge.compiler.lower.emitter import Emitter, Rule
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array

__all__ = ["RULES"]

ELEMENTWISE = {"add": "add", "sub": "sub", "mul": "mult", "max": "max", "min": "min"}
POOLS = {"max": "max_pool", "avg": "average_pool", "average": "average_pool", "l2": "l2norm_pool"}
CHANNEL_AXIS = 1


def number(emit: Emitter, name: str) -> float:
    """Return an attribute that is a number."""
    return emit.node.number(name)


def plus_number(emit: Emitter) -> tuple[Ref, ...]:
    """Lower the sum with a number."""
    return (emit.affine(emit.ref("x"), None, number(emit, "k"), axis=-1),)


def times_number(emit: Emitter) -> tuple[Ref, ...]:
    """Lower the product with a number."""
    return (emit.affine(emit.ref("x"), number(emit, "k"), None, axis=-1),)


def line(emit: Emitter) -> tuple[Ref, ...]:
    """Lower alpha · x + beta."""
    return (emit.affine(emit.ref("x"), number(emit, "alpha"), number(emit, "beta"), axis=-1),)


def wide(constant: Constant) -> Array:
    """Return a constant's numbers in float64."""
    return constant.dense().astype(np.float64)


def batch_norm(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a batch normalisation, which is a gain and an offset for every channel."""
    names = ("mean", "variance", "gamma", "beta")
    if any(isinstance(emit.constant(name), Declared) for name in names):
        row = np.full(emit.ref("x").type.shape[CHANNEL_AXIS], np.nan)
        return (emit.affine(emit.ref("x"), row, row, axis=CHANNEL_AXIS, unknown=frozenset({"gain", "offset"})),)
    mean, variance = (wide(cast("Constant", emit.constant(name))) for name in ("mean", "variance"))
    gamma, beta = emit.constant("gamma"), emit.constant("beta")
    gain = 1 / np.sqrt(variance + number(emit, "epsilon"))
    gain = gain if gamma is None else gain * wide(gamma)
    offset = -mean * gain if beta is None else wide(beta) - mean * gain
    return (emit.affine(emit.ref("x"), gain, offset, axis=CHANNEL_AXIS),)


def planar_gain_offset(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a gain and offset that was asked for as such."""
    held = {name: constant for name in ("gain", "offset") if (constant := emit.constant(name)) is not None}
    return (
        emit.add("gain_offset_control", {"input": emit.ref("x"), **held}, {"axis": CHANNEL_AXIS}, engine=Engine.PE),
    )


def after_epsilon(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a function of x + epsilon: an offset, then the function."""
    kind, x, epsilon = kind_of_op(emit.node.op.name), emit.ref("x"), number(emit, "epsilon")
    shifted = emit.affine(x, None, epsilon, axis=-1, step="epsilon") if epsilon else x
    return (emit.add(cast("str", kind), {"x": shifted}, {"epsilon": 0.0}),)


def planar_pair(emit: Emitter) -> tuple[Ref, ...]:
    """Lower an elementwise operation that was asked for on the planar engine."""
    kind = ELEMENTWISE[emit.node.text("mode")]
    return (emit.add(kind, {"x": emit.ref("x"), "y": emit.ref("y")}, engine=Engine.PE),)


def pool(emit: Emitter) -> tuple[Ref, ...]:
    """Lower pooling with its padding made explicit, on the unit that was asked for."""
    given = dict(emit.node.attributes)
    mode = given.pop("mode", None)
    kind = kind_of_op(emit.node.op.name) if mode is None else POOLS[str(mode)]
    x = emit.ref("x")
    window = emit.node.integers("kernel_sizes")
    if emit.node.text("pad_type").startswith("same"):
        along = slides(x.type.shape[-len(window) :], window, emit.node.attributes_as(WindowAttributes))
        given |= {"pad_type": "custom", "pad": tuple(pad for one in along for pad in (one.before, one.after))}
    if kind != "average_pool" and emit.node.op.name != "avg_pool":
        given.pop("exclude_padding_from_average", None)
    engine = {"ne_pool": Engine.NE, "pe_pool": Engine.PE}.get(emit.node.op.name)
    return (emit.add(cast("str", kind), {"x": x}, given, engine=engine),)


RULES: dict[str, Rule] = {
    "adds": plus_number,
    "muls": times_number,
    "linear_activation": line,
    "batch_norm": batch_norm,
    "pe_goc": planar_gain_offset,
    **dict.fromkeys(("log", "rsqrt", "inverse"), after_epsilon),
    "pe_elementwise": planar_pair,
    **dict.fromkeys(("avg_pool", "max_pool", "l2_pool", "ne_pool", "pe_pool"), pool),
}
