"""The programs of the documentation of cross-chip deployment and of dispatch backends, word for word."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import aneforge as af

COMPILING_FOR_ANOTHER_CHIP = """
import aneforge as af
from aneforge import _targets as tg

x = af.input((1, 3, 32, 32))
y = af.conv(x, W, pad=1).relu()             # any aneforge graph

rep = tg.preflight(y, tg.Family.A13)        # will it run on an M1?
print(rep.ok, [r.op for r in rep.reject], [r.op for r in rep.oversize])

af.compile(y, target="h13")                 # gate + lower for M1 from any host
"""


def run(program: str, **names: object) -> dict[str, Any]:
    """Run a program as a user would, and return its names."""
    scope: dict[str, Any] = dict(names)
    exec(compile(program, "documentation.py", "exec"), scope)  # noqa: S102 - the subject of the test
    return scope


def test_compiling_for_another_chip(capsys: pytest.CaptureFixture[str]) -> None:
    run(COMPILING_FOR_ANOTHER_CHIP, W=np.ones((8, 3, 3, 3), np.float32))
    assert capsys.readouterr().out == "True [] []\n"


def test_a_quick_try_from_python() -> None:
    """Build a graph, compile it, call it; the host is not known here, and that is said once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(
            "import aneforge as af\nx = af.input((1, 4))\nnet = af.compile(x.relu())\nout = net(data)",
            data=np.array([[-1, 0, 1, 2]]),
        )
    assert found["out"].tolist() == [[0, 0, 1, 2]]


@pytest.mark.parametrize("target", ["h13", 2, af.targets.Family.A13])
def test_a_target_is_a_name_a_family_or_its_number(target: str | int) -> None:
    assert af.compile(af.input((1, 4)).relu(), target=target).target == "h13"


def test_the_host_is_the_default_and_the_environment_overrides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "h16s")
    assert af.compile(af.input((1, 4)).relu()).target == "h16s"


def test_the_slice_saturates_silently_on_the_engine_and_compile_warns() -> None:
    out = af.input((1, 1, 1, 8)).slice_by_size([0, 0, 0, 4], [1, 1, 1, 4])
    sample = np.array([0, 0, 0, 0, 4094, -4094, 5000, -5000], np.float32).reshape(1, 1, 1, 8)
    with pytest.warns(af.SliceSaturationWarning):
        oldest = af.compile(out, target="h13")
    later = af.compile(out, target="h16s")
    assert oldest(sample).ravel().tolist() == [4094, -4094, np.inf, -np.inf]
    assert later(sample).ravel().tolist() == [4094, -4094, 5000, -5000]


def test_the_cross_chip_warning_can_be_silenced_as_documented() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=af.CrossChipFP16Warning)
        warnings.warn("a heads-up", af.CrossChipFP16Warning, stacklevel=1)


def test_auto_compression_is_family_aware_and_explicit_modes_are_not_filtered() -> None:
    weight = np.random.default_rng(8).standard_normal((64, 64)).astype(np.float16)
    out = af.input((1, 64)).linear(weight)
    by_family = {
        target: {report.encoding for report in af.compile(out, compress="auto", target=target).weights}
        for target in ("h13", "h16s")
    }
    assert "int8" not in by_family["h13"]
    assert [report.encoding for report in af.compile(out, compress="int8", target="h13").weights] == ["int8"]
