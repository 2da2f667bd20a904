"""Regions, shapes and sizes: slices with explicit begins, reshapes of every name, one layer for every resizing."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.compiler.ir.meanings.regions import ALIGNED_HALF_PIXELS
from aneforge.ops.groups.slicing import Region, region_index
from aneforge.ops.shapes import normalise_axis
from aneforge.rules.checks.movement_rules import is_broadcast

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Ref
    from aneforge.compiler.lower.emitter import Emitter, Rule

__all__ = ["RULES"]

IMAGE_AXES = 2
"""Height and width: the last two axes."""


def block(emit: Emitter, begin: tuple[int, ...], size: tuple[int, ...], *, step: str = "") -> Ref:
    """Return a block of x; x itself, where the block is all of it."""
    x = emit.ref("x")
    if size == x.type.shape:
        return emit.add("identity", {"x": x}, step=step)
    return emit.add("slice", {"input": x}, {"begin": begin, "size": size}, step=step)


def slice_by_size(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a block of given begin and size."""
    return (block(emit, emit.node.integers("begin"), emit.node.types[0].shape),)


def crop(emit: Emitter) -> tuple[Ref, ...]:
    """Lower the cropping of height and width: the first number of a pair is what goes at the begin."""
    rank = emit.ref("x").type.rank
    top, _ = emit.node.integers("crop_height")
    left, _ = emit.node.integers("crop_width")
    return (block(emit, (*(0,) * (rank - 2), top, left), emit.node.types[0].shape),)


