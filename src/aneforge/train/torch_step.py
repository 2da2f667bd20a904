"""The training step of a torch module: its joint graph of forward and backward pass, as torch traces it.

The module and its loss are exported and taken apart; torch's own automatic differentiation runs on what came of it, and
the trace of that is read like any other program. The gradient at the loss is an input of the trace, which becomes the
loss scale.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from aneforge.errors import AneforgeError, GraphError, GraphTypeError, NotSupportedError
from aneforge.formats.torch.quiet import OWN_WEIGHTS, quiet_loggers, without_printed_graph
from aneforge.formats.torch.torch_model import from_torch
from aneforge.ops.numbers import FP16_MAX
from aneforge.records import dataclass
from aneforge.train.joint_graph import JointLoss, bind_joint_graph
from aneforge.train.module_state import ModuleState, MovedBuffer
from aneforge.train.parameter import worst_of
from aneforge.train.torch_effects import Effects, TracedMove, cumulative_norms, take_out_effects
from aneforge.train.torch_operators import MOST_CLASSES, decompositions

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from aneforge.ops.types import Array
    from aneforge.train.parameter import Parameter

__all__ = ["Loss", "trace_step"]

Loss = Callable[..., torch.Tensor]


class ModuleWithLoss(torch.nn.Module):
    """A module and its loss in one; indices come as floating-point numbers."""

    def __init__(self, module: torch.nn.Module, loss: Loss, indices: Sequence[bool], *, has_target: bool) -> None:
        super().__init__()
        self.module = module
        self.loss = loss
        self.indices = tuple(indices)
        self.has_target = has_target

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        inputs = [one.to(torch.int64) if index else one for one, index in zip(given, self.indices, strict=True)]
        rest = inputs[-1:] if self.has_target else []
        return self.loss(self.module(*inputs[: len(inputs) - len(rest)]), *rest)


def trace_step(module: torch.nn.Module, loss: Loss, example_inputs: object, dropout_seed: int = 0) -> JointLoss:
    """Return the step of a module: the module's inputs, and after them the target of the loss where it takes one.

    Masks of dropout are drawn from the seed.

    Raises:
        GraphError: The loss is not one number, or no parameter trains.
        GraphTypeError: An argument is not a module, a function or a tensor.
        NotSupportedError: The module changes buffers that are not running statistics, draws at random something that
            is not a mask of dropout, or torch cannot trace it.
    """
    inputs = check_arguments(module, loss, example_inputs)
    names = [name for name, one in module.named_parameters() if one.requires_grad]
    if not names:
        raise GraphError("the module has no parameter that trains", seen=type(module).__name__)
    indices = [not one.is_floating_point() for one in inputs]
    given = tuple(one.detach().to(torch.float32) for one in inputs)
    values = [one.detach().to(torch.float32) for name, one in module.named_parameters() if name in names]
    check_first_values(names, values)
    whole = ModuleWithLoss(module, loss, indices, has_target=takes(module, inputs[:-1]))
    try:
        with quiet(), cumulative_norms(module):
            flat = take_apart(whole, given)
            program = export_step(flat, [f"module.{name}" for name in names], values, given)
    except AneforgeError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise NotSupportedError(
            f"{type(module).__name__}: torch cannot trace its training step: {type(error).__name__}: {said}",
            remedy="check that the module, its loss and loss.backward() run with the example inputs",
        ) from error
    owners = {
        f"params_{place}": (name, np.array(value.numpy(), np.float32, order="C"))
        for place, (name, value) in enumerate(zip(names, values, strict=True))
    }
    data = {f"given_{place}": is_index for place, is_index in enumerate(indices)}
    masks = {f"masks_{place}": keep for place, keep in enumerate(flat.effects.masks.values())}
    state = state_of_buffers(module, flat.effects.moves, dropout_seed)
    bound = bind_joint_graph(from_torch(program), owners, data, "seed", flat.classes, masks, state)
    return replace(bound, state=state_of(module, dict(zip(names, bound.params, strict=True))))


def state_of_buffers(module: torch.nn.Module, moves: Sequence[TracedMove], seed: int) -> ModuleState:
    """Return the buffers that a step changes; what they move towards are its further results, in order."""
    numbers = count()
    moved = tuple(
        MovedBuffer(one.name, tuple((f"statistic{next(numbers)}", share) for share in one.shares), one.counter)
        for one in moves
        if one.shares
    )
    values = {one.name: as_kept(module.get_buffer(one.name)) for one in moves}
    return ModuleState((), moved, {one.name: one.count for one in moves if one.count}, values, seed)


def state_of(module: torch.nn.Module, trained: Mapping[str, Parameter]) -> dict[str, Parameter | Array]:
    """Return what the module's own `state_dict` has: parameters, also by their second names, and buffers."""
    first = {id(one): name for name, one in module.named_parameters()}
    found: dict[str, Parameter | Array] = {}
    for name, one in cast("Mapping[str, torch.Tensor]", module.state_dict(keep_vars=True)).items():
        owner = trained.get(first.get(id(one), ""))
        found[name] = as_kept(one) if owner is None else owner
    return found


def as_kept(value: torch.Tensor) -> Array:
    """Return a copy of a value that does not train: in float32, or as integers."""
    kept = value.detach().to(torch.float32) if value.is_floating_point() else value.detach()
    return kept.numpy().copy()


