"""Reads one function of a MIL program into a graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.errors import AneforgeError, nearest_names
from aneforge.formats.mil.blocks import read_condition, write_out_loop
from aneforge.formats.mil.calls import Call, collect_parameters, not_fitting, op_called
from aneforge.formats.mil.checks import FOLDED, PORT_DTYPE, UNUSED_INPUT, checks_of
from aneforge.formats.mil.constexpr import CONSTEXPR, constexpr_constants
from aneforge.formats.mil.diagnostics import MilError, list_names
from aneforge.formats.mil.forms import FORMS, generic
from aneforge.formats.mil.literals import number_text
from aneforge.formats.mil.mil_values import Bound, Encoded, Known, State, const_of, describe_bound, get_known_value
from aneforge.formats.mil.opsets import NAMED, OPSETS, first_opset, opset_name
from aneforge.formats.mil.ports import DIRECT_PORTS, ENGINE, HOST, PortCasts, placeholder
from aneforge.formats.mil.rows import with_known_rows
from aneforge.formats.mil.states import as_tensor, find_written_unread, read_state, write_state
from aneforge.formats.mil.syntax import Blob, Immediate, ListType, Literal, Reference, ValueType
from aneforge.formats.mil.text_rules import (
    LATER,
    NEWER_OPSET,
    NO_GRAPH_FORM,
    NO_OUTPUT,
    PARAMETER_SORT,
    RESERVED,
    RESULT_COUNT,
    RESULT_TYPE,
    STATE_AS_TENSOR,
    TWICE,
    UNDEFINED,
    UNKNOWN_OPSET,
    UNNAMED,
    WRONG_SORT,
)
from aneforge.formats.shared.merging import merge_axes
from aneforge.graph.graph import Graph, topological_order
from aneforge.graph.tensor import Tensor
from aneforge.ops.types import TensorType, is_float
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.errors import Location
    from aneforge.formats.mil.diagnostics import MilFinding
    from aneforge.formats.mil.metadata import Hints
    from aneforge.formats.mil.mil_weights import WeightsStore
    from aneforge.formats.mil.source import Source
    from aneforge.formats.mil.syntax import Argument, Block, Function, NamedType, Statement, Type, Value
    from aneforge.graph.node import Node
    from aneforge.ops.constant import Dense

__all__ = ["FunctionReader"]

OPSET = re.compile(r"ios[0-9]{2}", re.ASCII)
"""Opsets whose names are in the order of their making."""
MOST_STATEMENTS = 100_000
"""Statements of blocks that are written out."""


class FunctionReader:
    """Reads the statements of a function in their order and holds what their names stand for."""

    def __init__(
        self,
        function: Function,
        source: Source,
        store: WeightsStore,
        hints: Hints,
        *,
        port_casts: bool,
        fixed: Mapping[str, Dense] | None = None,
    ) -> None:
        self.function = function
        self.fixed = fixed or {}
        """Inputs that are constants of the graph, by their names in the program."""
        self.source = source
        self.store = store
        self.hints = hints
        self.casts = PortCasts(frozenset(), frozenset()) if port_casts else PortCasts.of(function)
        self.narrowed: set[Node] = set()
        """Inputs that the host casts."""
        self.scope: dict[str, Bound] = {}
        self.findings: list[MilFinding] = []
        self.count = 0
        """Statements of blocks that were read, each as often as it was."""

    def graph(self) -> Graph:
        """Return the function as a graph.

        Raises:
            MilError: It cannot be read; the error has the place in the text.
        """
        try:
            self.check_stated_opset()
            for port in self.function.inputs:
                self.add_input(port)
            for statement in self.function.statements:
                self.read(statement)
            return self.build_graph()
        except MilError as error:
            self.source.locate(error)
            raise

    def read(self, statement: Statement) -> None:
        """Read one statement."""
        if not any(attribute.name == "name" for attribute in statement.attributes):
            name = statement.results[0].name if statement.results else statement.op
            expected = f'[name = string("{name}")]'
            raise UNNAMED.broken(statement.op_at, op=statement.op, found="no name", expected=expected)
        if statement.op == "const":
            self.bind(statement, [self.const(statement)])
            return
        call = Call(statement, op_called(statement), collect_parameters(statement, self.resolved))
        try:
            self.bind(statement, self.results(call))
        except MilError:
            raise
        except AneforgeError as error:
            raise not_fitting(statement, error) from None
        self.check(call)

    def const(self, statement: Statement) -> Known:
        """Return the value of a const; of one that was rounded when it was written, the number that was meant."""
        known = const_of(statement, self.store)
        name = statement.results[0].name if statement.results else ""
        exact = self.hints.numbers.get(name)
        if exact is None:
            return known
        kind = known.kind
        meant = Known(Literal(kind, number_text(exact), statement.at, statement.at), self.store)
        if kind.rank or not is_float(kind.dtype) or meant.constant() != known.constant():
            found = f"{number_text(exact)} for {name}"
            raise RESERVED.broken(statement.at, found=found, expected="a number that rounds to the const's")
        return meant

    def results(self, call: Call) -> Sequence[Bound]:
        """Return what a call gives."""
        place = self.place(call.statement)
        match call.name:
            case "read_state":
                return read_state(call)
            case "write_state":
                return write_state(call, place)
            case "cond" | "while_loop" if call.statement.blocks:
                return self.block_results(call, place)
            case name if name.startswith(CONSTEXPR) and not self.is_node(call.statement):
                return self.encoded(call)
            case "cast" if (kept := self.port_cast(call)) is not None:
                return [kept]
            case name:
                return FORMS.get(name, generic)(call, place)

    def check(self, call: Call) -> None:
        """Check the rules of an operation; what it does not take stops reading, what is unwise is noted."""
        for check in checks_of(call.name, text=self.source.is_text):
            for breach in check.look(call):
                self.note(check.rule.broken(breach.at, op=call.name, found=breach.found, expected=breach.expected))
        self.check_opset(call)

    def check_stated_opset(self) -> None:
        """Note an opset that nothing is known of: no operation can be checked against it."""
        if opset_name(self.function.opset) not in NAMED:
            expected = ", ".join(OPSETS)
            self.note(UNKNOWN_OPSET.broken(self.function.at, found=self.function.opset, expected=expected))

    def check_opset(self, call: Call) -> None:
        """Refuse an operation that the opset of the function does not have yet in the form of a call."""
        stated = opset_name(self.function.opset)
        first = first_opset(call.name, call.given.keys()) or call.entry.opset
        if OPSET.fullmatch(stated) and first > stated:
            raise NEWER_OPSET.broken(call.statement.op_at, op=call.name, found=stated, expected=first)

    def note(self, error: MilError) -> None:
        """Raise what stops reading, and note the rest."""
        if error.severity is Severity.REJECT:
            raise error
        self.findings.append(self.source.finding(error))

    # Names.

    def resolved(self, argument: Argument) -> Bound | tuple[Bound, ...]:
        """Return what an argument stands for."""
        value = argument.value
        if isinstance(value, Reference | Literal | Immediate | Blob):
            return self.value(value)
        return tuple(self.value(item) for item in value.items)

    def value(self, value: Value) -> Bound:
        """Return what a single value stands for."""
        if isinstance(value, Reference):
            found = self.scope.get(value.name)
            return self.missing(value) if found is None else found
        if isinstance(value, Literal | Immediate | Blob):
            return Known(value, self.store)
        raise PARAMETER_SORT.broken(value.at, name="of several values", found=value, expected="names or literals")

    def missing(self, reference: Reference) -> Bound:
        """Raise the error for a name that nothing before defines.

        Raises:
            MilError: It is defined later, or not at all.
        """
        name, at = reference.name, reference.at
        for statement in self.function.statements:
            if any(result.name == name for result in statement.results):
                found = f"its definition {self.source.words(statement.at)}"
                raise LATER.broken(at, name=name, found=found, expected="one before")
        close = nearest_names(name, self.scope)
        raise UNDEFINED.broken(at, name=name, expected=list_names(close) if close else None)

    def bind(self, statement: Statement, values: Sequence[Bound]) -> None:
        """Give the results of a statement their names, their number and types checked."""
        if len(statement.results) != len(values) and (statement.results or statement.op != "write_state"):
            found, expected = (number_of(count, "result") for count in (len(statement.results), len(values)))
            raise RESULT_COUNT.broken(statement.at, op=statement.op, found=found, expected=expected)
        for result, value in zip(statement.results, values, strict=False):
            self.check_type(statement, result, value)
            self.define(result, value)

    def define(self, named: NamedType, value: Bound) -> None:
        """Give a value its name."""
        if named.name in self.scope:
            raise TWICE.broken(named.name_at, name=named.name)
        self.scope[named.name] = value

    def check_type(self, statement: Statement, result: NamedType, value: Bound) -> None:
        """Check that a result is of the type that is before its name."""
        given = value.kind if isinstance(value, Known) else type_of(value)
        if isinstance(given, TensorType) and result.name in self.casts.widened and given.dtype == ENGINE:
            given = given.with_dtype(HOST)  # as the program has it; the host casts
        if not fits(result.type, given):
            expected = given if isinstance(given, ValueType) else ValueType.of(given)
            raise RESULT_TYPE.broken(result.at, name=result.name, op=statement.op, found=result.type, expected=expected)

    def place(self, statement: Statement) -> Location:
        """Return where a statement is."""
        return self.source.location(statement.at, statement.results[0].name if statement.results else None)

    # Statements of their own form.

    def encoded(self, call: Call) -> list[Encoded]:
        """Read a constexpr operation."""
        constants, compressed = constexpr_constants(call)
        if not compressed:
            self.note(FOLDED.broken(call.statement.op_at, op=call.name))
        return [Encoded(constant, call.name) for constant in constants]

    def is_node(self, statement: Statement) -> bool:
        """Return whether the graph held a constexpr operation as a node when it was written."""
        return bool(statement.results) and statement.results[0].name in self.hints.nodes

    def port_cast(self, call: Call) -> Tensor | None:
        """Return what a cast at a port casts, where the host is to do it."""
        value = call.given["x"].value if "x" in call.given else None
        if not isinstance(value, Tensor) or value.dtype != ENGINE:
            return None
        results = {result.name for result in call.statement.results}
        if value.node not in self.narrowed and not results & self.casts.widened:
            return None
        call.check_names()
        return value

    def block_results(self, call: Call, place: Location) -> Sequence[Bound]:
        """Return what a condition or a loop gives."""
        call.check_names()
        if call.name == "cond":
            return read_condition(call, place, self.inlined, self.states())
        return write_out_loop(call, self.inlined)

    def inlined(self, block: Block, values: Sequence[Bound]) -> list[Bound]:
        """Read the statements of a block in the place of the statement that has it, and return what it gives."""
        if len(block.inputs) != len(values):
            found, expected = f"{len(values)} values", f"{len(block.inputs)} inputs of a block"
            raise RESULT_COUNT.broken(block.at, found=found, expected=expected)
        outer, self.scope = self.scope, dict(self.scope)
        for port, value in zip(block.inputs, values, strict=True):
            self.define(port, value)
        for statement in block.statements:
            self.count += 1
            if self.count > MOST_STATEMENTS:
                raise NO_GRAPH_FORM.broken(
                    statement.op_at,
                    op=statement.op,
                    found=f"more than {MOST_STATEMENTS} statements of blocks",
                    suggestion="write loops with fewer iterations",
                )
            self.read(statement)
        results = [self.value(reference) for reference in block.outputs]
        self.scope = outer
        return results

    def states(self) -> list[State]:
        """Return the states of the function."""
        return [value for value in self.scope.values() if isinstance(value, State)]

    # Ports.

    def add_input(self, port: NamedType) -> None:
        """Read an input of the function."""
        if port.name in self.fixed:
            self.define(port, get_known_value(self.fixed[port.name]))
            return
        place = self.source.location(port.at, port.name)
        narrowed = port.name in self.casts.narrowed
        value = placeholder(port, self.hints, place, narrowed=narrowed)
        self.define(port, value)
        if narrowed and isinstance(value, Tensor):
            self.narrowed.add(value.node)
        if isinstance(value, Tensor) and value.dtype not in DIRECT_PORTS:
            found, expected = value.dtype, " or ".join(DIRECT_PORTS)
            self.note(PORT_DTYPE.broken(port.at, name=port.name, found=found, expected=expected))

    def build_graph(self) -> Graph:
        """Return the graph of what the function returns and writes."""
        outputs: dict[str, Tensor] = {}
        for reference in self.function.outputs:
            name = self.hints.names.get(reference.name, reference.name)
            if name in outputs:
                raise TWICE.broken(reference.at, name=name)
            outputs[name] = self.output(reference)
        states = {value.name: value for value in self.scope.values() if isinstance(value, State)}
        written = {name: state.held for name, state in states.items() if state.written}
        if not outputs and not written:
            raise NO_OUTPUT.broken(self.function.at, name=self.function.name, expected="-> (y)")
        reached = set(topological_order([*outputs.values(), *written.values()]))
        for name in [name for name in written if states[name].placeholder.node not in reached]:
            written[name] = find_written_unread(states[name])
            reached.add(states[name].placeholder.node)
        self.note_unused(reached)
        return merge_axes(with_known_rows(Graph(outputs, written)))

    def output(self, reference: Reference) -> Tensor:
        """Return a value that the function returns."""
        value = self.value(reference)
        place = self.source.location(reference.at, reference.name)
        match value:
            case Tensor():
                found = value
            case Encoded():
                found = as_tensor(value.constant, place)
            case Known() if value.is_text:
                raise WRONG_SORT.broken(
                    reference.at, name=reference.name, found=describe_bound(value), expected="a tensor"
                )
            case Known():
                found = as_tensor(value.constant(), place)
            case State():
                raise STATE_AS_TENSOR.broken(
                    reference.at, name=reference.name, found=describe_bound(value), expected="a tensor"
                )
        if found.dtype not in DIRECT_PORTS:
            expected = " or ".join(DIRECT_PORTS)
            self.note(PORT_DTYPE.broken(reference.at, name=reference.name, found=found.dtype, expected=expected))
        return found

    def note_unused(self, reached: set[Node]) -> None:
        """Note the inputs that nothing reads."""
        for port in self.function.inputs:
            value = self.scope[port.name]
            tensor = value.placeholder if isinstance(value, State) else value
            if isinstance(tensor, Tensor) and tensor.node not in reached:
                self.note(UNUSED_INPUT.broken(port.name_at, name=port.name))


def fits(stated: Type, given: ValueType | TensorType) -> bool:
    """Return whether what a const or a node gives is of the type that is stated."""
    kind = stated.stacked if isinstance(stated, ListType) else stated
    if not isinstance(kind, ValueType):
        return False
    if isinstance(given, ValueType):
        return (kind.dtype, kind.shape) == (given.dtype, given.shape)
    return kind.fits(given)


def type_of(value: Tensor | Encoded | State) -> TensorType:
    """Return the type of a value of the graph."""
    return value.kind if isinstance(value, State) else value.constant.type if isinstance(value, Encoded) else value.type
