"""Reductions, and the two normalisations that have a layer of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.codegen.netplist.values import IMAGE, Held
from aneforge.importers.netplist.schema import layer_table

if TYPE_CHECKING:
    from aneforge.codegen.netplist.call import Call, Writer

__all__ = ["REDUCTION"]


def reduction(call: Call) -> Held:
    """Write a reduction; along axes of length 1 it changes nothing."""
    to = call.to
    x = to.floats(call.x)
    kind = next(kind for kind, name in layer_table().reductions.items() if name == call.node.op.name)
    rank = len(x.shape)
    given = call.wholes("axes")
    axes = range(rank) if given is None else sorted(axis % rank for axis in given)
    dims = [dim for axis in axes if (dim := x.axes[axis]) is not None]
    if not dims:
        return x.reshaped(call.shape)
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)]
    params = {"Type": kind, "Dimension": tuple(dim.spelling for dim in sorted(dims))}
    return to.unit("Reduction", [x], params, to.result(shape, x.axes)).reshaped(call.shape)


def minmax_norm(call: Call) -> Held:
    """Write the range along a dimension brought to 0 and 1."""
    to = call.to
    x = to.place(to.floats(call.x), IMAGE[1:])
    params = {
        "Dimension": call.text("dimension").capitalize(),
        "Epsilon": to.number(call.number("epsilon"), "epsilon"),
    }
    return to.unit("MinMaxNormalization", [x], params, x)


def response_norm(call: Call) -> Held:
    """Write the normalisation by neighbouring channels.

    Raises:
        NotSupportedError: The window is not as long as there are channels, or is even.
    """
    to, native = call.to, call.node.op.name == "lrn"
    size = call.whole("kernel_channel" if native else "size")
    rank = len(call.shape)
    channels = call.shape[0 if native else 1]
    if size != channels:
        raise to.refuse(
            "a LocalResponseNormalization unit normalises the first KernelChannel channels alone",
            seen=f"a window of {size} for {channels} channels",
            limit=channels,
            nearest=f"a window of {channels}",
        )
    if size % 2 == 0:
        raise to.refuse(
            "the layer's even window reaches one channel further behind than before, this one the other way round",
            seen=size,
            limit="an odd window",
            nearest=f"a window of {size - 1} or {size + 1}, with as many channels",
        )
    if rank > len(IMAGE):
        raise to.refuse("the layer takes no depth", seen=list(call.shape), nearest="at most four axes")
    axes = IMAGE[1:] if native else (*IMAGE[:2], *IMAGE[6 - rank :])
    x = to.place(to.floats(call.x), axes)
    params = {
        "Type": "Channel",
        "KernelWidth": 1,
        "KernelHeight": 1,
        "KernelChannel": size,
        "Alpha": to.number(call.number("alpha"), "alpha"),
        "Beta": call.number("beta"),
        "K": call.number("k"),
    }
    return to.unit("LocalResponseNormalization", [x], params, x)


REDUCTION: dict[str, Writer] = {
    **dict.fromkeys(layer_table().reductions.values(), reduction),
    "local_response_norm": response_norm,
    "lrn": response_norm,
    "minmax_norm": minmax_norm,
}
