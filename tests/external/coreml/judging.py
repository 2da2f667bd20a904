"""coremltools' own operator cases, each judged by what the importer makes of its program.

A case is a program that a test of coremltools converted, inputs, and the outputs that Core ML is expected to give, with
tolerances. Its graph is evaluated by the reference meaning. A program that holds half precision anywhere is given its
rounding on top of the case's tolerances: its expectation was computed in other orders and precisions.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import AneforgeError
from aneforge.formats.mil.binding import held_type
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mlpackage.mlpackage_model import parse_model
from aneforge.graph.reference import evaluate
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.formats.mil.syntax import Function, Statement
    from aneforge.formats.mlpackage.mlpackage_model import MlPackage
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array

__all__ = ["EQUAL", "RESULTS", "Case", "Judged", "Outcome", "Row", "judge", "read_rows", "rows_text"]

RESULTS = Path(__file__).parent / "results" / "operators.csv"
HALF = 2**-8
"""Four steps of half precision, relative to the largest expected number or to 1."""
NOT_KNOWN = "MIL-PARAM-004"
"""The rule about a parameter that is not known when the program is read."""
FEW = 16
"""Elements of inputs that may be parameters, where no integers are."""


class Outcome(StrEnum):
    """What became of a case, the best first."""

    EQUAL = "equal"
    FIXED = "equal with parameters fixed"
    """An input that decides a shape, or a place to slice at, was given by `values`."""
    UNSUPPORTED = "unsupported"
    EXPECTATION = "the expectation contradicts its documentation"
    ROUNDED = "the expectation is rounded"
    WRONG = "wrong"
    BROKEN = "broken"


EQUAL = (Outcome.EQUAL, Outcome.FIXED)
UNSUPPORTED = {
    "classify": "labels of classes are texts",
    "known at run time": "a shape or a number of turns that only a run decides",
    "found any number of axes": "a shape or a number of turns that only a run decides",
    "not known when": "a shape or a number of turns that only a run decides",
    "no operation": "the op table has no such operation",
    "the list has no such place": "a list that grows while it is written",
}
"""Words of errors that may refuse a case, and the reasons that the table of results gives."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A difference that is understood: how many elements differ, and by how much at most."""

    outcome: Outcome
    reason: str
    elements: int
    most: float


CROP = "test_image_resizing.py::TestCropResize::test_builder_to_backend"
CUT_OFF = Declared(Outcome.ROUNDED, "7.899 for 1 + 4 · 1.5 + 0.9", 1, 1.01e-3)
OUT_OF_RANGE = Declared(
    Outcome.EXPECTATION, "a box of 1 to 2, where the documentation asks for fractions of the image", 4, 13.5
)
DECLARED = {
    ("iOS14/test_normalization.py::TestNormalizationLocalResponseNorm::test_builder_to_backend_smoke", ""): Declared(
        Outcome.EXPECTATION, "numbers of a tensor of rank 3 are those of a sum over the batch", 4, 0.0111
    ),
    (f"iOS15/{CROP}_smoke", "is_symbolic=False"): OUT_OF_RANGE,
    (f"iOS15/{CROP}_smoke", "is_symbolic=True"): OUT_OF_RANGE,
    (f"iOS16/{CROP}_ios16", "pad_value=0.0"): CUT_OFF,
    (f"iOS16/{CROP}_ios16", "pad_value=1.0"): CUT_OFF,
    (f"iOS16/{CROP}_ios16", "pad_value=10.0"): CUT_OFF,
    (f"iOS17/{CROP}_ios17", "N=3"): CUT_OFF,
}
"""Tests, with their parameters, whose numbers differ for a reason that is understood, and the difference."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a program, and inputs with the outputs that are expected."""

    test: str
    """Module, class and function of the test."""
    parameters: str
    """The parameters of the test, but for those of all: the backend and where it computes."""
    model: bytes
    weights: Path | None
    """The folder of the weights file."""
    inputs: Mapping[str, object]
    expected: Mapping[str, object]
    relative: float
    absolute: float
    mismatches: float
    """Share of elements that may be beyond the tolerances."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a case."""

    test: str
    operators: tuple[str, ...]
    outcome: Outcome
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """How numbers differ beyond the tolerances."""

    text: str
    elements: int
    largest: float


