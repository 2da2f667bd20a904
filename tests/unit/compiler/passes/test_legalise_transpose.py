"""Transposes: native within the bounds of the target, else in parts or passes, always the same elements."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes.legalise_transpose import LegaliseTranspose, swaps
from legalisation_tools import (
    assert_same_meaning,
    changed,
    constant,
    convolution,
    inputs_of,
    layer,
    program_of,
    stage,
    value,
)
from program_tools import kinds_of

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import TargetLike


def transpose(shape: tuple[int, ...], perm: tuple[int, ...], target: TargetLike = "h13") -> Program:
    """Return a program of one transpose."""
    return program_of(target, layer("transpose", {"x": value("x", *shape)}, "y", perm=perm))


def test_a_batch_that_moves_takes_passes() -> None:
    before = transpose((2, 3, 4, 2, 3), (4, 0, 1, 2, 3))
    after = LegaliseTranspose()(before).program
    assert {one.choices.get("route") for one in after.layers} == {None, "multi-pass"}
    assert_same_meaning(before, after, inputs_of(before), 0)


def test_one_bound_at_a_time_decides_the_route() -> None:
    shape, perm = (1, 2, 20, 30), (0, 1, 3, 2)

    def routes(target: TargetLike) -> list[object]:
        made = LegaliseTranspose()(transpose(shape, perm, target)).program
        return [one.choices["route"] for one in made.layers if one.kind.name == "transpose"]

    assert routes("h13") == ["native"]
    assert routes(changed("h13", max_transpose_width=16)) == ["native", "native"] * 2
    assert routes(changed("h13", max_transpose_height=29)) == ["native", "native"]
    assert routes(changed("h13", max_transpose_width=0, max_transpose_height=0)) == ["multi-pass"]
    assert routes(changed("h13", max_transpose_width=None)) == ["unknown"]


def test_a_clean_target_slices_its_width() -> None:
    made = LegaliseTranspose()(transpose((1, 2, 64, 70_000), (0, 1, 3, 2), "h17s")).program
    assert kinds_of(made) == ["slice", "transpose", "slice", "transpose", "concat"]


def test_a_fused_transpose_out_of_bounds_becomes_a_layer_again() -> None:
    epilogue = Epilogue(post_activation=stage("relu"), transpose=stage("transpose", perm=(0, 2, 3, 1)))
    one = convolution(value("x", 1, 2, 5, 5), constant(4, 2, 1, 1), epilogue=epilogue)
    assert not LegaliseTranspose()(program_of("h13", one)).modified
    before = program_of(changed("h13", max_transpose_width=4), one)
    after = LegaliseTranspose()(before).program
    assert after.layers[0].epilogue.transpose is None
    assert after.layers[0].epilogue.post_activation is not None
    assert after.notes[0].text == "its transpose became a layer again: it is out of bounds"
    assert_same_meaning(before, after, inputs_of(before), 0)


def test_an_order_that_moves_nothing_is_a_copy() -> None:
    made = LegaliseTranspose()(transpose((2, 3), (0, 1), "h12")).program
    assert kinds_of(made) == ["identity"]


@pytest.mark.parametrize("rank", range(1, 6))
def test_swaps_make_up_every_order(rank: int) -> None:
    for perm in permutations(range(rank)):
        order = list(range(rank))
        for first, second, behind in swaps(perm):
            order[first:behind] = order[second:behind] + order[first:second]
        assert tuple(order) == perm


TIGHT = [
    changed("h13", max_transpose_height=3, max_transpose_width=2),
    changed("h17s", max_transpose_height=2, max_transpose_width=3, transpose_trailing_axes=3),
    changed("h13", max_transpose_height=0, max_transpose_width=0),
]


@settings(max_examples=120, deadline=None, derandomize=True)
@given(shape=st.lists(st.integers(1, 6), min_size=1, max_size=5), data=st.data(), number=st.integers(0, 2))
def test_every_transpose_moves_the_same_elements(shape: list[int], data: st.DataObject, number: int) -> None:
    perm = tuple(data.draw(st.permutations(range(len(shape)))))
    negative = tuple(int(place) for place in np.array(perm) - len(shape) * data.draw(st.booleans()))
    before = transpose(tuple(shape), negative, TIGHT[number])
    after = LegaliseTranspose()(before).program
    assert_same_meaning(before, after, inputs_of(before), 0)
    assert not LegaliseTranspose()(after).modified
