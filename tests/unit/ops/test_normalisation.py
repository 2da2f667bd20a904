"""Normalisations: what is refused and how, where epsilon stands, windows, and values known by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.table import find_op
from aneforge.ops.types import Array, TensorType
from op_calls import value_of

C3 = TensorType((3,))
IMAGE = TensorType((2, 3, 4, 5))


def evaluated(name: str, operands: dict[str, Array], **attributes: object) -> Array:
    op = find_op(name)
    (result,) = op.evaluate(operands, op.complete(attributes))
    return result


def inferred(name: str, operands: dict[str, TensorType], **attributes: object) -> TensorType:
    op = find_op(name)
    (result,) = op.types(operands, op.complete(attributes))
    return result


EVERY: dict[str, tuple[dict[str, TensorType], dict[str, object]]] = {
    "batch_norm": ({"x": IMAGE, "mean": C3, "variance": C3, "gamma": C3, "beta": C3}, {}),
    "layer_norm": ({"x": IMAGE, "gamma": C3, "beta": C3}, {"axes": (1,)}),
    "instance_norm": ({"x": IMAGE, "gamma": C3, "beta": C3}, {}),
    "channel_layer_norm": ({"x": TensorType((2, 3, 1, 5)), "gamma": C3, "beta": C3}, {}),
    "group_norm": ({"x": IMAGE, "gamma": C3, "beta": C3}, {"num_groups": 3}),
    "l2_norm": ({"x": IMAGE}, {}),
    "rms_norm": ({"x": TensorType((4, 3)), "gamma": C3}, {}),
    "local_response_norm": ({"x": IMAGE}, {}),
    "lrn": ({"x": TensorType((3, 4, 5))}, {}),
    "minmax_norm": ({"x": TensorType((3, 4, 5))}, {"dimension": "width"}),
}
PARAMETERS = [(name, parameter) for name, (operands, _) in EVERY.items() for parameter in operands if parameter != "x"]


@pytest.mark.parametrize("name", EVERY)
def test_the_result_has_the_type_of_x(name: str) -> None:
    operands, attributes = EVERY[name]
    single = operands["x"].with_dtype("fp32")
    assert inferred(name, operands, **attributes) == operands["x"]
    assert inferred(name, {**operands, "x": single}, **attributes) == single


@pytest.mark.parametrize("name", EVERY)
def test_whole_numbers_are_refused(name: str) -> None:
    operands, attributes = EVERY[name]
    with pytest.raises(GraphError, match=rf"{name}: x must hold floating-point numbers \(got int8\)"):
        inferred(name, {**operands, "x": operands["x"].with_dtype("int8")}, **attributes)


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_parameter_has_one_shape_and_a_floating_type(name: str, parameter: str) -> None:
    operands, attributes = EVERY[name]
    with pytest.raises(GraphError, match=rf"{parameter} does not have the shape of .* \(got \[2\], expected \[3\]\)"):
        inferred(name, {**operands, parameter: TensorType((2,))}, **attributes)
    with pytest.raises(GraphError, match=rf"{parameter} must hold floating-point numbers"):
        inferred(name, {**operands, parameter: TensorType((3,), "int32")}, **attributes)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in {"local_response_norm", "lrn"}])
def test_epsilon_is_not_negative(name: str) -> None:
    with pytest.raises(GraphError, match=r"'epsilon' is too small \(got -1.0, expected at least 0\)"):
        find_op(name).complete({**EVERY[name][1], "epsilon": -1.0})


@pytest.mark.parametrize("name", ["batch_norm", "local_response_norm"])
def test_channels_need_places(name: str) -> None:
    operands, attributes = EVERY[name]
    with pytest.raises(GraphError, match=r"\[2, 3\] has too few axes \(got 2, limit 3 or more\).*expand_dims"):
        inferred(name, {**operands, "x": TensorType((2, 3))}, **attributes)


@pytest.mark.parametrize(
    ("name", "limit"), [("instance_norm", "3 or 4"), ("group_norm", "4"), ("lrn", "3"), ("minmax_norm", "3")]
)
def test_the_rank_is_stated(name: str, limit: str) -> None:
    operands, attributes = EVERY[name]
    with pytest.raises(GraphError, match=rf"wrong rank \(got 5, limit {limit}\)"):
        inferred(name, {**operands, "x": TensorType((1, 3, 2, 2, 2))}, **attributes)


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5)])
def test_channel_layer_norm_wants_a_sequence(shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphError, match=r"channels of a sequence .*expected \[N, C, 1, S\].*use layer_norm"):
        inferred("channel_layer_norm", {"x": TensorType(shape), "gamma": C3, "beta": C3})


def test_groups_divide_the_channels() -> None:
    with pytest.raises(
        GraphError, match=r"channels by num_groups is not divisible \(got 3, expected a multiple of 2\)"
    ):
        inferred("group_norm", {"x": IMAGE, "gamma": C3, "beta": C3}, num_groups=2)
    with pytest.raises(GraphError, match="'num_groups' is too small"):
        find_op("group_norm").complete({"num_groups": 0})


def test_a_window_holds_a_channel_at_least() -> None:
    with pytest.raises(GraphError, match="'size' is too small"):
        find_op("local_response_norm").complete({"size": 0})
    with pytest.raises(GraphError, match="'kernel_channel' is too small"):
        find_op("lrn").complete({"kernel_channel": 0})


def test_minmax_norm_has_two_dimensions() -> None:
    with pytest.raises(GraphError, match=r"not one of its choices \(got 'channel', expected width, height\)"):
        find_op("minmax_norm").complete({"dimension": "channel"})


@pytest.mark.parametrize("name", ["layer_norm", "l2_norm"])
def test_there_must_be_something_to_normalise_over(name: str) -> None:
    with pytest.raises(GraphError, match="no axis to normalise over"):
        inferred(name, {"x": IMAGE}, axes=())
    with pytest.raises(GraphError, match="without elements cannot be normalised over"):
        inferred(name, {"x": TensorType((2, 0))}, axes=(1,))
    with pytest.raises(GraphError, match="names one axis twice"):
        inferred(name, {"x": TensorType((2, 2))}, axes=(1, -1))


def test_a_parameter_may_have_another_floating_type() -> None:
    assert inferred("layer_norm", {"x": IMAGE, "gamma": TensorType((5,), "fp32")}, axes=(-1,)) == IMAGE


def test_batch_norm_by_hand() -> None:
    operands = {
        "x": np.array([[[1.0, 3.0], [5.0, 5.0]]]),
        "mean": np.array([1.0, 4.0]),
        "variance": np.array([3.0, 0.0]),
        "gamma": np.array([2.0, 1.0]),
        "beta": np.array([0.0, -1.0]),
    }
    np.testing.assert_array_equal(evaluated("batch_norm", operands, epsilon=1.0), [[[0.0, 2.0], [0.0, 0.0]]])


def test_the_variance_is_biased_and_epsilon_is_added_to_it() -> None:
    x = np.array([[1.0, 3.0]])  # mean 2, biased variance 1, unbiased 2
    np.testing.assert_array_equal(evaluated("layer_norm", {"x": x}, axes=(-1,), epsilon=3.0), [[-0.5, 0.5]])
    np.testing.assert_array_equal(evaluated("instance_norm", {"x": x[None]}, epsilon=3.0), [[[-0.5, 0.5]]])
    affine = {"gamma": np.array([2.0]), "beta": np.array([1.0])}
    grouped = {"x": x.reshape(1, 1, 1, 2), **affine}
    np.testing.assert_array_equal(evaluated("group_norm", grouped, num_groups=1, epsilon=3.0).ravel(), [0.0, 2.0])
    channels = {"x": x.reshape(1, 2, 1, 1), "gamma": np.array([2.0, 4.0]), "beta": np.array([0.0, 1.0])}
    np.testing.assert_array_equal(evaluated("channel_layer_norm", channels, epsilon=3.0).ravel(), [-1.0, 3.0])


def test_layer_norm_goes_over_all_axes_by_default() -> None:
    x = np.array([[1.0, 3.0], [1.0, 3.0]])
    gamma = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert inferred("layer_norm", {"x": IMAGE, "gamma": IMAGE}) == IMAGE
    np.testing.assert_array_equal(evaluated("layer_norm", {"x": x, "gamma": gamma}, epsilon=0.0), gamma * [-1, 1])


def test_the_order_of_axes_does_not_turn_the_parameters() -> None:
    x = np.arange(6.0).reshape(1, 2, 3) ** 2
    gamma = np.arange(6.0).reshape(2, 3)
    first = evaluated("layer_norm", {"x": x, "gamma": gamma}, axes=(1, 2))
    np.testing.assert_array_equal(evaluated("layer_norm", {"x": x, "gamma": gamma}, axes=(-1, 1)), first)
    with pytest.raises(GraphError, match=r"normalised axes of x \(got \[3, 2\], expected \[2, 3\]\)"):
        inferred("layer_norm", {"x": TensorType((1, 2, 3)), "gamma": TensorType((3, 2))}, axes=(2, 1))


def test_a_single_element_is_its_own_mean() -> None:
    np.testing.assert_array_equal(evaluated("layer_norm", {"x": np.array([[7.0]])}), [[0.0]])


def test_l2_norm_is_bounded_by_the_root_of_epsilon() -> None:
    x = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    result = evaluated("l2_norm", {"x": x}, epsilon=1.0)
    np.testing.assert_allclose(result, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], rtol=1e-15)
    np.testing.assert_array_equal(evaluated("l2_norm", {"x": np.zeros((1, 2))}), [[0.0, 0.0]])
    assert evaluated("l2_norm", {"x": np.array([1e-7])}) == pytest.approx(0.1)


def test_rms_norm_is_bounded_by_epsilon_and_not_raised_by_it() -> None:
    gamma = np.array([1.0, 2.0])
    result = evaluated("rms_norm", {"x": np.array([[1.0, 1.0]]), "gamma": gamma}, epsilon=0.5)
    np.testing.assert_allclose(result, [[1.0, 2.0]], rtol=1e-15)  # an added epsilon would give 1 / sqrt(1.5)
    small = evaluated("rms_norm", {"x": np.array([[0.1, 0.1]]), "gamma": gamma}, epsilon=0.25)
    np.testing.assert_allclose(small, [[0.2, 0.4]], rtol=1e-15)
    assert inferred("rms_norm", {"x": TensorType((2, 4, 3)), "gamma": C3}) == TensorType((2, 4, 3))


@pytest.mark.parametrize(
    ("size", "sums"),
    [
        (1, [1, 10, 100, 1000]),
        (2, [11, 110, 1100, 1000]),  # an even window reaches one channel further on than back
        (3, [11, 111, 1110, 1100]),
        (4, [111, 1111, 1110, 1100]),
        (9, [1111, 1111, 1111, 1111]),
    ],
)
def test_the_window_of_a_response(size: int, sums: list[int]) -> None:
    x = np.sqrt([1.0, 10.0, 100.0, 1000.0])
    attributes = {"alpha": 1.0, "beta": 1.0, "k": 0.0}
    batched = evaluated("local_response_norm", {"x": x.reshape(1, 4, 1)}, size=size, **attributes)
    alone = evaluated("lrn", {"x": x.reshape(4, 1, 1)}, kernel_channel=size, **attributes)
    np.testing.assert_allclose(batched.ravel(), x * size / sums, rtol=1e-14)
    np.testing.assert_allclose(alone.ravel(), x * size / sums, rtol=1e-14)


def test_response_defaults() -> None:
    result = evaluated("local_response_norm", {"x": np.full((1, 1, 1, 1), 10.0)})
    assert result.item() == pytest.approx(10 / math.pow(1 + 1e-4 / 5 * 100, 0.75))


def test_minmax_norm_by_hand() -> None:
    x = np.array([[[1.0, 3.0], [5.0, 5.0]]])
    np.testing.assert_array_equal(
        evaluated("minmax_norm", {"x": x}, dimension="width", epsilon=2.0), [[[0.0, 0.5], [0.0, 0.0]]]
    )
    np.testing.assert_array_equal(
        evaluated("minmax_norm", {"x": x}, dimension="height", epsilon=0.0), [[[0.0, 0.0], [1.0, 1.0]]]
    )


def test_lengths_do_not_overflow() -> None:
    x = np.array([3e200, -4e200])
    np.testing.assert_allclose(value_of("l2_norm", x), [0.6, -0.8], rtol=1e-15)
    np.testing.assert_allclose(value_of("rms_norm", x, np.ones(2)), np.array([0.6, -0.8]) * np.sqrt(2), rtol=1e-15)


@pytest.mark.parametrize("epsilon", [-1e-9, np.inf, np.nan])
@pytest.mark.parametrize("name", ["batch_norm", "layer_norm", "instance_norm", "l2_norm", "rms_norm"])
def test_epsilon_is_finite_and_not_negative(name: str, epsilon: float) -> None:
    with pytest.raises(GraphError, match=r"'epsilon' is (too small|not finite)"):
        find_op(name).complete({"epsilon": epsilon})
