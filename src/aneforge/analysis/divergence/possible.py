"""Which fp16 numbers a value can hold at all: a set of all 65,536 patterns, walked back as far as layers are known.

What a product writes is on the accumulator's grid, what a function of single elements writes is what it makes of the
numbers that can come in, and what moves elements writes no others. Of any other layer its range is known. A set can be
too large and never too small. It is asked for few values, so nothing is computed before.
"""

from __future__ import annotations

from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.divergence.functions import (
    after_slots,
    compute_numbers,
    find_added,
    is_function,
    moves,
    split_slots,
)
from aneforge.analysis.divergence.passages import EVERY, Passage, find_kept, pass_numbers
from aneforge.analysis.ranges.interval import ANYTHING, RESULTS, of_type
from aneforge.compiler.affine import affine_of_stage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.layer import Value
from aneforge.engine.execution.run_products import PRODUCT_KINDS, convolution_form
from aneforge.engine.golden import PRODUCT_GRID, bias_operand
from aneforge.engine.planar import host_fp16, read
from aneforge.engine.rounding import to_grid
from aneforge.ops.op import Trait
from aneforge.ops.types import is_float, value_range
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.analysis.divergence.arithmetic import Arithmetic
    from aneforge.analysis.ranges.interval import Range
    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program

    Array = npt.NDArray[Any]
    Numbers = npt.NDArray[np.float16]
    Mask = npt.NDArray[np.bool_]
    Packed = npt.NDArray[np.uint8]

__all__ = ["SQUARED", "Possible", "mask_of"]

MOST_LAYERS_BACK = 64
"""Layers one after another that are walked back."""
ZERO_BELOW = 0x8000
"""The pattern of −0, after which those of all numbers below it are."""
SMALLEST_EXPONENT = -24
"""Of the smallest fp16 number."""
NO_BIT = 99
"""Stands for the lowest bit of zero: higher than that of any number."""
FEW_VALUES = ("int8", "uint8")
"""Types of integers whose values are asked for one by one."""
FACTORS = ("weight", "other")
"""The operands of a product; a bias among them has an arithmetic of its own."""
SQUARED = "square_after_reduction"
"""The layer that squares a sum before it is rounded."""
BELOW_ALL = np.float16(-np.inf)
"""The padding of `max_pool`."""


def mask_of(numbers: Numbers) -> Mask:
    """Return a set of fp16 numbers.

    >>> int(mask_of(np.array([0.0, -0.0, 1.0, 1.0], np.float16)).sum())
    3
    """
    mask = np.zeros(EVERY.size, np.bool_)
    mask[np.asarray(numbers, np.float16).reshape(-1).view(np.uint16)] = True
    return mask


def within(found: Range) -> Mask:
    """Return the numbers of a range; zeros have both signs."""
    return (as_read() >= found.low) & (as_read() <= found.high)


@cache
def as_read() -> Array:
    """Return every fp16 number as the engine reads it."""
    return read(EVERY)


@cache
def lowest_bits() -> Array:
    """Return the exponent of the lowest bit of every fp16 number as the engine reads it; that of zero is beyond all."""
    units = np.ldexp(np.abs(as_read()), 24).astype(np.int64)
    lowest = units & -units
    return np.where(units == 0, NO_BIT, np.log2(np.maximum(lowest, 1)).astype(np.int64) - 24)


def on_grid(exponent: int) -> Mask:
    """Return the numbers that are multiples of a power of two, the infinities among them."""
    return (lowest_bits() >= exponent) & ~np.isnan(EVERY)


def sums_of(first: Mask, second: Mask) -> Mask:
    """Return what sums can be: on the grid of both terms, which rounding makes no finer, and −0 only of two of them."""
    mask = on_grid(min(finest(first), finest(second)))
    mask[ZERO_BELOW] = first[ZERO_BELOW] and second[ZERO_BELOW]
    return mask


def differences_of(first: Mask, second: Mask) -> Mask:
    """Return what differences can be: on the grid of both terms, and −0 only of −0 less +0."""
    mask = on_grid(min(finest(first), finest(second)))
    mask[ZERO_BELOW] = first[ZERO_BELOW] and second[0]
    return mask


def products_of(first: Mask, second: Mask) -> Mask:
    """Return what products of pairs can be; the signs of factors decide about those of zeros."""
    mask = on_grid(max(finest(first) + finest(second), SMALLEST_EXPONENT))
    if not (first[ZERO_BELOW:].any() or second[ZERO_BELOW:].any()):
        mask[ZERO_BELOW:] = False
    return mask


def finest(mask: Mask) -> int:
    """Return the exponent of the grid on which numbers are."""
    return int(lowest_bits()[mask].min(initial=NO_BIT))


PAIRS: Mapping[str, Callable[[Mask, Mask], Mask]] = {"add": sums_of, "mult": products_of, "sub": differences_of}
"""Layers of two operands that round the exact result once, by what their results can be."""


