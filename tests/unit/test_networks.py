"""The example networks: real shapes, independent answers, and the verdicts that their chips give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from onnx.reference import ReferenceEvaluator

import aneforge as af
from aneforge.graph.reference import evaluate
from aneforge.targets import group
from llama_block import llama_block
from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from transformer import encoder, vision_transformer
from unet import unet
from weights import Weights
from write_onnx import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
NETWORKS: dict[str, Callable[[], af.Graph]] = {
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "vision_transformer": vision_transformer,
    "encoder": encoder,
    "llama_block": llama_block,
    "unet": unet,
}


def trained_numbers(graph: af.Graph) -> int:
    """Count the weights as the literature does: all but the running statistics of batch norms."""
    counted = 0
    for node in graph.nodes:
        for name, argument in node.operands.items():
            if not isinstance(argument, tuple | af.Tensor) and name not in ("mean", "variance"):
                counted += argument.type.size
    return counted


def test_sizes_are_those_of_the_literature() -> None:
    assert trained_numbers(resnet18()) == 11_689_512
    assert resnet18().work().macs == 1_814_073_344
    assert trained_numbers(mobilenet_v2()) == 3_504_872
    assert mobilenet_v2().work().macs == 300_774_272


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_runs_on_every_family(name: str) -> None:
    verdicts = af.preflight_all(NETWORKS[name]())
    for target in group("families"):
        verdict = verdicts[target.name]
        assert verdict.ok, [str(finding) for finding in verdict.findings]


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_seeded(name: str) -> None:
    first, again = NETWORKS[name](), NETWORKS[name]()
    assert [one.digest for one in first.constants.values()] == [one.digest for one in again.constants.values()]


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(resnet18(size=32, classes=10), id="resnet18"),
        pytest.param(encoder(length=10, width=24, layers=2, heads=3), id="encoder"),
    ],
)
def test_the_onnx_file_means_the_same(graph: af.Graph) -> None:
    generator = np.random.default_rng(0)
    inputs = {name: generator.standard_normal(node.types[0].shape) for name, node in graph.inputs.items()}
    expected = af.reference(graph, inputs)
    session = ReferenceEvaluator(Writer(graph).model())
    run = cast("Callable[[None, dict[str, Array]], list[Array]]", getattr(session, "run"))  # noqa: B009 - typed as unknown
    (answer,) = run(None, {name: value.astype(np.float32) for name, value in inputs.items()})
    (mine,) = expected.values()
    np.testing.assert_allclose(answer, mine, rtol=2e-3, atol=2e-4)


def rms(values: Array) -> Array:
    norm = np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), np.sqrt(values.shape[-1] * 1e-5))
    return values * np.sqrt(values.shape[-1]) / norm


def turned(values: Array, cosine: Array, sine: Array) -> Array:
    first, second = np.split(values, 2, -1)
    return values * cosine + np.concatenate([-second, first], -1) * sine


def test_the_cache_of_the_llama_block_equals_recomputation() -> None:
    width, heads, places, tokens = 32, 2, 8, 5
    graph = llama_block(width=width, heads=heads, places=places)
    depth, hidden = width // heads, 8 * width // 3
    drawn = Weights(0)  # in the order in which the block draws them
    squares = [drawn.linear(width, width).astype(np.float64) for _ in range(4)]
    gate, up = (drawn.linear(hidden, width).astype(np.float64) for _ in range(2))
    down = drawn.linear(width, hidden).astype(np.float64)
    generator = np.random.default_rng(1)
    sequence = generator.standard_normal((tokens, width))
    angles = np.arange(places)[:, None] * 10_000.0 ** (-np.arange(depth // 2) / (depth // 2))[None]
    cosines, sines = (np.concatenate([part(angles)] * 2, -1) for part in (np.cos, np.sin))

    states: dict[str, Array] = {}
    answers: list[Array] = []
    for place, token in enumerate(sequence):
        feed = {
            "token": token[None],
            "position": np.eye(places)[place].reshape(1, 1, places, 1),
            "mask": np.where(np.arange(places) <= place, 0.0, -1e4).reshape(1, 1, 1, places),
            "cosine": cosines[place].reshape(1, 1, 1, depth),
            "sine": sines[place].reshape(1, 1, 1, depth),
        }
        outputs, states = evaluate(graph, feed, states)
        answers.append(outputs["token"][0])

    attended = causal_attention(sequence, squares, cosines[:tokens], sines[:tokens], heads)
    expected = attended + (silu(rms(attended) @ gate.T) * (rms(attended) @ up.T)) @ down.T
    np.testing.assert_allclose(np.array(answers), expected, rtol=1e-9, atol=1e-9)


def silu(values: Array) -> Array:
    return values / (1 + np.exp(-values))


def causal_attention(x: Array, matrices: list[Array], cosines: Array, sines: Array, heads: int) -> Array:
    """Return attention of a whole sequence; the matrices are those of query, key, value and result."""
    q, k, v = (rms(x) @ matrix.T for matrix in matrices[:3])
    length, width = x.shape
    depth = width // heads
    result = np.zeros_like(x)
    for head in range(heads):
        part = slice(head * depth, (head + 1) * depth)
        scores = turned(q[:, part], cosines, sines) @ turned(k[:, part], cosines, sines).T / np.sqrt(depth)
        scores += np.where(np.tri(length, dtype=bool), 0.0, -1e4)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        result[:, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
    return x + result @ matrices[3].T
