"""Torch modules in training mode: dropout and batch norms against torch itself, with the same masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import aneforge as af
from aneforge.errors import GraphError
from aneforge.train.joint_graph import JointLoss
from aneforge.train.module_state import ModuleState, MovedBuffer
from aneforge.train.torch_step import trace_step
from torch_networks import TorchNetwork, encoded, restored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aneforge.ops.types import Array

STEPS, RATE, SEED = 6, 0.01, 3


def with_data(trainer: af.Trainer, network: TorchNetwork) -> af.Trainer:
    """Return a trainer whose data are those of the network, in one mini-batch."""
    x, t = trainer.inputs  # masks are not among them
    trainer.set_dataset(x, network.inputs[0].numpy(), t, network.inputs[1].numpy())
    return trainer


def trainer_of(network: TorchNetwork, loss_scale: float | str) -> af.Trainer:
    trainer = af.Trainer.from_torch(
        network.module,
        network.loss,
        network.inputs,
        RATE,
        optimizer="adam",
        loss_scale=loss_scale,
        target="m4",
        dropout_seed=SEED,
    )
    return with_data(trainer, network)


def rows_of(network: TorchNetwork) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield mini-batches as a trainer draws them."""
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(len(network.inputs[0]))
        yield tuple(one[order] for one in network.inputs)


