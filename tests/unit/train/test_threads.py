"""A run's bits do not depend on the number of threads."""

from __future__ import annotations

import numpy as np

import aneforge as af
from aneforge.engine.kernels.library import using

BATCH = 32


def losses_and_bits(threads: int) -> tuple[list[float], list[bytes]]:
    random = np.random.default_rng(0)
    x, t = af.input((BATCH, 3, 12, 12), max_abs=8), af.input((BATCH, 10))
    kernel = af.conv_param(random.standard_normal((8, 3, 3, 3)) * 0.2)
    weight = af.parameter(random.standard_normal((200, 10)) * 0.1)
    logits = af.conv2d(x, kernel).relu().avg_pool(2).reshape(BATCH, 200) @ weight
    objective = af.softmax_cross_entropy(logits, t)
    trainer = af.Trainer(objective, [kernel, weight], lr=0.01, optimizer="adam", loss_scale=256, target="m4")
    rows, labels = random.standard_normal((100, 3, 12, 12)), random.integers(0, 10, 100)
    trainer.set_dataset(x, rows, t, np.eye(10)[labels])
    with using(threads=threads):
        losses = [trainer.step() for _ in range(4)]
    return losses, [one.value.tobytes() for one in trainer.parameters]


def test_bits_of_a_run_do_not_depend_on_threads() -> None:
    alone = losses_and_bits(1)
    assert losses_and_bits(2) == alone
    assert losses_and_bits(5) == alone
