"""A cluster of two processes: the bytes of one process, whatever happens to the workers."""
# distributed is an extra, without types:
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.cli import main
from aneforge.commands.evaluating import evaluate
from aneforge.errors import GraphError
from aneforge.evaluation.cluster import outcome
from aneforge.evaluation.running import FailedShard, Finished
from aneforge.evaluation.samples import Sample, Shard
from evaluation_models import FIRST, SECOND, classifier, drawn, saved_data

distributed = pytest.importorskip("distributed", reason="a cluster needs Dask (the extra cluster)")

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from distributed import Future, LocalCluster

    from aneforge.ops.types import Array
    from aneforge.targets import TargetLike

# Dask's own, when processes that are killed leave their connections open
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Start two workers."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as started:
        yield started


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give every test a folder and a cache of its own."""
    monkeypatch.setenv("ANEFORGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a run by name."""
    return {one.name: one.read_bytes() for one in sorted(folder.iterdir()) if one.name != ".lock"}


def workers_of(cluster: LocalCluster) -> list[int]:
    """Return the processes of the workers."""
    return [worker.pid for worker in cluster.workers.values() if worker.pid]


class LostResult:
    """A future that was completed, and whose worker ended before its status was read: another computes it again."""

    status = "pending"

    def __init__(self, given: bytes | Exception) -> None:
        self.given = given

    def result(self) -> bytes:
        """Wait for it."""
        self.status = "error" if isinstance(self.given, Exception) else "finished"
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def lost(given: bytes | Exception) -> Future[Any]:
    return cast("Future[Any]", LostResult(given))


def test_a_result_that_is_computed_again_is_waited_for() -> None:
    shard = Shard(3, (Sample(6, "6"), Sample(7, "7")))
    assert outcome(lost(b"bytes"), shard) == Finished(3, b"bytes")
    assert outcome(lost(ValueError("no")), shard) == FailedShard(3, "6", "7", "ValueError: no")
    with pytest.raises(GraphError, match="another version"):
        outcome(lost(GraphError("another version")), shard)


def test_a_worker_that_is_killed_and_one_that_joins_late_change_no_byte(cluster: LocalCluster, tmp_path: Path) -> None:
    data = saved_data(tmp_path / "test.npz", 24)
    alone = evaluate(classifier(), data, [FIRST, SECOND], shard=2, folder=tmp_path / "alone")
    happened: list[int] = []

    def disturb(done: int, total: int | None) -> None:
        assert total == 24
        if done >= 4 and not happened:
            happened.append(workers_of(cluster)[0])
            os.kill(happened[0], signal.SIGKILL)  # its nanny starts another, which joins late
            cluster.scale(3)

    spread = evaluate(
        classifier(),
        data,
        [FIRST, SECOND],
        shard=2,
        folder=tmp_path / "spread",
        scheduler=cluster.scheduler_address,
        progress=disturb,
    )
    assert happened
    assert spread.failed == ()
    assert contents(tmp_path / "spread") == contents(tmp_path / "alone")
    assert spread.repeatable() == alone.repeatable()


def test_a_sample_that_raises_and_one_that_ends_its_worker_are_reported(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def metric(outputs: Mapping[str, Array], label: int | None) -> float:
        if label == 1:
            raise RuntimeError("no such luck")
        if label == 2:
            os._exit(1)
        return float(outputs["scores"].size)

    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)  # three by default
    labels = [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]
    found = evaluate(
        classifier(), list(drawn(12)), FIRST, labels=labels, metric=metric, shard=2, scheduler=cluster.scheduler_address
    )
    assert [(bad.name, bad.reason) for bad in found.summary.bad] == [
        ("1", "the metric raised RuntimeError: no such luck")
    ]
    assert not found.ok
    assert ("6", "7") in [(one.first, one.last) for one in found.failed]
    assert {one.reason.partition(":")[0] for one in found.failed} == {"KilledWorker"}
    assert len(found.failed) <= 2, "what the worker was given together with it, at most"
    assert found.summary.samples == 11 - 2 * len(found.failed)


