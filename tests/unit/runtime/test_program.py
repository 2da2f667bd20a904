"""Loaded programs: ports, buffers of the caller's own, shared buffers, processes."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError, UnknownNameError
from aneforge.runtime.executables import SoftwareEngine
from aneforge.runtime.ports import Direction
from aneforge.runtime.slots import SLOTS
from every_way import load_here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import GraphLike
    from aneforge.ops.types import Array
    from aneforge.runtime.executables import Execution


def loaded(graph: GraphLike) -> af.LoadedProgram:
    return load_here(graph, "h16g")


def slots_used() -> int:
    """Return how many slots are taken by what is really held."""
    gc.collect()
    return SLOTS.used


def counter() -> af.LoadedProgram:
    return loaded(af.Graph({"next": af.input((1, 4), name="now") + 1.0}))


def test_ports() -> None:
    program = counter()
    assert [str(port) for port in program.ports.values()] == [
        "input 'now' : fp16[1, 4]",
        "output 'next' : fp16[1, 4]",
    ]
    assert program.port("now").direction is Direction.INPUT
    assert repr(program) == "<loaded program for h16g: input 'now' : fp16[1, 4], output 'next' : fp16[1, 4]>"
    with pytest.raises(UnknownNameError, match="unknown port 'later'"):
        program.port("later")


def test_buffers_of_the_callers_own() -> None:
    program = counter()
    given, taken = np.full((1, 4), 4, np.float16), np.zeros((1, 4), np.float16)
    program.bind("now", given)
    program.bind("next", taken)
    program.execute()
    assert taken.tolist() == [[5, 5, 5, 5]]
    assert program.output_view() is taken


@pytest.mark.parametrize(
    ("buffer", "kind", "text"),
    [
        ([[1, 2, 3, 4]], GraphTypeError, "must be a NumPy array"),
        (np.zeros((1, 4), np.float32), GraphTypeError, "holds other elements"),
        (np.zeros((4, 1), np.float16), GraphError, "has another shape"),
        (np.zeros((1, 8), np.float16)[:, ::2], GraphError, "is not contiguous"),
        (np.broadcast_to(np.float16(0), (1, 4)), GraphError, "is not contiguous"),
    ],
)
def test_a_buffer_that_does_not_fit(buffer: object, kind: type[Exception], text: str) -> None:
    program = counter()
    before = program.port("now").buffer
    with pytest.raises(kind, match=text):
        program.bind("now", cast("Any", buffer))
    assert program.port("now").buffer is before


def test_a_read_only_buffer_is_an_input_at_most() -> None:
    program = counter()
    fixed = np.ones((1, 4), np.float16)
    fixed.flags.writeable = False
    with pytest.raises(GraphError, match="cannot be written to"):
        program.bind("next", fixed)
    program.bind("now", fixed)
    program.execute()
    assert program.read_output().tolist() == [[2, 2, 2, 2]]
    with pytest.raises(GraphError, match="the buffer bound to input 'now'"):
        program.set_input("now", np.zeros((1, 4)))


def test_two_outputs_are_never_written_to_one_place() -> None:
    x = af.input((1, 4), name="x")
    program = loaded(af.Graph({"a": x + 1.0, "b": x + 2.0}))
    memory = np.zeros(8, np.float16)
    program.bind("a", memory[:4].reshape(1, 4))
    for place in (0, 2):
        with pytest.raises(GraphError, match=r"output 'b' .* overlaps the memory of output 'a' .*, which is written"):
            program.bind("b", memory[place : place + 4].reshape(1, 4))
    program.bind("a", memory[:4].reshape(1, 4))  # its own memory again
    program.bind("x", memory[:4].reshape(1, 4))  # an input may have an output's: it is read first
    program.bind("b", memory[4:].reshape(1, 4))
    program.execute()
    assert memory.tolist() == [1] * 4 + [2] * 4
    step = af.Operation(program)
    step.bind("a", memory[:4].reshape(1, 4))
    with pytest.raises(GraphError, match="overlaps the memory of output 'a'"):
        step.bind("b", memory[1:5].reshape(1, 4))


def test_a_shared_buffer_carries_values_on() -> None:
    program = counter()
    program.share_buffer("next", "now")
    assert program.shared == {"next": "now"}
    program.set_input("now", np.array([[0, 10, 20, 30]]))
    for _ in range(5):
        program.execute()
    assert program.read_output("next").tolist() == [[5, 15, 25, 35]]
    assert program.input_view("now") is program.output_view("next")


def test_buffers_are_shared_before_the_first_execution_alone() -> None:
    program = counter()
    program.execute()
    with pytest.raises(RuntimeStateError, match="before the first execution"):
        program.share_buffer("next", "now")


def test_sharing_needs_one_type() -> None:
    program = loaded(af.Graph({"y": af.input((1, 4), name="x").reshape(4, 1)}))
    with pytest.raises(GraphError, match="cannot share its buffer"):
        program.share_buffer("y", "x")
    with pytest.raises(UnknownNameError, match="unknown output 'x'"):
        program.share_buffer("x", "y")


def test_binding_ends_sharing() -> None:
    program = counter()
    program.share_buffer("next", "now")
    program.bind("now", np.full((1, 4), 7, np.float16))
    assert program.shared == {}
    program.execute()
    program.execute()
    assert program.read_output().tolist() == [[8, 8, 8, 8]]


def test_a_value_that_passes_through_is_read_before_a_shared_buffer_is_written() -> None:
    x = af.input((1, 4), name="x")
    program = loaded(af.Graph({"next": x + 1.0, "before": x}))
    program.share_buffer("next", "x")
    program.execute()
    program.execute()
    assert program.read_output("before").tolist() == [[1, 1, 1, 1]]
    assert program.read_output("next").tolist() == [[2, 2, 2, 2]]


class Broken(SoftwareEngine):
    """An engine that fails."""

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Fail."""
        del inputs, states
        raise RuntimeError("the device is gone")


