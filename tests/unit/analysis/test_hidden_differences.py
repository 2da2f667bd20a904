"""Crops that nothing shows and layers that were cut and joined again: proven equal, and near cases that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.divergence.graphs import Cause, Difference, Strength, divergence
from aneforge.analysis.divergence.hiding import MOST_LAYERS
from aneforge.analysis.divergence.numbering import BY_ROWS, Numbering
from aneforge.analysis.divergence.passages import Passage, pass_numbers
from aneforge.analysis.ranges.program_ranges import flow
from aneforge.compiler.compile import build_program
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.execution.run import prepare
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.analysis.divergence.graphs import Divergence

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float16]]
    Function = Callable[[af.Tensor], af.Tensor]

CROPS, COPIES = "h13", "h16s"
CUTS, WHOLE = "h13", "h16s"
CUTS_AND_ADDS_LATE = "h15"
"""It computes on as little as the one, and adds in the order of the other."""
LONG = 17_000
"""Longer than what the one computes on, and not than what the other does."""
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
"""Every fp16 number, NaN included."""


def sliced(width: int = 3) -> af.Tensor:
    x = af.input((1, EVERY.size // 16, 16, width), name="x")
    return x.slice_by_size((0, 0, 0, 1), (1, EVERY.size // 16, 16, 1))


def shows(graph: af.Tensor | af.Graph, pair: tuple[str, str], inputs: Array) -> bool:
    """Return whether two targets differ in a bit."""
    one, other = (prepare(build_program(graph, target)).run({"x": inputs}).outputs for target in pair)
    return any(one[name].tobytes() != other[name].tobytes() for name in one)


def judged(graph: af.Tensor | af.Graph) -> tuple[Strength, bool]:
    """Return the verdict on what is after `sliced`, and whether some fp16 number shows a difference."""
    x = np.repeat(EVERY.reshape(1, -1, 16, 1), 3, axis=3)
    return divergence(graph, CROPS, COPIES).verdict, shows(graph, (CROPS, COPIES), x)


def one(number: float) -> Array:
    return np.full((1,), number, np.float16)


def beyond(y: af.Tensor, number: float) -> af.Tensor:
    return af.Tensor(build("greater", {"x": y, "y": Dense(one(number))}, {})).cast("fp16")


BY_CHANNEL = np.array([1.0, -0.5, 2.0, 0.25], np.float16).reshape(1, 4, 1, 1)


def in_channels(y: af.Tensor) -> af.Tensor:
    return y.reshape(1, 4, EVERY.size // 64, 16)


HIDING: dict[str, Function] = {
    "relu6": lambda y: y.relu6(),
    "tanh": lambda y: y.tanh(),
    "sigmoid": lambda y: y.sigmoid(),
    "clip": lambda y: y.clip(-4094.0, 4094.0),
    "sign": lambda y: y.sign(),
    "erf": lambda y: y.erf(),
    "atan": lambda y: y.atan(),
    "exp": lambda y: y.exp(),
    "hard sigmoid": lambda y: y.sigmoid_hard(0.2, 0.5),
    "scaled tanh": lambda y: y.scaled_tanh(2.0, 0.5),
    "clamped relu": lambda y: y.clamped_relu(0.0, 6.0),
    "two functions": lambda y: y.relu().clip(0.0, 100.0),
    "gain and offset": lambda y: (y * 0.5 - 3.0).clip(-1.0, 1.0),
    "single numbers": lambda y: af.minimum(af.maximum(y, one(-5)), one(5)),
    "a comparison": lambda y: beyond(y, 4000),
    "its square": lambda y: (y * y).clip(0.0, 9.0),
    "another shape": lambda y: y.reshape(-1, 64).transpose(1, 0).tanh(),
    "another slice": lambda y: y.reshape(-1, 64).slice_by_size((0, 1), (EVERY.size // 64, 3)).tanh(),
    "a join": lambda y: af.concat([y, y.relu()], axis=1).tanh(),
    "the largest": lambda y: y.reshape(-1, 64).amax(-1).amin(0).square().clip(0.0, 9.0),
    "several readers": lambda y: y.tanh() + y.sigmoid(),
    "numbers by channel": lambda y: (in_channels(y) * BY_CHANNEL).tanh(),
    "pairs with numbers by channel": lambda y: af.minimum(af.maximum(in_channels(y), -BY_CHANNEL), BY_CHANNEL + 3),
    "less than a number by channel": lambda y: af.maximum((in_channels(y) - BY_CHANNEL).tanh(), BY_CHANNEL),
    "a gain and offset by channel": lambda y: (in_channels(y) * BY_CHANNEL + BY_CHANNEL).tanh(),
}


@pytest.mark.parametrize("name", HIDING)
def test_a_function_hides_what_the_crop_does(name: str) -> None:
    assert judged(HIDING[name](sliced())) == (Strength.NONE, False)


SHOWING: dict[str, Function] = {
    "softsign": lambda y: y.softsign(),
    "inverse": lambda y: y.inverse(),
    "a clip beyond": lambda y: y.clip(-5000.0, 5000.0),
    "a scaled clip": lambda y: (y * 0.001).clip(-10.0, 10.0),
    "a comparison beyond": lambda y: beyond(y, 5000),
    "one of two readers": lambda y: y.tanh() + y.softsign(),
    "one after another": lambda y: y.clip(-5000.0, 5000.0).clip(-4500.0, 4500.0),
    "itself": lambda y: y,
}


@pytest.mark.parametrize("name", SHOWING)
def test_a_function_shows_what_the_crop_does(name: str) -> None:
    assert judged(SHOWING[name](sliced())) == (Strength.SATURATION, True)


def test_a_crop_that_leaves_is_not_hidden() -> None:
    cut = sliced()
    assert judged(af.Graph({"y": cut.tanh(), "cut": cut})) == (Strength.SATURATION, True)
    assert judged(af.Graph({"y": cut.relu().tanh(), "half": cut.relu()})) == (Strength.SATURATION, True)


def test_one_hidden_crop_hides_no_other() -> None:
    cut = sliced()
    other = cut.node.operands["x"]
    assert isinstance(other, af.Tensor)
    again = other.slice_by_size((0, 0, 0, 2), (1, EVERY.size // 16, 16, 1))
    assert judged(cut.tanh() + again.tanh()) == (Strength.NONE, False)
    verdict, shown = judged(cut.tanh() + again.softsign())
    assert (verdict, shown) == (Strength.SATURATION, True)


def test_two_slices_and_a_function() -> None:
    x = af.input((1, EVERY.size // 16, 16, 3), name="x")
    cut = x.slice_by_size((0, 0, 0, 1), (1, EVERY.size // 16, 16, 2)).slice_by_size(
        (0, 0, 0, 1), (1, EVERY.size // 16, 16, 1)
    )
    assert judged(cut.tanh()) == (Strength.NONE, False)
    assert judged(cut) == (Strength.SATURATION, True)


OTHERS: dict[str, Function] = {
    "another operand": lambda y: af.minimum(y, y.tanh()),
    "a sum": lambda y: y.sum(-1),
    "the largest of two sorts": lambda y: af.concat([y, y.tanh()], axis=-1).amax(-1),
    "the largest of what has no order": lambda y: y.cos().amax(-1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_function_of_one_number_is_not_looked_into(name: str) -> None:
    y = OTHERS[name](af.input((1, 4, 4, 8)).slice_by_size((0, 0, 0, 2), (1, 4, 4, 4))).tanh()
    assert divergence(y, CROPS, COPIES).verdict is Strength.SATURATION


def test_only_so_many_layers_are_looked_at() -> None:
    for count, verdict in ((2, Strength.NONE), (MOST_LAYERS + 1, Strength.SATURATION)):
        y = af.input((1, 8), name="x").slice_by_size((0, 2), (1, 4))
        for _ in range(count):
            y = af.maximum(y.abs(), one(0.5)).floor()
        assert divergence(y.tanh(), CROPS, COPIES).verdict is verdict


LINE = (1, 1, 1, LONG)


def long_input(shape: tuple[int, ...] = LINE) -> af.Tensor:
    return af.input(shape, name="x")


def judged_long(graph: af.Tensor, shape: tuple[int, ...] = LINE, cuts: str = CUTS) -> tuple[Divergence, bool]:
    """Return the answer on a graph of one long input, and whether it differs for numbers of all kinds."""
    x = np.random.default_rng(3).choice(EVERY, shape)
    return divergence(graph, cuts, WHOLE), shows(graph, (cuts, WHOLE), x)


CUT: dict[str, tuple[tuple[int, ...], Function]] = {
    "relu": (LINE, lambda x: x.relu()),
    "add": (LINE, lambda x: x + 1.0),
    "gelu": (LINE, lambda x: x.gelu()),
    "two operands": (LINE, lambda x: x * x.tanh() + x),
    "several functions": (LINE, lambda x: (x.gelu() * 2.0 + 1.0).tanh()),
    "an axis in front": ((1, 1, LONG, 2), lambda x: x.sigmoid()),
    "the first axis": ((LONG, 2, 1, 2), lambda x: x.relu()),
    "a long axis of another shape": ((1, 1, LONG, LONG // 1000), lambda x: x.reshape(1, 1, LONG // 1000, LONG).relu()),
    "amax": (LINE, lambda x: x.amax(-1)),
    "amin of two": ((1, 2, 1, LONG), lambda x: x.amin((1, 3))),
    "sum": ((1, 1, 2, LONG), lambda x: x.sum(-1)),
    "a sum of what is cut": ((1, 1, LONG, 4), lambda x: x.sum(-1)),
    "a sum in front of what is cut": ((1, 4, 1, LONG), lambda x: x.sum(1)),
    "a mean of a function": ((1, 4, 1, LONG), lambda x: x.tanh().mean(1)),
}


@pytest.mark.parametrize("name", CUT)
def test_what_was_cut_and_joined_is_the_whole(name: str) -> None:
    shape, function = CUT[name]
    y = function(long_input(shape))
    assert len(build_program(y, CUTS_AND_ADDS_LATE).layers) > len(build_program(y, WHOLE).layers)
    found, shown = judged_long(y, shape, CUTS_AND_ADDS_LATE)
    assert (found.verdict, shown) == (Strength.NONE, False)


def test_a_slice_of_a_long_axis_that_the_crop_changes_is_not() -> None:
    y = long_input().slice_by_size((0, 0, 0, 7), (1, 1, 1, LONG - 7)).relu()
    found, shown = judged_long(y)
    assert (found.verdict, found.findings[0].cause, shown) == (Strength.SATURATION, Cause.CROP, True)


@pytest.mark.parametrize("op", sorted(BY_ROWS))
def test_a_reduction_depends_on_its_rows_alone(op: str) -> None:
    x = np.random.default_rng(5).choice(EVERY, (6, 4, 35, 2))
    found = arithmetic(op, resolve(CUTS))

    def reduced(values: Array, *axes: int) -> bytes:
        return found.compute({"x": values}, {"axes": axes, "keep_dims": True})[0].tobytes()

    whole = reduced(x, 1, 2)
    assert reduced(x.reshape(6, 140, 2), 1) == whole
    assert reduced(x.reshape(6, 10, 2, 7, 2), 1, 2, 3) == whole
    halves = np.frombuffer(reduced(x[:3], 1, 2) + reduced(x[3:], 1, 2), np.float16)
    assert halves.tobytes() == whole
    columns = np.stack([np.frombuffer(reduced(x[..., [place]], 1, 2), np.float16) for place in (0, 1)], axis=-1)
    assert columns.tobytes() == whole


def test_operands_that_broadcast_are_not_those_that_do_not() -> None:
    # Both add the same column and row; only in the second are they of one shape.
    column, row = af.input((4, 1), name="column"), af.input((4,), name="row")
    graph = af.Graph({"table": column + row, "sums": column + row.reshape(4, 1)})
    assert divergence(graph, "h13", "h16").verdict is Strength.NONE
    program = build_program(graph, "h13")
    numbering = Numbering()
    numbers = numbering.program(program, flow(program, {}).ranges).leaving()
    assert len(set(numbers.values())) == 2


def test_the_reason_of_a_split_is_no_note_on_routes() -> None:
    y = long_input((1, 3, 1, LONG)) * np.arange(1, 4, dtype=np.float16).reshape(1, 3, 1, 1)
    found = divergence(y, CUTS, WHOLE)
    (finding,) = found.findings
    assert (finding.cause, finding.strength) == (Cause.SPLIT, Strength.ROUNDINGS)
    assert finding.detail.startswith("became 2 parts, with 5 layers that cut and join")


def test_zeros_differ_at_most_in_their_sign() -> None:
    def text(bound: float) -> str:
        finding = Difference(
            "t1",
            "relu",
            None,
            Strength.ROUNDINGS,
            Cause.SPLIT,
            bound,
            on_engine=True,
            template="why",
            targets=("a", "b"),
        )
        return str(finding)

    assert text(0.0) == "roundings: t1 relu: split, differs at most in the sign of zero (why)"
    assert text(0.5) == "roundings: t1 relu: split, differs by at most 0.5 (why)"
    assert text(float("nan")) == "roundings: t1 relu: split (why)"


def test_crops_of_many_steps_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(passage: Passage, numbers: Array) -> Array:
        asked.append(numbers.size)
        return pass_numbers(passage, numbers)

    monkeypatch.setattr("aneforge.analysis.divergence.hiding.pass_numbers", counted)
    x, state = af.input((1, 24), name="x"), af.input((1, 4), name="state")
    for step in range(6):
        state = (x.slice_by_size((0, 4 * step), (1, 4)).sigmoid() + state).tanh()
    assert divergence(state, CROPS, COPIES).verdict is Strength.NONE
    assert len(asked) == 1
