"""Gathers by coordinates: the gate of targets without a texture engine, and the routes of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings

from aneforge.compiler.passes.legalise_gather import LegaliseGather
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Dense
from aneforge.ops.table import find_op
from aneforge.testing.graphs import DrawnGraph, one_operation
from legalisation_tools import assert_same_meaning, changed, inputs_of, layer, legalised, program_of, value
from program_tools import lowered

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

COORDINATES = Dense(np.array([[0, 1], [1, -1], [2, 0]], np.int32))


def gather(*shape: int, coordinates: int | None = None, batch: int = 0, target: object = "h13") -> Program:
    """Return a gather by constant coordinates, or by so many live ones."""
    indices = COORDINATES if coordinates is None else value("i", 5, coordinates, dtype="int32")
    one = layer("gather_nd", {"x": value("x", *shape), "indices": indices}, "y", batch_dims=batch)
    return program_of(target, one)  # pyright: ignore[reportArgumentType] - a name or a target


def test_three_live_coordinates_of_one_image_pass_as_they_are() -> None:
    before = gather(4, 4, 4, coordinates=3)
    after = LegaliseGather()(before).program
    assert [(one.kind.name, dict(one.choices)) for one in after.layers] == [("gather_nd", {"route": "software"})]
    assert not LegaliseGather()(after).modified


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (3, 4, 2, 2), (3, 4, 2, 2, 2)])
def test_constant_coordinates_name_single_elements(shape: tuple[int, ...]) -> None:
    before = gather(*shape)
    after = LegaliseGather()(before).program
    (taken,) = [one for one in after.layers if one.kind.name == "gather_nd"]
    assert (taken.operand("x").type.rank, taken.operand("indices").type.shape[1:]) == (3, (3,))
    assert_same_meaning(before, after, inputs_of(before), 0)


@pytest.mark.parametrize(("shape", "coordinates", "batch"), [((4, 6, 2), 2, 0), ((4, 4, 4, 4), 4, 0)])
def test_other_live_coordinates_are_refused_in_the_compilers_words(
    shape: tuple[int, ...], coordinates: int, batch: int
) -> None:
    with pytest.raises(NotSupportedError, match="Cannot decompose layer on this architecture: the indices") as caught:
        LegaliseGather()(gather(*shape, coordinates=coordinates, batch=batch))
    assert (caught.value.operation, caught.value.target) == ("gather_nd", "h13")
    assert caught.value.remedy is not None


def test_more_than_one_image_is_refused() -> None:
    indices = value("i", 2, 5, 2, dtype="int32")
    program = program_of("h13", layer("gather_nd", {"x": value("x", 2, 4, 4), "indices": indices}, "y", batch_dims=1))
    with pytest.raises(NotSupportedError, match="the data is more than one image"):
        LegaliseGather()(program)


def test_an_index_is_not_longer_than_the_height() -> None:
    program = gather(4, 6, coordinates=2, target=changed("h13", tensor_height=4))
    with pytest.raises(NotSupportedError, match="5 elements are looked up, and the index is at most 4 long"):
        LegaliseGather()(program)


def test_a_constant_index_past_the_axis_is_one_clear_error() -> None:
    with pytest.raises(NotSupportedError, match="an index is past the axis"):
        LegaliseGather()(gather(2, 2))


def test_the_texture_engine_decides() -> None:
    routes = {
        name: [one.choices["route"] for one in LegaliseGather()(gather(3, 4, target=target)).program.layers[-1:]]
        for name, target in {
            "with": "h14",
            "with it by data": changed("h13", texture_engine=True),
            "without data": changed("h13", gather_software_axes=None),
            "older": "h12",
        }.items()
    }
    assert routes == {
        "with": ["texture"],
        "with it by data": ["texture"],
        "without data": ["unknown"],
        "older": ["unknown"],
    }


def test_gathers_along_one_axis_stay() -> None:
    one = layer("gather", {"x": value("x", 4, 6), "indices": value("i", 3, dtype="int32")}, "y", axis=0)
    assert not LegaliseGather()(program_of("h13", one)).modified


@settings(max_examples=60, deadline=None, derandomize=True)
@given(one_operation(find_op("gather_nd")))
def test_the_meaning_stays(drawn: DrawnGraph) -> None:
    before = lowered(drawn.graph, "h13")
    after = legalised(before, [LegaliseGather()])
    if after is not None:
        assert_same_meaning(before, after, drawn.inputs, 0)
