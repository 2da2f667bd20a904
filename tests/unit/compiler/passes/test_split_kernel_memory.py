"""Kernel memory: dense or streamed, split along output channels, and along input channels where nothing else helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes import kernels, split_kernel_memory
from aneforge.compiler.passes.choose_weight_stream import ChooseWeightStream
from aneforge.compiler.passes.kernels import kernel_of
from aneforge.compiler.passes.split_kernel_memory import SplitKernelMemory
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Palette, Sparse
from legalisation_tools import (
    Given,
    assert_same_meaning,
    changed,
    constant,
    convolution,
    decide,
    inputs_of,
    layer,
    legalised,
    program_of,
    stage,
    value,
)
from program_tools import kinds_of

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import TargetLike
    from golden_text import Golden

SAME: Given = {"explicit_padding": (1, 1, 1, 1)}


def placed(target: TargetLike, *layers: Layer) -> Program:
    """Return a program after the pass."""
    return SplitKernelMemory()(program_of(target, *layers)).program


def paths(program: Program) -> list[object]:
    """Return the paths of a program's products."""
    return [one.choices["kernel_path"] for one in program.layers if "kernel_path" in one.choices]


def residual(channels: int = 256) -> Layer:
    """Return a 3×3 convolution of a residual network with its epilogue."""
    gain = stage("gain_offset_control", {"gain": constant(channels), "offset": constant(channels, seed=3)}, axis=1)
    return convolution(
        value("x", 1, channels, 14, 14),
        constant(channels, channels, 3, 3),
        epilogue=Epilogue(gain_offset=gain, post_activation=stage("relu")),
        **SAME,
    )


def test_listing_35_2_by_one_field_at_a_time() -> None:
    one = residual()
    assert paths(placed("h14", one)) == ["streamed"]
    assert paths(placed(changed("h14", kernel_streaming=False), one)) == ["dense", "dense"]
    assert paths(placed(changed("h14", large_kernels_shared=False), one)) == ["dense", "dense"]
    assert paths(placed(changed("h13", large_kernels_shared=True), one)) == ["streamed"]
    assert paths(placed(changed("h13", dense_kernel_memory=131_072), one)) == ["dense"]
    assert (
        paths(placed(changed("h14", streamed_kernel_memory=600_000, dense_kernel_memory=4608), one)) == ["streamed"] * 2
    )
    assert paths(placed(changed("h13", nes_per_ane=32), one)) == ["dense"]


@pytest.mark.parametrize("attributes", [{"strides": (2, 2)}, {"dilation_rates": (2, 2)}])
def test_what_may_not_stream_is_tiled_everywhere(attributes: Given) -> None:
    one = convolution(value("x", 1, 256, 14, 14), constant(256, 256, 3, 3), **attributes)
    assert paths(placed("h17s", one)) == ["dense", "dense"]


def test_small_kernels_stay_whole() -> None:
    one = residual(64)
    assert [paths(placed(target, one)) for target in ("h13", "h14", "h17s", "h12")] == [["dense"]] * 4


def test_what_no_source_gives_is_unknown_and_splits_nothing() -> None:
    small, large = residual(32), residual()
    assert paths(placed(changed("h13", nes_per_ane=None), small)) == ["dense"]
    assert paths(placed(changed("h13", nes_per_ane=None), large)) == ["unknown"]
    assert paths(placed(changed("h13", dense_kernel_memory=None), small)) == ["unknown"]
    for field in ("kernel_streaming", "large_kernels_shared", "streamed_kernel_memory"):
        assert paths(placed(changed("h14", **{field: None}), large)) == ["unknown"]
        assert paths(placed(changed("h14", **{field: None}), small)) == ["dense"]
    assert len(placed("m11", large).layers) == 1


