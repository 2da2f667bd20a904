"""Resizes by the strategy that the target has: texture engine, deconvolution, or transpose and convolution."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

from aneforge.arrays import np
from aneforge.compiler.affine import Affine
from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.epilogues import unfuse
from aneforge.compiler.passes.layer_maker import LayerMaker
from aneforge.compiler.passes.resampling import AxisResize, Kernel, scale_weights
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Dense
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array
    from aneforge.targets import Target

__all__ = ["LegaliseResize"]

FAILED = "failed to map resize layer on this arch"
"""The compiler's own text."""
KERNEL_LIMITS = ("conv_kernel_width_small_fp16", "conv_kernel_height_small")
"""The longest small kernel, the last axis first."""
LAYOUTS = {1: ("IOW", "OIW"), 2: ("IOHW", "OIHW")}
STAYS = Kernel((1,), 1, 1, (0, 0), (0, 0))
"""The kernel along an axis that keeps its elements."""


class ResizeMaker(LayerMaker):
    """Makes the layers of a resize on a target without a texture engine."""

    def __init__(self, layer: Layer, target: Target) -> None:
        super().__init__(layer)
        self.target = target
        self.notes: list[str] = []
        x, size = layer.operand("input"), layer.integers("size")
        mode, sampling = layer.text("mode"), layer.text("sampling")
        extents = x.type.shape[x.type.rank - len(size) :]
        self.axes = [AxisResize(extent, count, mode, sampling) for extent, count in zip(extents, size, strict=True)]

    def build_layers(self) -> list[Layer]:
        """Return the layers of the resize, in the first form that it has.

        Raises:
            NotSupportedError: It has none.
        """
        if all(axis.changes_nothing for axis in self.axes):
            self.add("identity", {"x": self.layer.operand("input")})
            return self.layers
        if self.layer.operand("input").type.dtype == "bool":
            raise self.failure("booleans have no products", "bool")
        if all(axis.extent == 1 for axis in self.axes):
            return self.from_one_place()
        kernels = self.kernels()
        return self.deconvolved(kernels) if kernels else self.by_matrices()

    def failure(self, reason: str, seen: object, limit: object = None) -> NotSupportedError:
        """Return the documented error."""
        return NotSupportedError(
            f"{FAILED}: {reason}",
            operation="resize",
            location=self.layer.location,
            seen=seen,
            limit=limit,
            target=self.target.name,
            remedy="resize on the host, or choose a target with the texture engine",
        )

    def from_one_place(self) -> list[Layer]:
        """Return the resize of a single place: a broadcast where there is a fast path for it."""
        fast = self.target.hal.get("upsample_1x1_fast_path")
        if fast is None:
            self.notes.append("no source gives the fast path of single places here: a convolution is used")
        if fast is not True:
            return self.by_matrices()
        shape = self.layer.result.shape
        self.add("broadcast", {"x": self.layer.operand("input")}, {"shape": shape}, choices={"strategy": "broadcast"})
        return self.layers

    def kernels(self) -> list[Kernel] | None:
        """Return the deconvolution along each axis, if all have one and each is a small kernel."""
        if len(self.axes) > len(KERNEL_LIMITS):
            return None
        found = [STAYS if axis.changes_nothing else axis.kernel for axis in self.axes]
        limits = [self.target.limits.get(name) for name in KERNEL_LIMITS[: len(found)]]
        if any(limit is None for limit in limits):
            self.notes.append("no source gives the longest small kernel here: transposes and convolutions are used")
            return None
        short = all(
            kernel is not None and isinstance(limit, int) and len(kernel.numerators) <= limit
            for kernel, limit in zip(reversed(found), limits, strict=True)
        )
        return [kernel for kernel in found if kernel is not None] if short else None

    def deconvolved(self, kernels: Sequence[Kernel]) -> list[Layer]:
        """Return the resize as a deconvolution of every channel by itself, its ends repeated before."""
        x, count = self.layer.operand("input"), len(kernels)
        images = self.reshape(x, self.image_shape(x.type.shape, count), step="images")
        repeats = tuple(times for kernel in kernels for times in kernel.repeated)
        if any(repeats):
            images = self.add("padding", {"x": images}, {"pad": repeats, "mode": "replicate"}, step="ends")
        numerators = reduce(np.multiply.outer, [np.array(kernel.numerators) for kernel in kernels])
        weights, gain = self.weights(numerators, math.prod(kernel.denominator for kernel in kernels))
        channels = images.type.shape[1]
        spread = np.ascontiguousarray(np.broadcast_to(weights, (channels, 1, *weights.shape)))
        attributes = {
            "strides": tuple(kernel.stride for kernel in kernels),
            "dilation_rates": (1,) * count,
            "groups": channels,
            "explicit_padding": tuple(pad for kernel in kernels for pad in kernel.padding),
            "kernel_sizes": weights.shape,
            "weights_layout": LAYOUTS[count][0],
            "output_sizes": tuple(axis.count for axis in self.axes),
        }
        self.add(
            "deconvolution",
            {"input": images, "weights": Dense.owning(spread)},
            attributes,
            step="resized",
            epilogue=gain,
            choices={"strategy": "deconvolution"},
        )
        return self.shaped()

    def by_matrices(self) -> list[Layer]:
        """Return the resize axis by axis: the axis becomes the channels, and a 1×1 convolution resizes them."""
        x = self.layer.operand("input")
        for place, axis in enumerate(self.axes):
            if not axis.changes_nothing:
                x = self.by_matrix(x, x.type.rank - len(self.axes) + place, axis)
        return self.shaped()

    def by_matrix(self, x: Ref, axis: int, resize: AxisResize) -> Ref:
        """Return a tensor with one axis resized by a matrix."""
        step = f"axis{axis}"
        self.check_size(resize)
        shape, place = four_axes(x.type.shape, axis)
        order = [0, 1, 2, 3]
        order.insert(1, order.pop(place))
        channels = self.transpose(self.reshape(x, shape, step=f"{step}.four"), order, step=f"{step}.channels")
        weights, gain = self.weights(resize.matrix(), resize.denominator)
        attributes = {
            "strides": (1, 1),
            "dilation_rates": (1, 1),
            "explicit_padding": (0, 0, 0, 0),
            "kernel_sizes": (1, 1),
        }
        resized = self.add(
            "convolution",
            {"input": channels, "weights": Dense.owning(weights.reshape(*weights.shape, 1, 1))},
            attributes,
            step=f"{step}.resized",
            epilogue=gain,
            choices={"strategy": "transpose_convolution", "rebuilt": "resize"},
        )
        back = [order.index(one) for one in range(4)]
        wanted = tuple(resize.count if one == axis else extent for one, extent in enumerate(x.type.shape))
        return self.reshape(self.transpose(resized, back, step=f"{step}.back"), wanted, step=f"{step}.whole")

    def check_size(self, resize: AxisResize) -> None:
        """Check that an axis can be the channels of a convolution.

        Raises:
            NotSupportedError: It is too long, or the matrix is larger than is made here.
        """
        most = self.target.limits.get("channel_extent")
        longest = max(resize.extent, resize.count)
        if isinstance(most, int) and longest > most:
            raise self.failure("the axis is longer than the channels can be", longest, most)
        elements = decision("resize_matrix_elements").integer()
        if resize.extent * resize.count > elements:
            raise self.failure("its matrix has too many elements", resize.extent * resize.count, elements)

    def weights(self, numerators: Array, denominator: int) -> tuple[Array, Epilogue | None]:
        """Return weights in the type of the data, and the gain after them, if there is one."""
        dtype = numpy_dtype(self.layer.operand("input").type.dtype)
        held, gain, exact = scale_weights(numerators, denominator, dtype)
        if not exact:
            self.notes.append("its weights are rounded to the type of the data")
        stage = None if gain is None else Affine(np.array(gain), None, 1).stage()
        return held, None if stage is None else Epilogue(gain_offset=stage)

    def image_shape(self, shape: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Return a shape as batch, channels and so many spatial axes."""
        lead = shape[: len(shape) - count]
        batch = math.prod(lead[:-1])
        return (batch, lead[-1] if lead else 1, *shape[len(shape) - count :])

    def shaped(self) -> list[Layer]:
        """Return the layers, after them a reshape where the result has another shape."""
        last = self.layers[-1].result
        if last.shape != self.layer.result.shape:
            self.reshape(last, self.layer.result.shape, step="shaped")
        return self.finish()


def four_axes(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int]:
    """Return a shape of four axes and the place of one of its own there: neighbours merged, or 1 in front.

    >>> four_axes((2, 3, 4, 5, 6), 4), four_axes((4, 5), 0)
    (((6, 4, 5, 6), 3), ((1, 1, 4, 5), 2))
    """
    spare = len(shape) - 4
    if spare <= 0:
        return (1,) * -spare + shape, axis - spare
    if axis > spare:
        return (math.prod(shape[: spare + 1]), *shape[spare + 1 :]), axis - spare
    return (*shape[:3], math.prod(shape[3:])), axis


@dataclass(frozen=True)
class LegaliseResize(Pass):
    """Choose the strategy of resizes; without a texture engine they become other layers.

    Where there is no texture engine:

    Before:
        %t1 = TE anec.resize(input = %t0) {size = [8, 8], mode = "NEAREST"} : fp16[1, 4, 8, 8]

    After:
        %t1 = NE anec.deconvolution(input = %t0, weights = @t1.weights) {strides = [2, 2], dilation_rates = [1, 1],
            groups = 4, explicit_padding = [0, 0, 0, 0], kernel_sizes = [2, 2], output_sizes = [8, 8]}
            : fp16[1, 4, 8, 8]
          chosen: {strategy = "deconvolution"}

    With a texture engine the layer stays, and its strategy is `texture`.

    A kernel longer than the small kernels of the target, and results not evenly spaced, become transposes and 1×1
    convolutions by a matrix, axis by axis. A single place is broadcast where the target has a fast path for it. What
    has no form is the compiler's own error. The strategies round differently, so results differ between targets.
    """

    name: ClassVar[str] = "legalise-resize"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Choose strategies."""
        texture = program.target.hal.get("texture_engine")
        chosen = "texture" if texture is True else "unknown"
        notes: list[Note] = []

        def one(layer: Layer) -> list[Layer]:
            if texture is not False:
                return [layer if layer.choices.get("strategy") == chosen else layer.choosing(strategy=chosen)]
            make = ResizeMaker(layer, program.target)
            made = make.build_layers()
            notes.extend(Note(self.name, layer.name, text) for text in make.notes)
            return made

        def resized(layer: Layer) -> list[Layer] | None:
            if layer.epilogue.texture is not None and texture is False:
                notes.append(Note(self.name, layer.name, "its texture slot became layers: there is no texture engine"))
                pieces = unfuse(layer, [Slot.TEXTURE])
                return [made for piece in pieces for made in (one(piece) if piece.kind.name == "resize" else [piece])]
            if layer.kind.name != "resize":
                return None
            made = one(layer)
            return None if made == [layer] else made

        return replace_layers(program, resized, notes)
