"""Operations that take a region of a tensor, write one, or surround a tensor with further elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.op import Basis, MilStatus, Op, Support, Surface
from aneforge.ops.sampling import Chooser, Fill, Sample
from aneforge.ops.sampling import shape as draw_shape
from aneforge.ops.shapes import common_dtype, expect_rank, normalised_axes, normalised_axis
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.structural import (
    CATEGORY,
    F0,
    LIKELY_F2,
    NATIVE_LAYER_F0,
    NOWHERE,
    any_tensor,
    expect_entries,
    expect_representable,
    expect_whole_numbers,
)
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

X = (Operand("x"),)


# slice_by_size, slice_by_index, slice_update


def block(shape: tuple[int, ...], begin: tuple[int, ...], size: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the region of `size` elements from `begin` on; a size of −1 goes to the end.

    Raises:
        GraphError: The region does not lie within the shape.
    """
    expect_entries("begin", begin, len(shape), "axis")
    expect_entries("size", size, len(shape), "axis")
    region: list[slice] = []
    for axis, (extent, first, count) in enumerate(zip(shape, begin, size, strict=True)):
        end = extent if count == -1 else first + count
        if first > extent or end > extent:
            raise GraphError(f"the slice passes the end of axis {axis}", seen=max(first, end), limit=extent)
        region.append(slice(first, end))
    return tuple(region)


def infer_slice_by_size(x: TensorType, *, begin: tuple[int, ...], size: tuple[int, ...]) -> TensorType:
    """Return the type of a block of a tensor."""
    return x.with_shape(*region_shape(x.shape, block(x.shape, begin, size)))


def slice_by_size(x: Array, *, begin: tuple[int, ...], size: tuple[int, ...]) -> Array:
    """Return a block of a tensor."""
    return x[block(x.shape, begin, size)]


def sample_slice_by_size(chooser: Chooser) -> Sample:
    """Draw a block, some of its axes to the end."""
    shape = draw_shape(chooser)
    begin = tuple(chooser.integer(0, extent - 1) for extent in shape)
    size = tuple(
        chooser.choose([-1, chooser.integer(1, extent - first)]) for extent, first in zip(shape, begin, strict=True)
    )
    return Sample({"x": any_tensor(chooser, shape)}, {"begin": begin, "size": size})


