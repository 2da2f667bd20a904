"""Grouped convolutions: taken apart where a group is larger than the target runs together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes import split_groups
from aneforge.compiler.passes.split_groups import SplitGroups
from legalisation_tools import (
    assert_same_meaning,
    changed,
    constant,
    convolution,
    decide,
    inputs_of,
    program_of,
    stage,
    value,
)
from program_tools import kinds_of

if TYPE_CHECKING:
    import pytest


def test_small_groups_and_single_channels_stay() -> None:
    grouped = convolution(value("x", 1, 454, 4, 4), constant(4, 227, 3, 3), groups=2)
    single = convolution(value("x", 1, 4096, 4, 4), constant(4096, 1, 3, 3), groups=4096)
    whole = convolution(value("x", 1, 4096, 4, 4), constant(2, 4096, 1, 1))
    for one in (grouped, single, whole):
        assert not SplitGroups()(program_of("h13", one)).modified


def test_the_limit_is_the_targets() -> None:
    one = convolution(value("x", 1, 16, 4, 4), constant(4, 8, 3, 3), groups=2)
    assert not SplitGroups()(program_of("h13", one)).modified
    assert kinds_of(SplitGroups()(program_of("h12", one)).program).count("convolution") == 2
    assert SplitGroups()(program_of(changed("h13", group_conv_decompose=71), one)).modified
    unknown = SplitGroups()(program_of(changed("h13", group_conv_decompose=None), one)).program
    assert dict(unknown.layers[0].choices) == {"groups": "unknown"}
    assert not SplitGroups()(unknown).modified


def test_an_epilogue_that_mixes_channels_becomes_layers() -> None:
    remap = Epilogue(texture=stage("resize", size=(6, 4, 4), mode="NEAREST"))
    one = convolution(value("x", 1, 16, 4, 4), constant(4, 8, 1, 1), groups=2, epilogue=remap)
    before = program_of(changed("h14", group_conv_decompose=2), one)
    after = SplitGroups()(before).program
    assert kinds_of(after).count("convolution") == 2
    assert after.notes[-1].text == "a fusion is undone: stages of its epilogue became layers"
    assert_same_meaning(before, after, inputs_of(before))


def test_all_channels_count_where_it_is_decided_so(monkeypatch: pytest.MonkeyPatch) -> None:
    single = convolution(value("x", 1, 256, 4, 4), constant(256, 1, 3, 3), groups=256)
    decide(monkeypatch, split_groups, group_channels="of all groups")
    assert SplitGroups()(program_of("h13", single)).modified
