"""Reads a layer that is one operation, by its row of the table of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.formats.netplist.layer import AXES, dims_of
from aneforge.formats.netplist.rows import row_of_unit
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from aneforge.formats.netplist.layer import Layer
    from aneforge.formats.netplist.rows import LayerRow
    from aneforge.formats.netplist.schema import Dim
    from aneforge.graph.node import Value

__all__ = ["read_row"]


def read_row(layer: Layer) -> Value:
    """Return the operation that a unit is.

    Raises:
        GraphError: It reads another number of tensors, or they have other shapes than the operation takes.
    """
    row = row_of_unit(layer.unit.type, layer.unit.params)
    if len(layer.bottoms) != len(row.operands):
        message = f"{row.entry.params.get('Type', row.kind)} reads another number of tensors"
        raise layer.error(message, seen=len(layer.bottoms), limit=len(row.operands))
    if not row.result.dims:
        return read_anywhere(layer, row)
    laid = {
        name: layer.arrange(value, layout.of_dims(dims_of(value)), name_bottom(name, place, len(layer.bottoms)))
        for place, (value, (name, layout)) in enumerate(zip(layer.bottoms, row.operands.items(), strict=True))
    }
    operands = {operand.name: laid[operand.name] for operand in find_op(row.op).operands}
    result = layer.build(row.op, operands, **row.attributes_of(layer.unit.params))
    # A row has a dimension for every axis that its operation gives to tensors of a description.
    return layer.lifted(result, cast("tuple[Dim, ...]", row.result.of_rank(len(result.shape))))


def read_anywhere(layer: Layer, row: LayerRow) -> Value:
    """Return an operation whose tensors have any dimensions: one, or two of one shape."""
    if len(row.operands) > 1:
        return layer.build(row.op, pair(layer), **row.attributes_of(layer.unit.params))
    x, _ = layer.along(*row.dims_of(layer.unit.params))
    attributes = row.attributes_of(layer.unit.params, AXES[len(x.type.shape)])
    return layer.settled(layer.build(row.op, {"x": x}, **attributes))


def pair(layer: Layer) -> dict[str, Value]:
    """Return the two tensors of a unit, which must have one shape.

    Raises:
        GraphError: They differ.
    """
    x, y = layer.bottoms
    if x.type.shape != y.type.shape:
        raise layer.error(
            "the two tensors differ in shape, and no source says that one is repeated",
            seen=f"{dims_of(x)} and {dims_of(y)}",
            remedy="put a Broadcast unit before it",
        )
    return {"x": x, "y": y}


def name_bottom(name: str, place: int, count: int) -> str:
    """Return what messages call a bottom: its place where the operand's name says nothing."""
    if len(name) > 1:
        return name
    return "the tensor" if count == 1 else f"the {('first', 'second')[place]} tensor"