class Region(TypedDict):
    """The attributes that name a region: from begin to end by stride on every axis."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    stride: tuple[int, ...] | None
    begin_mask: tuple[int, ...] | None
    end_mask: tuple[int, ...] | None
    squeeze_mask: tuple[int, ...] | None


REGION = (
    Attribute("begin", AttributeKind.INTEGERS),
    Attribute("end", AttributeKind.INTEGERS),
    Attribute("stride", AttributeKind.INTEGERS, None),
    Attribute("begin_mask", AttributeKind.INTEGERS, None, least=0, most=1),
    Attribute("end_mask", AttributeKind.INTEGERS, None, least=0, most=1),
    Attribute("squeeze_mask", AttributeKind.INTEGERS, None, least=0, most=1),
)


def region_index(shape: tuple[int, ...], region: Region) -> tuple[slice | int, ...]:
    """Return the index of a region as NumPy has it: a slice for an axis that stays, a number for one that goes.

    Raises:
        GraphError: A list does not fit the rank, a stride is 0, or a squeezed axis has no such element.
    """
    rank = len(shape)
    begin, end, stride, from_first, to_last, squeezed = (
        axis_entries(name, given, default, rank)
        for name, given, default in (
            ("begin", region["begin"], 0),
            ("end", region["end"], 0),
            ("stride", region["stride"], 1),
            ("begin_mask", region["begin_mask"], 0),
            ("end_mask", region["end_mask"], 0),
            ("squeeze_mask", region["squeeze_mask"], 0),
        )
    )
    if 0 in stride:
        raise GraphError("a stride of 0 never moves on", seen=list(stride), limit="any other whole number")
    index: list[slice | int] = []
    for axis, extent in enumerate(shape):
        if squeezed[axis]:
            index.append(0 if from_first[axis] else element(axis, extent, begin[axis]))
        else:
            first, last = None if from_first[axis] else begin[axis], None if to_last[axis] else end[axis]
            index.append(slice(first, last, stride[axis]))
    return tuple(index)


def axis_entries(name: str, given: tuple[int, ...] | None, default: int, rank: int) -> tuple[int, ...]:
    """Return a list with an entry for each axis; one that was left out has the default for all.

    Raises:
        GraphError: The list does not fit the rank.
    """
    if given is None:
        return (default,) * rank
    expect_entries(name, given, rank, "axis")
    return given


def element(axis: int, extent: int, place: int) -> int:
    """Return the place of an element that must be on an axis.

    Raises:
        GraphError: The axis is too short.
    """
    if not -extent <= place < extent:
        raise GraphError(
            f"begin names no element of the squeezed axis {axis}", seen=place, limit=f"{-extent} to {extent - 1}"
        )
    return place


def region_shape(shape: Sequence[int], index: Sequence[slice | int]) -> tuple[int, ...]:
    """Return the shape of a region."""
    return tuple(len(range(extent)[one]) for extent, one in zip(shape, index, strict=True) if isinstance(one, slice))


def infer_slice_by_index(x: TensorType, **region: Unpack[Region]) -> TensorType:
    """Return the type of a region of a tensor."""
    return x.with_shape(*region_shape(x.shape, region_index(x.shape, region)))


def slice_by_index(x: Array, **region: Unpack[Region]) -> Array:
    """Return a region of a tensor."""
    return np.asarray(x[region_index(x.shape, region)])


def infer_slice_update(x: TensorType, update: TensorType, **region: Unpack[Region]) -> TensorType:
    """Return the type of a tensor with a region written."""
    common_dtype(x, update)
    wanted = region_shape(x.shape, region_index(x.shape, region))
    if update.shape != wanted:
        raise GraphError("update does not have the shape of the region", seen=list(update.shape), limit=list(wanted))
    return x


def slice_update(x: Array, update: Array, **region: Unpack[Region]) -> Array:
    """Return a tensor with a region written."""
    result = x.copy()
    result[region_index(x.shape, region)] = update
    return result


def draw_region(chooser: Chooser, shape: tuple[int, ...]) -> Region:
    """Draw a region of one element or more: both directions, both ways to count, ends past the axis, all masks."""
    stride = tuple(chooser.choose([1, 1, 2, 3, -1, -2]) for _ in shape)
    squeeze = tuple(chooser.choose([0, 0, 1]) for _ in shape)
    begin = [chooser.integer(-extent, extent - 1) for extent in shape]
    end = [chooser.integer(-extent - 2, extent + 2) for extent in shape]
    begin_mask = [chooser.choose([0, 0, 1]) for _ in shape]
    end_mask = [chooser.choose([0, 0, 1]) for _ in shape]
    for axis, extent in enumerate(shape):
        first, last = None if begin_mask[axis] else begin[axis], None if end_mask[axis] else end[axis]
        if not len(range(extent)[first : last : stride[axis]]):
            end_mask[axis] = 1
    return Region(
        begin=tuple(begin),
        end=tuple(end),
        stride=chooser.choose([stride, None]) if all(one == 1 for one in stride) else stride,
        begin_mask=tuple(begin_mask) if any(begin_mask) else None,
        end_mask=tuple(end_mask) if any(end_mask) else None,
        squeeze_mask=tuple(squeeze) if any(squeeze) else None,
    )


def attributes_of(region: Region) -> dict[str, AttributeValue]:
    """Return a region as attributes."""
    return {
        "begin": region["begin"],
        "end": region["end"],
        "stride": region["stride"],
        "begin_mask": region["begin_mask"],
        "end_mask": region["end_mask"],
        "squeeze_mask": region["squeeze_mask"],
    }


def sample_slice_by_index(chooser: Chooser) -> Sample:
    """Draw a region."""
    shape = draw_shape(chooser)
    return Sample({"x": any_tensor(chooser, shape)}, attributes_of(draw_region(chooser, shape)))


def sample_slice_update(chooser: Chooser) -> Sample:
    """Draw a region and what is written there."""
    x = any_tensor(chooser, draw_shape(chooser))
    region = draw_region(chooser, x.type.shape)
    update = Fill(x.type.with_shape(*region_shape(x.type.shape, region_index(x.type.shape, region))))
    return Sample({"x": x, "update": update}, attributes_of(region))


SLICE_BY_SIZE = Op(
    name="slice_by_size",
    category=CATEGORY,
    summary="the block of x of size[i] elements from begin[i] on along axis i; a size of −1 goes to the end",
    operands=X,
    attributes=(
        Attribute("begin", AttributeKind.INTEGERS, least=0),
        Attribute("size", AttributeKind.INTEGERS, least=-1),
    ),
    infer=infer_slice_by_size,
    meaning=slice_by_size,
    sample=sample_slice_by_size,
    surface=Surface.FUSED,
    support=F0,
)
SLICE_BY_INDEX = Op(
    name="slice_by_index",
    category=CATEGORY,
    summary="x[begin[i] : end[i] : stride[i]] along axis i; a mask leaves begin or end open, or drops the axis",
    operands=X,
    attributes=REGION,
    infer=infer_slice_by_index,
    meaning=slice_by_index,
    sample=sample_slice_by_index,
    support=Support(floor=0, mil_since=3, mil_otherwise=MilStatus.BRIDGE),
)
SLICE_UPDATE = Op(
    name="slice_update",
    category=CATEGORY,
    summary="x with the region that slice_by_index would take replaced by `update`",
    operands=(Operand("x"), Operand("update")),
    attributes=REGION,
    infer=infer_slice_update,
    meaning=slice_update,
    sample=sample_slice_update,
    opset="ios18",
    support=LIKELY_F2,
)


# pad, crop, reverse


NUMPY_PAD_MODES: dict[str, Literal["reflect", "edge", "symmetric"]] = {
    "reflect": "reflect",
    "replicate": "edge",
    "symmetric": "symmetric",
}


def pad_widths(rank: int, pad: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return how many elements come before and after every axis; `pad` is of the last axes.

    Raises:
        GraphError: The list has an odd length or is too long.
    """
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise GraphError(
            "pad is not a list of pairs, before and after, for the last axes",
            seen=len(pad),
            limit=f"an even number up to {2 * rank}",
        )
    pairs = tuple(zip(pad[::2], pad[1::2], strict=True))
    return ((0, 0),) * (rank - len(pairs)) + pairs


