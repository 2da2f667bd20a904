"""Limits that the builder names itself, because it knows no target: each is what the database says of all of them."""

import pytest

from aneforge.engine.choices import choices
from aneforge.errors import NoDataError, UnknownNameError
from aneforge.graph.builder import attention, convolution, layers
from aneforge.graph.methods import base
from aneforge.graph.methods import layer_methods as methods
from aneforge.targets import database
from aneforge.targets.queries import least_limit


def values_of(name: str) -> set[object]:
    """Return the different values of a limit on all targets that have one."""
    return {fact.value for fact in database().properties[name].facts.values()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("builder_conv_kw_max", convolution.BUILDER_MAX_KERNEL_WIDTH),
        ("fps_centroids", layers.FPS_MOST_CHOSEN),
        ("fps_points", layers.FPS_MOST_POINTS),
        ("group_norm_builder_extent", methods.GROUP_NORM_MOST),
        ("sdpa_native_max_sequence", attention.NATIVE_LONGER_AT_MOST),
        ("sdpa_native_min_sequence", attention.NATIVE_SHORTER_BELOW),
        ("topk_forbidden_k", layers.TOPK_REFUSED),
    ],
)
def test_a_limit_of_the_builder_is_that_of_every_target(name: str, value: object) -> None:
    assert values_of(name) == {value}


def test_the_builder_takes_the_most_axes_that_any_target_does() -> None:
    ranks = values_of("max_rank")
    assert max(rank for rank in ranks if isinstance(rank, int)) == base.BUILDER_MAX_RANK


def test_the_engine_relies_on_attention_as_far_as_the_limits_say() -> None:
    envelope = choices().attention
    assert values_of("sdpa_native_max_sequence") == {envelope.longest}
    assert values_of("sdpa_native_min_sequence") == {envelope.both_from}


def test_what_every_target_takes() -> None:
    assert least_limit("max_tensor_dim") == 16384
    with pytest.raises(UnknownNameError):
        least_limit("max_tensor_dimension")
    with pytest.raises(NoDataError):
        least_limit("topk_forbidden_k")
