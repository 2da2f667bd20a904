"""The compiler's own layers: gain and offset, bypass, broadcast, and elementwise layers with a mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.op import Basis, MilStatus, Op, Support, Surface
from aneforge.ops.sampling import Chooser, Fill, Sample, broadcast_pair, shape
from aneforge.ops.shapes import broadcast, common_dtype
from aneforge.ops.signature import Attribute, AttributeKind, Operand, OperandKind
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

CATEGORY = "convolution, matmul and pooling"
ANY_NUMBER = ("fp16", "fp32", "int32")
BRIDGE = MilStatus.BRIDGE

MODES: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
SCALED_MODES: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "mult": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def pair_type(x: TensorType, y: TensorType, **_: object) -> TensorType:
    """Return the type to which a pair broadcasts."""
    return TensorType(broadcast(x, y), common_dtype(x, y))


def combined(x: Array, y: Array, *, mode: str) -> Array:
    """Combine pairs of elements as the mode says."""
    return MODES[mode](x, y)


def scaled(x: Array, y: Array, *, mode: str, scale: float) -> Array:
    """Combine pairs of elements and scale; a product is measured not to be scaled."""
    result = SCALED_MODES[mode](x, y)
    return result if mode == "mult" else (scale * result).astype(result.dtype)


def goc_type(x: TensorType, gain: TensorType | None, offset: TensorType | None) -> TensorType:
    """Return the tensor's own type, gain and offset checked: one number per channel, axis 1."""
    if x.rank < 2:
        raise GraphError(f"x of shape {list(x.shape)} has no channels", seen=x.rank, limit="rank 2 or more")
    if gain is None and offset is None:
        raise GraphError("there is neither gain nor offset", remedy="give one of them")
    for what, part in (("gain", gain), ("offset", offset)):
        if part is None:
            continue
        common_dtype(x, part)
        if part.shape != (x.shape[1],):
            raise GraphError(f"the {what} does not fit the channels", seen=list(part.shape), limit=f"[{x.shape[1]}]")
    return x


def gained(x: Array, gain: Array | None, offset: Array | None) -> Array:
    """Multiply every channel by its gain and add its offset."""
    along = [1, -1, *[1] * (x.ndim - 2)]
    result = x if gain is None else x * gain.reshape(along)
    return result if offset is None else result + offset.reshape(along)


def own_type(x: TensorType) -> TensorType:
    """Return the tensor's own type."""
    return x


def bypassed(x: Array) -> Array:
    """Return the tensor as it is."""
    return x


