"""Facts of the op table as passes ask them of layers: held against the engine, for every number there is."""

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.ir.kind import Kind
from aneforge.compiler.pipeline import build_program
from aneforge.engine.dispatch import arithmetic
from aneforge.graph.node import build
from aneforge.ops.sampling import RandomChooser
from aneforge.runtime.magnitudes import magnitudes
from aneforge.targets import Family, resolve

EVERY_FP16 = np.arange(2**16, dtype=np.uint16).view(np.float16)
TARGET = resolve(Family.A16)


def functions_of_one() -> list[Kind]:
    """Return the kinds of layers that are a function of one real number."""
    found = (kind for kind in kinds().values() if kind.is_elementwise and kind.entry.is_function_of_one)
    return [one for one in found if one.name not in ("cast", "invert")]


@pytest.mark.parametrize("kind", functions_of_one(), ids=lambda kind: kind.name)
def test_what_is_never_negative_passes_an_activation_as_it_is(kind: Kind) -> None:
    """Merging leaves the second activation out: no number, no infinity and no NaN may show that, nor the sign of 0."""
    for seed in range(8):
        attributes = kind.entry.complete(kind.entry.sample(RandomChooser(np.random.default_rng(seed))).attributes)
        codomain = kind.codomain_for(attributes)
        if not codomain.is_never_negative or codomain.minus_zero:
            continue
        (given,) = arithmetic(kind.entry.name, TARGET).compute({"x": EVERY_FP16}, attributes)
        for second in ("relu", "leaky_relu", "abs"):
            (again,) = arithmetic(second, TARGET).compute({"x": given}, {})
            assert again.tobytes() == given.tobytes(), (second, attributes)


@pytest.mark.parametrize("op", ["relu6", "cos", "sigmoid_hard", "softsign", "atan", "tanh"])
def test_bounds_of_layers_hold_on_the_engine(op: str) -> None:
    program = build_program(af.Tensor(build(op, {"x": af.input((1, 1, 1, 2**16), name="x")})), "m4")
    most = magnitudes(program, {})[program.layers[-1].result.name]
    (results,) = arithmetic(op, TARGET).compute({"x": EVERY_FP16}, {})
    assert np.abs(results.astype(np.float64)).max() <= most <= 6.03
