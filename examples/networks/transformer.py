"""A transformer encoder of twelve layers, and a vision transformer built on it, with seeded weights."""

from __future__ import annotations

from collections.abc import Callable

import aneforge as af
from weights import Array, Weights

Norm = Callable[[af.Tensor, Weights], af.Tensor]


def layer_norm(x: af.Tensor, weights: Weights) -> af.Tensor:
    """Return rows less their means, by their deviations."""
    return x.layer_norm(*weights.affine(x.shape[1]))


def rms_norm(x: af.Tensor, weights: Weights) -> af.Tensor:
    """Return rows by their root mean squares, as language models have them."""
    gain, _ = weights.affine(x.shape[1])
    return x.rms_norm(gain)


def attention_weights(weights: Weights, width: int) -> list[Array]:
    """Draw the four projections of attention with their biases, in the order in which `mha` takes them."""
    return [drawn for _ in range(4) for drawn in (weights.linear(width, width), weights.bias(width))]


def layer(x: af.Tensor, weights: Weights, heads: int, hidden: int, norm: Norm = layer_norm) -> af.Tensor:
    """Return one layer: attention and a perceptron, each on a normalised input and around an addition."""
    width = x.shape[1]
    x = x + af.mha(norm(x, weights), *attention_weights(weights, width), n_heads=heads)
    y = norm(x, weights).linear(weights.linear(hidden, width), weights.bias(hidden)).gelu()
    return x + y.linear(weights.linear(width, hidden), weights.bias(width))


def encoder(
    seed: int = 0, length: int = 128, width: int = 384, layers: int = 12, heads: int = 12, norm: Norm = layer_norm
) -> af.Graph:
    """Return the encoder: embedded tokens [length, width] in, the same shape out."""
    weights = Weights(seed)
    y = af.input((length, width), name="tokens")
    for _ in range(layers):
        y = layer(y, weights, heads, 4 * width, norm)
    return af.Graph({"features": norm(y, weights)})


def vision_transformer(seed: int = 0, size: int = 224, patch: int = 16, width: int = 192, layers: int = 12) -> af.Graph:
    """Return a vision transformer: an image [1, 3, size, size] in, [1, 1000] out.

    A patch is wider than the widest kernel, so patches become channels first and the projection is a 1×1 convolution.
    """
    weights = Weights(seed)
    image = af.input((1, 3, size, size), name="image")
    patches = af.conv(af.space_to_depth(image, patch), weights.conv(width, 3 * patch * patch, 1))
    count = (size // patch) ** 2
    tokens = patches.reshape(width, count).transpose(1, 0) + weights.linear(count, width)
    for _ in range(layers):
        tokens = layer(tokens, weights, heads=3, hidden=4 * width)
    pooled = layer_norm(tokens, weights).mean(0)
    return af.Graph({"logits": pooled.linear(weights.linear(1000, width), weights.bias(1000))})


if __name__ == "__main__":
    print(encoder().summary())
    print(vision_transformer().summary())