def test_an_encoded_kernel_that_streams_asks_for_the_shared_memory() -> None:
    places = np.arange(512 * 1024).reshape(512, 1024, 1, 1)
    weights = Palette((places % 16).astype(np.uint8), np.arange(16).astype(np.float16), 4)
    one = convolution(value("x", 1, 1024, 4, 4), weights)
    program = ChooseWeightStream()(program_of("h13", one)).program
    assert paths(SplitKernelMemory()(program).program) == ["streamed"]
    unknown = ChooseWeightStream()(program_of(changed("h13", streamed_kernel_memory=None), one)).program
    assert paths(SplitKernelMemory()(unknown).program) == ["unknown"]


def test_bytes_of_a_channel_are_those_of_its_encoding() -> None:
    mask = np.zeros((4, 64, 1, 1), np.bool_)
    mask[:, :8] = True
    sparse = kernel_of(convolution(value("x", 1, 64, 1, 1), Sparse(mask, np.ones(32, np.float16))))
    assert sparse is not None
    assert (sparse.channel_bytes(streams=True), sparse.channel_bytes(streams=False)) == (8 + 16, 128)
    palette = kernel_of(
        convolution(value("x", 1, 64, 1, 1), Palette(np.zeros((4, 64, 1, 1), np.uint8), np.zeros(16, np.float16), 4))
    )
    assert palette is not None
    assert palette.channel_bytes(streams=True) == 32


def test_a_kernel_of_one_channel_that_is_too_large_is_summed_and_undoes_the_fusion(golden: Golden) -> None:
    offset = stage("gain_offset_control", {"offset": constant(2)}, axis=1)
    epilogue = Epilogue(
        gain_offset=offset, post_activation=stage("relu"), transpose=stage("transpose", perm=(0, 2, 3, 1))
    )
    one = convolution(value("x", 1, 40, 2, 2), constant(2, 40, 1, 1), epilogue=epilogue)
    before = program_of(changed("h13", dense_kernel_memory=64), one)
    after = SplitKernelMemory()(before).program
    assert_same_meaning(before, after, inputs_of(before))
    golden(str(after))


def test_a_linear_layer_of_a_long_contraction_adds_its_bias_once() -> None:
    operands = {"x": value("x", 2, 9), "weight": constant(3, 9), "bias": constant(3)}
    before = program_of(
        changed("h17s", dense_kernel_memory=8, large_kernels_shared=False), layer("linear", operands, "y")
    )
    after = SplitKernelMemory()(before).program
    assert ["bias" in one.operands for one in after.layers if one.kind.name == "linear"] == [True, False, False]
    assert_same_meaning(before, after, inputs_of(before))


def test_deconvolutions_and_matrices_are_summed_too() -> None:
    target = changed("h13", dense_kernel_memory=16, nes_per_ane=1)
    window: dict[str, Any] = {"strides": (1, 1), "dilation_rates": (1, 1), "explicit_padding": (0, 0, 0, 0)}
    operands = {"input": value("x", 1, 9, 3, 3), "weights": constant(9, 2, 2, 1)}
    back = layer("deconvolution", operands, "y", kernel_sizes=(2, 1), output_sizes=(4, 3), **window)
    product = layer("matmul", {"lhs": value("a", 2, 20), "rhs": value("b", 20, 3)}, "z")
    for one in (back, product):
        before = program_of(target, one)
        after = SplitKernelMemory()(before).program
        assert after.layers[-1].kind.name in ("add", "concat")
        assert "add" in kinds_of(after)
        assert_same_meaning(before, after, inputs_of(before))


def test_parts_are_even_where_it_is_decided_so(monkeypatch: pytest.MonkeyPatch) -> None:
    decide(monkeypatch, split_kernel_memory, kernel_memory_split="even")
    made = placed("h13", residual())
    assert [one.result.shape[1] for one in made.layers] == [128, 128, 256]


def test_tiles_that_always_or_never_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    large = convolution(value("x", 1, 256, 80, 80), constant(256, 256, 3, 3), **SAME)
    assert paths(placed("h14", large))[0] == "dense"
    decide(monkeypatch, kernels, tile_overlap="never")
    assert paths(placed("h14", large)) == ["streamed"]
    decide(monkeypatch, kernels, tile_overlap="always")
    assert paths(placed("h14", residual())) == ["dense", "dense"]


