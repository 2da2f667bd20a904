"""A layer: one engine operation with its seven-slot epilogue. Immutable, in single assignment.

A layer names the values that it reads and carries their types, so that it can be checked alone, once; a pass that keeps
a layer keeps that check. Constants are in layers as they are; the text form gives them symbols.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

from aneforge.compiler.ir.kind import Engine, Kind, Slot
from aneforge.ops.attributed import Attributed
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aneforge.errors import Location
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType

__all__ = ["Argument", "Epilogue", "Layer", "Ref", "Stage", "Value"]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that exists while a program runs: written once, by an input, a state or a layer."""

    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.type.shape)


Ref: TypeAlias = Value | Constant
Argument: TypeAlias = Ref | tuple[Ref, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Stage(Attributed):
    """What fills a slot: a kind of layer, its attributes, and its constants next to the tensor that flows."""

    kind: Kind
    operands: Mapping[str, Constant]
    attributes: Mapping[str, AttributeValue]

    def type_of(self, flowing: TensorType) -> TensorType:
        """Return the type that leaves the stage.

        Raises:
            GraphError: What flows in does not fit.
        """
        operands = {self.kind.flowing: flowing, **{name: constant.type for name, constant in self.operands.items()}}
        (result,) = self.kind.types(operands, self.attributes)
        return result


SLOT_NAMES = tuple((slot, slot.value) for slot in Slot)


@dataclass(frozen=True, slots=True, eq=False)
class Epilogue:
    """The seven slots after an engine operation; an empty one does nothing."""

    texture: Stage | None = None
    broadcast: Stage | None = None
    pre_activation: Stage | None = None
    gain_offset: Stage | None = None
    post_activation: Stage | None = None
    transpose: Stage | None = None
    quantise: Stage | None = None

    stages: tuple[tuple[Slot, Stage], ...] = field(init=False)
    """The filled slots in the order of application."""

    def __post_init__(self) -> None:
        named: list[tuple[Slot, Stage | None]] = [(slot, getattr(self, name)) for slot, name in SLOT_NAMES]
        object.__setattr__(self, "stages", tuple((slot, stage) for slot, stage in named if stage is not None))

    def __getitem__(self, slot: Slot) -> Stage | None:
        return cast("Stage | None", getattr(self, slot.value))

    def __iter__(self) -> Iterator[tuple[Slot, Stage]]:
        """Iterate over the filled slots in the order of application."""
        return iter(self.stages)

    def __bool__(self) -> bool:
        return bool(self.stages)

    def filled(self, slot: Slot, stage: Stage | None) -> Epilogue:
        """Return an epilogue with a slot filled, or emptied."""
        return replace(self, **{slot.value: stage})

    @property
    def last(self) -> Slot | None:
        """The last filled slot."""
        return self.stages[-1][0] if self.stages else None


EMPTY = Epilogue()
VERIFIED = "found_right"
"""Where a layer notes that the verifier passed it."""
KNOWN = ("name", "bottoms", "core_types", "computed_types", VERIFIED)
"""What a layer computes of itself once; all of it holds for a layer that differs only in its choices or segment."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer(Attributed):
    """One operation of the engine, its epilogue, and what was decided about how it runs."""

    kind: Kind
    operands: Mapping[str, Argument]
    """Operands by name; an optional one that is not given is not there."""
    attributes: Mapping[str, AttributeValue]
    """All attributes, defaults filled in."""
    results: tuple[Value, ...]
    """What leaves the epilogue; a layer of several results has none."""
    engine: Engine
    epilogue: Epilogue = EMPTY
    choices: Mapping[str, AttributeValue] = field(default_factory=dict[str, "AttributeValue"])
    """What legalisation decided: routes and geometry. They change how a layer runs, not what it means."""
    segment: int = 0
    location: Location | None = None

    def __post_init__(self) -> None:
        # Found here and not when it is first asked for: only attributes that the first few objects of a class have are
        # kept in a table that all share. One that comes later gives every layer a table of its own, of 800 bytes.
        self.__dict__["name"] = self.results[0].name

    @property
    def result(self) -> Value:
        """The first result, whose name is the layer's."""
        return self.results[0]

    @cached_property
    def name(self) -> str:
        """The name of the layer: that of its first result."""
        return self.results[0].name

    def refs(self) -> Iterator[tuple[str, Ref]]:
        """Iterate over every operand with its name, lists taken apart, the epilogue's left out."""
        for name, argument in self.operands.items():
            for ref in argument if isinstance(argument, tuple) else (argument,):
                yield name, ref

    @cached_property
    def bottoms(self) -> tuple[Value, ...]:
        """The values that it reads, in order."""
        return tuple(ref for _, ref in self.refs() if isinstance(ref, Value))

    def constants(self) -> Iterator[tuple[str, Constant]]:
        """Iterate over every constant with the name of its place, those of the epilogue last."""
        for name, ref in self.refs():
            if isinstance(ref, Constant):
                yield name, ref
        for slot, stage in self.epilogue:
            for name, constant in stage.operands.items():
                yield f"{slot.value}.{name}", constant

    def operand(self, name: str) -> Ref:
        """Return an operand that is one tensor."""
        return cast("Ref", self.operands[name])

    def weight(self, name: str) -> Constant | None:
        """Return an operand if it is a constant."""
        found = self.operands.get(name)
        return found if isinstance(found, Constant) else None

    @cached_property
    def core_types(self) -> tuple[TensorType, ...]:
        """The types of what the engine operation gives, before the epilogue.

        Raises:
            GraphError: The operands do not fit the kind.
        """
        types = {
            name: tuple(ref.type for ref in argument) if isinstance(argument, tuple) else argument.type
            for name, argument in self.operands.items()
        }
        return self.kind.types(types, self.attributes)

    @cached_property
    def computed_types(self) -> tuple[TensorType, ...]:
        """The types that the results must have: those of the operation, taken through the epilogue.

        Raises:
            GraphError: Operands, attributes and epilogue do not fit together.
        """
        types = self.core_types
        for _, stage in self.epilogue:
            types = (stage.type_of(types[0]), *types[1:])
        return types

    def reading(self, now: Callable[[Value], Value]) -> Layer:
        """Return the layer with the values that it reads exchanged; itself, where none is."""
        if all(now(value) is value for value in self.bottoms):
            return self

        def ref_now(ref: Ref) -> Ref:
            return now(ref) if isinstance(ref, Value) else ref

        operands = {
            name: tuple(map(ref_now, argument)) if isinstance(argument, tuple) else ref_now(argument)
            for name, argument in self.operands.items()
        }
        made = replace(self, operands=operands)
        same_types = all(now(value).type == value.type for value in self.bottoms)
        return self.known_as(made, "name", "core_types", "computed_types", VERIFIED) if same_types else made

    def followed_by(self, epilogue: Epilogue, results: tuple[Value, ...]) -> Layer:
        """Return the layer with another epilogue; what its engine operation reads and gives is known already."""
        return self.known_as(replace(self, epilogue=epilogue, results=results), "bottoms", "core_types")

    def choosing(self, **choices: AttributeValue) -> Layer:
        """Return the layer with further choices noted."""
        return self.known_as(replace(self, choices={**self.choices, **choices}), *KNOWN)

    def in_segment(self, segment: int) -> Layer:
        """Return the layer in another segment."""
        return self if segment == self.segment else self.known_as(replace(self, segment=segment), *KNOWN)

    def typed(self, core: tuple[TensorType, ...], computed: tuple[TensorType, ...]) -> Layer:
        """Return the layer itself with the types that its maker computed, so that they are computed once."""
        self.__dict__.update(core_types=core, computed_types=computed)
        return self

    def known_as(self, other: Layer, *names: str) -> Layer:
        """Return another layer for which some of what is known of this one holds too, by the names of `KNOWN`."""
        for name in names:
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    @property
    def verified(self) -> bool:
        """It was found to be right; layers never change."""
        return VERIFIED in self.__dict__

    def mark_verified(self) -> None:
        """Note that it was found to be right."""
        self.__dict__[VERIFIED] = True
