"""Movements: results of a moving operation are elements of its operands, and whatever only moves says so."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from aneforge.engine.choices import entries
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.ops.op import Op, Trait
from aneforge.ops.results import Movement, Taking
from aneforge.ops.sampling import Fill, RandomChooser
from aneforge.ops.signature import AttributeValue
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import Array

Operands = dict[str, Array | tuple[Array, ...] | None]
MOVING = [op.name for op in ops().values() if op.movement is not None]
ENCODINGS = {"constexpr_lut_to_dense", "constexpr_lut_to_sparse", "constexpr_sparse_to_dense"}
"""Weights in their encodings, whose values no analysis follows: not movements, though all that they hold is listed."""


def calls(op: Op, count: int = 16) -> Iterator[tuple[Operands, dict[str, AttributeValue]]]:
    """Return drawn calls."""
    for seed in range(count):
        generator = np.random.default_rng(seed)
        sample = op.sample(RandomChooser(generator))
        operands: Operands = {}
        for name, one in sample.operands.items():
            if isinstance(one, Fill):
                operands[name] = one.values(generator)
            else:
                operands[name] = None if one is None else tuple(part.values(generator) for part in one)
        yield operands, op.complete(sample.attributes)


def elements(operands: Mapping[str, Array | tuple[Array, ...] | None], names: tuple[str, ...]) -> Array:
    """Return the elements of operands in one row, as numbers."""
    parts = [part for name in names for part in as_tuple(operands[name])]
    return np.concatenate([np.asarray(part, np.float64).reshape(-1) for part in parts] or [np.zeros(0)])


def as_tuple(value: Array | tuple[Array, ...] | None) -> tuple[Array, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", MOVING)
def test_results_are_elements_of_operands(name: str) -> None:
    op = find_op(name)
    movement = op.movement
    assert isinstance(movement, Movement)
    assert set(movement.operands) <= {operand.name for operand in op.operands}
    assert {one for one in movement.adds if isinstance(one, str)} <= {attribute.name for attribute in op.attributes}
    if op.meaning is None:
        return
    for operands, attributes in calls(op):
        allowed = np.concatenate([elements(operands, movement.operands), movement.added(attributes)])
        for result in op.evaluate(operands, attributes):
            found = np.asarray(result, np.float64)
            if movement.taking is Taking.BETWEEN:
                assert found.size == 0 or allowed.min() - 1e-9 <= found.min() <= found.max() <= allowed.max() + 1e-9
            else:
                assert np.isin(found, allowed).all(), attributes


def test_what_only_moves_says_so() -> None:
    others = (op for op in ops().values() if op.movement is None and Trait.ELEMENTWISE not in op.traits)
    assert {op.name for op in others if op.operands and seems_to_move(op)} == ENCODINGS


def seems_to_move(op: Op) -> bool:
    """Return whether all results of drawn calls were among the elements of the operands, and 0."""
    if op.meaning is None:
        return False
    for operands, attributes in calls(op):
        allowed = np.append(elements(operands, tuple(operands)), 0.0)
        if not all(np.isin(np.asarray(one, np.float64), allowed).all() for one in op.evaluate(operands, attributes)):
            return False
    return True


def test_what_the_engine_copies_moves_in_the_table_too() -> None:
    """The engine's data says which operations move bits: those that have operands are movements, or encodings."""
    copied = {op for entry in entries().values() if entry.copies for op in entry.ops}
    others = [op for op in sorted(copied | set(CROPS)) if find_op(op).operands and find_op(op).movement is None]
    assert set(others) - ENCODINGS == {"fill_like"}  # which fills with a number, whatever goes in
