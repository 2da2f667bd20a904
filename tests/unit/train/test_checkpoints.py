"""Checkpoints: a run that was killed goes on with the bits of one that was not; what is refused; what stays whole."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pytest

import aneforge as af
from aneforge.errors import CheckpointError
from aneforge.train import checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("safetensors", reason="checkpoints need the extra train")

BATCH, ROWS, CLASSES = 4, 18, 3
"""Four batches of an epoch, and two rows that are left over."""


def build(hidden: int = 6, activation: str = "relu", rows: int = ROWS, **options: Any) -> af.Trainer:  # noqa: ANN401 - passed on
    random = np.random.default_rng(5)
    x, t = af.input((BATCH, 5), name="x"), af.input((BATCH, CLASSES), name="t")
    first = af.parameter(random.standard_normal((5, hidden)), name="first")
    second = af.parameter(random.standard_normal((hidden, CLASSES)), name="second")
    logits = getattr(x @ first, activation)() @ second
    chosen = cast("dict[str, Any]", {"lr": 0.05, "optimizer": "adam", "loss_scale": 64.0, "target": "m1", **options})
    trainer = af.Trainer(af.softmax_cross_entropy(logits, t), [first, second], **chosen)
    rows_of_x = random.standard_normal((rows, 5))
    trainer.set_dataset(x, rows_of_x, t, np.eye(CLASSES)[random.integers(0, CLASSES, rows)], seed=3)
    return trainer


def bits_of(trainer: af.Trainer) -> list[bytes]:
    moments = [moment for kept in trainer.optimizer.kept for moment in kept]
    return [one.tobytes() for one in (*(param.value for param in trainer.parameters), *moments)]


STOPPED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
sys.path.insert(0, sys.argv[1])
from test_checkpoints import build
path = sys.argv[2]
trainer, found = build(), 0
while True:
    try:
        trainer.step()
        trainer.save(path)
        print(trainer.optimizer.steps, flush=True)
    except KeyboardInterrupt:
        found += 1
        if found % 2:  # by turns the run goes on by itself, and another one from the file
            trainer = build()
            trainer.load(path)
        print("interrupted", flush=True)
"""
MOMENTS = [0.0, 0.0004, 0.0008, 0.0012, 0.0016, 0.002, 0.003, 0.005]
"""Seconds after a line of the run: a step and its checkpoint take a few milliseconds together."""


@pytest.mark.skipif(sys.platform == "win32", reason="neither Ctrl-C nor a kill can be sent to one process there")
def test_a_run_that_is_interrupted_and_killed_at_any_moment_goes_on_with_the_bits_of_one_that_was_not(
    tmp_path: Path, repository: Path, clean_environment: dict[str, str]
) -> None:
    path = tmp_path / "run.safetensors"
    command = [sys.executable, "-c", STOPPED, str(repository / "tests" / "unit" / "train"), str(path)]
    environment = {**clean_environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    undisturbed, resumed = build(), build()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        for moment in MOMENTS:
            assert run.stdout.readline().strip().isdigit()
            time.sleep(moment)
            run.send_signal(signal.SIGINT)
            while (line := run.stdout.readline().strip()) != "interrupted":
                assert line.isdigit(), run.stderr.read()
            resumed.load(path)  # whole at any time
        last = int(run.stdout.readline())
        run.kill()
        assert run.wait() == -signal.SIGKILL
    resumed.load(path)
    taken = resumed.optimizer.steps
    assert taken >= last
    for _ in range(taken):
        undisturbed.step()
    assert bits_of(resumed) == bits_of(undisturbed)
    assert [resumed.step() for _ in range(5)] == [undisturbed.step() for _ in range(5)]


def test_a_run_goes_on_from_any_place_of_an_epoch(tmp_path: Path) -> None:
    one, other = build(), build()
    for taken in range(6):  # an epoch has four
        other.load(one.save(tmp_path / "run.safetensors"))
        twin = build()
        twin.load(tmp_path / "run.safetensors")
        assert twin.optimizer.steps == taken
        assert [twin.step() for _ in range(6)] == [other.step() for _ in range(6)]
        assert bits_of(twin) == bits_of(other)
        one.step()
    undisturbed = build()
    for _ in range(11):
        undisturbed.step()
    assert bits_of(other) == bits_of(undisturbed)


def test_an_interrupt_waits_for_the_end_of_a_step_and_a_second_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, undisturbed = build(), build()
    update, handler = trainer.optimizer.update, signal.getsignal(signal.SIGINT)
    presses = 1

    def interrupted(place: int, gradient: Any, rate: float) -> None:  # noqa: ANN401 - an array
        for _ in range(presses if place == 0 else 0):
            signal.raise_signal(signal.SIGINT)
        update(place, gradient, rate)

    monkeypatch.setattr(trainer.optimizer, "update", interrupted)
    undisturbed.step()
    with pytest.raises(KeyboardInterrupt):
        trainer.step()
    assert bits_of(trainer) == bits_of(undisturbed)
    presses = 2
    with pytest.raises(KeyboardInterrupt):
        trainer.step()
    assert bits_of(trainer) == bits_of(undisturbed)
    assert signal.getsignal(signal.SIGINT) is handler


def one_step_alone(step: int) -> float:
    return 1 / (2 - step)


def test_a_step_whose_rate_fails_was_not_taken() -> None:
    trainer = build(lr=one_step_alone)
    trainer.step()
    before = bits_of(trainer)
    with pytest.raises(ZeroDivisionError):
        trainer.step()
    assert bits_of(trainer) == before
    assert trainer.optimizer.steps == 1


def test_a_second_checkpoint_of_the_same_state_has_the_same_bytes(tmp_path: Path) -> None:
    trainer, other = build(), build()
    trainer.step()
    first = trainer.save(tmp_path / "first")
    other.load(first)
    assert other.save(tmp_path / "second").read_bytes() == first.read_bytes()
    assert other.loss() == trainer.loss()  # of the mini-batch that was drawn last


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_save_leaves_the_last_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    path = tmp_path / "run.safetensors"
    trainer = build()
    before = bits_of(trainer)
    trainer.save(path)
    trainer.step()

    def interrupted(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(error):
        trainer.save(path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    trainer.load(path)
    assert bits_of(trainer) == before
    assert trainer.optimizer.steps == 0


def with_header(path: Path, change: Callable[[dict[str, Any]], None], *, digest: bool = True) -> None:
    """Change the header of a checkpoint, and its digest accordingly."""
    from safetensors.numpy import load, save  # noqa: PLC0415 - an extra

    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    held = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][checkpoints.KEY])
    change(held)
    tensors = load(content)
    try:
        header = msgspec.convert(held, checkpoints.Header)
        held["digest"] = checkpoints.digest_of(header, tensors) if digest else ""
    except msgspec.ValidationError:
        pass  # which is noticed before the digest
    path.write_bytes(save(tensors, {checkpoints.KEY: json.dumps(held)}))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: build(hidden=7), r"another network.*got %1 = input\(\) .*shape = \[5, 6\].*expected .*\[5, 7\]"),
        (lambda: build(activation="tanh"), r"another network.*got %4 = relu.*expected %4 = tanh"),
        (lambda: build(optimizer="sgd"), "another optimizer .got Adam, expected SGD"),
        (lambda: build(loss_scale=32.0), "another loss_scale .got 64.0, limit 32.0"),
        (lambda: build(rows=20), "another data set .got 18 rows in batches of 4, limit 20 rows"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_by_its_first_difference(
    tmp_path: Path, other: Callable[[], af.Trainer], message: str
) -> None:
    path = build().save(tmp_path / "run.safetensors")
    trainer = other()
    before = bits_of(trainer)
    with pytest.raises(CheckpointError, match=message):
        trainer.load(path)
    assert bits_of(trainer) == before


DAMAGES: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (lambda held: held.update(form=3), r"another version \(got 3, limit 2\)"),
    (lambda held: held.update(network=3), "header of the checkpoint is damaged"),
    (lambda held: held["order"].update(generator="{}"), "state of the generator is damaged"),
    (lambda held: held["order"].update(rows=17), "another data set"),
    (lambda held: held.update(order=None), "written without a data set"),
    (lambda held: held["numbers"].pop("skipped"), "only one of checkpoint and trainer has the number 'skipped'"),
]


