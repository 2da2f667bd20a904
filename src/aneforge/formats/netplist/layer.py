"""One unit on its way into a graph: its tensors, its parameters, and the operations that it becomes.

A tensor of depth 1 has four axes in a graph, [N, C, H, W]; one of another depth has five, [N, C, D, H, W].
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from aneforge.callsite import warn
from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.netplist.broadcasts import leave_out_broadcasts
from aneforge.formats.netplist.document import Dims
from aneforge.formats.netplist.parameters import Parameters
from aneforge.formats.netplist.plist import quote_value
from aneforge.formats.netplist.schema import Dim, layer_table
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.formats.netplist.document import Network, Unit
    from aneforge.formats.netplist.netplist_weights import WeightFiles
    from aneforge.graph.node import Argument, Output, Value
    from aneforge.ops.types import Array

    LayerReader = Callable[["Layer"], Value]

__all__ = ["AXES", "Layer", "dims_of"]

AXES = {4: {Dim.BATCH: 0, Dim.CHANNEL: 1, Dim.HEIGHT: 2, Dim.WIDTH: 3}, 5: {dim: int(dim) for dim in Dim}}
"""The axis of every dimension in a graph's tensor, by its rank."""
DEPTH_AXIS = 2
DIMS = tuple(Dim)


def dims_of(value: Value) -> Dims:
    """Return the shape of a graph's tensor as a description has it."""
    return dims_of_shape(value.type.shape)


@lru_cache(1024)
def dims_of_shape(shape: tuple[int, ...]) -> Dims:
    """Return a shape as a description has it; every unit asks several times for those of its tensors."""
    return Dims(*shape) if len(shape) == len(DIMS) else Dims(shape[0], shape[1], 1, shape[2], shape[3])


