"""What is measured on compiled containers themselves: their outputs, their constants, and how damaged ones are read.

A manifest (`manifest.json` next to the containers) says what each computes; constants are read from the file.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

import aneforge as af
from aneforge import hwx
from aneforge.errors import DispatchFloorWarning
from aneforge.formats.hwx.assembly import NO_CONSTANTS
from aneforge.formats.hwx.container import Direction
from aneforge.formats.hwx.emission.activation_tables import table_bytes, tables
from aneforge.formats.hwx.emission.coefficients import Convolution as PackedConvolution
from aneforge.formats.hwx.emission.coefficients import pack_kernel
from aneforge.formats.hwx.emission.surfaces import Extent
from aneforge.formats.hwx.interpreter.activation_tables import ActivationTable
from aneforge.formats.hwx.interpreter.steps import ConstantKernel, Convolution, Copy
from aneforge.formats.hwx.interpreter.walking import Program
from aneforge.formats.hwx.read_hwx import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from aneforge.formats.hwx.container import Container
    from aneforge.graph.tensor import Tensor

    Array = npt.NDArray[Any]

__all__ = [
    "SEEDS",
    "Fixture",
    "described_graph",
    "drawn_inputs",
    "has_own_section",
    "hostile_files",
    "runs_as_described",
    "same_bits",
]

SEEDS = 20
"""Drawn inputs of each file: ordinary, subnormal, tied and large numbers in turn."""
EDITED = "edited"
"""How a manifest marks a file whose constants its compiler did not write."""
EVERYTHING = 0xFFFFFFFF
SEGMENT = 0x19


class Fixture(msgspec.Struct):
    """What a manifest says of a file."""

    name: str
    computes: str


def drawn_inputs(seed: int, shape: tuple[int, ...]) -> Array:
    """Return ordinary numbers, subnormal ones, ones whose sums tie, or large ones, by the seed."""
    generator = np.random.default_rng(seed)
    match seed % 4:
        case 0:
            found = generator.standard_normal(shape)
        case 1:
            found = generator.integers(-1023, 1024, shape) * 2.0**-24
        case 2:
            found = generator.integers(-4097, 4098, shape) / 2
        case _:
            found = np.clip(generator.standard_normal(shape) * 20000, -65504, 65504)
    return found.astype(np.float16)


def same_bits(first: Array, second: Array) -> bool:
    """Tell whether two arrays of fp16 are the same to the bit."""
    left, right = (np.ascontiguousarray(one.astype(np.float16)).view(np.uint16) for one in (first, second))
    return np.array_equal(left, right)


def described_graph(computes: str, container: Container) -> Tensor:
    """Return the graph of what a manifest says that a file computes, with the constants of the file."""
    program = Program(container, np.uint16)
    inputs = [af.input(port.shape, name=port.name) for port in program.inputs]
    operations: Mapping[str, Callable[[], Tensor]] = {
        "mul": lambda: inputs[0] * inputs[1],
        "add": lambda: inputs[0] + inputs[1],
        "concat": lambda: af.concat(inputs, axis=1),
        "relu": inputs[0].relu,
        "sigmoid": inputs[0].sigmoid,
        "neuron": lambda: inputs[0] * 1.0,
    }
    name = computes.split(maxsplit=1)[0]
    if name in operations:
        return operations[name]()
    kernel = constant_kernel(program)
    if kernel is None:
        raise ValueError(f"no operation is known for {computes!r}")
    biases = None if kernel.biases is None else kernel.biases.view(np.float16)
    return af.conv(inputs[0], kernel.weights.view(np.float16), bias=biases)


def constant_kernel(program: Program[np.uint16]) -> ConstantKernel | None:
    """Return the kernel of a program of one convolution; None for other programs."""
    work = next(program.steps()).work
    kernel = work.kernel if isinstance(work, Convolution) else None
    return kernel if isinstance(kernel, ConstantKernel) else None


def runs_as_described(fixture: Fixture, content: bytes) -> bool:
    """Tell whether a file's outputs are those of the graph engine, for inputs of every kind."""
    container = read_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DispatchFloorWarning)
        net = af.compile(described_graph(fixture.computes, container), target="h13")
    ports = [port for port in container.ports if port.direction is Direction.INPUT]
    for seed in range(SEEDS):
        inputs = {port.name: drawn_inputs(seed + 4 * place, port.shape) for place, port in enumerate(ports)}
        (output,) = hwx.execute(container, inputs).outputs.values()
        if not same_bits(np.asarray(net(*inputs.values())), output):
            return False
    return True


