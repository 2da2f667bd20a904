"""Programs on an NVIDIA GPU: the software engine's bits, for many samples at a time.

The kernels and what is known of the device are in `engine.cuda`, loaded when the backend is asked for.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.execution.run import engine_element, prepare
from aneforge.records import dataclass
from aneforge.runtime.executables import Execution, HostBuffers
from aneforge.runtime.saved.cache import program_cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.engine.cuda.device import CudaDevice, Device
    from aneforge.engine.cuda.executable import DeviceExecutable
    from aneforge.engine.exactness import Label
    from aneforge.engine.execution.run import Executable as Prepared
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array, TensorType

__all__ = ["CudaBackend", "CudaEngine"]


@cache
def this_gpu() -> CudaDevice:
    """Return the GPU of this process; its kernels are kept next to compiled programs."""
    from aneforge.engine.cuda.device import CudaDevice  # noqa: PLC0415 - loaded when a GPU is asked for

    return CudaDevice(program_cache().folder.with_name("kernels"))


class CudaEngine(HostBuffers):
    """A program on a GPU."""

    def __init__(self, program: Program, device: Device | None = None) -> None:
        self.program = program
        self.given = device

    @cached_property
    def ready(self) -> Prepared:
        """The program with everything done that depends only on it, as on the CPU."""
        return prepare(self.program, codes=False)

    @cached_property
    def machine(self) -> DeviceExecutable:
        """The program on the device, once it is first needed."""
        from aneforge.engine.cuda.executable import DeviceExecutable  # noqa: PLC0415 - as above

        return DeviceExecutable(self.ready, this_gpu() if self.given is None else self.given)

    @property
    def label(self) -> Label:
        """How sure its numbers are, before any value goes in."""
        return self.ready.label

    def host_layers(self) -> tuple[str, ...]:
        """Return the layers that have no kernels and run on the host, each with the reason."""
        return self.machine.on_host

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""
        return engine_element(kind)

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once."""
        found = self.execute_many({name: np.asarray(one)[None] for name, one in inputs.items()}, states)
        return Execution({name: one[0] for name, one in found.outputs.items()}, found.states, found.label)

    def execute_many(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run samples, which come with an axis before those of a port; outputs have it too, states are the last."""
        found = self.machine.run_many(inputs, states)
        return Execution(found.outputs, {name: one[-1] for name, one in found.states.items()}, found.label)

    def release(self) -> None:
        """Give the memory of the device and the decoded constants back."""
        if "machine" in vars(self):
            self.machine.release()
        for name in ("machine", "ready"):
            vars(self).pop(name, None)


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """The software engine on an NVIDIA GPU."""

    name: str = "cuda"
    title: str = "software engine on an NVIDIA GPU: the same bits, many samples at a time"

    def obstacle(self) -> str | None:
        """Return why no GPU can be used here, with what helps, or None where one can."""
        from aneforge.engine.cuda.device import obstacle  # noqa: PLC0415 - loaded when a GPU is asked for

        return obstacle()

    def load(self, program: Program, graph: Graph | None) -> CudaEngine:
        """Make a program ready to run."""
        del graph  # the program says it all
        return CudaEngine(program)
