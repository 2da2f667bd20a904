"""Other processes: spawned ones take a program over, forked ones are refused, another identity compiles again."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import (
    BackendUnavailableError,
    GraphError,
    NotSupportedError,
    ProgramFileError,
    RuntimeStateError,
    UnknownNameError,
)
from aneforge.runtime.backends import SoftwareBackend
from aneforge.runtime.devices import DeviceBackend
from aneforge.runtime.executables import SoftwareEngine
from aneforge.runtime.facts import ModelFacts
from aneforge.runtime.saved.files import write_program_file
from aneforge.runtime.streams.handoff import HANDOFF_RULES, Handoff, SharedTensor
from aneforge.targets import Family
from software_device import SoftwareDevice

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.compiler.ir.program import Program

CHILD = """
import sys
from aneforge.runtime.streams.handoff import Handoff
with Handoff.loads(sys.argv[1]).load() as program:
    program.execute()
"""

FORKED = """
import os, sys
import aneforge as af
from aneforge.errors import RuntimeStateError
from aneforge.runtime.executables import SoftwareEngine
from aneforge.runtime.program import LoadedProgram
from aneforge.runtime.streams.events import Event
from aneforge.runtime.streams.handoff import Handoff
from aneforge.runtime.streams.operations import Operation
from aneforge.runtime.streams.stream import ExecutionStream

def program():
    made = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    return LoadedProgram(made, SoftwareEngine(made))

def in_child(action):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        action()
        print("allowed")
    except RuntimeStateError as error:
        print(error.operation, "|", error.message)
    sys.stdout.flush()
    os._exit(0)

def use():
    step, stream = Operation(program()), ExecutionStream()
    stream.encode(step)
    stream.execute()
    return step, stream

in_child(use)  # nothing was used yet
sys.stdout.flush()
step, stream = use()
event = Event("e")
actions = [use, stream.execute, stream.reset, lambda: stream.submit(print), lambda: event.signal(), lambda: Event("f"),
           lambda: step.set_input("x", [[1, 2]]), lambda: Handoff.of("p"), ExecutionStream]
for action in actions:
    in_child(action)
stream.execute()
print("parent goes on")
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    program = af.build_program(af.input((1, 4), name="x") * 2.0, Family.A16)
    return write_program_file(tmp_path / "double.anef", program, ModelFacts(n_ops=1))


def test_a_spawned_process_runs_the_program_on_shared_tensors(saved: Path, tmp_path: Path) -> None:
    shared = {name: SharedTensor.create(tmp_path / name, (1, 4)) for name in ("x", "y")}
    given, taken = shared["x"].open(), shared["y"].open()
    given[:] = [[1, 2, 3, 4]]
    handed = Handoff.of(saved, shared)
    assert Handoff.loads(handed.dumps()) == handed
    subprocess.run([sys.executable, "-c", CHILD, handed.dumps()], check=True)
    assert taken.tolist() == [[2.0, 4.0, 6.0, 8.0]]


def test_the_backend_is_the_callers_choice(saved: Path, tmp_path: Path) -> None:
    prepared: list[Program] = []

    def prepare(program: Program) -> SoftwareEngine:
        prepared.append(program)
        return SoftwareEngine(program)

    handed = Handoff.of(saved)
    with handed.load(backend=SoftwareBackend("counted", "a backend that counts", prepare)) as loaded:
        assert prepared == [loaded.program]
    device = DeviceBackend("device", "a device that computes in software", SoftwareDevice())
    with pytest.raises(NotSupportedError, match="pass the MIL program as well"):
        handed.load(backend=device)
    mil = af.save_mil(af.input((1, 4), name="x") * 2.0, tmp_path / "mil").parent
    again = Handoff.loads(Handoff.of(saved, mil=mil).dumps())
    with again.load(backend=device) as loaded:
        assert loaded.eval([[1, 2, 3, 4]])["y"].tolist() == [[2, 4, 6, 8]]
    with pytest.raises(UnknownNameError, match="unknown backend 'softwear'; nearest: software"):
        handed.load(backend="softwear")
    with pytest.raises(BackendUnavailableError):
        handed.load(backend="e5rt")


def test_another_identity_compiles_again(saved: Path) -> None:
    handed = replace(Handoff.of(saved), identity="0" * 64)
    with pytest.raises(
        RuntimeStateError, match=r"ANE model load has failed.*Must re-compile the E5 bundle \(got identity"
    ):
        handed.load()


def test_fork_after_use_is_refused_and_before_is_not() -> None:
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, check=True)
    refusal = "| this process was forked after the runtime had been used, which the runtime does not survive"
    first, *others, last = run.stdout.splitlines()
    assert (first, last) == ("allowed", "parent goes on")
    assert others == [
        f"{action} {refusal}"
        for action in (
            "use the runtime",
            "execute",
            "reset",
            "submit",
            "signal event 'e'",
            "use the runtime",
            "set_input",
            "use the runtime",
            "use the runtime",
        )
    ]


def test_what_is_handed_over_must_be_there_and_fit(saved: Path, tmp_path: Path) -> None:
    with pytest.raises((ProgramFileError, OSError)):
        Handoff.of(tmp_path / "nothing").load()
    wide = SharedTensor.create(tmp_path / "wide", (1, 5))
    with pytest.raises(GraphError, match="has another shape"):
        Handoff.of(saved, {"x": wide}).load()
    with pytest.raises(UnknownNameError, match="unknown port 'z'"):
        Handoff.of(saved, {"z": wide}).load()
    with pytest.raises(GraphError, match="this is not a hand-off of a program"):
        Handoff.loads("{}")
    with pytest.raises(GraphError, match="this is not a hand-off of a program"):
        Handoff.loads("not json")


def test_shared_tensors(tmp_path: Path) -> None:
    shared = SharedTensor.create(tmp_path / "t", (2, 3), "int8")
    shared.open()[1] = 7
    assert shared.open().tolist() == [[0, 0, 0], [7, 7, 7]]
    assert shared.open().dtype == np.int8
    with pytest.raises(FileExistsError):
        SharedTensor.create(tmp_path / "t", (2, 3))
    with pytest.raises(GraphError, match=r"does not hold the tensor \(got 6 bytes, limit 12 bytes\)"):
        replace(shared, dtype="fp16").open()
    with pytest.raises(GraphError, match=r"has no elements \(got \[-2, -2\]\)"):
        SharedTensor.create(tmp_path / "u", (-2, -2))
    with pytest.raises(GraphError, match=r"has no elements \(got \[0\]\)"):
        SharedTensor.create(tmp_path / "u", (0,))


def test_the_rules_say_what_is_allowed() -> None:
    assert {rule.action: rule.allowed for rule in HANDOFF_RULES} == {
        "load a bundle in a spawned child of the same binary": True,
        "load a bundle in a forked child": False,
        "load a bundle in another binary": False,
        "pass a tensor to another process": True,
    }
