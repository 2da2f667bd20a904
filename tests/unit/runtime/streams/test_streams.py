"""The state machine of operations and streams: every transition, every refusal, asynchronous runs, several threads."""

from __future__ import annotations

import gc
import itertools
import threading
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError, UnknownNameError
from aneforge.runtime.ports import Direction
from aneforge.runtime.streams.events import Event
from aneforge.runtime.streams.lane import lane
from aneforge.runtime.streams.operations import Operation, Phase
from aneforge.runtime.streams.stream import ExecutionStream, StreamState, Submission
from aneforge.targets import Family
from every_way import load_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aneforge.runtime.program import LoadedProgram

WAIT = 30.0
"""Seconds after which a test gives up; nothing here takes as long."""


def loaded(graph: af.Tensor | af.Graph) -> LoadedProgram:
    return load_here(graph, Family.A16)


@pytest.fixture
def plus_one() -> Iterator[LoadedProgram]:
    with loaded(af.input((1, 4), name="x") + 1.0) as program:
        yield program


def ignored(error: BaseException | None) -> None:
    """Do nothing: the test looks at the end of the submission otherwise."""


def gate(stream: ExecutionStream) -> tuple[Submission, threading.Event]:
    """Submit, and keep the lane busy at the end of it until the event is set."""
    reached, opened = threading.Event(), threading.Event()

    def hold(_: BaseException | None) -> None:
        reached.set()
        assert opened.wait(WAIT)

    submission = stream.submit(hold)
    assert reached.wait(WAIT)
    return submission, opened


# One operation


def test_an_operation_runs_with_its_own_buffers(plus_one: LoadedProgram) -> None:
    before = plus_one.ports["x"].buffer
    first, second = Operation(plus_one, "first"), Operation(plus_one, "second")
    first.set_input("x", np.full((1, 4), 2))
    second.set_input("x", np.full((1, 4), 5))
    with ExecutionStream() as stream:
        stream.encode(first)
        stream.encode(second)
        stream.execute()
        stream.execute()
    assert first.read_output("y").tolist() == [[3.0] * 4]
    assert second.read_output("y").tolist() == [[6.0] * 4]
    assert (first.executions, second.executions) == (2, 2)
    assert plus_one.ports["x"].buffer is before
    assert not plus_one.ports["y"].buffer.any()


def test_buffers_of_the_caller_are_used_without_a_copy(plus_one: LoadedProgram) -> None:
    step = Operation(plus_one)
    given, taken = np.ones((1, 4), np.float16), np.zeros((1, 4), np.float16)
    step.bind("x", given)
    step.bind("y", taken, Direction.OUTPUT)
    with ExecutionStream() as stream:
        stream.encode(step)
        stream.execute()
        assert taken.tolist() == [[2.0] * 4]
        given[:] = 7
        stream.execute()
    assert taken.tolist() == [[8.0] * 4]


def test_ports_are_not_bound_while_in_use(plus_one: LoadedProgram) -> None:
    step, other = Operation(plus_one, "step"), Operation(plus_one, "other")
    stream = ExecutionStream()
    stream.encode(step)
    text = "E5RT: Port bindings cannot be changed while operation is in use in an execution stream"
    changes: list[Callable[[], None]] = [
        lambda: step.bind("x", np.ones((1, 4), np.float16)),
        lambda: step.share_buffer("y", other, "x"),
        lambda: other.share_buffer("y", step, "x"),
        lambda: step.bind_completion_event(Event("late")),
        lambda: step.wait_for(Event("late"), 1),
    ]
    for change in changes:
        with pytest.raises(RuntimeStateError, match=text):
            change()
    stream.execute()
    with pytest.raises(RuntimeStateError, match=text):
        changes[0]()
    stream.reset()
    changes[0]()  # free again
    step.set_input("x", np.zeros((1, 4)))  # a value is no binding, and always may be set


