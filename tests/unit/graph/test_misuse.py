"""Misuse of the builder: every argument of every function and method, replaced by everything that it is not.

Whatever is given, there is one error of the package's own, which names the operation and the line in this file; nothing
wrong is accepted, nothing hangs, nothing takes the machine's memory.
"""

from __future__ import annotations

import inspect
import math
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import AneforgeError, GraphError, GraphTypeError
from aneforge.graph import special
from aneforge.graph.builder import attention, combination, conversion, convolution, einsum, image, inputs, layers
from aneforge.graph.builder import normalisation as norms
from aneforge.graph.builder.conversion import cast
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aneforge.errors import Location

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


class Word(str):
    """A text whose representation is long."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "word" * 1000


def generated() -> Iterator[int]:
    yield 1


ALWAYS: dict[str, object] = {
    "text": "text",
    "bytes": b"ab",
    "complex": 1j,
    "object": object(),
    "type": np.float16,
    "dictionary": {"a": 1},
    "set": {1, 2},
    "generator": generated(),
    "ragged": [[1.0, 2.0], [3.0]],
    "texts": ["a", "b"],
    "array of texts": np.array(["a", "b"]),
    "array of objects": np.array([None, object()]),
    "truths": [True, False],
    "array of truths": np.array([True, False]),
    "true": True,
    "numpy's true": np.bool_(True),  # noqa: FBT003 - the value itself is the subject
    "huge": 10**400,
    "huge digits": 10**5000,
    "huges": [10**400],
    "range": range(10**12),
    "nested": [[1, 2], [3, 4]],
    "tensors nested": [[tensor(1)]],
}
OTHER: dict[str, object] = {
    "none": None,
    "nan": math.nan,
    "infinity": math.inf,
    "fraction": 1.5,
    "numpy's fraction": np.float32(1.5),
    "array of no axes": np.array(1),
    "integers": [1, 2],
    "array of integers": np.array([1, 2]),
    "array of numbers": np.array([1.5, 2.5]),
    "numbers": [1.5, 2.5],
    "nothing": [],
    "empty text": "",
    "tensor": tensor(1, 4),
    "list of a tensor": [tensor(1, 4)],
    "negative": -7,
    "far": 10**18,
}
NUMBERS = {"fraction", "numpy's fraction", "negative", "far"}
LISTS = {"integers", "array of integers", "nothing"}
ARRAYS = {"array of numbers", "numbers", "nothing"}
FITS: dict[Kind, set[str]] = {
    Kind.TENSOR: {"tensor"},
    Kind.TENSORS: {"list of a tensor"},
    Kind.ARRAY: ARRAYS,
    Kind.OPTIONAL_ARRAY: {"none", *ARRAYS},
    Kind.PARAMETER: {"tensor", *ARRAYS},
    Kind.OPERAND: {"tensor", "nan", "infinity", *NUMBERS, *ARRAYS},
    Kind.MATRIX: {"tensor", *ARRAYS},
    Kind.MASK: {"none", "tensor", *ARRAYS},
    Kind.WHOLE: {"negative", "far"},
    Kind.OPTIONAL_WHOLE: {"none", "negative", "far"},
    Kind.WHOLES: LISTS,
    Kind.OPTIONAL_WHOLES: {"none", *LISTS},
    Kind.WHOLE_OR_WHOLES: {"negative", "far", *LISTS},
    Kind.PADDING: {"negative", "far", *LISTS},
    Kind.NUMBER: NUMBERS,
    Kind.OPTIONAL_NUMBER: {"none", *NUMBERS},
    Kind.NUMBER_OR_NUMBERS: {*NUMBERS, *ARRAYS, *LISTS},
    Kind.FLAG: set(),
    Kind.TEXT: {"empty text"},
    Kind.OPTIONAL_TEXT: {"none", "empty text"},
}
"""What may be right for an argument of a kind, and is left out of the trial by type; the tables below try it."""
RIGHT: dict[Kind, set[str]] = {
    Kind.FLAG: {"true", "numpy's true"},
    Kind.TEXT: {"text"},
    Kind.OPTIONAL_TEXT: {"text"},
}
INFINITE = {"clip", "clamp", "adds", "muls"}
"""Numbers that may be infinite, or no number, as in arithmetic."""


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


def wrong_values(name: str, kind: Kind) -> dict[str, object]:
    """Return what an argument of a kind cannot be."""
    wrong = {what: value for what, value in ALWAYS.items() if what not in RIGHT.get(kind, ())}
    wrong |= {what: value for what, value in OTHER.items() if what not in FITS[kind]}
    if name.removeprefix("x.") in INFINITE:
        del wrong["nan"], wrong["infinity"]
    return wrong


def one_error(call: Callable[[], object]) -> GraphError:
    """Return the error that a call ends in, which must say where and what."""
    with pytest.raises(AneforgeError) as caught:
        call()
    assert isinstance(caught.value, GraphError)
    assert caught.value.operation
    place: Location | None = caught.value.location
    assert place is not None
    assert place.file == __file__
    assert len(str(caught.value)) < 1000
    return caught.value


# Every function with every wrong argument


def test_every_function_is_tried() -> None:
    public = {name for module in BUILDER for name in module.__all__}
    assert set(FUNCTIONS) == {name for name in public if not inspect.isclass(getattr(einsum, name, None))}
    methods = {name for name, _ in inspect.getmembers(Tensor, inspect.isfunction) if not name.startswith("_")}
    assert {*METHODS, *PLAIN, "reshape", "apply"} - {*OPERATORS, "__matmul__"} == methods


@pytest.mark.parametrize("name", CALLS)
def test_the_call_itself_is_right(name: str) -> None:
    function, arguments = CALLS[name]
    function(**{argument: value for argument, (_, value) in arguments.items()})


@pytest.mark.parametrize(("name", "argument"), [(name, one) for name, call in CALLS.items() for one in call.arguments])
def test_a_wrong_argument_is_one_error(name: str, argument: str) -> None:
    function, arguments = CALLS[name]
    right = {known: value for known, (_, value) in arguments.items()}
    for what, value in wrong_values(name, arguments[argument][0]).items():
        try:
            one_error(lambda value=value: function(**{**right, argument: value}))
        except BaseException as error:
            error.add_note(f"{name} with {argument} = {what}")
            raise


@pytest.mark.filterwarnings("ignore::aneforge.errors.PrecisionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_extreme_arguments_neither_hang_nor_take_memory(name: str) -> None:
    function, arguments = CALLS[name]
    right = {known: value for known, (_, value) in arguments.items()}
    for argument in arguments:
        for value in ("tensor", "negative", "far", "nothing", "numbers", "empty text", "integers"):
            try:
                function(**{**right, argument: OTHER[value]})
            except GraphError as error:
                assert error.operation  # noqa: PT017 - it may be right for some
                assert error.location  # noqa: PT017


# What the trial above leaves open, case by case

CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    # operands
    "none": (lambda: tensor(2) + None, TypeError, r"^add .*neither a tensor, a number nor an array \(seen None"),
    "true": (lambda: tensor(2) * True, TypeError, "^mul"),
    "left": (lambda: "a" - tensor(2), TypeError, "^sub"),
    "list of integers": (lambda: tensor(2) - [1, 2], TypeError, "^sub .*seen an array of int64 of shape"),
    "maximum of integers": (lambda: af.maximum(tensor(2), np.array([1, 2])), TypeError, "^maximum"),
    "select of integers": (lambda: af.select(truths(), np.ones(4, int), 0.0), TypeError, "^select"),
    "huge": (lambda: tensor(2) * 10**400, ValueError, "too large for a floating-point number"),
    "huge divisor": (lambda: tensor(2) / 10**400, ValueError, "^real_div .*too large for a floating-point number"),
    "ragged": (lambda: tensor(2) - [[1.0], [2.0, 3.0]], TypeError, "^sub .*inhomogeneous"),
    "left matrix": (lambda: floats(3, 2) @ tensor(2, 4), TypeError, "left-hand matrix is not a tensor"),
    "empty matrix": (lambda: tensor(1, 4) @ np.zeros((4, 0)), ValueError, r"shape \[1, 0\] has an empty axis"),
    "no output channels": (lambda: af.conv(image_tensor(), floats(0, 4, 1, 1)), ValueError, "empty axis"),
    "empty slice": (lambda: tensor(4).slice_by_size([0], [0]), ValueError, "empty"),
    # gather
    "floats": (
        lambda: af.gather(tensor(4), untyped([1.0])),
        TypeError,
        r"^gather .*indices\[0\] is not an integer",
    ),
    "gather axis": (lambda: af.gather(tensor(4), [1], axis=9), ValueError, "^gather .*axis is not an axis .*seen 9"),
    "gather of a number": (lambda: af.gather(tensor(), [0]), ValueError, "^gather .*rank 0"),
    "many indices": (lambda: af.gather(tensor(9), range(10**6)), ValueError, "too many entries"),
    "many parts": (lambda: af.split(tensor(10**9), 10**9), ValueError, "n is too large .*at most 65536"),
    # pooling, convolution
    "no stride": (lambda: image_tensor().max_pool(2, stride=0), ValueError, "stride is too small"),
    "stride false": (lambda: image_tensor().avg_pool(2, stride=False), TypeError, "stride is not an integer"),
    "no window": (lambda: image_tensor().max_pool(0), ValueError, "k is too small .seen 0, limit at least 1"),
    "pool of a matrix": (lambda: tensor(2, 4).max_pool(2), ValueError, "not an image"),
    "pad": (lambda: af.conv(image_tensor(), floats(2, 4, 1, 1), pad=-1), ValueError, "^conv .*pad is too small"),
    "tensor weight": (lambda: af.conv(image_tensor(), tensor(2, 4, 1, 1)), TypeError, "Remedy: use dynamic_conv"),
    # norms
    "two images": (lambda: tensor(2, 4, 8, 8).group_norm(floats(4), floats(4), 2), ValueError, r"\[1, C, H, W\]"),
    "large image": (
        lambda: tensor(1, 4, 257, 256).group_norm(floats(4), floats(4), 2),
        ValueError,
        "a group is too large.*65792 pixels, limit at most 65536",
    ),
    "group norm of a list": (lambda: tensor(4).group_norm(floats(4), floats(4), 2), ValueError, "^group_norm"),
    "channel norm of a list": (lambda: tensor(4).channel_layer_norm(floats(4), floats(4)), ValueError, "N, C, 1, S"),
    "trained gamma": (lambda: tensor(2, 4).rms_norm(tensor(2)), ValueError, r"^rms_norm .*seen \[2\], limit \[4\]"),
    "trained gamma of another shape": (
        lambda: tensor(2, 4).layer_norm(tensor(2, 2), tensor(4)),
        ValueError,
        r"^layer_norm .*gamma does not have one number per channel \(seen \[2, 2\]",
    ),
    # layers
    "many chosen": (lambda: af.fps(tensor(2000, 3), 1025), ValueError, "k is too large .*at most 1024"),
    "many points": (lambda: af.fps(tensor(8193, 3), 8), ValueError, "too many points .seen 8193, limit 8192"),
    "several k": (lambda: af.topk(tensor(1, 8), np.array([1, 2])), TypeError, "k is not an integer"),  # pyright: ignore[reportArgumentType] - misuse
    "mode": (lambda: af.scaled_elementwise(tensor(1), tensor(1), "Foo"), ValueError, "limit Add, Mult, Min, Max"),
    "blocks": (lambda: af.space_to_batch(image_tensor(), 2), TypeError, "block is not a list of integers"),  # pyright: ignore[reportArgumentType] - misuse
    # shapes
    "cumsum of a number": (lambda: tensor().cumsum(), ValueError, "^cumsum .*rank 0"),
    "long cumsum": (lambda: tensor(1, 60000).cumsum(), ValueError, "triangle .*6866 MiB.*Remedy: split the axis"),
    "long diagonal": (lambda: af.einsum("aa->a", tensor(6000, 6000)), ValueError, "^einsum .*mask of a diagonal"),
    "long trained norm": (
        lambda: tensor(1, 10**9).rms_norm(tensor(10**9)),
        ValueError,
        "^rms_norm .*a parameter would take",
    ),
    "reshape text": (lambda: tensor(1).reshape(""), TypeError, "shape is not a list of integers .seen ''"),  # pyright: ignore[reportArgumentType] - misuse
    "reshape mixed": (lambda: tensor(6).reshape(2, [3]), TypeError, r"shape\[1\] is not an integer"),
    "transpose twice": (lambda: tensor(2, 3).transpose(1, 0, perm=[1, 0]), TypeError, "given twice"),
    "no axis to sum": (lambda: tensor(2, 3).sum(()), ValueError, "names no axis"),
    "clip": (lambda: tensor(2).clamp(2.0, math.nan), ValueError, "^clamp .*lo is not below hi"),
    "linear with a tensor": (lambda: tensor(2, 3).linear(tensor(4, 3)), TypeError, "linear takes constant .*use x @ W"),
    "cast": (lambda: tensor(2).cast("float"), ValueError, "^cast .*'float'"),
    # inputs
    "shape 5": (lambda: af.input(5), TypeError, "^input .*shape is not a list of integers .seen 5"),  # pyright: ignore[reportArgumentType] - misuse
    "shape nan": (lambda: af.input((math.nan,)), TypeError, r"shape\[0\] is not an integer .seen nan"),  # pyright: ignore[reportArgumentType] - misuse
    "state of text": (lambda: af.state("s", "ab"), TypeError, "^state .*shape is not a list"),  # pyright: ignore[reportArgumentType] - misuse
    "nameless state": (lambda: af.state("", (1,)), ValueError, "^state .*name is empty"),
    "promise": (
        lambda: af.input((1,), max_abs=math.inf),
        ValueError,
        "max_abs must be 0 or more, and finite .seen inf",
    ),
    "promise of text": (lambda: af.input((1,), max_abs="3"), TypeError, "max_abs is not a number .seen '3'"),  # pyright: ignore[reportArgumentType] - misuse
    "image scale": (lambda: af.image_input((1, 3, 2, 2), scale=[1.0, 1.0]), ValueError, "one number per channel"),
    "image bias": (
        lambda: af.image_input((1, 3, 2, 2), bias=math.nan),
        ValueError,
        "^image_input .*bias is not finite",
    ),
    "image shape": (lambda: af.image_input((1, 0)), ValueError, r"^image_input \(input\) .*empty axis"),
    # attention
    "heads": (
        lambda: af.mha(tensor(5, 4), *[floats(4, 4), floats(4)] * 4, n_heads=3),
        ValueError,
        r"^mha \(heads\) .*not divisible by the heads",
    ),
    "three axes": (
        lambda: af.mha(tensor(1, 5, 4), *[floats(4, 4), floats(4)] * 4, n_heads=2),
        ValueError,
        r"^mha .*x is not a sequence \[S, D\]",
    ),
    "wrong weight": (
        lambda: af.mha(tensor(5, 4), *[floats(4, 3), floats(4)] * 4, n_heads=2),
        ValueError,
        r"^mha \(linear\)",
    ),
    "mask": (
        lambda: af.mha(tensor(5, 4), *[floats(4, 4), floats(4)] * 4, n_heads=2, mask=floats(4, 4)),
        ValueError,
        r"^mha .*mask does not broadcast to the scores \(seen \[4, 4\], limit \[5, 5\], or",
    ),
    "mask of bool": (
        lambda: attended(1, truths()),
        TypeError,
        r"where\(mask, 0.0, -65504.0\)",
    ),
    "array mask of the wrong shape": (
        lambda: attended(600, floats(600, 600)),
        ValueError,
        r"^sdpa .*wrong shape \(seen \[600, 600\], limit \[1, 1, 600, 600\]",
    ),
    "endless sequence": (
        lambda: af.mha(tensor(10**9, 4), *[floats(4, 4), floats(4)] * 4, n_heads=2),
        ValueError,
        r"^mha \(sdpa\) .*too long",
    ),
    "einsum number": (lambda: af.einsum(5, tensor(2)), TypeError, "the equation is not a text"),  # pyright: ignore[reportArgumentType] - misuse
    "special of integers": (lambda: special.sin(tensor(2).cast("int32")), ValueError, "^special.sin"),
}


@pytest.mark.parametrize("name", CASES)
def test_misuse(name: str) -> None:
    call, sort, message = CASES[name]
    error = one_error(call)
    assert isinstance(error, sort)
    with pytest.raises(GraphError, match=message):
        raise error


def test_a_long_value_is_shown_short() -> None:
    assert len(str(one_error(lambda: tensor(2) + Word("a")))) < 300
    assert "16610 bits" in str(one_error(lambda: tensor(2).reshape(10**5000)))


def test_a_wrong_sort_is_a_type_error() -> None:
    assert isinstance(one_error(lambda: tensor(2).softmax(1.0)), GraphTypeError)  # pyright: ignore[reportArgumentType] - misuse


# What looks like misuse and is right

RIGHT_CALLS: dict[str, tuple[Callable[[], Tensor], tuple[int, ...]]] = {
    "times a NumPy number": (lambda: tensor(2) * untyped(np.int64(2)), (2,)),
    "over a NumPy number": (lambda: tensor(2) / untyped(np.int64(2)), (2,)),
    "to a NumPy power": (lambda: tensor(2) ** untyped(np.int64(2)), (2,)),
    "maximum with a number": (lambda: af.maximum(tensor(2), 3), (2,)),
    "reshape by an array": (lambda: tensor(1, 4).reshape(untyped(np.array([2, 2]))), (2, 2)),
    "transpose by an array": (lambda: tensor(1, 4).transpose(untyped(np.array([1, 0]))), (4, 1)),
    "transpose by name": (lambda: tensor(1, 4).transpose(perm=[1, 0]), (4, 1)),
    "sum along a NumPy number": (lambda: tensor(1, 4).sum(untyped(np.int64(1))), (1, 1)),
    "squeeze a NumPy number": (lambda: tensor(1, 4).squeeze(untyped(np.int64(0))), (4,)),
    "gather by an array": (
        lambda: af.gather(tensor(1, 4), untyped(np.array([0, -1])), axis=untyped(np.int64(1))),
        (1, 2),
    ),
    "pad by a NumPy number": (
        lambda: af.conv(image_tensor(), floats(2, 4, 3, 3), pad=untyped(np.int64(1))),
        (1, 2, 8, 8),
    ),
    "shape by an array": (lambda: af.input(untyped(np.array([1, 4]))), (1, 4)),
    "shape of NumPy numbers": (lambda: af.input((untyped(np.int32(1)), untyped(np.uint8(4)))), (1, 4)),
    "a NumPy promise": (lambda: af.input((1,), max_abs=untyped(np.float32(3.0))), (1,)),
    "scale by a NumPy number": (lambda: af.image_input((1, 3, 2, 2), scale=untyped(np.float32(0.5))), (1, 3, 2, 2)),
    "scale by integers": (lambda: af.image_input((1, 3, 2, 2), scale=[1, 2, 3]), (1, 3, 2, 2)),
    "linear by name": (lambda: tensor(2, 3).linear(W=floats(4, 3), bias=floats(4)), (2, 4)),
    "stack by name": (lambda: tensor(2, 3, 4).bmm_weight(W=floats(2, 4, 5)), (2, 3, 5)),
    "crop by name": (lambda: af.crop(image_tensor(), t=1, b=0, l=2, r=0), (1, 4, 7, 6)),
    "longest cumsum": (lambda: tensor(1, 5792).cumsum(), (1, 5792)),
    "trained gamma with axes": (lambda: tensor(2, 4).rms_norm(tensor(1, 4)), (2, 4)),
    "clip above": (lambda: tensor(2).clip(-math.inf, 1.0), (2,)),
    "cast": (lambda: cast(af.input((2,), dtype="uint8"), "fp16"), (2,)),
}


@pytest.mark.parametrize("name", RIGHT_CALLS)
def test_numpy_values_and_documented_names(name: str) -> None:
    call, shape = RIGHT_CALLS[name]
    assert call().shape == shape


@pytest.mark.parametrize("length", [5, 900])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (-1, 1), (-1, -1), (2, -1, -1), (1, 1, -1, -1)])
def test_a_mask_is_an_array_or_a_tensor_for_short_and_long_sequences(length: int, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(5)
    drawn = [generator.standard_normal(part).astype(np.float16) for part in [(4, 4), (4,)] * 4]
    mask = generator.standard_normal([length if extent == -1 else extent for extent in shape]).astype(np.float16)
    values = generator.standard_normal((length, 4))
    constant = af.reference(af.mha(af.input((length, 4)), *drawn, n_heads=2, mask=mask), [values])["y"]
    fed = af.reference(af.mha(af.input((length, 4)), *drawn, n_heads=2, mask=tensor(*mask.shape)), [values, mask])["y"]
    np.testing.assert_allclose(constant, fed)


@pytest.mark.parametrize("length", [5, 600])
def test_attention_takes_an_array_as_mask(length: int) -> None:
    generator = np.random.default_rng(6)
    mask = generator.standard_normal((1, 1, length, length)).astype(np.float16)
    values = [generator.standard_normal((1, 2, length, 4)) for _ in range(3)]
    constant = af.reference(attended(length, mask), values)["y"]
    fed = af.reference(
        attended(length, tensor(*mask.shape)),
        {f"x{place + 1}": value for place, value in enumerate(values)} | {"x0": mask},
    )["y"]
    np.testing.assert_allclose(constant, fed)


def test_cast_changes_the_element_type() -> None:
    x = af.input((3,)).cast("int32")
    assert (x.op, x.dtype) == ("cast", "int32")
    assert af.reference(x, [np.array([1.75, -1.75, 0.0])])["y"].tolist() == [1, -1, 0]


# The documentation


@pytest.mark.parametrize(
    "function",
    [
        *(call.function for name, call in FUNCTIONS.items() if name != "einsum"),
        af.einsum,
        *(getattr(special, name) for name in special.__all__),
        *(function for name, function in inspect.getmembers(Tensor, inspect.isfunction) if not name.startswith("_")),
    ],
    ids=lambda function: getattr(function, "__qualname__", "function"),
)
def test_every_function_has_an_example(function: Callable[..., object]) -> None:
    assert ">>>" in (function.__doc__ or "")
