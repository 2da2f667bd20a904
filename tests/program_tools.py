"""Programs for tests: made of graphs, stripped of the places in which they were made, compared in meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aneforge.compiler.ir.evaluate import evaluate_program
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.pipeline import Pipeline
from aneforge.graph.graph import as_graph
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.passes.base import Pass
    from aneforge.graph.graph import GraphLike
    from aneforge.targets import Target

Array = npt.NDArray[Any]
ALGEBRAIC = 1e-12
"""How far two float64 evaluations may differ, relative to the largest value, if one is an algebraic form."""


def lowered(graph: GraphLike, target: str | Target = "h16g") -> Program:
    """Return the program of a graph before any pass, without places."""
    return anonymous(lower(as_graph(graph), resolve(target) if isinstance(target, str) else target))


def passed(graph: GraphLike, *passes: Pass, target: str | Target = "h16g") -> Program:
    """Return the program of a graph after some passes, without places."""
    return Pipeline(passes).run(lowered(graph, target))


def anonymous(program: Program) -> Program:
    """Return a program without the places in the user's files, so that golden texts do not follow line numbers."""
    return replace(program, layers=tuple(replace(layer, location=None) for layer in program.layers))


def kinds_of(program: Program) -> list[str]:
    """Return the kinds of a program's layers in order."""
    return [layer.kind.name for layer in program.layers]


def slots_of(program: Program) -> list[dict[str, str]]:
    """Return what fills the slots of every layer."""
    return [{slot.value: stage.kind.name for slot, stage in layer.epilogue} for layer in program.layers]


def expect_same_meaning(before: Program, after: Program, inputs: Mapping[str, Array], tolerance: float) -> None:
    """Check that two programs give the same, within a tolerance relative to the largest value of each output."""
    wanted, _ = evaluate_program(before, inputs)
    found, _ = evaluate_program(after, inputs)
    assert wanted.keys() == found.keys()
    for name, array in wanted.items():
        expect_close(array, found[name], tolerance)


def expect_close(wanted: Array, found: Array, tolerance: float) -> None:
    """Check that two arrays are alike: bits where they are not finite or the tolerance is 0, else within it."""
    assert wanted.shape == found.shape
    assert wanted.dtype == found.dtype
    if not tolerance or wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    finite = np.where(np.isfinite(wanted), wanted, 0)
    scale = max(1.0, float(np.max(np.abs(finite), initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
