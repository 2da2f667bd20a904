"""Order and choice: sort, the k largest, and boxes that do not overlap. Ties keep the order of the elements."""

from __future__ import annotations

from typing import TypedDict, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import gradients
from aneforge.ops.common import INDEX_DTYPES, NOWHERE, axis_attribute, index_dtype_attribute
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support, Surface, Trait
from aneforge.ops.results import FROM_ZERO, Movement, Taking
from aneforge.ops.sampling import FLOATS, NUMBERS, Chooser, Fill, Sample, draw_axis, draw_type
from aneforge.ops.shapes import common_dtype, expect_countable, expect_float, expect_rank, normalise_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType, numpy_dtype

CATEGORY = Category.DETECTION
AXIS = axis_attribute(-1)
ASCENDING = Attribute("ascending", AttributeKind.FLAG, default=False)


def ranked(x: Array, axis: int, *, ascending: bool) -> Array:
    """Return the places of the elements along an axis in their order, equal ones by place."""
    if ascending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


class Choosing(TypedDict):
    """The attributes of topk."""

    k: int
    axis: int
    ascending: bool
    sort: bool
    return_indices: bool
    output_indices_dtype: str


def topk_types(x: TensorType, **attributes: Unpack[Choosing]) -> tuple[TensorType, ...]:
    """Return the types of values and, if they are asked for, of places: `k` along the axis."""
    k, dtype = attributes["k"], attributes["output_indices_dtype"]
    along = normalise_axis(attributes["axis"], x.rank)
    if k > x.shape[along]:
        raise GraphError(f"axis {along} has fewer elements than k", seen=k, limit=x.shape[along])
    kept = x.with_shape(*(k if one == along else extent for one, extent in enumerate(x.shape)))
    if not attributes["return_indices"]:
        return (kept,)
    expect_countable(x.shape[along], dtype)
    return kept, kept.with_dtype(dtype)


def topk(x: Array, **attributes: Unpack[Choosing]) -> tuple[Array, ...]:
    """Return the `k` largest or smallest and perhaps their places; in order also where no order is asked for."""
    axis = attributes["axis"]
    places = np.take(ranked(x, axis, ascending=attributes["ascending"]), np.arange(attributes["k"]), axis)
    values = np.take_along_axis(x, places, axis)
    if not attributes["return_indices"]:
        return (values,)
    return values, places.astype(numpy_dtype(attributes["output_indices_dtype"]))


def argsort_type(x: TensorType, *, axis: int, **_: object) -> TensorType:
    """Return the type of places."""
    normalise_axis(axis, x.rank)
    return x.with_dtype("int32")


def argsort(x: Array, *, axis: int, ascending: bool) -> Array:
    """Return the places of the elements in their order."""
    return ranked(x, axis, ascending=ascending).astype(np.int32)


def sort_type(x: TensorType, *, axis: int, **_: object) -> TensorType:
    """Return the type of the sorted tensor: its own."""
    normalise_axis(axis, x.rank)
    return x


def in_order(x: Array, *, axis: int, descending: bool) -> Array:
    """Return the elements in their order."""
    return np.take_along_axis(x, ranked(x, axis, ascending=not descending), axis)


