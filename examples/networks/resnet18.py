"""ResNet-18 for 224×224 images, with seeded weights."""

from __future__ import annotations

import aneforge as af
from weights import Weights

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and first stride of the four stages of two blocks each."""


def normalised_conv(x: af.Tensor, weights: Weights, out: int, kernel: int, stride: int) -> af.Tensor:
    """Convolve, then normalise with given statistics."""
    convolved = af.conv(x, weights.conv(out, x.shape[1], kernel), stride=stride, pad=kernel // 2)
    return af.batch_norm(convolved, *weights.batch_norm(out))


def block(x: af.Tensor, weights: Weights, out: int, stride: int) -> af.Tensor:
    """Two convolutions and a way around them."""
    y = normalised_conv(x, weights, out, 3, stride).relu()
    y = normalised_conv(y, weights, out, 3, 1)
    around = x if stride == 1 and x.shape[1] == out else normalised_conv(x, weights, out, 1, stride)
    return (y + around).relu()


def resnet18(seed: int = 0, size: int = 224, classes: int = 1000, batch: int = 1) -> af.Graph:
    """Return the network: images [batch, 3, size, size] in, [batch, classes] out."""
    weights = Weights(seed)
    x = af.input((batch, 3, size, size), name="image")
    y = normalised_conv(x, weights, 64, 7, 2).relu().max_pool(3, stride=2, pad=1)
    for channels, stride in STAGES:
        y = block(y, weights, channels, stride)
        y = block(y, weights, channels, 1)
    pooled = y.mean((2, 3)).reshape(batch, y.shape[1])
    return af.Graph({"logits": pooled.linear(weights.linear(classes, 512), weights.bias(classes))})


if __name__ == "__main__":
    print(resnet18().summary())
