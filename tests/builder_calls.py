"""A right call of every function and method of the builder, with the kind of each argument."""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import AneforgeError, GraphError
from aneforge.graph import special
from aneforge.graph.builder import attention, combination, conversion, convolution, einsum, image, inputs, layers
from aneforge.graph.builder import normalisation as norms
from aneforge.graph.builder.conversion import cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.errors import Location
    from aneforge.graph.tensor import Tensor

Array = npt.NDArray[Any]


class Kind(Enum):
    """What an argument must be."""

    TENSOR = auto()
    TENSORS = auto()
    ARRAY = auto()
    """An array of floating-point numbers."""
    OPTIONAL_ARRAY = auto()
    PARAMETER = auto()
    """An array, or a tensor that is trained."""
    OPERAND = auto()
    """A tensor, an array of floating-point numbers, or a number."""
    MATRIX = auto()
    """A tensor or an array."""
    MASK = auto()
    WHOLE = auto()
    OPTIONAL_WHOLE = auto()
    WHOLES = auto()
    OPTIONAL_WHOLES = auto()
    WHOLE_OR_WHOLES = auto()
    PADDING = auto()
    NUMBER = auto()
    OPTIONAL_NUMBER = auto()
    NUMBER_OR_NUMBERS = auto()
    FLAG = auto()
    TEXT = auto()
    OPTIONAL_TEXT = auto()


def tensor(*shape: int) -> Tensor:
    return af.input(shape)


def image_tensor(*shape: int) -> Tensor:
    return af.input(shape or (1, 4, 8, 8))


def floats(*shape: int) -> Array:
    return np.ones(shape, np.float16)


def einsum_of_two(eq: str, a: Tensor, b: Tensor) -> Tensor:
    return af.einsum(eq, a, b)


def reshaped(shape: list[int]) -> Tensor:
    return MATRIX.reshape(shape)


def truths() -> Tensor:
    return tensor(1, 4).less(tensor(1, 4))


def untyped(value: object) -> Any:  # noqa: ANN401 - its purpose
    """Return a value that is right, and of which the signatures do not speak: NumPy's numbers and arrays."""
    return value


def attended(length: int, mask: Tensor | Array) -> Tensor:
    q, k, v = (tensor(1, 2, length, 4) for _ in range(3))
    return af.sdpa(q, k, v, attn_mask=mask)


class Call(NamedTuple):
    """A call that is right, and the kind of each of its arguments."""

    function: Callable[..., object]
    arguments: dict[str, tuple[Kind, object]]


X = (Kind.TENSOR, tensor(1, 4))
IMAGE = (Kind.TENSOR, image_tensor())
VOLUME = (Kind.TENSOR, tensor(4, 8, 8))
AXIS = (Kind.WHOLE, -1)
EPS = (Kind.NUMBER, 1e-5)
OFF = (Kind.FLAG, False)
TWO = (Kind.WHOLE, 2)
NUMBER = (Kind.NUMBER, 0.5)
SPREAD = {
    "stride": (Kind.WHOLE, 1),
    "pad": (Kind.PADDING, 1),
    "dilation": (Kind.WHOLE, 1),
    "groups": (Kind.WHOLE, 1),
}
PROJECTIONS = {
    f"{sort}{name}": (Kind.ARRAY if sort == "W" else Kind.OPTIONAL_ARRAY, floats(4, 4) if sort == "W" else floats(4))
    for name in "qkvo"
    for sort in "Wb"
}
PAIR = {"x": X, "y": X}

