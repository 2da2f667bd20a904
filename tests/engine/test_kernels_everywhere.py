"""Kernels and golden model give the same bits: every operation, every kind of layer, whole programs, any threads."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine.dispatch import UNARY, arithmetic, is_real
from aneforge.engine.execution.run import prepare
from aneforge.engine.kernels import library
from aneforge.engine.kernels.library import using
from aneforge.errors import IllegalGraphError, PrecisionWarning
from aneforge.ops.table import ops
from aneforge.targets import resolve
from aneforge.testing.calls import calls
from aneforge.testing.networks import networks
from kernel_checks import needs_kernels

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.engine.execution.run import Run
    from aneforge.testing.graphs import DrawnGraph

pytestmark = needs_kernels
Array = npt.NDArray[Any]
SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TARGETS = ["h13", "h14", "h16g", "h17"]
NOWHERE = [name for name, op in ops().items() if op.support.floor is None and op.support.mil_since is None]
COMPUTED = [name for name, op in ops().items() if name not in NOWHERE and op.meaning is not None]
EVERY_NUMBER = np.arange(65536, dtype=np.uint16)


def raw(array: Array) -> Array:
    """Return the bits of an array."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}") if is_real(array) else array


def assert_same_arrays(found: Array, expected: Array, what: str) -> None:
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
    np.testing.assert_array_equal(raw(found), raw(expected), err_msg=what)


def any_halves(values: Any, generator: np.random.Generator, *, wild: bool) -> Any:  # noqa: ANN401 - array, tuple, None
    """Return real operands in fp16; wild ones have any bits here and there."""
    if isinstance(values, tuple):
        return tuple(any_halves(one, generator, wild=wild) for one in cast("tuple[Array, ...]", values))
    if values is None or values.dtype != np.float64:
        return values
    plain: Array = values.astype(np.float16)
    drawn = generator.integers(0, 65536, plain.shape).astype(np.uint16).view(np.float16)
    return np.where(wild & (generator.random(plain.shape) < 0.2), drawn, plain)


@pytest.mark.parametrize("name", COMPUTED)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_operation(name: str, data: st.DataObject) -> None:
    drawn = data.draw(calls(ops()[name]))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    wild = data.draw(st.booleans())
    operands = {key: any_halves(value, generator, wild=wild) for key, value in drawn.values.items()}
    found = arithmetic(name, resolve(data.draw(st.sampled_from(TARGETS))))
    fast = found.compute(operands, drawn.sample.attributes)
    with using(golden=True):
        golden = found.compute(operands, drawn.sample.attributes)
    for one, other in zip(fast, golden, strict=True):
        assert_same_arrays(one, other, f"{name} {drawn.sample.attributes}")


@pytest.mark.parametrize("name", sorted(UNARY))
def test_a_table_stands_for_an_operation_on_elements_alone(name: str) -> None:
    # In another order and shape: an operation that looked at neighbours would give something else.
    found = arithmetic(name, resolve("h13"))
    given_numbers = {attribute.name: 1.25 for attribute in found.op.attributes if attribute.name != "mode"}
    x = np.random.default_rng(0).permutation(EVERY_NUMBER).view(np.float16).reshape(2, 4, 64, 128)
    fast = found.compute({"x": x}, given_numbers)
    with using(golden=True):
        golden = found.compute({"x": x}, given_numbers)
    assert_same_arrays(fast[0], golden[0], name)


def legal(drawn: DrawnGraph, target: str) -> Program:
    """Return the program of a drawn network; one that the target refuses is drawn anew."""
    try:
        return build_program(drawn.graph, target)
    except IllegalGraphError:
        reject()


def both(program: Program, inputs: dict[str, Array]) -> tuple[Run, Run]:
    """Run a program on the kernels and on the golden model, one executable for both."""
    ready = prepare(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        fast = ready.run(inputs, keep=True)
        with using(golden=True):
            golden = ready.run(inputs, keep=True)
    return fast, golden


def assert_same_runs(fast: Run, golden: Run, program: Program) -> None:
    assert fast.labels == golden.labels
    for layer in program.layers:
        for result in layer.results:
            assert_same_arrays(fast.values[result.name], golden.values[result.name], str(layer.kind.name))


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_DRAWS)
@given(networks(most=10), st.sampled_from(TARGETS), st.sampled_from([1.0, 40.0, 3000.0]))
def test_drawn_networks(drawn: DrawnGraph, target: str, scale: float) -> None:
    program = legal(drawn, target)
    inputs = {name: values * scale for name, values in drawn.inputs.items()}
    assert_same_runs(*both(program, inputs), program)


@settings(max_examples=20, deadline=None, suppress_health_check=SLOW_DRAWS)
@given(networks(most=8), st.integers(1, 4))
def test_threads_change_nothing(drawn: DrawnGraph, threads: int) -> None:
    program = legal(drawn, "h17")
    ready = prepare(program)
    wanted = ready.run(drawn.inputs, keep=True)
    with using(threads=threads):
        assert_same_runs(ready.run(drawn.inputs, keep=True), wanted, program)


def test_without_the_library_programs_run_on_the_golden_model(monkeypatch: pytest.MonkeyPatch) -> None:
    program = build_program(af.input((1, 4, 6, 6), name="x").relu().softmax(1), "h16g")
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 4, 6, 6))}
    wanted = prepare(program).run(inputs)
    cached = (library.library, library.paths, library.warn_once)
    monkeypatch.setattr(library, "PATH", Path("nowhere.so"))
    for one in cached:
        one.cache_clear()
    try:
        with pytest.warns(library.MissingKernelsWarning, match="the golden model runs instead") as caught:
            found = prepare(program).run(inputs)
    finally:
        for one in cached:
            one.cache_clear()
    assert len(caught) == 1
    assert_same_arrays(found.outputs["y"], wanted.outputs["y"], "softmax")


def halves(generator: np.random.Generator, *shape: int) -> Array:
    return (generator.standard_normal(shape) / 4).astype(np.float16)


def transposed(x: af.Tensor, generator: np.random.Generator) -> af.Tensor:
    return af.conv_transpose(x, halves(generator, 6, 4, 3, 2), stride=2, pad=1)


def grouped(x: af.Tensor, generator: np.random.Generator) -> af.Tensor:
    return af.conv(x, halves(generator, 12, 2, 3, 3), stride=2, pad=2, dilation=2, groups=3)


def attended(x: af.Tensor, generator: np.random.Generator) -> af.Tensor:
    rows = x.reshape(6, 80)
    scores = (rows @ rows.transpose(1, 0)) * 0.125
    return (scores.softmax(-1) @ rows).layer_norm(halves(generator, 80), halves(generator, 80)).gelu()


def normalised(x: af.Tensor, generator: np.random.Generator) -> af.Tensor:
    return x.group_norm(halves(generator, 6), halves(generator, 6), num_groups=2).silu()


def reduced(x: af.Tensor, generator: np.random.Generator) -> af.Tensor:
    del generator
    return (x.max_pool(2) * 3.0).mean((2, 3)) + x.sum((2, 3))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("made", [transposed, grouped, attended, normalised, reduced])
def test_layers_as_networks_have_them(made: Any, target: str) -> None:  # noqa: ANN401 - a function of the above
    generator = np.random.default_rng(5)
    program = build_program(made(af.input((1, 6, 8, 10), name="x"), generator), target)
    for scale in (1.0, 500.0):
        inputs = {"x": generator.standard_normal((1, 6, 8, 10)) * scale}
        assert_same_runs(*both(program, inputs), program)
