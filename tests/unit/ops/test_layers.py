"""The compiler's own layers: their errors, and cases worked out by hand."""

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups.layers import BROADCAST, DYNAMIC_GOC, PE_ELEMENTWISE, PE_GOC, SCALED_ELEMENTWISE
from aneforge.ops.types import TensorType


@pytest.mark.parametrize(
    ("mode", "expected"), [("add", [5, 3]), ("sub", [1, -7]), ("mul", [6, -10]), ("max", [3, 5]), ("min", [2, -2])]
)
def test_the_modes_of_an_elementwise_layer(mode: str, expected: list[int]) -> None:
    operands = {"x": np.array([3, -2], np.int32), "y": np.array([2, 5], np.int32)}
    assert PE_ELEMENTWISE.evaluate(operands, PE_ELEMENTWISE.complete({"mode": mode}))[0].tolist() == expected


def test_an_unknown_mode() -> None:
    with pytest.raises(GraphError, match="'mode' is not one of its choices"):
        PE_ELEMENTWISE.complete({"mode": "mult"})
    with pytest.raises(GraphError, match="'mode' is not one of its choices"):
        SCALED_ELEMENTWISE.complete({"mode": "sub"})


@pytest.mark.parametrize(("mode", "expected"), [("add", 10.0), ("mult", 6.0), ("max", 6.0), ("min", 4.0)])
def test_the_scale_applies_to_all_but_a_product(mode: str, expected: float) -> None:
    operands = {"x": np.array([3.0]), "y": np.array([2.0])}
    attributes = SCALED_ELEMENTWISE.complete({"mode": mode, "scale": 2})
    assert SCALED_ELEMENTWISE.evaluate(operands, attributes)[0].item() == expected


def test_gain_and_offset_are_per_channel() -> None:
    operands = {"x": np.ones((1, 2, 1, 2)), "gain": np.array([2.0, 3.0]), "offset": np.array([0.0, -1.0])}
    assert PE_GOC.evaluate(operands, {})[0].tolist() == [[[[2, 2]], [[2, 2]]]]


def test_an_offset_may_stand_alone_where_it_is_dynamic() -> None:
    operands = {"x": np.ones((1, 2)), "gain": None, "offset": np.array([0.0, -1.0])}
    assert DYNAMIC_GOC.evaluate(operands, {})[0].tolist() == [[1, 0]]


X = TensorType((1, 2, 4))
CHANNELS = TensorType((2,))


@pytest.mark.parametrize(
    ("x", "gain", "offset", "text"),
    [
        (TensorType((2,)), CHANNELS, CHANNELS, r"too few axes \(got 1, limit 2 or more: channels on axis 1\)"),
        (
            X,
            TensorType((4,)),
            CHANNELS,
            r"gain must hold one .* channel of x \(got \[4\], expected \[2\]\)",
        ),
        (X, CHANNELS, TensorType((1, 2, 1)), "offset must hold one number for each channel of x"),
        (X, CHANNELS.with_dtype("fp32"), CHANNELS, "different element types"),
        (X, None, None, "neither gain nor offset"),
    ],
)
def test_gains_that_do_not_fit(x: TensorType, gain: TensorType | None, offset: TensorType | None, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        DYNAMIC_GOC.types({"x": x, "gain": gain, "offset": offset}, {})


def test_a_tensor_is_repeated_to_a_shape() -> None:
    (result,) = BROADCAST.evaluate({"x": np.array([[1], [2]])}, BROADCAST.complete({"shape": [2, 2, 3]}))
    assert result.tolist() == [[[1, 1, 1], [2, 2, 2]]] * 2


@pytest.mark.parametrize(("shape", "text"), [([3, 4], "do not broadcast"), ([1], "does not broadcast to the shape")])
def test_a_shape_that_the_tensor_does_not_broadcast_to(shape: list[int], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        BROADCAST.types({"x": TensorType((2, 4))}, BROADCAST.complete({"shape": shape}))
