"""Products: vectors, broadcast batches, labels, counts and messages."""

import numpy as np
import pytest
import torch

from aneforge.errors import GraphError
from aneforge.ops.op import Op
from aneforge.ops.signature import OperandKind
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from oracle_tools import array, tensor


def types(op: Op, *shapes: list[int]) -> dict[str, TensorType | tuple[TensorType, ...] | None]:
    found = tuple(TensorType(tuple(extents)) for extents in shapes)
    if op.operands[0].variadic:
        return {op.operands[0].name: found}
    return {operand.name: one for operand, one in zip(op.operands, found, strict=False)}


def shape(name: str, *shapes: list[int], **attributes: object) -> list[int]:
    op = find_op(name)
    return list(op.types(types(op, *shapes), op.complete(attributes))[0].shape)


def macs(name: str, *shapes: list[int], **attributes: object) -> int:
    op = find_op(name)
    return op.work(types(op, *shapes), op.complete(attributes)).macs


@pytest.mark.parametrize(
    ("x", "y", "transposed", "expected"),
    [
        ([3], [3], "", []),
        ([3], [3, 4], "", [4]),
        ([2, 3], [3], "", [2]),
        ([5, 2, 3], [3], "", [5, 2]),
        ([3], [5, 3, 4], "", [5, 4]),
        ([5, 1, 2, 3], [6, 3, 4], "", [5, 6, 2, 4]),
        ([3, 2], [3, 4], "x", [2, 4]),
        ([2, 3], [4, 3], "y", [2, 4]),
        ([7, 3, 2], [4, 3], "xy", [7, 2, 4]),
        ([3], [4, 3], "xy", [4]),
        ([2, 0], [0, 4], "", [2, 4]),
    ],
)
def test_shapes_of_matmul(x: list[int], y: list[int], transposed: str, expected: list[int]) -> None:
    flags = {"transpose_x": "x" in transposed, "transpose_y": "y" in transposed}
    assert shape("matmul", x, y, **flags) == expected
    op = find_op("matmul")
    (result,) = op.evaluate({"x": np.ones(x), "y": np.ones(y)}, op.complete(flags))
    assert list(result.shape) == expected


def test_counts() -> None:
    assert macs("matmul", [2, 3], [3, 4]) == 24
    assert macs("matmul", [3, 2], [3, 4], transpose_x=True) == 24
    assert macs("matmul", [3], [3]) == 3
    assert macs("bmm", [5, 1, 2, 3], [6, 3, 4]) == 30 * 24
    assert macs("bmm_w", [5, 2, 3], [5, 3, 4]) == 5 * 24
    assert macs("linear", [5, 2, 3], [4, 3]) == 5 * 2 * 3 * 4
    assert macs("einsum", [2, 3, 4, 5], [2, 5, 4, 6], equation="nchw,nwhu->nchu") == 2 * 3 * 4 * 5 * 6
    assert macs("einsum", [3, 3], [3, 2], equation="ii,ij->j") == 6


def test_linear_multiplies_by_the_rows_of_the_weight() -> None:
    op = find_op("linear")
    operands = {
        "x": np.array([1.0, 10.0]),
        "weight": np.array([[1.0, 2], [3, 4], [5, 6]]),
        "bias": np.array([0.5, 0, 0]),
    }
    (result,) = op.evaluate(operands, {})
    assert result.tolist() == [21.5, 43, 65]


def test_whole_numbers_wrap_in_their_own_type() -> None:
    op = find_op("matmul")
    x = np.full((1, 2), 100, np.int8)
    (result,) = op.evaluate({"x": x, "y": np.ones((2, 1), np.int8)}, op.complete({}))
    assert result.dtype == np.int8
    assert result.item() == 200 - 256


def test_einsum_takes_diagonals_and_adds_labels_of_one_operand() -> None:
    op = find_op("einsum")
    x, y = np.arange(4.0).reshape(2, 2), np.array([1.0, 10.0])
    expected = {"ii,i->i": [0, 30], "ij,j->": 42, "ij , j -> ji": [[0, 2], [10, 30]], "ij,k->k": [6, 60]}
    for equation, result in expected.items():
        assert op.evaluate({"values": (x, y)}, {"equation": equation})[0].tolist() == result


@pytest.mark.parametrize(
    ("equation", "x", "y", "result"),
    [
        ("bij,bjk->bik", [1, 2, 3], [5, 3, 4], [5, 2, 4]),
        ("bij,bjk->bik", [5, 2, 3], [1, 3, 4], [5, 2, 4]),
        ("bhij,bhjk->bhik", [2, 1, 2, 3], [1, 4, 3, 2], [2, 4, 2, 2]),
        ("i,i->i", [1], [0], [0]),
    ],
)
def test_a_label_of_all_three_broadcasts(equation: str, x: list[int], y: list[int], result: list[int]) -> None:
    assert shape("einsum", x, y, equation=equation) == result
    arrays = [np.random.default_rng(0).normal(size=one) for one in (x, y)]
    expected = array(torch.einsum(equation, *map(tensor, arrays)))
    (values,) = find_op("einsum").evaluate({"values": tuple(arrays)}, {"equation": equation})
    np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_a_broadcast_label_counts_with_its_length() -> None:
    assert macs("einsum", [1, 2, 3], [5, 3, 4], equation="bij,bjk->bik") == 5 * 2 * 3 * 4


