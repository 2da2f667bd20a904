"""The tests of the runtime over every way to the engine: software, dispatch library, fake e5rt, fake Path A.

A test of a module in `MODULES` runs once for each way, which is the default backend meanwhile: its assertions are the
same for all, so all ways give the same bits and the same errors. What is about one way alone is in `SOFTWARE_ONLY`, by
the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aneforge as af
from aneforge.graph.graph import as_graph
from aneforge.runtime import backends
from aneforge.runtime.devices import ENGINE_MASK

if TYPE_CHECKING:
    from aneforge.graph.graph import GraphLike
    from aneforge.runtime.devices import Device, DevicePort, DeviceProgram
    from aneforge.runtime.dispatch.abi import AbiDevice
    from aneforge.targets import TargetLike

SOFTWARE = "software"
WAYS = (SOFTWARE, "library", "e5rt", "path_a")
RUNTIME = Path(__file__).parent / "unit" / "runtime"


def load_here(graph: GraphLike, target: TargetLike) -> af.LoadedProgram:
    """Compile and load a graph by the way that is tested."""
    program = af.build_program(graph, target)
    return af.LoadedProgram(program, backends.default_backend().load(program, as_graph(graph)))


@dataclass(frozen=True)
class AimedDevice:
    """A device whose machine is, for each program, of the target that this is compiled for."""

    device: Device
    engine: AbiDevice
    """The library that the machine's frameworks are before."""

    @property
    def operation_ports(self) -> int | None:
        """Return what the device says."""
        return self.device.operation_ports

    @property
    def lends_buffers(self) -> bool:
        """Return what the device says."""
        return self.device.lends_buffers

    @property
    def is_silicon(self) -> bool:
        """Return what the device says."""
        return self.device.is_silicon

    def obstacle(self) -> str | None:
        """Return what the device says."""
        return self.device.obstacle()

    def compile(
        self,
        mil: Path,
        inputs: tuple[DevicePort, ...],
        outputs: tuple[DevicePort, ...],
        *,
        mask: int = ENGINE_MASK,
        cache: Path | None = None,
        target: str | None = None,
    ) -> DeviceProgram:
        """Compile on a machine of the target, as every later operation of the program."""
        with self.engine.aimed(target):
            program = self.device.compile(mil, inputs, outputs, mask=mask, cache=cache, target=target)
        adds = program.add_operation

        def add(mil: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]) -> int:
            with self.engine.aimed(target):
                return adds(mil, inputs, outputs)

        object.__setattr__(program, "add_operation", add)
        return program

    def compile_check(
        self, mil: Path, *, options: str | None = None, mask: int = ENGINE_MASK, cache: Path | None = None
    ) -> int:
        """Return what the device says."""
        return self.device.compile_check(mil, options=options, mask=mask, cache=cache)


MODULES = (
    "test_model.py",
    "test_model_use.py",
    "test_program.py",
    "test_threads.py",
    "test_attention_policy.py",
    "test_compile.py",
    "test_documentation.py",
    "test_tune.py",
    "test_wider_floats.py",
    "streams/test_resident.py",
    "streams/test_streams.py",
)
"""Modules all of whose tests run over every way, but for the exceptions."""

TESTS = ("dispatch/test_every_way.py::test_a_test_runs_by_its_way",)
"""Tests of other modules that do."""

