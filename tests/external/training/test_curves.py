"""Training curves of three networks on the engine, with a loss scale of its own choice, against torch in float32.

The whole runs with `make test-external`, which also writes the table; `make test` holds the table against the band.
Both runs have the same first values, batches and optimiser (Adam). The final loss is that of all rows, evaluated in
torch in float32 with the parameters that each run ended with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.datasets import load_digits  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType] - it has none
from tabulate import tabulate
from torch import nn
from torch.nn import functional

import aneforge as af
from aneforge.train.batches import Batches
from torch_networks import Words

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
RESULTS = Path(__file__).parent / "results.md"
STEPS, BATCH, ROWS = 100, 50, 1000
TARGETS = ("m1", "m4")
COLUMNS = ("network", "target", "loss scale", "first loss", "torch float32", "engine", "difference", "allowed")


@dataclass(frozen=True)
class Task:
    """A network, and all rows that it is trained on."""

    name: str
    module: nn.Module
    x: Array
    t: Array
    batch: int

    def loss(self, module: nn.Module, rows: Array) -> torch.Tensor:
        """Return the loss of some rows in torch."""
        found = module(torch.as_tensor(self.x[rows]))
        return functional.cross_entropy(found, torch.as_tensor(self.t[rows]).flatten())

    def final(self, module: nn.Module) -> float:
        """Return the loss of all rows in torch."""
        with torch.no_grad():
            return self.loss(module, np.arange(len(self.x))).item()


def digits(shape: tuple[int, ...]) -> tuple[Array, Array]:
    pixels, labels = cast("tuple[Array, Array]", load_digits(return_X_y=True))
    return (pixels[:ROWS] / 16).astype(np.float32).reshape(-1, *shape), labels[:ROWS].astype(np.int64)


def perceptron() -> Task:
    return Task("MLP", nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), *digits((64,)), BATCH)


def convolutions() -> Task:
    module = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(72, 10))
    return Task("CNN", module, *digits((1, 8, 8)), BATCH)


def transformer() -> Task:
    text = (Path(__file__).parents[3] / "LICENSE").read_text(encoding="utf-8")
    characters = sorted(set(text))
    codes = np.array([characters.index(one) for one in text])
    rows = np.lib.stride_tricks.sliding_window_view(codes, 13)
    return Task("transformer", Words(len(characters), 16), rows[:, :-1].copy(), rows[:, 1:].copy(), 16)


def train_in_torch(task: Task) -> float:
    optimizer = torch.optim.Adam(task.module.parameters(), 0.01)
    batches = Batches(len(task.x), task.batch, np.random.default_rng(0))
    for _ in range(STEPS):
        optimizer.zero_grad()
        task.loss(task.module, batches.take()).backward()  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
        optimizer.step()  # pyright: ignore[reportUnknownMemberType] - as above
    return task.final(task.module)


def train_on_engine(task: Task, target: str) -> tuple[float, float]:
    """Return the final loss, and the loss scale that was chosen."""
    example = torch.as_tensor(task.x[: task.batch]), torch.as_tensor(task.t[: task.batch])

    def loss(output: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, wanted.flatten())

    options: dict[str, Any] = {"optimizer": "adam", "loss_scale": "auto", "target": target}
    trainer = af.Trainer.from_torch(task.module, loss, example, lr=0.01, **options)
    trainer.set_dataset(trainer.inputs[0], task.x, trainer.inputs[1], task.t, seed=0)
    for _ in range(STEPS):
        trainer.step()
    task.module.load_state_dict({name: torch.as_tensor(one) for name, one in trainer.state_dict().items()})
    return task.final(task.module), trainer.loss_scale


def measured(build: Callable[[], Task]) -> list[tuple[str, ...]]:
    """Return the rows of one network."""
    rows: list[tuple[str, ...]] = []
    for target in TARGETS:
        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
        task = build()
        first = task.final(task.module)
        kept = {name: one.clone() for name, one in task.module.state_dict().items()}
        ours, scale = train_on_engine(task, target)
        task.module.load_state_dict(kept)
        theirs = train_in_torch(task)
        allowed = max(0.02 * theirs, 0.01)
        numbers = (first, theirs, ours, abs(ours - theirs), allowed)
        rows.append((task.name, target, f"{scale:g}", *(f"{one:.4f}" for one in numbers)))
    return rows


@pytest.mark.filterwarnings("ignore::aneforge.errors.PrecisionWarning")
def test_curves_are_written(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("six runs of 100 steps: make test-external runs them; the table that they wrote is held below")
    rows = [row for build in (perceptron, convolutions, transformer) for row in measured(build)]
    RESULTS.write_text(tabulate(rows, COLUMNS, tablefmt="github", disable_numparse=True) + "\n", encoding="utf-8")
    assert all(float(row[-2]) <= float(row[-1]) for row in rows), rows


def test_the_recorded_losses_are_within_the_band_and_fell() -> None:
    lines = RESULTS.read_text(encoding="utf-8").splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert {(row[0], row[1]) for row in rows} == {
        (name, target) for name in ("MLP", "CNN", "transformer") for target in TARGETS
    }
    for row in rows:
        first, theirs, ours, difference, allowed = map(float, row[3:])
        assert difference <= allowed, row
        assert max(theirs, ours) < 0.8 * first, row
