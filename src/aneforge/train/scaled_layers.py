"""The layers of a step through which loss-scaled values go, found from the input that takes the scale.

Gradients are linear in the scale. So one evaluation in float64 with a scale of 1 gives what every tensor holds at any
scale, and how many products of the multiply-accumulate array vanish at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.evaluate import evaluate_layer
from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.passes.choose_slice_route import FIXED_POINT
from aneforge.engine.golden import DROPPED_UP_TO, EDGE
from aneforge.engine.rounding import LEAST_EXPONENT
from aneforge.ops.numbers import FP16_MAX, FP16_SMALLEST
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array

__all__ = ["Products", "ScaledTensor", "describe_layer", "find_scaled_layers", "find_scaled_tensors", "is_width_crop"]

LOWEST, HIGHEST = -64, 24
"""Exponents that are counted one by one; others are counted at the end."""
MOST_ROWS = 2**14
"""Rows of the inner axis that are counted; of more, this many that are evenly spaced."""


def is_width_crop(layer: Layer) -> bool:
    """Return whether a layer copies a slice times 16, in fixed point."""
    return layer.choices.get("format") == FIXED_POINT


def find_scaled_layers(program: Program, scale: str) -> list[Layer]:
    """Return the layers that read values which depend on the input of the scale.

    >>> import aneforge as af
    >>> x, s = af.input((1, 4), name="x"), af.input((1, 1), name="s")
    >>> program = af.build_program((x.relu() * s).tanh(), af.targets.Family.A16)
    >>> [layer.kind.name for layer in find_scaled_layers(program, "s")]
    ['mult']
    """
    reached = {port.value.name for port in program.inputs if port.name == scale}
    found: list[Layer] = []
    for layer in program.layers:
        if any(value.name in reached for value in layer.bottoms):
            found.append(layer)
            reached.update(result.name for result in layer.results)
    return found


@dataclass(frozen=True, slots=True)
class Products:
    """How often exponents of both operands meet in a product, neither of them 0; the scaled one for a scale of 1."""

    counts: Array
    """By exponent of the scaled operand, and of the other one."""

    def lost_share(self, loss_scale: float) -> float:
        """Return the share of products that contribute nothing at a scale."""
        exponents = np.arange(LOWEST, HIGHEST + 1)
        scaled = exponents + np.log2(loss_scale)
        stored = scaled >= np.log2(FP16_SMALLEST) - 1  # rounds to something other than 0
        sums = np.maximum(scaled, LEAST_EXPONENT)[:, None] + np.maximum(exponents, LEAST_EXPONENT)
        kept = (np.floor(sums) > DROPPED_UP_TO) & stored[:, None]
        total = float(self.counts.sum())
        return 1 - float(self.counts[kept].sum()) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class ScaledTensor:
    """A tensor that is linear in the loss scale, as the mathematics gives it for a scale of 1."""

    layer: Layer
    exact: Array
    largest: float
    limit: float
    """The largest magnitude that it may reach: that of fp16, of the accumulator, or of a crop times 16."""
    products: Products | None
    """Where the multiply-accumulate array computes it."""

    def bounded_by(self, limit: float) -> ScaledTensor:
        """Return the same with a limit that is not above another one."""
        return ScaledTensor(self.layer, self.exact, self.largest, min(self.limit, limit), self.products)

    def headroom(self, loss_scale: float) -> float:
        """Return how many times larger it may become at a scale."""
        return self.limit / (self.largest * loss_scale) if self.largest else np.inf


def find_scaled_tensors(
    program: Program, inputs: Mapping[str, Array], scale: str, crop_limit: float
) -> list[ScaledTensor]:
    """Return the tensors of a program that are linear in its scale, from inputs with a scale of 1, without moves."""
    values = {port.value.name: np.asarray(inputs[port.name], np.float64) for port in program.inputs}
    reached = {layer.name for layer in find_scaled_layers(program, scale)}
    known = {port.value.name for port in program.inputs if port.name == scale}
    last = {name: readers[-1].name for name, readers in program.consumers.items()}
    found: list[ScaledTensor] = []
    for layer in program.layers:
        results = evaluate_layer(layer, values)
        values.update(zip((one.name for one in layer.results), results, strict=True))
        if layer.name in reached:
            known.update(one.name for one in layer.results)
            if computes(layer) or layer.name in program.kept:
                found.append(measure(layer, values, known, crop_limit))
        for value in layer.bottoms:
            if last[value.name] == layer.name and value.name not in program.kept:
                values.pop(value.name, None)
    return found


def computes(layer: Layer) -> bool:
    """Return whether values can change in a layer: it is not a mere move."""
    return layer.engine in {Engine.NE, Engine.PE} or is_width_crop(layer)


def measure(layer: Layer, values: Mapping[str, Array], scaled: set[str], crop_limit: float) -> ScaledTensor:
    """Return what is known of one layer's result."""
    exact = values[layer.name]
    largest = float(np.abs(exact).max()) if exact.size else 0.0
    multiplies = layer.engine is Engine.NE
    limit = crop_limit if is_width_crop(layer) else EDGE if multiplies else FP16_MAX
    return ScaledTensor(layer, exact, largest, limit, count_products(layer, values, scaled) if multiplies else None)