OTHER_MODULES = {
    "test_any_graph.py": "drawn networks over each way are in tests/apple; operations have ports that no device has",
    "test_backends.py": "it names its backends, and tests the device interface with a device of its own",
    "test_cache.py": "the cache keeps programs of the software engine; a device is given the graph each time",
    "test_files.py": "a saved program holds the engine's layers, and a device compiles graphs",
    "test_saved_versions.py": "as test_files.py",
    "test_run_many.py": "it names its backends; a device is called for one sample after the other",
    "test_hwx_emit.py": "programs of the engine itself run in software alone",
    "test_hwx_execute.py": "as test_hwx_emit.py",
    "test_invokers.py": "invokers are executables with the software engine inside",
    "chaining/test_chaining_plan.py": "it predicts",
    "chaining/test_chaining_request.py": "no process is let onto Path B: it is simulated",
    "chaining/test_request_graph.py": "as test_chaining_request.py",
    "chaining/test_simulated_chains.py": "as test_chaining_request.py",
    "chaining/test_study.py": "it reads data",
    "dispatch/test_c_client.py": "it is a client of the dispatch library",
    "dispatch/test_finding_libraries.py": "as test_c_client.py",
    "dispatch/test_library.py": "as test_c_client.py",
    "dispatch/test_traces.py": "as test_c_client.py",
    "dispatch/test_every_way.py": "it is about these tables",
    "streams/test_handoff.py": "its processes name their backends; programs handed to each way are in tests/apple",
}
"""Every other module, with the reason why its tests run once."""

DEVICES = ("library", "e5rt", "path_a")
EXCEPTIONS: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {
    ("a layer of the program has no form in MIL, which is what devices compile", DEVICES): (
        "test_model.py::test_a_segmented_model",
        "test_model.py::test_random_numbers_are_drawn_by_the_host_from_the_seed_where_the_engine_draws_none",
        "test_program.py::test_every_segment_takes_a_slot",
        "streams/test_streams.py::test_an_operation_has_what_the_host_draws",
        "test_attention_policy.py::test_the_layer_is_taken_where_it_is_predicted_to_be_faster",
        "test_compile.py::test_a_form_whose_error_is_too_large_is_left_out",
        "test_compile.py::test_artifacts_without_a_form_in_mil_say_so",
        "test_tune.py::test_what_tune_leaves_out",
    ),
    ("a saved program holds the engine's layers, and a device compiles graphs", DEVICES): (
        "test_model.py::test_a_model_has_the_graph_that_other_tools_take",
        "test_compile.py::test_artifacts_are_kept",
        "test_compile.py::test_validation_lets_errors_pass_that_are_bounded",
    ),
    ("it is about the name, the labels or the text of the software engine", DEVICES): (
        "test_model.py::test_what_a_model_shows",
        "test_model.py::test_a_model_prints",
        "test_compile.py::test_strict_lets_exact_programs_pass",
    ),
    ("a surface of Path A holds fp16 numbers alone", ("path_a",)): (
        "test_model.py::test_a_uint8_port_takes_no_real_numbers",
    ),
    ("it fills a limit, which takes a second and is counted before any device is asked", ("e5rt", "path_a")): (
        "streams/test_resident.py::test_wrong_steps",
        "streams/test_streams.py::test_one_call_runs_so_many_operations",
        "test_compile.py::test_the_limit_of_loaded_programs",
    ),
    ("it judges large weights, or runs the software engine by its name, and no model", DEVICES): (
        "test_tune.py::test_why_int8_weights_are_not_tried",
        "test_tune.py::test_the_largest_inputs_pass_eight_bit_weights_where_the_bound_is_near_the_edge",
        "test_tune.py::test_bounds_hold_at_the_largest_inputs",
    ),
    ("it computes nothing of its own with the program", DEVICES): (
        "streams/test_resident.py::test_the_cache_is_that_of_all_tokens_at_once",
        "streams/test_resident.py::test_a_state_that_would_take_the_name_of_an_output",
        "streams/test_resident.py::test_a_graph_without_states_stays_as_it_is",
        "streams/test_streams.py::test_events",
    ),
}
"""Tests that do not run over some ways, by the reason and those ways."""


def ways_of(path: Path, test: str) -> tuple[str, ...]:
    """Return the ways over which a test runs."""
    module = path.relative_to(RUNTIME).as_posix()
    name = f"{module}::{test}"
    if module not in MODULES and name not in TESTS:
        return (SOFTWARE,)
    without = [ways for (_, ways), tests in EXCEPTIONS.items() if name in tests]
    return tuple(way for way in WAYS if not any(way in ways for ways in without))
