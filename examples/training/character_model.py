"""A character model of equal layers, trained with the programs of one: `aneforge.streaming.CheckpointedStack`.

`python examples/training/character_model.py` trains a causal transformer of four layers to continue a window of this
repository's licence, and prints what was compiled, the loss and the share of next characters that it gets right. Any
other text file may be named. Gradients come from the software engine of the chip; the update is Adam in float32.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import aneforge as af
from aneforge import streaming

Array = npt.NDArray[Any]
PLACES, WIDTH, HEADS, INNER = 48, 64, 4, 256
MASK = np.triu(np.full((1, PLACES, PLACES), -1e4), 1)
"""Added to scores before the softmax, so that no place sees a later one; −10000 is finite in fp16."""


def unit(x: af.Tensor) -> af.Tensor:
    """Return rows of variance 1 and mean 0."""
    centred = x - x.mean(-1)
    return centred * centred.square().mean(-1).rsqrt(1e-5)


def layer(params: list[af.Tensor], x: af.Tensor) -> af.Tensor:
    """Return attention and a feed-forward layer, each added to what it reads."""
    query, key, value, out, wide, narrow = params
    rows = unit(x)
    heads = [(rows @ one).reshape(PLACES, HEADS, WIDTH // HEADS).transpose(1, 0, 2) for one in (query, key, value)]
    scores = (heads[0] @ heads[1].transpose(0, 2, 1)) * (WIDTH // HEADS) ** -0.5 + MASK
    found = (scores.softmax() @ heads[2]).transpose(1, 0, 2).reshape(PLACES, WIDTH)
    x = x + found @ out
    return x + (unit(x) @ wide).gelu() @ narrow


class CharacterModel:
    """Table, places, layers and head, each with the programs that train it."""

    def __init__(self, characters: int, layers: int, loss_scale: float, target: str) -> None:
        random = np.random.default_rng(0)

        def drawn(rows: int, columns: int, gain: float = 1.0) -> af.Parameter:
            return af.parameter(random.standard_normal((rows, columns)) * gain / np.sqrt(rows))

        narrow = (2 * layers) ** -0.5
        shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, INNER), (INNER, WIDTH)]
        gains = (1.0, 1.0, 1.0, narrow, 1.0, narrow)
        self.table, self.places = drawn(characters, WIDTH, characters**0.5 * 0.5), drawn(PLACES, WIDTH)
        self.layers = [[drawn(*one, gain) for one, gain in zip(shapes, gains, strict=True)] for _ in range(layers)]
        self.head = drawn(WIDTH, characters)
        start = time.perf_counter()
        text, g = af.input((PLACES, characters)), af.input((PLACES, WIDTH))
        x, t = af.input((PLACES, WIDTH)), af.input((PLACES, characters))
        embedded = text @ self.table + self.places
        back = af.backward_from(g, embedded, [self.table, self.places])
        self.embed = af.compile(embedded, target=target)
        self.embed_back = af.compile_multi(
            {"table": back[self.table], "places": back[self.places] * 1.0}, target=target
        )
        logits = unit(x) @ self.head
        seed = (logits.softmax() - t) * (loss_scale / PLACES)
        found = af.backward_from(seed, logits, [self.head, x])
        self.score = af.compile_multi({"logits": logits, "head": found[self.head], "x": found[x]}, target=target)
        self.stack = streaming.CheckpointedStack(layer, self.layers[0], (PLACES, WIDTH), target=target)
        self.programs = 3 + len(self.stack.programs)
        self.seconds = time.perf_counter() - start
        params = [self.table, self.places, *(one for each in self.layers for one in each), self.head]
        self.optimizer = af.Adam(params, 0.003, loss_scale=loss_scale)

    def step(self, text: Array, wanted: Array) -> tuple[float, float]:
        """Train on a window; return loss and share of right characters before the update."""
        x0 = self.embed(self.table.value, self.places.value, text)
        y, inputs = self.stack.forward(self.layers, x0)
        scored = self.score(self.head.value, y, wanted)
        gradients, g = self.stack.backward(self.layers, inputs, scored["x"])
        embedded = self.embed_back(text, g)
        flat = [one for each in gradients for one in each]
        self.optimizer.step([embedded["table"], embedded["places"], *flat, scored["head"]])
        logits = scored["logits"] - scored["logits"].max(axis=1, keepdims=True)
        logarithms = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        right = float((logits.argmax(axis=1) == wanted.argmax(axis=1)).mean())
        return float(-(wanted * logarithms).sum(axis=1).mean()), right


def main() -> None:
    """Train and print what came of it."""
    parser = argparse.ArgumentParser(description="Train a character model of equal layers.")
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__).resolve().parents[2] / "LICENSE")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--loss-scale", type=float, default=256)
    parser.add_argument("--target", default="m4")
    asked = parser.parse_args()
    text = asked.file.read_text(encoding="utf-8")[: PLACES + 1]
    characters = sorted(set(text))
    codes = np.eye(len(characters), dtype=np.float32)[[characters.index(one) for one in text]]
    model = CharacterModel(len(characters), asked.layers, asked.loss_scale, asked.target)
    print(f"{asked.layers} layers on {asked.target}: {model.programs} programs compiled")
    for step in range(1, asked.steps + 1):
        loss, right = model.step(codes[:-1], codes[1:])
        if step in (1, asked.steps):
            print(f"step {step}: cross-entropy {loss:.2f}, next characters right {right:.0%}")


if __name__ == "__main__":
    main()
