"""Operations that Core ML takes in fewer forms than MIL text, rebuilt in those that it takes.

Source of truth: what coremltools says when it reads a program: parameters of a normalisation have the element type of
what is normalised, the bias of a convolution is constant, every one of several boxes names its image, and what is
chosen has the shape of the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.codegen.mil.forms import made, one
from aneforge.codegen.mlpackage.element_types import with_casts
from aneforge.codegen.mlpackage.products import attention, labelled, matrices
from aneforge.codegen.mlpackage.windows import (
    counted_axis,
    dilated,
    mirrored,
    pooled,
    resized,
    stated_shape,
    stated_slice,
)
from aneforge.errors import NotSupportedError
from aneforge.graph.node import build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.table import ops
from aneforge.ops.types import bits, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.codegen.mil.forms import Operands
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node, Value

__all__ = ["in_package_form"]


def in_package_form(graph: Graph) -> Graph:
    """Return a graph that means the same, in the forms that Core ML takes.

    >>> import aneforge as af
    >>> x, bias = af.input((1, 2, 4, 4)), af.input((3,))
    >>> y = af.conv(x, np.ones((3, 2, 1, 1), np.float16))
    >>> in_package_form(af.Graph({"y": y})) == af.Graph({"y": y})
    True

    Raises:
        NotSupportedError: Core ML has no form of an operation or of a constant.
    """

    def in_form(node: Node, operands: Operands) -> Sequence[Tensor] | None:
        form = FORMS.get(node.op.name)
        return form(node, operands) if form else None

    known = any(node.op.name in FORMS for node in graph.nodes)
    return with_casts(rewrite(graph, in_form) if known else graph)


def over_axes(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Name the axes of a normalisation that is over all of them."""
    if node.attributes["axes"] is not None:
        return alike(node, operands)
    named = replace(node, attributes={**node.attributes, "axes": tuple(range(node.types[0].rank))})
    return alike(named, operands) or [Tensor(build(node.op, dict(operands), named.attributes, node.location))]


