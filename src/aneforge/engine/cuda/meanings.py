"""The mathematics of operations without arithmetic of their own, laid out by running it on values that are not known.

An operation's meaning is written once, in NumPy (`aneforge.ops`). Here it gets values that take note of what NumPy is
asked to do with them: steps on elements, in float64 or integers, become launches in the same order, and what moves
elements is found by moving the numbers of their places. Elements are also taken at places that are computed; one that
is past its axis is noted, and the host says so. What cannot be had to the last bit is refused: most powers, and longer
sums of real numbers, whose order is NumPy's own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine.cuda.integer_products import multiply_matrices
from aneforge.engine.cuda.primitives import HALF
from aneforge.engine.cuda.tensors import TYPES, Tensor, UnsuitedError, affine_pattern, type_of
from aneforge.engine.kernels.arrays import places_of
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.engine.cuda.primitives import Builder
    from aneforge.ops.op import Op
    from aneforge.ops.signature import AttributeValue

    Array = npt.NDArray[Any]
    Operand = Tensor | Array | tuple[Tensor | Array, ...] | None

__all__ = ["Meant", "as_meant", "as_real", "lay_out_cast", "lay_out_meaning"]

REAL = np.dtype(np.float64)
UNSIGNED = np.dtype(np.uint64)
EITHER: Sequence[Any] = (
    *(np.positive, np.where, np.equal, np.not_equal, np.greater, np.greater_equal, np.less, np.less_equal),
    *(np.logical_and, np.logical_or, np.logical_xor, np.logical_not),
    *(np.add, np.subtract, np.multiply, np.negative, np.absolute, np.square),
    *(np.maximum, np.minimum, np.remainder),
)
REALS: Sequence[Any] = (np.divide, np.floor, np.ceil, np.sqrt, np.rint)
WHOLES: Sequence[Any] = (np.sign, np.floor_divide, np.power)
STEPS: Mapping[object, int] = {function: number for number, function in enumerate((*EITHER, *REALS, *WHOLES))}
"""Steps by NumPy's functions, in the order of `enum step`: those on any numbers, on real ones, and on integers."""
OF_UNSIGNED: Sequence[Any] = (np.positive, np.where, np.add, np.subtract, np.multiply, np.square, np.power)
"""Steps that the kernels do on integers of 64 bits without sign, which they read as others: those that wrap."""
OF_BOOL: Mapping[object, Any] = {
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.bitwise_xor: np.logical_xor,
    np.invert: np.logical_not,
}
LOGICAL = set(OF_BOOL.values())
POWERS: Mapping[object, Any] = {0.5: np.sqrt, 1: np.positive, 2: np.square}
"""What NumPy's operator computes for a power."""
ADDED_IN_TURN = 7
"""NumPy adds so many numbers along one axis one after the other, whatever the other axes; more in another order."""
FOLDS: Mapping[object, int] = {np.sum: 0, np.max: 1, np.min: 2, np.argmax: 3, np.argmin: 4}
MOVEMENTS = {
    np.broadcast_to,
    np.concatenate,
    np.expand_dims,
    np.flip,
    np.lib.stride_tricks.sliding_window_view,
    np.moveaxis,
    np.ravel,
    np.repeat,
    np.reshape,
    np.roll,
    np.squeeze,
    np.stack,
    np.swapaxes,
    np.take,
    np.tile,
    np.transpose,
}
"""NumPy's functions that move elements, and fill with 0."""


