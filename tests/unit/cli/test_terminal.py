"""What a terminal shows: its width is respected by every command, and colours go when they are not wanted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from aneforge.cli import main
from aneforge.cli.command_table import COMMANDS
from report_models import saved

LONG = "encoder/layers.0/self_attention/output_projection/" * 3
FOLDER = "a_folder_whose_name_is_as_long_as_those_of_checkpoints_tend_to_be"
IMPATIENT = "from aneforge.cli import entry, waiting; waiting.PATIENCE = 0; entry.main()"
COLOUR = re.compile(r"\x1b\[(?:3|4|9|10)[0-9;]+m")


def long_names(path: Path, length: int) -> str:
    """Write a model whose names fit no terminal, and return its path."""
    x = helper.make_tensor_value_info("input_" * 15, TensorProto.FLOAT, [1, 8, 1, length])
    y = helper.make_tensor_value_info("output_" * 15, TensorProto.FLOAT, None)
    weights = np.random.default_rng(0).standard_normal((16, 8, 1, 3)).astype(np.float32)
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([-1e9], np.float32), "m")]
    nodes = [
        helper.make_node("Conv", [x.name, "w"], ["a"], name=f"{LONG}conv"),
        helper.make_node("Add", ["a", "m"], ["b"], name=f"{LONG}mask"),
        helper.make_node("Softmax", ["b"], [y.name], name=f"{LONG}softmax", axis=3),
    ]
    graph = helper.make_graph(nodes, "long", [x], [y], constants)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    return str(path)


@pytest.mark.parametrize("width", [80, 40])
def test_no_line_is_wider_than_the_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines that others read by machine are as long as they are: annotations, forms that are printed, programs."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(tmp_path)
    Path(FOLDER).mkdir()
    narrow, wide = long_names(Path(FOLDER, "narrow.onnx"), 64), long_names(Path(FOLDER, "wide.onnx"), 20_000)
    for name, model in (("a.json", narrow), ("b.json", wide)):
        main.run(["check", model, "-t", "m1", "-q", "--json", name])
    calls = [
        ["check", narrow, "-t", "m1,m4,m5"],
        ["check", wide, "-t", "m1,m4", "--placement", "coreml"],
        ["compile", narrow, "-t", "m4", "--emit", "text", "-o", f"{FOLDER}/out"],
        ["run", narrow, "-t", "m1", "--seed", "0", "-o", f"{FOLDER}/y.npz"],
        ["compare", narrow, "-t", "m1", "--seed", "0", "--mark", "all"],
        ["reduce", narrow, "--keep", "rule ANE-QUIRK-003 m4", "-o", f"{FOLDER}/part"],
        ["diff", "a.json", "b.json"],
        ["explain", "ANE-EXTENT-001"],
        ["explain", "op", "conv"],
        ["explain", "target", "h17s"],
        ["targets"],
        ["ops"],
        ["routes"],
        ["bench", narrow, "-t", "m1", "--runs", "1"],
        ["doctor"],
        ["demo", "keyword-spotter", "-t", "m1"],
        ["--help"],
        ["invoker", "install", f"{FOLDER}/bin"],
        *([*command.split(), "--help"] for command in COMMANDS),
    ]
    assert {call[0] for call in calls} == {*(command.split()[0] for command in COMMANDS), "--help"}
    for call in calls:
        assert main.run(call) in (0, 1)
        shown = capsys.readouterr()
        assert shown.err == ""
        lines = shown.out.splitlines()
        assert lines
        assert max(map(len, lines)) <= width, call


def on_terminal(arguments: list[str], folder: Path, **environment: str) -> str:
    """Return what a command shows on a terminal, errors and progress among it."""
    pty = pytest.importorskip("pty", reason="the system has no pseudo-terminals")
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    with subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env={**kept, "COLUMNS": "80", **environment},
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how a terminal says that nobody writes to it any more
                break
            if not part:
                break
            shown += part
        assert process.wait() == 0
    os.close(ours)
    return shown.decode()


def test_colours_go_when_they_are_not_wanted(tmp_path: Path) -> None:
    """NO_COLOR is about colours alone (no-color.org): bold and dim stay. A terminal that is dumb gets plain text."""
    saved(tmp_path / "masked.onnx")
    check = ["check", "masked.onnx", "-t", "m1,m4"]
    coloured = on_terminal(check, tmp_path, TERM="xterm-256color")
    assert COLOUR.search(coloured)
    assert any(words in coloured for words in ("reading the model", "compiling for", "comparing"))
    plain = on_terminal(check, tmp_path, TERM="xterm-256color", NO_COLOR="1")
    assert not COLOUR.search(plain)
    assert "\x1b[1m" in plain
    assert "\x1b" not in on_terminal(check, tmp_path, TERM="dumb")
