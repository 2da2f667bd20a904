"""The body of a loop: calls of operations as an attribute of the operation that repeats them.

A body is data. It has named inputs, calls in an order in which each reads only inputs, constants and results of earlier
calls, and results. The room of graphs prints and reads it as a graph within a graph; here it is judged, evaluated and
taken apart, for which no graph is needed.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from aneforge.errors import GraphError
from aneforge.ops.attributed import Attributed
from aneforge.ops.constant import Constant, wide_values
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aneforge.errors import Location
    from aneforge.ops.op import Op
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import Array, TensorType

__all__ = ["Body", "Call", "Reference", "Source", "call_in_body"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reference:
    """A result of an earlier call of a body."""

    call: int
    index: int = 0


Source = str | Reference | Constant
"""What a call reads: an input by its name, a result of an earlier call, or a constant."""


@dataclass(frozen=True, slots=True, eq=False)
class Call(Attributed):
    """One operation of a body."""

    op: Op
    operands: Mapping[str, Source | tuple[Source, ...]]
    attributes: Mapping[str, AttributeValue]
    """All attributes, defaults filled in."""
    types: tuple[TensorType, ...]
    location: Location | None = None
    """Where the user wrote it."""

    def sources(self) -> Iterator[Source]:
        """Yield what it reads, lists taken apart."""
        for source in self.operands.values():
            yield from source if isinstance(source, tuple) else (source,)

    def bodies(self) -> Iterator[Body]:
        """Yield what it repeats, if it is a loop itself."""
        return (value for value in self.attributes.values() if isinstance(value, Body))

    def read(self, look: Callable[[Source], T]) -> dict[str, T | tuple[T, ...]]:
        """Return the operands as `look` gives them, by name."""
        return {
            name: tuple(map(look, source)) if isinstance(source, tuple) else look(source)
            for name, source in self.operands.items()
        }


@dataclass(frozen=True, eq=False)
class Body:
    """Calls that an operation repeats. Two bodies are equal if they say the same, at the same places."""

    inputs: Mapping[str, TensorType]
    calls: tuple[Call, ...]
    results: tuple[str | Reference, ...]

    @cached_property
    def digest(self) -> str:
        """The name of all that it says."""
        import hashlib  # noqa: PLC0415 - as for constants

        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()

    def lines(self) -> Iterator[str]:
        """Yield what it says, a line for every call."""
        for name, kind in self.inputs.items():
            yield f"{name} : {kind}"
        for call in self.calls:
            operands = sorted(call.read(source_text).items())
            yield f"{call.op.name} {operands} {sorted(call.attributes.items())} {call.types} {call.location}"
        yield str([*map(source_text, self.results)])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Body) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<body of {len(self.calls)} operations sha256:{self.digest[:12]}>"

    def type_of(self, source: Source) -> TensorType:
        """Return the type of what a call reads, or of a result."""
        if isinstance(source, str):
            return self.inputs[source]
        return source.type if isinstance(source, Constant) else self.calls[source.call].types[source.index]

    @cached_property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the results."""
        return tuple(map(self.type_of, self.results))

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of one iteration."""
        return sum(call.op.work(call.read(self.type_of), call.attributes).macs for call in self.calls)

    @cached_property
    def depth(self) -> int:
        """How many bodies are within one another, itself counted."""
        return 1 + max((body.depth for call in self.calls for body in call.bodies()), default=0)

    def constants(self) -> Iterator[Constant]:
        """Yield the constants that its calls read, those of bodies within it among them."""
        for call in self.calls:
            yield from (source for source in call.sources() if isinstance(source, Constant))
            for body in call.bodies():
                yield from body.constants()

    def made_types(self) -> Iterator[TensorType]:
        """Yield the types of all that its calls make, those of bodies within it among them."""
        for call in self.calls:
            yield from call.types
            for body in call.bodies():
                yield from body.made_types()

    def evaluate(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """Return the results as the mathematics gives them.

        Raises:
            GraphError: An operation has no meaning of its own.
        """
        found: list[tuple[Array, ...]] = []

        def look(source: Source) -> Array:
            if isinstance(source, str):
                return inputs[source]
            return wide_values(source) if isinstance(source, Constant) else found[source.call][source.index]

        for call in self.calls:
            try:
                found.append(call.op.evaluate(call.read(look), call.attributes))
            except GraphError as error:
                error.operation = error.operation or call.op.name
                error.location = error.location or call.location
                raise
        return tuple(map(look, self.results))


def source_text(source: object) -> str:
    """Return what a call reads as text that no other has."""
    if isinstance(source, Constant):
        return f"{source.type} {source.encoding} {source.digest}"
    return repr(source)


def call_in_body(
    op: Op,
    operands: Mapping[str, tuple[Source, TensorType]],
    attributes: Mapping[str, object] | None = None,
) -> Call:
    """Return a call of a body, its types inferred: operands are what it reads, each with its type.

    Raises:
        GraphError: The operands or attributes do not fit the operation.
    """
    completed = op.complete(attributes or {})
    types = op.types({name: kind for name, (_, kind) in operands.items()}, completed)
    return Call(op, {name: source for name, (source, _) in operands.items()}, completed, types)
