"""Weights that are stored as chains of constexpr operations stay so: read, written, read again, and compiled."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.lower.lower import lower
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.program import parse_mil
from aneforge.ops.composed import Composed, Recipe
from aneforge.ops.constant import Dense
from aneforge.targets import resolve
from mil_cases import PORT, call, program

if TYPE_CHECKING:
    from pathlib import Path

INDICES = "tensor<uint1, [2, 4]>([0, 1, 0, 1, 1, 1, 0, 0])"
MASK = "tensor<uint1, [2, 4]>([1, 0, 0, 1, 0, 0, 1, 1])"
USE = call("mul(x = x, y = w)")


def named(kinds: str, op: str) -> str:
    """Return a statement whose results have their own names."""
    return f'{kinds} = {op}[name = string("{kinds.rsplit(maxsplit=1)[-1]}")];'


TABLE_QUANTISED = (
    named(
        "tensor<fp16, [2, 1, 2, 1]> t",
        "constexpr_blockwise_shift_scale(data = tensor<int8, [2, 1, 2, 1]>([2, 4, 6, 8]), "
        "scale = tensor<fp16, [1, 1, 1, 1]>([0.5]))",
    ),
    named(f"{PORT} w", f"constexpr_lut_to_dense(indices = {INDICES}, lut = t)"),
)
GROUPED = (
    named(f"{PORT} w", f"constexpr_lut_to_dense(indices = {INDICES}, lut = tensor<fp16, [2, 1, 2, 1]>([1, 2, 3, 4]))"),
)
VECTORS = (
    named(
        f"{PORT} w",
        "constexpr_lut_to_dense(indices = tensor<uint2, [2, 2]>([0, 1, 2, 3]), "
        "lut = tensor<fp16, [1, 1, 4, 2]>([1, 2, 3, 4, 5, 6, 7, 8]), vector_axis = int32(1))",
    ),
)
SCALED = (
    named(f"{PORT} d", f"constexpr_lut_to_dense(indices = {INDICES}, lut = tensor<fp16, [1, 1, 2, 1]>([1, 2]))"),
    named(f"{PORT} w", "constexpr_blockwise_shift_scale(data = d, scale = tensor<fp16, [2, 1]>([1, 3]))"),
)
SPARSE_TABLE = (
    named(
        "tensor<uint1, [2, 4]> m, tensor<fp16, [4]> v",
        f"constexpr_lut_to_sparse(indices_mask = {MASK}, indices_nonzero_data = tensor<uint1, [4]>([0, 1, 1, 0]), "
        "lut = tensor<fp16, [1, 1, 2, 1]>([7, 9]))",
    ),
    named(f"{PORT} w", "constexpr_sparse_to_dense(mask = m, nonzero_data = v)"),
)
SPARSE_QUANTISED = (
    named(
        "tensor<uint1, [2, 4]> m, tensor<fp16, [4]> v",
        f"constexpr_sparse_blockwise_shift_scale(data_mask = {MASK}, nonzero_data = tensor<int8, [4]>([2, 4, 6, 8]), "
        "offset = tensor<int8, [2, 1]>([0, 2]), scale = tensor<fp16, [2, 1]>([0.5, 1.0]))",
    ),
    named(f"{PORT} w", "constexpr_sparse_to_dense(mask = m, nonzero_data = v)"),
)
CASES = {
    "grouped": (GROUPED, [[1, 2, 1, 2], [4, 4, 3, 3]], 1 + 8),
    "vectors": (VECTORS, [[1, 2, 3, 4], [5, 6, 7, 8]], 1 + 16),
    "scaled": (SCALED, [[1, 2, 1, 2], [6, 6, 3, 3]], 1 + 4 + 4),
    "table_quantised": (TABLE_QUANTISED, [[1, 2, 1, 2], [4, 4, 3, 3]], 1 + 4 + 2),
    "sparse_table": (SPARSE_TABLE, [[7, 0, 0, 9], [0, 0, 9, 7]], 1 + 1 + 4),
    "sparse_quantised": (SPARSE_QUANTISED, [[1, 0, 0, 2], [0, 0, 4, 6]], 1 + 4 + 2 + 4),
}


def read(name: str) -> af.Graph:
    """Return the graph of a case."""
    return parse_mil(program(*CASES[name][0], USE)).graph()


def the_constant(graph: af.Graph) -> Composed:
    """Return the one constant of a graph."""
    (constant,) = graph.constants.values()
    assert isinstance(constant, Composed)
    return constant


@pytest.mark.parametrize("name", CASES)
def test_a_chain_is_kept_with_what_it_stores(name: str) -> None:
    statements, values, stored = CASES[name]
    program_read = parse_mil(program(*statements, USE))
    constant = the_constant(program_read.graph())
    assert constant.dense().tolist() == values
    assert constant.nbytes == stored
    assert not program_read.findings()
    assert af.reference(program_read.graph(), [np.ones((2, 4))])["y"].tolist() == values


@pytest.mark.parametrize("name", CASES)
def test_text_has_the_same_chain_again(name: str, tmp_path: Path) -> None:
    graph = read(name)
    path = af.save_mil(graph, tmp_path)
    again = af.load_model(path)
    assert the_constant(again) == the_constant(graph)
    assert af.to_mil(again).text == af.to_mil(graph).text


@pytest.mark.parametrize("name", CASES)
def test_a_package_has_the_same_chain_again(name: str, tmp_path: Path) -> None:
    pytest.importorskip("coremltools", reason="coremltools, whose protobuf classes packages need, is not installed")
    graph = read(name)
    again = af.load_model(af.save_mlpackage(graph, tmp_path / "a.mlpackage"))
    assert the_constant(again) == the_constant(graph)


def test_the_results_of_one_operation_are_written_once() -> None:
    text = af.to_mil(read("sparse_table")).text
    assert text.count("constexpr_lut_to_sparse(") == text.count("constexpr_sparse_to_dense(") == 1


def test_a_pickled_graph_is_the_same() -> None:
    graph = read("sparse_table")
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301 - made here


def test_a_compiled_program_has_it_decoded_and_says_so() -> None:
    program_made = lower(read("grouped"), resolve("h13"))
    (constant,) = program_made.constants.values()
    assert isinstance(constant, Dense)
    assert constant.values.tolist() == CASES["grouped"][1]
    assert [note.text for note in program_made.notes] == [
        "y is decoded before compilation: no encoding of weights has lut_to_dense"
    ]


def test_constants_of_other_parts_differ() -> None:
    indices, table = Dense(np.zeros((2, 2), np.uint8)), Dense(np.zeros((1, 1, 2, 1), np.float16))
    recipes = [
        Recipe("constexpr_lut_to_dense", {"indices": indices, "lut": table}, axis, bits)
        for axis, bits in ((None, 1), (None, 8), (0, 1), (1, 1))
    ]
    assert len({Composed(recipe) for recipe in recipes}) == len(recipes)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("lut = tensor<fp16, [2, 1, 1, 1]>([1, 2])", "past the table"),
        ("lut = tensor<fp16, [2, 1, 2, 2]>([1, 2, 3, 4, 5, 6, 7, 8])", "needs an axis"),
        ("lut = tensor<fp16, [3, 1, 2, 1]>([1, 2, 3, 4, 5, 6])", "block"),
    ],
)
def test_parts_that_do_not_fit_are_found_where_they_stand(statement: str, words: str) -> None:
    text = program(named(f"{PORT} w", f"constexpr_lut_to_dense(indices = {INDICES}, {statement})"), USE)
    with pytest.raises(MilError, match=words) as raised:
        parse_mil(text, file="net.mil").graph()
    assert "net.mil:5" in str(raised.value)


def test_a_chain_that_is_longer_than_any_is_made_dense() -> None:
    first = named(
        f"{PORT} w0",
        "constexpr_blockwise_shift_scale(data = tensor<fp16, [2, 4]>([1, 2, 3, 4, 5, 6, 7, 8]), "
        "scale = tensor<fp16, [1, 1]>([1]))",
    )
    scale = "scale = tensor<fp16, [1, 1]>([1])"
    count = 400
    rest = [
        named(f"{PORT} w{place + 1}", f"constexpr_blockwise_shift_scale(data = w{place}, {scale})")
        for place in range(count)
    ]
    read_program = parse_mil(program(first, *rest, call(f"mul(x = x, y = w{count})")))
    (constant,) = read_program.graph().constants.values()
    assert constant.dense().tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert {finding.rule for finding in read_program.findings()} == {"MIL-CONSTEXPR-002"}
