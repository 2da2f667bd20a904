"""Ordinary operations are spelled so that engines have them: what is imported means the same, and compiles."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch.nn import functional

import aneforge as af
from aneforge.errors import IllegalGraphError
from aneforge.formats.torch.torch_model import from_torch
from aneforge.graph.precision import to_fp16
from aneforge.rules import Severity
from unit.formats.torch.block_checks import expected

if TYPE_CHECKING:
    from collections.abc import Callable


class Whole(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the function's result."""
        return self.function(x)


def known_mask(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(6, 6).tril().bool())


def computed_mask(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=x[..., :6] > 0)


def unseeing_query(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(6, 6).tril(-1).bool())


def causal_and_longer(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x[:, :, :4], x, x, is_causal=True)


def largest_rounded_up(x: torch.Tensor) -> torch.Tensor:
    return functional.max_pool2d(x, 3, 2, 1, ceil_mode=True)


def largest_with_gaps(x: torch.Tensor) -> torch.Tensor:
    return functional.max_pool2d(x, 3, 2, 1, dilation=2)


def average_rounded_up(x: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool2d(x, 3, 2, ceil_mode=True)


def average_with_padding_rounded_up(x: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True)


def average_without_padding_rounded_up(x: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)


def uneven_parts(x: torch.Tensor) -> torch.Tensor:
    return functional.adaptive_max_pool3d(x, (2, 1, 3))


def largest_over_three_axes_with_gaps(x: torch.Tensor) -> torch.Tensor:
    return functional.max_pool3d(x, 2, 2, dilation=2)


def columns(x: torch.Tensor) -> torch.Tensor:
    return functional.unfold(x, (2, 3), padding=1, stride=2, dilation=(1, 2))


def patches(x: torch.Tensor) -> torch.Tensor:
    return x.unfold(2, 4, 4).unfold(3, 5, 5).permute(0, 2, 3, 1, 4, 5).reshape(1, 4, 80)


def halo_attention(x: torch.Tensor) -> torch.Tensor:
    """Attend within blocks of four by four elements, to those around them too, as HaloNet does."""
    heads, width, block, halo = 2, 8, 4, 2
    rows, columns = x.shape[2] // block, x.shape[3] // block
    split = x.reshape(-1, width, rows, block, columns, block).permute(0, 1, 3, 5, 2, 4)
    query = split.reshape(heads, width, block**2, rows * columns).transpose(1, 3)
    around = block + 2 * halo
    windows = functional.pad(x, [halo] * 4).unfold(2, around, block).unfold(3, around, block)
    key = windows.reshape(heads, width, rows * columns, around**2).permute(0, 2, 3, 1)
    weights = (query @ key.transpose(-1, -2) * width**-0.5).softmax(-1)
    blocks = (weights @ key).transpose(1, 3).reshape(-1, block, block, rows, columns)
    return blocks.permute(0, 3, 1, 4, 2).contiguous().view(x.shape)


def written_columns(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[..., [0, 2, 4]] = x[..., 1:4] * 2
    return result


def written_elements(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[:, [0, 1, 2], [1, 2, 3]] = 1.0
    return result


def added_twice(x: torch.Tensor) -> torch.Tensor:
    return x.index_add(2, torch.tensor([0, 2, 2]), x[:, :, :3] * 3)


def scattered(x: torch.Tensor) -> torch.Tensor:
    return x.scatter(-1, torch.tensor([0, 2, 4]).expand(*x.shape[:-1], 3), x[..., 3:6])


def angles(x: torch.Tensor) -> torch.Tensor:
    return torch.atan2(x, x.roll(1, -1))


def remainders(x: torch.Tensor) -> torch.Tensor:
    return torch.remainder(x * 8, 3.0) + torch.fmod(x * 8, 2.5) + 4


def logic(x: torch.Tensor) -> torch.Tensor:
    return torch.where((x > 0) & (x < 1) | (x < -1) ^ (x > 2), x, -x)


def bits(x: torch.Tensor) -> torch.Tensor:
    first, second = (x * 20).abs().to(torch.uint8), (x * 3).abs().to(torch.uint8)
    return ((first & 12) + (first ^ second) + (first | second) + (first >> 2)).float()


def triangles(x: torch.Tensor) -> torch.Tensor:
    return x.tril(-1) + x.triu(2)


def functions(x: torch.Tensor) -> torch.Tensor:
    within = x.tanh() * 0.9
    return within.asin() + within.acos() + within.atanh() + within.tan() + x.sinh() + x.cosh() + x.asinh()


def largest_scattered(x: torch.Tensor) -> torch.Tensor:
    return x.scatter_reduce(-1, torch.tensor([0, 0, 4]).expand(*x.shape[:-1], 3), x[..., 3:6], "amax")


FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    one.__name__: (one, shape)
    for shape, functions in {
        (1, 2, 6, 8): (known_mask, computed_mask, unseeing_query, causal_and_longer),
        (1, 4, 9, 10): (
            largest_rounded_up,
            largest_with_gaps,
            average_rounded_up,
            average_with_padding_rounded_up,
            average_without_padding_rounded_up,
            columns,
            patches,
            written_columns,
            written_elements,
            added_twice,
            scattered,
            angles,
            remainders,
            logic,
            bits,
            triangles,
            functions,
            largest_scattered,
        ),
        (1, 16, 12, 16): (halo_attention,),
        (1, 2, 7, 8, 7): (uneven_parts, largest_over_three_axes_with_gaps),
    }.items()
    for one in functions
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_ordinary_operation_means_the_same_and_compiles_for_all_families(name: str) -> None:
    function, shape = FUNCTIONS[name]
    module = Whole(function).eval()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    graph = from_torch(module, (x,))
    (result,) = af.reference(graph, dict.fromkeys(graph.inputs, x.numpy())).values()
    np.testing.assert_allclose(result, expected(module, (x,))[0].numpy(), rtol=1e-5, atol=1e-6)
    assert [entry.reasons for entry in af.compile_matrix(graph).entries] == [()] * 4


@pytest.mark.parametrize("name", ["largest_rounded_up", "average_rounded_up", "average_without_padding_rounded_up"])
def test_pooling_that_is_rounded_up_is_one_operation(name: str) -> None:
    function, shape = FUNCTIONS[name]
    graph = from_torch(Whole(function).eval(), (torch.zeros(shape),))
    assert [node.op.name for node in graph.nodes if node.op.name != "input"] in (["max_pool"], ["avg_pool"])


def test_the_same_places_in_all_rows_are_slices() -> None:
    """By coordinates, every element would be a place of one axis of 65,536."""
    x = torch.zeros(1, 32, 64, 32)
    graph = from_torch(Whole(scattered).eval(), (x,))
    assert "scatter" in [node.op.name for node in graph.nodes]
    made = af.build_program(to_fp16(graph).graph, "m1")
    assert [layer.kind.name for layer in made.layers] == ["slice", "concat", "gather"]


@pytest.mark.parametrize(("rows", "legal"), [(127, True), (128, False)])
def test_coordinates_of_too_many_places_are_refused_at_every_door(rows: int, *, legal: bool) -> None:
    graph = to_fp16(from_torch(Whole(written_elements).eval(), (torch.zeros(1, rows, 128, 2),))).graph
    verdict = af.preflight(graph, "m1")
    assert verdict.ok is legal
    found = [one.rule for one in verdict.findings if one.severity is Severity.REJECT]
    assert found == ([] if legal else ["ANE-SCATTER-001"])
    if legal:
        assert af.build_program(graph, "m1").layers
    else:
        with pytest.raises(IllegalGraphError, match="ANE-SCATTER-001"):
            af.build_program(graph, "m1")


@pytest.mark.parametrize("shape", [(2, 8), (1, 8, 9000), (1, 8, 2, 3, 4)])
def test_groups_of_other_ranks_are_normalised_as_images(shape: tuple[int, ...]) -> None:
    """By hand, a group would be one axis of 18,000 elements, which is longer than the first chips take."""
    module, x = torch.nn.GroupNorm(4, 8).eval(), torch.randn(shape, generator=torch.Generator().manual_seed(1))
    graph = from_torch(module, (x,))
    assert "group_norm" in [node.op.name for node in graph.nodes]
    assert af.preflight(to_fp16(graph).graph, "m1").ok
    (result,) = af.reference(graph, dict.fromkeys(graph.inputs, x.numpy())).values()
    np.testing.assert_allclose(result, expected(module, (x,))[0].detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("slopes", "op"), [(1, "leaky_relu"), (4, "prelu")])
def test_known_slopes_are_one_operation(slopes: int, op: str) -> None:
    graph = from_torch(torch.nn.PReLU(slopes).eval(), (torch.zeros(1, 4, 9, 10),))
    assert [node.op.name for node in graph.nodes] == ["input", op]


def test_infinite_values_stay_in_their_columns() -> None:
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    x[0, 0, 1, 1] = torch.inf
    graph = from_torch(Whole(columns).eval(), (x,))
    (result,) = af.reference(graph, dict.fromkeys(graph.inputs, x.numpy())).values()
    np.testing.assert_array_equal(result, columns(x).numpy())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_recurrent_network_compiles_for_all_families(kind: type[torch.nn.RNNBase], *, bidirectional: bool) -> None:
    torch.manual_seed(2)
    module, x = kind(4, 5, num_layers=2, bidirectional=bidirectional).eval(), torch.randn(6, 2, 4)  # pyright: ignore[reportCallIssue] - the base class names its mode first
    graph = from_torch(module, (x,))
    wanted = expected(module, (x,))[0].detach().numpy()
    result = next(iter(af.reference(graph, dict.fromkeys(graph.inputs, x.numpy())).values()))
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
    assert [entry.reasons for entry in af.compile_matrix(graph).entries] == [()] * 4
    program = af.build_program(to_fp16(graph).graph, "m1")
    found = af.run(program, dict.fromkeys(graph.inputs, x.numpy().astype(np.float16))).outputs
    np.testing.assert_allclose(next(iter(found.values())), wanted, atol=0.01)


def test_a_bilinear_layer() -> None:
    torch.manual_seed(1)
    module, inputs = torch.nn.Bilinear(3, 4, 5).eval(), (torch.randn(2, 3), torch.randn(2, 4))
    graph = from_torch(module, inputs)
    feeds = dict(zip(graph.inputs, (one.numpy() for one in inputs), strict=True))
    (result,) = af.reference(graph, feeds).values()
    np.testing.assert_allclose(result, expected(module, inputs)[0].numpy(), rtol=1e-5, atol=1e-6)
    assert [entry.reasons for entry in af.compile_matrix(graph).entries] == [()] * 4
