"""Shared events: what a chain signals and waits for, and the two records of a running chain.

The shared event itself is `aneforge.Event`: it stands for MTLSharedEvent and for IOSurfaceSharedEvent, which the study
found to work alike (experiment G). Which event types and agent masks mean what is not known; they are kept as given.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, GraphTypeError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_instance, check_integer, check_items
from aneforge.runtime.chaining.chaining_study import name_as_studied
from aneforge.runtime.streams.events import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ANEInputBuffersReady",
    "ANEOutputSetEnqueue",
    "ANESharedEvents",
    "ANESharedSignalEvent",
    "ANESharedWaitEvent",
]

EVENT_TYPES = (0, 1, 2)
"""All three made valid events (experiment G); no other was tried."""
MAKE_EVENT = "af.Event(name) makes one: the factories return nil without it"


@name_as_studied("_ANESharedSignalEvent")
@dataclass(frozen=True, slots=True)
class ANESharedSignalEvent:
    """`_ANESharedSignalEvent`: a value that an event takes once a symbol was written.

    >>> print(ANESharedSignalEvent(1, symbol_index=0, event_type=0, shared_event=Event("done")))
    _ANESharedSignalEvent: { sharedEvent=done ; value=1 ; symbolIndex=0 ; agentMask=0 ; eventType=0 }

    Raises:
        GraphTypeError: There is no event, or a number is not an integer.
        GraphError: A number does not fit, or the event type was never seen.
    """

    value: int
    symbol_index: int
    event_type: int
    shared_event: Event
    agent_mask: int = 0

    def __post_init__(self) -> None:
        check_integer(self.value, "the value of a signal event")
        check_integer(self.symbol_index, "the symbol index of a signal event", bits=32)
        check_integer(self.agent_mask, "the agent mask of a signal event")
        if check_integer(self.event_type, "the type of a signal event") not in EVENT_TYPES:
            raise GraphError("the type of a signal event must be 0, 1 or 2", seen=self.event_type)
        check_instance(self.shared_event, Event, "the shared event of a signal event", MAKE_EVENT)

    def __str__(self) -> str:
        return (
            f"_ANESharedSignalEvent: {{ sharedEvent={self.shared_event.name} ; value={self.value} ; "
            f"symbolIndex={self.symbol_index} ; agentMask={self.agent_mask} ; eventType={self.event_type} }}"
        )


@name_as_studied("_ANESharedWaitEvent")
@dataclass(frozen=True, slots=True)
class ANESharedWaitEvent:
    """`_ANESharedWaitEvent`: a value that an event must reach.

    >>> print(ANESharedWaitEvent(1, Event("done")))
    _ANESharedWaitEvent: { sharedEvent=done ; value=1 }

    Raises:
        GraphTypeError: There is no event, or the value is not an integer.
        GraphError: The value does not fit.
    """

    value: int
    shared_event: Event

    def __post_init__(self) -> None:
        check_integer(self.value, "the value of a wait event")
        check_instance(self.shared_event, Event, "the shared event of a wait event", MAKE_EVENT)

    def __str__(self) -> str:
        return f"_ANESharedWaitEvent: {{ sharedEvent={self.shared_event.name} ; value={self.value} }}"


@name_as_studied("_ANESharedEvents")
@dataclass(frozen=True, slots=True)
class ANESharedEvents:
    """`_ANESharedEvents`: signal and wait events together.

    >>> done = Event("done")
    >>> events = ANESharedEvents([ANESharedSignalEvent(1, 0, 0, done)], [ANESharedWaitEvent(1, done)])
    >>> len(events.signal_events), events.wait_events[0].value
    (1, 1)

    Raises:
        GraphTypeError: One of the lists holds something else.
    """

    signal_events: Sequence[ANESharedSignalEvent] = ()
    wait_events: Sequence[ANESharedWaitEvent] = ()

    def __post_init__(self) -> None:
        signals = check_items(self.signal_events, ANESharedSignalEvent, "signal_events")
        object.__setattr__(self, "signal_events", signals)
        object.__setattr__(self, "wait_events", check_items(self.wait_events, ANESharedWaitEvent, "wait_events"))

    def __str__(self) -> str:
        signals, waits = ", ".join(map(str, self.signal_events)), ", ".join(map(str, self.wait_events))
        return f"_ANESharedEvents: {{ signalEvents=( {signals} ) ; waitEvents=( {waits} ) }}"


@name_as_studied("_ANEInputBuffersReady")
@dataclass(frozen=True, slots=True)
class ANEInputBuffersReady:
    """`_ANEInputBuffersReady`: inputs of a procedure are ready, start one execution.

    >>> print(ANEInputBuffersReady(input_buffer_info_index=[0]))
    _ANEInputBuffersReady: { procedureIndex=0 ; inputBufferInfoIndex=[0] ; inputFreeValue=[] ; executionDelay=0 }

    Raises:
        GraphTypeError: A number is not an integer, or a list not a list.
        GraphError: A number does not fit, or there are not as many free values as buffers.
    """

    procedure_index: int = 0
    input_buffer_info_index: Sequence[int] = ()
    """Places in the request's inputs."""
    input_free_value: Sequence[int] = ()
    """For each of them, what its event takes when the buffer is free again; none at all signals nothing."""
    execution_delay: int = 0

    def __post_init__(self) -> None:
        check_integer(self.procedure_index, "the procedure of ready inputs", bits=32)
        check_integer(self.execution_delay, "the delay of ready inputs")
        for name in ("input_buffer_info_index", "input_free_value"):
            values = check_items(getattr(self, name), int, name)
            object.__setattr__(self, name, tuple(check_integer(value, f"a member of {name}") for value in values))
        if self.input_free_value and len(self.input_free_value) != len(self.input_buffer_info_index):
            raise GraphError(
                "input_free_value must have one value for each buffer, or none at all",
                seen=len(self.input_free_value),
                limit=len(self.input_buffer_info_index),
            )

    def __str__(self) -> str:
        return (
            f"_ANEInputBuffersReady: {{ procedureIndex={self.procedure_index} ; "
            f"inputBufferInfoIndex={list(self.input_buffer_info_index)} ; "
            f"inputFreeValue={list(self.input_free_value)} ; executionDelay={self.execution_delay} }}"
        )


