"""`_ANEChainingRequest` and `_ANERequest`: what they hold, and what the study says they must hold.

A chaining request takes whatever it is given, as Objective-C does; `validate` then says what the system would have
said, and why. The rules are in `data/chaining_study.toml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError, GraphTypeError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_integer, check_items
from aneforge.runtime.chaining.chaining_study import SIMULATED, Violation, chaining_error, failure, name_as_studied
from aneforge.runtime.chaining.device_classes import ANEPerformanceStats
from aneforge.runtime.chaining.shared_events import ANESharedSignalEvent
from aneforge.runtime.chaining.surfaces import ANEBuffer, ANEIOSurfaceObject, ANEIOSurfaceOutputSets, IOSurface

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.errors import ChainingError

__all__ = ["ANEChainingRequest", "ANERequest", "Validation"]

TRIED_STATS_BYTES = 64
"""The only size of a stats surface that was tried (v2)."""


@dataclass(frozen=True, slots=True)
class Validation:
    """What `validate` answers: YES or NO, and what is wrong.

    >>> answer = ANEChainingRequest([], []).validate()
    >>> bool(answer), [finding.rule for finding in answer.findings]
    (False, ['CHAIN-INPUT-002', 'CHAIN-OUTPUT-001'])
    """

    findings: tuple[Violation, ...]
    notes: tuple[str, ...]
    """What passes here and was never tried."""
    simulate: bool

    @property
    def ok(self) -> bool:
        """True where the system answers YES."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def error(self, operation: str) -> ChainingError:
        """Return the error for the first thing that is wrong."""
        first = self.findings[0]
        known = first.known
        return chaining_error(
            known.system or known.rule,
            f"{first.parameter}: {known.rule} Got {first.seen}. {known.why}",
            known.experiments,
            operation=operation,
            remedy=known.remedy,
        )

    def __str__(self) -> str:
        head = f"{f'{SIMULATED}: ' if self.simulate else ''}validate: {'YES' if self.ok else 'NO'}"
        return "\n".join([head, *map(str, self.findings), *(f"note: {note}" for note in self.notes)])


