"""A device without a GPU: the kernels of `engine.cuda`, compiled by the host's C++ compiler, on arrays of NumPy.

Blocks run one after the other and the threads of a block as fibers that meet at barriers (`cuda_emulation.h`), so what
is tested is the text that NVRTC compiles, but for two lines of assembler, and every plan as it would be launched.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.cuda.device import pack
from aneforge.engine.cuda.plans import HostStep
from aneforge.engine.cuda.sources import body

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.engine.cuda.plans import Launch, Plan
    from aneforge.engine.cuda.tensors import Tensor

    Array = npt.NDArray[Any]

__all__ = ["EmulatedDevice", "compiler"]

OPTIONS = ["-O1", "-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-shared", "-fPIC", "-Wno-unknown-pragmas"]


def compiler() -> str | None:
    """Return a C++ compiler, None where there is none."""
    return shutil.which("g++") or shutil.which("clang++")


@cache
def library() -> ctypes.CDLL:
    """Return the kernels for this machine, compiled once for every text of theirs."""
    header = (Path(__file__).parent / "cuda_emulation.h").read_text()
    text = f"#define ANEFORGE_EMULATED\n{header}\nusing std::copysign;\nusing std::fma;\n{body()}"
    found = compiler()
    assert found is not None
    folder = Path(tempfile.gettempdir()) / f"aneforge-emulation-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    file = folder / "kernels.so"
    if not file.exists():
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            source, part = Path(place) / "kernels.cc", Path(place) / "kernels.so"
            source.write_text(text)
            subprocess.run([found, *OPTIONS, "-o", part, source], check=True)
            part.replace(file)
    return ctypes.CDLL(str(file))


class EmulatedDevice:
    """A device on this machine."""

    def __init__(self, memory: int = 2**30) -> None:
        self.memory = memory

    def free_memory(self) -> int:
        """Return how many bytes a plan may take."""
        return self.memory

    def needed_memory(self, plan: Plan) -> int:
        """Return how many bytes a plan takes."""
        return plan.places()[1]

    def load(self, plan: Plan) -> EmulatedPlan:
        """Make a plan ready to run."""
        return EmulatedPlan(plan)


class EmulatedPlan:
    """A plan in an array of NumPy, which begins as garbage: nothing may be read that was not written."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.places, length = plan.places()
        self.arena = np.full(length + 8, 0xA5, np.uint8)
        self.constants = {
            one: np.frombuffer((b"" if one.content is None else one.content.tobytes()) + b"\0" * 8, np.uint8)
            for one in plan.constants()
        }
        base = self.arena.ctypes.data
        self.addresses = {buffer: base + place for buffer, place in self.places.items()}
        self.addresses |= {buffer: array.ctypes.data for buffer, array in self.constants.items()}

    def launch(self, launch: Launch) -> None:
        content = pack(launch, self.addresses)
        getattr(library(), launch.kernel)(content, *(ctypes.c_int64(one) for one in (*launch.grid, launch.width)))

    def view(self, tensor: Tensor) -> Array:
        begin = self.places[tensor.buffer] + tensor.first * tensor.dtype.itemsize
        count = tensor.size * self.plan.samples * tensor.dtype.itemsize
        return self.arena[begin : begin + count].view(tensor.dtype).reshape(self.plan.samples, *tensor.shape)

    def start(self, inputs: Mapping[str, Array]) -> None:
        plan = self.plan
        self.arena[:] = 0xA5
        for name, tensor in plan.inputs.items():
            self.view(tensor)[...] = inputs[name]
        for item in plan.items:
            if isinstance(item, HostStep):
                operands = [self.view(one) for one in item.operands]
                for sample in range(plan.samples):
                    results = item.compute([one[sample].copy() for one in operands])
                    for tensor, array in zip(item.results, results, strict=True):
                        self.view(tensor)[sample] = array
            else:
                self.launch(item)

    def finish(self) -> tuple[dict[str, Array], list[Array]]:
        plan = self.plan
        states = ((f"state {name}", one) for name, one in plan.states.items())
        outputs = {name: self.view(tensor).copy() for name, tensor in (*plan.outputs.items(), *states)}
        return outputs, [self.arena[self.places[one] : self.places[one] + one.nbytes].copy() for one in plan.findings]

    def release(self) -> None:
        self.arena = np.zeros(8, np.uint8)
