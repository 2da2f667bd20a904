"""Plans: what is launched on a device, in which order and on which memory, as plain data.

A plan is made for a program and a number of samples, and knows nothing of CuPy: `device` runs it, and tests look at it.
Buffers that are not needed at the same time share memory (`Plan.places`).
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.engine.cuda.tensors import Tensor

    Array = npt.NDArray[Any]

__all__ = ["Address", "Buffer", "Findings", "HostStep", "Launch", "Plan", "Role"]

ALIGNMENT = 256


class Role(Enum):
    """What a buffer is for."""

    SCRATCH = "scratch"
    """It holds something between two launches, and shares memory with others."""
    KEPT = "kept"
    """It holds something for a whole run: inputs, outputs, findings."""
    CONSTANT = "constant"
    """It is uploaded once."""


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory of a device; what a device holds of it goes when nothing asks for it any more."""

    nbytes: int
    role: Role
    content: Array | None = None
    """What a constant holds."""


@dataclass(frozen=True, slots=True)
class Address:
    """A place in a buffer, in bytes."""

    buffer: Buffer
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with the fields of its struct, each of eight bytes."""

    kernel: str
    grid: tuple[int, int, int]
    width: int
    """Threads of a block."""
    arguments: tuple[Address | int | float, ...]
    memory: int = 0
    """Bytes of shared memory of a block, in addition to what the kernel itself has."""

    def buffers(self) -> list[Buffer]:
        """Return the buffers that it reads and writes."""
        return [one.buffer for one in self.arguments if isinstance(one, Address)]


@dataclass(frozen=True, slots=True)
class HostStep:
    """A layer that has no kernels: it runs on the host, for every sample by itself."""

    layer: str
    operation: str
    reason: str
    compute: Callable[[Sequence[Array]], Sequence[Array]]
    """Results for the operands of one sample."""
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]

    def buffers(self) -> list[Buffer]:
        """Return the buffers that it reads and writes."""
        return [one.buffer for one in (*self.operands, *self.results)]


@dataclass(slots=True)
class Findings:
    """What kernels note of values on the way, which labels are made of: places in buffers, for every sample."""

    samples: int
    words: int = 0
    """Words that begin with 0: largest magnitudes, flags, zeros."""
    wide: int = 0
    """Words of eight bytes that begin with 0."""
    high: int = 0
    """Words that begin with 0xFFFF: least magnitudes."""
    refusals: tuple[int, ...] = ()
    """Words that are not 0 where the host must say what is wrong with a sample."""
    undecided: tuple[int, ...] = ()
    """Words that are not 0 where the host must compute a sample: two numbers are as near as its own `pow` is exact."""


@dataclass(slots=True)
class Plan:
    """What is launched for a program and a number of samples."""

    samples: int
    items: list[Launch | HostStep] = field(default_factory=list["Launch | HostStep"])
    inputs: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    outputs: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    states: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    findings: list[Buffer] = field(default_factory=list["Buffer"])

    @property
    def host_steps(self) -> list[HostStep]:
        """The layers that run on the host."""
        return [item for item in self.items if isinstance(item, HostStep)]

    def constants(self) -> list[Buffer]:
        """Return the buffers that are uploaded once."""
        found = {buffer: None for item in self.items for buffer in item.buffers() if buffer.role is Role.CONSTANT}
        found |= {tensor.buffer: None for tensor in self.outputs.values() if tensor.buffer.role is Role.CONSTANT}
        return list(found)

    def lifetimes(self) -> Mapping[Buffer, tuple[int, int]]:
        """Return the first and last item that uses each buffer in the device's own memory; those that stay, all."""
        found: dict[Buffer, tuple[int, int]] = {}
        for number, item in enumerate(self.items):
            for buffer in item.buffers():
                if buffer.role is Role.SCRATCH:
                    found[buffer] = (found.get(buffer, (number, number))[0], number)
        stays = [*self.inputs.values(), *self.outputs.values(), *self.states.values()]
        for buffer in [*(tensor.buffer for tensor in stays), *self.findings]:
            if buffer.role is not Role.CONSTANT:
                found[buffer] = (0, len(self.items))
        return found

    def places(self) -> tuple[dict[Buffer, int], int]:
        """Return where each buffer is in one range of memory, and the length of that."""
        lives = self.lifetimes()
        places: dict[Buffer, int] = {}
        held: list[tuple[int, int, int]] = []  # begin, end, last use
        length = 0
        for buffer in sorted(lives, key=lambda one: (lives[one][0], -one.nbytes)):
            first, last = lives[buffer]
            held = [one for one in held if one[2] >= first]
            size = max(-(-buffer.nbytes // ALIGNMENT) * ALIGNMENT, ALIGNMENT)
            begin = 0
            for other, end, _ in sorted(held):
                if begin + size <= other:
                    break
                begin = max(begin, end)
            places[buffer] = begin
            held.append((begin, begin + size, last))
            length = max(length, begin + size)
        return places, length
