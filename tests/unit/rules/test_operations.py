"""The catalogue of MIL operations and the single questions: views over the op table."""

from __future__ import annotations

import pytest

import aneforge as af
from aneforge import _targets as tg
from aneforge.errors import UnknownNameError
from aneforge.ops.op import MilStatus, Surface
from aneforge.ops.table import names, ops
from aneforge.targets import Family

FUSED = """
relu silu sigmoid tanh exp sqrt abs sin cos erf relu6 softsign atan exp2 floor ceil sign gelu round softplus square muls
log rsqrt inverse elu leaky_relu threshold thresholded_relu scaled_tanh clamped_relu sigmoid_hard linear_activation clip
prelu add sub mul real_div maximum minimum pow adds less equal not_equal less_equal greater_equal greater logical_not
select matmul bmm bmm_w conv dynamic_conv conv_transpose max_pool avg_pool batch_norm instance_norm local_response_norm
upsample upsample_bilinear resize_bilinear resize_nearest_neighbor affine concat stack split reshape transpose squeeze
expand_dims flatten2d slice_by_size reverse tile crop space_to_depth depth_to_space pixel_shuffle pixel_unshuffle
reduce_sum reduce_mean reduce_max reduce_min reduce_l1_norm reduce_l2_norm reduce_log_sum reduce_sum_square
reduce_log_sum_exp softmax einsum cast l2_norm rms_norm layer_norm channel_layer_norm group_norm
"""
NATIVE_LAYERS = """
sdpa argmax topk sort cross_product cross_correlation cost_volume fps radius_search minmax_norm lrn space_to_channel
channel_to_space space_to_batch batch_to_space flatten input_view dynamic_slice scaled_elementwise
"""
WALLED = """
mod logical_and logical_or logical_xor reduce_prod reverse_sequence scatter scatter_along_axis scatter_nd band_part
non_zero one_hot shape sliding_windows constexpr_cast gru lstm rnn tan asin acos atanh asinh acosh sinh cosh
random_bernoulli random_categorical random_normal non_maximum_suppression
"""


def test_the_documented_surfaces_are_complete() -> None:
    by_surface = {surface: {op.name for op in ops().values() if op.surface is surface} for surface in Surface}
    assert len(FUSED.split()) == 100
    assert set(FUSED.split()) <= by_surface[Surface.FUSED]
    assert by_surface[Surface.NATIVE_LAYER] == set(NATIVE_LAYERS.split())
    assert len(NATIVE_LAYERS.split()) == 19


def test_the_catalogue_is_a_view_of_the_table() -> None:
    assert set(af.OP_CATALOG) == {op.name for op in ops().values() if op.catalogued}
    assert af.OP_CATALOG["conv"] == af.op_info("conv")


@pytest.mark.parametrize(
    ("op", "family", "status"),
    [
        ("conv", 2, "native"),
        ("sin", 2, "decompose"),
        ("sin", 4, "native"),
        ("cos", 3, "decompose"),
        ("dropout", 3, "decompose"),
        ("dropout", 4, "native"),
        ("crop_resize", 2, "reject"),
        ("resample", 3, "native"),
        ("affine", 2, "reject"),
        ("gather_hw", 2, "reject"),
        ("topk", 2, "reject"),
        ("sort", 2, "reject"),
        ("dynamic_slice", 2, "reject"),
        ("dynamic_slice", 3, "native"),
        ("global_arg_min_max", 2, "decompose"),
        ("softmax", 2, "native"),
        ("resize_bilinear", 2, "native"),
        ("sdpa", 2, "native"),
        ("tan", 5, "decompose"),
        ("tan", 2, "decompose"),
        ("tan", 1, "reject"),
        ("lstm", 2, "decompose"),
        ("non_zero", 5, "reject"),
        ("make_list", 5, "reject"),
        ("relu", 1, "reject"),
    ],
)
def test_status_by_floor(op: str, family: int, status: str) -> None:
    assert tg.op_status(op, family) == status


@pytest.mark.parametrize(
    ("op", "statuses"),
    [
        ("conv", "native native native native"),
        ("crop_resize", "none native native native"),
        ("resize_bilinear", "software native native native"),
        ("gather_nd", "bridge native native native"),
        ("reduce_argmin", "bridge bridge native native"),
        ("constexpr_affine_dequantize", "fold native native native"),
        ("constexpr_blockwise_shift_scale", "fold fold native native"),
        ("sin", "none none native native"),
        ("cross_product", "bridge bridge bridge bridge"),
        ("while_loop", "internal internal internal internal"),
        ("lstm", "none none none none"),
    ],
)
def test_status_by_the_mil_front_end(op: str, statuses: str) -> None:
    assert [af.device_status(op, family) for family in (2, 3, 4, 5)] == statuses.split()
    assert af.is_native(op, 5) == statuses.endswith("native")


def test_views() -> None:
    assert af.min_native_family("crop_resize") is Family.A14
    assert set(WALLED.split()) <= set(af.walled_everywhere())
    assert "conv" in af.ops_on("m1")
    assert "crop_resize" in af.ops_on("m1", "none")
    assert af.device_status("conv", "h12") == "none"
    assert sorted(name for names in af.categories().values() for name in names) == sorted(af.OP_CATALOG)


def test_unknown_operations_name_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="unknown operation 'convv'; nearest: conv"):
        tg.op_status("convv", 2)
    with pytest.raises(UnknownNameError, match="unknown operation 'mulls'; nearest: mul"):
        af.op_info("mulls")


def test_every_question_knows_the_same_names() -> None:
    """Operations that are no rows of the catalogue, and aliases, have the same answers about them."""
    for name, entry in names().items():
        assert af.op_info(name).name == entry.name
        assert tg.op_status(name, Family.A15) in {"native", "decompose", "reject"}
        assert af.device_status(name, Family.A15) in {"native", *MilStatus}