class Layer:
    """A unit, the values of its bottoms, and the files that hold its kernel."""

    def __init__(self, unit: Unit, bottoms: Sequence[Value], network: Network, weights: WeightFiles) -> None:
        self.unit = unit
        self.params = Parameters(unit.params)
        self.bottoms = tuple(bottoms)
        self.network = network
        self.weights = weights

    @property
    def x(self) -> Value:
        """The first tensor that it reads."""
        return self.bottoms[0]

    @property
    def dims(self) -> Dims:
        """The shape of the first tensor that it reads."""
        return dims_of(self.x)

    # Errors

    def error(
        self, message: str, *, seen: object = None, limit: object = None, remedy: str | None = None
    ) -> GraphError:
        """Return an error about this unit."""
        return GraphError(
            f"unit {quote_value(self.unit.name)}: {message}",
            operation=self.unit.type,
            location=self.unit.location,
            seen=seen,
            limit=limit,
            remedy=remedy,
        )

    def without_meaning(self, message: str, *, seen: object = None, limit: object = None) -> NotSupportedError:
        """Return the error for a form of which no source says what it means."""
        return NotSupportedError(
            f"unit {quote_value(self.unit.name)}: {message}",
            operation=self.unit.type,
            location=self.unit.location,
            seen=seen,
            limit=limit,
        )

    def expect_one(self, *dims: Dim, value: Value | None = None, what: str = "the tensor") -> None:
        """Check that some dimensions of a tensor have length 1.

        Raises:
            GraphError: One is longer.
        """
        found = dims_of(self.x if value is None else value)
        extents = found.extents
        for dim in dims:
            if extents[dim] != 1:
                raise self.error(f"{what} has more than one along {dim.spelling}", seen=found, limit=1)

    # Operations

    def build(self, op: str, operands: Mapping[str, Argument | None], **attributes: object) -> Tensor:
        """Return the first result of a new operation, whose location is that of the unit in the file."""
        return Tensor(build(op, leave_out_broadcasts(op, operands), attributes, self.unit.location))

    def axis(self, dim: Dim, value: Value | None = None) -> int:
        """Return the axis of a dimension; the depth has one where it is not 1."""
        return AXES[len((self.x if value is None else value).type.shape)][dim]

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value in another shape; a constant is looked at otherwise, a tensor goes through an operation.

        Raises:
            GraphError: It has another number of elements.
        """
        if value.type.shape == tuple(shape):
            return value
        if value.type.size != math.prod(shape):
            raise self.error("a tensor has another number of elements", seen=value.type.size, limit=math.prod(shape))
        if isinstance(value, Constant):
            return Dense(read_only(value.dense().reshape(shape)))
        source = source_of(value, "reshape")  # the last of several reshapes is what counts
        if source is not None:
            return self.reshaped(source, shape)
        return self.build("reshape", {"x": value}, shape=tuple(shape))

    def transposed(self, value: Value, perm: Sequence[int]) -> Value:
        """Return a value with its axes in another order; of two transposes that undo each other nothing is left."""
        if tuple(perm) == tuple(range(len(value.type.shape))):
            return value
        if isinstance(value, Constant):
            return Dense(read_only(value.dense().transpose(perm)))
        source = source_of(value, "transpose")
        if source is not None:
            before = value.node.integers("perm")
            return self.transposed(source, [before[axis] for axis in perm])
        return self.build("transpose", {"x": value}, perm=tuple(perm))

    def along(self, *dims: Dim, value: Value | None = None) -> tuple[Value, list[int]]:
        """Return a tensor that has an axis for each of several dimensions, and those axes."""
        found = self.x if value is None else value
        found = self.five(found) if Dim.DEPTH in dims else found
        return found, [self.axis(dim, found) for dim in dims]

    def arrange(self, value: Value, dims: Sequence[Dim], what: str) -> Value:
        """Return a tensor whose axes are along dimensions, in their order.

        Raises:
            GraphError: It is longer than 1 along another dimension.
        """
        self.expect_one(*(dim for dim in DIMS if dim not in dims), value=value, what=what)
        extents, ordered = dims_of(value).extents, sorted(dims)
        flat = self.reshaped(value, [extents[dim] for dim in ordered])
        return self.transposed(flat, [ordered.index(dim) for dim in dims])

    def lifted(self, value: Value, dims: Sequence[Dim]) -> Value:
        """Return a tensor whose axes are along dimensions in the form that a graph has."""
        order = sorted(range(len(dims)), key=dims.__getitem__)
        extents = dict(zip(dims, value.type.shape, strict=True))
        return self.reshaped(self.transposed(value, order), Dims.of(extents).shape)

    def five(self, value: Value) -> Value:
        """Return a value with five axes."""
        return self.reshaped(value, dims_of(value).extents)

    def settled(self, value: Value) -> Value:
        """Return a value of five axes in the form that a graph has: without a depth of 1."""
        shape = value.type.shape
        if len(shape) == len(DIMS) and shape[DEPTH_AXIS] == 1:
            return self.reshaped(value, shape[:DEPTH_AXIS] + shape[DEPTH_AXIS + 1 :])
        return value

    def converted(self, value: Value) -> Value:
        """Return booleans and places in the unit's own element type."""
        dtype = layer_table().element_types[self.unit.output_type].dtype
        return value if value.type.dtype == dtype else self.build("cast", {"x": value}, dtype=dtype)

    def kernel(self, shape: Sequence[int]) -> Array:
        """Return the constant kernel of a unit out of its weights file.

        Raises:
            GraphError: The unit does not say where it is, or its file is missing or too short.
        """
        for key in ("KernelIndex", "KernelOffset"):
            if not self.params.has(key):
                raise self.error(f"a dense kernel needs {key}")
        flat = self.weights.array(
            self.network,
            self.params.integer("KernelIndex"),
            self.params.integer("KernelOffset"),
            self.params.text("KernelType"),
            shape,
            f"the kernel of {quote_value(self.unit.name)}",
            self.unit.location,
        )
        return flat.reshape(shape)

    def checked(self, value: Value) -> Value:
        """Return the unit's result, which must be of the element type that the unit says.

        OutputChannels is not binding: units that state other channels than they give were compiled and ran (inferred
        from tests that its authors run on devices). It is warned of.

        Raises:
            GraphError: It is of another element type.
        """
        warn_of_channels(f"unit {quote_value(self.unit.name)}", self.unit.output_channels, value)
        dtype = layer_table().element_types[self.unit.output_type].dtype
        if value.type.dtype != dtype:
            raise self.error(
                "OutputType is not what the unit gives", seen=self.unit.output_type, limit=value.type.dtype
            )
        return value


def warn_of_channels(what: str, stated: int | None, value: Value) -> None:
    """Warn of a unit or a port that states other channels than there are."""
    found = dims_of(value).channel
    if stated is not None and stated != found:
        warn(
            f"{what}: OutputChannels is {stated}, and the result has {found}; the engine uses those of the result",
            UserWarning,
        )


def source_of(value: Output, op: str) -> Value | None:
    """Return what an operation of a sort reads, if a value is one's result; a chain of them is one operation long."""
    return cast("Value", value.node.operands["x"]) if value.node.op.name == op else None


def read_only(values: Array) -> Array:
    """Return an array that looks into a constant, which nobody can write to."""
    view: Array = values.view()
    view.flags.writeable = False
    return view
