"""What tests of legalisation share: targets with single values exchanged, programs by hand, meanings compared."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.ir.evaluate import evaluate_program
from aneforge.compiler.ir.layer import Layer, Stage, Value
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.program import Port, Program
from aneforge.errors import NotSupportedError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.ops.constant import Dense
from aneforge.ops.definition import meaning_dtype
from aneforge.ops.types import TensorType, is_float, numpy_dtype
from aneforge.targets import Fact, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    import pytest

    from aneforge.compiler.decisions import Decision, DecisionValue
    from aneforge.compiler.ir.layer import Argument, Epilogue
    from aneforge.compiler.passes.base import Pass
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array
    from aneforge.targets import Properties, Target, TargetLike
    from aneforge.targets import Value as Datum

TRIED = Evidence(EvidenceKind.INFERRED, "aneforge", note="a test's own value")


def changed(target: TargetLike, **values: Datum | None) -> Target:
    """Return a target with single values of its data exchanged; None makes a value unknown."""
    found = resolve(target)
    groups = {"hal": found.hal, "limits": found.limits, "datapath": found.datapath, "geometry": found.geometry}
    for name, value in values.items():
        group = next(key for key, properties in groups.items() if properties.knows(name))
        groups[group] = with_value(groups[group], name, value)
    return replace(found, **groups)


def with_value(properties: Properties, name: str, value: Datum | None) -> Properties:
    """Return properties of a target with one value exchanged."""
    name = properties.aliases.get(name, name)
    facts = {} if value is None else {properties.target: Fact(value, TRIED)}
    known = replace(properties.table[name], facts=facts)
    return replace(properties, table={**properties.table, name: known})


def decide(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **values: DecisionValue) -> None:
    """Let a module read other values of decisions, as a later discovery would change them."""

    def decided(name: str) -> Decision:
        return replace(decision(name), value=values.get(name, decision(name).value))

    monkeypatch.setattr(module, "decision", decided)


def value(name: str, *shape: int, dtype: str = "fp16") -> Value:
    """Return a value."""
    return Value(name, TensorType(shape, dtype))


def program_of(target: TargetLike, *layers: Layer, outputs: Sequence[Value] = ()) -> Program:
    """Return the program of some layers; what none of them writes is an input, what none reads an output."""
    written = {result.name for layer in layers for result in layer.results}
    read = {one.name: one for layer in layers for one in layer.bottoms}
    leaving = outputs or [result for layer in layers for result in layer.results if result.name not in read]
    return Program(
        resolve(target),
        tuple(Port(name, one) for name, one in read.items() if name not in written),
        tuple(layers),
        tuple(Port(f"y{number}", one) for number, one in enumerate(leaving)),
    )


def layer(
    kind: str, operands: Mapping[str, Argument], name: str, *, epilogue: Epilogue | None = None, **attributes: object
) -> Layer:
    """Return a layer."""
    return new_layer(kind, operands, attributes, name, location=None, epilogue=epilogue)


def stage(kind: str, operands: Mapping[str, Constant] | None = None, **attributes: object) -> Stage:
    """Return what fills a slot."""
    found = find_kind(kind)
    return Stage(found, dict(operands or {}), found.complete(attributes))


def constant(*shape: int, seed: int = 1, dtype: str = "fp16") -> Dense:
    """Return a constant of numbers that no generator draws, so that golden texts do not follow one."""
    places = np.arange(math.prod(shape)).reshape(shape) + seed
    return Dense(np.asarray(places * 37 % 101 / 64 - 0.75, numpy_dtype(dtype)))


class Given(TypedDict, total=False):
    """What a test says of a convolution."""

    strides: tuple[int, ...]
    dilation_rates: tuple[int, ...]
    explicit_padding: tuple[int, ...]
    groups: int


def convolution(
    x: Value,
    weights: Constant | Value,
    *,
    name: str = "y",
    epilogue: Epilogue | None = None,
    **given: Unpack[Given],
) -> Layer:
    """Return a convolution; what is not given is 1, and no padding."""
    count = weights.type.rank - 2
    attributes = {
        "strides": (1,) * count,
        "dilation_rates": (1,) * count,
        "explicit_padding": (0,) * (2 * count),
        "kernel_sizes": weights.type.shape[2:],
        "weights_layout": {1: "OIW", 2: "OIHW", 3: "OIDHW"}[count],
        **given,
    }
    operands = {"input": x, "weights": weights}
    return new_layer("convolution", operands, attributes, name, location=None, epilogue=epilogue)


def inputs_of(program: Program, seed: int = 0) -> dict[str, Array]:
    """Return numbers for the inputs of a program."""
    generator = np.random.default_rng(seed)
    return {port.name: numbers(generator, port.value.type) for port in program.inputs}


def numbers(generator: np.random.Generator, kind: TensorType) -> Array:
    """Return numbers of a type."""
    if is_float(kind.dtype):
        return generator.normal(size=kind.shape)
    low, high = (0, 2) if kind.dtype == "bool" else (0, 4)
    return generator.integers(low, high, kind.shape).astype(meaning_dtype(kind.dtype))


def results(program: Program, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of a program."""
    outputs, states = evaluate_program(program, inputs)
    return [*outputs.values(), *states.values()]


def assert_same_meaning(before: Program, after: Program, inputs: Mapping[str, Array], tolerance: float = 1e-12) -> None:
    """Check that two programs mean the same, to a relative error; 0 asks for equal numbers."""
    for one, other in zip(results(before, inputs), results(after, inputs), strict=True):
        assert one.shape == other.shape
        if tolerance == 0 or not np.issubdtype(one.dtype, np.floating):
            np.testing.assert_array_equal(other, one)
            continue
        finite = np.isfinite(one)
        scale = np.abs(one[finite]).max(initial=0.0)
        np.testing.assert_array_equal(np.isfinite(other), finite)
        np.testing.assert_allclose(other[finite], one[finite], rtol=tolerance, atol=tolerance * scale)


def assert_round_trip(program: Program) -> None:
    """Check that a program is read back from its text as it is, where its target is one of the database."""
    text = str(program)
    assert str(parse_program(text, program.constants)) == text


def legalised(program: Program, passes: Iterable[Pass]) -> Program | None:
    """Run passes; None where one of them says that the program cannot be made legal."""
    try:
        for one in passes:
            program = one(program).program
    except NotSupportedError:
        return None
    return program
