"""The command line as users meet it: output at 80 columns, files, exit codes, and one message for a mistake."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

import aneforge as af
from aneforge.cli import main
from aneforge.cli.arguments import parse_magnitudes, parse_shapes, read_arrays
from aneforge.cli.command_table import COMMANDS
from aneforge.cli.waiting import Progress
from aneforge.commands.benching import bench
from aneforge.commands.checking import check
from aneforge.errors import GraphError
from report_models import saved

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from golden_text import Golden

WIDTH = 80


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give every command 80 columns, no colours and a folder of its own."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model() -> Path:
    """Return a small model that runs everywhere and masks beyond fp16."""
    return saved(Path("masked.onnx"))


@pytest.fixture
def wide() -> Path:
    """Return a model that is too wide for older targets."""
    return saved(Path("wide.onnx"), 20_000)


def fits(text: str) -> bool:
    """Return whether every line fits the terminal and ends without a space."""
    return all(len(line) <= WIDTH for line in text.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["check", "masked.onnx", "-t", "m1,m4-pro"], id="clean"),
        pytest.param(["check", "wide.onnx", "-t", "m1", "-t", "m4"], id="oversize"),
        pytest.param(["check", "masked.onnx", "-t", "m1,m5", "--max-abs", "x=4", "--deep"], id="deep"),
        pytest.param(["check", "masked.onnx", "-t", "m4", "--placement", "coreml"], id="placement"),
        pytest.param(["check", "wide.onnx", "-t", "m1", "--most", "1"], id="few"),
        pytest.param(["demo"], id="demo"),
        pytest.param(["demo", "keyword-spotter"], id="demo-model"),
        pytest.param(["explain", "ANE-EXTENT-001"], id="explain-rule"),
        pytest.param(["explain", "hal", "0x81d"], id="explain-hal"),
        pytest.param(["explain", "C8"], id="explain-conflict"),
        pytest.param(["explain", "program"], id="explain-word"),
        pytest.param(["explain", "route", "mle5_stream"], id="explain-route"),
        pytest.param(["explain", "chaining", "--all"], id="explain-chaining"),
        pytest.param(["explain", "chaining", "_ANEChainingRequest"], id="explain-chaining-class"),
        pytest.param(["explain", "chaining", "times"], id="explain-chaining-times"),
        pytest.param(["compare", "masked.onnx", "-t", "m4", "--seed", "0"], id="compare"),
        pytest.param(["targets", "families"], id="targets"),
        pytest.param(["ops", "--status", "decompose", "--category", "trigonometry"], id="ops"),
        pytest.param(["routes"], id="routes"),
        pytest.param(["--help"], id="help"),
    ],
)
def test_output(
    arguments: list[str], model: Path, wide: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert model.exists()
    assert wide.exists()
    code = main.run(arguments)
    shown = capsys.readouterr()
    assert shown.err == ""
    assert fits(shown.out)
    golden(f"$ aneforge {' '.join(arguments)}\n{shown.out}exit code {code}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_options(command: str) -> None:
    result = CliRunner().invoke(main.whole_app(), [*command.split(), "--help"])
    assert result.exit_code == 0
    assert f"{command} [OPTIONS]" in result.output
    others = ("reduce", "diff", "explain", "bench", "invoker install")
    if command in ("check", "compile", "run", "compare", "evaluate", *others):
        assert f"aneforge {command} " in result.output


def test_all_forms_at_once(wide: Path) -> None:
    forms = {"json": "a.json", "sarif": "a.sarif", "junit": "a.xml", "markdown": "a.md", "csv": "a.csv",
             "html": "a.html", "trace": "a.trace.json", "netron": "a.onnx"}  # fmt: skip
    options = [word for form, name in forms.items() for word in (f"--{form}", name)]
    assert main.run(["check", str(wide), "-t", "m1,m4", "-q", *options]) == 1
    assert sorted(path.name for path in Path().iterdir()) == sorted([*forms.values(), "wide.onnx"])
    assert all(Path(name).stat().st_size for name in forms.values())
    assert json.loads(Path("a.json").read_text(encoding="utf-8"))["version"] == 1


def test_a_form_can_be_printed(wide: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(wide), "-t", "m1", "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["model"] == "wide.onnx"


def test_a_binary_form_is_printed_too(wide: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main.run(["check", str(wide), "-t", "m4", "--netron", "-"]) == 0
    assert b"aneforge" in capsysbinary.readouterr().out
    assert not Path("-").exists()


def test_rescaling_is_shown(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "m4", "--max-abs", "x=4", "--rescale"]) == 0
    assert "rescaling on M4: " in capsys.readouterr().out


def test_thresholds_decide_the_exit_code(wide: Path, model: Path) -> None:
    check = ["check", str(wide), "-q", "-t"]
    assert main.run([*check, "m1"]) == 1
    assert main.run([*check, "m1", "--fail-on", "reject"]) == 1, "there is no program"
    assert main.run([*check, "m1", "--fail-on", "none"]) == 0
    assert main.run([*check, "m4"]) == 0
    assert main.run([*check, "m4", "--strict"]) == 1
    assert main.run([*check, "m1", "--fail-on", "none", "--min-native", "0.5"]) == 1
    assert main.run([*check, "m1", "--json", "known.json"]) == 1
    assert main.run([*check, "m1", "--baseline", "known.json"]) == 0
    assert main.run(["check", str(model), "-q", "-t", "m4", "--fail-on", "saturation"]) == 1


def test_samples_and_ranges(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("x.npz", x=np.zeros((1, 8, 1, 64)))
    assert main.run(["check", str(model), "-t", "m4", "--inputs", "x.npz", "--fail-on", "saturation"]) == 1
    assert "seen with the sample inputs" in capsys.readouterr().out
    assert main.run(["check", str(model), "-t", "m4", "--max-abs", "y=4"]) == 2
    assert "unknown input 'y'; known: x" in capsys.readouterr().err


def test_errors_against_float_are_in_the_verdict(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("x.npz", x=np.linspace(-1, 1, 512).reshape(1, 8, 1, 64))
    main.run(["check", str(model), "-t", "m4", "--inputs", "x.npz", "--json", "a.json"])
    capsys.readouterr()
    (error,) = json.loads(Path("a.json").read_text(encoding="utf-8"))["targets"][0]["errors"]
    main.run(["check", str(model), "-t", "m4", "--inputs", "x.npz"])
    verdict = " ".join(capsys.readouterr().out.split())
    assert error["largest"] is None or f"largest error {error['largest']:.2g}" in verdict
    assert error["elements"] == 992


def test_several_models_have_a_verdict_and_a_file_each(
    model: Path, wide: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["check", str(model), str(wide), "-t", "m1"]
    assert main.run([*both, "--json", "{model}.json"]) == 1
    verdicts = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("passed: ", "failed: "))]
    assert [line.split()[:2] for line in verdicts[:2]] == [["passed:", "masked.onnx"], ["failed:", "wide.onnx"]]
    assert {"masked.json", "wide.json"} <= {path.name for path in Path().iterdir()}
    assert main.run([*both, "--json", "one.json"]) == 2
    assert "several models would be written to the same file (got --json one.json)" in capsys.readouterr().err
    Path("sub").mkdir()
    Path("sub", model.name).write_bytes(model.read_bytes())
    assert main.run(["check", str(model), f"sub/{model.name}", "-t", "m1", "--json", "{model}.json"]) == 2
    assert "two models have the same name and would be written to the same file (got masked)" in capsys.readouterr().err


def test_sarif_and_junit_of_several_models_are_one_file(model: Path, wide: Path) -> None:
    assert (
        main.run(["check", "-q", str(model), str(wide), "-t", "m1", "--sarif", "all.sarif", "--junit", "all.xml"]) == 1
    )
    runs = json.loads(Path("all.sarif").read_text(encoding="utf-8"))["runs"]
    assert [run["automationDetails"]["id"] for run in runs] == ["aneforge/masked.onnx/", "aneforge/wide.onnx/"]
    assert [{one["ruleId"] for one in run["results"]} >= {"ANE-EXTENT-001"} for run in runs] == [False, True]
    suites = ET.parse("all.xml").getroot()  # noqa: S314 - a file that the line above wrote
    assert [one.get("name") for one in suites] == ["masked.onnx on M1 (h13)", "wide.onnx on M1 (h13)"]
    assert suites.get("failures") == str(sum(int(one.get("failures", "")) for one in suites)) != "0"


def test_a_model_that_cannot_be_read_does_not_stop_the_others(
    model: Path, wide: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.onnx").write_bytes(wide.read_bytes()[:40])
    assert main.run(["check", "broken.onnx", str(model), "-t", "m4", "--fail-on", "none"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert said.err.count("broken.onnx") == 1
    assert said.out.splitlines()[-1].startswith("passed")
    assert main.run(["compile", "broken.onnx", str(model), "-t", "m4", "-o", "{model}.mil"]) == 2
    assert Path("masked.mil").exists()
    assert "wrote masked.mil\nwrote masked.weights.bin\n" in capsys.readouterr().out
    assert main.run(["compile", str(wide), str(model), "-t", "m4", "-o", "one.mil"]) == 2
    assert "several models would be written to the same file (got -o one.mil)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", "0"], "a run needs at least one worker (got workers 0)"),
        (["--workers", "2", "--scheduler", "tcp://here:1"], "a scheduler has its own workers (got workers 2)"),
    ],
)
def test_workers_that_cannot_be(
    model: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main.run(["check", str(model), "-t", "m4", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--max-latency", "m4=1us"], "max-latency"),
        (["--max-memory", "1B"], "max-memory"),
        (["--min-exact", "1"], "min-exact"),
    ],
)
def test_budgets_fail_a_check(options: list[str], word: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "m4", *options]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"failed: {word}"
    generous = [options[0], {"max-latency": "m4=1s", "max-memory": "1GB", "min-exact": "0"}[word]]
    assert main.run(["check", str(model), "-t", "m4", "-q", *generous]) == 0


def test_bounds_that_explode_say_so(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "m4", "--max-abs", "x=4", "--max-abs", "x=5"]) == 2
    assert "--max-abs names an input twice" in capsys.readouterr().err
    main.run(["check", str(model), "-t", "m4", "--deep"])
    assert "inf against" not in capsys.readouterr().out


def test_files_have_the_verdict(wide: Path) -> None:
    main.run(["check", str(wide), "-t", "m1", "-q", "--json", "a.json", "--markdown", "a.md"])
    made = json.loads(Path("a.json").read_text(encoding="utf-8"))
    assert made["outcome"] == "failed"
    verdict = made["verdict"].replace("failed", "**failed**", 1)
    assert verdict in Path("a.md").read_text(encoding="utf-8").splitlines()


def test_every_bucket_of_an_open_length_has_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "open", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    Path("open.onnx").write_bytes(made.SerializeToString())
    assert main.run(["check", "open.onnx", "-t", "m4", "--shape", "n=32:128"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("; make one model for each length" in line for line in lines) == 2
    assert [line.partition(" runs on ")[0] for line in lines if " runs on " in line] == [
        "passed: open.onnx (n=32)",
        "passed: open.onnx (n=128)",
    ]
    assert main.run(["check", "open.onnx", "-t", "m4", "--shape", "n=32:128", "--json", "a.json"]) == 2


def test_budgets_that_mean_nothing_are_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "m4", "--max-latency", "m1=1ms"]) == 2
    assert "--max-latency names a target that is not checked (got m1)" in capsys.readouterr().err
    assert main.run(["check", str(model), "-t", "m4", "--max-latency", "fast"]) == 2
    assert "--max-latency is not an amount" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_remedies_can_be_typed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "m4", "--opt", "1"]) == 0
    assert "note: opt 1 for M4: no operation changed" in capsys.readouterr().out
    assert main.run(["compile", str(model), "-t", "m4", "--opt", "routes", "--compress", "int4"]) == 0
    assert "opt routes, compress int4 for M4: no operation changed" in capsys.readouterr().out
    assert main.run(["compile", str(model), "-t", "m4", "--force", "-q", "-o", "quiet.mil"]) == 0
    assert capsys.readouterr().out == ""
    assert main.run(["check", str(model), "-t", "m4", "--rescale"]) == 0
    assert (
        "; nothing to gain: no product of 1 rescaled; error on inputs that were drawn: output y: not finite"
        in " ".join(capsys.readouterr().out.split())
    )
    assert main.run(["compile", str(model), "-t", "m4", "--strict"]) == 2
    assert "strict" in capsys.readouterr().err


def test_annotations_replace_the_tables(wide: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(wide), "-t", "m1", "--github"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("::") for line in lines)


def test_compile_run_compare_reduce_and_bench(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["compile", str(model), "-t", "m4", "--emit", "mil", "-o", "out"]) == 0
    assert main.run(["check", "out/model.mil", "-t", "m4", "-q"]) == 0
    assert main.run(["compile", str(model), "-t", "m4", "--print-after", "fold-padding"]) == 0
    assert "program for h16g {" in capsys.readouterr().out
    assert main.run(["run", str(model), "-t", "m1,m4", "--seed", "0", "-o", "y.npz"]) == 0
    assert sorted(read_arrays(Path("y.npz"))) == ["h13.y", "h16g.y"]
    assert main.run(["run", str(model), "-t", "m1", "--seed", "0", "-o", "y.npz"]) == 0
    assert sorted(read_arrays(Path("y.npz"))) == ["y"]
    assert main.run(["compare", str(model), "-t", "m4", "-t", "m4", "--seed", "0"]) == 0
    capsys.readouterr()
    assert main.run(["compare", str(model), "-t", "m4", "--seed", "0", "--mark", "all"]) == 0
    shown = capsys.readouterr().out
    assert "M4 (h16g) against reference, 3 values compared" in shown
    assert fits(shown)
    assert main.run(["reduce", str(model), "--keep", "rule ANE-QUIRK-003 m4", "-o", "small"]) == 0
    assert main.run(["check", "small/model.mil", "-t", "m4", "--strict", "-q"]) == 1
    assert sorted(path.name for path in Path("small").iterdir()) == ["model.mil", "weights.bin"], "rules need no values"
    assert main.run(["bench", str(model), "-t", "m4", "--runs", "2"]) == 0
    assert "the chip (predicted)" in capsys.readouterr().out


def test_several_targets_are_compared_with_expected_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    model = af.save_mil(af.Graph({"y": af.input((1, 8, 1, 64), name="x").relu()}), "net")
    assert main.run(["run", str(model), "-t", "m1", "--seed", "0", "-o", "golden.npz"]) == 0
    asked = ["compare", str(model), "-t", "m1,m3,m4", "--seed", "0"]
    capsys.readouterr()
    assert main.run([*asked, "--expect", "golden.npz", "--atol", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("output y: M1 (h13) against expected: the same bits in all 512 elements\n")
    assert "M4 (h16g) against expected" in shown
    np.savez("golden.npz", renamed=read_arrays(Path("golden.npz"))["y"] + np.float16(0.5))
    assert main.run([*asked, "--expect", "golden.npz", "--atol", "0.25", "--json", "c.json"]) == 1
    assert "512 of 512 elements outside the tolerance" in " ".join(capsys.readouterr().out.split())
    answer = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert (answer["command"], answer["ok"], len(answer["answer"])) == ("compare", False, 3)
    assert answer["answer"][0]["errors"][0]["largest"] == pytest.approx(0.5, abs=1e-3)
    assert main.run([*asked, "--expect", "golden.npz", "--atol", "0.51"]) == 0
    np.savez("golden.npz", y=np.zeros(3))
    assert main.run([*asked, "--expect", "golden.npz"]) == 2
    assert "has another shape (got [3], expected [1, 8, 1, 64])" in capsys.readouterr().err


def test_a_target_is_compared_with_onnxruntime(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    proto = onnx.load(model)  # pyright: ignore[reportUnknownMemberType] - its stub leaves paths open
    proto.ir_version = 10  # onnx writes newer ones than onnxruntime reads
    onnx.save(proto, model)  # pyright: ignore[reportUnknownMemberType] - its stub leaves paths open
    asked = ["compare", str(model), "-t", "m4", "--seed", "0", "--against", "onnxruntime"]
    assert main.run([*asked, "--atol", "1"]) == 0
    assert capsys.readouterr().out.startswith("output y: M4 (h16g) against onnxruntime: ")
    assert main.run(["compile", str(model), "-t", "m4", "--emit", "mil", "-o", "out"]) == 0
    assert main.run(["compare", "out/model.mil", *asked[2:]]) == 2
    assert "onnxruntime runs only ONNX files (got MIL text)" in capsys.readouterr().err
    known = importlib.util.find_spec

    def without_onnxruntime(name: str) -> ModuleSpec | None:
        return None if name == "onnxruntime" else known(name)

    monkeypatch.setattr("importlib.util.find_spec", without_onnxruntime)
    assert main.run(asked) == 2
    assert "needs the package onnxruntime. Remedy: pip install onnxruntime" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "masked.onnx", "-t", "m4", "--runs", "1"],
        ["targets"],
        ["ops", "--category", "activation"],
        ["routes"],
        ["doctor"],
        ["explain", "ANE-EXTENT-001"],
        ["diff", "a.json", "a.json"],
    ],
    ids=lambda given: given[0],
)
def test_answers_are_written_as_json(arguments: list[str], model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "m4", "-q", "--json", "a.json"]) == 0
    code = main.run([*arguments, "--json", "-"])
    answer = json.loads(capsys.readouterr().out)
    assert (answer["version"], answer["command"], answer["ok"]) == (1, arguments[0], code == 0)
    assert answer["answer"]
    assert main.run([*arguments, "--json", "answer.json"]) == code
    assert json.loads(Path("answer.json").read_text(encoding="utf-8"))["command"] == arguments[0]
    assert capsys.readouterr().out, "a file does not keep the answer from the terminal"


@pytest.mark.filterwarnings("default")
def test_a_saved_program_runs_and_other_commands_say_what_it_is(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["compile", str(model), "-t", "m4", "--emit", "program", "-o", "a.aneprg"]) == 0
    assert main.run(["run", "a.aneprg", "--seed", "0", "-o", "y.npz"]) == 0
    assert main.run(["run", str(model), "-t", "m4", "--seed", "0", "-o", "z.npz"]) == 0
    ran, direct = (read_arrays(Path(name))["y"] for name in ("y.npz", "z.npz"))
    assert np.array_equal(ran, direct, equal_nan=True)
    capsys.readouterr()
    assert main.run(["run", "a.aneprg", "-t", "m1", "--seed", "0"]) == 2
    assert "a saved program is for one target (got ['h13'], expected h16g)" in capsys.readouterr().err
    for command in (["check"], ["bench", "-t", "m4"], ["compare", "-t", "m4", "--seed", "0"], ["compile", "-t", "m4"]):
        assert main.run([command[0], "a.aneprg", *command[1:]]) == 2
        error = capsys.readouterr().err
        assert "a program that was compiled for one target" in error
        assert "aneforge run FILE runs it" in error


def test_every_target_that_runs_programs_can_pass(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "all", "-q"]) == 0
    assert main.run(["check", str(model), "-t", "h11", "-q"]) == 1
    assert main.run(["targets"]) == 0
    assert "--target all stands for those that run MIL programs" in " ".join(capsys.readouterr().out.split())


def test_long_reasons_are_cut_and_can_be_seen(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["check", str(model), "-t", "m3"], ["run", str(model), "-t", "m3", "--seed", "0"]):
        main.run(command)
        cut = capsys.readouterr().out
        main.run([*command, "-v"])
        whole = capsys.readouterr().out
        assert "-v prints the whole reasons" in cut or "exactness on" not in cut
        assert "…" not in whole
        assert len(whole) > len(cut)
        assert fits(whole)


@pytest.mark.filterwarnings("default")
def test_inputs_that_fp16_changes_are_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("big.npz", x=np.full((1, 8, 1, 64), 1e6))
    assert main.run(["run", str(model), "-t", "m4", "--inputs", "big.npz"]) == 0
    shown = capsys.readouterr()
    assert "warning: input 'x': 512 of 512 values are infinite in fp16" in shown.err
    assert shown.out.startswith("note: the model's floating-point tensors were taken as fp16")


@pytest.mark.parametrize("command", [["run", "--seed", "0"], ["bench", "--runs", "1"], ["compare", "--seed", "0"]])
def test_targets_are_called_by_a_chip_where_one_has_their_engine(
    command: list[str], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([command[0], str(model), "-t", "h13,A16 family,h14c,a14", *command[1:]]) in (0, 1)
    shown = capsys.readouterr().out
    assert "M1 (h13)" in shown
    assert "A14 (h13)" in shown
    assert "h14c" in shown
    assert "(h14c)" not in shown


def test_help_is_in_words_and_every_example_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert main.run([*name.split(), "--help"]) == 0
        shown = capsys.readouterr().out
        assert re.search(r" <\w+[^>]*>", shown) is None, name
        assert all(line.strip() == "Examples:" for line in shown.splitlines() if "Examples:" in line), name


def test_whoever_waits_reads_the_names_of_chips(model: Path) -> None:
    told: list[str] = []
    check(model, ["h13", "m4"], progress=lambda what, _done, _total: told.append(what))
    assert "compiling for A14, M1" in told
    assert "compiling for M4" in told
    assert "comparing M1 with M4" in told
    bench(model, ["h13", "m4"], runs=1, progress=lambda what, _done, _total: told.append(what))
    assert "running on M1 (h13)" in told


def test_a_refusal_of_many_operations_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    x = af.input((1, 8), name="x")
    af.save_mil(af.Graph({f"y{number}": af.topk(x + float(number), 2)[0] for number in range(40)}), "many")
    assert main.run(["run", "many/model.mil", "-t", "m1", "--seed", "0"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: on M1, A14 (h13): the graph cannot run, 40 findings:\n")
    assert error.count("h13") == 1
    assert error.count("ANE-FLOOR-002") == 1
    assert "And 39 more such operations." in error


def test_the_demonstration_is_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["demo", "--html", "story.html"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert lines[0].startswith("keyword-spotter: M1 ✗ topk · M3 ✓ after 2 splits ")
    assert "  the same slice: M1 inf, M4 5000, both exact" in lines
    assert any(line.startswith("  remedy: ") for line in lines)
    assert lines[-2].startswith("wrote story.html")
    assert lines[-1].startswith("next: aneforge check ")
    assert "<html" in Path("story.html").read_text(encoding="utf-8")


def test_the_list_of_commands_says_each_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main.run(["--help"]) == 0
    shown = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert {line.split()[0] for line in shown} == {name.partition(" ")[0] for name in COMMANDS}
    assert [line for line in shown if not line.endswith(".") or line.endswith("...") or len(line) > 80] == []


def test_a_demonstration_fails_on_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["demo", "keyword-spotter"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == "failed: 3 of 6 findings (1 reject, 2 oversize)"
    assert "--json" not in shown, "it has no such option"


def test_what_fails_is_said_in_the_words_of_the_option(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(model), "-t", "m1,m5", "--fail-on", "warn,divergence"]) == 1
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == "failed: 1 of 1 finding (1 warn), divergence"
    assert "\nM5: M1 and M5 may differ: " in shown
    af.save_mil(af.Graph({"y": af.input((1, 4, 1, 20_000), name="x").relu()}), "small")
    capsys.readouterr()
    assert main.run(["check", "small/model.mil", "-t", "m1", "--min-native", "0.5"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "M1: ANE-NATIVE-001: 0.0% of" in shown
    assert shown.endswith("failed: 2 of 2 findings (2 oversize), min-native; --fail-on reject lets splitting pass")
    assert main.run(["check", "small/model.mil", "-t", "m1", "--fail-on", "reject"]) == 0


def test_diff_and_doctor(model: Path, wide: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["check", str(model), "-t", "m1", "-q", "--json", "a.json"])
    main.run(["check", str(wide), "-t", "m1", "-q", "--json", "b.json"])
    assert main.run(["diff", "a.json", "a.json"]) == 0
    assert "no change" in capsys.readouterr().out
    assert main.run(["diff", "a.json", "b.json"]) == 1
    assert "+ ANE-EXTENT-001 oversize: conv conv1" in capsys.readouterr().out
    assert main.run(["diff", "b.json", "a.json"]) == 0
    assert "- ANE-EXTENT-001" in capsys.readouterr().out
    assert main.run(["doctor"]) in (0, 1)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Neural Engine; recommended, published latency 80 to 110 µs" in shown
    meaning = "The mathematical meaning of the graph in float64: a reference of values."
    assert f"CPU of this machine; baseline. {meaning}" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "missing.onnx"], "error: at missing.onnx: there is no such file. Remedy: check the path"),
        (["check", "."], "the folder is not a model"),
        (["check", "empty.onnx"], "error: at empty.onnx:"),
        (["check", "text.onnx"], "unknown format: expected ONNX model, "),
        (["check", "cut.onnx"], "error: at cut.onnx: the bytes are not an ONNX model"),
        (["check", "masked.onnx", "-t", "m99"], "unknown target 'm99'"),
        (["check", "masked.onnx", "--fail-on", "everything"], "unknown condition to fail on 'everything'"),
        (["check", "masked.onnx", "--shape", "x"], "--shape is not of the form NAME=LENGTHS (got x)"),
        (["check", "masked.onnx", "--shape", "a=1", "--shape", "a=2"], "--shape names something twice (got a=2)"),
        (["check", "masked.onnx", "--max-abs", "x=many"], "--max-abs is not of the form NAME=NUMBER (got x=many)"),
        (["check", "masked.onnx", "--inputs", "missing.npz"], "the inputs cannot be read"),
        (["check", "masked.onnx", "--inputs", "text.onnx"], "the file is not an .npz archive of arrays"),
        (["check", "masked.onnx", "--baseline", "text.onnx"], "this is not a report of aneforge"),
        (["check", "masked.onnx", "--json", "missing/a.json"], "the file cannot be written"),
        (["check", "masked.onnx", "--placement", "nowhere"], "unknown path 'nowhere'"),
        (["check", "open.onnx"], "hint: here that is --shape batch=1\n"),
        (["check", "masked.onnx", "--json", "a", "--csv", "a"], "two forms would be written to the same file"),
        (["check", "masked.onnx", "--json", "-", "--csv", "-"], "only one form can be printed (got --json - and"),
        (["check", "masked.onnx", "--inputs", "objects.npz"], "(got arrays of objects)"),
        (["compile", "masked.onnx", "-t", "m1,m4"], "a model is compiled for one target (got M1 (h13), M4 (h16g))"),
        (
            ["compile", "masked.onnx", "-t", "m1", "-o", "out"],
            "the ending of the path names no form to write (got -o out, expected .mil, ",
        ),
        (
            ["reduce", "masked.onnx", "--keep", "rule ANE-QUIRK-003 m4", "-o", "empty.onnx/x"],
            "at empty.onnx/x: the folder cannot be made (got empty.onnx is not a folder)",
        ),
        (
            ["reduce", "masked.onnx", "--keep", "rule ANE-EXTENT-001"],
            "the model does not have the property that is to be kept",
        ),
        (["run", "masked.onnx"], "no target is named"),
        (["run", "masked.onnx", "-t", "m1"], "no values are given for input x [1, 8, 1, 64]"),
        (["run", "masked.onnx", "-t", "m1", "--backend", "gpu"], "unknown backend 'gpu'"),
        (["bench", "masked.onnx"], "no target is named"),
        (["compare", "masked.onnx"], "no target is named"),
        (
            ["compare", "masked.onnx", "-t", "m1", "--expect", "a.npz", "--against", "m4"],
            "--expect and --against cannot be used together (got --expect and --against)",
        ),
        (["compare", "masked.onnx", "-t", "m1", "--mark", "some"], "--mark takes one word (got some, expected all)"),
        (["reduce", "masked.onnx", "--keep", "this"], "this is not a property that can be kept"),
        (["explain", "ANE-1"], "unknown rule 'ANE-1'"),
        (["explain", "op", "conw"], "nearest: conv"),
        (["explain", "route", "directly"], "unknown route 'directly'; nearest: direct"),
        (["explain", "chaining", "ANEBufer"], "nearest: _ANEBuffer"),
        (["targets", "some"], "unknown target group 'some'"),
        (["demo", "bert"], "unknown embedded model 'bert'"),
        (["diff", "missing.json", "missing.json"], "the report cannot be read"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.onnx").touch()
    Path("text.onnx").write_text("hello", encoding="utf-8")
    Path("cut.onnx").write_bytes(model.read_bytes()[:200])
    saved(Path("open.onnx"), batch="batch")
    np.savez("objects.npz", x=np.array([{}], dtype=object))
    assert main.run(arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert shown.err.startswith("error: ")
    assert shown.out == ""


@pytest.mark.parametrize("arguments", [["check"], ["bogus"], ["check", "--bogus", "m"], ["compile", "masked.onnx"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 2
    assert "Usage: aneforge" in capsys.readouterr().err


def test_debug_shows_the_traceback(model: Path) -> None:
    with pytest.raises(GraphError):
        main.run(["check", str(model), "--shape", "x", "--debug"])


def test_an_internal_error_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from aneforge.commands import checking  # noqa: PLC0415 - a module of which a function is replaced

    def broken(*arguments: object, **options: object) -> None:
        del arguments, options
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(checking, "check", broken)
    assert main.run(["check", "m.onnx"]) == 3
    assert capsys.readouterr().err.startswith("internal error: ZeroDivisionError: oh\n")


def test_a_missing_package_is_named_with_its_install_line(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util  # noqa: PLC0415 - it is replaced here alone

    def nothing(name: str) -> None:
        del name

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    assert main.run(["check", str(model)]) == 2
    assert "pip install 'aneforge-open[onnx]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "wanted", "arguments"),
    [
        ("jinja2", "jinja2", ["check", "masked.onnx", "--html", "a.html"]),
        ("onnx", "'aneforge-open[onnx]'", ["check", "masked.onnx", "--netron", "a.onnx"]),
        ("coremltools", "'aneforge-open[coreml]'", ["compile", "masked.onnx", "-t", "m4", "--emit", "mlpackage"]),
    ],
)
def test_a_missing_package_is_named_before_the_model_is_read(
    package: str,
    wanted: str,
    arguments: list[str],
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import importlib.util  # noqa: PLC0415 - it is replaced here alone

    from aneforge.commands import model_and_targets  # noqa: PLC0415 - a module of which a function is replaced
    from aneforge.formats.mlpackage import messages  # noqa: PLC0415 - what it remembers is forgotten

    def unread(*given: object, **options: object) -> None:
        raise AssertionError(f"{given} {options} was read before the package was missed")

    installed = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else installed(name))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - the form of the function
    monkeypatch.setattr(model_and_targets, "load_model", unread)
    monkeypatch.delitem(sys.modules, "coremltools.proto", raising=False)
    messages.messages.cache_clear()
    assert main.run(arguments) == 2
    assert f"pip install {wanted}" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == [model.name]


def test_an_interrupt_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from aneforge.commands import checking  # noqa: PLC0415 - a module of which a function is replaced

    def interrupted(*arguments: object, **options: object) -> None:
        del arguments, options
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "check", interrupted)
    assert main.run(["check", "m.onnx"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_arguments_as_users_write_them() -> None:
    assert parse_shapes(["a=1", "b=1, 2", "c=d=3"]) == {"a": 1, "b": (1, 2), "c=d": 3}
    assert parse_shapes(None) is None
    assert parse_magnitudes(["a=1e3"]) == {"a": 1000.0}
    np.save("one.npy", np.zeros(3))
    with pytest.raises(GraphError, match="one array without a name"):
        read_arrays(Path("one.npy"))
    with pytest.raises(GraphError) as raised:
        read_arrays(Path("one.npy"))
    assert "archive" not in str(raised.value), "one error, not one inside another"


def test_progress_waits_and_goes_away() -> None:
    shown = Progress("reading")
    assert not shown.timer.is_alive(), "nobody waits at a pipe"
    shown.tell("fast", 0, 1)
    assert shown.shown is None
    shown.show()  # as the timer does
    assert shown.shown is not None
    assert shown.shown.status == "fast"
    shown.tell("slow", 1, 3)
    assert shown.shown.status == "slow (1 of 3 done)"
    shown.end()
    late = Progress("reading")
    late.end()
    late.show()
    assert late.shown is None, "what ended shows nothing"


def test_warnings_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    main.show_warning(af.PrecisionWarning("lossy"), af.PrecisionWarning, "file.py", 1)
    assert capsys.readouterr().err == "warning: lossy\n"
