"""Files that cannot be read or written: one sentence, exit code 2, and nothing half written."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import aneforge as af
from aneforge.cli import main
from aneforge.errors import GraphError
from aneforge.report.outputs import save
from report_models import saved

FORMS = ("json", "sarif", "junit", "markdown", "csv", "html", "trace", "netron")
EMITTED = {"mil": "out", "netplist": "out", "mlpackage": "out.mlpackage", "program": "out.aneprg", "text": "out.anec"}
POWERS = "-dac_override,-dac_read_search"
"""What lets the superuser pass permission bits."""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in a folder with a model."""
    monkeypatch.chdir(tmp_path)
    saved(Path("m.onnx"))


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that has to end with one sentence, and return it."""
    before = everything()
    assert main.run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert everything() == before
    return shown.err


def everything() -> dict[str, bytes | None]:
    """Return all files of the folder with their content, and all folders."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path().rglob("*")}


@pytest.mark.parametrize("form", FORMS)
def test_a_report_that_cannot_be_written_is_refused_before_the_model_is_read(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    check = ["check", "unread.onnx", f"--{form}"]
    assert "(seen a folder). Remedy: name a file" in refused([*check, "folder"], capsys)
    assert "(seen no folder a b). Remedy: mkdir -p 'a b'" in refused([*check, "a b/c"], capsys)
    assert "(seen m.onnx is no folder)" in refused([*check, "m.onnx/c"], capsys)
    assert "the model itself would be overwritten" in refused(["check", "m.onnx", f"--{form}", "./m.onnx"], capsys)


def test_two_forms_have_two_files(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["check", "m.onnx", "--json", "a", "--csv", "a"], capsys)
    assert "two forms would have one file (seen --json a and --csv a)" in message


def test_verdicts_go_into_onnx_files_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.mil").write_text("program(1.3) {}", encoding="utf-8")
    message = refused(["check", "model.mil", "--netron", "a.onnx"], capsys)
    assert "verdicts can be written into ONNX models alone (seen MIL text)" in message


@pytest.mark.parametrize(("form", "path"), EMITTED.items())
def test_a_program_is_not_written_over_something_else(form: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = ["compile", "m.onnx", "-t", "m4", "--emit", form, "-o"]
    assert "the model itself would be overwritten" in refused([*compiled, "m.onnx"], capsys)
    Path("file").touch()
    assert "file is no folder" in refused([*compiled, f"file/{path}"], capsys)
    if path == "out":
        assert "file is no folder" in refused([*compiled, "file"], capsys)
    else:
        Path(path).mkdir()
        assert f"at {path}: " in refused([*compiled, path], capsys)


def test_a_model_is_not_written_over_by_one_made_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    af.save_mil(af.input((1, 4), name="x").relu(), "folder")
    for model in ("folder", "folder/model.mil"):
        written = ["compile", model, "-t", "m4", "--emit", "mil", "-o", "folder"]
        assert "the model itself would be overwritten" in refused(written, capsys)
    parts = ["reduce", "folder/model.mil", "--keep", "nan", "-o", "folder"]
    assert "the model itself would be overwritten" in refused(parts, capsys)
    assert main.run(["compile", "folder/model.mil", "-t", "m4", "--emit", "netplist", "-o", "folder"]) == 0


def test_phases_arrays_and_parts_have_places_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").touch()
    Path("folder").mkdir()
    assert "file is no folder" in refused(["compile", "m.onnx", "-t", "m4", "--dump-phases", "file"], capsys)
    run = ["run", "m.onnx", "-t", "m4", "--seed", "0", "-o"]
    assert "(seen a folder)" in refused([*run, "folder"], capsys)
    assert "mkdir -p missing" in refused([*run, "missing/y.npz"], capsys)
    reduce = ["reduce", "m.onnx", "--keep", "rule ANE-QUIRK-003 m4", "-o"]
    assert "file is no folder" in refused([*reduce, "file"], capsys)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_written_to_and_stays_a_pipe() -> None:
    """Renaming over it would put a file in its place; over a device, that takes the device from the whole system."""
    pipe = Path("pipe")
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert main.run(["check", "m.onnx", "-t", "m4", "-q", "--csv", "pipe"]) == 0
    reader.join()
    assert read[0].startswith(b"target,")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_a_link() -> None:
    Path("real").mkdir()
    target, link = Path("real/report.csv"), Path("link.csv")
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    save(link, "new")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"
    assert [path.name for path in Path("real").iterdir()] == ["report.csv"]


def test_a_full_disk_leaves_no_half_file() -> None:
    """A limit on the size of files stands for a disk that is full: what is written stops in the middle."""
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))\n"
        "from aneforge.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    pytest.importorskip("resource", reason="the system has no limit on the size of files")
    kept = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for arguments in (
        ["check", "m.onnx", "-t", "m4", "-q", "--json", "a.json", "--html", "a.html"],
        ["compile", "m.onnx", "-t", "m4", "--emit", "mlpackage", "-o", "a.mlpackage"],
    ):
        found = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, env=kept
        )
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr.startswith("error: at a.")
        assert "cannot be written (seen File too large)" in found.stderr
        assert [path.name for path in Path().iterdir()] == ["m.onnx"]


