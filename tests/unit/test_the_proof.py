"""The proof that all answers agree, on three hundred drawn cases; ten thousand with `make test-external`.

For every case: all doors give one row of the table (tests/unit/test_one_verdict.py); no finite input becomes infinite
without a hazard in the verdict; `none` means equal bits and "differs" different bits for the samples; check, cost and
compile have one number of microseconds; terminal, JSON, SARIF, Markdown, HTML, CSV and JUnit say the same; commands end
as they say; and no label is surer than the least evidence along its steps.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.commands.checking import check
from aneforge.report.gate import Threshold
from aneforge.report.html.page import html
from aneforge.report.junit import junit
from aneforge.report.model import DIFFERS, SAME
from aneforge.report.sarif import sarif
from aneforge.report.tables import csv_text, markdown
from aneforge.report.written import report_to_json
from proof_cases import Case, draw_batch
from proof_commands import run_command
from proof_tools import KNOWN, MET, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.report.model import Report, TargetReport
    from proof_tools import Judged

BATCHES = 17
"""Of some nineteen cases each."""


def classes(found: Judged) -> set[str]:
    return {one.what for one in found.contradictions}


@pytest.mark.parametrize("number", range(BATCHES))
def test_nothing_that_is_said_contradicts_another(number: int) -> None:
    wrong: dict[str, list[str]] = {}
    for case in draw_batch(number):
        for one in judge(case).contradictions:
            if one.what not in KNOWN:
                wrong.setdefault(one.what, []).append(f"{case}: {one.details}")
    assert wrong == {}


def all_targets(change: Callable[[TargetReport], TargetReport]) -> Callable[[Report], Report]:
    return lambda report: replace(report, targets=tuple(map(change, report.targets)))


def all_pairs(**fields: object) -> Callable[[Report], Report]:
    return lambda report: replace(report, divergences=tuple(replace(one, **fields) for one in report.divergences))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - any field


def slower(one: TargetReport) -> TargetReport:
    return one if one.latency is None else replace(one, latency=replace(one.latency, microseconds=1.0))


def without_findings(report: Report) -> Report:
    return all_targets(lambda one: replace(one, findings=()))(report)


def risky(report: Report) -> Report:
    return all_targets(lambda one: replace(one, risk="loss"))(report)


def written_after(write: Callable[[Report], object], change: Callable[[Report], Report]) -> Callable[[Report], object]:
    """Return a writer of a report that was changed before."""
    return lambda report: write(change(report))


def junit_that_passes(report: Report, _: object) -> str:
    return junit(report, Threshold(()))


LIES: dict[str, tuple[str, Callable[..., object], str]] = {
    "no hazard": (
        "proof_tools.check",
        lambda *given: all_targets(lambda one: replace(one, risk="none"))(check(*given)),
        "infinite without a hazard",
    ),
    "no difference": (
        "proof_tools.check",
        lambda *given: all_pairs(word=SAME, strength="none")(check(*given)),
        "bits differ where none was said",
    ),
    "a difference": (
        "proof_tools.check",
        lambda *given: all_pairs(word=DIFFERS, differing=1)(check(*given)),
        "differs means different bits",
    ),
    "another time": (
        "proof_tools.check",
        lambda *given: all_targets(slower)(check(*given)),
        "times differ: what was compiled, cost, estimate, the model, placement",
    ),
    "another label": (
        "proof_tools.check",
        lambda *given: all_targets(lambda one: replace(one, exactness="unknown"))(check(*given)),
        "the report has another label",
    ),
    "runs below the floor": (
        "proof_tools.check",
        lambda *given: all_targets(lambda one: replace(one, ok=True))(check(*given)),
        "below the floor of MIL and not refused",
    ),
    "no evidence": ("proof_tools.claim", lambda *_: "unknown", "surer than its evidence: "),
    "another chip": ("proof_tools.was_measured_on", lambda *_: False, "measured on another chip"),
    "the exit code": (
        "proof_commands.run_command",
        lambda *given: 1 - run_command(*given),
        "check ends with another exit code",
    ),
    "another row": ("verdict_tools.cross_compile_check", lambda *_, **__: None, "runs: cross_compile_check says None"),
    "JSON": ("proof_tools.report_to_json", written_after(report_to_json, risky), "JSON has another report"),
    "SARIF": ("report_readers.sarif", written_after(sarif, without_findings), "SARIF has other findings"),
    "Markdown": ("report_readers.markdown", written_after(markdown, without_findings), "Markdown has other findings"),
    "a row of Markdown": (
        "report_readers.markdown",
        written_after(markdown, risky),
        "Markdown has another line for a target",
    ),
    "HTML": ("report_readers.html", written_after(html, without_findings), "HTML has other findings"),
    "a row of HTML": ("report_readers.html", written_after(html, risky), "HTML has another line for a target"),
    "CSV": ("report_readers.csv_text", written_after(csv_text, without_findings), "CSV has other findings"),
    "JUnit": ("report_readers.junit", junit_that_passes, "JUnit has another outcome"),
}
"""Doors that lie, each with what the proof must find."""


@cache
def by_hand() -> tuple[Case, ...]:
    """Return cases that have all of `MET` and all of `KNOWN`, and that stay as they are whatever is drawn."""
    x, numbers = af.input((1, 4, 6, 16), name="x"), np.random.default_rng(1).uniform(-1, 1, (1, 4, 6, 16))
    kernel = np.random.default_rng(2).standard_normal((4, 4, 3, 3))
    graphs = {
        "overflows": (af.conv(x, kernel, pad=1) * 9000.0, ("m1", "m5", "soc:a12")),
        "wide kernel": (af.conv(x, np.ones((4, 4, 1, 14))), ("m1", "m5")),
        "exact": (x.relu(), ("m1", "m6")),
        "nothing computed": (x, ("m2", "h18")),
        "refused": (af.affine(x, np.ones((1, 6), np.float16), 8, 8), ("m1", "m5")),
    }
    return tuple(
        Case((0, place), origin, af.Graph({"y": graph}), {"x": numbers}, targets)
        for place, (origin, (graph, targets)) in enumerate(graphs.items())
    )


def test_cases_by_hand_meet_all_that_is_claimed_and_contradict_what_is_known() -> None:
    found = [judge(case) for case in by_hand()]
    assert {name for one in found for name in one.met} == set(MET)
    assert {what for one in found for what in classes(one)} == set(KNOWN)


@pytest.mark.parametrize("lie", LIES)
def test_a_door_that_lies_is_found(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    door, answer, expected = LIES[lie]
    monkeypatch.setattr(door, answer)
    found = (what for case in by_hand() for what in classes(judge(case)))
    assert any(what.startswith(expected) for what in found)
