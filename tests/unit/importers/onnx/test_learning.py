"""Operators of the classical machine-learning set, against onnx's own evaluator and by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from aneforge.importers.findings import InvalidModelError, Reason, UnsupportedModelError
from aneforge.importers.onnx.model import from_onnx
from unit.importers.onnx.onnx_models import numbers, one_node, results

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx

    from aneforge.ops.types import Array

DOMAIN = "ai.onnx.ml"


def learned(operator: str, x: Array, attributes: dict[str, object]) -> onnx.ModelProto:
    return one_node(operator, {"a": x}, None, attributes, domain=DOMAIN)


def test_features_are_scaled() -> None:
    x = numbers(2, 3)
    found = results(learned("Scaler", x, {"offset": [1.0, 2.0, 3.0], "scale": [2.0, 0.5, 1.0]}), {"a": x})["y"]
    np.testing.assert_allclose(found, (x - [1, 2, 3]) * [2, 0.5, 1], rtol=1e-6)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_are_normalised_and_rows_of_zeros_stay(norm: str) -> None:
    x = np.array([[3, 4, 0], [0, 0, 0]], np.float32)
    divisor = {"MAX": 4, "L1": 7, "L2": 5}[norm]
    found = results(learned("Normalizer", x, {"norm": norm}), {"a": x})["y"]
    np.testing.assert_allclose(found, [[3 / divisor, 4 / divisor, 0], [0, 0, 0]], rtol=1e-6)


def test_missing_numbers_are_replaced() -> None:
    x = np.array([[1, np.nan], [np.nan, 4]], np.float32)
    attributes: dict[str, object] = {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": float("nan")}
    assert results(learned("Imputer", x, attributes), {"a": x})["y"].tolist() == [[1, 8], [7, 4]]
    whole = np.array([[1, -1]], np.int64)
    attributes = {"imputed_value_int64s": [5], "replaced_value_int64": -1}
    assert results(learned("Imputer", whole, attributes), {"a": whole})["y"].tolist() == [[1, 5]]


def test_categories_become_vectors() -> None:
    x = np.array([3, 1, 9], np.int64)
    found = results(learned("OneHotEncoder", x, {"cats_int64s": [1, 3]}), {"a": x})["y"]
    assert found.tolist() == [[0, 1], [1, 0], [0, 0]]
    with pytest.raises(UnsupportedModelError, match="fails on unknown categories"):
        from_onnx(learned("OneHotEncoder", x, {"cats_int64s": [1, 3], "zeros": 0}))


def test_features_are_joined() -> None:
    x = np.array([1, 2], np.int64)
    model = one_node("FeatureVectorizer", {"a": x, "b": x}, None, {"inputdimensions": [2, 2]}, domain=DOMAIN)
    assert results(model, {"a": x, "b": x})["y"].tolist() == [[1, 2, 1, 2]]


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_a_linear_model(transform: str) -> None:
    x = numbers(4, 3)
    attributes: dict[str, object] = {
        "coefficients": [0.5, -1.0, 2.0, 1.0, 0.0, -0.5],
        "intercepts": [0.25, -0.75],
        "targets": 2,
        "post_transform": transform,
    }
    raw = x.astype(np.float64) @ np.array([[0.5, -1, 2], [1, 0, -0.5]]).T + [0.25, -0.75]
    powers = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    wanted = raw if transform == "NONE" else 1 / (1 + np.exp(-raw)) if transform == "LOGISTIC" else powers
    np.testing.assert_allclose(results(learned("LinearRegressor", x, attributes), {"a": x})["y"], wanted, rtol=1e-5)


def test_a_transform_without_a_form_is_told() -> None:
    attributes: dict[str, object] = {"coefficients": [1.0, 1.0], "post_transform": "PROBIT"}
    with pytest.raises(UnsupportedModelError, match="the transform PROBIT"):
        from_onnx(learned("LinearRegressor", numbers(1, 2), attributes))


def test_labels_are_looked_up() -> None:
    x = np.array([1.0, np.nan, 5.0, 2.0], np.float32)
    attributes: dict[str, object] = {
        "keys_floats": [1.0, float("nan"), 2.0],
        "values_int64s": [10, 20, 30],
        "default_int64": -7,
    }
    assert results(learned("LabelEncoder", x, attributes), {"a": x})["y"].tolist() == [10, 20, -7, 30]
    whole = np.array([4, 5], np.int64)
    attributes = {
        "keys_tensor": helper.make_tensor("k", TensorProto.INT64, [2], [5, 6]),
        "values_tensor": helper.make_tensor("v", TensorProto.DOUBLE, [2], [0.5, 0.25]),
        "default_tensor": helper.make_tensor("d", TensorProto.DOUBLE, [1], [9.0]),
    }
    assert results(learned("LabelEncoder", whole, attributes), {"a": whole})["y"].tolist() == [9.0, 0.5]


def test_labels_that_are_text_are_told() -> None:
    attributes: dict[str, object] = {"keys_int64s": [1], "values_strings": ["one"]}
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(learned("LabelEncoder", np.array([1]), attributes))
    assert caught.value.findings[0].reason is Reason.STRING


# Trees: the first of depth two, the second a single decision.

NODES: dict[str, object] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_values": [0.5, 1.0, 0.0, 0.0, 0.0, -0.25, 0.0, 0.0],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
    "target_treeids": [0, 0, 0, 0, 1, 1],
    "target_nodeids": [2, 3, 4, 4, 1, 2],
    "target_ids": [0, 0, 1, 0, 1, 0],
    "target_weights": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "n_targets": 2,
}


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
@pytest.mark.parametrize("base", [True, False])
def test_trees_of_nodes_are_onnxs(aggregate: str, *, base: bool) -> None:
    x = numbers(20, 3)
    attributes = {**NODES, "aggregate_function": aggregate} | ({"base_values": [10.0, 20.0]} if base else {})
    model = one_node("TreeEnsembleRegressor", {"a": x}, None, attributes, domain=DOMAIN)
    model.opset_import[1].version = 3
    run = cast("Callable[[None, dict[str, Array]], list[Array]]", ReferenceEvaluator(model).run)  # pyright: ignore[reportUnknownMemberType] - its stub leaves the types open
    np.testing.assert_allclose(results(model, {"a": x})["y"], run(None, {"a": x})[0], rtol=1e-6)


def tree(x: Array) -> list[tuple[int, float]]:
    """Return the votes that a row gets, by hand."""
    first = (0, 1.0) if x[0] > 0.5 else ((0, 2.0) if x[1] > 1.0 else (1, 3.0))
    extra = [(0, 4.0)] if x[0] <= 0.5 and x[1] <= 1.0 else []
    return [first, *extra, (1, 5.0) if x[2] < -0.25 else (0, 6.0)]


@pytest.mark.parametrize("aggregate", ["MIN", "MAX"])
def test_the_extreme_vote_of_trees(aggregate: str) -> None:
    x = numbers(20, 3)
    model = one_node("TreeEnsembleRegressor", {"a": x}, None, {**NODES, "aggregate_function": aggregate}, domain=DOMAIN)
    model.opset_import[1].version = 3
    choose = min if aggregate == "MIN" else max
    wanted = [
        [choose([weight for target, weight in tree(row) if target == one], default=0.0) for one in (0, 1)] for row in x
    ]
    assert results(model, {"a": x})["y"].tolist() == wanted


def test_a_missing_feature_goes_the_way_that_its_node_says() -> None:
    attributes = {**NODES, "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0]}
    x = np.array([[np.nan, 2.0, 0.0]], np.float32)
    model = one_node("TreeEnsembleRegressor", {"a": x}, None, attributes, domain=DOMAIN)
    model.opset_import[1].version = 3
    assert results(model, {"a": x})["y"].tolist() == [[8.0, 0.0]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"nodes_truenodeids": [1, 1, 0, 0, 0, 1, 0, 0]}, "reached twice"),
        ({"nodes_truenodeids": [9, 3, 0, 0, 0, 1, 0, 0]}, "child is not there"),
        ({"nodes_featureids": [7, 1, 0, 0, 0, 2, 0, 0]}, "feature that is not there"),
        ({"target_ids": [0, 0, 9, 0, 1, 0]}, "votes for no target"),
        ({"target_nodeids": [9, 3, 4, 4, 1, 2]}, "a node that is not there"),
        ({"nodes_values": [0.5]}, "another length than the nodes"),
        ({"nodes_modes": ["BRANCH_ODD"] * 8}, "do not go together"),
    ],
)
def test_damaged_trees_are_told(changed: dict[str, object], message: str) -> None:
    model = one_node("TreeEnsembleRegressor", {"a": numbers(2, 3)}, None, {**NODES, **changed}, domain=DOMAIN)
    model.opset_import[1].version = 3
    with pytest.raises(InvalidModelError, match=message):
        from_onnx(model)