def judge(case: Case) -> Judged:
    """Return what becomes of a case."""
    operators: tuple[str, ...] = ()
    try:
        package = parse_model(case.model, case.test, case.weights, case.weights)
        function = package.syntax.functions[package.default_function]
        operators = tuple(dict.fromkeys(operators_of(function.statements)))
        graph, fixed = imported(package, function, case.inputs)
        found = compared(case, graph, is_half(function))
    except AneforgeError as error:
        words = str(error)
        reason = next((reason for mark, reason in UNSUPPORTED.items() if mark in words), None)
        outcome = Outcome.BROKEN if reason is None else Outcome.UNSUPPORTED
        return Judged(case.test, operators, outcome, reason or "", words)
    except Exception as error:  # noqa: BLE001 - whatever else is raised is what this looks for
        return Judged(case.test, operators, Outcome.BROKEN, "", f"{type(error).__name__}: {error}")
    if found is None:
        return Judged(case.test, operators, Outcome.FIXED if fixed else Outcome.EQUAL)
    declared = DECLARED.get((case.test, case.parameters))
    if declared is not None and found.elements == declared.elements and found.largest <= declared.most:
        return Judged(case.test, operators, declared.outcome, declared.reason, found.text)
    return Judged(case.test, operators, Outcome.WRONG, "", f"[{case.parameters}] {found.text}")


def operators_of(statements: Iterable[Statement]) -> Iterable[str]:
    """Yield the operations of statements and of blocks inside of them."""
    for statement in statements:
        if statement.op != "const":
            yield statement.op
        for block in statement.blocks:
            yield from operators_of(block.statements)


def is_half(function: Function) -> bool:
    """Return whether a function holds half precision anywhere."""
    kinds = [port.type for port in function.inputs]
    kinds += [result.type for statement in function.statements for result in statement.results]
    return any("fp16" in str(kind) for kind in kinds)


def imported(package: MlPackage, function: Function, inputs: Mapping[str, object]) -> tuple[Graph, bool]:
    """Return the graph of a program, and whether inputs had to be fixed for it."""
    arrays = {port.name: np.asarray(inputs[port.name]) for port in function.inputs if port.name in inputs}
    kinds = {port.name: held_type(port) for port in function.inputs}
    shapes = {name: array.shape for name, array in arrays.items() if not kinds[name].known}
    known = {name: array if name in shapes else array.reshape(kinds[name].shape) for name, array in arrays.items()}
    whole = {name: array for name, array in known.items() if not is_float(kinds[name].dtype)}
    few = {name: array for name, array in known.items() if array.size <= FEW}
    for values in ({}, whole, few):
        try:
            return package.graph(shapes=shapes, values=values), bool(values)
        except MilError as error:
            if error.rule != NOT_KNOWN:
                raise
    return package.graph(shapes=shapes, values=known), True


def compared(case: Case, graph: Graph, half: bool) -> Difference | None:  # noqa: FBT001 - a property of the program
    """Return how a graph's results differ from what a case expects; None if they do not."""
    feeds: dict[str, Array] = {}
    for name, node in graph.inputs.items():
        kind = node.types[0]
        dtype = np.dtype(np.float64) if is_float(kind.dtype) else numpy_dtype(kind.dtype)
        feeds[name] = np.asarray(case.inputs[name]).astype(dtype).reshape(kind.shape)
    results, _ = evaluate(graph, feeds)
    for name, one in case.expected.items():
        problem = difference(case, np.asarray(results[name]), np.asarray(one), half)
        if problem is not None:
            return replace(problem, text=f"output {name!r}: {problem.text}")
    return None


def difference(case: Case, found: Array, wanted: Array, half: bool) -> Difference | None:  # noqa: FBT001 - a property of the program
    """Return how numbers differ beyond the tolerances."""
    if found.size != wanted.size:
        text = f"{list(found.shape)} where {list(wanted.shape)} is expected"
        return Difference(text, max(found.size, wanted.size), math.inf)
    numbers, expected = found.reshape(wanted.shape).astype(np.float64), wanted.astype(np.float64)
    largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1))
    absolute = max(case.absolute, HALF * largest) if half else case.absolute
    close = np.isclose(numbers, expected, max(case.relative, HALF if half else 0), absolute, equal_nan=True)
    if close.all() or np.count_nonzero(~close) <= case.mismatches * close.size:
        return None
    place = np.unravel_index(int(np.argmin(close)), close.shape)
    count = int(np.count_nonzero(~close))
    with np.errstate(invalid="ignore"):
        largest = float(np.max(np.abs(numbers - expected)[~close]))
    text = f"{count} of {close.size} differ, by up to {largest:.3g}: {numbers[place]} for {expected[place]}"
    return Difference(text, count, largest)


# The table of results: how many cases of a test had an outcome.


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A line of the table."""

    test: str
    operators: str
    outcome: str
    reason: str
    cases: int


def rows_text(judged: Iterable[Judged]) -> str:
    """Return the table as it is committed."""
    counts = Counter((one.test, " ".join(sorted(one.operators)), one.outcome.value, one.reason) for one in judged)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("test", "operators", "outcome", "reason", "cases"))
    writer.writerows((*key, count) for key, count in sorted(counts.items()))
    return text.getvalue()


def read_rows() -> list[Row]:
    """Return the table that is committed."""
    with RESULTS.open(encoding="utf-8", newline="") as file:
        rows = cast("Iterable[dict[str, str]]", csv.DictReader(file))
        return [Row(one["test"], one["operators"], one["outcome"], one["reason"], int(one["cases"])) for one in rows]
