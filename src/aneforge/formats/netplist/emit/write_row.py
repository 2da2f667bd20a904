"""Writes an operation that is one layer, by its row of the table of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.rows import row_of_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.call import Call
    from aneforge.formats.netplist.netplist_values import Placed
    from aneforge.formats.netplist.rows import LayerRow, Layout
    from aneforge.formats.netplist.schema import Dim

__all__ = ["row_of", "write_row"]


def row_of(call: Call, **changed: object) -> tuple[LayerRow, Mapping[str, object]]:
    """Return the row of an operation and its attributes, some of them changed.

    Raises:
        NotSupportedError: The layer of the operation has fixed values for others of them.
    """
    attributes = {**call.node.attributes, **changed}
    row = row_of_node(call.node.op.name, attributes)
    if row is None:
        raise call.to.refuse("no layer has these attributes", seen=attributes, nearest="none")
    return row, attributes


def write_row(call: Call, **changed: object) -> Placed:
    """Write the layer that an operation is; some of its attributes may be given otherwise.

    Raises:
        NotSupportedError: A tensor has more axes than the layer, or is not of fp16.
        GraphError: A number has no fp16.
    """
    to = call.to
    row, attributes = row_of(call, **changed)
    params = row.params_of(attributes, to.number)
    values = [call.operand(name) for name in row.operands]
    to.expect_floats(*values)
    if row.result.dims:
        laid = zip(map(to.settle, values), row.operands.values(), strict=True)
        bottoms = [to.place(value, axes_of(call, row, layout, len(value.shape))) for value, layout in laid]
        like = to.result(call.shape, axes_of(call, row, row.result, len(call.shape)))
        return to.unit(row.kind, bottoms, params, like)
    bottoms = [to.settle(values[0])] if len(values) == 1 else to.pair(values[0], values[1], call.shape)
    return to.unit(row.kind, bottoms, params, bottoms[0])


def axes_of(call: Call, row: LayerRow, layout: Layout, rank: int) -> tuple[Dim, ...]:
    """Return the dimensions of the axes of a tensor.

    Raises:
        NotSupportedError: The layer takes fewer.
    """
    axes = layout.of_rank(rank)
    if axes is None:
        raise call.to.refuse(
            f"a {row.kind} unit takes a tensor of at most {len(layout.dims)} axes",
            seen=f"{rank} axes",
            limit=len(layout.dims),
            nearest="reshape several axes into one",
        )
    return axes