class Meant(np.lib.mixins.NDArrayOperatorsMixin):
    """A value in the mathematics of an operation: elements on a device, fp16 among them as real numbers."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.builder: Builder = tensor.builder

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that NumPy would have."""
        return REAL if self.tensor.dtype == HALF else self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """How many elements there are along every axis."""
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self.tensor.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.tensor.size

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: object, **__: object) -> Array:
        """Refuse: values are not known."""
        raise UnsuitedError("values that the host must know")

    def astype(self, dtype: npt.DTypeLike, **_: object) -> Meant:
        """Return the values in another type: integers in wider types, or cut to narrower ones."""
        wanted = np.dtype(dtype)
        if self.dtype == REAL and wanted not in (REAL, np.int64):
            raise UnsuitedError(f"floating-point numbers as {wanted}")
        return self if wanted == self.dtype else step(np.positive, wanted, self)

    def __pow__(self, power: Any) -> Meant:  # noqa: ANN401 - as NumPy's
        if self.dtype == REAL and isinstance(power, int | float) and power in POWERS:
            return step(POWERS[power], REAL, self)
        return cast("Meant", np.power(self, power))

    def expect_within(self, least: int, most: int) -> None:
        """Note, when the values are there, whether one is outside of two bounds."""
        builder, tensor = self.builder, self.tensor
        axes, (steps,) = builder.walk(replace(tensor, sample=tensor.size or 1), tensor)
        word, count = builder.refusal(), self.size * builder.samples
        fields = [count, self.size, type_of(tensor), least, most, axes, steps]
        builder.over("note_outside", count, builder.at(tensor), builder.word_at(word), fields)

    def __getitem__(self, index: Any) -> Meant:  # noqa: ANN401 - as NumPy's
        parts = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
        if any(isinstance(one, Meant) for one in parts):
            return take_at(self, parts)

        def part(places: Array) -> Array:
            return places[index]

        return moved(part, self)

    def reshape(self, *shape: Any) -> Meant:  # noqa: ANN401 - as NumPy's
        """Return the same elements in another shape."""

        def shaped(places: Array) -> Array:
            return places.reshape(*shape)

        return moved(shaped, self)

    def sum(self, axis: Any = None, **options: Any) -> Meant:  # noqa: ANN401 - as NumPy's
        """Return sums along axes."""
        return fold(np.sum, self, axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Meant:  # noqa: ANN401 - as NumPy's
        """Return the smallest along axes."""
        return fold(np.min, self, axis, **options)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Meant:  # noqa: ANN401
        """Lay out a step on every element."""
        if method != "__call__" or options:
            raise UnsuitedError(f"{ufunc.__name__}.{method}")
        if ufunc is np.matmul:
            return whole_product(*inputs)
        return step(ufunc, ufunc(*map(without_elements, inputs)).dtype, *inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # noqa: ANN401 - an array, or several
        """Lay out what NumPy's functions do."""
        del types
        if function in LAID_OUT:
            return LAID_OUT[function](*args, **kwargs)
        if function in FOLDS:
            return fold(function, *args, **kwargs)
        if function in MOVEMENTS:
            first, *rest = args
            several = isinstance(first, list | tuple)
            listed = cast("Sequence[Any]", first) if several else (first,)
            sources = [as_meant(self.builder, one) for one in listed]
            return moved(lambda *places: function(list(places) if several else places[0], *rest, **kwargs), *sources)
        raise UnsuitedError(f"{function.__name__} of computed values")


def without_elements(value: Any) -> Any:  # noqa: ANN401 - anything that NumPy takes
    """Return an array of a value's type with no elements; scalars as they are, for they take the type of others."""
    if isinstance(value, Meant):
        return np.empty(0, value.dtype)
    array = np.asarray(value)
    return array.reshape(-1)[:0] if array.ndim else value


def as_meant(builder: Builder, value: Any) -> Meant:  # noqa: ANN401 - as above
    """Return a value of the host as one on the device."""
    if isinstance(value, Meant | Tensor):
        return value if isinstance(value, Meant) else Meant(value)
    array = np.asarray(value)
    held = array.astype(np.float64) if array.dtype.kind == "f" else array
    if held.dtype not in TYPES:
        raise UnsuitedError(f"numbers of {held.dtype}")
    return Meant(builder.constant(held, ("meant", held.dtype.str, held.shape, held.tobytes())))


def builder_of(*values: Any) -> Builder:  # noqa: ANN401 - as above
    """Return the builder of the first value that has one."""
    return next(one.builder for one in values if isinstance(one, Meant))


def step(function: Any, dtype: np.dtype[Any], *inputs: Any) -> Meant:  # noqa: ANN401 - as above
    """Lay out one step on every element, with results of a type.

    Raises:
        UnsuitedError: It is none that the kernels have, of these numbers.
    """
    builder = builder_of(*inputs)
    values = [as_meant(builder, one) for one in inputs]
    plain = OF_BOOL.get(function, function)
    real = dtype == REAL or any(one.dtype == REAL for one in values[:2])
    known = plain in EITHER or plain in (REALS if real else WHOLES)
    if UNSIGNED in (dtype, *(one.dtype for one in values)):
        known = plain in OF_UNSIGNED and not real
    elif plain is np.power:  # NumPy refuses negative ones
        known = False
    numbers = plain in LOGICAL and any(one.dtype != np.bool_ for one in values)
    if not known or numbers or dtype not in TYPES:
        raise UnsuitedError(f"{function.__name__} of {' and '.join(str(one.dtype) for one in values)}")
    out = builder.empty(np.broadcast_shapes(*(one.shape for one in values)), dtype)
    return put_step(builder, plain, out, values, real=real)


def put_step(builder: Builder, function: object, out: Tensor, values: Sequence[Meant], *, real: bool) -> Meant:
    """Add the launch of a step."""
    tensors = [*(one.tensor for one in values), *[values[0].tensor] * (3 - len(values))]
    axes, steps = builder.walk(out, *tensors)
    count = out.size * builder.samples
    builder.over(
        "step_elements",
        count,
        *(builder.at(one) for one in tensors),
        builder.at(out),
        count,
        STEPS[function],
        int(real),
        *(type_of(one) for one in tensors),
        type_of(out),
        axes,
        *steps,
    )
    return Meant(out)


def moved(move: Callable[..., Any], *sources: Meant) -> Meant:
    """Lay out what moves elements: moving the numbers of their places says which goes where, and 0 is a zero."""
    builder = sources[0].builder
    dtype = sources[0].tensor.dtype
    held = [one if one.tensor.dtype == dtype else one.astype(one.dtype if dtype == HALF else dtype) for one in sources]
    if any(one.tensor.dtype != dtype for one in held):  # fp16 and float64 together
        held = [step(np.positive, REAL, one) if one.tensor.dtype == HALF else one for one in sources]
        dtype = REAL
    first = [1 + sum(one.size for one in held[:number]) for number in range(len(held))]
    numbered = [np.arange(begin, begin + one.size).reshape(one.shape) for begin, one in zip(first, held, strict=True)]
    places = np.asarray(move(*numbered))
    for begin, one in zip(first, held, strict=True):
        if places.size and places.min() >= begin and places.max() < begin + one.size:
            tensor, own = one.tensor, places - begin
            pattern = affine_pattern(own if tensor.dense else places_of(tensor.shape, tensor.steps)[own])
            if pattern is not None:
                return Meant(builder.moved(tensor, pattern[0], places.shape, pattern[1]))
    out = builder.empty(places.shape, dtype)
    flat = places.ravel()
    zero = (
        as_meant(builder, np.zeros(1, dtype)) if dtype != HALF else Meant(builder.constant(np.zeros(1, HALF), "zero"))
    )
    for begin, one in zip([*first, 0], [*held, zero], strict=True):
        here = np.flatnonzero((flat >= begin) & (flat < begin + one.size))
        if here.size:
            given = None if here.size == flat.size else here
            builder.picked([one.tensor], [(flat[here] - begin, given)], out)
    return Meant(out)


def take_at(x: Meant, parts: Sequence[object]) -> Meant:
    """Lay out a choice of elements at places that are computed, for neighbouring axes; of others all are taken.

    Raises:
        UnsuitedError: The places are of axes that are not adjacent.
    """
    builder = x.builder
    rest = [slice(None)] * (x.ndim + 1 - len(parts))
    whole = [one for part in parts for one in (rest if part is ... else [part])]
    named = [axis for axis, part in enumerate(whole) if not isinstance(part, slice) or part != slice(None)]
    begin, end = named[0], named[-1] + 1
    if len(named) != end - begin or any(part is None or isinstance(part, slice) for part in whole[begin:end]):
        raise UnsuitedError("indices along axes that are not adjacent")
    place: Any = 0
    for part, extent in zip(whole[begin:end], x.shape[begin:end], strict=True):
        place = place * extent + part
    chosen = builder.contiguous(step(np.positive, np.dtype(np.int32), place).tensor)
    held = x.tensor if x.tensor.dense else builder.contiguous(x.tensor)
    outer, extent, inner = (math.prod(some) for some in (x.shape[:begin], x.shape[begin:end], x.shape[end:]))
    out = builder.empty((*x.shape[:begin], *chosen.shape, *x.shape[end:]), held.dtype)
    fields = [held.dtype.itemsize, outer, extent, inner, chosen.size, held.sample, chosen.sample, 0]
    addresses = [builder.at(one) for one in (held, chosen, out)]
    builder.over("pick_axis", out.size, *addresses, fields, samples=builder.samples)
    return Meant(out)


def rows_along(x: Meant, axes: Sequence[int], *, dense: bool = True) -> tuple[Tensor, list[object]]:
    """Return elements, dense ones in the order of the results, and rows of them along axes."""
    held = x.builder.contiguous(x.tensor) if dense else x.tensor
    kept = [axis for axis in range(held.ndim) if axis not in axes]
    if not held.size:
        raise UnsuitedError("no elements")
    return held, x.builder.rows(held, kept, axes)


def fold(function: Callable[..., Any], x: Meant, axis: Any = None, **options: Any) -> Meant:  # noqa: ANN401
    """Lay out numbers reduced to one along axes, or the places of the first largest or smallest.

    Which of zeros of both signs is the largest or smallest NumPy leaves to the processor, and so does this.
    """
    builder, kind = x.builder, FOLDS[function]
    shape = function(np.empty(x.shape, np.int8), axis, **options).shape
    dtype = np.dtype(function(np.zeros((1,) * x.ndim, x.dtype), axis, **options).dtype)
    axes = range(x.ndim) if axis is None else sorted(one % x.ndim for one in np.atleast_1d(axis))
    if x.dtype == REAL and function is np.sum and (len(axes) != 1 or x.shape[axes[0]] > ADDED_IN_TURN):
        raise UnsuitedError("a longer sum of floating-point numbers")
    held, rows = rows_along(x, list(axes), dense=False)
    out = builder.empty(shape, dtype)
    count = out.size * builder.samples
    builder.over(
        "fold_elements", count, builder.at(held), builder.at(out), count, kind, type_of(held), type_of(out), rows
    )
    return Meant(out)


def cumulate(x: Meant, *, axis: int, dtype: npt.DTypeLike) -> Meant:
    """Lay out sums from the start of an axis on."""
    builder = x.builder
    wide = x if x.tensor.dtype == np.dtype(dtype) else step(np.positive, np.dtype(dtype), x)
    held, rows = rows_along(wide, [axis % x.ndim])
    out = builder.empty(held.shape, held.dtype)
    count = out.size * builder.samples // held.shape[axis]
    builder.over("cumulate", count, builder.at(held), builder.at(out), count, type_of(held), rows)
    return Meant(out)


def rank(x: Meant, axis: int, *, kind: str) -> Meant:
    """Lay out the places of elements in their order, equal ones by place.

    Raises:
        UnsuitedError: Equal ones may come in any order.
    """
    builder = x.builder
    if kind != "stable":
        raise UnsuitedError("an unspecified order of equal elements")
    held, rows = rows_along(x, [axis % x.ndim])
    out = builder.empty(held.shape, np.dtype(np.int32))
    count = out.size * builder.samples
    builder.over("rank", count, builder.at(held), builder.at(out), count, type_of(held), rows)
    return step(np.positive, np.dtype(np.int64), Meant(out))


def take_along(x: Meant, places: Any, axis: int) -> Meant:  # noqa: ANN401 - as above
    """Lay out a choice of elements along an axis by places for each."""
    builder = x.builder
    axis %= x.ndim
    chosen = as_meant(builder, places)
    if chosen.shape[:axis] + chosen.shape[axis + 1 :] != x.shape[:axis] + x.shape[axis + 1 :]:
        raise UnsuitedError("indices that are broadcast")
    held = x.tensor if x.tensor.dense else builder.contiguous(x.tensor)
    listed = builder.contiguous(step(np.positive, np.dtype(np.int32), chosen).tensor)
    out = builder.empty(chosen.shape, held.dtype)
    outer, inner = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis + 1 :]))
    builder.over(
        "pick_axis",
        out.size,
        *(builder.at(one) for one in (held, listed, out)),
        [held.dtype.itemsize, outer, x.shape[axis], inner, chosen.shape[axis], held.sample, listed.sample, 1],
        samples=builder.samples,
    )
    return Meant(out)


