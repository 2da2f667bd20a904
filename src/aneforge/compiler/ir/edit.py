"""Making and exchanging layers: what passes and lowering have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.ir.layer import EMPTY, Epilogue, Layer, Stage, Value
from aneforge.errors import GraphError
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.compiler.ir.kind import Engine, Kind
    from aneforge.compiler.ir.layer import Argument
    from aneforge.compiler.ir.program import Note, Program
    from aneforge.errors import Location

__all__ = ["as_stage", "new_layer", "replace_layers", "without_dead_layers"]


def new_layer(
    kind: str | Kind,
    operands: Mapping[str, Argument],
    attributes: Mapping[str, object] | None,
    name: str,
    *,
    location: Location | None,
    engine: Engine | None = None,
    epilogue: Epilogue | None = None,
) -> Layer:
    """Return a layer whose results are called by a name, the further ones with their number after it.

    Raises:
        GraphError: The operands or attributes do not fit the kind.
    """
    found = find_kind(kind) if isinstance(kind, str) else kind
    completed = found.complete(attributes or {})
    core = found.types(
        {
            operand: tuple(ref.type for ref in argument) if isinstance(argument, tuple) else argument.type
            for operand, argument in operands.items()
        },
        completed,
    )
    types = core
    for _, stage in epilogue or ():
        types = (stage.type_of(types[0]), *types[1:])
    layer = Layer(
        kind=found,
        operands=dict(operands),
        attributes=completed,
        results=tuple(Value(f"{name}.{place}" if place else name, one) for place, one in enumerate(types)),
        engine=engine or found.engines[0],
        epilogue=epilogue or EMPTY,
        location=location,
    )
    return layer.typed(core, types)


def as_stage(layer: Layer) -> Stage:
    """Return a layer of one live operand as what fills a slot.

    Raises:
        GraphError: It reads something else that is live.
    """
    held = {name: ref for name, ref in layer.operands.items() if name != layer.kind.flowing}
    if any(not isinstance(ref, Constant) for ref in held.values()):
        raise GraphError(f"anec.{layer.kind.name} reads more than what flows through")
    return Stage(layer.kind, cast("Mapping[str, Constant]", held), layer.attributes)


def replace_layers(
    program: Program,
    replace: Callable[[Layer], Sequence[Layer] | None],
    notes: Sequence[Note] = (),
) -> Program:
    """Return a program in which `replace` was asked about every layer; the program itself, if all stay.

    It returns layers that write, among others, the values that the old layer wrote; or None to keep it. `notes` is read
    after all layers were asked, so `replace` may add to it.
    """
    layers: list[Layer] = []
    changed = False
    for layer in program.layers:
        made = replace(layer)
        layers += [layer] if made is None else made
        changed = changed or made is not None
    return program.with_layers(layers, notes) if changed else program


def without_dead_layers(program: Program) -> Program:
    """Return a program without layers whose results nobody reads; the program itself, if there are none."""
    alive = set(program.kept)
    kept: list[Layer] = []
    for layer in reversed(program.layers):
        if any(result.name in alive for result in layer.results):
            alive.update(value.name for value in layer.bottoms)
            kept.append(layer)
    return program if len(kept) == len(program.layers) else program.with_layers(reversed(kept))
