"""The label of a program, told before it runs, against the labels of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.exactness import labels_of_layers
from aneforge.runtime.executables import SoftwareEngine
from llama_block import llama_block

if TYPE_CHECKING:
    from collections.abc import Callable

WEIGHT = np.random.default_rng(6).standard_normal((4, 4, 3, 3)).astype(np.float16) / 8


GRAPHS: dict[str, Callable[[af.Tensor], af.Tensor]] = {
    "convolution": lambda x: af.conv(x, WEIGHT, pad=1, bias=np.ones(4)).relu(),
    "gain after a product": lambda x: af.conv(x, WEIGHT, pad=1) * 0.3 + 0.1,
    "gain and offset": lambda x: (x * 0.3 + 0.1).tanh(),
    "gain after a sum": lambda x: (x + x.relu()) * 0.3,
    "softmax": lambda x: x.softmax(-1),
    "erf": lambda x: x.erf(),
    "moved": lambda x: x.transpose(0, 2, 3, 1).reshape(8, 32),
    "nothing": lambda x: x,
    "pooled": lambda x: x.max_pool(2),
    "averaged": lambda x: x.avg_pool(2).mean(-1),
    "compared": lambda x: af.where(x.greater(x.relu()), x, x * 2.0),
}


@pytest.mark.parametrize("target", ["h13", "h15", "h16g", "h18g"])
@pytest.mark.parametrize("name", GRAPHS)
def test_moderate_values_add_no_doubt(name: str, target: str) -> None:
    program = af.build_program(GRAPHS[name](af.input((1, 4, 8, 8), name="x")), target)
    sample = np.random.default_rng(7).standard_normal((1, 4, 8, 8)) / 4
    found = af.run(program, {"x": sample})
    assert labels_of_layers(program) == found.labels
    assert SoftwareEngine(program).label == found.label


@pytest.mark.parametrize("value", [0.0, 1.0, 60000.0, np.inf])
def test_values_only_ever_add_doubt(value: float) -> None:
    program = af.build_program(llama_block(), "h16g")
    inputs = {port.name: np.full(port.value.type.shape, value) for port in program.inputs}
    found = af.run(program, inputs)
    before = labels_of_layers(program)
    assert before.keys() == found.labels.keys()
    for name, label in found.labels.items():
        assert before[name].exactness.doubt <= label.exactness.doubt
