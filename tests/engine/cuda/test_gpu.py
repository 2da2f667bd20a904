"""On a GPU: what the emulation tests without one, and the runtime's backend. Skips with the reason elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import aneforge as af
from aneforge.engine.cuda.device import CudaDevice, obstacle
from fuzz_cuda import fuzz

REASON = obstacle()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.mark.parametrize("kind", ["operations", "products", "programs"])
def test_nothing_differs(kind: str) -> None:
    figures = fuzz(CudaDevice(), 77, [kind], 60.0, 60)
    assert figures.different == []


def test_the_backend_gives_the_bits_of_the_software_engine() -> None:
    generator = np.random.default_rng(0)
    graph = af.input((1, 16), name="x").linear(generator.standard_normal((8, 16)).astype(np.float16)).gelu()
    values = generator.standard_normal((5, 1, 16)).astype(np.float16)
    there, here = (af.compile(graph, target="h16", backend=name) for name in ("cuda", "software"))
    assert there.run_many(values).tobytes() == here.run_many(values).tobytes()
    assert there.last_label == here.last_label