@name_as_studied("_ANEChainingRequest")
@dataclass(frozen=True, slots=True)
class ANEChainingRequest:
    """`_ANEChainingRequest`: executions of a model without the host between them. Its nine parameters are objects.

    >>> surface = IOSurface(64, name="x")
    >>> raw = ANEChainingRequest([ANEIOSurfaceObject(surface)], [ANEIOSurfaceObject(surface)])
    >>> [finding.rule for finding in raw.validate().findings]
    ['CHAIN-INPUT-001', 'CHAIN-OUTPUT-001']
    >>> buffer = ANEBuffer(ANEIOSurfaceObject(surface), symbol_index=0)
    >>> bool(ANEChainingRequest([buffer], [ANEIOSurfaceOutputSets(IOSurface(64), [buffer])]).validate())
    True
    """

    inputs: object
    output_sets: object
    lb_input_symbol_id: object = None
    lb_output_symbol_id: object = None
    procedure_index: object = None
    signal_events: object = ()
    transaction_handle: object = 0
    fw_enqueue_delay: object = 0
    memory_pool_id: object = 0

    def validate(self, *, simulate: bool = False) -> Validation:
        """Return what the system would say; the simulation takes arrays of indices where the system takes nil."""
        findings = (
            *input_findings(self.inputs),
            *output_findings(self.output_sets),
            *(self.symbol_findings() if simulate else self.nil_findings()),
            *event_findings(self.signal_events),
            *self.number_findings(),
        )
        return Validation(findings, () if findings else tuple(self.untried()), simulate)

    def nil_findings(self) -> Iterator[Violation]:
        """Yield which of the three that must be nil are not."""
        for name, value in self.symbol_arguments().items():
            if value is None:
                continue
            if isinstance(value, int | float):
                yield Violation("CHAIN-NIL-001", name, repr(value))
            elif isinstance(value, list | tuple):
                yield Violation("CHAIN-NIL-002", name, repr(cast("Sequence[object]", value)))
            else:
                yield Violation("CHAIN-NIL-003", name, type(value).__name__)

    def symbol_findings(self) -> Iterator[Violation]:
        """Yield which symbols and procedures the simulation cannot take."""
        arguments = self.symbol_arguments()
        wrong = [name for name, value in arguments.items() if not is_indices(value)]
        for name in wrong:
            yield Violation("CHAIN-SYMBOL-001", name, repr(arguments[name]))
        if wrong:
            return
        given, written = indices(self.lb_input_symbol_id), indices(self.lb_output_symbol_id)
        if len(given) != len(written):
            yield Violation("CHAIN-SYMBOL-002", "lbInputSymbolId", f"{len(given)} inputs and {len(written)} outputs")

    def symbol_arguments(self) -> dict[str, object]:
        """Return the three arguments that were found to work only as nil, by the names of the factory."""
        return {
            "lbInputSymbolId": self.lb_input_symbol_id,
            "lbOutputSymbolId": self.lb_output_symbol_id,
            "procedureIndex": self.procedure_index,
        }

    def number_findings(self) -> Iterator[Violation]:
        """Yield which of the three numbers is none."""
        numbers = {
            "transactionHandle": self.transaction_handle,
            "fwEnqueueDelay": self.fw_enqueue_delay,
            "memoryPoolId": self.memory_pool_id,
        }
        for name, value in numbers.items():
            if type(value) is not int or not 0 <= value < 1 << 64:
                yield Violation("CHAIN-NUMBER-001", name, repr(value))

    def untried(self) -> Iterator[str]:
        """Yield what passes and was never tried."""
        for one in self.sets():
            if one.stats_sur_ref is not None and one.stats_sur_ref.nbytes != TRIED_STATS_BYTES:
                yield f"{one.stats_sur_ref} as a stats surface: only {TRIED_STATS_BYTES} bytes were tried"

    def buffers(self) -> tuple[ANEBuffer, ...]:
        """Return the inputs of a request that is valid."""
        return check_items(self.inputs, ANEBuffer, "inputs")

    def sets(self) -> tuple[ANEIOSurfaceOutputSets, ...]:
        """Return the output sets of a request that is valid."""
        return check_items(self.output_sets, ANEIOSurfaceOutputSets, "output_sets")

    def signals(self) -> tuple[ANESharedSignalEvent, ...]:
        """Return the signal events of a request that is valid."""
        return check_items(self.signal_events, ANESharedSignalEvent, "signal_events")

    def loopback(self) -> tuple[tuple[int, int], ...]:
        """Return the loopback of a request that is valid: pairs of an output symbol and the input that it becomes."""
        return tuple(zip(indices(self.lb_output_symbol_id), indices(self.lb_input_symbol_id), strict=True))

    def procedures(self) -> tuple[int, ...]:
        """Return the procedures of a request that is valid: only the first, where none is named."""
        return indices(self.procedure_index) or (0,)

    def __str__(self) -> str:
        inputs, outputs = format_list(self.inputs), format_list(self.output_sets)
        return f"_ANEChainingRequest: {{ inputBuffer={inputs} ; outputSets={outputs} }}"


@name_as_studied("_ANERequest")
@dataclass(frozen=True, slots=True)
class ANERequest:
    """`_ANERequest`: surfaces for one evaluation.

    >>> x, y = ANEIOSurfaceObject(IOSurface(4)), ANEIOSurfaceObject(IOSurface(4))
    >>> ANERequest([x], [0], [y], [0]).output_indices
    (0,)

    Raises:
        GraphTypeError: A list holds something other than surface objects, indices or statistics.
        GraphError: There are not as many indices as surfaces, or an index is given twice.
        ChainingError: The statistics are not an array.
    """

    inputs: Sequence[ANEIOSurfaceObject]
    input_indices: Sequence[int]
    outputs: Sequence[ANEIOSurfaceObject]
    output_indices: Sequence[int]
    weights_buffer: object = None
    perf_stats: Sequence[ANEPerformanceStats] | None = None
    procedure_index: int = 0

    def __post_init__(self) -> None:
        for surfaces, numbers in (("inputs", "input_indices"), ("outputs", "output_indices")):
            objects = check_items(getattr(self, surfaces), ANEIOSurfaceObject, surfaces)
            places = check_items(getattr(self, numbers), int, numbers)
            if len(objects) != len(places):
                raise GraphError(
                    f"{numbers} must have one index for each surface", seen=len(places), limit=len(objects)
                )
            if len(set(places)) != len(places):
                raise GraphError(f"{numbers} must be different: a symbol has one surface", seen=list(places))
            object.__setattr__(self, surfaces, objects)
            object.__setattr__(self, numbers, tuple(check_integer(one, f"a member of {numbers}") for one in places))
        if self.weights_buffer is not None:
            raise GraphTypeError("weights_buffer must be None: no experiment gave one", seen=repr(self.weights_buffer))
        if self.perf_stats is not None and not isinstance(self.perf_stats, list | tuple):
            raise failure("no_stat_type", "requestWithInputs", remedy="give a list, or None")
        check_items(self.perf_stats or (), ANEPerformanceStats, "perf_stats")
        check_integer(self.procedure_index, "the procedure of a request", bits=32)


