"""Takes convolutions and poolings apart whose window is longer than the target takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass
from aneforge.compiler.passes.base import Phase as CompilerPhase
from aneforge.compiler.passes.cuts import convolution_slides
from aneforge.compiler.passes.epilogues import UNDONE, fusion_undone, unfuse
from aneforge.compiler.passes.layer_maker import LayerMaker, cost_text
from aneforge.compiler.passes.phases import Phase, factors_of, on_phases
from aneforge.compiler.passes.refusals import refuse_layer
from aneforge.ops.constant import Constant
from aneforge.ops.op import Trait
from aneforge.ops.windows import WindowAttributes, slides
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.windows import Slide
    from aneforge.targets import Target

__all__ = ["SplitWindows"]

KERNEL_RULES = ("ANE-KERNEL-001", "ANE-KERNEL-002", "ANE-KERNEL-003")
"""The rules for kernels, the last axis first."""
KERNEL_LIMITS = ("conv_kw_max", "conv_kernel_height_large", "conv_kernel_depth_large")
MOST_SPATIAL_AXES = 2
POOL_RULE = "ANE-KERNEL-004"
POOL_LIMIT = "avg_pool_window"
WINDOWED = {Trait.AVERAGING, Trait.CONVOLUTION}
POOLED_AXES = 2
"""The rule for averages looks at the last two axes."""


def find_long_axes(sizes: Sequence[int], limits: Sequence[int | None]) -> list[int]:
    """Return which axes of a window are too long, counted from the last."""
    pairs = zip(reversed(sizes), limits, strict=False)
    return [place for place, (size, limit) in enumerate(pairs) if limit is not None and size > limit]


def smaller_kernel(layer: Layer, limits: Sequence[int | None], target: Target) -> list[Layer]:
    """Return a convolution on so many phases that its kernel fits.

    Raises:
        IllegalGraphError: Its weights are live, it has three axes, or no number of phases is enough.
    """
    sizes = layer.integers("kernel_sizes")
    long = [len(sizes) - 1 - place for place in find_long_axes(sizes, limits)]
    rule = KERNEL_RULES[len(sizes) - 1 - long[0]]
    if layer.kind.name != "convolution" or len(sizes) > MOST_SPATIAL_AXES:
        raise refuse_layer(layer, target, rule, "only a convolution over one or two axes can be")
    if not isinstance(layer.operand("weights"), Constant):
        raise refuse_layer(layer, target, rule, "its kernel is computed at run time")
    slides_along = convolution_slides(layer)
    most = target.limits.integer("stride_factor_count")
    allowed = target.hal.integers("stride_factors")
    counts = sorted({first * second for first in (1, *allowed) for second in (1, *allowed)} - {1})
    for count in counts:
        factors = factors_of(count, allowed, most)
        if factors is None:
            continue
        phases = [Phase(slide, factors if axis in long else ()) for axis, slide in enumerate(slides_along)]
        divides = all(count % slides_along[axis].stride == 0 for axis in long)
        if divides and not find_long_axes([phase.kernel for phase in phases], limits) and reaches(phases):
            return on_phases(layer, phases, allowed, "window")
    raise refuse_layer(layer, target, rule, "no number of phases makes it short enough")


def reaches(phases: Sequence[Phase]) -> bool:
    """Return whether the kernel sees more than padding."""
    return all(phase.slide.before < phase.extent for phase in phases)


def pooling_slides(layer: Layer) -> tuple[Slide, ...]:
    """Return how the window of a pooling goes."""
    x = layer.operand("x")
    return slides(x.type.shape[2:], layer.integers("kernel_sizes"), layer.attributes_as(WindowAttributes))


@dataclass(frozen=True, slots=True)
class AxisWindow:
    """A window along one axis of an average."""

    window: int
    stride: int
    before: int = 0
    after: int = 0


def windows_in_turn(slide: Slide, limit: int) -> tuple[AxisWindow, ...] | None:
    """Return the windows that average along one axis as one does, one after the other; None where there are none.

    A window of a · b elements is one of a and then one of b of those, where its stride is a multiple of a.

    >>> from aneforge.ops.windows import slides
    >>> (slide,) = slides([60], [30], {"strides": (30,), "pad_type": "valid", "pad": None})
    >>> windows_in_turn(slide, 13)
    (AxisWindow(window=10, stride=10, before=0, after=0), AxisWindow(window=3, stride=3, before=0, after=0))
    """
    if slide.window <= limit:
        return (AxisWindow(slide.window, slide.stride, slide.before, slide.after),)
    if slide.before or slide.after or slide.reach > slide.extent:
        return None
    for first in range(limit, 1, -1):
        second, rest = divmod(slide.window, first)
        if not rest and second <= limit and slide.stride % first == 0:
            return AxisWindow(first, first), AxisWindow(second, slide.stride // first)
    return None


def sees_all(slide: Slide) -> bool:
    """Return whether a window sees an axis once, and all of it."""
    return slide.window == slide.extent and slide.places == 1 and not (slide.before or slide.after)


def smaller_pool(layer: Layer, limit: int, target: Target) -> list[Layer]:
    """Return an average axis by axis: over all of an axis, by one window, or by two in turn.

    The number of elements that a window sees is a product over its axes, so an average of averages is the average.

    Raises:
        IllegalGraphError: A window is too long and neither sees all of an axis nor is made of shorter ones.
    """
    first, *rest = unfuse(layer)
    make = LayerMaker(first, word="window")
    x: Ref = first.operand("x")
    along = pooling_slides(first)
    whole = tuple(2 + axis for axis, slide in enumerate(along) if sees_all(slide))
    if whole:
        x = make.add("reduce_avg", {"x": x}, {"axes": whole, "keep_dims": True}, step="whole")
    for axis, slide in enumerate(along):
        if sees_all(slide):
            continue
        turns = windows_in_turn(slide, limit)
        if turns is None:
            raise refuse_layer(
                layer, target, POOL_RULE, "it neither covers all of an axis nor consists of shorter windows"
            )
        for number, one in enumerate(turns):
            x = average(make, x, axis, one, f"axis{axis}.{number}")
    return [*make.finish(), *rest]


def average(make: LayerMaker, x: Ref, axis: int, one: AxisWindow, step: str) -> Ref:
    """Return the average along one axis; x itself, where the window sees one element at every place."""
    count = x.type.rank - 2
    if one == AxisWindow(1, 1):
        return x

    def along(value: int, other: int) -> tuple[int, ...]:
        return tuple(value if place == axis else other for place in range(count))

    attributes = {
        **make.layer.attributes,
        "kernel_sizes": along(one.window, 1),
        "strides": along(one.stride, 1),
        "pad_type": "custom",
        "pad": tuple(pad for pair in zip(along(one.before, 0), along(one.after, 0), strict=True) for pad in pair),
    }
    return make.add("average_pool", {"x": x}, attributes, step=step, engine=make.layer.engine)


@dataclass(frozen=True)
class SplitWindows(Pass):
    """Make windows short enough for the target.

    Where a kernel has at most 29 rows and 13 columns, every third row and column becomes a channel:

    Before:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {strides = [1, 1], dilation_rates = [1, 1],
            explicit_padding = [0, 0, 0, 0], kernel_sizes = [31, 31]} : fp16[1, 4, 36, 36]

    After:
        %t1.window.unshuffled0 = DMA anec.pixel_unshuffle(x = %t0) {downscale_factor = 3} : fp16[1, 27, 22, 22]
        %t1.window.phases = NE anec.convolution(input = %t1.window.unshuffled0, weights = @t1.window.phases.weights)
            {strides = [1, 1], dilation_rates = [1, 1], explicit_padding = [0, 0, 0, 0], kernel_sizes = [11, 11]}
            : fp16[1, 36, 12, 12]
          chosen: {rebuilt = "window"}
        %t1 = DMA anec.pixel_shuffle(x = %t1.window.phases) {upscale_factor = 3} : fp16[1, 4, 36, 36]

    An average whose window sees all of an axis is a reduction; one of a · b elements is two in turn. What cannot be
    made shorter is an error of the rule that it breaks. Where no source gives a limit, the layer's choice is `unknown`.
    """

    name: ClassVar[str] = "split-windows"
    phase: ClassVar[CompilerPhase] = CompilerPhase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Make windows shorter where they are too long."""
        target = program.target
        kernels = [target.limits.known_integer(name) for name in KERNEL_LIMITS]
        pool = target.limits.known_integer(POOL_LIMIT)
        notes: list[Note] = []

        def shorter(layer: Layer) -> list[Layer] | None:
            if not WINDOWED & layer.kind.entry.traits:
                return None
            sizes = layer.integers("kernel_sizes")
            limits = [pool] * POOLED_AXES if layer.kind.name == "average_pool" else kernels
            if None in limits[: len(sizes)] and max(sizes) > 1 and "window" not in layer.choices:
                return [layer.choosing(window="unknown")]
            if not find_long_axes(sizes, limits):
                return None
            if layer.kind.name == "average_pool" and pool is not None:
                made, form, what = smaller_pool(layer, pool, target), "averages in turn", "its window"
            else:
                made, form, what = smaller_kernel(layer, kernels, target), "a kernel over phases", "it"
            text = f"became {form} in {cost_text(made)}: {what} was too long"
            texts = [text, UNDONE] if fusion_undone(layer, made) else [text]
            notes.extend(Note(self.name, layer.name, one) for one in texts)
            return made

        return replace_layers(program, shorter, notes)
