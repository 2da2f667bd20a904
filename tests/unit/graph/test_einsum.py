"""`einsum`: random equations against NumPy's, the operations that it builds, and every error."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aneforge.errors import GraphError, GraphTypeError, NotSupportedError
from aneforge.graph.builder.einsum import EinsumUnsupported, einsum, einsum_native
from aneforge.graph.builder.inputs import input as graph_input
from aneforge.graph.graph import as_graph
from aneforge.graph.methods.base import BUILDER_MAX_RANK
from aneforge.graph.reference import reference

if TYPE_CHECKING:
    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array

Shapes = tuple[tuple[int, ...], ...]

ELLIPSIS = "..."
LABELS = "abcdE"


def inputs(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [graph_input(shape) for shape in shapes]


def arrays(shapes: Shapes) -> list[Array]:
    generator = np.random.default_rng(7)
    return [generator.normal(size=shape) for shape in shapes]


def operations(tensor: Tensor) -> list[str]:
    return [node.op.name for node in as_graph(tensor).nodes if node.op.name != "input"]


def check(equation: str, *shapes: tuple[int, ...]) -> Tensor:
    """Check the meaning of an equation against NumPy's, and that no tensor has too many axes."""
    values = arrays(shapes)
    result = einsum(equation, *inputs(*shapes))
    wanted = np.einsum(equation, *values)
    assert result.shape == wanted.shape
    np.testing.assert_allclose(reference(result, values)["y"], wanted, rtol=1e-9, atol=1e-9)
    assert max(len(node.types[0].shape) for node in as_graph(result).nodes) <= BUILDER_MAX_RANK
    return result


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, Shapes]:
    """Draw an equation of one to three operands: repeated labels, ellipses, axes of length 1, an arrow or none."""
    extents = {label: draw(st.integers(1, 3)) for label in LABELS}
    broadcast = draw(st.lists(st.integers(1, 3), max_size=2))
    parts: list[list[str]] = []
    shapes: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        labels = draw(st.lists(st.sampled_from(LABELS), max_size=3 if broadcast else 5))
        stretched = set(draw(st.lists(st.sampled_from(LABELS), max_size=1)))
        shape = [1 if label in stretched else extents[label] for label in labels]
        if broadcast and draw(st.booleans()):
            place = draw(st.integers(0, len(labels)))
            own = broadcast[draw(st.integers(0, len(broadcast))) :]
            labels = [*labels[:place], ELLIPSIS, *labels[place:]]
            shape[place:place] = [draw(st.sampled_from([1, extent])) for extent in own]
        parts.append(labels)
        shapes.append(tuple(shape))
    text = ",".join("".join(part) for part in parts)
    if draw(st.booleans()):
        known = sorted({label for part in parts for label in part})
        output = draw(st.permutations(known))
        kept = [label for label in output if label == ELLIPSIS or draw(st.booleans())]
        text += "->" + "".join(kept)
    return text, tuple(shapes)


