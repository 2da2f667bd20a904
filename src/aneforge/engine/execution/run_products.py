"""Products: convolutions, deconvolutions and matrix products with what is directly after their sums.

An offset alone directly after a product is where its sum starts (measured). A gain there works on the sum before it is
rounded. After anything else gain and offset work on fp16.

The form of a convolution is the compiler's choice (`winograd` among the layer's choices); where a program was not made
legal and holds none, the target's data and the shapes choose. int8 weights enter as the fp16 numbers that they stand
for, whether they stream or fold; the activations that meet them where they stream pass the times-16 encoding
(`engine.quantised`). Where they fold, the program holds dense fp16 and nothing of int8 is left (conflict S44).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np

from aneforge.compiler.affine import Affine, affine_of_stage
from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.ir.kind import Slot
from aneforge.engine import kernels
from aneforge.engine.choices import doubts_of, switch
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.execution.epilogue import ONE_ROUNDING, Exact, along
from aneforge.engine.planar import read
from aneforge.engine.products import convolution_by, form_of, matmul_by, matrices, transposed_window, window_of
from aneforge.engine.quantised import meeting_int8
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float
from aneforge.ops.windows import ConvAttributes, TransposeAttributes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.engine.kernels.codes import Coded
    from aneforge.engine.kernels.prepared import After, Run, Seen, Through
    from aneforge.engine.products import Products
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Weights = Array | Coded

__all__ = ["PRODUCT_KINDS", "Product", "convolution_form", "encodes_activations", "is_product", "product_of"]

PRODUCT_KINDS = frozenset(kind.name for kind in kinds().values() if kind.product is not None)
MATRIX_PRODUCTS = frozenset({"linear", "matmul"})
CONVOLUTIONS = frozenset({"conv", "conv_transpose"})
MATRIX = 2
"""The rank of a weight that several rows meet."""
CHANNELS = 1
"""The axis of channels."""
FOLDED_INT8 = "int8"
"""The encoding of `Int8Affine`, as the compiler notes it where weights fold."""
INT8_WEIGHTS = "int8 weights enter as fp16 numbers, and activations are assumed to pass the times-16 encoding"
COMPUTED_KERNEL = (
    "published figures of convolutions are for constant kernels; a computed one is assumed to have the same sums"
)
REBUILT_WINDOW = (
    "assumed: this form of a convolution or resize that the program requires; published figures are for convolutions "
    "that have the form from the beginning"
)
INT8_FOLDED = "int8 weights were folded to dense fp16, and activations are assumed to pass no encoding (conflict S44)"


@dataclass(frozen=True)
class Product:
    """A product, and what is directly after its sum."""

    layer: Layer
    call: Call
    affine: Affine
    """Gain and offset directly after the sum."""
    stages: tuple[tuple[Slot, Stage], ...]
    """The slots that are left."""
    labels: tuple[Label, ...]
    form: str
    """The form of a convolution; empty for other products."""
    crops: bool
    """Its activations pass the times-16 encoding."""

    @cached_property
    def exact(self) -> Exact | None:
        """Gain and offset as one rounding with the sum; None where there is no gain: sums start at the offset."""
        return Exact.of(self.affine, self.layer.core_types[0].rank) if self.affine.gain is not None else None

    @cached_property
    def start(self) -> Array | None:
        """Where sums start."""
        if self.affine.gain is not None:
            return None
        laid = along(self.affine.offset, self.layer.core_types[0].rank, self.affine.axis)
        return None if laid is None else read(laid)

    @property
    def winograd(self) -> bool:
        """It is a convolution in Winograd's form."""
        return self.form == "winograd"

    @property
    def takes_codes(self) -> bool:
        """Its second operand may be weights in codes."""
        _, (_, weight) = self.layer.refs()
        shape = weight.type.shape
        if self.call.op in MATRIX_PRODUCTS:
            return len(shape) == MATRIX
        return self.form in {"direct", "winograd"} and shape[CHANNELS] > 1  # channels by themselves have few weights

    def multiplication(self) -> Callable[[Array, Weights], Array]:
        """Return the function that multiplies and rounds to fp16, gain and offset directly after it included."""
        exact = self.exact
        products = kernels.operations.PRODUCTS if exact is None else kernels.operations.TOTALS
        fused = self.form in {"direct", "winograd"} and not self.crops and follows_channels(self.affine)
        if fused and exact is not None and exact.gain is not None:
            outer = self.layer.core_types[0].shape[1]
            gain, offset = for_channels(exact.gain, outer), for_channels(exact.offset, outer)
            products, exact = kernels.operations.convolve_with_gain(gain, offset), None
        sums = sums_of(self.layer, self.call, self.form, self.start, products)

        sum_up = sums_by_codes(self.call, self.start, sums, totals=exact is not None)

        def multiply(x: Array, weight: Weights) -> Array:
            found = meeting_int8(sum_up, x, weight) if self.crops else sum_up(x, weight)
            return found if exact is None else exact(found)

        return multiply

    def ready(self, order: tuple[int, ...] | None) -> Run | None:
        """Return the product in one call of the kernels, in an order of axes; None where it takes several."""
        affine, exact = self.affine, self.exact
        if self.crops or (self.call.op == "conv" and not follows_channels(affine)):
            return None
        gain, offset = (None, None) if exact is None else (exact.gain, exact.offset)
        after = kernels.prepared.After(self.start, gain, offset, order)
        (_, first), (_, second) = self.layer.refs()
        x, weight, shape = first.type.shape, second.type.shape, self.layer.core_types[0].shape
        if self.call.op == "conv" and self.form in {"direct", "winograd"}:
            attributes = self.call.attributes_as(ConvAttributes)
            window = window_of(x[2:], weight[2:], attributes)
            return kernels.prepared.ready_convolution(x, weight, window, after, winograd=self.winograd)
        single = all(one is None or one.size == 1 for one in (self.start, gain, offset))
        if self.call.op == "linear" and not single:
            return ready_linear(x, weight, after)
        # Rows of several matrices that meet one weight are better one product with more rows.
        ranks = (2,) if self.call.op == "linear" else range(2, len(shape) + 1)
        if self.call.op not in MATRIX_PRODUCTS or not single or len(x) not in ranks or len(weight) < 2:
            return None
        flags = turned_operands(self.call)
        multiply = kernels.prepared.ready_matmul(shape, x[-2 if flags["transpose_x"] else -1], after)
        if multiply is None:
            return None

        def run(left: Array, right: Weights, through: Through) -> tuple[Array, Seen]:
            return multiply(*turn(left, right, flags), through)

        return run