def alike(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Bring a normalisation and its parameters to one element type, the widest of them, and the result back."""
    x = one(operands, "x")
    parameters = both_given({name: cast("Constant", value) for name, value in operands.items() if name != "x"})
    dtypes = {x.type.dtype, *(constant.type.dtype for constant in parameters.values())}
    if len(dtypes) == 1 and len(parameters) == len(operands) - 1:
        return None
    widest = max(dtypes, key=bits)
    dtype = widest if sum(bits(one_dtype) == bits(widest) for one_dtype in dtypes) == 1 else "fp32"
    widened: dict[str, Argument | None] = {
        name: Dense.owning(constant.dense().astype(numpy_dtype(dtype))) for name, constant in parameters.items()
    }
    widened["x"] = x if x.type.dtype == dtype else made(node, "cast", {"x": x}, dtype=dtype)
    result = Tensor(build(node.op, widened, node.attributes, node.location))
    return [result if x.type.dtype == dtype else made(node, "cast", {"x": result}, dtype=x.type.dtype)]


def both_given(parameters: dict[str, Constant]) -> dict[str, Constant]:
    """Return parameters with gamma and beta, where one of them is given: the other changes nothing."""
    gamma, beta = parameters.get("gamma"), parameters.get("beta")
    if gamma is not None and beta is None:
        return {**parameters, "beta": Dense.owning(np.zeros(gamma.type.shape, numpy_dtype(gamma.type.dtype)))}
    if beta is not None and gamma is None:
        return {**parameters, "gamma": Dense.owning(np.ones(beta.type.shape, numpy_dtype(beta.type.dtype)))}
    return parameters


def biased(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Add the bias of a convolution behind it, where it is computed."""
    bias = operands.get("bias")
    if bias is None or isinstance(bias, Constant):
        return None
    rest: dict[str, Argument | None] = {name: value for name, value in operands.items() if name != "bias"}
    result = Tensor(build(node.op, rest, node.attributes, node.location))
    shape = (1, result.shape[1], *(1 for _ in result.shape[2:]))
    laid = made(node, "reshape", {"x": cast("Value", bias)}, shape=shape)
    return [made(node, "add", {"x": result, "y": laid})]


def convolved(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Refuse dilations of a convolution with computed weights; a computed bias is added behind it."""
    dilated(node, operands)
    return biased(node, operands)


def dynamic_transpose(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Refuse a transposed convolution with computed weights; the rest is as in any other."""
    if not isinstance(operands["weight"], Constant):
        raise NotSupportedError(
            "Core ML does not take weights that are computed", operation=node.op.name, location=node.location
        )
    return biased(node, operands)


def boxes(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Name the image of every box, where several are cut from an only one."""
    count = one(operands, "boxes").type.shape[0]
    if operands.get("box_indices") is not None or one(operands, "x").type.shape[0] >= count:
        return None
    named: dict[str, Argument | None] = {**operands, "box_indices": Dense.owning(np.zeros(count, np.int32))}
    return [Tensor(build(node.op, named, node.attributes, node.location))]


def sloped(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Rebuild prelu of another rank than 4, for which Core ML takes one slope alone: relu(x) − alpha · relu(−x)."""
    x, alpha = one(operands, "x"), cast("Constant", operands["alpha"])
    if x.type.rank == 4 or x.type.rank < 3:
        return None
    shape = (alpha.type.shape[0], *(1 for _ in x.type.shape[2:]))
    laid = Dense.owning(alpha.dense().astype(numpy_dtype(x.type.dtype)).reshape(shape))
    below = made(node, "relu", {"x": made(node, "muls", {"x": x}, k=-1.0)})
    sloping = made(node, "mul", {"x": below, "y": laid})
    return [made(node, "sub", {"x": made(node, "relu", {"x": x}), "y": sloping})]


def chosen(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Spread what is chosen to the shape of the result, which coremltools takes from a and b and not from cond."""
    a, b = one(operands, "a"), one(operands, "b")
    shape = node.types[0].shape
    if np.broadcast_shapes(a.type.shape, b.type.shape) == shape:
        return None
    own = (*(1,) * (len(shape) - a.type.rank), *a.type.shape)
    raised = (
        Dense.owning(a.dense().reshape(own)) if isinstance(a, Constant) else made(node, "reshape", {"x": a}, shape=own)
    )
    reps = tuple(1 if extent == count else count for count, extent in zip(shape, own, strict=True))
    spread = made(node, "tile", {"x": raised}, reps=reps)
    return [made(node, "select", {"cond": one(operands, "cond"), "a": spread, "b": b})]


def inverse_sinh(node: Node, operands: Operands) -> Sequence[Tensor]:
    """Rebuild asinh, which Core ML has not: by atanh near 0, and by logarithms that nothing overflows beyond 1.

    asinh(a) = atanh(a / √(a² + 1)) = log(a) + log(1 + √(1 + 1/a²)) for a > 0, and asinh(−a) = −asinh(a).
    """
    x = one(operands, "x")
    unit = Dense.owning(np.ones((), numpy_dtype(x.type.dtype)))

    def root_beside_one(value: Value) -> Tensor:
        square = made(node, "mul", {"x": value, "y": value})
        return made(node, "sqrt", {"x": made(node, "add", {"x": square, "y": unit})})

    size = made(node, "abs", {"x": x})
    near, far = (made(node, bound, {"x": size, "y": unit}) for bound in ("minimum", "maximum"))
    inside = made(node, "atanh", {"x": made(node, "real_div", {"x": near, "y": root_beside_one(near)})})
    rest = made(node, "add", {"x": root_beside_one(made(node, "real_div", {"x": unit, "y": far})), "y": unit})
    outside = made(node, "add", {"x": made(node, "log", {"x": far}), "y": made(node, "log", {"x": rest})})
    is_near = made(node, "less", {"x": size, "y": unit})
    result = made(node, "select", {"cond": is_near, "a": inside, "b": outside})
    return [made(node, "mul", {"x": made(node, "sign", {"x": x}), "y": result})]


def refused(reason: str, holds: Callable[[Node], bool]) -> Callable[[Node, Operands], None]:
    """Return the form of an operation that Core ML does not take where something holds."""

    def form(node: Node, _: Operands) -> None:
        if holds(node):
            raise NotSupportedError(
                f"Core ML does not take it {reason}", operation=node.op.name, location=node.location
            )

    return form


def is_always(_: Node) -> bool:
    """Tell that it always holds."""
    return True


def fills_border(node: Node) -> bool:
    """Tell whether an affine transform reads a number beyond the image that is not 0."""
    return node.attributes["padding_mode"] == "constant" and node.attributes["padding_value"] != 0


CONSTEXPR = tuple(name for name in ops() if name.startswith("constexpr_"))
FORMS: dict[str, Callable[[Node, Operands], Sequence[Tensor] | None]] = {
    **dict.fromkeys(CONSTEXPR, refused("as a node: give an encoded constant", is_always)),
    "affine": refused("with another padding value than 0", fills_border),
    "asinh": inverse_sinh,
    "batch_norm": alike,
    **dict.fromkeys(("avg_pool", "l2_pool", "max_pool"), pooled),
    **dict.fromkeys(("conv", "dynamic_conv"), convolved),
    "conv_transpose": dynamic_transpose,
    "crop_resize": boxes,
    "cumsum": counted_axis,
    "einsum": labelled,
    "instance_norm": alike,
    "layer_norm": over_axes,
    "matmul": matrices,
    "pad": mirrored,
    "prelu": sloped,
    "reshape": stated_shape,
    "resize": resized,
    "select": chosen,
    "slice_by_index": stated_slice,
    "sdpa": attention,
}