@pytest.mark.parametrize(
    ("buffer", "error", "text"),
    [
        (np.ones((1, 5), np.float16), GraphError, "has another shape"),
        (np.ones((1, 4), np.float32), GraphTypeError, "holds other elements"),
        (np.ones((1, 8), np.float16)[:, ::2], GraphError, "is not contiguous"),
        ([1, 2, 3, 4], GraphTypeError, "must be a NumPy array"),
    ],
)
def test_buffers_that_do_not_fit(
    plus_one: LoadedProgram, buffer: npt.NDArray[Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Operation(plus_one).bind("x", buffer)


def test_ports_that_are_not_there_or_not_writable(plus_one: LoadedProgram) -> None:
    step = Operation(plus_one)
    with pytest.raises(UnknownNameError, match="unknown port 'z'"):
        step.bind("z", np.ones((1, 4), np.float16))
    with pytest.raises(UnknownNameError, match="unknown input 'y'"):
        step.set_input("y", np.ones((1, 4)))
    with pytest.raises(UnknownNameError, match="unknown output 'x'"):
        step.read_output("x")
    fixed = np.ones((1, 4), np.float16)
    fixed.flags.writeable = False
    step.bind("x", fixed)
    with pytest.raises(GraphError, match=r"the buffer bound to input 'x' .* cannot be written to"):
        step.set_input("x", np.ones((1, 4)))


def test_an_input_and_an_output_of_one_name() -> None:
    with loaded(af.Graph({"x": af.input((1, 2), name="x") * 2.0})) as program:
        step = Operation(program)
        step.set_input("x", [[1, 2]])
        with ExecutionStream() as stream:
            stream.encode(step)
            stream.execute()
        assert step.read_output("x").tolist() == [[2.0, 4.0]]
        assert step.port("x", Direction.INPUT).buffer.tolist() == [[1.0, 2.0]]
        with pytest.raises(UnknownNameError, match="unknown port 'x'"):
            step.port("x")


def test_an_operation_has_what_the_host_draws() -> None:
    with af.compile(af.dropout(af.input((1, 32), name="x"), 0.5, seed=5), target="h13") as model:
        step = Operation(model.loaded)
        step.set_input("x", np.ones((1, 32)))
        with ExecutionStream() as stream:
            stream.encode(step)
            stream.execute()
        assert np.array_equal(step.read_output("y"), model(np.ones((1, 32))))
        assert step.read_output("y").any()


# Preparing, encoding, resetting


def test_a_used_stream_is_reset_before_operations_are_added(plus_one: LoadedProgram) -> None:
    stream, step, more = ExecutionStream(), Operation(plus_one, "step"), Operation(plus_one, "more")
    stream.encode(step)
    stream.execute()
    assert stream.state is StreamState.USED
    with pytest.raises(RuntimeStateError, match=r"E5RT: Reset stream to add more operations to stream\. \(2\)"):
        stream.encode(more)
    stream.reset()
    assert stream.operations == ()
    with pytest.raises(
        RuntimeStateError, match=r"was in a stream that was reset, and is not prepared\. Remedy: prepare it"
    ):
        stream.encode(step)
    step.prepare()
    stream.encode(step)
    stream.encode(more)  # a fresh one needs no preparing
    stream.execute()
    assert (step.executions, more.executions) == (2, 1)


def test_preparing_at_the_wrong_time(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one, "step")
    with pytest.raises(RuntimeStateError, match=r"operation 'step': .* \(got fresh, expected to be prepared\)"):
        step.prepare()
    stream.encode(step)
    with pytest.raises(RuntimeStateError, match=r"\(got in use, .*Remedy: reset the stream that it is in first"):
        step.prepare()
    stream.reset()
    step.prepare()
    with pytest.raises(RuntimeStateError, match=r"\(got prepared, .*Remedy: encode it"):
        step.prepare()


def test_an_operation_is_in_one_stream_once(plus_one: LoadedProgram) -> None:
    step, first, second = Operation(plus_one), ExecutionStream(), ExecutionStream()
    first.encode(step)
    for stream in (first, second):
        with pytest.raises(RuntimeStateError, match="the operation is in use in a stream"):
            stream.encode(step)
    first.reset()
    step.prepare()
    second.encode(step)
    assert step.phase is Phase.IN_USE


def test_an_empty_stream_does_nothing(plus_one: LoadedProgram) -> None:
    stream = ExecutionStream()
    with pytest.raises(RuntimeStateError, match=r"execute: nothing is encoded\. Remedy: encode an operation first"):
        stream.execute()
    with pytest.raises(RuntimeStateError, match="submit: nothing is encoded"):
        stream.submit(ignored)
    with pytest.raises(RuntimeStateError, match=r"reset: an empty stream has nothing to reset \(got empty\)"):
        stream.reset()
    stream.encode(Operation(plus_one))
    stream.reset()
    with pytest.raises(RuntimeStateError, match="an empty stream"):
        stream.reset()


def test_one_call_runs_so_many_operations(plus_one: LoadedProgram) -> None:
    limit = plus_one.program.target.limits.integer("execute_multi_operations")
    stream = ExecutionStream()
    for _ in range(limit):
        stream.encode(Operation(plus_one))
    with pytest.raises(
        RuntimeStateError, match=rf"too many operations for one call \(got {limit + 1}, limit {limit}\)"
    ):
        stream.encode(Operation(plus_one))
    stream.execute()


def test_a_released_program(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one)
    stream.encode(step)
    other = Operation(plus_one)
    plus_one.release()
    with pytest.raises(RuntimeStateError, match="execute: the program was released"):
        stream.execute()
    with pytest.raises(RuntimeStateError, match="encode: the program was released"):
        stream.encode(other)
    with pytest.raises(RuntimeStateError, match="make operation 'late': the program was released"):
        Operation(plus_one, "late")


def test_a_stream_that_nobody_holds_frees_its_operations(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one)
    stream.encode(step)
    _, opened = gate(stream)
    del stream
    gc.collect()
    assert step.phase is Phase.IN_USE  # it runs
    opened.set()
    with ExecutionStream() as other:
        other.encode(Operation(plus_one))
        other.execute()  # after it
    gc.collect()
    assert step.phase is Phase.TO_BE_PREPARED
    step.prepare()


def test_a_stream_is_not_reset_while_another_thread_executes(plus_one: LoadedProgram) -> None:
    stream, busy = ExecutionStream(), ExecutionStream()
    stream.encode(Operation(plus_one))
    busy.encode(Operation(plus_one))
    _, opened = gate(busy)
    thread = threading.Thread(target=stream.execute)
    thread.start()
    while not stream.in_flight:
        thread.join(0.001)
    with pytest.raises(RuntimeStateError, match=r"reset: a stream is not reset while it runs \(got 1\)"):
        stream.reset()
    opened.set()
    thread.join(WAIT)
    stream.reset()


# Sharing buffers


def test_an_output_becomes_the_input_of_the_next_execution() -> None:
    with loaded(af.input((1, 2), name="total") + af.input((1, 2), name="x")) as program:
        step = Operation(program)
        step.share_buffer("y", step, "total")
        assert step.port("total").buffer is step.port("y").buffer
        step.set_input("total", [[10, 20]])
        step.set_input("x", [[1, 2]])
        with ExecutionStream() as stream:
            stream.encode(step)
            for _ in range(3):
                stream.execute()
        assert step.read_output("y").tolist() == [[13.0, 26.0]]


def test_buffers_are_shared_before_the_first_execution(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one, "step")
    stream.encode(step)
    stream.execute()
    stream.reset()
    with pytest.raises(RuntimeStateError, match=r"operation 'step': buffers are shared before .* \(got 1 executions\)"):
        step.share_buffer("y", step, "x")


def test_only_ports_of_one_type_share() -> None:
    wide = af.input((1, 4), name="a")
    with loaded(af.Graph({"y": wide.reshape(2, 2) + af.input((2, 2), name="b")})) as program:
        step = Operation(program)
        with pytest.raises(GraphError, match=r"output 'y' : fp16\[2, 2\] cannot share its buffer with input 'a'"):
            step.share_buffer("y", step, "a")
        step.share_buffer("y", step, "b")


def test_a_shared_buffer_is_not_parted(plus_one: LoadedProgram) -> None:
    first, second, third = (Operation(plus_one, name) for name in ("first", "second", "third"))
    given = np.zeros((1, 4), np.float16)
    first.bind("y", given, Direction.OUTPUT)
    first.share_buffer("y", second, "x")
    first.share_buffer("y", third, "x")  # an output may have several readers
    assert second.port("x").buffer is given
    for step, name, direction in ((first, "y", Direction.OUTPUT), (second, "x", Direction.INPUT)):
        with pytest.raises(
            RuntimeStateError, match=rf"bind of operation '{step.name}': {direction} '{name}' .* separated"
        ):
            step.bind(name, np.zeros((1, 4), np.float16), direction)
    with pytest.raises(RuntimeStateError, match=r"share_buffer of operation 'second': input 'x' .* shares its buffer"):
        third.share_buffer("y", second, "x")


def test_several_operations_pass_values_on(plus_one: LoadedProgram) -> None:
    steps = [Operation(plus_one, f"step{number}") for number in range(5)]
    with ExecutionStream() as stream:
        for before, after in itertools.pairwise(steps):
            before.share_buffer("y", after, "x")
        for step in steps:
            stream.encode(step)
        stream.execute()
    assert steps[-1].read_output("y").tolist() == [[5.0] * 4]


# Events and submissions


def test_events_move_with_submissions_alone(plus_one: LoadedProgram) -> None:
    step, done = Operation(plus_one), Event("done")
    step.bind_completion_event(done)
    told: list[BaseException | None] = []
    with ExecutionStream() as stream:
        stream.encode(step)
        stream.execute()
        assert done.value == 0
        submission = stream.submit(told.append)
        assert done.wait(1, WAIT)
        submission.wait(WAIT)
        assert submission.done
        stream.submit(told.append).wait(WAIT)
        stream.wait_for_completion()
    assert (done.value, told, step.executions) == (2, [None, None], 3)


def test_submissions_run_in_order_over_all_streams(plus_one: LoadedProgram) -> None:
    order: list[str] = []
    streams = [ExecutionStream() for _ in range(3)]
    for number, stream in enumerate(streams):
        stream.encode(Operation(plus_one, str(number)))
    _, opened = gate(streams[0])
    for name, stream in zip("abc", streams, strict=True):
        stream.submit(lambda _, name=name: order.append(name))
    assert streams[0].in_flight == 2
    opened.set()
    for stream in streams:
        stream.wait_for_completion(WAIT)
    assert order == ["a", "b", "c"]


def test_the_queue_of_a_program_holds_so_many_requests(plus_one: LoadedProgram) -> None:
    limit = plus_one.program.target.limits.integer("in_flight_requests")
    assert limit == 127
    stream, step = ExecutionStream(), Operation(plus_one)
    stream.encode(step)
    _, opened = gate(stream)
    for _ in range(limit - 1):
        stream.submit(ignored)
    with pytest.raises(
        RuntimeStateError, match=r"127 requests of the program are under way, and this makes 1 \(got 128"
    ):
        stream.submit(ignored)
    with loaded(af.input((1, 4)).relu()) as other:  # the queue of another program is its own
        beside = ExecutionStream()
        beside.encode(Operation(other))
        submission = beside.submit(ignored)
        opened.set()
        submission.wait(WAIT)
    stream.wait_for_completion(WAIT)
    assert step.executions == limit
    stream.execute()
    assert not lane().under_way


def test_a_stream_is_not_reset_or_bound_while_under_way(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one)
    stream.encode(step)
    submission, opened = gate(stream)
    with pytest.raises(RuntimeStateError, match=r"not reset while it runs \(got 1\)"):
        stream.reset()
    with pytest.raises(RuntimeStateError, match="Port bindings cannot be changed"):
        step.bind("x", np.ones((1, 4), np.float16))
    with pytest.raises(RuntimeStateError, match=r"did not end in time \(limit 0 s\). Remedy: wait longer"):
        submission.wait(0)
    with pytest.raises(RuntimeStateError, match="did not end in time"):
        stream.wait_for_completion(0)
    opened.set()
    stream.wait_for_completion(WAIT)
    stream.wait_for_completion(WAIT)  # again, of nothing more
    stream.reset()


def test_waiting_for_what_was_never_submitted(plus_one: LoadedProgram) -> None:
    stream = ExecutionStream()
    stream.encode(Operation(plus_one))
    stream.execute()
    with pytest.raises(RuntimeStateError, match="wait_for_completion: nothing was submitted to this stream"):
        stream.wait_for_completion()


def test_a_submission_needs_a_handler(plus_one: LoadedProgram) -> None:
    stream = ExecutionStream()
    stream.encode(Operation(plus_one))
    with pytest.raises(GraphTypeError, match=r"a submission needs a completion handler \(got None\)"):
        stream.submit(None)  # pyright: ignore[reportArgumentType] - what an untyped caller may do
    assert stream.state is StreamState.ENCODED


def test_what_goes_wrong_in_a_submission_is_told(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one)
    stream.encode(step)
    _, opened = gate(stream)
    told: list[BaseException | None] = []
    failing = stream.submit(told.append)
    plus_one.release()
    opened.set()
    with pytest.raises(RuntimeStateError, match="the program was released"):
        failing.wait(WAIT)
    assert isinstance(told[0], RuntimeStateError)
    stream.wait_for_completion(WAIT)  # it was told already


def test_what_goes_wrong_and_nobody_waited_for_is_raised_at_the_end(plus_one: LoadedProgram) -> None:
    def broken(_: BaseException | None) -> None:
        raise ArithmeticError("in the handler")

    stream = ExecutionStream()

    def left(error: Exception | None = None) -> None:
        with stream:
            stream.encode(Operation(plus_one))
            stream.submit(broken)
            if error is not None:
                raise error

    with pytest.raises(ArithmeticError, match="in the handler"):
        left()
    assert stream.state is StreamState.EMPTY
    with pytest.raises(KeyError, match="first"):
        left(KeyError("first"))


def test_a_handler_may_submit_and_not_wait(plus_one: LoadedProgram) -> None:
    stream, second = ExecutionStream(), ExecutionStream()
    stream.encode(Operation(plus_one, "first"))
    step = Operation(plus_one, "second")
    second.encode(step)
    refused: list[str] = []

    def go_on(_: BaseException | None) -> None:
        following = second.submit(ignored)
        for wait in (second.execute, following.wait):
            try:
                wait()
            except RuntimeStateError as refusal:
                refused.append(str(refusal))

    stream.submit(go_on).wait(WAIT)
    second.wait_for_completion(WAIT)
    assert step.executions == 1
    assert refused == [
        f"{action}: a completion handler cannot wait for the lane that calls it. Remedy: submit instead"
        for action in ("execute", "wait for a submission")
    ]


def test_an_operation_waits_for_an_event(plus_one: LoadedProgram) -> None:
    step, ready = Operation(plus_one), Event("ready")
    step.wait_for(ready, 2)
    with ExecutionStream() as stream:
        stream.encode(step)
        submission = stream.submit(ignored)
        ready.signal()
        assert not submission.done
        ready.signal()
        submission.wait(WAIT)
    assert step.executions == 1


def test_a_queue_that_does_not_drain_is_given_up(plus_one: LoadedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    step, never = Operation(plus_one, "stuck"), Event("never")
    step.wait_for(never, 1)

    def no_waiting(value: int, timeout: float | None = None) -> bool:
        assert (value, timeout) == (1, 2)
        return False

    monkeypatch.setattr(never, "wait", no_waiting)
    stream = ExecutionStream()
    stream.encode(step)
    text = r"operation 'stuck': event 'never' did not reach 1, and the queue was given up \(got 0, limit 1 within 2 s\)"
    with pytest.raises(RuntimeStateError, match=text):
        stream.submit(ignored).wait(WAIT)
    assert step.executions == 0


def test_events() -> None:
    event = Event("e", 3)
    event.signal()
    assert (event.value, repr(event)) == (4, "<event 'e' at 4>")
    with pytest.raises(GraphError, match=r"event 'e' only grows \(got 4, expected more than 4\)"):
        event.signal(4)
    with pytest.raises(GraphTypeError, match="eventName is NULL"):
        Event(None)  # pyright: ignore[reportArgumentType] - what an untyped caller may do
    with pytest.raises(GraphError, match="eventName is NULL"):
        Event("")
    with pytest.raises(GraphError, match=r"event 'e' must start from an integer \(got -1"):
        Event("e", -1)


def test_threads_share_a_stream(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one)
    step.share_buffer("y", step, "x")
    stream.encode(step)
    threads = [threading.Thread(target=stream.execute) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert step.read_output("y").tolist() == [[20.0] * 4]


def test_how_things_print(plus_one: LoadedProgram) -> None:
    stream, step = ExecutionStream(), Operation(plus_one, "step")
    assert repr(stream) == "<empty stream: no operations>"
    stream.encode(step)
    assert repr(stream) == "<encoded stream: step>"
    assert repr(step) == "<operation 'step', in use: input 'x' : fp16[1, 4], output 'y' : fp16[1, 4]>"


def test_other_things_than_programs_operations_and_events() -> None:
    model = af.compile(af.input((1, 4), name="x") * 2.0, target="h16g")
    step = cast("Any", af.Operation(model.loaded))
    wrong: list[tuple[str, Callable[[], object]]] = [
        (
            "make an operation: expected LoadedProgram .*model.loaded is one",
            lambda: af.Operation(cast("Any", model)),
        ),
        ("name an operation: expected str", lambda: af.Operation(model.loaded, cast("Any", 3))),
        (
            "encode: expected Operation",
            lambda: cast("Any", af.ExecutionStream()).encode(model.loaded),
        ),
        ("share_buffer: expected Operation", lambda: step.share_buffer("y", None, "x")),
        ("bind_completion_event: expected Event", lambda: step.bind_completion_event("done")),
        ("wait_for: expected Event", lambda: step.wait_for("done", 1)),
        ("wait_for: expected int", lambda: step.wait_for(af.Event("done"), 1.5)),
        (
            "execute_multi: expected LoadedProgram",
            lambda: af.execute_multi(cast("Any", model), [{}]),
        ),
    ]
    for text, act in wrong:
        with pytest.raises(GraphTypeError, match=text):
            act()
