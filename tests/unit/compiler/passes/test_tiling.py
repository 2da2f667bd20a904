"""Parts of constants, of epilogues and of layers: what each holds, and that together they are the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes import layer_maker
from aneforge.compiler.passes.constant_parts import constant_part
from aneforge.compiler.passes.cuts import cut_along
from aneforge.compiler.passes.epilogues import axis_after_epilogue, unfuse
from aneforge.compiler.passes.tiling import cut_layer, even_parts, full_parts
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.shapes import broadcast
from aneforge.ops.table import ops
from aneforge.targets import resolve
from aneforge.testing.graphs import DrawnGraph, one_operation
from legalisation_tools import (
    assert_same_meaning,
    constant,
    convolution,
    decide,
    inputs_of,
    layer,
    program_of,
    results,
    stage,
    value,
)
from program_tools import lowered

PLACES = np.arange(4 * 6 * 2).reshape(4, 6, 2)
ENCODED: dict[str, Constant] = {
    "dense": Dense(PLACES.astype(np.float16)),
    "int8 by rows": Int8Affine(
        (PLACES % 100).astype(np.int8), np.arange(1, 5).astype(np.float16), np.arange(4).astype(np.int8)
    ),
    "int8 by columns": Int8Affine((PLACES % 100).astype(np.int8), np.arange(1, 7).astype(np.float16), axis=1),
    "int8 with one scale": Int8Affine((PLACES % 100).astype(np.int8), np.array([0.5], np.float16)),
    "palette": Palette((PLACES % 4).astype(np.uint8), np.arange(4).astype(np.float16), 2),
    "sparse": Sparse(PLACES % 3 == 1, PLACES[PLACES % 3 == 1].astype(np.float16)),
    "blockwise": Blockwise(
        (PLACES % 7).astype(np.int8),
        np.arange(1, 7).reshape(2, 3, 1).astype(np.float16),
        np.arange(6).reshape(2, 3, 1).astype(np.int8),
    ),
}


@pytest.mark.parametrize("name", ENCODED)
@given(data=st.data())
def test_a_part_of_a_constant_is_that_of_its_numbers_in_its_encoding(name: str, data: st.DataObject) -> None:
    whole = ENCODED[name]
    axis = data.draw(st.integers(0, 2))
    begin = data.draw(st.integers(0, whole.type.shape[axis] - 1))
    size = data.draw(st.integers(1, whole.type.shape[axis] - begin))
    part = constant_part(whole, axis, begin, size)
    assert part.encoding == whole.encoding
    np.testing.assert_array_equal(part.dense(), np.take(whole.dense(), range(begin, begin + size), axis))


@given(extent=st.integers(1, 300), count=st.integers(1, 20))
def test_parts_of_an_axis_follow_one_another(extent: int, count: int) -> None:
    for parts in (even_parts(extent, min(count, extent)), full_parts(extent, count)):
        assert parts[0].begin == 0
        assert [one.begin + one.size for one in parts] == [*(one.begin for one in parts[1:]), extent]
    sizes = [one.size for one in even_parts(extent, min(count, extent))]
    assert max(sizes) - min(sizes) <= 1


def test_an_axis_is_followed_through_the_epilogue() -> None:
    turned = stage("transpose", perm=(0, 2, 3, 1))
    plain = convolution(value("x", 1, 2, 4, 4), constant(3, 2, 1, 1), epilogue=Epilogue(transpose=turned))
    assert [axis_after_epilogue(plain, axis) for axis in range(4)] == [0, 3, 1, 2]
    remap = stage("resize", size=(8, 8), mode="NEAREST")
    spread = stage("broadcast", shape=(2, 3, 8, 8))
    mixed = convolution(
        value("x", 1, 2, 4, 4), constant(3, 2, 1, 1), epilogue=Epilogue(texture=remap, broadcast=spread)
    )
    assert [axis_after_epilogue(mixed, axis) for axis in range(4)] == [None, 1, None, None]


def test_every_slot_is_cut_with_its_layer() -> None:
    epilogue = Epilogue(
        texture=stage("resize", size=(6, 6), mode="NEAREST"),
        broadcast=stage("broadcast", shape=(2, 4, 6, 6)),
        pre_activation=stage("tanh"),
        gain_offset=stage("gain_offset_control", {"gain": constant(4), "offset": constant()}, axis=-3),
        post_activation=stage("relu"),
        transpose=stage("transpose", perm=(1, 0, 3, 2)),
        quantise=stage(
            "quant",
            {"scale": constant(4, seed=9), "zero_point": Dense(np.zeros(4, np.int8))},
            output_dtype="int8",
            axis=0,
        ),
    )
    one = convolution(value("x", 1, 2, 3, 3), constant(4, 2, 1, 1), epilogue=epilogue)
    cut = cut_along(one, 1)
    assert cut is not None
    before = program_of("h16g", one)
    after = program_of("h16g", *cut_layer(one, cut, full_parts(4, 3), "part", resolve("h16g")))
    assert [len(list(piece.epilogue)) for piece in after.layers] == [7, 7, 0]
    assert_same_meaning(before, after, inputs_of(before))


def test_an_epilogue_is_the_layers_that_it_stands_for() -> None:
    epilogue = Epilogue(
        pre_activation=stage("tanh"),
        gain_offset=stage("gain_offset_control", {"gain": constant(4)}, axis=1),
        transpose=stage("transpose", perm=(0, 2, 1)),
    )
    one = layer("add", {"x": value("x", 2, 4, 3), "y": value("z", 2, 4, 3)}, "y", epilogue=epilogue)
    before = program_of("h16g", one)
    for slots, count in ((tuple(Slot), 4), ([Slot.TRANSPOSE], 2), ([Slot.QUANTISE], 1), ([Slot.GAIN_OFFSET], 3)):
        pieces = unfuse(one, slots)
        assert (len(pieces), pieces[-1].name) == (count, "y")
        assert_same_meaning(before, program_of("h16g", *pieces), inputs_of(before), 0)


ELEMENTWISE = [kind for kind in kinds().values() if kind.is_elementwise]


@pytest.mark.parametrize("name", sorted(str(kind.op) for kind in ELEMENTWISE))
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_elementwise_kinds_broadcast_their_operands(name: str, data: st.DataObject) -> None:
    drawn = data.draw(one_operation(ops()[name]))
    for one in lowered(drawn.graph).layers:
        if one.kind.is_elementwise:
            assert broadcast(*(ref.type for _, ref in one.refs())) == one.result.shape


CUTTABLE = sorted(
    kind.op
    or {"convolution": "conv", "deconvolution": "conv_transpose", "matmul": "matmul", "resize": "resize"}.get(
        kind.name, "adds"
    )
    for kind in kinds().values()
    if not kind.bridge and (kind.op is None or kind.op in ops())
)


@pytest.mark.parametrize("name", CUTTABLE)
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_cut_gives_the_whole_again(name: str, data: st.DataObject) -> None:
    drawn: DrawnGraph = data.draw(one_operation(ops()[name]))
    before = lowered(drawn.graph, "h16g")
    for place, one in enumerate(before.layers):
        for axis, extent in enumerate(one.core_types[0].shape):
            cut = cut_along(one, axis) if extent > 1 and len(one.results) == 1 else None
            if cut is None or extent // cut.granule < 2:
                continue
            parts = [
                type(part)(part.begin * cut.granule, part.size * cut.granule)
                for part in even_parts(extent // cut.granule, 2)
            ]
            if any(along.part(part).size == 0 for along in cut.operands.values() for part in parts):
                continue
            pieces = cut_layer(one, cut, parts, "part", before.target)
            after = before.with_layers([*before.layers[:place], *pieces, *before.layers[place + 1 :]])
            for left, right in zip(results(before, drawn.inputs), results(after, drawn.inputs), strict=True):
                np.testing.assert_allclose(right, left, rtol=1e-12, atol=1e-12)


def test_joins_say_nothing_of_places_where_it_is_decided_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one = layer("relu", {"x": value("x", 4, 4)}, "y")
    cut = cut_along(one, 0)
    assert cut is not None
    for decided, choices in ((True, {"in_place": True}), (False, {})):
        decide(monkeypatch, layer_maker, parts_are_written_in_place=decided)
        assert cut_layer(one, cut, even_parts(4, 2), "part", resolve("h16g"))[-1].choices == choices