def suppression_types(
    boxes: TensorType, scores: TensorType, *, max_boxes: int, **_: object
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the types of the boxes kept, their scores and their places."""
    dtype = common_dtype(boxes, scores)
    for what, operand in (("boxes", boxes), ("scores", scores)):
        expect_float(operand, what)
        expect_rank(operand, 3, what=what)
    batch, coordinates, count = boxes.shape
    if coordinates != 4:
        raise GraphError(
            "a box is not four numbers",
            seen=coordinates,
            limit=4,
            remedy="give boxes as [batch, (centre x, centre y, width, height), boxes]",
        )
    classes = scores.shape[1]
    if scores.shape != (batch, classes, count):
        raise GraphError("scores and boxes do not match", seen=list(scores.shape), limit=f"[{batch}, classes, {count}]")
    if not classes:
        raise GraphError("scores name no class", seen=list(scores.shape), limit="one class or more")
    return (
        TensorType((batch, 4, max_boxes), dtype),
        TensorType((batch, classes, max_boxes), dtype),
        TensorType((batch, max_boxes), "int32"),
    )


def overlaps(boxes: Array, chosen: Array) -> Array:
    """Return intersection over union of every box with one; 0 where the union has no area."""
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    first, last = chosen[:2] - chosen[2:] / 2, chosen[:2] + chosen[2:] / 2
    common = np.clip(np.minimum(high, last) - np.maximum(low, first), 0, None).prod(axis=1)
    union = boxes[:, 2:].prod(axis=1) + chosen[2:].prod() - common
    return np.where(union > 0, common / np.where(union > 0, union, 1), 0)


def kept_boxes(boxes: Array, scores: Array, *, iou_threshold: float, per_class: bool) -> list[int]:
    """Return the places of the boxes of one image that are kept, the best first."""
    best, classes = scores.max(axis=1), scores.argmax(axis=1)
    alive = np.ones(len(boxes), np.bool_)
    kept: list[int] = []
    for place in ranked(best, 0, ascending=False).tolist():
        if not alive[place]:
            continue
        kept.append(place)
        rivals = classes == classes[place] if per_class else np.ones_like(alive)
        alive &= ~(rivals & (overlaps(boxes, boxes[place]) > iou_threshold))
    return kept


def suppression(
    boxes: Array,
    scores: Array,
    *,
    iou_threshold: float,
    max_boxes: int,
    per_class_suppression: bool,
) -> tuple[Array, Array, Array]:
    """Keep the best boxes that do not overlap; the places after the last one kept hold 0, and −1 for their place."""
    images = len(boxes)
    coordinates = np.zeros((images, 4, max_boxes))
    confidences = np.zeros((images, scores.shape[1], max_boxes))
    places = np.full((images, max_boxes), -1, np.int32)
    for image in range(images):
        found = kept_boxes(
            boxes[image].T, scores[image].T, iou_threshold=iou_threshold, per_class=per_class_suppression
        )
        kept = found[:max_boxes]
        coordinates[image, :, : len(kept)] = boxes[image][:, kept]
        confidences[image, :, : len(kept)] = scores[image][:, kept]
        places[image, : len(kept)] = kept
    return coordinates, confidences, places


def draw_ranked(chooser: Chooser) -> tuple[Fill, int]:
    """Draw a tensor to put in order, with equal elements, and an axis of it."""
    tensor = draw_type(chooser, (*NUMBERS, "uint8"))
    axis = draw_axis(chooser, tensor.rank)
    low = 0 if tensor.dtype == "uint8" else -2
    return Fill(tensor, low, 2), axis


def sample_topk(chooser: Chooser) -> Sample:
    """Draw a choice of one to all elements."""
    x, axis = draw_ranked(chooser)
    k = chooser.integer(1, x.type.shape[axis])
    attributes = {
        "k": k,
        "axis": axis,
        "ascending": chooser.choose([True, False]),
        "sort": chooser.choose([True, False]),
        "return_indices": chooser.choose([True, True, False]),
        "output_indices_dtype": chooser.choose(INDEX_DTYPES),
    }
    return Sample({"x": x}, attributes)


def sample_argsort(chooser: Chooser) -> Sample:
    """Draw an order of places."""
    x, axis = draw_ranked(chooser)
    return Sample({"x": x}, {"axis": axis, "ascending": chooser.choose([True, False])})


def sample_sort(chooser: Chooser) -> Sample:
    """Draw an order of elements."""
    x, axis = draw_ranked(chooser)
    return Sample({"x": x}, {"axis": axis, "descending": chooser.choose([True, False])})


def sample_suppression(chooser: Chooser) -> Sample:
    """Draw boxes that often overlap, with more or fewer places than boxes."""
    dtype = chooser.choose(FLOATS)
    batch, boxes, classes = chooser.integer(1, 2), chooser.integer(1, 7), chooser.integer(1, 3)
    return Sample(
        {
            "boxes": Fill(TensorType((batch, 4, boxes), dtype), 0.5, 2),
            "scores": Fill(TensorType((batch, classes, boxes), dtype), 0, 1),
        },
        {
            "iou_threshold": chooser.choose([0.0, 0.3, 1.0]),
            "max_boxes": chooser.integer(1, 8),
            "per_class_suppression": chooser.choose([True, False]),
        },
    )


TOPK = Op(
    name="topk",
    category=CATEGORY,
    summary="the k largest (or smallest) along an axis and their places; equal ones by place",
    operands=(Operand("x"),),
    attributes=(
        Attribute("k", AttributeKind.INTEGER, 1, least=1),
        AXIS,
        ASCENDING,
        Attribute("sort", AttributeKind.FLAG, default=True),
        Attribute("return_indices", AttributeKind.FLAG, default=True),
        index_dtype_attribute("output_indices_dtype"),
    ),
    infer=topk_types,
    meaning=topk,
    sample=sample_topk,
    surface=Surface.NATIVE_LAYER,
    support=Support(floor=3, mil_since=3),
    traits=frozenset({Trait.INDICES}),
    in_mil=True,
    gradient=lambda: gradients.reducing.TOPK,
)
ARGSORT = Op(
    name="argsort",
    category=CATEGORY,
    summary="the places of the elements along an axis in descending (or ascending) order; equal ones by place",
    operands=(Operand("x"),),
    attributes=(AXIS, ASCENDING),
    infer=argsort_type,
    meaning=argsort,
    sample=sample_argsort,
    codomain=FROM_ZERO,
    support=Support(floor=3, basis=Basis.LIKELY, mil_since=3),
    traits=frozenset({Trait.INDICES, Trait.PLACES}),
    in_mil=True,
    gradient=lambda: gradients.reasons.INTEGERS,
)
SORT = Op(
    name="sort",
    category=CATEGORY,
    summary="the elements along an axis in ascending (or descending) order",
    operands=(Operand("x"),),
    attributes=(AXIS, Attribute("descending", AttributeKind.FLAG, default=False)),
    infer=sort_type,
    meaning=in_order,
    sample=sample_sort,
    movement=Movement(taking=Taking.CHOSEN),
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=Support(floor=3, mil_since=None, mil_otherwise=MilStatus.BRIDGE),
    catalogued=False,
    gradient=lambda: gradients.reducing.SORT,
)
NON_MAXIMUM_SUPPRESSION = Op(
    name="non_maximum_suppression",
    category=CATEGORY,
    summary="the best boxes (centre x, centre y, width, height), best first, none over iou_threshold with a better one",
    operands=(Operand("boxes"), Operand("scores")),
    attributes=(
        Attribute("iou_threshold", AttributeKind.NUMBER, least=0, most=1),
        Attribute("max_boxes", AttributeKind.INTEGER, least=1),
        Attribute("per_class_suppression", AttributeKind.FLAG, default=False),
    ),
    infer=suppression_types,
    meaning=suppression,
    sample=sample_suppression,
    opset="ios17",
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reducing.KEPT_BOXES,
)