def has_own_section(fixture: Fixture, content: bytes) -> bool | None:
    """Tell whether the constants that are laid out here have the SHA-256 of those in the file; None where edited."""
    if EDITED in fixture.computes:
        return None
    container = read_bytes(content)
    (section,) = container.constants.values()
    return section.content is not None and sha256(own_section(container)).digest() == sha256(section.content).digest()


def own_section(container: Container) -> bytes:
    """Return the constants of a program of one operation, laid out here."""
    program = Program(container, np.uint16)
    step = next(program.steps())
    kernel = constant_kernel(program)
    if kernel is not None:
        outputs, inputs, height, width = kernel.weights.shape
        rows, columns = program.inputs[0].shape[-2:]
        convolution = PackedConvolution(
            source=Extent(inputs, rows, columns),
            result=Extent(outputs, rows, columns),
            kernel=(height, width),
            bias=kernel.biases is not None,
        )
        biases = None if kernel.biases is None else kernel.biases.view(np.float16)
        parts = pack_kernel(convolution, kernel.weights.view(np.float16), biases)
        return b"".join(block for part in parts for block in part)
    activation = step.work.activation if isinstance(step.work, Copy) else None
    named = activation.operation if isinstance(activation, ActivationTable) else None
    return table_bytes(named.op) if named is not None and named.op in tables() else bytes(NO_CONSTANTS)


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Where a segment's command is, and where its bytes are."""

    command: int
    file_offset: int
    file_size: int


def segments_of(content: bytes) -> Iterator[SegmentPlace]:
    """Yield the segments of a container by its load commands."""
    (count,) = struct.unpack_from("<I", content, 0x10)
    place = 0x20
    for _ in range(count):
        command, size = struct.unpack_from("<II", content, place)
        if command == SEGMENT:
            yield SegmentPlace(place, *struct.unpack_from("<QQ", content, place + 0x28))
        place += size


def hostile_files(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a container with lengths of 2^32 - 1, with segments over one another, and with tasks in a circle."""
    (commands,) = struct.unpack_from("<I", content, 0x14)
    for place in range(0x10, 0x20 + commands, 4):
        yield f"all bits set at {place:#x}", patched(content, place, EVERYTHING)
    held = [one for one in segments_of(content) if one.file_size]
    for one in held:
        for other in held:
            if one != other:
                over = patched(content, one.command + 0x28, other.file_offset)
                yield f"segment at {one.command:#x} over {other.file_offset:#x}", over
    container = read_bytes(content)
    text = container.text.file_offset
    tasks = hwx.tasks_of(container)
    for task in tasks:
        for to in tasks:
            circle = patched(content, text + task.offset + 4 * NEXT_TASK, to.offset)
            yield f"task at {task.offset:#x} before {to.offset:#x}", circle
            yield "the same, of 2^32 - 1 tasks", patched(circle, count_place(content, len(tasks)), EVERYTHING)


NEXT_TASK = 7
"""Word of a task's header that says where the next one is."""
THREAD, PROGRAM_COUNT = 0x04, 0x81C


def count_place(content: bytes, expected: int) -> int:
    """Return where a program's number of tasks is: in its thread command, the first one."""
    (count,) = struct.unpack_from("<I", content, 0x10)
    place = 0x20
    for _ in range(count):
        command, size = struct.unpack_from("<II", content, place)
        if command == THREAD and struct.unpack_from("<I", content, place + PROGRAM_COUNT) == (expected,):
            return place + PROGRAM_COUNT
        place += size
    raise ValueError("the program has no number of tasks")


def patched(content: bytes, place: int, word: int) -> bytes:
    """Return a file with another word at a place."""
    return content[:place] + struct.pack("<I", word) + content[place + 4 :]
