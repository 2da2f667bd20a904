"""Sums of products by labels, built from (batched) matrix products.

NumPy's `einsum` says what an equation means. An equation of several operands is taken apart into products of two, in
the order in which the cheapest comes first and no tensor between them has more axes than the builder allows. A product
of two with a label to sum over is one matrix product; one without is one multiplication.
"""

from __future__ import annotations

import math
import string
from dataclasses import field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, NotSupportedError
from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.methods.base import BUILDER_MAX_RANK, build_checked, weight
from aneforge.graph.methods.method_arguments import expect_makeable, misuse, part_of, text
from aneforge.graph.node import users_location
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.ops.types import Array

__all__ = ["EinsumUnsupported", "einsum", "einsum_native"]

NATIVE_EQUATION = "nchw,nwhu->nchu"
ELLIPSIS = "..."
SEPARATE_BATCH_AXES = 2
"""A product has at most four axes: this many axes of a batch stay separate, more are merged into one."""
OPERANDS_MOST = 64
"""NumPy's `einsum` takes no more operands either."""
SEARCH_MOST = 300_000
"""How many products are compared in the search for their order, about a second; there can be exponentially many."""
Labels = tuple[str, ...]


class EinsumUnsupported(NotSupportedError):  # noqa: N818 - the documented name
    """A valid equation that is not a chain of (batched) matrix products within the builder's rank.

    >>> import aneforge as af
    >>> try:
    ...     af.einsum("abcd,efgh->abcdefgh", af.input((2, 2, 2, 2)), af.input((2, 2, 2, 2)))
    ... except EinsumUnsupported as error:
    ...     print(error.message, error.seen, error.limit, sep=", ")
    'abcd,efgh->abcdefgh' cannot be built because of label 'f': the output has more axes than the builder allows, 8, 5
    """


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation with the shapes of its operands: labels are letters, or `...1`, `...2`, … from the last axis on."""

    text: str
    operands: tuple[Labels, ...]
    output: Labels
    extents: Mapping[str, int]

    def sizes(self, labels: Iterable[str]) -> list[int]:
        """Return the extents of labels."""
        return [self.extents[label] for label in labels]

    def in_output_order(self, labels: Iterable[str]) -> list[str]:
        """Return labels as the output has them, those that it does not have last."""
        order = {label: place for place, label in enumerate(self.output)}
        return sorted(labels, key=lambda label: order.get(label, len(order)))


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor with a label for every axis; without labels it is one element, in whatever shape."""

    tensor: Tensor
    labels: Labels


def einsum(eq: str, *tensors: Tensor) -> Tensor:
    """Return the sum of products over every label that the output does not have, as NumPy's `einsum` means it.

    Labels are letters; an ellipsis stands for axes without labels, which broadcast. A label that one operand has twice
    takes its diagonal. Without an arrow the output has the labels that occur once, in alphabetical order. Axes of
    length 1 broadcast.

    >>> from aneforge.graph.builder.inputs import input
    >>> q, k = input((1, 8, 16, 32)), input((1, 8, 20, 32))
    >>> einsum("bhqd,bhkd->bhqk", q, k).shape
    (1, 8, 16, 20)

    Raises:
        GraphError: The equation is malformed, or does not fit the shapes.
        GraphTypeError: An operand is not a tensor.
        EinsumUnsupported: The output repeats a label, or a tensor would have more axes than the builder allows.
    """
    source = text(eq, "einsum", "the equation")
    operands = [expect_tensor(tensor, "einsum", f"operand {place} of {eq!r}") for place, tensor in enumerate(tensors)]
    equation = read_equation(source, [tensor.shape for tensor in operands])
    with part_of("einsum"):
        return build_tensors(equation, operands)


def einsum_native(eq: str, a: Tensor, b: Array) -> Tensor:
    """Return the only einsum for which the engine has an operation: 'nchw,nwhu->nchu' with a constant b.

    >>> from aneforge.graph.builder.inputs import input
    >>> einsum_native("nchw,nwhu->nchu", input((1, 2, 3, 4)), np.zeros((1, 4, 3, 5), np.float16)).shape
    (1, 2, 3, 5)

    Raises:
        NotSupportedError: The equation is a different one.
        GraphTypeError: The equation is not a text, a is not a tensor, or b is not an array.
    """
    op = "einsum_native"
    if text(eq, op, "the equation").replace(" ", "") != NATIVE_EQUATION:
        raise misuse(
            op,
            f"there is no native operation for {eq!r}",
            limit=repr(NATIVE_EQUATION),
            remedy="einsum builds others from matrix products",
            error=NotSupportedError,
        )
    left = expect_tensor(a, op, "a")
    right = weight(b, op, "b", of_tensor="use einsum for tensors computed at run time")
    with part_of(op):
        return Tensor(build_checked("einsum", {"values": (left, right)}, equation=NATIVE_EQUATION))


