"""Images: resizing, crops, coordinates, transforms, correlation and geometry."""

from collections.abc import Iterator

from aneforge.compiler.ir.meanings.regions import ALIGNED_HALF_PIXELS
from aneforge.compiler.validators.declare import layer_rule
from aneforge.rules.checks.movement_rules import resized_axes
from aneforge.rules.looking import argument, depth_axis, is_live
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject


@layer_rule("ANE-RESIZE-003", Relation.PRESENT, "texture_engine")
def software_resize(subject: Subject) -> Iterator[Seen]:
    """Resizing axis {seen} has no software form, and {target} has no texture engine.

    Remedy: transpose the axis to the last two, resize, and transpose back.
    """
    for axis in resized_axes(subject):
        yield Seen(axis, "axis")


@layer_rule("ANE-RESIZE-004", Relation.PRESENT, "texture_engine")
def aligned_and_centred(subject: Subject) -> Iterator[Seen]:
    """Resizing with {seen} needs the texture engine, which {target} does not have.

    Remedy: either align corners or sample at centres, not both.
    """
    flags = subject.attributes.get("align_corners"), subject.attributes.get("half_pixel_centers")
    if flags == (True, True) or subject.attributes.get("sampling_mode") == ALIGNED_HALF_PIXELS:
        yield Seen("aligned corners and centred samples")


@layer_rule("ANE-CROPRESIZE-002", Relation.ONE_OF, "crop_resize_index_dtypes")
def box_elements(subject: Subject) -> Iterator[Seen]:
    """Boxes are {seen}; the layer reads {limit}.

    Remedy: cast them.

    Constant ones are written in a type that it reads.
    """
    boxes = argument(subject, "boxes")
    if boxes is not None and is_live(subject, "boxes"):
        yield Seen(boxes.dtype, "boxes")


@layer_rule("ANE-AFFINETRANSFORM-002", Relation.ONE_OF, "affine_matrix_dtypes")
def matrix_elements(subject: Subject) -> Iterator[Seen]:
    """The matrix is {seen}; the layer reads {limit}.

    Remedy: cast it.

    A constant one is written in a type that it reads.
    """
    matrix = argument(subject, "transform_matrix")
    if matrix is not None and is_live(subject, "transform_matrix"):
        yield Seen(matrix.dtype, "matrix")


@layer_rule("ANE-RESAMPLE-002", Relation.ONE_OF, "resample_coordinate_channels")
def coordinate_channels(subject: Subject) -> Iterator[Seen]:
    """A position has {seen} coordinates; their number must be one of {limit}.

    Remedy: give a column and a row for every position.
    """
    coordinates = argument(subject, "coordinates")
    if coordinates is not None and coordinates.rank:
        yield Seen(coordinates.shape[-1], "coordinates")


@layer_rule("ANE-RESAMPLE-003", Relation.AT_MOST, "resample_coordinate_depth")
def coordinate_depth(subject: Subject) -> Iterator[Seen]:
    """The coordinates have a depth of {seen}; the layer takes {limit}.

    Remedy: resample plane by plane.
    """
    coordinates = argument(subject, "coordinates")
    axis = depth_axis(coordinates) if coordinates is not None else None
    if coordinates is not None and axis is not None:
        yield Seen(coordinates.shape[axis], "depth")


@layer_rule("ANE-CROSSCORRELATION-002", Relation.NEVER)
def template_depth(subject: Subject) -> Iterator[Seen]:
    """The template has a depth of {seen}; it must be 1.

    Remedy: correlate plane by plane.
    """
    template = argument(subject, "template")
    axis = depth_axis(template) if template is not None else None
    if template is not None and axis is not None and template.shape[axis] > 1:
        yield Seen(template.shape[axis], "depth")


@layer_rule("ANE-CROSSPRODUCT-002", Relation.ONE_OF)
def vector_length(subject: Subject) -> Iterator[Seen]:
    """A vector has {seen} numbers; a cross product needs vectors of {limit}.

    Remedy: put three numbers along the first axis.
    """
    for name in ("a", "b"):
        vectors = argument(subject, name)
        if vectors is not None and vectors.rank:
            yield Seen(vectors.shape[0], name)


@layer_rule("ANE-CROSSPRODUCT-003", Relation.ONE_OF)
def vector_elements(subject: Subject) -> Iterator[Seen]:
    """A vector is {seen}; a cross product reads {limit}.

    Remedy: cast it.
    """
    for name in ("a", "b"):
        vectors = argument(subject, name)
        if vectors is not None:
            yield Seen(vectors.dtype, name)
