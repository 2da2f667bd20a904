"""What must be true of every program, checked before and after every pass.

The checks of one layer are made once for each layer object: layers never change.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.errors import GraphError
from aneforge.ops.constant import Constant
from aneforge.ops.signature import OperandKind

if TYPE_CHECKING:
    from aneforge.compiler.ir.kind import Kind
    from aneforge.compiler.ir.layer import Argument, Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType

__all__ = ["verify"]

VERIFIED: weakref.WeakSet[Program] = weakref.WeakSet()
"""Programs that were found to be right; they never change."""


def verify(program: Program) -> None:
    """Check that a program is one.

    Raises:
        GraphError: A value is written twice, read before it is written, or of another type; a layer's operands,
            attributes or epilogue do not fit its kind; segments are not in order; or a port has no value.
    """
    if program in VERIFIED:
        return
    known: dict[str, TensorType] = {}
    for value in (*(port.value for port in program.inputs), *(state.read for state in program.states)):
        define(known, value)
    check_layers(program, known)
    for port in program.outputs:
        check_known(known, port.value, f"output {port.name!r}")
    for state in program.states:
        if state.written is None:
            continue
        check_known(known, state.written, f"state {state.name!r}")
        if state.written.type != state.read.type:
            raise GraphError(f"state {state.name!r} changes its type", seen=state.written.type, limit=state.read.type)
    for note in program.notes:
        if not note.text:
            raise GraphError(f"a note of {note.stage!r} says nothing")
    VERIFIED.add(program)


def check_layers(program: Program, known: dict[str, TensorType]) -> None:
    """Check the layers in their order, each by itself and against what was written before it."""
    segment = 0
    for layer in program.layers:
        if not layer.verified:
            verify_layer(layer)
            layer.mark_verified()
        for value in layer.bottoms:
            if known.get(value.name) is not value.type:  # a message is made only where it may be needed
                check_known(known, value, f"%{layer.name}")
        for result in layer.results:
            define(known, result)
        if layer.segment not in (segment, segment + 1):
            raise GraphError(f"%{layer.name} is out of the order of segments", seen=layer.segment, limit=segment)
        segment = layer.segment


def define(known: dict[str, TensorType], value: Value) -> None:
    """Note that a value is written here, and nowhere before."""
    if value.name in known:
        raise GraphError(f"%{value.name} is written twice")
    known[value.name] = value.type


def check_known(known: dict[str, TensorType], value: Value, reader: str) -> None:
    """Check that a value was written before, in the type in which it is read."""
    found = known.get(value.name)
    if found is None:
        raise GraphError(f"{reader} reads %{value.name} before it is written")
    if found != value.type:
        raise GraphError(f"{reader} reads %{value.name} as another type", seen=value.type, limit=found)


def verify_layer(layer: Layer) -> None:
    """Check one layer by itself.

    Raises:
        GraphError: It is not right; the error names the kind and the user's place.
    """
    try:
        check_layer(layer)
    except GraphError as error:
        error.operation = f"anec.{layer.kind.name} %{layer.name}"
        error.location = error.location or layer.location
        raise


def check_layer(layer: Layer) -> None:
    """Check unit, operands, attributes, epilogue and result types of a layer."""
    if layer.engine not in layer.kind.engines:
        raise GraphError("no such unit runs it", seen=layer.engine, limit=", ".join(layer.kind.engines))
    if not is_complete(layer.kind, tuple(layer.attributes.items())):
        raise GraphError("attributes are missing or not in their own types")
    for operand in layer.kind.operands:
        if operand.name in layer.operands:
            check_argument(operand.name, operand.kind, layer.operands[operand.name], variadic=operand.variadic)
    check_epilogue(layer)
    seen = tuple(result.type for result in layer.results)
    if seen != layer.computed_types:
        shown, limit = (", ".join(map(str, types)) for types in (seen, layer.computed_types))
        raise GraphError("the types are not those that the layer gives", seen=shown, limit=limit)


@lru_cache(4096)
def is_complete(kind: Kind, attributes: tuple[tuple[str, AttributeValue], ...]) -> bool:
    """Return whether attributes are all there and in their own types; layers of one sort share the answer.

    Raises:
        GraphError: One is unknown, missing or outside its domain.
    """
    return dict(attributes) == kind.complete(dict(attributes))


def check_epilogue(layer: Layer) -> None:
    """Check that every slot is there and is filled by what can fill it."""
    if layer.epilogue and len(layer.results) > 1:
        raise GraphError("a layer of several results has no epilogue", seen=len(layer.results), limit=1)
    for slot, stage in layer.epilogue:
        if slot not in layer.kind.hosts:
            raise GraphError(f"there is no {slot} slot after it", limit=", ".join(sorted(layer.kind.hosts)) or "none")
        if slot not in stage.kind.fills:
            raise GraphError(f"anec.{stage.kind.name} cannot fill the {slot} slot", limit=", ".join(stage.kind.fills))
        for name, constant in stage.operands.items():
            if not isinstance(constant, Constant):  # pyright: ignore[reportUnnecessaryIsInstance] - checked at run time
                raise GraphError(f"operand {name!r} in the {slot} slot is not a constant")


def check_argument(name: str, kind: OperandKind, argument: Argument, *, variadic: bool) -> None:
    """Check that an operand is one tensor or a list of them, and constant or live as it must be."""
    if isinstance(argument, tuple) != variadic:
        raise GraphError(f"operand {name!r} is {'not a list' if variadic else 'a list'} of tensors")
    for ref in argument if isinstance(argument, tuple) else (argument,):
        if kind is OperandKind.CONSTANT and isinstance(ref, Value):
            raise GraphError(f"operand {name!r} must be a constant", seen=f"%{ref.name}")