def chosen(condition: Any, x: Any, y: Any) -> Meant:  # noqa: ANN401 - as above
    """Lay out x where a condition holds, else y."""
    dtype = np.result_type(*(one.dtype if isinstance(one, Meant) else one for one in (x, y)))
    return step(np.where, dtype, x, y, condition)


def clipped(x: Meant, least: Any, most: Any) -> Meant:  # noqa: ANN401 - as above
    """Lay out values brought between two; of equal ones they stay, as in NumPy's clip."""
    return cast("Meant", np.minimum(most, np.maximum(least, x)))


def whole_product(left: Any, right: Any) -> Meant:  # noqa: ANN401 - as above
    """Lay out a product of matrices of integers.

    Raises:
        UnsuitedError: The numbers are real.
    """
    builder = builder_of(left, right)
    x, y = as_meant(builder, left), as_meant(builder, right)
    if REAL in (x.dtype, y.dtype):
        raise UnsuitedError("a product in float64")
    return Meant(multiply_matrices(x.tensor, y.tensor, np.result_type(x.dtype, y.dtype)))


def padded(x: Meant, around: Any, mode: str = "constant", *, constant_values: Any = 0, **options: Any) -> Meant:  # noqa: ANN401
    """Lay out values with others around them: zeros, those at the edges, or one number that may be computed."""
    laid = moved(lambda places: np.pad(places, around, mode, **options), x)  # type: ignore[call-overload]
    if not isinstance(constant_values, Meant) and np.all(np.equal(constant_values, 0)):
        return laid
    return chosen(as_meant(x.builder, np.pad(np.ones(x.shape, np.bool_), around)), laid, constant_values)


