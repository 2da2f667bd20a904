"""Values for the inputs of a model: given by the user, or drawn from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.callsite import warn
from aneforge.errors import GraphError, PrecisionWarning, UnknownNameError
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array, TensorType

__all__ = ["Feed", "feed_inputs", "feed_ports"]

REAL = "biuf"
"""Kinds of NumPy's types that hold real numbers."""
Feed = "tuple[dict[str, Array], dict[str, Array]]"


def feed_inputs(
    graph: Graph, given: Mapping[str, Array] | None, seed: int | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs and the states of a run; what is not given is drawn where there is a seed.

    >>> import aneforge as af
    >>> inputs, _ = feed_inputs(af.Graph({"y": af.input((1, 2), name="x").relu()}), None, seed=0)
    >>> inputs["x"].shape
    (1, 2)

    Raises:
        UnknownNameError: A value is given for an input that the model does not have.
        GraphError: An input has no value, or one that does not fit.
    """
    return feed_ports(
        {name: node.types[0] for name, node in graph.inputs.items()},
        {name: node.types[0] for name, node in graph.state_placeholders.items()},
        given,
        seed,
    )


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
    values = dict(given or {})
    for name, value in values.items():
        if name not in ports:
            raise UnknownNameError.of("input", name, ports)
        expect_fitting(name, value, ports[name])
        warn_of_loss(name, value, ports[name])
    generator = np.random.default_rng(seed)
    missing = [name for name in inputs if name not in values]
    if missing and seed is None:
        wanted = ", ".join(f"{name} {list(inputs[name].shape)}" for name in missing)
        raise GraphError(
            "inputs have no values",
            seen=f"missing {wanted}",
            remedy="give them with --inputs FILE.npz (np.savez), or draw them with --seed 0",
        )
    made = {name: values[name] if name in values else drawn(kind, generator) for name, kind in inputs.items()}
    return made, {name: values[name] for name in states if name in values}


def expect_fitting(name: str, value: Array, wanted: TensorType) -> None:
    """Refuse values that an input cannot have.

    Raises:
        GraphError: They are no real numbers, have another shape, or an input of integers would change them.
    """
    if value.dtype.kind not in REAL:
        raise GraphError(f"input {name!r} takes real numbers", seen=value.dtype, limit=wanted.dtype)
    if tuple(value.shape) != wanted.shape:
        raise GraphError(f"input {name!r} has the wrong shape", seen=list(value.shape), limit=list(wanted.shape))
    if is_float(wanted.dtype) or wanted.dtype == "bool":
        return
    with np.errstate(invalid="ignore"):
        changed = int(np.count_nonzero(value.astype(numpy_dtype(wanted.dtype)) != value))
    if changed:
        raise GraphError(
            f"input {name!r} takes integers of {wanted.dtype}",
            seen=f"{changed} of {value.size} values that it would change",
        )


def warn_of_loss(name: str, value: Array, wanted: TensorType) -> None:
    """Warn of values that are no number, or finite as they are given and infinite in fp16."""
    if not is_float(wanted.dtype) or not value.size:
        return
    with np.errstate(over="ignore"):
        infinite = int(np.count_nonzero(np.isinf(value.astype(np.float16)) & np.isfinite(value)))
    for count, what in (
        (infinite, "infinite in fp16, whose largest number is 65504"),
        (int(np.count_nonzero(np.isnan(value))), "no number (NaN)"),
    ):
        if count:
            message = f"input {name!r}: {count} of {value.size} values {'is' if count == 1 else 'are'} {what}"
            warn(message, PrecisionWarning)


def drawn(kind: TensorType, generator: np.random.Generator) -> Array:
    """Return values of a type: normal numbers, small integers, or bits."""
    if is_float(kind.dtype):
        return generator.standard_normal(kind.shape).astype(np.float16)
    top = 2 if kind.dtype == "bool" else 8
    return generator.integers(0, top, kind.shape).astype(numpy_dtype(kind.dtype))
