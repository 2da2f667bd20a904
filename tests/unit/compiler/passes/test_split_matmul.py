"""Matrix products: split along the height by the largest tensor, and along a contraction that is longer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes.split_matmul import SplitMatmul
from aneforge.ops.table import find_op
from aneforge.testing.graphs import DrawnGraph, one_operation
from legalisation_tools import assert_same_meaning, changed, inputs_of, layer, program_of, stage, value
from program_tools import kinds_of, lowered


def test_the_height_is_the_targets() -> None:
    one = layer("matmul", {"lhs": value("a", 1, 2, 20_000, 4), "rhs": value("b", 4, 3)}, "y")
    assert kinds_of(SplitMatmul()(program_of("h13", one)).program).count("matmul") == 2
    assert not SplitMatmul()(program_of("h16g", one)).modified
    assert not SplitMatmul()(program_of(changed("h13", tensor_height=20_000), one)).modified
    assert not SplitMatmul()(program_of(changed("h13", tensor_height=None, max_tensor_dim=None), one)).modified


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_a_long_contraction_is_a_sum_and_says_so(transposed: tuple[bool, bool]) -> None:
    lhs = value("a", *((7, 2) if transposed[0] else (2, 7)))
    rhs = value("b", *((3, 7) if transposed[1] else (7, 3)))
    product = layer(
        "matmul",
        {"lhs": lhs, "rhs": rhs},
        "y",
        transpose_lhs=transposed[0],
        transpose_rhs=transposed[1],
        epilogue=Epilogue(post_activation=stage("relu")),
    )
    before = program_of(changed("h13", max_tensor_dim=3), product)
    after = SplitMatmul()(before).program
    assert kinds_of(after).count("matmul") == 3
    assert after.layers[-1].kind.name == "add"
    assert after.layers[-1].epilogue.post_activation is not None
    assert "each rounded" in after.notes[0].text
    assert "the epilogue moved after the sum" in after.notes[0].text
    assert_same_meaning(before, after, inputs_of(before))


def test_vectors_have_a_contraction_and_no_rows() -> None:
    before = program_of(
        changed("h13", max_tensor_dim=3), layer("matmul", {"lhs": value("a", 7), "rhs": value("b", 7)}, "y")
    )
    after = SplitMatmul()(before).program
    assert kinds_of(after).count("matmul") == 3
    assert_same_meaning(before, after, inputs_of(before))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(one_operation(find_op("matmul")))
def test_every_product_means_the_same(drawn: DrawnGraph) -> None:
    before = lowered(drawn.graph, changed("h13", tensor_height=2, max_tensor_dim=3))
    after = SplitMatmul()(before).program
    assert_same_meaning(before, after, drawn.inputs)
    assert not SplitMatmul()(after).modified
