"""Convolutions of strides that no engine has run over blocks: the same numbers, the same answer at every door."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.crosscompile import cross_compile_check
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.retarget import retarget
from aneforge.compiler.validators.network import validate_program
from aneforge.errors import IllegalGraphError
from aneforge.graph.node import build
from aneforge.ops.constant import Dense, Int8Affine
from aneforge.rules import Severity
from written_tools import FAMILIES, WRITERS, Drawn, Outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATCH_14 = ((1, 3, 28, 28), (8, 3, 14, 14), {"strides": (14, 14)})
"""The first layer of a vision transformer of patches of 14 pixels."""
STEM = ((1, 1, 160), (8, 1, 10), {"strides": (5,)})
"""The first layer of wav2vec2."""
SHORT = ((1, 4, 23, 23), (6, 4, 3, 3), {"strides": (5, 5), "pad_type": "custom", "pad": (1, 1, 1, 1)})
DEPTHWISE = ((2, 4, 23, 23), (4, 1, 7, 7), {"strides": (5, 5), "pad_type": "same", "groups": 4})
MIXED = ((1, 4, 23, 9), (6, 4, 3, 3), {"strides": (7, 1), "pad_type": "same", "dilations": (1, 2)})
MANY_FACTORS = ((1, 1, 60, 1), (1, 1, 3, 1), {"strides": (27, 1)})
CASES = (PATCH_14, STEM, SHORT, DEPTHWISE, MIXED, MANY_FACTORS)


def convolution(x: tuple[int, ...], weight: tuple[int, ...], attributes: Mapping[str, object]) -> af.Tensor:
    """Return a convolution with drawn numbers that fp16 holds."""
    rng = np.random.default_rng(math.prod(weight))
    kernel = Dense(rng.integers(-8, 8, weight).astype(np.float16))
    bias = Dense(rng.integers(-8, 8, weight[:1]).astype(np.float16))
    return af.Tensor(build("conv", {"x": af.input(x), "weight": kernel, "bias": bias}, attributes))


def assert_same_numbers(y: af.Tensor, target: str) -> None:
    """Assert that a graph means the same after its conversion: sums of integers are exact in float64."""
    made = retarget(y, target)
    assert [change.decomposition for change in made.changes] == ["blocks"]
    assert max(node.types[0].rank for node in made.graph.nodes) <= max(4, y.type.rank)
    (x,) = made.graph.inputs.values()
    values = np.random.default_rng(1).integers(-8, 8, x.types[0].shape).astype(np.float64)
    np.testing.assert_array_equal(af.reference(made.graph, [values])["y"], af.reference(y, [values])["y"])


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_blocks_mean_the_same(data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 2))
    strides = tuple(data.draw(st.lists(st.sampled_from([1, 2, 5, 7, 10]), min_size=axes, max_size=axes)))
    strides = (data.draw(st.sampled_from([5, 7])), *strides[1:])
    kernel = tuple(data.draw(st.lists(st.integers(1, 8), min_size=axes, max_size=axes)))
    gaps = tuple(data.draw(st.lists(st.integers(1, 2), min_size=axes, max_size=axes)))
    spans = [gap * (length - 1) + 1 for gap, length in zip(gaps, kernel, strict=True)]
    extents = tuple(span + data.draw(st.integers(0, 9)) for span in spans)
    pad_type = data.draw(st.sampled_from(["valid", "same", "same_lower", "custom"]))
    pad = tuple(data.draw(st.lists(st.integers(0, 3), min_size=2 * axes, max_size=2 * axes)))
    groups = data.draw(st.integers(1, 2))
    attributes: dict[str, object] = {
        "strides": strides,
        "dilations": gaps,
        "pad_type": pad_type,
        "pad": pad if pad_type == "custom" else None,
        "groups": groups,
    }
    y = convolution((data.draw(st.integers(1, 2)), 2 * groups, *extents), (2 * groups, 2, *kernel), attributes)
    assert_same_numbers(y, "m1")


@pytest.mark.parametrize("op", ["ne_conv", "dynamic_conv"])
def test_other_convolutions_run_over_blocks_too(op: str) -> None:
    weight: object = Dense(np.ones((6, 4, 3, 3), np.float16))
    if op == "dynamic_conv":
        weight = af.input((6, 4, 1, 1))
    y = af.Tensor(build(op, {"x": af.input((1, 4, 12, 12)), "weight": weight}, {"strides": (5, 5)}))
    made = retarget(y, "m1")
    assert [change.decomposition for change in made.changes] == ["blocks"]
    assert op in {node.op.name for node in made.graph.nodes}


def test_a_kernel_of_moved_constants_is_moved_with_them() -> None:
    kernel = np.arange(2 * 3 * 4 * 3, dtype=np.float16).reshape(2, 3, 4, 3)
    x = af.input((1, 4, 17, 12))
    moved = af.Tensor(build("transpose", {"x": Dense(kernel)}, {"perm": (0, 2, 1, 3)}))
    y = af.Tensor(build("conv", {"x": x, "weight": moved}, {"strides": (5, 5), "dilations": (3, 1)}))
    assert_same_numbers(y, "m1")
    assert len(compile_graph(y, "m1").program.inputs) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, case[1])))
def test_every_door_gives_the_same_answer(case: tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]) -> None:
    y = convolution(*case)
    assert_same_numbers(y, "m1")
    for target in FAMILIES:
        verdict = af.preflight(y, target)
        assert verdict.ok
        assert {finding.severity for finding in verdict.findings} == {Severity.DECOMPOSE}
        made = compile_graph(y, target)
        assert [change.decomposition for change in made.changes] == ["blocks"]
        assert validate_program(made.program).ok
        assert cross_compile_check(y, target, host=target)


def test_the_change_says_that_a_compressed_kernel_is_not_compressed_any_more() -> None:
    kernel = Int8Affine(np.ones((8, 3, 14, 14), np.int8), np.full(8, 0.5, np.float16))
    y = af.Tensor(build("conv", {"x": af.input((1, 3, 28, 28)), "weight": kernel}, {"strides": (14, 14)}))
    (change,) = retarget(y, "m4").changes
    assert "the kernel was stored as int8, and is stored as fp16 here" in change.detail
    assert_same_numbers(y, "m4")


def test_the_program_notes_the_change() -> None:
    (note,) = af.compile(convolution(*STEM), target="m1").program.notes[:1]
    assert "became a convolution of stride 1 over blocks" in note.text


@pytest.mark.parametrize("stride", [6, 7], ids=["built of factors", "not built"])
def test_too_many_channels_are_refused_at_every_door(stride: int) -> None:
    y = convolution((1, 2048, 14, 14), (1, 2048, 7, 7), {"strides": (stride, stride)})
    verdict = af.preflight(y, "m1")
    assert not verdict.ok
    assert verdict.findings[0].rule == "ANE-STRIDE-004"
    assert (verdict.findings[0].seen, verdict.findings[0].limit) == (2048 * stride**2, 65536)
    with pytest.raises(IllegalGraphError, match="ANE-STRIDE-004"):
        compile_graph(y, "m1")
    assert not cross_compile_check(y, "m1", host="m1")


def test_a_kernel_of_one_element_moves_nothing_into_channels() -> None:
    y = convolution((1, 2048, 14, 14), (1, 2048, 1, 1), {"strides": (6, 6)})
    assert af.preflight(y, "m1").ok
    assert cross_compile_check(y, "m1", host="m1")


def test_the_label_is_that_of_the_convolution_over_blocks() -> None:
    """Its kernel is two blocks long, and figures are of 1×1 and 3×3 kernels."""
    label = str(af.compile(convolution(*STEM), target="m1").exactness)
    assert label.startswith("modelled")
    assert "1×1 and 3×3" in label


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_has_the_same_bits(writer: str, tmp_path: Path) -> None:
    for number, case in enumerate((PATCH_14, SHORT, STEM)):
        graph = af.Graph({"y": convolution(*case)})
        (name,) = graph.inputs
        values = np.random.default_rng(2).normal(size=case[0]).astype(np.float16)
        target = FAMILIES[number * 2]
        assert outcome_of(Drawn(graph, {name: values}), WRITERS[writer], target, tmp_path) is Outcome.SAME
