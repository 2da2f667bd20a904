"""Encoded weights: they stream, fold or are unknown, as the target's data says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.compiler.passes.choose_weight_stream import ChooseWeightStream
from aneforge.errors import DataFileError
from aneforge.ops.constant import Blockwise, Constant, Int8Affine, Palette, Sparse
from aneforge.targets import resolve
from legalisation_tools import assert_same_meaning, changed, constant, convolution, inputs_of, layer, program_of, value

if TYPE_CHECKING:
    from aneforge.targets import TargetLike
    from golden_text import Golden
    from legalisation_tools import Given


def encoded(encoding: str, *shape: int) -> Constant:
    """Return weights in an encoding."""
    places = np.arange(np.prod(shape)).reshape(shape)
    match encoding:
        case "int8":
            scale = (np.arange(shape[0]) + 1).astype(np.float16) / 8
            return Int8Affine((places * 37 % 101 - 50).astype(np.int8), scale)
        case "sparse":
            mask = places % 3 == 0
            return Sparse(mask, (places[mask] % 7 - 3).astype(np.float16))
        case "blockwise":
            return Blockwise(
                (places % 11 - 5).astype(np.int8), np.full((shape[0], *(1,) * (len(shape) - 1)), 0.5, np.float16)
            )
        case _:
            bits = int(encoding.removeprefix("palette"))
            return Palette((places % (1 << bits)).astype(np.uint8), np.arange(1 << bits).astype(np.float16), bits)


def chosen(target: TargetLike, encoding: str) -> object:
    """Return what is chosen for a linear layer of weights in an encoding."""
    one = layer("linear", {"x": value("x", 1, 4), "weight": encoded(encoding, 8, 4)}, "y")
    return ChooseWeightStream()(program_of(target, one)).program.layers[0].choices["weights"]


@pytest.mark.parametrize(
    ("encoding", "by_family"),
    [
        ("palette4", ["streams", "streams", "streams", "streams"]),
        ("sparse", ["streams", "streams", "streams", "streams"]),
        ("int8", ["folds", "streams", "streams", "streams"]),
        ("blockwise", ["folds", "folds", "streams", "streams"]),
        ("palette8", ["unknown"] * 4),
        ("palette2", ["unknown"] * 4),
    ],
)
def test_rows_of_table_35_4(encoding: str, by_family: list[str]) -> None:
    assert [chosen(target, encoding) for target in ("h13", "h14", "h15", "h16s")] == by_family


def test_folding_is_visible_and_loses_nothing(golden: Golden) -> None:
    one = layer("linear", {"x": value("x", 1, 4), "weight": encoded("int8", 8, 4)}, "y")
    before = program_of("h13", one)
    after = ChooseWeightStream()(before).program
    assert_same_meaning(before, after, inputs_of(before), 0)
    golden(str(after))


def test_an_encoding_without_a_verdict_stays() -> None:
    one = layer("linear", {"x": value("x", 1, 4), "weight": encoded("palette2", 8, 4)}, "y")
    made = ChooseWeightStream()(program_of("h13", one)).program
    assert made.layers[0].weight("weight") is one.weight("weight")
    assert "no source says whether palette2 weights stream" in made.notes[0].text
    assert not ChooseWeightStream()(made).modified


@pytest.mark.parametrize(
    ("attributes", "kernel", "words"),
    [
        ({"strides": (2, 2)}, 1, "unit stride"),
        ({"dilation_rates": (2, 2)}, 3, "no dilation"),
        ({"strides": (2, 1), "dilation_rates": (1, 2)}, 3, "unit stride, no dilation"),
    ],
)
def test_what_a_layer_lacks_for_streaming_is_said(attributes: Given, kernel: int, words: str) -> None:
    one = convolution(value("x", 1, 4, 8, 8), encoded("palette4", 8, 4, kernel, kernel), **attributes)
    made = ChooseWeightStream()(program_of("h13", one)).program
    assert made.layers[0].choices["weights"] == "folds"
    assert made.notes[0].text == f"palette4 weights fold to dense fp16: streaming needs {words}"


def test_tiles_that_overlap_do_not_stream() -> None:
    kernel = encoded("palette4", 8, 1, 3, 3)
    for height, fate in ((8, "streams"), (2048, "folds")):
        one = convolution(value("x", 1, 1, height, 1024), kernel, explicit_padding=(1, 1, 1, 1))
        assert ChooseWeightStream()(program_of("h13", one)).program.layers[0].choices["weights"] == fate
    pointwise = convolution(value("x", 1, 1, 2048, 1024), encoded("palette4", 8, 1, 1, 1))
    assert ChooseWeightStream()(program_of("h13", pointwise)).program.layers[0].choices["weights"] == "streams"


def test_the_streams_and_the_master_switch_are_the_targets() -> None:
    m1 = resolve("h13")
    assert chosen(replace(m1, streams={**m1.streams, "int8": resolve("h14").streams["int8"]}), "int8") == "streams"
    assert chosen(replace(m1, streams={}), "sparse") == "unknown"
    assert chosen(changed("h13", kernel_streaming=None), "sparse") == "unknown"


def test_a_condition_that_nothing_checks_is_an_error_of_the_data() -> None:
    target = changed("h13", streaming_preconditions=("unit stride", "a full moon"))
    with pytest.raises(DataFileError, match="streaming_preconditions: nothing checks a full moon"):
        chosen(target, "sparse")


def test_weights_that_layers_share_stay_shared() -> None:
    weights = encoded("int8", 4, 4)
    first = layer("linear", {"x": value("x", 1, 4), "weight": weights}, "a")
    second = layer("linear", {"x": first.result, "weight": weights}, "b")
    made = ChooseWeightStream()(program_of("h13", first, second)).program
    assert made.layers[0].weight("weight") is made.layers[1].weight("weight")


def test_dense_and_live_weights_are_left_alone() -> None:
    dense = layer("linear", {"x": value("x", 1, 4), "weight": constant(8, 4)}, "a")
    live = layer("matmul", {"lhs": value("x", 1, 4), "rhs": value("w", 4, 2)}, "b")
    assert not ChooseWeightStream()(program_of("h13", dense, live)).modified
