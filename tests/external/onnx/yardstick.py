"""ONNX's own conformance cases, each judged by what the importer makes of it.

A case is a small model with inputs, expected outputs and tolerances. Its graph is evaluated by the reference meaning,
and the results, in the element types of the graph's outputs, are compared. An input whose numbers decide a shape (the
target of a reshape, a list of axes) is fixed when the importer asks for it, and the case is counted apart.
"""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import aneforge as af
from aneforge.formats.onnx.binding import description
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.onnx.onnx_values import Foreign
from aneforge.formats.shared.findings import Reason, UnsupportedModelError
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.ops.types import Array

__all__ = [
    "DECLARED",
    "EQUAL",
    "KINDS",
    "Case",
    "Outcome",
    "Result",
    "cases",
    "judge",
    "read_results",
    "results_text",
    "table_of",
]

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
RESULTS = Path(__file__).parent / "results"
"""A table for each kind of cases."""
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
DECLARED = (
    Reason.STRING,
    Reason.SEQUENCE,
    Reason.OPTIONAL,
    Reason.MAP,
    Reason.DATA_SHAPE,
    Reason.HOST,
    Reason.TRAINING,
    Reason.DTYPE,
)
"""The only reasons for which a case may be unsupported."""
RANDOM_OPERATORS = {"Bernoulli", "RandomUniformLike"}
"""Operators of cases whose expected numbers were drawn, and cannot be drawn again."""
RELATIVE = {"bf16": 2**-6}
"""Two steps of bf16, the tolerance that onnx's own runner gives it."""
SINGLE_ROUNDINGS = 2**-22
"""Two roundings to single precision, relative to the largest number of an output."""


class Outcome(StrEnum):
    """What became of a case, the best first."""

    EQUAL = "equal"
    BOUND = "equal with parameters fixed"
    FOLDED = "equal and known when read"
    """No input is left in the graph: shapes and parameters alone decide the result."""
    ROUNDED = "equal but for the expectation's own rounding"
    """The expected numbers were computed in single precision, and are further from the truth than the tolerance."""
    DRAWN = "drawn at random"
    """Element type, shape and range are equal."""
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    BROKEN = "broken"


EQUAL = (Outcome.EQUAL, Outcome.BOUND, Outcome.FOLDED)


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a model, and inputs with the outputs that are expected."""

    kind: str
    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Sequence[object], Sequence[object]]]
    relative: float
    absolute: float

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of the model, in the order of their first use."""
        return tuple(dict.fromkeys(operator_name(node) for node in self.model.graph.node))


@dataclass(frozen=True, slots=True)
class Result:
    """A case and what became of it."""

    kind: str
    name: str
    operators: tuple[str, ...]
    outcome: Outcome
    reason: Reason | None = None
    detail: str = ""

    @property
    def row(self) -> tuple[str, ...]:
        """The line of the table of results."""
        return self.name, " ".join(self.operators), self.outcome, self.reason or ""


def operator_name(node: onnx.NodeProto) -> str:
    """Return an operator with its domain, where that is not the default one."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


# The cases.


@cache
def cases(kind: str) -> tuple[Case, ...]:
    """Return every case of a kind, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes some expectations with infinities
        found = load_model_tests(kind=kind)
    made = (
        Case(kind, one.name, one.model, cast("Data", one.data_sets), one.rtol, one.atol)
        if one.model is not None
        else light_case(one.name, Path(one.url).name, one.rtol, one.atol)
        if one.url is not None
        else stored_case(kind, one.name, Path(str(one.model_dir)), one.rtol, one.atol)
        for one in found
    )
    return tuple(sorted(made, key=lambda case: case.name))


Data = list[tuple[list[object], list[object]]]


