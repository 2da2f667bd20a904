"""The ports of a MIL function: its inputs, its states, what it returns, and the casts between them and the engine.

Core ML's engine feeds a program fp32 and takes fp32 from it, so its programs begin with casts to fp16 and end with
casts from it; a program that is dispatched directly has fp16 ports. A graph can be read with the casts, as the text has
them, or without: the host then casts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aneforge.formats.mil.mil_values import State
from aneforge.formats.mil.syntax import Immediate, Literal, Reference, Statement, StateType, Tuple, ValueType
from aneforge.formats.mil.text_rules import UNKNOWN_EXTENT, WRONG_SORT
from aneforge.graph.graph import INPUT, STATE
from aneforge.graph.node import new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.table import find_op
from aneforge.ops.types import DTYPES, TensorType
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.errors import Location
    from aneforge.formats.mil.metadata import Hints
    from aneforge.formats.mil.syntax import Function, NamedType, Value

__all__ = ["DIRECT_PORTS", "ENGINE", "HOST", "PortCasts", "placeholder", "references"]

DIRECT_PORTS = ("fp16", "uint8")
"""Element types of the ports of a program that is dispatched directly."""
HOST, ENGINE = "fp32", "fp16"
"""Element types on the two sides of a cast at a port."""


def placeholder(port: NamedType, hints: Hints, place: Location, *, narrowed: bool) -> Tensor | State:
    """Return what an input of a function stands for: an input or a state of the graph.

    Raises:
        MilError: No graph has an input of that type.
    """
    held = port.type.held if isinstance(port.type, StateType) else port.type
    if not isinstance(held, ValueType) or held.dtype not in DTYPES:
        raise WRONG_SORT.broken(
            port.at, name=port.name, found=port.type, expected="tensor<fp16, […]> or state<tensor<…>>"
        )
    if not held.known:
        raise UNKNOWN_EXTENT.broken(port.at, name=port.name, found=port.type, expected="a length for every axis")
    kind = TensorType(held.shape, ENGINE if narrowed else held.dtype)
    name = hints.names.get(port.name, port.name)
    attributes: dict[str, object] = {"shape": kind.shape, "dtype": kind.dtype, "name": name}
    if isinstance(port.type, StateType):
        held = Tensor(new_node(find_op(STATE), {}, attributes, place))
        return State(name, held, held)
    if port.name in hints.max_abs:
        attributes["max_abs"] = hints.max_abs[port.name]
    return Tensor(new_node(find_op(INPUT), {}, attributes, place))


def references(value: Value) -> Iterator[Reference]:
    """Yield every name in a value."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, Tuple):
        for item in value.items:
            yield from references(item)


@dataclass(frozen=True, slots=True)
class PortCasts:
    """The casts at the ports of a function: inputs that are only cast, and results of casts that are only returned."""

    narrowed: frozenset[str]
    """Inputs of fp32 that are read only by casts to fp16."""
    widened: frozenset[str]
    """Outputs that are casts to fp32 and that nothing else reads."""

    @classmethod
    def of(cls, function: Function) -> PortCasts:
        """Find the casts at the ports of a function."""
        texts = {one.results[0].name: text for one in function.statements if (text := const_text(one)) is not None}
        casts = {ENGINE: Counter[str](), HOST: Counter[str]()}
        uses = Counter(output.name for output in function.outputs)
        widened: set[str] = set()
        for statement in function.statements:
            for argument in (*statement.arguments, *statement.attributes):
                uses.update(reference.name for reference in references(argument.value))
            cast = cast_of(statement, texts)
            if cast is not None:
                source, dtype = cast
                casts[dtype][source] += 1
                if dtype == HOST and len(statement.results) == 1:
                    widened.add(statement.results[0].name)
        inputs = [one.name for one in function.inputs if isinstance(one.type, ValueType) and one.type.dtype == HOST]
        outputs = {output.name for output in function.outputs}
        return cls(
            frozenset(name for name in inputs if uses[name] == casts[ENGINE][name] and name not in outputs),
            frozenset(name for name in widened & outputs if uses[name] == 1),
        )


def const_text(statement: Statement) -> str | None:
    """Return the text of a statement that is a const of one."""
    if statement.op != "const" or len(statement.results) != 1:
        return None
    return next((literal_text(one.value) for one in statement.attributes if one.name == "val"), None)


def literal_text(value: Value) -> str | None:
    """Return a text that is in the program, without its quotation marks; element types need no escapes."""
    if not isinstance(value, Literal | Immediate) or value.type.dtype != "string" or value.type.rank:
        return None
    return value.text.strip('"') if isinstance(value, Literal) else str(value.values[0])


def cast_of(statement: Statement, texts: dict[str, str]) -> tuple[str, str] | None:
    """Return what a statement casts and to what, if it is a cast between the element types of host and engine."""
    if statement.op != "cast":
        return None
    given = {argument.name: argument.value for argument in statement.arguments}
    x, dtype = given.get("x"), given.get("dtype")
    word = texts.get(dtype.name) if isinstance(dtype, Reference) else None if dtype is None else literal_text(dtype)
    return (x.name, word) if isinstance(x, Reference) and word in (HOST, ENGINE) else None
