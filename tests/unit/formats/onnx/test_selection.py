"""Results as long as the data makes them, of data that is known: onnxruntime's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.shared.findings import InvalidModelError, UnsupportedModelError
from unit.formats.onnx.onnx_models import dtype_name, made, node, numbers, one_node, results
from unit.formats.onnx.runtime_results import of_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from aneforge.ops.types import Array

BOXES, SCORES = np.abs(numbers(1, 3, 4)), np.abs(numbers(1, 1, 3))


def expect_as_runtime(
    operator: str, constants: Mapping[str, Array], attributes: Mapping[str, object], outputs: int = 1
) -> None:
    """Check that an operator on constants gives what the runtime gives when they are fed."""
    fed = one_node(operator, constants, None, attributes, outputs=outputs)
    fed.opset_import[0].version = 18
    stored = one_node(operator, {}, constants, attributes, outputs=outputs)
    found = results(stored, {})
    for name, wanted in zip(found, of_runtime(fed, constants), strict=True):
        assert found[name].shape == wanted.shape
        assert found[name].dtype == wanted.dtype
        assert np.array_equal(found[name], wanted)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_different_elements_are_those_of_the_runtime(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int64", "int8"]))
    size = int(np.prod(shape))
    listed = data.draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size))
    attributes: dict[str, object] = {"sorted": data.draw(st.integers(0, 1))}
    if data.draw(st.booleans()):
        attributes["axis"] = data.draw(st.integers(-len(shape), len(shape) - 1))
    expect_as_runtime("Unique", {"a": np.array(listed, dtype).reshape(shape)}, attributes, 4)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_boxes_that_are_left_are_those_of_the_runtime(data: st.DataObject) -> None:
    batch, classes, count = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 9)))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    constants: dict[str, Array] = {
        "a": (generator.integers(-8, 8, (batch, count, 4)) / 4).astype(np.float32),
        "b": (generator.integers(0, 6, (batch, classes, count)) / 6).astype(np.float32),
        "c": np.array([data.draw(st.integers(0, 5))]),
        "d": np.array([data.draw(st.sampled_from([0, 0.25, 0.5, 1]))], np.float32),
    }
    if data.draw(st.booleans()):
        constants["e"] = np.array([0.5], np.float32)
    expect_as_runtime("NonMaxSuppression", constants, {"center_point_box": data.draw(st.integers(0, 1))})


def test_places_that_are_found_so_are_read() -> None:
    nodes = [node("Unique", ["c"], ["u"]), node("Gather", ["x", "u"], ["y"])]
    model = made(nodes, {"x": ("fp32", [3])}, weights={"c": np.array([2, 1, 1, 2])})
    assert np.array_equal(results(model, {"x": np.array([5, 6, 7], np.float32)})["y"], [6, 7])


def test_without_a_number_of_boxes_none_is_left() -> None:
    assert from_onnx(one_node("NonMaxSuppression", {}, {"a": BOXES, "b": SCORES})).outputs["y"].shape == (0, 3)


TOO_MUCH: dict[str, tuple[onnx.ModelProto, str]] = {
    "boxes": (
        one_node(
            "NonMaxSuppression",
            {},
            {
                "a": np.zeros((1, 20_000, 4), np.float32),
                "b": np.zeros((1, 1, 20_000), np.float32),
                "c": np.array(20_000),
            },
        ),
        "20000 times 20000 boxes are compared",
    ),
    "elements": (one_node("Unique", {}, {"a": np.zeros(2**22, np.int8)}), "its results take up to 104857600 bytes"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_for_an_import_is_told(name: str) -> None:
    model, message = TOO_MUCH[name]
    with pytest.raises(UnsupportedModelError, match=message):
        from_onnx(model)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"a": BOXES, "b": SCORES[0]}, r"boxes and scores are not \[N, B, 4\] and \[N, C, B\]"),
        ({"a": BOXES[:, :2], "b": SCORES}, "boxes and scores are not"),
        ({"a": BOXES, "b": SCORES, "c": np.array(1), "d": np.array(1.5, np.float32)}, "left out is out of range"),
    ],
)
def test_boxes_that_make_no_sense_are_told(constants: Mapping[str, Array], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        from_onnx(one_node("NonMaxSuppression", {}, constants))


@pytest.mark.parametrize("operator", ["Unique", "NonMaxSuppression"])
def test_data_that_is_computed_is_told(operator: str) -> None:
    feeds: dict[str, Array] = {"a": BOXES} if operator == "Unique" else {"a": BOXES, "b": SCORES}
    assert {dtype_name(one) for one in feeds.values()} == {"fp32"}
    with pytest.raises(UnsupportedModelError, match="depends on"):
        from_onnx(one_node(operator, feeds))
