"""A table that a converter makes by itself is refused before it takes memory, not after."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.formats.shared import emitter
from aneforge.formats.shared.findings import Reason, TooLargeModelError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable

LONG, SIDE, SMALL = 2**22, 2**12, 2**10
PEAK_MOST = 12 * 2**20
"""Bytes; what an import of one operator takes by itself is a small part of it, and every table below is 32 MiB or more
in 64 bits."""


class Calling(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: torch.Tensor) -> object:
        """Return what the function gives."""
        return self.function(*x)


def wide(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor that takes no memory: one number seen again and again."""
    return torch.zeros((), dtype=dtype).expand(shape)


def back_to_weights(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    space = {"stride": [1], "padding": [0], "dilation": [1], "output_padding": [0]}
    asked = {"transposed": False, "groups": 1, "output_mask": [False, True, False]}
    return torch.ops.aten.convolution_backward(g, x, w, None, **space, **asked)[1]


def averaged_back(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    plain = {"ceil_mode": False, "count_include_pad": True, "divisor_override": None}
    return torch.ops.aten.avg_pool2d_backward(g, x, [1, 1], [1, 1], [0, 0], **plain)


def averaged_parts_back(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._adaptive_avg_pool2d_backward(g, x)  # noqa: SLF001 - an operator's own name


def without_aliases(x: torch.Tensor) -> torch.Tensor:
    given = {"align_corners": False, "scales_h": 1e-4, "scales_w": 1e-4}
    return torch.ops.aten._upsample_bilinear2d_aa(x, [SMALL, SMALL], **given)  # noqa: SLF001 - an operator's own name


def bagged(rows: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(indices, rows, offsets)


CASES: list[tuple[str, Callable[..., object], tuple[torch.Tensor, ...]]] = [
    ("_fft_r2c.default", lambda x: torch.fft.rfft(x).abs(), (wide(1, SIDE),)),
    ("_fft_c2c.default", lambda x: torch.fft.fft(torch.complex(x, x)).abs(), (wide(1, SIDE),)),
    ("_fft_r2c.default", lambda x: torch.fft.rfftn(x, dim=(0, 1)).abs(), (wide(SIDE, 8),)),
    ("_fft_c2r.default", lambda x: torch.fft.irfft(torch.complex(x, x)), (wide(1, SIDE),)),
    (
        "_fft_c2r.default",
        lambda x: torch.fft.irfftn(torch.complex(x, x), dim=(0, 1)),
        (wide(SIDE, 8),),
    ),
    (
        "_adaptive_avg_pool2d_backward.default",
        averaged_parts_back,
        (wide(1, 1, 1, SIDE), wide(1, 1, 1, SIDE)),
    ),
    (
        "avg_pool2d_backward.default",
        averaged_back,
        (wide(1, 1, 1, SIDE), wide(1, 1, 1, SIDE)),
    ),
    (
        "avg_pool2d_backward.default",
        averaged_back,
        (wide(1, 1, SIDE, SIDE), wide(1, 1, SIDE, SIDE)),
    ),
    ("convolution_backward.default", back_to_weights, (wide(1, 1, SIDE + 1), wide(1, 1, 2 * SIDE), wide(1, 1, SIDE))),
    (
        "adaptive_avg_pool1d.default",
        lambda x: torch.nn.functional.adaptive_avg_pool1d(x, SIDE),
        (wide(1, 1, SIDE + 1),),
    ),
    ("adaptive_avg_pool1d.default", lambda x: torch.nn.functional.adaptive_avg_pool1d(x, LONG), (wide(1, 1, 3),)),
    (
        "adaptive_max_pool1d.default",
        lambda x: torch.nn.functional.adaptive_max_pool1d(x, SIDE),
        (wide(1, SIDE, SIDE + 1),),
    ),
    ("adaptive_max_pool1d.default", lambda x: torch.nn.functional.adaptive_max_pool1d(x, LONG), (wide(1, 1, 3),)),
    (
        "avg_pool2d.default",
        lambda x: torch.nn.functional.avg_pool2d(x, 2, 1, divisor_override=3),
        (wide(1, 1, SIDE, SIDE),),
    ),
    (
        "_embedding_bag_forward_only.default",
        bagged,
        (wide(4, 2), wide(LONG, dtype=torch.int64), wide(3, dtype=torch.int64)),
    ),
    ("histc.default", lambda x: torch.histc(x, LONG, 0, 1), (wide(8),)),
    (
        "group_norm.default",
        lambda x: torch.nn.functional.group_norm(x, 2),
        (wide(1, LONG, 1, 1),),
    ),
    (
        "_upsample_bilinear2d_aa.default",
        without_aliases,
        (wide(1, 1, 2, 2),),
    ),
]
"""Operators, how they are called, and with what."""


def all_of_them(*tensors: torch.Tensor) -> list[object]:
    """Return what every case gives."""
    fed = iter(tensors)
    return [function(*(next(fed) for _ in inputs)) for _, function, inputs in CASES]


def test_a_table_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(Calling(all_of_them), tuple(one for _, _, inputs in CASES for one in inputs))
    monkeypatch.setattr(emitter, "KNOWN_MOST", 2 * SIDE)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedModelError) as caught:
            af.from_torch(program)
        assert tracemalloc.get_traced_memory()[1] < PEAK_MOST
    finally:
        tracemalloc.stop()
    findings = caught.value.findings
    assert {one.reason for one in findings} == {Reason.LIMIT}
    assert all(one.message.startswith("it needs a table of ") for one in findings)
    assert [one.operator for one in findings] == [name for name, _, _ in CASES]


@pytest.mark.parametrize("function", [lambda x: x.unbind()[0], lambda x: x.split(1)[0]])
def test_a_tensor_in_too_many_parts_is_refused(
    function: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = torch.export.export(Calling(function), (wide(200, 2),))
    monkeypatch.setattr(emitter.Budget.__init__, "__defaults__", (100, emitter.FOLD_ALL_BYTES, 0))
    with pytest.raises(TooLargeModelError, match="too many operations"):
        af.from_torch(program)


def test_a_long_axis_resized_to_a_short_one_is_compared_with_no_square_matrix() -> None:
    function = Calling(lambda x: torch.nn.functional.interpolate(x, size=10, mode="linear"))
    graph = af.from_torch(torch.export.export(function, (wide(1, 1, 2**17),)))
    (found,) = graph.outputs.values()
    assert found.shape == (1, 1, 10)


def test_means_of_parts_that_overlap_are_those_of_pytorch() -> None:
    x = torch.linspace(-2, 3, 30, dtype=torch.float64).reshape(1, 2, 5, 3)
    module = Calling(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (3, 2)))
    graph = af.from_torch(module, x)
    (found,) = af.reference(graph, {next(iter(graph.inputs)): x.numpy()}).values()
    np.testing.assert_allclose(found, torch.nn.functional.adaptive_avg_pool2d(x, (3, 2)).numpy(), rtol=1e-12)