def zeros_like(x: Meant) -> Meant:
    """Return zeros of a value's shape and type."""
    return as_meant(x.builder, np.zeros(x.shape, x.dtype))


LAID_OUT: Mapping[object, Callable[..., Meant]] = {
    np.argsort: rank,
    np.clip: clipped,
    np.cumsum: cumulate,
    np.pad: padded,
    np.take_along_axis: take_along,
    np.where: chosen,
    np.zeros_like: zeros_like,
}
"""NumPy's functions that have launches of their own."""


def lay_out_meaning(
    builder: Builder, op: Op, operands: Mapping[str, Operand], attributes: Mapping[str, AttributeValue]
) -> tuple[Tensor, ...]:
    """Lay out the meaning of an operation, rounded once: the twin of `dispatch.rounded_meaning`.

    Raises:
        UnsuitedError: It asks for something that the kernels cannot do to the last bit.
    """
    before = builder.mark()
    try:
        results = meaning_of(builder, op, operands, attributes, known=True)
    except UnsuitedError:  # constants may be read at places that are computed, which takes them on the device
        builder.undo(before)
        results = meaning_of(builder, op, operands, attributes, known=False)
    return tuple(rounded(builder, one) for one in results)


def meaning_of(
    builder: Builder,
    op: Op,
    operands: Mapping[str, Operand],
    attributes: Mapping[str, AttributeValue],
    *,
    known: bool,
) -> tuple[Any, ...]:
    """Lay out the meaning of an operation; constants of real numbers are known while it does, or on the device."""

    def wrap_operand(value: Operand) -> Any:  # noqa: ANN401 - one value, several or none
        if isinstance(value, tuple):
            return tuple(wrap_operand(one) for one in value)
        if isinstance(value, Tensor):
            return Meant(value)
        if value is None or value.dtype != HALF:
            return value
        return real_numbers(value) if known else as_meant(builder, real_numbers(value))

    try:
        return op.evaluate(cast("Any", {name: wrap_operand(value) for name, value in operands.items()}), attributes)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise UnsuitedError(f"its mathematics: {error}") from error


