"""What a training step is on its target: programs, layers, legality, bytes, predicted time, confidence in bits."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from aneforge.analysis.cost import cost
from aneforge.records import dataclass
from aneforge.rules.preflight import preflight
from aneforge.train.device_optimisers import DeviceOptimizer
from aneforge.train.parameter import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.analysis.cost import Cost
    from aneforge.engine.exactness import Label
    from aneforge.targets import Place
    from aneforge.train.optimisers import Optimizer
    from aneforge.train.step_programs import FedProgram
    from aneforge.train.training_run import TrainingRun

__all__ = ["ProgramReport", "TrainingReport", "report_on"]

HEADINGS = (
    "program",
    "legality",
    "on the engine",
    "layers",
    "operations",
    "bytes in",
    "bytes out",
    "bytes constant",
    "predicted µs",
)
NOTES_SHOWN = 12
"""Warnings and remarks that the text lists, so that it stays on a page."""


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """One program of a run."""

    name: str
    legality: str
    """The verdict of the rules, in a line."""
    segments: int
    """Programs on the engine that it is made of."""
    layers: int
    operations: int
    bytes_in: int
    bytes_out: int
    bytes_constant: int
    cost: Cost
    exactness: Label
    notes: tuple[str, ...]
    """Warnings that compiling gave, and remarks such as splits."""

    def __str__(self) -> str:
        return (
            f"program {self.name}: {self.segments} on the engine, {self.layers} layers, {self.operations} operations; "
            f"{self.bytes_in:,} bytes in, {self.bytes_out:,} out, {self.bytes_constant:,} constant; "
            f"predicted {self.cost.microseconds:.0f} µs ({self.cost.low:.0f} to {self.cost.high:.0f})"
        )

    def cells(self) -> tuple[str, ...]:
        """Return the program as a row of a table."""
        sizes = (self.segments, self.layers, self.operations, self.bytes_in, self.bytes_out, self.bytes_constant)
        time = f"{self.cost.microseconds:.0f} ({self.cost.low:.0f} to {self.cost.high:.0f})"
        return (self.name, self.legality, *(f"{size:,}" for size in sizes), time)


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """A training run before, or while, it runs."""

    target: str
    programs: tuple[ProgramReport, ...]
    parameters: int
    """Numbers that are trained."""
    bytes_host: int
    """Masters and moments on the host."""
    optimizer: str
    updates: tuple[ProgramReport, ...]
    """The programs of updates on the engine; none where the host updates."""
    updated: str
    """Where updates are made."""
    loss_scale: float
    scaling: str
    """How the loss scale changes in a run; empty where it does not."""
    runs_per_step: int
    """How often the step program runs for one update: the mini-batches that are accumulated."""
    steps: int

    @property
    def microseconds(self) -> float:
        """The predicted time of a step on the engine, with updates that are made there; without the host's work."""
        return self.summed(lambda one: one.microseconds)

    def summed(self, of: Callable[[Cost], float]) -> float:
        """Return a figure of all runs of a step together."""
        return self.runs_per_step * of(self.programs[0].cost) + sum(of(one.cost) for one in self.updates)

    @property
    def all_programs(self) -> tuple[ProgramReport, ...]:
        """All programs of the run."""
        return (*self.programs, *self.updates)

    def __str__(self) -> str:
        programs = [line for program in self.all_programs for line in (str(program), f"  {program.legality}")]
        return "\n".join([*self.head_lines(), *programs, *self.closing_lines()])

    def head_lines(self) -> list[str]:
        """Return what is trained, and how."""
        head = (
            f"training on {self.target}: {self.optimizer} {self.updated}, loss_scale {self.loss_scale:g}{self.scaling}"
        )
        return [
            f"{head}, {self.steps} steps taken",
            f"{self.parameters:,} numbers are trained; masters and moments: {self.bytes_host:,} bytes",
        ]

    def closing_lines(self) -> list[str]:
        """Return the time of a step, what is modelled, and warnings."""
        step = self.programs[0].cost
        notes = list(dict.fromkeys(text for program in self.all_programs for text in program.notes))
        more = len(notes) - NOTES_SHOWN
        low, high = self.summed(lambda one: one.low), self.summed(lambda one: one.high)
        time = f"predicted {self.microseconds:.0f} µs ({low:.0f} to {high:.0f}), {step.kind}"
        runs = f"{self.runs_per_step} × program step" + (f" + {len(self.updates)} × update" if self.updates else "")
        return [
            f"a step: {runs}, {time}; what the host computes is not included",
            f"nothing is compiled during a run; bits of a step are {self.programs[0].exactness}",
            *notes[:NOTES_SHOWN],
            *([f"and {more} notes more"] if more > 0 else []),
        ]

    def _repr_html_(self) -> str:
        rows = [HEADINGS, *(program.cells() for program in self.all_programs)]
        kinds = ["th", *["td"] * len(self.all_programs)]
        cells = [
            "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in row)
            for kind, row in zip(kinds, rows, strict=True)
        ]
        table = "".join(f"<tr>{row}</tr>" for row in cells)
        above, below = (html.escape("\n".join(lines)) for lines in (self.head_lines(), self.closing_lines()))
        return f"<pre>{above}</pre><table>{table}</table><pre>{below}</pre>"


def report_on(run: TrainingRun, place: Place) -> TrainingReport:
    """Return the report of a run."""
    optimizer = run.optimizer
    numbers = size_of(optimizer.params)
    return TrainingReport(
        target=run.programs.target,
        programs=(describe(run.programs.step, place), describe(run.programs.forward, place)),
        parameters=numbers,
        bytes_host=sum(one.value.nbytes for one in optimizer.params)
        + sum(one.nbytes for states in optimizer.kept for one in states),
        optimizer=type(optimizer).__name__,
        updates=tuple(describe(one, place) for one in optimizer.programs),
        updated=describe_updates(optimizer),
        loss_scale=optimizer.loss_scale,
        scaling=describe_scaling(run),
        runs_per_step=run.accumulate,
        steps=optimizer.steps,
    )


def describe_updates(optimizer: Optimizer) -> str:
    """Return where updates are made."""
    if not isinstance(optimizer, DeviceOptimizer):
        return "on the host in float32"
    return f"on the engine, {len(optimizer.programs)} × program update" if optimizer.programs else "in the step program"


def describe_scaling(run: TrainingRun) -> str:
    """Return how the loss scale changes."""
    if run.programs.scale is None:
        return ""
    if run.scaling is None:
        return " (still to be chosen from data)"
    if run.scaling.least == run.scaling.most:
        return " (chosen from data)"
    return f" (changes in a run, from {run.scaling.least:g} to {run.scaling.most:g})"


def describe(fed: FedProgram, place: Place) -> ProgramReport:
    """Return what is known of one program."""
    model = fed.model
    program = model.program
    return ProgramReport(
        name=fed.name,
        legality=str(preflight(fed.graph, place.target)).splitlines()[0],
        segments=len(model.segments),
        layers=len(model.layers),
        operations=model.n_ops,
        bytes_in=sum(port.buffer.nbytes for port in model.loaded.inputs.values()),
        bytes_out=sum(port.buffer.nbytes for port in model.loaded.outputs.values()),
        bytes_constant=sum(one.nbytes for one in program.constants.values()),
        cost=cost(model, place),
        exactness=model.exactness,
        notes=(*(f"warning: {one}" for one in model.warnings), *(f"note: {one}" for one in model.remarks)),
    )
