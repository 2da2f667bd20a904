"""A small U-Net for segmentation, with seeded weights."""

from __future__ import annotations

import aneforge as af
from weights import Weights


def double_conv(x: af.Tensor, weights: Weights, out: int) -> af.Tensor:
    """Two convolutions with group norms."""
    for _ in range(2):
        x = af.conv(x, weights.conv(out, x.shape[1], 3), pad=1)
        x = x.group_norm(*weights.affine(out), num_groups=8).silu()
    return x


def unet(seed: int = 0, size: int = 128, classes: int = 4, channels: tuple[int, ...] = (32, 64, 128)) -> af.Graph:
    """Return the network: an image [1, 3, size, size] in, a map of classes [1, classes, size, size] out."""
    weights = Weights(seed)
    y = af.input((1, 3, size, size), name="image")
    passed: list[af.Tensor] = []
    for count in channels[:-1]:
        y = double_conv(y, weights, count)
        passed.append(y)
        y = y.max_pool(2)
    y = double_conv(y, weights, channels[-1])
    for count, skip in zip(reversed(channels[:-1]), reversed(passed), strict=True):
        up = af.conv_transpose(y, weights.conv(y.shape[1], count, 2), stride=2)
        y = double_conv(af.concat([up, skip], axis=1), weights, count)
    return af.Graph({"map": af.conv(y, weights.conv(classes, channels[0], 1), bias=weights.bias(classes))})


if __name__ == "__main__":
    print(unet().summary())
