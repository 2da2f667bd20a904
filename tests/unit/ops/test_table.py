"""The op table as a whole: its entries are written in one manner and contradict neither themselves nor one another."""

from __future__ import annotations

import pytest

from aneforge.errors import GraphError, UnknownNameError
from aneforge.ops.op import Category, MilStatus, Op, Surface, Trait
from aneforge.ops.signature import REQUIRED, AttributeKind, AttributeValue, Required
from aneforge.ops.table import find_op, names, ops

EVERY = pytest.mark.parametrize("op", ops().values(), ids=lambda op: op.name)
FINITE = {
    "alpha", "beta", "epsilon", "high", "low", "mean", "rate", "scale", "scale_factor_height", "scale_factor_width",
    "spatial_scale", "stddev",
}  # fmt: skip
OPSETS = ("ios15", "ios16", "ios17", "ios18")


@EVERY
def test_a_summary_is_one_short_line_of_mathematics(op: Op) -> None:
    assert op.summary
    assert "\n" not in op.summary
    assert not op.summary.endswith((".", ";", ",", " "))
    assert not op.summary.startswith(("The ", "A ", "An ", "Return")), "it is no sentence"
    assert len(op.summary) <= 160


@EVERY
def test_names_are_used_once_within_an_entry(op: Op) -> None:
    names = [operand.name for operand in op.operands] + [attribute.name for attribute in op.attributes]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and name.islower() for name in [op.name, *names])


@EVERY
def test_the_words_of_an_entry_are_known_ones(op: Op) -> None:
    assert isinstance(op.category, Category)
    assert op.opset in OPSETS


@EVERY
def test_the_support_of_an_entry_does_not_contradict_itself(op: Op) -> None:
    support = op.support
    assert support.floor in (None, 0, 2, 3, 4)
    assert support.mil_since in (None, 2, 3, 4)
    if support.floor is None:
        assert support.mil_since is None, "what no family has, MIL has on none"
        assert support.gate is None
    elif support.mil_since is None:
        assert support.mil_otherwise is not MilStatus.NONE, "something must carry what some family has"


@EVERY
def test_a_reason_stands_where_the_meaning_is_missing(op: Op) -> None:
    assert (op.meaning is None) == bool(op.no_meaning)


@EVERY
def test_a_builder_operation_reaches_some_family(op: Op) -> None:
    assert op.surface is Surface.MIL or op.support.floor is not None


@EVERY
def test_what_is_not_in_mil_has_no_spelling_there_and_is_no_row_of_its_catalogue(op: Op) -> None:
    if not op.in_mil:
        assert op.mil is None
        assert op.mil_name is None
        assert not op.catalogued
    assert op.in_mil or op.surface is not Surface.NATIVE_LAYER or op.support.mil_since is None


@EVERY
def test_small_numbers_and_factors_have_a_domain(op: Op) -> None:
    """Infinity and NaN are no epsilon, slope, scale or rate; bounds of clip may be infinite, as the builder says."""
    for attribute in op.attributes:
        if attribute.kind is AttributeKind.NUMBER and attribute.name in FINITE:
            assert attribute.finite or op.name == "clip", attribute.name
        if attribute.name == "epsilon":
            assert attribute.least == 0


SHOWN = {
    *(Trait.BOUNDING, Trait.ELEMENTWISE, Trait.POOLING, Trait.RANDOM),
    *(Trait.ROUNDING, Trait.SHRINKING, Trait.UNROUNDED),
}
"""Traits that a meaning shows: test_traits tries them."""
TRAITS = {
    Trait.ARG_REDUCTION: "argmax reduce_argmax reduce_argmin",
    Trait.AVERAGING: "avg_pool",
    Trait.COMPARING: "equal greater greater_equal less less_equal not_equal shape sign",
    Trait.CONVOLUTION: "conv conv_transpose dynamic_conv ne_conv",
    Trait.DATA_SHAPE: "non_zero",
    Trait.EXTREME: "max_pool maximum minimum reduce_max reduce_min",
    Trait.FORWARD_CONVOLUTION: "conv dynamic_conv ne_conv",
    Trait.GATHERING: "gather gather_along_axis gather_nd",
    Trait.INDICES: "argsort dynamic_slice gather gather_along_axis gather_hw gather_nd global_arg_min_max non_zero "
    "one_hot reduce_argmax reduce_argmin scatter scatter_along_axis scatter_nd topk",
    Trait.LIST: "list_scatter list_write make_list",
    Trait.MASKING: "add adds sdpa select sub",
    Trait.MATRIX_PRODUCT: "bmm bmm_w matmul ne_matmul",
    Trait.NORMALISING: "channel_layer_norm group_norm instance_norm l2_norm layer_norm rms_norm",
    Trait.PASSING_A_STATE: "read_state tensor_buffer_to_tensor tensor_to_circular_buffer tensor_to_tensor_buffer",
    Trait.PLACES: "argmax argsort global_arg_min_max reduce_argmax reduce_argmin",
    Trait.REDUCTION: "reduce_max reduce_mean reduce_min reduce_sum",
    Trait.RESIZING: "resize resize_bilinear resize_nearest_neighbor upsample upsample_bilinear "
    "upsample_nearest_neighbor",
    Trait.SCATTERING: "scatter scatter_along_axis scatter_nd",
    Trait.SLICING: "crop input_view slice_by_index slice_by_size split",
    Trait.SQUARING_SUM: "l2_pool reduce_l2_norm reduce_sum_square sq_after_reduce",
    Trait.STANDARDISING: "channel_layer_norm group_norm instance_norm layer_norm",
}


