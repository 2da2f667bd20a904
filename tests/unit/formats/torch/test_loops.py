"""Loops that PyTorch keeps as operators: taken where the number of iterations is known, and told of where it is not."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import map as higher_order_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import aneforge as af
from aneforge.formats.shared import unrolling
from aneforge.formats.shared.emitter import Budget, Emitter
from aneforge.formats.shared.findings import Reason, TooLargeModelError, UnsupportedModelError
from aneforge.formats.torch.decomposition import decompose_program
from aneforge.formats.torch.interpreter import TorchInterpreter
from aneforge.formats.torch.loops import scan_rows
from aneforge.formats.torch.torch_model import from_torch
from aneforge.graph.convert import unroll

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


map_slices = cast("Callable[..., Tensor]", higher_order_map)


class Scanning(nn.Module):
    """A recurrence whose iterations go along an axis, forwards or backwards."""

    def __init__(self, axis: int = 0, *, reverse: bool = False) -> None:
        super().__init__()
        self.axis, self.reverse = axis, reverse
        self.weight = nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is carried last, and what every iteration gives."""

        def iteration(carried: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            mixed = torch.tanh(carried @ self.weight + row)
            return mixed, mixed * row

        found = scan(iteration, torch.zeros(3), x, dim=self.axis, reverse=self.reverse)
        return cast("tuple[Tensor, Tensor]", found)


class Mapping(nn.Module):
    """A function of every slice, with a tensor that all of them see."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return sums along each slice."""
        return map_slices(weighed, x, y)


def weighed(row: Tensor, seen: Tensor) -> Tensor:
    return (row * seen).cumsum(0)


class Counting(nn.Module):
    """A loop that counts its iterations."""

    def __init__(self, iterations: int) -> None:
        super().__init__()
        self.iterations = iterations

    def forward(self, x: Tensor) -> Tensor:
        """Return x, changed in every iteration."""

        def goes_on(place: Tensor, _: Tensor) -> Tensor:
            return place < self.iterations

        def iteration(place: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            return place + 1, value * 1.5 + place

        return cast("tuple[Tensor, Tensor]", while_loop(goes_on, iteration, (torch.tensor(0), x)))[1]


class Halving(nn.Module):
    """A loop that ends when its data say so."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x, halved until it is small."""
        return cast("tuple[Tensor]", while_loop(large, half, (x,)))[0]


def large(x: Tensor) -> Tensor:
    return x.sum() > 1


def half(x: Tensor) -> tuple[Tensor]:
    return (x / 2,)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # PyTorch's own
@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (Scanning(), (torch.arange(12.0).reshape(4, 3) / 7,)),
        (Scanning(1, reverse=True), (torch.arange(12.0).reshape(3, 4) / 7,)),
        (Mapping(), (torch.arange(12.0).reshape(3, 4), torch.ones(4) * 2)),
        (Counting(3), (torch.arange(4.0),)),
        (Counting(0), (torch.arange(4.0),)),
    ],
)
def test_a_loop_of_known_turns_means_the_same(module: nn.Module, inputs: tuple[Tensor, ...], tmp_path: Path) -> None:
    with torch.no_grad():
        wanted = module(*inputs)
    results = wanted if isinstance(wanted, tuple) else (wanted,)
    program = torch.export.export(module, inputs)
    torch.export.save(program, tmp_path / "loop.pt2")
    for graph in (from_torch(program), from_torch(tmp_path / "loop.pt2")):
        found = af.reference(graph, [one.numpy() for one in inputs])
        for one, other in zip(found.values(), results, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # PyTorch's own
@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (Scanning(), (torch.arange(60.0).reshape(20, 3) / 70,)),
        (Scanning(1, reverse=True), (torch.arange(60.0).reshape(3, 20) / 70,)),
        (Mapping(), (torch.arange(80.0).reshape(20, 4), torch.ones(4) * 2)),
    ],
)
def test_a_long_loop_is_one_operation(
    module: nn.Module, inputs: tuple[Tensor, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = torch.export.export(module.eval(), inputs)
    graph = from_torch(exported)
    assert [node.op.name for node in graph.nodes].count("scan") == 1
    monkeypatch.setattr(unrolling, "UNROLLED_MOST", 10**9)
    assert str(unroll(graph).graph) == str(from_torch(exported))


def test_a_loop_that_its_data_end_is_told_of() -> None:
    with pytest.raises(UnsupportedModelError, match="how often its body runs depends on the data") as raised:
        from_torch(Halving(), torch.ones(4))
    (finding,) = raised.value.findings
    assert (finding.operator, finding.reason) == ("while_loop", Reason.CONTROL)
    assert "unroll it in Python" in finding.workaround


def test_a_loop_that_never_ends_is_one_error() -> None:
    program = decompose_program(torch.export.export(Counting(10**9), (torch.ones(2),)))
    budget = Budget(nodes=500)
    inputs = [Emitter(None, budget).constant(np.zeros(shape), kind) for shape, kind in (((), "int64"), ((2,), "fp32"))]
    with pytest.raises(TooLargeModelError, match="unrolls to too many operations"):
        TorchInterpreter(file=None, budget=budget).run(program.graph_module, inputs)


def test_what_stops_a_turn_is_told_of_once() -> None:
    class Lost(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return map_slices(torch.lgamma, x) + 1

    with pytest.raises(UnsupportedModelError, match="1 finding") as raised:
        from_torch(Lost(), torch.ones(3, 2))
    assert raised.value.findings[0].operator == "lgamma.default"


def test_slices_of_different_numbers_make_no_loop() -> None:
    emitter = Emitter(None, Budget())
    rows = [emitter.constant(np.zeros(shape), "fp32") for shape in ((2, 3), (3, 3), (0, 3), ())]
    for listed, message in (
        (rows[:2], "must have one length"),
        (rows[3:], "must have one length"),
        ([], "must have one length"),
        (rows[2:3], "no slices"),
        ([3], "something other than tensors"),
    ):
        with pytest.raises(af.errors.GraphError, match=message):
            scan_rows(emitter, tuple, lambda given: (tuple(given), ""), (), listed, ())
