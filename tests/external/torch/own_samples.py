"""Samples of our own, for forms of core ATen that none of PyTorch's samples come down to.

They are gradients, forms that another form replaces, and operators that PyTorch calls from its own code alone. The page
of results marks these forms, so that nobody takes them for PyTorch's.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FIRST_RESULT", "OWN_SAMPLES"]

Arguments = tuple[object, ...]
aten = torch.ops.aten


def numbers(*shape: int) -> torch.Tensor:
    """Return numbers around zero in double precision; the seed is set before samples are made."""
    return torch.randn(*shape, dtype=torch.float64)


def average_gradients() -> list[Arguments]:
    """Return gradients of means in windows, over the edge and not."""
    forms: list[Arguments] = [
        ([3, 2], [2, 1], [1, 1], False, True, None),
        ([3, 3], [2, 2], [1, 0], True, False, None),
        ([2, 2], [], [0, 0], False, True, 3),
        ([2, 3], [2, 2], [1, 1], True, True, None),
    ]
    data = [numbers(2, 3, 7, 8) for _ in forms]
    backs = [torch.randn_like(aten.avg_pool2d(x, *form)) for x, form in zip(data, forms, strict=True)]
    return [(back, x, *form) for back, x, form in zip(backs, data, forms, strict=True)]


def adaptive_gradients() -> list[Arguments]:
    """Return gradients of means over parts that divide their axes, and that do not."""
    return [
        (numbers(2, 3, *parts), numbers(2, 3, *size))
        for parts, size in (((3, 5), (7, 8)), ((2, 4), (6, 8)), ((1, 1), (5, 4)))
    ]


def convolution_gradients() -> list[Arguments]:
    """Return gradients of convolutions along one, two and three axes, of groups, and transposed."""
    forms: list[tuple[torch.Tensor, torch.Tensor, Arguments]] = [
        (numbers(2, 4, 9), numbers(6, 4, 3), ([1], [1], [1], False, [0], 1)),
        (numbers(2, 4, 7, 8), numbers(6, 2, 3, 2), ([2, 1], [1, 0], [1, 2], False, [0, 0], 2)),
        (numbers(1, 4, 6, 6), numbers(4, 1, 3, 3), ([2, 2], [1, 1], [1, 1], False, [0, 0], 4)),
        (numbers(1, 2, 4, 5, 5), numbers(3, 2, 2, 2, 3), ([1, 1, 2], [0, 1, 0], [1, 1, 1], False, [0, 0, 0], 1)),
        (numbers(2, 4, 7), numbers(4, 3, 3), ([2], [1], [1], True, [1], 1)),
        (numbers(1, 4, 5, 5), numbers(4, 2, 3, 3), ([2, 2], [1, 1], [1, 1], True, [0, 0], 2)),
    ]
    found: list[Arguments] = []
    for x, weight, form in forms:
        result = aten.convolution(x, weight, None, *form)
        back = torch.randn_like(result)
        found.append((back, x, weight, [result.shape[1]], *form, [True, True, True]))
        found.append((back, x, weight, None, *form, [False, True, False]))
    return found


def norm_gradients() -> list[Arguments]:
    """Return gradients of normalisations over last axes."""
    found: list[Arguments] = []
    for shape, last in (((2, 3, 5), 1), ((4, 3, 2), 2)):
        x, weight = numbers(*shape), numbers(*shape[len(shape) - last :])
        result, mean, inverse = aten.native_layer_norm(x, list(weight.shape), weight, weight, 1e-5)
        back = torch.randn_like(result)
        found.append((back, x, list(weight.shape), mean, inverse, weight, weight, [True, True, True]))
        found.append((back, x, list(weight.shape), mean, inverse, None, None, [True, False, False]))
    return found


def group_norm_gradients() -> list[Arguments]:
    """Return gradients of normalisations over groups of channels."""
    x, weight = numbers(2, 4, 3, 5), numbers(4)
    found: list[Arguments] = []
    for groups in (1, 2, 4):
        result, mean, inverse = aten.native_group_norm(x, weight, weight, 2, 4, 15, groups, 1e-5)
        back = torch.randn_like(result)
        found.append((back, x, mean, inverse, weight, 2, 4, 15, groups, [True, True, True]))
        found.append((back, x, mean, inverse, None, 2, 4, 15, groups, [True, False, False]))
    return found


def bags() -> list[Arguments]:
    """Return rows of a table in bags, one of them empty."""
    table, indices, offsets = numbers(6, 4), torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2, 2, 4])
    plain: list[Arguments] = [
        (table, indices, offsets, False, mode, False, None, last) for mode in range(3) for last in (False, True)
    ]
    return [*plain, (table, indices, offsets, False, 0, False, numbers(4), False)]


def folded() -> list[Arguments]:
    """Return columns of windows that are added up."""
    forms = [([6, 7], [2, 3], [1, 2], [1, 0], [2, 1]), ([4, 4], [2, 2], [1, 1], [0, 0], [2, 2])]
    sizes = [aten.im2col(numbers(2, 3, *form[0]), *form[1:]).shape for form in forms]
    return [(numbers(*size), *form) for size, form in zip(sizes, forms, strict=True)]


OWN_SAMPLES: dict[str, Callable[[], list[Arguments]]] = {
    "aten._adaptive_avg_pool2d_backward.default": adaptive_gradients,
    "aten._embedding_bag.default": bags,
    "aten._native_batch_norm_legit_no_training.default": lambda: [
        (numbers(*shape), numbers(3), numbers(3), numbers(3), numbers(3).abs(), 0.1, 1e-5)
        for shape in ((2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 2))
    ],
    "aten.atan2.out": lambda: [(numbers(3, 4), numbers(3, 4)), (numbers(3, 4), numbers(4))],
    "aten.avg_pool2d_backward.default": average_gradients,
    "aten.col2im.default": folded,
    "aten.convolution_backward.default": convolution_gradients,
    "aten.embedding_dense_backward.default": lambda: [
        (numbers(2, 3, 4), torch.tensor([[1, 2, 5], [5, 0, 1]]), 6, padding, counted)
        for padding in (-1, 2)
        for counted in (False, True)
    ],
    "aten.native_dropout.default": lambda: [(numbers(3, 4), 0.5, False), (numbers(3, 4), 0.5, True)],
    "aten.native_group_norm_backward.default": group_norm_gradients,
    "aten.native_layer_norm_backward.default": norm_gradients,
    "aten.randperm.default": lambda: [(5,), (1,)],
    "aten.upsample_bilinear2d.vec": lambda: [
        (numbers(2, 3, 4, 5), [7, 9], False, None),
        (numbers(2, 3, 4, 5), [7, 9], True, None),
        (numbers(2, 3, 4, 5), None, False, [2.0, 1.5]),
        (numbers(2, 3, 4, 5), None, True, [0.5, 2.0]),
    ],
    "aten.upsample_nearest2d.vec": lambda: [
        (numbers(2, 3, 4, 5), [7, 9], None),
        (numbers(2, 3, 4, 5), None, [2.0, 1.5]),
    ],
}
"""The arguments of calls by the form that they are of; all results that are tensors are compared."""
FIRST_RESULT = frozenset({"aten._embedding_bag.default"})
"""Forms of which the first result is compared: the others are what a kernel keeps for gradients, or leaves empty."""
