"""Loops iteration by iteration: what the body says is made once for every iteration, with the same constants in each.

What depends on constants alone is computed, as importers do: the first iteration often starts from zeros, and a counter
that a loop goes through is known in every iteration.

    before:  %s, %y = scan(states = [%h], rows = [%x], fixed = []) with the body tanh(state0 + row0)
    after:   %a = tanh(add(%h, %x[0])) … %s = tanh(add(%r, %x[n − 1])), %y = stack(%a, …, %s)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.arrays import np
from aneforge.ops.body import Reference
from aneforge.ops.constant import Constant, wide_values
from aneforge.ops.declared import Declared
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition
from aneforge.ops.op import Trait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.ops.body import Body, Call, Source
    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array

    Operand = Term | Constant | tuple[Term | Constant, ...]

__all__ = ["ITERATIONS", "run_iteration"]

FOLDED_MOST_BYTES = 64 * 2**20
"""What is computed of constants may be this large; a larger result stays an operation."""
OPERATIONS_MOST = 100_000
"""Operations that all iterations of a loop may have; larger graphs take more memory than is likely here."""


def iterations(  # noqa: PLR0913 - the operands and attributes of the operation
    to: Site,
    states: tuple[Term, ...],
    rows: tuple[Term, ...],
    fixed: tuple[Term, ...],
    *,
    body: Body,
    axes: tuple[int, ...] | None,
    backward: tuple[bool, ...] | None,
    backward_outputs: tuple[bool, ...] | None,
) -> list[Term]:
    """Return the final states and what the iterations give, stacked.

    Raises:
        NotSupportedError: There are too many iterations.
    """
    along = axes or (0,) * len(rows)
    count = rows[0].shape[along[0]]
    each = operation_count(body)
    if count * each > OPERATIONS_MOST:
        raise to.refusal(
            "the loop has too many operations, all iterations together",
            seen=f"{count} iterations of {each}",
            limit=OPERATIONS_MOST,
            remedy="run a part of the iterations at a time, with the states as inputs and outputs",
        )
    sliced = {
        f"row{place}": slices(to, row, axis, backward=back)
        for place, (row, axis, back) in enumerate(zip(rows, along, backward or (False,) * len(rows), strict=True))
        if f"row{place}" in body.inputs
    }
    always = name_terms("fixed", fixed)
    given: list[tuple[Term, ...]] = []
    for iteration in range(count):
        results = run_iteration(
            to, body, {**always, **name_terms("state", states), **{name: at(iteration) for name, at in sliced.items()}}
        )
        states = results[: len(states)]
        given.append(results[len(states) :])
    columns = zip(*given, strict=True)
    order = backward_outputs or (False,) * len(given[0])
    return [
        *states,
        *(to.op("stack", one[::-1] if back else one, axis=0) for one, back in zip(columns, order, strict=True)),
    ]


def operation_count(body: Body) -> int:
    """Return how many operations one iteration has, with slices of rows and the iterations of loops within it."""
    count = sum(name.startswith("row") for name in body.inputs)
    for call in body.calls:
        within = next(call.bodies(), None)
        if within is None:
            count += 1
            continue
        (row, *_) = cast("tuple[Source, ...]", call.operands["rows"])
        (axis, *_) = call.optional_integers("axes") or (0,)
        count += body.type_of(row).shape[axis] * operation_count(within)
    return count


def name_terms(what: str, terms: Sequence[Term]) -> dict[str, Term]:
    """Return terms by the names under which a body reads them."""
    return {f"{what}{place}": term for place, term in enumerate(terms)}


def slices(to: Site, row: Term, axis: int, *, backward: bool) -> Callable[[int], Term]:
    """Return what gives the slice of an iteration."""
    count = row.shape[axis]
    shape = row.shape[:axis] + row.shape[axis + 1 :]
    numbers = row.known

    def at(iteration: int) -> Term:
        place = count - 1 - iteration if backward else iteration
        if numbers is not None:
            return to.constant(np.take(numbers, place, axis), row.dtype)
        if count == 1:
            return row.reshape(shape=shape)
        begin = [place if one == axis else 0 for one in range(len(row.shape))]
        size = [1 if one == axis else extent for one, extent in enumerate(row.shape)]
        return row.slice_by_size(begin=begin, size=size).reshape(shape=shape)

    return at


def run_iteration(to: Site, body: Body, inputs: Mapping[str, Term]) -> tuple[Term, ...]:
    """Return what a body gives in one iteration."""
    found: list[tuple[Term, ...]] = []

    def look(source: Source) -> Term | Constant:
        if isinstance(source, Reference):
            return found[source.call][source.index]
        return inputs[source] if isinstance(source, str) else source

    for call in body.calls:
        operands = call.read(look)
        found.append(known_results(to, call, operands) or to.again(call, operands))
    return tuple(cast("Term", look(result)) for result in body.results)


def known_results(to: Site, call: Call, operands: Mapping[str, Operand]) -> tuple[Term, ...] | None:
    """Return the results of a call that reads constants alone, where they are computed; None for all others."""
    if call.op.meaning is None or Trait.RANDOM in call.op.traits or not operands:
        return None
    if sum(kind.nbytes for kind in call.types) > FOLDED_MOST_BYTES:
        return None
    listed = [one for operand in operands.values() for one in (operand if isinstance(operand, tuple) else (operand,))]
    if not all(map(is_known, listed)):
        return None
    arrays = {
        name: tuple(map(numbers_of, operand)) if isinstance(operand, tuple) else numbers_of(operand)
        for name, operand in operands.items()
    }
    results = call.op.evaluate(arrays, call.attributes)
    return tuple(to.constant(one, kind.dtype) for one, kind in zip(results, call.types, strict=True))


def is_known(operand: Term | Constant) -> bool:
    """Return whether an operand is a constant with values."""
    return not isinstance(operand, Declared) if isinstance(operand, Constant) else operand.known is not None


def numbers_of(operand: Term | Constant) -> Array:
    """Return the numbers of an operand that is a constant with values."""
    known = wide_values(operand) if isinstance(operand, Constant) else operand.known
    assert known is not None  # noqa: S101 - the caller looked
    return known


ITERATIONS = Decomposition("iterations", "its body once for every iteration", iterations, SAME_MATHEMATICS)
