"""Elements that one target multiplies by one and another reads: proven equal, and near cases that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.divergence.graphs import Strength, divergence
from aneforge.analysis.divergence.hiding import Hiding
from aneforge.analysis.divergence.judging import judge_program, share_of_one_is_one
from aneforge.analysis.ranges.program_ranges import flow
from aneforge.compiler.compile import build_program
from aneforge.ops.constant import Dense
from aneforge.targets import resolve
from divergence_tools import PAIRS
from gathering_tools import (
    MULTIPLIES,
    READS,
    SHAPE,
    every_number,
    mixed,
    operation,
    padded,
    quantised,
    quarters,
    resized,
    shows,
    x_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float16]]
    Function = Callable[[af.Tensor], af.Tensor]


def answer(graph: af.Tensor | af.Graph, shape: tuple[int, ...] = SHAPE) -> tuple[bool, bool]:
    """Return whether both targets are said to be equal, and whether inputs show a difference."""
    found = divergence(graph, MULTIPLIES, READS)
    return found.verdict is Strength.NONE, shows(graph, (MULTIPLIES, READS), every_number(shape))


EQUAL: dict[str, Function] = {
    "a sum": lambda x: mixed(x).upsample(),
    "a sum from a number of the grid": lambda x: mixed(x, 0.25).upsample(),
    "a function that keeps to the grid": lambda x: mixed(x).relu().upsample(),
    "bounds that keep to the grid": lambda x: mixed(x).clip(-3.0, 4.0).upsample(),
    "a sum moved": lambda x: mixed(x).transpose(0, 2, 3, 1).reshape(16, 64, 8, 8).upsample(),
    "a sum padded": lambda x: padded(mixed(x), 1.0).upsample(),
    "the largest sums": lambda x: af.maximum(mixed(x), mixed(x, 1.0)).upsample(),
    "a few numbers": lambda x: quantised(x, 0.25).upsample(),
    "bounds beyond the fine numbers": lambda x: x.clip(0.0625, 32752.0).upsample(),
    "a sum of numbers of the grid": lambda x: (mixed(x).clip(-3.0, 4.0) + quantised(x, 0.25)).upsample(),
    "a difference of numbers of the grid": lambda x: (mixed(x).clip(1.0, 4.0) - quantised(x, 0.25)).upsample(),
    "a product of numbers of the grid": lambda x: (quantised(x, 0.25).abs() * mixed(x).sign().abs()).upsample(),
    "truth": lambda x: x.sign().abs().upsample(),
    "twice": lambda x: mixed(x).upsample().upsample(),
    "an uneven resize": lambda x: resized(mixed(x), 37, 50),
    "a resize of one axis": lambda x: resized(mixed(x), 64, 33),
    "a resize that keeps the size": lambda x: resized(x, 64, 64, "resize_bilinear") + 1.0,
    "a resize to whole places": lambda x: resized(mixed(x), 32, 16, "resize_bilinear"),
    "a resize of one place": lambda x: resized(mixed(x).reshape(256, 256, 1, 1), 2, 3),
    "a resize with a function fused": lambda x: mixed(x).upsample().tanh(),
    "hidden by integers": lambda x: quantised(x.upsample(), 0.5),
    "hidden by bounds": lambda x: x.upsample().clip(0.125, 4.0),
    "hidden by gains of channels": lambda x: (x.upsample() * GAINS).clip(0.25, 4.0),
    "hidden by the largest": lambda x: x.upsample().amax(3).clip(0.125, 4.0),
    "hidden by another resize": lambda x: x.clip(0.125, 4.0).upsample().upsample(),
}
GAINS = np.array([1.0, 0.5, 0.25, 1.0], np.float16).repeat(4).reshape(1, 16, 1, 1)


@pytest.mark.parametrize("name", EQUAL)
def test_elements_that_keep_their_bits(name: str) -> None:
    y = EQUAL[name](x_of())
    assert answer(y) == (True, False)


DIFFERENT: dict[str, Function] = {
    "anything": lambda x: x.upsample(),
    "zeros of both signs": lambda x: (x.sign() * -0.0).upsample(),
    "numbers below the grid": lambda x: x.clip(0.001, 0.01).upsample(),
    "numbers beyond the edge": lambda x: (mixed(x) * 2.0).abs().upsample(),
    "a sum and a fine number": lambda x: (mixed(x).relu() + 2.0**-17).upsample(),
    "a sum of a coarse and a fine number": lambda x: (mixed(x).clip(0.0, 4.0) + quantised(x, 0.003)).upsample(),
    "a difference of a coarse and a fine number": lambda x: (mixed(x).clip(0.0, 4.0) - quantised(x, 0.003)).upsample(),
    "a product of numbers of the grid": lambda x: (mixed(x).clip(0.0, 4.0) * quarters(x)).upsample(),
    "a difference of zeros": lambda x: (
        quantised(x, 0.25).clip(-1.0, 0.0) * -1.0 - quantised(x, 0.25).abs()
    ).upsample(),
    "a product off the grid": lambda x: (mixed(x) * 0.3).upsample(),
    "integers of a fine scale": lambda x: quantised(x, 0.003).upsample(),
    "a padding off the grid": lambda x: padded(mixed(x), 2.0**-18).upsample(),
    "a scaling": lambda x: operation("conv", {"x": x.reshape(16, 1, 64, 64), "weight": one_weight(0.3)}).upsample(),
    "bounds that show": lambda x: x.upsample().clip(0.01, 4.0),
    "one of two readers": lambda x: x.upsample().clip(0.125, 4.0) + x.upsample() * 0.5,
}


def one_weight(number: float) -> Dense:
    return Dense(np.full((1, 1, 1, 1), number, np.float16))


@pytest.mark.parametrize("name", DIFFERENT)
def test_elements_that_do_not(name: str) -> None:
    y = DIFFERENT[name](x_of())
    assert answer(y) == (False, True)


def test_a_sum_that_starts_below_zero_can_be_a_zero_below() -> None:
    # Of a bias that rounds to −0 and of terms that all do, the sum is −0; times one it is +0.
    for bias, equal in ((0.0, True), (-0.0, False), (-(2.0**-18), False), (-(2.0**-16), True)):
        y = mixed(x_of(), bias).upsample()
        found = divergence(y, MULTIPLIES, READS).verdict is Strength.NONE
        assert found is equal, bias


def test_what_leaves_between_is_not_hidden() -> None:
    up = x_of().upsample()
    assert answer(af.Graph({"y": up.clip(0.125, 4.0)})) == (True, False)
    assert answer(af.Graph({"y": up.clip(0.125, 4.0), "up": up})) == (False, True)


def test_ranges_of_inputs_count() -> None:
    x = x_of((1, 2, 4, 4))
    for bounds, equal in (((0.0625, 4.0), True), ((0.0, 4.0), False), ((1.0, 40000.0), False)):
        found = divergence(x.upsample(), MULTIPLIES, READS, ranges={"x": bounds})
        assert (found.verdict is Strength.NONE) is equal


def test_the_softmax_of_one_is_one() -> None:
    x = x_of((1, 1, 40, 96))
    y = x.sum(-1).square()
    assert divergence(y, "h13", "h14").verdict is Strength.ROUND1
    assert divergence(y.softmax(1), "h13", "h14").verdict is Strength.NONE
    assert not shows(y.softmax(1), ("h13", "h14"), every_number((1, 1, 40, 96)))
    assert all(share_of_one_is_one(resolve(target)) for target in {one for pair in PAIRS for one in pair})


@pytest.mark.parametrize(("bounded", "idle"), [("relu", True), ("abs", True), ("clip", False)])
def test_bounds_that_change_nothing_are_copies(bounded: str, idle: bool) -> None:  # noqa: FBT001 - a parameter of tests
    # Of a square all bounds from below are idle; those from above are not.
    squares = x_of((1, 2, 4, 100)).sum(-1).square()
    y = squares.clip(0.0, 9.0) if bounded == "clip" else getattr(squares, bounded)()
    program = build_program(af.Graph({"y": y + squares}), READS)
    found = judge_program(program, flow(program, {}).ranges, Hiding(), weights=True)
    assert bool(found.idle) is idle
