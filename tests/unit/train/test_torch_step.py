"""Trainers of torch modules: gradients and curves against torch itself, and what is refused."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, NotSupportedError
from aneforge.train.joint_graph import JointLoss
from aneforge.train.torch_step import trace_step
from torch_networks import TorchNetwork, images, spread, words

if TYPE_CHECKING:
    from collections.abc import Callable

SCALE = 1024.0


def trainer_of(network: TorchNetwork, **options: float | str) -> af.Trainer:
    chosen = {"lr": 0.01, "optimizer": "adam", "loss_scale": SCALE, "target": "m1", **options}
    trainer = af.Trainer.from_torch(network.module, network.loss, network.inputs, **chosen)  # pyright: ignore[reportArgumentType] - options of several types
    arrays = [one.numpy() for one in network.inputs]
    trainer.run.fixed = {one.node: array for one, array in zip(trainer.inputs, arrays, strict=True)}
    return trainer


def check_step(network: TorchNetwork, traced: JointLoss) -> None:
    """Compare loss, gradients and state of a traced step with those of torch."""
    feeds = {one.node: one.value for one in traced.params}
    feeds |= {one.node: given.numpy() for one, given in zip(traced.inputs, network.inputs, strict=True)}
    gradients = traced.gradients(traced.params, 2.0)
    graph = af.Graph({"loss": traced.result, **{f"gradient{place}": one for place, one in enumerate(gradients)}})
    found = af.reference(graph, [feeds[node] for node in graph.inputs.values()])
    loss = network.value()
    loss.backward()  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
    assert found["loss"].item() == pytest.approx(loss.item(), rel=1e-5)
    for place, (name, param) in enumerate(network.module.named_parameters()):
        assert param.grad is not None
        wanted = 2 * param.grad.numpy()
        np.testing.assert_allclose(found[f"gradient{place}"], wanted, rtol=1e-4, atol=1e-5, err_msg=name)
    own = network.module.state_dict()
    assert list(traced.state) == list(own)  # a tied table by both names, and buffers
    for name, one in traced.state.items():
        np.testing.assert_array_equal(one.value if isinstance(one, af.Parameter) else one, own[name].numpy())


@pytest.mark.parametrize("build", [images, spread])
def test_the_traced_step_is_that_of_torch(build: Callable[[], TorchNetwork]) -> None:
    torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType] - as above
    network = build()
    check_step(network, trace_step(network.module, network.loss, network.inputs))


def test_a_transformer_trains_as_in_float32_and_its_values_go_back_by_name() -> None:
    torch.manual_seed(2)  # pyright: ignore[reportUnknownMemberType] - as above
    network = words()
    trainer = trainer_of(network)
    assert isinstance(trainer.objective, JointLoss)
    check_step(network, trainer.objective)
    losses = [trainer.step() for _ in range(40)]
    optimizer = torch.optim.Adam(network.module.parameters(), 0.01)
    wanted: list[float] = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = network.value()
        loss.backward()  # pyright: ignore[reportUnknownMemberType] - as above
        optimizer.step()  # pyright: ignore[reportUnknownMemberType] - as above
        wanted.append(loss.item())
    assert wanted[-1] < 0.7 * wanted[0]
    np.testing.assert_allclose(losses, wanted, rtol=0.02, atol=0.01)
    found = {name: torch.as_tensor(one) for name, one in trainer.state_dict().items()}
    network.module.load_state_dict(found)
    assert network.value().item() == pytest.approx(trainer.loss(), rel=5e-3, abs=5e-3)


class Frozen(nn.Module):
    """A module of which a part does not train, and another has no part in its output."""

    def __init__(self, *, unused: bool) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 3), nn.Linear(3, 1)
        self.inner.requires_grad_(requires_grad=False)
        if unused:
            self.unused = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a number for every row."""
        return cast("torch.Tensor", self.outer(self.inner(x)))


