"""Takes padding with zeros into the layer after it: windows that slide over it pad for themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.passes.base import Pass, Phase
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program

__all__ = ["FoldPadding"]

Pairs = tuple[tuple[int, int], ...]


def zero_padding(layer: Layer) -> Pairs | None:
    """Return what a padding layer adds before and after every axis, if it adds zeros."""
    if layer.kind.name != "padding" or layer.attributes["mode"] != "constant" or layer.attributes["constant_val"] != 0:
        return None
    given = layer.integers("pad")
    rank = layer.result.rank
    pairs = [(0, 0)] * (rank - len(given) // 2) + list(zip(given[::2], given[1::2], strict=True))
    return tuple(pairs)


def absorbing(layer: Layer, source: Value, pairs: Pairs) -> Layer | None:
    """Return a layer that pads a source itself; None where it cannot.

    A window must still see the tensor at every position: the engine's padding is smaller than the kernel.
    """
    if any(pair != (0, 0) for pair in pairs[:2]):
        return None
    added = [pad for pair in pairs[2:] for pad in pair]
    match layer.kind.name:
        case "convolution":
            held = layer.integers("explicit_padding")
            named, operand = "explicit_padding", "input"
        case "average_pool" if not layer.flag("exclude_padding_from_average") and not layer.flag("ceil_mode"):
            held = layer.optional_integers("pad") or (0,) * len(added)
            named, operand = "pad", "x"
        case _:
            return None
    padding = tuple(one + other for one, other in zip(held, added, strict=True))
    kernel = layer.integers("kernel_sizes")
    if any(pad >= length for pad, length in zip(padding, [one for one in kernel for _ in "ab"], strict=True)):
        return None
    attributes = {**layer.attributes, named: padding}
    if named == "pad":
        attributes["pad_type"] = "custom"
    return replace(layer, operands={**layer.operands, operand: source}, attributes=attributes)


@dataclass(frozen=True)
class FoldPadding(Pass):
    """Fold zero padding into convolutions and averages.

    Before:
        %t1 = DMA anec.padding(x = %t0) {pad = [1, 1, 1, 1]} : fp16[1, 4, 10, 10]
        %t2 = NE anec.convolution(input = %t1, …) {explicit_padding = [0, 0, 0, 0], …} : fp16[1, 4, 8, 8]

    After:
        %t2 = NE anec.convolution(input = %t0, …) {explicit_padding = [1, 1, 1, 1], …} : fp16[1, 4, 8, 8]
    """

    name: ClassVar[str] = "fold-padding"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Fold every padding that only one layer reads."""
        gone: set[str] = set()
        folded: dict[str, Layer] = {}
        for layer in program.layers:
            pairs = zero_padding(layer)
            reader = program.only_reader(layer.result) if pairs is not None and layer.bottoms else None
            made = absorbing(reader, layer.bottoms[0], pairs) if reader is not None and pairs is not None else None
            if reader is not None and made is not None and reader.name not in folded:
                gone.add(layer.name)
                folded[reader.name] = made
        if not folded:
            return program
        return program.with_layers(folded.get(layer.name, layer) for layer in program.layers if layer.name not in gone)
