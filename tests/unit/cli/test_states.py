"""Models with states at the command line: where they start, what they hold at the end, and what cannot take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aneforge as af
from aneforge.cli import main
from aneforge.cli.arguments import read_arrays

SHAPE = (1, 4, 1, 32)


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in a folder with a model that keeps something, in both forms, and with inputs."""
    monkeypatch.chdir(tmp_path)
    x, kept = af.input(SHAPE, name="x"), af.state("cache", SHAPE)
    new = kept * 0.5 + x
    graph = af.Graph({"y": new.relu()}, {"cache": new})
    af.save_mil(graph, "kept")
    af.save_mlpackage(graph, "kept.mlpackage")
    np.savez("x.npz", x=np.ones(SHAPE))
    np.savez("both.npz", x=np.ones(SHAPE), cache=np.full(SHAPE, 2.0))


@pytest.mark.parametrize("model", ["kept/model.mil", "kept.mlpackage"])
def test_a_state_starts_at_zero_or_as_given_and_is_written(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for inputs, expected in (("x.npz", 1.0), ("both.npz", 2.0)):
        assert main.run(["run", model, "-t", "m4", "--inputs", inputs, "-o", "y.npz"]) == 0
        found = read_arrays(Path("y.npz"))
        assert sorted(found) == ["cache", "y"]
        assert np.all(found["cache"] == expected)
        assert "state cache [1, 4, 1, 32] float16: " in capsys.readouterr().out
    assert main.run(["run", model, "-t", "m1,m4", "--inputs", "x.npz", "-o", "y.npz"]) == 0
    assert sorted(read_arrays(Path("y.npz"))) == ["h13.cache", "h13.y", "h16g.cache", "h16g.y"]


def test_a_state_and_an_output_of_one_name_are_both_written() -> None:
    new = af.state("kept", SHAPE) + af.input(SHAPE, name="x")
    af.save_mil(af.Graph({"kept": new.relu()}, {"kept": new}), "same")
    assert main.run(["run", "same/model.mil", "-t", "m4", "--inputs", "x.npz", "-o", "y.npz"]) == 0
    assert sorted(read_arrays(Path("y.npz"))) == ["kept", "kept.state"]


def test_every_command_takes_a_model_with_states(capsys: pytest.CaptureFixture[str]) -> None:
    model = "kept/model.mil"
    assert main.run(["check", model, "-t", "m1,m4", "--deep", "--inputs", "both.npz"]) == 0
    assert main.run(["compare", model, "-t", "m4", "--inputs", "both.npz", "--mark", "all"]) == 0
    assert "3 values compared" in capsys.readouterr().out
    assert main.run(["bench", model, "-t", "m4", "--runs", "1"]) == 0
    for form in ("mil", "mlpackage", "program", "text"):
        assert main.run(["compile", model, "-t", "m4", "--emit", form, "-o", f"{form}.mlpackage"]) == 0
    assert main.run(["run", "mlpackage.mlpackage", "-t", "m4", "--inputs", "x.npz"]) == 0
    np.savez("large.npz", x=np.full(SHAPE, 6e4), cache=np.full(SHAPE, 6e4))
    assert main.run(["reduce", model, "--keep", "nan m4", "--inputs", "large.npz"]) == 0
    assert sorted(read_arrays(Path("reduced/inputs.npz"))) == ["value_0", "value_2"]
    capsys.readouterr()
    assert main.run(["run", "reduced/model.mil", "-t", "m4", "--inputs", "reduced/inputs.npz"]) == 0
    assert "not finite" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "kept/model.mil", "-t", "m4", "--emit", "netplist"], "a description has no key for tensors that"),
        (["reduce", "kept/model.mil", "--keep", "nan m4"], "Its states were treated as inputs"),
        (["run", "kept/model.mil", "-t", "m4", "--inputs", "bad.npz"], "input 'cache' has the wrong shape"),
    ],
)
def test_what_cannot_take_states_says_so(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("bad.npz", x=np.ones(SHAPE), cache=np.ones((1, 2)))
    assert main.run(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_state_that_is_only_read_is_looked_at_and_compared() -> None:
    af.save_mil(af.Graph({"y": (af.state("cache", SHAPE) + af.input(SHAPE, name="x")).relu()}), "read")
    assert main.run(["check", "read/model.mil", "-t", "m1,m4", "--deep"]) == 0
    assert main.run(["compare", "read/model.mil", "-t", "m1,m4", "--inputs", "both.npz"]) == 0
    assert main.run(["compile", "read/model.mil", "-t", "m4", "--emit", "program", "-o", "read.aneprg"]) == 0
