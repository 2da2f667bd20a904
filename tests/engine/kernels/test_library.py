"""Where the library comes from, what happens without it, and what may be set."""

from __future__ import annotations

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from aneforge.engine import golden, planar, pooling, quantised
from aneforge.engine import reductions as golden_reductions
from aneforge.engine.choices import choices
from aneforge.engine.kernels import elements, library, reductions
from aneforge.engine.kernels.convolution import (
    convolution,
    convolution_total,
    int8_convolution,
    winograd_convolution,
    winograd_total,
)
from aneforge.engine.kernels.matmul import int8_matmul, matmul, matmul_total
from aneforge.engine.rounding import to_fp16
from aneforge.errors import GraphError, UnknownNameError
from kernel_checks import assert_same_bits, needs_kernels, on_every_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.ops.groups.pooling import PoolAttributes

Array = npt.NDArray[Any]


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the library away, as on a machine without a compiler."""
    monkeypatch.setattr(library, "PATH", Path("nowhere.so"))
    for cached in (library.library, library.paths, library.warn_once):
        cached.cache_clear()
    yield
    for cached in (library.library, library.paths, library.warn_once):
        cached.cache_clear()


def test_without_the_library_one_warning_and_the_golden_model(no_library: None) -> None:
    del no_library
    x, w = np.full((2, 3), 1.5, np.float16), np.full((3, 2), 0.25, np.float16)
    with pytest.warns(library.MissingKernelsWarning, match=r"not built.*Remedy: install a C compiler") as caught:
        assert_same_bits(matmul(x, w, np.ones(2)), golden.matmul(x, w, np.ones(2)))
    assert caught[0].filename == __file__
    assert library.paths() == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_everything(x, w)


def run_everything(x: Array, w: Array) -> None:
    """Call every kernel and compare it with the golden model."""
    assert matmul_total(x, w).tolist() == golden.matmul_sum(x, w).total().tolist()
    images, kernels = x.reshape(1, 2, 1, 3), np.ones((2, 2, 1, 1), np.float16)
    square = np.ones((1, 2, 3, 3), np.float16)
    assert_same_bits(convolution(images, kernels), golden.convolution(images, kernels))
    assert convolution_total(images, kernels).tolist() == golden.convolution(images, kernels).tolist()
    assert_same_bits(winograd_convolution(images, square), golden.winograd_convolution(images, square))
    assert winograd_total(images, square).tolist() == golden.winograd_total(images, square).tolist()
    assert winograd_total(images[:0], square).shape == (0, 1, 1, 3)
    small = np.ones((2, 2), np.int8)
    assert_same_bits(int8_matmul(small, small), quantised.int8_matmul(small, small))
    assert int8_convolution(small[None], small[:, :, None]).tolist() == [[[2.0, 2.0], [2.0, 2.0]]]
    wide = np.array([2049.0, 1e-9])
    assert_same_bits(elements.to_fp16(wide), to_fp16(wide))
    assert_same_bits(elements.lookup(x, elements.table_of(np.negative)), -x)
    assert_same_bits(elements.add(x, x), planar.add(x, x))
    adder = choices().reduction.orders["early"]
    assert_same_bits(reductions.total(x, (1,), adder), golden_reductions.total(x, (1,), adder))
    for of in (reductions.Of.MAGNITUDES, reductions.Of.SQUARES):
        assert reductions.accumulate(x, (0,), adder, of).shape == (1, 3)
    assert_same_bits(reductions.largest(x, axes=None, keep_dims=True), x[:1, :1])
    window: PoolAttributes = {"kernel_sizes": (1, 2), "strides": None, "pad_type": "valid", "pad": None}
    assert_same_bits(reductions.max_pool(images, **window), pooling.largest(images, **window))
    assert_same_bits(reductions.average_pool(images, adder, **window), pooling.average(images, adder, window))


@on_every_path
def test_every_kernel_on_every_path(path: str) -> None:
    with library.using(path=path, threads=2):
        run_everything(np.full((2, 3), 1.5, np.float16), np.full((3, 2), 0.25, np.float16))


def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    library.library.cache_clear()
    monkeypatch.setattr(library, "INTERFACE", -1)
    assert library.library() is None
    library.library.cache_clear()


def test_a_file_that_is_no_library_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_text("no library")
    library.library.cache_clear()
    monkeypatch.setattr(library, "PATH", tmp_path / "broken.so")
    assert library.library() is None
    with pytest.raises(RuntimeError, match="not built"):
        library.call("aneforge_lookup")
    library.library.cache_clear()


@needs_kernels
def test_settings_hold_within_their_block() -> None:
    assert library.paths()[-1] == "portable"
    with library.using(path="portable", threads=3) as settings:
        assert library.CURRENT.get() is settings
    assert library.CURRENT.get() == library.Settings()


@needs_kernels
def test_settings_that_do_not_exist() -> None:
    with (
        pytest.raises(UnknownNameError, match="unknown path of the kernels 'portables'; nearest: portable"),
        library.using(path="portables"),
    ):
        pass
    with pytest.raises(GraphError, match="one thread at least"), library.using(threads=0):
        pass


@needs_kernels
def test_calls_from_many_threads_take_turns() -> None:
    generator = np.random.default_rng(0)
    lefts = [generator.standard_normal((90, 90)).astype(np.float16) for _ in range(16)]
    rights = [generator.standard_normal((90, 90)).astype(np.float16) for _ in range(16)]
    expected = [golden.matmul(x, w) for x, w in zip(lefts, rights, strict=True)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(matmul, lefts, rights))
    for found, wanted in zip(results, expected, strict=True):
        assert_same_bits(found, wanted)


FORK = """
import os, sys, numpy
from aneforge.engine.kernels.library import using
from aneforge.engine.kernels.matmul import matmul
x = numpy.ones((200, 200), numpy.float16)
with using(threads=3):
    expected = matmul(x, x).tobytes()
    child = os.fork()
    if child == 0:
        os._exit(matmul(x, x).tobytes() != expected)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@needs_kernels
def test_a_child_process_has_threads_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)
