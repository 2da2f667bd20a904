"""Products: twice an operand gives twice the result, for the two that an entry names and for no others."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.compiler.ir.catalogue import find_kind
from aneforge.ops.results import Product
from aneforge.ops.sampling import Fill, RandomChooser
from aneforge.ops.table import find_op, ops

if TYPE_CHECKING:
    from aneforge.ops.types import Array

NAMED = [op.name for op in ops().values() if op.product is not None]


@pytest.mark.parametrize("name", NAMED)
def test_a_product_is_linear_in_each_of_its_operands(name: str) -> None:
    op = find_op(name)
    assert op.product is not None
    pair = (op.product.data, op.product.weight)
    assert {operand.name for operand in op.operands if not operand.optional} == set(pair)
    for seed in range(12):
        generator = np.random.default_rng(seed)
        sample = op.sample(RandomChooser(generator))
        operands: dict[str, Array | None] = {operand.name: None for operand in op.operands}
        for one in pair:
            fill = sample.operands[one]
            assert isinstance(fill, Fill)
            operands[one] = fill.values(generator)
        attributes = op.complete(sample.attributes)
        (once,) = op.evaluate(operands, attributes)
        for one in pair:
            factor = np.array(2).astype(once.dtype)
            (twice,) = op.evaluate({**operands, one: np.asarray(operands[one]) * factor}, attributes)
            assert np.allclose(twice, once * factor)


def test_kinds_have_their_own_names_for_the_operands() -> None:
    assert find_kind("convolution").product == Product("input", "weights")
    assert find_kind("matmul").product == Product("lhs", "rhs")
    assert find_kind("linear").product == Product("x", "weight")
    assert find_kind("add").product is None
