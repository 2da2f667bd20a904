"""Values for the inputs of a model: given by the user, or drawn from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.callsite import warn
from aneforge.engine.execution.given import expect_fitting, expect_known, warn_of_infinities
from aneforge.errors import GraphError, PrecisionWarning
from aneforge.graph.graph import read_promises
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array, TensorType

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["feed_inputs", "feed_ports"]


def feed_inputs(
    graph: Graph, given: Mapping[str, Array] | None, seed: int | None = None, ranges: Ranges | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs and the states of a run; what is not given is drawn where there is a seed.

    Values that are given and are outside of the ranges, or of what `max_abs` promises, are warned of.

    >>> import aneforge as af
    >>> inputs, _ = feed_inputs(af.Graph({"y": af.input((1, 2), name="x").relu()}), None, seed=0)
    >>> inputs["x"].shape
    (1, 2)

    Raises:
        UnknownNameError: A value is given for an input that the model does not have.
        GraphError: An input has no value, or one that does not fit.
    """
    inputs, states = feed_ports(
        {name: node.types[0] for name, node in graph.inputs.items()},
        {name: node.types[0] for name, node in graph.state_placeholders.items()},
        given,
        seed,
    )
    for name, ends in {**read_promises(graph), **(ranges or {})}.items():
        if name in (given or {}) and name in inputs:
            warn_of_values_outside(name, inputs[name], *(ends if isinstance(ends, tuple) else (-ends, ends)))
    return inputs, states


def feed_ports(
    inputs: Mapping[str, TensorType],
    states: Mapping[str, TensorType],
    given: Mapping[str, Array] | None,
    seed: int | None = None,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs and the states of a run, by the types that a graph or a program gives them.

    Raises:
        UnknownNameError: A value is given for an input that there is not.
        GraphError: An input has no value, or one that does not fit.
    """
    ports = {**inputs, **states}
    asked = dict(given or {})
    expect_known("input", asked, ports)
    values = {name: expect_fitting(f"input {name!r}", value, ports[name]) for name, value in asked.items()}
    for name, value in values.items():
        warn_of_loss(name, value, ports[name])
    generator = np.random.default_rng(seed)
    missing = [name for name in inputs if name not in values]
    if missing and seed is None:
        wanted = ", ".join(f"{name} {list(inputs[name].shape)}" for name in missing)
        raise GraphError(
            f"no values are given for {'input' if len(missing) == 1 else 'inputs'} {wanted}",
            remedy="give them with --inputs FILE.npz (np.savez), or draw them with --seed 0",
        )
    made = {name: values[name] if name in values else draw(kind, generator) for name, kind in inputs.items()}
    return made, {name: values[name] for name in states if name in values}


def warn_of_loss(name: str, value: Array, wanted: TensorType) -> None:
    """Warn of values that are NaN, or finite as they are given and infinite in fp16."""
    if not is_float(wanted.dtype) or not value.size:
        return
    numbers = value.astype(np.float64)  # for which NumPy can say what is finite, whatever the type
    with np.errstate(over="ignore"):
        warn_of_infinities(f"input {name!r}", numbers, numbers.astype(np.float16))
    count = int(np.count_nonzero(np.isnan(numbers)))
    if count:
        be = "is" if count == 1 else "are"
        warn(f"input {name!r}: {count} of {value.size} values {be} NaN", PrecisionWarning)


def warn_of_values_outside(name: str, value: Array, least: float, most: float) -> None:
    """Warn of values outside of the range that is given or promised: what is proven of that range says nothing of them.

    NaN is in no range; `warn_of_loss` warns of it.
    """
    numbers = value.astype(np.float64)
    outside = numbers[(numbers < least) | (numbers > most)]
    if outside.size:
        be = "is" if outside.size == 1 else "are"
        message = (
            f"input {name!r}: {outside.size} of {value.size} values {be} outside of its range of {least:g} to "
            f"{most:g}, such as {outside[0]:g}; proofs for the range do not cover them"
        )
        warn(message, PrecisionWarning)


def draw(kind: TensorType, generator: np.random.Generator) -> Array:
    """Return values of a type: normal numbers, small integers, or bits."""
    if is_float(kind.dtype):
        return generator.standard_normal(kind.shape).astype(np.float16)
    top = 2 if kind.dtype == "bool" else 8
    return generator.integers(0, top, kind.shape).astype(numpy_dtype(kind.dtype))