def infer_pad(x: TensorType, *, pad: tuple[int, ...], mode: str, constant_val: float) -> TensorType:
    """Return the type of a padded tensor."""
    widths = pad_widths(x.rank, pad)
    if mode == "constant":
        expect_representable("constant_val", constant_val, x.dtype)
    for axis, (extent, both) in enumerate(zip(x.shape, widths, strict=True)):
        most = {"reflect": max(0, extent - 1), "symmetric": extent, "replicate": max(both) if extent else 0}.get(mode)
        if most is not None and max(both) > most:
            raise GraphError(f"axis {axis} is too short to pad in mode {mode}", seen=max(both), limit=most)
    return x.with_shape(*(extent + sum(both) for extent, both in zip(x.shape, widths, strict=True)))


def padded(x: Array, *, pad: tuple[int, ...], mode: str, constant_val: float) -> Array:
    """Return a tensor with further elements around it."""
    widths = pad_widths(x.ndim, pad)
    if mode == "constant":
        return np.pad(x, widths, constant_values=x.dtype.type(constant_val))
    return np.pad(x, widths, NUMPY_PAD_MODES[mode])


def sample_pad(chooser: Chooser) -> Sample:
    """Draw a padding of some of the last axes in every mode."""
    x = any_tensor(chooser, draw_shape(chooser))
    mode = chooser.choose(["constant", *NUMPY_PAD_MODES])
    last = chooser.integer(0, x.type.rank)
    pad = tuple(
        chooser.integer(0, {"reflect": extent - 1, "symmetric": extent}.get(mode, 3))
        for extent in x.type.shape[x.type.rank - last :]
        for _ in range(2)
    )
    value = chooser.choose([0.0, 1.0] if x.type.dtype == "bool" else [0.0, -3.0])
    return Sample({"x": x}, {"pad": pad, "mode": mode, "constant_val": value})


def cropped(extent: int, name: str, cut: tuple[int, ...]) -> slice:
    """Return what stays of an axis.

    Raises:
        GraphError: The cut is not a pair, or leaves nothing.
    """
    expect_entries(name, cut, 2, "side")
    if sum(cut) >= extent:
        raise GraphError(f"{name} leaves nothing of the image", seen=sum(cut), limit=f"less than {extent}")
    return slice(cut[0], extent - cut[1])


def infer_crop(x: TensorType, *, crop_height: tuple[int, ...], crop_width: tuple[int, ...]) -> TensorType:
    """Return the type of an image without its borders."""
    expect_rank("x", x, 4)
    rows = cropped(x.shape[2], "crop_height", crop_height)
    columns = cropped(x.shape[3], "crop_width", crop_width)
    return x.with_shape(*x.shape[:2], *region_shape(x.shape[2:], (rows, columns)))


