"""The umbrella: every layer of a program with its validator, the ports, and the network as a whole.

What a program does not carry itself is given with it: the schema of the description that it came from, and the number
of engines over which it is bonded.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.moving import only_moves
from aneforge.compiler.validators.data import validators_file
from aneforge.compiler.validators.exported import (
    MOVES,
    Part,
    judge_layers,
    list_rules_without_layers,
    look_at,
    observe_layer,
    sort_worst_first,
    with_data,
)
from aneforge.compiler.validators.subjects import op_of, surroundings
from aneforge.compiler.validators.verdict import Verdict
from aneforge.errors import GraphError
from aneforge.ops.constant import Constant
from aneforge.records import dataclass
from aneforge.rules.subject import PORT, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.validators.data import Stage
    from aneforge.compiler.validators.verdict import Objection, Validation
    from aneforge.ops.signature import AttributeValue
    from aneforge.rules.rule import Rule
    from aneforge.targets import Target

__all__ = ["NETWORK", "NetworkValidation", "ObservedProgram", "observe_program", "validate_program"]

NETWORK = "network"
"""The name under which a network as a whole is a subject."""
RING_BUFFER_WRITER = "ring_buffer_writer"
VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NetworkValidation:
    """The verdict on a program, and on everything in it."""

    target: str
    network: Validation
    """The network as a whole."""
    ports: tuple[Validation, ...]
    """Inputs, states and outputs."""
    layers: tuple[Validation, ...]
    """The layers, in their order."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict on any part."""
        return max((part.verdict for part in self.parts()), key=lambda verdict: verdict.rank)

    @property
    def ok(self) -> bool:
        """True if everything is accepted."""
        return self.verdict is Verdict.ACCEPT

    @property
    def findings(self) -> tuple[Objection, ...]:
        """Everything that was found, worst first."""
        return tuple(sort_worst_first(found for part in self.parts() for found in part.findings))

    def parts(self) -> Iterator[Validation]:
        """Iterate over the verdicts on the network, its ports and its layers."""
        yield self.network
        yield from self.ports
        yield from self.layers


def validate_program(program: Program, *, schema: str | None = None, engines: int = 1) -> NetworkValidation:
    """Return the verdict on a program: every layer, every port, and the network as a whole.

    >>> import aneforge as af
    >>> from aneforge.compiler.compile import build_program
    >>> found = validate_program(build_program(af.input((1, 8, 4, 4)).softmax(1), af.targets.Family.A13))
    >>> found.ok, [layer.validator.name for layer in found.layers]
    (True, ['Softmax'])

    Raises:
        NoDataError: The program's target is a name without data.
        GraphError: The schema is not a version, or there is no engine to run on.
    """
    return observe_program(program, schema=schema, engines=engines).judge(program.target)


@dataclass(frozen=True, slots=True)
class ObservedProgram:
    """What rules see in a program; no target changes it, so a program that several targets share is looked at once."""

    network: Part
    ports: tuple[Part, ...]
    layers: tuple[Part, ...]
    rules: tuple[Rule, ...]
    """The rules that see anything in it."""
    ops: tuple[str, ...]
    """Its operations, each once."""
    clean: dict[tuple[object, ...], NetworkValidation] = field(default_factory=dict[tuple[object, ...], Any])
    """Verdicts without a finding, by the bounds that they rest on: targets with the same bounds share them."""

    def judge(self, target: Target) -> NetworkValidation:
        """Return the verdict on the program for a target.

        Raises:
            NoDataError: The target is a name without data.
        """
        judge = judge_layers(with_data(target, NETWORK))
        left_out = (list_rules_without_layers(op, target) for op in self.ops)
        key = (*(getattr(judge.bound_of(rule), "value", None) for rule in self.rules), *left_out)
        if key in self.clean:
            return replace(self.clean[key], target=target.name)
        found = NetworkValidation(
            target.name,
            self.network.judge(judge),
            tuple(port.judge(judge) for port in self.ports),
            tuple(layer.judge(judge) for layer in self.layers),
        )
        if not found.findings:
            self.clean[key] = found
        return found


