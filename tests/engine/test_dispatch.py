"""Every operation that an engine can run, on every family: types, closeness to the mathematics, labels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import choices
from aneforge.engine.dispatch import Arithmetic, arithmetic
from aneforge.engine.exactness import Exactness
from aneforge.errors import GraphError, NotSupportedError, UnknownNameError
from aneforge.ops.table import names, ops
from aneforge.ops.types import TensorType, is_float
from aneforge.targets import resolve
from aneforge.testing.calls import Drawn, calls

if TYPE_CHECKING:
    from golden_text import Golden

Array = npt.NDArray[Any]
TARGETS = ["m1", "m2", "h15", "m4", "m5", "m6"]
NOWHERE = [name for name, op in ops().items() if op.support.floor is None and op.support.mil_since is None]
COMPUTED = [name for name, op in ops().items() if name not in NOWHERE and op.meaning is not None]
NORMS = {"channel_layer_norm", "layer_norm", "group_norm", "instance_norm"}
CLIFFS = {"exp", "floor_div", "round", "silu", "softplus", "softplus_parametric", *NORMS}
"""Where the engine is far from the mathematics: tables, overflow, ties, and distances that vanish in fp16."""


def in_fp16(values: Any) -> Any:  # noqa: ANN401 - an array, a tuple of arrays or None
    if isinstance(values, tuple):
        return tuple(in_fp16(one) for one in cast("tuple[Array, ...]", values))
    return values.astype(np.float16) if values is not None and values.dtype == np.float64 else values


def widened(values: Any) -> Any:  # noqa: ANN401 - an array, a tuple of arrays or None
    if isinstance(values, tuple):
        return tuple(widened(one) for one in cast("tuple[Array, ...]", values))
    return values.astype(np.float64) if values is not None and values.dtype == np.float16 else values


def types_of(drawn: Drawn) -> tuple[TensorType, ...]:
    return drawn.op.types(drawn.types, drawn.op.complete(drawn.sample.attributes))


@pytest.mark.parametrize("name", COMPUTED)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_operation_computes(name: str, data: st.DataObject) -> None:
    drawn = data.draw(calls(ops()[name]))
    found = arithmetic(name, resolve(data.draw(st.sampled_from(TARGETS))))
    operands = {key: in_fp16(value) for key, value in drawn.values.items()}
    results = found.compute(operands, drawn.sample.attributes)
    meant = drawn.op.evaluate(
        {key: widened(value) for key, value in operands.items()}, drawn.op.complete(drawn.sample.attributes)
    )
    for result, kind, mathematics in zip(results, types_of(drawn), meant, strict=True):
        assert result.shape == mathematics.shape
        if not is_float(kind.dtype):
            ties = int(name == "quantize")  # the engine rounds them away from zero, the mathematics to even
            np.testing.assert_allclose(result.astype(np.int64), mathematics.astype(np.int64), rtol=0, atol=ties)
            continue
        assert result.dtype == np.float16 or name == "cast"
        assert not np.isnan(result.astype(np.float64)).any()
        if name not in CLIFFS and name != "cast":
            np.testing.assert_allclose(result.astype(np.float64), mathematics, rtol=1.5e-2, atol=1.5e-2)
    label = found.label_of(operands, drawn.sample.attributes)
    assert label.exactness.doubt >= found.exactness.doubt
    assert label.reason


@pytest.mark.parametrize("name", NOWHERE)
def test_what_no_engine_runs_has_no_arithmetic(name: str) -> None:
    with pytest.raises(NotSupportedError, match=f"{name} on h13: no engine runs it"):
        arithmetic(name, resolve("m1"))


def test_names() -> None:
    assert arithmetic("global_argmax", resolve("m1")) is arithmetic("global_arg_min_max", resolve("m1"))
    with pytest.raises(UnknownNameError, match="unknown operation 'sofmax'; nearest: softmax"):
        arithmetic("sofmax", resolve("m1"))


def test_wrong_calls() -> None:
    add = arithmetic("add", resolve("m1"))
    one = np.ones(1, np.float16)
    with pytest.raises(GraphError, match="add: operand 'y' is missing"):
        add.compute({"x": one}, {})
    with pytest.raises(GraphError, match="add: there is no operand 'z'"):
        add.compute({"x": one, "y": one, "z": one}, {})
    with pytest.raises(GraphError, match="softmax: there is no attribute 'axes'"):
        arithmetic("softmax", resolve("m1")).compute({"x": one}, {"axes": (0,)})
    with pytest.raises(GraphError, match="matmul: the last axis of x and the second-last axis of y differ in length"):
        arithmetic("matmul", resolve("m1")).compute({"x": np.ones((2, 3), np.float16), "y": np.ones((2, 3))}, {})
    with pytest.raises(GraphError, match="no meaning on its own"):
        arithmetic("matrix_decomposition", resolve("m1")).compute(
            {"x": np.ones((9, 1, 1), np.float16)}, {"type": "NonQRGivens"}
        )


def test_wider_numbers_are_handed_over_by_the_host() -> None:
    add = arithmetic("add", resolve("m1"))
    (result,) = add.compute({"x": np.array([2049.0]), "y": np.array([0.0], np.float32)}, {})
    assert result.tolist() == [2048.0], "the host rounds a tie to even"


def test_constants_that_are_folded_are_not_rounded_before() -> None:
    x = np.array([[[1.0]]], np.float16)
    operands = {"x": x, "mean": np.zeros(1, np.float32), "variance": np.array([1e-9], np.float32)}
    (result,) = arithmetic("batch_norm", resolve("m1")).compute(operands, {"epsilon": 0.0})
    assert result.item() == np.float16(1 / np.sqrt(np.float32(1e-9))), "in fp16 the variance were 0"


def test_a_label_by_shapes_does_not_look_at_values() -> None:
    product = arithmetic("matmul", resolve("m1"))
    large = {"x": np.full((1, 2), 200, np.float16), "y": np.full((2, 1), 200, np.float16)}
    assert product.label_of(large, {}).exactness is Exactness.MODELLED
    assert product.label_of(large, {}, values=False).exactness is Exactness.EXACT
    one_channel = {"x": np.ones((1, 1, 2, 2), np.float16), "weight": np.ones((1, 1, 1, 1), np.float16)}
    assert arithmetic("conv", resolve("m1")).label_of(one_channel, {}, values=False).exactness is Exactness.MODELLED


def test_whole_numbers_are_computed_as_the_mathematics_has_them() -> None:
    add = arithmetic("add", resolve("m6"))
    numbers = {"x": np.array([70000], np.int32), "y": np.array([1], np.int32)}
    assert add.compute(numbers, {})[0].tolist() == [70001]
    assert add.label_of(numbers, {}).exactness is Exactness.MODELLED
    assert "integers" in add.label_of(numbers, {}).reason


def test_copies_keep_every_bit() -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(256, 256)
    for name, attributes in (("transpose", {"perm": (1, 0)}), ("reshape", {"shape": (65536,)}), ("identity", {})):
        (result,) = arithmetic(name, resolve("m1")).compute({"x": every}, attributes)
        restored = result.T if name == "transpose" else result
        np.testing.assert_array_equal(restored.reshape(256, 256).view(np.uint16), every.view(np.uint16))
    values = (every, every)
    (joined,) = arithmetic("concat", resolve("m1")).compute({"values": values}, {"axis": 0})
    np.testing.assert_array_equal(joined[256:].view(np.uint16), every.view(np.uint16))


def test_filled_tensors_hold_what_the_host_rounds() -> None:
    (result,) = arithmetic("fill", resolve("m1")).compute({}, {"shape": (2,), "value": 2049.0, "dtype": "fp16"})
    assert result.dtype == np.float16
    assert result.tolist() == [2048.0, 2048.0]


def test_the_fallback_rounds_the_mathematics_once_and_gives_no_nan() -> None:
    power = arithmetic("pow", resolve("m1"))
    base, exponent = np.array([2049.0**0.5, -1.0, 3.0], np.float32), np.array([1.0, 0.5, 2.0], np.float16)
    (result,) = power.compute({"x": base.astype(np.float16), "y": exponent}, {})
    assert result[1:].tolist() == [0.0, 9.0], "what is not a number is 0"
    assert power.exactness is Exactness.MODELLED
    assert "rounded once" in power.reason


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "words"),
    [
        ("add", {"x": [np.inf], "y": [1.0]}, {}, "infinite or NaN"),
        ("erf", {"x": [2.0]}, {}, "its table ends there"),
        ("gelu", {"x": [2.0]}, {"mode": "SIGMOID_APPROXIMATION"}, "not known"),
    ],
)
def test_labels_look_at_the_values(
    name: str, operands: dict[str, list[float]], attributes: dict[str, str], words: str
) -> None:
    found = arithmetic(name, resolve("m6"))
    arrays = {key: np.array(value, np.float16) for key, value in operands.items()}
    tame = {key: np.full(1, 0.5, np.float16) for key in operands}
    label = found.label_of(arrays, attributes)
    assert label.exactness is Exactness.MODELLED
    assert words in label.reason
    if name != "gelu":
        assert found.label_of(tame, attributes).exactness is found.exactness


def test_an_arithmetic_is_found_once() -> None:
    assert arithmetic("conv", resolve("m1")) is arithmetic("conv", resolve("m1"))
    assert isinstance(arithmetic("conv", resolve("m1")), Arithmetic)
    assert arithmetic("conv", resolve("m1")).reason == arithmetic("conv", resolve("m1")).label.reason


def test_no_operation_of_the_table_is_left_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for op in names().values():
            if op.name not in NOWHERE:
                assert arithmetic(op.name, resolve("m6")).label.reason


def test_labels_by_operation_and_family(golden: Golden) -> None:
    """One line for every arithmetic: how sure it is on each kind of chip."""
    lines = [" ".join(["arithmetic".ljust(24), *(target.ljust(8) for target in TARGETS)]).rstrip()]
    for name, entry in choices.entries().items():
        labels = [choices.label_on(entry, resolve(target)).exactness for target in TARGETS]
        lines.append(" ".join([name.ljust(24), *(label.ljust(8) for label in labels)]).rstrip())
    golden("\n".join(lines) + "\n")
