"""PyTorch's own samples of its operators, each judged by what the importer makes of it.

`common_methods_invocations` lists operators with samples of their arguments. A sample is exported, imported, evaluated
by the graph's reference meaning, and compared with what PyTorch computes. Samples of one operator are exported
together, since an export costs far more than a sample; each is judged by its own results.

There are two ways in. *whole* is `from_torch` as a user calls it: what the op table has in one piece stays so. *core*
takes the program down to core ATen by PyTorch's own table first, so that the core operators themselves are seen.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import csv
import io
import warnings
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import aneforge as af
from aneforge.importers.findings import Reason
from aneforge.importers.torch_export.conversion import Reading
from aneforge.importers.torch_export.decomposition import decomposed
from aneforge.importers.torch_export.interpreter import Interpreter
from aneforge.importers.torch_export.reading import ReadProgram
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aneforge.importers.findings import Finding
    from aneforge.ops.types import Array

__all__ = [
    "DECLARED",
    "WAYS",
    "Outcome",
    "Tally",
    "core_operators",
    "judged",
    "operation_names",
    "read_results",
    "results_text",
    "table_of",
]

WAYS = ("whole", "core")
RESULTS = Path(__file__).parent / "results"
TOGETHER = 48
"""Samples that are exported at once."""
RELATIVE, ABSOLUTE = 1e-7, 1e-7
"""The tolerances that PyTorch's own tests have for double precision."""
NOT_EXPORTED = "not exportable by PyTorch"
DECLARED = (
    Reason.DATA_SHAPE,
    Reason.CONTROL,
    Reason.DTYPE,
    Reason.LAYOUT,
    Reason.TRAINING,
    Reason.FORM,
    Reason.OPERATOR,
    NOT_EXPORTED,
)
"""The only reasons for which a sample may be unsupported."""
UNDEFINED = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"})
"""Operators whose results hold whatever was in memory."""
SAMPLES_MOST = 400
"""Samples of one operator that are looked at, as PyTorch lists them; seven operators have more, 1,440 at most."""


class Outcome(StrEnum):
    """What became of a sample, the best first."""

    EQUAL = "equal"
    DRAWN = "drawn"
    """PyTorch itself gives something else each time: element type and shape are compared."""
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an operator: tensors to feed, and how to call it with them."""

    function: Callable[..., object]
    leaves: tuple[object, ...]
    structure: pytree.TreeSpec
    places: tuple[int, ...]
    """Which of the leaves are tensors."""

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the call."""
        return [cast("torch.Tensor", self.leaves[place]) for place in self.places]

    def call(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the tensors that the operator gives."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, named = cast(
            "tuple[tuple[object, ...], dict[str, object]]", pytree.tree_unflatten(leaves, self.structure)
        )
        found = pytree.tree_leaves(self.function(*arguments, **named))
        return [one for one in found if isinstance(one, torch.Tensor)]


class Together(torch.nn.Module):
    """Several samples as one module."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.samples = list(samples)

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Return the results of all samples."""
        results: list[torch.Tensor] = []
        start = 0
        for sample in self.samples:
            count = len(sample.places)
            results.extend(sample.call([one.clone() for one in tensors[start : start + count]]))
            start += count
        return results


@dataclass(slots=True)
class Tally:
    """What became of the samples of one operator."""

    operation: str
    way: str
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    reasons: Counter[str] = field(default_factory=Counter[str])
    operators: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    """The core operators in the programs, each with the worst outcome of a program that has it."""
    details: list[str] = field(default_factory=list[str])

    @property
    def row(self) -> tuple[str, ...]:
        """The line of the table of results."""
        counts = [str(self.outcomes[one]) for one in Outcome]
        reasons = "; ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        return self.operation, *counts, reasons

    def add(self, outcome: Outcome, count: int, operators: Iterable[str], reason: str = "", detail: str = "") -> None:
        """Count samples."""
        self.outcomes[outcome] += count
        if reason:
            self.reasons[reason] += count
        if detail and len(self.details) < 5:
            self.details.append(detail)
        ranks = list(Outcome)
        for name in operators:
            before = self.operators.get(name, Outcome.EQUAL)
            self.operators[name] = max(before, outcome, key=ranks.index)


# The samples.