def observe_program(program: Program, *, schema: str | None = None, engines: int = 1) -> ObservedProgram:
    """Return what rules see in a program: every layer, every port, and the network as a whole.

    Raises:
        GraphError: The schema is not a version, or there is no engine to run on.
    """
    whole = network_subject(program, validators_file().schema.version if schema is None else schema, engines)
    buffers = live_buffers(program)
    layers = tuple(
        observe_layer(
            layer, surroundings(program, layer, {**buffer_attributes(layer, buffers), **quotient(program, layer)})
        )
        for layer in program.layers
    )
    network, ports = single_part("", whole), tuple(port_parts(program))
    seen = dict.fromkeys(sight for part in (network, *ports, *layers) for sight in part.sights)
    rules = {rule.id: rule for sight in seen for rule, _ in sight.looks}
    return ObservedProgram(
        network, ports, layers, tuple(rules.values()), tuple(dict.fromkeys(sight.op for sight in seen))
    )


def single_part(name: str, subject: Operation, answers: Mapping[str, Stage] | None = None) -> Part:
    """Return what rules see in a network or a port, which no slots follow; no export validates either."""
    return Part(name, subject.op, None, (look_at(subject),), lambda: ((None, subject),), answers=answers or {})


def network_subject(program: Program, schema: str, engines: int) -> Operation:
    """Return a network as rules see it.

    Raises:
        GraphError: The schema is not a version, or there is no engine to run on.
    """
    if not isinstance(schema, str) or not VERSION.fullmatch(schema):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphError(
            "the schema of a network description is not a version",
            seen=repr(schema),
            limit="numbers with points between",
        )
    if type(engines) is not int or engines < 1:
        raise GraphError("a network runs on one engine or more", seen=repr(engines), limit="1 or more")
    known = validators_file().kinds
    return Operation(
        NETWORK,
        attributes={
            "schema": schema,
            "engines": engines,
            "units": tuple(layer.name for layer in program.layers),
            "unconverted": tuple(layer.name for layer in program.layers if layer.kind.name not in known),
        },
    )


def port_parts(program: Program) -> Iterator[Part]:
    """Yield inputs, states and outputs as rules see them."""
    for port in program.inputs:
        yield placeholder("input", program, port.name, port.value)
    for state in program.states:
        yield placeholder("state", program, state.name, state.read)
    for port in program.outputs:
        producer = program.producers.get(port.value.name)
        made_by: dict[str, AttributeValue] = {"producer": op_of(producer.kind) if producer else "input"}
        location = producer.location if producer else None
        subject = Operation(PORT, (port.value.type,), attributes=made_by, location=location)
        yield single_part(port.name, subject)


def placeholder(op: str, program: Program, name: str, value: Value) -> Part:
    """Return a tensor that enters a program as rules see it."""
    readers = program.consumers.get(value.name, ())
    consumers = frozenset(op_of(reader.kind) for reader in readers)
    subject = Operation(op, results=(value.type,), consumers=consumers)
    return single_part(name, subject, MOVES if all(map(only_moves, readers)) else None)


def live_buffers(program: Program) -> frozenset[str]:
    """Return the names of the values that are states, or states after a ring buffer was written."""
    found = {state.read.name for state in program.states}
    for layer in program.layers:
        if buffer_written(layer) in found:
            found.update(result.name for result in layer.results)
    return frozenset(found)


def buffer_written(layer: Layer) -> str | None:
    """Return the name of the ring buffer that a layer writes, if it writes one that is not a constant."""
    buffer = layer.operands.get("buffer") if layer.kind.name == RING_BUFFER_WRITER else None
    return buffer.name if isinstance(buffer, Value) else None


def buffer_attributes(layer: Layer, buffers: frozenset[str]) -> Mapping[str, AttributeValue]:
    """Return whether the buffer that a layer writes is a live state, where it writes one."""
    return {"live_state": buffer_written(layer) in buffers} if layer.kind.name == RING_BUFFER_WRITER else {}


def quotient(program: Program, layer: Layer) -> Mapping[str, AttributeValue]:
    """Return that a layer is the last step of a division, the floor of a product with constants, where it is."""
    x = layer.operands.get("x") if layer.kind.name == "floor" else None
    producer = program.producers.get(x.name) if isinstance(x, Value) else None
    if producer is None or producer.kind.name != "mult" or producer.epilogue:
        return {}
    return {"quotient": True} if any(isinstance(one, Constant) for _, one in producer.refs()) else {}
