"""A small classifier whose answers differ between families, and data for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import aneforge as af

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.ops.types import Array

__all__ = ["CLASSES", "FIRST", "SECOND", "classifier", "drawn", "saved_data"]

CLASSES = 6
FIRST, SECOND = af.targets.Family.A13, af.targets.Family.A16


def classifier(batch: int = 1) -> af.Graph:
    """Return a network of images of 2 × 4 × 4 and six classes: the second half of twelve scores.

    In the oldest family a slice that does not begin at the first element saturates large values.
    """
    weight = np.random.default_rng(0).standard_normal((2 * CLASSES, 2, 4, 4)) * 0.2
    x = af.input((batch, 2, 4, 4), name="x")
    scores = af.conv(x, weight).reshape((batch, 1, 1, 2 * CLASSES))
    return af.Graph({"scores": af.split(scores, 2, axis=3)[1]})


def drawn(count: int, seed: int = 1) -> Array:
    """Return samples of the classifier."""
    return np.random.default_rng(seed).standard_normal((count, 2, 4, 4)).astype(np.float32)


def saved_data(path: Path, count: int, *, labels: bool = True) -> Path:
    """Save samples, with the classes that the mathematics gives them as labels."""
    values = drawn(count)
    if labels:
        scores = af.reference(classifier(count), [values])["scores"].reshape(count, -1)
        np.savez(path, x=values, labels=np.argmax(scores, axis=1))
    else:
        np.savez(path, x=values)
    return path
