"""`compile --emit hwx` and `--emit ane`: files, and what is said of layers that are not emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.compiling import compile_model
from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.hwx.layer_notes import layers_noted
from aneforge.formats.hwx.read_hwx import read
from aneforge.report.written import report_from_json, report_to_json

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
    assert (made.path, made.beside) == (str(tmp_path / "net.0.hwx"), (str(tmp_path / "net.1.hwx"),))
    assert made.notes[0] == "net.0.hwx: 1 layer, reads x, writes t2"
    assert made.notes[2].startswith("not emitted: ")
    assert "(max_pool): ANE-EMIT-001: no program of this operation is known" in made.notes[2]


def test_none_of_several_files_replaces_what_another_tool_made(tmp_path: Path) -> None:
    cut = convolution().max_pool(2).tanh().relu().tanh()
    compile_model(cut, "m1", "hwx", tmp_path / "net.hwx")
    compile_model(cut, "m1", "hwx", tmp_path / "net.hwx")
    (tmp_path / "net.1.hwx").write_bytes(b"another tool's")
    with pytest.raises(
        GraphError, match=r"net\.1\.hwx: the file exists and does not look like a file that aneforge made"
    ):
        compile_model(cut, "m1", "hwx", tmp_path / "net.hwx")
    assert compile_model(cut, "m1", "hwx", tmp_path / "net.hwx", force=True).beside
    assert (tmp_path / "net.1.hwx").read_bytes() != b"another tool's"


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
    with pytest.raises(NotSupportedError, match="the Linux driver runs only the engines h13, h13g, t1"):
        compile_model(convolution(), "m2", "ane", tmp_path / "other.ane")
    assert not (tmp_path / "other.ane").exists()


def test_layers_stand_beside_their_tasks(tmp_path: Path) -> None:
    x = af.input((1, 16, 8, 8), name="x").tanh()
    graph = x.max_pool(2).softmax(-1)
    made = compile_model(graph, "m1", "hwx", tmp_path / "net.hwx")
    assert [(one.file, one.kind, one.tasks) for one in made.tasks] == [
        ("net.0.hwx", "tanh", "0"),
        ("net.1.hwx", "softmax", "0 to 5"),
    ]
    assert made.tasks[1].operations.startswith("softmax")
    noted = layers_noted(read(tmp_path / "net.1.hwx").identification)
    assert {task: layer.name for task, layer in noted.items()} == dict(af.hwx.emit(graph, "m1").files[1].layers)


def test_a_report_has_tasks_of_every_generation_of_which_programs_are_known() -> None:
    x = af.input((1, 16, 1, 8), name="x")
    chips = ["m1", "m2", "m3", "m4", "m5", "a19"]
    for graph, unit in ((x.relu(), "NE"), (x * 0.3, "PE")):
        report = check(graph, chips, CheckOptions(tasks=True))
        found = [one.emission for one in report.targets]
        assert [[task.engine for task in one.tasks] if one else one for one in found] == [[unit]] * len(chips)
        assert all(one and ", tile of 1 row" in one.tasks[0].registers for one in found)


def test_a_report_has_tasks_where_they_are_asked_for() -> None:
    graph = af.input((1, 16, 8, 8), name="x").tanh().max_pool(2).reshape((1, 256))
    plain, asked = (check(graph, ["m1", "m4", "m6"], CheckOptions(tasks=tasks)) for tasks in (False, True))
    assert [one.emission for one in plain.targets] == [None, None, None]
    first, later, latest = (one.emission for one in asked.targets)
    assert first is not None
    assert later is not None
    assert latest is not None
    assert [(one.engine, one.nodes) for one in first.tasks] == [("NE", (1,)), ("NE", (3,)), ("NE", (3,))]
    assert "work unit" in first.tasks[0].registers
    assert (first.refused[0].kind, first.refused[0].rule) == ("max_pool", "ANE-EMIT-001")
    assert {one.rule for one in later.refused} == {"ANE-EMIT-010"}
    assert "ANE-EMIT-010" in (latest.failure or "")
    assert report_from_json(report_to_json(asked)) == asked
