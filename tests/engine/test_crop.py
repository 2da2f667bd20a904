"""Slices: copies everywhere, but for the times-16 crop of the targets that have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aneforge.engine import crop
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.exactness import Exactness
from aneforge.targets import Target, group, resolve

Array = npt.NDArray[Any]
EDGES = np.array([[0.5, 4094.0, 4096.0, -4094.0, -4096.0, 65504.0]], np.float16)
ALL_FP16 = np.arange(65536, dtype=np.uint16).view(np.float16)
CROPPING = ["m1", "m1-max", "m2-pro", "m2-max"]
CLEAN = ["m4", "m4-max", "m5", "m5-pro", "m6"]


def sliced(target: str, name: str = "slice_by_size", x: Array = EDGES, **attributes: object) -> list[Any]:
    found = arithmetic(name, resolve(target))
    return found.compute({"x": x}, found.op.complete(attributes))[0].tolist()


@pytest.mark.parametrize("target", CROPPING)
def test_a_width_slice_is_finite_at_4094_and_infinite_at_4096(target: str) -> None:
    inf = float("inf")
    assert sliced(target, begin=(0, 1), size=(1, 5)) == [[4094.0, inf, -4094.0, -inf, inf]]


@pytest.mark.parametrize("target", CLEAN)
def test_there_is_no_edge_on_later_chips(target: str) -> None:
    assert sliced(target, begin=(0, 1), size=(1, 5)) == EDGES[:, 1:].tolist()


@pytest.mark.parametrize("target", CROPPING + CLEAN)
def test_a_slice_from_the_start_or_along_another_axis_is_a_copy(target: str) -> None:
    assert sliced(target, begin=(0, 0), size=(1, 6)) == EDGES.tolist()
    assert sliced(target, x=np.stack([EDGES, EDGES]), begin=(1, 0, 0), size=(1, 1, 6)) == [EDGES.tolist()]


def test_below_the_edge_the_crop_changes_no_bit() -> None:
    small = ALL_FP16[np.abs(ALL_FP16) <= 4094]
    np.testing.assert_array_equal(crop.through_crop(small), small.astype(np.float64))
    assert np.isinf(crop.through_crop(ALL_FP16[~(np.abs(ALL_FP16) <= 4094)])).all(), "NaN is larger than any"


CALLS: list[tuple[str, Array, dict[str, Any], list[Any]]] = [
    ("slice_by_index", EDGES, {"begin": (0, 2), "end": (1, 4)}, [[4096.0, -4094.0]]),
    ("slice_by_index", EDGES, {"begin": (0, 2), "end": (1, 0), "squeeze_mask": (False, True)}, [4096.0]),
    ("slice_by_index", EDGES, {"begin": (0, -1), "end": (1, -3), "stride": (1, -1)}, [[65504.0, -4096.0]]),
    ("crop", EDGES[None, None], {"crop_height": (0, 0), "crop_width": (2, 3)}, [[[[4096.0]]]]),
    ("input_view", EDGES, {"axis": -1, "offset": 2, "size": 1}, [[4096.0]]),
]


@pytest.mark.parametrize(("name", "x", "attributes", "copied"), CALLS)
def test_every_way_to_slice_the_width_crops(name: str, x: Array, attributes: dict[str, Any], copied: list[Any]) -> None:
    assert sliced("m5", name, x, **attributes) == copied
    cropped = np.array(copied)
    cropped = np.where(np.abs(cropped) > 4094, np.copysign(np.inf, cropped), cropped)
    assert sliced("m1", name, x, **attributes) == cropped.tolist()


def test_copies_of_the_start_by_other_names() -> None:
    assert sliced("m1", "slice_by_index", EDGES, begin=(0, 0), end=(1, 6)) == EDGES.tolist()
    assert sliced("m1", "crop", EDGES[None, None], crop_height=(0, 0), crop_width=(0, 1)) == [[EDGES[:, :5].tolist()]]
    assert sliced("m1", "input_view", EDGES, axis=0, offset=0, size=1) == EDGES.tolist()
    empty = arithmetic("slice_by_index", resolve("m1")).compute({"x": EDGES}, {"begin": (0, 3), "end": (1, 3)})[0]
    assert empty.shape == (1, 0)


def test_the_first_part_of_a_split_is_a_copy_and_the_others_are_slices() -> None:
    x = np.array([[5000.0, 1.0, 5000.0, 2.0]], np.float16)
    split = arithmetic("split", resolve("m1"))
    first, second = split.compute({"x": x}, {"num_splits": 2, "axis": -1})
    assert first.tolist() == [[5000.0, 1.0]]
    assert second.tolist() == [[float("inf"), 2.0]]
    assert [part.tolist() for part in split.compute({"x": x.T.copy()}, {"num_splits": 4, "axis": 0})] == [
        [[5000.0]],
        [[1.0]],
        [[5000.0]],
        [[2.0]],
    ]


def test_whole_numbers_are_copied() -> None:
    numbers = np.array([[1, 70000]], np.int32)
    assert sliced("m1", x=numbers, begin=(0, 1), size=(1, 1)) == [[70000]]


def test_slices_of_the_height_crop_where_the_data_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([[5000.0], [1.0]], np.float16)
    assert crop.after_slicing(x, (1, 0), resolve("m1")) is x
    monkeypatch.setattr(crop, "switch", lambda _target, name: name == "height_slice_crop_x16")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - a stand-in for the data
    assert crop.after_slicing(x, (1, 0), resolve("m1")).tolist() == [[float("inf")], [1.0]]
    assert crop.after_slicing(x, (0, 1), resolve("m1")) is x
    assert crop.after_slicing(x, (1, 0, 0), resolve("m1")) is x


@pytest.mark.parametrize("target", group("all"), ids=str)
def test_the_data_of_the_target_decides(target: Target) -> None:
    (result,) = arithmetic("slice_by_size", target).compute({"x": EDGES}, {"begin": (0, 2), "size": (1, 1)})
    assert np.isinf(result).all() == (target.datapath.get("width_slice_crop_x16") is True)


def test_joined_width_slices_are_unknown_where_wrong_elements_come_out() -> None:
    label = crop.label_of_joined([True, False, True], resolve("m1"))
    assert label is not None
    assert label.exactness is Exactness.UNKNOWN


@pytest.mark.parametrize(("target", "inside"), [("m1", [True, False]), ("m4", [True, True])])
def test_joining_is_right_elsewhere(target: str, inside: list[bool]) -> None:
    assert crop.label_of_joined(inside, resolve(target)) is None
