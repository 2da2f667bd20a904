"""Operators of the classical machine-learning set: features prepared, labels looked up, linear models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.onnx.registry import operator
from aneforge.importers.onnx.values import Foreign
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.importers.emitter import Emitter
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Value
    from aneforge.ops.constant import Constant

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""What may be done to scores; the newer operators name them by their places in this list."""


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def extract(call: Call) -> Value:
    """Convert elements of the last axis by their places."""
    x, emit = call.value(0), call.emit
    rows = emit.expand(x, 0) if x.type.rank == 1 else x
    places = emit.reshape(call.value(1), (call.value(1).type.size,))
    return emit.apply("gather", {"x": rows, "indices": places}, axis=rows.type.rank - 1)


@operator("Binarizer", domain=DOMAIN)
def binarize(call: Call) -> Value:
    """Convert 1 above a threshold and 0 elsewhere."""
    x, emit = call.value(0), call.emit
    wide = x if is_float(x.type.dtype) else emit.cast(x, "fp64")
    return emit.cast(emit.binary("greater", wide, call.number("threshold")), x.type.dtype)


@operator("FeatureVectorizer", domain=DOMAIN)
def vectorize(call: Call) -> Value:
    """Convert features one after another, as real numbers."""
    emit = call.emit
    rows = [emit.expand(one, 0) if one.type.rank == 1 else one for one in call.values()]
    return emit.concat([emit.cast(one, "fp32") for one in rows], 1)


@operator("Scaler", domain=DOMAIN)
def scale(call: Call) -> Value:
    """Convert (x − offset) · scale, one of each or one for each feature."""
    x, emit = emit_float(call), call.emit
    offset, factor = (emit.constant(list(call.attribute(name).floats), "fp32") for name in ("offset", "scale"))
    return emit.mul(emit.sub(x, offset), factor)


def emit_float(call: Call) -> Value:
    """Return the first input as real numbers of 32 bits, which most results of this set are.

    Raises:
        GraphError: It has no axis of features.
    """
    if call.value(0).type.rank == 0:
        raise GraphError("a single number has no features", remedy="give it as a list of one feature")
    return call.emit.cast(call.value(0), "fp32")


@operator("Normalizer", domain=DOMAIN)
def normalize(call: Call) -> Value:
    """Convert rows divided by their largest, their sum or their length; by 0 they stay as they are."""
    x, emit = emit_float(call), call.emit
    axis = (x.type.rank - 1,)
    ops = {"MAX": "reduce_max", "L1": "reduce_l1_norm", "L2": "reduce_l2_norm"}
    divisor = emit.reduce(ops[call.choice("norm", *ops)], x, axis)
    return emit.div(x, emit.select(emit.binary("equal", divisor, 0.0), emit.number(1, x), divisor))


@operator("Imputer", domain=DOMAIN)
def impute(call: Call) -> Value:
    """Convert one value replaced by another, one for all or one for each feature.

    Raises:
        GraphError: There is none.
    """
    x, emit = call.value(0), call.emit
    if is_float(x.type.dtype):
        values, old = list(call.attribute("imputed_value_floats").floats), call.number("replaced_value_float")
    else:
        values, old = list(call.attribute("imputed_value_int64s").ints), call.integer("replaced_value_int64")
    if not values:
        raise GraphError("it has nothing to put in the place of missing values")
    missing = emit.binary("not_equal", x, x) if math.isnan(old) else emit.binary("equal", x, old)
    return emit.select(missing, emit.constant(values if len(values) > 1 else values[0], x.type.dtype), x)


@operator("OneHotEncoder", domain=DOMAIN)
def one_hot(call: Call) -> Value:
    """Convert categories that are whole numbers made vectors with a single 1."""
    if not call.has("cats_int64s"):
        raise UnsupportedNodeError(Reason.STRING, "its categories are text")
    if not call.flag("zeros"):
        raise UnsupportedNodeError(
            Reason.FORM, "it fails on unknown categories, which no graph can", workaround="set zeros to 1"
        )
    emit = call.emit
    known = emit.constant(np.array(call.attribute("cats_int64s").ints, np.int64), "int64")
    found = emit.binary("equal", emit.expand(emit.cast(call.value(0), "int64"), -1), known)
    return emit.cast(found, "fp32")


