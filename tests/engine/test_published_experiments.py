"""The MIL programs of public experiments, compiled and run, beside the errors that were published of them.

The experiments state shapes, no inputs. The ones drawn here are the page's own, and the page says so; the tests keep
its numbers true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine import golden, reductions
from aneforge.engine.activations import ACTIVATIONS, LOG2_E
from aneforge.engine.exactness import Exactness
from aneforge.engine.execution.run import run
from aneforge.engine.rounding import to_fp16
from aneforge.targets import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.engine.execution.run import Run

Array = npt.NDArray[Any]
TARGET = "h16g"


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "concepts" / "checked.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(repository: Path) -> Path:
    return repository / "examples" / "mil"


def run_example(folder: Path, name: str, x: Array) -> Run:
    """Compile and run an example; the host does its casts between fp32 and fp16."""
    return run(build_program(af.from_mil(folder / name, port_casts=False), TARGET), {"x": x.astype(np.float32)})


def drawn(*shape: int, scale: float = 1.0) -> Array:
    return np.random.default_rng(0).uniform(-scale, scale, shape).astype(np.float32).astype(np.float64)


def output(found: Run) -> Array:
    (array,) = found.outputs.values()
    return array.astype(np.float64)


def line(name: str, published: str, answer: Array, reference: Array) -> str:
    """Return a line of the page: the largest difference, that over the largest value, and the ratio of norms."""
    largest = np.abs(answer - reference).max()
    over = largest / np.abs(reference).max()
    norms = np.linalg.norm(answer - reference) / np.linalg.norm(reference)
    return f"| {name} | {published} | {largest:.1e} | {over:.1e} | {norms:.1e} |"


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def norm(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def test_a_rectifier_is_exact(folder: Path) -> None:
    x = drawn(1, 1, 256, 64)
    found = run_example(folder, "relu", x)
    np.testing.assert_array_equal(output(found), np.maximum(x.astype(np.float16), 0))
    assert found.label.exactness is Exactness.EXACT


def test_attention(folder: Path, page: str) -> None:
    x = drawn(256, 64, scale=0.1)
    found = run_example(folder, "attention", x)
    assert line("attention", "2.1e-5, 1.40e-3", output(found), softmax(x @ x.T / 8) @ x) in page
    assert found.label.exactness is Exactness.MODELLED


def reciprocal_last(x: Array) -> Array:
    """Return attention of x with itself where powers meet the values and the reciprocal of their sum comes last."""
    rows = x.astype(np.float16)
    scores = to_fp16(golden.matmul(rows, rows.T) * 0.125)
    powers = ACTIVATIONS["exp2"](to_fp16((scores - scores.max(-1, keepdims=True)) * LOG2_E))
    reciprocals = ACTIVATIONS["inverse"](reductions.accumulate(powers, (1,), reductions.adder_of(resolve(TARGET))))
    return to_fp16(golden.matmul(powers.astype(np.float16), rows) * reciprocals)


def test_attention_with_the_reciprocal_last_is_nearer_to_what_was_published(page: str) -> None:
    x = drawn(256, 64, scale=0.1)
    reference = softmax(x @ x.T / 8) @ x
    largest = np.abs(reciprocal_last(x) - reference).max()
    over = largest / np.abs(reference).max()
    words = " ".join(page.split())
    assert f"the largest difference is {largest:.1e} for the same inputs, and {over:.1e} of the largest value" in words


def test_a_linear_layer(folder: Path, page: str) -> None:
    x = drawn(256, 64)
    found = run_example(folder, "linear", x)
    graph = af.from_mil(folder / "linear", port_casts=False)
    (reference,) = af.reference(graph, [x]).values()
    assert line("linear", "1.1e-3, 1.05e-2", output(found), reference) in page
    assert found.label.exactness is Exactness.MODELLED  # it has a bias, and was run on an M4


def test_gradients(folder: Path, page: str) -> None:
    x = drawn(192, 64)
    found = run_example(folder, "gradients", x)
    gradient, weight = x[:128], x[128:]
    assert line("dX", "1.9e-3, 1.02e-2", output(found)[:128], gradient @ weight) in page
    assert line("dW", "1.3e-2, 3.92e-2", output(found)[128:], gradient.T @ gradient) in page
    assert found.label.exactness is Exactness.EXACT


def test_a_layer_norm_and_a_softmax(folder: Path, page: str) -> None:
    x = drawn(1, 1, 256, 64)
    normed = output(run_example(folder, "layer_norm", x))
    assert abs(normed.mean()) < 5e-5
    variances = normed.var(-1)
    assert f"{variances.min():.4f} to {variances.max():.4f}, {variances.mean():.4f} on average" in page
    assert norm(x).var(-1).mean() == pytest.approx(0.99997, abs=5e-6)
    sums = output(run_example(folder, "softmax", x)).sum(-1)
    assert f"{sums.min():.4f} to {sums.max():.4f}" in page


def test_a_transformer_block(folder: Path, page: str) -> None:
    x = drawn(256, 64)
    found = run_example(folder, "transformer_block", x)
    (reference,) = af.reference(af.from_mil(folder / "transformer_block", port_casts=False), [x]).values()
    assert line("block", "—", output(found), reference) in page
    assert found.label.exactness is Exactness.MODELLED


@pytest.mark.parametrize("name", ["gelu_tanh", "scale_shift"])
def test_other_kernels_are_near_their_references(folder: Path, name: str) -> None:
    x = drawn(1, 1, 256, 64)
    (reference,) = af.reference(af.from_mil(folder / name, port_casts=False), [x]).values()
    np.testing.assert_allclose(output(run_example(folder, name, x)), reference, atol=7e-3)
