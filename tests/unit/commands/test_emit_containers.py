"""`compile --emit hwx` and `--emit ane`: files, and what is said of layers that are not emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.commands.compiling import compile_model
from aneforge.errors import NotSupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.graph.tensor import Tensor


def convolution() -> Tensor:
    weights = np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype(np.float16)
    return af.conv(af.input((1, 8, 6, 6), name="x"), weights, pad=1).relu()


def test_a_whole_program_is_one_file(tmp_path: Path) -> None:
    made = compile_model(convolution(), "m1", "hwx", tmp_path / "net.hwx")
    assert made.path is not None
    assert made.path == str(tmp_path / "net.hwx")
    assert made.notes == ()
    (output,) = af.hwx.execute(made.path, {"x": np.ones((1, 8, 6, 6), np.float16)}).outputs.values()
    assert output.shape == (1, 16, 6, 6)


def test_what_is_not_emitted_is_named(tmp_path: Path) -> None:
    made = compile_model(convolution().max_pool(2).tanh().relu().tanh(), "m1", "hwx", tmp_path / "net.hwx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.0.hwx", "net.1.hwx"]
    assert made.path == str(tmp_path / "net.0.hwx")
    assert made.notes[0] == "net.0.hwx: 1 layers, reads x, writes t2"
    assert made.notes[2].startswith("not emitted: ")
    assert "(max_pool): ANE-EMIT-001: no program of this operation is known" in made.notes[2]


def test_a_program_without_an_emitted_layer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match=r"no layer is emitted: not emitted: t1 .max_pool.: ANE-EMIT-001"):
        compile_model(af.input((1, 8, 6, 6)).max_pool(2), "m1", "hwx", tmp_path / "net.hwx")


def test_the_file_of_the_linux_driver(tmp_path: Path) -> None:
    made = compile_model(convolution(), "m1", "ane", tmp_path / "net.ane")
    assert made.path is not None
    file = af.hwx.read_ane(made.path)
    assert file.task_count == 1
    with pytest.raises(NotSupportedError, match=r"a file of the Linux driver must be a whole program: t3 .max_pool."):
        compile_model(convolution().max_pool(2), "m1", "ane", tmp_path / "other.ane")
