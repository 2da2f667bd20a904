"""The pipeline: printed, cut and dumped; the same graph and target give the same bytes, always."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.passes.base import Phase
from aneforge.compiler.passes.matmul_to_convolution import MatmulToConvolution
from aneforge.compiler.pipeline import PIPELINE
from aneforge.errors import UnknownNameError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from program_tools import kinds_of, lowered

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.compiler.pipeline import Step
    from golden_text import Golden


def graph() -> af.Graph:
    x = af.input((1, 3, 8, 8), name="x")
    weight = Dense((np.arange(4 * 3 * 9) % 7 / 8).astype(np.float16).reshape(4, 3, 3, 3))
    y = af.conv(x, weight, bias=Dense(np.ones(4, np.float16)), pad=1).relu()
    weight = Dense(np.ones((2, 256), np.float16))
    return af.Graph({"y": Tensor(build("linear", {"x": y.reshape(1, 256), "weight": weight}))})


def test_the_pipeline_is_a_list_that_can_be_read(golden: Golden) -> None:
    golden(f"{PIPELINE}\n")


def test_phases_are_in_order() -> None:
    phases = [one.phase for one in PIPELINE.passes]
    assert phases == sorted(phases, key=list(Phase).index)
    assert set(phases) == set(Phase)


def test_names_are_distinct_and_documented() -> None:
    kinds = [type(one) for one in PIPELINE.passes]
    assert len({one.name for one in PIPELINE.passes}) == len(kinds)
    for kind in kinds:
        assert kind.__doc__ is not None
        assert "Before:" in kind.__doc__, kind
        assert "After:" in kind.__doc__, kind


def test_cutting() -> None:
    half = PIPELINE.until("matmul-to-convolution")
    assert half.passes[-1].name == "matmul-to-convolution"
    assert "fuse-epilogue" in str(PIPELINE)
    assert "fuse-epilogue" not in str(PIPELINE.without("fuse-epilogue"))
    other = PIPELINE.exchanging("matmul-to-convolution", MatmulToConvolution(threshold=1))
    assert "matmul-to-convolution(threshold = 1)" in str(other)
    assert "linear" in kinds_of(other.run(lowered(graph())))


def test_an_unknown_pass_gets_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="fuse-epilogue"):
        PIPELINE.until("fuse-epilog")


def test_every_step_can_be_watched() -> None:
    steps: list[Step] = []
    result = PIPELINE.run(lowered(graph()), steps.append)
    assert [step.name for step in steps] == [one.name for one in PIPELINE.passes]
    assert steps[-1].program is result
    assert any(not step.modified for step in steps)


def test_dumps_are_programs(tmp_path: Path) -> None:
    folder = tmp_path / "phases"
    program = lowered(graph())
    result = PIPELINE.dump(program, folder)
    files = sorted(folder.iterdir())
    assert files[0].name == "00-lower.anec"
    assert all(file.suffix == ".anec" for file in files)
    assert files[0].read_text() == str(program)
    assert files[-1].read_text() == str(result)
    assert str(parse_program(files[-1].read_text(), result.constants)) == str(result)


SCRIPT = """
import numpy as np
import aneforge as af
from aneforge.compiler.compile import build_program
from transformer import encoder
import hashlib
texts = [str(build_program(encoder(layers=1, width=48, heads=4, length=8), target)) for target in ("h13", "h18g")]
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""


def test_same_graph_and_target_same_bytes(repository: Path, clean_environment: dict[str, str]) -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=clean_environment | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(repository / "examples" / "networks")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(hashes) == 1
    again = {str(build_program(graph(), "h16g")) for _ in range(3)}
    assert len(again) == 1


def test_retargeting_leaves_notes() -> None:
    x = af.input((1, 8), name="x")
    notes = [note for note in build_program(x.sin(), "h13").notes if note.stage == "retarget"]
    assert len(notes) == 1
    assert notes[0].text.startswith("sin at ")
    assert "largest error" in notes[0].text
