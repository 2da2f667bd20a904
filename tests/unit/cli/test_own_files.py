"""Outputs never replace what another tool made; default names carry the chip; a MIL text can have any name."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.cli import main
from aneforge.cli.arguments import read_arrays
from aneforge.commands.own_files import is_made_here
from report_models import saved

if TYPE_CHECKING:
    from aneforge.ops.types import Array

FOREIGN = "the file exists and does not look like a file that aneforge made"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test a folder of its own with a small model in it."""
    monkeypatch.chdir(tmp_path)
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float16)
    af.save_mil(af.Graph({"y": af.conv(af.input((1, 3, 8, 8), name="image"), weights).relu()}), "cnn")


def compile_cnn(*options: str) -> int:
    """Compile the model for one chip."""
    return main.run(["compile", "cnn/model.mil", "-t", "m4", *options])


def outputs_of(model: str) -> Array:
    """Return the output of a model for drawn inputs."""
    assert main.run(["run", model, "-t", "m4", "--seed", "0", "-o", "y.npz"]) == 0
    return next(iter(read_arrays(Path("y.npz")).values()))


@pytest.mark.parametrize(
    ("emit", "name"),
    [
        ("mil", "model.m4.mil"),
        ("mlpackage", "model.m4.mlpackage"),
        ("program", "model.m4.aneprg"),
        ("text", "model.m4.anec"),
        ("netplist", "model.m4.netplist"),
    ],
)
def test_default_names_carry_the_chip(emit: str, name: str) -> None:
    assert compile_cnn("--emit", emit) == 0
    assert Path(name).exists()
    assert main.run(["compile", "cnn/model.mil", "-t", "h16g", "--emit", "text"]) == 0
    assert Path("model.h16g.anec").exists(), "where no chip was named it is the target"


@pytest.mark.parametrize("name", ["out.mil", "out.mlpackage", "out.aneprg", "out.anec", "out"])
def test_what_was_made_here_is_replaced_and_nothing_else(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-o", name, *(["--emit", "mil"] if name == "out" else [])]
    assert compile_cnn(*options) == 0
    assert compile_cnn(*options) == 0, "its own output is replaced"
    own = Path(name, "Manifest.json") if name.endswith("package") else Path(name)
    own = own / "model.mil" if name == "out" else own
    own.write_text(own.read_text(encoding="utf-8", errors="replace")[1:].replace("f17bc1de", "other"), encoding="utf-8")
    before = own.read_bytes()
    capsys.readouterr()
    assert compile_cnn(*options) == 2
    assert FOREIGN in capsys.readouterr().err
    assert own.read_bytes() == before
    assert compile_cnn(*options, "--force") == 0
    assert own.read_bytes() != before


def test_arrays_of_others_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "cnn/model.mil", "-t", "m4", "--seed", "0", "-o", "y.npz"]
    np.savez("y.npz", golden=np.zeros(3))
    assert main.run(asked) == 2
    assert FOREIGN in capsys.readouterr().err
    assert list(read_arrays(Path("y.npz"))) == ["golden"]
    assert main.run([*asked, "--force"]) == 0
    assert is_made_here(Path("y.npz"))
    assert main.run(asked) == 0


REPORTS = ("json", "sarif", "junit", "markdown", "csv", "html", "trace")


def check_cnn(*options: str) -> int:
    """Check the model on one chip."""
    return main.run(["check", "cnn/model.mil", "-t", "m4", "--path", "direct", "--quiet", *options])


