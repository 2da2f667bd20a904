"""`aneforge hwx run`: a file's own tasks, with inputs and outputs as files of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

from aneforge import hwx
from aneforge.cli import main
from hwx_programs import SHAPE, container_of
from hwx_tasks import copy_task, linked

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("axes", [slice(None), 0])
def test_outputs_are_written_and_labelled(tmp_path: Path, axes: slice | int) -> None:
    file, inputs, outputs = (tmp_path / name for name in ("copy.hwx", "x.npz", "y.npz"))
    hwx.write(container_of(linked(copy_task()), {"x": SHAPE, "y": SHAPE}), file)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float16)
    np.savez(inputs, x=x[axes])  # without the batch, an axis of one element, too
    done = CliRunner().invoke(main.whole_app(), ["hwx", "run", str(file), "--inputs", str(inputs), "-o", str(outputs)])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:2] == ["h13, 1 task: exact", "  why exact: nothing is computed"]
    assert np.array_equal(np.load(outputs)["y"], x)


def test_an_error_names_the_file_and_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.hwx"
    task = copy_task().with_fields({"common.groups": 0})
    hwx.write(container_of(linked(task), {"x": SHAPE, "y": SHAPE}), file)
    monkeypatch.setattr("sys.argv", ["aneforge", "hwx", "run", str(file), "--seed", "0"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    shown = "".join(capsys.readouterr().err.split())
    assert "wrong.hwx" in shown
    assert "task0:common.groups:ataskmusthaveagroup" in shown
