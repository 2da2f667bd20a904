"""Convolutions on phases: rows and columns moved into channels, so that strides and kernels become smaller.

Every F-th place of an axis is a phase. With the F phases of the padded source as channels, place q·F + r is place q of
phase r, so that a convolution of stride s and dilation d,

    y[o] = Σ_j w[j] · x[o·s + j·d],

is one of stride 1 when s divides F: with P = F / s results for every place, o = q·P + p reads x[q·F + p·s + j·d], which
is place q + t div F of phase t mod F for t = p·s + j·d. The P results of a place are phases of the result, and are
moved back. For F = s, P is 1 and nothing is to move back. Every weight is used as it was, with zeros, so the same
products are summed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.passes.epilogues import POINTWISE, unfuse
from aneforge.compiler.passes.layer_maker import LayerMaker
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.declared import Declared
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Epilogue, Layer, Ref
    from aneforge.ops.types import Array
    from aneforge.ops.windows import Slide

__all__ = ["Phase", "factors_of", "on_phases"]


@dataclass(frozen=True, slots=True)
class Phase:
    """How a convolution along one axis becomes one on phases."""

    slide: Slide
    factors: tuple[int, ...]
    """The factors of the number of phases, in the order in which they are moved into channels; none for 1."""

    @property
    def count(self) -> int:
        """The phases of the source: F."""
        return math.prod(self.factors)

    @property
    def results(self) -> int:
        """The phases of the result: P."""
        return self.count // self.slide.stride if self.factors else 1

    @property
    def stride(self) -> int:
        """The stride that is left."""
        return 1 if self.factors else self.slide.stride

    @property
    def dilation(self) -> int:
        """The dilation that is left: it goes into zeros of the kernel."""
        return 1 if self.factors else self.slide.dilation

    @property
    def kernel(self) -> int:
        """The length of the kernel on phases."""
        if not self.factors:
            return self.slide.window
        return ((self.results - 1) * self.slide.stride + self.slide.span - 1) // self.count + 1

    @property
    def places(self) -> int:
        """The places of the result on phases."""
        return -(-self.slide.places // self.results)

    @property
    def extent(self) -> int:
        """The length of the padded source: so many whole places that every result has what it reads."""
        if not self.factors:
            return self.slide.before + self.slide.extent + self.slide.after
        return (self.places + self.kernel - 1) * self.count


def factors_of(number: int, allowed: Sequence[int], most: int) -> tuple[int, ...] | None:
    """Return the fewest allowed factors of a number, at most so many, the larger one first; None if there are none.

    >>> factors_of(16, (2, 3, 4, 8), 2), factors_of(8, (2, 3, 4, 8), 2), factors_of(5, (2, 3, 4, 8), 2)
    ((4, 4), (8,), None)
    """
    if number == 1:
        return ()
    if number in allowed:
        return (number,)
    if most < 2:
        return None
    found = [
        (factor, *rest)
        for factor in sorted(allowed)
        if number % factor == 0 and (rest := factors_of(number // factor, allowed, most - 1)) is not None
    ]
    return min((tuple(sorted(one, reverse=True)) for one in found), key=lambda one: (len(one), one), default=None)


def on_phases(layer: Layer, phases: Sequence[Phase], allowed: Sequence[int], word: str) -> list[Layer]:
    """Return a convolution with constant weights on phases of its source, and what is before and after it.

    `allowed` are the factors by which one layer moves rows and columns into channels and back; new names have the word.
    """
    spread = math.prod(phase.results for phase in phases)
    first, *rest = [layer] if spread == 1 else unfuse(layer, slots_that_stay(layer))
    make = LayerMaker(first, word=word)
    source = move_into_channels(make, padded(make, phases), phases)
    weights = first.operand("weights")
    assert isinstance(weights, Constant), "the caller asked for constant weights"  # noqa: S101 - a caller that did not is a mistake here
    if isinstance(weights, Declared):
        small = phase_weights(np.broadcast_to(np.float16(0), (1, 1, *weights.type.shape[2:])), phases)
        extents = [one * many for one, many in zip(weights.type.shape[:2], small.shape[:2], strict=True)]
        kernel: Constant = weights.derive("phases", (*extents, *small.shape[2:]))
    else:
        kernel = Dense.owning(phase_weights(weights.dense(), phases))
    attributes = {
        **first.attributes,
        "strides": tuple(phase.stride for phase in phases),
        "dilation_rates": tuple(phase.dilation for phase in phases),
        "explicit_padding": (0,) * (2 * len(phases)),
        "kernel_sizes": kernel.type.shape[2:],
    }
    result = make.add(
        "convolution",
        {"input": source, "weights": kernel},
        attributes,
        step="phases",
        epilogue=repeat(first.epilogue, spread),
        choices={**first.choices, "rebuilt": word},
    )
    if spread > 1:
        move_back(make, result, phases, allowed)
    return [*make.finish(), *rest]


def slots_that_stay(layer: Layer) -> set[Slot]:
    """Return the slots that cannot work on the phases of the result: all but those of single elements and channels."""
    stage = layer.epilogue.gain_offset
    rank = layer.core_types[0].rank
    vectors = stage is not None and any(constant.type.rank for constant in stage.operands.values())
    if stage is not None and vectors and stage.integer("axis") % rank != 1:
        return set(Slot) - {Slot.PRE_ACTIVATION}
    return set(Slot) - POINTWISE


def padded(make: LayerMaker, phases: Sequence[Phase]) -> Ref:
    """Return the source with its padding, cut or padded further to whole places; nothing is cut from its begin."""
    x = make.layer.operand("input")
    slides = [phase.slide for phase in phases]
    kept = tuple(min(slide.extent, phase.extent - slide.before) for slide, phase in zip(slides, phases, strict=True))
    shape = x.type.shape
    if kept != shape[2:]:
        x = make.add("slice", {"input": x}, {"begin": (0,) * len(shape), "size": (*shape[:2], *kept)}, step="reached")
    pads = tuple(
        pad
        for slide, phase, length in zip(slides, phases, kept, strict=True)
        for pad in (slide.before, phase.extent - slide.before - length)
    )
    return make.add("padding", {"x": x}, {"pad": pads}, step="padded") if any(pads) else x


def move_into_channels(make: LayerMaker, x: Ref, phases: Sequence[Phase]) -> Ref:
    """Return the source with its phases as channels: channel (c·F + r) is phase r of channel c, axis after axis.

    Where two axes have the same factors, one layer moves both.
    """
    if len(phases) == 2 and phases[0].factors == phases[1].factors:
        for number, factor in enumerate(phases[0].factors):
            x = make.add("pixel_unshuffle", {"x": x}, {"downscale_factor": factor}, step=f"unshuffled{number}")
        return x
    for place, phase in enumerate(phases):
        for number, factor in enumerate(phase.factors):
            x = one_axis_into_channels(make, x, 2 + place, factor, f"axis{place}.{number}")
    return x


def one_axis_into_channels(make: LayerMaker, x: Ref, axis: int, factor: int, step: str) -> Ref:
    """Move every factor-th place of one axis into channels."""
    shape = x.type.shape
    blocks = make.reshape(x, (*shape[:axis], shape[axis] // factor, factor, *shape[axis + 1 :]), step=f"{step}.parted")
    order = list(range(len(shape) + 1))
    order.insert(2, order.pop(axis + 1))
    ordered = make.transpose(blocks, order, step=f"{step}.ordered")
    merged = (shape[0], shape[1] * factor, *shape[2:axis], shape[axis] // factor, *shape[axis + 1 :])
    return make.reshape(ordered, merged, step=f"{step}.channels")


def channel_phases(phases: Sequence[Phase]) -> Array:
    """Return for every phase channel of one channel the phase of each axis that it holds: [channels, axes].

    The same moves as those of the source, on the places of one block.
    """
    shape = tuple(phase.count for phase in phases)
    places = np.stack(np.meshgrid(*(np.arange(one) for one in shape), indexing="ij")).reshape(len(shape), 1, *shape)
    if len(phases) == 2 and phases[0].factors == phases[1].factors:
        steps = [(factor, factor) for factor in phases[0].factors]
    else:
        steps = [
            tuple(factor if place == axis else 1 for axis in range(len(phases)))
            for place, phase in enumerate(phases)
            for factor in phase.factors
        ]
    for step in steps:
        places = blocks_to_channels(places, step)
    return places.reshape(len(shape), -1).T


def blocks_to_channels(places: Array, block: Sequence[int]) -> Array:
    """Make channels of the blocks of every tensor [axes, channels, *extents]; channel-major."""
    outer, channels, *extents = places.shape
    blocks = [extent for total, one in zip(extents, block, strict=True) for extent in (total // one, one)]
    count = len(block)
    order = [0, 1, *(3 + 2 * axis for axis in range(count)), *(2 + 2 * axis for axis in range(count))]
    merged = [total // one for total, one in zip(extents, block, strict=True)]
    return places.reshape(outer, channels, *blocks).transpose(order).reshape(outer, -1, *merged)


def phase_weights(weights: Array, phases: Sequence[Phase]) -> Array:
    """Return the weights of the convolution on phases: those of the old one at their places, zeros elsewhere.

    The phases of the result follow one another in every output channel, in the order in which they are moved back.
    """
    outer, inner, *kernel = weights.shape
    held = channel_phases(phases)
    position = {tuple(map(int, one)): place for place, one in enumerate(held)}
    results = tuple(phase.results for phase in phases)
    made = np.zeros((outer, math.prod(results), inner, len(held), *(phase.kernel for phase in phases)), weights.dtype)
    for number, result in enumerate(np.ndindex(*results)):
        for tap in np.ndindex(*kernel):
            reached = [
                result_phase * phase.slide.stride + place * phase.slide.dilation if phase.factors else 0
                for result_phase, place, phase in zip(result, tap, phases, strict=True)
            ]
            channel = position[tuple(one % phase.count for one, phase in zip(reached, phases, strict=True))]
            place = tuple(
                one // phase.count if phase.factors else own
                for one, own, phase in zip(reached, tap, phases, strict=True)
            )
            made[(slice(None), number, slice(None), channel, *place)] = weights[(..., *tap)]
    return made.reshape(outer * math.prod(results), inner * len(held), *made.shape[4:])


def repeat(epilogue: Epilogue, times: int) -> Epilogue:
    """Return an epilogue with the numbers of every channel repeated for its phases."""
    stage = epilogue.gain_offset
    if stage is None or times == 1:
        return epilogue
    held = {
        name: repeat_row(constant, times) if constant.type.rank else constant
        for name, constant in stage.operands.items()
    }
    return epilogue.filled(Slot.GAIN_OFFSET, replace(stage, operands=held))


def repeat_row(row: Constant, times: int) -> Constant:
    """Return the numbers of every channel, each as often as there are phases."""
    if isinstance(row, Declared):
        return row.derive("repeated", (row.type.size * times,))
    return Dense.owning(np.repeat(row.dense(), times))


def move_back(make: LayerMaker, x: Ref, phases: Sequence[Phase], allowed: Sequence[int]) -> Ref:
    """Move the phases of a result from its channels to their places, and cut what is after the last one."""
    counts = [phase.results for phase in phases]
    if len(counts) == 2 and counts[0] == counts[1] and counts[0] in allowed:
        moved: Ref = make.add("pixel_shuffle", {"x": x}, {"upscale_factor": counts[0]}, step="shuffled")
    else:
        moved = moved_axis_by_axis(make, x, counts)
    shape = moved.type.shape
    wanted = (*shape[:2], *(phase.slide.places for phase in phases))
    if shape == wanted:
        return moved
    return make.add("slice", {"input": moved}, {"begin": (0,) * len(shape), "size": wanted}, step="wanted")


def moved_axis_by_axis(make: LayerMaker, x: Ref, counts: Sequence[int]) -> Ref:
    """Move the phases of a result to their places, those of the last axis first."""
    for place, count in reversed(list(enumerate(counts))):
        if count == 1:
            continue
        batch, channels, *extents = x.type.shape
        blocks = make.reshape(x, (batch, channels // count, count, *extents), step=f"axis{place}.results")
        order = list(range(len(extents) + 3))
        order.insert(3 + place, order.pop(2))
        ordered = make.transpose(blocks, order, step=f"axis{place}.placed")
        extents[place] *= count
        x = make.reshape(ordered, (batch, channels // count, *extents), step=f"axis{place}.whole")
    return x