def export_step(
    flat: FlatModule, names: Sequence[str], values: list[torch.Tensor], examples: tuple[torch.Tensor, ...]
) -> torch.export.ExportedProgram:
    """Return the joint graph: loss, gradients and further results.

    They are computed from parameters, data, masks of dropout and the gradient at the loss.
    """
    masks = [flat.module.get_buffer(name) for name in flat.effects.masks]

    def step(
        params: list[torch.Tensor], given: tuple[torch.Tensor, ...], masks: list[torch.Tensor], seed: torch.Tensor
    ) -> list[torch.Tensor]:
        masked = dict(zip(flat.effects.masks, masks, strict=True))

        def forward(*now: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
            replaced = {**dict(zip(names, now, strict=True)), **masked}
            loss, *further = cast("Sequence[torch.Tensor]", torch.func.functional_call(flat.module, replaced, given))
            return loss, further

        traced = cast(
            "tuple[torch.Tensor, Callable[..., tuple[torch.Tensor, ...]], list[torch.Tensor]]",
            torch.func.vjp(forward, *params, has_aux=True),
        )
        value, pull, further = traced
        if value.numel() != 1:
            raise GraphError(
                "the loss must be one number", seen=f"shape {list(value.shape)}", remedy="take its mean or sum"
            )
        return [value, *pull(seed.reshape(value.shape)), *further]

    example = (values, examples, masks, torch.ones(()))
    traced = make_fx(step, tracing_mode="real")(*example)
    without_assertions(traced)
    without_integers(traced)
    return torch.export.export(traced, example, strict=False)


def check_arguments(module: object, loss: object, example_inputs: object) -> tuple[torch.Tensor, ...]:
    """Return example inputs.

    Raises:
        GraphTypeError: An argument is not a module, a function or a tensor.
    """
    if not isinstance(module, torch.nn.Module):
        raise GraphTypeError("expected a torch module", seen=type(module).__name__)
    if not callable(loss):
        raise GraphTypeError("the loss must be a function of output and target", seen=type(loss).__name__)
    listed = [example_inputs] if isinstance(example_inputs, torch.Tensor) else example_inputs
    if not isinstance(listed, list | tuple) or not listed:
        raise GraphTypeError(
            "example_inputs must be tensors: those of the module, then the target", seen=type(example_inputs).__name__
        )
    found = tuple(cast("Sequence[object]", listed))
    for place, one in enumerate(found):
        if not isinstance(one, torch.Tensor):
            raise GraphTypeError(f"example_inputs[{place}] must be a tensor", seen=type(one).__name__)
    return cast("tuple[torch.Tensor, ...]", found)


def check_first_values(names: Sequence[str], values: Sequence[torch.Tensor]) -> None:
    """Check the parameters of a module.

    Raises:
        GraphError: One is not finite in fp16.
    """
    for name, value in zip(names, values, strict=True):
        if not (value.abs() <= FP16_MAX).all():
            raise GraphError(
                f"the parameter {name!r} must be finite in fp16", seen=worst_of(value.numpy()), limit=FP16_MAX
            )


def takes(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether a module can be called with these, so that what comes after them is the target."""
    try:
        inspect.signature(module.forward).bind(*inputs)
    except TypeError:
        return False
    return bool(inputs)


@dataclass(frozen=True, slots=True)
class FlatModule:
    """A module in operators whose gradients have a form on the engine."""

    module: torch.nn.Module
    """Its result is the loss, and then what buffers move towards."""
    classes: int
    """An index is below this number."""
    effects: Effects


def take_apart(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> FlatModule:
    """Return a module in operators whose gradients have a form on the engine.

    Raises:
        NotSupportedError: It changes buffers in a way, or draws at random something, that is not supported here.
    """
    aten = torch.ops.aten
    program = torch.export.export(module, inputs, strict=False)
    detach_what_has_no_gradient(program.graph_module)
    without_assertions(program.graph_module)
    table = cast("dict[object, Callable[..., object]]", torch.export.default_decompositions())
    del table[aten.detach.default]  # what it is taken apart into has a gradient
    table.pop(aten.lerp.Scalar, None)  # it says how buffers move
    counted: list[int] = []
    table.update(decompositions(table, counted))
    core = program.run_decompositions(table)  # pyright: ignore[reportArgumentType, reportUnknownMemberType] - PyTorch's own table
    flat = core.module()
    effects = take_out_effects(flat)
    return FlatModule(flat, max(counted, default=MOST_CLASSES), effects)


def detach_what_has_no_gradient(exported: torch.fx.GraphModule) -> None:
    """Detach the results of `torch.no_grad` blocks, which are written out in line when a program is taken apart."""
    for node in list(exported.graph.nodes):
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        for result in list(node.users):
            users = list(result.users)
            with exported.graph.inserting_after(result):
                detached = exported.graph.call_function(torch.ops.aten.detach.default, (result,))
            detached.meta = dict(result.meta)
            for user in users:
                user.replace_input_with(result, detached)
    exported.recompile()


def without_assertions(traced: torch.fx.GraphModule) -> None:
    """Take out what torch asserts of the element types that a conversion reads: indices are not integers here."""
    for node in list(traced.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # noqa: SLF001 - the operator's name
            traced.graph.erase_node(node)
    traced.recompile()


def without_integers(traced: torch.fx.GraphModule) -> None:
    """Take out the conversions of inputs to integers: what is computed of them takes floating-point numbers."""
    for node in list(traced.graph.nodes):
        source = node.args[0] if node.args else None
        whole = node.kwargs.get("dtype") == torch.int64
        if whole and node.target is torch.ops.aten._to_copy.default and getattr(source, "op", "") == "placeholder":  # noqa: SLF001 - the operator's name
            node.replace_all_uses_with(cast("torch.fx.Node", source))
            traced.graph.erase_node(node)
    traced.recompile()


@contextmanager
def quiet() -> Generator[None]:
    """Keep PyTorch's own warnings and printed graphs to itself."""
    with warnings.catch_warnings(), quiet_loggers(), without_printed_graph():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", OWN_WEIGHTS, UserWarning)
        yield
