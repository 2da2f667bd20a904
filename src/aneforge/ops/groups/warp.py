"""Images read at places that are computed: boxes, coordinates, affine transforms.

Images are [N, C, H, W]. Names, defaults and modes are MIL's; what its reference leaves open is said at each meaning.
The sampling modes are defined in `aneforge.ops.interpolation`.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.interpolation import SAMPLING_MODES, folded, grid_points, normalised, pixels, places, sampled
from aneforge.ops.op import Category, Op, Support, Surface
from aneforge.ops.results import Movement, Taking
from aneforge.ops.sampling import FLOATS, NUMBERS, Chooser, Fill, Sample, draw_shape
from aneforge.ops.shapes import (
    expect_elements,
    expect_float,
    expect_integer,
    expect_number,
    expect_one_each,
    expect_rank,
    expect_within,
)
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType

CATEGORY = Category.IMAGE
BOX_COORDINATE_MODES = (
    "CORNERS_HEIGHT_FIRST",
    "CORNERS_WIDTH_FIRST",
    "CENTER_SIZE_HEIGHT_FIRST",
    "CENTER_SIZE_WIDTH_FIRST",
)
PADDING_MODES = ("constant", "border", "reflection", "symmetric")
COORDINATES_MODES = ("unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one")
EDGE = 1e-9
"""How far beyond the edge a place may be that is meant to be on it: 0.03 + ((0 − 0.03 + 1) − 1) is less than 0."""
TEXTURE = Support(floor=3, gate="texture_engine", mil_since=3)
PADDING_VALUE = Attribute("padding_value", AttributeKind.NUMBER, 0.0)


# Shape rules.


class Cropping(TypedDict):
    """The attributes of crop_resize."""

    target_height: int
    target_width: int
    normalized_coordinates: bool
    spatial_scale: float
    box_coordinate_mode: str
    sampling_mode: str
    pad_value: float


class Resampling(TypedDict):
    """The attributes of resample."""

    sampling_mode: str
    padding_mode: str
    padding_value: float
    coordinates_mode: str
    align_corners: bool


class Transforming(TypedDict):
    """The attributes of affine."""

    output_height: int
    output_width: int
    sampling_mode: str
    padding_mode: str
    padding_value: float
    coordinates_mode: str
    align_corners: bool


def expect_images(x: TensorType) -> None:
    """Check that a tensor holds images of floating-point numbers that are not empty.

    Raises:
        GraphError: It does not.
    """
    expect_rank(x, 4)
    expect_float(x)
    expect_elements(x, range(4), "sampled")


def cropped_type(
    x: TensorType, boxes: TensorType, box_indices: TensorType | None, **attributes: Unpack[Cropping]
) -> TensorType:
    """Return the type of the images in boxes: [boxes, channels, target height, target width]."""
    expect_images(x)
    expect_float(boxes, "boxes")
    if boxes.rank != 2 or boxes.shape[1] != 4:
        raise GraphError("boxes do not have four coordinates each", seen=list(boxes.shape), limit="[boxes, 4]")
    count = boxes.shape[0]
    if box_indices is None:
        if x.shape[0] != 1 and count > x.shape[0]:
            raise GraphError(
                f"box_indices must say which of {x.shape[0]} images each of {count} boxes is cut from",
                limit="1 image, or at least as many as boxes",
                remedy="give box_indices",
            )
    else:
        expect_one_each(box_indices, count, "box", "box_indices")
        expect_integer(box_indices, "box_indices")
    return x.with_shape(count, x.shape[1], attributes["target_height"], attributes["target_width"])


def resampled_type(x: TensorType, coordinates: TensorType, **_: object) -> TensorType:
    """Return the type of images read at coordinates."""
    expect_images(x)
    expect_number(coordinates, "coordinates")
    if coordinates.rank != 4 or coordinates.shape[0] != x.shape[0] or coordinates.shape[3] != 2:
        raise GraphError(
            "coordinates do not give a column and a row for each result of each image",
            seen=list(coordinates.shape),
            limit=f"[{x.shape[0]}, height, width, 2]",
        )
    return x.with_shape(*x.shape[:2], *coordinates.shape[1:3])


def transformed_type(x: TensorType, transform_matrix: TensorType, **attributes: Unpack[Transforming]) -> TensorType:
    """Return the type of images under an affine transform."""
    expect_images(x)
    expect_float(transform_matrix, "transform_matrix")
    allowed = ((1, 6), (x.shape[0], 6))
    if transform_matrix.shape not in allowed:
        raise GraphError(
            "transform_matrix does not give the six numbers of one transform for all images, or of one for each",
            seen=list(transform_matrix.shape),
            limit=" or ".join(str(list(one)) for one in dict.fromkeys(allowed)),
        )
    return x.with_shape(*x.shape[:2], attributes["output_height"], attributes["output_width"])


# Meanings.


def box_ends(boxes: Array, mode: str) -> Array:
    """Return boxes as [first row, first column, last row, last column], whatever the mode they are given in.

    A box given by its center reaches half its size to either side.
    """
    ordered = boxes[:, [1, 0, 3, 2]] if mode.endswith("WIDTH_FIRST") else boxes
    if mode.startswith("CORNERS"):
        return ordered
    center, half = ordered[:, :2], ordered[:, 2:] / 2
    return np.concatenate([center - half, center + half], axis=1)


def crop_resize(x: Array, boxes: Array, box_indices: Array | None, **attributes: Unpack[Cropping]) -> Array:
    """Resize what is in each box bilinearly.

    Ends of a box are places of elements, both included: it holds last − first + 1 of them, and `grid_points` of that
    extent, counted from the first, are read; a box whose last end is before its first is read backwards. Normalised
    ends are fractions of height − 1 and of width − 1. A place beyond the middles of the image's outer elements is
    `pad_value`, not mixed with the edge: so the operator tests that coremltools ships expect it of Core ML
    (`TestCropResize`). Without box_indices, box i is cut from image i; that several boxes may be cut from an only image
    is an extension of MIL's rule.

    Raises:
        GraphError: An index names no image.
    """
    height, width = x.shape[2:]
    ends = box_ends(boxes, attributes["box_coordinate_mode"]) * attributes["spatial_scale"]
    if attributes["normalized_coordinates"]:
        ends = ends * np.array([height - 1, width - 1, height - 1, width - 1])
    first, extents = ends[:, :2], ends[:, 2:] - ends[:, :2] + 1
    mode = attributes["sampling_mode"]
    rows = first[:, :1] + grid_points(extents[:, 0], attributes["target_height"], mode)
    columns = first[:, 1:] + grid_points(extents[:, 1], attributes["target_width"], mode)
    own = np.arange(len(boxes)) if x.shape[0] > 1 else np.zeros(len(boxes), np.intp)
    named = own if box_indices is None else box_indices.astype(np.intp)
    expect_within(named, 0, x.shape[0] - 1, "a box names an image that is not there")
    inside = within(rows, height)[:, :, None] & within(columns, width)[:, None, :]
    cut = sampled(x[named], rows[:, :, None], columns[:, None, :], "border", 0.0)
    return np.where(inside[:, None], cut, attributes["pad_value"])


def within(place: Array, extent: int) -> Array:
    """Return which places are from the first element of an axis to its last, except for the rounding of their sums."""
    return (place >= -EDGE) & (place <= extent - 1 + EDGE)


def resample(x: Array, coordinates: Array, **attributes: Unpack[Resampling]) -> Array:
    """Read images at coordinates, of which the first is the column and the second is the row.

    Beyond the image are the padding value (constant), the nearest element (border), or the image mirrored without
    repeating its edge (reflection) or with it (symmetric). A place just between two elements is nearest to the even
    one, after places beyond the image are mirrored into it: so the operator tests that coremltools ships expect it of
    Core ML (`TestResample`).
    """
    mode, align = attributes["coordinates_mode"], attributes["align_corners"]
    columns = places(coordinates[..., 0], x.shape[3], mode, align_corners=align)
    rows = places(coordinates[..., 1], x.shape[2], mode, align_corners=align)
    padding = attributes["padding_mode"], attributes["padding_value"]
    if attributes["sampling_mode"] == "bilinear":
        return sampled(x, rows, columns, *padding)
    inner_rows = np.rint(folded(rows, x.shape[2], padding[0])).astype(np.intp)
    return pixels(x, inner_rows, np.rint(folded(columns, x.shape[3], padding[0])).astype(np.intp), *padding)


def affine(x: Array, transform_matrix: Array, **attributes: Unpack[Transforming]) -> Array:
    """Read images at transformed places of the result's elements.

    With u and v the column and the row of a result in −1 … 1, the six numbers a … f give the source's column as
    a · u + b · v + c and its row as d · u + e · v + f, in the same range.
    """
    align = attributes["align_corners"]
    u = normalised(attributes["output_width"], align_corners=align)
    v = normalised(attributes["output_height"], align_corners=align)[:, None]
    a, b, c, d, e, f = (transform_matrix[:, number, None, None] for number in range(6))
    coordinates = np.stack([a * u + b * v + c, d * u + e * v + f], axis=-1)
    return resample(
        x,
        np.broadcast_to(coordinates, (x.shape[0], *coordinates.shape[1:])),
        sampling_mode=attributes["sampling_mode"],
        padding_mode=attributes["padding_mode"],
        padding_value=attributes["padding_value"],
        coordinates_mode=attributes["coordinates_mode"],
        align_corners=align,
    )


# Samples.


def draw_images(chooser: Chooser) -> TensorType:
    """Draw the type of one or two images."""
    return TensorType((*draw_shape(chooser, 2, 2, longest=2), *draw_shape(chooser, 2, 2)), chooser.choose(FLOATS))


def sample_crop_resize(chooser: Chooser) -> Sample:
    """Draw a call of crop_resize: boxes of any size down to one place, inside the image and beyond it."""
    x = draw_images(chooser)
    count = chooser.choose([x.shape[0], chooser.integer(1, 3)])
    normalised_boxes = chooser.choose([True, False])
    mode = chooser.choose(BOX_COORDINATE_MODES)
    first = np.array([[chooser.integer(-6, 12) for _ in range(2)] for _ in range(count)])
    size = np.array([[chooser.integer(0, 16) for _ in range(2)] for _ in range(count)])
    boxes = np.concatenate([first, first + size if mode.startswith("CORNERS") else size], axis=1)
    named = count > x.shape[0] > 1 or chooser.choose([True, False])
    indices = np.array([chooser.integer(0, x.shape[0] - 1) for _ in range(count)])
    return Sample(
        {
            "x": Fill(x),
            "boxes": Fill.of(boxes / (16 if normalised_boxes else 4), x.dtype),
            "box_indices": Fill.of(indices, "int32") if named else None,
        },
        {
            "target_height": chooser.integer(1, 4),
            "target_width": chooser.integer(1, 4),
            "normalized_coordinates": normalised_boxes,
            "spatial_scale": chooser.choose([1.0, 0.5]),
            "box_coordinate_mode": mode,
            "sampling_mode": chooser.choose(SAMPLING_MODES),
            "pad_value": chooser.choose([0.0, 1.5]),
        },
    )


def sample_resample(chooser: Chooser) -> Sample:
    """Draw a call of resample, with coordinates beyond the image on all sides."""
    x = draw_images(chooser)
    mode = chooser.choose(COORDINATES_MODES)
    low, high = {"unnormalized": (-9.0, 15.0), "normalized_minus_one_to_one": (-2.5, 2.5)}.get(mode, (-0.8, 1.8))
    dtype = chooser.choose(NUMBERS) if mode == "unnormalized" else x.dtype
    coordinates = TensorType((x.shape[0], chooser.integer(1, 4), chooser.integer(1, 4), 2), dtype)
    return Sample(
        {"x": Fill(x), "coordinates": Fill(coordinates, low, high)},
        {
            "sampling_mode": chooser.choose(["bilinear", "nearest"]),
            "padding_mode": chooser.choose(PADDING_MODES),
            "padding_value": chooser.choose([0.0, 2.5]),
            "coordinates_mode": mode,
            "align_corners": chooser.choose([True, False]),
        },
    )


def sample_affine(chooser: Chooser) -> Sample:
    """Draw a call of affine."""
    x = draw_images(chooser)
    matrix = TensorType((chooser.choose([1, x.shape[0]]), 6), x.dtype)
    return Sample(
        {"x": Fill(x), "transform_matrix": Fill(matrix, -1.5, 1.5)},
        {
            "output_height": chooser.integer(1, 5),
            "output_width": chooser.integer(1, 5),
            "padding_value": chooser.choose([0.0, 2.5]),
            "align_corners": chooser.choose([True, False]),
        },
    )


# Entries.

CROP_RESIZE = Op(
    name="crop_resize",
    category=CATEGORY,
    summary="the content of each box of x, brought to one height and width bilinearly; beyond x is pad_value",
    operands=(Operand("x"), Operand("boxes"), Operand("box_indices", optional=True)),
    attributes=(
        Attribute("target_height", AttributeKind.INTEGER, 1, least=1),
        Attribute("target_width", AttributeKind.INTEGER, 1, least=1),
        Attribute("normalized_coordinates", AttributeKind.FLAG, default=False),
        Attribute("spatial_scale", AttributeKind.NUMBER, 1.0, finite=True),
        Attribute("box_coordinate_mode", AttributeKind.TEXT, "CORNERS_HEIGHT_FIRST", choices=BOX_COORDINATE_MODES),
        Attribute("sampling_mode", AttributeKind.TEXT, "DEFAULT", choices=SAMPLING_MODES),
        Attribute("pad_value", AttributeKind.NUMBER, 0.0),
    ),
    infer=cropped_type,
    meaning=crop_resize,
    sample=sample_crop_resize,
    movement=Movement(adds=(0.0, "pad_value"), taking=Taking.BETWEEN),
    opset="ios17",
    support=TEXTURE,
    decompositions=lambda: (decompositions.movement.BOXES_WITH_IMAGES,),
    in_mil=True,
    gradient=lambda: gradients.warping.CROPPED,
)
RESAMPLE = Op(
    name="resample",
    category=CATEGORY,
    summary="x read at coordinates (column, row) for each result, bilinearly or at the nearest element",
    operands=(Operand("x"), Operand("coordinates")),
    attributes=(
        Attribute("sampling_mode", AttributeKind.TEXT, choices=("bilinear", "nearest")),
        Attribute("padding_mode", AttributeKind.TEXT, choices=PADDING_MODES),
        PADDING_VALUE,
        Attribute("coordinates_mode", AttributeKind.TEXT, choices=COORDINATES_MODES),
        Attribute("align_corners", AttributeKind.FLAG),
    ),
    infer=resampled_type,
    meaning=resample,
    sample=sample_resample,
    movement=Movement(adds=(0.0, "padding_value"), taking=Taking.BETWEEN),
    support=TEXTURE,
    in_mil=True,
    gradient=lambda: gradients.warping.RESAMPLED,
)
AFFINE = Op(
    name="affine",
    category=CATEGORY,
    summary="x read at (a · u + b · v + c, d · u + e · v + f) for the result's column u and row v, all in −1 … 1",
    operands=(Operand("x"), Operand("transform_matrix")),
    attributes=(
        Attribute("output_height", AttributeKind.INTEGER, least=1),
        Attribute("output_width", AttributeKind.INTEGER, least=1),
        Attribute("sampling_mode", AttributeKind.TEXT, "bilinear", choices=("bilinear",)),
        Attribute("padding_mode", AttributeKind.TEXT, "constant", choices=("constant",)),
        PADDING_VALUE,
        Attribute(
            "coordinates_mode",
            AttributeKind.TEXT,
            "normalized_minus_one_to_one",
            choices=("normalized_minus_one_to_one",),
        ),
        Attribute("align_corners", AttributeKind.FLAG),
    ),
    infer=transformed_type,
    meaning=affine,
    sample=sample_affine,
    movement=Movement(adds=(0.0, "padding_value"), taking=Taking.BETWEEN),
    surface=Surface.FUSED,
    support=TEXTURE,
    in_mil=True,
    gradient=lambda: gradients.warping.TRANSFORMED,
)
