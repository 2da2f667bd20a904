"""Coefficient blocks: how the weights of a convolution are shared out between cores, and laid out for each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.errors import HwxError
from aneforge.formats.hwx.interpreter.coefficients import BLOCK, KernelShape, Tile, tiles_of
from aneforge.records import dataclass
from aneforge.targets.work_units import CORES, KERNEL_MEMORY, ceil_log2, round_to, strides_itself

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aneforge.formats.hwx.emission.surfaces import Extent

__all__ = ["BLOCK", "Convolution", "KernelPlan", "kernel_plans", "pack_kernel"]

MOST_LANES, MOST_LANES_SMALL = 16, 32
SMALL_SIDE = 8
"""Maps of at most this many rows and columns may take the larger number of lanes."""
MOST_SPARSE_LANES = 8
"""Blocks without zeros were read for 4 and 8 lanes; their form for more is not known."""
LARGEST_KERNEL = 3
"""No program with a larger kernel was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution of fp16 tensors, of batch 1."""

    source: Extent
    result: Extent
    kernel: tuple[int, int] = (1, 1)
    """Rows, columns."""
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
    """Rows above, columns before; those after follow from the result."""
    groups: int = 1
    bias: bool = False
    relu: bool = False
    scale: float = 1.0
    """What sums are multiplied by before they are rounded."""
    most_lanes: int | None = None
    """Lanes of a core at most, where a rule of the operation sets it."""

    @property
    def depthwise(self) -> bool:
        """Each channel is a group of its own."""
        return self.groups > 1 and self.groups == self.source.channels == self.result.channels

    @property
    def group_source(self) -> int:
        """Input channels of a group."""
        return self.source.channels // self.groups

    @property
    def group_result(self) -> int:
        """Output channels of a group."""
        return self.result.channels // self.groups

    @property
    def taps(self) -> int:
        """Weights of one output."""
        return self.group_source * self.kernel[0] * self.kernel[1]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """How the outputs of one task are shared out between cores and lanes."""

    first: int
    """The first output channel of the task."""
    outputs: int
    """Output channels of the task: of one group, or all of a depthwise convolution."""
    cores: int
    lanes: int
    tiles: tuple[Tile, ...]
    """Rounds in which the cores compute their outputs."""
    groups: int
    """Blocks of a core: one for each group."""
    rows: int
    """Halfwords of one lane in a tile: bias and weights."""
    sparse: bool
    bias: bool

    @property
    def dense_size(self) -> int:
        """Bytes of a core's block, zeros included."""
        return self.groups * round_to(2 * sum(tile.lanes for tile in self.tiles) * self.rows, BLOCK)

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """Bytes of each core's block, for a kernel without zeros."""
        size = self.dense_size if not self.sparse else round_to(sparse_size(self, 0), BLOCK)
        return (size,) * self.cores


def kernel_plans(convolution: Convolution) -> tuple[KernelPlan, ...]:
    """Return how the outputs of a convolution are shared out, in the order of its tasks: the last outputs first.

    Raises:
        HwxError: No known form of program computes it.
    """
    check_convolution(convolution)
    parts = output_parts(convolution)
    firsts = itertools.accumulate(parts, initial=0)
    plans = [kernel_plan(convolution, first, part) for first, part in zip(firsts, parts, strict=False)]
    return tuple(reversed(plans))


def kernel_plan(convolution: Convolution, first: int, outputs: int) -> KernelPlan:
    """Return how some outputs of a convolution are shared out between cores."""
    lanes = 1 if convolution.depthwise else lanes_of(convolution, outputs)
    cores = min(outputs, CORES)
    height, width = convolution.kernel
    shape = KernelShape(1, outputs, convolution.group_source, height, width, lanes, convolution.bias)
    return KernelPlan(
        first=first,
        outputs=outputs,
        cores=cores,
        lanes=lanes,
        tiles=tuple(tiles_of(shape, cores)),
        groups=1 if convolution.depthwise else convolution.groups,
        rows=convolution.taps + convolution.bias,
        sparse=convolution.stride != (1, 1),
        bias=convolution.bias,
    )


def check_convolution(convolution: Convolution) -> None:
    """Raise the error for a convolution of which no program was seen."""
    if max(convolution.kernel) > LARGEST_KERNEL:
        raise HwxError("ANE-EMIT-002: no program with a kernel larger than 3x3 is known", seen=convolution.kernel)
    if not strides_itself(convolution.kernel, convolution.stride, convolution.groups):
        raise HwxError(
            "ANE-EMIT-003: strided convolutions are known with a stride of two, for 1x1 without groups",
            seen=f"{convolution.kernel} by {convolution.stride}",
        )