@settings(max_examples=400, deadline=None)
@given(equations())
def test_random_equations_mean_what_numpy_says(drawn: tuple[str, Shapes]) -> None:
    equation, shapes = drawn
    assume(np.einsum(equation, *arrays(shapes)).ndim <= BUILDER_MAX_RANK)
    check(equation, *shapes)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", ((2, 3), (3, 4))),
        (" i j , j k -> i k ", ((2, 3), (3, 4))),
        ("ij,jk,kl,lm->im", ((2, 3), (3, 4), (4, 5), (5, 2))),
        ("ij->ji", ((2, 3),)),
        ("ij->", ((2, 3),)),
        ("ii", ((3, 3),)),
        ("iij->ji", ((3, 3, 2),)),
        ("iii->i", ((3, 3, 3),)),
        ("ijij->ij", ((2, 3, 2, 3),)),
        ("i,j->ji", ((2,), (3,))),
        ("i,i->", ((4,), (4,))),
        (",->", ((), ())),
        (",i->i", ((), (3,))),
        ("...ij,...jk->...ik", ((4, 2, 3), (5, 4, 3, 2))),
        ("i...,j...->...ij", ((2, 4), (3, 1))),
        ("a...b->b...", ((2, 4, 5, 3),)),
        ("bij,bjk->bik", ((1, 2, 3), (4, 3, 2))),
        ("ij,jk->ik", ((2, 1), (3, 4))),
        ("abcde,abcde->abcde", ((2, 1, 2, 1, 2), (2, 1, 2, 1, 2))),
        ("abcdi,abcid->abcd", ((2, 3, 2, 2, 3), (2, 3, 2, 3, 2))),
        ("abc,def,ad,be,cf->", ((2, 2, 2), (2, 2, 2), (2, 2), (2, 2), (2, 2))),
        ("nchw,nwhu->nchu", ((2, 3, 2, 4), (2, 4, 2, 5))),
    ],
)
def test_equations_of_every_sort(equation: str, shapes: Shapes) -> None:
    check(equation, *shapes)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4)), ["bmm"]),
        ("bhij,bhjk->bhik", ((1, 2, 3, 4), (1, 2, 4, 5)), ["bmm"]),
        ("bhqd,bhkd->bhqk", ((1, 2, 3, 4), (1, 2, 5, 4)), ["transpose", "bmm"]),
        ("bij,jk->bik", ((2, 3, 4), (4, 5)), ["reshape", "bmm", "reshape"]),
        ("ij,ij->ij", ((2, 3), (2, 3)), ["mul"]),
        ("ij->ij", ((2, 3),), []),
        ("ij->j", ((2, 3),), ["reduce_sum", "reshape"]),
        ("ii->i", ((3, 3),), ["mul", "reduce_sum", "reshape"]),
        ("bij->ijb", ((1, 3, 4),), ["reshape"]),
    ],
)
def test_no_more_operations_than_needed(equation: str, shapes: Shapes, expected: list[str]) -> None:
    assert operations(check(equation, *shapes)) == expected


def test_the_cheapest_product_comes_first() -> None:
    result = check("ij,jk,k->i", (8, 8), (8, 8), (8,))
    products = [node for node in as_graph(result).nodes if node.op.name == "bmm"]
    assert [node.types[0].size for node in products] == [8, 8]


def test_an_order_is_found_where_the_cheapest_product_is_too_wide() -> None:
    check("abc,def,abcd,efg->g", (1, 1, 1), (1, 1, 1), (1, 1, 1, 1), (1, 1, 2))


ERRORS = [
    ("i$,j->ij", ((2, 2), (3,)), "'$' in 'i$' is not a label, in 'i$,j->ij' (expected letters and one '...')"),
    ("i->i->i", ((2,),), "'-' in 'i->i' is not a label, in 'i->i->i' (expected letters and one '...')"),
    ("..i->i", ((2,),), "'.' in '..i' is not a label, in '..i->i' (expected letters and one '...')"),
    (
        "...i...->i",
        ((2,),),
        "a second ellipsis in '...i...' is not a label, in '...i...->i' (expected letters and one '...')",
    ),
    ("ij,jk->ik", ((2, 3),), "the operands do not match, in 'ij,jk->ik' (got 1 tensors, limit 2 operands)"),
    ("i", (), "the operands do not match, in 'i' (got 0 tensors, limit 1 operands)"),
    ("ij->i", ((2,),), "operand 0 with labels 'ij' has shape [2], in 'ij->i' (got rank 1, expected rank 2)"),
    ("i,i->i", ((2,), (2, 2)), "operand 1 with labels 'i' has shape [2, 2], in 'i,i->i' (got rank 2, expected rank 1)"),
    (
        "ij...->i",
        ((2,),),
        "operand 0 with labels 'ij...' has shape [2], in 'ij...->i' (got rank 1, expected rank 2 or more)",
    ),
    (
        "ii->i",
        ((2, 3),),
        "the axes of label 'i' of operand 0 differ, in 'ii->i' (got 2 and 3, expected one length)",
    ),
    (
        "ij,jk->ik",
        ((2, 3), (4, 5)),
        "label 'j' has another length in operand 1, in 'ij,jk->ik' (got 3 and 4, expected one length, or 1)",
    ),
    (
        "ij->ik",
        ((2, 3),),
        "the output has the label 'k', which no operand has, in 'ij->ik' (expected one of 'i', 'j')",
    ),
    ("->i", ((),), "the output has the label 'i', which no operand has, in '->i' (expected no label)"),
    (
        "...i->i",
        ((4, 3),),
        (
            "the output leaves the ellipsis out, in '...i->i' (got 1 axes). "
            "Remedy: write '...' in the output, or sum over named labels"
        ),
    ),
]