# Reading an equation


def read_equation(text: str, shapes: Sequence[tuple[int, ...]]) -> Equation:
    """Return an equation with every label's extent.

    Raises:
        GraphError: It is malformed, or does not fit the shapes.
        EinsumUnsupported: The output repeats a label, or has too many.
    """
    squeezed = text.replace(" ", "")
    inputs, arrow, result = squeezed.partition("->")
    parts = [split_labels(part, text) for part in inputs.split(",")]
    if len(parts) > OPERANDS_MOST:
        raise misuse("einsum", "there are too many operands", seen=len(parts), limit=OPERANDS_MOST)
    if len(parts) != len(shapes):
        raise malformed(text, "the operands do not match", f"{len(shapes)} tensors", f"{len(parts)} operands")
    widths = [
        ellipsis_width(place, part, shape, text) for place, (part, shape) in enumerate(zip(parts, shapes, strict=True))
    ]
    operands = tuple(expand(part, width) for part, width in zip(parts, widths, strict=True))
    extents = label_extents(operands, shapes, text)
    most = max(widths)
    if not arrow:
        return Equation(text, operands, check_output(implicit_output(parts, most), extents, text), extents)
    output = split_labels(result, text)
    if most and ELLIPSIS not in output:
        remedy = "write '...' in the output, or sum over named labels"
        raise malformed(text, "the output leaves the ellipsis out", f"{most} axes", remedy=remedy)
    return Equation(text, operands, check_output(expand(output, most), extents, text), extents)


def split_labels(part: str, text: str) -> list[str]:
    """Return the labels of one operand or of the output, an ellipsis among them.

    Raises:
        GraphError: Something is neither a letter nor one ellipsis.
    """
    before, dots, after = part.partition(ELLIPSIS)
    for character in before + after:
        if character not in string.ascii_letters:
            found = "a second ellipsis" if dots and ELLIPSIS in after else repr(character)
            raise malformed(text, f"{found} in {part!r} is not a label", limit="letters and one '...'")
    return [*before, *([ELLIPSIS] if dots else []), *after]


def ellipsis_width(place: int, labels: Sequence[str], shape: tuple[int, ...], text: str) -> int:
    """Return how many axes the ellipsis of an operand stands for.

    Raises:
        GraphError: The operand has fewer axes than labels, or more and no ellipsis.
    """
    named = len(labels) - labels.count(ELLIPSIS)
    width = len(shape) - named
    if width < 0 or (width and ELLIPSIS not in labels):
        limit = f"rank {named}" + (" or more" if ELLIPSIS in labels else "")
        shown = "".join(labels)
        raise malformed(
            text, f"operand {place} with labels {shown!r} has shape {list(shape)}", f"rank {len(shape)}", limit
        )
    return width


def expand(labels: Sequence[str], width: int) -> Labels:
    """Return labels with the ellipsis written out.

    >>> expand(["a", "...", "b"], 2)
    ('a', '...2', '...1', 'b')
    """
    axes = [f"{ELLIPSIS}{place}" for place in range(width, 0, -1)]
    return tuple(one for label in labels for one in (axes if label == ELLIPSIS else [label]))


def label_extents(operands: Sequence[Labels], shapes: Sequence[tuple[int, ...]], text: str) -> dict[str, int]:
    """Return the length that every label stands for; 1 gives way to any other.

    Raises:
        GraphError: A label has two lengths, or an operand has it twice with different ones.
    """
    extents: dict[str, int] = {}
    for place, (labels, shape) in enumerate(zip(operands, shapes, strict=True)):
        own: dict[str, int] = {}
        for label, extent in zip(labels, shape, strict=True):
            known = own.setdefault(label, extent)
            if known != extent:
                raise malformed(
                    text,
                    f"the axes of label {label!r} of operand {place} differ",
                    f"{known} and {extent}",
                    "one length",
                )
        for label, extent in own.items():
            known = extents.get(label, 1)
            if 1 not in (known, extent) and known != extent:
                raise malformed(
                    text,
                    f"label {label!r} has another length in operand {place}",
                    f"{known} and {extent}",
                    "one length, or 1",
                )
            extents[label] = max(known, extent)
    return extents


def implicit_output(parts: Sequence[Sequence[str]], width: int) -> Labels:
    """Return the output of an equation without an arrow: the ellipsis, then the labels that occur once."""
    every = [label for part in parts for label in part if label != ELLIPSIS]
    return expand([ELLIPSIS, *sorted(label for label in every if every.count(label) == 1)], width)


