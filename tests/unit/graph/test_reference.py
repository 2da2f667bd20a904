"""What may be fed to a graph, and what is said about the rest."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.node import build
from aneforge.ops.types import DTYPES, is_float, is_integer, numpy_dtype, numpy_dtypes, value_range


def placeholder(dtype: str, shape: tuple[int, ...] = (2,), op: str = "input") -> af.Tensor:
    return af.Tensor(build(op, {}, {"shape": shape, "dtype": dtype, "name": "x"}))


INTEGERS = [name for name in DTYPES if is_integer(name)]
FLOATS = [name for name in DTYPES if is_float(name)]
REAL = [dtype for name, dtype in numpy_dtypes().items() if name != "bool"] + [np.dtype(np.longdouble), np.dtype(">f4")]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("given", REAL, ids=str)
def test_a_floating_input_takes_every_real_type(dtype: str, given: np.dtype[Any]) -> None:
    result = af.reference(placeholder(dtype), [np.array([1, 2]).astype(given)])["y"]
    assert (result.dtype, result.tolist()) == (np.float64, [1.0, 2.0])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_input_takes_what_it_holds(dtype: str) -> None:
    least, most = value_range(dtype)
    wide = np.uint64 if dtype == "uint64" else np.int64
    result = af.reference(placeholder(dtype), [np.array([least, most], wide)])["y"]
    assert (result.dtype, [int(one) for one in result]) == (numpy_dtype(dtype), [least, most])


@pytest.mark.parametrize("dtype", [name for name in INTEGERS if not name.endswith("64")])
def test_an_integer_out_of_range_is_named(dtype: str) -> None:
    least, most = value_range(dtype)
    for value in (least - 1, most + 1):
        with pytest.raises(GraphError, match=rf"input 'x' is out of range for {dtype} \(got {value}, limit {least} to"):
            af.reference(placeholder(dtype), [np.array([0, value])])


def test_the_widest_integers_have_a_range_too() -> None:
    with pytest.raises(GraphError, match=rf"got {2**63}, limit"):
        af.reference(placeholder("int64"), [np.array([0, 2**63], np.uint64)])
    with pytest.raises(GraphError, match="out of range for uint64"):
        af.reference(placeholder("uint64"), [np.array([0, -1])])


def test_an_empty_input_has_no_value_out_of_range() -> None:
    assert af.reference(placeholder("uint8", (0,)), [np.zeros(0, np.int64)])["y"].shape == (0,)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("uint8", np.array([1.0, 2.0]), r"input 'x' is uint8 and takes integers \(got float64\)"),
        ("int32", np.array([1, 2], ml_dtypes.bfloat16), "takes integers"),
        ("int32", np.array([True, False]), "takes integers"),
        ("bool", np.array([0, 1]), r"input 'x' is bool and takes bool \(got int64\)"),
        ("bool", np.array([0.0, 1.0]), "takes bool"),
        ("fp16", np.array([True, False]), "takes real numbers"),
        ("fp16", np.array([1j, 2]), r"input 'x' is fp16 and takes real numbers \(got complex128\)"),
        ("fp16", np.array(["2020", "2021"], "datetime64[Y]"), "takes real numbers"),
        ("int64", np.array([1, 2], "timedelta64[s]"), "takes integers"),
        ("fp16", np.array([1, 2], object), "takes real numbers"),
        ("fp16", np.array(["1", "2"]), "takes real numbers"),
        ("fp16", np.array([b"1", b"2"]), "takes real numbers"),
        ("fp16", np.array([(1,), (2,)], [("a", np.float16)]), "takes real numbers"),
        ("int64", [2**70, 0], r"takes integers \(got object\)"),
        ("fp16", [[1.0], [1.0, 2.0]], "input 'x' is not an array"),
    ],
)
def test_other_elements_are_refused(dtype: str, value: object, message: str) -> None:
    with pytest.raises(GraphTypeError, match=message):
        af.reference(placeholder(dtype), [cast("Any", value)])


def test_a_bool_input_takes_bool() -> None:
    assert af.reference(placeholder("bool"), [np.array([True, False])])["y"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (5, r"the values of the inputs are not a list or a mapping \(got int\)"),
        (None, "got NoneType"),
        ((value for value in [np.zeros(2)]), "got generator"),
        ("xy", "got str"),
        (np.zeros((1, 2)), "got ndarray"),
        ({0: np.zeros(2), "x": np.zeros(2)}, r"the name of input 0 is not text \(got int\)"),
    ],
)
def test_values_are_a_list_or_a_mapping(inputs: object, message: str) -> None:
    with pytest.raises(GraphTypeError, match=message):
        af.reference(placeholder("fp16"), cast("Any", inputs))


def test_the_starts_of_states_are_checked_as_inputs_are() -> None:
    held = placeholder("uint8", op="state")
    with pytest.raises(GraphError, match=r"there is no state 'nope' \(expected x\)"):
        af.reference(held, (), {"nope": np.zeros(2)})
    with pytest.raises(GraphError, match=r"there is no state 'nope' \(expected no states\)"):
        af.reference(af.input((1,)), [np.zeros(1)], {"nope": np.zeros(2)})
    for states in ([1], 5, [], ""):
        with pytest.raises(GraphTypeError, match="the values of the states are not a mapping"):
            af.reference(held, (), cast("Any", states))
    with pytest.raises(GraphTypeError, match="state 'x' is uint8 and takes integers"):
        af.reference(held, (), {"x": np.zeros(2)})
    with pytest.raises(GraphError, match="state 'x' has the wrong shape"):
        af.reference(held, (), {"x": np.zeros(3, np.uint8)})
    assert af.reference(held)["y"].tolist() == [0, 0], "a state starts from zeros"


def test_what_is_fed_is_not_what_comes_out() -> None:
    value = np.zeros(2)
    af.reference(placeholder("fp64"), [value])["y"][:] = 7
    assert value.tolist() == [0.0, 0.0]
