"""Activations: the op table's own where it has the form.

PyTorch's decompositions widen some of these to fp32 on their way; here they stay in the element type that they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.shared import elementary
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.torch.registry import operator
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


@operator("relu")
def relu(call: Call) -> Value:
    """Convert max(x, 0)."""
    return elementary.relu(call.emit, call.value("self"))


@operator("hardtanh", "relu6")
def bounded(call: Call) -> Value:
    """Convert x moved between two numbers."""
    x, emit = call.value("self"), call.emit
    low, high = (0.0, 6.0) if call.operator == "relu6" else (call.number("min_val"), call.number("max_val"))
    if is_float(x.type.dtype) and (low, high) == (0, 6):
        return emit.unary("relu6", x)
    return elementary.clamp(emit, x, low, high)


@operator("leaky_relu")
def leaky_relu(call: Call) -> Value:
    """Convert x, scaled below 0."""
    return call.emit.unary("leaky_relu", call.value("self"), alpha=float(call.number("negative_slope")))


@operator("rrelu_with_noise", "rrelu_with_noise_functional")
def random_relu(call: Call) -> Value | tuple[Value, Value]:
    """Convert x, scaled below 0 by the mean of two slopes; what PyTorch keeps for gradients is left as it is.

    Raises:
        UnsupportedNodeError: It is in training, and draws its slopes.
    """
    if call.flag("training"):
        raise UnsupportedNodeError(
            Reason.TRAINING, "rrelu in training draws at random", workaround="export the module after module.eval()"
        )
    slope = (float(call.number("lower")) + float(call.number("upper"))) / 2
    result = call.emit.unary("leaky_relu", call.value("self"), alpha=slope)
    return (result, call.value("noise")) if call.operator.endswith("functional") else result


@operator("prelu", "_prelu_kernel")
def parametric_relu(call: Call) -> Value:
    """Convert x, scaled below 0 by a slope for all, or for each channel."""
    x, slope, emit = call.value("self"), call.value("weight"), call.emit
    if call.operator == "prelu" and slope.type.size > 1 and x.type.rank > 1:
        slope = emit.reshape(slope, (slope.type.size, *[1] * (x.type.rank - 2)))
    elif slope.type.size == 1:
        slope = emit.reshape(slope, ())
    return elementary.prelu(emit, x, slope)


@operator("elu")
def elu(call: Call) -> Value:
    """Convert scale · (x, and alpha · (e^(input_scale · x) − 1) below 0)."""
    x, emit = call.operand("self", call.dtype()), call.emit
    alpha, scale, inner = (float(call.number(name)) for name in ("alpha", "scale", "input_scale"))
    if (scale, inner) == (1.0, 1.0):
        return emit.unary("elu", x, alpha=alpha)
    below = emit.mul(emit.sub(emit.unary("exp", emit.mul(x, inner)), 1.0), alpha * scale)
    return emit.select(emit.binary("greater", x, 0.0), emit.mul(x, scale), below)


@operator("hardsigmoid")
def hard_sigmoid(call: Call) -> Value:
    """Convert x / 6 + ½, kept within 0 and 1."""
    return call.emit.unary("sigmoid_hard", call.value("self"), alpha=1 / 6, beta=0.5)


@operator("hardswish")
def hard_swish(call: Call) -> Value:
    """Convert x · (x / 6 + ½, kept within 0 and 1)."""
    return elementary.hard_swish(call.emit, call.value("self"))


@operator("mish")
def mish(call: Call) -> Value:
    """Convert x · tanh(log(1 + eˣ))."""
    return elementary.mish(call.emit, call.value("self"))


@operator("softplus")
def softplus(call: Call) -> Value:
    """Convert log(1 + e^(beta · x)) / beta, and x itself where beta · x is above a threshold."""
    x, emit = call.value("self"), call.emit
    beta, threshold = float(call.number("beta")), float(call.number("threshold"))
    scaled = x if beta == 1 else emit.mul(x, beta)
    smooth = emit.unary("softplus", scaled)
    smooth = smooth if beta == 1 else emit.div(smooth, beta)
    return emit.select(emit.binary("greater", scaled, threshold), x, smooth)


@operator("gelu")
def gelu(call: Call) -> Value:
    """Convert x times the normal distribution, exact or in the tanh form."""
    return elementary.gelu(call.emit, call.value("self"), call.text("approximate"))


@operator("glu")
def gated(call: Call) -> Value:
    """Convert one half of an axis times the sigmoid of the other."""
    x, emit = call.value("self"), call.emit
    axis = call.axis("dim", x.type.rank)
    half = x.type.shape[axis] // 2
    kept, gate = emit.part(x, axis, 0, half), emit.part(x, axis, half, 2 * half)
    return emit.mul(kept, emit.unary("sigmoid", gate))


@operator("log_sigmoid_forward")
def log_sigmoid(call: Call) -> tuple[Value, Value]:
    """Convert log(sigmoid(x)) = −log(1 + e^(−x)), and what PyTorch keeps for gradients, which is nothing here."""
    x, emit = call.value("self"), call.emit
    return emit.negative(emit.unary("softplus", emit.negative(x))), emit.empty((0,), x.type.dtype)


@operator("threshold")
def threshold(call: Call) -> Value:
    """Convert x, and a number wherever x is not above another."""
    x, emit = call.value("self"), call.emit
    low = emit.binary("less_equal", x, call.number("threshold"))
    return emit.select(low, call.operand("value", x.type.dtype), x)


@operator("celu")
def celu(call: Call) -> Value:
    """Convert x, and alpha · (e^(x / alpha) − 1) below 0."""
    return elementary.celu(call.emit, call.value("self"), float(call.number("alpha")))