@operator("LinearRegressor", domain=DOMAIN)
def linear_regression(call: Call) -> Value:
    """Convert a linear model."""
    x, emit, targets = emit_float(call), call.emit, call.integer("targets")
    weights = np.array(call.attribute("coefficients").floats, np.float32)
    if targets < 1 or weights.size != targets * x.type.shape[-1]:
        raise GraphError("the coefficients do not fit the features", seen=weights.size, limit=x.type.shape[-1])
    rows = emit.expand(x, 0) if x.type.rank == 1 else x
    result = emit.matmul(rows, emit.constant(weights.reshape(targets, -1), "fp32"), transpose_y=True)
    if call.has("intercepts"):
        result = emit.add(result, emit.constant(list(call.attribute("intercepts").floats), "fp32"))
    return transformed(emit, result, call.choice("post_transform", *TRANSFORMS))


def transformed(emit: Emitter, scores: Value, name: str) -> Value:
    """Return scores after a transform.

    Raises:
        UnsupportedNodeError: The transform has no form here.
    """
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return emit.unary("sigmoid", scores)
        case "SOFTMAX":
            return emit.unary("softmax", scores, axis=-1)
        case "SOFTMAX_ZERO":
            powers = emit.unary("softmax", scores, axis=-1)
            return emit.select(emit.binary("equal", scores, 0.0), emit.number(0, scores), powers)
        case _:
            raise UnsupportedNodeError(Reason.FORM, f"the transform {name} of scores", workaround="export raw scores")


@operator("LabelEncoder", domain=DOMAIN, since=2, takes_all=True)
def encode_labels(call: Call) -> Value:
    """Convert numbers looked up in a table of keys; what is not among them becomes the default."""
    held = call.held(0)
    texts = ("keys_strings", "values_strings")
    if isinstance(held, Foreign) or any(call.has(name) for name in texts):
        raise UnsupportedNodeError(Reason.STRING, "it maps from or to text")
    x, emit = call.value(0), call.emit
    keys, values = column(call, "keys"), column(call, "values")
    if keys.type.rank != 1 or keys.type.shape != values.type.shape or not keys.type.size:
        raise GraphError("there is not one value for each key", seen=f"{keys.type} and {values.type}")
    wide = emit.expand(x, -1)
    table = emit.cast(keys, x.type.dtype)
    same = emit.binary("equal", wide, table)
    if is_float(x.type.dtype):  # a key that is no number stands for all that are none
        none = emit.binary("logical_and", emit.binary("not_equal", wide, wide), emit.binary("not_equal", table, table))
        same = emit.binary("logical_or", same, none)
    counts = emit.cast(same, "int32")
    place = emit.apply("reduce_argmax", {"x": counts}, axis=-1)
    found = emit.apply("gather", {"x": values, "indices": place}, axis=0)
    known = emit.cast(emit.reduce("reduce_max", counts, (-1,), keep=False), "bool")
    return emit.select(known, found, default_label(call, values))


def column(call: Call, side: str) -> Constant:
    """Return the keys or the values of a table.

    Raises:
        GraphError: They are not given, or are no tensor of numbers.
    """
    for kind, dtype in (("int64s", "int64"), ("floats", "fp32")):
        name = f"{side}_{kind}"
        if call.has(name):
            attribute = call.attribute(name)
            return call.emit.constant(list(attribute.ints if dtype == "int64" else attribute.floats), dtype)
    if f"{side}_tensor" not in call.attributes:
        raise GraphError(f"there are no {side}")
    found = call.surroundings.constant(call.attribute(f"{side}_tensor").t)
    if isinstance(found, Foreign):
        raise UnsupportedNodeError(found.reason, f"its {side} are {found.what}")
    return found


def default_label(call: Call, values: Constant) -> Value:
    """Return what a number that is no key becomes."""
    emit, dtype = call.emit, values.type.dtype
    if call.has("default_tensor"):
        found = call.surroundings.constant(call.attribute("default_tensor").t)
        if isinstance(found, Foreign) or found.type.size != 1:
            raise GraphError("the default is not one number")
        return emit.cast(emit.reshape(found, ()), dtype)
    if is_float(dtype):
        return emit.constant(call.number("default_float"), dtype)
    return emit.constant(call.integer("default_int64"), dtype)
