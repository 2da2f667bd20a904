"""Convolutional networks whose latency was published, built from their shapes alone.

A latency depends on shapes and not on numbers, so weights are zeros. Batch norms are left out, as every converter folds
them, and so are branches that training has and inference has not. `tests/unit/analysis/test_measured_networks.py` holds
multiplies and weights of each network against the counts that were published with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Activation = Callable[[af.Tensor], af.Tensor]

__all__ = [
    "convolution_stack",
    "convolved",
    "densenet121",
    "fully_connected",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mobileone",
    "pooled_linear",
    "repvit",
    "resnet50",
    "squeeze_and_excite",
    "zeros",
]

CLASSES = 1000


def zeros(*shape: int) -> Dense:
    """Return weights of a shape, as a constant: an array would be copied, and many networks have gigabytes of them."""
    return Dense.owning(np.zeros(shape, np.float16))


def image(size: int) -> af.Tensor:
    """Return the input of an image classifier."""
    return af.input((1, 3, size, size), name="image")


def convolved(x: af.Tensor, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> af.Tensor:
    """Convolve, padded so that a stride of one keeps the size."""
    weights = zeros(out, x.shape[1] // groups, kernel, kernel)
    return af.conv(x, weights, stride=stride, pad=kernel // 2, groups=groups)


def depthwise(x: af.Tensor, kernel: int = 3, stride: int = 1) -> af.Tensor:
    """Convolve each channel by itself."""
    return convolved(x, x.shape[1], kernel, stride, groups=x.shape[1])


def pooled_linear(x: af.Tensor, out: int = CLASSES) -> af.Tensor:
    """Average an image over its pixels, then multiply by a matrix."""
    return x.mean((2, 3)).reshape(1, x.shape[1]).linear(zeros(out, x.shape[1]))


def squeeze_and_excite(x: af.Tensor, hidden: int, gate: Activation = af.Tensor.sigmoid) -> af.Tensor:
    """Scale channels with what two small layers make of their means."""
    mean = x.mean((2, 3)).reshape(1, x.shape[1], 1, 1)
    return x * gate(convolved(convolved(mean, hidden).relu(), x.shape[1]))


def divisible(number: float, by: int = 8) -> int:
    """Return the nearest multiple, never more than a tenth below the number."""
    nearest = max(by, int(number + by / 2) // by * by)
    return nearest if nearest >= 0.9 * number else nearest + by


def resnet50(size: int = 224) -> af.Tensor:
    """Return ResNet-50 in the form whose stride is in the 3×3 convolution."""
    y = convolved(image(size), 64, 7, 2).relu().max_pool(3, stride=2, pad=1)
    for channels, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            stride = first if number == 0 else 1
            around = y if number else convolved(y, 4 * channels, 1, stride)
            narrow = convolved(convolved(y, channels).relu(), channels, 3, stride).relu()
            y = (convolved(narrow, 4 * channels) + around).relu()
    return pooled_linear(y)


def mobilenet_v2(width: float = 1.0, size: int = 224) -> af.Tensor:
    """Return MobileNetV2, all channels multiplied by a width."""
    y = convolved(image(size), divisible(32 * width), 3, 2).relu6()
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, channels, blocks, first in stages:
        for number in range(blocks):
            out, wide = divisible(channels * width), y.shape[1] * expansion
            inner = convolved(y, wide).relu6() if expansion > 1 else y
            inner = convolved(depthwise(inner, 3, 1 if number else first).relu6(), out)
            y = y + inner if number else inner
    return pooled_linear(convolved(y, divisible(1280 * max(1.0, width))).relu6())


def hard_swish(x: af.Tensor) -> af.Tensor:
    """Multiply by a sigmoid of straight lines."""
    return x * x.sigmoid_hard(1 / 6, 0.5)


def hard_sigmoid(x: af.Tensor) -> af.Tensor:
    """Return a sigmoid of straight lines."""
    return x.sigmoid_hard(1 / 6, 0.5)


SMALL_V3 = (
    (3, 16, 16, True, af.Tensor.relu, 2),
    (3, 72, 24, False, af.Tensor.relu, 2),
    (3, 88, 24, False, af.Tensor.relu, 1),
    (5, 96, 40, True, hard_swish, 2),
    (5, 240, 40, True, hard_swish, 1),
    (5, 240, 40, True, hard_swish, 1),
    (5, 120, 48, True, hard_swish, 1),
    (5, 144, 48, True, hard_swish, 1),
    (5, 288, 96, True, hard_swish, 2),
    (5, 576, 96, True, hard_swish, 1),
    (5, 576, 96, True, hard_swish, 1),
)
"""Kernel, wide channels, channels, whether it squeezes, activation, stride."""


def mobilenet_v3_small(size: int = 224) -> af.Tensor:
    """Return MobileNetV3, the small one."""
    y = hard_swish(convolved(image(size), 16, 3, 2))
    for kernel, wide, out, squeezed, activation, stride in SMALL_V3:
        inner = y if wide == y.shape[1] else activation(convolved(y, wide))
        inner = activation(depthwise(inner, kernel, stride))
        inner = squeeze_and_excite(inner, divisible(wide / 4), hard_sigmoid) if squeezed else inner
        inner = convolved(inner, out)
        y = y + inner if stride == 1 and y.shape[1] == out else inner
    pooled = hard_swish(convolved(y, 576)).mean((2, 3)).reshape(1, 576)
    hidden = hard_swish(pooled.linear(zeros(1024, 576)))
    return hidden.linear(zeros(CLASSES, 1024))


MOBILEONE = {
    "s0": (0.75, 1.0, 1.0, 2.0),
    "s1": (1.5, 1.5, 2.0, 2.5),
    "s2": (1.5, 2.0, 2.5, 4.0),
    "s3": (2.0, 2.5, 3.0, 4.0),
    "s4": (3.0, 3.5, 3.5, 4.0),
}
"""Widths of the four stages over 64, 128, 256 and 512 channels; the largest squeezes in its last blocks."""


def mobileone(variant: str, size: int = 224) -> af.Tensor:
    """Return MobileOne as it runs, its branches joined: a depthwise and a 1×1 convolution by turns."""
    widths = MOBILEONE[variant]
    y = convolved(image(size), min(64, int(64 * widths[0])), 3, 2).relu()
    for width, channels, blocks, plain in zip(widths, (64, 128, 256, 512), (2, 8, 10, 1), (2, 8, 5, 0), strict=True):
        for number in range(blocks):
            squeezed = variant == "s4" and number >= plain
            y = depthwise(y, 3, 1 if number else 2)
            y = (squeeze_and_excite(y, y.shape[1] // 16) if squeezed else y).relu()
            y = convolved(y, int(channels * width))
            y = (squeeze_and_excite(y, y.shape[1] // 16) if squeezed else y).relu()
    return pooled_linear(y)


REPVIT = {
    "m0.9": ((48, 96, 192, 384), (2, 2, 14, 2)),
    "m1.0": ((56, 112, 224, 448), (2, 2, 14, 2)),
    "m1.1": ((64, 128, 256, 512), (2, 2, 12, 2)),
    "m1.5": ((64, 128, 256, 512), (4, 4, 24, 4)),
    "m2.3": ((80, 160, 320, 640), (6, 6, 34, 2)),
}
"""Channels and blocks of the four stages."""


def repvit_mixing(x: af.Tensor) -> af.Tensor:
    """Widen and narrow the channels around an addition."""
    return x + convolved(convolved(x, 2 * x.shape[1]).gelu(), x.shape[1])


def repvit(variant: str, size: int = 224) -> af.Tensor:
    """Return RepViT as it runs: depthwise convolutions, every other one squeezed, and mixed channels."""
    channels, blocks = REPVIT[variant]
    y = convolved(convolved(image(size), channels[0] // 2, 3, 2).gelu(), channels[0], 3, 2)
    for stage, (width, count) in enumerate(zip(channels, blocks, strict=True)):
        if stage:
            y = repvit_mixing(depthwise(y))
            y = repvit_mixing(convolved(depthwise(y, 3, 2), width))
        for number in range(count):
            y = depthwise(y)
            y = squeeze_and_excite(y, divisible(width / 4)) if number % 2 == 0 else y
            y = repvit_mixing(y)
    return pooled_linear(y)


def densenet121(size: int = 224) -> af.Tensor:
    """Return DenseNet-121: every layer reads what all before it in its block made."""
    y = convolved(image(size), 64, 7, 2).relu().max_pool(3, stride=2, pad=1)
    for stage, count in enumerate((6, 12, 24, 16)):
        if stage:
            y = convolved(normalised_relu(y), y.shape[1] // 2).avg_pool(2)
        for _ in range(count):
            narrow = convolved(normalised_relu(y), 128).relu()
            y = af.concat([y, convolved(narrow, 32, 3)])
    return pooled_linear(normalised_relu(y))


def normalised_relu(x: af.Tensor) -> af.Tensor:
    """Scale and shift channels, then cut at zero: a norm in front of a convolution cannot be folded into it."""
    one, zero = np.ones(x.shape[1], np.float16), zeros(x.shape[1])
    return af.batch_norm(x, one, zero, zero, one).relu()


def convolution_stack(channels: int, layers: int, height: int, width: int) -> af.Tensor:
    """Return 3×3 convolutions one after another, the first of an image of three channels."""
    y = af.input((1, 3, height, width), name="image")
    for _ in range(layers):
        y = convolved(y, channels, 3).relu()
    return y


def fully_connected(rows: int, inputs: int, widths: Sequence[int]) -> af.Tensor:
    """Return products by matrices one after another."""
    y = af.input((rows, inputs), name="x")
    for width in widths:
        y = y.linear(zeros(width, y.shape[1])).relu()
    return y
