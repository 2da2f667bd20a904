"""Operations as functions of torch tensors, so that torch differentiates them.

They are the oracles that are written with torch, and for others what stands here.

An oracle takes arrays; while the tables are loaded here, what converts arrays lets tensors pass, and what converts back
leaves them, so that torch sees one computation.
"""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch
from torch.nn import functional

import oracle_tools
from aneforge.graph.node import Output
from aneforge.ops.types import is_float, value_range
from aneforge.ops.windows import Slide, slides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.ops.constant import Constant

    Meaning: TypeAlias = "Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]"

Tensor = torch.Tensor
ORACLES = Path(__file__).parent / "unit" / "ops" / "oracles"

WITH_TORCH = (
    "abs acos acosh add adds asin asinh atan atanh band_part bmm bmm_w broadcast channel_layer_norm clamped_relu "
    "concat cos cosh crop cross_product dynamic_goc elu erf exp exp2 expand_dims flatten group_norm identity "
    "input_view inverse layer_norm leaky_relu linear log log2 matmul maximum minimum mul muls ne_bypass ne_matmul "
    "pad pe_elementwise pe_goc pixel_shuffle pixel_unshuffle pow prelu read_state reduce_l1_norm reduce_l2_norm "
    "reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum reduce_sum_square "
    "relu relu6 reshape reshape_like reverse reverse_sequence rsqrt scaled_elementwise sdpa select silu sin sinh "
    "slice_by_index slice_by_size sliding_windows softmax softplus softsign sort space_to_batch space_to_channel "
    "space_to_depth split sq_after_reduce sqrt square squeeze stack sub tan tanh tensor_buffer_to_tensor "
    "tensor_to_tensor_buffer threshold tile transpose upsample"
)
BY_ORACLE = frozenset(WITH_TORCH.split())
"""Operations whose oracle is torch from end to end."""


def passed(values: object) -> Tensor:
    """Return a tensor as it is, and an array as a tensor."""
    return values if isinstance(values, Tensor) else torch.tensor(np.asarray(values))


def unchanged(values: object) -> object:
    return values


