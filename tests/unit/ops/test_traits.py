"""Traits that can be tried: an entry has one where its meaning shows it, and nowhere else."""

from collections.abc import Iterator

import numpy as np
import pytest

from aneforge.engine.dispatch import arithmetic
from aneforge.ops.op import Op, Trait
from aneforge.ops.results import Taking
from aneforge.ops.sampling import Fill, RandomChooser
from aneforge.ops.signature import AttributeValue
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import Array
from aneforge.targets import Family, resolve

HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
NUMBERS = np.sort(HALVES[np.isfinite(HALVES)])
FRACTIONS = [(sign * NUMBERS > low) & (sign * NUMBERS < low + 0.25) for sign in (1, -1) for low in (0.25, 1.5, 2.25)]
"""Intervals without integers, far from where functions are straight or saturate: one of them passes a bound."""


def names_with(trait: Trait) -> list[str]:
    return [op.name for op in ops().values() if trait in op.traits]


def calls(op: Op, count: int = 16) -> Iterator[tuple[dict[str, Array], dict[str, AttributeValue]]]:
    """Return drawn calls of an operation whose operands are single tensors; others are left out."""
    for seed in range(count):
        generator = np.random.default_rng(seed)
        sample = op.sample(RandomChooser(generator))
        fills = {name: one for name, one in sample.operands.items() if isinstance(one, Fill)}
        if len(fills) == len(sample.operands) and fills:
            yield {name: one.values(generator) for name, one in fills.items()}, op.complete(sample.attributes)


def keeps_places(op: Op) -> bool | None:
    """Return whether moving the elements of all operands about moves those of the result, and does nothing else."""
    tried = False
    for operands, attributes in calls(op):
        before, *more = op.evaluate(operands, attributes)
        try:
            shape = np.broadcast_shapes(*(one.shape for one in operands.values()))
        except ValueError:
            return False
        if more or before.shape != shape:
            return False
        if before.size < 2:
            continue
        tried = True
        order = np.random.default_rng(before.size).permutation(before.size)
        moved = {name: np.broadcast_to(one, shape).reshape(-1)[order].reshape(shape) for name, one in operands.items()}
        try:
            (after,) = op.evaluate(moved, attributes)
        except (IndexError, ValueError):  # its operands have parts of their own
            return False
        if not np.array_equal(after.reshape(-1), before.reshape(-1)[order], equal_nan=before.dtype.kind == "f"):
            return False
    return tried or None


def test_what_works_on_single_elements() -> None:
    placed = (op for op in ops().values() if op.movement is not None and op.movement.taking is Taking.PLACED)
    copies = {op.name for op in placed if Trait.ELEMENTWISE not in op.traits} | {"fill_like"}
    tried = (op for op in ops().values() if op.meaning is not None and Trait.RANDOM not in op.traits)
    found = {op.name for op in tried if keeps_places(op) and op.name not in copies}
    assert found == set(names_with(Trait.ELEMENTWISE)) - set(names_with(Trait.RANDOM))


def test_what_has_a_seed_is_random() -> None:
    seeded = [op.name for op in ops().values() if any(attribute.name == "seed" for attribute in op.attributes)]
    assert names_with(Trait.RANDOM) == seeded


@pytest.mark.parametrize("name", [op.name for op in ops().values() if op.is_function_of_one])
def test_what_leaves_an_interval_as_it_is_and_what_rounds(name: str) -> None:
    op = find_op(name)
    if name in ("cast", "logical_not", "pixel_buffer_to_tensor", "tensor_to_pixel_buffer"):  # other element types
        assert not op.traits & {Trait.BOUNDING, Trait.ROUNDING}
        return
    bounding, rounding = False, True
    for _, attributes in calls(op, 24):
        (results,) = op.evaluate({"x": NUMBERS}, attributes)
        same = results == NUMBERS
        bounding = bounding or (not same.all() and any(same[within].all() for within in FRACTIONS))
        rounding = rounding and bool((results == np.rint(results)).all() and (np.abs(results - NUMBERS) < 1).all())
    assert (Trait.BOUNDING in op.traits) is bounding
    assert (Trait.ROUNDING in op.traits) is rounding


@pytest.mark.parametrize("name", [op.name for op in ops().values() if op.is_function_of_one])
def test_what_is_not_rounded(name: str) -> None:
    op = find_op(name)
    if name in ("cast", "logical_not", "pixel_buffer_to_tensor", "tensor_to_pixel_buffer"):  # other element types
        assert Trait.UNROUNDED not in op.traits
        return
    results = [op.evaluate({"x": NUMBERS}, attributes)[0] for _, attributes in calls(op, 24)]
    with np.errstate(over="ignore"):
        held = all(np.array_equal(one, one.astype(np.float16)) for one in results)
    assert (Trait.UNROUNDED in op.traits) is held


@pytest.mark.parametrize("name", [op.name for op in ops().values() if op.is_function_of_one])
def test_what_shrinks_shrinks_on_the_engine_too(name: str) -> None:
    op = find_op(name)
    if op.support.floor is None or name in ("cast", "logical_not", "pixel_buffer_to_tensor", "tensor_to_pixel_buffer"):
        assert Trait.SHRINKING not in op.traits
        return
    shrinks = True
    for _, attributes in calls(op, 16):
        (results,) = op.evaluate({"x": NUMBERS}, attributes)
        (engine,) = arithmetic(name, resolve(Family.A16)).compute({"x": NUMBERS.astype(np.float16)}, attributes)
        for found in (results, engine.astype(np.float64)):
            shrinks = shrinks and bool((np.abs(found) <= np.abs(NUMBERS)).all())
    assert (Trait.SHRINKING in op.traits) is shrinks


def test_what_pools_has_a_window_and_no_weights() -> None:
    windowed = [
        op.name
        for op in ops().values()
        if any(attribute.name == "kernel_sizes" for attribute in op.attributes) and len(op.operands) == 1
    ]
    assert names_with(Trait.POOLING) == [name for name in windowed if name != "sliding_windows"]
