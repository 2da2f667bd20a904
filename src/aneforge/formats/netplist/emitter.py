"""Writes units: puts tensors where layers need them, repeats them where shapes differ, notes what is lost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.netplist.draft import Draft, DraftUnit, StoredArray
from aneforge.formats.netplist.netplist_values import (
    FLOAT,
    IMAGE,
    Held,
    Known,
    Placed,
    Places,
    Reshaped,
    Truncated,
    canonical,
    in_order,
)
from aneforge.formats.netplist.parameters import bits_of, number_of, records_of
from aneforge.formats.netplist.schema import Dim, layer_table
from aneforge.graph.convert import Change
from aneforge.ops.numbers import FP16_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.netplist.document import Parameter
    from aneforge.graph.node import Node
    from aneforge.ops.types import Array

__all__ = ["Emitter"]

FREE_ORDER = (Dim.WIDTH, Dim.HEIGHT, Dim.CHANNEL, Dim.BATCH, Dim.DEPTH)
"""Where an axis goes that has no dimension yet."""


class Emitter:
    """The description of one graph in the making, and the node that is written at the moment."""

    def __init__(self, node: Node, *, subtract_max: bool) -> None:
        self.draft = Draft()
        self.changes: list[Change] = []
        self.node = node
        self.subtract_max = subtract_max

    # What cannot be written, and what is written with a difference

    def refuse(self, message: str, *, nearest: str, seen: object = None, limit: object = None) -> NotSupportedError:
        """Return the error for what a description cannot express."""
        return NotSupportedError(
            message,
            operation=self.node.op.name,
            location=self.node.location,
            seen=seen,
            limit=limit,
            remedy=f"nearest form: {nearest}",
        )

    def note(self, detail: str) -> None:
        """Keep note of a difference between the graph and what is written."""
        self.changes.append(Change(self.node.op.name, self.node.location, detail))

    def number(self, value: float, what: str, *, infinite: bool = False) -> float:
        """Return a number as a description holds it: rounded to fp16.

        Raises:
            GraphError: It is not a number, or too large.
        """
        rounded = number_of(bits_of(value))
        too_large = math.isinf(rounded) and not (infinite and math.isinf(value))
        if math.isnan(value) or too_large:
            raise GraphError(
                f"{what} has no bit pattern in fp16",
                operation=self.node.op.name,
                location=self.node.location,
                seen=value,
                limit=f"{-FP16_MAX:g} to {FP16_MAX:g}",
            )
        if rounded != value:
            self.note(f"{what} {value!r} is rounded to {rounded!r}, its fp16")
        return rounded

    # Units

    def unit(
        self,
        kind: str,
        bottoms: Sequence[Placed],
        params: Mapping[str, Parameter],
        like: Placed,
        *,
        groups: int | None = None,
        kernel: Array | None = None,
    ) -> Placed:
        """Write a unit; `like` has shape, place and element type of its result, its symbol is not looked at.

        Parameters that are not given are written with their defaults.
        """
        symbol = self.draft.unit(
            DraftUnit(
                type=kind,
                bottoms=tuple(bottom.symbol for bottom in bottoms),
                params={**layer_table().layers[kind].defaults, **params},
                channels=like.dims.channel,
                stored=like.stored,
                groups=groups,
                kernel=None if kernel is None else StoredArray.of(kernel),
                node=self.node,
            )
        )
        return replace(like, symbol=symbol)

    def result(
        self, shape: Sequence[int], axes: Sequence[Dim | None], dtype: str | None = None, stored: str = FLOAT
    ) -> Placed:
        """Return the result of a unit: its shape, dimensions of its axes, and element type in graph and description."""
        extents = tuple(shape)
        return Placed(
            -1, extents, list_used_dimensions(extents, axes), dtype or layer_table().element_types[stored].dtype, stored
        )

    # Dimensions of tensors

    def settle(self, value: Held) -> Placed:
        """Return a value as a symbol, whatever the dimensions of its axes."""
        return value if isinstance(value, Placed) else self.place(value, canonical(value.shape))

    def expect_floats(self, *values: Held) -> None:
        """Check that values are of fp16.

        Raises:
            NotSupportedError: One holds something else.
        """
        for value in values:
            if value.dtype != "fp16":
                raise self.refuse(
                    "layers of a description compute in Float16",
                    seen=value.dtype,
                    limit="fp16",
                    nearest="cast the tensor to fp16 first",
                )

    def floats(self, value: Held) -> Placed:
        """Return a value as a symbol of fp16.

        Raises:
            NotSupportedError: It holds something else.
        """
        self.expect_floats(value)
        return self.settle(value)

    def place(self, value: Held, axes: Sequence[Dim | None]) -> Placed:
        """Return a value as a symbol whose axes are along given dimensions; those of length 1 along any.

        Raises:
            NotSupportedError: A reshape would have to move elements along the depth.
        """
        wanted = list_used_dimensions(value.shape, axes)
        if isinstance(value, Known):
            return self.constant(value, wanted)
        if isinstance(value, Places):
            return self.place(value.write_as(self.stored_type(value)), axes)
        if isinstance(value, Truncated):
            raise self.refuse(
                "no layer cuts numbers towards zero",
                seen=f"a cast of fp16 to {value.dtype}",
                nearest="floor, kept in fp16",
            )
        if isinstance(value, Reshaped):
            target = wanted if in_order(wanted) else list_used_dimensions(value.shape, canonical(value.shape))
            value = self.reshape(value, target)
        moves = {here: there for here, there in zip(value.axes, wanted, strict=True) if here is not None}
        if all(here is there for here, there in moves.items()):
            return value
        return self.transpose(value, wanted, {here: there for here, there in moves.items() if there is not None})

    def stored_type(self, value: Places) -> str:
        """Return the element type in which integers are kept when none was asked for.

        Raises:
            NotSupportedError: There is none for them.
        """
        if value.dtype == "uint16":
            return "UInt16"
        raise self.refuse(
            "a description holds places of elements as Float16 or UInt16",
            seen=value.dtype,
            limit="fp16, uint16",
            nearest="cast them to fp16",
        )

    def transpose(self, value: Placed, wanted: tuple[Dim | None, ...], moves: dict[Dim, Dim]) -> Placed:
        """Write a transpose that moves dimensions; those of length 1 fill the places that become free."""
        left = [dim for dim in Dim if dim not in moves]
        free = [dim for dim in Dim if dim not in moves.values()]
        staying = [dim for dim in left if dim in free]
        others = zip((d for d in left if d not in staying), (d for d in free if d not in staying), strict=True)
        every = {**moves, **dict(others)}
        pairs = [(here, every[here].spelling) for here in sorted(every) if here is not every[here]]
        params = {"TransposeDimensions": records_of("Transpose", "TransposeDimensions", pairs)}
        return self.unit("Transpose", [value], params, replace(value, axes=wanted))

    def reshape(self, value: Reshaped, axes: tuple[Dim | None, ...]) -> Placed:
        """Write a reshape of a tensor without depth, whose axes are in order before and after.

        Raises:
            NotSupportedError: There is depth before or after.
        """
        base = value.base
        if not in_order(base.axes):
            base = self.place(base, canonical(base.shape))
        like = self.result(value.shape, axes, base.dtype, base.stored)
        if not in_order(base.axes) or not in_order(like.axes):
            raise self.refuse(
                "a Reshape unit has no key for the depth",
                seen=f"{list(base.shape)} to {list(value.shape)}",
                limit="four axes, or more of which one is 1",
                nearest="reshape between shapes of at most four axes",
            )
        params = {f"Reshaped{dim.spelling}": like.dims.at(dim) for dim in IMAGE}
        return self.unit("Reshape", [base], params, like)

    # Shapes that differ

    def common_axes(self, shape: tuple[int, ...], *values: Held) -> tuple[Dim | None, ...]:
        """Return the dimensions of a result's axes: those of the values, else the default."""
        chosen: list[Dim | None] = [None] * len(shape)
        for value in values:
            if isinstance(value, Placed):
                offset = len(shape) - len(value.shape)
                for axis, dim in enumerate(value.axes, offset):
                    chosen[axis] = dim if chosen[axis] is None else chosen[axis]
        taken = [dim for dim in chosen if dim is not None]
        default = canonical(shape)
        if len(set(taken)) < len(taken):
            return list_used_dimensions(shape, default)
        for axis, extent in enumerate(shape):
            if extent != 1 and chosen[axis] is None:
                free = [dim for dim in (default[axis], *FREE_ORDER) if dim not in chosen]
                chosen[axis] = free[0]
        return list_used_dimensions(shape, chosen)

    def spread(self, value: Held, shape: tuple[int, ...], axes: Sequence[Dim | None]) -> Placed:
        """Return a value repeated to a shape, its axes along given dimensions."""
        own = (1,) * (len(shape) - len(value.shape)) + tuple(value.shape)
        placed = self.place(value.reshaped(own), axes)
        like = self.result(shape, axes, placed.dtype, placed.stored)
        if placed.dims == like.dims:
            return replace(like, symbol=placed.symbol)
        pairs = [(dim, like.dims.at(dim)) for dim in Dim if like.dims.at(dim) != placed.dims.at(dim)]
        params = {"BroadcastInfo": records_of("Broadcast", "BroadcastInfo", pairs)}
        return self.unit("Broadcast", [placed], params, like)

    def pair(self, x: Held, y: Held, shape: tuple[int, ...]) -> tuple[Placed, Placed]:
        """Return two values in one shape and one place."""
        axes = self.common_axes(shape, x, y)
        return self.spread(x, shape, axes), self.spread(y, shape, axes)

    # Constants

    def constant(self, value: Known, axes: tuple[Dim | None, ...]) -> Placed:
        """Write a constant whose axes are along given dimensions.

        Raises:
            NotSupportedError: A description has no such element type, or an integer is out of its range.
        """
        like = self.result(value.shape, axes, value.dtype, FLOAT)
        values = value.values
        if value.dtype == "bool":
            values = values.astype(np.float16)
        elif value.dtype != "fp16":
            like = replace(like, stored=self.constant_type(value))
            values = values.astype(np.dtype(layer_table().element_types[like.stored].dtype))
        order = sorted((dim, axis) for axis, dim in enumerate(like.axes) if dim is not None)
        squeezed = [axis for axis, dim in enumerate(like.axes) if dim is None]
        laid = values.transpose([*(axis for _, axis in order), *squeezed]).reshape(like.dims.extents)
        return replace(like, symbol=self.draft.constant(laid, like.dims, like.stored))

    def constant_type(self, value: Known) -> str:
        """Return the element type of a constant of integers; places of elements are UInt16.

        Raises:
            NotSupportedError: There is none that holds them.
        """
        for spelling, entry in layer_table().element_types.items():
            if entry.dtype == value.dtype:
                return spelling
        if value.dtype == "int32" and value.values.min() >= 0 and value.values.max() <= 0xFFFF:
            return "UInt16"
        raise self.refuse(
            "a description has no constants of such elements",
            seen=f"{value.dtype} from {value.values.min()} to {value.values.max()}",
            limit="fp16, or integers from 0 to 65535",
            nearest="cast the constant to fp16",
        )

    def add_known(self, values: Array) -> Known:
        """Return an array of fp16 as a constant."""
        return Known(values.astype(np.float16, copy=False), "fp16")


def list_used_dimensions(shape: Sequence[int], axes: Sequence[Dim | None]) -> tuple[Dim | None, ...]:
    """Return the dimensions of the axes that are longer than 1."""
    return tuple(None if extent == 1 else dim for extent, dim in zip(shape, axes, strict=True))
