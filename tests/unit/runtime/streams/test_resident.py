"""Resident state: a decode loop of the example block, with states, with shared ports, in one call, and recomputed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import GraphError, RuntimeStateError
from aneforge.ops.constant import Constant
from aneforge.runtime.streams.multi import execute_multi
from aneforge.runtime.streams.operations import Operation
from aneforge.runtime.streams.resident import with_state_ports
from aneforge.runtime.streams.stream import ExecutionStream
from aneforge.targets import Family
from every_way import load_here
from llama_block import llama_block

Array = npt.NDArray[Any]
WIDTH, HEADS, PLACES, STEPS = 64, 2, 8, 5
GRAPH = llama_block(width=WIDTH, heads=HEADS, places=PLACES)
TARGETS = [Family.A13, Family.A16]


def feed(step: int) -> dict[str, Array]:
    """Return what the host gives for one token."""
    depth = WIDTH // HEADS
    angles = step / 10000 ** (np.arange(depth) % (depth // 2) / (depth // 2))
    return {
        "token": np.random.default_rng(step).standard_normal((1, WIDTH)),
        "position": (np.arange(PLACES) == step).astype(float).reshape(1, 1, PLACES, 1),
        "mask": np.where(np.arange(PLACES) <= step, 0, -1e4).reshape(1, 1, 1, PLACES),
        "cosine": np.cos(angles).reshape(1, 1, 1, depth),
        "sine": np.sin(angles).reshape(1, 1, 1, depth),
    }


@cache
def recomputed(target: Family, step: int) -> tuple[Array, Array, Array]:
    """Return a token and the caches, from nothing: every earlier token again, caches passed by hand."""
    program = af.build_program(GRAPH, target)
    states: dict[str, Array] = {}
    outputs: dict[str, Array] = {}
    for number in range(step + 1):
        found = af.run(program, feed(number), states)
        states, outputs = dict(found.states), dict(found.outputs)
    return outputs["token"], states["keys"], states["values"]


@pytest.mark.parametrize("target", TARGETS)
def test_states_stay_between_executions(target: Family) -> None:
    with load_here(GRAPH, target) as program:
        step = Operation(program)
        with ExecutionStream() as stream:
            stream.encode(step)
            for number in range(STEPS):
                for name, value in feed(number).items():
                    step.set_input(name, value)
                stream.execute()
                token, keys, values = recomputed(target, number)
                assert step.port("token:output").buffer.tobytes() == token.tobytes()
                assert program.read_state("keys").tobytes() == keys.tobytes()
                assert program.read_state("values").tobytes() == values.tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_shared_ports_hold_the_cache(target: Family) -> None:
    resident = with_state_ports(GRAPH)
    assert dict(resident.pairs) == {"keys_next": "keys", "values_next": "values"}
    with load_here(resident.graph, target) as program:
        step = Operation(program)
        resident.share(step)
        with ExecutionStream() as stream:
            stream.encode(step)
            for number in range(STEPS):
                for name, value in feed(number).items():
                    step.set_input(name, value)
                stream.execute()
                token, keys, values = recomputed(target, number)
                assert step.port("token:output").buffer.tobytes() == token.tobytes()
                assert step.read_output("keys_next").tobytes() == keys.tobytes()
                assert step.port("values").buffer.tobytes() == values.tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_all_steps_in_one_call(target: Family) -> None:
    resident = with_state_ports(GRAPH)
    with load_here(resident.graph, target) as program:
        found = execute_multi(program, [feed(number) for number in range(STEPS)], resident.pairs)
        more = execute_multi(
            program,
            [feed(STEPS)],
            resident.pairs,
            {name: found[-1][output] for output, name in resident.pairs.items()},
        )
    for number, step in enumerate((*found, *more)):
        token, keys, values = recomputed(target, number)
        assert step["token"].tobytes() == token.tobytes()
        assert step["keys_next"].tobytes() == keys.tobytes()
        assert step["values_next"].tobytes() == values.tobytes()


def test_the_cache_is_that_of_all_tokens_at_once() -> None:
    """Values of all tokens, projected as one batch in a program that has no cache, are the rows of the resident one."""
    weight = [node for node in GRAPH.nodes if node.op.name == "linear"][2].operands["weight"]
    assert isinstance(weight, Constant)
    tokens = np.concatenate([feed(number)["token"] for number in range(STEPS)])
    batch = af.input((STEPS, WIDTH), name="x").rms_norm(np.ones(WIDTH, np.float16)).linear(weight)
    projected = af.run(af.build_program(batch, Family.A16), {"x": tokens}).outputs["y"]
    _, _, values = recomputed(Family.A16, STEPS - 1)
    rows = values.transpose(0, 2, 1, 3).reshape(PLACES, WIDTH)
    assert rows[:STEPS].tobytes() == projected.astype(rows.dtype).tobytes()
    assert not rows[STEPS:].any()


def test_a_state_that_would_take_the_name_of_an_output() -> None:
    total = af.state("total", (1, 2))
    with pytest.raises(GraphError, match="state 'total' would become the output 'total_next', which the graph has"):
        with_state_ports(af.Graph({"total_next": total * 2.0}, states={"total": total + 1.0}))


def test_a_graph_without_states_stays_as_it_is() -> None:
    graph = af.Graph({"y": af.input((1, 2), name="x") + 1.0})
    made = with_state_ports(graph)
    assert (made.graph, dict(made.pairs)) == (graph, {})


def test_wrong_steps() -> None:
    with load_here(af.Graph({"y": af.input((1, 1), name="total") + af.input((1, 1), name="x")}), Family.A16) as program:
        limit = program.program.target.limits.integer("execute_multi_operations")
        with pytest.raises(GraphError, match="execute_multi: there is no step to run"):
            execute_multi(program, [])
        with pytest.raises(RuntimeStateError, match=rf"too many steps for one call \(got {limit + 1}, limit {limit}\)"):
            execute_multi(program, [{"x": [[1]]}] * (limit + 1), {"y": "total"})
        with pytest.raises(
            GraphError, match=r"execute_multi, step 1: a feed has a value for every input .*\(got none, "
        ):
            execute_multi(program, [{"x": [[1]]}, {}], {"y": "total"})
        with pytest.raises(GraphError, match=r"execute_multi, step 0: the value for input 'x' .* has the wrong shape"):
            execute_multi(program, [{"x": [1]}], {"y": "total"})
        with pytest.raises(GraphError, match="a seed must be for a resident input"):
            execute_multi(program, [{"x": [[1]]}], {"y": "total"}, {"x": [[1]]})
        assert program.executions == 0
        assert execute_multi(program, [{"x": [[1]]}] * limit, {"y": "total"})[-1]["y"].item() == limit
