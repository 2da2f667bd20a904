"""An execution stream: operations that are encoded once and run in order, as often as wanted, under one call.

The states of a stream are those of the real runtime:

    empty ──encode──► encoded ──execute or submit──► used ──reset──► empty

Operations are added before the first execution; a used stream is reset before more are added. `execute` waits, moves no
events, and raises what went wrong; `submit` returns at once, moves the completion events of its operations, and calls a
handler at the end. Buffers of a submission belong to the stream until it is done: inputs are read when its turn comes.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Self

from aneforge.errors import GraphTypeError, RuntimeStateError
from aneforge.runtime.processes import check_process, note_use
from aneforge.runtime.streams.lane import lane
from aneforge.runtime.streams.operations import Operation, Phase, expect_kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType

    from aneforge.runtime.program import LoadedProgram

    Handler = Callable[[BaseException | None], None]

__all__ = ["ExecutionStream", "StreamState", "Submission"]

RESET_FIRST = "Failed to add operation to E5 stream. E5RT: Reset stream to add more operations to stream. (2)"


class StreamState(StrEnum):
    """Where a stream is."""

    EMPTY = "empty"
    ENCODED = "encoded"
    USED = "used"


class Submission:
    """A run of a stream that was handed over."""

    def __init__(self, future: Future[None], process: int) -> None:
        self._future = future
        self._process = process
        self.reported = False
        """A caller waited for it, and what went wrong, if anything did, was raised."""

    @property
    def done(self) -> bool:
        """True once it ended, well or not."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end, at most so many seconds, and raise what went wrong in it.

        Raises:
            RuntimeStateError: It did not end in time; or it was called by what the lane itself runs.
        """
        error = self.failure(timeout)
        self.reported = True
        if error is not None:
            raise error

    def failure(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end, at most so many seconds, and return what went wrong in it.

        Raises:
            RuntimeStateError: It did not end in time; or it was called by what the lane itself runs.
        """
        check_process("wait", self._process)
        expect_outside("wait for a submission")
        try:
            return self._future.exception(timeout)
        except TimeoutError:
            raise RuntimeStateError(
                "the submission did not end in time", operation="wait", limit=f"{timeout} s", remedy="wait longer"
            ) from None


