"""MobileNetV2 for 224×224 images, with seeded weights: inverted residuals of depthwise convolutions."""

from __future__ import annotations

import aneforge as af
from weights import Weights

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, repetitions and first stride."""


def normalised_conv(x: af.Tensor, weights: Weights, out: int, kernel: int, stride: int, groups: int = 1) -> af.Tensor:
    """Convolve, then normalise with given statistics."""
    kernels = weights.conv(out, x.shape[1] // groups, kernel)
    convolved = af.conv(x, kernels, stride=stride, pad=kernel // 2, groups=groups)
    return af.batch_norm(convolved, *weights.batch_norm(out))


def inverted_residual(x: af.Tensor, weights: Weights, expansion: int, out: int, stride: int) -> af.Tensor:
    """Widen, convolve each channel by itself, narrow; add the input where the shapes agree."""
    wide = x.shape[1] * expansion
    y = normalised_conv(x, weights, wide, 1, 1).relu6() if expansion > 1 else x
    y = normalised_conv(y, weights, wide, 3, stride, groups=wide).relu6()
    y = normalised_conv(y, weights, out, 1, 1)
    return x + y if stride == 1 and x.shape[1] == out else y


def mobilenet_v2(seed: int = 0, size: int = 224, classes: int = 1000) -> af.Graph:
    """Return the network: an image [1, 3, size, size] in, [1, classes] out."""
    weights = Weights(seed)
    x = af.input((1, 3, size, size), name="image")
    y = normalised_conv(x, weights, 32, 3, 2).relu6()
    for expansion, channels, repetitions, stride in STAGES:
        for number in range(repetitions):
            y = inverted_residual(y, weights, expansion, channels, stride if number == 0 else 1)
    y = normalised_conv(y, weights, 1280, 1, 1).relu6()
    pooled = y.mean((2, 3)).reshape(1, 1280)
    return af.Graph({"logits": pooled.linear(weights.linear(classes, 1280), weights.bias(classes))})


if __name__ == "__main__":
    print(mobilenet_v2().summary())