@cache
def meanings() -> dict[str, Meaning]:
    """Return operations as functions of torch tensors and attributes, by name."""
    names = ("tensor", "array")
    before = {name: getattr(oracle_tools, name) for name in names}
    found: dict[str, Meaning] = {}
    try:
        for name, function in zip(names, (passed, unchanged), strict=True):
            setattr(oracle_tools, name, function)
        for path in sorted(ORACLES.glob("*.py")):
            spec = importlib.util.spec_from_file_location(f"torch_oracles_{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            table = cast("dict[str, Meaning]", module.ORACLES)
            found |= {name: one for name, one in table.items() if name in BY_ORACLE}
    finally:
        for name, function in before.items():
            setattr(oracle_tools, name, function)

    def call(name: str) -> Meaning:
        def run(*operands: object, **attributes: object) -> Tensor | tuple[Tensor, ...]:
            # torch_unary and torch_binary look their converters up when they run.
            kept = oracle_tools.tensor, oracle_tools.array
            oracle_tools.tensor, oracle_tools.array = cast("Any", passed), cast("Any", unchanged)
            try:
                return found[name](*operands, **attributes)
            finally:
                oracle_tools.tensor, oracle_tools.array = kept

        return run

    return {**{name: call(name) for name in found}, **MEANINGS}


# Windows


def slides_of(x: Tensor, window: Sequence[int], attributes: Mapping[str, Any]) -> tuple[Slide, ...]:
    return slides(
        x.shape[2:],
        window,
        {
            "strides": attributes["strides"],
            "pad_type": attributes["pad_type"],
            "pad": attributes["pad"],
            "dilations": attributes.get("dilations"),
            "ceil_mode": attributes.get("ceil_mode", False),
        },
    )


def bordered(x: Tensor, along: Sequence[Slide], value: float = 0.0) -> Tensor:
    sides = [side for one in along for side in (one.before, max(one.reach - one.before - one.extent, 0))]
    pairs = [sides[place : place + 2] for place in range(0, len(sides), 2)]
    return functional.pad(x, [side for pair in reversed(pairs) for side in pair], value=value)


def seen(x: Tensor, along: Sequence[Slide], value: float = 0.0) -> Tensor:
    """Return what windows see: [batch, channel, places…, elements of the window]."""
    whole = bordered(x, along, value)
    for axis, one in enumerate(along, 2):
        whole = whole.unfold(axis, one.span, one.stride)[..., :: one.dilation]
        whole = whole.narrow(axis, 0, one.places)
    return whole


def conv(x: Tensor, weight: Tensor, bias: Tensor | None, **attributes: Any) -> Tensor:  # noqa: ANN401 - as the op's
    along = slides_of(x, weight.shape[2:], attributes)
    run = (functional.conv1d, functional.conv2d, functional.conv3d)[len(along) - 1]
    strides, gaps = [one.stride for one in along], [one.dilation for one in along]
    result = run(bordered(x, along), weight, bias, strides, 0, gaps, attributes["groups"])
    for axis, one in enumerate(along, 2):
        result = result.narrow(axis, 0, one.places)
    return result


def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None, **attributes: Any) -> Tensor:  # noqa: ANN401
    shape = attributes["result_shape"]
    along = slides_of(torch.zeros(tuple(shape)), weight.shape[2:], attributes)
    run = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[len(along) - 1]
    strides, gaps = [one.stride for one in along], [one.dilation for one in along]
    result = run(x, weight, None, strides, 0, 0, attributes["groups"], gaps)
    for axis, one in enumerate(along, 2):
        missing = one.before + one.extent - result.shape[axis]
        if missing > 0:
            sides = [0] * (2 * (result.dim() - axis))
            sides[-1] = missing
            result = functional.pad(result, sides)
        result = result.narrow(axis, one.before, one.extent)
    return result if bias is None else result + bias.reshape(-1, *(1 for _ in along))


def max_pool(x: Tensor, *, kernel_sizes: Sequence[int], **attributes: object) -> Tensor:
    along = slides_of(x, kernel_sizes, attributes)
    windows = seen(x, along, -math.inf).flatten(2 + len(along))
    largest = windows.amax(-1).detach()
    equal = torch.where(windows == largest[..., None], windows, 0.0).sum(-1)
    return largest + (equal - equal.detach())  # all of several equal ones get the gradient: the documented rule


def avg_pool(
    x: Tensor, *, kernel_sizes: Sequence[int], exclude_padding_from_average: bool = False, **attributes: object
) -> Tensor:
    along = slides_of(x, kernel_sizes, attributes)
    inside = torch.ones_like(x)
    if not exclude_padding_from_average:
        sides = [side for one in reversed(along) for side in (one.before, one.after)]
        inside = functional.pad(inside, sides, value=1.0)
    else:
        sides = [side for one in reversed(along) for side in (one.before, one.after)]
        inside = functional.pad(inside, sides)
    reach = [max(one.reach - one.before - one.extent - one.after, 0) for one in along]
    inside = functional.pad(inside, [side for extra in reversed(reach) for side in (0, extra)])
    for axis, one in enumerate(along, 2):
        inside = inside.unfold(axis, one.span, one.stride).narrow(axis, 0, one.places)
    axes = tuple(range(2 + len(along), 2 + 2 * len(along)))
    return seen(x, along).sum(axes) / inside.sum(axes)


def l2_pool(x: Tensor, *, kernel_sizes: Sequence[int], **attributes: object) -> Tensor:
    along = slides_of(x, kernel_sizes, attributes)
    return seen(x, along).flatten(2 + len(along)).square().sum(-1).sqrt()


def by_mode(x: Tensor, *, mode: str, exclude_padding_from_average: bool = False, **attributes: Any) -> Tensor:  # noqa: ANN401
    if mode == "average":
        return avg_pool(x, exclude_padding_from_average=exclude_padding_from_average, **attributes)
    return (max_pool if mode == "max" else l2_pool)(x, **attributes)


