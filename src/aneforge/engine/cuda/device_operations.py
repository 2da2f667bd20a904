"""Operations of the table as launches, made of primitives by the compositions that the golden model and the CPU share.

What an operation is made of is written once (`normalisation`, `pooling`, `products`, `attention`, `crop`); here it is
given tensors of a device in the place of arrays. A copy is found by running its meaning on the numbers of places: what
comes out says which element goes where.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from aneforge.engine import attention, crop, neuron, normalisation, planar, pooling, products, reductions
from aneforge.engine.choices import choices
from aneforge.engine.cuda.gathering import lay_out_gathering
from aneforge.engine.cuda.integer_layers import OF_INTEGERS
from aneforge.engine.cuda.meanings import lay_out_cast, lay_out_meaning
from aneforge.engine.cuda.primitives import HALF, SUM_HALF, SUM_SQUARE, Builder
from aneforge.engine.cuda.product_launches import Multiplier
from aneforge.engine.cuda.tensors import Tensor, UnsuitedError, affine_pattern
from aneforge.engine.dispatch import is_real
from aneforge.engine.kernels.arrays import places_of
from aneforge.engine.kernels.norms import table_of_golden
from aneforge.engine.kernels.reductions import reciprocal_counts
from aneforge.engine.reductions import reciprocal_count
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.attributed import AttributeReader
from aneforge.ops.groups.pooling import PoolAttributes, pool_slides
from aneforge.ops.numbers import FP16_PATTERNS
from aneforge.ops.op import Trait
from aneforge.ops.shapes import reduced_axes
from aneforge.ops.types import is_float, numpy_dtype, value_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice
    from aneforge.engine.dispatch import Arithmetic
    from aneforge.ops.op import Op
    from aneforge.ops.signature import AttributeValue

    Array = npt.NDArray[Any]
    Value = Tensor | npt.NDArray[Any]
    Operand = Value | tuple[Value, ...] | None
    Attributes = Mapping[str, AttributeValue]

__all__ = ["Operations"]

EVERY = np.arange(FP16_PATTERNS, dtype=np.uint16).view(np.float16)
BYTES: Mapping[int, int] = {1: 256, 2: FP16_PATTERNS}
"""How many numbers there are of so many bytes."""
NEAREST = {"resize_nearest_neighbor", "upsample_nearest_neighbor"}
SUMMANDS = {"values": 0, "magnitudes": 1, "squares": 2}
LEAST_NUMBER = 0xFFFF
"""The bits of a number that is smaller than any other, as the engine reads them."""
FLOOD_FROM = 0x6C00
"""The bits of 4,096, from which on the times-16 encoding is infinite."""


class Operations:
    """The operations of a target on a builder."""

    def __init__(self, builder: Builder, found: Callable[[str], Arithmetic]) -> None:
        self.builder = builder
        self.found = found
        self.multiplier = multiplier = Multiplier(builder)
        self.products = products.Products(
            cast("Any", multiplier.matmul),
            cast("Any", multiplier.convolution),
            cast("Any", multiplier.winograd),
            cast("Any", self.scaling),
            cast("Any", multiplier.deconvolution),
        )
        self.steps = normalisation.Steps(
            cast("Any", builder.softmax),
            cast("Any", builder.standardised),
            cast("Any", partial(self.by_length)),
            cast("Any", partial(builder.pair, "mul")),
            cast("Any", partial(builder.pair, "add")),
        )
        self.pools = pooling.Pools(
            cast("Any", self.max_pool), cast("Any", self.average_pool), cast("Any", self.euclidean_pool)
        )
        self.zeros: int | None = None
        """Where the last operation notes zeros of both signs that it compared."""

    # What an operation is.

    def run(  # noqa: PLR0911 - form after form
        self, op: str, operands: Mapping[str, Operand], attributes: Attributes
    ) -> tuple[Tensor, ...]:
        """Lay out an operation for operands under its names and all attributes.

        Raises:
            UnsuitedError: There are no kernels for it.
        """
        found = self.found(op)
        self.zeros = None
        if found.entry.copies:
            return self.copied(found, operands, attributes)
        if not self.takes(found, operands):
            if op in OF_INTEGERS:
                ordered = [operands.get(operand.name) for operand in found.op.operands]
                return (OF_INTEGERS[op](self.builder, *ordered, **attributes),)
            return lay_out_meaning(self.builder, found.op, operands, attributes)
        if op in crop.FOR_TARGET:
            return self.sliced(found, operands, attributes)
        if op in TABLED or (op == "pow" and is_power_of_one(operands)):
            return self.tabled(found, operands, attributes)
        if op in NEAREST or (op == "resize" and attributes.get("interpolation_mode") == "NEAREST_NEIGHBOR"):
            return self.nearest(found, operands, attributes)
        function = self.function_of(op, found)
        if function is None and found.function is not None:
            raise UnsuitedError("no kernel")
        if function is None:
            return lay_out_meaning(self.builder, found.op, operands, attributes)
        result = function(*(operands.get(operand.name) for operand in found.op.operands), **attributes)
        return cast("tuple[Tensor, ...]", result) if isinstance(result, tuple) else (result,)

    def takes(self, found: Arithmetic, operands: Mapping[str, Operand]) -> bool:
        """Return whether the arithmetic of an operation is for such operands, as `Arithmetic.takes` says."""
        stand_ins = {
            name: tuple(map(stand_in, value))
            if isinstance(value, tuple)
            else None
            if value is None
            else stand_in(value)
            for name, value in operands.items()
        }
        return found.takes(stand_ins)

    def function_of(self, op: str, found: Arithmetic) -> Callable[..., Any] | None:  # noqa: PLR0911 - room after room
        """Return the function of an operation; None where there are no kernels for it."""
        target = found.target
        if op in products.BY_PRODUCTS:
            return products.BY_PRODUCTS[op](self.products)
        if op in products.FOR_TARGET:
            return products.FOR_TARGET[op](target, self.products)
        if op in normalisation.FOR_TARGET:
            return normalisation.FOR_TARGET[op](target, self.steps)
        if op in pooling.FOR_TARGET:
            return pooling.FOR_TARGET[op](target, self.pools)
        if op in attention.FOR_TARGET:
            return attention.FOR_TARGET[op](target, cast("Any", self.multiplier.matmul), self.steps)
        reduction = self.reductions().get(op)
        if reduction is not None:
            return reductions.as_operation(cast("Any", reduction))(target)
        return self.plain().get(op)

    # Elements and pairs.

    def plain(self) -> Mapping[str, Callable[..., Tensor]]:
        """Return operations that are the same on all targets."""
        build = self.builder
        comparisons = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
        return {
            **{name: partial(build.pair, name) for name in ("add", "sub", "mul")},
            "maximum": partial(self.larger, "max"),
            "minimum": partial(self.larger, "min"),
            **{name: partial(build.compare, name) for name in comparisons},
            "batch_norm": self.batch_norm,
            "einsum": self.multiplier.einsum,
            "dynamic_goc": self.channel_gain_offset,
            "floor_div": self.floor_div,
            "local_response_norm": self.local_response_norm,
            "lrn": self.lrn,
            "max_pool": self.max_pool,
            "pe_elementwise": self.combined,
            "pe_goc": self.channel_gain_offset,
            "pow": build.power,
            "prelu": self.prelu,
            "real_div": self.real_div,
            "reduce_argmax": partial(self.place_of, 1),
            "reduce_argmin": partial(self.place_of, -1),
            "reduce_max": partial(self.extreme, 1),
            "reduce_min": partial(self.extreme, -1),
            "scaled_elementwise": self.scaled_pair,
            "select": build.choose,
            "softplus_parametric": self.softplus_parametric,
        }

    def larger(self, kind: str, x: Value, y: Value) -> Tensor:
        """Return the larger or smaller of pairs, and note zeros of both signs."""
        self.zeros = self.builder.word()
        return self.builder.pair(kind, x, y, zeros=self.zeros)

    def combined(self, x: Value, y: Value, *, mode: str) -> Tensor:
        """Combine pairs as a mode says."""
        return self.larger(mode, x, y) if mode in ("max", "min") else self.builder.pair(mode, x, y)

    def scaled_pair(self, x: Value, y: Value, *, mode: str, scale: float) -> Tensor:
        """Combine pairs and scale, rounded once; products are not scaled."""
        if mode == "mult":
            return self.builder.pair("mul", x, y)
        return self.builder.gained_pair(mode, x, y, np.asarray(planar.number(scale)), None)

    def real_div(self, x: Value, y: Value) -> Tensor:
        """Return x times the reciprocal of y, read off its table."""
        build = self.builder
        return build.pair("mul", x, build.activation("inverse", build.halves(y)))

    def floor_div(self, x: Value, y: Value) -> Tensor:
        """Return a quotient rounded down."""
        return self.golden_table(neuron.floor, self.real_div(x, y))

    def golden_table(self, function: Callable[[Array], Array], x: Tensor) -> Tensor:
        """Return a function of the golden model by its table."""
        return self.builder.lookup(x, table_of_golden(function), ("golden", function))[0]

    def local_response_norm(self, x: Value, *, size: int, alpha: float, beta: float, k: float) -> Tensor:
        """Return x by a power of the squares of neighbouring channels, axis 1."""
        return self.builder.response_norm(x, 1, size, alpha / size, beta, k)

    def lrn(self, x: Value, *, kernel_channel: int, alpha: float, beta: float, k: float) -> Tensor:
        """Return x by a power of the squares of neighbouring channels, axis 0."""
        return self.builder.response_norm(x, 0, kernel_channel, alpha / kernel_channel, beta, k)

    def prelu(self, x: Tensor, alpha: Value) -> Tensor:
        """Return x, scaled by its channel's slope where it is negative."""
        return self.builder.pair("slope", x, reshape_along(cast("Any", alpha), x.ndim))

    def softplus_parametric(self, x: Tensor, alpha: Value, beta: Value) -> Tensor:
        """Return alpha · log(1 + e^(beta · x))."""
        build = self.builder
        inner = build.pair("mul", reshape_along(cast("Any", beta), x.ndim), x)
        return build.pair("mul", reshape_along(cast("Any", alpha), x.ndim), self.golden_table(neuron.softplus, inner))

    def gain_offset(self, x: Tensor, gain: Value | None, offset: Value | None) -> Tensor:
        """Return gain · x + offset, both of fp16 and broadcast to x, as `planar.gain_offset` rounds them."""
        if gain is not None and offset is not None and not choices().gain_offset.product_is_rounded:
            raise UnsuitedError("gain and offset in one rounding")
        scaled = x if gain is None else self.builder.pair("mul", x, gain)
        return scaled if offset is None else self.builder.pair("add", scaled, offset)

    def channel_gain_offset(self, x: Tensor, gain: Value | None, offset: Value | None) -> Tensor:
        """Return gain · x + offset with one of each per channel, axis 1."""
        if gain is None and offset is None:
            raise UnsuitedError("neither gain nor offset")
        laid = [None if one is None else cast("Any", reshape_along(cast("Any", one), x.ndim)) for one in (gain, offset)]
        return self.gain_offset(x, *laid)

    def batch_norm(
        self, x: Tensor, mean: Value, variance: Value, gamma: Value | None, beta: Value | None, *, epsilon: float
    ) -> Tensor:
        """Return a normalisation by constants, folded as the golden model folds it."""
        given = [mean, variance, gamma, beta]
        if any(isinstance(one, Tensor) for one in given):
            raise UnsuitedError("a batch norm with computed parameters")
        means, variances, gammas, betas = (None if one is None else np.asarray(one, np.float64) for one in given)
        assert means is not None  # noqa: S101 - the operation has both
        assert variances is not None  # noqa: S101
        gain = (1.0 if gammas is None else gammas) / np.sqrt(variances + epsilon)
        offset = (0.0 if betas is None else betas) - means * gain
        return self.channel_gain_offset(x, planar.host_fp16(gain), planar.host_fp16(offset))

    def tabled(self, found: Arithmetic, operands: Mapping[str, Operand], attributes: Attributes) -> tuple[Tensor, ...]:
        """Lay out a function of every element that may change its type: a table of all numbers of one or two bytes."""
        name, *others = [operand.name for operand in found.op.operands]
        x, rest = operands[name], {other: operands.get(other) for other in others}
        if not isinstance(x, Tensor) or any(isinstance(one, Tensor) for one in rest.values()):
            raise UnsuitedError(f"{found.op.name} of constants, or by computed numbers")
        if found.op.name == "cast" and x.dtype.itemsize not in BYTES:
            return self.cast_longer(found, x, attributes)
        if any(isinstance(one, np.ndarray) and one.size > 1 for one in rest.values()):
            return (self.scaled_channels(found, x, rest, attributes),)
        every = np.arange(BYTES[x.dtype.itemsize], dtype=np.uint8 if x.dtype.itemsize == 1 else np.uint16).view(
            np.uint8 if x.dtype == np.bool_ else x.dtype
        )
        numbers = every.astype(np.bool_) if x.dtype == np.bool_ else every
        plain = {key: (None if key == "axis" else value) for key, value in attributes.items()}
        known = {other: None if one is None else np.reshape(cast("Array", one), ()) for other, one in rest.items()}
        (results,) = found.golden_results(cast("Any", {name: numbers, **known}), plain)
        results = planar.host_fp16(results) if is_real(results) else results
        held = results.view(np.uint16) if results.dtype == HALF else results
        out, _ = self.builder.lookup(x, held, ("tabled", results.dtype.name, held.tobytes()))
        return (replace(out, dtype=results.dtype),)

    def cast_longer(self, found: Arithmetic, x: Tensor, attributes: Attributes) -> tuple[Tensor, ...]:
        """Lay out integers of more bytes than a table takes as another type: as other floating types by way of fp16."""
        wanted = AttributeReader(attributes).text("dtype")
        if is_float(wanted) and wanted != "fp16":
            return self.tabled(found, {"x": lay_out_cast(x, "fp16")}, attributes)
        return (lay_out_cast(x, wanted),)

    def scaled_channels(
        self, found: Arithmetic, x: Tensor, rest: Mapping[str, Operand], attributes: Attributes
    ) -> Tensor:
        """Lay out numbers quantised, or the numbers of integers, by a scale and a zero point of their channel."""
        scale, zero = cast("Array", rest["scale"]), rest["zero_point"]
        if found.op.name == "dequantize" and np.isnan(scale).any():
            raise UnsuitedError("the bits of a scale that is NaN")
        read = AttributeReader(attributes)
        target = read.text("output_dtype") if found.op.name == "quantize" else "fp16"
        return self.builder.scale_channels(
            x,
            scale,
            np.zeros(()) if zero is None else cast("Array", zero),
            read.integer("axis") % x.ndim,
            np.dtype(numpy_dtype(target)),
            (0, 0) if target == "fp16" else value_range(target),
        )

    # Reductions.

    def reductions(self) -> Mapping[str, Callable[[Tensor, tuple[int, ...], AdderChoice], Tensor]]:
        """Return sums and what is made of them: functions of values, axes and how to add; the axes stay."""
        build = self.builder

        def total(of: str, x: Tensor, axes: tuple[int, ...], adder: AdderChoice) -> Tensor:
            expect_rounded_squares()
            return build.sums(x, axes, adder, kind=SUMMANDS[of], result=SUM_HALF)

        def mean(x: Tensor, axes: tuple[int, ...], adder: AdderChoice) -> Tensor:
            factor = np.asarray(reciprocal_count(cast("Any", x), axes))
            return build.sums(x, axes, adder, result=SUM_HALF, factor=factor)

        def log_of_powers(x: Tensor, axes: tuple[int, ...], adder: AdderChoice) -> Tensor:
            most = self.extreme(1, x, axes=axes, keep_dims=True)
            powers = build.activation("exp", build.pair("sub", x, most))
            return build.pair("add", build.activation("log", total("values", powers, axes, adder)), most)

        return {
            "reduce_l1_norm": partial(total, "magnitudes"),
            "reduce_l2_norm": lambda x, axes, adder: build.activation("sqrt", total("squares", x, axes, adder)),
            "reduce_log_sum": lambda x, axes, adder: build.activation("log", total("values", x, axes, adder)),
            "reduce_log_sum_exp": log_of_powers,
            "reduce_mean": mean,
            "reduce_sum": partial(total, "values"),
            "reduce_sum_square": partial(total, "squares"),
            "sq_after_reduce": lambda x, axes, adder: build.sums(x, axes, adder, result=SUM_SQUARE),
        }

    def extreme(self, sign: int, x: Tensor, *, axes: tuple[int, ...] | None, keep_dims: bool) -> Tensor:
        """Return the first of the largest or smallest along axes."""
        build = self.builder
        held = build.contiguous(build.halves(x))
        gone = sorted(one % held.ndim for one in reduced_axes(held.ndim, axes))
        kept = [axis for axis in range(held.ndim) if axis not in gone]
        shape = [held.shape[axis] if axis in kept else 1 for axis in range(held.ndim)]
        expect_elements(held)
        out = build.extreme(held, build.rows(held, kept, gone), shape, sign, HALF)
        return out if keep_dims else out.reshape([held.shape[axis] for axis in kept])

    def place_of(self, sign: int, x: Tensor, *, axis: int, keep_dims: bool, output_dtype: str) -> Tensor:
        """Return the place of the first of the largest or smallest along an axis."""
        build = self.builder
        held = build.contiguous(build.halves(x))
        gone = axis % held.ndim
        kept = [one for one in range(held.ndim) if one != gone]
        shape = [held.shape[one] if one in kept else 1 for one in range(held.ndim)]
        expect_elements(held)
        out = build.extreme(held, build.rows(held, kept, [gone]), shape, sign, np.dtype(numpy_dtype(output_dtype)))
        return out if keep_dims else out.reshape([held.shape[one] for one in kept])

    def by_length(self, x: Tensor, axes: tuple[int, ...], least: float, adder: AdderChoice) -> Tensor:
        """Return x times the reciprocal root of Σ x², which is at least a given number."""
        expect_rounded_squares()
        return self.builder.standardised(x, axes, least, adder, centred=False)

    # Pooling.

    def windows(self, x: Tensor, attributes: PoolAttributes, filled: int) -> tuple[Tensor, list[object], list[int]]:
        """Return padded images, where their windows begin and what they see, and the shape of the result."""
        build = self.builder
        along = pool_slides(x.shape[2:], attributes)
        around = [(slide.before, max(slide.reach - slide.before - slide.extent, 0)) for slide in along]
        images = build.padded(x, len(along), around, filled=filled)
        ways = [slide.stride * step for slide, step in zip(along, images.steps[2:], strict=True)]
        taps = [slide.dilation * step for slide, step in zip(along, images.steps[2:], strict=True)]
        shape = [*x.shape[:2], *(slide.places for slide in along)]
        size = len(along)
        view = build.moved(images, 0, [*shape, *(slide.window for slide in along)], [*images.steps[:2], *ways, *taps])
        rows = build.rows(view, range(2 + size), range(2 + size, 2 + 2 * size))
        return images, rows, shape

    def max_pool(self, x: Value, **attributes: Unpack[PoolAttributes]) -> Tensor:
        """Return the largest value of every window; padding is smaller than any value."""
        images, rows, shape = self.windows(self.builder.halves(x), attributes, LEAST_NUMBER)
        return self.builder.extreme(images, rows, shape, 1, HALF)

    def average_pool(self, x: Value, adder: AdderChoice, attributes: PoolAttributes) -> Tensor:
        """Return the average of every window."""
        held = self.builder.halves(x)
        images, rows, shape = self.windows(held, attributes, 0)
        factors = reciprocal_counts(pool_slides(held.shape[2:], attributes), attributes)
        return self.builder.summed(images, rows, shape, adder, 0, SUM_HALF, factors)

    def euclidean_pool(self, x: Value, adder: AdderChoice, attributes: PoolAttributes) -> Tensor:
        """Return the root of the sum of squares of every window."""
        expect_rounded_squares()
        images, rows, shape = self.windows(self.builder.halves(x), attributes, 0)
        sums = self.builder.summed(images, rows, shape, adder, SUMMANDS["squares"], SUM_HALF, None)
        return self.builder.activation("sqrt", sums)

    # Products.

    def scaling(self, x: Tensor, weight: Value, bias: Array | None) -> Tensor:
        """Return a 1×1 convolution of one channel as a scaling."""
        halves = None if bias is None else planar.host_fp16(bias)
        if halves is not None and not np.array_equal(planar.read(halves), np.asarray(bias)):
            raise UnsuitedError("a scaling with a bias that is not fp16")
        scaled = self.builder.pair("mul", x, cast("Any", weight).reshape(1, -1, *(1,) * (x.ndim - 2)))
        return scaled if halves is None else self.builder.pair("add", scaled, reshape_along(halves, x.ndim))

    def meeting_int8(self, multiply: Callable[[Tensor, Array], Tensor], x: Tensor, weights: Array) -> Tensor:
        """Return a product whose activations pass the times-16 encoding, as `quantised.meeting_int8` does.

        The second product, of what is beyond the encoding, runs only where there is such a number.
        """
        build = self.builder
        encoded = table_of_golden(crop.through_crop)
        beyond = (encoded & 0x7FFF) == 0x7C00
        within, _ = build.lookup(x, np.where(beyond, 0, encoded).astype(np.uint16), "within the encoding")
        flood = np.where(beyond, (encoded & 0x8000) | 0x7BFF, 0).astype(np.uint16)
        flooding, _ = build.lookup(x, flood, "beyond the encoding")
        found = multiply(within, weights)
        gate = (build.word_at(build.find_extremes(x).largest, overall=True), FLOOD_FROM)
        build.gate = gate
        signs = np.sign(weights)
        try:
            flooded = multiply(flooding, signs)
        finally:
            build.gate = None
        count = found.size * build.samples
        build.over("flooded", count, build.at(flooded), build.at(found), count, found.dtype.itemsize, *gate)
        return found

    # Copies.

    def copied(self, found: Arithmetic, operands: Mapping[str, Operand], attributes: Attributes) -> tuple[Tensor, ...]:
        """Lay out a copy of bits."""
        name = found.op.name
        if name.startswith("constexpr_"):
            raise UnsuitedError("weights that are computed at run time")
        places = operands.get(placing_operand(found.op) or "")
        if isinstance(places, Tensor):
            return (lay_out_gathering(self.builder, name, cast("Value", operands["x"]), places, attributes),)
        return self.arranged(lambda given: found.op.evaluate(cast("Any", given), attributes), operands)

    def arranged(
        self, evaluate: Callable[[Mapping[str, Any]], Sequence[Array]], operands: Mapping[str, Operand]
    ) -> tuple[Tensor, ...]:
        """Lay out what moves elements: its meaning on the numbers of places says which one goes where.

        The meaning runs twice, with two different sets of numbers: what does not change is a constant.
        """
        sources: list[Tensor] = []
        first: list[int] = []
        on_device: dict[int, Tensor] = {}

        def numbered(value: Value, apart: float) -> Array:
            if not isinstance(value, Tensor):
                if value.dtype != HALF or np.isfinite(value).all():
                    return value.astype(np.float64 if value.dtype == HALF else np.int64)  # no number of a place is cut
                value = on_device.setdefault(id(value), self.builder.constant(value))
            if apart == 0:
                first.append((first[-1] + sources[-1].size) if sources else 1)
                sources.append(value)
            begin = first[next(i for i, one in enumerate(sources) if one is value)]
            places = np.arange(begin, begin + value.size).reshape(value.shape)
            return places + apart if value.dtype == HALF else (places + int(apart))

        total = float(sum(one.size for value in operands.values() for one in as_list(value)) + 2)
        laid = [
            {
                name: tuple(numbered(one, apart) for one in value)
                if isinstance(value, tuple)
                else None
                if value is None
                else numbered(value, apart)
                for name, value in operands.items()
            }
            for apart in (0.0, total)
        ]
        try:
            once, again = (evaluate(given) for given in laid)
            typed = evaluate({name: build_typed_operand(value) for name, value in operands.items()})
        except (ValueError, TypeError, IndexError) as error:
            raise UnsuitedError(f"an arrangement: {error}") from error
        return tuple(
            self.lay_out_result(np.asarray(one), np.asarray(other), total, sources, first, result_dtype(like))
            for one, other, like in zip(once, again, typed, strict=True)
        )

    def lay_out_result(
        self,
        once: Array,
        again: Array,
        total: float,
        sources: Sequence[Tensor],
        first: Sequence[int],
        dtype: np.dtype[Any],
    ) -> Tensor:
        """Return one result of an arrangement, given where its elements come from."""
        build = self.builder
        if once.dtype == np.bool_:
            raise UnsuitedError("an arrangement of booleans")
        moved = again - once == total
        if moved.all() and once.size:
            for source, begin in zip(sources, first, strict=True):
                places = (once - begin).astype(np.int64)
                if places.min() >= 0 and places.max() < source.size and source.dtype == dtype:
                    view = self.viewed(source, places)
                    if view is not None:
                        return view
        out = build.empty(once.shape, dtype)
        flat, stays = once.ravel(), ~moved.ravel()
        parts: list[tuple[Tensor, Array, Array | None]] = []
        for source, begin in zip(sources, first, strict=True):
            here = np.flatnonzero(~stays & (flat >= begin) & (flat < begin + source.size))
            if here.size and source.dtype != dtype:
                raise UnsuitedError(f"{source.dtype} converted to {dtype}")
            if here.size:
                parts.append((source, (flat[here] - begin).astype(np.int64), None if here.size == flat.size else here))
        if stays.any():
            here = np.flatnonzero(stays)
            values = flat[here].astype(dtype)
            held = build.constant(values, ("moved", dtype.str, values.tobytes()))
            parts.append((held, np.arange(here.size), None if here.size == flat.size else here))
        build.picked([one for one, _, _ in parts], [(taken, given) for _, taken, given in parts], out)
        return out

    def viewed(self, source: Tensor, places: Array) -> Tensor | None:
        """Return elements of a tensor that are in an affine pattern; None where they are in none.

        All elements in another order are a view, which its readers may read in place; a part of them is copied.
        """
        build = self.builder
        whole = places.size == source.size and np.array_equal(np.sort(places, axis=None), np.arange(source.size))
        pattern = affine_pattern(places_of(source.shape, source.steps)[places])
        if pattern is None and not source.dense:
            source = build.contiguous(source)
            pattern = affine_pattern(places)
        if pattern is None:
            return None
        view = build.moved(source, pattern[0], places.shape, pattern[1])
        return view if whole else build.contiguous(view)

    def sliced(self, found: Arithmetic, operands: Mapping[str, Operand], attributes: Attributes) -> tuple[Tensor, ...]:
        """Lay out a slice, and the times-16 crop after those parts that the target sends through it."""
        x = operands["x"]
        if not isinstance(x, Tensor):
            raise UnsuitedError("a slice of a constant")

        def mark(part: Array) -> Array:
            return part + 0.5

        function = crop.FOR_TARGET[found.op.name](found.target, mark)
        stand_in = np.arange(x.size, dtype=np.float64).reshape(x.shape)
        marked = function(stand_in, **attributes)
        crops = [
            one.dtype == np.float64 and one.size > 0 and bool((one % 1 == 0.5).all())
            for one in (marked if isinstance(marked, tuple) else (marked,))
        ]
        parts = self.arranged(lambda given: found.op.evaluate(cast("Any", given), attributes), operands)
        return tuple(
            self.golden_table(crop.through_crop, part) if crosses and part.dtype == HALF else part
            for part, crosses in zip(parts, crops, strict=True)
        )

    def nearest(self, found: Arithmetic, operands: Mapping[str, Operand], attributes: Attributes) -> tuple[Tensor, ...]:
        """Lay out a resizing that takes the nearest element; what is not a number leaves as infinite."""
        (result,) = self.arranged(lambda given: found.op.evaluate(cast("Any", given), attributes), operands)
        if result.dtype != HALF:
            raise UnsuitedError("resized integers")
        return (self.golden_table(neuron.read_real, result),)