def stored_case(kind: str, name: str, folder: Path, relative: float, absolute: float) -> Case:
    """Return a case whose model and data are files."""
    model = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes())
    data = [
        (stored_values(one, "input", model.graph.input), stored_values(one, "output", model.graph.output))
        for one in sorted(folder.glob("test_data_set_*"))
    ]
    return Case(kind, name, model, data, relative, absolute)


def stored_values(folder: Path, what: str, ports: Iterable[onnx.ValueInfoProto]) -> list[object]:
    """Return the values of inputs or outputs that are files; what is not a tensor is None."""
    return [
        numpy_helper.to_array(onnx.TensorProto.FromString((folder / f"{what}_{place}.pb").read_bytes()))
        if port.type.HasField("tensor_type")
        else None
        for place, port in enumerate(ports)
        if (folder / f"{what}_{place}.pb").exists()
    ]


def light_case(name: str, file: str, relative: float, absolute: float) -> Case:
    """Return a whole network without its trained weights; its input counts up, as onnx's own runner has it."""
    model = onnx.ModelProto.FromString((DATA / "light" / file).read_bytes())
    expected = onnx.TensorProto.FromString((DATA / "light" / file.replace(".onnx", "_output_0.pb")).read_bytes())
    inputs: list[object] = [counted(value) for value in fed(model)]
    return Case("real", name, model, [(inputs, [numpy_helper.to_array(expected)])], relative, absolute)


