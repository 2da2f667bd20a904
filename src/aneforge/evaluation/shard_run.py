"""The one task of a run: a job and a shard of samples become the bytes of the shard's results.

It is pure: nothing but its arguments decides the bytes. The programs run on the exact engine, whose bits depend on no
number of threads; the reference runs in float64 on one thread, since the libraries that multiply matrices sum in
another order on several, and is rounded to float32.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs] - it has none

from aneforge.engine.kernels.library import using
from aneforge.errors import AneforgeError
from aneforge.evaluation.images import decode_image
from aneforge.evaluation.jobs import expect_same_build
from aneforge.evaluation.metrics import describe, measure
from aneforge.evaluation.results import Answer, BadSample, ChipAnswer, SampleResult, ShardResult, encode
from aneforge.evaluation.samples import BadSampleError
from aneforge.graph.reference import evaluate
from aneforge.records import dataclass
from aneforge.runtime.compile import load_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.evaluation.images import ImageOptions
    from aneforge.evaluation.jobs import Job
    from aneforge.evaluation.metrics import MetricFunction
    from aneforge.evaluation.samples import Sample, Shard
    from aneforge.ops.types import Array
    from aneforge.runtime.model import AnyModel

__all__ = ["run_shard"]

TOP = 5
"""Classes that are kept of an answer."""
KEPT_JOBS = 2
"""Jobs whose programs a process keeps loaded, the ones that were used last."""
BACKENDS = {"cpu": None, "cuda": "cuda"}
"""The backend of each device."""
BATCHES_AT_A_TIME = {"cpu": 1, "cuda": 256}
"""Batches of the program that are passed at a time; a GPU takes them in parts, one uploaded while another runs."""
TURN = threading.Lock()
"""One shard at a time in a process: the engine uses its threads by itself."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A job whose programs are ready to run."""

    job: Job
    models: tuple[AnyModel, ...]
    metric: MetricFunction | None


LOADED: OrderedDict[tuple[str, str], Loaded] = OrderedDict()


def run_shard(job: Job, shard: Shard, threads: int | None = None, device: str = "cpu") -> bytes:
    """Run the samples of a shard on every chip and return the bytes of the results, the same on every device.

    A sample that cannot be decoded or run is listed among the bad ones; the others go on.

    Raises:
        GraphError: This process has another version of the package, or the metric cannot be imported.
    """
    expect_same_build(job)
    with TURN, using(threads=threads), threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compiling gave them already
        loaded = load_job(job, device)
        ready, bad = decode(job, shard.samples)
        found: list[SampleResult] = []
        step = job.batch * BATCHES_AT_A_TIME[device]
        for start in range(0, len(ready), step):
            good, failed = run_batch(loaded, ready[start : start + step])
            found += good
            bad += failed
    return encode(ShardResult(shard.number, tuple(found), tuple(sorted(bad, key=lambda one: one.index))))


def load_job(job: Job, device: str = "cpu") -> Loaded:
    """Return a job with its programs loaded; those of older jobs are released."""
    key = (job.digest, device)
    if key in LOADED:
        LOADED.move_to_end(key)
        return LOADED[key]
    while len(LOADED) >= KEPT_JOBS:
        _, old = LOADED.popitem(last=False)
        for model in old.models:
            model.release()
    with tempfile.TemporaryDirectory(prefix="aneforge-", ignore_cleanup_errors=True) as folder:
        models: list[AnyModel] = []
        for number, one in enumerate(job.programs):
            file = Path(folder) / f"{number}.aneprg"
            file.write_bytes(one.content)
            models.append(load_program(file, backend=BACKENDS[device]))
    LOADED[key] = Loaded(job, tuple(models), None if job.metric is None else job.metric.load())
    return LOADED[key]


Ready = tuple["Sample", "Mapping[str, Array]"]


def decode(job: Job, samples: Sequence[Sample]) -> tuple[list[Ready], list[BadSample]]:
    """Return the samples as the model takes them, and those that cannot be."""
    ready: list[Ready] = []
    bad: list[BadSample] = []
    for sample in samples:
        try:
            ready.append((sample, arrays_of(sample, job)))
        except BadSampleError as error:
            bad.append(BadSample(sample.index, sample.name, str(error)))
    return ready, bad


def arrays_of(sample: Sample, job: Job) -> Mapping[str, Array]:
    """Return the values of a sample for every input.

    Raises:
        BadSampleError: It cannot be read, or does not fit.
    """
    if sample.problem:
        raise BadSampleError(sample.problem)
    if sample.label is not None and job.classes is not None and not 0 <= sample.label < job.classes:
        raise BadSampleError("the label is not one of the classes", seen=sample.label, limit=f"0 to {job.classes - 1}")
    if sample.encoded is not None:
        return {name: decode_image(sample.encoded, shape, images_of(job)) for name, shape in job.inputs.items()}
    given = sample.arrays or {}
    found: dict[str, Array] = {}
    for name, shape in job.inputs.items():
        if name not in given:
            raise BadSampleError(f"input {name!r} has no value", seen=", ".join(given) or "nothing")
        array = np.asarray(given[name])
        if array.shape != shape:
            raise BadSampleError(f"input {name!r} has another shape", seen=list(array.shape), limit=list(shape))
        if array.dtype.kind not in "fiub":
            raise BadSampleError(f"input {name!r} does not hold numbers", seen=array.dtype)
        found[name] = array
    return found