@pytest.mark.parametrize("form", REPORTS)
def test_reports_replace_reports_and_nothing_else(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, asked = Path("report"), (f"--{form}", "report")
    assert check_cnn(*asked) == 0
    written = file.read_bytes()
    assert is_made_here(file)
    assert check_cnn(*asked) == 0, "its own report is replaced"
    for other in (
        b"my notes\n",
        b"# Notes\n\nnothing passed\n",
        b'{"model": "mine"}',
        b"<!doctype html><title>x</title>",
    ):
        file.write_bytes(other)
        assert check_cnn(*asked) == 2
        assert FOREIGN in capsys.readouterr().err
        assert file.read_bytes() == other
    assert check_cnn(*asked, "--force") == 0
    assert file.read_bytes() == written


def test_a_model_with_verdicts_replaces_itself_and_no_other_model(capsys: pytest.CaptureFixture[str]) -> None:
    saved(Path("net.onnx"), 64)
    saved(Path("other.onnx"), 32)
    before = Path("other.onnx").read_bytes()
    asked = ["check", "net.onnx", "-t", "m4", "--quiet", "--netron"]
    assert main.run([*asked, "other.onnx"]) == 2
    assert FOREIGN in capsys.readouterr().err
    assert Path("other.onnx").read_bytes() == before
    assert [main.run([*asked, "judged.onnx"]) for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    "asked",
    [
        ["targets"], ["ops"], ["routes"], ["doctor"], ["explain", "relu"],
        ["bench", "cnn/model.mil", "-t", "m4", "--runs", "1"], ["compare", "cnn/model.mil", "-t", "m4", "--seed", "0"],
    ],
    ids=lambda asked: asked[0],
)  # fmt: skip
def test_answers_replace_answers_and_nothing_else(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("answer.json")
    file.write_text("[]\n", encoding="utf-8")
    assert main.run([*asked, "--json", str(file)]) == 2
    assert FOREIGN in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "[]\n"
    assert main.run([*asked, "--json", str(file), "--force"]) == 0
    assert main.run([*asked, "--json", str(file)]) == 0


def test_the_page_of_the_demo_replaces_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path("demo.html")
    page.write_text("mine\n", encoding="utf-8")
    assert main.run(["demo"]) == 0
    assert "no page was written" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == "mine\n"
    assert main.run(["demo", "--force"]) == 0
    assert is_made_here(page)


def test_weights_of_others_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.weights.bin").write_bytes(b"weights")
    assert compile_cnn("-o", "out.mil") == 2
    assert "at out.weights.bin: " + FOREIGN in capsys.readouterr().err


def test_a_mil_text_has_its_weights_beside_it() -> None:
    assert compile_cnn("-o", "nets/out.mil") == 0
    assert sorted(path.name for path in Path("nets").iterdir()) == ["out.mil", "out.weights.bin"]
    assert 'path = string("@model_path/out.weights.bin")' in Path("nets/out.mil").read_text(encoding="utf-8")
    assert np.array_equal(outputs_of("nets/out.mil"), outputs_of("cnn/model.mil"))
    Path("nets").rename("moved")
    assert np.array_equal(outputs_of("moved/out.mil"), outputs_of("cnn/model.mil"))


@pytest.mark.parametrize("output", ["folder", "folder.mil/", "folder/"])
def test_a_folder_has_the_names_of_before(output: str) -> None:
    assert compile_cnn("--emit", "mil", "-o", output) == 0
    assert sorted(path.name for path in Path(output).iterdir()) == ["model.mil", "weights.bin"]


def test_a_form_is_named_by_the_ending_or_by_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_cnn("-o", "out.mlpackage") == 0
    assert Path("out.mlpackage/Manifest.json").is_file()
    assert compile_cnn("-o", "out") == 2
    assert "name a form, such as --emit mil" in capsys.readouterr().err


ENDING = """
import ctypes, resource, sys, types
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).abort)
sys.modules.setdefault(sys.argv.pop(1), types.ModuleType("stand-in"))
from aneforge.cli.entry import main
main()
"""
"""A process with a library that is heard when the interpreter ends, where bindings say what they have leaked."""


@pytest.mark.skipif(sys.platform != "linux", reason="finds the C library as Linux does")
def test_libraries_say_nothing_after_the_verdict() -> None:
    def ended(loaded: str) -> subprocess.CompletedProcess[str]:
        asked = [sys.executable, "-c", ENDING, loaded, "targets", "some"]
        return subprocess.run(asked, capture_output=True, text=True, check=False)

    done = ended("torch")
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown target group 'some'")
    assert ended("no_such").returncode == -signal.SIGABRT, (
        "where no such package is loaded, the interpreter ends as ever"
    )