@pytest.mark.parametrize(("change", "message"), DAMAGES)
def test_a_damaged_header_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    trainer = build()
    path = trainer.save(tmp_path / "run.safetensors")
    with_header(path, change)
    with pytest.raises(CheckpointError, match=message):
        trainer.load(path)


def test_a_changed_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    trainer, path = build(), tmp_path / "run.safetensors"
    trainer.step()
    whole = trainer.save(path).read_bytes()
    before = bits_of(trainer)
    for place in [*range(0, len(whole), 41), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(CheckpointError):
            trainer.load(path)
    assert bits_of(trainer) == before


def test_a_checkpoint_of_the_form_before_has_no_digest(tmp_path: Path) -> None:
    trainer, other = build(), build()
    trainer.step()
    path = trainer.save(tmp_path / "run.safetensors")
    with_header(path, lambda held: held.update(form=1), digest=False)
    other.load(path)
    assert bits_of(other) == bits_of(trainer)
    with_header(path, lambda held: held.update(form=2), digest=False)
    with pytest.raises(CheckpointError, match="the checkpoint is damaged"):
        other.load(path)


def test_a_link_stays_one_and_what_killed_runs_left_goes(tmp_path: Path) -> None:
    trainer, path, link = build(), tmp_path / "run[1].safetensors", tmp_path / "last"
    left = [tmp_path / f".{path.name}.{number}.unfinished" for number in range(2)]
    for one in left:
        one.write_bytes(b"half")
    os.utime(left[0], (0, 0))
    try:
        link.symlink_to(path.name)
    except OSError:
        pytest.skip("no links can be made here")
    trainer.save(link)
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == sorted([left[1], link, path])  # the other may still be written
    trainer.load(link)


def test_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.numpy import save  # noqa: PLC0415 - an extra

    trainer, path = build(), tmp_path / "run.safetensors"
    with pytest.raises(FileNotFoundError):
        trainer.load(path)
    with pytest.raises(IsADirectoryError, match=re.escape(tmp_path.name)):
        trainer.load(tmp_path)
    whole = trainer.save(path).read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(CheckpointError, match="the file is not a checkpoint"):
        trainer.load(path)
    path.write_bytes(save({"weights": np.zeros(3, np.float32)}))
    with pytest.raises(CheckpointError, match="has no header of one"):
        trainer.load(path)

    def find_nothing(_: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    with pytest.raises(ImportError, match=r"needs the package safetensors.*aneforge-open\[train\]"):
        trainer.save(path)