def check_output(output: Labels, extents: Mapping[str, int], text: str) -> Labels:
    """Return an output of known labels, each once, and not too many.

    Raises:
        GraphError: A label is unknown.
        EinsumUnsupported: A label is there twice, or there are too many.
    """
    for place, label in enumerate(output):
        if label not in extents:
            limit = f"one of {', '.join(map(repr, extents))}" if extents else "no label"
            raise malformed(text, f"the output has the label {label!r}, which no operand has", limit=limit)
        if label in output[:place]:
            raise build_unsupported_error(
                text, label, "the output has it twice", remedy="multiply with an identity matrix"
            )
    if len(output) > BUILDER_MAX_RANK:
        reason = "the output has more axes than the builder allows"
        raise build_unsupported_error(text, output[BUILDER_MAX_RANK], reason, len(output), BUILDER_MAX_RANK)
    return output


def malformed(
    text: str, message: str, seen: object = None, limit: object = None, remedy: str | None = None
) -> GraphError:
    """Return the error of an equation that has no meaning."""
    return GraphError(
        f"{message}, in {text!r}",
        operation="einsum",
        location=users_location(),
        seen=seen,
        limit=limit,
        remedy=remedy,
    )


def build_unsupported_error(
    text: str, label: str, reason: str, seen: object = None, limit: object = None, remedy: str | None = None
) -> EinsumUnsupported:
    """Return the error of an equation that has a meaning and no form."""
    return EinsumUnsupported(
        f"{text!r} cannot be built because of label {label!r}: {reason}",
        operation="einsum",
        location=users_location(),
        seen=seen,
        limit=limit,
        remedy=remedy,
    )


def build_tensors(equation: Equation, tensors: Sequence[Tensor]) -> Tensor:
    """Return what an equation says of tensors."""
    terms = [
        diagonals(without_stretched(Term(tensor, labels), equation))
        for tensor, labels in zip(tensors, equation.operands, strict=True)
    ]
    for first, second in contraction_order(equation, [frozenset(term.labels) for term in terms]):
        rest = [term for place, term in enumerate(terms) if place not in (first, second)]
        needed = {*equation.output, *(label for term in rest for label in term.labels)}
        terms = [*rest, contract(terms[first], terms[second], needed, equation)]
    last = add_up(terms[0], set(equation.output), equation)
    return arrange(last, [[label] for label in equation.output], equation)


# One operand


def without_stretched(term: Term, equation: Equation) -> Term:
    """Return a term without the axes of length 1 that broadcast to a longer one elsewhere: they add nothing to it."""
    kept = [place for place, label in enumerate(term.labels) if term.tensor.shape[place] == equation.extents[label]]
    labels = tuple(term.labels[place] for place in kept)
    return Term(reshape(term.tensor, [term.tensor.shape[place] for place in kept] or [1]), labels)


def diagonals(term: Term) -> Term:
    """Return a term with every label once: of axes that share one, the diagonal."""
    while len(set(term.labels)) < len(term.labels):
        label = next(label for label in term.labels if term.labels.count(label) > 1)
        first = term.labels.index(label)
        second = term.labels.index(label, first + 1)
        term = Term(
            diagonal(term.tensor, first, second),
            tuple(other for place, other in enumerate(term.labels) if place != second),
        )
    return term


def diagonal(tensor: Tensor, first: int, second: int) -> Tensor:
    """Return the diagonal of two axes of one length in place of the first: all else times 0, and summed."""
    extent = tensor.shape[first]
    kept = [length for place, length in enumerate(tensor.shape) if place != second]
    if extent == 1:
        return tensor.reshape(kept)
    expect_makeable(
        extent**2,
        "einsum",
        f"the mask of a diagonal of {extent}",
        "a diagonal of at most 5792",
        "split the axes",
    )
    mask_shape = [extent if place in (first, second) else 1 for place in range(len(tensor.shape))]
    mask = np.eye(extent, dtype=numpy_dtype(tensor.dtype)).reshape(mask_shape)
    return (tensor * Dense(mask)).sum(second).reshape(kept)


def add_up(term: Term, needed: set[str], equation: Equation, shared: frozenset[str] = frozenset()) -> Term:
    """Return a term summed over the labels that nothing else needs; shared ones of length 1 are dropped as well."""
    kept = tuple(label for label in term.labels if label in needed or (label in shared and equation.extents[label] > 1))
    if kept == term.labels:
        return term
    axes = [place for place, label in enumerate(term.labels) if label not in kept and equation.extents[label] > 1]
    total = term.tensor.sum(tuple(axes)) if axes else term.tensor
    return Term(reshape(total, equation.sizes(kept)) if kept else total, kept)


