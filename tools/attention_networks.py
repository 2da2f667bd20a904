"""Networks with attention, or with blocks after its fashion, whose latency was published; weights are zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import aneforge as af
from convolutional_networks import convolved, depthwise, image, pooled_linear, squeeze_and_excite, zeros

__all__ = [
    "decoding_step",
    "depth_anything_small",
    "distilbert",
    "efficientformer",
    "encoder_decoder",
    "fastvit",
    "llama_perceptrons",
    "mobilevit_v2",
    "whisper_encoder",
]


def normalised(x: af.Tensor) -> af.Tensor:
    """Normalise every pixel, or every row, over its channels."""
    size = x.shape[1] if x.type.rank == 4 else x.shape[-1]
    gain, offset = np.ones(size, np.float16), zeros(size)
    if x.type.rank < 4:
        return x.layer_norm(gain, offset)
    _, channels, height, width = x.shape
    line = x.reshape(1, channels, 1, height * width).channel_layer_norm(gain, offset)
    return line.reshape(1, channels, height, width)


def linear(x: af.Tensor, out: int) -> af.Tensor:
    """Multiply rows by a matrix."""
    return x.linear(zeros(out, x.shape[-1]))


def attended(x: af.Tensor, heads: int, width: int, deep: int | None = None, over: af.Tensor | None = None) -> af.Tensor:
    """Return attention of a sequence [S, D] over itself or another, with keys of one width and values of another."""
    other, value = x if over is None else over, deep or width
    q, k, v = (
        linear(one, heads * size).reshape(1, one.shape[0], heads, size).transpose(0, 2, 1, 3)
        for one, size in ((x, width), (other, width), (other, value))
    )
    scores = (q @ k.transpose(0, 1, 3, 2) * width**-0.5).softmax(-1)
    return linear((scores @ v).transpose(0, 2, 1, 3).reshape(x.shape[0], heads * value), x.shape[1])


def transformer_layer(x: af.Tensor, heads: int, hidden: int) -> af.Tensor:
    """Return attention and a perceptron, each on a normalised input and around an addition."""
    x = x + attended(normalised(x), heads, x.shape[1] // heads)
    return x + linear(linear(normalised(x), hidden).gelu(), x.shape[1])


def distilbert(length: int = 128) -> af.Tensor:
    """Return DistilBERT after its embeddings: six layers of width 768, and its classifier of two classes."""
    y = af.input((length, 768), name="tokens")
    for _ in range(6):
        y = normalised(y + attended(y, 12, 64))
        y = normalised(y + linear(linear(y, 3072).gelu(), 768))
    return linear(linear(y.slice_by_size((0, 0), (1, 768)), 768).relu(), 2)


def llama_perceptrons(length: int = 64) -> af.Tensor:
    """Return four gated perceptrons of the width of a Llama 2 of seven billion weights, one after another."""
    y = af.input((length, 4096), name="x")
    for _ in range(4):
        y = linear(linear(y, 11008).silu() * linear(y, 11008), 4096)
    return y


FASTVIT = {
    "t8": ((48, 96, 192, 384), (2, 2, 4, 2), 3, False),
    "t12": ((64, 128, 256, 512), (2, 2, 6, 2), 3, False),
    "s12": ((64, 128, 256, 512), (2, 2, 6, 2), 4, False),
    "sa12": ((64, 128, 256, 512), (2, 2, 6, 2), 4, True),
    "sa24": ((64, 128, 256, 512), (4, 4, 12, 4), 4, True),
    "sa36": ((64, 128, 256, 512), (6, 6, 18, 6), 4, True),
    "ma36": ((76, 152, 304, 608), (6, 6, 18, 6), 4, True),
}
"""Channels and blocks of the four stages, how much wider the inner layers are, and whether the last stage attends."""


def pixels_attended(x: af.Tensor, heads: int) -> af.Tensor:
    """Return self-attention of the pixels of an image."""
    _, channels, height, width = x.shape
    tokens = x.reshape(channels, height * width).transpose(1, 0)
    return attended(tokens, heads, channels // heads).transpose(1, 0).reshape(1, channels, height, width)


def fastvit(variant: str, size: int = 256) -> af.Tensor:
    """Return FastViT as it runs, its branches joined."""
    channels, blocks, ratio, attends = FASTVIT[variant]
    y = convolved(image(size), channels[0], 3, 2).gelu()
    y = convolved(depthwise(y, 3, 2).gelu(), channels[0]).gelu()
    for stage, (width, count) in enumerate(zip(channels, blocks, strict=True)):
        if stage:
            y = convolved(convolved(y, width, 7, 2, groups=y.shape[1]).gelu(), width).gelu()
        attending = attends and stage == 3
        y = depthwise(y, 7) if attending else y
        for _ in range(count):
            y = y + pixels_attended(y, width // 32) if attending else depthwise(y)
            y = y + convolved(convolved(depthwise(y, 7), ratio * width).gelu(), width)
    last = channels[3]
    y = squeeze_and_excite(convolved(y, 2 * last, 3, groups=last), last // 8).gelu()
    return pooled_linear(y)


EFFICIENTFORMER = {
    "l1": ((48, 96, 224, 448), (3, 2, 6, 4), 1),
    "l3": ((64, 128, 320, 512), (4, 4, 12, 6), 4),
    "l7": ((96, 192, 384, 768), (6, 6, 18, 8), 8),
}
"""Channels and blocks of the four stages, and how many blocks at the end attend."""


def efficientformer(variant: str, size: int = 224) -> af.Tensor:
    """Return EfficientFormer: pooling instead of attention, but in its last blocks."""
    channels, blocks, attending = EFFICIENTFORMER[variant]
    y = convolved(convolved(image(size), channels[0] // 2, 3, 2).relu(), channels[0], 3, 2).relu()
    for stage, (width, count) in enumerate(zip(channels, blocks, strict=True)):
        y = convolved(y, width, 3, 2) if stage else y
        for _ in range(count - (attending if stage == 3 else 0)):
            y = y + (y.avg_pool(3, stride=1, pad=1) - y)
            y = y + convolved(convolved(y, 4 * width).gelu(), width)
    width, side = channels[3], y.shape[2]
    tokens = y.reshape(width, side * side).transpose(1, 0)
    for _ in range(attending):
        tokens = tokens + attended(normalised(tokens), 8, 32, deep=128)
        tokens = tokens + linear(linear(normalised(tokens), 4 * width).gelu(), width)
    return linear(normalised(tokens).mean(0).reshape(1, width), 1000)


def mobilevit_v2(size: int = 256) -> af.Tensor:
    """Return MobileViTv2 of width 1: inverted residuals and, at three sizes, attention of linear cost."""
    y = inverted(convolved(image(size), 32, 3, 2).silu(), 64, 1)
    y = inverted(inverted(y, 128, 2), 128, 1)
    for channels, width, blocks in ((256, 128, 2), (384, 192, 4), (512, 256, 3)):
        y = mobilevit_block(inverted(y, channels, 2), width, blocks)
    return pooled_linear(y)


def inverted(x: af.Tensor, out: int, stride: int) -> af.Tensor:
    """Return an inverted residual of twice the channels."""
    y = depthwise(convolved(x, 2 * x.shape[1]).silu(), 3, stride).silu()
    y = convolved(y, out)
    return x + y if stride == 1 and x.shape[1] == out else y


def mobilevit_block(x: af.Tensor, width: int, blocks: int) -> af.Tensor:
    """Return attention among the pixels that share a place in their patches of 2×2."""
    _, channels, height, long = x.shape
    y = convolved(depthwise(x).silu(), width)
    patches = (1, width, height // 2, 2, long // 2, 2)
    y = y.reshape(patches[1:]).transpose(0, 2, 4, 1, 3).reshape(1, width, 4, height * long // 4)
    for _ in range(blocks):
        inner = normalised(y)
        query, key, value = convolved(inner, 1), convolved(inner, width), convolved(inner, width)
        context = (key * query.softmax(-1)).sum(-1).reshape(1, width, 4, 1)
        y = y + convolved(value.relu() * context, width)
        y = y + convolved(convolved(normalised(y), 2 * width).silu(), width)
    y = normalised(y).reshape(width, 2, 2, height // 2, long // 2).transpose(0, 3, 1, 4, 2)
    return convolved(y.reshape(1, width, height, long), channels)


WHISPER = {"tiny": (384, 4), "base": (512, 6), "small": (768, 12), "medium": (1024, 24)}
"""Width and layers; a head is 64 wide."""


def whisper_encoder(variant: str) -> af.Tensor:
    """Return the encoder of Whisper for thirty seconds of sound: two convolutions, then layers over 1500 places."""
    width, layers = WHISPER[variant]
    sound = af.input((1, 80, 1, 3000), name="mel")
    y = af.conv(sound, zeros(width, 80, 1, 3), pad=(0, 0, 1, 1)).gelu()
    y = af.conv(y, zeros(width, width, 1, 3), stride=2, pad=(0, 0, 1, 1)).gelu()
    tokens = y.reshape(width, 1500).transpose(1, 0)
    for _ in range(layers):
        tokens = transformer_layer(tokens, width // 64, 4 * width)
    return normalised(tokens)


def encoder_decoder(length: int = 10) -> af.Tensor:
    """Return eight layers of an encoder and eight of a decoder of width 512, with six heads of 64."""
    source = af.input((length, 512), name="x")
    encoded = source
    for _ in range(8):
        middle = normalised(encoded + attended(encoded, 6, 64))
        encoded = normalised(encoded + linear(linear(middle, 1024).relu(), 512))
    y = source
    for _ in range(8):
        middle = normalised(y + attended(normalised(y), 6, 64))
        middle = normalised(middle + attended(middle, 6, 64, over=encoded))
        y = middle + linear(linear(middle, 1024).relu(), 512)
    return linear(y, 512)


def depth_anything_small(rows: int = 28, columns: int = 37) -> af.Tensor:
    """Return Depth Anything, the small one: a vision transformer, and a head that joins four sizes.

    Patches of 14×14 come as channels: no stride of the engine has the factor seven, so something else cuts them.
    """
    patches = convolved(af.input((1, 3 * 14 * 14, rows, columns), name="patches"), 384)
    tokens = patches.reshape(384, rows * columns).transpose(1, 0)
    seen: list[af.Tensor] = []
    for number in range(12):
        tokens = transformer_layer(tokens, 6, 1536)
        if number % 3 == 2:
            seen.append(normalised(tokens).transpose(1, 0).reshape(1, 384, rows, columns))
    sizes = [
        af.conv_transpose(convolved(seen[0], 48), zeros(48, 48, 4, 4), stride=4),
        af.conv_transpose(convolved(seen[1], 96), zeros(96, 96, 2, 2), stride=2),
        convolved(seen[2], 192),
        convolved(convolved(seen[3], 384), 384, 3, 2),
    ]
    features = [convolved(one, 64, 3) for one in sizes]
    y = features[3]
    for feature in (features[2], features[1], features[0]):
        _, _, high, wide = feature.shape
        y = convolved(af.resize_bilinear(residual_unit(y), high, wide), 64) + residual_unit(feature)
    y = convolved(af.resize_bilinear(residual_unit(y), 2 * y.shape[2], 2 * y.shape[3]), 64)
    y = af.resize_bilinear(convolved(y, 32, 3), 14 * rows, 14 * columns)
    return convolved(convolved(y, 32, 3).relu(), 1).relu()


def residual_unit(x: af.Tensor) -> af.Tensor:
    """Return two 3×3 convolutions around an addition, each after a relu."""
    return x + convolved(convolved(x.relu(), x.shape[1], 3).relu(), x.shape[1], 3)


@dataclass(frozen=True, slots=True)
class Decoder:
    """The sizes of a language model."""

    width: int
    layers: int
    heads: int
    kept_heads: int
    """Heads of keys and values."""
    head: int
    """Width of one."""
    hidden: int
    vocabulary: int
    gated: bool
    """Gated perceptrons, norms without a mean, and norms of queries and keys."""


DECODERS = {
    "gpt2-medium": Decoder(1024, 24, 16, 16, 64, 4096, 50257, gated=False),
    "qwen3-0.6b": Decoder(1024, 28, 16, 8, 128, 3072, 151936, gated=True),
}
PLACES = 128
"""The length of the kept keys and values; the publication does not say it."""
TILE = 16384
"""Words of the vocabulary that one product gives."""


def decoding_step(variant: str) -> af.Graph:
    """Return one token's way through a language model with its last product; keys and values are states."""
    sizes = DECODERS[variant]
    x = af.input((1, sizes.width), name="x")
    chosen, kept = af.input((1, PLACES, 1), name="chosen"), af.input((1, PLACES, 1), name="kept")
    mask = af.input((1, 1, PLACES), name="mask")
    states: dict[str, af.Tensor] = {}
    for number in range(sizes.layers):
        rows = decoder_norm(x, gated=sizes.gated)
        q = decoder_heads(rows, sizes.heads, sizes)
        written = [
            af.state(f"{name}{number}", (sizes.kept_heads, PLACES, sizes.head)) * kept
            + decoder_heads(rows, sizes.kept_heads, sizes) * chosen
            for name in "kv"
        ]
        states |= {f"{name}{number}": one for name, one in zip("kv", written, strict=True)}
        keys, values = (repeated(one, sizes.heads // sizes.kept_heads) for one in written)
        seen = (q @ keys.transpose(0, 2, 1) * sizes.head**-0.5 + mask).softmax(-1) @ values
        x = x + linear(seen.reshape(1, sizes.heads * sizes.head), sizes.width)
        rows = decoder_norm(x, gated=sizes.gated)
        inner = linear(rows, sizes.hidden)
        inner = inner.silu() * linear(rows, sizes.hidden) if sizes.gated else inner.gelu()
        x = x + linear(inner, sizes.width)
    last = decoder_norm(x, gated=sizes.gated)
    tiles = range(0, sizes.vocabulary, TILE)
    words = {f"words{begin}": linear(last, min(TILE, sizes.vocabulary - begin)) for begin in tiles}
    return af.Graph(words, states)


def decoder_norm(x: af.Tensor, *, gated: bool) -> af.Tensor:
    """Normalise a row as the model does."""
    return x.rms_norm(np.ones(x.shape[-1], np.float16)) if gated else normalised(x)


def decoder_heads(rows: af.Tensor, heads: int, sizes: Decoder) -> af.Tensor:
    """Return a row as heads of one place, normalised where the model does that."""
    made = linear(rows, heads * sizes.head).reshape(heads, sizes.head)
    return (decoder_norm(made, gated=True) if sizes.gated else made).reshape(heads, 1, sizes.head)


def repeated(x: af.Tensor, times: int) -> af.Tensor:
    """Return heads of keys or values once for every head of queries that shares them."""
    heads, places, width = x.shape
    if times == 1:
        return x
    return x.reshape(heads, 1, places, width).tile((1, times, 1, 1)).reshape(heads * times, places, width)
