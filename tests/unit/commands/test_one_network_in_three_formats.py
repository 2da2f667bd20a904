"""The same recurrent network has the same verdict and numbers from ONNX, from torch.export and from an ML package."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.running import run_model
from aneforge.report.gate import outcome

if TYPE_CHECKING:
    from pathlib import Path

CHIPS = ["m1", "m3", "m4"]


class Recurrent(torch.nn.Module):
    """An LSTM and a layer on all of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = torch.nn.LSTM(16, 32, batch_first=True)
        self.last = torch.nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's numbers for every step."""
        return self.last(self.cells(x)[0])


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType] - torch types it as unknown
    module, x = Recurrent().eval(), torch.zeros(1, 4, 16)
    paths = [tmp_path / name for name in ("net.onnx", "net.pt2", "net.mlpackage")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its tracer and of its exporters
        torch.onnx.export(module, (x,), str(paths[0]), dynamo=False, input_names=["x"], output_names=["y"])  # pyright: ignore[reportUnknownMemberType] - torch types it as unknown
        torch.export.save(torch.export.export(module, (x,)), paths[1])
    af.save_mlpackage(af.to_fp16(af.from_onnx(paths[0])).graph, paths[2])
    return paths


def test_an_lstm_has_one_verdict(files: list[Path]) -> None:
    reports = [check(path, CHIPS, CheckOptions(path="direct")) for path in files]
    assert [outcome(report).ok for report in reports] == [True] * 3
    assert [[one.runs for one in report.targets] for report in reports] == [["yes"] * 3] * 3
    assert [[one.counts.reject for one in report.targets] for report in reports] == [[0] * 3] * 3
    x = np.random.default_rng(0).standard_normal((1, 4, 16)).astype(np.float16)
    found = [next(iter(run_model(path, "m4", {"x": x})[0].outputs.values())) for path in files]
    for one in found[1:]:
        np.testing.assert_allclose(one.astype(np.float64), found[0].astype(np.float64), atol=2e-3)
