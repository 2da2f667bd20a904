"""A torch module trained on a chip: `Trainer.from_torch` takes the joint graph that torch itself traces.

`python examples/training/torch_module.py` trains a small transformer to continue this repository's licence on the
software engine of a chip, trains the same module in torch in float32 with the same batches, and prints both losses.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

import aneforge as af

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]
BATCH, PLACES, WIDTH, HEADS = 8, 16, 32, 2


class Transformer(nn.Module):
    """A table of characters and places, one block of causal attention and a feed-forward layer, a head."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(characters, WIDTH), nn.Parameter(torch.randn(PLACES, WIDTH) * 0.1)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, characters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return scores [batch, characters, places] of the next characters."""
        x = self.table(text) + self.places
        parts = self.attention(self.first(x)).reshape(BATCH, PLACES, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(BATCH, PLACES, WIDTH))
        x = x + self.narrow(functional.gelu(self.wide(self.second(x))))
        return cast("torch.Tensor", self.head(x).transpose(1, 2))


def windows(path: Path) -> tuple[Array, Array, int]:
    """Return windows of a text, what follows each character, and how many characters there are."""
    text = path.read_text(encoding="utf-8")
    characters = sorted(set(text))
    codes = np.array([characters.index(one) for one in text])
    rows = np.lib.stride_tricks.sliding_window_view(codes, PLACES + 1)
    return rows[:, :-1].copy(), rows[:, 1:].copy(), len(characters)


def batches(rows: int, steps: int) -> Iterator[Array]:
    """Yield the rows of mini-batches in the trainer's order: one permutation after the other."""
    random = np.random.default_rng(0)
    order = np.empty(0, np.int64)
    for _ in range(steps):
        order = random.permutation(rows) if len(order) < BATCH else order
        taken, order = order[:BATCH], order[BATCH:]
        yield taken


def main() -> None:
    """Train twice and print both losses."""
    parser = argparse.ArgumentParser(description="Train a torch module on a chip and in float32.")
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__).resolve().parents[2] / "LICENSE")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--target", default="m4")
    asked = parser.parse_args()
    text, following, characters = windows(asked.file)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType] - torch has no type for it
    module = Transformer(characters)
    example = torch.as_tensor(text[:BATCH]), torch.as_tensor(following[:BATCH])
    options: dict[str, Any] = {"optimizer": "adam", "loss_scale": 1024.0, "target": asked.target}
    trainer = af.Trainer.from_torch(module, functional.cross_entropy, example, lr=0.01, **options)
    trainer.set_dataset(trainer.inputs[0], text, trainer.inputs[1], following, seed=0)
    on_chip = [trainer.step() for _ in range(asked.steps)]

    reference = Transformer(characters)
    reference.load_state_dict(module.state_dict())
    optimizer = torch.optim.Adam(reference.parameters(), 0.01)
    in_torch: list[float] = []
    for rows in batches(len(text), asked.steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(reference(torch.as_tensor(text[rows])), torch.as_tensor(following[rows]))
        loss.backward()  # pyright: ignore[reportUnknownMemberType] - as above
        optimizer.step()  # pyright: ignore[reportUnknownMemberType] - as above
        in_torch.append(loss.item())
    print(f"{len(trainer.parameters)} parameters, {len(trainer.programs.step.graph.nodes)} operations in a step")
    for step in (1, asked.steps):
        print(f"step {step}: loss {on_chip[step - 1]:.2f} on {asked.target}, {in_torch[step - 1]:.2f} in torch float32")
    module.load_state_dict({name: torch.as_tensor(one) for name, one in trainer.state_dict().items()})
    with torch.no_grad():
        value = functional.cross_entropy(module(example[0]), example[1]).item()
    print(f"the trained module, evaluated in torch on the first windows: {value:.2f}")


if __name__ == "__main__":
    main()
