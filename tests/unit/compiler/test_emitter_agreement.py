"""What compiler and emitter both decide, they decide alike: lanes of cores, banks, sizes of memories."""

from __future__ import annotations

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.memory.chip import on_chip
from aneforge.compiler.memory.layout import Banks
from aneforge.compiler.schedule.rules import rules
from aneforge.formats.hwx.emission.coefficients import kernel_plans
from aneforge.runtime.hwx.layer_steps import describe_convolution
from aneforge.targets import resolve, work_units


@pytest.mark.parametrize(
    ("outputs", "side"), [(10, 4), (24, 8), (48, 16), (64, 8), (100, 8), (512, 8), (512, 16), (768, 16), (1024, 4)]
)
def test_lanes_and_tiles(outputs: int, side: int) -> None:
    weights = np.ones((outputs, 16, 1, 1), np.float16)
    (layer,) = compile_graph(af.conv(af.input((1, 16, side, side)), weights), "m1").program.layers
    (plan,) = kernel_plans(describe_convolution(layer))
    chosen = np.repeat(np.asarray(layer.choices["lanes"]), np.asarray(layer.choices["tiles"]))
    assert [tile.lanes for tile in plan.tiles] == chosen.tolist()


def test_memories() -> None:
    memory = on_chip(resolve("h13"), rules())
    assert memory.banks == Banks(work_units.BANKS, work_units.BANK_BYTES)
    assert memory.size == work_units.ON_CHIP
