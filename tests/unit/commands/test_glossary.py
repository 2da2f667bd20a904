"""Every term that we print is in the glossary, once, and can be explained."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import operator_names
import reference_pages
from aneforge.analysis.cost import Bound
from aneforge.analysis.divergence.graphs import Cause, Strength
from aneforge.analysis.hazards import Route
from aneforge.analysis.machine import Basis
from aneforge.analysis.placement import Path as EnginePath
from aneforge.analysis.ranges.analysis import Edge
from aneforge.analysis.routes import routes
from aneforge.analysis.segmenter import Device
from aneforge.commands.explained_names import explain_operator, foreign_names, mil_names
from aneforge.commands.explaining import explain
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.memory.plan import AllocationState, Memory
from aneforge.compiler.pipeline import PIPELINE
from aneforge.compiler.validators import Verdict
from aneforge.compiler.validators.catalogue import exports, validators
from aneforge.engine.exactness import Exactness
from aneforge.errors import UnknownNameError
from aneforge.evidence import EvidenceKind
from aneforge.formats.detection import ModelFormat
from aneforge.ops.table import names
from aneforge.optimise.compress.choice import Encoding
from aneforge.optimise.compress.fates import Fate
from aneforge.report.glossary import find_term, glossary, spellings
from aneforge.report.model import DIFFERS, MAY_DIFFER, SAME
from aneforge.report.predicted import PREDICTED
from aneforge.rules import rules
from aneforge.rules.preflight import Status
from aneforge.rules.rule import Severity
from aneforge.targets import Family, database
from aneforge.targets import group as target_group

if TYPE_CHECKING:
    from enum import StrEnum

DOCS = Path(reference_pages.FOLDER).parent
PRINTED: tuple[type[StrEnum], ...] = (
    Bound, Basis, Cause, Device, Edge, Encoding, Engine, EnginePath, EvidenceKind, Exactness, Fate, Memory, ModelFormat,
    Route, Severity, Slot, Status, Strength, Verdict,
)  # fmt: skip


@pytest.mark.parametrize("words", PRINTED, ids=lambda one: f"{one.__module__.rpartition('.')[2]}.{one.__name__}")
def test_every_word_of_a_table_is_explained(words: type[StrEnum]) -> None:
    assert [str(word) for word in words if find_term(str(word)) is None] == []


def test_other_words_that_are_printed_are_explained() -> None:
    states = [state.name.lower().replace("_", " ") for state in AllocationState]
    columns = ["nat", "dec", "over", "rej", "prog", "latency", "weights", "on chip", "fp16", "exact"]
    columns += ["top cost", "host copies", "interval", "SNR", "baseline", "kernels", "GMAC/s", "p99", "peak on chip"]
    assert [word for word in (*states, *columns, SAME, MAY_DIFFER, DIFFERS) if find_term(word) is None] == []


def test_every_term_can_be_explained_and_none_has_two_meanings() -> None:
    forms = Counter(
        form.casefold() for group in glossary() for name, term in group.terms.items() for form in (name, *term.also)
    )
    assert [form for form, count in forms.items() if count > 1] == []
    for form, name in spellings().items():
        found = explain(form.split())
        assert (found.kind, found.name) == ("term", name)
        assert found.summary.endswith(".")


def test_every_page_that_a_term_names_exists() -> None:
    pages = [term.see for group in glossary() for term in group.terms.values() if term.see]
    assert pages
    assert [page for page in pages if not (DOCS / "reference" / page).exists()] == []


def test_the_page_has_every_term() -> None:
    page = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    for group in glossary():
        assert f"## {group.title}\n" in page
        for name, term in group.terms.items():
            assert f"- **{name}**" in page
            assert term.text in page


def names_in_the_code() -> dict[str, list[str]]:
    """Return every name that is printed, from the code that prints it."""
    data = database()
    known = validators().values()
    return {
        "chips": [*data.chips, *(chip.name for chip in data.chips.values())],
        "targets": [one.name for one in target_group("all")],
        "families": [family.name for family in Family],
        "rules": [*rules(), *PREDICTED, *data.conflicts],
        "operations": [*names(), *mil_names()],
        "fields": [*data.hal, *data.limits, *data.datapath, *data.geometry, *data.aliases],
        "passes and routes": [*(one.name for one in PIPELINE.passes), *(one.name for one in routes())],
        "validators": [word for one in known for word in (one.name, one.symbol, one.constructor) if word],
        "exports": [one.symbol for one in exports()],
        "messages": [check.text for one in known for check in one.checks if check.text],
    }


@pytest.mark.parametrize("kind", names_in_the_code())
def test_every_name_that_is_printed_is_explained(kind: str) -> None:
    unknown: list[str] = []
    for word in names_in_the_code()[kind]:
        try:
            assert explain(word.split()).summary
        except UnknownNameError:
            unknown.append(word)
    assert unknown == []


def test_operators_of_other_frameworks_are_those_that_the_importers_take() -> None:
    assert operator_names.FILE.read_text(encoding="utf-8") == operator_names.operator_names()
    assert [name for name in foreign_names() if explain_operator(name) is None] == []


@pytest.mark.parametrize(
    ("word", "kind", "row"),
    [
        ("Gemm", "ONNX operator", "linear"),
        ("aten.linear", "PyTorch operator", "linear"),
        ("torch.nn.functional.hardswish", "PyTorch operator", "see"),
        ("conv2d", "PyTorch operator", "conv"),
        ("ulp1", "term", None),
        ("modelled", "term", "also"),
        ("crop route", "term", "also"),
        ("after splitting", "term", "also"),
        ("most of it", "term", "also"),
        ("parts", "term", "also"),
        ("Core ML runs it elsewhere", "term", "also"),
        ("scheduler units", "term", "also"),
        ("A13 family", "family", "chips"),
        ("sources disagree", "term", "see"),
        ("first difference", "term", "see"),
        ("texture_engine", "hal", "source guide"),
        ("_ANECValidateSoftmaxLayer", "validator", "export"),
    ],
)
def test_words_of_users_are_explained(word: str, kind: str, row: str | None) -> None:
    found = explain(word.split())
    assert found.kind == kind
    assert row is None or row in [one.label for one in found.rows]


def test_sources_are_links() -> None:
    rows = {row.label: row.value for row in explain(["texture_engine"]).rows}
    assert "https://github.com/" in rows["source guide"]
    threads = next(rule for rule in rules().values() if rule.threads)
    assert {row.label: row.value for row in explain([threads.id]).rows}["reported in"].startswith("https://github.com/")
