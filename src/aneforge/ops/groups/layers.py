"""The compiler's own layers: gain and offset, bypass, broadcast, and elementwise layers with a mode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.arrays import np, numpy_function
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import reshape_along, return_unchanged
from aneforge.ops.common import BRIDGE_F0, LIKELY_BRIDGE_F0, SHAPE
from aneforge.ops.forms import Domain, binary
from aneforge.ops.gradient import through
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support, Surface
from aneforge.ops.results import Movement
from aneforge.ops.sampling import FLOATS, NUMBERS, Chooser, Fill, Sample, draw_shape, draw_type
from aneforge.ops.shapes import broadcast, common_dtype, expect_least_rank, expect_one_each, own_type
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand, OperandKind
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

CATEGORY = Category.LAYER

MODES: dict[str, Callable[[Array, Array], Array]] = {
    "add": numpy_function("add"),
    "sub": numpy_function("subtract"),
    "mul": numpy_function("multiply"),
    "max": numpy_function("maximum"),
    "min": numpy_function("minimum"),
}
SCALED_MODES: dict[str, Callable[[Array, Array], Array]] = {
    "add": numpy_function("add"),
    "mult": numpy_function("multiply"),
    "min": numpy_function("minimum"),
    "max": numpy_function("maximum"),
}


def combined(x: Array, y: Array, *, mode: str) -> Array:
    """Combine pairs of elements as the mode says."""
    return MODES[mode](x, y)


def scaled(x: Array, y: Array, *, mode: str, scale: float) -> Array:
    """Combine pairs of elements and scale; a product is measured not to be scaled."""
    result = SCALED_MODES[mode](x, y)
    return result if mode == "mult" else (scale * result).astype(result.dtype)


def goc_type(x: TensorType, gain: TensorType | None, offset: TensorType | None) -> TensorType:
    """Return the tensor's own type, gain and offset checked: one number per channel, axis 1."""
    expect_least_rank(x, 2, "channels on axis 1")
    if gain is None and offset is None:
        raise GraphError("there is neither gain nor offset", remedy="give one of them")
    common_dtype(x, gain, offset)
    expect_one_each(gain, x.shape[1], "channel of x", "gain")
    expect_one_each(offset, x.shape[1], "channel of x", "offset")
    return x


def apply_gain(x: Array, gain: Array | None, offset: Array | None) -> Array:
    """Multiply every channel by its gain and add its offset."""
    result = x if gain is None else x * reshape_along(gain, x.ndim)
    return result if offset is None else result + reshape_along(offset, x.ndim)


def broadcast_type(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    """Return the type of the given shape, to which the tensor must broadcast."""
    wanted = x.with_shape(*shape)
    if broadcast(x, wanted) != shape:
        raise GraphError("the tensor does not broadcast to the shape", seen=list(x.shape), limit=list(shape))
    return wanted


def repeated(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Repeat the tensor along its axes of length 1 and along new leading ones."""
    return np.broadcast_to(x, shape).copy()


def draw_mode(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a mode."""
    return {"mode": chooser.choose(list(MODES))}


def draw_scaled_mode(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a mode and a scale."""
    return {"mode": chooser.choose(list(SCALED_MODES)), "scale": chooser.choose([1.0, 0.5, -2.0])}


def sample_goc(chooser: Chooser) -> Sample:
    """Draw a tensor with a gain and an offset per channel."""
    x = draw_type(chooser, FLOATS, 2, 5, longest=4)
    channels = Fill(x.with_shape(x.shape[1]))
    return Sample({"x": Fill(x), "gain": channels, "offset": channels})


def sample_dynamic_goc(chooser: Chooser) -> Sample:
    """Draw a tensor with a gain, an offset, or both."""
    drawn = dict(sample_goc(chooser).operands)
    left_out = chooser.choose(["gain", "offset", None])
    return Sample({name: None if name == left_out else fill for name, fill in drawn.items()})


def sample_bypass(chooser: Chooser) -> Sample:
    """Draw a tensor."""
    return Sample({"x": Fill(draw_type(chooser, NUMBERS))})


def sample_broadcast(chooser: Chooser) -> Sample:
    """Draw a shape and a tensor that broadcasts to it."""
    wanted = draw_shape(chooser)
    cut = chooser.integer(0, len(wanted))
    given = tuple(chooser.choose([extent, 1]) for extent in wanted[cut:])
    return Sample({"x": Fill(TensorType(given, chooser.choose(NUMBERS)))}, {"shape": wanted})


PE_ELEMENTWISE = binary(
    "pe_elementwise",
    CATEGORY,
    "x + y, x − y, x · y, or the larger or smaller of both, as the mode says",
    combined,
    attributes=(Attribute("mode", AttributeKind.TEXT, "add", choices=tuple(MODES)),),
    domain=Domain(attributes=draw_mode),
    decompositions=lambda: (decompositions.activations.NAMED_PAIR,),
    in_mil=True,
    gradient=lambda: through("named", "that of the mode's operation"),
)
PE_GOC = Op(
    name="pe_goc",
    category=CATEGORY,
    summary="gain · x + offset, one of each per channel",
    operands=(Operand("x"), Operand("gain", OperandKind.CONSTANT), Operand("offset", OperandKind.CONSTANT)),
    infer=goc_type,
    meaning=apply_gain,
    sample=sample_goc,
    support=BRIDGE_F0,
    decompositions=lambda: (decompositions.activations.PLANAR_GAIN,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.GOC,
)
NE_BYPASS = Op(
    name="ne_bypass",
    category=CATEGORY,
    summary="x",
    operands=(Operand("x"),),
    infer=own_type,
    meaning=return_unchanged,
    sample=sample_bypass,
    movement=Movement(),
    support=LIKELY_BRIDGE_F0,
    in_mil=True,
    gradient=lambda: gradients.pointwise.UNCHANGED,
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
    meaning=apply_gain,
    sample=sample_dynamic_goc,
    in_mil=False,
    support=replace(LIKELY_BRIDGE_F0, gate="dynamic_gain_offset"),
    catalogued=False,
    gradient=lambda: gradients.pointwise.GOC,
)
BROADCAST = Op(
    name="broadcast",
    category=Category.STRUCTURAL,
    summary="x repeated to a shape",
    operands=(Operand("x"),),
    attributes=(SHAPE,),
    infer=broadcast_type,
    meaning=repeated,
    sample=sample_broadcast,
    movement=Movement(),
    in_mil=False,
    support=Support(floor=0, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.INTERNAL),
    decompositions=lambda: (decompositions.movement.REPEATED_BY_TILE,),
    catalogued=False,
    gradient=lambda: gradients.moving.SPREAD,
)
SCALED_ELEMENTWISE = binary(
    "scaled_elementwise",
    CATEGORY,
    "scale · (x + y), or scale · the smaller or larger (inferred: no source says where the scale applies); "
    "mult is x · y, which was seen not to be scaled",
    scaled,
    attributes=(
        Attribute("mode", AttributeKind.TEXT, "add", choices=tuple(SCALED_MODES)),
        Attribute("scale", AttributeKind.NUMBER, 1.0, finite=True),
    ),
    domain=Domain(attributes=draw_scaled_mode),
    dtypes=FLOATS,
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=LIKELY_BRIDGE_F0,
    catalogued=False,
    gradient=lambda: gradients.pointwise.SCALED_PAIR,
)
