"""Slices, windows and views: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, Location
from aneforge.graph.node import build
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))
SIX = [0, 1, 2, 3, 4, 5]


def test_slice_by_size_goes_to_the_end() -> None:
    assert inferred("slice_by_size", X, begin=(0, 1, 2), size=(2, 1, -1)) == "fp16[2, 1, 2]"
    assert inferred("slice_by_size", X, begin=(0, 3, 4), size=(0, 0, -1)) == "fp16[0, 0, 0]"
    assert evaluated("slice_by_size", SIX, begin=(4,), size=(-1,)) == [4, 5]


@pytest.mark.parametrize(
    ("begin", "size", "message"),
    [
        ((0, 0), (1, 1, 1), "begin does not have one entry for each axis (got 2, limit 3)"),
        ((0, 0, 0), (1, 1), "size does not have one entry for each axis (got 2, limit 3)"),
        ((0, 1, 0), (2, 3, 4), "the slice passes the end of axis 1 (got 4, limit 3)"),
        ((0, 0, 5), (2, 3, -1), "the slice passes the end of axis 2 (got 5, limit 4)"),
        ((-1, 0, 0), (1, 1, 1), "attribute 'begin' is too small (got -1, expected at least 0)"),
    ],
)
def test_slice_by_size_errors(begin: tuple[int, ...], size: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("slice_by_size", X, begin=begin, size=size)


@pytest.mark.parametrize(
    ("attributes", "result"),
    [
        ({"begin": (1,), "end": (4,)}, [1, 2, 3]),
        ({"begin": (-3,), "end": (-1,)}, [3, 4]),
        ({"begin": (1,), "end": (100,), "stride": (2,)}, [1, 3, 5]),
        ({"begin": (4,), "end": (1,), "stride": (-1,)}, [4, 3, 2]),
        ({"begin": (-1,), "end": (-7,), "stride": (-2,)}, [5, 3, 1]),
        ({"begin": (0,), "end": (0,), "stride": (-1,), "begin_mask": (1,), "end_mask": (1,)}, [5, 4, 3, 2, 1, 0]),
        ({"begin": (9,), "end": (2,), "begin_mask": (1,)}, [0, 1]),
        ({"begin": (4,), "end": (0,), "end_mask": (1,)}, [4, 5]),
        ({"begin": (3,), "end": (3,)}, []),
        ({"begin": (-2,), "end": (0,), "squeeze_mask": (1,)}, 4),
        ({"begin": (3,), "end": (0,), "begin_mask": (1,), "squeeze_mask": (1,)}, 0),
    ],
)
def test_slice_by_index(attributes: dict[str, object], result: int | list[int]) -> None:
    assert evaluated("slice_by_index", SIX, **attributes) == result


def test_a_squeezed_axis_is_gone() -> None:
    region = {"begin": (0, -1, 0), "end": (2, 0, 4), "stride": (1, 1, 3), "squeeze_mask": (0, 1, 0)}
    assert inferred("slice_by_index", X, **region) == "fp16[2, 2]"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"begin": (0, 0)}, "begin does not have one entry for each axis (got 2, limit 1)"),
        ({"stride": ()}, "stride does not have one entry for each axis (got 0, limit 1)"),
        ({"squeeze_mask": (0, 1)}, "squeeze_mask does not have one entry for each axis (got 2, limit 1)"),
        ({"stride": (0,)}, "a stride of 0 never moves on (got [0], expected any other integer)"),
        (
            {"begin": (6,), "squeeze_mask": (1,)},
            "begin names no element of the squeezed axis 0 (got 6, limit -6 to 5)",
        ),
        ({"begin_mask": (2,)}, "attribute 'begin_mask' is not a list of flags (got 2)"),
    ],
)
def test_slice_by_index_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("slice_by_index", TensorType((6,)), **{"begin": (0,), "end": (6,), **attributes})


def test_slice_update_writes_a_region_and_leaves_its_operand() -> None:
    x = np.zeros(6)
    region = {"begin": (4,), "end": (0,), "stride": (-2,)}
    assert evaluated("slice_update", x, [7.0, 8.0], **region) == [0, 0, 8, 0, 7, 0]
    assert not x.any()
    single = {"begin": (1, 0), "end": (0, 2), "squeeze_mask": (1, 0)}
    assert evaluated("slice_update", np.zeros((2, 2)), [1.0, 2.0], **single) == [[0, 0], [1, 2]]


def test_slice_update_errors() -> None:
    region = {"begin": (1,), "end": (4,)}
    with pytest.raises(
        GraphError, match=re.escape("update does not have the shape of the region (got [2], expected [3])")
    ):
        inferred("slice_update", TensorType((6,)), TensorType((2,)), **region)
    with pytest.raises(GraphError, match="different element types"):
        inferred("slice_update", TensorType((6,)), TensorType((3,), "int32"), **region)


def test_sliding_windows_leave_out_what_does_not_fill_one() -> None:
    assert evaluated("sliding_windows", SIX, axis=0, size=3, stride=2) == [[0, 1, 2], [2, 3, 4]]
    assert inferred("sliding_windows", X, axis=-2, size=2) == "fp16[2, 2, 2, 4]"
    with pytest.raises(GraphError, match=re.escape("the window is longer than the axis (got 4, limit 3)")):
        inferred("sliding_windows", X, axis=1, size=4)


def test_input_view_takes_steps() -> None:
    assert evaluated("input_view", SIX, offset=1, size=3, step=2) == [1, 3, 5]
    assert inferred("input_view", X, axis=1, offset=2, size=1) == "fp16[2, 1, 4]"
    with pytest.raises(GraphError, match=re.escape("the view passes the end of the axis (got 4, limit 3)")):
        inferred("input_view", X, offset=2, size=2, step=2)


@pytest.mark.parametrize(("begin", "result"), [(0, [1, 2]), (2, [3, 4]), (3, [4, 9]), (4, [9, 9]), (-1, [9, 1])])
def test_dynamic_slice_reads_the_background_outside(begin: int, result: list[int]) -> None:
    assert evaluated("dynamic_slice", [1, 2, 3, 4], begin, size=2, background_value=9) == result


@pytest.mark.parametrize(
    ("x", "begin", "attributes", "message"),
    [
        (X, TensorType((2,), "int32"), {}, "begin is not a single index (got [2], expected one element)"),
        (X, TensorType((), "fp16"), {}, "begin must hold integers (got fp16)"),
        (X, TensorType((), "uint16"), {"size": 5}, "the slice is longer than the axis (got 5, limit 4)"),
        (TensorType(()), TensorType((), "uint16"), {}, "x of shape [] has too few axes (got 0, limit 1 or more)"),
        (
            X.with_dtype("bool"),
            TensorType((), "uint16"),
            {"background_value": 2},
            "background_value is not a value of bool (got 2.0",
        ),
    ],
)
def test_dynamic_slice_errors(x: TensorType, begin: TensorType, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("dynamic_slice", x, begin, **{"size": 2, **attributes})


def test_masks_are_flags_and_may_be_written_as_0_and_1() -> None:
    flags, numbers = (True, False), (1, 0)
    one, other = (
        find_op("slice_by_index").complete({"begin": (0, 0), "end": (1, 1), "begin_mask": mask})
        for mask in (flags, numbers)
    )
    assert repr(one) == repr(other)
    assert one["begin_mask"] == flags


def test_masks_survive_the_text_of_a_graph() -> None:
    x = af.input((2, 3))
    node = build("slice_by_index", {"x": x}, {"begin": (1, 0), "end": (0, 2), "squeeze_mask": (1, 0)}, Location())
    graph = af.Graph({"y": af.Tensor(node)})
    assert "squeeze_mask = [true, false]" in str(graph)
    assert af.Graph.parse(str(graph)) == graph
