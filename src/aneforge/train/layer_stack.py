"""`CheckpointedStack`: equal layers that are trained with the forward and the backward program of one.

Parameters are inputs, so that one layer's programs serve all of them; compile time and the number of programs do not
grow with depth. The forward pass keeps the input of every layer, and the backward program computes the inside of a
layer again from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.builder.inputs import input as build_input
from aneforge.graph.gradients import backward_from
from aneforge.graph.graph import Graph
from aneforge.graph.methods.base import as_array
from aneforge.graph.methods.method_arguments import misuse
from aneforge.graph.tensor import Tensor
from aneforge.runtime.compile import compile_multi
from aneforge.targets import place_of
from aneforge.train.batches import check_values
from aneforge.train.parameter import Parameter, parameter
from aneforge.train.step_programs import FedProgram

if TYPE_CHECKING:
    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.targets import TargetLike

__all__ = ["CheckpointedStack"]

OP = "CheckpointedStack"
LayerFunction = Callable[[list[Tensor], Tensor], Tensor]
Layer = Sequence[object]
"""The parameters of one layer: arrays, or parameters that own one."""


class CheckpointedStack:
    """A stack of equal layers: forward and backward pass of one layer are compiled once, and used for all.

    `layer_fn(P, x)` gives the output of a layer from its parameters and its input, both of `io_shape`.
    `example_params` are the parameters of one layer: arrays of their shapes, or parameters of `conv_param`.

    >>> import numpy as np
    >>> from aneforge import streaming, targets
    >>> def layer(P, x):
    ...     return x + (x @ P[0]).tanh()
    >>> stack = streaming.CheckpointedStack(layer, [np.zeros((4, 4))], (2, 4), target=targets.Family.A16)
    >>> layers = [[np.eye(4) * 0.5] for _ in range(3)]
    >>> y, inputs = stack.forward(layers, np.ones((2, 4)))
    >>> grads, g = stack.backward(layers, inputs, np.ones((2, 4)))
    >>> y.shape, len(inputs), len(grads), grads[0][0].shape, g.shape
    ((2, 4), 3, 3, (4, 4), (2, 4))

    Raises:
        GraphError: The output of a layer does not have `io_shape`, or does not depend on a parameter.
        GraphTypeError: An argument has the wrong type.
        AneforgeError: Whatever `backward` and `compile` raise.
    """

    def __init__(
        self,
        layer_fn: LayerFunction,
        example_params: Sequence[object],
        io_shape: Sequence[int],
        *,
        target: TargetLike = None,
        backend: str | Backend | None = None,
    ) -> None:
        self.params = [one if isinstance(one, Parameter) else parameter(one) for one in example_params]
        self.io_shape = tuple(io_shape)
        x, g = build_input(self.io_shape), build_input(self.io_shape)
        self.input, self.gradient = x.node, g.node
        y = expect_tensor(layer_fn(list(self.params), x), OP, "layer_fn(P, x)")
        if y.shape != self.io_shape:
            raise misuse(OP, "the output of a layer must have io_shape", seen=list(y.shape), limit=list(self.io_shape))
        found = backward_from(g, y, [*self.params, x])
        names = {"input": found[x], **{f"gradient{place}": found[one] for place, one in enumerate(self.params)}}
        place = place_of(target)
        self.programs = tuple(
            FedProgram(name, graph, compile_multi(graph, target=place, backend=backend))
            for name, graph in (("forward", Graph({"output": y})), ("backward", Graph(names)))
        )

    @property
    def target(self) -> str:
        """The name of the target that the programs were compiled for."""
        return self.programs[0].model.target

    def forward(self, layers: Sequence[Layer], x0: object) -> tuple[Array, list[Array]]:
        """Return the output of the last layer in float32, and the input of every layer in fp16.

        Raises:
            GraphError: A layer has other parameters than the example, x0 is not of `io_shape`, or a value is not finite
                in fp16.
            RuntimeStateError: The stack was released.
        """
        given = self.check_layers(layers)
        x = self.check_value(check_values(as_array(x0, OP, "x0"), "x0"), "x0")
        inputs: list[Array] = []
        for layer in given:
            inputs.append(x)
            x = self.programs[0].run({**self.fed(layer), self.input: x})["output"].astype(np.float16)
        return x.astype(np.float32), inputs

    def backward(self, layers: Sequence[Layer], inputs: Sequence[object], g: object) -> tuple[list[list[Array]], Array]:
        """Return the gradients of every layer's parameters and that at x0, in float32, from the gradient at the output.

        `inputs` are those that `forward` gave. A loss scale is part of `g`, and of all that comes back.

        Raises:
            GraphError: There are not as many inputs as layers, or something does not have its shape.
            RuntimeStateError: The stack was released.
        """
        given = self.check_layers(layers)
        if len(inputs) != len(given):
            raise misuse(OP, "there must be one input for every layer", seen=len(inputs), limit=len(given))
        back = self.check_value(g, "g")
        gradients: list[list[Array]] = []
        for layer, one in zip(reversed(given), reversed(inputs), strict=True):
            feeds = {**self.fed(layer), self.input: self.check_value(one, "an input"), self.gradient: back}
            found = self.programs[1].run({node: feeds[node] for node in self.programs[1].graph.inputs.values()})
            gradients.append([found[f"gradient{place}"] for place in range(len(self.params))])
            with np.errstate(over="ignore"):
                back = found["input"].astype(np.float16)
        return gradients[::-1], back.astype(np.float32)

    def fed(self, layer: Sequence[Array]) -> dict[Node, Array]:
        """Return the values of a layer's parameters by the inputs that they are for."""
        return {one.node: value for one, value in zip(self.params, layer, strict=True)}

    def check_layers(self, layers: object) -> list[list[Array]]:
        """Return the values of every layer's parameters.

        Raises:
            GraphError: There is no layer, one has other parameters than the example, or a value is not finite in fp16.
            GraphTypeError: They are not lists.
        """
        if not isinstance(layers, list | tuple) or not layers:
            raise GraphTypeError(
                "layers must be a list of lists of parameters", seen=type(cast("object", layers)).__name__
            )
        found: list[list[Array]] = []
        for number, layer in enumerate(cast("Sequence[Layer]", layers)):
            values = [one.value if isinstance(one, Parameter) else as_array(one, OP, "a parameter") for one in layer]
            seen, wanted = [list(one.shape) for one in values], [list(one.shape) for one in self.params]
            if seen != wanted:
                raise GraphError(
                    f"layers[{number}] must have the parameters of the example", operation=OP, seen=seen, limit=wanted
                )
            for place, one in enumerate(values):
                check_values(one, f"layers[{number}][{place}]")
            found.append(values)
        return found

    def check_value(self, given: object, what: str) -> Array:
        """Return an input, an output or a gradient of a layer in fp16.

        Raises:
            GraphError: It does not have `io_shape`.
        """
        array = as_array(given, OP, what)
        if array.shape != self.io_shape:
            raise misuse(OP, f"{what} must have io_shape", seen=list(array.shape), limit=list(self.io_shape))
        with np.errstate(over="ignore"):
            return array.astype(np.float16)

    def release(self) -> None:
        """Give back what the programs hold. A second time does nothing."""
        for program in self.programs:
            program.model.release()

    def __repr__(self) -> str:
        return f"<CheckpointedStack on {self.target}: layers of {len(self.params)} parameters, {list(self.io_shape)}>"
