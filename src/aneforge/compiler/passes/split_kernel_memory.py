"""Chooses the kernel memory of products and splits those whose kernel does not fit.

The compiler's own choice (listing 35.2 of the guide) is between the dense memory of every core, field 0x200, and the
shared one through which kernels stream, field 0x210: the second where a layer asks for it and field 0x48f allows it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.cuts import cut_along
from aneforge.compiler.passes.epilogues import axis_after_epilogue, unfuse
from aneforge.compiler.passes.kernels import count_held_bytes, kernel_of, unmet_preconditions
from aneforge.compiler.passes.split_matmul import contraction
from aneforge.compiler.passes.tiling import Along, Cut, Part, cut_layer, even_parts, full_parts, sum_parts
from aneforge.errors import NotSupportedError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.passes.kernels import Kernel
    from aneforge.targets import Target
    from aneforge.targets import Value as Datum

__all__ = ["SplitKernelMemory"]

CHOICE = "kernel_path"
DENSE, STREAMED, UNKNOWN = "dense", "streamed", "unknown"
TOO_LARGE = "can not fit the Kmem"
"""The compiler's own text."""


@dataclass(frozen=True, slots=True)
class KernelMemory:
    """The kernel memory of a target; None for what no source gives."""

    dense: int | None
    streamed: int | None
    streaming: Datum | None
    """Field 0x48f."""
    shares_large: Datum | None
    """Large dense kernels ask for the shared memory, not only encoded ones."""
    cores: int | None
    target: Target

    @classmethod
    def of(cls, target: Target) -> KernelMemory:
        """Return what is known of a target's kernel memory."""
        return cls(
            target.hal.known_integer("dense_kernel_memory"),
            target.hal.known_integer("streamed_kernel_memory"),
            target.hal.get("kernel_streaming"),
            target.geometry.get("large_kernels_shared"),
            target.hal.known_integer("nes_per_ane"),
            target,
        )

    def path(self, layer: Layer, kernel: Kernel) -> str:
        """Return through which memory a layer's kernel goes: dense, streamed or unknown."""
        if layer.choices.get("weights") == "streams":
            return UNKNOWN if self.streamed is None else STREAMED
        if self.dense is None:
            return UNKNOWN
        each = kernel.channel_bytes(streams=False)
        on_one_core = kernel.channels if self.cores is None else -(-kernel.channels // self.cores)
        if on_one_core * each <= self.dense:
            return DENSE
        if False in (self.shares_large, self.streaming) or unmet_preconditions(layer, kernel, self.target):
            return UNKNOWN if self.cores is None else DENSE
        known_to_stream = self.shares_large is True and self.streaming is True and self.streamed is not None
        return STREAMED if known_to_stream else UNKNOWN

    def most_channels(self, path: str, each: int) -> int | None:
        """Return how many output channels of so many bytes a path takes at once; None where it is not known."""
        if path == STREAMED and self.streamed is not None:
            return self.streamed // each
        if path == DENSE and self.dense is not None:
            return self.dense // each * (self.cores or 1)
        return None


def inner_cut(layer: Layer, kernel: Kernel) -> tuple[Cut, int, int]:
    """Return the cut along what a product sums over, how long that is, and how many weights go with one place of it."""
    match layer.kind.name:
        case "convolution":
            operands = {"input": Along(1), "weights": Along(1)}
            taps = math.prod(layer.integers("kernel_sizes"))
        case "deconvolution":
            operands = {"input": Along(1), "weights": Along(0)}
            taps = math.prod(layer.integers("kernel_sizes"))
        case _:
            return contraction(layer), kernel.inner, 1
    return Cut(-1, operands), kernel.inner // taps, taps


def split_sum(layer: Layer, kernel: Kernel, memory: KernelMemory) -> list[Layer]:
    """Return a product whose single output channels are too large as a sum over parts of what it sums over.

    Raises:
        NotSupportedError: One place of that is too large already.
    """
    cut, extent, taps = inner_cut(layer, kernel)
    room = (memory.dense or 0) // count_held_bytes(kernel.ref) // taps
    if room < 1:
        raise NotSupportedError(
            f"{TOO_LARGE}: the kernel of one output channel and one input channel is too large",
            operation=layer.kind.op or layer.kind.name,
            location=layer.location,
            seen=f"{taps * count_held_bytes(kernel.ref)} bytes",
            limit=f"{memory.dense} bytes",
            target=memory.target.name,
            remedy="use a smaller kernel",
        )
    return sum_parts(layer, cut, even_parts(extent, -(-extent // room)), "inputs", memory.target)


def channel_parts(granules: int, most: int, granule: int) -> list[Part]:
    """Return parts of the output channels that fit: as many as do in all but the last, or all alike."""
    even = decision("kernel_memory_split").text() == "even"
    parts = even_parts(granules, -(-granules // most)) if even else full_parts(granules, most)
    return [Part(part.begin * granule, part.size * granule) for part in parts]


@dataclass(frozen=True)
class SplitKernelMemory(Pass):
    """Choose dense or streamed kernel memory, and split products whose kernel is larger than it.

    Where a core has 65,536 bytes of dense kernel memory, which hold 14 kernels over 256 input channels:

    Before:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…, kernel_sizes = [3, 3]} : fp16[1, 256, 14, 14]
          post_activation: anec.relu()

    After:
        %t1.cores0 = NE anec.convolution(input = %t0, weights = @t1.cores0.weights) {…, kernel_sizes = [3, 3]}
            : fp16[1, 224, 14, 14]
          post_activation: anec.relu()
          chosen: {kernel_path = "dense"}
        %t1.cores1 = NE anec.convolution(input = %t0, weights = @t1.cores1.weights) {…, kernel_sizes = [3, 3]}
            : fp16[1, 32, 14, 14]
          post_activation: anec.relu()
          chosen: {kernel_path = "dense"}
        %t1 = DMA anec.concat(values = [%t1.cores0, %t1.cores1]) {axis = 1} : fp16[1, 256, 14, 14]
          chosen: {in_place = true}

    Every part along the output channels keeps the epilogue, its constants cut. Where a single output channel is too
    large the input channels are split, the parts are added, and the epilogue moves after the sum: a note says that a
    fusion was undone. What no source gives is `unknown`, and nothing is split by it.
    """

    name: ClassVar[str] = "split-kernel-memory"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Choose a path for every product."""
        memory = KernelMemory.of(program.target)
        notes: list[Note] = []

        def choose_path(layer: Layer) -> list[Layer] | None:
            kernel = None if CHOICE in layer.choices else kernel_of(layer)
            if kernel is None:
                return None
            path = memory.path(layer, kernel)
            each = kernel.channel_bytes(streams=layer.choices.get("weights") == "streams")
            most = memory.most_channels(path, each)
            if most is None or kernel.channels <= most:
                return [layer.choosing(kernel_path=path)]
            pieces = self.split(layer, kernel, most, memory, notes)
            return [made for piece in pieces for made in (choose_path(piece) or [piece])]

        return replace_layers(program, choose_path, notes)

    def split(self, layer: Layer, kernel: Kernel, most: int, memory: KernelMemory, notes: list[Note]) -> list[Layer]:
        """Return a product in parts that are smaller; the caller looks at each again."""
        if most == 0 and kernel.groups == 1:
            parts = split_sum(layer, kernel, memory)
            count = sum(piece.kind is layer.kind for piece in parts)
            undone = ", and the epilogue that was fused into it comes after the sum" if layer.epilogue else ""
            text = "became a sum of {count} parts, each rounded, since one output channel is larger than kernel memory"
            notes.append(Note.of(self.name, layer.name, text + undone, count=count))
            return parts
        first, *rest = [layer] if axis_after_epilogue(layer, kernel.cut_axis) is not None else unfuse(layer)
        if rest:
            notes.append(Note(self.name, layer.name, "its epilogue became layers: it mixes the output channels"))
        cut = cut_along(first, kernel.cut_axis)
        assert cut is not None, "a product is cut along its output channels"  # noqa: S101 - said by `cuts`
        sizes = channel_parts(kernel.channels // cut.granule, max(most // cut.granule, 1), cut.granule)
        text = "became {count} parts along the output channels, since its kernel is larger than kernel memory"
        notes.append(Note.of(self.name, layer.name, text, count=len(sizes)))
        return [*cut_layer(first, cut, sizes, "cores", memory.target), *rest]
