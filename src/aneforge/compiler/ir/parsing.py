"""Reads the text form of a program back, exactly; `printing` says what it looks like.

The text is read line by line, each line with a rule of the grammar for its kind, as the text of graphs is.
"""

from __future__ import annotations

import io
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, cast

import lark

from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.ir.layer import Layer, Stage, Value
from aneforge.compiler.ir.program import Note, Port, Program, State
from aneforge.compiler.ir.verifier import verify
from aneforge.errors import AneforgeError, GraphError, Location
from aneforge.graph.parsing import (
    BLANKS,
    attribute_of,
    excerpt,
    expect_meant,
    place_of,
    subtrees,
    text_of,
    tokens,
    type_of,
    unique,
    whole,
)
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Argument, Ref
    from aneforge.graph.parsing import TextParser, Tree
    from aneforge.ops.constant import Constant
    from aneforge.ops.signature import AttributeValue

__all__ = ["parse_program"]

GRAMMAR = r"""
    opening: "program" "for" WORD "{"
    input: "input" STRING "=" VALUE ":" TYPE
    state: "state" STRING "=" VALUE ":" TYPE
    segment: "segment" WHOLE ":"
    layer: results "=" WORD KIND operands attributes ":" types place
    results: VALUE ("," VALUE)*
    operands: "(" [operand ("," operand)*] ")"
    operand: WORD "=" (VALUE | SYMBOL | list)
    list: "[" [(VALUE | SYMBOL) ("," (VALUE | SYMBOL))*] "]"
    attributes: ["{" attribute ("," attribute)* "}"]
    attribute: WORD "=" (literal | literals)
    literal: WORD | STRING | FLOAT | WHOLE
    literals: "[" [literal ("," literal)*] "]"
    types: TYPE ("," TYPE)*
    place: ["at" [STRING] ["line" WHOLE] ["node" STRING]]
    slot: WORD ":" KIND operands attributes
    chosen: "chosen" ":" attributes
    output: "output" STRING "=" VALUE
    write: "write" STRING "=" VALUE
    note: "note" STRING [VALUE] STRING
    constant: "constant" SYMBOL ":" TYPE WORD (DIGEST | ABSENT [STRING])
    closing: "}"

    KIND.2: /anec\.[a-z][a-z0-9_]*/
    WORD: /[A-Za-z_][A-Za-z0-9_]*/
    VALUE: /%[A-Za-z0-9_.]+/
    SYMBOL: /@[A-Za-z0-9_.]+/
    TYPE.1: /[a-z][a-z0-9]*\[([0-9]+([ \t]*,[ \t]*[0-9]+)*)?\]/
    DIGEST: /sha256:[0-9a-f]{64}/
    ABSENT.3: /without[ \t]+values/
    FLOAT.2: /-?(inf|nan)\.0|-?[0-9]+(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)/
    WHOLE.1: /-?[0-9]+/
    STRING: /"([^"\\\n]|\\.)*"/
    %ignore /[ \t\r]+/
"""
SLOTS = {slot.value for slot in Slot}
FIRST = re.compile(r"%|}|[a-z_]+", re.ASCII)
RULES = {
    "program": "opening",
    "%": "layer",
    "}": "closing",
    **{word: word for word in ("input", "state", "segment", "chosen", "output", "write", "note", "constant")},
    **dict.fromkeys(SLOTS, "slot"),
}
"""The rule for a line, by its first word."""
ORDER = [
    "",
    "opening",
    "input",
    "state",
    "segment",
    "layer",
    "slot",
    "chosen",
    "output",
    "write",
    "note",
    "constant",
    "closing",
]
REPEATED = {"segment", "layer", "slot", "chosen"}
"""Kinds of lines that alternate; all others only ever follow those before them in the order."""


@cache
def parser() -> TextParser:
    """Return the parser of the text form."""
    return cast(
        "TextParser", lark.Lark(GRAMMAR, parser="lalr", start=sorted(set(RULES.values())), maybe_placeholders=True)
    )