@cache
def operation_names() -> tuple[str, ...]:
    """Return the name of every operator that has samples, its variant behind a dot."""
    return tuple(dict.fromkeys(name_of(one) for one in op_db))


def name_of(operation: object) -> str:
    """Return the name of an entry with its variant."""
    name, variant = (str(getattr(operation, part)) for part in ("name", "variant_test_name"))
    return f"{name}.{variant}" if variant else name


def samples_of(name: str) -> list[Sample]:
    """Return the samples of an operator, in double precision where it takes that."""
    found: list[Sample] = []
    for operation in (one for one in op_db if name_of(one) == name):
        dtype = next(
            (one for one in (torch.float64, torch.int64, torch.bool, torch.float32) if one in operation.dtypes), None
        )
        if dtype is None:
            continue
        torch.manual_seed(0)
        for sample in operation.sample_inputs("cpu", dtype, requires_grad=False):
            found.append(sample_made(operation.op, sample.input, sample.args, sample.kwargs))
            if len(found) == SAMPLES_MOST:
                break
    return found


def sample_made(function: Callable[..., object], first: object, rest: object, named: object) -> Sample:
    """Return a sample, its tensors told apart from its numbers."""
    leaves, structure = pytree.tree_flatten(((first, *cast("tuple[object, ...]", rest)), named))
    tensors = tuple(place for place, one in enumerate(leaves) if isinstance(one, torch.Tensor))
    return Sample(function, tuple(leaves), structure, tensors)


# The judgement.


def judged(name: str, way: str) -> Tally:
    """Return what becomes of all samples of an operator."""
    tally = Tally(name, way)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # samples of deprecated forms
        listed = samples_of(name)
        samples = [sample for sample in listed if stands_alone(sample)]
        if len(samples) < len(listed):
            tally.add(Outcome.UNSUPPORTED, len(listed) - len(samples), (), Reason.LAYOUT, "it reads around its tensors")
        for start in range(0, len(samples), TOGETHER):
            judge_together(tally, samples[start : start + TOGETHER])
    return tally


def stands_alone(sample: Sample) -> bool:
    """Tell whether a sample needs its tensors alone: some read the memory of which those are a part."""
    try:
        sample.call([tensor.clone() for tensor in sample.tensors])
    except RuntimeError:
        return False
    return True


def judge_together(tally: Tally, samples: Sequence[Sample]) -> None:
    """Judge samples that are exported at once; in halves where PyTorch cannot export them."""
    expected = [sample.call([tensor.clone() for tensor in sample.tensors]) for sample in samples]
    try:
        program = exported(samples, tally.way)
    except Exception as error:  # noqa: BLE001 - whatever is raised is why PyTorch cannot export a sample
        if len(samples) == 1:
            tally.add(Outcome.UNSUPPORTED, 1, (), NOT_EXPORTED, " ".join(str(error).split())[:200])
            return
        middle = len(samples) // 2
        judge_together(tally, samples[:middle])
        judge_together(tally, samples[middle:])
        return
    try:
        judge_program(tally, program, samples, expected)
    except Exception as error:  # noqa: BLE001 - an importer that breaks is what this looks for
        tally.add(Outcome.BROKEN, len(samples), (), "", f"{type(error).__name__}: {str(error)[:300]}")


def exported(samples: Sequence[Sample], way: str) -> torch.export.ExportedProgram:
    """Return samples as one program, taken apart by PyTorch's own table or as the importer takes it apart."""
    tensors = [tensor for sample in samples for tensor in sample.tensors]
    program = torch.export.export(Together(samples), tuple(tensors), strict=False)
    return decomposed(program.run_decompositions() if way == "core" else program)


