"""The program of a package in the form that MIL text has: one reader makes graphs of both.

A place of the program is the number of an operation; inputs of functions come before the first. The names that are
there are kept, so that errors say where they are.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.formats.mil.calls import TUPLED, mil_ops
from aneforge.formats.mil.diagnostics import MilError, MilRule
from aneforge.formats.mil.elements import TEXT
from aneforge.formats.mil.literals import quote_text
from aneforge.formats.mil.metadata import BUILD_INFO
from aneforge.formats.mil.opsets import opset_name
from aneforge.formats.mil.source import PackageSource
from aneforge.formats.mil.syntax import (
    Argument,
    Block,
    Function,
    Immediate,
    NamedType,
    Program,
    RawAttribute,
    Reference,
    Statement,
    Tuple,
    ValueType,
)
from aneforge.formats.mil.text_rules import NO_FUNCTION, NO_GRAPH_FORM
from aneforge.formats.mlpackage.classes import CLASSIFY, Classified, read_classification
from aneforge.formats.mlpackage.mlpackage_values import type_of, value_of
from aneforge.formats.mlpackage.sizes import MOST_PARTS, TOO_MANY_PARTS
from aneforge.records import dataclass
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.mil.syntax import Type, Value
    from aneforge.formats.mlpackage.messages import (
        MilArgument,
        MilBlock,
        MilFunction,
        MilOperation,
        MilPort,
        MilProgram,
        MilValue,
        Repeated,
    )

__all__ = ["Translation", "translate_program"]

DEEPEST = 16
"""Blocks in one another; protobuf itself stops at a hundred messages."""
TEXT_TYPE = ValueType(TEXT)
NO_BLOCK = MilRule.of(
    "MIL-PACKAGE-001",
    """Function {name} has no operations for its opset.

    Remedy: convert the model again.
    """,
)
OUTPUT_TWICE = MilRule.of(
    "MIL-PACKAGE-005",
    """The function gives {name} more than once, as coremltools writes equal outputs; the graph has it once.

    Remedy: not needed: read the one output in place of both.
    """,
    Severity.INFO,
)


@dataclass(slots=True)
class Translation:
    """A program that is being read, and the names at its places."""

    names: list[str] = field(default_factory=list[str])
    parts: int = 0
    """Operations, their parameters, results and attributes so far."""
    types: dict[str, Type] = field(default_factory=dict[str, "Type"])
    """The types of what was named so far in the function."""
    found: list[Classified] = field(default_factory=list[Classified])
    """The classifications so far in the function."""
    notes: dict[str, tuple[MilError, ...]] = field(default_factory=dict[str, "tuple[MilError, ...]"])
    """What the author of each function should know."""

    def function(self, name: str, function: MilFunction) -> Function:
        """Return a function.

        Raises:
            MilError: It has no operations for its opset, or a type or value is none.
        """
        at = self.here(name)
        blocks = function.block_specializations
        key = function.opset if function.opset in blocks else next(iter(blocks), None)
        if key is None or (key != function.opset and len(blocks) > 1):
            found = ", ".join(sorted(blocks)) or "none"
            raise NO_BLOCK.broken(at, name=name, found=found, expected=function.opset)
        self.types, self.found = {}, []
        inputs = self.ports(function.inputs)
        block = self.block(blocks[key], 0)
        outputs, repeated = self.outputs_once(block)
        self.notes[name] = (*(one.note() for one in self.found), *repeated)
        return Function(name, opset_name(key), inputs, block.statements, outputs, (), at)

    def outputs_once(self, block: Block) -> tuple[tuple[Reference, ...], list[MilError]]:
        """Return what a function gives but for labels, each value once, and notes about those that it gives again."""
        labels = {one.label for one in self.found}
        kept: dict[str, Reference] = {}
        repeated: list[MilError] = []
        for output in block.outputs:
            if output.name in kept:
                repeated.append(OUTPUT_TWICE.broken(output.at, name=output.name))
            elif output.name not in labels:
                kept[output.name] = output
        return tuple(kept.values()), repeated

    def block(self, block: MilBlock, depth: int) -> Block:
        """Return the statements of a block."""
        at = len(self.names) - 1
        if depth > DEEPEST:
            found = f"{depth} nested blocks"
            raise NO_GRAPH_FORM.broken(at, found=found, expected=f"up to {DEEPEST}", suggestion="use fewer levels")
        inputs = self.ports(block.inputs)
        statements = tuple(self.statement(one, depth) for one in block.operations)
        at = len(self.names) - 1
        return Block(inputs, statements, tuple(Reference(name, at) for name in block.outputs), at)

    def statement(self, operation: MilOperation, depth: int) -> Statement:
        """Return an operation."""
        results = operation.outputs
        at = self.here(results[0].name if len(results) else operation.type)
        self.parts += 1 + len(results) + len(operation.attributes)
        self.parts += sum(len(operation.inputs[key].arguments) for key in operation.inputs)
        if self.parts > MOST_PARTS:
            raise TOO_MANY_PARTS.broken(at, found=f"more than {MOST_PARTS}", expected=f"up to {MOST_PARTS}")
        name = Argument("name", Immediate(TEXT_TYPE, (self.names[at],), at), at)
        if operation.type == CLASSIFY and (found := read_classification(operation, name, self.types, at)) is not None:
            self.found.append(found)
            return found.statement
        arguments = tuple(
            Argument(key, self.argument(operation.type, key, operation.inputs[key], at), at)
            for key in sorted(operation.inputs)
        )
        attributes = tuple(
            Argument(key, value_of(operation.attributes[key], key, at), at)
            for key in sorted(operation.attributes)
            if key != "name"
        )
        named = tuple(NamedType(type_of(one.type, one.name, at), one.name, at, at) for one in results)
        self.types.update({one.name: one.type for one in named})
        blocks = tuple(self.block(one, depth + 1) for one in operation.blocks)
        return Statement(named, operation.type, arguments, (name, *attributes), at, at, blocks)

    def argument(self, op: str, name: str, argument: MilArgument, at: int) -> Value:
        """Return what a parameter is given: one value, or several in its place."""
        values: list[Value] = [
            Reference(one.name, at) if one.WhichOneof("binding") == "name" else value_of(one.value, name, at)
            for one in argument.arguments
        ]
        entry = mil_ops().get(op)
        variadic = entry is not None and any(one.variadic and one.name == name for one in entry.operands)
        return values[0] if len(values) == 1 and not variadic and (op, name) not in TUPLED else Tuple(tuple(values), at)

    def ports(self, ports: Repeated[MilPort]) -> tuple[NamedType, ...]:
        """Return the inputs of a function or of a block."""
        found: list[NamedType] = []
        for port in ports:
            at = self.here(port.name)
            found.append(NamedType(type_of(port.type, port.name, at), port.name, at, at))
            self.types[port.name] = found[-1].type
        return tuple(found)

    def here(self, name: str) -> int:
        """Return a new place, and remember what is there."""
        self.names.append(name)
        return len(self.names) - 1


def translate_program(
    program: MilProgram, file: str
) -> tuple[Program, PackageSource, Mapping[str, tuple[MilError, ...]]]:
    """Return a program, its places, and what the author of each function should know.

    Raises:
        MilError: A function cannot be read, or there is none.
    """
    translation = Translation()
    source = PackageSource(translation.names, file)
    try:
        functions = {name: translation.function(name, program.functions[name]) for name in sorted(program.functions)}
        if not functions:
            raise NO_FUNCTION.broken(0, expected="main")
        return Program(str(program.version), build_info(program), functions), source, translation.notes
    except MilError as error:
        source.locate(error)
        raise


def build_info(program: MilProgram) -> tuple[RawAttribute, ...]:
    """Return the texts that compilers wrote about themselves, in the form of the text; other entries are left out."""
    if BUILD_INFO not in program.attributes:
        return ()
    pairs = program.attributes[BUILD_INFO].immediateValue.dictionary.values
    texts = [(text_of(one.key), text_of(one.value)) for one in pairs]
    shown = ", ".join(
        f"{{{quote_text(key)}, {quote_text(value)}}}" for key, value in texts if key is not None and value is not None
    )
    return (RawAttribute(BUILD_INFO, f"dict<string, string>({{{shown}}})"),)


def text_of(value: MilValue) -> str | None:
    """Return a text; None for any other value."""
    texts = value.immediateValue.tensor.strings.values
    return texts[0] if len(texts) == 1 else None
