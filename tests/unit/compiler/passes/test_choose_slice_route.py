"""Slices: copies, crops in fixed point along the width where the target's data says so, clean ones along the height."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.passes.choose_slice_route import ChooseSliceRoute
from legalisation_tools import changed, layer, program_of, value

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import TargetLike


def part(begin: tuple[int, ...], name: str = "y", dtype: str = "fp16", extent: int = 8) -> Layer:
    """Return a slice of half of every axis."""
    x = value("x", *(extent,) * len(begin), dtype=dtype)
    return layer("slice", {"input": x}, name, begin=begin, size=(extent // 2,) * len(begin))


def routed(target: TargetLike, *layers: Layer) -> Program:
    """Return a program after the pass."""
    return ChooseSliceRoute()(program_of(target, *layers)).program


@pytest.mark.parametrize("begin", [(0, 0, 0, 0), (0, 4, 0, 0), (4, 0, 0, 0), (0, 0, 4, 0, 0)])
def test_other_axes_are_copied(begin: tuple[int, ...]) -> None:
    one = routed("h13", part(begin)).layers[0]
    assert (dict(one.choices), one.engine) == ({"route": "copy"}, Engine.DMA)


@pytest.mark.parametrize("begin", [(4,), (0, 4), (0, 0, 4), (0, 0, 0, 4), (0, 0, 0, 0, 4)])
def test_the_last_axis_is_the_width_at_every_rank(begin: tuple[int, ...]) -> None:
    assert dict(routed("h13", part(begin)).layers[0].choices) == {"route": "crop", "format": "q.4"}


def test_the_fields_alone_decide() -> None:
    def format_of(begin: tuple[int, ...], **data: bool | None) -> object:
        return routed(changed("h13", **data), part(begin)).layers[0].choices["format"]

    width, height = (0, 0, 0, 4), (0, 0, 4, 0)
    assert format_of(width) == "q.4"
    assert format_of(width, width_slice_crop_x16=False) == "fp16"
    assert format_of(width, width_slice_crop_x16=None) == "unknown"
    assert format_of(height) == "fp16"
    assert format_of(height, height_slice_crop_x16=True) == "q.4"
    assert format_of((0, 0, 4, 4), width_slice_crop_x16=False, height_slice_crop_x16=None) == "unknown"


def test_a_format_that_no_source_gives_is_said() -> None:
    made = routed(changed("h13", width_slice_crop_x16=None), part((0, 4)))
    assert made.notes[0].text == "not known: the format of its crop here"


def test_whole_numbers_keep_their_format() -> None:
    made = routed("h13", part((0, 4), dtype="int8"))
    assert made.layers[0].choices["format"] == "int8"
    assert made.notes == ()


def test_strided_slices_and_views_are_slices() -> None:
    x = value("x", 1, 4, 8, 8)
    region: dict[str, Any] = {"begin": (0, 0, 0, 1), "size": (1, 4, 8, 3), "step": (1, 1, 1, 2)}
    strided = layer("strided_slice", {"input": x}, "a", **region)
    view = layer("input_view", {"x": x}, "b", axis=-1, offset=2, size=4)
    assert [one.choices["format"] for one in routed("h13", strided, view).layers] == ["q.4", "q.4"]


def test_joined_slices_of_the_width_are_wrong_there_and_said() -> None:
    first, second = part((0, 0, 0, 2), "a"), part((0, 0, 0, 4), "b")
    joined = layer("concat", {"values": (first.result, second.result)}, "y", axis=3)
    made = routed("h13", first, second, joined)
    assert made.layers[-1].choices == {"elements": "wrong"}
    assert made.notes[-1].text == "joins 2 cropped slices: its elements are wrong here"
    assert not ChooseSliceRoute()(made).modified
    assert routed("h17s", first, second, joined).layers[-1].choices == {}
    unknown = routed(changed("h13", concat_of_width_slices_wrong=None), first, second, joined)
    assert unknown.layers[-1].choices == {"elements": "unknown"}


def test_one_cropped_slice_may_be_joined() -> None:
    first, second = part((0, 0, 0, 0), "a"), part((0, 0, 0, 4), "b")
    joined = layer("concat", {"values": (first.result, second.result)}, "y", axis=3)
    assert routed("h13", first, second, joined).layers[-1].choices == {}
