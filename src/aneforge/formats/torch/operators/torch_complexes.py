"""Complex numbers as pairs of real tensors.

They come of a Fourier transform, of parts that are put together, or of weights such as the angles of rotary embeddings;
and they end where magnitudes, angles or parts are taken. Inputs and outputs of a graph are real.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.torch.dtypes import part_type
from aneforge.formats.torch.registry import complex_operator, converter_of
from aneforge.formats.torch.torch_values import Complex, is_number

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from aneforge.formats.torch.call import Call
    from aneforge.formats.torch.torch_values import Held, Number
    from aneforge.graph.node import Value
    from aneforge.ops.constant import Constant

MOVING = (
    "alias", "as_strided", "clone", "contiguous", "cumsum", "detach", "diagonal", "expand", "flip", "gather", "index",
    "index_select", "lift_fresh_copy", "mean", "narrow", "neg", "_neg_view", "permute", "repeat", "reshape", "roll",
    "select", "slice", "split", "split_with_sizes", "squeeze", "sum", "t", "transpose", "tril", "triu", "unbind",
    "unfold", "unsqueeze", "view", "_unsafe_index", "_unsafe_view", "_reshape_alias", "resolve_conj", "resolve_neg",
    "positive",
)  # fmt: skip
"""Operators that do with either part what they do with real numbers."""
JOINING = {
    "add": ("self", "other"),
    "sub": ("self", "other"),
    "cat": ("tensors",),
    "stack": ("tensors",),
    "copy": ("self", "src"),
    "masked_fill": ("self", "value"),
    "select_scatter": ("self", "src"),
    "slice_scatter": ("self", "src"),
    "where": ("self", "other"),
}
"""Operators that do so, and have arguments that may be real next to others that are not."""
FILLING = {"constant_pad_nd": "value", "full": "fill_value", "full_like": "fill_value", "new_full": "fill_value"}
"""Operators that do so, and take a number."""
MAKING = ("zeros", "ones", "zeros_like", "ones_like", "new_zeros", "new_ones")
PRODUCTS = {"mm": "mat2", "bmm": "mat2", "matmul": "other", "mv": "vec", "dot": "tensor"}
"""Products of matrices and vectors, and the names of their second operands."""


# Parts.


@complex_operator(*MOVING)
def moved(call: Call) -> Held:
    """Convert an operator that does with either part what it does with real numbers."""
    return join(by_part(call, real_of), by_part(call, imaginary_of))


@complex_operator(*JOINING)
def together(call: Call) -> Held:
    """Convert an operator that puts complex numbers together with others, which may be real."""
    names = JOINING[call.operator]
    if isinstance(call.arguments.get("alpha"), Complex):
        raise UnsupportedNodeError(Reason.DTYPE, "its factor is complex")
    arguments = {name: widen(call, held) if name in names else held for name, held in call.arguments.items()}
    whole = replace(call, arguments=arguments)
    return join(by_part(whole, real_of), by_part(whole, imaginary_of))


@complex_operator(*FILLING)
def filled(call: Call) -> Held:
    """Convert an operator that fills places with a number: each part has its own."""
    name = FILLING[call.operator]
    number = call.arguments.get(name)
    pair = (number, 0.0)
    if isinstance(number, Complex):
        pair = tuple(cast("Constant", one).dense().item() for one in (number.real, number.imaginary))
    real, imaginary = (replace(call, arguments={**call.arguments, name: one}) for one in pair)
    return join(by_part(real, real_of), by_part(imaginary, imaginary_of))


@complex_operator(*MAKING)
def build_complex(call: Call) -> Held:
    """Convert a tensor of zeros or ones."""
    real = by_part(call, real_of)
    return join(real, call.emit.mul(cast("Value", real), 0.0))


def by_part(call: Call, part: Callable[[Held], Held]) -> Held:
    """Return what an operator makes of one part of its arguments."""
    convert = converter_of(call.operator, call.form)
    if convert is None:
        raise UnsupportedNodeError(Reason.FORM, "the op table has no form of it")
    arguments = {
        name: tuple(map(part, held)) if isinstance(held, tuple) else part(held) for name, held in call.arguments.items()
    }
    types = tuple(None if one is None else real_type(one) for one in call.result_types)
    return convert(replace(call, arguments=arguments, result_types=types))


def real_type(dtype: torch.dtype) -> torch.dtype:
    """Return the element type of the parts of complex numbers; that of others is their own."""
    return dtype.to_real() if dtype.is_complex else dtype


def real_of(held: Held) -> Held:
    """Return the real part of complex numbers, and anything else as it is."""
    return held.real if isinstance(held, Complex) else held


def imaginary_of(held: Held) -> Held:
    """Return the imaginary part of complex numbers, and anything else as it is."""
    return held.imaginary if isinstance(held, Complex) else held


def join(real: Held, imaginary: Held) -> Held:
    """Return two parts, or two lists of them, as complex numbers."""
    if isinstance(real, tuple) and isinstance(imaginary, tuple):
        return tuple(join(one, other) for one, other in zip(real, imaginary, strict=True))
    return Complex(cast("Value", real), cast("Value", imaginary))


def widen(call: Call, held: Held) -> Held:
    """Return numbers as complex ones, lists entry by entry."""
    if isinstance(held, tuple):
        return tuple(widen(call, one) for one in held)
    if held is None or isinstance(held, Complex):
        return held
    if is_number(held):
        made_real = call.emit.constant(held, part_type(cast("torch.dtype", call.result_types[0])))
        return Complex(made_real, call.emit.constant(0, made_real.type.dtype))
    value = cast("Value", held)
    return Complex(value, call.emit.filled(value.type.shape, 0, value.type.dtype))


def parts_in(call: Call, held: Held, dtype: str) -> Complex:
    """Return numbers as complex ones whose parts have an element type; the imaginary part of real ones is one 0."""
    if isinstance(held, Complex):
        return Complex(call.emit.cast(held.real, dtype), call.emit.cast(held.imaginary, dtype))
    zero = call.emit.constant(0, dtype)
    if is_number(held):
        return Complex(call.emit.constant(held, dtype), zero)
    return Complex(call.emit.cast(cast("Value", held), dtype), zero)


def complex_of(call: Call, name: str) -> Complex:
    """Return an argument as complex numbers."""
    found = widen(call, call.arguments.get(name))
    if isinstance(found, Complex):
        return found
    raise GraphError(f"argument {name!r} holds no numbers")


# Making and taking apart.


@complex_operator("view_as_complex")
def complex_from_pairs(call: Call) -> Held:
    """Convert pairs along the last axis made complex numbers."""
    x, emit = call.value("self"), call.emit
    return Complex(emit.at(x, -1, 0), emit.at(x, -1, 1))


@complex_operator("view_as_real", "view_as_real_copy")
def complex_as_pairs(call: Call) -> Held:
    """Convert complex numbers made pairs along a last axis."""
    x, emit = complex_of(call, "self"), call.emit
    return emit.concat([emit.expand(x.real, -1), emit.expand(x.imaginary, -1)], -1)


@complex_operator("complex")
def complex_from_parts(call: Call) -> Held:
    """Convert two real tensors made one."""
    real, imaginary, emit = call.value("real"), call.value("imag"), call.emit
    shape = np.broadcast_shapes(real.type.shape, imaginary.type.shape)
    return Complex(emit.spread(real, shape), emit.spread(imaginary, shape))


@complex_operator("polar")
def polar(call: Call) -> Held:
    """Convert lengths and angles made complex numbers."""
    length, angle, emit = call.value("abs"), call.value("angle"), call.emit
    return Complex(emit.mul(length, emit.unary("cos", angle)), emit.mul(length, emit.unary("sin", angle)))


@complex_operator("real")
def real_part(call: Call) -> Held:
    """Convert the real part."""
    return complex_of(call, "self").real


@complex_operator("imag")
def imaginary_part(call: Call) -> Held:
    """Convert the imaginary part."""
    return complex_of(call, "self").imaginary


@complex_operator("_to_copy", "to", "convert_element_type")
def cast_parts(call: Call) -> Held:
    """Convert a change of element type; of complex numbers made real ones the real part stays."""
    name = "self" if call.has("self") else "a"
    x, wanted = complex_of(call, name), cast("torch.dtype", call.result_types[0])
    dtype, emit = part_type(wanted), call.emit
    real = emit.cast(x.real, dtype)
    return Complex(real, emit.cast(x.imaginary, dtype)) if wanted.is_complex else real


@complex_operator("conj", "_conj", "conj_physical", "_conj_physical")
def conjugate(call: Call) -> Held:
    """Convert the mirroring at the real axis."""
    x = complex_of(call, "self")
    return Complex(x.real, call.emit.negative(x.imaginary))


@complex_operator("abs")
def length(call: Call) -> Held:
    """Convert the distance from zero."""
    return call.emit.unary("sqrt", squared_length(call, complex_of(call, "self")))


def squared_length(call: Call, x: Complex) -> Value:
    """Return the square of the distance from zero."""
    return call.emit.add(call.emit.unary("square", x.real), call.emit.unary("square", x.imaginary))


@complex_operator("angle")
def angle(call: Call) -> Held:
    """Convert the angle to the real axis."""
    x, convert = complex_of(call, "self"), converter_of("atan2", "default")
    assert convert is not None  # noqa: S101 - it is one of ours
    return convert(replace(call, operator="atan2", arguments={"self": x.imaginary, "other": x.real}))


# Arithmetic.


@complex_operator("mul")
def product(call: Call) -> Held:
    """Convert a product; a real factor scales both parts."""
    for one, other in (("self", "other"), ("other", "self")):
        factor = call.arguments[other]
        if not isinstance(factor, Complex):
            x = complex_of(call, one)
            return Complex(scale(call, x.real, factor), scale(call, x.imaginary, factor))
    return multiply_complex(call, complex_of(call, "self"), complex_of(call, "other"))


def scale(call: Call, x: Value, factor: Held) -> Value:
    """Return a part times a real tensor or number."""
    dtype = part_type(cast("torch.dtype", call.result_types[0]))
    x = call.emit.cast(x, dtype)
    if is_number(factor):
        return call.emit.mul(x, float(cast("Number", factor)))
    return call.emit.mul(x, call.emit.cast(cast("Value", factor), dtype))


def multiply_complex(call: Call, x: Complex, y: Complex) -> Complex:
    """Return the product of complex numbers."""
    dtype, emit = part_type(cast("torch.dtype", call.result_types[0])), call.emit
    a, b, c, d = (emit.cast(one, dtype) for one in (x.real, x.imaginary, y.real, y.imaginary))
    return Complex(emit.sub(emit.mul(a, c), emit.mul(b, d)), emit.add(emit.mul(a, d), emit.mul(b, c)))


@complex_operator("div", "true_divide")
def quotient(call: Call) -> Held:
    """Convert a quotient: by the conjugate over the square of the length."""
    emit, divisor = call.emit, call.arguments["other"]
    x = complex_of(call, "self")
    if isinstance(divisor, Complex):
        return divide(call, x, divisor)
    dtype = part_type(cast("torch.dtype", call.result_types[0]))
    under = divisor if is_number(divisor) else emit.cast(cast("Value", divisor), dtype)
    real, imaginary = (emit.div(emit.cast(one, dtype), cast("Value", under)) for one in (x.real, x.imaginary))
    return Complex(real, imaginary)


@complex_operator("reciprocal")
def reciprocal(call: Call) -> Held:
    """Convert one over complex numbers."""
    x = complex_of(call, "self")
    one = call.emit.constant(1, x.real.type.dtype)
    return divide(call, Complex(one, call.emit.constant(0, x.real.type.dtype)), x)


def divide(call: Call, x: Complex, y: Complex) -> Complex:
    """Return a quotient of complex numbers."""
    emit = call.emit
    raised = multiply_complex(call, x, Complex(y.real, emit.negative(y.imaginary)))
    under = emit.cast(squared_length(call, y), raised.real.type.dtype)
    return Complex(emit.div(raised.real, under), emit.div(raised.imaginary, under))


@complex_operator("exp")
def exponential(call: Call) -> Held:
    """Convert the exponential function: the imaginary part is an angle."""
    x, emit = complex_of(call, "self"), call.emit
    grown = emit.unary("exp", x.real)
    return Complex(emit.mul(grown, emit.unary("cos", x.imaginary)), emit.mul(grown, emit.unary("sin", x.imaginary)))


@complex_operator(*PRODUCTS)
def matrix_product(call: Call) -> Held:
    """Convert a product of matrices or vectors, by four of their parts."""
    x, y, emit = complex_of(call, "self"), complex_of(call, PRODUCTS[call.operator]), call.emit
    return Complex(
        emit.sub(part_product(call, x.real, y.real), part_product(call, x.imaginary, y.imaginary)),
        emit.add(part_product(call, x.real, y.imaginary), part_product(call, x.imaginary, y.real)),
    )


def part_product(call: Call, x: Value, y: Value) -> Value:
    """Return the product of two parts."""
    arguments = {"self": x, PRODUCTS[call.operator]: y}
    return cast("Value", by_part(replace(call, arguments=arguments), real_of))


@complex_operator("eq", "ne")
def equality(call: Call) -> Held:
    """Convert whether both parts are equal, or one is not; in the element type that PyTorch compares in."""
    emit, names = call.emit, ("self", "other")
    reals = replace(call, arguments={name: real_of(call.arguments[name]) for name in names})
    dtype = reals.promoted(*names)
    x, y = (parts_in(call, call.arguments[name], dtype) for name in names)
    same = [emit.binary("equal", one, other) for one, other in ((x.real, y.real), (x.imaginary, y.imaginary))]
    both = emit.binary("logical_and", *same)
    return both if call.operator == "eq" else emit.unary("logical_not", both)
