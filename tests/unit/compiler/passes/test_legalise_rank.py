"""Ranks: axes are merged where a layer treats neighbours alike, and refused where it does not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes.legalise_rank import LegaliseRank
from aneforge.errors import IllegalGraphError, NotSupportedError
from legalisation_tools import (
    assert_same_meaning,
    changed,
    constant,
    inputs_of,
    layer,
    legalised,
    program_of,
    stage,
    value,
)
from program_tools import lowered

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.layer import Layer, Value

RANK_6 = (2, 3, 2, 2, 4, 1)


def test_what_has_few_axes_stays() -> None:
    program = lowered(af.input((1, 2, 3, 4)).relu(), "h13")
    assert not LegaliseRank()(program).modified


@pytest.mark.parametrize(
    ("shape", "other"),
    [
        ((2, 2, 3, 4, 5), (2, 2, 3, 5, 6)),
        ((2, 2, 3, 4, 5), (5, 6)),
        ((2, 2, 3, 4, 5), (1, 1, 3, 5, 6)),
        ((1, 1, 1, 4, 5), (1, 1, 1, 5, 6)),
    ],
)
def test_products_of_rank_5_become_products_of_fewer_axes(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    lhs, rhs = value("a", *shape), value("b", *other)
    before = program_of("h13", layer("matmul", {"lhs": lhs, "rhs": rhs}, "y"))
    after = LegaliseRank()(before).program
    (product,) = [one for one in after.layers if one.kind.name == "matmul"]
    assert product.result.rank <= 4
    assert_same_meaning(before, after, inputs_of(before), 1e-12)


def test_a_product_is_merged_too_where_no_source_gives_its_limit() -> None:
    target = af.targets.resolve("h17s")
    assert "matmul_max_rank" not in target.limits
    lhs = value("a", 2, 2, 3, 4, 5)
    after = LegaliseRank()(program_of(target, layer("matmul", {"lhs": lhs, "rhs": value("b", 5, 2)}, "y"))).program
    assert [one.kind.name for one in after.layers] == ["reshape", "matmul", "reshape"]


def test_linear_layers_have_a_limit_of_their_own() -> None:
    weight = constant(3, 4)
    before = program_of("h16g", layer("linear", {"x": value("x", 1, 2, 2, 2, 4), "weight": weight}, "y"))
    after = LegaliseRank()(before).program
    assert [one.result.rank for one in after.layers] == [4, 4, 5]
    assert_same_meaning(before, after, inputs_of(before), 1e-12)


EXACT = {"relu", "transpose", "slice", "concat"}
CASES: dict[str, Callable[[Value], Layer]] = {
    "relu": lambda x: layer("relu", {"x": x}, "y"),
    "sum": lambda x: layer("reduce_sum", {"x": x}, "y", axes=(1, 2), keep_dims=True),
    "sum of a single place": lambda x: layer("reduce_l1_norm", {"x": x}, "y", axes=(5,), keep_dims=False),
    "softmax": lambda x: layer("softmax", {"x": x}, "y", axis=-2),
    "transpose": lambda x: layer("transpose", {"x": x}, "y", perm=(0, 1, 3, 4, 2, 5)),
    "slice": lambda x: layer("slice", {"input": x}, "y", begin=(0, 1, 0, 0, 1, 0), size=(2, 2, 2, 2, 3, 1)),
    "concat": lambda x: layer("concat", {"values": (x, x)}, "y", axis=4),
    "gain": lambda x: layer("gain_offset_control", {"input": x, "gain": constant(4)}, "y", axis=4),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_on_merged_axes_mean_the_same(name: str) -> None:
    source = value("x", 12, 2, 4, 1)
    wide = layer("reshape", {"x": source}, "wide", shape=RANK_6)
    one = CASES[name](wide.result)
    narrow = layer("reshape", {"x": one.result}, "narrow", shape=(one.result.type.size,))
    before = program_of("h13", wide, one, narrow)
    after = LegaliseRank()(before).program
    assert max(result.rank for made in after.layers for result in made.results) <= 5
    assert_same_meaning(before, after, inputs_of(before), 0 if name in EXACT else 1e-12)
    assert not LegaliseRank()(after).modified


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shape=st.lists(st.integers(1, 3), min_size=6, max_size=8), data=st.data())
def test_transposes_of_any_rank_are_merged_or_refused(shape: list[int], data: st.DataObject) -> None:
    perm = data.draw(st.permutations(range(len(shape))))
    size = math.prod(shape)
    wide = layer("reshape", {"x": value("x", size)}, "wide", shape=tuple(shape))
    turned = layer("transpose", {"x": wide.result}, "turned", perm=tuple(perm))
    narrow = layer("reshape", {"x": turned.result}, "narrow", shape=(size,))
    before = program_of("h13", wide, turned, narrow)
    after = legalised(before, [LegaliseRank()])
    if after is not None:
        assert_same_meaning(before, after, inputs_of(before), 0)


def test_an_epilogue_of_too_many_axes_becomes_layers() -> None:
    wide = layer("reshape", {"x": value("x", 24, 4)}, "wide", shape=RANK_6)
    epilogue = Epilogue(post_activation=stage("tanh"), transpose=stage("transpose", perm=(0, 1, 3, 2, 4, 5)))
    total = layer("add", {"x": wide.result, "y": wide.result}, "total", epilogue=epilogue)
    narrow = layer("reshape", {"x": total.result}, "narrow", shape=(96,))
    before = program_of("h13", wide, total, narrow)
    after = LegaliseRank()(before).program
    assert {"add", "tanh", "transpose"} <= {one.kind.name for one in after.layers}
    assert [note.layer for note in after.notes] == ["total"]
    assert_same_meaning(before, after, inputs_of(before), 0)


def test_what_treats_every_axis_differently_is_refused() -> None:
    wide = layer("reshape", {"x": value("x", 64)}, "wide", shape=(2,) * 6)
    turned = layer("transpose", {"x": wide.result}, "turned", perm=(5, 4, 3, 2, 1, 0))
    narrow = layer("reshape", {"x": turned.result}, "narrow", shape=(64,))
    with pytest.raises(
        IllegalGraphError, match=r"ANE-RANK-001 reject: transpose .* more of its axes have different roles"
    ):
        LegaliseRank()(program_of("h13", wide, turned, narrow))


DIFFERENT: dict[str, Callable[[Value, Value], Layer]] = {
    "add": lambda x, y: layer("add", {"x": x, "y": y}, "y"),
    "sum": lambda x, _: layer("reduce_sum", {"x": x}, "y", axes=(0, 2, 4), keep_dims=True),
    "slice": lambda x, _: layer("slice", {"input": x}, "y", begin=(0, 1, 0, 1, 0, 1), size=(2, 1, 2, 1, 2, 1)),
    "reverse": lambda x, _: layer("reverse", {"x": x}, "y", axes=(0,)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_layers_that_treat_axes_differently_are_refused(name: str) -> None:
    wide = layer("reshape", {"x": value("x", 64)}, "wide", shape=(2, 2, 2, 2, 2, 2))
    other = layer("reshape", {"x": value("z", 8)}, "other", shape=(2, 1, 2, 1, 2, 1))
    one = DIFFERENT[name](wide.result, other.result)
    narrow = layer("reshape", {"x": one.result}, "narrow", shape=(one.result.type.size,))
    program = program_of("h13", wide, other, one, narrow, outputs=[narrow.result])
    with pytest.raises(IllegalGraphError, match=r"ANE-RANK-001 .* more of its axes have different roles"):
        LegaliseRank()(program)


MIDDLE: dict[str, Callable[[Value], Layer]] = {
    "softmax": lambda x: layer("softmax", {"x": x}, "y", axis=1),
    "concat": lambda x: layer("concat", {"values": (x, x)}, "y", axis=1),
    "interleaved": lambda x: layer("concat", {"values": (x, x)}, "y", axis=0, interleave=True),
}


@pytest.mark.parametrize("name", MIDDLE)
def test_two_axes_are_too_few_for_work_along_a_middle_one(name: str) -> None:
    wide = layer("reshape", {"x": value("x", 8)}, "wide", shape=(2, 2, 2))
    one = MIDDLE[name](wide.result)
    narrow = layer("reshape", {"x": one.result}, "narrow", shape=(one.result.type.size,))
    with pytest.raises(IllegalGraphError, match="ANE-RANK-001"):
        LegaliseRank()(program_of(changed("h13", max_rank=2), wide, one, narrow))


def test_a_vector_has_no_batch_to_merge() -> None:
    one = layer("matmul", {"lhs": value("a", 2, 2, 3, 4, 5), "rhs": value("b", 5)}, "y")
    with pytest.raises(NotSupportedError, match="its operands differ in them"):
        LegaliseRank()(program_of("h13", one))


def test_batches_that_broadcast_in_turns_are_refused() -> None:
    one = layer("matmul", {"lhs": value("a", 2, 1, 3, 4, 5), "rhs": value("b", 1, 2, 1, 5, 6)}, "y")
    with pytest.raises(NotSupportedError, match="its operands differ in them") as caught:
        LegaliseRank()(program_of("h13", one))
    assert (caught.value.operation, caught.value.limit, caught.value.target) == ("matmul", "4 axes", "h13")


def test_an_input_of_too_many_axes_is_refused() -> None:
    with pytest.raises(IllegalGraphError, match=r"ANE-RANK-001 .* it is input 'x'"):
        LegaliseRank()(program_of("h13", layer("relu", {"x": value("x", 1, 1, 1, 1, 1, 2)}, "y")))


def test_the_limit_is_the_targets() -> None:
    x = layer("reshape", {"x": value("x", 4, 6)}, "wide", shape=(2, 2, 2, 3))
    program = program_of("h13", x, layer("relu", {"x": x.result}, "y"))
    assert not LegaliseRank()(program).modified
    flat = layer("reshape", {"x": value("y", 2, 2, 2, 3)}, "z", shape=(24,))
    assert LegaliseRank()(program_of(changed("h13", max_rank=3), *program.layers, flat)).modified
    unknown = program_of(changed("h13", max_rank=None), *program.layers)
    assert not LegaliseRank()(unknown).modified
