"""One layer: its operands, its operation before the epilogue, and then the slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.engine import golden
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.exactness import Label, worst
from aneforge.engine.execution.epilogue import Flowing, along, gained, through
from aneforge.engine.execution.labels import label_of_product
from aneforge.engine.execution.sums import total_of
from aneforge.engine.planar import host_fp16, read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Stage
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["Computed", "computed"]

PRODUCTS = {"convolution", "deconvolution", "matmul", "linear"}
EXACT_PAIRS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mult": np.multiply,
}
"""Elementwise layers whose exact result float64 holds: fp16 numbers span 40 bits, their products 22."""


@dataclass(frozen=True, slots=True)
class Computed:
    """The results of a layer, and how sure they are."""

    results: tuple[Array, ...]
    label: Label


def computed(layer: Layer, values: Mapping[str, Array], target: Target) -> Computed:
    """Return the results of one layer, given the values that it reads."""
    operands = {name: argument_of(argument, values) for name, argument in layer.operands.items()}
    if layer.kind.name == GAIN_OFFSET:
        source = Flowing(cast("Array", operands["input"]), None)
        return finished(gained(source, affine_of_layer(layer)), layer.epilogue.stages, target)
    call = call_of_layer(layer)
    assert call is not None, "only gain and offset is no call"  # noqa: S101 - handled above
    found = arithmetic(call.op, target)
    renamed = cast("dict[str, Any]", call.renamed(operands))
    if layer.kind.name in PRODUCTS:
        return product(layer, renamed, call, target)
    results = found.compute(renamed, call.attributes)
    label = found.label_of(renamed, call.attributes)
    if not layer.epilogue:
        return Computed(results, label)
    exact = None
    if layer.kind.name in EXACT_PAIRS and layer.epilogue.stages[0][0] is Slot.GAIN_OFFSET:
        exact = EXACT_PAIRS[layer.kind.name](read(renamed["x"]), read(renamed["y"]))
    return finished(Flowing(results[0], exact, (label,)), layer.epilogue.stages, target)


def product(layer: Layer, operands: dict[str, Any], call: Call, target: Target) -> Computed:
    """Run a product and what is behind it.

    An offset alone directly behind it is where the sum starts (measured). A gain there works on the sum before it is
    rounded. Behind anything else gain and offset work on fp16.
    """
    stages, rank = layer.epilogue.stages, layer.core_types[0].rank
    start, exact = None, False
    if stages and stages[0][0] is Slot.GAIN_OFFSET:
        affine = affine_of_stage(stages[0][1], rank)
        exact = affine.gain is not None
        if not exact:
            start, stages = along(affine.offset, rank, affine.axis), stages[1:]
    winograd = call.op == "conv" and layer.choices.get("winograd") is True
    label = label_of_product(arithmetic(call.op, target), operands, call, start, winograd=winograd)
    total = total_of(layer, operands, call, target, start)
    return finished(Flowing(host_fp16(golden.leave(total)), total if exact else None, (label,)), stages, target)


def finished(flowing: Flowing, stages: tuple[tuple[Slot, Stage], ...], target: Target) -> Computed:
    """Take a value through slots."""
    for _, stage in stages:
        flowing = through(flowing, stage, target)
    return Computed((flowing.rounded,), worst(flowing.labels))


def argument_of(argument: Argument, values: Mapping[str, Array]) -> Array | tuple[Array, ...]:
    """Return the values of an operand."""

    def array_of(ref: Ref) -> Array:
        return values[ref.name] if isinstance(ref, Value) else ref.dense()

    return tuple(map(array_of, argument)) if isinstance(argument, tuple) else array_of(argument)
