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
import onnx
import pytest
from onnx import TensorProto, helper

import aneforge as af
from aneforge.cli import main
from aneforge.cli.error_messages import report_error
from aneforge.commands.model_files import harm_to_model
from aneforge.commands.outputs import save
from aneforge.errors import GraphError
from aneforge.formats.mil.blob import BlobWriter
from report_models import masked_model, saved

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


def outside_weights(location: str) -> None:
    """Write the model again, as ext.onnx, with its weights in a file of their own."""
    onnx.save_model(  # pyright: ignore[reportUnknownMemberType] - its stub leaves paths open
        masked_model(), "ext.onnx", save_as_external_data=True, location=location, size_threshold=0
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_report_that_cannot_be_written_is_refused_before_the_model_is_read(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    check = ["check", "unread.onnx", f"--{form}"]
    assert "(got a folder). Remedy: name a file" in refused([*check, "folder"], capsys)
    assert "(got no folder a b). Remedy: mkdir -p 'a b'" in refused([*check, "a b/c"], capsys)
    assert "(got m.onnx is not a folder)" in refused([*check, "m.onnx/c"], capsys)
    assert "the model itself would be overwritten" in refused(["check", "m.onnx", f"--{form}", "./m.onnx"], capsys)


def test_two_forms_have_two_files(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["check", "m.onnx", "--json", "a", "--csv", "a"], capsys)
    assert "two forms would be written to the same file (got --json a and --csv a)" in message


def test_one_file_is_one_however_it_is_spelled(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sub").mkdir()
    Path("link").symlink_to("r")
    for other in ("sub/../r", "link", str(Path("r").absolute())):
        message = refused(["check", "m.onnx", "--json", "r", "--csv", other], capsys)
        assert f"two forms would be written to the same file (got --json r and --csv {other})" in message
    message = refused(["check", "m.onnx", "--json", "-", "--csv", "-"], capsys)
    assert "only one form can be printed (got --json - and --csv -)" in message
    assert main.run(["check", "m.onnx", "-t", "m4", "-q", "--json", "-", "--csv", str(Path("-").absolute())]) == 0
    assert Path("-").read_text(encoding="utf-8").startswith("target,")


def test_verdicts_go_into_onnx_files_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.mil").write_text("program(1.3) {}", encoding="utf-8")
    message = refused(["check", "model.mil", "--netron", "a.onnx"], capsys)
    assert "verdicts can be written only into ONNX models (got MIL text)" in message


@pytest.mark.parametrize(("form", "path"), EMITTED.items())
def test_a_program_is_not_written_over_something_else(form: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = ["compile", "m.onnx", "-t", "m4", "--emit", form, "-o"]
    assert "the model itself would be overwritten" in refused([*compiled, "m.onnx"], capsys)
    Path("file").touch()
    assert "file is not a folder" in refused([*compiled, f"file/{path}"], capsys)
    if path == "out":
        assert "file is not a folder" in refused([*compiled, "file"], capsys)
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


def test_weights_beside_an_onnx_model_are_not_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    """The reader opens them by other spellings than the user's, and in branches and functions too."""
    Path("data").mkdir()
    outside_weights("data/w.bin")
    harm = "a file of the model would be overwritten. Remedy: write to another path"
    Path("link").symlink_to("data/w.bin")
    for path in ("data/w.bin", "data/../data/w.bin", "link"):
        assert f"at {path}: {harm}" in refused(["check", "ext.onnx", "--json", path], capsys)
    assert harm in refused(["run", "ext.onnx", "-t", "m4", "--seed", "0", "-o", "data/w.bin"], capsys)
    for form in ("text", "program"):
        assert harm in refused(["compile", "ext.onnx", "-t", "m4", "--emit", form, "-o", "data/w.bin"], capsys)
    assert main.run(["check", "ext.onnx", "-t", "m4", "-q", "--json", "data/report.json"]) == 0
    assert main.run(["check", "ext.onnx", "-t", "m4", "-q", "--json", "data/report.json"]) == 0
    Path("model.bin").write_bytes(b"location")
    assert main.run(["check", "m.onnx", "-t", "m4", "-q", "--json", "model.bin", "--force"]) == 0


def test_external_data_is_found_wherever_a_model_has_tensors() -> None:
    def outside(name: str, location: str) -> TensorProto:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
        Path(location.replace("\\", "/")).touch()
        return tensor

    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    constant = helper.make_node("Constant", [], ["c"], value=outside("c", "branch.bin"))
    branch = helper.make_graph([constant], "branch", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])])
    node = helper.make_node("If", ["w"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph([node], "g", [], [out], [outside("w", ".\\initial.bin")])
    made = helper.make_node("Constant", [], ["o"], value=outside("f", "function.bin"))
    function = helper.make_function("own", "f", [], ["o"], [made], [helper.make_opsetid("", 20)])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[function])
    Path("all.onnx").write_bytes(model.SerializeToString())
    Path("other.bin").touch()
    harms = {path.name: harm_to_model(path, Path("all.onnx")) for path in Path().glob("*.bin")}
    assert harms.pop("other.bin") == ""
    assert harms.keys() == {"branch.bin", "initial.bin", "function.bin"}
    assert set(harms.values()) == {"a file of the model would be overwritten"}


@pytest.mark.parametrize("form", ["mil", "netplist"])
def test_no_file_of_a_model_in_a_folder_is_written_over(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["compile", "m.onnx", "-t", "m4", "--emit", form, "-o", "out"]) == 0
    capsys.readouterr()
    files = sorted(Path("out").iterdir())
    assert len(files) >= 2
    (text,) = (file for file in files if file.name in {"model.mil", "net.plist"})
    for model in (Path("out"), text):
        for file in files:
            harm = "the model itself" if file == model else "a file of the model"
            assert f"at {file}: {harm} would be overwritten" in refused(
                ["check", str(model), "--json", str(file)], capsys
            )
        assert main.run(["check", str(model), "-t", "m4", "-q", "--json", "out/report.json"]) == 0
    for file in files:
        file.chmod(0o444)
        again = refused(["compile", "m.onnx", "-t", "m4", "--emit", form, "-o", "out"], capsys)
        assert f"at {file}: the file cannot be written (got a file that is read-only)" in again
        file.chmod(0o644)


def test_a_part_is_not_written_over_the_weights_of_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    outside_weights("weights.bin")
    for command in (["compile", "ext.onnx", "-t", "m4", "--emit", "mil"], ["reduce", "ext.onnx", "--keep", "nan"]):
        assert "at weights.bin: a file of the model would be overwritten" in refused([*command, "-o", "."], capsys)


def test_a_package_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["compile", "m.onnx", "-t", "m4", "--emit", "mlpackage", "-o", "a.mlpackage"]) == 0
    capsys.readouterr()
    inner = Path("a.mlpackage/Data/com.apple.CoreML")
    Path("link").symlink_to("a.mlpackage")
    changed = "the model's package would be changed"
    for model in ("a.mlpackage", "link", str(inner / "model.mlmodel")):
        for path in ("a.mlpackage/Manifest.json", "a.mlpackage/new.json", "link/Data/new.json"):
            assert changed in refused(["check", model, "--json", path], capsys)
        assert changed in refused(["check", model, "--json", str(inner / "weights/weight.bin")], capsys)
        assert changed in refused(["compile", model, "-t", "m4", "--emit", "mil", "-o", str(inner / "mil")], capsys)
    assert main.run(["check", "a.mlpackage", "-t", "m4", "-q", "--json", "a.json"]) == 0
    bare = Path(shutil.copytree(inner, "bare"))
    weights = str(bare / "weights/weight.bin")
    harm = refused(["check", str(bare / "model.mlmodel"), "--json", weights], capsys)
    assert f"at {weights}: a file of the model would be overwritten" in harm
    assert main.run(["check", str(bare / "model.mlmodel"), "-t", "m4", "-q", "--json", "a.json"]) == 0


def test_a_folder_with_a_manifest_of_its_own_is_no_package() -> None:
    Path("Data").mkdir()
    Path("Manifest.json").write_text("{}", encoding="utf-8")
    assert main.run(["check", "m.onnx", "-t", "m4", "-q", "--json", "Data/report.json"]) == 0


def test_a_model_that_cannot_be_read_says_so_itself(capsys: pytest.CaptureFixture[str]) -> None:
    weights = BlobWriter().tobytes()
    for name, content in {
        "a.onnx": b"\x3a\x08location\x0a\xff",
        "b.mil": b"program(1.3) { location",
        "c.plist": b"<plist>location",
        "d.bin": b"location",
    }.items():
        Path(name).write_bytes(content)
        Path("out").write_bytes(weights)
        assert main.run(["check", name, "--json", "out", "--force"]) == 2
        assert f"at {name}" in capsys.readouterr().err
        assert Path("out").read_bytes() == weights


def test_phases_arrays_and_parts_have_places_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").touch()
    Path("folder").mkdir()
    assert "file is not a folder" in refused(["compile", "m.onnx", "-t", "m4", "--dump-phases", "file"], capsys)
    run = ["run", "m.onnx", "-t", "m4", "--seed", "0", "-o"]
    assert "(got a folder)" in refused([*run, "folder"], capsys)
    assert "mkdir -p missing" in refused([*run, "missing/y.npz"], capsys)
    reduce = ["reduce", "m.onnx", "--keep", "rule ANE-QUIRK-003 m4", "-o"]
    assert "file is not a folder" in refused([*reduce, "file"], capsys)


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


def test_a_link_to_a_file_that_is_not_there_stays_a_link(capsys: pytest.CaptureFixture[str]) -> None:
    Path("real").mkdir()
    Path("link.csv").symlink_to("real/report.csv")
    assert main.run(["check", "m.onnx", "-t", "m4", "-q", "--csv", "link.csv"]) == 0
    assert Path("link.csv").is_symlink()
    assert Path("real/report.csv").read_text(encoding="utf-8").startswith("target,")
    Path("nowhere").symlink_to("missing/report.csv")
    Path("circle").symlink_to("circle")
    missing = Path("missing").absolute()
    assert f"(got no folder {missing}). Remedy: mkdir -p" in refused(["check", "m.onnx", "--csv", "nowhere"], capsys)
    assert "Too many levels of symbolic links" in refused(["check", "m.onnx", "--csv", "circle"], capsys)
    with pytest.raises(GraphError, match="Too many levels of symbolic links"):
        save("circle", "text")
    assert Path("circle").is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_keeps_its_permissions(mode: int) -> None:
    file = Path("private.json")
    file.touch()
    file.chmod(mode)
    save(file, "new")
    assert file.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_read_only_file_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Its folder would let it be replaced, and so would the powers of the superuser."""
    file = Path("a kept.json")
    file.write_text("kept", encoding="utf-8")
    file.chmod(0o444)
    Path("link").symlink_to(file)
    seen = "the file cannot be written (got a file that is read-only). Remedy: name another, or chmod u+w 'a kept.json'"
    assert seen in refused(["check", "m.onnx", "--json", str(file)], capsys)
    assert "(got a file that is read-only)" in refused(["check", "m.onnx", "--json", "link"], capsys)
    for form in ("text", "program"):
        assert seen in refused(["compile", "m.onnx", "-t", "m4", "--emit", form, "-o", str(file)], capsys)
    with pytest.raises(GraphError, match="read-only"):
        save(file, "new")
    assert file.read_text(encoding="utf-8") == "kept"


def test_a_full_disk_leaves_no_half_file() -> None:
    """A limit on the size of files stands for a disk that is full: what is written stops in the middle."""
    program = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))\nfrom aneforge.cli.main import "
        "run\nsys.exit(run(sys.argv[1:]))\n"
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
        assert "cannot be written (got File too large)" in found.stderr
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
    assert report_error(OSError(28, "No space left on device")) == 2
    assert capsys.readouterr().err == "error: the system refused: No space left on device\n"


def test_nothing_is_saved_into_a_folder_that_is_not_there() -> None:
    with pytest.raises(GraphError, match="No such file or directory"):
        save("missing/file", "text")
