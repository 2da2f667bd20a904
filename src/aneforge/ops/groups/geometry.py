"""Geometry of vectors, points and image rows: layers of their own on the network-description route.

Shapes and parameters are those of the documented builder and of the layers' descriptions. Where no source says what a
layer computes beyond that, the summary says what is inferred.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import gradients
from aneforge.ops.common import LIKELY_BRIDGE_F0
from aneforge.ops.op import Category, Op, Surface
from aneforge.ops.results import Movement, Taking
from aneforge.ops.sampling import FLOATS, Chooser, Fill, Sample, draw_shape
from aneforge.ops.shapes import common_dtype, expect_float, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType

CATEGORY = Category.TRIGONOMETRY

DECOMPOSITIONS = {"NonQRGivens": (9, 4), "CrossProductOrthoNormalization": (6, 3)}
"""Channels that each type of matrix decomposition takes and gives."""


def expect_points(what: str, points: TensorType) -> None:
    """Check that a tensor holds points of three coordinates.

    Raises:
        GraphError: It does not.
    """
    expect_float(points, what)
    if points.rank != 2 or points.shape[1] != 3:
        raise GraphError(f"{what} do not have three coordinates each", seen=list(points.shape), limit="[points, 3]")


# Shape rules.


def cross_product_type(a: TensorType, b: TensorType) -> TensorType:
    """Return the type of the cross products of vectors along the first axis."""
    for what, vectors in (("a", a), ("b", b)):
        expect_float(vectors, what)
        if vectors.rank == 0 or vectors.shape[0] != 3:
            raise GraphError(
                f"{what} must hold vectors of three numbers along its first axis",
                seen=list(vectors.shape),
                limit="[3] or [3, ...]",
            )
    if a.shape != b.shape:
        raise GraphError("a and b must hold equally many vectors", seen=f"{list(a.shape)} and {list(b.shape)}")
    return TensorType(a.shape, common_dtype(a, b))


def cross_correlation_type(x: TensorType, template: TensorType) -> TensorType:
    """Return the type of the products of a template with every window of an image."""
    expect_rank(x, 2)
    expect_rank(template, 2, what="template")
    expect_float(x)
    dtype = common_dtype(x, template)
    if 0 in template.shape or any(part > whole for part, whole in zip(template.shape, x.shape, strict=True)):
        raise GraphError(
            "the template does not fit into x",
            seen=list(template.shape),
            limit=f"at least 1 and at most {list(x.shape)}",
        )
    return TensorType(tuple(whole - part + 1 for part, whole in zip(template.shape, x.shape, strict=True)), dtype)


def cost_volume_type(aux: TensorType, ref: TensorType, disparity_range: int) -> TensorType:
    """Return the type of the costs of all disparities of a row: [disparities, places of aux]."""
    expect_rank(aux, 1, what="aux")
    expect_rank(ref, 1, what="ref")
    expect_float(aux, "aux")
    dtype = common_dtype(aux, ref)
    if ref.shape[0] < aux.shape[0] + disparity_range:
        raise GraphError(
            f"ref is too short to move aux of {aux.shape[0]} by {disparity_range}",
            seen=ref.shape[0],
            limit=f"at least {aux.shape[0] + disparity_range}",
            remedy="make disparity_range smaller",
        )
    return TensorType((disparity_range + 1, aux.shape[0]), dtype)


def farthest_points_type(points: TensorType, k: int) -> TensorType:
    """Return the type of `k` of several points."""
    expect_points("points", points)
    if k > points.shape[0]:
        raise GraphError("there are fewer points than must be chosen", seen=k, limit=f"at most {points.shape[0]}")
    return points.with_shape(k, 3)


def radius_search_type(points: TensorType, centroids: TensorType, **_: object) -> TensorType:
    """Return the type of the table of points and centroids."""
    expect_points("points", points)
    expect_points("centroids", centroids)
    return TensorType((points.shape[0], centroids.shape[0]), common_dtype(points, centroids))


class Decomposing(TypedDict):
    """The attributes of matrix_decomposition."""

    type: str
    epsilon: float | None
    rotation_axis: tuple[int, ...] | None


def matrix_decomposition_type(x: TensorType, **attributes: Unpack[Decomposing]) -> TensorType:
    """Return the type of a decomposition: its own number of channels along the first axis."""
    expect_float(x)
    taken, given = DECOMPOSITIONS[attributes["type"]]
    if x.rank == 0 or x.shape[0] != taken:
        raise GraphError(
            f"{attributes['type']} does not take a tensor of shape {list(x.shape)}",
            limit=f"{taken} along the first axis",
        )
    return x.with_shape(given, *x.shape[1:])


# Meanings.


def cross_product(a: Array, b: Array) -> Array:
    """Return the vector that is at right angles to both, for each pair of vectors along the first axis."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def cross_correlation(x: Array, template: Array) -> Array:
    """Return the sum of products of the template with every window, the template not turned round."""
    windows = np.lib.stride_tricks.sliding_window_view(x, template.shape)
    return np.einsum("hwij,ij->hw", windows, template)


