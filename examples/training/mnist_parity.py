"""The training parity experiment: one seeded convolutional network on 1,000 MNIST images, on several chips.

`python examples/training/mnist_parity.py FILE` trains on each chip and prints its accuracy, and the first step and
tensor at which chips differ. FILE is an npz file with Xtr, ytr, Xte and yte (1,000 images of 784 bytes each and their
labels), or a folder with the four IDX files of MNIST, from which the experiment's own rows are drawn. Sums of pixels
and labels are checked, so that another choice of images is an error.

The published runs updated on the engine in fp16, five steps in one program whose states stay in its buffers, which is
what `--update unrolled` does. `engine` and `resident` make the same updates one step at a time, with states that the
host passes on and with resident ones; `host` is Adam in float32 on the host, and `fp16` an update on the engine whose
moments fp16 can hold.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import aneforge as af

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]
BATCH, CLASSES, UNROLLED = 100, 10, 5
UPDATES = {
    "host": {"optimizer": "adam"},
    "engine": {"optimizer": "adam", "device_optimizer": True},
    "fp16": {"optimizer": "adam_fp16", "device_optimizer": True},
    "resident": {"optimizer": "adam", "resident_state": True},
}
"""Options of the trainer for each kind of update."""
PUBLISHED = {"m1": 0.9080, "m2-pro": 0.9080, "m5": 0.9070}
"""Accuracy after 300 steps, measured on the chips, with updates on the engine."""


@dataclass(frozen=True)
class Images:
    """Images as bytes [N, 784], and labels."""

    pixels: Array
    labels: Array

    def check(self, name: str, pixels: int, labels: int, first: list[int]) -> None:
        """Stop unless these are the images of the experiment."""
        seen = int(self.pixels.sum(dtype=np.int64)), int(self.labels.sum(dtype=np.int64))
        if seen != (pixels, labels) or self.labels[: len(first)].tolist() != first:
            sys.exit(
                f"{name}: expected sums of pixels and labels {(pixels, labels)}, got {seen}: these are other images"
            )

    @property
    def scaled(self) -> Array:
        """Return the pixels from 0 to 1, as images."""
        return (self.pixels.reshape(-1, 1, 28, 28) / 255).astype(np.float32)

    @property
    def one_hot(self) -> Array:
        """Return the labels as rows with a single 1."""
        return np.eye(CLASSES, dtype=np.float32)[self.labels]


def read_idx(folder: Path, name: str) -> Array:
    """Return the array of an IDX file, compressed or not."""
    plain = folder / name
    data = plain.read_bytes() if plain.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    shape = np.frombuffer(data, ">u4", data[3], 4).astype(int)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def read_images(path: Path) -> tuple[Images, Images]:
    """Return the images for training and for the test."""
    if path.is_dir():
        kinds = ("train", "t10k")
        pixels = np.concatenate([read_idx(path, f"{kind}-images-idx3-ubyte") for kind in kinds]).reshape(-1, 784)
        labels = np.concatenate([read_idx(path, f"{kind}-labels-idx1-ubyte") for kind in kinds])
        rows = np.random.default_rng(0).permutation(len(pixels))
        train, test = (Images(pixels[part], labels[part]) for part in (rows[:1000], rows[1000:2000]))
    else:
        with np.load(path) as held:
            train, test = Images(held["Xtr"], held["ytr"]), Images(held["Xte"], held["yte"])
    train.check("training images", 26_322_489, 4_557, [2, 4, 0, 2, 7, 5, 4, 1, 8, 4])
    test.check("test images", 25_760_823, 4_509, [7, 6, 9, 9, 7, 4, 1, 7, 5, 5])
    return train, test


def first_values() -> list[af.Parameter]:
    """Return the parameters as published: kernel, weight and bias."""
    random = np.random.default_rng(0)
    return [
        af.conv_param(random.standard_normal((8, 1, 3, 3)) * np.sqrt(2 / 9), name="kernel"),
        af.parameter(random.standard_normal((1352, CLASSES)) * np.sqrt(2 / 1352), name="weight"),
        af.parameter(np.zeros((1, CLASSES)), name="bias"),
    ]


def forward(params: Sequence[af.Tensor], x: af.Tensor) -> af.Tensor:
    """Return the logits of a batch."""
    kernel, weight, bias = params
    return af.conv2d(x, kernel).relu().avg_pool(2).reshape(BATCH, 1352) @ weight + bias


def build_inputs() -> tuple[af.Tensor, af.Tensor]:
    """Return the inputs of a step: images and targets."""
    return af.input((BATCH, 1, 28, 28), max_abs=1), af.input((BATCH, CLASSES))


def build_trainer(images: Images, target: str, loss_scale: float | str, update: str = "host") -> af.Trainer:
    """Return the experiment's trainer: network, first values and order of batches as published."""
    (x, t), params = build_inputs(), first_values()
    objective = af.softmax_cross_entropy(forward(params, x), t)
    options: dict[str, Any] = UPDATES[update]
    trainer = af.Trainer(objective, params, lr=0.01, loss_scale=loss_scale, target=target, **options)
    trainer.set_dataset(x, images.scaled, t, images.one_hot, seed=0)
    return trainer


