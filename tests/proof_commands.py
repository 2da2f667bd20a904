"""The proof at the command line: a case written to a file, and what `check` and `compile` say of that file."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import aneforge as af
from aneforge.cli import main
from aneforge.commands.checking import CheckOptions, check
from aneforge.errors import AneforgeError
from aneforge.report.forms import judge
from aneforge.report.gate import Threshold, outcome
from aneforge.report.model import DIRECT
from aneforge.report.written import report_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.graph.graph import Graph

__all__ = ["disagreeing_commands"]


def write_mil(graph: Graph, folder: Path) -> Path:
    return af.save_mil(graph, folder / "mil")


def write_package(graph: Graph, folder: Path) -> Path:
    return af.save_mlpackage(graph, folder / "net.mlpackage")


WRITERS = (write_mil, write_package)


def disagreeing_commands(graph: Graph, names: Sequence[str], number: int) -> Iterator[tuple[str, str]]:
    """Yield what commands say of a file, MIL text or a package by turns, and the library does not."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            file = WRITERS[number % len(WRITERS)](graph, Path(folder))
        except AneforgeError:
            return  # it has no such form
        written, asked = Path(folder) / "report.json", [part for name in names for part in ("-t", name)]
        report = check(file, names)
        code = run_command("check", str(file), *asked, "--json", str(written))
        if code != (0 if outcome(report).ok else 1):
            yield "check ends with another exit code", f"{file.name}: {code}"
        elif report_from_json(written.read_text(encoding="utf-8")) != judge(report, Threshold(), None):
            yield "check writes another report", file.name
        direct = check(file, names[0], CheckOptions(path=DIRECT)).targets[0]
        code = run_command("compile", str(file), "-t", names[0])
        if (code == 0) is not (direct.failure is None):
            yield "compile ends with another exit code", f"{file.name}: {code}, {direct.failure}"


def run_command(*arguments: str) -> int:
    """Run a command and return its exit code."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return main.run(list(arguments))