def crop(x: Array, *, crop_height: tuple[int, ...], crop_width: tuple[int, ...]) -> Array:
    """Return an image without its borders."""
    rows = cropped(x.shape[2], "crop_height", crop_height)
    return x[:, :, rows, cropped(x.shape[3], "crop_width", crop_width)]


def sample_crop(chooser: Chooser) -> Sample:
    """Draw an image and its borders."""
    shape = draw_shape(chooser, 4, 4)
    cuts: list[tuple[int, int]] = []
    for extent in shape[2:]:
        first = chooser.integer(0, extent - 1)
        cuts.append((first, chooser.integer(0, extent - 1 - first)))
    return Sample({"x": any_tensor(chooser, shape)}, {"crop_height": cuts[0], "crop_width": cuts[1]})


def infer_reverse(x: TensorType, *, axes: tuple[int, ...] | None) -> TensorType:
    """Return the same type."""
    if axes is not None:
        normalised_axes(axes, x.rank)
    return x


def reverse(x: Array, *, axes: tuple[int, ...] | None) -> Array:
    """Return a tensor backwards along axes, all axes by default."""
    return np.flip(x, axes)


def sample_reverse(chooser: Chooser) -> Sample:
    """Draw axes, counted from either side."""
    shape = draw_shape(chooser)
    axes = chooser.choose([None, (), (0,), (-1,), tuple(range(len(shape)))])
    return Sample({"x": any_tensor(chooser, shape)}, {"axes": axes})


PAD = Op(
    name="pad",
    category=CATEGORY,
    summary="x with further elements around its last axes: a constant, its border, or itself mirrored",
    operands=X,
    attributes=(
        Attribute("pad", AttributeKind.INTEGERS, least=0),
        Attribute("mode", AttributeKind.TEXT, "constant", choices=("constant", *NUMPY_PAD_MODES)),
        Attribute("constant_val", AttributeKind.NUMBER, 0.0),
    ),
    infer=infer_pad,
    meaning=padded,
    sample=sample_pad,
    support=F0,  # known of the constant mode
)
CROP = Op(
    name="crop",
    category=CATEGORY,
    summary="an image [N, C, H, W] without its first and last rows and columns",
    operands=X,
    attributes=(
        Attribute("crop_height", AttributeKind.INTEGERS, least=0),
        Attribute("crop_width", AttributeKind.INTEGERS, least=0),
    ),
    infer=infer_crop,
    meaning=crop,
    sample=sample_crop,
    surface=Surface.FUSED,
    support=F0,
)
REVERSE = Op(
    name="reverse",
    category=CATEGORY,
    summary="x backwards along the given axes, or along all of them",
    operands=X,
    attributes=(Attribute("axes", AttributeKind.INTEGERS, None),),
    infer=infer_reverse,
    meaning=reverse,
    sample=sample_reverse,
    surface=Surface.FUSED,
    support=LIKELY_F2,
)


# reverse_sequence, sliding_windows, band_part


def infer_reverse_sequence(x: TensorType, lengths: TensorType, *, seq_axis: int, batch_axis: int) -> TensorType:
    """Return the same type."""
    along, batch = (normalised_axis(axis, x.rank) for axis in (seq_axis, batch_axis))
    if along == batch:
        raise GraphError("seq_axis and batch_axis are one axis", seen=along)
    expect_whole_numbers("lengths", lengths)
    if lengths.shape != (x.shape[batch],):
        raise GraphError(
            "lengths has not one entry for each sequence", seen=list(lengths.shape), limit=[x.shape[batch]]
        )
    return x