def build_unrolled(images: Images, target: str, loss_scale: float | str) -> af.UnrolledTrainer:
    """Return the same with five steps in one program."""
    xs, ts = zip(*(build_inputs() for _ in range(UNROLLED)), strict=True)
    data = images.scaled, images.one_hot
    return af.UnrolledTrainer(
        first_values(), forward, "ce", xs, ts, data, lr=0.01, loss_scale=loss_scale, target=target
    )


def compare_unrolled(one: af.UnrolledTrainer, other: af.UnrolledTrainer, steps: int) -> str:
    """Run both, and say after which steps a parameter or a moment differs first."""
    head = f"{steps} steps on {one.target} and {other.target}"
    while one.steps < steps:
        losses = one.step(), other.step()
        for name, mine, theirs in zip(one.state_names(), one.states.read(), other.states.read(), strict=True):
            unequal = mine != theirs
            if unequal.any():
                share = f"{unequal.sum()} of {mine.size} elements"
                return f"{head}: first difference after {one.steps} steps, {name}: {share}; losses {losses}"
    return f"{head}: equal bits in every parameter and moment"


def accuracy_of(trainer: af.Trainer | af.UnrolledTrainer, test: Images) -> float:
    """Return the share of test images whose class is found."""
    if isinstance(trainer, af.Trainer):
        return trainer.accuracy(test.scaled, test.labels)
    return float((trainer.predict(test.scaled).argmax(1) == test.labels).mean())


def scale_of(text: str) -> float | str:
    """Return a loss scale from the command line."""
    return text if text == "auto" else float(text)


def main() -> None:
    """Train on every chip and print what came of it."""
    parser = argparse.ArgumentParser(description="Train the parity network on several chips.")
    parser.add_argument("file", type=Path, help="npz file, or folder of IDX files")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=50, help="steps between accuracies")
    parser.add_argument("--compare", type=int, default=20, help="steps that are compared tensor by tensor")
    parser.add_argument("--loss-scale", type=scale_of, default=1024.0, help='a number, or "auto"')
    parser.add_argument("--update", choices=[*UPDATES, "unrolled"], default="engine")
    parser.add_argument("--target", nargs="+", default=["m1", "m5"])
    asked = parser.parse_args()
    train, test = read_images(asked.file)
    with warnings.catch_warnings():
        warnings.simplefilter("once")
        if asked.update == "unrolled":
            for other in asked.target[1:]:
                pair = (build_unrolled(train, target, asked.loss_scale) for target in (asked.target[0], other))
                print(compare_unrolled(*pair, steps=asked.compare))
        else:
            first = build_trainer(train, asked.target[0], asked.loss_scale, asked.update)
            print(first.report())
            for other in asked.target[1:]:
                print(first.compare(other, steps=asked.compare))
        for target in asked.target:
            is_unrolled = asked.update == "unrolled"
            trainer = (
                build_unrolled(train, target, asked.loss_scale)
                if is_unrolled
                else build_trainer(train, target, asked.loss_scale, asked.update)
            )
            each = UNROLLED if is_unrolled else 1
            losses: list[float] = []
            for step in range(each, asked.steps + 1, each):
                losses.append(trainer.step())
                if step % asked.every == 0 and step < asked.steps:
                    print(f"{target}: {step} steps, accuracy {accuracy_of(trainer, test):.4f}")
            published = f", published after 300 steps {PUBLISHED[target]:.4f}" if target in PUBLISHED else ""
            ends = f"loss {losses[0]:.4f} to {losses[-1]:.4f}, accuracy {accuracy_of(trainer, test):.4f}"
            print(f"{target}: {ends}{published}")


if __name__ == "__main__":
    main()
