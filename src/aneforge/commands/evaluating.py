"""`evaluate`: a whole data set on every chip: how right each is, and the samples on which they differ."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aneforge.callsite import keep_warnings
from aneforge.commands.comparing import REFERENCE, compare_targets
from aneforge.commands.many_models import cluster_for
from aneforge.commands.model_and_targets import chosen_targets, label_of, subject_of
from aneforge.commands.outputs import refuse_file, writing
from aneforge.display import number_of
from aneforge.errors import DispatchFloorWarning, GraphError, NotSupportedError, UnknownNameError
from aneforge.evaluation.images import ImageFolder, ImageOptions, expect_options, thumbnail
from aneforge.evaluation.iterables import IterableSource
from aneforge.evaluation.jobs import ChipProgram, Job, digest_of, this_build
from aneforge.evaluation.labels import expect_classes
from aneforge.evaluation.metrics import metric_of
from aneforge.evaluation.opening import open_data
from aneforge.evaluation.results import decode
from aneforge.evaluation.running import FailedShard, Finished, Local
from aneforge.evaluation.shard_run import arrays_of
from aneforge.evaluation.store import RunFolder, RunRecord
from aneforge.evaluation.summary import FLOAT32, Side, Summary, summarise
from aneforge.evaluation.tables import write_results
from aneforge.formats.shared.shapes import OpenDimensionsError
from aneforge.packages import expect_package
from aneforge.records import dataclass
from aneforge.runtime.backends import choose_backend
from aneforge.runtime.compile import compile as compile_model
from aneforge.runtime.model import Model, MultiModel
from aneforge.runtime.saved.cache import program_cache

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterable, Sequence

    from aneforge.commands.comparing import Comparison
    from aneforge.commands.model_and_targets import Subject
    from aneforge.evaluation.metrics import Metric, MetricFunction
    from aneforge.evaluation.running import Runner
    from aneforge.evaluation.samples import Sample, Source
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.ops.types import Array
    from aneforge.targets import Place, TargetLike

__all__ = ["Evaluation", "ExplainedSample", "LayerDifference", "Picture", "Rate", "Timing", "evaluate"]

DEVICES = ("cpu", "cuda")
SAMPLES_OF_A_SHARD = 256
EXPLAINED = 3
"""Samples whose first difference is looked for."""
Progress = Callable[[int, "int | None"], None]
"""What is called with how many samples are done, and of how many."""


@dataclass(frozen=True, slots=True)
class LayerDifference:
    """Where a chip first differs from another side, on one sample."""

    chip: str
    against: str
    operation: str
    """The first operation that differs, by its name."""
    op: str
    differing: int
    elements: int
    worst: str
    """The operation that is the furthest off."""


@dataclass(frozen=True, slots=True)
class ExplainedSample:
    """One of the worst samples, and where its differences begin."""

    sample: int
    name: str
    error: float
    """The largest error of a chip."""
    layers: tuple[LayerDifference, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A sample as a small picture."""

    sample: int
    png: bytes


@dataclass(frozen=True, slots=True)
class Rate:
    """Samples a second that a chip itself is predicted to run; the interval should hold eight of ten measurements."""

    chip: str
    expected: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a run took here; it is the only part of an evaluation that another run does not repeat."""

    samples: int
    """Samples that this run computed; what an interrupted one had computed is not among them."""
    seconds: float

    @property
    def rate(self) -> float | None:
        """Samples a second, on all chips."""
        return self.samples / self.seconds if self.samples and self.seconds else None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A model over a data set, on every chip."""

    model: str
    data: str
    reference: str
    """What chips are compared with; empty where they are not."""
    metric: str
    """The name of the user's metric."""
    summary: Summary
    explained: tuple[ExplainedSample, ...]
    failed: tuple[FailedShard, ...]
    """Shards that no worker could compute; the same command tries them again."""
    notes: tuple[str, ...]
    """What was done to the model, such as the change to fp16, and what compiling warned of."""
    rates: tuple[Rate, ...] = ()
    """Of every chip on which something of the model runs, with the batch of the run."""
    pictures: tuple[Picture, ...] = ()
    timing: Timing | None = None

    @property
    def ok(self) -> bool:
        """Every shard was computed."""
        return not self.failed

    def repeatable(self) -> Evaluation:
        """Return it without what another run does not repeat, and without pictures."""
        return replace(self, timing=None, pictures=())


