"""Labels, and the data file that says how sure every arithmetic is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aneforge.engine import choices, dispatch
from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.errors import DataFileError
from aneforge.evidence import EvidenceKind
from aneforge.ops.table import ops
from aneforge.targets import Family, database, group, resolve

if TYPE_CHECKING:
    from aneforge.evidence import Evidence

EXACT, MODELLED, UNKNOWN = (Label(one, one.value) for one in Exactness)


def test_the_order_of_doubt() -> None:
    assert [one.doubt for one in Exactness] == [0, 1, 2]
    assert worst([MODELLED, UNKNOWN, EXACT]) == UNKNOWN
    assert worst([EXACT, EXACT]) == EXACT


def test_reasons_are_joined_once_each() -> None:
    other = Label(Exactness.MODELLED, "another")
    assert worst([MODELLED, EXACT, other, MODELLED]) == Label(Exactness.MODELLED, "modelled; another")


def test_nothing_has_no_label() -> None:
    with pytest.raises(ValueError, match="no label"):
        worst([])


def test_every_operation_that_an_engine_can_run_is_listed_once() -> None:
    native = {name for name, op in ops().items() if op.support.floor is not None or op.support.mil_since is not None}
    listed = [op for entry in choices.entries().values() for op in entry.ops]
    assert sorted(listed) == sorted(native)


def test_an_operation_of_tomorrow_has_its_meaning() -> None:
    assert choices.entry_of("an operation that nobody listed") is choices.entries()[choices.FALLBACK]


def test_what_copies_has_no_arithmetic_of_its_own() -> None:
    copied = {op for entry in choices.entries().values() if entry.copies for op in entry.ops}
    assert not copied & {*dispatch.FUNCTIONS, *dispatch.FOR_TARGET}
    assert not {*dispatch.FUNCTIONS} & {*dispatch.FOR_TARGET}
    assert {*dispatch.FUNCTIONS, *dispatch.FOR_TARGET} <= set(ops())


def test_what_is_listed_by_its_meaning_has_no_function_and_the_other_way_round() -> None:
    by_meaning = {"meaning", "resizing", "texture", "random_numbers", "without_meaning"}
    own = {*dispatch.FUNCTIONS, *dispatch.FOR_TARGET}
    for name, entry in choices.entries().items():
        if name in by_meaning:
            assert not own & set(entry.ops), name
        elif not entry.copies and name != "places":  # places of sorted elements are the meaning's
            assert set(entry.ops) <= own, name


def evidence_of_choices() -> list[Evidence]:
    chosen = choices.choices()
    parts = (chosen.reduction, chosen.gain_offset, chosen.crop, chosen.convolution, chosen.attention)
    return [part.evidence for part in parts] + [order.evidence for order in chosen.reduction.orders.values()]


def test_evidence_leads_somewhere() -> None:
    chips = {chip.name for chip in database().chips.values()}
    for evidence in [entry.evidence for entry in choices.entries().values()] + evidence_of_choices():
        assert evidence.source.split()[0].rstrip(",") in database().sources
        assert (evidence.kind is EvidenceKind.MEASURED) == bool(evidence.on)
        assert set(evidence.on) <= chips
        assert evidence.conflict is None or evidence.conflict in database().conflicts


def test_switches_are_values_of_the_datapath() -> None:
    named = {switch for entry in choices.entries().values() for switch in entry.switches}
    assert named <= set(database().datapath)
    assert set(choices.choices().assumed) <= set(database().datapath)
    assert set(choices.choices().reduction.orders) == {
        fact.value for fact in database().datapath["reduction_order"].facts.values()
    }


@pytest.mark.parametrize(
    ("op", "target", "exactness"),
    [
        ("matmul", "m1", "exact"),
        ("matmul", "h15", "modelled"),
        ("matmul", "h11", "unknown"),
        ("conv", "m5", "exact"),
        ("conv", "h18", "modelled"),
        ("gelu", "m1", "exact"),
        ("tanh", "m1", "modelled"),
        ("tanh", "m6", "exact"),
        ("exp2", "m6", "modelled"),
        ("floor", "m4", "exact"),
        ("floor", "h15", "modelled"),
        ("slice_by_size", "m2", "exact"),
        ("slice_by_size", "m3", "modelled"),
        ("reshape", "h11", "exact"),
        ("softmax", "m6", "modelled"),
        ("resample", "m6", "unknown"),
    ],
)
def test_no_arithmetic_is_surer_than_what_was_measured_on_the_target(op: str, target: str, exactness: str) -> None:
    assert choices.label_on(choices.entry_of(op), resolve(target)).exactness == exactness


def test_a_label_says_why() -> None:
    measured = choices.label_on(choices.entry_of("matmul"), resolve("m1"))
    assert "to twelve digits (measured on M1, " in measured.reason
    inferred = choices.label_on(choices.entry_of("matmul"), resolve("h15"))
    assert inferred.reason.startswith("accumulator was not measured for this target: inferred (fingerprints")
    assert (
        choices.label_on(choices.entry_of("matmul"), resolve("h11")).reason
        == "no source gives accumulator for this target"
    )


def test_a_switch_without_a_source_is_assumed() -> None:
    for target in group("known"):
        for name in choices.choices().assumed:
            value = choices.switch(target, name)
            assert value == (target.datapath.get(name) if name in target.datapath else choices.choices().assumed[name])
    assert choices.switch(resolve(Family.A13), "width_slice_crop_x16") is True
    assert choices.switch(resolve("h11"), "width_slice_crop_x16") is False


def test_an_operation_under_two_headings_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = choices.entry_of("add")
    monkeypatch.setattr(choices, "entries", lambda: {"one": entry, "two": entry})
    choices.names_by_operation.cache_clear()
    try:
        with pytest.raises(DataFileError, match="add is listed under one and under two"):
            choices.names_by_operation()
    finally:
        choices.names_by_operation.cache_clear()