# Others


def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor | None, beta: Tensor | None, *, epsilon: float
) -> Tensor:
    # The gradient of torch's own (2.13.0, on a CPU) is wrong where what comes back to it is not contiguous.
    shape = (-1, *(1 for _ in x.shape[2:]))
    result = (x - mean.reshape(shape)) / (variance.reshape(shape) + epsilon).sqrt()
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


def instance_norm(x: Tensor, gamma: Tensor | None, beta: Tensor | None, *, epsilon: float) -> Tensor:
    axes = tuple(range(2, x.dim()))
    centred = x - x.mean(axes, keepdim=True)
    result = centred / (centred.square().mean(axes, keepdim=True) + epsilon).sqrt()
    shape = (-1, *(1 for _ in axes))
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


def l2_norm(x: Tensor, *, axes: Sequence[int], epsilon: float) -> Tensor:
    length = x.square().sum(dim=tuple(axes), keepdim=True).sqrt()
    return x / length.clamp(min=math.sqrt(epsilon))


def rms_norm(x: Tensor, gamma: Tensor, *, epsilon: float) -> Tensor:
    return l2_norm(x, axes=(-1,), epsilon=epsilon * x.shape[-1]) * gamma * math.sqrt(x.shape[-1])


def einsum(values: Sequence[Tensor], *, equation: str) -> Tensor:
    return torch.einsum(equation, *values)


def gather(x: Tensor, indices: Tensor, *, axis: int, batch_dims: int, **_: object) -> Tensor:
    along = axis % x.dim()
    places = (indices.long() % x.shape[along]).reshape(math.prod(x.shape[:batch_dims]), -1)
    parts = x.reshape(-1, *x.shape[batch_dims:])
    taken = [part.index_select(along - batch_dims, place) for part, place in zip(parts, places, strict=True)]
    shape = (*x.shape[:along], *indices.shape[batch_dims:], *x.shape[along + 1 :])
    return torch.stack(taken).reshape(shape)


def gather_along_axis(x: Tensor, indices: Tensor, *, axis: int, **_: object) -> Tensor:
    return torch.gather(x, axis, indices.long() % x.shape[axis])