def count_products(layer: Layer, values: Mapping[str, Array], scaled: set[str]) -> Products | None:
    """Return the products of a layer by exponents: of a matrix product as they meet, of others as if each met each."""
    pairs = operand_rows(layer, values)
    if pairs is None:
        return None
    (first, one), (second, other) = pairs
    if first not in scaled:
        one, other = other, one
        first, second = second, first
    if first not in scaled or second in scaled:
        return None
    every = -(-len(one) // MOST_ROWS)
    return Products(exponent_counts(one[::every]).T @ exponent_counts(other[::every]))


def operand_rows(layer: Layer, values: Mapping[str, Array]) -> tuple[tuple[str, Array], tuple[str, Array]] | None:
    """Return both operands of a product by name, each as rows whose elements meet those of the same row."""
    named = list(arrays_of(layer, values))
    if len(named) < 2:
        return None
    (first, one), (second, other) = named[:2]
    call = call_of_layer(layer)
    if call is None or call.op != "matmul" or min(one.ndim, other.ndim) < 2:
        return (first, one.reshape(1, -1)), (second, other.reshape(1, -1))
    left = one if call.flag("transpose_x") else np.swapaxes(one, -1, -2)
    right = np.swapaxes(other, -1, -2) if call.flag("transpose_y") else other
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rows = [np.broadcast_to(part, (*batch, *part.shape[-2:])).reshape(-1, part.shape[-1]) for part in (left, right)]
    return (first, rows[0]), (second, rows[1])


def arrays_of(layer: Layer, values: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield what a layer reads, by the names of values; constants have none."""
    for _, ref in layer.refs():
        yield (ref.name, values[ref.name]) if isinstance(ref, Value) else ("", ref.dense().astype(np.float64))


def exponent_counts(rows: Array) -> Array:
    """Return how often every exponent occurs in each row; zeros are not counted."""
    width = HIGHEST - LOWEST + 1
    with np.errstate(divide="ignore"):
        exponents = np.frexp(rows)[1] - 1
    places = np.clip(exponents, LOWEST, HIGHEST) - LOWEST + width * np.arange(len(rows))[:, None]
    counts = np.bincount(places[rows != 0], minlength=width * len(rows))
    return counts.reshape(len(rows), width).astype(np.float64)


def describe_layer(layer: Layer) -> str:
    """Return a layer as a table names it: its kind, shape and place in the user's file."""
    where = "" if layer.location is None else f" at {layer.location}"
    return f"{layer.kind.name}{list(layer.result.type.shape)}{where}"