def test_closed_and_full_streams_end_without_a_traceback() -> None:
    command = f"'{sys.executable}' -m aneforge"
    ends = {
        f"{command} targets families <&- >/dev/null": 0,
        f"{command} check missing.onnx 2>&-": 2,
        f"{command} targets families 3<&- | true; exit ${{PIPESTATUS[0]}}": 141,
    }
    if Path("/dev/full").is_char_device():
        ends[f"{command} targets families >/dev/full"] = 2
    for line, code in ends.items():
        found = subprocess.run(
            [shutil.which("bash") or "bash", "-c", line], capture_output=True, text=True, check=False
        )
        assert "Traceback" not in found.stderr
        assert found.returncode == code, f"{line}: {found.stderr}"


def test_what_may_not_be_read_or_written_is_one_sentence() -> None:
    """The superuser passes permission bits, so the power to do that is laid down first."""
    begin: list[str] = []
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("the superuser passes permission bits, and there is no setpriv to lay that down")
        begin = [setpriv, f"--bounding-set={POWERS}"]
    np.savez("x.npz", x=np.zeros((1, 8, 1, 64)))
    Path("known.json").touch()
    for name in ("m.onnx", "x.npz", "known.json"):
        shutil.copy(name, f"closed-{name}")
        Path(f"closed-{name}").chmod(0)
    Path("package.mlpackage").mkdir(mode=0)
    Path("closed").mkdir(mode=0o555)
    script = Path("all.py")
    script.write_text(
        "import sys\nfrom aneforge.cli.main import run\n"
        "print([run(line.split()) for line in sys.stdin.read().splitlines()])\n",
        encoding="utf-8",
    )
    lines = [
        "check closed-m.onnx",
        "check package.mlpackage",
        "check m.onnx --inputs closed-x.npz",
        "check m.onnx --baseline closed-known.json",
        "check m.onnx --json closed/a.json",
        "run m.onnx -t m4 --seed 0 -o closed/y.npz",
        *(f"compile m.onnx -t m4 --emit {form} -o closed/{path}" for form, path in EMITTED.items()),
        "reduce m.onnx --keep nan -o closed/part",
        "diff closed-known.json closed-known.json",
    ]
    found = subprocess.run(
        [*begin, sys.executable, str(script)], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    Path("package.mlpackage").chmod(0o755)
    assert found.stdout == f"{[2] * len(lines)}\n", found.stderr
    told = found.stderr.splitlines()
    assert len(told) == len(lines)
    for line in told:
        assert line.startswith("error: at ")
        assert "ermission" in line
    assert list(Path("closed").iterdir()) == []


def test_an_error_of_the_system_without_a_file_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.told(OSError(28, "No space left on device")) == 2
    assert capsys.readouterr().err == "error: the system refused: No space left on device\n"


def test_nothing_is_saved_into_a_folder_that_is_not_there() -> None:
    with pytest.raises(GraphError, match="No such file or directory"):
        save("missing/file", "text")
