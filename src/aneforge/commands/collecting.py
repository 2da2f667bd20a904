"""`doctor --collect`: facts of a real machine, measured for users who want to contribute them.

Every backend is measured that is available and does not compute in this process, by the same programs; where there is
none, the software engine is. The collection says whether a device was reached: a client of the dispatch library reaches
the software engine on any other system. A program that fails is a reading too: its failure is kept, without what
names the machine's owner. Nothing is sent anywhere.
"""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import plistlib
import re
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aneforge._version import __version__
from aneforge.callsite import keep_warnings
from aneforge.commands.collection import (
    FORMAT,
    VERSION,
    Collection,
    Door,
    FigureReading,
    LatencyReading,
    Manifest,
    ReductionReading,
    bits_of,
)
from aneforge.commands.fingerprint_recipes import RECIPES, half, read_published, relative_error
from aneforge.commands.measured_programs import build_measured_program, draw_weights
from aneforge.compiler.compile import build_program
from aneforge.errors import AneforgeError
from aneforge.graph.graph import as_graph
from aneforge.records import dataclass
from aneforge.runtime.backends import SoftwareBackend, backends, choose_backend
from aneforge.runtime.program import LoadedProgram
from aneforge.targets.host import ENVIRONMENT_VARIABLE, Host, chip_of_host, detect_target
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.graph.graph import GraphLike
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend, BackendStatus
    from aneforge.targets import Target

    Progress = Callable[[str, int, int], None]

__all__ = [
    "Draw",
    "FigureCase",
    "Plan",
    "ProgramCase",
    "ReductionCase",
    "collect",
    "doors",
    "full_plan",
    "list_measured_backends",
    "measure_figure",
    "measure_reduction",
    "program_graph",
    "quick_plan",
    "reaches_device",
    "reduction_input",
    "without_names",
]

DATA = Path(__file__).parent / "data" / "collected.toml"
RUNS = 50
WARMING = 5
"""Runs before those that are timed: the first ones load and set memory up."""
WEIGHTS_SEED, INPUTS_SEED = 0, 1
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
PLACES = re.compile(r"(?<![\w>])(?:~|[A-Za-z]:)?[/\\][^\s'\"`,;()]+")
"""Absolute paths in a text."""
LONGEST = 2000
"""Characters of a text that are kept."""
SYSTEM_VERSION = Path("/System/Library/CoreServices/SystemVersion.plist")
FAILURES = (AneforgeError, RuntimeError, OSError)
"""What a backend raises where a program fails; anything else is a defect of this package."""


class ProgramCase(Entry, frozen=True):
    """A program that is timed."""

    workload: str
    shape: tuple[int, ...]


class Draw(Entry, frozen=True):
    """How the numbers of a reduction are drawn."""

    recipe: str
    seed: int


class CollectedFile(Entry, frozen=True):
    """`collected.toml`."""

    programs: tuple[ProgramCase, ...]
    reductions: tuple[str, ...]
    lengths: tuple[int, ...]
    rows: int
    draws: tuple[Draw, ...]


@dataclass(frozen=True, slots=True)
class FigureCase:
    """A published figure, whichever chips it is of."""

    workload: str
    size: int
    batch: int