def judge_program(
    tally: Tally,
    program: torch.export.ExportedProgram,
    samples: Sequence[Sample],
    expected: Sequence[Sequence[torch.Tensor]],
) -> None:
    """Judge every sample of a program by its own results."""
    reading = Reading(program, ReadProgram(program, None, owned=False), Interpreter(None), copied=True)
    outputs = reading.ports(None, None)[0]
    findings = {finding.node: finding for finding in reading.interpreter.gathering.findings}
    tensors = [tensor for sample in samples for tensor in sample.tensors]
    graph = af.Graph(outputs) if outputs else None
    feeds = {name: tensors[int(name.rpartition("_")[2])].numpy() for name in (graph.inputs if graph else ())}
    results = af.reference(graph, feeds) if graph else {}
    nodes = cast("Sequence[object]", program.graph.output_node().args[0])
    place = 0
    for sample, wanted in zip(samples, expected, strict=True):
        behind = nodes_behind(nodes[place : place + len(wanted)])
        operators = {str(node.target) for node in behind if node.op == "call_function"}
        stopped = [findings[node.name] for node in behind if node.name in findings]
        names = [f"y{place + number}" for number in range(len(wanted))]
        place += len(wanted)
        if stopped or any(name not in outputs for name in names):
            judge_stopped(tally, stopped)
            continue
        loose = is_loose(tally, [sample])
        types = {name: outputs[name].dtype for name in names}
        problems = [
            difference(results[name], types[name], one, loose=loose) for name, one in zip(names, wanted, strict=True)
        ]
        problem = next((one for one in problems if one), "")
        outcome = Outcome.WRONG if problem else Outcome.DRAWN if loose else Outcome.EQUAL
        tally.add(outcome, 1, operators, "", problem)


def nodes_behind(outputs: Sequence[object]) -> list[torch.fx.Node]:
    """Return the nodes that results are computed from."""
    stack = [one for one in outputs if isinstance(one, torch.fx.Node)]
    seen = dict.fromkeys(stack)
    while stack:
        for source in stack.pop().all_input_nodes:
            if source not in seen:
                seen[source] = None
                stack.append(source)
    return list(seen)


def judge_stopped(tally: Tally, findings: Sequence[Finding]) -> None:
    """Count a sample that findings stop."""
    reasons = [finding.reason for finding in findings]
    declared = bool(reasons) and all(reason in DECLARED for reason in reasons)
    operators = [finding.operator for finding in findings]
    detail = str(findings[0]) if findings else "a result is lost without a finding"
    tally.add(Outcome.UNSUPPORTED if declared else Outcome.BROKEN, 1, operators, reasons[-1] if reasons else "", detail)


def is_loose(tally: Tally, samples: Sequence[Sample]) -> bool:
    """Tell whether results are compared by element type and shape alone: PyTorch gives others with another seed."""
    return tally.operation.partition(".")[0] in UNDEFINED or any(is_drawn(sample) for sample in samples)


def is_drawn(sample: Sample) -> bool:
    """Tell whether PyTorch itself gives something else with another seed."""
    results: list[list[Array]] = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found = sample.call([one.clone() for one in sample.tensors])
        results.append([one.detach().resolve_conj().resolve_neg().numpy() for one in found])
    return any(
        not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc") for one, other in zip(*results, strict=True)
    )


def difference(result: Array, dtype: str, wanted: torch.Tensor, *, loose: bool) -> str:
    """Return how a result differs from PyTorch's; nothing where it does not."""
    with np.errstate(all="ignore"):
        found = np.asarray(result).astype(numpy_dtype(dtype))
    expected = wanted.detach().resolve_conj().resolve_neg().numpy()
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} where {expected.dtype}{list(expected.shape)} is expected"
    if loose:
        return ""
    real = found.dtype.kind == "f"
    close = np.isclose(found, expected, RELATIVE, ABSOLUTE, equal_nan=True) if real else found == expected
    if np.all(close):
        return ""
    place = np.unravel_index(int(np.argmin(close)), close.shape)
    return f"{np.count_nonzero(~close)} of {close.size} differ: {found[place]} for {expected[place]}"


def core_operators() -> list[str]:
    """Return every form of an operator that PyTorch calls core."""
    found: list[str] = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        forms = packet.overloads() if hasattr(packet, "overloads") else ()
        found.extend(str(getattr(packet, form)) for form in forms if torch.Tag.core in getattr(packet, form).tags)
    return found


# The tables of results.


def results_text(tallies: Iterable[Tally]) -> str:
    """Return a table of results as it is committed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("operation", *Outcome, "reasons"))
    writer.writerows(one.row for one in tallies)
    return text.getvalue()


def table_of(way: str) -> Path:
    """Return the file of the results of one way."""
    return RESULTS / f"{way}.csv"


def read_results(way: str) -> dict[str, tuple[str, ...]]:
    """Return the lines that are committed, by operation."""
    with table_of(way).open(encoding="utf-8", newline="") as file:
        lines = [tuple(row) for row in csv.reader(file)][1:]
    return {line[0]: line for line in lines}