class Counting(nn.Module):
    """A module that changes a buffer in a way of its own."""

    buffer: torch.Tensor

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.linear = way, nn.Linear(3, 1)
        self.register_buffer("buffer", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a number for every row."""
        if self.way == "halved":
            self.buffer.mul_(0.5)
        else:
            self.buffer.add_(1)
        return cast("torch.Tensor", self.linear(x) * (self.buffer if self.way == "read" else 1))


def mean(y: torch.Tensor) -> torch.Tensor:
    return y.mean()


def mean_square(y: torch.Tensor) -> torch.Tensor:
    return y.square().mean()


def difference(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return y - t


def test_parameters_that_do_not_train_are_constants_and_a_loss_may_have_no_target() -> None:
    module, x = Frozen(unused=False), torch.ones(2, 3)
    trainer = af.Trainer.from_torch(module, mean_square, (x,), lr=0.1, target="m1")
    assert [one.node.attributes["name"] for one in trainer.parameters] == ["outer.weight", "outer.bias"]
    assert [one.shape for one in trainer.inputs] == [(2, 3)]


def binary(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(y[:, 0], t.float())


def of_same_type(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(y[:, 0], t.to(y.dtype))


def of_rows(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return -(functional.log_softmax(y, 1) * functional.one_hot(t.long(), 2)).sum(1).mean()


@pytest.mark.parametrize("loss", [binary, of_same_type, of_rows])
def test_a_loss_may_convert_its_target(loss: Callable[..., torch.Tensor]) -> None:
    module, x, t = nn.Linear(3, 2), torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor([0, 1, 1, 0])
    trainer = af.Trainer.from_torch(module, loss, (x, t), lr=0.1, target="m1")
    trainer.set_dataset(trainer.inputs[0], x.numpy(), trainer.inputs[1], t.numpy())
    assert trainer.step() == pytest.approx(loss(module(x), t).item(), abs=0.005)


def with_nan() -> nn.Module:
    module = nn.Linear(3, 3)
    module.weight.data[1, 2] = torch.nan
    return module


X = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("module", "loss", "inputs", "error", "message"),
    [
        (nn.Linear(3, 1), functional.mse_loss, "x", GraphTypeError, "example_inputs must be tensors"),
        (nn.Linear(3, 1), functional.mse_loss, (X, 1.0), GraphTypeError, r"example_inputs\[1\] must be a tensor"),
        ("module", functional.mse_loss, (X, X), GraphTypeError, "expected a torch module"),
        (nn.Linear(3, 3), 3, (X, X), GraphTypeError, "the loss must be a function"),
        (nn.ReLU(), functional.mse_loss, (X, X), GraphError, "no parameter that trains"),
        (nn.Linear(3, 3), difference, (X, X), GraphError, "the loss must be one number"),
        (Counting("halved"), mean, (X,), NotSupportedError, "change no buffers .*got buffer"),
        (Counting("read"), mean, (X,), NotSupportedError, "change no buffers .*got buffer"),
        (
            with_nan(),
            functional.mse_loss,
            (X, X),
            GraphError,
            r"'weight' must be finite in fp16 \(got nan at \[1, 2\]",
        ),
        (nn.Conv3d(2, 2, 1), mean, (X.reshape(2, 3, 1, 1),), NotSupportedError, "one of lines or images"),
        (nn.Embedding(3, 2, scale_grad_by_freq=True), mean, (X.long(),), NotSupportedError, "no scale_grad_by_freq"),
        (Frozen(unused=True), mean, (X,), GraphError, "does not depend on 'unused.weight'"),
        (nn.Embedding(3000, 2), mean, (X.long(),), NotSupportedError, "got 3000 classes, limit 2048"),
        (
            nn.Sequential(nn.Linear(3, 3), nn.AlphaDropout(0.5)),
            mean,
            (X,),
            NotSupportedError,
            "masks of dropout are the only",
        ),
        (nn.Linear(4, 3), functional.mse_loss, (X, X), NotSupportedError, "torch cannot trace its training step"),
    ],
)
def test_what_is_refused(
    module: nn.Module, loss: Callable[..., torch.Tensor], inputs: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        af.Trainer.from_torch(module, loss, inputs, lr=0.1, target="m1")


def test_indices_out_of_range_are_refused() -> None:
    module, rows = nn.Linear(3, 4), np.zeros((4, 3), np.float32)
    classes = torch.tensor([0, 1])
    trainer = af.Trainer.from_torch(module, functional.cross_entropy, (X, classes), lr=0.1, target="m1")
    x, t = trainer.inputs
    for wrong, seen in (([0, 1, 2, 4], "4"), ([0, -1, 2, 3], "-1"), ([0, 0.5, 2, 3], "0.5")):
        with pytest.raises(GraphError, match=rf"an index must be an integer in range \(got {seen}, limit 0 to 3\)"):
            trainer.set_dataset(x, rows, t, np.array(wrong))


def test_without_torch_there_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    with pytest.raises(ImportError, match=r"needs the package torch.*aneforge-open\[torch\]"):
        af.Trainer.from_torch(nn.Linear(3, 3), functional.mse_loss, (X, X), lr=0.1, target="m1")
