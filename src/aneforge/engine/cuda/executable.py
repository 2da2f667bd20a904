"""A program on a device: values in, values out, for one sample or many, and how sure they are."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.callsite import warn
from aneforge.engine.attention import label_of_lengths
from aneforge.engine.cuda.device import too_little_memory
from aneforge.engine.cuda.noted_labels import Notes
from aneforge.engine.cuda.planned_layers import plan_program
from aneforge.engine.exactness import label_of_all, worst
from aneforge.errors import BackendUnavailableError, PrecisionWarning
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.engine.cuda.device import Device, Loaded
    from aneforge.engine.cuda.planned_layers import Planned
    from aneforge.engine.cuda.plans import Buffer
    from aneforge.engine.exactness import Label
    from aneforge.engine.execution.run import Executable, Run

    Array = npt.NDArray[Any]

__all__ = ["DeviceExecutable", "DeviceRun"]

MOST_SAMPLES = 64
"""Samples that run at a time where memory allows; more fill no device better."""
MOST_LANES = 2
"""How often a plan is loaded: one runs while what goes into the other comes."""
KEPT_PLANS = 3
"""Plans that stay loaded, for different numbers of samples."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one run of a plan noted."""

    planned: Planned
    notes: Notes
    said: Mapping[str, Sequence[Label]]
    """What layers on the host said of every sample."""
    decided: Mapping[int, Run] = field(default_factory=dict[int, "Run"])
    """Samples that the CPU computed."""

    def labels(self, sample: int) -> Mapping[str, Label]:
        """Return how sure the results of each layer are for one sample."""
        if sample in self.decided:
            return self.decided[sample].labels
        return {
            one.layer: self.said[one.layer][sample] if one.layer in self.said else one.label(self.notes, sample)
            for one in self.planned.noted
        }

    def label(self) -> Label:
        """Return how sure the least sure sample is."""
        if self.decided:
            return label_of_all(
                one for sample in range(self.planned.plan.samples) for one in self.labels(sample).values()
            )
        return label_of_all(one.worst_label(self.notes, self.said.get(one.layer)) for one in self.planned.noted)


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """What a run gave: arrays with an axis of samples first."""

    outputs: Mapping[str, Array]
    states: Mapping[str, Array]
    parts: tuple[Part, ...]

    @property
    def labels(self) -> tuple[Mapping[str, Label], ...]:
        """How sure the results of each layer are, for every sample."""
        return tuple(part.labels(sample) for part in self.parts for sample in range(part.planned.plan.samples))

    @property
    def label(self) -> Label:
        """How sure the least sure sample is, with all reasons."""
        return worst([part.label() for part in self.parts])


@dataclass(frozen=True, slots=True)
class Flight:
    """A run that was started and not yet waited for."""

    planned: Planned
    loaded: Loaded
    inputs: Mapping[str, Array]
    states: Mapping[str, Array]
    said: Mapping[str, Sequence[Label]]


