"""`from_torch` and `torch_states`: a PyTorch module, an exported program or a `.pt2` file as a graph.

Nothing of PyTorch is imported before one of them is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.packages import expect_package

if TYPE_CHECKING:
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.formats.torch.reading import ExampleInputs, ProgramSource
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array

__all__ = ["from_torch", "torch_states"]


def from_torch(
    program: ProgramSource,
    example_inputs: ExampleInputs | None = None,
    shapes: Shapes | None = None,
    *,
    share_weights: bool = False,
) -> Graph:
    """Return the graph of a PyTorch module, of a program that `torch.export` made, or of a `.pt2` file of one.

    A module is exported with `example_inputs`: a tensor, a tuple of positional arguments, or a mapping of named ones.
    Shapes are static: those of the example inputs, or `shapes`, which binds symbolic dimensions of a program by name or
    sets whole shapes of inputs by name. Buffers that the program writes become states of the graph.

    Weights are copied once, because the module may still change; with `share_weights` the graph uses the module's own
    memory, which must then not change. The weights of a file are never copied.

    >>> import torch
    >>> graph = from_torch(torch.nn.Linear(4, 2), torch.zeros(1, 4))
    >>> [node.op.name for node in graph.nodes], graph.outputs["y"].shape
    (['input', 'linear'], (1, 2))

    Raises:
        GraphError: The file cannot be read, or dimensions have no length, all of them listed; `InvalidModelError` lists
            invalid nodes.
        NotSupportedError: PyTorch cannot export the module, or nodes are not supported here: `UnsupportedModelError`
            lists all of them, with reason and workaround.
        GraphTypeError: An argument has the wrong type.
        UnknownNameError: `shapes` names something that the program does not have.
        MissingPackageError: PyTorch is not installed.
    """
    expect_package("torch")
    from aneforge.formats.torch.conversion import graph_of  # noqa: PLC0415 - it imports torch

    return graph_of(program, example_inputs, shapes, share_weights=share_weights)


def torch_states(program: ProgramSource, example_inputs: ExampleInputs | None = None) -> dict[str, Array]:
    """Return the initial values of the buffers that a program writes, by the names of the graph's states.

    A graph's states start from zeros unless a run is given others.

    >>> import torch
    >>> class Counter(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.register_buffer("count", torch.ones(1))
    ...     def forward(self, x):
    ...         self.count += 1
    ...         return x * self.count
    >>> torch_states(Counter(), torch.zeros(1))
    {'count': array([1.], dtype=float32)}

    Raises:
        GraphError: The program cannot be read, as for `from_torch`.
    """
    expect_package("torch")
    from aneforge.formats.torch.conversion import states_of  # noqa: PLC0415 - it imports torch

    return states_of(program, example_inputs)
