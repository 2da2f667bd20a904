"""Devices that run plans: NVIDIA GPUs through CuPy, found when one is asked for.

Kernels are compiled by NVRTC the first time and kept next to compiled programs. What stands in the way is said in one
sentence with its remedy (`obstacle`).
"""

from __future__ import annotations

import hashlib
import importlib
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast
from weakref import WeakKeyDictionary

import numpy as np

from aneforge.engine.cuda.plans import Address, HostStep
from aneforge.engine.cuda.sources import source
from aneforge.errors import BackendUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from aneforge.engine.cuda.plans import Buffer, Launch, Plan
    from aneforge.engine.cuda.tensors import Tensor

    Array = npt.NDArray[Any]

__all__ = ["CudaDevice", "Device", "Loaded", "device_facts", "obstacle", "pack", "too_little_memory"]

OPTIONS = ("--std=c++17", "--fmad=false", "-default-device")
LEAST_CAPABILITY = (7, 0)
"""Compute capability of the first chips with fp16 comparisons of pairs and fp64 arithmetic that these kernels use."""
INSTALL = 'pip install "aneforge-open[cuda13]" for a driver of CUDA 13, "aneforge-open[cuda]" for CUDA 12, not both'


class Loaded(Protocol):
    """A plan on a device, ready to run many times."""

    def start(self, inputs: Mapping[str, Array]) -> None:
        """Begin a run, and do not wait for the device; inputs have an axis of samples. Layers on the host do run."""
        ...

    def finish(self) -> tuple[dict[str, Array], list[Array]]:
        """Wait for the run; return outputs and states by name, and what was noted, buffer by buffer."""
        ...

    def release(self) -> None:
        """Give its memory back."""
        ...


class Device(Protocol):
    """Something that runs plans."""

    def load(self, plan: Plan) -> Loaded:
        """Make a plan ready to run."""
        ...

    def free_memory(self) -> int:
        """Return how many bytes a plan may take."""
        ...

    def needed_memory(self, plan: Plan) -> int:
        """Return how many bytes a plan takes in addition to what is there already."""
        ...


def pack(launch: Launch, address_of: Mapping[Buffer, int]) -> bytes:
    """Return the struct that a kernel takes."""
    parts: list[bytes] = []
    for one in launch.arguments:
        if isinstance(one, Address):
            parts.append(struct.pack("<Q", address_of[one.buffer] + one.offset))
        else:
            parts.append(struct.pack("<d" if isinstance(one, float) else "<q", one))
    return b"".join(parts)


