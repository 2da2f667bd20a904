"""`check`: one model on several targets, as a report.

Everything that is known without running the model comes at once: verdicts, programs, times, memory, labels. What takes
longer is asked for: `deep` proves ranges and compares programs between targets, `samples` looks at values.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING

from aneforge._version import __version__
from aneforge.commands.divergences import compare_targets
from aneforge.commands.model_and_targets import chosen_targets, subject_of, title_of_place
from aneforge.commands.preparing import Preparation, prepare_subject
from aneforge.commands.sharing import Compiler
from aneforge.commands.target_report import Asked, TargetWriter
from aneforge.compiler.retarget import verdict_by
from aneforge.compiler.splits import with_refusal
from aneforge.compiler.verdict import with_compiled
from aneforge.errors import NotSupportedError, UnknownNameError
from aneforge.formats.detection import ModelFormat
from aneforge.records import dataclass
from aneforge.report.headline import join_names, names_of
from aneforge.report.model import COREML, DIRECT, NO, SPLIT, Report, TargetReport
from aneforge.report.predicted import OPEN_SHAPES, SOME_TARGETS
from aneforge.rules.nodes import operation_of
from aneforge.rules.preflight import judge_once, look_at, observe_once, replace_observations

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from aneforge.commands.model_and_targets import Subject
    from aneforge.commands.sampling import SampleRuns
    from aneforge.commands.sharing import Made
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.rules.preflight import Observation, Preflight
    from aneforge.targets import Target, TargetLike

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["CheckOptions", "CheckTask", "check"]

COREML_FORMATS = (ModelFormat.ML_PACKAGE, ModelFormat.ML_MODEL)
"""Files that are made for Core ML: their first question is where it would run them."""

SHOWN_SPLITS = 5


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What a check does in addition to judging, compiling and pricing."""

    shapes: Shapes | None = None
    """Lengths of symbolic dimensions, and shapes of inputs."""
    function: str | None = None
    """The function, where a model has several."""
    samples: Mapping[str, Array] | None = None
    """Sample inputs: the values that they lead to are looked at, and the targets are compared by them, and deeply."""
    ranges: Ranges = field(default_factory=dict[str, "tuple[float, float] | float"])
    """How large inputs get."""
    deep: bool = False
    """Prove ranges, and follow them when the programs of the targets are compared."""
    placement: str | None = None
    """`coreml` adds where the public scheduler would send operations."""
    path: str | None = None
    """How the model reaches the engine: `direct` or `coreml`; None is Core ML for its own files, else direct."""
    rescale: bool = False
    """Add what scaling by powers of two would gain."""
    opt: str | int | None = None
    """How much is tried to make the graph fast before it is judged, as `af.compile` takes it; for the first target."""
    compress: str | None = None
    """How weights are encoded before the graph is judged, as `af.compile` takes it; for the first target."""
    tasks: bool = False
    """Add the tasks that programs become, where their form is known."""
    name: str | None = None
    """What the report calls the model; the name of its file if nothing is given."""


@dataclass(frozen=True, slots=True)
class CheckTask:
    """A model file that is checked, as plain values that any process can be sent. Calling it does so."""

    model: Path
    targets: Sequence[str] | None
    options: CheckOptions

    def __call__(self, progress: Callable[[str, int, int], None] | None = None) -> Report:
        """Check the model."""
        return check(self.model, self.targets, self.options, progress=progress)


