"""Programs whose weights are encoded: the bits of the golden model, and nobody holds what was decoded."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.layer import Value
from aneforge.engine.execution.run import prepare
from aneforge.engine.kernels.library import using
from aneforge.ops.constant import Constant, Dense, Folded, Int8Affine, Palette
from kernel_checks import assert_same_bits, needs_kernels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from aneforge.compiler.ir.program import Program

    Array = npt.NDArray[Any]

pytestmark = needs_kernels
WIDTH, OUTER = 512, 768
MODES = ["int8", "int4", "blockwise"]
FOLDING, STREAMING = "m1", "m4"


def weights(*shape: int) -> Array:
    """Return weights of which every encoding has the range."""
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 0.05).astype(np.float16)


def linear(x: af.Tensor) -> af.Tensor:
    return x.linear(weights(OUTER, WIDTH))


def biased(x: af.Tensor) -> af.Tensor:
    return x.linear(weights(OUTER, WIDTH), np.linspace(-1, 1, OUTER).astype(np.float16)).relu()


def multiplied(x: af.Tensor) -> af.Tensor:
    return x @ weights(WIDTH, OUTER)


def convolved(x: af.Tensor) -> af.Tensor:
    return af.conv(x.reshape((1, WIDTH, 1, x.shape[0])), weights(OUTER, WIDTH, 1, 1))


def windowed(x: af.Tensor) -> af.Tensor:
    return af.conv(x.reshape((1, WIDTH // 8, 8, x.shape[0])), weights(OUTER, WIDTH // 8, 3, 3), pad=1)


NETWORKS: list[Callable[[af.Tensor], af.Tensor]] = [linear, biased, multiplied, convolved, windowed]


def program_of(network: Callable[[af.Tensor], af.Tensor], mode: str, target: str, rows: int) -> Program:
    graph = af.compressed(network(af.input((rows, WIDTH), name="x", max_abs=8.0)), mode, target=target, atol=1.0).graph
    return af.build_program(graph, target)


def held_weights(program: Program) -> list[Constant]:
    """Return the encoded constants of products, folded ones among them."""
    held = {id(one): one for layer in program.layers for _, one in layer.refs() if not isinstance(one, Value)}
    return [one for one in held.values() if one.is_encoded or isinstance(one, Folded)]


@pytest.mark.parametrize("target", [FOLDING, STREAMING])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_run_holds_codes_alone_and_has_the_bits_of_the_golden_model(
    network: Callable[[af.Tensor], af.Tensor], mode: str, target: str
) -> None:
    for rows in (1, 8):
        program = program_of(network, mode, target, rows)
        dense = sum(one.type.nbytes for one in held_weights(program))
        assert dense
        x = {"x": np.random.default_rng(0).standard_normal((rows, WIDTH)).astype(np.float16)}
        prepare(program).run(x)  # tables that every program shares
        gc.collect()
        tracemalloc.start()
        ready = prepare(program)
        found = [next(iter(ready.run(x).outputs.values())) for _ in range(2)]
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held - sum(one.nbytes for one in found) < 0.2 * dense
        for threads in (1, 3):
            with using(threads=threads):
                found += ready.run(x).outputs.values()
        with using(golden=True):
            found += ready.run(x).outputs.values()
        for one in found[1:]:
            assert_same_bits(one, found[0])


def test_activations_beyond_the_encoding_meet_codes_as_they_meet_numbers() -> None:
    ready = prepare(program_of(multiplied, "int8", STREAMING, 3))
    x = np.random.default_rng(0).standard_normal((3, WIDTH)).astype(np.float16)
    x[1, 7] = 5000.0
    found = next(iter(ready.run({"x": x}).outputs.values()))
    with using(golden=True):
        assert_same_bits(found, next(iter(ready.run({"x": x}).outputs.values())))


def test_doubts_are_those_of_decoded_weights() -> None:
    """The largest magnitude and the largest sum of magnitudes, which bound what sums can reach, are the same."""
    for network in NETWORKS:
        program = program_of(network, "int8", FOLDING, 2)
        ways = [prepare(program), prepare(program, codes=False)]
        for scale in (1.0, 600.0, 20000.0):
            x = {"x": np.full((2, WIDTH), scale, np.float16)}
            runs = [one.run(x) for one in ways]
            assert runs[0].doubts == runs[1].doubts
            assert [str(one.label) for one in runs[:1]] == [str(one.label) for one in runs[1:]]


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_parts_and_other_shapes_of_folded_weights_stay_encoded(mode: str) -> None:
    """A product that is cut, or becomes a convolution, has parts of the codes in the same memory. Palettes stream."""
    graph = af.compressed(af.input((1, 2048), name="x").linear(weights(4096, 2048)), mode, target=FOLDING, atol=1.0)
    program = af.build_program(graph.graph, FOLDING)
    held = held_weights(program)
    assert len(held) > (mode == "int8")
    (whole,) = (codes_of(one) for node in graph.graph.nodes for _, one in node.values() if is_coded(one))
    assert whole.nbytes == 4096 * 2048 * (8 if mode == "int8" else 4) // 8
    for one in held:
        assert isinstance(one, Folded) == (mode == "int8")
        assert np.shares_memory(codes_of(one), whole)
        assert not isinstance(one, Folded) or one == Dense(one.values)


def is_coded(constant: object) -> TypeGuard[Int8Affine | Palette]:
    return isinstance(constant, Int8Affine | Palette)


def codes_of(constant: Constant) -> Array:
    """Return the bytes of the codes of a constant."""
    stored = constant.stored if isinstance(constant, Folded) else constant
    if isinstance(stored, Palette):
        return stored.packed.stored
    assert isinstance(stored, Int8Affine)
    return stored.quantized


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.filterwarnings("ignore::aneforge.PrecisionWarning")
def test_a_saved_program_has_weights_in_their_encoding(mode: str, tmp_path: Path) -> None:
    model = af.compile(linear(af.input((2, WIDTH), name="x")), target=FOLDING, compress=mode)
    x = np.random.default_rng(0).standard_normal((2, WIDTH)).astype(np.float16)
    path = model.save(tmp_path / "net")
    assert path.stat().st_size < (0.6 if mode == "int8" else 0.3) * OUTER * WIDTH * 2
    found = af.load_program(path)
    (held,) = held_weights(found.program)
    assert isinstance(held, Folded) == (mode == "int8")
    assert not codes_of(held).flags.owndata  # they are where they are in the file
    assert str(found.program) == str(model.program)
    np.testing.assert_array_equal(np.asarray(found(x)), np.asarray(model(x)))


def test_without_the_library_weights_are_decoded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(linear, "int8", FOLDING, 2)
    x = {"x": np.random.default_rng(0).standard_normal((2, WIDTH)).astype(np.float16)}
    expected = next(iter(prepare(program).run(x).outputs.values()))
    monkeypatch.setattr("aneforge.engine.kernels.codes.library", lambda: None)
    ready = prepare(program)
    assert not any(step.coded for step in ready.steps)
    with using(golden=True):
        assert_same_bits(next(iter(ready.run(x).outputs.values())), expected)
