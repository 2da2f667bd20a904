"""Calls of PyTorch's operators, each judged by what the importer makes of it.

A sample is exported, imported as `from_torch` does it, evaluated by the graph's reference meaning, and compared with
what PyTorch computes. Samples of one operator are exported together, since an export costs far more than a sample; each
is judged by its own results.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

import aneforge as af
from aneforge.formats.shared.findings import Reason
from aneforge.formats.torch.conversion import Reading
from aneforge.formats.torch.decomposition import decompose_program
from aneforge.formats.torch.interpreter import TorchInterpreter
from aneforge.formats.torch.reading import ReadProgram
from aneforge.formats.torch.tensors import array_of
from aneforge.ops.types import is_float, numpy_dtype
from external.torch.samples import runs, samples_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.findings import ImportProblem
    from aneforge.ops.types import Array
    from external.torch.samples import Sample

__all__ = ["DECLARED", "NOT_STATIC", "Outcome", "Tally", "judged"]

TOGETHER = 64
"""Samples that are exported at once."""
RELATIVE, ABSOLUTE = 1e-7, 1e-7
"""The tolerances that PyTorch's own tests have for double precision."""
NOT_EXPORTED = "not exportable by PyTorch"
NO_TENSOR = "results that are not tensors"
NOT_STATIC = Reason.DATA_SHAPE
"""The reason of samples whose shapes are not known before they run."""
DECLARED = (
    Reason.DATA_SHAPE,
    Reason.CONTROL,
    Reason.DTYPE,
    Reason.LAYOUT,
    Reason.TRAINING,
    Reason.FORM,
    Reason.OPERATOR,
    NOT_EXPORTED,
    NO_TENSOR,
)
"""The only reasons for which a sample may be unsupported."""
UNDEFINED = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"})
"""Operators whose results hold whatever was in memory."""


class Outcome(StrEnum):
    """What became of a sample, the best first."""

    EQUAL = "equal"
    DRAWN = "drawn"
    """Numbers that differ since they are drawn at random, or never written: element type and shape are compared."""
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    BROKEN = "broken"


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
            given = zip(tensors[start : start + count], sample.tensors, strict=True)
            results.extend(map(in_pairs, sample.call([as_complex(one.clone(), like) for one, like in given])))
            start += count
        return results