def losses_in_torch(network: TorchNetwork, state: ModuleState, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the losses of the first steps in torch in float32, with the masks of a run."""
    masks: list[Array] = []

    def masked(x: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return x * torch.as_tensor(masks.pop(0))

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **__: object) -> object:
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        return masked(torch.softmax(scores, -1)) @ value

    def kept(x: torch.Tensor, keep: float) -> torch.Tensor:
        return x.copy_(torch.as_tensor(masks.pop(0)) * keep)

    monkeypatch.setattr(torch.Tensor, "bernoulli_", kept)
    for name, one in (("dropout", masked), ("dropout2d", masked), ("scaled_dot_product_attention", attention)):
        monkeypatch.setattr(functional, name, one)
    optimizer = torch.optim.Adam(network.module.parameters(), RATE)
    losses: list[float] = []
    for number, batch in zip(range(1, STEPS + 1), rows_of(network), strict=False):
        masks += state.masks_of(number).values()
        optimizer.zero_grad()
        loss = network.value(*batch)
        loss.backward()  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
        optimizer.step()  # pyright: ignore[reportUnknownMemberType] - as above
        losses.append(loss.item())
        assert not masks
    return losses


@pytest.fixture(scope="module")
def images() -> tuple[TorchNetwork, af.Trainer]:
    """Return a network with batch norms, and its trainer."""
    torch.manual_seed(4)  # pyright: ignore[reportUnknownMemberType] - as above
    network = restored()
    return network, trainer_of(network, "auto")


def test_batch_norms_train_as_in_torch_and_a_run_goes_on_from_a_checkpoint(
    images: tuple[TorchNetwork, af.Trainer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, trainer = images
    own = network.module.state_dict()
    assert list(trainer.state_dict()) == list(own)
    assert all(np.array_equal(one, own[name].numpy()) for name, one in trainer.state_dict().items())
    trainer.save(tmp_path / "start")
    losses = [trainer.step() for _ in range(2)]
    trainer.save(tmp_path / "middle")
    losses += [trainer.step() for _ in range(STEPS - 2)]
    after = trainer.state_dict()
    trainer.load(tmp_path / "middle")
    assert [trainer.step() for _ in range(STEPS - 2)] == losses[2:]
    assert all(np.array_equal(after[name], one) for name, one in trainer.state_dict().items())
    trainer.load(tmp_path / "start")
    np.testing.assert_allclose(losses, losses_in_torch(network, trainer.run.module_state, monkeypatch), rtol=2e-3)
    assert after["norm.num_batches_tracked"] == 2 * STEPS
    for name, one in network.module.state_dict().items():
        np.testing.assert_allclose(after[name], one.numpy(), rtol=5e-3, atol=5e-3, err_msg=name)


def test_masks_and_statistics_are_the_same_on_every_chip_and_in_a_resident_run(
    images: tuple[TorchNetwork, af.Trainer],
) -> None:
    network, trainer = images
    assert isinstance(trainer.objective, JointLoss)
    before = trainer.state_dict()
    found = trainer.compare("m5", steps=1)
    assert found.first is None or found.first.tensor.startswith("gradient")  # the loss of the same masks
    assert all(np.array_equal(before[name], one) for name, one in trainer.state_dict().items())
    resident = af.Trainer(trainer.objective, trainer.parameters, RATE, "auto", resident_state=True, target="m4")
    losses = with_data(resident, network).step(), trainer.step()
    assert losses[0] == losses[1] == found.losses[0][0]
    for name in ("norm.running_mean", "norm.running_var", "mean_norm.running_mean", "mean_norm.num_batches_tracked"):
        np.testing.assert_array_equal(resident.state_dict()[name], trainer.state_dict()[name])
        assert (resident.state_dict()[name] != before[name]).all()


def test_a_transformer_with_dropout_trains_as_in_torch_and_is_evaluated_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(5)  # pyright: ignore[reportUnknownMemberType] - as above
    network = encoded()
    trainer = trainer_of(network, 256.0)
    with pytest.raises(GraphError, match="dropout_seed"):
        af.Trainer.from_torch(network.module, network.loss, network.inputs, RATE, dropout_seed=-1)
    network.module.eval()
    assert trainer.loss() == pytest.approx(network.value().item(), rel=2e-3)
    network.module.train()
    losses = [trainer.step() for _ in range(STEPS)]
    assert "program step" in str(trainer.report())
    np.testing.assert_allclose(losses, losses_in_torch(network, trainer.run.module_state, monkeypatch), rtol=5e-3)


class Layers(nn.Module):
    """Two recurrent layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.GRU(3, 4, 2, dropout=0.5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mean square of the last layer."""
        return cast("torch.Tensor", self.layers(x)[0]).square().mean()


def test_recurrent_layers_have_dropout_between_them() -> None:
    torch.manual_seed(6)  # pyright: ignore[reportUnknownMemberType] - as above
    module, x = Layers(), torch.randn(2, 2, 3)
    traced = trace_step(module, torch.clone, (x,))
    masks = traced.module_state.without_dropout()
    assert [one.shape for one in masks.values()] == [(2, 2, 4)]
    feeds = {**{one.node: one.value for one in traced.params}, traced.inputs[0].node: x.numpy()}
    graph = af.Graph({"loss": traced.result})
    fed = [{**feeds, **{node: share * mask for node, mask in masks.items()}} for share in (1, 0)]
    whole, nothing = (af.reference(graph, [given[node] for node in graph.inputs.values()]) for given in fed)
    second = nn.GRU(4, 4, batch_first=True)
    own = module.layers.state_dict()
    second.load_state_dict({name: own[name.replace("l0", "l1")] for name in second.state_dict()})
    assert whole["loss"].item() == pytest.approx(module.eval()(x).item(), rel=1e-5)
    assert nothing["loss"].item() == pytest.approx(second(torch.zeros(2, 2, 4))[0].square().mean().item(), rel=1e-5)


def test_masks_depend_on_the_seed_and_the_number_alone_and_keep_their_share(
    images: tuple[TorchNetwork, af.Trainer],
) -> None:
    state = images[1].run.module_state.copy()
    drawn = [np.concatenate([one.ravel() for one in state.masks_of(number).values()]) for number in range(400)]
    assert np.unique(drawn).tolist() == [0, np.float32(1 / 0.75)]
    assert np.mean(drawn) == pytest.approx(1, abs=0.02)
    assert np.array_equal(np.concatenate([one.ravel() for one in state.masks_of(7).values()]), drawn[7])
    assert len(np.unique(drawn, axis=0)) > 390
    state.seed += 1
    assert not np.array_equal(np.concatenate([one.ravel() for one in state.masks_of(7).values()]), drawn[7])


def test_buffers_stay_where_a_statistic_is_not_finite() -> None:
    state = ModuleState(
        moved=(MovedBuffer("mean", (("a", 0.5),)), MovedBuffer("all", (("b", -1.0), ("c", -1.0)), "count")),
        counters={"count": 2},
        values={"mean": np.zeros(1, np.float32), "all": np.zeros(1, np.float32), "count": np.array(0)},
    )
    found = {"a": np.ones(1, np.float32), "b": np.full(1, 2, np.float32), "c": np.full(1, 4, np.float32)}
    state.move({**found, "c": np.full(1, np.inf, np.float32)})
    assert [one.item() for one in state.values.values()] == [0, 0, 0]
    state.move(found)
    assert [one.item() for one in state.values.values()] == [0.5, 3, 2]