@cache
def obstacle() -> str | None:  # noqa: PLR0911 - one obstacle after the other
    """Return why no GPU can be used here, with what helps; None where one can."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return f"CuPy is not installed; {INSTALL}"
        return f"CuPy cannot be loaded ({first_line(error)}); it belongs to another version of CUDA: {INSTALL}"
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:  # noqa: BLE001 - CuPy's own errors, which are known only once it is loaded
        return (
            f"CUDA cannot be used ({first_line(error)}); install NVIDIA's driver, or the CuPy of the driver's version: "
            f"{INSTALL}"
        )
    if count == 0:
        return 'there is no NVIDIA GPU; the backend "software" computes the same bits on the CPU'
    try:
        major, minor = divmod(int(cupy.cuda.Device().compute_capability), 10)
        version = cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # noqa: BLE001 - as above
        return f"NVRTC, which compiles the kernels, cannot be used ({first_line(error)}); {INSTALL}"
    if (major, minor) < LEAST_CAPABILITY:
        return (
            f"the GPU has compute capability {major}.{minor}, and the kernels need {LEAST_CAPABILITY[0]}.0: "
            f"fp64 arithmetic and comparisons of fp16 pairs"
        )
    runtime, driver = int(cupy.cuda.runtime.runtimeGetVersion()), int(cupy.cuda.runtime.driverGetVersion())
    if driver // 1000 < runtime // 1000:
        return (
            f"CuPy is of CUDA {runtime // 1000} (NVRTC {version[0]}.{version[1]}) and the driver of CUDA "
            f"{driver // 1000}; {INSTALL}"
        )
    return None


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def device_facts() -> dict[str, str]:
    """Return what benchmarks, logs and `doctor` say of a device: its name, the driver, CUDA and CuPy.

    A card with few fp64 units computes the same bits: only what goes in float64 is slower there.
    """
    cupy = importlib.import_module("cupy")
    device = cupy.cuda.Device()
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    ratio = device.attributes.get("SingleToDoublePrecisionPerfRatio")
    driver, runtime = (int(getattr(cupy.cuda.runtime, f"{one}GetVersion")()) for one in ("driver", "runtime"))
    return {
        "device": cast("bytes", properties["name"]).decode(),
        "driver": f"CUDA {driver // 1000}.{driver % 1000 // 10}",
        "runtime": f"CUDA {runtime // 1000}.{runtime % 1000 // 10}",
        "cupy": str(cupy.__version__),
        "multiprocessors": str(properties["multiProcessorCount"]),
        "memory": f"{properties['totalGlobalMem'] / 2**30:.0f} GiB",
        "fp64": "a rate that is not known" if ratio is None else f"1/{int(ratio)} of the rate of fp32",
    }


def too_little_memory(samples: int, needed: int, free: int) -> BackendUnavailableError:
    """Return the error for a plan that does not fit."""
    return BackendUnavailableError(
        f"the GPU has too little memory for {samples} samples" if samples > 1 else "the GPU has too little memory",
        seen=f"{needed:,} bytes for a sample" if samples == 1 else f"{needed:,} bytes",
        limit=f"{free:,} bytes",
        remedy="run a smaller batch, free memory of other processes, or use the backend 'software'",
    )


class CudaDevice:
    """A GPU through CuPy.

    Raises:
        BackendUnavailableError: There is none that can be used.
    """

    def __init__(self, cache_folder: Path | None = None) -> None:
        said = obstacle()
        if said is not None:
            raise BackendUnavailableError(f"no GPU can be used: {said}")
        self.cupy: Any = importlib.import_module("cupy")
        self.folder = cache_folder
        self.module = self.compiled()
        self.kernels: dict[str, Any] = {}
        self.constants: WeakKeyDictionary[Buffer, Any] = WeakKeyDictionary()

    def compiled(self) -> Any:  # noqa: ANN401 - CuPy has no types
        """Return the kernels, compiled for this GPU the first time."""
        cupy = self.cupy
        text = source()
        if self.folder is None:
            return cupy.RawModule(code=text, options=OPTIONS, backend="nvrtc")
        version = cupy.cuda.nvrtc.getVersion()
        capability = cupy.cuda.Device().compute_capability
        told = f"{text}\n{OPTIONS}\n{version}\n{capability}"
        file = self.folder / f"kernels-{hashlib.sha256(told.encode()).hexdigest()[:24]}.cubin"
        if not file.exists():
            nvrtc = cupy.cuda.nvrtc
            program = nvrtc.createProgram(text, "aneforge.cu", (), ())
            try:
                nvrtc.compileProgram(program, (*OPTIONS, f"--gpu-architecture=sm_{capability}"))
                content = nvrtc.getCUBIN(program)
            finally:
                nvrtc.destroyProgram(program)
            self.folder.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{np.random.default_rng().integers(2**32):08x}")
            part.write_bytes(content)
            part.replace(file)
        return cupy.RawModule(path=str(file))

    def kernel(self, name: str) -> Any:  # noqa: ANN401 - as above
        """Return a kernel by its name."""
        if name not in self.kernels:
            self.kernels[name] = self.module.get_function(name)
        return self.kernels[name]

    def free_memory(self) -> int:
        """Return how many bytes a plan may take: nine tenths of what is free."""
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        pool = self.cupy.get_default_memory_pool()
        return (int(free) + int(pool.free_bytes())) * 9 // 10

    def needed_memory(self, plan: Plan) -> int:
        """Return how many bytes a plan takes in addition to the constants that are there already."""
        new = sum(buffer.nbytes for buffer in plan.constants() if buffer not in self.constants)
        return plan.places()[1] + new

    def constant(self, buffer: Buffer) -> Any:  # noqa: ANN401 - as above
        """Return a constant on the device, uploaded once."""
        if buffer not in self.constants:
            assert buffer.content is not None  # noqa: S101 - a constant has one
            content = np.frombuffer(buffer.content.tobytes() or b"\0", np.uint8)
            self.constants[buffer] = self.cupy.asarray(content)
        return self.constants[buffer]

    def load(self, plan: Plan) -> Loaded:
        """Make a plan ready to run.

        Raises:
            BackendUnavailableError: The memory does not suffice.
        """
        return CudaPlan(self, plan)


class CudaPlan:
    """A plan on a GPU: launches are captured into graphs between the steps of the host."""

    def __init__(self, device: CudaDevice, plan: Plan) -> None:
        self.device, self.plan = device, plan
        cupy = device.cupy
        places, length = plan.places()
        try:
            constants = {buffer: device.constant(buffer) for buffer in plan.constants()}
            cupy.cuda.get_current_stream().synchronize()  # they come on another stream than the launches
            self.arena: Any = cupy.empty(max(length, 1), cupy.uint8)
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise too_little_memory(plan.samples, device.needed_memory(plan), device.free_memory()) from error
        base = int(self.arena.data.ptr)
        self.addresses = {buffer: base + place for buffer, place in places.items()}
        self.addresses |= {buffer: int(array.data.ptr) for buffer, array in constants.items()}
        self.places = places
        self.stream: Any = cupy.cuda.Stream(non_blocking=True)
        self.parts = self.capture_graphs()

    def capture_graphs(self) -> list[Any]:
        """Return graphs of launches, with the steps of the host between them."""
        parts: list[Any] = []
        launches: list[Launch] = []
        for item in [*self.plan.items, None]:
            if item is not None and not isinstance(item, HostStep):
                launches.append(item)
                continue
            if launches:
                parts.append(self.graph(launches))
                launches = []
            if item is not None:
                parts.append(item)
        return parts

    def graph(self, launches: Sequence[Launch]) -> Any:  # noqa: ANN401 - CuPy has no types
        """Return launches as one graph."""
        for launch in launches:
            self.device.kernel(launch.kernel)  # loaded before capture begins
        with self.stream:
            self.stream.begin_capture()
            try:
                for launch in launches:
                    self.launch(launch)
            finally:
                graph = self.stream.end_capture()
        return graph

    def launch(self, launch: Launch) -> None:
        """Launch a kernel on the stream."""
        content = pack(launch, self.addresses)
        argument = np.frombuffer(content, np.dtype((np.void, len(content))))[0]
        self.device.kernel(launch.kernel)(launch.grid, (launch.width,), (argument,), shared_mem=launch.memory)

    def view(self, tensor: Tensor) -> Any:  # noqa: ANN401 - as above
        """Return a tensor of the plan as an array of CuPy, samples first; types that CuPy does not have as bytes."""
        count = tensor.size * self.plan.samples * tensor.dtype.itemsize
        begin = self.places[tensor.buffer] + tensor.first * tensor.dtype.itemsize
        flat = self.arena[begin : begin + count].view(stored_dtype(tensor))
        return flat.reshape(self.plan.samples, *tensor.shape)

    def start(self, inputs: Mapping[str, Array]) -> None:
        """Begin a run: one upload, the graphs."""
        with self.stream:
            for name, tensor in self.plan.inputs.items():
                if tensor.buffer in self.places and tensor.size:
                    given = np.ascontiguousarray(inputs[name], tensor.dtype).view(stored_dtype(tensor))
                    self.view(tensor).set(given, stream=self.stream)
            for part in self.parts:
                if isinstance(part, HostStep):
                    self.on_host(part)
                else:
                    part.launch(self.stream)

    def finish(self) -> tuple[dict[str, Array], list[Array]]:
        """Wait for the run: one download."""
        cupy, plan = self.device.cupy, self.plan
        with self.stream:
            outputs = {
                name: self.download(tensor)
                for name, tensor in (
                    *plan.outputs.items(),
                    *((f"state {name}", one) for name, one in plan.states.items()),
                )
            }
            notes = [
                cupy.asnumpy(self.arena[self.places[one] : self.places[one] + one.nbytes], stream=self.stream)
                for one in plan.findings
            ]
            self.stream.synchronize()
        return outputs, notes

    def download(self, tensor: Tensor) -> Array:
        """Return a tensor on the host."""
        if tensor.size == 0:
            return np.zeros((self.plan.samples, *tensor.shape), tensor.dtype)
        return self.device.cupy.asnumpy(self.view(tensor), stream=self.stream).view(tensor.dtype)

    def on_host(self, step: HostStep) -> None:
        """Run a step on the host, for every sample."""
        operands = [self.download(one) for one in step.operands]
        self.stream.synchronize()
        results: list[list[Array]] = [[] for _ in step.results]
        for sample in range(self.plan.samples):
            for place, array in enumerate(step.compute([one[sample] for one in operands])):
                results[place].append(array)
        for tensor, arrays in zip(step.results, results, strict=True):
            if tensor.size:
                given = np.ascontiguousarray(np.stack(arrays), tensor.dtype).view(stored_dtype(tensor))
                self.view(tensor).set(given, stream=self.stream)
        self.stream.synchronize()

    def release(self) -> None:
        """Give its memory back, once nothing runs in it."""
        self.stream.synchronize()
        self.parts = []
        self.arena = None


def stored_dtype(tensor: Tensor) -> np.dtype[Any]:
    """Return the type in which a device holds a tensor: integers of four bits are bytes."""
    return np.dtype(np.uint8) if tensor.dtype.kind == "V" else tensor.dtype