def in_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as pairs of real ones, as they go into a graph and come out; others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def as_complex(pairs: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return pairs of real numbers as complex ones where the sample has such."""
    return torch.view_as_complex(pairs) if like.is_complex() else pairs


@dataclass(slots=True)
class Tally:
    """What became of the samples of one operator."""

    operation: str
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    reasons: Counter[str] = field(default_factory=Counter[str])
    details: list[str] = field(default_factory=list[str])

    @property
    def row(self) -> tuple[str, ...]:
        """The line of the table of results."""
        counts = [str(self.outcomes[one]) for one in Outcome]
        reasons = "; ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        return self.operation, *counts, reasons

    def add(self, outcome: Outcome, count: int, reason: str = "", detail: str = "") -> None:
        """Count samples."""
        self.outcomes[outcome] += count
        if reason:
            self.reasons[reason] += count
        if detail and len(self.details) < 5:
            self.details.append(detail)


# The judgement.


def judged(name: str) -> Tally:
    """Return what becomes of the samples of an operator, or of a form of core ATen."""
    tally = Tally(name)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # samples of deprecated forms
        listed = samples_of(name)
        samples = [sample for sample in listed if runs(sample)]
        if len(samples) < len(listed):
            tally.add(Outcome.UNSUPPORTED, len(listed) - len(samples), Reason.LAYOUT, "it reads around its tensors")
        for start in range(0, len(samples), TOGETHER):
            judge_together(tally, samples[start : start + TOGETHER])
    return tally


def judge_together(tally: Tally, samples: Sequence[Sample]) -> None:
    """Judge samples that are exported at once; in halves where PyTorch cannot export them, or one seems broken."""
    expected = [
        [in_pairs(one) for one in sample.call([tensor.clone() for tensor in sample.tensors])] for sample in samples
    ]
    if not all(expected):
        tally.add(Outcome.UNSUPPORTED, expected.count([]), NO_TENSOR, "it gives no tensor to compare")
        rest = [sample for sample, wanted in zip(samples, expected, strict=True) if wanted]
        if rest:
            judge_together(tally, rest)
        return
    try:
        program = exported(samples)
    except Exception as error:  # noqa: BLE001 - whatever is raised is why PyTorch cannot export a sample
        if len(samples) == 1:
            tally.add(Outcome.UNSUPPORTED, 1, NOT_EXPORTED, " ".join(str(error).split())[:200])
        else:
            judge_in_halves(tally, samples)
        return
    together = Tally(tally.operation)
    try:
        judge_program(together, program, samples, expected)
    except Exception as error:  # noqa: BLE001 - an importer that breaks is what this looks for
        together.add(Outcome.BROKEN, len(samples), "", f"{type(error).__name__}: {str(error)[:300]}")
    # Of samples in one program a finding about one can be missing at another: what is broken is broken by itself.
    if together.outcomes[Outcome.BROKEN] and len(samples) > 1:
        judge_in_halves(tally, samples)
    else:
        tally.outcomes += together.outcomes
        tally.reasons += together.reasons
        tally.details += together.details


def judge_in_halves(tally: Tally, samples: Sequence[Sample]) -> None:
    """Judge samples in two programs instead of one."""
    middle = len(samples) // 2
    judge_together(tally, samples[:middle])
    judge_together(tally, samples[middle:])


def exported(samples: Sequence[Sample]) -> torch.export.ExportedProgram:
    """Return samples as one program, taken apart as the importer takes it apart."""
    tensors = [in_pairs(tensor) for sample in samples for tensor in sample.tensors]
    return decompose_program(torch.export.export(Together(samples), tuple(tensors), strict=False))


def judge_program(
    tally: Tally,
    program: torch.export.ExportedProgram,
    samples: Sequence[Sample],
    expected: Sequence[Sequence[torch.Tensor]],
) -> None:
    """Judge every sample of a program by its own results."""
    reading = Reading(program, ReadProgram(program, None, owned=False), TorchInterpreter(file=None), copied=True)
    outputs = reading.ports(None, None)[0]
    findings = {finding.node: finding for finding in reading.interpreter.gathering.findings}
    tensors = [in_pairs(tensor) for sample in samples for tensor in sample.tensors]
    graph = af.Graph(outputs) if outputs else None
    feeds = {name: array_of(tensors[int(name.rpartition("_")[2])]) for name in (graph.inputs if graph else ())}
    results = af.reference(graph, feeds) if graph else {}
    nodes = cast("Sequence[object]", program.graph.output_node().args[0])
    place = 0
    for wanted in expected:
        behind = nodes_behind(nodes[place : place + len(wanted)])
        stopped = [findings[node.name] for node in behind if node.name in findings]
        names = [f"y{place + number}" for number in range(len(wanted))]
        place += len(wanted)
        if stopped or any(name not in outputs for name in names):
            judge_stopped(tally, stopped)
            continue
        pairs = [(results[name], outputs[name].dtype, one) for name, one in zip(names, wanted, strict=True)]
        problem = first_difference(pairs, loose=False)
        drawn = is_undefined(tally) or (bool(problem) and any(map(draws, behind)))
        problem = first_difference(pairs, loose=True) if drawn else problem
        tally.add(Outcome.WRONG if problem else Outcome.DRAWN if drawn else Outcome.EQUAL, 1, "", problem)


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


def judge_stopped(tally: Tally, findings: Sequence[ImportProblem]) -> None:
    """Count a sample that findings stop."""
    reasons = [finding.reason for finding in findings]
    declared = bool(reasons) and all(reason in DECLARED for reason in reasons)
    detail = str(findings[0]) if findings else "a result is lost without a finding"
    tally.add(Outcome.UNSUPPORTED if declared else Outcome.BROKEN, 1, reasons[-1] if reasons else "", detail)


def is_undefined(tally: Tally) -> bool:
    """Return whether results of an operator hold whatever was in memory."""
    return tally.operation.removeprefix("aten.").partition(".")[0] in UNDEFINED


def draws(node: torch.fx.Node) -> bool:
    """Return whether a node draws numbers at random, as PyTorch itself says."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def first_difference(pairs: Sequence[tuple[Array, str, torch.Tensor]], *, loose: bool) -> str:
    """Return how the first of some results that differs from PyTorch's does; nothing where none does."""
    problems = (difference(found, dtype, wanted, loose=loose) for found, dtype, wanted in pairs)
    return next((one for one in problems if one), "")


def difference(result: Array, dtype: str, wanted: torch.Tensor, *, loose: bool) -> str:
    """Return how a result differs from PyTorch's; nothing where it does not."""
    with np.errstate(all="ignore"):
        found = np.asarray(result).astype(numpy_dtype(dtype))
    expected = array_of(wanted)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} where {expected.dtype}{list(expected.shape)} is expected"
    if loose:
        return ""
    if is_float(dtype):
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        close = np.isclose(found, expected, RELATIVE, ABSOLUTE, equal_nan=True)
    else:
        close = found == expected
    if np.all(close):
        return ""
    place = np.unravel_index(int(np.argmin(close)), close.shape)
    return f"{np.count_nonzero(~close)} of {close.size} differ: {found[place]} for {expected[place]}"
