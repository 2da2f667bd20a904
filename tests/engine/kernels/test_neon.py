"""The path of 64-bit Arm processors, compiled for them and run under emulation, bit for bit against the golden model.

It needs Debian's packages gcc-aarch64-linux-gnu and qemu-user. The bindings are those of this machine; only their calls
go to the emulated library, with copies of what they point to.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.array_utils import byte_bounds

import native_build as build
from aneforge.engine import golden, planar, quantised
from aneforge.engine import reductions as golden_reductions
from aneforge.engine.choices import choices
from aneforge.engine.kernels import convolution, distances, elements, matmul, reductions
from aneforge.engine.rounding import to_fp16
from kernel_checks import assert_same_bits, biases, tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
FUNCTIONS = [
    "aneforge_run_matmul",
    "aneforge_run_convolution",
    "aneforge_run_reduce",
    "aneforge_from_float",
    "aneforge_from_double",
    "aneforge_lookup",
    "aneforge_run_pairs",
    "aneforge_run_distances",
    "aneforge_largest_magnitude",
    "aneforge_run_norm",
    "aneforge_path",
]
NUMBER, ADDRESS, RESULT, NOTHING = range(4)
EXTENT = st.one_of(st.integers(1, 20), st.integers(1, 70))

pytestmark = [
    pytest.mark.skipif(platform.machine() == "aarch64", reason="this processor has the path itself"),
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
        reason=f"{COMPILER} and {EMULATOR} are not installed (Debian: gcc-aarch64-linux-gnu, qemu-user)",
    ),
]


@dataclass
class Emulated:
    """A library in an emulated process; stands for `library.call` and `library.address`."""

    sent: IO[bytes]
    answers: IO[bytes]
    path: int = 0
    threads: int = 2
    arrays: dict[int, Array] = field(default_factory=dict[int, Array])

    def address(self, array: Array) -> ctypes.c_void_p:
        """Return where an array lies, and remember it."""
        self.arrays[array.ctypes.data] = array
        return ctypes.c_void_p(array.ctypes.data)

    def call(self, name: str, *arguments: Any) -> bool:  # noqa: ANN401 - whatever the bindings pass to C
        """Send one call with all that it points to, and put its result where it belongs."""
        given = list(arguments)
        if hasattr(given[0], "_obj"):  # a structure by reference
            whole = given[0]._obj  # noqa: SLF001 - the only way to what byref refers to
            given = [self.typed(getattr(whole, name), kind) for name, kind in whole._fields_]
        places = [one.value for one in given if isinstance(one, ctypes.c_void_p) and one.value is not None]
        out = self.arrays[places[-1]]
        data = b""
        words: list[int] = []
        for one in given:
            kind, value = NUMBER, one.value
            if isinstance(one, ctypes.c_void_p):
                kind, value, data = self.copied(one, out, data)
            words += [kind, value]
        answer = self.answered(name, words, len(given), data, out.nbytes)
        out[...] = np.frombuffer(answer, out.dtype).reshape(out.shape)
        self.arrays.clear()
        return True

    @staticmethod
    def typed(value: Any, kind: type[Any]) -> Any:  # noqa: ANN401 - ctypes' own types
        """Return a field of a structure in its C type."""
        return kind(value)

    def copied(self, pointer: ctypes.c_void_p, out: Array, data: bytes) -> tuple[int, int, bytes]:
        """Return the kind of a pointer, its place in the data, and the data with what it points to."""
        if pointer.value is None:
            return NOTHING, 0, data
        array = self.arrays[pointer.value]
        if array is out:
            return RESULT, 0, data
        low, high = byte_bounds(array)
        data += b"\0" * (-len(data) % 64)
        return ADDRESS, len(data) + pointer.value - low, data + ctypes.string_at(low, high - low)

    def answered(self, name: str, words: list[int], count: int, data: bytes, size: int) -> bytes:
        """Send words and data, and return the result."""
        head = [FUNCTIONS.index(name), self.path, self.threads, count, *words, len(data), size]
        self.sent.write(struct.pack(f"<{len(head)}q", *head) + data)
        self.sent.flush()
        (status,) = struct.unpack("<q", self.answers.read(8))
        assert status == 0
        return self.answers.read(size)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """Compile the library for the other processor and start it."""
    folder = tmp_path_factory.mktemp("aarch64")
    toolchain = build.Toolchain(COMPILER, "aarch64")
    objects = build.compile_objects(build.KERNELS, toolchain, folder)
    driver = folder / "driver"
    source = Path(__file__).with_name("driver.c")
    toolchain.run(
        *(
            "-static",
            "-pthread",
            f"-I{build.KERNELS.sources}",
            str(source),
            *map(str, objects),
            "-lm",
            "-o",
            str(driver),
        )
    )
    with subprocess.Popen(
        [shutil.which(EMULATOR) or EMULATOR, str(driver)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        yield Emulated(running.stdin, running.stdout)
        running.stdin.close()


@pytest.fixture(scope="module", params=[0, 1], ids=["neon", "portable"])
def emulated(process: Emulated, request: pytest.FixtureRequest) -> Iterator[Emulated]:
    """Send the calls of all bindings to one path of the emulated library."""
    process.path = request.param
    with pytest.MonkeyPatch.context() as patch:
        for module in (matmul, convolution, distances, elements, reductions):
            patch.setattr(module, "available", lambda: True)
            patch.setattr(module, "address", process.address)
            patch.setattr(module, "call", process.call)
        yield process


def test_the_paths_of_the_other_processor(process: Emulated) -> None:
    names: list[str] = []
    for process.path in range(3):
        names.append(process.answered("aneforge_path", [], 0, b"", 16).partition(b"\0")[0].decode())
    assert names == ["neon", "portable", ""]


@settings(max_examples=30, deadline=None)
@given(st.data(), st.tuples(EXTENT, EXTENT, EXTENT))
def test_products(emulated: Emulated, data: st.DataObject, extents: tuple[int, int, int]) -> None:
    del emulated
    rows, depth, columns = extents
    x, w = data.draw(tensors((rows, depth), (depth, columns)))
    bias = data.draw(biases((columns,)))
    with np.errstate(all="ignore"):
        assert_same_bits(matmul.matmul(x, w, bias), golden.matmul(x, w, bias))
        assert_same_bits(matmul.matmul(w.T, x.T), golden.matmul(w.T, x.T))


@pytest.mark.parametrize("scale", [0.02, 1.0, 20.0])
def test_deep_sums_and_bytes(emulated: Emulated, scale: float) -> None:
    del emulated
    generator = np.random.default_rng(1)
    x = (generator.standard_normal((9, 5000)) * scale).astype(np.float16)
    w = (generator.standard_normal((5000, 50)) * scale).astype(np.float16)
    assert_same_bits(matmul.matmul(x, w), golden.matmul(x, w))
    small = generator.integers(-128, 128, (2, 60, 60)).astype(np.int8)
    assert_same_bits(matmul.int8_matmul(*small), quantised.int8_matmul(*small))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), st.integers(1, 30))
def test_convolutions(
    emulated: Emulated, data: st.DataObject, groups: int, stride: int, dilation: int, width: int
) -> None:
    del emulated
    x, weight = data.draw(tensors((2, 4, 7, width + 4), (12, 4 // groups, 3, 2)))
    bias = data.draw(biases((12,)))
    window: golden.Window = {"stride": stride, "pad": [(2, 1), (0, 3)], "dilation": dilation, "groups": groups}
    with np.errstate(all="ignore"):
        assert_same_bits(
            convolution.convolution(x, weight, bias, **window), golden.convolution(x, weight, bias, **window)
        )
        gain, offset = np.linspace(-2, 3, 12), np.linspace(9, -30, 12)
        total = golden.convolution_sum(x, weight, **window).total()
        assert_same_bits(
            convolution.apply_gain_to_convolution(x, weight, gain, offset, **window),
            golden.apply_gain(total, gain.reshape(12, 1, 1), offset.reshape(12, 1, 1)),
        )


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 30))
def test_winograd(emulated: Emulated, data: st.DataObject, width: int) -> None:
    del emulated
    x, weight = data.draw(tensors((2, 3, 5, width), (9, 3, 3, 3)))
    bias = data.draw(biases((9,)))
    with np.errstate(all="ignore"):
        assert_same_bits(
            convolution.winograd_convolution(x, weight, bias), golden.winograd_convolution(x, weight, bias)
        )
        gain = np.linspace(-2, 3, 9)
        assert_same_bits(
            convolution.apply_gain_to_winograd(x, weight, gain, None),
            golden.apply_gain(golden.winograd_total(x, weight), gain.reshape(9, 1, 1), None),
        )


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_elements_and_reductions(emulated: Emulated, data: st.DataObject) -> None:
    del emulated
    x, y = data.draw(tensors((3, 300), (3, 300)))
    adder = choices().reduction.orders["early"]
    with np.errstate(all="ignore"):
        assert_same_bits(elements.add(x, y), planar.add(x, y))
        assert_same_bits(elements.mul(x, y[:1, :1]), planar.mul(x, y[:1, :1]))
        assert_same_bits(elements.maximum(x, y), planar.maximum(x, y))
        assert_same_bits(reductions.total(x, (1,), adder), golden_reductions.total(x, (1,), adder))
        assert_same_bits(
            reductions.largest(x, axes=(0,), keep_dims=True),
            golden_reductions.largest(x, axes=(0,), keep_dims=True),
        )
        shift = planar.read(golden_reductions.mean(x, (1,), adder))
        numbers = planar.read(x) - shift
        factor = shift[:1] / 4
        assert_same_bits(distances.compute_scaled_distances(x, shift, factor), to_fp16(numbers * factor))
        assert distances.largest_magnitude(x) == np.abs(planar.read(x)).max()
        assert_same_bits(elements.lookup(x, elements.table_of(np.negative)), -x.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conversions(emulated: Emulated, dtype: type[np.floating[Any]]) -> None:
    del emulated
    values = np.frombuffer(np.random.default_rng(0).bytes(400_000), dtype)
    ties = (np.arange(0, 70000) * 0.5).astype(dtype) * dtype(2.0**-10)
    with np.errstate(all="ignore"):
        for numbers in (values, ties, -ties * dtype(2.0**-15)):
            assert_same_bits(elements.to_fp16(numbers), to_fp16(numbers.astype(np.float64)))