def ready_linear(x: tuple[int, ...], weight: tuple[int, ...], after: After) -> Run | None:
    """Return rows times a weight with a number for each output: those are the rows of the product turned round."""
    if len(x) != 2 or after.order is not None:
        return None
    turned = replace(after, order=(1, 0))
    multiply = kernels.prepared.ready_matmul((weight[0], x[0]), x[1], turned)
    if multiply is None:
        return None

    def run(rows: Array, matrix: Weights, through: Through) -> tuple[Array, Seen]:
        return multiply(matrix, rows.T, through)

    return run


class Turned(TypedDict):
    """Which operands of a matrix product are transposed."""

    transpose_x: bool
    transpose_y: bool


def turned_operands(call: Call) -> Turned:
    """Return which operands of a matrix product are transposed."""
    if call.op == "linear":
        return Turned(transpose_x=False, transpose_y=True)
    return Turned(transpose_x=call.flag("transpose_x"), transpose_y=call.flag("transpose_y"))


def turn(left: Array, right: Weights, flags: Turned) -> tuple[Array, Weights]:
    """Return the operands of a matrix product as matrices."""
    if not isinstance(right, kernels.codes.Coded):
        return matrices(left, right, **flags)
    return matrices(left, right.seen, **flags)[0], right.T if flags["transpose_y"] else right


def sums_by_codes(
    call: Call, start: Array | None, sums: Callable[[Array, Array], Array], *, totals: bool
) -> Callable[[Array, Weights], Array]:
    """Return the function that multiplies as `sums` does, and by weights in codes, which matrices take as they are."""
    if call.op not in MATRIX_PRODUCTS:
        return lambda x, weight: sums(x, np.asarray(weight))
    flags, multiply = turned_operands(call), kernels.matmul.matmul_total if totals else kernels.matmul.matmul

    def sum_up(x: Array, weight: Weights) -> Array:
        if not isinstance(weight, kernels.codes.Coded):
            return sums(x, weight)
        found = multiply(*turn(x, weight, flags), start)
        return found[..., 0, :] if x.ndim == 1 else found

    return sum_up