def cross_correlation_macs(x: TensorType, template: TensorType) -> int:
    """Return one multiply-accumulate for each element of the template at each of its places."""
    return cross_correlation_type(x, template).size * template.size


def cost_volume(aux: Array, ref: Array, disparity_range: int) -> Array:
    """Return |aux[w] − ref[w + d]| for each disparity d and place w."""
    windows = np.lib.stride_tricks.sliding_window_view(ref, aux.shape[0])[: disparity_range + 1]
    return np.abs(aux - windows)


def farthest_points(points: Array, k: int) -> Array:
    """Return point 0, then each time the point that is farthest from all chosen before; of equal ones the first."""
    chosen = [np.int64(0)]
    distances = np.full(len(points), np.inf)
    for _ in range(k - 1):
        distances = np.minimum(distances, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        chosen.append(np.argmax(distances))
    return points[np.stack(chosen)]


def radius_search(points: Array, centroids: Array, radius: float) -> Array:
    """Return 1 where a point is within the radius of a centroid, the boundary included, and 0 elsewhere."""
    squared = np.sum((points[:, None] - centroids) ** 2, axis=2)
    return (squared <= radius**2).astype(np.float64)


# Samples.


def sample_cross_product(chooser: Chooser) -> Sample:
    """Draw a call of cross_product."""
    vectors = TensorType((3, *draw_shape(chooser, 0, 3)), chooser.choose(FLOATS))
    return Sample({"a": Fill(vectors), "b": Fill(vectors)})


def sample_cross_correlation(chooser: Chooser) -> Sample:
    """Draw a call of cross_correlation; the template may fill the image."""
    dtype = chooser.choose(FLOATS)
    image = (chooser.integer(1, 7), chooser.integer(1, 7))
    template = (chooser.integer(1, image[0]), chooser.integer(1, image[1]))
    return Sample({"x": Fill(TensorType(image, dtype)), "template": Fill(TensorType(template, dtype))})


def sample_cost_volume(chooser: Chooser) -> Sample:
    """Draw a call of cost_volume; ref may be longer than it must be."""
    dtype = chooser.choose(FLOATS)
    width, reach = chooser.integer(1, 6), chooser.integer(0, 4)
    longer = width + reach + chooser.integer(0, 2)
    return Sample(
        {"aux": Fill(TensorType((width,), dtype)), "ref": Fill(TensorType((longer,), dtype))},
        {"disparity_range": reach},
    )


def sample_farthest_points(chooser: Chooser) -> Sample:
    """Draw a call of fps."""
    count = chooser.integer(1, 8)
    return Sample({"points": Fill(TensorType((count, 3), chooser.choose(FLOATS)))}, {"k": chooser.integer(1, count)})


def sample_radius_search(chooser: Chooser) -> Sample:
    """Draw a call of radius_search."""
    dtype = chooser.choose(FLOATS)
    return Sample(
        {
            "points": Fill(TensorType((chooser.integer(1, 6), 3), dtype)),
            "centroids": Fill(TensorType((chooser.integer(1, 4), 3), dtype)),
        },
        {"radius": chooser.choose([0.0, 1.5, 3.0, 6.0])},
    )


def sample_matrix_decomposition(chooser: Chooser) -> Sample:
    """Draw a call of matrix_decomposition."""
    kind = chooser.choose(tuple(DECOMPOSITIONS))
    x = TensorType((DECOMPOSITIONS[kind][0], *draw_shape(chooser, 0, 2)), chooser.choose(FLOATS))
    return Sample(
        {"x": Fill(x)},
        {"type": kind, "epsilon": chooser.choose([None, 1e-4]), "rotation_axis": chooser.choose([None, (7,)])},
    )


# Entries.

CROSS_PRODUCT = Op(
    name="cross_product",
    category=CATEGORY,
    summary="a × b of vectors along the first axis",
    operands=(Operand("a"), Operand("b")),
    infer=cross_product_type,
    meaning=cross_product,
    sample=sample_cross_product,
    surface=Surface.NATIVE_LAYER,
    support=LIKELY_BRIDGE_F0,
    in_mil=True,
    gradient=lambda: gradients.multiplying.CROSS_PRODUCT,
)
CROSS_CORRELATION = Op(
    name="cross_correlation",
    category=Category.LAYER,
    summary="Σ x[h + i, w + j] · template[i, j] over the template, where it fits into x",
    operands=(Operand("x"), Operand("template")),
    infer=cross_correlation_type,
    meaning=cross_correlation,
    macs=cross_correlation_macs,
    sample=sample_cross_correlation,
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=LIKELY_BRIDGE_F0,
    catalogued=False,
    gradient=lambda: gradients.multiplying.CORRELATION,
)
COST_VOLUME = Op(
    name="cost_volume",
    category=CATEGORY,
    summary="|aux[w] − ref[w + d]| for disparities d of 0 … disparity_range; that the cost is this one is inferred",
    operands=(Operand("aux"), Operand("ref")),
    attributes=(Attribute("disparity_range", AttributeKind.INTEGER, least=0),),
    infer=cost_volume_type,
    meaning=cost_volume,
    sample=sample_cost_volume,
    surface=Surface.NATIVE_LAYER,
    support=LIKELY_BRIDGE_F0,
    in_mil=True,
    gradient=lambda: gradients.multiplying.COST_VOLUME,
)
FPS = Op(
    name="fps",
    category=Category.DETECTION,
    summary="k points: the first, then each time the one farthest from those chosen; squared distance is inferred",
    operands=(Operand("points"),),
    attributes=(Attribute("k", AttributeKind.INTEGER, least=1),),
    infer=farthest_points_type,
    meaning=farthest_points,
    sample=sample_farthest_points,
    movement=Movement(("points",), taking=Taking.CHOSEN),
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=LIKELY_BRIDGE_F0,
    catalogued=False,
    gradient=lambda: gradients.reducing.FARTHEST,
)
RADIUS_SEARCH = Op(
    name="radius_search",
    category=Category.DETECTION,
    summary="1 where |point − centroid| ≤ radius, else 0; that the boundary counts is inferred",
    operands=(Operand("points"), Operand("centroids")),
    attributes=(Attribute("radius", AttributeKind.NUMBER, least=0),),
    infer=radius_search_type,
    meaning=radius_search,
    sample=sample_radius_search,
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=LIKELY_BRIDGE_F0,
    catalogued=False,
    gradient=lambda: gradients.pointwise.STEPS_OF_TWO,
)
MATRIX_DECOMPOSITION = Op(
    name="matrix_decomposition",
    category=CATEGORY,
    summary="a decomposition of small matrices along the first axis: 9 numbers to 4, or 6 to 3",
    operands=(Operand("x"),),
    attributes=(
        Attribute("type", AttributeKind.TEXT, "NonQRGivens", choices=tuple(DECOMPOSITIONS)),
        Attribute("epsilon", AttributeKind.NUMBER, None, least=0, finite=True),
        Attribute("rotation_axis", AttributeKind.INTEGERS, None),
    ),
    infer=matrix_decomposition_type,
    meaning=None,
    no_meaning="no source gives the mathematics of its two types",
    sample=sample_matrix_decomposition,
    support=LIKELY_BRIDGE_F0,
    in_mil=True,
    gradient=lambda: gradients.reasons.UNKNOWN_MATHEMATICS,
)
