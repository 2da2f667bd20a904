"""A module in the place of CuPy, without a GPU: memory that runs out, streams that capture, launches by the emulation.

Launches run as late as a stream may leave them: when it is waited for, or when something is downloaded on it.
What `engine.cuda.device` asks of CuPy is here and no more, so that its own code runs in tests.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from cuda_emulation import library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["FakeCuPy", "Machine"]

Answer = TypeVar("Answer")


@dataclass
class Machine:
    """What a machine has."""

    count: int = 1
    capability: str = "90"
    driver: int = 13000
    runtime: int = 13000
    ratio: int = 2
    memory: int = 2**30
    fails: str = ""
    """What cannot be asked: the driver, or NVRTC."""

    def ask(self, what: str, answer: Answer) -> Answer:
        """Return an answer, or fail as CuPy does."""
        if what == self.fails:
            raise RuntimeError("cudaErrorInsufficientDriver: driver version is insufficient\nmore")
        return answer


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


class FakeArray(np.ndarray[Any, Any]):
    """Memory of the device."""

    @property
    def data(self) -> SimpleNamespace:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Where it lies."""
        return SimpleNamespace(ptr=self.ctypes.data)

    def set(self, values: Array, stream: Stream) -> None:
        """Upload what is there now, after what the stream has to do."""
        assert stream.entered
        held = values.copy()
        stream.log.append(("upload", stream))
        stream.waiting.append(lambda: self.__setitem__(..., held))


class Graph:
    """Launches that were captured."""

    def __init__(self, launches: Sequence[Callable[[], None]]) -> None:
        self.launches = launches

    def launch(self, stream: Stream) -> None:
        """Have a stream run them."""
        assert stream.entered
        stream.waiting += self.launches


class Stream:
    """A queue of launches, which are kept while it captures."""

    current: Stream
    """The one that was entered last."""

    def __init__(self, log: list[tuple[str, Stream]]) -> None:
        self.log = log
        self.entered = 0
        self.waiting: list[Callable[[], None]] = []
        self.captured: list[Callable[[], None]] | None = None

    def __enter__(self) -> Self:
        self.entered += 1
        Stream.current = self
        return self

    def __exit__(self, *_: object) -> None:
        self.entered -= 1

    def begin_capture(self) -> None:
        """Keep launches from now on."""
        assert self.captured is None
        self.captured = []

    def end_capture(self) -> Graph:
        """Return what was kept."""
        launches, self.captured = self.captured or [], None
        return Graph(launches)

    def synchronize(self) -> None:
        """Wait, which a stream that captures cannot."""
        assert self.captured is None
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one()


class FakeCuPy:
    """The module."""

    uint8 = np.uint8
    __version__ = "14.0"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.used = 0
        self.log: list[tuple[str, Stream]] = []
        attributes = {"SingleToDoublePrecisionPerfRatio": machine.ratio}
        device = SimpleNamespace(id=0, compute_capability=machine.capability, attributes=attributes)
        runtime = SimpleNamespace(
            getDeviceCount=lambda: machine.ask("driver", machine.count),
            driverGetVersion=lambda: machine.driver,
            runtimeGetVersion=lambda: machine.runtime,
            memGetInfo=lambda: (machine.memory - self.used, machine.memory),
            getDeviceProperties=self.properties,
        )
        self.cuda = SimpleNamespace(
            Device=lambda: device,
            Stream=lambda **_: Stream(self.log),  # pyright: ignore[reportUnknownLambdaType]
            get_current_stream=lambda: Stream(self.log),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            nvrtc=SimpleNamespace(getVersion=lambda: machine.ask("nvrtc", (13, 0))),
            runtime=runtime,
        )

    def properties(self, number: int) -> dict[str, object]:
        """Return what a device says of itself."""
        assert number == 0
        return {"name": b"Emulated", "multiProcessorCount": 132, "totalGlobalMem": self.machine.memory}

    def get_default_memory_pool(self) -> SimpleNamespace:
        """Return a pool that keeps nothing."""
        return SimpleNamespace(free_bytes=lambda: 0)

    def empty(self, count: int, dtype: type) -> FakeArray:
        """Take memory, which holds garbage."""
        if self.used + count > self.machine.memory:
            raise OutOfMemoryError
        found = np.full(count, 0xA5, dtype).view(FakeArray)
        self.used += count
        weakref.finalize(found, self.free, count)
        return found

    def free(self, count: int) -> None:
        """Give memory back."""
        self.used -= count

    def asarray(self, content: Array) -> FakeArray:
        """Upload bytes."""
        found = self.empty(content.nbytes, np.uint8)
        found[...] = content
        return found

    def asnumpy(self, array: FakeArray, stream: Stream) -> Array:
        """Download."""
        assert stream.entered
        stream.synchronize()
        self.log.append(("download", stream))
        return np.array(array)

    def RawModule(self, **_: object) -> SimpleNamespace:  # noqa: N802 - CuPy's name
        """Return the kernels."""
        return SimpleNamespace(get_function=self.function)

    def function(self, name: str) -> Callable[..., None]:
        """Return a kernel, which must be launched while a stream captures."""

        def launch(grid: Sequence[int], block: Sequence[int], arguments: Sequence[np.void], shared_mem: int) -> None:
            assert shared_mem >= 0
            content = arguments[0].tobytes()
            assert Stream.current.captured is not None
            Stream.current.captured.append(
                lambda: getattr(library(), name)(content, *(ctypes.c_int64(one) for one in (*grid, *block)))
            )

        return launch
