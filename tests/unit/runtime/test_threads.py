"""Threads: concurrent calls of one model, of several, and release while others call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import RuntimeStateError

RANDOM = np.random.default_rng(4)
WEIGHT = RANDOM.standard_normal((32, 32)).astype(np.float16)
THREADS = 8


def network(factor: float = 1.0) -> af.Tensor:
    return (af.input((4, 32)) * factor).linear(WEIGHT).gelu()


def test_concurrent_calls_of_one_model_do_not_mix() -> None:
    model = af.compile(network(), target="h13")
    samples = [RANDOM.standard_normal((4, 32)) for _ in range(64)]
    wanted = [model(sample) for sample in samples]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(model, samples * 3))
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted * 3, strict=True))


def test_a_state_sees_every_call_once() -> None:
    total = af.state("total", (1, 32))
    x = af.input((1, 32))
    model = af.compile(af.Graph({"y": total + x}, {"total": total + x}), target="h16g")
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(model, [np.ones((1, 32))] * 200))
    assert sorted(int(np.asarray(one)[0, 0]) for one in found) == list(range(1, 201))


def test_several_models_run_beside_one_another() -> None:
    models = [af.compile(network(2.0**-place), target=target) for place, target in enumerate(["h13", "h14", "h16g"])]
    samples = [RANDOM.standard_normal((4, 32)) for _ in range(16)]
    wanted = [[model(sample) for sample in samples] for model in models]
    barrier = Barrier(len(models))

    def worked(model: af.Model) -> list[bool]:
        barrier.wait()
        expected = wanted[models.index(model)]
        return [np.array_equal(model(sample), one) for sample, one in zip(samples, expected, strict=True)]

    with ThreadPoolExecutor(len(models)) as pool:
        assert all(all(same) for same in pool.map(worked, models))


def test_threads_compile_beside_one_another() -> None:
    def compiled(place: int) -> float:
        with af.compile(network(2.0 ** -(place % 4)), target="h13") as model:
            return float(model(np.ones((4, 32))).sum())

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(compiled, range(32)))
    assert found == found[:4] * 8


def test_a_release_waits_for_the_call_under_way() -> None:
    model = af.compile(network(), target="h13")
    barrier = Barrier(THREADS)

    def called(place: int) -> str:
        barrier.wait()
        if place == 0:
            model.release()
            return "released"
        try:
            for _ in range(50):
                model(np.ones((4, 32)))
        except RuntimeStateError:
            return "refused"
        return "done"

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(called, range(THREADS)))
    assert found[0] == "released"
    assert set(found[1:]) <= {"refused", "done"}
    with pytest.raises(RuntimeStateError):
        model.execute()
