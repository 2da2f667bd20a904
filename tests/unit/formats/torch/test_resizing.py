"""Images are resized to the numbers that PyTorch gives, by sizes and by factors."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import aneforge as af
from aneforge.formats.shared.resizing import Along
from aneforge.formats.torch.operators.torch_resizing import SMALL_IMAGE, Nearest
from aneforge.formats.torch.torch_model import from_torch
from unit.formats.torch.block_checks import expected

NEAREST = ("nearest", "nearest-exact")
SMOOTH = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
FACTORS = (0.3, 0.6, 0.7, 1.05, 1.1, 1.2, 1.3, 1.7, 2.05, 2.2, 2.6, 3.3, 1 / 3, 4 / 3, 7.0, 49.0)
ONE_STEP = pytest.mark.skipif(
    not torch.backends.cpu.get_cpu_capability().startswith("AVX"),
    reason="PyTorch's kernels for this processor may round a product before they add to it",
)


class Resized(torch.nn.Module):
    """One tensor resized along its third axis by all factors, and to all sizes."""

    def __init__(self, mode: str, factors: tuple[float, ...], sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.mode, self.factors, self.sizes = mode, factors, sizes

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return all results."""
        rest = tuple(x.shape[3:])
        by_factor = [
            functional.interpolate(x, scale_factor=(one, *(1.0 for _ in rest)), mode=self.mode) for one in self.factors
        ]
        return by_factor + [functional.interpolate(x, size=(one, *rest), mode=self.mode) for one in self.sizes]


def column(length: int, rank: int, width: int = 2, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    shape = (1, 1, length, *(1 for _ in range(rank - 1)))
    return torch.arange(length, dtype=dtype).reshape(shape).repeat(1, 1, 1, *(width for _ in range(rank - 1)))


def check(module: Resized, x: torch.Tensor, tolerance: float = 0) -> None:
    found = af.reference(from_torch(module, x), [x.numpy()])
    for (name, one), wanted in zip(found.items(), expected(module, [x]), strict=True):
        assert one.shape == tuple(wanted.shape)
        message = f"{name} of {module.mode}, {x.shape[2]}"
        np.testing.assert_allclose(one, wanted.numpy(), rtol=0, atol=tolerance, err_msg=message)


@pytest.mark.parametrize("mode", NEAREST)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("length", [6, 20])
def test_the_nearest_elements_are_those_of_pytorch(mode: str, rank: int, length: int) -> None:
    """By 2.2 and 1.1, and from 6 to 74 and 20 to 44, a place is whole in exact numbers and below it in single ones."""
    check(Resized(mode, FACTORS, (1, 7, 12, 44, 74, 92)), column(length, rank))


@pytest.mark.parametrize("mode", NEAREST)
@pytest.mark.parametrize("width", [60, SMALL_IMAGE - 20, SMALL_IMAGE - 19], ids=str)
def test_images_on_either_side_of_the_smallest_large_one(mode: str, width: int) -> None:
    check(Resized(mode, (1.05, 2.05, 2.2), (20,)), column(20, 2, width))
    check(Resized(mode, (1.05,), ()), column(19, 2, width))


@pytest.mark.parametrize("mode", NEAREST)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.uint8], ids=str)
def test_the_nearest_elements_of_other_types(mode: str, dtype: torch.dtype) -> None:
    for rank, width in ((1, 1), (2, 2)):
        check(Resized(mode, (1.1, 2.2, 2.6, 3.7, 41.0), (44, 74)), column(20, rank, width, dtype))


@pytest.mark.parametrize("exact", [False, True], ids=NEAREST)
def test_places_of_many_lengths(exact: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Every length of a source, to lengths and by factors that are drawn from more."""
    reading = Nearest("nearest", "half_pixel" if exact else "asymmetric", small=True)
    for extent in range(1, 65):
        x = column(extent, 2, 1)
        for size in range(1 + extent % 7, 97, 7):
            wanted = functional.interpolate(x, size=(size, 1), mode=NEAREST[exact]).ravel()
            assert reading.nearest_places(Along(extent, size, size / extent)).tolist() == wanted.tolist(), (
                extent,
                size,
            )
        for factor in FACTORS[extent % 3 : -2 : 3]:
            size = int(extent * factor)
            if size:
                wanted = functional.interpolate(x, scale_factor=(factor, 1.0), mode=NEAREST[exact]).ravel()
                places = reading.nearest_places(Along(extent, size, factor))
                assert places.tolist() == wanted.tolist(), (extent, factor)


@ONE_STEP
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_middle_that_kernels_round_differently(rank: int) -> None:
    """Of 41 results from two elements the middle one is between them: a kernel each says 0 and 1."""
    check(Resized("nearest-exact", (), (41, 47, 55, 83)), column(2, rank))
    check(Resized("nearest-exact", (), (82, 94)), column(4, rank))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_lies_between_elements_is_as_in_pytorch(rank: int) -> None:
    """A length that stays is not moved by its factor's fraction, but in bicubic."""
    for mode in SMOOTH[rank]:
        check(Resized(mode, (0.7, 1.05, 2.2, 4 / 3), (1, 44)), column(20, rank), 1e-3)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_length_that_stays_without_aliases(mode: str) -> None:
    class Stays(torch.nn.Module):
        """An image with rows that stay and columns that get more."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Return it."""
            return functional.interpolate(x, scale_factor=(1.15, 1.4), mode=mode, antialias=True)

    x = column(6, 2, 5)
    found = af.reference(from_torch(Stays(), x), [x.numpy()])["y"]
    np.testing.assert_allclose(found, Stays()(x).numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", NEAREST)
def test_whole_factors_are_the_operation_of_the_table(mode: str) -> None:
    factors = (*range(2, 17), 31, 40)
    graph = from_torch(Resized(mode, tuple(map(float, factors)), tuple(3 * one for one in factors)), column(3, 2, 3))
    assert {one.op.name for one in graph.nodes} == {"input", "resize_nearest_neighbor"}


@pytest.mark.parametrize("factor", [0.0, -2.0, float("nan"), 1e-300, float("inf")], ids=str)
@pytest.mark.parametrize("operator", ["upsample_nearest1d", "_upsample_nearest_exact1d"])
def test_factors_that_are_none_or_beyond_measure(operator: str, factor: float) -> None:
    """Sizes count where a factor is not above 0. One that is next to nothing moves all but the start to the end."""

    class Made(torch.nn.Module):
        """One operator with a factor that is not that of the lengths."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Return its result."""
            return getattr(torch.ops.aten, operator).default(x, [7], factor)

    x = column(4, 1)
    found = af.reference(from_torch(Made(), x), [x.numpy()])["y"]
    if factor == 1e-300:
        assert found.ravel().tolist() == [0.0 if operator == "upsample_nearest1d" else 3.0, *[3.0] * 6]
    else:
        np.testing.assert_array_equal(found, Made()(x).numpy())