class DeviceExecutable:
    """A program ready to run on a device.

    Where more samples come than run at a time and memory allows, a plan is loaded twice, each with a stream and memory
    of its own: what goes in next is uploaded, and what came out before downloaded, while the device computes.
    """

    def __init__(self, ready: Executable, device: Device) -> None:
        self.ready, self.device = ready, device
        self.kept: dict[object, Buffer] = {}
        self.plans: dict[int, tuple[Planned, list[Loaded]]] = {}
        self.most = MOST_SAMPLES

    @property
    def on_host(self) -> tuple[str, ...]:
        """The layers that run on the host, each with the reason."""
        planned = next(iter(self.plans.values()))[0] if self.plans else plan_program(self.ready, 1, self.kept)
        return tuple(f"{one.layer} ({one.operation}): {one.reason}" for one in planned.plan.host_steps)

    def loaded(self, samples: int) -> tuple[Planned, list[Loaded]]:
        """Return the plan for a number of samples, loaded once or twice.

        Raises:
            BackendUnavailableError: The memory does not suffice.
        """
        if samples not in self.plans:
            planned = plan_program(self.ready, samples, self.kept)
            needed = self.device.needed_memory(planned.plan)
            while self.plans and (len(self.plans) >= KEPT_PLANS or needed > self.device.free_memory()):
                _, old = self.plans.pop(next(iter(self.plans)))
                for one in old:
                    one.release()
            free = self.device.free_memory()
            if needed > free:
                raise too_little_memory(samples, needed, free)
            self.plans[samples] = (planned, [self.device.load(planned.plan)])
        return self.plans[samples]

    def run_many(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> DeviceRun:
        """Run samples, given with an axis before those of the program's inputs; states go from one to the next."""
        count = len(next(iter(inputs.values()))) if inputs else 1
        if states:
            return self.one_by_one(inputs, states, count)
        found: list[DeviceRun] = []
        flying: list[Flight] = []
        done = 0
        while done < count:
            now = min(count - done, self.most)
            now = 1 << (now.bit_length() - 1)  # few sizes, so few plans
            if flying and flying[0].planned.plan.samples != now:  # the plan may have to make room for another
                found += map(self.finish, flying)
                flying = []
            try:
                lane = self.free_lane(now, flying)
            except BackendUnavailableError:
                if now == 1:
                    raise
                self.most = now // 2
                continue
            if lane is None:
                found.append(self.finish(flying.pop(0)))
                continue
            flying.append(self.start(lane, {name: one[done : done + now] for name, one in inputs.items()}, {}, now))
            done += now
        return join([*found, *map(self.finish, flying)])

    def free_lane(self, samples: int, flying: Sequence[Flight]) -> Loaded | None:
        """Return a plan in which nothing runs, loaded a second time where memory allows; None where there is none.

        Raises:
            BackendUnavailableError: The memory does not suffice for one.
        """
        planned, lanes = self.loaded(samples)
        for lane in lanes:
            if all(one.loaded is not lane for one in flying):
                return lane
        if len(lanes) == MOST_LANES or self.device.needed_memory(planned.plan) > self.device.free_memory():
            return None
        try:
            lanes.append(self.device.load(planned.plan))
        except BackendUnavailableError:  # the memory is fragmented, or others took it
            return None
        return lanes[-1]

    def one_by_one(self, inputs: Mapping[str, Array], states: Mapping[str, Array], count: int) -> DeviceRun:
        """Run samples one after the other, each on the states that the one before left."""
        found: list[DeviceRun] = []
        held = {name: np.asarray(one)[None] for name, one in states.items()}
        for place in range(count):
            _, lanes = self.loaded(1)
            sample = {name: one[place : place + 1] for name, one in inputs.items()}
            found.append(self.finish(self.start(lanes[0], sample, held, 1)))
            held = dict(found[-1].states)
        return join(found)

    def start(self, lane: Loaded, inputs: Mapping[str, Array], states: Mapping[str, Array], samples: int) -> Flight:
        """Begin a run of as many samples as a plan takes."""
        planned, _ = self.loaded(samples)
        self.give_warnings()
        on_host = {noted.layer: noted.host for noted in planned.noted if noted.host is not None}
        for said in on_host.values():
            said.clear()
        lane.start({**inputs, **{f"state {name}": one for name, one in states.items()}})
        return Flight(planned, lane, inputs, states, {name: tuple(said) for name, said in on_host.items()})

    def finish(self, flight: Flight) -> DeviceRun:
        """Wait for a run."""
        outputs, notes = flight.loaded.finish()
        program = self.ready.program
        part = part_of(flight.planned, notes, flight.said)
        self.expect_none_refused(part, flight.inputs, flight.states)
        part = replace(part, decided=self.decide(part, flight))
        for sample, run in part.decided.items():
            for name, array in (*run.outputs.items(), *((f"state {one}", array) for one, array in run.states.items())):
                outputs[name][sample] = array
        return DeviceRun(
            {port.name: outputs[port.name] for port in program.outputs},
            {state.name: outputs[f"state {state.name}"] for state in program.states},
            (part,),
        )

    def expect_none_refused(self, part: Part, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> None:
        """Stop where the device noted that a sample cannot be computed: the CPU finds the same and says what it is.

        Raises:
            GraphError: A place that was computed is past its axis.
        """
        for sample in part.notes.samples(part.planned.refusals):
            self.on_cpu(sample, inputs, states)
            raise AssertionError("the device refused what the CPU computes")

    def decide(self, part: Part, flight: Flight) -> Mapping[int, Run]:
        """Return what the CPU computes of samples that the device left to it."""
        undecided = part.notes.samples(part.planned.undecided)
        return {sample: self.on_cpu(sample, flight.inputs, flight.states) for sample in undecided}

    def on_cpu(self, sample: int, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Run:
        """Run a sample on the CPU; with states there is one at a time."""
        held = {name: one[0] for name, one in states.items()}
        return self.ready.run({name: one[sample] for name, one in inputs.items()}, held)

    def give_warnings(self) -> None:
        """Give the warnings that the CPU gives, once for all samples."""
        for step in self.ready.steps:
            if step.warning is not None:
                warn(f"{self.ready.program.target.name}: {step.warning}", PrecisionWarning)
            if step.layer.kind.op == "sdpa":
                query, key = (step.layer.operand(name).type.shape for name in ("query", "key"))
                label = label_of_lengths(query[-2], key[-2])
                if label is not None:
                    warn(f"sdpa: {label.reason}", PrecisionWarning)

    def release(self) -> None:
        """Give memory back."""
        for _, lanes in self.plans.values():
            for lane in lanes:
                lane.release()
        self.plans.clear()
        self.kept.clear()


def part_of(planned: Planned, found: list[Array], said: Mapping[str, Sequence[Label]]) -> Part:
    """Return what a run noted, given the buffers of its findings."""
    samples, rest = planned.plan.samples, iter(found)
    words = next(rest).view(np.uint32) if planned.words else np.zeros(0, np.uint32)
    if planned.high:
        next(rest)  # least magnitudes, which products alone look at
    wide = next(rest).view(np.float64) if planned.wide else np.zeros(0)
    notes = Notes(words.reshape(-1, samples + 1), wide.reshape(-1, samples))
    return Part(planned, notes, said)


def join(runs: list[DeviceRun]) -> DeviceRun:
    """Return several runs as one; states are those after the last."""
    if len(runs) == 1:
        return runs[0]
    return DeviceRun(
        {name: np.concatenate([run.outputs[name] for run in runs]) for name in runs[0].outputs},
        runs[-1].states,
        tuple(part for run in runs for part in run.parts),
    )
