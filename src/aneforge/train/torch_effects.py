"""Side effects of a torch module, taken out of its graph: it draws masks and changes buffers.

Masks become buffers of the graph, which a step is given; what changes a buffer becomes a further result.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import torch
from torch.fx.graph import CodeGen
from torch.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d

from aneforge.errors import NotSupportedError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from torch.fx import GraphModule, Node

__all__ = ["Effects", "TracedMove", "cumulative_norms", "take_out_effects"]

CUMULATIVE = -1.0
"""The momentum that stands for the mean of all mini-batches while a module is traced."""
COUNTER = "num_batches_tracked"
"""How batch norms call the buffer that counts."""


@dataclass(frozen=True, slots=True)
class TracedMove:
    """How a buffer changes: it goes a share of the way to each of some results, or counts."""

    name: str
    shares: tuple[float, ...]
    """One for each of the results, in order; none where it counts."""
    count: int
    """By how much it counts."""

    @property
    def counter(self) -> str | None:
        """The buffer that counts the mini-batches of a mean over all; None of another."""
        return f"{self.name.rpartition('.')[0]}.{COUNTER}" if CUMULATIVE in self.shares else None


@dataclass(frozen=True, slots=True)
class Effects:
    """What was taken out of a graph."""

    masks: Mapping[str, float]
    """The share that a mask keeps, by the buffer of the graph that takes it."""
    moves: tuple[TracedMove, ...]
    """In the order in which their results come after that of the graph."""


@contextmanager
def cumulative_norms(module: torch.nn.Module) -> Generator[None]:
    """Give norms whose statistics are means of all mini-batches a momentum of their own, which torch can trace."""
    found = [
        one
        for one in module.modules()
        if isinstance(one, BatchNorm1d | BatchNorm2d | BatchNorm3d) and one.momentum is None
    ]
    for one in found:
        one.momentum = CUMULATIVE
    try:
        yield
    finally:
        for one in found:
            one.momentum = None


def take_out_effects(flat: GraphModule) -> Effects:
    """Take masks and changes of buffers out of a graph, whose result becomes a tuple of its own and what they move to.

    Raises:
        NotSupportedError: It draws something else at random, or changes buffers in another way.
    """
    masks = take_out_masks(flat)
    moves, results = take_out_moves(flat)
    output = flat.graph.output_node()
    output.args = ((*cast("tuple[Node, ...]", output.args[0]), *results),)
    flat.graph.set_codegen(CodeGen())  # its own would put the results into the module's structure
    flat.recompile()
    return Effects(masks, tuple(moves))


def take_out_masks(flat: GraphModule) -> dict[str, float]:
    """Replace masks by buffers of ones; return the share that each keeps, by name.

    Raises:
        NotSupportedError: Something else is drawn at random.
    """
    aten, graph = torch.ops.aten, flat.graph
    found: dict[str, float] = {}
    for node in list(graph.nodes):
        if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            continue
        keep = node.args[1] if node.target is aten.bernoulli.p else None
        scaled = [user for user in node.users if user.target in (aten.div.Tensor, aten.div.Scalar)]
        if keep is None or not all(user in scaled and user.args == (node, keep) for user in node.users):
            raise NotSupportedError(
                "the masks of dropout are the only random numbers that a step can draw",
                seen=str(cast("object", node.target)),
                remedy="use torch.nn.Dropout or Dropout1d to Dropout3d, or feed what is drawn as an input",
            )
        name = f"dropout_mask_{len(found)}"
        found[name] = cast("float", keep)
        flat.register_buffer(name, torch.ones(node.meta["val"].shape))
        with graph.inserting_before(node):
            mask = graph.get_attr(name)
        for user in scaled:
            user.replace_all_uses_with(mask)
            graph.erase_node(user)
        graph.erase_node(node)
    return found


def take_out_moves(flat: GraphModule) -> tuple[list[TracedMove], list[Node]]:
    """Take out changes of buffers; return them, and the results that buffers move towards.

    Raises:
        NotSupportedError: One changes in another way, or is read as well.
    """
    moves: list[TracedMove] = []
    results: list[Node] = []
    for node in [one for one in flat.graph.nodes if one.target is torch.ops.aten.copy_.default]:
        buffer, source = cast("tuple[Node, Node]", node.args)
        flat.graph.erase_node(node)
        name = str(buffer.target).removeprefix("module.")
        shares: list[float] = []
        towards: list[Node] = []
        count = 0
        while source is not buffer:
            before, *rest = source.args
            if source.users or not isinstance(before, torch.fx.Node):
                raise build_refusal(name)
            if source.target is torch.ops.aten.lerp.Scalar:
                towards.append(cast("Node", rest[0]))
                shares.append(cast("float", rest[1]))
            elif source.target is torch.ops.aten.add.Tensor and isinstance(rest[0], int):
                count += rest[0]
            else:
                raise build_refusal(name)
            flat.graph.erase_node(source)
            source = before
        if buffer.users or (shares and count):
            raise build_refusal(name)
        moves.append(TracedMove(name, tuple(reversed(shares)), count))
        results += reversed(towards)
    return moves, results


def build_refusal(name: str) -> NotSupportedError:
    """Return the error of a buffer that does more than running statistics do."""
    return NotSupportedError(
        "a step can change no buffers of the module but running statistics and counters, which it does not read",
        seen=name,
        remedy="use norms without running statistics (LayerNorm, GroupNorm), or module.eval()",
    )