class ExecutionStream:
    """Operations that run in order in one call.

    >>> import aneforge as af
    >>> from aneforge.runtime.executables import SoftwareEngine
    >>> from aneforge.runtime.streams.operations import Operation
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> loaded = af.LoadedProgram(program, SoftwareEngine(program))
    >>> first, second = Operation(loaded, "first"), Operation(loaded, "second")
    >>> first.share_buffer("y", second, "x")
    >>> with ExecutionStream() as stream:
    ...     stream.encode(first)
    ...     stream.encode(second)
    ...     stream.execute()
    >>> second.read_output("y").tolist()
    [[2.0, 2.0]]

    Raises:
        RuntimeStateError: This process was forked from one that had used the runtime.
    """

    def __init__(self) -> None:
        note_use()
        self.state = StreamState.EMPTY
        self._operations: list[Operation] = []
        self._submissions: list[Submission] = []
        """Those whose end was not reported yet."""
        self._submitted = False
        self._under_way: list[Future[None]] = []
        """Runs that may not have ended yet, those that a caller waits for in `execute` among them."""
        # A stream that nothing refers to any more has no operations in use either.
        weakref.finalize(self, set_free, self._operations)
        self._lock = threading.RLock()
        self._process = os.getpid()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is encoded, in order."""
        return tuple(self._operations)

    @property
    def in_flight(self) -> int:
        """How many runs did not end yet."""
        return sum(not run.done() for run in self._under_way)

    def encode(self, operation: Operation) -> None:
        """Add an operation at the end.

        Raises:
            GraphTypeError: It is not an operation.
            RuntimeStateError: The stream was used and not reset; the operation is in use, or was and is not prepared;
                or there are as many operations as one call runs.
        """
        check_process("encode", self._process)
        expect_kind(operation, Operation, "encode", remedy="af.Operation(model.loaded) makes one")
        with self._lock:
            if self.state is StreamState.USED:
                raise RuntimeStateError(RESET_FIRST, remedy="reset the stream, then encode every operation again")
            self._check_encodable(operation)
            operation.phase = Phase.IN_USE
            self._operations.append(operation)
            self.state = StreamState.ENCODED

    def execute(self) -> None:
        """Run every operation in order, after what was submitted before, and wait. No event moves.

        Raises:
            RuntimeStateError: Nothing is encoded, a program was released, or the lane itself calls.
        """
        check_process("execute", self._process)
        expect_outside("execute")
        with self._lock:
            operations = self._begin("execute")
            future = self._hand_over(operations, lambda: run_all(operations, asynchronous=False))
        future.result()

    def submit(self, handler: Handler) -> Submission:
        """Run every operation in order at the lane's next turn, and return at once.

        The handler is called at the end with None, or with what went wrong, by the lane's own thread: it may submit,
        and must not wait.

        Raises:
            GraphTypeError: The handler cannot be called.
            RuntimeStateError: Nothing is encoded, or a program has as many requests under way as its queue holds.
        """
        check_process("submit", self._process)
        if not callable(handler):
            raise GraphTypeError(
                "a submission needs a completion handler", seen=repr(handler), remedy="give a function of one argument"
            )
        with self._lock:
            operations = self._begin("submit")
            future = self._hand_over(operations, lambda: finish(operations, handler))
            submission = Submission(future, self._process)
            self._submissions = [one for one in self._submissions if not one.reported]
            self._submissions.append(submission)
            self._submitted = True
        return submission

    def wait_for_completion(self, timeout: float | None = None) -> None:
        """Wait for everything that was submitted, and raise the first thing that went wrong and was not raised yet.

        Raises:
            RuntimeStateError: Nothing was ever submitted, or it did not end in time.
        """
        check_process("wait_for_completion", self._process)
        if not self._submitted:
            raise RuntimeStateError("nothing was submitted to this stream", operation="wait_for_completion")
        with self._lock:
            waiting = [one for one in self._submissions if not one.reported]
        failures = [failure for one in waiting if (failure := one.failure(timeout)) is not None]
        for one in waiting:
            one.reported = True
        if failures:
            raise failures[0]

    def reset(self) -> None:
        """Take every operation out, so that others can be added; those that were in it need preparing.

        Raises:
            RuntimeStateError: The stream is empty, or it runs.
        """
        check_process("reset", self._process)
        with self._lock:
            if self.state is StreamState.EMPTY:
                raise RuntimeStateError("an empty stream has nothing to reset", operation="reset", seen=self.state)
            if self.in_flight:
                raise RuntimeStateError(
                    "a stream is not reset while it runs",
                    operation="reset",
                    seen=self.in_flight,
                    remedy="wait for the end first",
                )
            set_free(self._operations)
            self.state = StreamState.EMPTY

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what is under way, and raise what went wrong in it, unless something else went wrong already."""
        try:
            if self._submitted:
                self.wait_for_completion()
        except Exception:
            if error is None:
                raise
        finally:
            if self.state is not StreamState.EMPTY:
                self.reset()

    def __repr__(self) -> str:
        return (
            f"<{self.state} stream: {', '.join(operation.name for operation in self._operations) or 'no operations'}>"
        )

    def _hand_over(self, operations: tuple[Operation, ...], work: Callable[[], None]) -> Future[None]:
        run = lane().run(requests(operations), partial(self._carried_out, work))
        self._under_way = [*(one for one in self._under_way if not one.done()), run]
        return run

    def _carried_out(self, work: Callable[[], None]) -> None:
        work()  # a method, so that the stream lives as long as what it runs

    def _begin(self, action: str) -> tuple[Operation, ...]:
        if self.state is StreamState.EMPTY:
            raise RuntimeStateError("nothing is encoded", operation=action, remedy="encode an operation first")
        for operation in self._operations:
            operation.program.check_usable(action)
        self.state = StreamState.USED
        return tuple(self._operations)

    def _check_encodable(self, operation: Operation) -> None:
        what = f"operation {operation.name!r}"
        operation.program.check_usable("encode")
        if operation.phase is Phase.IN_USE:
            raise RuntimeStateError(
                "the operation is in use in a stream", operation=what, remedy="make another of the same program"
            )
        if operation.phase is Phase.TO_BE_PREPARED:
            raise RuntimeStateError(
                "the operation was in a stream that was reset, and is not prepared", operation=what, remedy="prepare it"
            )
        limit = operation.program.program.target.limits.integer("execute_multi_operations")
        if len(self._operations) >= limit:
            raise RuntimeStateError(
                "too many operations for one call",
                operation=what,
                seen=len(self._operations) + 1,
                limit=limit,
                remedy="use a second stream after this one",
            )


def set_free(operations: list[Operation]) -> None:
    """Take operations out of a stream; they need preparing before they are encoded again."""
    for operation in operations:
        operation.phase = Phase.TO_BE_PREPARED
    operations.clear()


def requests(operations: tuple[Operation, ...]) -> Counter[LoadedProgram]:
    """Return how many requests of each program operations make."""
    return Counter(operation.program for operation in operations)


def expect_outside(action: str) -> None:
    """Check that the lane itself does not wait for the lane.

    Raises:
        RuntimeStateError: It does, and would wait for ever.
    """
    if lane().is_here:
        raise RuntimeStateError(
            "a completion handler cannot wait for the lane that calls it", operation=action, remedy="submit instead"
        )


def run_all(operations: tuple[Operation, ...], *, asynchronous: bool) -> None:
    """Run operations in order; only asynchronously are events waited for and signalled."""
    for operation in operations:
        if asynchronous:
            await_events(operation)
        operation.run()
        if asynchronous and operation.completion is not None:
            operation.completion.signal()


def await_events(operation: Operation) -> None:
    """Wait for the events that an operation needs.

    Raises:
        RuntimeStateError: One did not come before the queue is given up.
    """
    limit = operation.program.program.target.limits.integer("firmware_queue_abort_seconds")
    for event, value in operation.awaited:
        if not event.wait(value, limit):
            raise RuntimeStateError(
                f"event {event.name!r} did not reach {value}, and the queue was given up",
                operation=f"operation {operation.name!r}",
                seen=event.value,
                limit=f"{value} within {limit} s",
                remedy="signal the event, or submit what signals it first",
            )


def finish(operations: tuple[Operation, ...], handler: Handler) -> None:
    """Run a submission to its end and call its handler."""
    try:
        run_all(operations, asynchronous=True)
    except BaseException as error:
        handler(error)
        raise
    handler(None)