def arrange(term: Term, groups: Sequence[Sequence[str]], equation: Equation) -> Tensor:
    """Return the tensor of a term with one axis for every group of labels; an empty group is an axis of length 1."""
    order = [label for group in groups for label in group]
    shape = [math.prod(equation.sizes(group)) for group in groups]
    longer = [term.labels.index(label) for label in order if equation.extents[label] > 1]
    if longer == sorted(longer):  # no axis changes places but those of length 1: the elements stay in order
        return reshape(term.tensor, shape)
    return reshape(term.tensor.transpose([term.labels.index(label) for label in order]), shape)


def reshape(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a tensor in a shape that it may have already."""
    return tensor if tensor.shape == tuple(shape) else tensor.reshape(list(shape))


# Two operands


def contract(left: Term, right: Term, needed: set[str], equation: Equation) -> Term:
    """Return the product of two terms, summed over the labels that nothing else needs."""
    shared = frozenset(left.labels) & frozenset(right.labels)
    left, right = (add_up(term, needed, equation, shared) for term in (left, right))
    inner = [label for label in left.labels if label in right.labels and label not in needed]
    if not inner:
        return multiply_terms(left, right, equation)
    rows, columns = own_labels(left, right, equation), own_labels(right, left, equation)
    if equation.output and equation.output[-1] in rows:  # so that the output's last axis is the product's
        left, right, rows, columns = right, left, columns, rows
    batch = equation.in_output_order(label for label in left.labels if label in right.labels and label in needed)
    stacked = [[label] for label in batch] if len(batch) <= SEPARATE_BATCH_AXES else [batch]
    product = arrange(left, [*stacked, rows, inner], equation) @ arrange(right, [*stacked, inner, columns], equation)
    labels = (*batch, *rows, *columns)
    return Term(reshape(product, equation.sizes(labels)) if labels else product, labels)


def own_labels(term: Term, other: Term, equation: Equation) -> list[str]:
    """Return the labels that one term has and the other has not."""
    return equation.in_output_order(label for label in term.labels if label not in other.labels)


def multiply_terms(left: Term, right: Term, equation: Equation) -> Term:
    """Return the product of two terms: element by element along shared labels, all pairs along others."""
    labels = equation.in_output_order(dict.fromkeys((*left.labels, *right.labels)))
    if not labels:
        return Term(reshape(left.tensor, [1]) * reshape(right.tensor, [1]), ())
    sides = [
        arrange(term, [[label] if label in term.labels else [] for label in labels], equation) for term in (left, right)
    ]
    return Term(sides[0] * sides[1], tuple(labels))


# Several operands


@dataclass(slots=True)
class Search:
    """What the search for an order has found out: sets of operands that lead nowhere, the first tensor too wide."""

    compared: int = 0
    """How many products were compared."""

    dead: set[tuple[Labels, ...]] = field(default_factory=set[tuple[Labels, ...]])
    too_wide: Labels = ()


def contraction_order(equation: Equation, operands: Sequence[frozenset[str]]) -> list[tuple[int, int]]:
    """Return which two operands are multiplied at every step; the product takes the last place.

    Raises:
        EinsumUnsupported: Every order, or every one looked at, needs a tensor with more axes than the builder allows.
    """
    search = Search()
    found = cheapest_first(equation, list(operands), search)
    if found is None:
        orders = "every order" if search.compared <= SEARCH_MOST else "every order that was tried"
        raise build_unsupported_error(
            equation.text,
            search.too_wide[BUILDER_MAX_RANK],
            f"in {orders} of products a tensor has more axes than the builder allows",
            len(search.too_wide),
            BUILDER_MAX_RANK,
            "merge axes with reshape before",
        )
    return found


def cheapest_first(equation: Equation, operands: list[frozenset[str]], search: Search) -> list[tuple[int, int]] | None:
    """Return an order that takes the cheapest product at every step, or the next one if that leads nowhere."""
    if len(operands) < 2:
        return []
    state = tuple(sorted(tuple(sorted(labels)) for labels in operands))
    if state in search.dead:
        return None
    search.compared += math.comb(len(operands), 2)

    def cost(pair: tuple[int, int]) -> int:
        return math.prod(equation.sizes(operands[pair[0]] | operands[pair[1]]))

    for pair in sorted(combinations(range(len(operands)), 2), key=cost):
        rest = [labels for place, labels in enumerate(operands) if place not in pair]
        result = (operands[pair[0]] | operands[pair[1]]) & frozenset(equation.output).union(*rest)
        if len(result) > BUILDER_MAX_RANK:
            search.too_wide = search.too_wide or tuple(equation.in_output_order(sorted(result)))
            continue
        following = cheapest_first(equation, [*rest, result], search)
        if following is not None:
            return [pair, *following]
        if search.compared > SEARCH_MOST:
            break
    search.dead.add(state)
    return None