def input_findings(inputs: object) -> Iterator[Violation]:
    """Yield what is wrong with the inputs of a chaining request."""
    if not isinstance(inputs, list | tuple) or not inputs:
        yield Violation("CHAIN-INPUT-002", "inputs", describe(cast("object", inputs)))
        return
    for one in cast("Sequence[object]", inputs):
        if not isinstance(one, ANEBuffer):
            yield Violation("CHAIN-INPUT-001", "inputs", describe(one))


def output_findings(output_sets: object) -> Iterator[Violation]:
    """Yield what is wrong with the output sets of a chaining request."""
    if not isinstance(output_sets, list | tuple) or not output_sets:
        yield Violation("CHAIN-OUTPUT-001", "outputSets", describe(cast("object", output_sets)))
        return
    for one in cast("Sequence[object]", output_sets):
        if one is None or (isinstance(one, ANEIOSurfaceOutputSets) and one.is_nil):
            yield Violation("CHAIN-OUTPUT-002", "outputSets", "nil")
        elif not isinstance(one, ANEIOSurfaceOutputSets):
            yield Violation("CHAIN-OUTPUT-001", "outputSets", describe(one))
        else:
            wrong = [
                buffer for buffer in cast("Sequence[object]", one.output_buffer) if not isinstance(buffer, ANEBuffer)
            ]
            yield from (Violation("CHAIN-OUTPUT-003", "outputSets", describe(buffer)) for buffer in wrong)


def event_findings(events: object) -> Iterator[Violation]:
    """Yield what is wrong with the signal events of a chaining request."""
    if not isinstance(events, list | tuple):
        yield Violation("CHAIN-EVENT-001", "signalEvents", describe(events))
        return
    for one in cast("Sequence[object]", events):
        if not isinstance(one, ANESharedSignalEvent):
            yield Violation("CHAIN-EVENT-001", "signalEvents", describe(one))


def is_indices(value: object) -> bool:
    """Return whether something is nil or an array of different indices.

    >>> is_indices(None), is_indices((0, 2)), is_indices([0, 0]), is_indices(0)
    (True, True, False, False)
    """
    if value is None:
        return True
    if not isinstance(value, list | tuple):
        return False
    members = cast("Sequence[object]", value)
    return all(type(one) is int and 0 <= one < 1 << 32 for one in members) and len(set(members)) == len(members)


def indices(value: object) -> tuple[int, ...]:
    """Return an array of indices; none for nil."""
    return () if value is None else tuple(cast("Sequence[int]", value))


def describe(value: object) -> str:
    """Return something that a caller gave, in a few words."""
    if value is None:
        return "nil"
    if isinstance(value, list | tuple):
        return f"an array of {len(cast('Sequence[object]', value))}"
    if isinstance(value, ANEIOSurfaceObject):
        return str(value)
    return repr(value) if isinstance(value, IOSurface | int | str) else type(value).__name__


def format_list(values: object) -> str:
    """Return an array as the system prints it."""
    if not isinstance(values, list | tuple):
        return describe(values)
    return "( " + ", ".join(str(one) for one in cast("Sequence[object]", values)) + " )"
