"""Functions of one number after an operation: the same with and without a table, and one table for layers alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.epilogue import Pointwise
from aneforge.engine.execution.run import prepare
from aneforge.engine.kernels import library

pytestmark = pytest.mark.skipif(library.library() is None, reason="without the kernels there are no tables")
EVERY = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(256, 256)


def graphs() -> dict[str, af.Tensor]:
    x = af.input((256, 256), name="x")
    return {
        "offset, relu": (x + 0.5).relu(),
        "gain, erf": (x * 3.0).erf(),
        "gain, offset, clip": (x * 0.25 - 1.0).clip(-0.0, 6.0),
        "sigmoid, gain": x.sigmoid() * 2.0,
    }


def never(*_: object) -> bool:
    return False


@pytest.mark.parametrize("name", graphs())
def test_the_first_numbers_come_without_a_table_and_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build_program(graphs()[name], "h13")
    rows = [EVERY[row : row + 1].repeat(256, 0) for row in (0, 60, 124, 128, 188, 252)]
    with_table = prepare(program)
    expected = [with_table.run({"x": row}) for row in rows]
    monkeypatch.setattr(Pointwise, "pays_table", never)
    without = prepare(program)
    for row, wanted in zip(rows, expected, strict=True):
        found = without.run({"x": row})
        assert np.array_equal(found.outputs["y"].view(np.uint16), wanted.outputs["y"].view(np.uint16))
        assert found.label == wanted.label


def test_layers_alike_share_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pointwise] = []
    looked_up = Pointwise.looked_up

    def noted(self: Pointwise, x: npt.NDArray[np.float16]) -> npt.NDArray[np.float16]:
        made.append(self)
        return looked_up(self, x)

    monkeypatch.setattr(Pointwise, "looked_up", noted)
    value = af.input((1, 8), name="x")
    for _ in range(40):
        value = (value * 0.734375).relu()
    ready = prepare(build_program(value, "h13"))
    for _ in range(3):
        ready.run({"x": np.ones((1, 8), np.float16)})
    assert made
    assert len(set(map(id, made))) == 1
    assert len(made) == 3 * 40 - 15  # sixteen calls of a few numbers pay for it


@pytest.mark.parametrize(("alpha", "beta"), [(-1.5, 0.25), (1.5, 0.25), (-1.0, 0.0), (0.0, -2.0)])
def test_a_function_that_is_negative_at_infinity_is_no_rectifier(alpha: float, beta: float) -> None:
    values = np.linspace(-4, 4, 70_000, dtype=np.float16).reshape(1, 7, 100, 100)
    graph = af.Graph({"y": (af.input(values.shape, name="x") * 2.0).linear_activation(alpha, beta)})
    found = af.compile(graph, target="m1")(x=values)
    whole = found["y"] if isinstance(found, dict) else found
    np.testing.assert_allclose(np.asarray(whole, np.float64), values * 2.0 * alpha + beta, rtol=2e-3, atol=1e-3)
