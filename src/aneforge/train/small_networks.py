"""A convolutional network with group norms for small colour images, in parts that train for any batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphTypeError
from aneforge.graph.builder.arguments import expect_image
from aneforge.graph.builder.inputs import input as build_input
from aneforge.graph.methods.method_arguments import describe_argument, misuse, number, whole
from aneforge.graph.tensor import Tensor
from aneforge.train.parameter import Parameter, conv_param, parameter
from aneforge.train.patches import conv2d

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.types import Array

__all__ = ["cifar_cnn", "conv_block", "group_norm_train"]

EXTENT, COLOURS = 32, 3


def group_norm_train(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float = 1e-5) -> Tensor:
    """Return the group norm of images [N, C, H, W] of any batch, with trainable gain and offset [1, C, 1, 1].

    >>> import numpy as np
    >>> import aneforge as af
    >>> gamma, beta = af.parameter(np.ones((1, 8, 1, 1))), af.parameter(np.zeros((1, 8, 1, 1)))
    >>> af.group_norm_train(af.input((4, 8, 5, 5)), gamma, beta, groups=2).shape
    (4, 8, 5, 5)

    Raises:
        GraphError: The channels are not a multiple of the groups, or gain or offset has another shape.
        GraphTypeError: An argument is not a tensor.
    """
    op = "group_norm_train"
    image = expect_image(x, op)
    batch, channels, height, width = image.shape
    count = whole(groups, op, "groups", least=1)
    if channels % count:
        raise misuse(op, "the channels must be a multiple of the groups", seen=channels, limit=f"{count} groups")
    for given, what in ((gamma, "gamma"), (beta, "beta")):
        expect_per_channel(given, what, channels)
    rows = image.reshape(batch, count, channels // count * height * width)
    centred = rows - rows.mean(-1)
    unit = centred * centred.square().mean(-1).rsqrt(number(eps, op, "eps"))
    return unit.reshape(batch, channels, height, width) * gamma + beta


def expect_per_channel(given: object, what: str, channels: int) -> None:
    """Check a gain or an offset.

    Raises:
        GraphError: It does not have one number for each channel.
        GraphTypeError: It is not a tensor.
    """
    op = "group_norm_train"
    if not isinstance(given, Tensor):
        raise misuse(
            op,
            f"{what} must be a tensor, so that it trains",
            seen=describe_argument(given),
            remedy="use af.parameter, or x.group_norm for constants",
            error=GraphTypeError,
        )
    if given.shape != (1, channels, 1, 1):
        raise misuse(
            op, f"{what} must have one number per channel", seen=list(given.shape), limit=f"[1, {channels}, 1, 1]"
        )


def conv_block(x: Tensor, w: Parameter, gamma: Tensor, beta: Tensor, groups: int, pool: int = 0) -> Tensor:
    """Return a trained convolution with a border of 1, group norm and relu; with `pool` 2 a maximum pooling after it.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w, gamma = af.conv_param(np.ones((8, 3, 3, 3))), af.parameter(np.ones((1, 8, 1, 1)))
    >>> af.conv_block(af.input((2, 3, 8, 8)), w, gamma, gamma, groups=4, pool=2).shape
    (2, 8, 4, 4)

    Raises:
        GraphError: Shapes do not fit, or `pool` is negative.
        GraphTypeError: An argument is not a tensor, or the kernel does not come from `conv_param`.
    """
    found = group_norm_train(conv2d(x, w, pad=1), gamma, beta, groups).relu()
    extent = whole(pool, "conv_block", "pool", least=0)
    return found.max_pool(extent) if extent else found


def cifar_cnn(
    batch: int, widths: Sequence[int] = (32, 64, 128), groups: int = 8, classes: int = 10, seed: int = 0
) -> tuple[Tensor, Tensor, list[Parameter]]:
    """Return input, logits and parameters of a network for images [batch, 3, 32, 32].

    Three blocks, of which two pool; the mean over height and width; a linear layer. First values are normal, variance
    2/fan-in, from one generator in the order of the parameters (the order is inferred). Parameters are kernel, gain and
    offset of each block, then weight and bias.

    >>> import aneforge as af
    >>> x, logits, params = af.cifar_cnn(4, widths=(8, 8, 16))
    >>> x.shape, logits.shape, len(params)
    ((4, 3, 32, 32), (4, 10), 11)

    Raises:
        GraphError: There are not three widths, or a width is not a multiple of the groups.
    """
    op = "cifar_cnn"
    if len(widths) != 3:
        raise misuse(op, "there must be three widths, one for each block", seen=list(widths))
    random = np.random.default_rng(seed)
    x = build_input((whole(batch, op, "batch", least=1), COLOURS, EXTENT, EXTENT))
    params: list[Parameter] = []
    found, channels = x, COLOURS
    for width, pool in zip(widths, (2, 2, 0), strict=True):
        kernel = conv_param(he_values(random, (width, channels, 3, 3), channels * 9))
        gamma, beta = parameter(np.ones((1, width, 1, 1))), parameter(np.zeros((1, width, 1, 1)))
        found, channels = conv_block(found, kernel, gamma, beta, groups, pool), width
        params += [kernel, gamma, beta]
    weight = parameter(he_values(random, (channels, classes), channels))
    bias = parameter(np.zeros((1, classes)))
    logits = found.mean((2, 3)).reshape(batch, channels) @ weight + bias
    return x, logits, [*params, weight, bias]


def he_values(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Array:
    """Return normal numbers of variance 2/fan_in."""
    return random.standard_normal(shape) * math.sqrt(2 / fan_in)
