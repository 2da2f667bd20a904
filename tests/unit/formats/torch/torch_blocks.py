"""Blocks of networks as users have them, written with PyTorch's layers and small enough for double precision."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

__all__ = ["BLOCKS"]


class CausalBlock(nn.Module):
    """A block of a decoder with one layer for queries, keys and values, and scores of words tied to their rows."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.words = nn.Embedding(50, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of words."""
        batch, length, width = x.shape
        parts = self.joint(self.first_norm(x)).split(width, 2)
        query, key, value = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(functional.gelu(self.up(self.second_norm(x)), approximate="tanh"))
        return x @ self.words.weight.T


class WordBlock(nn.Module):
    """The same block after rows of words and places."""

    def __init__(self) -> None:
        super().__init__()
        self.block = CausalBlock()
        self.places = nn.Embedding(16, 32)

    def forward(self, words: Tensor) -> Tensor:
        """Return scores of words."""
        return self.block(self.block.words(words) + self.places(torch.arange(words.shape[1])))


class SqueezedBlock(nn.Module):
    """An inverted bottleneck whose channels are weighed by their averages."""

    def __init__(self, width: int = 8, wide: int = 32) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU())
        self.deep = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU(),
            nn.Conv2d(wide, wide, 5, 1, 2, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.SiLU(),
        )  # fmt: skip
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, width, 1), nn.SiLU(), nn.Conv2d(width, wide, 1), nn.Sigmoid()
        )
        self.narrow = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        x = self.stem(x)
        deep = self.deep(x)
        return x + self.narrow(deep * self.weigh(deep))


class ChannelsLastBlock(nn.Module):
    """A wide depthwise convolution, and layers on the channels as the last axis, scaled."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem, self.wide = nn.Conv2d(3, width, 4, 4), nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        x = self.stem(x)
        rows = self.norm(self.wide(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(functional.gelu(self.up(rows)))).permute(0, 3, 1, 2)


class DilatedSound(nn.Module):
    """Causal convolutions along time, further and further apart, with normalised weights and a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.gate, self.last = nn.Conv1d(1, 8, 1), nn.Conv1d(8, 16, 1), nn.Conv1d(8, 4, 1)
        self.layers = nn.ModuleList(weight_norm(nn.Conv1d(8, 8, 3, dilation=2**step)) for step in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithm of what each class is worth at each moment."""
        x = self.first(x)
        for step, layer in enumerate(self.layers):
            x = x + torch.relu(layer(functional.pad(x, (2 ** (step + 1), 0))))
        return functional.log_softmax(self.last(functional.glu(self.gate(x), 1)), 1)


class BothWays(nn.Module):
    """Two recurrent layers that read forwards and backwards, of either kind."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)
        self.gated = nn.GRU(10, 3, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows and both last states."""
        rows, (hidden, memory) = self.layers(x)
        return self.gated(rows)[0], hidden, memory


class DilatedPicture(nn.Module):
    """Convolutions of several reaches side by side and the average of all, resized to the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.reaches = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=reach, dilation=reach) for reach in (1, 2, 4))
        self.average = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1))
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of classes at every place."""
        inner = self.stem(x)
        found = [layer(inner) for layer in self.reaches]
        found.append(functional.interpolate(self.average(inner), size=inner.shape[2:], mode="bilinear"))
        return functional.interpolate(self.head(torch.cat(found, 1)), size=x.shape[2:], mode="bilinear")


class Attending(nn.Module):
    """PyTorch's own attention, with and without the weights that it averages."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and averaged weights."""
        plain = self.attention(x, x, x, need_weights=False)[0]
        return cast("tuple[Tensor, Tensor]", self.attention(plain, x, x))


class Decoding(nn.Module):
    """An encoder layer, and a decoder layer that reads what it gives and no later row."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return rows."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return self.decoder(x, self.encoder(memory), tgt_mask=mask, tgt_is_causal=True)


BLOCKS: dict[str, tuple[type[nn.Module], tuple[tuple[int, ...], ...]]] = {
    "causal": (CausalBlock, ((1, 8, 32),)),
    "words": (WordBlock, ((1, 8),)),
    "squeezed": (SqueezedBlock, ((1, 3, 16, 16),)),
    "channels last": (ChannelsLastBlock, ((1, 3, 16, 16),)),
    "sound": (DilatedSound, ((1, 1, 32),)),
    "both ways": (BothWays, ((1, 4, 6),)),
    "picture": (DilatedPicture, ((1, 3, 33, 33),)),
    "attending": (Attending, ((2, 6, 16),)),
    "decoding": (Decoding, ((1, 5, 16), (1, 3, 16))),
}
"""Blocks by name, with the shapes of their inputs."""