def check(
    model: GraphLike | str | os.PathLike[str],
    targets: TargetLike | Iterable[TargetLike] = None,
    options: CheckOptions | None = None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Return the report of a model on several targets: a graph, or the path of a model file.

    The default targets are all chips on sale that run MIL programs. `progress` is called with the current step, the
    number of finished parts and their total.

    >>> import aneforge as af
    >>> report = check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15)
    >>> found = report.targets[0]
    >>> found.ok, found.counts.oversize, found.findings[0].rule
    (False, 2, 'ANE-EXTENT-001')

    Raises:
        GraphError: The model cannot be read, or an option does not fit it.
        UnknownTargetError: A target name is unknown.
        NoDataError: A target is a name without data.
    """
    asked = options or CheckOptions()
    tell = progress or report_nothing
    tell("reading the model", 0, 1)
    subject = subject_of(model, shapes=asked.shapes, function=asked.function, name=asked.name)
    chosen = chosen_targets(targets)
    subject, remarks = prepare_subject(subject, chosen, Preparation(asked.opt, asked.compress))
    judge_as_written(subject)
    judged = judge_once(subject.graph, [one.target for one in chosen])
    found = [verdict_by(one, subject.route(place.target)) for one, place in zip(judged, chosen, strict=True)]
    runs, states = sample_runs(subject, asked.samples, asked.ranges)
    compiler = Compiler(subject.graph, subject.route)
    writer = TargetWriter(
        subject.graph,
        Asked(
            None if runs is None else runs.samples,
            asked.ranges,
            deep=asked.deep,
            placement=asked.placement,
            rescale=asked.rescale,
            path=path_of(asked.path, subject),
            tasks=asked.tasks,
            runs=runs,
        ),
    )
    reports: list[TargetReport] = []
    made: list[tuple[Target, Made]] = []
    for number, (one, verdict) in enumerate(zip(chosen, found, strict=True)):
        tell(f"compiling for {title_of_place(one) or one.target.name}", number, len(chosen))
        made.append((one.target, compiler.compile(one.target)))
        failure = made[-1][1].failure
        known = with_refusal(verdict, failure) if isinstance(failure, NotSupportedError) else verdict
        reports.append(writer.report(one, known, made[-1][1]))
    return Report(
        model=subject.name,
        format=subject.format,
        nodes=writer.nodes,
        targets=tuple(reports),
        divergences=compare_targets(
            subject.graph, made, asked.ranges, tell, deep=asked.deep or runs is not None, runs=runs
        ),
        notes=(
            *subject.notes,
            *remarks,
            *shapes_bound(asked.shapes, several=asked.name is not None),
            *describe_ignored_states(states),
            *where_it_runs(reports),
            *describe_splits(found, [one for _, one in made], reports),
        ),
        tool=__version__,
    )


def sample_runs(
    subject: Subject, given: Mapping[str, Array] | None, ranges: Ranges
) -> tuple[SampleRuns | None, Mapping[str, Array]]:
    """Return what runs programs on the samples that were given, if any, and those that are values of states."""
    if given is None:
        return None, {}
    from aneforge.commands.feeding import feed_inputs  # noqa: PLC0415 - few checks have samples
    from aneforge.commands.sampling import SampleRuns  # noqa: PLC0415 - as above

    samples, states = feed_inputs(subject.graph, given, ranges=ranges)
    return SampleRuns(subject, samples, given), states


def path_of(asked: str | None, subject: Subject) -> str:
    """Return how a model reaches the engine: as was asked, else by the path that its file is made for.

    Raises:
        UnknownNameError: There is no such path.
    """
    if asked is None:
        return COREML if subject.format in COREML_FORMATS else DIRECT
    if asked not in (DIRECT, COREML):
        raise UnknownNameError.of("path", asked, (DIRECT, COREML))
    return asked


def shapes_bound(shapes: Shapes | None, *, several: bool) -> Iterator[str]:
    """Yield what is said of open dimensions that were bound, perhaps for one of several checks."""
    if not shapes:
        return
    bound = ", ".join(f"{name}={length}" for name, length in shapes.items())
    if several:
        yield f"checked with {bound}; make one model for each length, open ones run off the engine ({OPEN_SHAPES.id})"
    else:
        yield (
            f"checked with {bound}. {OPEN_SHAPES.id}: {OPEN_SHAPES.message} Where the file leaves them open, "
            f"{OPEN_SHAPES.remedy}"
        )


def describe_ignored_states(states: Mapping[str, Array]) -> Iterator[str]:
    """Yield what is said of sample values for states, which a check does not look at."""
    if states:
        yield f"sample values of states are not looked at, states start at zero: {', '.join(states)}"


def describe_splits(found: Sequence[Preflight], made: Sequence[Made], reports: Sequence[TargetReport]) -> Iterator[str]:
    """Yield what the compiler makes of operations that are oversize, in the words of `preflight`, each once."""
    named: dict[str, list[TargetReport]] = {}
    for verdict, one, report in zip(found, made, reports, strict=True):
        if one.compiled is not None and report.runs == SPLIT:
            for text in with_compiled(verdict, one.compiled).splits:
                named.setdefault(text, []).append(report)
    for text, targets in list(named.items())[:SHOWN_SPLITS]:
        yield f"on {chips_in(targets, reports)} {text}"
    if len(named) > SHOWN_SPLITS:
        yield f"{len(named) - SHOWN_SPLITS} more splits are in the notes of the targets"


def chips_in(some: Sequence[TargetReport], reports: Sequence[TargetReport]) -> str:
    """Return the chips of some targets by their shop names."""
    if len(some) == len(reports) > 1:
        return "all chips"
    return join_names(name for one in some for name in names_of(one))


def where_it_runs(reports: Sequence[TargetReport]) -> Iterator[str]:
    """Yield what is said of a model that runs only on some of the targets, or on some of them as it is written."""
    split, without = ([one for one in reports if one.runs == word] for word in (SPLIT, NO))
    as_it_is = len(reports) - len(split) - len(without)
    if len(reports) in (as_it_is, len(split), len(without)):
        return
    parts = [f"it runs as it is on {as_it_is} of {len(reports)} targets"]
    parts += [f"after splitting on {chips_in(split, reports)}"] if split else []
    parts += [f"not on {chips_in(without, reports)}"] if without else []
    yield f"{SOME_TARGETS.id}: {', '.join(parts[:-1])} and {parts[-1]}"


def judge_as_written(subject: Subject) -> None:
    """Let rules see a magnitude that fp16 made infinite as the user's file has it."""
    if subject.graph is subject.original:
        return
    before, seen = subject.half.before, observe_once(subject.graph)
    written = [
        with_magnitudes(one, before[node], subject.original) if has_infinity(one) and node in before else one
        for one, node in zip(seen, subject.graph.nodes, strict=True)
    ]
    if written != seen:
        replace_observations(subject.graph, written)


def has_infinity(observation: Observation) -> bool:
    """Return whether a number that rules look at is infinite."""
    attributes = observation.seen[0][0].attributes.values()
    return any(isinstance(value, float) and math.isinf(value) for value in attributes)


def with_magnitudes(observation: Observation, before: Node, original: Graph) -> Observation:
    """Return an observation with the numbers of the node as it was, where they are infinite."""
    (operation, _), *ports = observation.seen
    then = operation_of(before, original.consumers[before]).attributes
    attributes = {
        name: then[name] if isinstance(value, float) and math.isinf(value) else value
        for name, value in operation.attributes.items()
    }
    original_operation = replace(operation, attributes=attributes)
    return replace(observation, seen=[(original_operation, look_at(original_operation)), *ports])


def report_nothing(what: str, done: int, total: int) -> None:
    """Report nothing."""