@dataclass(slots=True)
class Possible:
    """What the values of a program can hold.

    The sets follow the ranges of a program as it is. Or they hold for whatever layers read that compute, and so for a
    program too in which passages were exchanged for copies: those that `arithmetics` and `passages` no longer have.
    """

    program: Program
    arithmetics: Mapping[str, Arithmetic]
    passages: Mapping[str, Passage]
    """What elements pass in the layers that only gather."""
    ranges: Mapping[str, Range]
    """Of all values as the program is."""
    follows_ranges: bool
    found: dict[str, Packed] = field(default_factory=dict[str, "Packed"])
    """Sets by the names of values, a bit for every number."""
    depth: int = 0
    """Layers that are walked back at the moment."""

    def of(self, value: Value) -> Mask:
        """Return what a value of fp16 can hold."""
        if value.name not in self.found:
            self.found[value.name] = np.packbits(self.walked(value))
        return np.unpackbits(self.found[value.name]).view(np.bool_)

    def walked(self, value: Value) -> Mask:
        """Return what a value can hold: what its range has, and what its layer can write."""
        layer = self.program.producers.get(value.name)
        if layer is None:
            return within(self.ranges[value.name])
        outer = within(self.range(value, layer))
        if len(layer.results) > 1 or self.depth >= MOST_LAYERS_BACK:
            return outer
        self.depth += 1
        inner = self.find_written(layer)
        self.depth -= 1
        return outer if inner is None else outer & inner

    def range(self, value: Value, layer: Layer) -> Range:
        """Return the range of a value.

        A layer that moves elements may be a copy of anything, where it was exchanged for one; what computes gives no
        NaN. Of products more is known than that, but not without their weights.
        """
        if self.follows_ranges:
            return self.ranges[value.name]
        if layer.name in self.passages or moves(layer):
            return ANYTHING
        if layer.kind.name in PRODUCT_KINDS:
            return RESULTS
        from aneforge.analysis.ranges.layer_ranges import range_of_layer  # noqa: PLC0415 - few layers are asked

        read_by = {one.name: of_type(one.type.dtype) for one in layer.bottoms}
        place = next(place for place, result in enumerate(layer.results) if result.name == value.name)
        return range_of_layer(layer, read_by, self.program.target).results[place]

    def ref(self, ref: Ref) -> Mask:
        """Return what an operand of real numbers can hold."""
        return self.of(ref) if isinstance(ref, Value) else mask_of(host_fp16(ref.dense()))

    def find_written(self, layer: Layer) -> Mask | None:
        """Return what a layer can write; None where only its range is known."""
        numbers = self.function(layer)
        if numbers is None:
            joined, _ = split_slots(layer)
            core = self.core(layer)
            numbers = None if core is None else after_slots(layer, EVERY[core], self.program, len(joined))
        return mask_of(numbers) if numbers is not None and numbers.dtype == np.float16 else None

    def function(self, layer: Layer) -> Array | None:
        """Return what a function of single elements can write; None for any other layer."""
        value = layer.bottoms[0] if layer.bottoms else None
        if value is None or not is_function(layer, value):
            return None
        if value.type.dtype in FEW_VALUES:
            low, high = value_range(value.type.dtype)
            return compute_numbers(layer, np.arange(low, high + 1).astype(value.type.dtype), self.program)
        return compute_numbers(layer, EVERY[self.of(value)], self.program) if value.type.dtype == "fp16" else None

    def core(self, layer: Layer) -> Mask | None:
        """Return what the operation of a layer can give before the slots after it; None where nothing is known."""
        refs = [ref for _, ref in layer.refs()]
        if layer.core_types[0].dtype != "fp16" or not all(is_float(ref.type.dtype) for ref in refs):
            return None
        if layer.name in self.passages:
            return mask_of(pass_numbers(self.passages[layer.name], EVERY[self.of(layer.bottoms[0])]))
        if layer.kind.name in PRODUCT_KINDS:
            return self.product(layer)
        if layer.kind.name in PAIRS:
            return self.pair(layer)
        if layer.kind.name == SQUARED:
            return ~np.signbit(EVERY) & ~np.isnan(EVERY)
        return self.moved(layer)

    def pair(self, layer: Layer) -> Mask | None:
        """Return what a layer of two operands can give; None where a gain works on what was not rounded yet."""
        joined, _ = split_slots(layer)
        first, second = (self.ref(layer.operand(name)) for name in ("x", "y"))
        return None if joined else PAIRS[layer.kind.name](first, second)

    def moved(self, layer: Layer) -> Mask | None:
        """Return what a layer can give that moves elements or chooses among them; None for any other."""
        extreme = Trait.EXTREME in layer.kind.entry.traits
        if not (extreme or moves(layer)) or not layer.operands:
            return None
        numbers = EVERY[np.logical_or.reduce([self.ref(ref) for _, ref in layer.refs()])]
        if extreme:
            return mask_of(np.append(pass_numbers(Passage.COMPUTED, numbers), BELOW_ALL))
        passage = Passage.CROP if self.arithmetics[layer.name].route else Passage.COPY
        return mask_of(pass_numbers(passage, numbers)) | mask_of(host_fp16(np.array(find_added(layer), np.float64)))

    def product(self, layer: Layer) -> Mask | None:
        """Return what a sum of products can be: on the grid, and −0 only where the sum starts there."""
        joined, _ = split_slots(layer)
        call = call_of_layer(layer)
        affine = affine_of_stage(joined[0], layer.core_types[0].rank) if joined else None
        if call is None or len(layer.operands) > len(FACTORS) or (affine is not None and affine.gain is not None):
            return None
        if call.op == "conv" and convolution_form(layer, call, self.program.target) == "scaling":
            return None
        mask = find_kept(Passage.SUM).copy()
        if affine is not None and affine.offset is not None:
            start = to_grid(bias_operand(host_fp16(affine.offset)), PRODUCT_GRID)
            mask[ZERO_BELOW] = bool((np.signbit(start) & (start == 0)).any())
        return mask
