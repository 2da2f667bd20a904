"""Every term that we print is in the glossary, once, and can be explained."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reference_pages
from aneforge.analysis.cost import Bound
from aneforge.analysis.divergence.graphs import Cause, Strength
from aneforge.analysis.hazards import Route
from aneforge.analysis.machine import Basis
from aneforge.analysis.placement import Path as EnginePath
from aneforge.analysis.ranges.analysis import Edge
from aneforge.analysis.segmenter import Device
from aneforge.commands.explaining import explain
from aneforge.commands.glossary import find_term, glossary, spellings
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.memory.plan import AllocationState, Memory
from aneforge.compiler.validators import Verdict
from aneforge.engine.exactness import Exactness
from aneforge.evidence import EvidenceKind
from aneforge.formats.detection import ModelFormat
from aneforge.optimise.compress.choice import Encoding
from aneforge.optimise.compress.fates import Fate
from aneforge.report.model import DIFFERS, MAY_DIFFER, SAME
from aneforge.rules.preflight import Status
from aneforge.rules.rule import Severity

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