@dataclass(frozen=True, slots=True)
class ReductionCase:
    """A reduction that runs once for every draw."""

    workload: str
    shape: tuple[int, ...]
    draws: tuple[Draw, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured on every backend."""

    figures: tuple[FigureCase, ...]
    programs: tuple[ProgramCase, ...]
    reductions: tuple[ReductionCase, ...]
    runs: int = RUNS

    @property
    def steps(self) -> int:
        """How many programs are measured on one backend."""
        return len(self.figures) + len(self.programs) + len(self.reductions)


@cache
def full_plan() -> Plan:
    """Return all that is measured: what one chip was published to give, and what `collected.toml` lists.

    >>> len(full_plan().programs), len(full_plan().figures), len(full_plan().reductions)
    (40, 11, 24)
    """
    file = read(DATA, CollectedFile)
    figures = {FigureCase(one.workload, one.size, one.batch): None for one in read_published().fingerprints}
    reductions = [
        ReductionCase(workload, (file.rows, length), file.draws)
        for workload in file.reductions
        for length in file.lengths
    ]
    return Plan(tuple(figures), file.programs, tuple(reductions))


def quick_plan() -> Plan:
    """Return a plan that has the first case of every workload, each timed a few times: a trial.

    >>> quick_plan().steps < full_plan().steps / 2
    True
    """
    whole = full_plan()
    return Plan(
        tuple({one.workload: one for one in reversed(whole.figures)}.values())[::-1],
        tuple({one.workload: one for one in reversed(whole.programs)}.values())[::-1],
        tuple({one.workload: one for one in reversed(whole.reductions)}.values())[::-1],
        runs=3,
    )


def collect(plan: Plan | None = None, *, runs: int | None = None, progress: Progress | None = None) -> Collection:
    """Measure this machine and return the facts.

    >>> found = collect(replace(quick_plan(), figures=(), reductions=(), programs=full_plan().programs[:1]))
    >>> [(one.workload, one.shape, one.runs) for one in found.latencies]
    [('linear', (1, 64, 64), 3)]

    Raises:
        UnknownTargetError: ANEFORGE_TARGET names nothing.
    """
    chosen = plan or full_plan()
    chosen = chosen if runs is None else replace(chosen, runs=runs)
    host = Host.this_machine()
    with keep_warnings():
        target = detect_target(host)
    measured = list_measured_backends()
    steps = Steps(progress, chosen.steps * len(measured))
    figures: list[FigureReading] = []
    latencies: list[LatencyReading] = []
    reductions: list[ReductionReading] = []
    for backend in measured:
        for figure in chosen.figures:
            steps.begin(f"{backend.name}: {figure.workload} {figure.size}")
            figures.append(measure_figure(figure, target, backend))
        for program in chosen.programs:
            steps.begin(f"{backend.name}: time of {program.workload}")
            latencies.append(measure_latency(program, target, backend, chosen.runs))
        for reduction in chosen.reductions:
            steps.begin(f"{backend.name}: {reduction.workload}")
            reductions += measure_reduction(reduction, target, backend)
    names = frozenset(one.name for one in measured)
    return Collection(manifest(host, target), doors(names), tuple(figures), tuple(latencies), tuple(reductions))


@dataclass(slots=True)
class Steps:
    """Counts what is being done."""

    progress: Progress | None
    total: int
    done: int = 0

    def begin(self, what: str) -> None:
        """Report what is done next."""
        if self.progress is not None:
            self.progress(f"measuring {what}", self.done, self.total)
        self.done += 1


# The machine.


def manifest(host: Host, target: Target) -> Manifest:
    """Return what the facts belong to: versions, the chip and the target, and nothing that names a person or a place.

    The host name, the user name, serial numbers, paths, addresses, environment variables and the date stay out.
    """
    found = chip_of_host(host)
    source = ENVIRONMENT_VARIABLE if host.override else "assumed" if found is None else "machine"
    return Manifest(
        format=FORMAT,
        version=VERSION,
        package=__version__,
        python=platform.python_version(),
        numpy=np.__version__,
        system=platform.system(),
        kernel=without_names(platform.release()),
        machine=platform.machine(),
        macos=macos_version(),
        chip=None if found is None else found.key,
        target=target.name,
        target_from=source,
    )


def macos_version(path: Path = SYSTEM_VERSION) -> str:
    """Return version and build of macOS; nothing on another system."""
    if sys.platform != "darwin":
        return ""
    about = plistlib.loads(path.read_bytes())
    return f"{about['ProductVersion']} {about['ProductBuildVersion']}"


def doors(measured: frozenset[str]) -> tuple[Door, ...]:
    """Return every backend and whether it can run here."""
    return tuple(
        Door(
            name=one.name,
            title=one.title,
            device=one.device,
            available=one.available,
            reason=without_names(one.reason),
            reaches_device=reaches_device(one),
            measured=one.name in measured,
        )
        for one in backends()
    )


def list_measured_backends() -> tuple[Backend, ...]:
    """Return the backends that are measured: the clients that can run here, else the software engine.

    >>> [one.name for one in list_measured_backends()]
    ['software']
    """
    clients = [one.name for one in backends() if is_client(one)]
    return tuple(map(choose_backend, clients or [None]))


def is_client(status: BackendStatus) -> bool:
    """Return whether a backend can run here and passes programs to something other than this package."""
    return status.available and not isinstance(choose_backend(status.name), SoftwareBackend)


def reaches_device(status: BackendStatus) -> bool:
    """Return whether a backend that can run here reaches a device: only macOS has the frameworks that do."""
    return sys.platform == "darwin" and is_client(status)


def without_names(text: str) -> str:
    """Return a text without paths and without the names of this machine and its user.

    >>> without_names("dlopen('/opt/x/libane.dylib') failed; see ~/notes.txt")
    "dlopen('<path>') failed; see <path>"
    """
    for place in {str(Path.home()), str(Path.cwd()), tempfile.gettempdir(), sys.prefix} - {os.sep}:
        text = text.replace(place, f"{os.sep}<path>")  # one of them may have a space in it
    text = PLACES.sub("<path>", text)
    node = platform.node()
    users = (os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME"))
    for name in {Path.home().name, *users, node, node.partition(".")[0]} - {""}:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "<name>", text, flags=re.IGNORECASE)
    return CONTROLS.sub(" ", text)[:LONGEST]


# Programs.


def load(source: GraphLike, target: Target, backend: Backend) -> LoadedProgram:
    """Compile a graph as it is written and load it; no cache gives or keeps the program."""
    graph = as_graph(source)
    program = build_program(graph, target)
    return LoadedProgram(program, backend.load(program, graph))


def run_once(program: LoadedProgram, value: Array) -> Array:
    """Run a program of one input and one output, and return the output in the elements that its port has."""
    program.input_view()[...] = value
    program.execute()
    return program.read_output()


def failure_text(error: BaseException) -> str:
    """Return why a program failed."""
    return without_names(f"{type(error).__name__}: {error}")


def measure_figure(case: FigureCase, target: Target, backend: Backend) -> FigureReading:
    """Run the programs of a published figure."""
    outputs: list[Array] = []
    errors: list[float] = []
    failure = ""
    try:
        for experiment in RECIPES[case.workload](case.size, case.batch):
            with load(experiment.graph, target, backend) as program:
                output = run_once(program, half(experiment.x))
            outputs.append(output)
            errors.append(relative_error(output, experiment.reference))
    except FAILURES as error:
        failure = failure_text(error)
    return FigureReading(
        backend=backend.name,
        workload=case.workload,
        size=case.size,
        batch=case.batch,
        error=None if failure else finite(float(f"{np.mean(errors):.12g}")),
        outputs=() if failure else tuple(map(bits_of, outputs)),
        failure=failure,
    )


def finite(number: float) -> float | None:
    """Return a number, or None where it is none: JSON has no others."""
    return number if np.isfinite(number) else None


def program_graph(case: ProgramCase) -> GraphLike:
    """Return a program that is timed."""
    return build_measured_program(case.workload, case.shape, draw_weights(WEIGHTS_SEED))


def measure_latency(case: ProgramCase, target: Target, backend: Backend, runs: int) -> LatencyReading:
    """Time one program."""
    times, preparing, failure = [0.0], 0.0, ""
    try:
        graph = as_graph(program_graph(case))
        began = time.perf_counter()
        with load(graph, target, backend) as program:
            generator = np.random.default_rng(INPUTS_SEED)
            for name in program.inputs:
                view = program.input_view(name)
                view[...] = generator.standard_normal(view.shape)
            program.execute()
            preparing = time.perf_counter() - began
            times = time_runs(program.execute, runs)
    except FAILURES as error:
        times, preparing, failure = [0.0], 0.0, failure_text(error)
    p10, median, p90 = np.percentile(times, (10, 50, 90)).tolist()
    return LatencyReading(
        backend=backend.name,
        workload=case.workload,
        shape=case.shape,
        runs=0 if failure else runs,
        preparing=microseconds(preparing),
        median=microseconds(median),
        p10=microseconds(p10),
        p90=microseconds(p90),
        failure=failure,
    )


def microseconds(seconds: float) -> float:
    """Return a time to the nanosecond.

    >>> microseconds(1.23456789e-4)
    123.457
    """
    return round(seconds * 1e6, 3)


def time_runs(execute: Callable[[], None], runs: int) -> list[float]:
    """Return the times of runs, in seconds."""
    for _ in range(min(WARMING, runs)):
        execute()
    times: list[float] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(runs):
            began = time.perf_counter()
            execute()
            times.append(time.perf_counter() - began)
    finally:
        if collecting:
            gc.enable()
    return times


def measure_reduction(case: ReductionCase, target: Target, backend: Backend) -> list[ReductionReading]:
    """Run a reduction once for every draw."""
    draws = [(draw, reduction_input(draw, case.shape)) for draw in case.draws]
    outputs: list[Array] = []
    failure = ""
    try:
        with load(build_measured_program(case.workload, case.shape), target, backend) as program:
            outputs = [run_once(program, numbers) for _, numbers in draws]
    except FAILURES as error:
        failure = failure_text(error)
    return [
        ReductionReading(
            backend=backend.name,
            workload=case.workload,
            shape=case.shape,
            recipe=draw.recipe,
            seed=draw.seed,
            input_sha256=hashlib.sha256(numbers.astype("<f2").tobytes()).hexdigest(),
            output=None if failure else bits_of(outputs[number]),
            failure=failure,
        )
        for number, (draw, numbers) in enumerate(draws)
    ]


def reduction_input(draw: Draw, shape: tuple[int, ...]) -> Array:
    """Return drawn numbers in fp16.

    `normal` is a normal distribution; `spread` is one times powers of two from -6 to 6, so that small terms meet large
    sums; `marked` has ones, and one 2,048 in each row, further right in every row: what is added to it in fp16 is lost
    until ones have been added to one another, so that the sums show the order.

    >>> reduction_input(Draw("marked", 0), (2, 4)).tolist()
    [[2048.0, 1.0, 1.0, 1.0], [1.0, 1.0, 2048.0, 1.0]]
    """
    return DRAWN[draw.recipe](np.random.default_rng(draw.seed), shape).astype(np.float16)


def draw_normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw from a normal distribution."""
    return generator.standard_normal(shape)


def draw_spread(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw numbers of many magnitudes."""
    return generator.standard_normal(shape) * 2.0 ** generator.integers(-6, 7, shape)


def draw_marked(_: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return ones with one large number in each row."""
    rows, length = shape
    numbers = np.ones(shape)
    numbers[range(rows), [row * length // rows for row in range(rows)]] = 2048
    return numbers


DRAWN: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": draw_normal,
    "spread": draw_spread,
    "marked": draw_marked,
}
