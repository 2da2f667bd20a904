"""What gathered elements pass, which numbers values can hold, and that nothing is wrongly said to be equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.divergence.arithmetic import arithmetic_of_layer
from aneforge.analysis.divergence.gathering import gather_of, list_resized_places
from aneforge.analysis.divergence.graphs import Strength, divergence
from aneforge.analysis.divergence.passages import EVERY, Passage, find_kept, pass_numbers
from aneforge.analysis.divergence.possible import MOST_LAYERS_BACK, Possible, mask_of
from aneforge.analysis.ranges.program_ranges import flow
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import prepare
from aneforge.engine.planar import read
from aneforge.ops.attributed import AttributeReader
from aneforge.ops.constant import Dense
from divergence_tools import PAIRS, SLOW
from gathering_tools import MULTIPLIES, READS, SHAPE, TELLING, mixed, operation, quantised, resized, shows, x_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.program import Program

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float16]]
    Function = Callable[[af.Tensor], af.Tensor]


def test_passages_are_what_the_engine_does() -> None:
    x = EVERY.reshape(SHAPE)
    up = prepare(build_program(x_of().upsample(), MULTIPLIES)).run({"x": x}).outputs
    (multiplied,) = (array[:, :, ::2, ::2] for array in up.values())
    assert multiplied.tobytes() == pass_numbers(Passage.SUM, x).tobytes()
    (copied,) = prepare(build_program(x_of().upsample(), READS)).run({"x": x}).outputs.values()
    assert copied[:, :, 1::2, ::2].tobytes() == pass_numbers(Passage.COMPUTED, x).tobytes()
    alone = resized(x_of().reshape(-1, 1, 1, 1), 1, 2)
    (scaled,) = prepare(build_program(alone, MULTIPLIES)).run({"x": x}).outputs.values()
    assert scaled[..., 0].tobytes() == pass_numbers(Passage.COMPUTED, x).tobytes()


def test_what_sums_keep() -> None:
    wide = np.where(np.isnan(EVERY), np.inf, EVERY.astype(np.float64))
    multiples = np.isfinite(wide) & (np.round(wide * 2**16) == wide * 2**16) & (np.abs(wide) < 2**15)
    expected = (multiples & ~((wide == 0) & np.signbit(wide))) | np.isinf(EVERY)
    assert np.array_equal(find_kept(Passage.SUM), expected)
    assert np.array_equal(find_kept(Passage.COMPUTED), ~np.isnan(EVERY))


@pytest.mark.parametrize("passage", Passage)
def test_passages_keep_the_order_of_numbers(passage: Passage) -> None:
    order = np.argsort(read(EVERY), kind="stable")
    numbers, behind = read(EVERY)[order], pass_numbers(passage, EVERY[order])
    rises = np.diff(read(behind))
    assert (rises >= 0).all()
    # What becomes one number has one pattern, so that it does not matter which of them is chosen.
    merged = (rises == 0) & (np.diff(numbers) > 0)
    assert (behind[1:][merged].view(np.uint16) == behind[:-1][merged].view(np.uint16)).all()


@pytest.mark.parametrize("size", [(2, 3), (5, 4), (1, 1), (7, 2), (4, 6)])
def test_gathered_places_are_the_elements(size: tuple[int, int]) -> None:
    shape = (1, 2, 2, 3)
    y = resized(x_of(shape), *size)
    x = np.arange(1.0, 13.0, dtype=np.float16).reshape(shape)
    for target in (MULTIPLIES, READS):
        program = build_program(y, target)
        gathers = [gather for layer in program.layers if (gather := gather_of(layer, program.target)) is not None]
        (result,) = prepare(program).run({"x": x}).outputs.values()
        assert {float(one) for one in result.reshape(-1)} <= {float(one) for one in x.reshape(-1)}
        if len(program.layers) == 1 and gathers:
            assert np.array_equal(x.reshape(-1)[gathers[0].places], result.reshape(-1))


def test_a_resize_between_elements_is_no_gathering() -> None:
    attributes = {"size": (4,), "mode": "LINEAR", "sampling": "DEFAULT"}
    assert list_resized_places(AttributeReader(attributes), (2, 2)) is None
    assert list_resized_places(AttributeReader({**attributes, "size": (1, 2)}), (2, 2)).tolist() == [0, 1]  # pyright: ignore[reportOptionalMemberAccess] - it is there


def test_products_that_choose_no_single_element_are_no_gatherings() -> None:
    def chosen(*rows: tuple[float, ...]) -> bool:
        weight = Dense(np.array(rows, np.float16).reshape(len(rows), -1, 1, 1))
        program = build_program(operation("conv", {"x": x_of((1, 2, 3, 4)), "weight": weight}), MULTIPLIES)
        return any(gather_of(layer, program.target) is not None for layer in program.layers)

    assert chosen((0.0, 1.0), (1.0, 0.0), (0.0, 1.0))
    assert not chosen((1.0, 1.0))
    assert not chosen((0.0, 0.0), (1.0, 0.0))
    assert not chosen((0.0, -1.0))
    assert not chosen((0.0, 0.5))


# What values can hold.


def possible(program: Program) -> Possible:
    """Return what the values of a program as it is can hold."""
    ranges = flow(program, {}).ranges
    arithmetics = {layer.name: arithmetic_of_layer(layer, program, ranges) for layer in program.layers}
    gathers = {layer.name: gather_of(layer, program.target) for layer in program.layers}
    passages = {name: gather.passage for name, gather in gathers.items() if gather is not None}
    return Possible(program, arithmetics, passages, ranges, follows_ranges=True)


def test_a_long_way_back_is_not_walked() -> None:
    y = mixed(x_of((1, 2, 4, 4)))
    for _ in range(MOST_LAYERS_BACK + 1):
        y = af.maximum(y, y.reverse((0,)))
    assert divergence(y.upsample(), MULTIPLIES, READS).verdict is Strength.ROUNDINGS


def test_ranges_of_many_values_read_all_numbers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def counted(values: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        lengths.append(values.size)
        return read(values)

    monkeypatch.setattr("aneforge.analysis.divergence.possible.read", counted)
    y = mixed(x_of((1, 2, 4, 4)))
    for _ in range(8):
        y = af.maximum(y, y.reverse((0,)))
    program = build_program(y, MULTIPLIES)
    sets = possible(program)
    for layer in program.layers:
        sets.of(layer.result)
    assert lengths.count(EVERY.size) <= 1


@st.composite
def chains(draw: st.DrawFn) -> af.Tensor:
    """Draw what may come before and after a resize."""
    y = x_of((1, 2, 2, 3))
    steps: list[Function] = [
        mixed,
        lambda y: mixed(y, draw(st.sampled_from([-0.0, 0.25, -(2.0**-18), 40000.0]))),
        lambda y: quantised(y, draw(st.sampled_from([0.25, 0.003, 300.0]))),
        lambda y: y.clip(*draw(st.sampled_from([(-1.0, 1.0), (0.0, 0.02), (0.0625, 40000.0), (-0.0, 5.0)]))),
        lambda y: y * draw(st.sampled_from([2.0, -1.0, 0.3, 0.0, -0.0, 2.0**-10])),
        lambda y: y + draw(st.sampled_from([1.0, -0.0, 2.0**-17, 32768.0])),
        lambda y: operation(
            "pad", {"x": y}, {"pad": (0, 1, 0, 0), "constant_val": draw(st.sampled_from([-0.0, 1e-6]))}
        ),
        lambda y: draw(st.sampled_from([y.relu, y.abs, y.sign, y.tanh, y.square, y.exp, y.sqrt, y.floor]))(),
        lambda y: af.maximum(y, y.abs()) if draw(st.booleans()) else y - y.relu(),
        lambda y: y.transpose(0, 1, 3, 2),
        lambda y: y.slice_by_size((0, 0, 0, 1), (*y.shape[:3], y.shape[3] - 1)) if y.shape[3] > 1 else y,
        lambda y: y.amax(draw(st.sampled_from([1, 3]))),
        lambda y: y.softmax(1),
        lambda y: resized(y, draw(st.integers(1, 5)), draw(st.integers(1, 5))),
        lambda y: resized(y, y.shape[2], 2 * y.shape[3], "resize_bilinear"),
        lambda y: y.upsample(),
    ]
    before = draw(st.lists(st.sampled_from(steps), max_size=4))
    behind = draw(st.lists(st.sampled_from(steps), max_size=4))
    for step in [*before, steps[-1], *behind]:
        y = step(y) if np.prod(y.shape) < 300 else y
    return y


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(chains(), st.sampled_from(PAIRS), st.integers(0, 2**32 - 1))
def test_no_bit_differs_where_none_was_said(y: af.Tensor, pair: tuple[str, str], seed: int) -> None:
    generator = np.random.default_rng(seed)
    drawn = [generator.choice(numbers, (1, 2, 2, 3)) for numbers in (TELLING, TELLING, EVERY, EVERY)]
    try:
        verdict = divergence(y, *pair).verdict
    except af.errors.IllegalGraphError:
        reject()  # a largest element times 0 does not compile on some targets
    if verdict is Strength.NONE:
        assert not shows(y, pair, drawn)
    program = build_program(y, pair[0])
    sets = possible(program)
    for x in (np.where(np.isfinite(one), one, one.dtype.type(1)) for one in drawn):  # ranges are those of finite inputs
        run = prepare(program).run({"x": x}, keep=True)
        for layer in program.layers:
            if len(layer.results) == 1 and layer.result.type.dtype == "fp16":
                assert sets.of(layer.result)[mask_of(run.values[layer.name])].all(), layer.name
