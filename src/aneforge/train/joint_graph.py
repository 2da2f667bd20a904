"""A loss whose gradients come with it: the joint graph of forward and backward pass that another framework traced."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import build
from aneforge.graph.precision import to_fp16
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass
from aneforge.train.loss_seed import LossSeed
from aneforge.train.module_state import Mask, ModuleState
from aneforge.train.parameter import Parameter, own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.node import Argument, Node
    from aneforge.ops.types import Array, TensorType

__all__ = ["JointLoss", "bind_joint_graph"]

LOSS, SEED = "loss", "seed"


@dataclass(frozen=True, slots=True)
class JointLoss(LossSeed):
    """A loss that the program itself computes, and whose gradients were traced with it."""

    graph: Graph
    """Loss and gradients, from parameters, data and the gradient at the loss."""
    params: tuple[Parameter, ...]
    inputs: tuple[Tensor, ...]
    """The inputs that take data."""
    indices: frozenset[Node] = frozenset()
    """Those that take indices."""
    classes: int = 0
    """An index is below this number."""
    module_state: ModuleState = field(default_factory=ModuleState, compare=False)
    """Masks and buffers as a run begins with them."""
    state: Mapping[str, Parameter | Array] = field(default_factory=dict[str, "Parameter | Array"], compare=False)
    """What was traced calls its parameters, one perhaps by several names, and buffers as a run begins with them."""
    name = LOSS

    @property
    def result(self) -> Tensor:
        """The loss."""
        found = self.graph.outputs[LOSS]
        return Tensor(found.node, found.index)

    def further_results(self) -> dict[str, Tensor]:
        """Return what buffers move towards, by output of a step."""
        found = self.graph.outputs
        return {name: Tensor(found[name].node, found[name].index) for name in self.module_state.outputs}

    def new_module_state(self) -> ModuleState:
        """Return masks and buffers as a run begins with them."""
        return self.module_state.copy()

    def gradients(self, params: Sequence[Parameter], loss_scale: float) -> list[Tensor]:
        """Return the gradients of the loss times a scale, in the order of the parameters."""
        self.check_scale(loss_scale)
        return self.seeded(
            params,
            lambda kind: Tensor(build("fill", {}, {"shape": kind.shape, "value": loss_scale, "dtype": kind.dtype})),
        )

    def gradients_from(self, params: Sequence[Parameter], seed: Tensor) -> list[Tensor]:
        """Return the same from a tensor [1, 1], which is fed `seed_of` the scale."""
        return self.seeded(params, lambda kind: seed.reshape(*kind.shape))

    def seeded(self, params: Sequence[Parameter], seed_of_type: Callable[[TensorType], Tensor]) -> list[Tensor]:
        """Return the gradients for a gradient at the loss."""

        def scaled(node: Node, _: Mapping[str, Argument]) -> list[Tensor] | None:
            if node.op.name != INPUT or node.attributes.get("name") != SEED:
                return None
            return [seed_of_type(node.types[0])]

        # The forward pass does not depend on the gradient at the loss, and is shared with `result`.
        found = rewrite(self.graph, scaled).outputs
        places = {one.node: place for place, one in enumerate(self.params)}
        listed = [found[f"gradient{places[one.node]}"] for one in params]
        return [Tensor(one.node, one.index) for one in listed]

    def check_data(self, arrays: Mapping[Node, Array]) -> None:
        """Check the values of inputs that take indices: another number would be no class at all.

        Raises:
            GraphError: One is not an integer, or out of range.
        """
        for node in self.indices & arrays.keys():
            values = arrays[node]
            wrong = values[(values != np.floor(values)) | (values < 0) | (values >= self.classes)]
            if wrong.size:
                raise GraphError(
                    "an index must be an integer in range",
                    operation=node.text("name"),
                    seen=wrong.flat[0].item(),
                    limit=f"0 to {self.classes - 1}",
                )

    def loss_of(self, result: Array, feeds: Mapping[Node, Array]) -> float:  # noqa: ARG002 - one form for all objectives
        """Return the loss of what a program gave."""
        return float(result.reshape(()))


def bind_joint_graph(
    traced: Graph,
    params: Mapping[str, tuple[str, Array]],
    data: Mapping[str, bool],
    seed: str,
    classes: int,
    masks: Mapping[str, float],
    state: ModuleState,
) -> JointLoss:
    """Return the loss of a traced graph, whose outputs are the loss, gradients of all parameters, and those of a state.

    `params` are name and value by the name of an input; `data`, `seed` and `masks` are the other inputs. `data` says of
    each whether it takes indices, which are below `classes`, and `masks` which share each keeps.

    Raises:
        GraphError: The loss is not one number, or does not depend on a parameter or an input.
    """
    graph = to_fp16(traced).graph
    for name, what in ((seed, "any parameter"), *((name, repr(given)) for name, (given, _) in params.items())):
        if name not in graph.inputs:
            raise GraphError(
                f"the loss does not depend on {what}",
                remedy="exclude parameters that do not affect the loss: give them requires_grad_(False)",
            )
    names = {
        **{name: given for name, (given, _) in params.items()},
        **{name: name for name in (*data, *masks)},
        seed: SEED,
    }
    nodes: dict[str, Node] = {}

    def renamed(node: Node, _: Mapping[str, Argument]) -> list[Tensor] | None:
        if node.op.name != INPUT:
            return None
        kind, name = node.types[0], node.text("name")
        nodes[name] = build(INPUT, {}, {"shape": kind.shape, "dtype": kind.dtype, "name": names[name]})
        return [Tensor(nodes[name])]

    outputs = [LOSS, *(f"gradient{place}" for place in range(len(params))), *state.outputs]
    found = rewrite(graph, renamed).outputs.values()
    return JointLoss(
        Graph(dict(zip(outputs, found, strict=True))),
        tuple(own(Tensor(nodes[name]), value, None) for name, (_, value) in params.items()),
        tuple(Tensor(nodes[name]) for name in data if name in nodes),
        frozenset(nodes[name] for name, is_index in data.items() if is_index and name in nodes),
        classes,
        replace(state, masks=tuple(Mask(nodes[name], keep) for name, keep in masks.items() if name in nodes)),
    )