def parse_program(text: str, constants: Mapping[str, Constant] | None = None) -> Program:
    """Read a program back from its text; `constants` gives the value of every symbol in it.

    Raises:
        GraphError: The text is not a program, or a constant is missing or not the one that was meant.
    """
    return Reader(constants or {}).program(text)


class Reader:
    """Reads the lines of a text and holds what they defined so far."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        self.given = constants
        self.number = 1
        self.before = ""
        self.target = ""
        self.segment = 0
        self.values: dict[str, Value] = {}
        self.inputs: list[Port] = []
        self.states: list[State] = []
        self.layers: list[Layer] = []
        self.outputs: list[Port] = []
        self.notes: list[Note] = []
        self.used: dict[str, int] = {}
        self.declared: set[str] = set()

    def program(self, text: str) -> Program:
        """Return the whole program."""
        try:
            for number, line in enumerate(io.StringIO(text), 1):
                if stripped := line.strip(BLANKS):
                    self.number = number
                    self.line(stripped)
            if self.before != "closing":
                raise GraphError("this is not a program: the text ends before its closing brace")
            made = Program(
                resolve(self.target),
                tuple(self.inputs),
                tuple(self.layers),
                tuple(self.outputs),
                tuple(self.states),
                tuple(self.notes),
            )
            verify(made)
        except AneforgeError as error:
            error.location = Location("program text", self.number)
            raise
        return made

    def line(self, line: str) -> None:
        """Read one line."""
        first = FIRST.match(line)
        rule = RULES.get(first[0]) if first else None
        if rule is None:
            raise not_a_program(line, 0)
        if not self.may_follow(rule):
            raise GraphError(f"this is not a program, the line does not belong here:\n{excerpt(line, 0)}")
        try:
            tree = parser().parse(line, rule)
        except lark.exceptions.UnexpectedInput as error:
            raise not_a_program(line, error.pos_in_stream or 0) from None
        self.before = rule
        getattr(self, f"read_{rule}")(tree)

    def may_follow(self, rule: str) -> bool:
        """Return whether a line may be here."""
        now, then = ORDER.index(rule), ORDER.index(self.before)
        if rule in ("slot", "chosen"):
            return self.before in ("layer", "slot")
        if rule in REPEATED and self.before in REPEATED:
            return not (rule == "segment" and self.before == "segment")
        return then < now or (rule == self.before and rule not in ("opening", "closing"))

    def read_opening(self, tree: Tree) -> None:
        """Read the target."""
        (self.target,) = tokens(tree)

    def read_input(self, tree: Tree) -> None:
        """Read an input."""
        name, value = self.port(tree)
        self.inputs.append(Port(name, value))

    def read_state(self, tree: Tree) -> None:
        """Read a state."""
        name, value = self.port(tree)
        self.states.append(State(name, value, None))

    def port(self, tree: Tree) -> tuple[str, Value]:
        """Read the name and the value of an input or state."""
        name, word, kind = tokens(tree)
        value = Value(word[1:], type_of(kind))
        self.values[value.name] = value
        return text_of(name), value

    def read_segment(self, tree: Tree) -> None:
        """Read the number of a segment."""
        (word,) = tokens(tree)
        self.segment = whole(word)

    def read_layer(self, tree: Tree) -> None:
        """Read a layer without its epilogue."""
        engine, name = tokens(tree)
        results, operands, attributes, types, place = subtrees(tree)
        kind = find_kind(name)
        if engine not in set(Engine):
            raise GraphError("there is no such unit", seen=engine, limit=", ".join(Engine))
        words, described = tokens(results), tokens(types)
        if len(words) != len(described):
            raise GraphError("a layer has a type for every result", seen=len(described), limit=len(words))
        values = tuple(Value(word[1:], type_of(kind)) for word, kind in zip(words, described, strict=True))
        self.layers.append(
            Layer(
                kind=kind,
                operands=self.arguments(operands),
                attributes=kind.complete(attributes_of(attributes)),
                results=values,
                engine=Engine(engine),
                segment=self.segment,
                location=place_of(place),
            )
        )
        self.values.update({value.name: value for value in values})

    def read_slot(self, tree: Tree) -> None:
        """Read what fills a slot of the layer above."""
        word, name = tokens(tree)
        operands, attributes = subtrees(tree)
        kind, slot = find_kind(name), Slot(word)
        layer = self.layers[-1]
        if layer.epilogue.last is not None and layer.epilogue.last.place >= slot.place:
            raise GraphError(f"the {slot} slot does not come after the {layer.epilogue.last} slot")
        held = {place: self.slot_constant(place, argument) for place, argument in self.arguments(operands).items()}
        stage = Stage(kind, held, kind.complete(attributes_of(attributes)))
        self.layers[-1] = replace(layer, epilogue=layer.epilogue.filled(slot, stage))

    def read_chosen(self, tree: Tree) -> None:
        """Read what was chosen for the layer above."""
        (attributes,) = subtrees(tree)
        chosen = {
            name: cast("AttributeValue", tuple(cast("list[object]", value)) if isinstance(value, list) else value)
            for name, value in attributes_of(attributes).items()
        }
        self.layers[-1] = self.layers[-1].choosing(**chosen)

    def read_output(self, tree: Tree) -> None:
        """Read an output."""
        name, word = tokens(tree)
        self.outputs.append(Port(text_of(name), self.value(word)))

    def read_write(self, tree: Tree) -> None:
        """Read what is written to a state."""
        word, value = tokens(tree)
        name = text_of(word)
        if all(state.name != name or state.written is not None for state in self.states):
            raise GraphError(f"state {name!r} is not read, or written twice")
        self.states = [
            replace(state, written=self.value(value)) if state.name == name else state for state in self.states
        ]

    def read_note(self, tree: Tree) -> None:
        """Read a note."""
        stage, *layer, text = tokens(tree)
        self.notes.append(Note(text_of(stage), layer[0][1:] if layer else "", text_of(text)))

    def read_constant(self, tree: Tree) -> None:
        """Check that a constant is used, and that what is given for its symbol is the one that was meant."""
        word, *words = tokens(tree)
        symbol = word[1:]
        if symbol not in self.used or symbol in self.declared:
            raise GraphError(f"constant {word} is {'declared twice' if symbol in self.declared else 'never used'}")
        self.declared.add(symbol)
        expect_meant(word, self.given[symbol], words)

    def read_closing(self, _: Tree) -> None:
        """Check that every constant that is used has its line."""
        for symbol, number in self.used.items():
            if symbol not in self.declared:
                self.number = number
                raise GraphError(f"constant @{symbol} has no line at the end that says which it is")

    def arguments(self, tree: Tree) -> dict[str, Argument]:
        """Read operands."""
        return unique("operand", [(tokens(one)[0], self.argument(one)) for one in subtrees(tree)])

    def argument(self, operand: Tree) -> Argument:
        """Read one operand."""
        listed = subtrees(operand)
        return tuple(map(self.ref, tokens(listed[0]))) if listed else self.ref(tokens(operand)[1])

    def slot_constant(self, name: str, argument: Argument) -> Constant:
        """Return an operand of a slot, which must be a constant."""
        if isinstance(argument, tuple | Value):
            raise GraphError(f"operand {name!r} in a slot is not a constant")
        return argument

    def ref(self, word: str) -> Ref:
        """Read a value or a constant."""
        return self.value(word) if word.startswith("%") else self.constant(word[1:])

    def value(self, word: str) -> Value:
        """Return a value of an earlier line."""
        if word[1:] not in self.values:
            raise GraphError(f"{word} is used before it is defined")
        return self.values[word[1:]]

    def constant(self, symbol: str) -> Constant:
        """Return the constant that a symbol stands for."""
        if symbol not in self.given:
            raise GraphError(f"constant @{symbol} is not given", limit=", ".join(self.given) or "no constants")
        self.used.setdefault(symbol, self.number)
        return self.given[symbol]


def attributes_of(tree: Tree) -> dict[str, object]:
    """Read attributes."""
    return unique("attribute", [(tokens(one)[0], attribute_of(one)) for one in subtrees(tree)])


def not_a_program(line: str, column: int) -> GraphError:
    """Return the error for a line that breaks the grammar at a column."""
    return GraphError(f"this is not a program:\n{excerpt(line, column)}")
