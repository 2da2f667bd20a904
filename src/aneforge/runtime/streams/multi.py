"""Several steps of one program in one call: the host sets everything up, and the engine goes from step to step.

Each step is an operation of its own, with its own inputs; what stays resident is the buffer that an output of one step
shares with an input of the next. It frees the host from the loop, and was measured to take as long as the loop does
(aneforge docs, dispatch backends: performance-neutral).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import AneforgeError, GraphError, RuntimeStateError
from aneforge.runtime.devices import DeviceExecutable
from aneforge.runtime.ports import Direction, convert_value
from aneforge.runtime.program import LoadedProgram, find_named
from aneforge.runtime.streams.operations import Operation, expect_kind
from aneforge.runtime.streams.stream import ExecutionStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.ops.types import Array

__all__ = ["execute_multi"]


def execute_multi(
    program: LoadedProgram,
    feeds: Sequence[Mapping[str, object]],
    resident: Mapping[str, str] | None = None,
    seeds: Mapping[str, object] | None = None,
) -> tuple[Mapping[str, Array], ...]:
    """Run one step of a program for every feed, in one call, and return the outputs of each step.

    `resident` maps outputs of a step to inputs of the next step, by name; `seeds` has the first values of such inputs,
    by default zeros. Every other input is in every feed. States of the program continue from their current values.

    >>> import aneforge as af
    >>> from aneforge.runtime.executables import SoftwareEngine
    >>> program = af.build_program(af.input((1, 1), name="total") + af.input((1, 1), name="x"), af.targets.Family.A16)
    >>> loaded = af.LoadedProgram(program, SoftwareEngine(program))
    >>> found = execute_multi(loaded, [{"x": [[n]]} for n in (1, 2, 3)], {"y": "total"})
    >>> [step["y"].item() for step in found]
    [1.0, 3.0, 6.0]

    Raises:
        GraphTypeError: It is not a loaded program.
        GraphError: There is no feed, a feed lacks an input or has an unknown one, or a value does not fit its port.
        RuntimeStateError: There are more steps than one call runs, or the program was released.
    """
    expect_kind(program, LoadedProgram, "execute_multi", remedy="model.loaded is one")
    pairs, first = dict(resident or {}), dict(seeds or {})
    check_steps(program, feeds, pairs, first)
    if isinstance(program.executable, DeviceExecutable):
        return run_on_device(program, program.executable, feeds, pairs, first)
    steps = [Operation(program, f"step{number}") for number in range(len(feeds))]
    for number, (step, feed) in enumerate(zip(steps, feeds, strict=True)):
        try:
            set_up(step, feed, set(pairs.values()))
        except AneforgeError as error:
            error.operation = f"execute_multi, step {number}"
            raise
    for before, after in itertools.pairwise(steps):
        for output, to_input in pairs.items():
            before.share_buffer(output, after, to_input)
    for name, value in first.items():
        steps[0].set_input(name, value)
    with ExecutionStream() as stream:
        for step in steps:
            stream.encode(step)
        stream.execute()
    return tuple(
        {port.name: np.array(port.buffer) for port in step.ports.values() if port.direction is Direction.OUTPUT}
        for step in steps
    )


def check_steps(
    program: LoadedProgram,
    feeds: Sequence[Mapping[str, object]],
    pairs: Mapping[str, str],
    first: Mapping[str, object],
) -> None:
    """Check how many steps there are, and what is seeded.

    Raises:
        GraphError: There is no feed, or a seed is for an input that is not resident.
        RuntimeStateError: There are more steps than one call runs.
    """
    limit = program.program.target.limits.integer("execute_multi_operations")
    if not feeds:
        raise GraphError("there is no step to run", operation="execute_multi", remedy="give one feed for every step")
    if len(feeds) > limit:
        raise RuntimeStateError(
            "too many steps for one call",
            operation="execute_multi",
            seen=len(feeds),
            limit=limit,
            remedy="call again with the rest, seeded with what is resident",
        )
    if unknown := sorted(set(first) - set(pairs.values())):
        raise GraphError(
            "a seed must be for a resident input",
            operation="execute_multi",
            seen=", ".join(unknown),
            limit=list(pairs.values()),
        )


def run_on_device(
    program: LoadedProgram,
    executable: DeviceExecutable,
    feeds: Sequence[Mapping[str, object]],
    pairs: Mapping[str, str],
    seeds: Mapping[str, object],
) -> tuple[Mapping[str, Array], ...]:
    """Run the steps where the program is: what is resident never leaves the device's memory.

    Raises:
        UnknownNameError: There is no such port.
        GraphError: A feed lacks an input or has one too many, a value does not fit its port, or a pair has two types.
    """
    with program.use("execute_multi"):
        ready: list[Mapping[str, Array]] = []
        for number, feed in enumerate(feeds):
            try:
                check_feed(set(program.inputs), feed, set(pairs.values()))
                ready.append({name: convert_value(program.inputs[name], value) for name, value in feed.items()})
            except AneforgeError as error:
                error.operation = f"execute_multi, step {number}"
                raise
        first: dict[str, Array] = {}
        for output, to_input in pairs.items():
            source, sink = find_named(program.outputs, output, "output"), find_named(program.inputs, to_input, "input")
            if source.type != sink.type:
                raise GraphError(f"{source} cannot share its buffer with {sink}", seen=sink.type, limit=source.type)
            zeros = np.zeros(sink.type.shape, sink.buffer.dtype)
            first[to_input] = convert_value(sink, seeds[to_input]) if to_input in seeds else zeros
        found = executable.execute_multi(ready, pairs, first)
        program.executions += len(feeds)
    return tuple(found)


def set_up(step: Operation, feed: Mapping[str, object], resident: set[str]) -> None:
    """Put the values of a feed into the inputs of a step.

    Raises:
        GraphError: An input has no value, or two, or one that does not fit.
    """
    check_feed({port.name for port in step.ports.values() if port.direction is Direction.INPUT}, feed, resident)
    for name, value in feed.items():
        step.set_input(name, value)


def check_feed(inputs: set[str], feed: Mapping[str, object], resident: set[str]) -> None:
    """Check that a feed has a value for every input that is not resident, and for no other.

    Raises:
        GraphError: An input has no value, or two.
    """
    wanted = inputs - resident
    if wanted != set(feed):
        raise GraphError(
            "a feed has a value for every input that is not resident, and for no other",
            seen=", ".join(sorted(feed)) or "none",
            limit=", ".join(sorted(wanted)) or "none",
        )
