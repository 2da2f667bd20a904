"""A program for one target: inputs, states, layers in order, outputs, and what was done to get there."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.display import as_html, number_of
from aneforge.records import dataclass
from aneforge.targets import Place, database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.ops.constant import Constant
    from aneforge.targets import Target

__all__ = ["Note", "Port", "Program", "Segment", "State"]


@dataclass(frozen=True, slots=True)
class Port:
    """A named input or output of a program."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that outlives a run: the value that is read at its start, and the one written at its end, if any."""

    name: str
    read: Value
    written: Value | None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a reader of the program should know: a decomposition, a folding, a fusion undone.

    What it says is a template with values, so that what two notes share and in what they differ can be asked.

    >>> note = Note.of("split", "", "no source gives {limit} of {target}", limit="the width", target="one")
    >>> note.text, note.for_target("another").text
    ('no source gives the width of one', 'no source gives the width of another')
    """

    stage: str
    """The pass that made it."""
    layer: str
    """The layer that it is about; empty for the program as a whole."""
    template: str
    """What it says, with names of values in braces; the text itself where there are no values."""
    values: tuple[tuple[str, float | str], ...] = ()

    @classmethod
    def of(cls, stage: str, layer: str, template: str, **values: float | str) -> Note:
        """Return a note with values; `target` is the name of the target, if the text names it."""
        return cls(stage, layer, template, tuple(values.items()))

    @property
    def text(self) -> str:
        """What it says."""
        return self.template.format_map(dict(self.values)) if self.values else self.template

    def for_target(self, target: str) -> Note:
        """Return the same note of another target."""
        values = tuple((name, target if name == "target" else value) for name, value in self.values)
        return replace(self, values=values)


@dataclass(frozen=True, slots=True)
class Segment:
    """Layers that run as one program; a bridge is a layer that needs a program of its own."""

    number: int
    layers: tuple[Layer, ...]

    @property
    def bridge(self) -> bool:
        """It is one layer that cannot share a program with others."""
        return any(layer.kind.bridge for layer in self.layers)


@dataclass(frozen=True, eq=False)
class Program:
    """Layers of the engine in the order of their writing. Immutable; passes make new ones."""

    target: Target
    inputs: tuple[Port, ...]
    layers: tuple[Layer, ...]
    outputs: tuple[Port, ...]
    states: tuple[State, ...] = ()
    notes: tuple[Note, ...] = ()
    chip: str | None = None
    """The key of the chip, where one was named and not its target: chips of one target differ in their times."""

    @property
    def place(self) -> Place:
        """What it was compiled for: the chip, where one was named, and its target."""
        return Place(self.target, None if self.chip is None else database().chips[self.chip])

    @cached_property
    def producers(self) -> Mapping[str, Layer]:
        """The layer that writes each value, by the value's name; inputs and states have none."""
        return {result.name: layer for layer in self.layers for result in layer.results}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Layer, ...]]:
        """The layers that read each value, by the value's name, in order; one that reads it twice is there once."""
        found: dict[str, list[Layer]] = {}
        for layer in self.layers:
            for value in dict.fromkeys(value.name for value in layer.bottoms):
                found.setdefault(value, []).append(layer)
        return {name: tuple(layers) for name, layers in found.items()}

    @cached_property
    def kept(self) -> frozenset[str]:
        """The names of the values that leave the program: outputs, and states as they are after a run."""
        states = ((state.written or state.read).name for state in self.states)
        return frozenset((*(port.value.name for port in self.outputs), *states))

    @cached_property
    def constants(self) -> Mapping[str, Constant]:
        """Every constant by its symbol: the layer and the place in which it is first read."""
        symbols: dict[Constant, str] = {}
        for layer in self.layers:
            for place, number, constant in number_constants(layer.constants()):
                symbols.setdefault(constant, f"{layer.name}.{place}{number or ''}")
        return {symbol: constant for constant, symbol in symbols.items()}

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The layers by segment."""
        groups = itertools.groupby(self.layers, key=lambda layer: layer.segment)
        return tuple(Segment(number, tuple(layers)) for number, layers in groups)

    def only_reader(self, value: Value) -> Layer | None:
        """Return the one layer that reads a value, where there is one and the value goes nowhere else."""
        readers = self.consumers.get(value.name, ())
        return readers[0] if len(readers) == 1 and value.name not in self.kept else None

    def with_layers(
        self, layers: Iterable[Layer], notes: Iterable[Note] = (), now: Mapping[str, Value] | None = None
    ) -> Program:
        """Return a program of other layers; `now` says which values stand for ones that are gone."""
        if not now:
            return replace(self, layers=tuple(layers), notes=(*self.notes, *notes))

        def current(value: Value) -> Value:
            while value.name in now:
                value = now[value.name]
            return value

        return replace(
            self,
            layers=tuple(layer.reading(current) for layer in layers),
            outputs=tuple(Port(port.name, current(port.value)) for port in self.outputs),
            states=tuple(
                replace(state, written=current(state.written)) if state.written else state for state in self.states
            ),
            notes=(*self.notes, *notes),
        )

    def __str__(self) -> str:
        from aneforge.compiler.ir.printing import program_text  # noqa: PLC0415 - it imports this module

        return program_text(self)

    def __repr__(self) -> str:
        layers, segments = number_of(len(self.layers), "layer"), number_of(len(self.segments), "segment")
        return f"<program of {layers} in {segments} for {self.target.name}>"

    def _repr_html_(self) -> str:
        return as_html(f"{self!r}\n{self}")


def number_constants(places: Iterable[tuple[str, Constant]]) -> Iterator[tuple[str, int, Constant]]:
    """Count the constants of one place, such as those in a list."""
    seen: dict[str, int] = {}
    for place, constant in places:
        yield place, seen.get(place, 0), constant
        seen[place] = seen.get(place, 0) + 1