def reverse_sequence(x: Array, lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    """Reverse the first elements of every sequence, as many as its length says.

    Raises:
        GraphError: A sequence is longer than the axis.
    """
    longest: int = x.shape[seq_axis]
    for length in lengths.tolist():
        if not 0 <= length <= longest:
            raise GraphError("a sequence does not fit the axis", seen=length, limit=f"0 to {longest}")
    place = np.arange(longest)
    count = lengths.astype(np.int64)[:, None]
    source = np.where(place < count, count - 1 - place, place)
    if batch_axis % x.ndim > seq_axis % x.ndim:
        source = source.T
    others = tuple(axis for axis in range(x.ndim) if axis not in (seq_axis % x.ndim, batch_axis % x.ndim))
    return np.take_along_axis(x, np.expand_dims(source, others), seq_axis)


def sample_reverse_sequence(chooser: Chooser) -> Sample:
    """Draw sequences of every length, in both orders of the axes."""
    shape = draw_shape(chooser, 2)
    seq_axis = chooser.integer(0, len(shape) - 1)
    batch_axis = (seq_axis + chooser.integer(1, len(shape) - 1)) % len(shape)
    lengths = Fill(TensorType((shape[batch_axis],), "int32"), 0, shape[seq_axis])
    attributes = {"seq_axis": seq_axis - chooser.choose([0, len(shape)]), "batch_axis": batch_axis}
    return Sample({"x": any_tensor(chooser, shape), "lengths": lengths}, attributes)


def infer_sliding_windows(x: TensorType, *, axis: int, size: int, stride: int) -> TensorType:
    """Return the type of all windows along an axis."""
    along = normalised_axis(axis, x.rank)
    if size > x.shape[along]:
        raise GraphError("the window is longer than the axis", seen=size, limit=x.shape[along])
    windows = (x.shape[along] - size) // stride + 1
    return x.with_shape(*x.shape[:along], windows, size, *x.shape[along + 1 :])


def sliding_windows(x: Array, *, axis: int, size: int, stride: int) -> Array:
    """Return all windows along an axis; the axis counts windows, a further one behind it their elements."""
    along = axis % x.ndim
    extent: int = x.shape[along]
    first = np.arange(0, extent - size + 1, stride)
    return np.take(x, first[:, None] + np.arange(size), along)


def sample_sliding_windows(chooser: Chooser) -> Sample:
    """Draw windows that meet the end of the axis or do not."""
    shape = draw_shape(chooser, longest=7)
    axis = chooser.integer(-len(shape), len(shape) - 1)
    attributes = {"axis": axis, "size": chooser.integer(1, shape[axis]), "stride": chooser.integer(1, 3)}
    return Sample({"x": any_tensor(chooser, shape)}, attributes)


def infer_band_part(x: TensorType, **_: int) -> TensorType:
    """Return the same type."""
    if x.rank < 2:
        raise GraphError(f"x of shape {list(x.shape)} is not a matrix", seen=x.rank, limit="rank 2 or more")
    return x


def band_part(x: Array, *, lower: int, upper: int) -> Array:
    """Keep a band of diagonals of every matrix; −1 keeps all on that side."""
    rows: int = x.shape[-2]
    columns: int = x.shape[-1]
    above = np.arange(columns) - np.arange(rows)[:, None]
    kept = ((lower < 0) | (-above <= lower)) & ((upper < 0) | (above <= upper))
    return np.where(kept, x, np.zeros((), x.dtype))


def sample_band_part(chooser: Chooser) -> Sample:
    """Draw a band, open or narrow on each side."""
    attributes = {"lower": chooser.integer(-1, 3), "upper": chooser.integer(-1, 3)}
    return Sample({"x": any_tensor(chooser, draw_shape(chooser, 2))}, attributes)


REVERSE_SEQUENCE = Op(
    name="reverse_sequence",
    category=CATEGORY,
    summary="x with the first lengths[i] elements of sequence i backwards",
    operands=(Operand("x"), Operand("lengths")),
    attributes=(Attribute("seq_axis", AttributeKind.INTEGER), Attribute("batch_axis", AttributeKind.INTEGER, 0)),
    infer=infer_reverse_sequence,
    meaning=reverse_sequence,
    sample=sample_reverse_sequence,
    support=NOWHERE,
)
SLIDING_WINDOWS = Op(
    name="sliding_windows",
    category=CATEGORY,
    summary="all windows of `size` elements along an axis, `stride` apart, in a further axis behind it",
    operands=X,
    attributes=(
        Attribute("axis", AttributeKind.INTEGER),
        Attribute("size", AttributeKind.INTEGER, least=1),
        Attribute("stride", AttributeKind.INTEGER, 1, least=1),
    ),
    infer=infer_sliding_windows,
    meaning=sliding_windows,
    sample=sample_sliding_windows,
    support=NOWHERE,
)
BAND_PART = Op(
    name="band_part",
    category=CATEGORY,
    summary="matrices with 0 outside of `lower` diagonals below and `upper` above the main one; −1 keeps all",
    operands=X,
    attributes=(
        Attribute("lower", AttributeKind.INTEGER, -1, least=-1),
        Attribute("upper", AttributeKind.INTEGER, -1, least=-1),
    ),
    infer=infer_band_part,
    meaning=band_part,
    sample=sample_band_part,
    support=NOWHERE,
)


# input_view, dynamic_slice


def viewed(extent: int, offset: int, size: int, step: int) -> slice:
    """Return the elements of a view.

    Raises:
        GraphError: The view passes the end of the axis.
    """
    last = offset + (size - 1) * step
    if last >= extent:
        raise GraphError("the view passes the end of the axis", seen=last, limit=extent - 1)
    return slice(offset, last + 1, step)


def infer_input_view(x: TensorType, *, axis: int, offset: int, size: int, step: int) -> TensorType:
    """Return the type of a view along one axis."""
    along = normalised_axis(axis, x.rank)
    viewed(x.shape[along], offset, size, step)
    return x.with_shape(*x.shape[:along], size, *x.shape[along + 1 :])


def input_view(x: Array, *, axis: int, offset: int, size: int, step: int) -> Array:
    """Return a view along one axis."""
    along = axis % x.ndim
    return x[(slice(None),) * along + (viewed(x.shape[along], offset, size, step),)]


def sample_input_view(chooser: Chooser) -> Sample:
    """Draw a view."""
    shape = draw_shape(chooser, longest=8)
    axis = chooser.integer(-len(shape), len(shape) - 1)
    offset = chooser.integer(0, shape[axis] - 1)
    step = chooser.integer(1, 3)
    size = chooser.integer(1, (shape[axis] - 1 - offset) // step + 1)
    return Sample({"x": any_tensor(chooser, shape)}, {"axis": axis, "offset": offset, "size": size, "step": step})


def infer_dynamic_slice(x: TensorType, begin: TensorType, *, size: int, background_value: float) -> TensorType:
    """Return the type of a slice of the last axis."""
    if x.rank < 1:
        raise GraphError("x has no axis to slice", seen=x.rank, limit="rank 1 or more")
    expect_whole_numbers("begin", begin)
    if begin.size != 1:
        raise GraphError("begin is not a single index", seen=list(begin.shape), limit="one element")
    if size > x.shape[-1]:
        raise GraphError("the slice is longer than the axis", seen=size, limit=x.shape[-1])
    expect_representable("background_value", background_value, x.dtype)
    return x.with_shape(*x.shape[:-1], size)


def dynamic_slice(x: Array, begin: Array, *, size: int, background_value: float) -> Array:
    """Return a slice of the last axis from a computed place on; what lies outside of x is the background."""
    places = int(begin.item()) + np.arange(size)
    inside = (places >= 0) & (places < x.shape[-1])
    taken = x[..., np.where(inside, places, 0)]
    return np.where(inside, taken, x.dtype.type(background_value))


def sample_dynamic_slice(chooser: Chooser) -> Sample:
    """Draw a slice within the axis or past its end."""
    x = any_tensor(chooser, draw_shape(chooser, longest=6))
    extent = x.type.shape[-1]
    dtype = chooser.choose(["int32", "uint16"])
    begin = Fill(TensorType(chooser.choose([(), (1,)]), dtype), -2 if dtype == "int32" else 0, extent)
    attributes = {"size": chooser.integer(1, extent), "background_value": chooser.choose([0.0, 1.0])}
    return Sample({"x": x, "begin": begin}, attributes)


INPUT_VIEW = Op(
    name="input_view",
    category=CATEGORY,
    summary="`size` elements of x along one axis, from `offset` on, `step` apart",
    operands=X,
    attributes=(
        Attribute("axis", AttributeKind.INTEGER, -1),
        Attribute("offset", AttributeKind.INTEGER, least=0),
        Attribute("size", AttributeKind.INTEGER, least=1),
        Attribute("step", AttributeKind.INTEGER, 1, least=1),
    ),
    infer=infer_input_view,
    meaning=input_view,
    sample=sample_input_view,
    surface=Surface.NATIVE_LAYER,
    support=NATIVE_LAYER_F0,
    catalogued=False,
)
DYNAMIC_SLICE = Op(
    name="dynamic_slice",
    category=CATEGORY,
    summary="`size` elements of the last axis from a computed place on; outside of x, the background value",
    operands=(Operand("x"), Operand("begin")),
    attributes=(
        Attribute("size", AttributeKind.INTEGER, least=1),
        Attribute("background_value", AttributeKind.NUMBER, 0.0),
    ),
    infer=infer_dynamic_slice,
    meaning=dynamic_slice,
    sample=sample_dynamic_slice,
    surface=Surface.NATIVE_LAYER,
    support=Support(floor=3, basis=Basis.STATED, mil_since=None, mil_otherwise=MilStatus.BRIDGE),
    catalogued=False,
)
