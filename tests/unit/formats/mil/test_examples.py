"""The programs of `examples/mil`: they parse, they pass the check, and they give what independent formulas give."""

from __future__ import annotations

import math
import re
import runpy
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.formats.mil.blob import BlobFile
from aneforge.formats.mil.program import load_mil, parse_mil
from aneforge.formats.mil.text import mil_text
from aneforge.rules import Severity
from aneforge.rules.preflight import preflight
from aneforge.targets import group, resolve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Array = npt.NDArray[Any]
NAMES = (
    "attention",
    "gelu_tanh",
    "gradients",
    "layer_norm",
    "linear",
    "relu",
    "scale_shift",
    "softmax",
    "transformer_block",
)


@pytest.fixture
def folder(repository: Path) -> Path:
    return repository / "examples" / "mil"


def weights_of(folder: Path) -> list[Array]:
    blob = BlobFile.open(folder / "weights.bin")
    return [blob.array(entry.offset, "fp16", (entry.count,)).astype(np.float64) for entry in blob.entries()]


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def norm(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x: Array) -> Array:
    return softmax(x @ x.T / math.sqrt(x.shape[-1])) @ x


def linear(x: Array, folder: Path) -> Array:
    matrix, bias = weights_of(folder / "linear")
    return x @ matrix.reshape(64, 64).T + bias


def block(x: Array, folder: Path) -> Array:
    gamma1, beta1, gamma2, beta2, up, up_bias, down, down_bias = weights_of(folder / "transformer_block")
    attended = x + attention(norm(x) * gamma1 + beta1)
    hidden = gelu((norm(attended) * gamma2 + beta2) @ up.reshape(128, 64).T + up_bias)
    return attended + hidden @ down.reshape(64, 128).T + down_bias


def gradients(x: Array) -> Array:
    dy, weight = x[:128], x[128:]
    return np.concatenate([dy @ weight, dy.T @ dy])


PLAIN: dict[str, Callable[[Array], Array]] = {
    "attention": attention,
    "gelu_tanh": gelu,
    "gradients": gradients,
    "layer_norm": norm,
    "relu": lambda x: np.where(x > 0, x, 0),
    "scale_shift": lambda x: x * 2 + 1,
    "softmax": softmax,
}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_gives_what_a_formula_gives(name: str, folder: Path) -> None:
    graph = load_mil(folder / name).graph()
    x = np.random.default_rng(7).standard_normal(graph.inputs["x"].types[0].shape)
    weighted = {"linear": linear, "transformer_block": block}
    expected = PLAIN[name](x) if name in PLAIN else weighted[name](x, folder)
    np.testing.assert_allclose(af.reference(graph, {"x": x})["cast_out"], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes_the_check_once_the_host_casts(name: str, folder: Path) -> None:
    read = load_mil(folder / name)
    verdicts = af.preflight_all(read.graph(port_casts=False))
    for target in group("families"):
        assert verdicts[target.name].ok, verdicts[target.name].findings
    written = preflight(read.graph(), resolve(af.targets.Family.A16))
    objecting = {finding.rule for finding in written.findings if finding.severity is not Severity.INFO}
    assert objecting == {"ANE-DTYPE-001", "ANE-DTYPE-002", "ANE-DTYPE-003"}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_as_it_is_written(name: str, folder: Path) -> None:
    text = (folder / name / "model.mil").read_text()
    assert str(parse_mil(text)) == text


@pytest.mark.parametrize("name", NAMES)
def test_an_example_survives_its_graph(name: str, folder: Path) -> None:
    graph = load_mil(folder / name).graph()
    made = mil_text(graph)
    again = parse_mil(made.text, made.weights.tobytes()).graph()
    assert without_places(again) == without_places(graph)


def without_places(graph: af.Graph) -> str:
    return re.sub(r" at .*", "", str(graph))


def test_the_shapes_are_those_of_the_experiments(folder: Path) -> None:
    """X1 on 16,384 numbers; Y1 to Y3 on 256 tokens of 64; Z1 on a gradient of 128 rows and a matrix of 64."""
    shapes = {name: load_mil(folder / name).graph().inputs["x"].types[0].shape for name in NAMES}
    assert {
        name: math.prod(shapes[name]) for name in ("relu", "gelu_tanh", "scale_shift", "softmax", "layer_norm")
    } == (dict.fromkeys(("relu", "gelu_tanh", "scale_shift", "softmax", "layer_norm"), 16_384))
    assert {shapes[name] for name in ("attention", "linear", "transformer_block")} == {(256, 64)}
    assert shapes["gradients"] == (128 + 64, 64)
    matmuls = [node for node in load_mil(folder / "gradients").graph().nodes if node.op.name == "matmul"]
    assert [node.attributes["transpose_x"] for node in matmuls] == [False, True]


def test_every_folder_is_an_example(folder: Path) -> None:
    assert tuple(sorted(path.parent.name for path in folder.glob("*/model.mil"))) == NAMES


def test_the_weights_are_those_that_the_script_writes(folder: Path) -> None:
    script = runpy.run_path(str(folder / "make_weights.py"))
    examples = cast("dict[str, Callable[[], list[Array]]]", script["EXAMPLES"])
    blob = cast("Callable[[list[Array]], bytes]", script["blob"])
    assert sorted(examples) == sorted(path.parent.name for path in folder.glob("*/weights.bin"))
    for name, weights in examples.items():
        assert (folder / name / "weights.bin").read_bytes() == blob(weights())
