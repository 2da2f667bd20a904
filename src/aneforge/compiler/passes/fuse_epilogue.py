"""Puts layers into the slots after the engine operation that they follow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import Affine, affine_of_layer, affine_of_stage
from aneforge.compiler.channels import channel_axes
from aneforge.compiler.ir.edit import as_stage
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Epilogue, Layer, Stage
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.attributed import axis_order
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Target

__all__ = ["FuseEpilogue"]

ACTIVATIONS = (Slot.PRE_ACTIVATION, Slot.POST_ACTIVATION)


def free_from(epilogue: Epilogue, slot: Slot) -> bool:
    """Return whether a slot and all after it are empty."""
    return epilogue.last is None or epilogue.last.place < slot.place


def with_activation(epilogue: Epilogue, stage: Stage, hosts: frozenset[Slot]) -> Epilogue | None:
    """Return an epilogue with an activation at its end.

    It takes the slot after gain and offset; one that is there already moves before them, if they are empty.
    """
    pre, post = ACTIVATIONS
    if post not in hosts or not (epilogue.transpose is None and epilogue.quantise is None):
        return None
    if epilogue.post_activation is None:
        return epilogue.filled(post, stage)
    if pre in hosts and epilogue.gain_offset is None and epilogue.pre_activation is None:
        return epilogue.filled(pre, epilogue.post_activation).filled(post, stage)
    return None


def with_affine(epilogue: Epilogue, affine: Affine, rank: int, hosts: frozenset[Slot]) -> Epilogue | None:
    """Return an epilogue with gain and offset at its end.

    Two in a row become one. An activation after the slot moves before it, if nothing is there.
    """
    if Slot.GAIN_OFFSET not in hosts or not (epilogue.transpose is None and epilogue.quantise is None):
        return None
    if epilogue.post_activation is None:
        held = Affine(None, None, 0) if epilogue.gain_offset is None else affine_of_stage(epilogue.gain_offset, rank)
        return epilogue.filled(Slot.GAIN_OFFSET, held.then(affine).stage()) if held.joins(affine) else None
    movable = epilogue.pre_activation is None and epilogue.gain_offset is None and Slot.PRE_ACTIVATION in hosts
    if not movable:
        return None
    moved = epilogue.filled(Slot.PRE_ACTIVATION, epilogue.post_activation).filled(Slot.POST_ACTIVATION, None)
    return moved.filled(Slot.GAIN_OFFSET, affine.stage())


def with_transpose(epilogue: Epilogue, layer: Layer) -> Epilogue | None:
    """Return an epilogue with a transpose at its end; two in a row become one."""
    if epilogue.quantise is not None:
        return None
    held = epilogue.transpose
    if held is None:
        return epilogue.filled(Slot.TRANSPOSE, as_stage(layer))
    inner, outer = held.attributes["perm"], axis_order(layer)
    assert isinstance(inner, tuple)  # noqa: S101 - a transpose's attribute is a list
    perm = tuple(int(inner[axis]) % len(outer) for axis in outer)
    if perm == tuple(range(len(perm))):
        return epilogue.filled(Slot.TRANSPOSE, None)
    return epilogue.filled(Slot.TRANSPOSE, Stage(held.kind, {}, held.kind.complete({"perm": perm})))


def with_joined(host: Layer, layer: Layer, affine: Affine) -> Layer | None:
    """Return one gain and offset layer for two; None for rows along two axes."""
    held = affine_of_layer(host)
    if not held.joins(affine):
        return None
    joined = held.then(affine)
    operands = {"input": host.operand("input"), **joined.constants()}
    return replace(host, operands=operands, attributes=joined.attributes(), results=layer.results)


def host_of(layer: Layer, layers: Mapping[str, Layer], program: Program) -> Layer | None:
    """Return the layer into whose slots another may go: the one whose result only it reads."""
    if len(layer.bottoms) != 1 or not layer.kind.fills or layer.epilogue:
        return None
    (source,) = layer.bottoms
    flowing = layer.operands.get(layer.kind.flowing)
    return layers.get(source.name) if flowing is source and program.only_reader(source) is layer else None


@dataclass(frozen=True)
class FuseEpilogue(Pass):
    """Fill the slots after engine operations.

    Before:
        %t1.conv = NE anec.convolution(input = %t0, weights = @t1.conv.weights) {…} : fp16[1, 4, 8, 8]
        %t1 = PE anec.gain_offset_control(input = %t1.conv, offset = @t1.offset) : fp16[1, 4, 8, 8]
        %t2 = PE anec.relu(x = %t1) : fp16[1, 4, 8, 8]

    After:
        %t2 = NE anec.convolution(input = %t0, weights = @t2.weights) {…} : fp16[1, 4, 8, 8]
          gain_offset: anec.gain_offset_control(offset = @t2.gain_offset.offset)
          post_activation: anec.relu()

    A layer is absorbed if nothing but it reads what it follows, and if its slot and those after it are free. Barriers:
    a second live operand, a concat, a layer without slots, a value that leaves the program.
    """

    slots: tuple[Slot, ...] = tuple(Slot)
    """The slots that may be filled."""

    name: ClassVar[str] = "fuse-epilogue"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Walk once; what follows a fused layer may fuse too."""
        channels = channel_axes(program)
        layers: dict[str, Layer] = {}
        changed = False
        for layer in program.layers:
            host = host_of(layer, layers, program)
            made = None if host is None else self.absorbed(host, layer, channels[layer.bottoms[0].name], program.target)
            if host is not None and made is not None:
                del layers[host.name]
                changed = True
            layers[layer.name] = made or layer
        return program.with_layers(layers.values()) if changed else program

    def absorbed(self, host: Layer, layer: Layer, channel: int | None, target: Target) -> Layer | None:
        """Return a host with a layer in one of its slots; None where none is free."""
        hosts = host.kind.hosts.intersection(self.slots)
        if layer.kind.name == GAIN_OFFSET:
            affine = affine_of_layer(layer)
            if affine.vector and affine.axis != channel:
                return None
            if host.kind.name == GAIN_OFFSET and not host.epilogue and Slot.GAIN_OFFSET in self.slots:
                return with_joined(host, layer, affine)
            epilogue = with_affine(host.epilogue, affine, host.core_types[0].rank, hosts)
        elif set(ACTIVATIONS).intersection(layer.kind.fills):
            epilogue = with_activation(host.epilogue, as_stage(layer), hosts)
        elif layer.kind.name == "transpose":
            epilogue = with_transpose(host.epilogue, layer) if Slot.TRANSPOSE in hosts else None
        else:
            (slot,) = layer.kind.fills
            usable = slot in hosts and (slot is not Slot.TEXTURE or target.hal.get("texture_engine") is True)
            free = usable and free_from(host.epilogue, slot)
            epilogue = host.epilogue.filled(slot, as_stage(layer)) if free else None
        return None if epilogue is None else host.followed_by(epilogue, layer.results)
