"""Resizes: three strategies and a documented failure, chosen by the target's data alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.ir.meanings.regions import ALIGNED_HALF_PIXELS
from aneforge.compiler.passes.legalise_resize import LegaliseResize
from aneforge.compiler.passes.resampling import AxisResize, scale_weights
from aneforge.errors import NotSupportedError
from aneforge.ops.interpolation import SAMPLING_MODES
from legalisation_tools import (
    assert_same_meaning,
    changed,
    constant,
    convolution,
    inputs_of,
    layer,
    legalised,
    program_of,
    stage,
    value,
)

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import TargetLike

HALF_PIXELS = "UNALIGN_CORNERS"


def resize(
    shape: tuple[int, ...],
    size: tuple[int, ...],
    mode: str = "LINEAR",
    sampling: str = HALF_PIXELS,
    target: TargetLike = "h13",
    dtype: str = "fp16",
) -> Program:
    """Return a program of one resize."""
    x = value("x", *shape, dtype=dtype)
    return program_of(target, layer("resize", {"input": x}, "y", size=size, mode=mode, sampling=sampling))


def strategies(program: Program) -> set[object]:
    """Return the strategies that a program's layers name."""
    return {one.choices["strategy"] for one in LegaliseResize()(program).program.layers if "strategy" in one.choices}


def test_the_strategy_follows_one_field_at_a_time() -> None:
    shape, size = (1, 2, 4, 4), (8, 8)
    assert strategies(resize(shape, size)) == {"deconvolution"}
    assert strategies(resize(shape, size, target=changed("h13", texture_engine=True))) == {"texture"}
    assert strategies(resize(shape, size, target=changed("h14", texture_engine=False))) == {"deconvolution"}
    assert strategies(resize(shape, size, target=changed("h14", texture_engine=None))) == {"unknown"}
    assert strategies(resize(shape, size, target=changed("h13", conv_kernel_width_small_fp16=3))) == {
        "transpose_convolution"
    }
    assert strategies(resize(shape, size, target=changed("h13", conv_kernel_height_small=3))) == {
        "transpose_convolution"
    }


def test_a_single_place_is_broadcast_where_there_is_a_fast_path() -> None:
    shape, size = (1, 2, 1, 1), (4, 4)
    fast = changed("h13", upsample_1x1_fast_path=True)
    assert strategies(resize(shape, size, target=fast)) == {"broadcast"}
    assert strategies(resize(shape, size)) == {"transpose_convolution"}
    unknown = LegaliseResize()(resize(shape, size, target=changed("h13", upsample_1x1_fast_path=None))).program
    assert "no source gives the fast path" in unknown.notes[0].text
    for target in ("h13", fast):
        before = resize(shape, size, target=target)
        assert_same_meaning(before, LegaliseResize()(before).program, inputs_of(before))


def test_a_kernel_limit_that_no_source_gives_is_said() -> None:
    made = LegaliseResize()(resize((1, 2, 4, 4), (8, 8), target=changed("h13", conv_kernel_height_small=None))).program
    assert "no source gives the longest small kernel" in made.notes[0].text


def test_a_resize_to_the_same_size_moves_nothing() -> None:
    made = LegaliseResize()(resize((1, 2, 4, 4), (4, 4), "NEAREST")).program
    assert [one.kind.name for one in made.layers] == ["identity"]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    data=st.data(),
    mode=st.sampled_from(["LINEAR", "NEAREST"]),
    sampling=st.sampled_from([*SAMPLING_MODES, ALIGNED_HALF_PIXELS]),
    dtype=st.sampled_from(["fp16", "fp32"]),
)
def test_every_resize_means_the_same(
    shape: list[int], data: st.DataObject, mode: str, sampling: str, dtype: str
) -> None:
    count = data.draw(st.integers(1, len(shape)))
    size = tuple(data.draw(st.integers(1, 13 if count < 4 else 4)) for _ in range(count))
    if mode == "NEAREST" and sampling == ALIGNED_HALF_PIXELS:
        sampling = HALF_PIXELS
    before = resize(tuple(shape), size, mode, sampling, dtype=dtype)
    after = LegaliseResize()(before).program
    assert "resize" not in {one.kind.name for one in after.layers}
    assert_same_meaning(before, after, inputs_of(before))
    assert not LegaliseResize()(after).modified


