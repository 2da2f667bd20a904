"""Ctrl-C at every stage: exit code 130, no traceback, and neither half a file nor one under another name."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from aneforge.cli import main
from aneforge.commands import compiling, model_and_targets, running, sharing
from aneforge.compiler.schedule import schedule
from report_models import saved

WRITING = {
    "json": ["check", "m.onnx", "-t", "m4", "-q", "--json", "out"],
    "html": ["check", "m.onnx", "-t", "m4", "-q", "--html", "out"],
    "netron": ["check", "m.onnx", "-t", "m4", "-q", "--netron", "out"],
    "npz": ["run", "m.onnx", "-t", "m4", "--seed", "0", "-o", "out"],
    "program": ["compile", "m.onnx", "-t", "m4", "--emit", "program", "-o", "out"],
    "text": ["compile", "m.onnx", "-t", "m4", "--emit", "text", "-o", "out"],
    "mil": ["compile", "m.onnx", "-t", "m4", "--emit", "mil", "-o", "out"],
    "netplist": ["compile", "m.onnx", "-t", "m4", "--emit", "netplist", "-o", "out"],
    "mlpackage": ["compile", "m.onnx", "-t", "m4", "--emit", "mlpackage", "-o", "out.mlpackage"],
    "part": ["reduce", "m.onnx", "--keep", "rule ANE-QUIRK-003 m4", "-o", "out"],
}


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in a folder with a model."""
    monkeypatch.chdir(tmp_path)
    saved(Path("m.onnx"))


def interrupted(*given: object, **options: object) -> NoReturn:
    """Act as if Ctrl-C were pressed now."""
    del given, options
    raise KeyboardInterrupt


def ends_without_a_trace(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 130
    shown = capsys.readouterr()
    assert shown.err.endswith("\ninterrupted; no partial file was left\n")
    assert "Traceback" not in shown.err
    assert [path.name for path in Path().rglob("*") if path.is_file()] == ["m.onnx"]


@pytest.mark.filterwarnings("ignore::aneforge.errors.PrecisionWarning")
@pytest.mark.parametrize("form", WRITING)
def test_a_file_that_is_whole_but_not_in_its_place_goes(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "replace", interrupted)
    monkeypatch.setattr(Path, "rename", interrupted)
    ends_without_a_trace(WRITING[form], capsys)


@pytest.mark.parametrize(
    ("where", "name", "form"),
    [
        (model_and_targets, "load_model", "json"),
        (sharing, "build", "json"),
        (schedule, "schedule", "html"),
        (compiling, "compile_graph", "program"),
        (running, "compile_graph", "npz"),
    ],
)
def test_reading_and_compiling_can_be_interrupted(
    where: object, name: str, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(where, name, interrupted)
    ends_without_a_trace(WRITING[form], capsys)


def test_a_package_that_is_being_replaced_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever interrupts before the new one is in its place finds the old one, whole."""
    assert main.run(WRITING["mlpackage"]) == 0
    capsys.readouterr()
    before = {path: path.read_bytes() for path in Path("out.mlpackage").rglob("*") if path.is_file()}
    monkeypatch.setattr(Path, "rename", interrupted)
    assert main.run(WRITING["mlpackage"]) == 130
    assert {path: path.read_bytes() for path in Path("out.mlpackage").rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in Path().iterdir()) == ["m.onnx", "out.mlpackage"]
