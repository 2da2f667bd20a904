"""Numbers drawn at random. What a graph draws is not what PyTorch draws with the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.torch.operators.torch_making import shape_of
from aneforge.formats.torch.registry import operator
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


def draw(call: Call, op: str, shape: tuple[int, ...], **attributes: object) -> Value:
    """Return numbers drawn for a shape, in the element type of the result."""
    dtype = call.dtype()
    kind = dtype if is_float(dtype) else "fp32"
    return call.emit.apply(op, {}, shape=shape, dtype=kind, **attributes)


@operator("rand", "rand_like")
def uniform(call: Call) -> Value:
    """Convert numbers drawn evenly from 0 to 1."""
    return draw(call, "random_uniform", shape_of(call))


@operator("randn", "randn_like")
def normal(call: Call) -> Value:
    """Convert numbers drawn from the normal distribution."""
    return draw(call, "random_normal", shape_of(call))


@operator("randint", "randint_like")
def whole(call: Call) -> Value:
    """Convert integers drawn evenly."""
    low = call.number("low") if "low" in call.arguments else 0
    real = draw(call, "random_uniform", shape_of(call), low=float(low), high=float(call.number("high")))
    return call.emit.cast(call.emit.unary("floor", real), call.dtype())


@operator("randperm")
def permutation(call: Call) -> Value:
    """Convert integers in an order that is drawn: the places of drawn numbers in order."""
    count = call.integer("n")
    if not count:
        return call.emit.empty((0,), call.dtype())
    numbers = call.emit.apply("random_uniform", {}, shape=(count,), dtype="fp32")
    return call.emit.cast(call.emit.apply("argsort", {"x": numbers}, axis=0), call.dtype())


@operator("bernoulli")
def coin(call: Call) -> Value:
    """Convert 1 with a probability that each element gives, or one number for all."""
    x, emit = call.value("self"), call.emit
    numbers = draw(call, "random_uniform", x.type.shape)
    chance = call.operand("p", x.type.dtype) if call.has("p") else x
    return emit.cast(emit.binary("less", emit.cast(numbers, x.type.dtype), chance), call.dtype())
