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
    """An embedding, a block and a linear layer: the next of a few words."""

    def __init__(self, words: int = 7, width: int = 8) -> None:
        super().__init__()
        self.table, self.block, self.head = nn.Embedding(words, width), Block(width), nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [batch · places, words]."""
        return cast("torch.Tensor", self.head(self.block(self.table(x))).flatten(0, 1))


class TiedWords(Words):
    """The same with one table at both ends, and a buffer."""

    gain: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head.weight = self.table.weight
        self.register_buffer("gain", torch.tensor([0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [batch · places, words]."""
        return super().forward(x) * self.gain


class Images(nn.Module):
    """A classifier of places whose images become smaller and larger; fp16 holds all shares that this takes."""

    def __init__(self) -> None:
        super().__init__()
        self.strided, self.grouped = nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 2, groups=2)
        self.norm, self.last = nn.BatchNorm2d(4, track_running_stats=False), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [batch, classes, 7, 3]."""
        found = functional.max_pool2d(self.grouped(functional.relu(self.strided(x))), 2, stride=1)
        found = functional.softplus(self.norm(functional.interpolate(found, scale_factor=2)))
        found = functional.adaptive_avg_pool2d(functional.avg_pool2d(found, 2), (2, 1))
        found = functional.interpolate(found, size=(4, 2), mode="bilinear")
        found = functional.interpolate(found, size=(7, 3), mode="bilinear", align_corners=True)
        return cast("torch.Tensor", self.last(found))


class Spread(nn.Module):
    """Rows of a table, one of them padding, that transposed convolutions make longer and larger; rounded on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4, padding_idx=1)
        self.lines = nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2)
        self.images = nn.ConvTranspose2d(2, 4, (2, 3), (2, 1), (0, 3), (1, 0), bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return images [batch, 4, 7, 8] of lines [batch, 5]."""
        rows = self.table(x)
        rows = rows + ((4 * rows).round() / 4 - rows).detach()
        with torch.no_grad():
            gains = self.table.weight.abs().sum(0)
        found = self.lines((rows * gains).transpose(1, 2))
        return cast("torch.Tensor", self.images(found.unflatten(1, (2, 3))))


class Restored(nn.Module):
    """Images that become smaller and larger again, with batch norms, one of them used twice, and dropped channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 1, bias=False)
        self.norm, self.mean_norm = nn.BatchNorm2d(4), nn.BatchNorm2d(2, momentum=None)
        self.dropout, self.wide = nn.Dropout2d(0.25), nn.ConvTranspose2d(4, 2, 2, stride=2, bias=False)
        self.last = nn.Conv2d(2, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return images [batch, 1, 6, 6]."""
        found = functional.avg_pool2d(functional.relu(self.norm(self.first(x))), 2)
        found = self.wide(self.dropout(functional.relu(self.norm(self.second(found)))))
        return cast("torch.Tensor", self.last(functional.relu(self.mean_norm(found))))


class Encoded(nn.Module):
    """Stochastic depth, a layer of torch's own transformer with dropout as it comes, and a class for every sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 3)
        self.wide = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [batch, 3] of sequences [batch, places, 8]."""
        if self.training:
            depth = torch.empty(len(x), 1, 1).bernoulli_(0.75).div_(0.75)
            x = x + self.wide(x) * depth
        else:
            x = x + self.wide(x)
        return cast("torch.Tensor", self.head(self.layer(x).mean(1)))


def smoothed_loss(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Return a loss of smoothed classes with weights, in which one class does not count, and one of shares."""
    weight = torch.tensor([1.0, 2.0, 0.5, 1.5])
    places = functional.cross_entropy(y, t, weight, ignore_index=2, label_smoothing=0.25)
    return places + functional.cross_entropy(y[:, :, 0, 0], torch.eye(4))


def images() -> TorchNetwork:
    """Return a network of convolutions, pooling and resizing, with a class for every place."""
    return TorchNetwork(Images(), smoothed_loss, (torch.randn(4, 2, 8, 8), torch.randint(0, 4, (4, 7, 3))))


def words() -> TorchNetwork:
    """Return a language model whose inputs and targets are indices, with one table at both ends."""
    return TorchNetwork(
        TiedWords(), functional.cross_entropy, (torch.randint(0, 7, (2, 5)), torch.randint(0, 7, (10,)))
    )


def spread() -> TorchNetwork:
    """Return a network of transposed convolutions, of which a part has no gradient."""
    x = torch.tensor([[1, 0, 2, 3, 1], [4, 4, 1, 2, 0]])
    return TorchNetwork(Spread(), functional.mse_loss, (x, torch.randn(2, 4, 7, 8)))


def restored() -> TorchNetwork:
    """Return a network of batch norms in training, which is to give back its input."""
    x = torch.randn(6, 1, 6, 6) * 2 + 1
    return TorchNetwork(Restored(), functional.mse_loss, (x, x))


def encoded() -> TorchNetwork:
    """Return a transformer with dropout in training."""
    return TorchNetwork(Encoded(), functional.cross_entropy, (torch.randn(6, 5, 8), torch.randint(0, 3, (6,))))