def counted(value: onnx.ValueInfoProto) -> Array:
    """Return numbers from 0 to 1 in the shape of an input."""
    shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def fed(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that have no initialiser."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in stored]


# The judgement.


def judge(case: Case, free: int | None = None) -> Result:
    """Return what becomes of a case: the worst that any of its sets of data shows.

    Where `free` is given, so many inputs stay inputs and the others are fixed from the start, as weights are.
    """
    outcomes = [judge_data(case, inputs, expected, free) for inputs, expected in case.data]
    return max(outcomes, key=lambda one: list(Outcome).index(one.outcome))


def judge_data(case: Case, inputs: Sequence[object], expected: Sequence[object], free: int | None) -> Result:
    """Return what becomes of a case with one set of inputs."""
    feeds = {port.name: as_array(value) for port, value in zip(fed(case.model), inputs, strict=False)}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Resize aligns corners")  # the cases are ONNX's own, whose way is taken
            graph, bound = imported(case.model, feeds, [] if free is None else list(feeds)[free:])
        problem, close = compared(case, graph, feeds, expected)
    except UnsupportedModelError as error:
        declared = all(finding.reason in DECLARED for finding in error.findings)
        reason, detail = error.findings[0].reason, str(error.findings[0])
        return result(case, Outcome.UNSUPPORTED if declared else Outcome.BROKEN, reason, detail)
    except Exception as error:  # noqa: BLE001 - whatever else is raised is what this looks for
        return result(case, Outcome.BROKEN, None, f"{type(error).__name__}: {error}")
    if problem:
        return result(case, Outcome.ROUNDED if close else Outcome.WRONG, None, problem)
    if not RANDOM_OPERATORS.isdisjoint(case.operators):
        return result(case, Outcome.DRAWN)
    return result(case, Outcome.EQUAL if not bound else Outcome.BOUND if graph.inputs else Outcome.FOLDED)


def result(case: Case, outcome: Outcome, reason: Reason | None = None, detail: str = "") -> Result:
    """Return what became of a case."""
    return Result(case.kind, case.name, case.operators, outcome, reason, detail)


def as_array(value: object) -> Array | None:
    """Return a value of a case as an array; None for what is not a tensor."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(cast("Array", value)) if isinstance(value, np.ndarray | np.generic) else None


def imported(
    model: onnx.ModelProto, feeds: Mapping[str, Array | None], fixed: Sequence[str]
) -> tuple[af.Graph, set[str]]:
    """Return the graph of a model, and which inputs were fixed for it, those included that had to be."""
    ports = [value.name for value in fed(model) if not isinstance(description(value), Foreign)]
    arrays = {name: value for name in ports if (value := feeds.get(name)) is not None}
    shapes = {name: value.shape for name, value in arrays.items()}
    contents = model.SerializeToString()
    bound = set(fixed) & arrays.keys()
    while True:
        try:
            return from_onnx(contents, shapes, values={name: arrays[name] for name in bound}), bound
        except UnsupportedModelError as error:
            asked = {name for finding in error.findings for name in finding.inputs}
            declared = all(finding.reason in DECLARED for finding in error.findings)
            if not declared or not asked - bound or not asked <= arrays.keys():
                raise
            bound |= asked


def compared(
    case: Case, graph: af.Graph, feeds: Mapping[str, Array | None], expected: Sequence[object]
) -> tuple[str, bool]:
    """Return how a graph's results differ from what a case expects, and whether by the expectation's rounding alone."""
    given = {name: value for name in graph.inputs if (value := feeds[name]) is not None}
    results = af.reference(graph, given)
    problems: list[str] = []
    close = True
    for (name, output), one in zip(graph.outputs.items(), expected, strict=True):
        with np.errstate(all="ignore"):
            found = np.asarray(results[name]).astype(numpy_dtype(output.dtype))
        wanted = as_array(one)
        if wanted is None or found.shape != wanted.shape or found.dtype != wanted.dtype:
            shown = "no tensor" if wanted is None else f"{wanted.dtype}{list(wanted.shape)}"
            return f"output {name!r}: {found.dtype}{list(found.shape)} where {shown} is expected", False
        relative = max(case.relative, RELATIVE.get(output.dtype, 0))
        problem, nearly = difference(widened(found), widened(wanted), case, relative)
        if problem:
            problems.append(f"output {name!r}: {problem}")
            close = close and nearly and found.dtype == np.float32
    return "; ".join(problems), close


def difference(found: Array, wanted: Array, case: Case, relative: float) -> tuple[str, bool]:
    """Return how numbers differ beyond the case's tolerances, and whether by two roundings of the largest at most."""
    if not RANDOM_OPERATORS.isdisjoint(case.operators):
        inside = found.min() >= wanted.min() and found.max() <= wanted.max()
        return "" if inside else "outside of the range", False
    close = np.isclose(found, wanted, relative, case.absolute, equal_nan=True)
    if close.all():
        return "", True
    finite = wanted[np.isfinite(wanted)]
    room = SINGLE_ROUNDINGS * float(np.max(np.abs(finite), initial=0))
    nearly = bool(np.isclose(found, wanted, relative, case.absolute + room, equal_nan=True).all())
    place = np.unravel_index(int(np.argmin(close)), close.shape)
    shown = f"{found[place]} for {wanted[place]} at {[int(one) for one in place]}"
    return f"{np.count_nonzero(~close)} of {close.size} differ: {shown}", nearly


def widened(array: Array) -> Array:
    """Return numbers in a type that NumPy compares; integers of 64 bits stay exact."""
    if array.dtype.kind in "biu" and array.dtype.isbuiltin == 1:
        return array
    return array.astype(np.float64)


# The table of results.


def results_text(results: Iterable[Result]) -> str:
    """Return the table of results as it is committed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("case", "operators", "outcome", "reason"))
    writer.writerows(one.row for one in results)
    return text.getvalue()


def table_of(kind: str) -> Path:
    """Return the file of a kind's results."""
    return RESULTS / f"{kind}.csv"


def read_results(kind: str) -> list[Result]:
    """Return the results of a kind that are committed."""
    with table_of(kind).open(encoding="utf-8", newline="") as file:
        return [
            Result(kind, row["case"], tuple(row["operators"].split()), Outcome(row["outcome"]), reason_of(row))
            for row in csv.DictReader(file)
        ]


def reason_of(row: Mapping[str, str]) -> Reason | None:
    """Return the reason of a line of the table."""
    return Reason(row["reason"]) if row["reason"] else None
