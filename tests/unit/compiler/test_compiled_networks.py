"""The example networks, compiled: layers, epilogues, splits, routes and segments under golden test; their meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.compiler.compile import build_program
from aneforge.compiler.ir.evaluate import evaluate_program
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.printing import program_outline
from aneforge.graph.reference import evaluate
from llama_block import llama_block
from mobilenet_v2 import mobilenet_v2
from program_tools import expect_close
from resnet18 import resnet18
from transformer import encoder, vision_transformer
from unet import unet

if TYPE_CHECKING:
    from collections.abc import Callable

    import aneforge as af
    from golden_text import Golden

FULL: dict[str, Callable[[], af.Graph]] = {
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "encoder": lambda: encoder(layers=2),
    "vision_transformer": lambda: vision_transformer(layers=1),
    "llama_block": llama_block,
    "unet": unet,
}
SMALL: dict[str, Callable[[], af.Graph]] = {
    "resnet18": lambda: resnet18(size=32, classes=10),
    "mobilenet_v2": lambda: mobilenet_v2(size=32, classes=10),
    "encoder": lambda: encoder(layers=1, width=48, heads=4, length=16),
    "vision_transformer": lambda: vision_transformer(layers=1, size=32, patch=16),
    "llama_block": lambda: llama_block(width=64, heads=2, places=8),
    "unet": lambda: unet(size=16, channels=(8, 16)),
}
TARGETS = ("h13", "h14", "h15", "h16g", "h17", "h18g")
CONSTANTS_ROUNDED = 2e-3
"""Constants that a lowering computes are of the tensor's own element type (rms_norm's gamma times a root)."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FULL)
def test_structure(name: str, target: str, golden: Golden) -> None:
    golden(program_outline(build_program(FULL[name](), target)))


@pytest.mark.parametrize("name", SMALL)
def test_meaning(name: str) -> None:
    graph = SMALL[name]()
    generator = np.random.default_rng(0)
    inputs = {port: generator.normal(size=node.types[0].shape) for port, node in graph.inputs.items()}
    states = {port: generator.normal(size=node.types[0].shape) for port, node in graph.state_placeholders.items()}
    wanted, kept = evaluate(graph, inputs, states)
    for target in TARGETS:
        program = build_program(graph, target)
        outputs, finals = evaluate_program(program, inputs, states)
        tolerance = CONSTANTS_ROUNDED if name == "llama_block" else 1e-11
        for port, array in (wanted | kept).items():
            expect_close(array, (outputs | finals)[port], tolerance)
        assert str(parse_program(str(program), program.constants)) == str(program)