def is_product(layer: Layer) -> bool:
    """Return whether a layer is a product of two operands of real numbers; a bias among them has no slot after it."""
    return layer.kind.name in PRODUCT_KINDS and len(layer.operands) == 2 and is_float(layer.core_types[0].dtype)


def product_of(layer: Layer, call: Call, target: Target) -> Product:
    """Return the product of a layer with what is directly after its sum."""
    stages, rank = layer.epilogue.stages, layer.core_types[0].rank
    affine = Affine(None, None, 0)
    if stages and stages[0][0] is Slot.GAIN_OFFSET:
        affine, stages = affine_of_stage(stages[0][1], rank), stages[1:]
    form = convolution_form(layer, call, target) if call.op == "conv" else ""
    crops = encodes_activations(layer, target)
    labels = [] if affine.gain is None else [Label(Exactness.MODELLED, ONE_ROUNDING)]
    if crops:
        labels.append(Label(Exactness.MODELLED, INT8_WEIGHTS))
    elif layer.choices.get("encoding") == FOLDED_INT8:
        labels.append(Label(Exactness.MODELLED, INT8_FOLDED))
    if "rebuilt" in layer.choices:
        labels.append(Label(Exactness.MODELLED, REBUILT_WINDOW))
    if affine.gain is None and affine.offset is not None:
        labels += doubts_of("bias_starts_sum", target)
    if call.op in CONVOLUTIONS and not isinstance(layer.operand("weights"), Constant):
        labels.append(Label(Exactness.MODELLED, COMPUTED_KERNEL))
    if form and form != form_by_shape(layer, call, target):
        labels.append(Label(Exactness.MODELLED, f"the compiler chose the {form} form; not measured here"))
    return Product(layer, call, affine, stages, tuple(labels), form, crops)


def follows_channels(affine: Affine) -> bool:
    """Return whether gain and offset are one number each, or one for every channel."""
    return not affine.vector or affine.axis == CHANNELS


@overload
def for_channels(values: Array, channels: int) -> Array: ...
@overload
def for_channels(values: Array | None, channels: int) -> Array | None: ...
def for_channels(values: Array | None, channels: int) -> Array | None:
    """Return a number for every output channel."""
    return None if values is None else np.ascontiguousarray(np.broadcast_to(values.ravel(), (channels,)))


def encodes_activations(layer: Layer, target: Target) -> bool:
    """Return whether a product has int8 weights whose activations pass the times-16 encoding; folded ones are fp16."""
    held = any(constant.encoding == FOLDED_INT8 for _, constant in layer.constants())
    return held and bool(switch(target, "int8_weight_activation_x16"))


def convolution_form(layer: Layer, call: Call, target: Target) -> str:
    """Return the form of a convolution: direct, winograd or scaling."""
    form = form_by_shape(layer, call, target)
    chosen = layer.choices.get("winograd")
    if chosen in (None, "unknown") or form == "scaling":
        return form
    return "winograd" if chosen is True else "direct"


def form_by_shape(layer: Layer, call: Call, target: Target) -> str:
    """Return the form of a convolution that the target's data and the shapes choose."""
    x, weight = (layer.operand(name).type.shape for name in ("input", "weights"))
    return form_of(x, weight, call.attributes_as(ConvAttributes), target)


def sums_of(
    layer: Layer, call: Call, form: str, start: Array | None, products: Products
) -> Callable[[Array, Array], Array]:
    """Return the function that multiplies; its sums start at `start`: a number for every output channel, or for all."""
    (_, first), (_, second) = layer.refs()
    x, weight = first.type.shape, second.type.shape
    outer = layer.core_types[0].shape[1] if layer.core_types[0].rank > 1 else 1
    convolves = call.op in CONVOLUTIONS
    channels = for_channels(start, outer) if convolves else None
    match call.op:
        case "conv":
            attributes = call.attributes_as(ConvAttributes)
            convolve = convolution_by(form, x, weight, attributes, products)
            return lambda images, kernels: convolve(images, kernels, channels)
        case "conv_transpose":
            extents, window = transposed_window(x, weight, call.attributes_as(TransposeAttributes))
            return lambda images, kernels: products.deconvolution(images, kernels, channels, extents=extents, **window)
        case _:
            flags, matmul = turned_operands(call), matmul_by(products)
            return lambda left, right: matmul(left, right, start, **flags)
