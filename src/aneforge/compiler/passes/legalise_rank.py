"""Merges axes where a tensor has more of them than the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.axis_groups import merge_layer_axes
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.epilogues import unfuse
from aneforge.compiler.passes.layer_maker import LayerMaker, merge_first_axes
from aneforge.compiler.passes.refusals import finding, operation_name, refuse_layer
from aneforge.errors import IllegalGraphError, NotSupportedError
from aneforge.records import dataclass
from aneforge.rules.catalogue import explain
from aneforge.rules.subject import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.ir.layer import Argument, Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Target

__all__ = ["LegaliseRank"]

RULE = "ANE-RANK-001"


@dataclass(frozen=True, slots=True)
class Ranks:
    """How many axes there may be: in any tensor, and in those of some kinds of layers."""

    most: int
    kinds: Mapping[str, int]

    @classmethod
    def of(cls, target: Target) -> Ranks | None:
        """Return the limits of a target; None where no source gives the one for all tensors."""
        most, linear = target.limits.known_integer("max_rank"), target.limits.known_integer("linear_max_rank")
        if most is None:
            return None
        matmul = target.limits.known_integer("matmul_max_rank") or decision("matmul_axes_where_unknown").integer()
        return cls(most, {"matmul": matmul, "linear": linear or most})

    def of_layer(self, layer: Layer) -> int:
        """Return how many axes the tensors of a layer may have."""
        return min(self.most, self.kinds.get(layer.kind.name, self.most))

    def too_many(self, layer: Layer) -> bool:
        """Return whether a tensor of a layer has too many axes."""
        most = self.of_layer(layer)
        return any(ref.type.rank > most for _, ref in layer.refs()) or any(one.rank > most for one in layer.results)


def check_ports(program: Program, most: int) -> None:
    """Check what enters and leaves: nobody but the caller can give it fewer axes.

    Raises:
        IllegalGraphError: One has too many axes.
    """
    values = {
        **{f"input {port.name!r}": port.value for port in program.inputs},
        **{f"state {state.name!r}": state.read for state in program.states},
        **{f"output {port.name!r}": port.value for port in program.outputs},
    }
    for what, value in values.items():
        if value.rank > most:
            found = explain(RULE).check(Operation(what, results=(value.type,)), program.target)
            raise IllegalGraphError.of(program.target.name, [f"{found} It cannot be split: it is {what}"])


def refusal(layer: Layer, ranks: Ranks, target: Target) -> NotSupportedError:
    """Return the error for a layer that cannot be brought to fewer axes: the rule's, or that of its own limit."""
    if finding(layer, target, RULE) is not None:
        return refuse_layer(layer, target, RULE, "more of its axes have different roles than the limit on axes allows")
    return NotSupportedError(
        "it has too many axes, and its operands differ in them, so none can be merged",
        operation=operation_name(layer),
        location=layer.location,
        seen=", ".join(str(ref.type) for _, ref in layer.refs()),
        limit=f"{ranks.of_layer(layer)} axes",
        target=target.name,
        remedy="give all operands the same batch axes first, with tile or reshape",
    )


def with_fewer_axes(layer: Layer, ranks: Ranks, held: Mapping[str, Value], target: Target) -> list[Layer]:
    """Return the layers that do the same on merged axes; `held` says in which shape a tensor is.

    Raises:
        NotSupportedError: The layer treats too many neighbours differently.
    """
    form = merge_layer_axes(layer, ranks.of_layer(layer))
    if form is None or len(layer.results) > 1:
        raise refusal(layer, ranks, target)
    make = LayerMaker(layer)
    shapes = iter(form.shapes)
    places = iter(range(len(form.shapes)))

    def bring_to_form(ref: Ref) -> Ref:
        shape, place = next(shapes), next(places)
        current = held.get(ref.name, ref) if isinstance(ref, Value) else ref
        return current if shape is None else make.reshape(current, shape, step=f"axes{place}")

    operands: dict[str, Argument] = {
        name: tuple(map(bring_to_form, argument)) if isinstance(argument, tuple) else bring_to_form(argument)
        for name, argument in layer.operands.items()
    }
    wanted = merge_first_axes(layer.result.shape, ranks.most)
    last = replace(layer, operands=operands, attributes=layer.kind.complete(form.attributes))
    if last.core_types[0].shape == wanted:
        make.keep(replace(last, results=(Value(layer.name, last.core_types[0]),)))
    else:
        value = make.keep(replace(last, results=(Value(make.name_step("merged"), last.core_types[0]),)))
        make.reshape(value, wanted)
    return make.layers


@dataclass(frozen=True)
class LegaliseRank(Pass):
    """Bring tensors to as many axes as the target has, by merging neighbours that a layer treats alike.

    Where there may be five axes:

    Before:
        %t1 = DMA anec.reshape(x = %t0) {shape = [1, 4, 2, 2, 8, 8]} : fp16[1, 4, 2, 2, 8, 8]
        %t2 = TE anec.transpose(x = %t1) {perm = [0, 1, 4, 2, 5, 3]} : fp16[1, 4, 8, 2, 8, 2]
        %t3 = DMA anec.reshape(x = %t2) {shape = [1, 4, 16, 16]} : fp16[1, 4, 16, 16]

    After:
        %t1 = DMA anec.reshape(x = %t0) {shape = [4, 2, 2, 8, 8]} : fp16[4, 2, 2, 8, 8]
        %t2 = TE anec.transpose(x = %t1) {perm = [0, 3, 1, 4, 2]} : fp16[4, 8, 2, 8, 2]
        %t3 = DMA anec.reshape(x = %t2) {shape = [1, 4, 16, 16]} : fp16[1, 4, 16, 16]

    Batched products and linear layers have limits of their own. A layer in which more
    axes have different roles than the limit allows is an error, and so is an input, output or state of too many axes.
    """

    name: ClassVar[str] = "legalise-rank"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Merge axes in layers whose tensors have too many."""
        ranks = Ranks.of(program.target)
        if ranks is None:
            return program
        check_ports(program, ranks.most)
        if not any(map(ranks.too_many, program.layers)):
            return program
        held: dict[str, Value] = {}
        notes: list[Note] = []
        layers: list[Layer] = []

        def pieces(layer: Layer) -> Iterator[Layer]:
            if layer.epilogue:
                notes.append(Note(self.name, layer.name, "the epilogue became layers: it has too many axes to stay"))
            for piece in unfuse(layer):
                yield from with_fewer_axes(piece, ranks, held, program.target)

        for layer in program.layers:
            if not ranks.too_many(layer):
                layers.append(layer)
                continue
            for piece in pieces(layer):
                layers.append(piece)
                held[piece.name] = piece.result
        return program.with_layers(layers, notes)
