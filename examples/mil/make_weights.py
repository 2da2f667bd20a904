"""Writes the weights of the MIL examples, always the same: the blobs into which their references point.

python examples/mil/make_weights.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aneforge.formats.mil.blob import BlobWriter

FOLDER = Path(__file__).parent
WIDTH, HIDDEN = 64, 128
Array = npt.NDArray[Any]


def drawn(generator: np.random.Generator, *shape: int, scale: float) -> Array:
    """Return numbers around 0 in half precision."""
    return (generator.standard_normal(shape) * scale).astype(np.float16)


def linear_weights() -> list[Array]:
    """Return the matrix and the bias of the linear layer."""
    generator = np.random.default_rng(2)
    return [drawn(generator, WIDTH, WIDTH, scale=WIDTH**-0.5), drawn(generator, WIDTH, scale=0.1)]


def block_weights() -> list[Array]:
    """Return gamma and beta of both normalisations, then matrix and bias of both linear layers of the block."""
    generator = np.random.default_rng(3)
    norms = [drawn(generator, WIDTH, scale=0.1) + np.float16(offset) for offset in (1, 0, 1, 0)]
    up = [drawn(generator, HIDDEN, WIDTH, scale=WIDTH**-0.5), drawn(generator, HIDDEN, scale=0.1)]
    down = [drawn(generator, WIDTH, HIDDEN, scale=HIDDEN**-0.5), drawn(generator, WIDTH, scale=0.1)]
    return [*norms, *up, *down]


def blob(weights: list[Array]) -> bytes:
    """Return arrays as a weights blob."""
    writer = BlobWriter()
    for array in weights:
        writer.add(array, "fp16")
    return writer.tobytes()


EXAMPLES = {"linear": linear_weights, "transformer_block": block_weights}
"""The examples that have weights, and where their numbers come from."""


def main() -> None:
    """Write every weights file."""
    for name, weights in EXAMPLES.items():
        (FOLDER / name / "weights.bin").write_bytes(blob(weights()))


if __name__ == "__main__":
    main()