@pytest.mark.parametrize(("equation", "shapes", "message"), ERRORS)
def test_malformed_equations(equation: str, shapes: Shapes, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        einsum(equation, *inputs(*shapes))
    assert not isinstance(caught.value, EinsumUnsupported)
    assert str(caught.value).partition(": ")[2] == message
    assert caught.value.operation == "einsum"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


UNSUPPORTED = [
    (
        "i->ii",
        ((3,),),
        (
            "'i->ii' cannot be built because of label 'i': the output has it twice. "
            "Remedy: multiply with an identity matrix"
        ),
    ),
    (
        "abc,def->abcdef",
        ((2, 2, 2), (2, 2, 2)),
        (
            "'abc,def->abcdef' cannot be built because of label 'f': "
            "the output has more axes than the builder allows (got 6, limit 5)"
        ),
    ),
    (
        "abcde,afghi,bfjkl,cgjmn,dhkmo,eilno->",
        ((2,) * 5,) * 6,
        (
            "'abcde,afghi,bfjkl,cgjmn,dhkmo,eilno->' cannot be built because of label 'g': "
            "in every order of products a tensor has more axes than the builder allows (got 8, limit 5). "
            "Remedy: merge axes with reshape before"
        ),
    ),
]


@pytest.mark.parametrize(("equation", "shapes", "message"), UNSUPPORTED)
def test_unsupported_equations(equation: str, shapes: Shapes, message: str) -> None:
    with pytest.raises(EinsumUnsupported) as caught:
        einsum(equation, *inputs(*shapes))
    assert isinstance(caught.value, NotImplementedError)
    assert str(caught.value).partition(": ")[2] == message


def test_operands_must_be_tensors() -> None:
    with pytest.raises(GraphTypeError, match=r"operand 1 of 'i,i->i' is not a tensor \(got an array of float64 of"):
        einsum("i,i->i", graph_input((2,)), np.ones(2))  # pyright: ignore[reportArgumentType] - what is tested


def test_the_native_operation() -> None:
    weights = np.random.default_rng(7).normal(size=(2, 4, 3, 5)).astype(np.float16)
    values = np.random.default_rng(8).normal(size=(2, 2, 3, 4))
    result = einsum_native("nchw,nwhu->nchu", graph_input(values.shape), weights)
    assert operations(result) == ["einsum"]
    assert result.attrs["equation"] == "nchw,nwhu->nchu"
    wanted = np.einsum("nchw,nwhu->nchu", values, weights.astype(np.float64))
    np.testing.assert_allclose(reference(result, [values])["y"], wanted)


def test_other_equations_have_no_native_operation() -> None:
    with pytest.raises(NotSupportedError) as caught:
        einsum_native("ij,jk->ik", graph_input((2, 3)), np.ones((3, 4), np.float16))
    assert str(caught.value).partition(": ")[2] == (
        "there is no native operation for 'ij,jk->ik' (expected 'nchw,nwhu->nchu'). "
        "Remedy: einsum builds others from matrix products"
    )


def test_the_search_for_an_order_ends() -> None:
    pairs = [first + second for first, second in combinations("abcdefghi", 2)]
    with pytest.raises(EinsumUnsupported, match="every order that was tried"):
        einsum(",".join(pairs) + "->", *inputs(*[(2, 2)] * len(pairs)))
    assert einsum(",".join(pairs[:15]) + "->", *inputs(*[(2, 2)] * 15)).shape == ()


def test_a_long_chain_of_products() -> None:
    equation = ",".join("ab" if place % 2 else "ba" for place in range(64)) + "->ab"
    assert einsum(equation, *inputs(*[(2, 2)] * 64)).shape == (2, 2)
    with pytest.raises(GraphError, match=r"too many operands \(got 65, limit 64"):
        einsum(",".join(["a"] * 65) + "->a", *inputs(*[(2,)] * 65))
