"""Small torch modules that are trained in tests, with their losses and example inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.nn import functional

Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class TorchNetwork:
    """A module, its loss, and example inputs with the target at the end."""

    module: nn.Module
    loss: Loss
    inputs: tuple[torch.Tensor, ...]

    def value(self, *given: torch.Tensor) -> torch.Tensor:
        """Return the loss in torch."""
        *inputs, target = given or self.inputs
        return self.loss(self.module(*inputs), target)


class Block(nn.Module):
    """A transformer block: causal attention and a feed-forward layer, each after a norm."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return sequences [batch, places, width]."""
        batch, places, width = x.shape
        parts = self.attention(self.first(x)).reshape(batch, places, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, places, width))
        return cast("torch.Tensor", x + self.narrow(functional.gelu(self.wide(self.second(x)))))


class Words(nn.Module):
    """An embedding, a block and a linear layer with the same table: the next of a few words."""

    gain: torch.Tensor

    def __init__(self, words: int = 7, width: int = 8) -> None:
        super().__init__()
        self.table, self.block, self.head = nn.Embedding(words, width), Block(width), nn.Linear(width, words)
        self.head.weight = self.table.weight
        self.register_buffer("gain", torch.tensor([0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [batch · places, words]."""
        return cast("torch.Tensor", self.head(self.block(self.table(x)) * self.gain).flatten(0, 1))


class Resizes(nn.Module):
    """A classifier of places whose images become smaller and larger; fp16 holds all shares."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(3, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [batch, classes, 15, 7]."""
        found = functional.adaptive_avg_pool2d(functional.softplus(self.norm(self.first(x))), (2, 1))
        found = functional.interpolate(found, scale_factor=2)
        found = functional.interpolate(found, size=(8, 4), mode="bilinear")
        found = functional.interpolate(found, size=(15, 7), mode="bilinear", align_corners=True)
        return cast("torch.Tensor", self.second(found))


def smoothed_loss(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Return a loss of smoothed classes with weights, in which one class does not count."""
    weight = torch.tensor([1.0, 2.0, 0.5, 1.5])
    return functional.cross_entropy(y, t, weight, ignore_index=2, label_smoothing=0.25)


def perceptron() -> TorchNetwork:
    """Return a classifier whose targets are indices."""
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    return TorchNetwork(module, functional.cross_entropy, (torch.randn(8, 6), torch.randint(0, 4, (8,))))


def convolutions() -> TorchNetwork:
    """Return a classifier of images with strides, groups, both kinds of pooling, and one-hot targets."""
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 2, groups=2),
        nn.MaxPool2d(2, stride=1),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
    return TorchNetwork(module, functional.cross_entropy, (torch.randn(3, 2, 8, 8), torch.eye(3)))


def block() -> TorchNetwork:
    """Return a transformer block that is to give what another one gives."""
    return TorchNetwork(Block(), functional.mse_loss, (torch.randn(4, 6, 8), torch.randn(4, 6, 8)))


def words() -> TorchNetwork:
    """Return a language model whose inputs and targets are indices."""
    return TorchNetwork(Words(), functional.cross_entropy, (torch.randint(0, 7, (2, 5)), torch.randint(0, 7, (10,))))


def resizes() -> TorchNetwork:
    """Return a network that resizes images, with a class for every place."""
    return TorchNetwork(Resizes(), smoothed_loss, (torch.randn(4, 2, 4, 4), torch.randint(0, 4, (4, 15, 7))))