def lay_out_cast(x: Tensor, dtype: str) -> Tensor:
    """Lay out integers as another type: the twin of `quantised.cast`.

    Raises:
        UnsuitedError: The kernels have no such type.
    """
    if dtype == "bool":
        return step(np.not_equal, np.dtype(np.bool_), Meant(x), 0).tensor
    wanted = np.dtype(numpy_dtype(dtype))
    if x.dtype == HALF or type_of(x) > TYPES.index(HALF) or wanted not in TYPES[: TYPES.index(REAL)]:
        raise UnsuitedError(f"{x.dtype} as {dtype}")
    if x.dtype == UNSIGNED and wanted == HALF:
        raise UnsuitedError(f"{x.dtype} as {dtype}")
    out = x.builder.empty(x.shape, wanted)
    return put_step(x.builder, np.positive, out, [Meant(x)], real=wanted == HALF).tensor


def as_real(x: Tensor) -> Tensor:
    """Lay out fp16 numbers in float64: what is infinite there is here."""
    return step(np.positive, REAL, Meant(x)).tensor


def real_numbers(x: Array) -> Array:
    """Return constants for the mathematics, as `neuron.read_real` does."""
    wide = x.astype(np.float64)
    return np.where(np.isnan(wide), np.copysign(np.inf, wide), wide)


def rounded(builder: Builder, value: object) -> Tensor:
    """Return a result as it leaves: real numbers rounded to fp16."""
    if not isinstance(value, Meant):
        raise UnsuitedError("operands that are all constants")
    if value.dtype != REAL:
        return builder.contiguous(value.tensor)
    return put_step(builder, np.positive, builder.empty(value.shape), [value], real=True).tensor