FUNCTIONS: dict[str, Call] = {
    "sdpa": Call(
        af.sdpa,
        {
            **dict.fromkeys("qkv", (Kind.TENSOR, tensor(1, 2, 5, 4))),
            "scale": (Kind.OPTIONAL_NUMBER, 0.5),
            "is_causal": OFF,
            "attn_mask": (Kind.MASK, floats(1, 1, 5, 5)),
        },
    ),
    "mha": Call(
        af.mha,
        {"x": (Kind.TENSOR, tensor(5, 4)), **PROJECTIONS, "n_heads": TWO, "mask": (Kind.MASK, floats(5, 5))},
    ),
    "cross_attention": Call(
        af.cross_attention,
        {
            "x": (Kind.TENSOR, tensor(5, 4)),
            "context": (Kind.TENSOR, tensor(7, 4)),
            **PROJECTIONS,
            "n_heads": TWO,
            "mask": (Kind.MASK, floats(5, 7)),
        },
    ),
    "geglu": Call(af.geglu, {"x": X, "W": (Kind.ARRAY, floats(8, 4)), "b": (Kind.OPTIONAL_ARRAY, floats(8))}),
    "concat": Call(af.concat, {"tensors": (Kind.TENSORS, [tensor(1, 4)]), "axis": AXIS}),
    "stack": Call(af.stack, {"tensors": (Kind.TENSORS, [tensor(1, 4)]), "axis": AXIS}),
    "gather": Call(af.gather, {"x": X, "indices": (Kind.WHOLES, [0]), "axis": AXIS}),
    "split": Call(af.split, {"x": X, "n": TWO, "axis": AXIS}),
    "maximum": Call(af.maximum, {"a": (Kind.OPERAND, tensor(1, 4)), "b": (Kind.OPERAND, tensor(1, 4))}),
    "minimum": Call(af.minimum, {"a": (Kind.OPERAND, tensor(1, 4)), "b": (Kind.OPERAND, tensor(1, 4))}),
    "select": Call(af.select, {"cond": (Kind.TENSOR, truths()), "a": (Kind.OPERAND, 1.0), "b": (Kind.OPERAND, 0.0)}),
    "where": Call(af.where, {"cond": (Kind.TENSOR, truths()), "a": (Kind.OPERAND, 1.0), "b": (Kind.OPERAND, 0.0)}),
    "cast": Call(cast, {"x": X, "dtype": (Kind.TEXT, "int32")}),
    "conv": Call(
        af.conv,
        {"x": IMAGE, "w": (Kind.ARRAY, floats(2, 4, 3, 3)), **SPREAD, "bias": (Kind.OPTIONAL_ARRAY, floats(2))},
    ),
    "conv_transpose": Call(
        af.conv_transpose,
        {"x": IMAGE, "w": (Kind.ARRAY, floats(4, 2, 3, 3)), **SPREAD, "bias": (Kind.OPTIONAL_ARRAY, floats(2))},
    ),
    "dynamic_conv": Call(af.dynamic_conv, {"x": IMAGE, "w": (Kind.TENSOR, tensor(2, 4, 3, 3)), **SPREAD}),
    "einsum": Call(einsum_of_two, {"eq": (Kind.TEXT, "ab,ab->a"), "a": X, "b": X}),
    "einsum_native": Call(
        af.einsum_native,
        {"eq": (Kind.TEXT, "nchw,nwhu->nchu"), "a": IMAGE, "b": (Kind.ARRAY, floats(1, 8, 8, 5))},
    ),
    "affine": Call(
        af.affine, {"x": IMAGE, "transform": (Kind.MATRIX, floats(1, 6)), "oh": TWO, "ow": TWO, "align": OFF}
    ),
    "crop": Call(af.crop, {"x": IMAGE, **dict.fromkeys("tblr", (Kind.WHOLE, 1))}),
    "crop_resize": Call(
        af.crop_resize,
        {
            "x": IMAGE,
            "boxes": (Kind.MATRIX, floats(1, 4)),
            "target_height": TWO,
            "target_width": TWO,
            "box_indices": (Kind.OPTIONAL_WHOLES, [0]),
            "normalized_coordinates": OFF,
            "spatial_scale": NUMBER,
            "box_coordinate_mode": (Kind.TEXT, "CENTER_SIZE_WIDTH_FIRST"),
            "sampling_mode": (Kind.TEXT, "DEFAULT"),
            "pad_value": NUMBER,
        },
    ),
    "resample": Call(
        af.resample,
        {
            "x": IMAGE,
            "coordinates": (Kind.MATRIX, floats(1, 3, 5, 2)),
            "sampling_mode": (Kind.TEXT, "nearest"),
            "padding_mode": (Kind.TEXT, "border"),
            "padding_value": NUMBER,
            "coordinates_mode": (Kind.TEXT, "unnormalized"),
            "align_corners": OFF,
        },
    ),
    "dropout": Call(af.dropout, {"x": X, "rate": (Kind.NUMBER, 0.5), "seed": (Kind.WHOLE, 1)}),
    "depth_to_space": Call(af.depth_to_space, {"x": IMAGE, "block": TWO}),
    "space_to_depth": Call(af.space_to_depth, {"x": IMAGE, "block": TWO}),
    "pixel_shuffle": Call(af.pixel_shuffle, {"x": IMAGE, "r": TWO}),
    "pixel_unshuffle": Call(af.pixel_unshuffle, {"x": IMAGE, "r": TWO}),
    "resize_bilinear": Call(af.resize_bilinear, {"x": IMAGE, "h": TWO, "w": TWO, "align_corners": OFF}),
    "resize_nearest_neighbor": Call(af.resize_nearest_neighbor, {"x": IMAGE, "h": TWO, "w": TWO}),
    "upsample_bilinear": Call(af.upsample_bilinear, {"x": IMAGE, "scale": (Kind.NUMBER, 2), "align": OFF}),
    "input": Call(
        af.input,
        {
            "shape": (Kind.WHOLES, (1, 4)),
            "dtype": (Kind.TEXT, "fp16"),
            "max_abs": (Kind.OPTIONAL_NUMBER, 1.0),
            "name": (Kind.OPTIONAL_TEXT, "x"),
        },
    ),
    "image_input": Call(
        af.image_input,
        {
            "shape": (Kind.WHOLES, (1, 3, 8, 8)),
            "scale": (Kind.NUMBER_OR_NUMBERS, 1.0),
            "bias": (Kind.NUMBER_OR_NUMBERS, 0.0),
        },
    ),
    "weight": Call(
        af.weight,
        {
            "shape": (Kind.WHOLES, (4, 4)),
            "dtype": (Kind.TEXT, "fp16"),
            "encoding": (Kind.OPTIONAL_TEXT, "int8"),
            "name": (Kind.TEXT, "up_proj"),
        },
    ),
    "state": Call(af.state, {"name": (Kind.TEXT, "total"), "shape": (Kind.WHOLES, (1, 4))}),
    "argmax": Call(af.argmax, {"x": X, "axis": AXIS}),
    "topk": Call(af.topk, {"x": X, "k": TWO, "axis": AXIS, "largest": OFF}),
    "sort": Call(af.sort, {"x": X, "axis": AXIS, "descending": OFF}),
    "cross_product": Call(af.cross_product, dict.fromkeys("ab", (Kind.TENSOR, tensor(3, 5)))),
    "cross_correlation": Call(af.cross_correlation, dict.fromkeys(("x", "template"), (Kind.TENSOR, tensor(3, 5)))),
    "cost_volume": Call(
        af.cost_volume,
        {"aux": (Kind.TENSOR, tensor(8)), "ref": (Kind.TENSOR, tensor(12)), "disparity_range": TWO},
    ),
    "fps": Call(af.fps, {"points": (Kind.TENSOR, tensor(9, 3)), "k": TWO}),
    "radius_search": Call(
        af.radius_search,
        {"points": (Kind.TENSOR, tensor(9, 3)), "centroids": (Kind.TENSOR, tensor(2, 3)), "radius": NUMBER},
    ),
    "minmax_norm": Call(af.minmax_norm, {"x": VOLUME, "dimension": (Kind.TEXT, "width"), "eps": EPS}),
    "lrn": Call(af.lrn, {"x": VOLUME, "alpha": NUMBER, "beta": NUMBER, "k": NUMBER, "kernel_channel": TWO}),
    "space_to_channel": Call(af.space_to_channel, {"x": IMAGE, "r": TWO}),
    "channel_to_space": Call(af.channel_to_space, {"x": IMAGE, "r": TWO}),
    "space_to_batch": Call(af.space_to_batch, {"x": IMAGE, "block": (Kind.WHOLES, [2, 2])}),
    "batch_to_space": Call(af.batch_to_space, {"x": (Kind.TENSOR, tensor(4, 1, 2, 2)), "block": (Kind.WHOLES, [2, 2])}),
    "flatten": Call(af.flatten, {"x": VOLUME}),
    "input_view": Call(af.input_view, {"x": X, "offset": TWO, "size": TWO, "axis": AXIS, "step": (Kind.WHOLE, 1)}),
    "dynamic_slice": Call(af.dynamic_slice, {"x": X, "begin": (Kind.TENSOR, tensor(1).cast("int32")), "size": TWO}),
    "scaled_elementwise": Call(af.scaled_elementwise, {**PAIR, "op": (Kind.TEXT, "Add"), "scale": NUMBER}),
    "batch_norm": Call(
        af.batch_norm,
        {"x": IMAGE, **dict.fromkeys(("gamma", "beta", "mean", "var"), (Kind.ARRAY, floats(4))), "eps": EPS},
    ),
    "instance_norm": Call(
        af.instance_norm,
        {"x": IMAGE, **dict.fromkeys(("gamma", "beta"), (Kind.OPTIONAL_ARRAY, floats(4))), "eps": EPS},
    ),
    "local_response_norm": Call(
        af.local_response_norm, {"x": IMAGE, "size": TWO, "alpha": NUMBER, "beta": NUMBER, "k": NUMBER}
    ),
}
SPECIAL = {f"special.{name}": Call(getattr(special, name), {"x": X}) for name in special.__all__}
MATRIX, CHANNELS = tensor(2, 4), image_tensor()
AFFINE = dict.fromkeys(("gamma", "beta"), (Kind.PARAMETER, floats(4)))
OPERATORS = ("__add__", "__sub__", "__mul__", "__truediv__", "__pow__")
REDUCTIONS = ("sum", "mean", "amax", "amin", "l1_norm", "log_sum", "sum_square", "reduce_log_sum_exp")
PLAIN = {
    "relu", "relu6", "gelu", "silu", "sigmoid", "tanh", "exp", "exp2", "log2", "sqrt", "abs", "square", "sin", "cos",
    "atan", "erf", "softplus", "softsign", "floor", "ceil", "round", "sign", "logical_not",
}  # fmt: skip
"""Methods without arguments."""
METHODS: dict[str, tuple[Tensor, dict[str, tuple[Kind, object]]]] = {
    **{name: (MATRIX, {"other": (Kind.OPERAND, 1.0)}) for name in ("pow", *OPERATORS)},
    "__matmul__": (MATRIX, {"other": (Kind.MATRIX, floats(4, 3))}),
    **{name: (MATRIX, {"k": NUMBER}) for name in ("adds", "muls")},
    **{
        name: (MATRIX, {"other": (Kind.TENSOR, MATRIX)})
        for name in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
    },
    **{name: (MATRIX, {"eps": EPS}) for name in ("log", "rsqrt", "inverse")},
    **{name: (MATRIX, {"alpha": NUMBER}) for name in ("elu", "leaky_relu")},
    **{name: (MATRIX, {"lo": NUMBER, "hi": NUMBER}) for name in ("clip", "clamp")},
    **{
        name: (MATRIX, {"a": NUMBER, "b": NUMBER})
        for name in ("scaled_tanh", "clamped_relu", "sigmoid_hard", "linear_activation")
    },
    **{name: (MATRIX, {"a": NUMBER}) for name in ("threshold", "thresholded_relu")},
    **{name: (MATRIX, {"axis": (Kind.WHOLE_OR_WHOLES, -1)}) for name in REDUCTIONS},
    **{name: (MATRIX, {"axis": AXIS}) for name in ("softmax", "argmax", "cumsum")},
    "prelu": (CHANNELS, {"alpha": (Kind.ARRAY, floats(4))}),
    "cast": (MATRIX, {"dtype": (Kind.TEXT, "int32")}),
    "transpose": (MATRIX, {"perm": (Kind.WHOLES, (1, 0))}),
    "squeeze": (tensor(1, 4), {"axes": (Kind.WHOLE_OR_WHOLES, 0)}),
    "expand_dims": (MATRIX, {"axes": (Kind.WHOLE_OR_WHOLES, 0)}),
    "reverse": (MATRIX, {"axes": (Kind.WHOLE_OR_WHOLES, 0)}),
    "flatten2d": (MATRIX, {"axis": AXIS}),
    "slice_by_size": (MATRIX, {"begin": (Kind.WHOLES, [0, 0]), "size": (Kind.WHOLES, [1, 1])}),
    "tile": (MATRIX, {"reps": (Kind.WHOLES, [1, 2])}),
    "linear": (MATRIX, {"W": (Kind.ARRAY, floats(3, 4)), "bias": (Kind.OPTIONAL_ARRAY, floats(3))}),
    "bmm_weight": (tensor(2, 3, 4), {"W": (Kind.ARRAY, floats(2, 4, 5))}),
    "l2_norm": (MATRIX, {"axis": AXIS, "eps": EPS}),
    "rms_norm": (MATRIX, {"gamma": (Kind.PARAMETER, floats(4)), "eps": EPS}),
    "layer_norm": (MATRIX, {**AFFINE, "eps": EPS}),
    "channel_layer_norm": (tensor(1, 4, 1, 8), {**AFFINE, "eps": EPS}),
    "group_norm": (CHANNELS, {**AFFINE, "num_groups": TWO, "eps": EPS}),
    "max_pool": (CHANNELS, {"k": TWO, "stride": (Kind.OPTIONAL_WHOLE, 1), "pad": (Kind.WHOLE, 1), "ceil_mode": OFF}),
    "avg_pool": (
        CHANNELS,
        {"k": TWO, "stride": (Kind.OPTIONAL_WHOLE, 1), "pad": (Kind.WHOLE, 1), "ceil_mode": OFF, "exclude_pad": OFF},
    ),
    "upsample": (CHANNELS, {"scale": TWO}),
}
CALLS = {
    **FUNCTIONS,
    **SPECIAL,
    **{f"x.{name}": Call(getattr(x, name), arguments) for name, (x, arguments) in METHODS.items()},
    "x.reshape": Call(reshaped, {"shape": (Kind.WHOLE_OR_WHOLES, [8])}),
}
BUILDER = (attention, combination, conversion, convolution, einsum, image, inputs, layers, norms)


def one_error(call: Callable[[], object]) -> GraphError:
    """Return the error that a call ends in, which must say where and what."""
    with pytest.raises(AneforgeError) as caught:
        call()
    assert isinstance(caught.value, GraphError)
    assert caught.value.operation
    place: Location | None = caught.value.location
    assert place is not None
    assert place.file is not None
    assert Path(place.file).is_relative_to(Path(__file__).parent)
    assert len(str(caught.value)) < 1000
    return caught.value
