"""What torch operators are taken apart into before a training step is traced: forms whose gradients the engine has.

Kernels are inputs of the program, and the engine convolves only with constants: convolutions and pooling are taken
apart into products with patches. Nor does it take integers: indices of classes or of rows of a table are fed as fp16
numbers, which hold them exactly up to 2,048, and compared with the numbers of all classes.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, cast

import torch

from aneforge.errors import NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Table = dict[object, Callable[..., object]]

__all__ = ["MOST_CLASSES", "decompositions"]

MOST_CLASSES = 2048
"""Integers up to here are exact in fp16."""
LOWEST = float(torch.finfo(torch.float16).min)
MASKED = -1e4
"""What is added to scores that are masked: as good as minus infinity in fp16, and finite."""


def decompositions(own: Table, counted: list[int]) -> Table:
    """Return what operators are taken apart into, by operator; numbers of classes are added to a list.

    `own` is what torch takes them apart into.
    """
    aten = torch.ops.aten
    recurrent = aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input
    return {
        **{operator: partial(recurrent_layers, own[operator]) for operator in recurrent},
        aten.convolution.default: convolution,
        aten.adaptive_avg_pool2d.default: adaptive_average_pool,
        aten.avg_pool2d.default: average_pool,
        aten.max_pool2d_with_indices.default: maximum_pool,
        aten._native_batch_norm_legit_functional.default: batch_norm,  # noqa: SLF001 - the operator's name
        aten.native_dropout.default: dropout,
        aten.embedding.default: partial(embedding, counted),
        aten.scaled_dot_product_attention.default: attention,
        aten.one_hot.default: partial(listed_one_hot, counted),
        aten.cross_entropy_loss.default: partial(cross_entropy, counted),
        aten.nll_loss_forward.default: partial(negative_log_likelihood, counted),
        aten.nll_loss2d_forward.default: partial(negative_log_likelihood, counted),
        aten.upsample_nearest2d.vec: nearest,
        aten.upsample_bilinear2d.vec: bilinear,
    }


def shift(x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[torch.Tensor]:
    """Return what each element of a kernel meets at every place: [N, C, rows, columns] each."""
    spans = [step * (extent - 1) + 1 for step, extent in zip(dilation, kernel, strict=True)]
    rows, columns = ((extent - span) // step + 1 for extent, span, step in zip(x.shape[2:], spans, stride, strict=True))
    parts: list[torch.Tensor] = []
    for u in range(kernel[0]):
        for v in range(kernel[1]):
            top, left = u * dilation[0], v * dilation[1]
            tall = x[:, :, top : top + (rows - 1) * stride[0] + 1 : stride[0]]
            parts.append(tall[:, :, :, left : left + (columns - 1) * stride[1] + 1 : stride[1]])
    return parts


def add_border(x: torch.Tensor, padding: Sequence[int], value: float = 0.0) -> torch.Tensor:
    """Return images with a border."""
    height, width = padding
    return torch.nn.functional.pad(x, (width, width, height, height), value=value) if height or width else x


def convolution(  # noqa: PLR0913, PLR0917 - the operator's signature
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,  # noqa: FBT001 - as above
    output_padding: list[int],
    groups: int,
) -> torch.Tensor:
    """Return a convolution, transposed or not, as a product with patches."""
    if x.dim() not in (3, 4):
        raise NotSupportedError(
            "a trained convolution must be one of lines or images",
            seen=f"{x.dim() - 2} axes",
            remedy="make its weight requires_grad_(False), or take it apart into convolutions of images",
        )
    if x.dim() == 3:  # along the height: cuts of the width go through copies on some families
        found = convolution(
            x.unsqueeze(3),
            weight.unsqueeze(3),
            bias,
            [*stride, 1],
            [*padding, 0],
            [*dilation, 1],
            transposed,
            [*output_padding, 0],
            groups,
        )
        return found.squeeze(3)
    kernel = weight.shape[2:]
    if transposed:
        weight = with_channels_exchanged(weight, groups)
        parts = shift(spread(x, kernel, stride, padding, dilation, output_padding), kernel, (1, 1), dilation)[::-1]
    else:
        parts = shift(add_border(x, padding), kernel, stride, dilation)
    found = product_with_patches(parts, weight, groups)
    return found if bias is None else found + bias.reshape(1, -1, 1, 1)


def product_with_patches(parts: Sequence[torch.Tensor], weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Return the product of kernels [count, channels, rows, columns] and what each of their elements meets.

    The index of an element is next to the channels, so that no gradient is cut along the width.
    """
    count, channels = weight.shape[:2]
    batch, width, rows, columns = parts[0].shape
    length = channels * len(parts)
    joined = torch.cat([one.reshape(batch, width, 1, rows * columns) for one in parts], dim=2)
    if groups == 1:
        matrix = weight.reshape(count, length).transpose(0, 1)
        product = joined.permute(0, 3, 1, 2).reshape(batch * rows * columns, length) @ matrix
        product = product.reshape(batch, rows * columns, count).permute(0, 2, 1)
    else:
        each = joined.reshape(batch, groups, length, rows * columns)
        product = weight.reshape(1, groups, count // groups, length) @ each
    return product.reshape(batch, count, rows, columns)


def with_channels_exchanged(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Return kernels of a transposed convolution [in, out of a group, …] as those of a convolution [out, in, …]."""
    channels, count, *kernel = weight.shape
    grouped = weight.reshape(groups, channels // groups, count, -1).transpose(1, 2)
    return grouped.reshape(groups * count, channels // groups, *kernel)


def spread(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> torch.Tensor:
    """Return images with zeros between and around elements: what a transposed convolution convolves with stride 1.

    Both axes are multiplied by matrices of zeros and ones, which fp16 computes exactly.
    """
    made: list[torch.Tensor] = []
    for axis, extent in enumerate(x.shape[2:]):
        reach = dilation[axis] * (kernel[axis] - 1)
        count = (extent - 1) * stride[axis] + 1 + 2 * (reach - padding[axis]) + output_padding[axis]
        places = torch.arange(extent, dtype=torch.float32) * stride[axis] + (reach - padding[axis])
        made.append((torch.arange(count, dtype=torch.float32).unsqueeze(1) == places).to(torch.float32))
    rows, columns = made
    return rows @ x @ columns.transpose(0, 1)


def average_pool(
    x: torch.Tensor,
    kernel_size: list[int],
    stride: list[int] | None = None,
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,  # noqa: FBT001, FBT002 - as above
    count_include_pad: bool = True,  # noqa: FBT001, FBT002 - as above
    divisor_override: int | None = None,
) -> torch.Tensor:
    """Return the mean of windows as that of shifted images."""
    border = pair(padding)
    if ceil_mode or (any(border) and not count_include_pad):
        raise NotSupportedError("a trained average pooling must have whole windows that count their border")
    kernel = pair(kernel_size)
    parts = shift(add_border(x, border), kernel, pair(stride or kernel_size), (1, 1))
    return reduce(torch.add, parts) / (divisor_override or len(parts))


def adaptive_average_pool(x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    """Return the mean of as many windows as are asked for, as equal as they can be: of rows, then of columns."""
    found = x
    for axis, count in zip((-2, -1), output_size, strict=True):
        extent = x.shape[axis]
        edges = [(place * extent // count, -(-(place + 1) * extent // count)) for place in range(count)]
        means = [found.narrow(axis, low, high - low).mean(axis, keepdim=True) for low, high in edges]
        found = torch.cat(means, dim=axis) if count > 1 else means[0]
    return found


def maximum_pool(
    x: torch.Tensor,
    kernel_size: list[int],
    stride: list[int] | None = None,
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,  # noqa: FBT001, FBT002 - as above
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum of windows as that of shifted images; the places, which have no gradient, are not computed."""
    if ceil_mode:
        raise NotSupportedError("a trained maximum pooling must have whole windows (ceil_mode=False)")
    kernel = pair(kernel_size)
    parts = shift(add_border(x, pair(padding), LOWEST), kernel, pair(stride or kernel_size), pair(dilation))
    found = reduce(torch.maximum, parts)
    return found, torch.zeros(found.shape, dtype=torch.int64)


def pair(given: Sequence[int]) -> tuple[int, int]:
    """Return two extents, of which torch may give one."""
    return given[0], given[-1]


def batch_norm(  # noqa: PLR0913, PLR0917 - the operator's signature
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,  # noqa: ARG001, FBT001 - as above; another operator is that of an evaluation
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    """Return a batch norm of its own statistics, and the running ones moved towards them.

    Elements are brought near 1 by a factor without a gradient before the variance that has one is taken: the cube of
    its root, which the gradient of the other would be multiplied by, is not finite in fp16.
    """
    axes, shape = [0, *range(2, x.dim())], [1, -1, *[1] * (x.dim() - 2)]
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    variance = centred.detach().square().mean(axes, keepdim=True)
    factor = torch.rsqrt(variance + eps)
    near = centred * factor
    found = near * torch.rsqrt(near.square().mean(axes, keepdim=True) + (factor * eps**0.5).square())
    if weight is not None:
        found = found * weight.reshape(shape)
    if bias is not None:
        found = found + bias.reshape(shape)
    count = x.numel() // x.shape[1]
    unbiased = variance.flatten() * (count / (count - 1))
    moved = running_mean.lerp(mean.flatten(), momentum), running_var.lerp(unbiased, momentum)
    return found, mean.flatten(), factor.flatten(), *moved


def dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: FBT001 - the operator's signature
    """Return what a mask leaves of a tensor, and the mask: 0, or 1 by the share that is kept."""
    if not p or train is False:
        return x, torch.ones(x.shape, dtype=torch.bool)
    if p == 1:
        return x * 0, torch.zeros(x.shape, dtype=torch.bool)
    mask = torch.ops.aten.bernoulli.p(x.detach(), 1 - p) / (1 - p)
    return x * mask, mask.to(torch.bool)


def recurrent_layers(  # noqa: PLR0913, PLR0917 - the operators' signature
    one_layer: Callable[..., object],
    x: torch.Tensor,
    hx: list[torch.Tensor] | torch.Tensor,
    params: list[torch.Tensor],
    has_biases: bool,  # noqa: FBT001 - as above
    num_layers: int,
    p: float,
    train: bool,  # noqa: FBT001 - as above
    bidirectional: bool,  # noqa: FBT001 - as above
    batch_first: bool,  # noqa: FBT001 - as above
) -> tuple[torch.Tensor, ...]:
    """Return recurrent layers one by one, with dropout between them: torch leaves it out as it takes them apart."""
    states = hx if isinstance(hx, list) else [hx]
    directions, each = 2 if bidirectional else 1, len(params) // num_layers
    last: list[list[torch.Tensor]] = []
    for layer in range(num_layers):
        first = [one[layer * directions : (layer + 1) * directions] for one in states]
        own = params[layer * each : (layer + 1) * each]
        given = dropout(x, p, train)[0] if layer else x
        found = one_layer(
            given,
            first if isinstance(hx, list) else first[0],
            own,
            has_biases,
            1,
            0.0,
            train,
            bidirectional,
            batch_first,
        )
        x, *after = cast("tuple[torch.Tensor, ...]", found)
        last.append(after)
    return x, *(torch.cat(ones) for ones in zip(*last, strict=True))


def one_hot(counted: list[int], indices: torch.Tensor, classes: int, axis: int) -> torch.Tensor:
    """Return 1 where an index is that of a class, and 0 elsewhere, along a new axis.

    Raises:
        NotSupportedError: There are more classes than fp16 counts.
    """
    if classes > MOST_CLASSES:
        raise NotSupportedError(
            "indices are fed as fp16 numbers, which are exact up to 2048",
            seen=f"{classes} classes",
            limit=MOST_CLASSES,
            remedy="look the rows of a large table up on the host, and feed them; give one-hot targets",
        )
    counted.append(classes)
    places = [1] * (indices.dim() + 1)
    places[axis] = classes
    numbers = torch.arange(classes, dtype=torch.float32).reshape(places)
    return (indices.to(torch.float32).unsqueeze(axis) == numbers).to(torch.float32)


def listed_one_hot(counted: list[int], indices: torch.Tensor, num_classes: int) -> torch.Tensor:
    """Return one-hot rows as floating-point numbers, which is what a loss multiplies them as."""
    return one_hot(counted, indices, num_classes, -1)


def embedding(
    counted: list[int],
    weight: torch.Tensor,
    indices: torch.Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,  # noqa: FBT001, FBT002 - the operator's signature
    sparse: bool = False,  # noqa: ARG001, FBT001, FBT002 - as above
) -> torch.Tensor:
    """Return rows of a table as a product with rows that have a single 1; the row of padding has no gradient."""
    if scale_grad_by_freq:
        raise NotSupportedError(
            "a trained embedding must have no scale_grad_by_freq", remedy="make the embedding without it"
        )
    rows, width = weight.shape
    if padding_idx >= 0:
        is_trained = (torch.arange(rows) != padding_idx).unsqueeze(1)
        weight = torch.where(is_trained, weight, weight.detach())
    chosen = one_hot(counted, indices, rows, -1).reshape(-1, rows)
    return (chosen @ weight).reshape(*indices.shape, width)


def attention(  # noqa: PLR0913 - the operator's signature
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - as above
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return attention as products and a softmax, with a mask that is finite in fp16."""
    if enable_gqa:
        heads = query.shape[-3] // key.shape[-3]
        key, value = (one.repeat_interleave(heads, -3) for one in (key, value))
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(-2, -1)
    if is_causal:
        scores = scores + torch.full(scores.shape[-2:], MASKED).triu(1)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores + torch.where(attn_mask, 0.0, MASKED)
    elif attn_mask is not None:
        scores = scores + attn_mask.clamp(min=MASKED)
    return dropout(torch.softmax(scores, -1), dropout_p, train=True)[0] @ value


def negative_log_likelihood(
    counted: list[int],
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of class indices as a product with one-hot targets."""
    axis = min(1, x.dim() - 1)
    chosen = one_hot(counted, target, x.shape[axis], axis)
    if ignore_index >= 0:  # one below 0 is in no data: they are refused
        chosen = chosen * (target.to(torch.float32) != ignore_index).to(torch.float32).unsqueeze(axis)
    if weight is not None:
        chosen = chosen * along(weight, x.dim(), axis)
    losses = -(x * chosen).sum(axis)
    counts = weight is not None or ignore_index >= 0
    total = chosen.sum() if counts else torch.full((), float(target.numel()))
    if reduction == 0:
        return losses, total
    return (losses.sum() / total if reduction == 1 else losses.sum()), total


def cross_entropy(
    counted: list[int],
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Return the loss of class indices, or of shares of classes, which are smoothed towards equal ones."""
    axis = min(1, x.dim() - 1)
    logarithms = torch.log_softmax(x, axis)
    if target.shape == x.shape:
        shares = target * (1 - label_smoothing) + label_smoothing / x.shape[axis]
        losses = -(logarithms * shares if weight is None else logarithms * shares * along(weight, x.dim(), axis)).sum(
            axis
        )
        return (losses, losses.sum() / max(losses.numel(), 1), losses.sum())[reduction]
    found, total = negative_log_likelihood(counted, logarithms, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return found
    equal = -(logarithms if weight is None else logarithms * along(weight, x.dim(), axis)).sum(axis)
    if ignore_index >= 0:
        equal = equal * (target.to(torch.float32) != ignore_index).to(torch.float32)
    smooth = (equal, equal.sum() / total, equal.sum())[reduction]
    return found * (1 - label_smoothing) + smooth * (label_smoothing / x.shape[axis])


def along(weight: torch.Tensor, rank: int, axis: int) -> torch.Tensor:
    """Return the weights of classes along an axis."""
    shape = [1] * rank
    shape[axis] = weight.numel()
    return weight.reshape(shape)


def nearest(x: torch.Tensor, output_size: list[int] | None, scale_factors: list[float] | None) -> torch.Tensor:
    """Return images in another size, every element the nearest of the old one, as products with zeros and ones."""

    def chosen(extent: int, places: torch.Tensor, ratio: float) -> torch.Tensor:
        found = torch.floor(places * ratio).clamp(max=extent - 1)
        return (found.unsqueeze(1) == torch.arange(extent, dtype=torch.float32)).to(torch.float32)

    return resize(x, output_size, scale_factors, chosen)


def bilinear(
    x: torch.Tensor,
    output_size: list[int] | None,
    align_corners: bool,  # noqa: FBT001 - the operator's signature
    scale_factors: list[float] | None,
) -> torch.Tensor:
    """Return images in another size, interpolated between elements, as products with the shares of both."""

    def shares(extent: int, places: torch.Tensor, ratio: float) -> torch.Tensor:
        count = places.shape[0]
        between = places * ((extent - 1) / max(count - 1, 1)) if align_corners else (places + 0.5) * ratio - 0.5
        found = between.clamp(min=0, max=extent - 1).unsqueeze(1)
        return (1 - (found - torch.arange(extent, dtype=torch.float32)).abs()).clamp(min=0)

    return resize(x, output_size, scale_factors, shares)


def resize(
    x: torch.Tensor,
    output_size: list[int] | None,
    scale_factors: list[float] | None,
    matrix: Callable[[int, torch.Tensor, float], torch.Tensor],
) -> torch.Tensor:
    """Return images whose rows and columns are multiplied by matrices of new and old extents.

    `matrix` gives one from the old extent, the numbers of the new elements, and how many old ones each is wide.
    """
    made: list[torch.Tensor] = []
    for place, extent in enumerate(x.shape[2:]):
        factor = None if scale_factors is None else scale_factors[place]
        count = int(extent * factor) if factor is not None else (output_size or [])[place]
        places = torch.arange(count, dtype=torch.float32)
        made.append(matrix(extent, places, extent / count if factor is None else 1 / factor))
    rows, columns = made
    return rows @ x @ columns.transpose(0, 1)