def evaluate(  # noqa: PLR0913 - what is evaluated, on what, and how
    model: GraphLike | Model | MultiModel | str | os.PathLike[str],
    data: object,
    targets: TargetLike | Iterable[TargetLike] = None,
    *,
    labels: object = None,
    metric: MetricFunction | str | None = None,
    device: str | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    batch: int | None = None,
    shapes: Shapes | None = None,
    output: str | None = None,
    images: ImageOptions | None = None,
    reference: bool = True,
    explain: int = EXPLAINED,
    shard: int = SAMPLES_OF_A_SHARD,
    folder: str | os.PathLike[str] | None = None,
    parquet: str | os.PathLike[str] | None = None,
    pictures: int = 0,
    fail_on_bad_sample: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Run a model over a data set on every target, and return the accuracy of each and where they differ.

    `data` is a file of arrays (.npy, .npz), a folder of images, a Parquet or Arrow file, or an iterable of samples
    without the batch axis, each with its label if there is one. `metric` is a function of the outputs of a sample by
    name and of its label. Chips are compared with the mathematical meaning of the model file, in float64 and rounded to
    float32, unless `reference` is False. Results are kept in `folder`, from which an interrupted run is continued;
    without one they are in the user's cache until the run is complete. `parquet` is a file for the results of every
    sample on every side; `pictures` is the number of samples that flip to keep as small pictures.

    `workers` starts that many processes on this machine; `scheduler` is the address of a Dask cluster.

    >>> import numpy as np
    >>> import aneforge as af
    >>> scores = af.input((1, 2), name="x") * 3.0
    >>> family = af.targets.Family
    >>> found = evaluate(scores, [(np.array([1.0, 2.0]), 1), (np.array([2.0, 1.0]), 1)], [family.A13, family.A16])
    >>> [chip.scores.top1 for chip in found.summary.chips], found.summary.flips
    ([0.5, 0.5], ())

    Raises:
        GraphError: The model, the data, the labels and the options do not fit one another, or nothing can be written.
        IllegalGraphError: The model cannot run on one of the targets.
        MissingPackageError: A package that the data or the cluster needs is not installed.
    """
    expect_device(device)
    expect_counts({"shard": shard, "workers": workers, "batch": batch})
    subject, chosen = subject_and_targets(model, targets, shapes, batch)
    wanted, length = sample_shapes(subject)
    expect_batch(batch, length)
    source = open_data(data, wanted, labels)
    job = job_of(
        subject,
        chosen,
        wanted,
        length,
        output,
        metric_of(metric),
        find_image_options(source, wanted, images),
        reference,
    )
    size = max(1, shard // length) * length
    expect_classes(source.labels, job.classes)
    if labels is not None and job.classes is None and job.metric is None:
        raise without_classes(subject, job.output)
    record = record_of(subject, source, job, size)
    runner = runner_of(scheduler, workers, device or "cpu")
    if parquet is not None:
        expect_package("pyarrow")
        refuse_file(Path(parquet), model)
    recognised = not isinstance(source, IterableSource)
    with run_folder(folder, record, recognised=recognised) as kept, kept.open_run(record) as done:
        timing, failed = run_job(job, source, runner, kept, size, done, progress, fatal=fail_on_bad_sample)
        summary = summarise([Side(one.target, one.label, one.exactness) for one in job.programs], kept.results())
        if not summary.samples:
            raise no_sample(summary, failed)
        if parquet is not None:
            with writing(Path(parquet)):
                write_results(Path(parquet), job.chips, kept.results())
        again = Again(source, job, size)
        found = Evaluation(
            model=subject.name,
            data=source.name,
            reference="float32: the mathematics of the model as its file has it" if reference else "",
            metric="" if job.metric is None else job.metric.name,
            summary=summary,
            explained=explained(subject, chosen, again, summary, explain),
            pictures=tuple(pictures_of(again, [flip.sample for flip in summary.flips[:pictures]])),
            failed=failed,
            rates=tuple(rates_of(job.programs, job.batch)),
            notes=(*subject.notes, *dict.fromkeys(text for one in job.programs for text in one.cautions)),
            timing=timing,
        )
        if folder is None and found.ok:
            kept.clear()
    return found


def expect_device(device: str | None) -> None:
    """Refuse a device that cannot run programs.

    Raises:
        UnknownNameError: There is no such device.
        BackendUnavailableError: It cannot be used here.
    """
    if device is None or device == "cpu":
        return
    if device not in DEVICES:
        raise UnknownNameError.of("device", device, DEVICES)
    choose_backend(device)


def expect_counts(counts: Mapping[str, int | None]) -> None:
    """Refuse numbers that are not counts.

    Raises:
        GraphError: One is below 1.
    """
    for name, count in counts.items():
        if count is not None and count < 1:
            raise GraphError(f"{name} must be a positive number", seen=count, limit=1)


def subject_and_targets(
    model: GraphLike | Model | MultiModel | str | os.PathLike[str],
    targets: TargetLike | Iterable[TargetLike],
    shapes: Shapes | None,
    batch: int | None,
) -> tuple[Subject, list[Place]]:
    """Return what is evaluated, and where; a compiled model is its graph on its own target.

    A symbolic length that comes first in the shape of an input is that of the batch.
    """
    if isinstance(model, Model | MultiModel):
        return subject_of(model.graph), chosen_targets(model.target if targets is None else targets)
    try:
        subject = subject_of(model, shapes=shapes)
    except OpenDimensionsError as error:
        if not error.leading:
            raise
        subject = subject_of(model, shapes={**(shapes or {}), **dict.fromkeys(error.leading, batch or 1)})
    return subject, chosen_targets(targets)


def sample_shapes(subject: Subject) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return the shape of a sample of every input, and the length of a batch.

    Raises:
        GraphError: The model has states, no input, or inputs and outputs that do not begin with the same axis.
    """
    graph = subject.graph
    if graph.state_placeholders:
        raise GraphError(
            "a model with states cannot be evaluated: its answer depends on earlier samples",
            seen=", ".join(graph.state_placeholders),
        )
    shapes = {name: node.types[0].shape for name, node in graph.inputs.items()}
    results = {name: output.type.shape for name, output in graph.outputs.items()}
    lengths = {shape[0] if shape else 0 for shape in (*shapes.values(), *results.values())}
    if not shapes or len(lengths) != 1 or 0 in lengths:
        listed = {name: list(shape) for name, shape in (shapes | results).items()}
        raise GraphError(
            "the first axis of every input and output must be that of the samples", seen=listed, operation=subject.name
        )
    return {name: shape[1:] for name, shape in shapes.items()}, lengths.pop()


def expect_batch(asked: int | None, length: int) -> None:
    """Refuse another batch than that of the model.

    Raises:
        GraphError: The model has another one.
    """
    if asked is not None and asked != length:
        raise GraphError(
            "the model has another batch",
            seen=asked,
            limit=length,
            remedy="leave --batch out, or export the model with a symbolic first dimension",
        )


def find_image_options(
    source: Source, wanted: Mapping[str, tuple[int, ...]], options: ImageOptions | None
) -> ImageOptions | None:
    """Return what is done with images, where the model takes some.

    Raises:
        GraphError: The data is images, and the model takes none or several.
    """
    shape = next(iter(wanted.values()))
    if isinstance(source, ImageFolder):
        if len(wanted) > 1:
            raise GraphError(
                "a folder of images is for a model of one input",
                seen=", ".join(wanted),
                limit=1,
                remedy="give an array for every input: --data FILE.npz",
            )
        expect_options(options or ImageOptions(), shape)
    return options or ImageOptions()


def job_of(  # noqa: PLR0913, PLR0917 - what a job is
    subject: Subject,
    places: Sequence[Place],
    wanted: Mapping[str, tuple[int, ...]],
    length: int,
    output: str | None,
    metric: Metric | None,
    images: ImageOptions | None,
    reference: bool,  # noqa: FBT001 - as above
) -> Job:
    """Compile a model for every target, and return what tasks need.

    Raises:
        UnknownNameError: There is no such output.
        IllegalGraphError: The model cannot run on one of the targets.
        GraphError: The metric cannot be imported.
    """
    graph = subject.graph
    chosen = next(iter(graph.outputs)) if output is None else output
    if chosen not in graph.outputs:
        raise UnknownNameError.of("output", chosen, graph.outputs)
    if metric is not None:
        metric.load()
    long = [extent for extent in graph.outputs[chosen].type.shape[1:] if extent > 1]
    programs = tuple(chip_program(graph, place) for place in places)
    original = subject.original if reference else None
    parts = [chosen, str(length), repr(images), "" if metric is None else metric.identity, this_build()]
    parts += [graph.text if original is None else original.text, str(reference)]
    return Job(
        programs=programs,
        reference=original,
        inputs=wanted,
        batch=length,
        output=chosen,
        classes=long[0] if len(long) == 1 else None,
        metric=metric,
        images=images,
        build=this_build(),
        digest=digest_of([*parts, *(part for one in programs for part in (one.label, one.content))]),
    )


def chip_program(graph: Graph, place: Place) -> ChipProgram:
    """Return the program of a graph for one target."""
    # The warnings are part of the model, and printed with the answer.
    with (
        keep_warnings(),
        tempfile.TemporaryDirectory(prefix="aneforge-") as folder,
        compile_model(graph, target=place) as model,
    ):
        content = model.save(Path(folder) / "program.aneprg").read_bytes()
        exactness = str(model.exactness.exactness)
        microseconds = model.cost.microseconds, model.cost.low, model.cost.high
        cautions = tuple(str(one) for one in model.warnings if one.category != DispatchFloorWarning.__name__)
    return ChipProgram(place.target.name, label_of(place), exactness, content, microseconds, cautions)


def rates_of(programs: Iterable[ChipProgram], length: int) -> Generator[Rate]:
    """Yield how many samples a second chips run, by the predicted times of a batch."""
    for one in programs:
        if all(one.microseconds):
            expected, low, high = (length * 1e6 / microseconds for microseconds in one.microseconds)
            yield Rate(one.label, expected, high, low)


def record_of(subject: Subject, source: Source, job: Job, size: int) -> RunRecord:
    """Return what a run is."""
    identity = digest_of([job.digest, source.identity, str(size)])
    return RunRecord(identity, job.build, subject.name, source.name, job.chips, size)


@contextmanager
def run_folder(given: str | os.PathLike[str] | None, record: RunRecord, *, recognised: bool) -> Generator[RunFolder]:
    """Yield the folder of a run: the one that the user named, else one in the user's cache.

    It is a temporary one where an interrupted run could not be recognised.
    """
    if given is not None:
        yield RunFolder(Path(given))
    elif recognised:
        yield RunFolder(program_cache().folder.parent / "evaluations" / record.identity[:32])
    else:
        with tempfile.TemporaryDirectory(prefix="aneforge-") as folder:
            yield RunFolder(Path(folder) / "run")


def runner_of(scheduler: str | None, workers: int | None, device: str) -> Runner:
    """Return what computes the shards.

    Raises:
        GraphError: A scheduler and a number of workers are given.
        MissingPackageError: Dask is not installed.
        NotSupportedError: Workers would share a GPU.
    """
    if device != "cpu" and (scheduler is not None or workers is not None):
        raise NotSupportedError(
            "only one process can run programs on a GPU",
            seen=f"device {device}",
            remedy="leave --scheduler and --workers out",
        )
    return cluster_for(scheduler, workers) or Local(device=device)


def without_classes(subject: Subject, output: str) -> GraphError:
    """Return the error for labels of an output that has no classes, with which nothing would be done."""
    return GraphError(
        f"labels are compared with classes, which output {output!r} does not have",
        seen=list(subject.graph.outputs[output].type.shape),
        limit="one vector of values for each sample",
        remedy="name the output that has them (--output NAME), or a metric that uses the labels (--metric)",
    )


def say_nothing(_finished: int, _total: int | None) -> None:
    """Take progress that nobody asked for."""


def run_job(  # noqa: PLR0913 - a run
    job: Job,
    source: Source,
    runner: Runner,
    kept: RunFolder,
    size: int,
    done: set[int],
    progress: Progress | None,
    *,
    fatal: bool,
) -> tuple[Timing, tuple[FailedShard, ...]]:
    """Compute the shards that are not done, and keep each as it is finished.

    Raises:
        GraphError: A sample is bad and that is fatal, or the results cannot be written.
    """
    began, computed, failed = time.perf_counter(), 0, list[FailedShard]()
    total = source.count
    finished = len(done) * size if total is None else min(total, len(done) * size)
    tell = progress or say_nothing
    tell(finished, total)
    for one in runner.run(job, source.shards(size, done)):
        if isinstance(one, Finished):
            count = expect_good(one, fatal=fatal)
            kept.keep(one.number, one.content)
            finished, computed = finished + count, computed + count
            tell(finished, total)
        else:
            failed.append(one)
    return Timing(computed, time.perf_counter() - began), tuple(sorted(failed, key=lambda one: one.number))


def expect_good(one: Finished, *, fatal: bool) -> int:
    """Return the samples of a shard.

    Raises:
        GraphError: One is bad, and that is fatal.
    """
    result = decode(one.content)
    for bad in result.bad if fatal else ():
        raise GraphError(f"a bad sample: {bad.reason}", operation=f"sample {bad.name}")
    return len(result.samples) + len(result.bad)


def no_sample(summary: Summary, failed: Sequence[FailedShard]) -> GraphError:
    """Return the error for a run without any result."""
    if summary.bad:
        first = summary.bad[0]
        listed = f"({number_of(len(summary.bad), 'bad sample')}); the first is {first.name}: {first.reason}"
        return GraphError(f"no sample could be run {listed}")
    if failed:
        return GraphError(f"no sample could be run: {failed[0].reason}")
    return GraphError("no sample could be run", seen="no sample in the data")


@dataclass(frozen=True, slots=True)
class AllBut:
    """Every number but some."""

    numbers: frozenset[int]

    def __contains__(self, number: object) -> bool:
        """Return whether a number is not one of them."""
        return number not in self.numbers


@dataclass(frozen=True, slots=True)
class Again:
    """The samples of a run, to be read a second time."""

    source: Source
    job: Job
    size: int

    def samples(self, indices: Iterable[int]) -> Generator[tuple[Sample, Mapping[str, Array]]]:
        """Yield some samples, decoded, in their order; none of an iterator, which is read once."""
        wanted = frozenset(indices)
        if not wanted or (isinstance(self.source, IterableSource) and iter(self.source.items) is self.source.items):
            return
        for shard in self.source.shards(self.size, AllBut(frozenset(index // self.size for index in wanted))):
            for sample in shard.samples:
                if sample.index in wanted:
                    yield sample, arrays_of(sample, self.job)


def explained(
    subject: Subject, places: Sequence[Place], again: Again, summary: Summary, most: int
) -> tuple[ExplainedSample, ...]:
    """Return where the worst samples begin to differ."""
    worst, found = dict(summary.worst[:most]), dict[int, ExplainedSample]()
    for sample, arrays in again.samples(worst):
        inputs = {name: np.stack([one] * again.job.batch) for name, one in arrays.items()}
        layers = tuple(layer_differences(subject, places, inputs, again.job.batch))
        found[sample.index] = ExplainedSample(sample.index, sample.name, worst[sample.index], layers)
    return tuple(found[index] for index in worst if index in found)


def pictures_of(again: Again, indices: Sequence[int]) -> Generator[Picture]:
    """Yield pictures of samples, where they are images."""
    for sample, arrays in again.samples(indices):
        png = thumbnail(sample.encoded, next(iter(arrays.values())))
        if png is not None:
            yield Picture(sample.index, png)


def layer_differences(
    subject: Subject, places: Sequence[Place], inputs: Mapping[str, Array], batch: int
) -> Generator[LayerDifference]:
    """Yield where chips begin to differ from the first, and the first from float32; all samples of a batch are one."""
    with keep_warnings():
        compared = compare_targets(subject.original, places[:1], REFERENCE, inputs)
        if len(places) > 1:
            compared += compare_targets(subject.original, places, None, inputs)
    for one in compared:
        if (found := layer_difference(one, batch)) is not None:
            yield found


def layer_difference(one: Comparison, batch: int) -> LayerDifference | None:
    """Return where two sides begin to differ, counting the elements of one sample; None where they are equal."""
    first = one.first_difference
    if first is None:
        return None
    against, chip = (one.labels[0], one.labels[1]) if one.targets else (FLOAT32, one.labels[0])
    # Weights that differ after a change have no axis of the batch.
    alike = batch if first.elements % batch == first.differing % batch == 0 else 1
    counts = first.differing // alike, first.elements // alike
    return LayerDifference(chip, against, first.name, first.op, *counts, one.worst[0].name)
