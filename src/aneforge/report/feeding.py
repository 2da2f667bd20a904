"""Values for the inputs of a model: given by the user, or drawn from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, UnknownNameError
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array, TensorType

__all__ = ["Feed", "fed"]

Feed = "tuple[dict[str, Array], dict[str, Array]]"


def fed(
    graph: Graph, given: Mapping[str, Array] | None, seed: int | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs and the states of a run; what is not given is drawn where there is a seed.

    >>> import aneforge as af
    >>> inputs, _ = fed(af.Graph({"y": af.input((1, 2), name="x").relu()}), None, seed=0)
    >>> inputs["x"].shape
    (1, 2)

    Raises:
        UnknownNameError: A value is given for an input that the model does not have.
        GraphError: An input has no value, or one of another shape.
    """
    ports = {**graph.inputs, **graph.state_placeholders}
    values = dict(given or {})
    for name, value in values.items():
        if name not in ports:
            raise UnknownNameError.of("input", name, ports)
        wanted = ports[name].types[0]
        if tuple(value.shape) != wanted.shape:
            raise GraphError(f"input {name!r} has the wrong shape", seen=list(value.shape), limit=list(wanted.shape))
    generator = np.random.default_rng(seed)
    missing = [name for name in graph.inputs if name not in values]
    if missing and seed is None:
        wanted = ", ".join(f"{name} {list(ports[name].types[0].shape)}" for name in missing)
        raise GraphError(
            "inputs have no values",
            seen=f"missing {wanted}",
            remedy="give them with --inputs FILE.npz (np.savez), or draw them with --seed 0",
        )
    inputs = {
        name: values[name] if name in values else drawn(node.types[0], generator) for name, node in graph.inputs.items()
    }
    return inputs, {name: values[name] for name in graph.state_placeholders if name in values}


def drawn(kind: TensorType, generator: np.random.Generator) -> Array:
    """Return values of a type: normal numbers, small whole numbers, or bits."""
    if is_float(kind.dtype):
        return generator.standard_normal(kind.shape).astype(np.float16)
    top = 2 if kind.dtype == "bool" else 8
    return generator.integers(0, top, kind.shape).astype(numpy_dtype(kind.dtype))