@pytest.mark.parametrize("trait", [trait for trait in Trait if trait not in SHOWN])
def test_the_operations_of_a_trait(trait: Trait) -> None:
    assert " ".join(op.name for op in ops().values() if trait in op.traits) == TRAITS[trait]


@pytest.mark.parametrize(
    ("name", "opset"),
    [
        ("constexpr_lut_to_dense", "ios18"),
        ("constexpr_sparse_to_dense", "ios18"),
        ("gru", "ios18"),
        ("non_maximum_suppression", "ios17"),
        ("resize", "ios17"),
    ],
)
def test_the_opset_of_a_form_that_came_later(name: str, opset: str) -> None:
    assert find_op(name).opset == opset


DEFAULTS = [
    ("inverse", "epsilon", 1e-4),
    ("rsqrt", "epsilon", 1e-12),
    ("log", "epsilon", 1e-45),
    ("resize_bilinear", "target_size_height", 1),
    ("resize_bilinear", "target_size_width", 1),
    ("resize_nearest_neighbor", "target_size_height", REQUIRED),
    ("reverse_sequence", "seq_axis", 0),
    ("random_uniform", "seed", -1),
    ("l2_pool", "ceil_mode", False),
    ("topk", "return_indices", True),
    ("topk", "output_indices_dtype", "int32"),
    ("reduce_argmin", "output_dtype", "int32"),
    ("gather_nd", "validate_indices", False),
    ("scatter", "validate_indices", False),
    ("make_list", "dynamic_length", True),
    ("thresholded_relu", "alpha", REQUIRED),
    ("scaled_tanh", "alpha", REQUIRED),
    ("scaled_tanh", "beta", REQUIRED),
    ("linear_activation", "alpha", REQUIRED),
    ("linear_activation", "beta", REQUIRED),
]


@pytest.mark.parametrize(("op", "attribute", "default"), DEFAULTS)
def test_defaults_are_those_of_mil(op: str, attribute: str, default: AttributeValue | Required) -> None:
    assert next(one for one in find_op(op).attributes if one.name == attribute).default == default


def test_an_operation_is_found_by_its_aliases() -> None:
    assert find_op("global_argmax") is find_op("global_argmin") is find_op("global_arg_min_max")
    with pytest.raises(UnknownNameError, match="unknown operation 'global_argmxa'; nearest: global_argmax"):
        find_op("global_argmxa")


@pytest.mark.parametrize("alias", sorted(names().keys() - ops().keys()))
def test_an_alias_says_the_attributes_that_its_name_promises(alias: str) -> None:
    """Two aliases of one operation mean different things, so that each says at least one attribute."""
    entry = find_op(alias)
    said = entry.attributes_by_name(alias, {})
    assert entry.complete(said)
    assert sum(dict(other) == dict(said) for other in entry.aliases.values()) == 1
    for attribute in said:
        with pytest.raises(GraphError, match=f"{alias} is {entry.name} with {attribute} = "):
            entry.attributes_by_name(alias, {attribute: "other"})


def test_every_category_has_operations() -> None:
    assert {op.category for op in ops().values()} == set(Category)


def test_operations_are_found_by_name_in_order() -> None:
    assert list(ops()) == sorted(ops())
    assert find_op("conv").name == "conv"
    with pytest.raises(UnknownNameError, match="unknown operation 'convolution'; nearest: "):
        find_op("convolution")