def broadcast_type(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    """Return the type of the given shape, to which the tensor must broadcast."""
    wanted = x.with_shape(*shape)
    if broadcast(x, wanted) != shape:
        raise GraphError("the tensor does not broadcast to the shape", seen=list(x.shape), limit=list(shape))
    return wanted


def repeated(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Repeat the tensor along its axes of length 1 and along new leading ones."""
    return np.broadcast_to(x, shape).copy()


def sample_pair(chooser: Chooser, dtypes: tuple[str, ...] = ANY_NUMBER) -> dict[str, Fill]:
    """Draw a pair that broadcasts."""
    dtype = chooser.choose(dtypes)
    return {name: Fill(TensorType(one, dtype)) for name, one in zip("xy", broadcast_pair(chooser), strict=True)}


def sample_elementwise(chooser: Chooser) -> Sample:
    """Draw a pair and a mode."""
    return Sample(sample_pair(chooser), {"mode": chooser.choose(list(MODES))})


def sample_scaled(chooser: Chooser) -> Sample:
    """Draw a pair, a mode and a scale."""
    mode = chooser.choose(list(SCALED_MODES))
    return Sample(sample_pair(chooser, ("fp16", "fp32")), {"mode": mode, "scale": chooser.choose([1.0, 0.5, -2.0])})


def sample_goc(chooser: Chooser) -> Sample:
    """Draw a tensor with a gain and an offset per channel."""
    x = TensorType(shape(chooser, 2, 5, longest=4), chooser.choose(["fp16", "fp32"]))
    channels = Fill(x.with_shape(x.shape[1]))
    return Sample({"x": Fill(x), "gain": channels, "offset": channels})


def sample_dynamic_goc(chooser: Chooser) -> Sample:
    """Draw a tensor with a gain, an offset, or both."""
    drawn = dict(sample_goc(chooser).operands)
    left_out = chooser.choose(["gain", "offset", None])
    return Sample({name: None if name == left_out else fill for name, fill in drawn.items()})


def sample_bypass(chooser: Chooser) -> Sample:
    """Draw a tensor."""
    return Sample({"x": Fill(TensorType(shape(chooser), chooser.choose(ANY_NUMBER)))})


def sample_broadcast(chooser: Chooser) -> Sample:
    """Draw a shape and a tensor that broadcasts to it."""
    wanted = shape(chooser)
    cut = chooser.integer(0, len(wanted))
    given = tuple(chooser.choose([extent, 1]) for extent in wanted[cut:])
    return Sample({"x": Fill(TensorType(given, chooser.choose(ANY_NUMBER)))}, {"shape": wanted})


PE_ELEMENTWISE = Op(
    name="pe_elementwise",
    category=CATEGORY,
    summary="x + y, x − y, x · y, or the larger or smaller of both, as the mode says",
    operands=(Operand("x"), Operand("y")),
    attributes=(Attribute("mode", AttributeKind.TEXT, "add", choices=tuple(MODES)),),
    infer=pair_type,
    meaning=combined,
    sample=sample_elementwise,
)
PE_GOC = Op(
    name="pe_goc",
    category=CATEGORY,
    summary="gain · x + offset, one of each per channel",
    operands=(Operand("x"), Operand("gain", OperandKind.CONSTANT), Operand("offset", OperandKind.CONSTANT)),
    infer=goc_type,
    meaning=gained,
    sample=sample_goc,
    support=Support(floor=0, mil_since=None, mil_otherwise=BRIDGE),
)
NE_BYPASS = Op(
    name="ne_bypass",
    category=CATEGORY,
    summary="x",
    operands=(Operand("x"),),
    infer=own_type,
    meaning=bypassed,
    sample=sample_bypass,
    support=Support(floor=0, basis=Basis.LIKELY, mil_since=None, mil_otherwise=BRIDGE),
)
DYNAMIC_GOC = Op(
    name="dynamic_goc",
    category=CATEGORY,
    summary="gain · x + offset, one of each per channel, both computed at run time and one of them optional",
    operands=(
        Operand("x"),
        Operand("gain", OperandKind.TENSOR, optional=True),
        Operand("offset", OperandKind.TENSOR, optional=True),
    ),
    infer=goc_type,
    meaning=gained,
    sample=sample_dynamic_goc,
    support=Support(floor=0, gate="dynamic_gain_offset", basis=Basis.LIKELY, mil_since=None, mil_otherwise=BRIDGE),
    catalogued=False,
)
BROADCAST = Op(
    name="broadcast",
    category="structural",
    summary="x repeated to a shape",
    operands=(Operand("x"),),
    attributes=(Attribute("shape", AttributeKind.INTEGERS, least=0),),
    infer=broadcast_type,
    meaning=repeated,
    sample=sample_broadcast,
    support=Support(floor=0, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.INTERNAL),
    catalogued=False,
)
SCALED_ELEMENTWISE = Op(
    name="scaled_elementwise",
    category=CATEGORY,
    summary="scale · (x + y), or scale · the smaller or larger (inferred: no source says where the scale applies); "
    "mult is x · y, which was seen not to be scaled",
    operands=(Operand("x"), Operand("y")),
    attributes=(
        Attribute("mode", AttributeKind.TEXT, "add", choices=tuple(SCALED_MODES)),
        Attribute("scale", AttributeKind.NUMBER, 1.0),
    ),
    infer=pair_type,
    meaning=scaled,
    sample=sample_scaled,
    surface=Surface.NATIVE_LAYER,
    support=Support(floor=0, basis=Basis.LIKELY, mil_since=None, mil_otherwise=BRIDGE),
    catalogued=False,
)