def cumsum(x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    turned = x.flip(axis) if reverse else x
    summed = turned.cumsum(axis) - (turned if exclusive else 0)
    return summed.flip(axis) if reverse else summed


def topk(x: Tensor, *, k: int, axis: int, ascending: bool, return_indices: bool, **_: object) -> Any:  # noqa: ANN401
    values, places = torch.topk(x, k, axis, largest=not ascending)
    return (values, places) if return_indices else values


def clip(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return x.clamp(alpha, beta)


def gelu(x: Tensor, *, mode: str) -> Tensor:
    if mode == "SIGMOID_APPROXIMATION":
        return x * torch.sigmoid(x * 1.702)
    return functional.gelu(x, approximate="none" if mode == "EXACT" else "tanh")


def cast_to(x: Tensor, *, dtype: str) -> Tensor:
    return x if is_float(dtype) else x.trunc().detach()


def per_channel(values: Tensor | None, like: Tensor, axis: int | None) -> Tensor:
    if values is None:
        return torch.zeros(())
    shape = [1] * like.dim()
    if axis is not None and values.dim():
        shape[axis] = values.numel()
    return values.double().reshape(shape if values.dim() else [])


def quantize(x: Tensor, scale: Tensor, zero_point: Tensor | None, *, output_dtype: str, axis: int | None) -> Tensor:
    steps = x / per_channel(scale, x, axis)
    rounded = steps.round() + per_channel(zero_point, x, axis)
    low, high = value_range(output_dtype)
    straight = steps + (rounded - steps).detach()
    return torch.where((rounded >= low) & (rounded <= high), straight, rounded.clamp(low, high).detach())


def dequantize(x: Tensor, scale: Tensor, zero_point: Tensor | None, *, axis: int | None) -> Tensor:
    return (x.double() - per_channel(zero_point, x, axis)) * per_channel(scale, x, axis)


def scaled_tanh(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return (x * beta).tanh() * alpha


def linear_activation(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return x * alpha + beta


def flatten2d(x: Tensor, *, axis: int) -> Tensor:
    along = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:along]), math.prod(x.shape[along:]))


def resize_nearest_neighbor(x: Tensor, *, target_size_height: int, target_size_width: int) -> Tensor:
    flat = x.reshape(1, -1, *x.shape[-2:])
    result = functional.interpolate(flat, (target_size_height, target_size_width), mode="nearest")
    return result.reshape(*x.shape[:-2], target_size_height, target_size_width)


def local_response_norm(x: Tensor, *, size: int, alpha: float, beta: float, k: float) -> Tensor:
    squares = functional.pad(x.square().movedim(1, -1), ((size - 1) // 2, size // 2))
    summed = squares.unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    return x / (summed * (alpha / size) + k) ** beta


OF_INTEGERS: dict[str, Meaning] = {"cast": cast_to, "dequantize": dequantize, "quantize": quantize, "sign": torch.sign}
"""Operations whose results or operands are integers, or that are steps: in a network, not by themselves."""
MEANINGS: dict[str, Meaning] = {
    "avg_pool": avg_pool,
    "batch_norm": batch_norm,
    "clip": clip,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "cumsum": cumsum,
    "dynamic_conv": conv,
    "einsum": einsum,
    "flatten2d": flatten2d,
    "gather": gather,
    "gather_along_axis": gather_along_axis,
    "gelu": gelu,
    "instance_norm": instance_norm,
    "l2_norm": l2_norm,
    "l2_pool": l2_pool,
    "linear_activation": linear_activation,
    "local_response_norm": local_response_norm,
    "max_pool": max_pool,
    "mod": torch.remainder,
    "ne_conv": conv,
    "ne_pool": by_mode,
    "pe_pool": by_mode,
    "real_div": torch.div,
    "resize_nearest_neighbor": resize_nearest_neighbor,
    "rms_norm": rms_norm,
    "scaled_tanh": scaled_tanh,
    "sigmoid": torch.sigmoid,
    "topk": topk,
}


def is_in_torch(graph: Graph) -> bool:
    """Return whether every operation of a graph has a meaning here."""
    known = {"input", *OF_INTEGERS, *meanings()}
    return all(node.op.name in known for node in graph.nodes)


def evaluate_in_torch(graph: Graph, feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the outputs of a graph, every node computed by torch in float64."""
    values: dict[tuple[Node, int], Tensor] = {}

    def value_of(value: Output | Constant) -> Tensor:
        if isinstance(value, Output):
            return values[value.node, value.index]
        numbers = value.dense()
        return torch.tensor(numbers.astype(np.float64) if is_float(value.type.dtype) else numbers)

    for node in graph.nodes:
        if node.op.name == "input":
            values[node, 0] = feeds[str(node.attributes["name"])]
            continue
        operands = [
            tuple(map(value_of, one)) if isinstance(one, tuple) else None if one is None else value_of(one)
            for one in (node.operands.get(operand.name) for operand in node.op.operands)
        ]
        results = run_in_torch(node, operands)
        for index, result in enumerate(results):
            values[node, index] = result
    return {name: values[output.node, output.index] for name, output in graph.outputs.items()}


def run_in_torch(node: Node, operands: Sequence[object]) -> tuple[Tensor, ...]:
    """Return the results of one node."""
    extra = {"result_shape": node.types[0].shape} if node.op.name == "conv_transpose" else {}
    meaning = OF_INTEGERS.get(node.op.name) or meanings()[node.op.name]
    made = meaning(*operands, **node.attributes, **extra)
    return made if isinstance(made, tuple) else (made,)
