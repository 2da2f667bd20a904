"""Takes convolutions of large strides apart: the source's phases become channels, and a stride of 1 is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass
from aneforge.compiler.passes.base import Phase as CompilerPhase
from aneforge.compiler.passes.cuts import convolution_slides
from aneforge.compiler.passes.layer_maker import LayerMaker
from aneforge.compiler.passes.phases import Phase, factors_of, on_phases
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Target

__all__ = ["FactorStrides"]

MOST_SPATIAL_AXES = 2
OTHER_STRIDE = "use a stride that is such a product, or pool or slice by the rest of it first"
SMALL_STRIDE = "use a smaller stride and a strided slice after it"


@dataclass(frozen=True, slots=True)
class Strides:
    """What a target does with strides."""

    native: int
    """The largest stride that the descriptor holds."""
    factors: tuple[int, ...]
    most_factors: int
    target: Target

    @classmethod
    def of(cls, target: Target) -> Strides | None:
        """Return what is known of a target; None where no source gives its factors."""
        native = target.limits.known_integer("conv_stride_native")
        if native is None or "stride_factors" not in target.hal:
            return None
        return cls(
            native,
            target.hal.integers("stride_factors"),
            target.limits.integer("stride_factor_count"),
            target,
        )

    def large(self, layer: Layer) -> bool:
        """Return whether a layer is a convolution of a large stride."""
        return layer.kind.name == "convolution" and max(layer.integers("strides")) > self.native

    def phases(self, layer: Layer) -> list[Phase]:
        """Return the phases of a convolution of a large stride.

        Raises:
            NotSupportedError: A stride is not a product of the allowed factors, or the layer has no such form.
        """
        found: list[Phase] = []
        for slide in convolution_slides(layer):
            factors = factors_of(slide.stride, self.factors, self.most_factors) if slide.stride > self.native else ()
            if factors is None:
                allowed = f"at most {self.native}, or a product of at most {self.most_factors} of the factors"
                raise self.error(layer, f"a stride must be {allowed}", slide.stride)
            found.append(Phase(slide, factors))
            if slide.before >= found[-1].extent:
                text = "all that the kernel sees along an axis is padding"
                raise self.error(layer, text, f"a padding of {slide.before}", "pad less")
        return found

    def error(self, layer: Layer, message: str, seen: object, remedy: str = OTHER_STRIDE) -> NotSupportedError:
        """Return the error for a convolution that cannot be taken apart."""
        return NotSupportedError(
            message,
            operation="conv",
            location=layer.location,
            seen=seen,
            limit=", ".join(map(str, self.factors)),
            target=self.target.name,
            remedy=remedy,
        )


def is_single(layer: Layer) -> bool:
    """Return whether a convolution sees one element at every place and pads nothing."""
    return set(layer.integers("kernel_sizes")) == {1} and not any(layer.integers("explicit_padding"))


def subsample(layer: Layer) -> list[Layer]:
    """Return a convolution of a 1×1 kernel on only the places that it sees."""
    make = LayerMaker(layer)
    x, strides = layer.operand("input"), layer.integers("strides")
    size = (*x.type.shape[:2], *layer.core_types[0].shape[2:])
    region = {"begin": (0,) * x.type.rank, "size": size, "step": (1, 1, *strides)}
    source = make.add("strided_slice", {"input": x}, region, step="every")
    make.add(
        layer.kind,
        {**layer.operands, "input": source},
        {**layer.attributes, "strides": (1,) * len(strides)},
        epilogue=layer.epilogue,
        choices={**layer.choices, "rebuilt": "stride"},
    )
    return make.layers


@dataclass(frozen=True)
class FactorStrides(Pass):
    """Factor strides that the descriptor cannot hold, over the target's list of factors.

    Where the factors are 2, 3, 4 and 8, at most two of them along an axis:

    Before:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {strides = [16, 16], dilation_rates = [1, 1],
            explicit_padding = [0, 0, 0, 0], kernel_sizes = [16, 16]} : fp16[1, 8, 4, 4]

    After:
        %t1.stride.unshuffled0 = DMA anec.pixel_unshuffle(x = %t0) {downscale_factor = 4} : fp16[1, 48, 16, 16]
        %t1.stride.unshuffled1 = DMA anec.pixel_unshuffle(x = %t1.stride.unshuffled0) {downscale_factor = 4}
            : fp16[1, 768, 4, 4]
        %t1 = NE anec.convolution(input = %t1.stride.unshuffled1, weights = @t1.weights) {strides = [1, 1],
            dilation_rates = [1, 1], explicit_padding = [0, 0, 0, 0], kernel_sizes = [1, 1]} : fp16[1, 8, 4, 4]
          chosen: {rebuilt = "stride"}

    The epilogue stays after the convolution. A 1×1 kernel reads a strided slice instead. A stride that is not such a
    product is an error.
    """

    name: ClassVar[str] = "factor-strides"
    phase: ClassVar[CompilerPhase] = CompilerPhase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Take large strides apart."""
        strides = Strides.of(program.target)
        if strides is None:
            return unknown_strides(program)
        notes: list[Note] = []

        def factored(layer: Layer) -> list[Layer] | None:
            if not strides.large(layer):
                return None
            phases = strides.phases(layer)
            if is_single(layer):
                notes.append(Note(self.name, layer.name, "it reads a strided slice of its source, at a stride of 1"))
                return subsample(layer)
            weights = layer.operand("weights")
            if not isinstance(weights, Constant):
                text = "a kernel computed at run time cannot be rearranged"
                raise strides.error(layer, text, layer.integers("strides"), SMALL_STRIDE)
            if len(phases) > MOST_SPATIAL_AXES:
                text = "a three-dimensional convolution has no axis left for phases"
                raise strides.error(layer, text, layer.integers("strides"), SMALL_STRIDE)
            rearranged = f"; its {weights.encoding} weights became dense" if weights.encoding != "dense" else ""
            notes.append(Note(self.name, layer.name, decision("stride_form").text() + rearranged))
            return on_phases(layer, phases, strides.factors, "stride")

        return replace_layers(program, factored, notes)


def unknown_strides(program: Program) -> Program:
    """Return a program in which strides above 1 say that no source gives what the target does with them."""

    def mark_unknown(layer: Layer) -> list[Layer] | None:
        if layer.kind.name != "convolution" or max(layer.integers("strides")) == 1 or "stride" in layer.choices:
            return None
        return [layer.choosing(stride="unknown")]

    return replace_layers(program, mark_unknown)