def test_an_execution_that_fails_changes_nothing() -> None:
    program = counter()
    program.execute()

    program.executable = Broken(program.program)
    program.input_view("now")[:] = 5
    with pytest.raises(RuntimeError, match="the device is gone"):
        program.execute()
    assert (program.executions, program.read_output().tolist()) == (1, [[1, 1, 1, 1]])
    program.executable = SoftwareEngine(program.program)
    program.execute()
    assert program.read_output().tolist() == [[6, 6, 6, 6]]


def test_eval_gives_copies_by_name() -> None:
    program = counter()
    first = program.eval(np.zeros((1, 4)))
    second = program.eval(np.ones((1, 4)))
    assert (first["next"].tolist(), second["next"].tolist()) == ([[1] * 4], [[2] * 4])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_was_forked_after_use_loads_nothing() -> None:
    program = counter()
    child = os.fork()
    if not child:
        used = SLOTS.used
        try:
            af.LoadedProgram(program.program, SoftwareEngine(program.program))
        except RuntimeStateError as error:
            refused = "forked after the runtime had been used" in str(error)
            os._exit(0 if refused and used == SLOTS.used else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_copies_and_pickles_are_refused() -> None:
    program = counter()
    for made in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(GraphTypeError, match="a loaded program is not copied or pickled"):
            made(program)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_use_after_a_fork_is_refused() -> None:
    program = counter()
    child = os.fork()
    if not child:
        try:
            program.execute()
        except RuntimeStateError as error:
            os._exit(0 if "forked after the runtime had been used" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    program.execute()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_lock_that_was_held_at_a_fork_blocks_nobody() -> None:
    program = counter()
    with program.lock, ThreadPoolExecutor(1) as pool:
        # Another thread forks while this one holds the lock.
        assert pool.submit(forked_use, program).result(timeout=60) == 0


def forked_use(program: af.LoadedProgram) -> int:
    """Fork, use and release the program there, and return how that went."""
    child = os.fork()
    if not child:
        try:
            program.execute()
        except RuntimeStateError:
            program.release()
            os._exit(0 if program.released else 3)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_program_that_nobody_holds_gives_its_slot_back() -> None:
    before = slots_used()
    program = counter()
    assert SLOTS.used == before + 1
    assert sys.getrefcount(program) < 4
    del program
    assert SLOTS.used == before


def test_every_segment_takes_a_slot() -> None:
    before = slots_used()
    q, k, v = (af.input((1, 2, 16, 8)) for _ in range(3))
    program = loaded(af.sdpa(q, k, v, native=True).relu())
    assert SLOTS.used == before + 2
    program.release()
    assert SLOTS.used == before
