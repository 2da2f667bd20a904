"""Where a dispatch library is looked for, and what a backend says where there is none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge._version import __version__
from aneforge.commands.doctoring import doctor
from aneforge.commands.running import ran_on
from aneforge.errors import RuntimeStateError
from aneforge.runtime.backends import choose_backend
from aneforge.runtime.devices import DevicePort
from aneforge.runtime.dispatch import library
from aneforge.runtime.dispatch.abi import (
    LIBRARY_NAME,
    SIGNATURES,
    STREAM_SIGNATURES,
    AbiDevice,
    find_dispatch_library,
)
from aneforge.runtime.dispatch.doors import e5rt_device
from aneforge.runtime.dispatch.espresso import EspressoDevice
from dispatch_tools import COMPILER, needs_library

if TYPE_CHECKING:
    from pathlib import Path


def test_the_documented_order(tmp_path: Path) -> None:
    package = tmp_path / "above" / "site" / "aneforge"
    others = [tmp_path / "home" / ".cache" / "aneforge" / version / LIBRARY_NAME for version in ("0.4.0", "0.10.0")]
    places = [
        *others,
        tmp_path / "home" / ".cache" / "aneforge" / __version__ / LIBRARY_NAME,
        tmp_path / "ane_build" / "lib" / LIBRARY_NAME,
        tmp_path / "above" / "ane_build" / "lib" / LIBRARY_NAME,
        package / "_lib" / LIBRARY_NAME,
        tmp_path / "own.dylib",
    ]
    environment = {"HOME": str(tmp_path / "home"), "ANEFORGE_DYLIB": str(tmp_path / "own.dylib")}
    assert find_dispatch_library(environment, package) is None
    for place in places:  # each comes before those that are there already
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        assert find_dispatch_library(environment, package) == place
    cached = tmp_path / "cache" / LIBRARY_NAME
    cached.parent.mkdir()
    cached.touch()
    elsewhere = {"ANEFORGE_CACHE": str(cached.parent)}
    assert find_dispatch_library(elsewhere, tmp_path.parent / "no" / "package") == cached


@needs_library
def test_a_library_serves_the_backend_on_any_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANEFORGE_DYLIB", str(library.PATH))
    monkeypatch.setenv("ANEFORGE_TARGET", "h13")
    assert library.record_interpreter() is None
    assert isinstance(e5rt_device(), AbiDevice)
    assert next(status for status in af.backends() if status.name == "e5rt").available
    with af.compile(af.input((1, 4)).relu(), target="h13", backend="e5rt") as model:
        assert model([[-1, 2, -3, 4]]).tolist() == [[0, 2, 0, 4]]
    monkeypatch.setenv("ANEFORGE_DYLIB", str(tmp_path / "nowhere"))
    assert isinstance(e5rt_device(), EspressoDevice)


def test_the_doctor_names_every_door_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANEFORGE_DYLIB", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    doors = {one.name: one.reason for one in doctor().backends}
    assert "Espresso.framework/Espresso cannot be loaded" in doors["e5rt"]
    assert "a dispatch library that ANEFORGE_DYLIB names serves on any system" in doors["e5rt"]
    assert "libobjc.A.dylib cannot be loaded" in doors["in_memory_model"]
    assert "a baseline for comparisons" in doors["mpsgraph"]
    assert "com.apple.aned.private.allow" in doors["path_b"]


OTHER = """#include <stddef.h>
void *ane_e5rt_program_compile(void) { return &ane_e5rt_program_compile; }
int ane_e5rt_program_execute(void) { return 14; }
int ane_e5rt_program_add_op(void) { return 2; }
size_t ane_e5rt_program_get_op_count(void) { return 3; }
void ane_e5rt_program_release(void) {}
"""


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_every_code_of_another_library_but_zero_is_a_failure(tmp_path: Path) -> None:
    given = {name.split("(")[0].split()[-1].lstrip("*") for name in OTHER.splitlines()[1:]}
    rest = [f"int {name}(void) {{ return 0; }}" for name in {**SIGNATURES, **STREAM_SIGNATURES} if name not in given]
    source, built = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(OTHER + "\n".join(rest), encoding="utf-8")
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-w", str(source), "-o", str(built)], check=True)
    port = (DevicePort("x", 8),)
    program = AbiDevice(built).compile(tmp_path / "model.mil", port, port)
    program.share_buffer(0, "y", 0, "x")
    assert (program.add_operation(tmp_path / "model.mil", port, port), program.operation_count()) == (2, 3)
    with pytest.raises(RuntimeStateError, match=r"ane_e5rt_program_execute failed \(got 14\)"):
        program.execute()
    program.release()


@needs_library
def test_a_command_runs_a_model_with_states_through_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_DYLIB", str(library.PATH))
    monkeypatch.setenv("ANEFORGE_TARGET", "h13")
    assert library.record_interpreter() is None
    total = af.state("total", (1, 32))
    graph = af.Graph({"y": total + af.input((1, 32), name="x")}, {"total": total + 1.0})
    program = af.build_program(graph, "h13")
    given = {"x": np.ones((1, 32))}, {"total": np.full((1, 32), 2.0)}
    found = [ran_on(choose_backend(name), program, graph, *given) for name in ("software", "e5rt")]
    assert [one.outputs["y"].tolist() for one in found] == [[[3.0] * 32]] * 2
    assert [one.states["total"].tolist() for one in found] == [[[3.0] * 32]] * 2