def test_a_kernel_that_no_split_makes_fit_is_the_compilers_own_error() -> None:
    one = convolution(value("x", 1, 2, 8, 8), constant(2, 2, 5, 5))
    with pytest.raises(NotSupportedError, match="can not fit the Kmem") as caught:
        SplitKernelMemory()(program_of(changed("h13", dense_kernel_memory=40), one))
    error = caught.value
    assert (error.seen, error.limit, error.target) == ("50 bytes", "40 bytes", "h13")
    assert error.remedy is not None


def test_products_of_live_matrices_keep_the_left_one() -> None:
    one = layer("matmul", {"lhs": value("a", 1, 2, 64, 40), "rhs": value("b", 1, 2, 40, 8)}, "y")
    before = program_of(changed("h13", dense_kernel_memory=200), one)
    after = SplitKernelMemory()(before).program
    assert kinds_of(after) == ["slice", "matmul", "slice", "matmul", "concat"]
    assert [made.operand("lhs").type.shape for made in after.layers if made.kind.name == "matmul"] == [
        (1, 2, 32, 40),
        (1, 2, 32, 40),
    ]
    assert_same_meaning(before, after, inputs_of(before))


def test_an_epilogue_that_mixes_the_channels_becomes_layers() -> None:
    epilogue = Epilogue(texture=stage("resize", size=(6, 4, 4), mode="NEAREST"), post_activation=stage("relu"))
    one = convolution(value("x", 1, 4, 2, 2), constant(3, 4, 1, 1), epilogue=epilogue)
    before = program_of(changed("h14", dense_kernel_memory=8, nes_per_ane=1, large_kernels_shared=False), one)
    after = SplitKernelMemory()(before).program
    assert kinds_of(after)[-2:] == ["resize", "relu"]
    assert after.notes[0].text == "its epilogue became layers: it mixes the output channels"
    assert_same_meaning(before, after, inputs_of(before))


TIGHT = [
    changed("h13", dense_kernel_memory=24, nes_per_ane=2),
    changed("h17s", dense_kernel_memory=24, streamed_kernel_memory=60, nes_per_ane=2),
]


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data(), number=st.integers(0, 1), groups=st.integers(1, 3), back=st.booleans())
def test_every_product_means_the_same(data: st.DataObject, number: int, groups: int, *, back: bool) -> None:
    inner, outer, kernel = (data.draw(st.integers(1, most)) for most in (7, 5, 2))
    channels = groups * outer
    epilogue = Epilogue(
        pre_activation=stage("tanh") if data.draw(st.booleans()) else None,
        gain_offset=stage("gain_offset_control", {"gain": constant(channels), "offset": constant()}, axis=1),
        transpose=stage("transpose", perm=(1, 0, 3, 2)) if data.draw(st.booleans()) else None,
        quantise=stage("quant", {"scale": constant(seed=5)}, output_dtype="int8") if data.draw(st.booleans()) else None,
    )
    x = value("x", 2, groups * inner, 4, 3)
    if back:
        one = layer(
            "deconvolution",
            {"input": x, "weights": constant(groups * inner, outer, kernel, 1)},
            "y",
            epilogue=epilogue,
            strides=(1, 1),
            dilation_rates=(1, 1),
            explicit_padding=(0, 0, 0, 0),
            groups=groups,
            kernel_sizes=(kernel, 1),
            output_sizes=(3 + kernel, 3),
        )
    else:
        one = convolution(x, constant(channels, inner, kernel, 1), epilogue=epilogue, groups=groups)
    before = program_of(TIGHT[number], one)
    after = legalised(before, [SplitKernelMemory()])
    assert after is not None
    assert_same_meaning(before, after, inputs_of(before))
    assert not SplitKernelMemory()(after).modified
