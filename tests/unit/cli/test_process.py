"""The command in a process of its own: how it starts, pipes, colours, completion, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from report_models import saved

if TYPE_CHECKING:
    from pathlib import Path

ANEFORGE = [sys.executable, "-m", "aneforge"]


def ran(*arguments: str, folder: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command and return what it printed."""
    return subprocess.run(
        [*ANEFORGE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **(environment or {})},
    )


def test_python_m_aneforge_is_the_command(tmp_path: Path) -> None:
    found = ran("--version", folder=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("aneforge ")


def test_texts_and_defaults_are_taken_without_the_library_that_converts_numbers(tmp_path: Path) -> None:
    code = "import sys; from aneforge.cli.main import run; run(sys.argv[1:]); print('pydantic' in sys.modules)"

    def loaded(*arguments: str) -> str:
        command = [sys.executable, "-c", code, *arguments]
        found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        return found.stdout.splitlines()[-1]

    assert loaded("explain", "ANE-EXTENT-001", "--json", "answer.json") == "False"
    assert (tmp_path / "answer.json").exists()
    model = saved(tmp_path / "masked.onnx")
    assert loaded("check", model.name, model.name, "-t", "m4", "-q") == "False"


def test_a_piped_answer_has_no_colours_and_no_progress(tmp_path: Path) -> None:
    model = saved(tmp_path / "masked.onnx")
    found = ran("check", model.name, "-t", "m4,m5", "--deep", folder=tmp_path, environment={"TERM": "xterm-256color"})
    assert found.returncode == 0
    assert "\x1b" not in found.stdout
    assert found.stderr == ""
    assert max(map(len, found.stdout.splitlines())) <= 80


def test_exit_codes(tmp_path: Path) -> None:
    model = saved(tmp_path / "wide.onnx", 20_000)
    assert ran("check", model.name, "-t", "m1", "-q", folder=tmp_path).returncode == 1
    assert ran("check", "none.onnx", folder=tmp_path).returncode == 2


def test_no_torch_and_no_html_are_imported_for_a_check(tmp_path: Path) -> None:
    model = saved(tmp_path / "masked.onnx")
    program = textwrap.dedent(
        f"""
        import sys
        from aneforge.cli.main import run
        assert run(["check", {str(model)!r}, "-t", "m4", "-q"]) == 0
        heavy = {{"torch", "coremltools", "jinja2", "lark", "rich", "scipy", "aneforge.analysis.ranges"}}
        print(sorted(heavy & sys.modules.keys()))
        """
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_leaves_no_half_file(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import signal, sys, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
        from aneforge.report import forms
        from aneforge.cli.main import main
        def slow(*arguments):
            print("writing", flush=True)
            time.sleep(60)
        forms.written_form = slow
        sys.argv = ["aneforge", "check", "masked.onnx", "-t", "m4", "--json", "report.json"]
        main()
        """
    )
    saved(tmp_path / "masked.onnx")
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["masked.onnx"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_while_it_starts_is_no_traceback() -> None:
    program = textwrap.dedent(
        """
        import os, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "aneforge.cli.main":
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Slow())
        from aneforge.cli.entry import main
        main()
        """
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "\ninterrupted\n")


def test_completion_is_offered(tmp_path: Path) -> None:
    environment = {"_ANEFORGE_COMPLETE": "complete_bash", "COMP_WORDS": "aneforge che", "COMP_CWORD": "1"}
    found = ran(folder=tmp_path, environment=environment)
    assert found.stdout.split() == ["check"]
