"""Every operation, drawn, and every example network, through every writer: the bits of what was read back are the same.

The whole draw (`make test-external`) has its table in tests/external/written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.ops.table import ops
from llama_block import llama_block
from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from transformer import encoder, vision_transformer
from unet import unet
from written_tools import FAMILIES, WRITERS, Drawn, Outcome, draw_call, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DRAWS = 3
NETWORKS: dict[str, Callable[[], af.Graph]] = {
    "encoder": encoder,
    "llama_block": llama_block,
    "mobilenet_v2": mobilenet_v2,
    "resnet18": resnet18,
    "unet": unet,
    "vision_transformer": vision_transformer,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format_name", WRITERS)
@pytest.mark.parametrize("name", sorted(set(ops()) - {"input", "state"}))
def test_an_operation_that_was_written_and_read_has_its_bits(name: str, format_name: str, tmp_path: Path) -> None:
    for seed in range(DRAWS):
        drawn = draw_call(ops()[name], seed)
        if not drawn.graph.inputs:
            continue
        target = FAMILIES[(seed * 5 + len(name)) % len(FAMILIES)]
        found = outcome_of(drawn, WRITERS[format_name], target, tmp_path / str(seed))
        assert found not in (Outcome.DIFFERENT, Outcome.NOT_AGAIN), (found, seed, target, str(drawn.graph))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format_name", WRITERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_was_written_and_read_has_its_bits(name: str, format_name: str, tmp_path: Path) -> None:
    graph = NETWORKS[name]()
    generator = np.random.default_rng(7)
    inputs = {port: generator.standard_normal(node.types[0].shape) for port, node in graph.inputs.items()}
    target = FAMILIES[len(name) % len(FAMILIES)]
    found = outcome_of(Drawn(graph, inputs), WRITERS[format_name], target, tmp_path)
    assert found in (Outcome.SAME, Outcome.NOT_WRITTEN), found
    assert found is Outcome.SAME or format_name == "network description"


def test_group_norm_of_large_numbers_is_as_near_in_mil_as_in_the_model(tmp_path: Path) -> None:
    """Sums of 16,384 numbers around 4 overflow in fp16; means of them do not."""
    generator = np.random.default_rng(3)
    gamma, beta = generator.standard_normal((2, 32)).astype(np.float16)
    values = generator.normal(4, 8, (1, 32, 64, 64)).astype(np.float16)
    y = af.input((1, 32, 64, 64), name="x").group_norm(gamma, beta, num_groups=8)
    model = af.compile(y, target="m1", build_dir=tmp_path)
    again = af.compile(af.load_model(tmp_path / "model.mil"), target="m1")
    expected = af.reference(y, {"x": values.astype(np.float64)})["y"]
    assert np.abs(model(values) - expected).max() < 0.02
    found = again(values)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(model(values), found)