TABLED = frozenset(
    {"cast", "dequantize", "logical_not", "pixel_buffer_to_tensor", "quantize", "tensor_to_pixel_buffer"}
)
"""Operations on every element by itself that may change its type."""


def placing_operand(op: Op) -> str | None:
    """Return the operand that says which elements a copy takes, of the operations where that is an operand."""
    if Trait.INDICES not in op.traits or op.movement is None:
        return None
    return next(one.name for one in op.operands if one.name not in op.movement.operands)


def is_power_of_one(operands: Mapping[str, Operand]) -> bool:
    """Return whether fp16 numbers are raised to one power that is known: a function of one number."""
    x, y = operands["x"], operands["y"]
    if not isinstance(x, Tensor) or not isinstance(y, np.ndarray):
        return False
    return x.dtype == HALF and y.size == 1 and y.ndim <= x.ndim


def stand_in(value: Value) -> Array:
    """Return an array of the type of a value."""
    return np.broadcast_to(np.zeros((), value.dtype), value.shape)


def as_list(value: Operand) -> tuple[Value, ...]:
    """Return one operand or several as several."""
    return value if isinstance(value, tuple) else () if value is None else (value,)


def build_typed_operand(value: Operand) -> Any:  # noqa: ANN401 - an array, several, or none
    """Return zeros of the shape and type of an operand; constants as they are."""
    if isinstance(value, tuple):
        return tuple(build_typed_operand(one) for one in value)
    return np.zeros(value.shape, value.dtype) if isinstance(value, Tensor) else value


def result_dtype(array: Array) -> np.dtype[Any]:
    """Return the element type of a result on a device: real numbers are fp16."""
    return HALF if is_real(array) else array.dtype


def expect_rounded_squares() -> None:
    """Stop unless squares are rounded before they are added, which the kernels do.

    Raises:
        UnsuitedError: They are not.
    """
    if not choices().reduction.squares_are_rounded:
        raise UnsuitedError("squares that are not rounded")


def expect_elements(x: Tensor) -> None:
    """Stop unless a tensor has elements.

    Raises:
        UnsuitedError: It has none.
    """
    if x.size == 0:
        raise UnsuitedError("no elements")