def test_five_axes_are_resized_in_turn() -> None:
    before = resize((2, 3, 2, 2, 3), (3, 2, 3, 1, 4), sampling="STRICT_ALIGN_CORNERS")
    assert_same_meaning(before, LegaliseResize()(before).program, inputs_of(before))


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_whole_numbers_are_repeated(dtype: str) -> None:
    before = resize((1, 2, 3, 3), (6, 7), "NEAREST", dtype=dtype)
    assert_same_meaning(before, LegaliseResize()(before).program, inputs_of(before), 0)


def test_truth_values_are_the_documented_failure() -> None:
    with pytest.raises(NotSupportedError, match="failed to map resize layer on this arch: booleans") as caught:
        LegaliseResize()(resize((1, 2, 3, 3), (6, 6), "NEAREST", dtype="bool"))
    assert (caught.value.operation, caught.value.target, caught.value.seen) == ("resize", "h13", "bool")
    assert caught.value.remedy is not None


def test_axes_and_matrices_that_are_too_large_are_the_documented_failure() -> None:
    with pytest.raises(NotSupportedError, match=r"failed to map resize layer on this arch: the axis .*limit 4"):
        LegaliseResize()(resize((1, 2, 3, 5), (3, 7), target=changed("h13", channel_extent=4)))
    with pytest.raises(NotSupportedError, match="failed to map resize layer on this arch: its matrix has too many"):
        LegaliseResize()(resize((1, 1, 1, 5000), (1, 4999)))


def test_weights_that_fp16_does_not_hold_are_said() -> None:
    before = resize((1, 1, 1, 1500), (1, 3001), sampling="OFFSET_CORNERS")
    after = LegaliseResize()(before).program
    assert [note.text for note in after.notes] == ["its weights are rounded to the type of the data"]
    assert_same_meaning(before, after, inputs_of(before), 1e-3)


def test_weights_of_thirds_are_exact_with_a_gain() -> None:
    weights, gain, exact = scale_weights(np.array([1, 2, 3]), 3, np.dtype(np.float16))
    assert exact
    np.testing.assert_allclose(weights.astype(np.float64) * (gain or 1), [1 / 3, 2 / 3, 1], rtol=1e-15)


def test_a_texture_slot_becomes_layers_where_there_is_no_texture_engine() -> None:
    epilogue = Epilogue(
        texture=stage("resize", size=(8, 8), mode="NEAREST"),
        gain_offset=stage("gain_offset_control", {"offset": constant(3)}, axis=1),
        post_activation=stage("relu"),
    )
    one = convolution(value("x", 1, 2, 4, 4), constant(3, 2, 1, 1), epilogue=epilogue)
    before = program_of("h13", one)
    after = LegaliseResize()(before).program
    assert [made.kind.name for made in after.layers] == [
        "convolution",
        "deconvolution",
        "gain_offset_control",
        "relu",
    ]
    assert after.notes[0].text == "its texture slot became layers: there is no texture engine"
    assert_same_meaning(before, after, inputs_of(before))
    assert not LegaliseResize()(program_of("h14", one)).modified


def test_kernels_are_those_of_the_literature() -> None:
    kernel = AxisResize(4, 8, "LINEAR", "DEFAULT").kernel
    assert kernel is not None
    assert (kernel.numerators, kernel.denominator, kernel.repeated) == ((1, 2, 1), 2, (0, 1))
    assert AxisResize(4, 8, "LINEAR", "STRICT_ALIGN_CORNERS").kernel is None
    assert AxisResize(3, 9, "NEAREST", "STRICT_ALIGN_CORNERS").kernel is None
    aligned = AxisResize(4, 7, "LINEAR", "STRICT_ALIGN_CORNERS").kernel
    assert aligned is not None
    assert aligned.repeated == (0, 0)


def test_random_graphs_of_resizes_are_legal_on_the_oldest_route() -> None:
    before = resize((1, 2, 4, 4), (8, 8), target="h12")
    after = legalised(before, [LegaliseResize()])
    assert after is not None
    assert_same_meaning(before, after, inputs_of(before))
