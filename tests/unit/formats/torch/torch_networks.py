"""Networks written with PyTorch's layers, small enough to be evaluated in double precision by the reference meaning."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = [
    "LlamaBlock",
    "LstmCell",
    "MobileNetV2",
    "ResNet18",
    "SeparableNet",
    "UNet",
    "VisionTransformer",
]


class BasicBlock(nn.Module):
    """Two convolutions and a way round them."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            self.around = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.around(x))


class ResNet18(nn.Module):
    """Eighteen layers with ways round; all widths are scaled by one factor."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks: list[nn.Module] = []
        before = width
        for stage in range(4):
            after = width << stage
            blocks += [BasicBlock(before, after, 1 if stage == 0 else 2), BasicBlock(after, after, 1)]
            before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        return self.head(torch.flatten(functional.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1), 1))


class InvertedResidual(nn.Module):
    """A wide depthwise convolution between two narrow layers."""

    def __init__(self, width_in: int, width: int, stride: int, factor: int) -> None:
        super().__init__()
        hidden = width_in * factor
        self.around = stride == 1 and width_in == width
        self.layers = nn.Sequential(
            nn.Conv2d(width_in, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        return x + self.layers(x) if self.around else self.layers(x)


class MobileNetV2(nn.Module):
    """Inverted residuals with the published repeats and strides, narrow."""

    PLAN = ((1, 4, 1, 1), (6, 4, 2, 2), (6, 8, 3, 2), (6, 8, 2, 2), (6, 12, 2, 1))
    """Factor, width, repeats, stride."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU6()]
        before = 4
        for factor, width, repeats, stride in self.PLAN:
            for place in range(repeats):
                layers.append(InvertedResidual(before, width, stride if place == 0 else 1, factor))
                before = width
        layers += [nn.Conv2d(before, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        return self.head(self.features(x).mean((2, 3)))


class VisionTransformer(nn.Module):
    """Patches, positions, two encoder layers and a class token."""

    def __init__(self, width: int = 16, heads: int = 2, classes: int = 5) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(width, heads, 32, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.token.expand(x.shape[0], -1, -1), rows], 1) + self.places
        return self.head(self.norm(self.encoder(rows))[:, 0])


def double_conv(width_in: int, width: int) -> nn.Sequential:
    """Return two convolutions with normalisation."""
    return nn.Sequential(
        nn.Conv2d(width_in, width, 3, padding=1), nn.GroupNorm(2, width), nn.SiLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.InstanceNorm2d(width, affine=True), nn.LeakyReLU(0.1),
    )  # fmt: skip


class UNet(nn.Module):
    """Two steps down, two up, by interpolation and by a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.deep = double_conv(1, 4), double_conv(4, 8), double_conv(8, 8)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.back, self.last = double_conv(16, 4), double_conv(8, 4)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each class and place."""
        one = self.first(x)
        two = self.second(functional.max_pool2d(one, 2))
        deep = self.deep(functional.avg_pool2d(two, 2))
        up = self.back(torch.cat([self.up(deep), two], 1))
        wide = functional.interpolate(up, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(self.last(torch.cat([wide, one], 1)))


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Return pairs of numbers turned by the angle of their place."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class LlamaBlock(nn.Module):
    """One block of a decoder: RMS norm, rotary places, grouped queries, gated layers, and a cache that it writes."""

    def __init__(self, width: int = 16, heads: int = 4, shared: int = 2, length: int = 8) -> None:
        super().__init__()
        self.heads, self.shared, self.each = heads, shared, width // heads
        self.first_norm, self.second_norm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, shared * self.each, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        angles = torch.arange(length)[:, None] / 100 ** (torch.arange(0, self.each, 2) / self.each)
        self.register_buffer("cosine", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sine", torch.cat([angles, angles], -1).sin())
        self.register_buffer("keys", torch.zeros(1, shared, length, self.each))
        self.register_buffer("values", torch.zeros(1, shared, length, self.each))

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        """Return the block's result for one token at a place."""
        keys, values, cosine, sine = (
            cast("Tensor", getattr(self, name)) for name in ("keys", "values", "cosine", "sine")
        )
        rows = self.first_norm(x)
        query = self.query(rows).view(1, 1, self.heads, self.each).transpose(1, 2)
        key = self.key(rows).view(1, 1, self.shared, self.each).transpose(1, 2)
        value = self.value(rows).view(1, 1, self.shared, self.each).transpose(1, 2)
        query, key = (rotated(one, cosine[place], sine[place]) for one in (query, key))
        keys.index_copy_(2, place, key)
        values.index_copy_(2, place, value)
        seen = torch.arange(keys.shape[2]) <= place
        mixed = functional.scaled_dot_product_attention(query, keys, values, seen[None, None, None], enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, -1))
        rows = self.second_norm(x)
        return x + self.down(functional.silu(self.gate(rows)) * self.up(rows))


class LstmCell(nn.Module):
    """One step of a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(5, 7)

    def forward(self, x: Tensor, hidden: Tensor, memory: Tensor) -> dict[str, Tensor]:
        """Return both states after the step."""
        after, kept = self.cell(x, (hidden, memory))
        return {"hidden": after, "memory": kept}


class SeparableNet(nn.Module):
    """Depthwise and pointwise convolutions in one and two dimensions, with hard activations."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 3, (3, 5), padding=(1, 2), groups=3), nn.Conv2d(3, 8, 1), nn.Hardswish(),
            nn.Conv2d(8, 16, 3, 2, 1, dilation=2, groups=8), nn.Conv2d(16, 8, 1), nn.Hardsigmoid(),
        )  # fmt: skip
        self.along = nn.Sequential(nn.Conv1d(8, 8, 3, padding=1, groups=8), nn.Conv1d(8, 4, 1), nn.ELU())

    def forward(self, x: Tensor) -> Tensor:
        """Return features of rows."""
        return self.along(self.layers(x).amax(3))
