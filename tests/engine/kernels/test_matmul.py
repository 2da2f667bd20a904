"""Matrix products of the kernels, bit for bit against the golden model, on every path."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import golden, quantised
from aneforge.engine.kernels.library import using
from aneforge.engine.kernels.matmul import int8_matmul, matmul, matmul_total
from aneforge.errors import GraphError, GraphTypeError
from kernel_checks import assert_same_bits, biases, needs_kernels, on_every_path, tensors

Array = npt.NDArray[Any]
EXTENT = st.one_of(st.integers(1, 20), st.integers(1, 120))
ALL_PATTERNS = np.arange(65536, dtype=np.uint16)


def golden_matmul(x: Array, w: Array, bias: Array | None = None) -> Array:
    with np.errstate(all="ignore"):
        return golden.matmul(x, w, bias)


@on_every_path
@settings(max_examples=150, deadline=None)
@given(st.data(), EXTENT, EXTENT, EXTENT, st.integers(1, 3))
def test_adversarial_matrices(
    path: str, data: st.DataObject, rows: int, depth: int, columns: int, threads: int
) -> None:
    x, w = data.draw(tensors((rows, depth), (depth, columns)))
    bias = data.draw(biases(data.draw(st.sampled_from([(columns,), (rows, 1), (rows, columns), ()]))))
    with using(path=path, threads=threads), np.errstate(all="ignore"):
        found, total = matmul(x, w, bias), matmul_total(x, w, bias)
        expected = golden.matmul_sum(x, w, bias).total()
    assert_same_bits(found, golden.round_out(expected))
    np.testing.assert_array_equal(total, expected)
    assert (np.signbit(total) == np.signbit(expected))[~np.isnan(expected)].all()


@on_every_path
@settings(max_examples=150, deadline=None)
@given(st.data(), st.one_of(st.integers(1, 100), st.integers(1000, 1100)), EXTENT)
def test_one_row_meets_columns_whose_terms_lie_side_by_side(
    path: str, data: st.DataObject, depth: int, columns: int
) -> None:
    x, w = data.draw(tensors((2, 1, depth), (2, columns, depth)))
    bias = data.draw(biases(data.draw(st.sampled_from([(columns,), (2, 1, columns), ()]))))
    turned = w.swapaxes(1, 2)
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(matmul(x, turned, bias), golden_matmul(x, turned, bias))
        assert_same_bits(matmul(w[0], x[0].T), golden_matmul(w[0], x[0].T))
        np.testing.assert_array_equal(matmul_total(x, turned, bias), golden.matmul_sum(x, turned, bias).total())


@on_every_path
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([(3,), (2, 3), (1, 3), (2, 1)]), st.sampled_from([(), (3,), (2, 3), (1, 1)]))
def test_batches_are_broadcast(path: str, data: st.DataObject, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, w = data.draw(tensors((*left, 5, 33), (*right, 33, 18)))
    bias = data.draw(biases(data.draw(st.sampled_from([(18,), (5, 1), (1, 5, 18)]))))
    with using(path=path):
        found = matmul(x, w, bias)
    assert_same_bits(found, golden_matmul(x, w, bias))


@on_every_path
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_operands_are_read_where_they_lie(path: str, data: st.DataObject) -> None:
    x, w = data.draw(tensors((70, 37), (50, 70)))
    with using(path=path):
        assert_same_bits(matmul(x.T, w.T), golden_matmul(x.T, w.T))
        assert_same_bits(matmul(x.T[::2, ::-1], w.T[:, 3:40:5]), golden_matmul(x.T[::2, ::-1], w.T[:, 3:40:5]))
        assert_same_bits(matmul(x.T, w.T[:, :1]), golden_matmul(x.T, w.T[:, :1]))


@cache
def all_products() -> tuple[Array, Array, Array]:
    """Return all 65,536 numbers, a sample of partners of every exponent, and the golden products."""
    generator = np.random.default_rng(5)
    partners = np.sort(np.concatenate([generator.integers(0, 65536, 40), np.arange(0, 65536, 1024), [1, 1023, 32769]]))
    x, w = ALL_PATTERNS.view(np.float16)[:, None], partners.astype(np.uint16).view(np.float16)[None]
    return x, w, golden_matmul(x, w)


@on_every_path
def test_every_number_meets_all_sorts_of_partners(path: str) -> None:
    x, w, expected = all_products()
    with using(path=path):
        assert_same_bits(matmul(x, w), expected)
        assert_same_bits(matmul(w.T, x.T), expected.T)
        for place in range(0, w.shape[1], 7):
            assert_same_bits(matmul(x, w[:, place : place + 1]), expected[:, place : place + 1])


@on_every_path
@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 300, 2500])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_that_touch_the_edge_in_both_orders(path: str, count: int, sign: int) -> None:
    """Terms that pass 2^15 and come back are infinite; the same terms in an order that does not pass are not."""
    ones = np.ones((4 * count, 1), np.float16)
    step = sign * 2.0**14 / count
    passing = np.repeat([step, step, -step, -step], count)
    staying = np.repeat([step, -step, step, -step], count)
    below = np.concatenate([np.repeat([step], 2 * count - 1), np.repeat([-step], 2 * count + 1)])
    x = np.stack([passing, staying, below]).astype(np.float16)
    expected = golden_matmul(x, ones)
    if float(np.float16(step)) == step:
        assert expected[:2, 0].tolist() == [sign * np.inf, 0.0]
    with using(path=path):
        assert_same_bits(matmul(x, ones), expected)
        assert_same_bits(matmul(ones.T, np.ascontiguousarray(x.T)), golden_matmul(ones.T, x.T))


@on_every_path
def test_the_last_sum_below_the_edge(path: str) -> None:
    """The largest sum is finite in the accumulator and infinite in fp16, where it rounds to 2^15; 32,752 passes."""
    x = np.array([[32752.0, 0.0], [32752.0, 7.5], [32752.0, 8.0], [32752.0, 16.0]], np.float16)
    w = np.ones((2, 1), np.float16)
    with using(path=path):
        found = matmul(x, w)
    assert found.ravel().tolist() == [32752.0, 32752.0, np.inf, np.inf]
    assert_same_bits(found, golden_matmul(x, w))


@on_every_path
def test_a_sum_of_negative_zeros_keeps_their_sign(path: str) -> None:
    """Products that round to −0 leave a start of −0 as it is; a product that is dropped is +0, and so is the sum."""
    x = np.array([[2.0**-24] * 3, [2.0**-24, 0.0, 2.0**-24], [2.0**-24, 2.0**-24, -(2.0**-24)]], np.float16)
    w = np.array([[-1.0, -(2.0**-4)]] * 3, np.float16)
    bias = np.array([-0.0, -(2.0**-20)])
    expected = golden_matmul(x, w, bias)
    assert np.signbit(expected).tolist() == [[True, False], [True, False], [False, False]]
    with using(path=path):
        assert_same_bits(matmul(x, w, bias), expected)
        assert np.signbit(matmul_total(x, w, bias)).tolist() == np.signbit(expected).tolist()


@on_every_path
@pytest.mark.parametrize(("rows", "depth", "columns"), [(9, 5000, 50), (1, 4099, 130), (130, 2049, 1)])
@pytest.mark.parametrize("scale", [0.02, 1.0, 20.0, 200.0])
def test_deep_sums_go_block_by_block(path: str, rows: int, depth: int, columns: int, scale: float) -> None:
    generator = np.random.default_rng(rows)
    x = (generator.standard_normal((rows, depth)) * scale).astype(np.float16)
    w = (generator.standard_normal((depth, columns)) * scale).astype(np.float16)
    with using(path=path):
        assert_same_bits(matmul(x, w), golden_matmul(x, w))
        if rows == 1:
            assert_same_bits(matmul(x, np.ascontiguousarray(w.T).T), golden_matmul(x, w))


@on_every_path
@pytest.mark.parametrize("scale", [40.0, 300.0, 1200.0])
@pytest.mark.parametrize(("rows", "columns"), [(40, 50), (28, 130), (17, 16)])
def test_large_products_among_small_ones(path: str, scale: float, rows: int, columns: int) -> None:
    """Products on both sides of 64, halfway between units, and some that are dropped, at the same steps."""
    generator = np.random.default_rng(rows)
    x = generator.standard_normal((rows, 200)) * scale
    w = generator.standard_normal((200, columns)) / 16
    w *= 2.0 ** np.where(generator.random((200, 1)) < 0.3, generator.integers(-9, 2, (200, 1)), 0)
    x[:, ::7] = (2 * generator.integers(0, 8, (rows, 29)) + 1) * 2.0**-9  # ties with the next ones
    w[::7] = (2 * generator.integers(0, 8, (29, columns)) + 1) * 2.0**-8
    x[generator.random(x.shape) < 0.02] = 2.0**-14
    left, right = x.astype(np.float16), w.astype(np.float16)
    with using(path=path, threads=2):
        assert_same_bits(matmul(left, right), golden.matmul(left, right))


@on_every_path
def test_a_product_does_not_depend_on_threads(path: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((300, 200)).astype(np.float16)
    w = generator.standard_normal((200, 500)).astype(np.float16)
    results: list[Array] = []
    for threads in (1, 2, 5):
        with using(path=path, threads=threads):
            results.append(matmul(x, w))
    for result in results[1:]:
        assert_same_bits(result, results[0])


@needs_kernels
def test_vectors_bits_and_empty_products() -> None:
    x, w = np.arange(3, dtype=np.float16), np.ones((3, 2), np.float16)
    assert matmul(x, w).tolist() == golden.matmul(x, w).tolist() == [3.0, 3.0]
    assert matmul(x, w, np.array([0.5, 1.0])).tolist() == [3.5, 4.0]
    bits = matmul(x.view(np.uint16), w.view(np.uint16))
    assert bits.dtype == np.uint16
    assert bits.view(np.float16).tolist() == [3.0, 3.0]
    assert matmul(np.ones((2, 0), np.float16), np.ones((0, 3), np.float16), np.array(2.0)).tolist() == [[2.0] * 3] * 2
    assert matmul(np.ones((0, 3), np.float16), w).shape == (0, 2)


@on_every_path
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), EXTENT, EXTENT, EXTENT, st.sampled_from([1.0, 2.0**-7, -3.0]))
def test_bytes_add_exactly(path: str, seed: int, rows: int, depth: int, columns: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    x = generator.integers(-128, 128, (rows, depth)).astype(np.int8)
    w = generator.integers(-128, 128, (depth, columns)).astype(np.int8)
    with using(path=path):
        assert_same_bits(int8_matmul(x, w, scale), quantised.int8_matmul(x, w, scale))


@on_every_path
def test_the_largest_sums_of_bytes(path: str) -> None:
    x, w = np.full((1, 131_000), -128, np.int8), np.full((131_000, 1), -128, np.int8)
    with using(path=path):
        for scale in (1.0, 2.0**-17):
            assert_same_bits(int8_matmul(x, w, scale), quantised.int8_matmul(x, w, scale))
            assert_same_bits(int8_matmul(x[:, :4], w[:4], scale), quantised.int8_matmul(x[:, :4], w[:4], scale))
    longer = np.full((1, 140_000), -128, np.int8)
    assert int8_matmul(longer, longer.T).item() == np.inf


def test_operands_that_do_not_go_together() -> None:
    one, two = np.ones((2, 3), np.float16), np.ones((4, 3, 5), np.float16)
    with pytest.raises(GraphError, match=r"matmul: the inner extents differ \(got \(2, 3\) and \(2, 3\)\)"):
        matmul(one, one)
    with pytest.raises(GraphError, match="the batches do not match"):
        matmul(np.ones((3, 2, 3), np.float16), two)
    with pytest.raises(GraphError, match=r"the bias does not fit \(got \(4,\), expected \(4, 2, 5\)\)"):
        matmul(one, two, np.ones(4))
    with pytest.raises(GraphError, match="takes a vector or matrices and matrices"):
        matmul(one, one[0])
    with pytest.raises(GraphTypeError, match=r"matmul: kernels take fp16 numbers \(got float32.*Remedy"):
        matmul(one.astype(np.float32), two)
    with pytest.raises(GraphTypeError, match="an operand is not int8"):
        int8_matmul(one, two)