def slice_by_index(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a region of begin, end and stride: backwards is forwards in a reversed tensor; squeezes are reshapes."""
    x = emit.ref("x")
    index = region_index(x.type.shape, emit.node.attributes_as(Region))
    ranges = [
        range(extent)[one] if isinstance(one, slice) else range(extent)[one : one + 1 or None]
        for extent, one in zip(x.type.shape, index, strict=True)
    ]
    squeezed = any(not isinstance(one, slice) for one in index)
    backward = tuple(axis for axis, along in enumerate(ranges) if along.step < 0)
    if backward:
        x = emit.add("reverse", {"x": x}, {"axes": backward}, step="reverse")
        ranges = [
            range(extent - 1 - along.start, extent - 1 - along.stop, -along.step) if along.step < 0 else along
            for extent, along in zip(x.type.shape, ranges, strict=True)
        ]
    begin = tuple(along.start if len(along) else 0 for along in ranges)
    size = tuple(map(len, ranges))
    step = tuple(along.step for along in ranges)
    last = "region" if squeezed else ""
    if all(by == 1 for by in step):
        region = emit.add("slice", {"input": x}, {"begin": begin, "size": size}, step=last)
    else:
        region = emit.add("strided_slice", {"input": x}, {"begin": begin, "size": size, "step": step}, step=last)
    return (emit.reshape(region, emit.node.types[0].shape),)


def split(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a split: a slice for every part."""
    shape = emit.ref("x").type.shape
    axis = normalise_axis(emit.node.integer("axis"), len(shape))
    parts: list[Ref] = []
    first = 0
    for number, part in enumerate(emit.node.types):
        begin = tuple(first if place == axis else 0 for place in range(len(shape)))
        parts.append(block(emit, begin, part.shape, step=f"part{number}"))
        first += part.shape[axis]
    return tuple(parts)


def concat(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a join; a single tensor is copied, for a layer joins two or more."""
    values = emit.refs("values")
    if len(values) == 1:
        return (emit.add("identity", {"x": values[0]}),)
    return (emit.add("concat", emit.operands, emit.node.attributes),)


def stack(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a stack: every tensor gets an axis, and they are joined along it."""
    values, shape = emit.refs("values"), emit.node.types[0].shape
    axis = normalise_axis(emit.node.integer("axis"), len(shape))
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    if len(values) == 1:
        return (emit.add("reshape", {"x": values[0]}, {"shape": one}),)
    parts = tuple(emit.reshape(value, one, step=f"part{number}") for number, value in enumerate(values))
    return (emit.add("concat", {"values": parts}, {"axis": axis}),)


def tile(emit: Emitter) -> tuple[Ref, ...]:
    """Lower repetition: a broadcast where only axes of length 1 are repeated."""
    x = emit.ref("x")
    if is_broadcast(x.type, emit.node.types[0]):
        return (emit.add("broadcast", {"x": x}, {"shape": emit.node.types[0].shape}),)
    return (emit.add("tile", {"x": x}, emit.node.attributes),)


def pad(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a border; an axis other than height and width, the last two, is padded in the height's place."""
    x, given = emit.ref("x"), emit.node.attributes
    pads = cast("tuple[int, ...]", given["pad"])
    pairs = [(0, 0)] * (x.type.rank - len(pads) // 2) + list(zip(pads[::2], pads[1::2], strict=True))
    outer = [axis for axis, pair in enumerate(pairs[:-IMAGE_AXES]) if any(pair)]
    if not outer:
        return (emit.add("padding", {"x": x}, given),)
    inner = tuple(count for pair in pairs[-IMAGE_AXES:] for count in pair)
    if any(inner):
        x = emit.add("padding", {"x": x}, {**given, "pad": inner}, step="image")
    for axis in outer:
        turned = exchange(emit, x, axis, -2, step=f"axis{axis}.height")
        bordered = emit.add("padding", {"x": turned}, {**given, "pad": (*pairs[axis], 0, 0)}, step=f"axis{axis}.padded")
        x = exchange(emit, bordered, axis, -2, step="" if axis == outer[-1] else f"axis{axis}")
    emit.note("axes other than height and width are padded in the height's place, transposed before and after")
    return (x,)


def exchange(emit: Emitter, x: Ref, axis: int, other: int, *, step: str) -> Ref:
    """Return a tensor with two of its axes exchanged."""
    perm = list(range(x.type.rank))
    perm[axis], perm[other] = perm[other], perm[axis]
    return emit.add("transpose", {"x": x}, {"perm": tuple(perm)}, step=step)


def reshape(emit: Emitter) -> tuple[Ref, ...]:
    """Lower any change of shape that keeps the elements in their order."""
    return (emit.add("reshape", {"x": emit.ref("x")}, {"shape": emit.node.types[0].shape}),)


def resize(emit: Emitter) -> tuple[Ref, ...]:
    """Lower resizing by size, mode and sampling."""
    mode = "LINEAR" if emit.node.text("interpolation_mode") == "LINEAR" else "NEAREST"
    return resized(emit, emit.node.integer("resized_dims"), mode, emit.node.text("sampling_mode"))


def resize_bilinear(emit: Emitter) -> tuple[Ref, ...]:
    """Lower bilinear resizing of height and width."""
    return resized(emit, 2, "LINEAR", emit.node.text("sampling_mode"))


def repeat(emit: Emitter) -> tuple[Ref, ...]:
    """Lower resizing that takes the element at or before each place."""
    return resized(emit, 2, "NEAREST", "DEFAULT")


def upsample_bilinear(emit: Emitter) -> tuple[Ref, ...]:
    """Lower bilinear upsampling: its flags name a sampling mode, except for one pair that has none of its own."""
    aligned, given = emit.node.flag("align_corners"), emit.node.attributes["half_pixel_centers"]
    half = not aligned if given is None else emit.node.flag("half_pixel_centers")
    sampling = {
        (False, False): "DEFAULT",
        (False, True): "UNALIGN_CORNERS",
        (True, False): "STRICT_ALIGN_CORNERS",
        (True, True): ALIGNED_HALF_PIXELS,
    }[aligned, half]
    return resized(emit, 2, "LINEAR", sampling)


def resized(emit: Emitter, count: int, mode: str, sampling: str) -> tuple[Ref, ...]:
    """Add what brings the last axes to their lengths; axes before height and width are resized in the width's place."""
    x, shape = emit.ref("x"), emit.node.types[0].shape
    how = {"mode": mode, "sampling": sampling}
    first = len(shape) - count
    if x.type.shape[:-IMAGE_AXES] == shape[:-IMAGE_AXES]:
        return (emit.add("resize", {"input": x}, {"size": shape[first:], **how}),)
    for axis in range(first, len(shape) - IMAGE_AXES):
        turned = exchange(emit, x, axis, -1, step=f"axis{axis}.width")
        longer = emit.add("resize", {"input": turned}, {"size": (shape[axis],), **how}, step=f"axis{axis}.resized")
        x = exchange(emit, longer, axis, -1, step=f"axis{axis}")
    emit.note("axes other than height and width are resized in the width's place, transposed before and after")
    return (emit.add("resize", {"input": x}, {"size": shape[-IMAGE_AXES:], **how}),)


RULES: dict[str, Rule] = {
    "slice_by_size": slice_by_size,
    "slice_by_index": slice_by_index,
    "crop": crop,
    "split": split,
    "stack": stack,
    "concat": concat,
    "tile": tile,
    "pad": pad,
    **dict.fromkeys(("reshape", "expand_dims", "squeeze", "flatten2d", "reshape_like"), reshape),
    "resize": resize,
    "resize_bilinear": resize_bilinear,
    **dict.fromkeys(("resize_nearest_neighbor", "upsample", "upsample_nearest_neighbor"), repeat),
    "upsample_bilinear": upsample_bilinear,
}
