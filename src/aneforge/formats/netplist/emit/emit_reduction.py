"""Reductions, and the normalisation by neighbouring channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.emit.write_row import row_of, write_row
from aneforge.formats.netplist.rows import rows

if TYPE_CHECKING:
    from aneforge.formats.netplist.call import Call, Writer
    from aneforge.formats.netplist.netplist_values import Held

__all__ = ["REDUCTION"]


def reduction(call: Call) -> Held:
    """Write a reduction; along axes of length 1 it changes nothing."""
    to = call.to
    x = to.floats(call.x)
    rank = len(x.shape)
    given = call.node.optional_integers("axes")
    axes = range(rank) if given is None else sorted(axis % rank for axis in given)
    dims = [dim for axis in axes if (dim := x.axes[axis]) is not None]
    if not dims:
        return x.reshaped(call.shape)
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)]
    row, attributes = row_of(call, keep_dims=True)
    params = row.params_of(attributes, to.number, dims)
    return to.unit(row.kind, [x], params, to.result(shape, x.axes)).reshaped(call.shape)


def response_norm(call: Call) -> Held:
    """Write the normalisation by neighbouring channels.

    Raises:
        NotSupportedError: The window is not as long as there are channels.
    """
    to, native = call.to, call.node.op.name == "lrn"
    size = call.node.integer("kernel_channel" if native else "size")
    channels = call.shape[0 if native else 1]
    if size != channels:
        raise to.refuse(
            "a LocalResponseNormalization unit normalises only the first KernelChannel channels",
            seen=f"a window of {size} for {channels} channels",
            limit=channels,
            nearest=f"a window of {channels}",
        )
    return write_row(call)


REDUCTION: dict[str, Writer] = {
    **dict.fromkeys((row.op for row in rows() if row.kind == "Reduction"), reduction),
    "local_response_norm": response_norm,
    "lrn": response_norm,
}