def images_of(job: Job) -> ImageOptions:
    """Return what is done with images."""
    assert job.images is not None  # noqa: S101 - a source of images comes with options
    return job.images


def run_batch(loaded: Loaded, ready: Sequence[Ready]) -> tuple[list[SampleResult], list[BadSample]]:
    """Run a batch; where that raises, every sample by itself, so that the one at fault is known."""
    try:
        return list(batch_results(loaded, ready)), []
    except Exception as error:  # noqa: BLE001 - whatever a sample or the user's metric makes of it
        if len(ready) == 1:
            sample, reason = ready[0][0], str(error) if isinstance(error, AneforgeError) else describe(error)
            return [], [BadSample(sample.index, sample.name, reason)]
    found: list[SampleResult] = []
    bad: list[BadSample] = []
    for one in ready:
        good, failed = run_batch(loaded, [one])
        found += good
        bad += failed
    return found, bad


def batch_results(loaded: Loaded, ready: Sequence[Ready]) -> Iterator[SampleResult]:
    """Yield the result of every sample of some batches; one that is not full is filled with its last sample."""
    job = loaded.job
    padded = [arrays for _, arrays in ready] + [ready[-1][1]] * (-len(ready) % job.batch)
    fed = {name: np.stack([arrays[name] for arrays in padded]) for name in job.inputs}
    chips = [outputs_of(model, fed, job.output) for model in loaded.models]
    wanted = None if job.reference is None else reference_outputs(job, fed)
    for place, (sample, _) in enumerate(ready):
        yield sample_result(
            loaded,
            sample,
            [{name: one[place] for name, one in outputs.items()} for outputs in chips],
            None if wanted is None else {name: one[place] for name, one in wanted.items()},
        )


def outputs_of(model: AnyModel, fed: Mapping[str, Array], output: str) -> Mapping[str, Array]:
    """Return the outputs of a model for one batch or several, sample after sample."""
    batch = next(iter(model.loaded.inputs.values())).type.shape[0]
    several = {name: array.reshape(-1, batch, *array.shape[1:]) for name, array in fed.items()}
    found = model.run_many(*several.values())
    named = {output: found} if isinstance(found, np.ndarray) else found
    return {name: array.reshape(-1, *array.shape[2:]) for name, array in named.items()}


def reference_outputs(job: Job, fed: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return what the mathematics gives, in float32."""
    assert job.reference is not None  # noqa: S101 - the caller asked
    count = len(next(iter(fed.values())))
    found: list[Mapping[str, Array]] = []
    for start in range(0, count, job.batch):
        outputs, _ = evaluate(job.reference, {name: array[start : start + job.batch] for name, array in fed.items()})
        with np.errstate(over="ignore"):
            found.append({name: array.astype(np.float32) for name, array in outputs.items()})
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def sample_result(
    loaded: Loaded, sample: Sample, chips: Sequence[Mapping[str, Array]], wanted: Mapping[str, Array] | None
) -> SampleResult:
    """Return one sample on every chip, compared with the mathematics and among one another."""
    output, seen = loaded.job.output, list[tuple[bytes, ...]]()
    answers: list[ChipAnswer] = []
    for outputs in chips:
        bits = tuple(array.tobytes() for array in outputs.values())
        if bits not in seen:
            seen.append(bits)
        error, relative = (None, None) if wanted is None else distance(outputs[output], wanted[output])
        answers.append(
            ChipAnswer(
                answer=answer_of(loaded, outputs, sample.label),
                error=error,
                relative=relative,
                finite=all(bool(np.isfinite(array).all()) for array in outputs.values()),
                bits=seen.index(bits),
            )
        )
    reference = None if wanted is None else answer_of(loaded, wanted, sample.label)
    return SampleResult(sample.index, sample.name, sample.label, reference, tuple(answers))


def answer_of(loaded: Loaded, outputs: Mapping[str, Array], label: int | None) -> Answer:
    """Return the classes, the margin and the metric of one side."""
    metric = None if loaded.metric is None else measure(loaded.metric, outputs, label)
    if loaded.job.classes is None:
        return Answer(None, None, metric)
    values = outputs[loaded.job.output].reshape(-1).astype(np.float64)
    order = np.argsort(-values, kind="stable")[:TOP]  # the first of equals; what is not a number comes last
    margin = float(values[order[0]] - values[order[1]])
    classes = tuple(int(one) for one in order if not np.isnan(values[one]))
    return Answer(classes, margin if np.isfinite(margin) else None, metric)


def distance(found: Array, wanted: Array) -> tuple[float | None, float | None]:
    """Return the largest distance, and that relative to the largest magnitude that is wanted."""
    left, right = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(left), np.isfinite(right)
    if (finite[0] != finite[1]).any():
        return None, None
    both = finite[0] & finite[1]
    largest = float(np.max(np.abs(left[both] - right[both]), initial=0.0))
    scale = float(np.max(np.abs(right[both]), initial=0.0))
    return largest, largest / scale if scale else None
