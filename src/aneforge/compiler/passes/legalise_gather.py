"""The gate for gathers by coordinates on targets without a texture engine: three axes of one image, or nothing.

The one named gate of the compiler (`IsValidForH13`, guide ch. 35) asserts that the data has a batch and a depth of 1,
that a gather names three axes, and that its index holds three numbers in its channels, one column wide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from aneforge.arrays import np
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.layer_maker import LayerMaker, merge_first_axes
from aneforge.errors import GraphError, NotSupportedError
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array
    from aneforge.targets import Target

__all__ = ["LegaliseGather"]

REJECT = "Cannot decompose layer on this architecture"
"""The compiler's own text."""


def refusal(layer: Layer, target: Target, reason: str) -> NotSupportedError:
    """Return the error for a gather that does not pass the gate."""
    axes = target.limits.integer("gather_software_axes")
    return NotSupportedError(
        f"{REJECT}: {reason}",
        operation="gather_nd",
        location=layer.location,
        seen=f"{layer.operand('x').type} by {layer.operand('indices').type}",
        limit=f"{axes} axes of one image, named by {axes} coordinates",
        target=target.name,
        remedy="gather along one axis, make the indices constants, or choose a target with the texture engine",
    )


def coordinates_of(layer: Layer, indices: Array, axes: tuple[int, ...]) -> Array:
    """Return constant indices as coordinates of every element that they take, in data of so many axes.

    Raises:
        NotSupportedError: An index is past its axis, which is the model's mistake.
    """
    shape = layer.operand("x").type.shape
    addresses = np.arange(math.prod(shape)).reshape(shape)
    try:
        (taken,) = layer.kind.evaluate({"x": addresses, "indices": indices}, layer.attributes)
    except GraphError as error:
        raise NotSupportedError(
            error.message, operation="gather_nd", location=layer.location, seen=error.seen, limit=error.limit
        ) from None
    return np.stack(np.unravel_index(taken.reshape(-1), axes), -1)


def through_gate(layer: Layer, target: Target) -> list[Layer]:
    """Return a gather in the form that passes the gate.

    Raises:
        NotSupportedError: It has no such form.
    """
    make = LayerMaker(layer)
    x, indices = layer.operand("x"), layer.operand("indices")
    axes = target.limits.integer("gather_software_axes")
    if isinstance(indices, Constant):
        image = (1,) * (axes - x.type.rank) + merge_first_axes(x.type.shape, axes)
        found = coordinates_of(layer, indices.dense(), image)
        index: Ref = Dense.owning(found.astype(numpy_dtype("int32")))
    else:
        image, index = live_index(make, target)
    lookups, longest = index.type.shape[0], target.limits.integer("tensor_height")
    if lookups > longest:
        raise refusal(layer, target, f"{lookups} elements are looked up, and the index is at most {longest} long")
    data = make.reshape(x, image, step="image")
    taken = make.add("gather_nd", {"x": data, "indices": index}, step="taken", choices={"route": "software"})
    if taken.shape != layer.result.shape:
        make.reshape(taken, layer.result.shape, step="shaped")
    return make.finish()


def live_index(make: LayerMaker, target: Target) -> tuple[tuple[int, ...], Ref]:
    """Return the shape of an image, and indices that are computed at run time as coordinates in it.

    Raises:
        NotSupportedError: They name less than every axis after a batch of 1, or more axes than there may be.
    """
    layer = make.layer
    x, indices, batch = layer.operand("x"), layer.operand("indices"), layer.integer("batch_dims")
    axes = target.limits.integer("gather_software_axes")
    named = x.type.shape[batch:]
    if math.prod(x.type.shape[:batch]) > target.limits.integer("gather_software_data_extent"):
        raise refusal(layer, target, "the data is more than one image")
    if indices.type.shape[-1] != len(named) or len(named) > axes:
        raise refusal(layer, target, "the indices are computed at run time and do not name every axis of an image")
    rows = make.reshape(indices, (math.prod(indices.type.shape[:-1]), len(named)), step="rows_of_index")
    spare = axes - len(named)
    if spare:
        zeros = Dense(np.zeros((rows.type.shape[0], spare), numpy_dtype(indices.type.dtype)))
        rows = make.add("concat", {"values": (zeros, rows)}, {"axis": 1}, step="index")
    return (1,) * spare + named, rows


def passes(layer: Layer, target: Target) -> bool:
    """Return whether a gather is in the form that passes the gate, and says so."""
    axes = target.limits.integer("gather_software_axes")
    index = layer.operand("indices").type.shape
    return layer.operand("x").type.rank == axes and index[1:] == (axes,) and layer.choices.get("route") == "software"


@dataclass(frozen=True)
class LegaliseGather(Pass):
    """Bring gathers by coordinates into the form that targets without a texture engine take.

    Data of two axes and live pairs of coordinates, where three axes must be named:

    Before:
        %t2 = TE anec.gather_nd(x = %t0, indices = %t1) : fp16[5]

    After:
        %t2.index = DMA anec.concat(values = [@t2.index.values, %t1]) {axis = 1} : int32[5, 3]
        %t2.image = DMA anec.reshape(x = %t0) {shape = [1, 4, 6]} : fp16[1, 4, 6]
        %t2 = TE anec.gather_nd(x = %t2.image, indices = %t2.index) : fp16[5]
          chosen: {route = "software"}

    Constant indices are rewritten to name single elements. Where there is a texture engine the layer stays and its
    route is `texture`; where no source gives the gate it is `unknown`.
    """

    name: ClassVar[str] = "legalise-gather"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Rewrite or mark gathers by coordinates."""
        target = program.target
        texture = target.hal.get("texture_engine")
        gated = texture is False and "gather_software_axes" in target.limits
        route = "texture" if texture is True else "unknown"

        def gathered(layer: Layer) -> list[Layer] | None:
            if layer.kind.name != "gather_nd":
                return None
            if gated:
                return None if passes(layer, target) else through_gate(layer, target)
            return None if layer.choices.get("route") == route else [layer.choosing(route=route)]

        return replace_layers(program, gathered)