def output_parts(convolution: Convolution) -> tuple[int, ...]:
    """Return how many outputs each task computes: all, equal parts that fit, or else the largest that do (inferred).

    Raises:
        HwxError: One output of each core does not fit, or a kernel of groups does not.
    """
    outputs = convolution.result.channels if convolution.depthwise else convolution.group_result
    if is_held(convolution, outputs):
        return (outputs,)
    if convolution.groups > 1:
        raise HwxError("ANE-EMIT-004: a kernel of groups must fit the kernel memory", limit=KERNEL_MEMORY)
    for tasks in range(2, outputs // CORES + 1):
        part, rest = divmod(outputs, tasks)
        if not rest and part % CORES == 0 and is_held(convolution, part):
            return (part,) * tasks
    largest = next(
        (CORES * count for count in range(outputs // CORES, 0, -1) if is_held(convolution, CORES * count)), 0
    )
    if not largest:
        raise HwxError("ANE-EMIT-004: an output of each core must fit the kernel memory", limit=KERNEL_MEMORY)
    return largest_parts(convolution, outputs, largest)


def largest_parts(convolution: Convolution, outputs: int, largest: int) -> tuple[int, ...]:
    """Return parts of outputs, each the largest that a task may compute of what is left."""
    parts: list[int] = []
    while outputs:
        part = min(largest, outputs)
        while not is_held(convolution, part):
            part = (part - 1) // CORES * CORES
        parts.append(part)
        outputs -= part
    return tuple(parts)


def is_held(convolution: Convolution, outputs: int) -> bool:
    """Return whether one task may compute so many outputs: they fit kernel memory, a strided kernel in one tile."""
    per_core = -(-outputs // CORES)
    if convolution.stride != (1, 1) and (
        per_core > MOST_SPARSE_LANES or (outputs > CORES and outputs != CORES << ceil_log2(per_core))
    ):
        return False
    groups = 1 if convolution.depthwise else convolution.groups
    return groups * round_to(2 * per_core * (convolution.taps + convolution.bias), BLOCK) <= KERNEL_MEMORY


def lanes_of(convolution: Convolution, outputs: int) -> int:
    """Return how many outputs a core computes together: a power of two, at most a sixteenth of the outputs."""
    if outputs < CORES:
        return 1
    small = max(convolution.source.height, convolution.source.width) <= SMALL_SIDE
    most = convolution.most_lanes or (MOST_LANES_SMALL if small else MOST_LANES)
    return min(1 << ((outputs // CORES).bit_length() - 1), most)


def sparse_size(plan: KernelPlan, zeros: int) -> int:
    """Return the bytes of one tile without its zeros: biases, a count, and for each weight a zero and masked lanes."""
    taps = plan.rows - plan.bias
    step = 1 + -(-plan.lanes // 8) + 2 * plan.lanes + max(0, plan.lanes // 2 - 2)
    return 2 * plan.lanes * plan.bias + 2 + taps * step - 2 * zeros


def pack_kernel(
    convolution: Convolution, weights: NDArray[Any], bias: NDArray[Any] | None = None
) -> tuple[tuple[bytes, ...], ...]:
    """Return the coefficient block of every core, for each task of a convolution, in the order of the tasks.

    `weights` are output channels by input channels of a group by rows by columns.

    Raises:
        HwxError: No known form of program computes the convolution.
    """
    plans = kernel_plans(convolution)
    flat = np.ascontiguousarray(weights, dtype=np.float16).reshape(convolution.result.channels, -1)
    if bias is not None:
        flat = np.concatenate([np.asarray(bias, dtype=np.float16).reshape(-1, 1), flat], axis=1)
    if len(plans) == 1:
        return (pack_task(plans[0], flat),)
    return tuple(pack_task(plan, flat[plan.first : plan.first + plan.outputs]) for plan in plans)


def pack_task(plan: KernelPlan, rows: NDArray[np.float16]) -> tuple[bytes, ...]:
    """Return the blocks of one task: for each core its groups, each tile by tile with the lanes side by side."""
    grouped = rows.reshape(plan.groups, -1, plan.rows)
    size = plan.dense_size // plan.groups
    held = np.zeros((plan.cores, plan.groups, size // 2), np.float16)
    for tile in plan.tiles:
        padded = np.zeros((plan.groups, plan.cores * tile.lanes, plan.rows), np.float16)
        padded[:, : tile.channels] = grouped[:, tile.first : tile.first + tile.channels]
        lanes = padded.reshape(plan.groups, plan.cores, tile.lanes, plan.rows).transpose(1, 0, 3, 2)
        if plan.sparse:
            return tuple(sparse_block(plan, lanes[core, 0]) for core in range(plan.cores))
        end = tile.offset + tile.lanes * plan.rows
        held[:, :, tile.offset : end] = lanes.reshape(plan.cores, plan.groups, -1)
    return tuple(bytes(memoryview(held[core]).cast("B")) for core in range(plan.cores))


def sparse_block(plan: KernelPlan, tile: NDArray[np.float16]) -> bytes:
    """Return a core's block without its zeros: a tile's biases, the bytes of its body, the body.

    The form was read from programs with 4 and 8 lanes; fewer lanes are inferred.

    Raises:
        HwxError: The body is too long for its count.
    """
    body = sparse_body(np.ascontiguousarray(tile[plan.bias :]), plan.lanes)
    if len(body) >= 1 << 16:
        raise HwxError(
            "ANE-EMIT-004: the body of a block without zeros must be shorter than 65536 bytes", seen=len(body)
        )
    made = tile[: plan.bias].tobytes() + len(body).to_bytes(2, "little") + body
    return made + bytes(-len(made) % BLOCK)


def sparse_body(steps: NDArray[np.float16], lanes: int) -> bytes:
    """Return the weights of a tile: a zero byte, a mask, the halfwords that are not zero, and a tail of zeros."""
    words = steps.view(np.uint16)
    present = words != 0
    tail = max(0, lanes // 2 - 2)
    laid = np.zeros((len(steps), 2 + 2 * lanes + tail), np.uint8)
    laid[:, 1] = np.packbits(present, axis=1, bitorder="little")[:, 0]
    laid[:, 2 : 2 + 2 * lanes] = words.astype("<u2").view(np.uint8).reshape(len(steps), -1)
    kept = np.ones(laid.shape, bool)
    kept[:, 2 : 2 + 2 * lanes] = np.repeat(present, 2, axis=1)
    return laid[kept].tobytes()