@name_as_studied("_ANEOutputSetEnqueue")
@dataclass(frozen=True, slots=True)
class ANEOutputSetEnqueue:
    """`_ANEOutputSetEnqueue`: an output set of a procedure may be written.

    >>> print(ANEOutputSetEnqueue(set_index=1, signal_value=2))
    _ANEOutputSetEnqueue: { procedureIndex=0 ; setIndex=1 ; signalValue=2 ; signalNotRequired=NO ; isOpenLoop=NO }

    Raises:
        GraphTypeError: A number is not an integer, or a flag not a boolean.
        GraphError: A number does not fit.
    """

    procedure_index: int = 0
    set_index: int = 0
    """The place in the request's output sets."""
    signal_value: int = 0
    """What the signal events take once the set is written; 0 leaves them the value that they were made with."""
    signal_not_required: bool = field(default=False, kw_only=True)
    is_open_loop: bool = field(default=False, kw_only=True)
    """The set stays enqueued, and each execution signals one more."""

    def __post_init__(self) -> None:
        check_integer(self.procedure_index, "the procedure of an enqueued set", bits=32)
        check_integer(self.set_index, "the index of an enqueued set", bits=32)
        check_integer(self.signal_value, "the signal value of an enqueued set")
        for name in ("signal_not_required", "is_open_loop"):
            if not isinstance(getattr(self, name), bool):
                raise GraphTypeError(f"{name} must be a boolean", seen=repr(getattr(self, name)))

    def __str__(self) -> str:
        return (
            f"_ANEOutputSetEnqueue: {{ procedureIndex={self.procedure_index} ; setIndex={self.set_index} ; "
            f"signalValue={self.signal_value} ; signalNotRequired={'YES' if self.signal_not_required else 'NO'} ; "
            f"isOpenLoop={'YES' if self.is_open_loop else 'NO'} }}"
        )