def test_two_runs_at_once(cluster: LocalCluster, tmp_path: Path) -> None:
    data = saved_data(tmp_path / "test.npz", 8)
    found: dict[str, object] = {}

    def run(name: str, target: TargetLike) -> None:
        found[name] = evaluate(
            classifier(),
            data,
            target,
            shard=2,
            folder=tmp_path / name,
            scheduler=cluster.scheduler_address,  # pyright: ignore[reportArgumentType] - a family
        ).repeatable()

    threads = [threading.Thread(target=run, args=one) for one in (("first", FIRST), ("second", SECOND))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {
        name: evaluate(classifier(), data, target, shard=2).repeatable()
        for name, target in (("first", FIRST), ("second", SECOND))
    }


def test_workers_of_another_version_are_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    def become(build: str | None) -> None:
        from aneforge.evaluation import cluster as running  # noqa: PLC0415 - in the worker
        from aneforge.evaluation import jobs  # noqa: PLC0415 - as above

        jobs.this_build.cache_clear()
        made = jobs.this_build if build is None else lambda: build
        running.this_build = made

    data = saved_data(tmp_path / "test.npz", 2)
    with distributed.Client(cluster, set_as_default=False) as client:
        worker = next(iter(client.scheduler_info()["workers"]))
        client.run(become, "0.0.1 (other)", workers=[worker])
        try:
            with pytest.raises(GraphError, match=r"1 of \d workers have another version of aneforge \(got 0.0.1"):
                evaluate(classifier(), data, FIRST, scheduler=cluster.scheduler_address)
        finally:
            client.run(become, None, workers=[worker])


def test_a_scheduler_that_is_not_there_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aneforge.evaluation.cluster.PATIENCE", "1s")
    with pytest.raises(GraphError, match=r"tcp://127.0.0.1:9: the scheduler does not answer"):
        evaluate(classifier(), [drawn(1)[0]], FIRST, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(GraphError, match="a scheduler has its own workers"):
        evaluate(classifier(), [drawn(1)[0]], FIRST, scheduler="tcp://127.0.0.1:9", workers=2)


def test_a_scheduler_that_goes_away_is_one_error_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = saved_data(tmp_path / "test.npz", 12)
    alone = evaluate(classifier(), data, FIRST, shard=2, folder=tmp_path / "alone")
    place, quiet = tmp_path / "scheduler.json", ["--no-dashboard", "--scheduler-file", str(tmp_path / "scheduler.json")]
    commands = [["dask_scheduler", "--port", "0", "--host", "127.0.0.1"], ["dask_worker", "--nthreads", "1"]]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *options, *quiet],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, *options in commands
    ]
    try:
        while not place.exists() or not place.read_text().endswith("}"):
            assert started[0].poll() is None, "the scheduler did not start"
            time.sleep(0.1)
        address = json.loads(place.read_text())["address"]

        def disturb(done: int, total: int | None) -> None:
            assert total == 12
            if done:
                started[0].kill()

        monkeypatch.setattr("aneforge.evaluation.cluster.PATIENCE", "10s")
        monkeypatch.setattr("aneforge.evaluation.cluster.AHEAD", 1)
        with pytest.raises(GraphError, match="the scheduler went away"):
            evaluate(classifier(), data, FIRST, shard=2, folder=tmp_path / "run", scheduler=address, progress=disturb)
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert "Traceback" not in capfd.readouterr().err
    again = evaluate(classifier(), data, FIRST, shard=2, folder=tmp_path / "run")
    assert again.timing is not None
    assert again.timing.samples < 12
    assert contents(tmp_path / "run") == contents(tmp_path / "alone")
    assert again.repeatable() == alone.repeatable()


def test_processes_are_started_for_one_run() -> None:
    samples = list(drawn(5))
    spread = evaluate(classifier(), samples, FIRST, shard=2, workers=1)
    assert spread.summary == evaluate(classifier(), samples, FIRST, shard=2).summary
    assert np.isfinite(spread.summary.chips[0].error.largest or np.nan)


def test_models_that_workers_check_and_compile_give_the_bytes_of_one_process(cluster: LocalCluster) -> None:
    for number, width in enumerate((8, 20_000)):
        af.save_mil(af.input((1, 2, 1, width), name="x").relu(), f"m{number}.mil")
    Path("m2.mil").write_text("program(1.0) {", encoding="utf-8")
    models = ["m0.mil", "m2.mil", "m1.mil"]
    spread = ["--scheduler", cluster.scheduler_address]
    checked = ["check", "-q", *models, "-t", "m1"]
    assert main.run([*checked, "--json", "{model}.a.json", "--sarif", "a.sarif", "--junit", "a.xml"]) == 2
    assert main.run([*checked, "--json", "{model}.b.json", "--sarif", "b.sarif", "--junit", "b.xml", *spread]) == 2
    assert Path("a.sarif").read_bytes() == Path("b.sarif").read_bytes()
    assert Path("a.xml").read_bytes() == Path("b.xml").read_bytes()
    assert b'<testsuite name="m2.mil" tests="1" failures="0" errors="1">' in Path("a.xml").read_bytes()
    for name in ("m0", "m1"):
        assert Path(f"{name}.a.json").read_bytes() == Path(f"{name}.b.json").read_bytes()
    for folder, options in (("here", []), ("there", spread)):
        Path(folder).mkdir()
        compiled = ["compile", *models, "-t", "m1", "-o", f"{folder}/{{model}}.mil"]
        assert main.run([*compiled, *options]) == 2
    assert contents(Path("here")) == contents(Path("there"))
    assert set(contents(Path("there"))) == {"m0.mil", "m0.weights.bin", "m1.mil", "m1.weights.bin"}
