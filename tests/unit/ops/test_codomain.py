"""Where results lie: what entries state holds for their meanings, misses nothing, and holds on the engine."""

from collections.abc import Iterator

import numpy as np
import pytest

from aneforge.engine.dispatch import arithmetic
from aneforge.ops.op import Op
from aneforge.ops.results import EVERYTHING
from aneforge.ops.sampling import Fill, RandomChooser, Sample
from aneforge.ops.signature import AttributeValue
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import Array
from aneforge.targets import Family, resolve

EVERY_FP16 = np.arange(2**16, dtype=np.uint16).view(np.float16)
NUMBERS = np.sort(EVERY_FP16[~np.isnan(EVERY_FP16)].astype(np.float64))
FARTHER = {"softsign": 2.0**-8}
"""How much farther than the ends the engine goes: its product with a reciprocal from a table reaches 1.0029."""
STATED = sorted(op.name for op in ops().values() if op.codomain is not EVERYTHING)
SINGLE = sorted(
    op.name
    for op in ops().values()
    if [operand.name for operand in op.operands] == ["x"] and op.infer.__qualname__ == "unary.<locals>.infer"
)
"""Operations on every element by itself."""
NOT_SWEPT = {
    "dropout": "its seed decides, not the element",
    "gelu": "below zero and not bounded above: no fact that anybody asks for",
    "silu": "as gelu",
}


def values_of(
    operand: Fill | tuple[Fill, ...] | None, generator: np.random.Generator
) -> Array | tuple[Array, ...] | None:
    if isinstance(operand, tuple):
        return tuple(one.values(generator) for one in operand)
    return None if operand is None else operand.values(generator)


def drawn(op: Op, count: int) -> Iterator[tuple[Sample, np.random.Generator]]:
    for seed in range(count):
        generator = np.random.default_rng(seed)
        yield op.sample(RandomChooser(generator)), generator


def attributes_drawn(op: Op, count: int = 24) -> list[dict[str, AttributeValue]]:
    """Return different attributes that an operation is sampled with."""
    found = {repr(sample.attributes): op.complete(sample.attributes) for sample, _ in drawn(op, count)}
    return list(found.values())


def swept(op: Op, attributes: dict[str, AttributeValue]) -> Array:
    """Return what an operation gives for every fp16 number that is one, what is not a number left out."""
    x = NUMBERS.astype(np.bool_) if op.name == "logical_not" else NUMBERS
    (results,) = op.evaluate({"x": x}, attributes)
    return results[~np.isnan(results)].astype(np.float64)


@pytest.mark.parametrize("name", STATED)
def test_drawn_results_lie_in_the_codomain(name: str) -> None:
    op = find_op(name)
    for sample, generator in drawn(op, 40):
        attributes = op.complete(sample.attributes)
        codomain = op.codomain_for(attributes)
        operands = {name: values_of(one, generator) for name, one in sample.operands.items()}
        for result in op.evaluate(operands, attributes):
            assert np.all(result >= codomain.low), (sample, result)
            assert np.all(result <= codomain.high), (sample, result)


@pytest.mark.parametrize("name", sorted(set(SINGLE) - set(NOT_SWEPT)))
def test_a_function_of_one_element_states_what_every_number_shows(name: str) -> None:
    """A missing statement is found as a wrong one is: never negative, and bounded, must both be said."""
    op = find_op(name)
    for attributes in attributes_drawn(op):
        results, codomain = swept(op, attributes), op.codomain_for(attributes)
        assert results.min() >= codomain.low
        assert results.max() <= codomain.high
        if is_trivial(op, results):
            continue
        assert codomain.is_never_negative == (results.min() >= 0), attributes
        assert (codomain.magnitude < 100) == (np.abs(results).max() < 100), attributes


def is_trivial(op: Op, results: Array) -> bool:
    """Return whether attributes leave nothing of a function: all results are one number."""
    return bool(results.min() == results.max()) or op.name == "rsqrt"  # 1 / √(x + epsilon): only −0 decides


@pytest.mark.parametrize(
    "name", [name for name in SINGLE if name in STATED and find_op(name).support.floor is not None]
)
def test_the_engine_keeps_to_the_codomain(name: str) -> None:
    """Every fp16 number goes in, NaN and infinities too; no margin moves an end at zero."""
    op, target = find_op(name), resolve(Family.A16)
    for attributes in attributes_drawn(op):
        codomain = op.codomain_for(attributes)
        x = EVERY_FP16.astype(np.bool_) if name == "logical_not" else EVERY_FP16
        (results,) = arithmetic(name, target).compute({"x": x}, attributes)
        numbers = results.astype(np.float64)
        assert not np.isnan(numbers).any()
        assert codomain.minus_zero or not (np.signbit(numbers) & (numbers == 0)).any()
        farther = FARTHER.get(name, 0.0)
        assert numbers.min() >= float(np.float16(codomain.low)) - farther, attributes
        assert numbers.max() <= float(np.float16(codomain.high)) + farther, attributes
