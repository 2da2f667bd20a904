"""Operations on the borders of a tensor: elements put around it, rows and columns cut off, corners set to 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import DECOMPOSED
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.results import Movement
from aneforge.ops.sampling import Chooser, Sample, draw_any, draw_shape
from aneforge.ops.shapes import expect_entries, expect_least_rank, expect_rank, expect_representable
from aneforge.ops.signature import Attribute, AttributeKind, Operand

if TYPE_CHECKING:
    from aneforge.ops.types import Array, TensorType

CATEGORY = Category.STRUCTURAL
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


def pad_type(x: TensorType, *, pad: tuple[int, ...], mode: str, constant_val: float) -> TensorType:
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
    x = draw_any(chooser, draw_shape(chooser))
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


def crop_type(x: TensorType, *, crop_height: tuple[int, ...], crop_width: tuple[int, ...]) -> TensorType:
    """Return the type of an image without its borders."""
    expect_rank(x, 4)
    rows = cropped(x.shape[2], "crop_height", crop_height)
    columns = cropped(x.shape[3], "crop_width", crop_width)
    return x.with_shape(*x.shape[:2], rows.stop - rows.start, columns.stop - columns.start)


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
    return Sample({"x": draw_any(chooser, shape)}, {"crop_height": cuts[0], "crop_width": cuts[1]})


def band_part_type(x: TensorType, **_: int) -> TensorType:
    """Return the same type."""
    expect_least_rank(x, 2, "matrices")
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
    return Sample({"x": draw_any(chooser, draw_shape(chooser, 2))}, attributes)


# The floor of pad is known of its constant mode.
PAD = Op(
    name="pad",
    category=CATEGORY,
    summary="x with further elements around its last axes: a constant, its border, or itself mirrored",
    operands=(Operand("x"),),
    attributes=(
        Attribute("pad", AttributeKind.INTEGERS, least=0),
        Attribute("mode", AttributeKind.TEXT, "constant", choices=("constant", *NUMPY_PAD_MODES)),
        Attribute("constant_val", AttributeKind.NUMBER, 0.0),
    ),
    infer=pad_type,
    meaning=padded,
    sample=sample_pad,
    movement=Movement(adds=("constant_val",)),
    decompositions=lambda: (decompositions.movement.PADDED_BY_CONCAT, decompositions.movement.MIRRORED_BY_GATHER),
    in_mil=True,
    gradient=lambda: gradients.moving.BORDERED,
)
CROP = Op(
    name="crop",
    category=CATEGORY,
    summary="an image [N, C, H, W] without its first and last rows and columns",
    operands=(Operand("x"),),
    attributes=(
        Attribute("crop_height", AttributeKind.INTEGERS, least=0),
        Attribute("crop_width", AttributeKind.INTEGERS, least=0),
    ),
    infer=crop_type,
    meaning=crop,
    sample=sample_crop,
    movement=Movement(),
    traits=frozenset({Trait.SLICING}),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.movement.CROP_BY_VIEWS,),
    in_mil=True,
    gradient=lambda: gradients.moving.CROPPED,
)
BAND_PART = Op(
    name="band_part",
    category=CATEGORY,
    summary="matrices with 0 outside of `lower` diagonals below and `upper` above the main one; −1 keeps all",
    operands=(Operand("x"),),
    attributes=(
        Attribute("lower", AttributeKind.INTEGER, -1, least=-1),
        Attribute("upper", AttributeKind.INTEGER, -1, least=-1),
    ),
    infer=band_part_type,
    meaning=band_part,
    sample=sample_band_part,
    movement=Movement(adds=(0.0,)),
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.placing.BAND,),
    in_mil=True,
    gradient=lambda: gradients.moving.BAND,
)