@pytest.mark.parametrize(
    ("equation", "x", "y"),
    [("ij,jk->ik", [2, 1], [3, 4]), ("ii,ij->ij", [1, 3], [3, 2]), ("ij,ij->ij", [2, 3], [4, 3])],
)
def test_no_other_label_broadcasts(equation: str, x: list[int], y: list[int]) -> None:
    with pytest.raises(GraphError, match="has two lengths"):
        shape("einsum", x, y, equation=equation)


def test_kinds_of_operands() -> None:
    assert {operand.kind for operand in find_op("bmm").operands} == {OperandKind.TENSOR}
    assert find_op("bmm_w").operand("y").kind is OperandKind.CONSTANT
    assert find_op("linear").operand("bias").kind is OperandKind.CONSTANT
    assert [find_op(name).mil_name for name in ("bmm", "bmm_w", "ne_matmul")] == ["matmul", "matmul", "ne_matmul"]


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("matmul", [[2, 3], [4, 5]], r"last axis of x and the second-last axis of y .*\(got 3 and 4, .*transpose_x"),
        ("matmul", [[2, 3], [4]], r"last axis of x and the only axis of y .*\[2, 3\] by \[4\]"),
        ("matmul", [[], [4]], r"x is a single number.*use mul"),
        ("matmul", [[2, 1, 3], [4, 3, 1]], r"do not broadcast"),
        ("bmm", [[2, 3], [4, 5]], r"bmm: x.shape\[-1\] and y.shape\[-2\] differ: \[2, 3\] by \[4, 5\] \(got 3 and 4"),
        ("bmm", [[2, 3], [3]], r"y of shape \[3\] has too few axes \(got 1, limit 2 or more: matrices\)"),
        ("bmm_w", [[2, 3], [3, 3]], r"x of shape \[2, 3\] has the wrong rank"),
        (
            "bmm_w",
            [[2, 3, 4], [3, 4, 4]],
            r"must be one weight for every matrix of the batch \(got 3 weights, limit 2\)",
        ),
        ("bmm_w", [[2, 3, 4], [2, 5, 4]], r"x.shape\[-1\] and y.shape\[-2\] differ"),
        ("linear", [[2, 3], [3, 4]], r"does not fit the weight \(got 3, limit 4\).*\[D_out, D_in\]"),
        ("linear", [[], [3, 4]], r"does not fit the weight \(got a single number"),
        ("linear", [[2, 3], [3]], r"weight of shape \[3\] has the wrong rank"),
        (
            "linear",
            [[2, 3], [4, 3], [3]],
            r"bias must hold one number for each row of the weight \(got \[3\], expected \[4\]",
        ),
    ],
)
def test_misuse_is_explained(name: str, shapes: list[list[int]], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        shape(name, *shapes)


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk", r"not of two operands and a result \(got 'ij,jk', expected such as 'ij,jk->ik'\)"),
        ("ij->ji", r"not of two operands and a result"),
        ("ij,jk,kl->il", r"not of two operands and a result"),
        ("...j,jk->...k", r"the equation has '\.' for a label"),
        ("ij,jk->il", r"the result has the label 'l', which no operand has"),
        ("ij,jk->ikk", r"the result has the label 'k' twice"),
        ("ijk,jk->i", r"operand 0 has labels 'ijk' and shape \[2, 3\] \(got rank 2, expected rank 3\)"),
        ("ij,ik->jk", r"the label 'i' of 'ij,ik->jk' has two lengths \(got 2 and 3, expected one length, or 1 in"),
        ("ii,jk->ik", r"the label 'i' of 'ii,jk->ik' has two lengths"),
    ],
)
def test_an_equation_is_checked(equation: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        shape("einsum", [2, 3], [3, 4], equation=equation)


def test_einsum_takes_two_operands() -> None:
    with pytest.raises(GraphError, match=r"einsum takes two operands \(got 1 operands, limit 2\)"):
        shape("einsum", [2, 3], equation="ij,jk->ik")


def test_truth_values_are_refused() -> None:
    flags = TensorType((2, 2), "bool")
    for name in ("matmul", "bmm"):
        op = find_op(name)
        with pytest.raises(GraphError, match="must hold numbers"):
            op.types({"x": flags, "y": flags}, op.complete({}))
