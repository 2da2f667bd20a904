"""Networks that coremltools converted: read here, they mean what PyTorch gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aneforge as af
from aneforge.formats.mlpackage.mlpackage_model import from_mlpackage
from aneforge.graph.reference import evaluate
from aneforge.ops.composed import Composed
from aneforge.ops.constant import Blockwise, Int8Affine, Sparse

pytest.importorskip("coremltools", reason="coremltools, which converts the networks, is not installed")
TESTS = Path(__file__).parent.parent.parent
NETWORKS = ("resnet", "mobilenet", "transformer", "unet", "separable", "decoder", "recurrent")
ENCODINGS = {
    "int8": (Int8Affine, Blockwise),
    "int4_blocks": (Blockwise,),
    "sparse": (Sparse,),
    "joint": (Composed,),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convert the networks, in a process of its own."""
    folder = tmp_path_factory.mktemp("packages")
    script = Path(__file__).with_name("converted.py")
    command = [sys.executable, "-W", "ignore", str(script), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return folder


def compared(graph: af.Graph, numbers: Path, tolerance: float) -> None:
    """Check that a graph gives the outputs that are stored, for the inputs that are stored."""
    stored = np.load(numbers)
    inputs = [stored[name] for name in sorted(stored) if name.startswith("input")]
    results = af.reference(graph, inputs)
    wanted = [stored[name] for name in sorted(stored) if name.startswith("output")]
    for found, expected in zip(results.values(), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_converted_network_means_the_same(name: str, packages: Path) -> None:
    compared(from_mlpackage(packages / f"{name}.mlpackage"), packages / f"{name}.npz", 3e-4)


def test_half_precision_is_near(packages: Path) -> None:
    compared(from_mlpackage(packages / "half.mlpackage"), packages / "separable.npz", 2e-2)


@pytest.mark.parametrize("name", ENCODINGS)
def test_compressed_weights_are_kept_and_mean_what_coremltools_makes_of_them(name: str, packages: Path) -> None:
    graph = from_mlpackage(packages / f"{name}.mlpackage")
    kinds = [type(constant) for constant in graph.constants.values()]
    assert sum(kind in ENCODINGS[name] for kind in kinds) >= 1
    whole = from_mlpackage(packages / f"{name}_whole.mlpackage")
    stored = np.load(packages / "separable.npz")
    found, wanted = (af.reference(one, [stored["input0"]]) for one in (graph, whole))
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=5e-3, atol=5e-3)


def test_a_state_is_kept_from_run_to_run(packages: Path) -> None:
    graph = from_mlpackage(packages / "state.mlpackage")
    states = {"total": np.zeros((1, 4))}
    for turn in range(1, 4):
        results, states = evaluate(graph, [np.ones((1, 4))], states)
        assert next(iter(results.values())).tolist() == [[2.0 * turn] * 4]


@pytest.mark.parametrize("name", ["separable", "decoder", "recurrent", *ENCODINGS, "half"])
def test_what_was_read_can_be_written_and_read_again(name: str, packages: Path, tmp_path: Path) -> None:
    graph = from_mlpackage(packages / f"{name}.mlpackage")
    again = from_mlpackage(af.save_mlpackage(graph, tmp_path / "again.mlpackage"))
    numbers = packages / f"{'separable' if name in ('half', *ENCODINGS) else name}.npz"
    stored = np.load(numbers)
    found, wanted = (af.reference(one, [stored["input0"]]) for one in (again, graph))
    for value, expected in zip(found.values(), wanted.values(), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
